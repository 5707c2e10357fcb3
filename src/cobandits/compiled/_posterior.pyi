from typing import Any

from numpy.typing import NDArray

def learn(
    roots: NDArray[Any],
    means: NDArray[Any],
    log_volumes: NDArray[Any],
    tasks: NDArray[Any],
    rows: NDArray[Any],
    rewards: NDArray[Any],
    dim: int,
    /,
) -> None: ...
def covariance_factors(
    roots: NDArray[Any],
    tasks: NDArray[Any],
    arms: NDArray[Any],
    out: NDArray[Any],
    dim: int,
    /,
) -> None: ...
def learn_in_directions(
    roots: NDArray[Any],
    means: NDArray[Any],
    log_volumes: NDArray[Any],
    thetas: NDArray[Any],
    noises: NDArray[Any],
    directions: NDArray[Any],
    tasks: NDArray[Any],
    rows: NDArray[Any],
    squares: NDArray[Any],
    expected: NDArray[Any],
    /,
) -> None: ...
def greedy(
    roots: NDArray[Any],
    thetas: NDArray[Any],
    noises: NDArray[Any],
    directions: NDArray[Any],
    counts: NDArray[Any],
    tasks: NDArray[Any],
    arms: NDArray[Any],
    chosen: NDArray[Any],
    ratio: float,
    noise: float,
    outside: float,
    highest: float,
    seen: float,
    /,
) -> int: ...
def squared_returns(
    roots: NDArray[Any],
    tasks: NDArray[Any],
    factors: NDArray[Any],
    out: NDArray[Any],
    dim: int,
    /,
) -> None: ...
