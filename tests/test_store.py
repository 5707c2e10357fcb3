"""Records on disk: what is added stays, as it was, whatever happens to the process or the files."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl
import pytest

from cobandits.errors import ConfigurationError
from cobandits.lab import Cell, Estimation, Record, Simulation, Store
from cobandits.lab import store as store_module
from tests.records import bits, timeless

NAN = float("nan")
SIZE = {"dim": 6, "n_tasks": 5, "rank": 2}


def record(text: str, /, **values: Any) -> Record:
    """Return a record of some cell, under its true identity."""
    identity = hashlib.sha256(text.encode()).hexdigest()
    return {"identity": identity, "configuration": text, "kind": "some", **values}


def keyed(*records: Record) -> dict[str, Record]:
    return {str(one["identity"]): one for one in records}


def shown(records: dict[str, Record]) -> dict[str, str]:
    """Return records as text, which tells NaN from None and 1 from 1.0, in any order."""
    return {identity: repr(one) for identity, one in records.items()}


def parts(directory: Path) -> list[Path]:
    return sorted((directory / "parts").iterdir())


def test_every_kind_of_record_comes_back_as_it_was(tmp_path: Path) -> None:
    cells: list[Cell] = [
        Simulation(environment="synthetic", environment_parameters=SIZE, policy=name, rounds=8)
        for name in ("lrrl", "ridge", "random")
    ]
    cells += [
        Estimation(environment_parameters=SIZE, n_rows=9, estimator=name)
        for name in ("altgdmin", "moments")
    ]
    digits = Simulation(environment="digits", policy="lrrl", rank=2, rounds=4)  # no truth: NaN
    records = keyed(*(cell.run() for cell in [*cells, digits]))
    with Store(tmp_path) as store:
        for one in records.values():
            store.add(one)
        assert shown(store.records()) == shown(records)
    with Store(tmp_path) as store:
        assert shown(store.records()) == shown(records)
    assert parts(tmp_path) == []


ODD = [
    record("a", x=NAN, y=None, n=3, some=[1.0, NAN], none=[], text=""),
    record("b", x=1.5, y=None, none=[2.5]),
    record("c", y=4, none=[], other=[1, 2, 3]),
    record("d", n=None, x=float("-inf"), text="1,2", some=[]),
    record("e", x=-0.0, n=2**62, tiny=5e-324),
]


@pytest.mark.parametrize("order", [ODD, ODD[::-1]])
def test_nan_none_nothing_and_absence_are_told_apart(order: list[Record], tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for one in order:
            store.add(one)
    for _ in range(2):  # merged once, then once more with another
        with Store(tmp_path) as store:
            assert shown(store.records()) == shown(keyed(*order))
            store.add(order[0])


def test_what_is_added_is_whole_on_disk_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for one in ODD:
        store.add(one)
        path = tmp_path / "parts" / f"{one['identity']}.parquet"
        assert pl.read_parquet(path)["identity"].to_list() == [one["identity"]]
    store.close()


def test_many_parts_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_MANY", 4)
    records = [record(str(n), n=n, curve=[float(n)] * n) for n in range(11)]
    with Store(tmp_path) as store:
        for n, one in enumerate(records, 1):
            store.add(one)
            assert len(parts(tmp_path)) == n % 4
        assert store.records() == keyed(*records)


def test_a_crash_between_merging_and_tidying_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    for one in ODD:
        store.add(one)

    def crash(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", crash)
        with pytest.raises(KeyboardInterrupt):
            store.merge()
    store.close()
    assert len(parts(tmp_path)) == len(pl.read_parquet(tmp_path / "records.parquet")) == 5
    with Store(tmp_path) as again:
        assert len(again) == 5
        assert shown(again.records()) == shown(keyed(*ODD))
    assert parts(tmp_path) == []


def test_only_what_is_missing_is_run(tmp_path: Path) -> None:
    cells = [
        Simulation(
            environment="synthetic", environment_parameters=SIZE, policy="ridge", rounds=8, trial=n
        )
        for n in range(4)
    ]
    with Store(tmp_path) as store:
        assert store.missing([*cells, cells[0]]) == cells
        first = {cell.trial: one for cell, one in store.run_all(cells[1:3])}
        store.add({**first[1], "regret_per_task": -1.0})
        done = {cell.trial: one for cell, one in store.run_all(cells)}
    assert set(done) == {0, 1, 2, 3}
    assert done[1] == {**first[1], "regret_per_task": -1.0}
    assert done[2] == first[2]
    assert timeless(done[3]) == timeless(cells[3].run())


# ---- files that cannot be trusted


def damaged(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Return what may stand in a part that was not written by a store, or not in full."""
    yield "empty", b""
    yield "truncated", content[: len(content) // 2]
    yield "without its end", content[:-1]
    yield "other", b"PAR1 is how these files begin, and end with PAR1"
    yield "table", written(pl.DataFrame({"a": [1]}))
    yield "another cell", written(frame(ODD[1]))
    yield "no rows", written(frame(ODD[0]).clear())
    yield "changed", written(frame({**ODD[0], "configuration": "else"}))


def frame(one: Record) -> pl.DataFrame:
    return pl.DataFrame([{**one, "columns": ",".join(one)}])


def written(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


BAD = dict(damaged(written(frame(ODD[0]))))


@pytest.mark.parametrize("name", BAD)
def test_a_part_that_cannot_be_trusted_is_set_aside(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    for one in ODD[:3]:
        store.add(one)
    store.close()
    path = tmp_path / "parts" / f"{ODD[0]['identity']}.parquet"
    path.write_bytes(BAD[name])
    with Store(tmp_path) as store:
        (note,) = store.notes
        assert str(path) in note
        assert set(store.records()) == {ODD[1]["identity"], ODD[2]["identity"]}
        store.add(ODD[0])
    with Store(tmp_path) as store:
        assert store.notes == []
        assert shown(store.records()) == shown(keyed(*ODD[1:3], ODD[0]))
    assert [one.suffix for one in parts(tmp_path)] == [".damaged"]


def test_bytes_that_were_changed_never_break_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    content = written(frame(ODD[0]))
    for _ in range(200):
        changed = bytearray(content)
        for at in rng.integers(len(content), size=3):
            changed[at] ^= 1 << rng.integers(8)
        path = tmp_path / "parts" / f"{ODD[0]['identity']}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(changed)
        store = Store(tmp_path)
        assert len(store) + len(store.notes) == 1
        store.close()


def test_a_damaged_file_of_all_records_is_kept_beside(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add(ODD[0])
    whole = (tmp_path / "records.parquet").read_bytes()
    (tmp_path / "records.parquet").write_bytes(whole[:-20])
    with Store(tmp_path) as store:
        assert len(store) == 0
        assert "records.parquet" in store.notes[0]
    assert (tmp_path / "records.damaged").read_bytes() == whole[:-20]


def test_a_disk_that_cannot_be_read_now_costs_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path) as store:
        store.add(ODD[0])

    def fail(path: Path) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", fail)
        with pytest.raises(ConfigurationError, match="Input/output error"):
            Store(tmp_path)
    with Store(tmp_path) as store:
        assert len(store) == 1


def test_what_a_killed_process_left_unfinished_is_removed(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    left = [tmp_path / "parts" / ".ab.parquet.12", tmp_path / ".records.parquet.34"]
    for path in left:
        path.write_bytes(b"PAR1")
    with Store(tmp_path) as store:
        assert len(store) == 0
        assert store.notes == []
    assert not any(path.exists() for path in left)


# ---- one writer, and disks that are full


def test_a_second_process_is_refused_by_name(tmp_path: Path) -> None:
    code = "import sys; from cobandits.lab import Store; s = Store(sys.argv[1]); print(1, flush=1)"
    holding = subprocess.Popen(
        [sys.executable, "-c", f"{code}; sys.stdin.read()", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holding.stdout is not None
        assert holding.stdout.readline() == b"1\n"
        with pytest.raises(ConfigurationError, match=rf"process {holding.pid} is writing to"):
            Store(tmp_path)
    finally:
        holding.kill()
        holding.communicate()
    with Store(tmp_path) as store:  # what a dead process held is free
        assert len(store) == 0
        with pytest.raises(ConfigurationError, match=rf"process {os.getpid()} is writing"):
            Store(tmp_path)
    Store(tmp_path).close()


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill() -> None:
        with Store(tmp_path) as store:
            store.add(ODD[0])
            store.add(ODD[1])
            monkeypatch.setattr(store_module, "write_whole", full)
            with pytest.raises(ConfigurationError, match="No space left"):
                store.merge()
            store.add(ODD[2])

    with pytest.raises(ConfigurationError, match=r"No space left on device; make room"):
        fill()
    monkeypatch.undo()
    with Store(tmp_path) as store:
        assert shown(store.records()) == shown(keyed(*ODD[:2]))
        assert store.notes == []


def test_a_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(ConfigurationError, match=r"cannot use .*file: .*another directory"):
        Store(tmp_path / "file")


def test_the_same_bits_are_the_same(tmp_path: Path) -> None:
    assert bits(keyed(ODD[0])) == bits(keyed({**ODD[0], "seconds": 3.0}))
    assert bits(keyed(ODD[4])) != bits(keyed({**ODD[4], "x": 0.0}))
