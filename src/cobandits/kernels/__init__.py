"""The hot loops: every task's least squares in a given basis, and its residuals.

Everything that an estimator repeats is one of these passes over the data: over rows
(``rows``), over sufficient statistics (``grams``), or over those of the features that a task
uses (``active``). On rows, a pass runs compiled
(``compiled/_pass.c``) where the extension was built, and in batched NumPy where it was not.
Both are single-threaded: what is parallel is the level above, processes over trials or cells.
"""

from cobandits.kernels.active import (
    ActiveStatistics,
    active_least_squares,
    active_statistics,
    packed_least_squares,
    packed_statistics,
)
from cobandits.kernels.batches import chunks, turns
from cobandits.kernels.grams import gram_least_squares, gram_residuals, gram_ridge
from cobandits.kernels.low_rank import LowRankTerms, low_rank_roots
from cobandits.kernels.marginal import Marginal, gram_marginal, marginal
from cobandits.kernels.normal import Fit, RidgePenalty
from cobandits.kernels.rows import COMPILED, least_squares, pull_backs, residuals, ridge
from cobandits.kernels.variances import GramVariances, PlainVariances, Variances

__all__ = [
    "COMPILED",
    "ActiveStatistics",
    "Fit",
    "GramVariances",
    "LowRankTerms",
    "Marginal",
    "PlainVariances",
    "RidgePenalty",
    "Variances",
    "active_least_squares",
    "active_statistics",
    "chunks",
    "gram_least_squares",
    "gram_marginal",
    "gram_residuals",
    "gram_ridge",
    "least_squares",
    "low_rank_roots",
    "marginal",
    "packed_least_squares",
    "packed_statistics",
    "pull_backs",
    "residuals",
    "ridge",
    "turns",
]
