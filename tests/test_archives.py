"""Files of named arrays are read as NumPy reads them."""

from __future__ import annotations

import io
from typing import Any, BinaryIO, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.archives import Archive
from cobandits.errors import ModelFileError

KIND = Archive(holds="example", version=1, advice="make it again")

ARRAYS: dict[str, NDArray[Any]] = {
    "plain": np.arange(6.0).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "empty": np.zeros((0, 3)),
    "single": np.array(7, np.int64),
    "texts": np.array(["tea", "é"]),
    "flags": np.array([True, False]),
    "turned": np.arange(4, dtype=">i4"),
    "halves": np.arange(3, dtype=np.float32),
    "large": np.arange(100_001.0),
    "large fortran": np.asfortranarray(np.arange(90_000.0).reshape(300, 300)),
    "every other": np.arange(100_000.0)[::2],
}


def written(arrays: dict[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    KIND.save(buffer, {}, arrays)
    return buffer.getvalue()


def read(content: bytes) -> dict[str, NDArray[Any]]:
    return KIND.load(io.BytesIO(content), lambda _, arrays: arrays)


def test_arrays_are_what_numpy_reads() -> None:
    content = written(ARRAYS)
    found = read(content)
    with np.load(io.BytesIO(content)) as expected:
        for name in ARRAYS:
            assert found[name].dtype == expected[name].dtype
            assert found[name].shape == expected[name].shape
            np.testing.assert_array_equal(found[name], expected[name])


def test_arrays_can_be_written_to_and_share_nothing() -> None:
    content = written(ARRAYS)
    one, other = read(content), read(content)
    one["plain"][0, 0] = 99
    assert other["plain"][0, 0] == 0


def test_objects_are_refused() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ModelFileError, match="not a whole"):
        read(buffer.getvalue())


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_parts_of_a_file_are_refused(share: float) -> None:
    content = written(ARRAYS)
    with pytest.raises(ModelFileError, match="not a whole"):
        read(content[: int(share * len(content))])


def test_values_beyond_those_described_are_refused() -> None:
    content = written({"x": np.arange(4.0)})
    shorter = content.replace(b"'shape': (4,)", b"'shape': (3,)")
    assert shorter != content
    with pytest.raises(ModelFileError, match="is not a whole cobandits example"):
        read(shorter)


def test_files_that_only_take_bytes() -> None:
    class Pipe(io.RawIOBase):
        taken = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.taken += bytes(data)
            return len(data)

    pipe = Pipe()
    KIND.save(cast(BinaryIO, pipe), {}, ARRAYS)
    for name, values in read(pipe.taken).items():
        np.testing.assert_array_equal(values, ARRAYS[name])
