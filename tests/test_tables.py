"""Ten real tables: from the CSV file to a model, a verdict and predictions, without editing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.tables import TABLES
from cobandits.estimate import Estimate
from tests.commands import Run, command_line

CHEAP = ("schools", "insteval", "tweets", "weather")
# What must be said of a table: how some of its columns are understood.
SAID = {
    "schools": "categories Minority (2 values), Sex (2 values)",
    "insteval": "73,421 rows of 2,972 tasks",
    "tweets": "identifiers of 16 digits or more), text (20,663 different texts)",
    "weather": "dates time_hour; missing cells in wind_dir (460)",
    "gapminder": "missing cells in infant_mortality (1,453)",
    "wages": "4,360 rows of 545 tasks (8 each)",
    "storms": "missing cells in category (14,734), tropicalstorm_force_diameter (9,512)",
    "loans": "issue_month (3 values)",
    "movielens": "genres (32 values and others)",
    "flights": "9,430 rows with no arr_delay left out",
}
BEST = {  # the models that may be named; where several predict alike, seeds decide
    "schools": {"common"},
    "insteval": {"common"},
    "tweets": {"pooled", "common", "shared", "independent"},
    "weather": {"independent", "common"},
    "gapminder": {"common"},
    "wages": {"common"},
    "storms": {"common"},
    "loans": {"pooled", "common"},
    "movielens": {"common", "shared"},
    "flights": {"independent", "common", "shared"},
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys)


@pytest.mark.parametrize(
    "name", [n if n in CHEAP else pytest.param(n, marks=pytest.mark.tables) for n in TABLES]
)
def test_a_table_goes_from_its_file_to_predictions(run: Run, tmp_path: Path, name: str) -> None:
    table = TABLES[name]
    path, model, out = table.write(tmp_path), tmp_path / "model.npz", tmp_path / "predicted.csv"
    fitted = run("fit", path, "--task", table.task, "--reward", table.reward, "-o", model)
    assert fitted.code == 0, fitted.err
    assert SAID[name] in fitted.out
    lines = dict(line.split(maxsplit=1) for line in fitted.out.splitlines())
    assert lines["model"].split(":")[0] in BEST[name]
    assert lines["verdict"]
    rows = pl.read_csv(path, null_values=["NA", ""], infer_schema_length=None)
    rows = rows.filter(pl.col(table.reward).is_not_null()).head(2000)
    rows.drop(table.reward).write_csv(tmp_path / "rows.csv")
    predicted = run("predict", model, tmp_path / "rows.csv", "-o", out)
    assert predicted.code == 0, predicted.err
    found = pl.read_csv(out)["predicted"].to_numpy()
    rewards = rows[table.reward].to_numpy()
    assert len(found) == len(rows)
    assert np.isfinite(found).all()
    assert np.mean((found - rewards) ** 2) < np.var(rewards)
    assert Estimate.load(model).task_name == table.task
