from typing import Any

from numpy.typing import NDArray

def normal_cdf(values: NDArray[Any], out: NDArray[Any], /) -> None: ...
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
