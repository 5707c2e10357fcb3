"""Figure 2e: error by epoch on the second synthetic data."""

from cobandits.lab.panels.fits import DATA_2, by_epoch

PANEL = by_epoch("2e", DATA_2)
