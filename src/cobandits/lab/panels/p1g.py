"""Figure 1g: regret on the second synthetic data, rank 2."""

from cobandits.lab.panels.families import synthetic_2

PANEL = synthetic_2("1g", rank=2)
