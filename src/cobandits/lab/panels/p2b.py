"""Figure 2b: error by epoch on the first synthetic data."""

from cobandits.lab.panels.fits import DATA_1, by_epoch

PANEL = by_epoch("2b", DATA_1)
