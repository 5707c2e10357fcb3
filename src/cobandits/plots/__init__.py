"""Pictures of results: functions from results to matplotlib figures, and :func:`save`.

One style for all: colours that colour-blind readers can tell apart (Okabe and Ito), line
styles and markers that still differ in grey, and labels beside what they name.
"""

from cobandits.plots.errors import Errors, convergence, errors_by_epoch, errors_by_iteration
from cobandits.plots.fits import held_out, spectrum, task_plane
from cobandits.plots.regret import Curves, regret, regret_and_tasks, regret_by_tasks
from cobandits.plots.sharing import prior_spectrum, shared_and_own, shared_plane, sharing
from cobandits.plots.studies import Phase, Power, phases, powers
from cobandits.plots.style import save
from cobandits.plots.values import Interval, intervals

__all__ = [
    "Curves",
    "Errors",
    "Interval",
    "Phase",
    "Power",
    "convergence",
    "errors_by_epoch",
    "errors_by_iteration",
    "held_out",
    "intervals",
    "phases",
    "powers",
    "prior_spectrum",
    "regret",
    "regret_and_tasks",
    "regret_by_tasks",
    "save",
    "shared_and_own",
    "shared_plane",
    "sharing",
    "spectrum",
    "task_plane",
]
