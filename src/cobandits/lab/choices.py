"""Questions that the paper leaves open, and the values that the figures use."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CHOICES", "Choice"]


class Choice(NamedTuple):
    """One question that the paper leaves open."""

    question: str
    known: str
    value: str


CHOICES = (
    Choice(
        "Noise of “variance 1e-6”",
        "As written, its standard deviation is 1e-3, and the error of theta stops near 2e-4 "
        "(d = T = 100, 50 rows per task). A standard deviation of 1e-6 stops near 2e-7, which is "
        "nearer to the paper's “close to 1e-6”.",
        "Standard deviation 1e-3; Figures 2a, b, d and e also for 1e-6.",
    ),
    Choice(
        "Sample splitting into 2L + 1 parts",
        "The theory asks for fresh rows in each iteration. An epoch of 50 rows cannot be split "
        "into 4001 parts, so the paper's experiments cannot have done it.",
        "Off: every iteration uses all rows of the epoch.",
    ),
    Choice(
        "What a gradient over a part is divided by, with sample splitting",
        "Line 8 of Algorithm 3 divides by the rows of the whole epoch. As written, steps are "
        "shorter by the number of parts: after 10 iterations the subspace distance to the truth "
        "was 0.74, with the part's own rows 0.21.",
        'The part\'s rows (`AltGDMin(divisor="part")`); as written with `divisor="epoch"`. No '
        "figure splits.",
    ),
    Choice(
        "The base of log log N in Theorem 5.4",
        "Not said. The factor bounds the number of epochs, which is the rounded log2 log2 N.",
        "2, the larger bound; `Theory.regret_bound(..., base=math.e)` has the other.",
    ),
    Choice(
        "The largest singular value of theta, in the step size",
        "It is not known to who fits. That of the current weights works, and so does that of the "
        "spectral start.",
        "Estimated from the data.",
    ),
    Choice(
        "The truncation constant 9 kappa² mu² of the start",
        "kappa and mu are not known either. With 9, from 1 to 2 % of the rows are left out.",
        "9 in place of 9 kappa² mu².",
    ),
    Choice(
        "The matrix of the spectral start",
        "Algorithm 2 takes truncated sums of y phi, the appendix truncated sums of y² phi phi'. "
        "They are different matrices.",
        "Algorithm 2.",
    ),
    Choice(
        "The last weights",
        "The algorithm returns the weights that belong to the basis before the last.",
        "Solved once more for the last basis, which costs one least-squares step.",
    ),
    Choice(
        "When epochs end",
        "The theory has epochs that end at N^(1 - 2^-m), the experiments equal ones.",
        "Equal ones, as many and as long as the paper gives; 4 in Figure 2c, where it gives none.",
    ),
    Choice(
        "Which rows a fit uses",
        "Only the last epoch's, which were chosen greedily. On pairs of digits such rows have "
        "little contrast, and regret swings from one epoch to the next.",
        "As the paper says, in the policy that is called by the paper's name.",
    ),
    Choice(
        "The scale of Thompson sampling, the penalty of the trace norm",
        "Not given.",
        "The scale is tuned on trials of their own, which are not reported; the penalty follows "
        "from the noise. The values are with each panel.",
    ),
    Choice(
        "When Thompson sampling learns",
        "Not said. LRRL-AltGDMin learns when an epoch ends; Thompson sampling usually learns "
        "after every reward.",
        "Both are drawn, under different names.",
    ),
)
