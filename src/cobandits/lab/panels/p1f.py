"""Figure 1f: regret on pairs of MNIST digits, rank 8."""

from cobandits.lab.panels.families import digit_pairs

PANEL = digit_pairs("1f", rank=8)
