"""Figure 1h: regret on the second synthetic data, rank 3."""

from cobandits.lab.panels.families import synthetic_2

PANEL = synthetic_2("1h", rank=3)
