"""Figure 1c: regret on the first synthetic data, rank 8."""

from cobandits.lab.panels.families import synthetic_1

PANEL = synthetic_1("1c", rank=8)
