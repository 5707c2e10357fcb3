"""Pictures of results: functions from results to matplotlib figures, and :func:`save`.

One style for all: colours that colour-blind readers can tell apart (Okabe and Ito), line
styles and markers that still differ in grey, and labels beside what they name.
"""

from cobandits.plots.convergence import convergence
from cobandits.plots.fits import held_out, spectrum, task_plane
from cobandits.plots.regret import regret
from cobandits.plots.style import save

__all__ = ["convergence", "held_out", "regret", "save", "spectrum", "task_plane"]
