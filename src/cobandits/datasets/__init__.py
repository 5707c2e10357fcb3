"""Labelled tables for environments: scikit-learn's embedded ones, MNIST, and files."""

from __future__ import annotations

import importlib.util
import zipfile
from typing import NamedTuple

from cobandits.datasets.fetching import fetch_mnist, mnist, mnist_path
from cobandits.datasets.tables import LabelledTable, builtin, digits, table

__all__ = [
    "KNOWN",
    "Description",
    "LabelledTable",
    "builtin",
    "digits",
    "fetch_mnist",
    "is_there",
    "mnist",
    "mnist_path",
    "table",
]


class Description(NamedTuple):
    """The size and source of a data set."""

    rows: int
    features: int
    classes: int
    source: str


KNOWN = {
    "breast_cancer": Description(569, 30, 2, "scikit-learn"),
    "digits": Description(1797, 64, 10, "scikit-learn"),
    "iris": Description(150, 4, 3, "scikit-learn"),
    "mnist": Description(70_000, 784, 10, "cached once fetched"),
    "wine": Description(178, 13, 3, "scikit-learn"),
}


def is_there(name: str) -> bool:
    """Return whether a data set of ``KNOWN`` can be loaded; it is not loaded."""
    if name == "mnist":
        return zipfile.is_zipfile(mnist_path())
    return importlib.util.find_spec("sklearn") is not None
