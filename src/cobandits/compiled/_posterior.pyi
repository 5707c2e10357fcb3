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
def spread(
    roots: NDArray[Any],
    tasks: NDArray[Any],
    arms: NDArray[Any],
    out: NDArray[Any],
    dim: int,
    /,
) -> None: ...
