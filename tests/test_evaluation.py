"""Off-policy evaluation: exact cases, then bias, spread and coverage over many logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import binom

from cobandits.environments import Synthetic
from cobandits.errors import CobanditsError, ConfigurationError
from cobandits.estimate import Estimate
from cobandits.estimators import AltGDMin, Estimator, Independent
from cobandits.estimators.base import HistoryWriter, Solution, solved_directly
from cobandits.evaluation import Method, Value, collect, evaluate
from cobandits.logs import Log, LogWriter
from cobandits.policies import Oracle, Policy, Random, Ridge, Thompson
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
METHODS: tuple[Method, ...] = ("ips", "snips", "dm", "dr")
WEIGHTED: tuple[Method, ...] = ("ips", "snips", "dr")

D, T, K, NOISE = 3, 4, 3, 0.5
_DRAWN = np.random.default_rng(5)
THETA = _DRAWN.standard_normal((D, 2)) @ _DRAWN.standard_normal((2, T)) / 1.5
OTHER = THETA + 0.7 * _DRAWN.standard_normal((D, T))


@dataclass(frozen=True, eq=False)
class Known(Estimator):
    """A model that knows theta, and fits nothing."""

    name: ClassVar[str] = "known"
    theta: Floats  # (d, T)

    def _fit(
        self, tasks: TaskData, start: Estimate | None, rng: RandomSource, history: HistoryWriter
    ) -> Solution:
        return solved_directly(
            np.eye(tasks.dim), self.theta[:, np.array(tasks.labels)], 0.0, history
        )


class Fixed(Policy):
    """Does not learn."""

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        """Learn nothing."""


class Softmax(Fixed):
    """Chooses by the exponential of what it believes the arms to be worth."""

    name = "softmax"

    def __init__(self, theta: Floats, temperature: float) -> None:
        super().__init__(dim=theta.shape[0], n_tasks=theta.shape[1])
        self.theta, self.temperature = theta, temperature

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        values = np.einsum("nkd,dn->nk", arms, self.theta[:, tasks])
        return np.asarray(softmax(values / self.temperature, axis=1))


class Epsilon(Fixed):
    """Takes the arm with the largest first feature, or sometimes any."""

    name = "epsilon"

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        best = arms[:, :, 0] == arms[:, :, :1].max(axis=1)
        return np.asarray(0.5 * best + 0.5 / arms.shape[1])


TARGET = Softmax(OTHER, temperature=0.5)
RANDOM = Random(dim=D, n_tasks=T)


def requests(n: int, rng: np.random.Generator) -> tuple[Codes, Floats, Floats]:
    """Draw tasks (n,), arms (n, K, d) and their expected rewards (n, K)."""
    tasks = rng.integers(T, size=n)
    arms = rng.standard_normal((n, K, D))
    return tasks, arms, np.einsum("nkd,dn->nk", arms, THETA[:, tasks])


def drawn_log(
    logger: Policy, n: int, seed: int, *, noise: float = NOISE, learn_every: int = 0
) -> Log:
    """Draw a log; with ``learn_every``, its policy learns after so many decisions."""
    rng = np.random.default_rng([7, seed])
    writer = LogWriter()
    for size in [learn_every] * (n // learn_every) if learn_every else [n]:
        tasks, arms, means = requests(size, rng)
        decisions = logger.decide(tasks, arms, rng)
        rewards = means[np.arange(size), decisions.chosen] + noise * rng.standard_normal(size)
        writer.add(tasks, arms, decisions, rewards)
        if learn_every:
            logger.learn(tasks, arms, decisions, rewards)
    return writer.log()


def true_value(target: Policy, n: int = 400_000) -> tuple[float, float]:
    """Return the expected reward of a policy and the standard error of that."""
    tasks, arms, means = requests(n, np.random.default_rng(11))
    earned = np.sum(target.probabilities(tasks, arms) * means, axis=1)
    return float(earned.mean()), float(earned.std() / np.sqrt(n))


# ---- exact cases


def small_log() -> tuple[Log, Floats]:
    log = Log(
        tasks=np.zeros(3, np.int64),
        arms=np.tile([[1.0], [2.0]], (3, 1, 1)),
        chosen=np.array([0, 1, 1]),
        probabilities=np.array([0.5, 0.5, 0.25]),
        rewards=np.array([1.0, 2.0, 4.0]),
    )
    return log, np.array([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])


def test_an_example_by_hand() -> None:
    """Weights 2, 1, 3; the model says 2 and 4, so the target expects 2, 3, 3.5."""
    log, target = small_log()
    values = evaluate(target, log, estimator=Known(np.array([[2.0]])))
    assert values["ips"].value == pytest.approx((2 + 2 + 12) / 3)
    assert values["snips"].value == pytest.approx(16 / 6)
    assert values["dm"].value == pytest.approx((2 + 3 + 3.5) / 3)
    assert values["dr"].value == pytest.approx((0 + 1 + 3.5) / 3)
    assert values["ips"].effective_n == values["dr"].effective_n == pytest.approx(36 / 14)
    t = 4.302652730  # Student's, 2 degrees of freedom, 97.5 %
    errors = {
        "ips": np.sqrt(100 / 3 / 3),
        "snips": np.sqrt((100 + 4 + 144) / 9 * 3 / 2) / 6,
        "dm": np.std([2, 3, 3.5], ddof=1) / np.sqrt(3),  # the jackknife of a mean
        "dr": np.std([0, 1, 3.5], ddof=1) / np.sqrt(3),
    }
    for method, error in errors.items():
        value = {str(name): v for name, v in values.items()}[method]
        assert value.high - value.value == pytest.approx(t * error)
        assert value.value - value.low == pytest.approx(t * error)


def test_level_widens_the_interval() -> None:
    log, target = small_log()
    narrow, wide = (
        evaluate(target, log, methods=("ips",), level=level)["ips"] for level in (0.5, 0.99)
    )
    assert wide.low < narrow.low < narrow.value == wide.value < narrow.high < wide.high


@pytest.mark.parametrize("logger", [RANDOM, TARGET, Epsilon(dim=D, n_tasks=T)])
def test_the_logging_policy_is_worth_the_mean_reward(logger: Policy) -> None:
    log = drawn_log(logger, 200, seed=0)
    values = evaluate(logger, log)
    assert values["ips"].value == pytest.approx(log.rewards.mean(), rel=1e-12)
    assert values["snips"].value == pytest.approx(log.rewards.mean(), rel=1e-12)
    assert values["ips"].effective_n == pytest.approx(200)
    assert values["ips"].cautions == ()


def test_single_precision_arms_do_not_round_rewards() -> None:
    log = drawn_log(RANDOM, 200, seed=0)
    assert isinstance(log.arms, np.ndarray)
    single = replace(log, arms=log.arms.astype(np.float32))
    assert evaluate(RANDOM, single)["ips"].value == pytest.approx(log.rewards.mean(), rel=1e-12)


@given(st.floats(-50, 50), st.floats(0.1, 1.0), st.integers(0, 10))
def test_symmetries(shift: float, scale: float, seed: int) -> None:
    log = drawn_log(RANDOM, 60, seed)
    before = evaluate(TARGET, log, methods=("ips", "snips"))
    shifted = evaluate(TARGET, replace(log, rewards=log.rewards + shift), methods=("snips",))
    scaled = replace(log, probabilities=scale * log.probabilities)
    after = evaluate(TARGET, scaled, methods=("ips", "snips"))
    for end in ("value", "low", "high"):
        s = getattr(before["snips"], end)
        assert getattr(shifted["snips"], end) == pytest.approx(s + shift, abs=1e-9)
        assert getattr(after["snips"], end) == pytest.approx(s, abs=1e-9)
        i = getattr(before["ips"], end)
        assert getattr(after["ips"], end) == pytest.approx(i / scale, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_the_log_does_not_matter(method: Method) -> None:
    """Up to the folds, which a model that is given does not depend on."""
    log = drawn_log(RANDOM, 80, seed=1)
    order = np.random.default_rng(0).permutation(80)
    one, other = (
        evaluate(TARGET, each, methods=(method,), estimator=Known(OTHER))[method]
        for each in (log, log.select(order))
    )
    assert one.value == pytest.approx(other.value, rel=1e-12)


def test_a_model_that_says_nothing_leaves_inverse_propensity() -> None:
    log = drawn_log(RANDOM, 100, seed=2)
    values = evaluate(TARGET, log, estimator=Known(np.zeros((D, T))))
    for end in ("value", "low", "high"):
        assert getattr(values["dr"], end) == pytest.approx(getattr(values["ips"], end))
    assert values["dm"].value == 0


@pytest.mark.parametrize("estimator", [Known(THETA), None, Independent(ridge=0.0)])
def test_a_right_model_without_noise_has_no_error(estimator: Estimator | None) -> None:
    log = drawn_log(RANDOM, 200, seed=3, noise=0.0)
    assert isinstance(log.arms, np.ndarray)
    means = np.einsum("nkd,dn->nk", log.arms, THETA[:, log.codes])
    earned = np.sum(TARGET.probabilities(log.codes, log.arms) * means, axis=1).mean()
    values = evaluate(TARGET, log, methods=("dm", "dr"), estimator=estimator)
    assert values["dm"].value == pytest.approx(earned, rel=1e-6)
    assert values["dr"].value == pytest.approx(earned, rel=1e-6)


def test_the_model_never_saw_the_row_that_it_corrects() -> None:
    seen: list[TaskData] = []

    class Spy(Known):
        def fit(self, tasks: TaskData, **_: Any) -> Estimate:
            seen.append(tasks)
            return super().fit(tasks)

    log = drawn_log(RANDOM, 50, seed=4)
    evaluate(TARGET, log, methods=("dr",), estimator=Spy(THETA))
    counts = np.zeros(50)
    for tasks in seen:
        counts += np.isin(log.rewards, getattr(tasks, "rewards"))  # noqa: B009 - of rows alone
    assert len(seen) == 5
    assert (counts == 4).all()  # each row is held out once


def test_probabilities_do_as_the_policy_that_gives_them() -> None:
    log = drawn_log(RANDOM, 100, seed=5)
    one = evaluate(TARGET, log)
    assert one == evaluate(TARGET.probabilities(log.codes, log.arms), log)


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    log = drawn_log(RANDOM, 101, seed=6)
    whole = evaluate(TARGET, log)
    monkeypatch.setattr("cobandits.evaluation.weighing._NUMBERS", 2000)
    for method, value in evaluate(TARGET, log).items():
        assert value.value == pytest.approx(whole[method].value, rel=1e-12)


def test_a_method_gives_the_same_whatever_the_others() -> None:
    log = drawn_log(RANDOM, 100, seed=7)
    together = evaluate(TARGET, log, rng=3)
    for method in METHODS:
        assert evaluate(TARGET, log, methods=(method,), rng=3) == {method: together[method]}


def test_labels_are_numbered_for_the_policy() -> None:
    log = drawn_log(RANDOM, 100, seed=8)
    names = np.array(["d", "c", "b", "a"])[log.tasks]
    labelled = replace(log, tasks=names)
    first_met = [np.flatnonzero(log.tasks == "dcba".index(x))[0] for x in labelled.labels]
    columns = log.tasks[first_met]
    moved = Softmax(OTHER[:, columns], temperature=0.5)
    a, b = evaluate(TARGET, log, methods=("ips",)), evaluate(moved, labelled, methods=("ips",))
    assert a["ips"].value == pytest.approx(b["ips"].value, rel=1e-12)


# ---- collecting


def test_collecting_is_what_the_environment_paid() -> None:
    environment = Synthetic(dim=3, n_tasks=4, rank=1, n_arms=3, unequal=True)
    log = collect(Random(dim=3, n_tasks=4), environment, 20, seed=2)
    rounds = list(environment.rounds(20, seed=2))
    assert log.tasks.tolist() == [t for asked in rounds for t in asked.tasks.tolist()]
    rewards = np.concatenate([asked.rewards for asked in rounds])
    np.testing.assert_array_equal(log.rewards, rewards[np.arange(len(log)), log.chosen])


def test_a_policy_learns_only_if_it_may() -> None:
    environment = Synthetic(dim=3, n_tasks=4, rank=1, n_arms=3)
    still, moved = Ridge(dim=3, n_tasks=4), Ridge(dim=3, n_tasks=4)
    assert (collect(still, environment, 20, 1, learning=False).probabilities == 1 / 3).all()
    assert (collect(moved, environment, 20, 1).probabilities[30:] == 1).all()
    assert not still.posteriors.means.any()
    with pytest.raises(ConfigurationError, match="rounds must be at least 1"):
        collect(moved, environment, 0, 1)
    informed = collect(Oracle(dim=3, n_tasks=4), environment, 20, 1)
    assert informed.rewards.mean() > 0


# ---- misuse, and what is odd but allowed


def never_first(n: int) -> Floats:
    return np.tile([0.0, 0.5, 0.5], (n, 1))


def always_first(n: int) -> Log:
    log = drawn_log(RANDOM, n, seed=0)
    return replace(log, chosen=np.zeros(n, np.int64), probabilities=np.ones(n))


LOG = drawn_log(RANDOM, 30, seed=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate(Random(dim=5, n_tasks=T), LOG), "expected arms of 5 features, got 3"),
        (lambda: evaluate(Random(dim=D, n_tasks=2), LOG), "make the policy for more tasks"),
        (lambda: evaluate(Oracle(dim=D, n_tasks=T), LOG), "only an environment knows"),
        (lambda: evaluate(np.ones((30, 2)), LOG), r"\(n, K\) = \(30, 3\), got \(30, 2\)"),
        (lambda: evaluate(np.ones((30, 3)), LOG), "at least 0 and sum to 1"),
        (lambda: evaluate(np.tile([1.5, -0.5, 0], (30, 1)), LOG), "decision 0 are"),
        (lambda: evaluate(np.full((30, 3), np.nan), LOG), "at least 0 and sum to 1"),
        (lambda: evaluate(TARGET, drawn_log(RANDOM, 1, 0)), "at least 2 decisions"),
        (
            lambda: evaluate(TARGET, replace(LOG, probabilities=np.full(30, 1e-300))),
            "check how the probabilities were logged",
        ),
        (lambda: evaluate(TARGET, LOG, level=1.0), "level must be between 0 and 1"),
        (lambda: evaluate(TARGET, LOG, methods=()), "some of ips, snips, dm, dr"),
        (lambda: evaluate(TARGET, LOG, methods=("dx",)), "some of ips"),  # type: ignore[arg-type]
        (lambda: evaluate(TARGET, LOG, methods="ips"), "a tuple of them"),  # type: ignore[arg-type]
        (lambda: evaluate(never_first(30), always_first(30)), "never chooses an arm that the log"),
        (lambda: evaluate(TARGET, LOG, estimator=AltGDMin(rank=9)), "rank must be from 1"),
    ],
)
def test_misuse_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(CobanditsError, match=message):
        call()


def test_without_overlap_only_the_model_speaks() -> None:
    value = evaluate(never_first(300), always_first(300), methods=("dm",))["dm"]
    assert abs(value.value) < 0.5  # the arms are alike, so any is worth 0
    assert any("the target chooses arm 1 in 50%" in caution for caution in value.cautions)


def test_a_single_arm_is_worth_the_mean_reward() -> None:
    assert isinstance(LOG.arms, np.ndarray)
    log = Log(
        tasks=LOG.tasks,
        arms=LOG.arms[:, :1],
        chosen=np.zeros(30, np.int64),
        probabilities=np.ones(30),
        rewards=LOG.rewards,
    )
    values = evaluate(Random(dim=D, n_tasks=T), log)
    for method in WEIGHTED:
        assert values[method].value == pytest.approx(LOG.rewards.mean())


@pytest.mark.parametrize("reward", [0.0, 5.0])
def test_equal_rewards(reward: float) -> None:
    """Self-normalised means are exact, and a constant feature makes the model exact too."""
    log = replace(LOG, rewards=np.full(30, reward), arms=np.ones_like(LOG.arms))
    values = evaluate(TARGET, log)
    assert values["snips"].value == pytest.approx(reward)
    assert values["snips"].high - values["snips"].low == pytest.approx(0, abs=1e-9)
    assert values["dm"].value == pytest.approx(reward, rel=1e-6)
    assert all(np.isfinite(value.high) for value in values.values())


@pytest.mark.parametrize("n", [2, 3, 5, 19])
def test_short_logs_have_wide_finite_intervals(n: int) -> None:
    values = evaluate(TARGET, drawn_log(RANDOM, n, seed=1))
    assert all(value.low <= value.value <= value.high for value in values.values())
    assert all(np.isfinite([value.low, value.high]).all() for value in values.values())


def cautions(value: Value) -> str:
    return "; ".join(value.cautions)


def test_cautions() -> None:
    few = evaluate(TARGET, drawn_log(RANDOM, 30, seed=0))
    assert "decisions of its own; log more" in cautions(few["ips"])
    many = drawn_log(RANDOM, 1000, seed=0)
    sound = evaluate(TARGET, many)
    assert [cautions(sound[method]) for method in WEIGHTED] == ["", "", ""]
    assert "only as good as its model" in cautions(sound["dm"])
    wrong = replace(many, probabilities=np.full(1000, 0.6))
    assert "the mean weight is" in cautions(evaluate(TARGET, wrong)["ips"])
    stopped = evaluate(TARGET, many, estimator=AltGDMin(rank=2, iterations=1))
    assert "the model's fit: limit" in cautions(stopped["dm"])
    assert "the model's fit: limit" in cautions(stopped["dr"])
    assert str(few["ips"]).startswith("ips: ")


def test_arms_that_the_log_hardly_chose_are_named() -> None:
    class Shy(Random):
        def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
            return np.tile([0.5, 0.498, 0.002], (len(tasks), 1))

    values = evaluate(RANDOM, drawn_log(Shy(dim=D, n_tasks=T), 2000, seed=0))
    for method in METHODS:
        assert "the target chooses arm 2 in 33% of the requests" in cautions(values[method])
        assert "arm 0" not in cautions(values[method])


# ---- over many logs


def pretrained() -> Thompson:
    """Return Thompson sampling that has learned a little, and is unsure of the rest.

    A surer one has probabilities so small that a log of 600 decisions seldom has the few
    with large weights, and no interval could know of them.
    """
    policy = Thompson(dim=D, n_tasks=T, scale=2.0)
    drawn_log(policy, 20, seed=99, learn_every=20)
    return policy


def repeated(
    log_of: Callable[[int], Log], n_logs: int, estimator: Estimator | None = None
) -> dict[Method, Floats]:
    """Return the value, low and high of each method over many logs, (logs, 3) each."""
    found: dict[Method, list[tuple[float, float, float]]] = {method: [] for method in METHODS}
    for seed in range(n_logs):
        for method, v in evaluate(TARGET, log_of(seed), estimator=estimator).items():
            found[method].append((v.value, v.low, v.high))
    return {method: np.array(rows) for method, rows in found.items()}


def check_bias(found: dict[Method, Floats], slack: float = 0.0) -> None:
    """Refute bias: 4 standard errors, so a false alarm has probability 6e-5 a method."""
    truth, truth_error = true_value(TARGET)
    for method, rows in found.items():
        error = np.hypot(rows[:, 0].std(ddof=1) / np.sqrt(len(rows)), truth_error)
        assert abs(rows[:, 0].mean() - truth) < 4 * error + slack * abs(truth), method


def check_coverage(found: dict[Method, Floats]) -> None:
    """Refute that coverage is below 93 % or above 97 %, at level 1e-3 a side and method."""
    truth, _ = true_value(TARGET)
    for method, rows in found.items():
        covered = int(np.sum((rows[:, 1] <= truth) & (truth <= rows[:, 2])))
        least, most = binom.ppf(1e-3, len(rows), 0.93), binom.ppf(1 - 1e-3, len(rows), 0.97)
        assert least <= covered <= most, (method, covered)


def test_bias_spread_and_coverage_over_a_few_logs() -> None:
    model = Independent(ridge=0.0)
    found = repeated(lambda seed: drawn_log(RANDOM, 300, seed), 100, model)
    check_bias(found)
    check_coverage(found)
    spread = {method: rows[:, 0].std() for method, rows in found.items()}
    assert spread["dr"] < 0.8 * spread["ips"]


def test_doubly_robust_survives_a_wrong_model() -> None:
    """The direct method does not: it is off by what the model is."""
    found = repeated(lambda seed: drawn_log(RANDOM, 300, seed), 100, Known(-THETA))
    check_bias({"dr": found["dr"]})
    with pytest.raises(AssertionError, match="dm"):
        check_bias({"dm": found["dm"]})


LOGGERS: dict[str, Callable[[], Policy]] = {
    "random": lambda: RANDOM,
    "softmax": lambda: Softmax(THETA, temperature=2.0),
    "epsilon": lambda: Epsilon(dim=D, n_tasks=T),
    "thompson": pretrained,
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", LOGGERS)
def test_bias_spread_and_coverage(name: str) -> None:
    """With the default model. Thompson's probabilities are themselves off by about 1 %."""
    logger = LOGGERS[name]()
    found = repeated(lambda seed: drawn_log(logger, 600, seed), 400)
    check_bias(found, slack=0.01 if name == "thompson" else 0.0)
    check_coverage(found)
    spread = {method: rows[:, 0].std() for method, rows in found.items()}
    assert spread["dr"] < spread["ips"]


@pytest.mark.statistical
def test_bias_where_the_log_learns() -> None:
    """Weighted means stay unbiased, as long as the log goes on to try every arm.

    With a scale of 2 it does not: few logs then have the decisions that weigh most, and the
    means over 300 logs are off (docs/evaluation.md, limits).
    """

    def adaptive(seed: int) -> Log:
        policy = Thompson(dim=D, n_tasks=T, scale=8.0)  # so that no arm is ever ruled out
        return drawn_log(policy, 400, seed, learn_every=40)

    found = repeated(adaptive, 200)
    check_bias(found, slack=0.01)
