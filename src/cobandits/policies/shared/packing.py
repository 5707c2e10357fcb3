"""Many numbers in few bytes, without losing a bit: zeros as nothing, some in 4 bytes, as in files.

Rows that a QR decomposition has made are triangles, fields with a few values are mostly zeros, and
arms often come in single precision. Where that saves little, numbers are written as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.archives import Arrays
from cobandits.policies.shared.reader import Reader, refused

__all__ = ["packed", "packed_codes", "unpacked"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Bits = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

_LEAST = 2**16  # bytes of an array from which on it is packed
_OFTEN = 0.2  # share of numbers that are 0, or that 4 bytes hold, from which on that is used
_SAMPLE = 2**12  # numbers that tell these shares
_GOLDEN = (5**0.5 - 1) / 2  # steps of it fill the array evenly, whatever its width
_BLOCK = 2**14  # numbers at a time, which a cache holds: a multiple of 8


def packed(name: str, values: Doubles) -> Arrays:
    """Return arrays whose names begin with one, from which :func:`unpacked` makes the values.

    >>> found = packed("rows", np.eye(128))
    >>> {key: array.nbytes for key, array in found.items()}
    {'rows.present': 2048, 'rows.single': 16, 'rows.short': 512, 'rows.long': 0}
    """
    if values.nbytes < _LEAST:
        return {name: values}
    flat = np.ascontiguousarray(values).reshape(-1)
    some = flat[(np.arange(_SAMPLE) * _GOLDEN % 1 * len(flat)).astype(np.int64)]
    known, arrays = some[_present(some)], Arrays()
    if sparse := len(known) < (1 - _OFTEN) * len(some):
        arrays["present"], flat = _without_zeros(flat)
    if len(known) and _single(known).mean() > _OFTEN:
        arrays |= _shortened(flat)
    elif sparse:
        arrays["long"] = flat
    return {f"{name}.{key}": array for key, array in arrays.items()} or {name: values}


def _present(values: Doubles) -> Bits:
    """Tell which numbers are not 0; -0.0 is not."""
    return np.asarray(values.view(np.int64) != 0)


def _single(values: Doubles) -> Bits:
    """Tell which numbers single precision holds."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values.astype(np.float32) == values)


def _without_zeros(flat: Doubles) -> tuple[Bytes, Doubles]:
    """Return a bit per number, and the numbers that are not 0."""
    bits, kept, n_kept = [], np.empty_like(flat), 0  # memory is taken as it is written to
    for block in _blocks(flat):
        present = _present(block)
        bits.append(np.packbits(present))
        found = block[present]
        kept[n_kept : n_kept + len(found)] = found
        n_kept += len(found)
    return np.concatenate(bits), kept[:n_kept]


def _shortened(flat: Doubles) -> Arrays:
    """Return a bit per number, those that single precision holds, and the others."""
    bits, short, long = [], [], []
    for block in _blocks(flat):
        single = _single(block)
        bits.append(np.packbits(single))
        short.append(block[single].astype(np.float32))
        long.append(block[~single])
    return {
        "single": np.concatenate(bits),
        "short": np.concatenate(short),
        "long": np.concatenate(long),
    }


def _blocks(flat: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield a few numbers at a time; other threads run in between."""
    return (flat[n : n + _BLOCK] for n in range(0, len(flat), _BLOCK))


def unpacked(reader: Reader, name: str, shape: tuple[int, ...]) -> Doubles:
    """Return the values of a shape that :func:`packed` wrote, finite ones."""
    if reader.has(name):
        return reader.doubles(name, shape)
    size = int(np.prod(shape))
    if not reader.has(f"{name}.present"):
        return _lengthened(reader, name, size).reshape(shape)
    present, values = _bits(reader, f"{name}.present", size), np.zeros(size)
    _put(values, present, _lengthened(reader, name, int(np.count_nonzero(present))))
    return values.reshape(shape)


def _lengthened(reader: Reader, name: str, size: int) -> Doubles:
    """Return the numbers that are not 0."""
    if not reader.has(f"{name}.single"):
        return reader.doubles(f"{name}.long", (size,))
    single, values = _bits(reader, f"{name}.single", size), np.empty(size)
    n_short = int(np.count_nonzero(single))
    _put(values, single, reader.singles(f"{name}.short", (n_short,)))
    _put(values, ~single, reader.doubles(f"{name}.long", (size - n_short,)))
    return values


def _put(values: Doubles, chosen: Bits, numbers: NDArray[np.floating]) -> None:
    """Set the chosen values, in place."""
    begin = 0
    for block, some in zip(_blocks(values), _blocks(chosen), strict=True):
        end = begin + int(np.count_nonzero(some))
        block[some] = numbers[begin:end]
        begin = end


def _bits(reader: Reader, name: str, count: int) -> Bits:
    """Return so many bits."""
    found: Bits = np.unpackbits(reader.bits(name, ((count + 7) // 8,))).view(np.bool_)
    if found[count:].any():
        raise refused(f"more than {count} bits in {name}")
    return found[:count]


def packed_codes(codes: Codes) -> NDArray[np.integer]:
    """Return many whole numbers of at least 0 in as few bytes each as hold the largest."""
    if codes.nbytes < _LEAST:
        return codes
    return codes.astype(np.min_scalar_type(int(codes.max())))
