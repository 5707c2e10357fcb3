"""Figure 1d: regret on pairs of MNIST digits, rank 2."""

from cobandits.lab.panels.families import digit_pairs

PANEL = digit_pairs("1d", rank=2)
