from typing import Any

from numpy.typing import NDArray

def winning(
    values: NDArray[Any],
    factors: NDArray[Any],
    own: NDArray[Any],
    arms: NDArray[Any],
    points: NDArray[Any],
    out: NDArray[Any],
    smallest: float,
    /,
) -> None: ...
