"""Figure 2a: error by iteration on the first synthetic data."""

from cobandits.lab.panels.fits import DATA_1, by_iteration

PANEL = by_iteration("2a", DATA_1)
