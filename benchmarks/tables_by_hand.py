"""What ``cobandits fit`` does, as one would write it with pandas and scikit-learn.

``python benchmarks/tables_by_hand.py FILE TASK REWARD FOLDS OUT`` reads and encodes a table,
compares ridge regression per task (strength by cross-validation) with one for all tasks and with
task means on rows that are held out, and writes the coefficients per task.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

Floats = NDArray[np.float64]

STRENGTHS = np.logspace(-3, 6, 10)


def main() -> None:
    """Read, encode, compare, fit and write."""
    file, task, reward, n_folds, out = sys.argv[1:]
    table = pd.read_csv(file, lineterminator="\n")
    table = table.dropna(subset=[task, reward]).reset_index(drop=True)
    codes, labels = pd.factorize(table[task])
    y = table[reward].to_numpy(np.float64)
    X = encoded(table.drop(columns=[task, reward]))
    differences = []
    splits = list(KFold(5, shuffle=True, random_state=0).split(X))
    for training, held in splits[: int(n_folds)]:
        own = per_task(X[training], y[training], codes[training], len(labels))
        pooled = RidgeCV(STRENGTHS).fit(X[training], y[training])
        means = pd.Series(y[training]).groupby(codes[training]).mean().reindex(range(len(labels)))
        middle = means.fillna(y[training].mean()).to_numpy()[codes[held]]
        alone = np.einsum("nd,nd->n", X[held], own[codes[held], :-1]) + own[codes[held], -1]
        errors = [(y[held] - guess) ** 2 for guess in (middle, alone, pooled.predict(X[held]))]
        differences.append(np.stack(errors, axis=1))
    squares = np.concatenate(differences)
    gap = squares[:, 1] - squares[:, 2]
    half = 1.96 * gap.std() / np.sqrt(len(gap))
    scores = 1 - squares.sum(axis=0)[1:] / squares[:, 0].sum()
    print(f"R^2 alone, pooled: {scores}; difference {gap.mean():.3g} +- {half:.3g}")
    np.savez(out, coefficients=per_task(X, y, codes, len(labels)))


def encoded(table: pd.DataFrame) -> Floats:
    """Return the columns as numbers: categories one-hot, dates on circles, gaps filled in."""
    numbers, categories, parts = [], [], []
    table = table.copy()
    for name in table.columns:
        if table[name].dropna().isin([True, False]).all():
            table[name] = table[name].astype(np.float64)
        column = table[name]
        if column.dtype.kind in "biuf":
            numbers.append(name)
            continue
        times = pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601")
        if times.notna().all():
            turns = times.dt.dayofyear / 365, times.dt.dayofweek / 7, times.dt.hour / 24
            parts += [wave(2 * np.pi * turn) for turn in turns for wave in (np.sin, np.cos)]
        elif column.nunique() < len(column) / 2:
            categories.append(name)
    filled = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    shown = OneHotEncoder(
        max_categories=33, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    made = make_column_transformer((filled, numbers), (shown, categories)).fit_transform(table)
    return np.column_stack([made, *parts]).astype(np.float64)


def per_task(X: Floats, y: Floats, codes: NDArray[np.int64], n_tasks: int) -> Floats:
    """Return each task's coefficients and intercept, (T, d + 1)."""
    found = np.zeros((n_tasks, X.shape[1] + 1))
    found[:, -1] = y.mean()
    groups = pd.Series(np.arange(len(y))).groupby(codes).indices
    for task in range(n_tasks):
        mine = groups.get(task, [])
        if len(mine) > 2:
            fit = RidgeCV(STRENGTHS).fit(X[mine], y[mine])
            found[task] = [*fit.coef_, fit.intercept_]
    return found


if __name__ == "__main__":
    Path(sys.argv[5]).parent.mkdir(parents=True, exist_ok=True)
    main()
