from numpy import float64, int64
from numpy.typing import NDArray

def winning(
    values: NDArray[float64],
    factors: NDArray[float64],
    own: NDArray[float64],
    arms: NDArray[int64],
    points: NDArray[float64],
    out: NDArray[float64],
    smallest: float,
    /,
) -> None: ...
