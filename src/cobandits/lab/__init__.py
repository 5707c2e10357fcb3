"""Experiments: policies side by side on the same rounds, over many trials.

An experiment is a list of cells. A cell is plain data, and its record depends on nothing else:
not on the order of the cells or the number of processes.
"""

from cobandits.lab.cells import Cell, Estimation, Simulation
from cobandits.lab.experiments import Candidate, Experiment, read_experiments, told_rank
from cobandits.lab.records import Record
from cobandits.lab.reproduction import Reproduction, reproduce
from cobandits.lab.runner import Jobs, Workers, in_order, run_all
from cobandits.lab.store import Store
from cobandits.lab.tuning import Tuning, tune, tuned

__all__ = [
    "Candidate",
    "Cell",
    "Estimation",
    "Experiment",
    "Jobs",
    "Record",
    "Reproduction",
    "Simulation",
    "Store",
    "Tuning",
    "Workers",
    "in_order",
    "read_experiments",
    "reproduce",
    "run_all",
    "told_rank",
    "tune",
    "tuned",
]
