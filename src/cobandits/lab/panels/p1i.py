"""Figure 1i: regret on the second synthetic data, rank 4."""

from cobandits.lab.panels.families import synthetic_2

PANEL = synthetic_2("1i", rank=4)
