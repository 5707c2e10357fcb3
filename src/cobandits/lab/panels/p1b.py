"""Figure 1b: regret on the first synthetic data, rank 4."""

from cobandits.lab.panels.families import synthetic_1

PANEL = synthetic_1("1b", rank=4)
