"""Experiments: policies side by side on the same rounds, over many trials.

An experiment is a list of cells. A cell is plain data, and its result depends on nothing else:
where it runs, in which order and beside which others does not matter.
"""

from cobandits.lab.cells import Cell, run
from cobandits.lab.experiments import Candidate, Experiment, read_experiment, told_rank
from cobandits.lab.runner import run_all
from cobandits.lab.tuning import Tuning, tune, tuned

__all__ = [
    "Candidate",
    "Cell",
    "Experiment",
    "Tuning",
    "read_experiment",
    "run",
    "run_all",
    "told_rank",
    "tune",
    "tuned",
]
