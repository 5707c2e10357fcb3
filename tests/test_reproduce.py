"""``cobandits reproduce``: runs what is missing, whatever happened before, and reports on it."""

from __future__ import annotations

import errno
import importlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from cobandits import datasets
from cobandits.errors import ConfigurationError
from cobandits.lab import Record, Reproduction, Simulation, Store, report, reproduce
from cobandits.lab.panels import Scale
from tests.commands import Run, command_line
from tests.records import TINY, bits

PANELS = list(TINY.values())
QUICK = Scale(trials=2, quick=True)
ROOT = Path(__file__).parents[1]


def stored(directory: Path) -> dict[str, Record]:
    with Store(directory) as store:
        assert store.notes == []
        return store.records()


def run(scale: Scale, out: Path, jobs: int = 1) -> Reproduction:
    return reproduce(PANELS, scale, out=out, jobs=jobs)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the identities of the simulations that are run, as they come."""
    seen: list[str] = []
    original = Simulation.run

    def note(cell: Simulation, progress: Callable[[int, int], None] | None = None) -> Record:
        seen.append(cell.identity)
        return original(cell, progress)

    monkeypatch.setattr(Simulation, "run", note)
    return seen


# ---- what is run


def test_cells_of_several_panels_run_once_and_belong_to_all(tmp_path: Path, ran: list[str]) -> None:
    done = run(QUICK, tmp_path)
    assert len(ran) == len(set(ran)) == 3 * 2
    assert done.n_cells == done.n_run == 3 * 2 + 2 * 2
    assert {name: list(lines) for name, lines in done.records.items()} == {
        "1a": ["moments", "ridge", "random"],
        "2a": ["ridge", "altgdmin", "moments"],
    }
    assert done.records["1a"]["ridge"] == done.records["2a"]["ridge"]
    for panel in PANELS:
        for name, cells in panel.cells(QUICK).items():
            identities = [record["identity"] for record in done.records[panel.name][name]]
            assert identities == [cell.identity for cell in cells]
    for stem in done.figures.values():
        assert stem.with_name(f"{stem.name}.svg").is_file()
        assert stem.with_name(f"{stem.name}.png").is_file()
    assert {"cpu", "cores", "python", "numpy", "date"} <= set(done.facts)


def test_nothing_is_run_twice_and_a_change_runs_what_it_changes(
    tmp_path: Path, ran: list[str]
) -> None:
    first = run(QUICK, tmp_path)
    ran.clear()
    again = run(QUICK, tmp_path)
    assert ran == []
    assert (again.n_run, again.seconds) == (0, first.seconds)
    assert again.records == first.records
    more = run(Scale(trials=3, quick=True), tmp_path)
    assert len(ran) == 3
    assert more.n_run == 3 + 2
    assert more.seconds > first.seconds
    ran.clear()
    other = run(Scale(trials=2, quick=True, seed=1), tmp_path)
    assert len(ran) == 6
    assert other.records["1a"]["ridge"][0] != first.records["1a"]["ridge"][0]
    ran.clear()
    assert run(QUICK, tmp_path).records == first.records
    assert ran == []


def test_the_time_of_all_runs_is_noted(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_text("{")  # of no use, and no harm
    run(QUICK, tmp_path)
    done = run(Scale(trials=3, quick=True), tmp_path)
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert [one["cells"] for one in runs] == [10, 5]
    assert sum(one["seconds"] for one in runs) == pytest.approx(done.seconds, abs=1e-2)


def test_a_run_that_is_stopped_keeps_its_cells_and_its_time(tmp_path: Path) -> None:
    def stop(done: int, total: int, text: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(PANELS, QUICK, out=tmp_path, progress=stop)
    assert len(stored(tmp_path)) == 3
    assert [one["cells"] for one in json.loads((tmp_path / "runs.json").read_text())] == [3]
    assert run(QUICK, tmp_path).n_run == 10 - 3


def stopped_after(cells: int, out: Path) -> None:
    def stop(done: int, total: int, text: str) -> None:
        if done == cells:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(PANELS, QUICK, out=out, progress=stop)


def test_cells_run_trial_by_trial(tmp_path: Path) -> None:
    stopped_after(5, tmp_path)
    assert {record["trial"] for record in stored(tmp_path).values()} == {0}


def test_what_is_kept_is_reported_without_a_run(tmp_path: Path, ran: list[str]) -> None:
    stopped_after(7, tmp_path)  # all of trial 0, and two cells of trial 1
    n_ran = len(ran)
    done = reproduce(PANELS, QUICK, out=tmp_path, kept=True)
    assert len(ran) == n_ran
    assert done.n_run == 0
    assert {
        one["trial"] for lines in done.records.values() for x in lines.values() for one in x
    } == {0}
    assert (done.n_cells, done.n_missing) == (5, 5)
    page = report.write(done, tmp_path).with_suffix(".md").read_text()
    assert "The run is not finished: 5 of its cells are missing." in page
    assert run(QUICK, tmp_path).n_missing == 0


def test_nothing_kept_is_told(cobandits: Run, tmp_path: Path) -> None:
    told = cobandits("reproduce", "1a", "--quick", "--kept", "--out", tmp_path)
    assert told.code == 2
    assert "no whole trial" in told.err


def test_a_full_disk_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill(done: int, total: int, text: str) -> None:
        for module in ("store", "reproduction"):
            monkeypatch.setattr(f"cobandits.lab.{module}.write_whole", full)

    with pytest.raises(ConfigurationError, match="No space left"):
        reproduce(PANELS, QUICK, out=tmp_path, progress=fill)
    monkeypatch.undo()
    assert run(QUICK, tmp_path).n_run == 10 - 1


def test_a_damaged_part_is_told_and_run_again(tmp_path: Path, ran: list[str]) -> None:
    cell = PANELS[0].cells(QUICK)["moments"][1]
    path = tmp_path / "parts" / f"{cell.identity}.parquet"
    path.parent.mkdir()
    path.write_bytes(b"PAR1")
    (note,) = run(QUICK, tmp_path).notes
    assert cell.identity in note
    assert cell.identity in ran


# ---- however it ends


class Command:
    """The command in a process of its own, with panels that take a moment."""

    def __init__(self, out: Path, *options: str) -> None:
        command = [sys.executable, "-m", "tests.records", "reproduce", "--out", str(out)]
        self.out = out
        self.process = subprocess.Popen(
            [*command, *options],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def wait_for_a_cell(self) -> None:
        def state() -> list[tuple[str, int]]:
            paths = [*self.out.glob("parts/*.parquet"), *self.out.glob("records.parquet")]
            return sorted((path.name, path.stat().st_ino) for path in paths if path.exists())

        before = state()
        while state() == before:
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.01)

    def end(self, number: signal.Signals, *, group: bool) -> tuple[int, str]:
        """Send a signal; return the exit code and stderr once all of it is gone."""
        workers = psutil.Process(self.process.pid).children(recursive=True)
        for process in [psutil.Process(self.process.pid), *(workers if group else ())]:
            process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        _, alive = psutil.wait_procs(workers, timeout=60)
        assert alive == []
        return self.process.returncode, err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_killed_and_interrupted_runs_go_on_to_the_same_bits(tmp_path: Path) -> None:
    options, scale = ("--trials", "14", "--jobs", "2"), Scale(trials=14)
    rng = random.Random(0)
    out = tmp_path / "ended"
    for _ in range(2):
        command = Command(out, *options)
        command.wait_for_a_cell()
        time.sleep(rng.uniform(0, 0.2))
        assert command.end(signal.SIGKILL, group=False)[0] == -signal.SIGKILL
    command = Command(out, *options)
    command.wait_for_a_cell()
    code, err = command.end(signal.SIGINT, group=True)  # as a terminal does
    assert code == 130
    assert err == "cobandits: stopped; the same command goes on from here\n"
    partial = stored(out)
    command = Command(out, *options)
    printed, err = command.process.communicate(timeout=120)
    assert (command.process.returncode, err) == (0, "")
    whole = run(scale, tmp_path / "whole")
    assert 3 <= len(partial) < whole.n_cells
    assert f"{whole.n_cells} cells, {whole.n_cells - len(partial)} of them run now" in printed
    assert bits(stored(out)) == bits(stored(tmp_path / "whole"))


def test_processes_give_the_same_bits_as_one(tmp_path: Path) -> None:
    run(QUICK, tmp_path / "one", jobs=1)
    run(QUICK, tmp_path / "two", jobs=2)
    assert bits(stored(tmp_path / "one")) == bits(stored(tmp_path / "two"))


# ---- the command


@pytest.fixture
def cobandits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    module = importlib.import_module("cobandits.cli.reproduce")
    monkeypatch.setattr(module, "available", lambda: TINY)
    monkeypatch.setattr(module.studies, "available", dict)
    return command_line(capsys)


def test_the_command_ends_with_the_claims_and_the_report(cobandits: Run, tmp_path: Path) -> None:
    result = cobandits("reproduce", "--quick", "--out", tmp_path)
    assert (result.code, result.err) == (0, "")
    assert "the paper says" in result.out
    assert "lowest regret" in result.out
    assert result.out.splitlines()[-1] == f"The report: {tmp_path / 'report.html'}"
    assert max(map(len, result.out.splitlines()[:-1])) <= 80
    names = {path.name for path in tmp_path.iterdir()}
    assert {"report.html", "report.md", "records.parquet", "runs.json", "figures"} <= names
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(panel.title in page for panel in PANELS)


def test_panels_are_chosen_by_name(cobandits: Run, tmp_path: Path) -> None:
    result = cobandits("reproduce", "2a", "2a", "--trials", 1, "--seed", 5, "--out", tmp_path)
    assert result.code == 0, result.err
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"2a.png", "2a.svg"}
    records = stored(tmp_path).values()
    assert {re.sub(r'.*"seed":(\d+).*', r"\1", str(one["configuration"])) for one in records} == {
        "5"
    }
    assert {one["trial"] for one in records} == {0}


def test_all_means_all_panels(cobandits: Run, tmp_path: Path) -> None:
    results = [
        cobandits("reproduce", *named, "--quick", "--out", tmp_path / str(len(named)))
        for named in ((), ("all",))
    ]
    assert [result.code for result in results] == [0, 0], results
    drawn = [sorted(p.name for p in (tmp_path / str(n) / "figures").iterdir()) for n in (0, 1)]
    assert drawn[0] == drawn[1]
    assert {name.partition(".")[0] for name in drawn[1]} == set(TINY)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("3a",), ["no panel '3a'", "1a, 2a"]),
        (("--quick", "--trials", 3), ["--quick", "leave out one"]),
        (("--trials", 0), ["--trials"]),
        (("--out", __file__), ["it is a file"]),
    ],
)
def test_what_cannot_be_is_refused(
    options: tuple[object, ...], words: list[str], cobandits: Run
) -> None:
    result = cobandits("reproduce", *options)
    assert result.code == 2
    assert all(word in result.err for word in words), result.err
    assert "Traceback" not in result.err


def test_a_directory_in_use_is_refused(cobandits: Run, tmp_path: Path) -> None:
    with Store(tmp_path):
        result = cobandits("reproduce", "--quick", "--out", tmp_path)
    assert result.code == 2
    assert "is writing to" in result.err


@pytest.mark.parametrize("there", [True, False])
def test_digits_that_stand_in_for_mnist_are_told(
    there: bool, cobandits: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    def cells(scale: Scale) -> dict[str, list[Simulation]]:
        name = "synthetic" if scale.mnist else "digits"
        size = {"n_tasks": 3} if name == "digits" else {"dim": 5, "n_tasks": 3, "rank": 1}
        return {
            "random": [
                Simulation(environment=name, environment_parameters=size, policy="random", rounds=2)
            ]
        }

    monkeypatch.setitem(TINY, "1d", replace(TINY["1a"], name="1d", cells=cells))
    monkeypatch.setattr(datasets, "is_there", lambda _: there)
    result = cobandits("reproduce", "1d", "--quick", "--out", tmp_path)
    assert result.code == 0, result.err
    assert ("digits stand in for it in 1d" in result.err) == (not there)
    assert ("cobandits data fetch mnist" in result.err) == (not there)


def test_jobs_must_be_some(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="jobs must be at least 1, got 0"):
        run(QUICK, tmp_path, jobs=0)
