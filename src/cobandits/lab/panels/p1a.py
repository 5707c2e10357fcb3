"""Figure 1a: regret on the first synthetic data, rank 2."""

from cobandits.lab.panels.families import synthetic_1

PANEL = synthetic_1("1a", rank=2)
