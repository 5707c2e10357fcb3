"""Figure 2d: error by iteration on the second synthetic data."""

from cobandits.lab.panels.fits import DATA_2, by_iteration

PANEL = by_iteration("2d", DATA_2)
