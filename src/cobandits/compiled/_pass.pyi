from typing import Any

from numpy.typing import NDArray

def gram_least_squares(
    grams: NDArray[Any],
    moments: NDArray[Any],
    squares: NDArray[Any],
    index: NDArray[Any],
    starts: NDArray[Any],
    B: NDArray[Any],
    penalty: NDArray[Any],
    W: NDArray[Any],
    gradient: NDArray[Any],
    costs: NDArray[Any],
    dim: int,
    rank: int,
    tolerance: float,
    /,
) -> int: ...
def least_squares(
    rows: NDArray[Any],
    rewards: NDArray[Any],
    offsets: NDArray[Any],
    B: NDArray[Any],
    penalty: NDArray[Any],
    W: NDArray[Any],
    grad: NDArray[Any],
    costs: NDArray[Any],
    dim: int,
    rank: int,
    is_double: bool,
    tolerance: float,
    /,
) -> int: ...
def low_rank(
    rows: NDArray[Any],
    rewards: NDArray[Any],
    L: NDArray[Any],
    grad: NDArray[Any],
    totals: NDArray[Any],
    n_tasks: int,
    dim: int,
    rank: int,
    noise: float,
    /,
) -> bool: ...
def pull_backs(
    rows: NDArray[Any],
    values: NDArray[Any],
    offsets: NDArray[Any],
    out: NDArray[Any],
    dim: int,
    n_values: int,
    is_double: bool,
    /,
) -> None: ...
def residuals(
    rows: NDArray[Any],
    rewards: NDArray[Any],
    offsets: NDArray[Any],
    thetas: NDArray[Any],
    G: NDArray[Any],
    costs: NDArray[Any],
    dim: int,
    is_double: bool,
    /,
) -> None: ...
