"""Other libraries beside ours: plays, tuning, what is kept, figures, and the page.

Run without the other libraries: with what is written by hand, and with our own.
"""

from __future__ import annotations

import doctest
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from benchmarks.peers import (
    __main__ as tool,
)
from benchmarks.peers import (
    adapters,
    code,
    collect,
    first,
    found,
    losses,
    page,
    pictures,
    play,
    runs,
    targets,
    tuning,
)
from benchmarks.peers.collect import Asked, Scale
from benchmarks.peers.contract import Codes, Floats, Learner, Peer, Setting, Unable
from benchmarks.peers.found import SHARED, Found
from benchmarks.peers.install import Install
from benchmarks.peers.play import Play, TooSlowError, Trial
from benchmarks.peers.runs import FailedError, MissingError, Runner
from benchmarks.peers.speed import Size, Speed, _means, measure
from benchmarks.peers.tuning import Run
from benchmarks.peers.workloads import WHOLE, Workload, quick, workloads
from cobandits.decisions import Decisions
from cobandits.environments import Synthetic
from cobandits.environments.choices import Choices
from cobandits.policies import Shared
from cobandits.ragged import RaggedArms
from cobandits.simulate import simulate

TINY = Workload(
    name="tiny",
    title="T=6 r=1",
    environment="synthetic",
    options={"dim": 4, "n_tasks": 6, "rank": 1},
    rounds=6,
    trials=2,
    related=True,
)
HERE = [name for name, peer in adapters.peers().items() if peer.library in ("cobandits", "numpy")]
RIDGE = next(name for name in HERE if "hand" in name and "ridge" in name)


class AtRandom:
    """Plays at random, and learns nothing."""

    def __init__(self, setting: Setting, *, slow: float = 0.0) -> None:
        self.setting, self.slow = setting, slow
        self._rng = np.random.default_rng(setting.seed)

    def decide(self, tasks: Codes, arms: Floats) -> Codes:
        return self._rng.integers(arms.shape[1], size=len(tasks))

    def learn(self, tasks: Codes, arms: Floats, chosen: Codes, rewards: Floats) -> None:
        assert rewards.shape == tasks.shape


def peer(name: str, library: str, **others: Any) -> Peer:
    usual: dict[str, Any] = {"module": "numpy", "make": AtRandom, "grid": {}}
    told = {**usual, "exact": True, "shares": False, **others}
    return Peer(name=name, library=library, **told)


def trial(number: int, regret: float, **others: Any) -> Trial:
    usual = Trial(
        trial=number,
        regret=regret,
        at_random=20.0,
        deciding=1.0,
        learning=1.0,
        decisions=100,
        peak=10**8,
        added=10**6,
    )
    return replace(usual, **others)


def ran(*regrets: float) -> Run:
    return Run(trials=[trial(k, regret) for k, regret in enumerate(regrets)], parameters={})


def speed(microseconds: float, batch: float) -> Speed:
    half = microseconds / 2e6
    return Speed(decide=[half] * 3, learn=[half] * 3, batch=[batch / 1e6] * 3, warm_up=1)


def made_up() -> Found:
    """Our policy is best on one workload, and worst on the other and in two costs."""
    peers = [
        peer(SHARED, "cobandits", shares=True),
        peer("cobandits ridge", "cobandits"),
        peer("exact one", "other", grid={"ridge": (1.0, 2.0, 3.0)}),
        peer("fast one", "another", exact=False, note="is quick"),
    ]
    regrets = {
        SHARED: ([4.0, 6.0], [12.0, 12.5]),
        "cobandits ridge": ([8.0, 9.0], [11.0, 14.0]),
        "exact one": ([9.0, 11.0], [10.0, 10.5]),
        "fast one": ([18.0, 22.0], None),
    }
    last = Workload(
        name="last", title="last", environment="synthetic", options=TINY.options, rounds=6
    )
    played = {}
    for name, (ours, theirs) in regrets.items():
        played[name, "tiny"] = ran(*ours)
        played[name, "last"] = (
            ran(*theirs) if theirs else Run(parameters={}, missing="more than 1,200 s")
        )
    chosen = replace(played["exact one", "tiny"], parameters={"ridge": 3.0}, edges=["ridge"])
    return Found(
        peers={one.name: one for one in peers},
        workloads={"tiny": TINY, "last": last},
        runs={**played, ("exact one", "tiny"): chosen},
        speeds={
            SHARED: speed(100, 5),
            "cobandits ridge": speed(60, 4),
            "exact one": speed(80, 60),
            "fast one": speed(10, 1),
        },
        installs={"cobandits": Install(pip=3, first=1), "other": Install(failed="no wheel")},
        lines={SHARED: 9, "cobandits ridge": 9, "exact one": 8, "fast one": 40},
        unable=[Unable(name="that one", library="third", why="it has no arms")],
        versions={"cobandits": "0.1", "other": "2.0", "another": "3.0", "third": "4.0"},
    )


# ---- adapters and workloads


@pytest.mark.parametrize("module", [code, found, losses, page, play, runs, tuning])
def test_the_examples_in_docstrings_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_peers_have_names_of_their_own_and_values_to_try() -> None:
    names = [one.name for module in adapters.modules() for one in getattr(module, "PEERS", ())]
    assert len(names) == len(set(names)) == len(adapters.peers())
    assert SHARED in names
    assert len({runs.plain(name) for name in names}) == len(names)
    for one in adapters.peers().values():
        assert all(values for values in one.grid.values()), one.name
        json.dumps(tuning.points(one.grid))


def test_importing_the_adapters_imports_no_other_library() -> None:
    libraries = sorted({one.module for one in adapters.peers().values()} - {"numpy", "cobandits"})
    words = (
        "import sys; from benchmarks.peers import adapters; adapters.peers(); "
        f"print([name for name in {libraries} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", HERE)
def test_a_learner_keeps_the_contract(name: str) -> None:
    one = adapters.peers()[name]
    learner = one.make(Setting(dim=4, n_tasks=6, n_arms=5, seed=1), **tuning.points(one.grid)[-1])
    for asked in Synthetic(dim=4, n_tasks=6, rank=1, unequal=True).rounds(8, seed=1):
        chosen, *seconds = play.step(learner, asked.tasks, asked.arms, asked.rewards)
        assert chosen.shape == asked.tasks.shape
        assert chosen.dtype.kind == "i"
        assert min(seconds) > 0


def test_workloads_are_as_announced() -> None:
    every = workloads()
    assert sum(one.related for one in every.values()) == 6
    assert every["T100-r8"].made().n_tasks == 100
    assert every["unequal"].made().dim == 50
    shorter = every["noise"].for_tuning(shares=True)
    assert (shorter.rounds, shorter.made().n_tasks) == (100, 25)
    assert every["noise"].for_tuning(shares=False).made().n_tasks == 10
    assert every["T100-r8"].for_tuning(shares=True).made().n_tasks == 25
    assert TINY.for_tuning(shares=False).made().n_tasks == 6
    for name, tasks in (("yogurt", 59), ("movielens", 120)):
        made = every[name].made()
        assert isinstance(made, Choices)
        assert (made.n_tasks, made.n_rounds) == (tasks, every[name].rounds)
        assert made.choices.n_tasks == tasks  # all of them
        assert every[name].for_tuning(shares=False).made().n_tasks == 10
        assert every[name].is_there
    assert set(quick()) < set(every)
    assert {every[name].name for name in every} >= {WHOLE, *found.LARGE}


# ---- plays


def told(name: str, **others: Any) -> Play:
    usual: dict[str, Any] = {
        "environment": TINY.environment,
        "options": TINY.options,
        "rounds": 6,
        "seed": 7,
        "trials": (0, 1),
        "choices": ({},),
        "limit": 60.0,
    }
    return Play(peer=name, **{**usual, **others})


def test_real_data_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"data": "yogurt", "n_tasks": 3}
    [one] = play.play(told(SHARED, environment="choices", options=options, rounds=9, trials=(0,)))
    assert (one.decisions, one.trial) == (9, 0)
    assert 0 <= one.regret <= 3
    monkeypatch.setattr("cobandits.datasets.is_there", lambda name: name == "digits")
    there = {name for name, workload in workloads().items() if not workload.is_there}
    assert there == {"mnist", "yogurt", "movielens"}


def test_a_play_is_that_of_the_library() -> None:
    [one, other] = play.play(told(SHARED))
    assert (one.trial, other.trial, one.decisions) == (0, 1, 36)

    class Seeded(Shared):
        name = "seeded"
        rng = np.random.default_rng(play.seed_of(7, 1))

        def decide(
            self,
            tasks: ArrayLike,
            arms: ArrayLike | RaggedArms,
            rng: np.random.Generator,
            *,
            available: ArrayLike | None = None,
        ) -> Decisions:
            return super().decide(tasks, arms, self.rng, available=available)

    environment = Synthetic(dim=4, n_tasks=6, rank=1)
    trace = simulate(Seeded(dim=4, n_tasks=6), environment, 6, 7, trial=1)
    assert other.regret == pytest.approx(trace.regret_per_task)
    assert one.regret != other.regret


def test_peers_meet_the_same_rounds_and_later_choices_are_not_changed_by_earlier_ones() -> None:
    grid = tuning.points(adapters.peers()[RIDGE].grid)[:2]
    both = list(play.play(told(RIDGE, choices=grid, trials=(-1,))))
    alone = list(play.play(told(RIDGE, choices=grid[1:], trials=(-1,))))
    ours = list(play.play(told(SHARED, trials=(-1,))))
    assert both[1].regret == alone[0].regret
    assert both[0].at_random == ours[0].at_random


def test_a_play_above_its_limit_stops() -> None:
    with pytest.raises(TooSlowError):
        list(play.play(told(SHARED, limit=0.0)))


def test_random_play_is_as_bad_as_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "peers", lambda: {"random": peer("random", "numpy")})
    [one] = play.play(told("random", rounds=400, trials=(0,)))
    assert one.regret == pytest.approx(one.at_random, rel=0.1)
    assert one.microseconds > 0
    assert one.peak > one.added >= 0


# ---- what is kept, and tuning


def test_what_was_played_is_kept_and_read_again(tmp_path: Path) -> None:
    runner = Runner(folder=tmp_path)
    one = adapters.peers()[RIDGE]
    with pytest.raises(MissingError, match="not run"):
        _play(replace(runner, may_run=False), one)
    trials = _play(runner, one)
    assert [len(list(tmp_path.glob("tiny-*-play-*.jsonl"))), len(trials)] == [1, 2]
    assert _play(replace(runner, may_run=False), one) == trials
    assert len(runner.days) == 1


def test_plays_of_other_libraries_are_kept_apart_unless_they_are_timed(tmp_path: Path) -> None:
    ours, others = tmp_path / "ours", tmp_path / "others"
    runner = Runner(folder=ours, rivals=others)
    _play(runner, adapters.peers()[SHARED])
    _play(runner, adapters.peers()[RIDGE])
    [of_shared], [of_ridge] = ours.iterdir(), others.iterdir()
    assert "shared" in of_shared.name
    assert "ridge" in of_ridge.name
    timed = replace(TINY, name=WHOLE)
    runner.play(
        adapters.peers()[RIDGE],
        timed,
        trials=[0],
        choices=tuning.points(adapters.peers()[RIDGE].grid)[:1],
    )
    assert [path.name.startswith(WHOLE) for path in sorted(ours.iterdir())] == [True, False]


def _play(runner: Runner, one: Peer) -> list[Trial]:
    choices = tuning.points(one.grid)[:1]
    return runner.play(one, TINY, trials=range(2), choices=choices)


def test_a_play_that_took_too_long_says_so_and_is_kept(tmp_path: Path) -> None:
    runner = Runner(folder=tmp_path, limit=0.0)
    for may_run in (True, False):
        with pytest.raises(MissingError, match="more than 0 s"):
            _play(replace(runner, may_run=may_run), adapters.peers()[RIDGE])


def test_a_play_that_fails_says_why_and_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match=r"failed: KeyError: 'nobody'"):
        _play(Runner(folder=tmp_path), peer("nobody", "numpy"))
    assert not list(tmp_path.iterdir())


def test_a_library_that_is_not_there_is_not_run(tmp_path: Path) -> None:
    done = tuning.run(Runner(folder=tmp_path), peer("x", "no-such-library"), TINY, {})
    assert done.missing == "not installed"
    large = peer("x", "numpy", most_numbers=6 * 4**2 - 1)
    assert tuning.run(Runner(folder=tmp_path), large, TINY, {}).missing == "too slow"


class Imagined(Runner):
    """Runs nothing: the regret is the distance of a parameter from 3."""

    def play(
        self,
        peer: Peer,
        workload: Workload,
        *,
        trials: Sequence[int],
        choices: Sequence[play.Parameters],
    ) -> list[Trial]:
        asked.append((workload.rounds, list(trials)))
        return [trial(k, abs(float(one["ridge"]) - 3)) for one in choices for k in trials]


asked: list[tuple[int, list[int]]] = []


@pytest.mark.parametrize(
    ("values", "edges"), [((1.0, 2.5, 9.0), []), ((1.0, 2.0), ["ridge"]), ((4.0,), [])]
)
def test_the_best_parameters_are_chosen_on_another_trial(
    values: tuple[float, ...], edges: list[str]
) -> None:
    asked.clear()
    done = tuning.run(Imagined(folder=Path()), peer("x", "numpy"), TINY, {"ridge": values})
    best = min(values, key=lambda value: abs(value - 3))
    assert (done.parameters, done.edges) == ({"ridge": best}, edges)
    assert asked == ([(3, [-1])] if len(values) > 1 else []) + [(6, [0, 1])]
    assert len(done.trials) == 2


# ---- speed, the first decision, and lines of code


def test_what_is_done_once_in_a_stretch_counts_and_what_is_left_over_does_not() -> None:
    calls = [(1.0, 2.0), (3.0, 2.0), (1.0, 2.0), (3.0, 8.0), (9.0, 9.0)]
    assert [part.tolist() for part in _means(calls, 2)] == [[2.0, 2.0], [2.0, 5.0]]
    assert [part.tolist() for part in _means(calls[:2], 4)] == [[2.0, 2.0]]


def test_speed_is_of_one_request_and_of_a_batch() -> None:
    size = Size(dim=4, n_tasks=6, rank=1, warm_up=2, repetitions=3, least_seconds=0.001)
    parameters = tuning.points(adapters.peers()[RIDGE].grid)[0]
    speeds = measure({SHARED: {}, RIDGE: parameters, "cobandits ridge": {"wrong": 1.0}}, size)
    assert "wrong" in speeds["cobandits ridge"].failed
    for name in (SHARED, RIDGE):
        assert speeds[name].warm_up == 2
        assert len(speeds[name].single) == len(speeds[name].batch) == 3
        assert min(*speeds[name].single, *speeds[name].batch) > 0
        assert Speed(**json.loads(json.dumps(asdict(speeds[name])))).single == speeds[name].single


def test_the_first_decision_is_made_with_the_adapter_alone() -> None:
    module = adapters.module_of(RIDGE)
    parameters = json.dumps(tuning.points(adapters.peers()[RIDGE].grid)[0])
    assert first.main(module, RIDGE, parameters) > 0
    assert import_module(module).PEERS


SOURCE = '''
"""Text."""
LIST = (
    1,
)

class Base:
    """Says."""

    def decide(self):
        # a comment
        return helper()  # another


class Mine(Base):
    def learn(self):
        """Says
        more.
        """
        import library

        return LIST

def helper():
    return 1

def unused():
    return 2
'''


def test_lines_are_those_of_the_class_and_of_what_it_uses() -> None:
    assert code.lines_of(SOURCE, ["helper"]) == 2
    assert code.lines_of(SOURCE, ["Base"]) == 3 + 2
    assert code.lines_of(SOURCE, ["Mine"]) == 4 + 3 + 3 + 2


@pytest.mark.parametrize(
    "make",
    [
        AtRandom,
        partial(AtRandom, slow=1.0),
        partial(partial(AtRandom)),
        lambda setting: AtRandom(setting, slow=1.0),
    ],
)
def test_lines_are_found_however_a_learner_is_made(make: Callable[..., Learner]) -> None:
    assert code.user_lines(peer("x", "numpy", make=make)) == 8
    assert all(code.user_lines(one) > 5 for one in adapters.peers().values())


# ---- figures


def test_the_best_peer_is_of_another_library() -> None:
    figures = made_up()
    assert figures.others == ["exact one", "fast one"]
    assert figures.best("tiny") == SHARED
    best, ratio = figures.to_best("tiny") or ("", None)
    assert best == "exact one"
    assert ratio is not None
    assert ratio.value == 0.5
    assert ratio.half == 0  # the difference is the same in both trials
    assert ratio.lower


def test_the_order_is_that_of_the_geometric_mean() -> None:
    figures = made_up()
    assert figures.overall(SHARED) == pytest.approx(math.sqrt(12.25 / 10.25))
    assert figures.overall("fast one", SHARED) == 4  # on the one workload that it has
    assert figures.ranked[0] == SHARED
    assert figures.ranked[-1] == "fast one"
    assert figures.leaders == {"cobandits": SHARED, "other": "exact one", "another": "fast one"}


def test_targets_are_of_regret_and_of_speed() -> None:
    measured = {target.name: target for target in targets.targets(made_up())}
    values = [target.measured for target in measured.values()]
    assert values == pytest.approx([0.5, 0.5, 12.25 / 10.25, 100 / 80, 80 / 5])
    assert [target.met for target in measured.values()] == [True, True, False, False, True]
    assert "exact one" in list(measured)[3]  # the fast one is not exact


def test_a_tie_is_not_below_one() -> None:
    figures = made_up()
    tied = replace(figures, runs={**figures.runs, (SHARED, "tiny"): ran(9.0, 11.0)})
    assert not targets.targets(tied)[0].met


def test_losses_are_named_wherever_another_is_better() -> None:
    lost = losses.losses(made_up())
    text = "\n".join(lost)
    assert "Regret, last, relative to `shared`: exact one (0.84" in text
    assert "cobandits ridge (0." not in text  # its interval holds a tie
    assert "One decision with its update: 3 of 3 need less than its 100 µs, fast one" in text
    assert "all tasks at once: 2 of 3" in text
    assert "Lines of user code: 1 of 3 need less than its 9, exact one least with 8." in text
    assert "tiny" not in text.partition("One decision")[0]


def test_where_nothing_is_lost_the_page_says_so() -> None:
    figures = made_up()
    alone = replace(figures, peers={SHARED: figures.peers[SHARED]}, speeds={}, lines={})
    alone = replace(alone, runs={key: run for key, run in figures.runs.items() if key[0] == SHARED})
    assert losses.losses(alone) == []
    assert targets.targets(alone) == []


# ---- the page and the pictures


def test_the_page_has_all_of_it() -> None:
    text = page.page(
        made_up(), facts={"cpu": "some"}, days={"2026-01-02"}, pictures=[("a.svg", "A")]
    )
    assert "Run: 2026-01-02. cpu: some. Versions: another 3.0" in text
    assert "3 of 5 hold" in text
    assert "| cobandits shared | **5 ± 13** | 12.2 ± 3.2 | 1.09 |" in text
    assert "| fast one | 20 ± 25 | more than 1,200 s | 4 |" in text
    assert "| at random | 20 | 20 |  |" in text
    assert "| tiny | exact one |" not in text
    assert "| T=6 r=1 | exact one | 0.50 ± 0 |" in text
    assert "ridge 3*" in text
    assert "- exact one: ridge of 1, 2, 3." in text
    assert "| that one | third 4.0 | it has no arms |" in text
    assert "Failed: other, install: no wheel" in text
    assert "- fast one: is quick." in text
    assert "![A](a.svg)" in text
    assert "make bench-peers" in text
    assert ">>>" not in text  # documentation is tested


def test_the_readme_gets_the_short_table_between_its_markers() -> None:
    text = page.with_short("a\n<!-- peers -->\nold\n<!-- /peers -->\nb", made_up())
    assert text.startswith("a\n<!-- peers -->\n| ")
    assert text.endswith("|\n<!-- /peers -->\nb")
    assert "old" not in text
    assert "| **cobandits shared** | 1 | 100 | 9 |" in text
    assert "| exact one | 1.29 | 80 | 8 |" in text
    assert page.with_short("no markers", made_up()) == "no markers"


def test_pictures_show_the_best_of_each_library() -> None:
    figures = made_up()
    [axes] = pictures.by_workload(figures).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["T=6 r=1", "last"]
    legend = axes.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [SHARED, "exact one", "fast one"]
    [axes] = pictures.by_time(figures).axes
    assert {text.get_text() for text in axes.texts} == {SHARED, "exact one", "fast one"}
    assert len(axes.get_lines()) == 4
    assert axes.get_xscale() == axes.get_yscale() == "log"


# ---- the tool


def test_the_tool_runs_what_is_named_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    size = Size(dim=4, n_tasks=6, rank=1, warm_up=1, repetitions=2, least_seconds=0.001)
    tiny = Scale(workloads={"tiny": TINY}, most_values=2, size=size)
    few = {name: one for name, one in adapters.peers().items() if name in (SHARED, RIDGE)}
    monkeypatch.setattr(Scale, "quick", lambda: tiny)
    monkeypatch.setattr(adapters, "peers", lambda: few)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.chdir(tmp_path)
    tool.main(["--quick", "--jobs", "2"])
    folder = tmp_path / collect.FOLDER
    text = (folder / "preview.md").read_text(encoding="utf-8")
    assert "not run" not in text
    assert "5 of 5 hold" not in text.partition("## Targets")[0]
    assert (folder / "peers-regret.svg").exists()
    assert (folder / "peers-time.svg").exists()
    assert not (tmp_path / "docs").exists()
    files = {path: path.stat().st_mtime_ns for path in folder.glob("*.jsonl")}
    assert len(files) == 2 + 1 + 1  # two plays, one tuning, one of speed
    assert "tiny-by-hand-ridge-play" in capsys.readouterr().err
    tool.main(["--quick"])
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.jsonl")} == files
    assert (folder / "preview.md").read_text(encoding="utf-8") == text
    (folder / "preview.md").write_text("of a whole run")
    tool.main(["regret", "--quick"])
    assert (folder / "preview.md").read_text() == "of a whole run"


def test_only_what_is_asked_for_is_run() -> None:
    part = Asked(sections=("speed",), peers=("ridge", "vw"), workloads=("tiny",))
    assert part.takes("cobandits ridge", "tiny")
    assert not part.takes("cobandits ridge", "last")
    assert not part.takes(SHARED, "tiny")
    assert part.runner("speed").may_run
    assert not part.runner("regret").may_run


def test_a_section_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit, match="regret"):
        tool.main(["nothing"])
