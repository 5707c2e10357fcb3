"""Figure 1e: regret on pairs of MNIST digits, rank 4."""

from cobandits.lab.panels.families import digit_pairs

PANEL = digit_pairs("1e", rank=4)
