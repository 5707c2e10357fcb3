"""Off-policy estimators with shrunken or normalised weights, own models, and values per task."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t as student

from cobandits.errors import CobanditsError
from cobandits.evaluation import METHODS, Method, Weighed, evaluate, evaluate_weighed, weigh
from cobandits.evaluation.shrinkage import Shrunken, shrunk, strengths
from cobandits.logs import Log

Floats = NDArray[np.floating]

K, T, D = 4, 3, 2
SHRUNKEN: tuple[Shrunken, ...] = ("switch-dr", "dros", "sgdr")


def logged(n: int, seed: int, sharpness: float = 1.0) -> tuple[Log, Floats, Floats, Floats]:
    """Return a log, a target (n, K), a wrong model of rewards (n, K) and the true means."""
    rng = np.random.default_rng([3, seed])
    arms = rng.standard_normal((n, K, D))
    means = arms @ np.array([1.0, -0.5]) + 0.5
    logits = sharpness * rng.standard_normal((n, K))
    logging = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    wanted = np.exp(means) / np.exp(means).sum(axis=1, keepdims=True)
    chosen = (logging.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)
    rows = np.arange(n)
    log = Log(
        tasks=rng.integers(T, size=n),
        arms=arms,
        chosen=chosen,
        probabilities=logging[rows, chosen],
        rewards=means[rows, chosen] + 0.5 * rng.standard_normal(n),
    )
    return log, wanted, 0.7 * means + 0.3, means


# ---- by definition, decision by decision


def weight(method: str, w: float, parameter: float) -> float:
    """Return a weight as the papers and the Open Bandit Pipeline define it."""
    if method == "switch-dr":  # Wang, Agarwal and Dudik 2017, with <= as in OBP
        return w if w <= parameter else 0.0
    if method == "dros":  # Su, Dimakopoulou, Krishnamurthy and Dudik 2020
        return w if math.isinf(parameter) else parameter * w / (w * w + parameter)
    return w / (1 - parameter + parameter * w)  # Metelli, Russo and Restelli 2021


def by_definition(method: str, log: Log, target: Floats, model: Floats, parameter: float) -> float:
    n, terms = len(log), []
    ratios = [float(target[i, log.chosen[i]] / log.probabilities[i]) for i in range(n)]
    for i, ratio in enumerate(ratios):
        y, q = float(log.rewards[i]), float(model[i, log.chosen[i]])
        base = math.fsum(target[i, k] * model[i, k] for k in range(K))
        normal = ratio * n / math.fsum(ratios)
        terms.append(
            {
                "ips": ratio * y,
                "snips": normal * y,
                "dm": base,
                "dr": base + ratio * (y - q),
                "sndr": base + normal * (y - q),
            }.get(method, base + weight(method, ratio, parameter) * (y - q))
        )
    return math.fsum(terms) / n


PARAMETERS: dict[Method, tuple[float, ...]] = {
    "switch-dr": (0.0, 0.7, 3.0, math.inf),
    "dros": (0.0, 0.1, 5.0, 1e4, math.inf),
    "sgdr": (0.0, 0.1, 0.5, 0.9),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_the_definitions(method: Method, seed: int) -> None:
    log, target, model, _ = logged(300, seed)
    for parameter in PARAMETERS.get(method, (math.nan,)):
        given: dict[Method, float] = {} if math.isnan(parameter) else {method: parameter}
        found = evaluate(target, log, methods=(method,), predictions=model, parameters=given)
        answer = by_definition(method, log, target, model, parameter)
        assert found[method].value == pytest.approx(answer, abs=1e-12, rel=1e-12)
        assert found[method].parameter == given.get(method)


def test_the_ends_of_shrinking_are_dr_and_the_model() -> None:
    log, target, model, _ = logged(200, seed=0)
    plain = evaluate(target, log, predictions=model)
    none: dict[Method, float] = {"switch-dr": math.inf, "dros": math.inf, "sgdr": 0.0}
    same = evaluate(target, log, methods=SHRUNKEN, predictions=model, parameters=none)
    for method in SHRUNKEN:
        assert same[method].value == plain["dr"].value
        assert same[method].high == plain["dr"].high
        assert same[method].cautions == plain["dr"].cautions
    all_of_it: dict[Method, float] = {"switch-dr": 0.0, "dros": 0.0}
    model_alone = evaluate(
        target, log, methods=("switch-dr", "dros"), predictions=model, parameters=all_of_it
    )
    for name in all_of_it:
        assert model_alone[name].value == pytest.approx(plain["dm"].value, rel=1e-12)


def test_weights_of_mean_one_need_no_normalising() -> None:
    log, target, model, _ = logged(200, seed=1)
    scaled = Log(
        tasks=log.tasks,
        arms=log.arms,
        chosen=log.chosen,
        probabilities=0.5 * log.probabilities,
        rewards=log.rewards,
    )
    one, other = (
        evaluate(target, each, methods=("sndr",), predictions=model)["sndr"]
        for each in (log, scaled)
    )
    for end in ("value", "low", "high"):
        assert getattr(one, end) == pytest.approx(getattr(other, end), rel=1e-12)


def test_the_interval_of_sndr_is_that_of_a_jackknife() -> None:
    """The delta method and leaving out one decision agree to the order of 1 / n."""
    log, target, model, _ = logged(400, seed=2)
    value = evaluate(target, log, methods=("sndr",), predictions=model)["sndr"]
    w = target[np.arange(400), log.chosen] / log.probabilities
    base = np.sum(target * model, axis=1)
    moved = w * (log.rewards - model[np.arange(400), log.chosen])
    without = np.array(
        [
            np.delete(base, i).mean() + np.delete(moved, i).sum() / np.delete(w, i).sum()
            for i in range(400)
        ]
    )
    error = math.sqrt(399) * without.std()
    assert value.high - value.value == pytest.approx(student.ppf(0.975, 399) * error, rel=0.03)


# ---- the choice of the parameter


@pytest.mark.parametrize("method", SHRUNKEN)
@pytest.mark.parametrize("sharpness", [0.2, 1.0, 3.0])
def test_the_parameter_has_the_least_estimated_error(method: Shrunken, sharpness: float) -> None:
    """Estimated as in OBP with ``tuning_method="mse"`` and without the bias's upper bound."""
    log, target, model, _ = logged(150, 4, sharpness)
    w = target[np.arange(150), log.chosen] / log.probabilities
    chosen = evaluate(target, log, methods=(method,), predictions=model)[method]
    errors = {}
    for parameter in strengths(method, w):
        terms, gaps = [], []
        for i in range(150):
            q, small = model[i, log.chosen[i]], weight(method, w[i], parameter)
            terms.append(target[i] @ model[i] + small * (log.rewards[i] - q))
            gaps.append((w[i] - small) * (log.rewards[i] - q))
        errors[float(parameter)] = np.var(terms) / 150 + np.mean(gaps) ** 2
    assert chosen.parameter is not None
    assert errors[chosen.parameter] == pytest.approx(min(errors.values()), rel=1e-9)


@pytest.mark.parametrize("method", SHRUNKEN)
def test_candidates_run_from_all_weights_to_few(method: Shrunken) -> None:
    w = np.random.default_rng(1).exponential(size=500) ** 3
    w[:50] = 0.0
    found = [shrunk(method, w, p) for p in strengths(method, w)]
    np.testing.assert_array_equal(found[0], w)
    spread = [float(np.sum(x**2)) for x in found]
    assert all(a >= b for a, b in itertools.pairwise(spread))
    assert spread[-1] < 0.1 * spread[0]
    assert all((x >= 0).all() and (x <= np.maximum(w, 1)).all() for x in found)


@pytest.mark.parametrize("method", SHRUNKEN)
def test_a_log_without_overlap_leaves_all_weights(method: Shrunken) -> None:
    candidates = strengths(method, np.zeros(3))
    np.testing.assert_array_equal(shrunk(method, np.zeros(3), candidates[-1]), 0)


def test_shrinking_helps_where_weights_are_large_and_never_hurts_much() -> None:
    """Over 60 logs of wild weights the squared error falls; of tame ones it at most doubles.

    These logs are others than those that the rule was chosen on. How much it falls is decided
    by the few logs with the largest weights, so no share is claimed.
    """
    errors: dict[tuple[float, str], list[float]] = {}
    for seed in range(60):
        for sharpness in (0.2, 3.0):
            log, target, model, means = logged(800, 100 + seed, sharpness)
            truth = float(np.mean(np.sum(target * means, axis=1)))
            methods: tuple[Method, ...] = ("dr", *SHRUNKEN)
            for m, v in evaluate(target, log, methods=methods, predictions=model).items():
                errors.setdefault((sharpness, m), []).append((v.value - truth) ** 2)
    mean = {key: float(np.mean(found)) for key, found in errors.items()}
    for method in SHRUNKEN:
        assert mean[3.0, method] < mean[3.0, "dr"], (method, mean)
        assert mean[0.2, method] < 2 * mean[0.2, "dr"], (method, mean)


@pytest.mark.parametrize("method", ["sndr", *SHRUNKEN])
def test_consistency(method: Method) -> None:
    """With 16 times the decisions the error falls to about a quarter, though the model is wrong."""
    found = []
    for n in (200, 3200):
        off = []
        for seed in range(30):
            log, target, model, means = logged(n, 200 + seed)
            truth = float(np.mean(np.sum(target * means, axis=1)))
            value = evaluate(target, log, methods=(method,), predictions=model)[method]
            off.append(value.value - truth)
        found.append(float(np.sqrt(np.mean(np.square(off)))))
    assert found[1] < 0.5 * found[0]


def test_a_chosen_parameter_is_told_with_the_bias() -> None:
    log, target, _, means = logged(800, seed=5, sharpness=3.0)
    values = evaluate(target, log, methods=SHRUNKEN, predictions=means)
    w = target[np.arange(800), log.chosen] / log.probabilities
    for method in SHRUNKEN:
        assert values[method].parameter in strengths(method, w)
        assert any("leaves out a bias of about" in text for text in values[method].cautions)


# ---- own models, values per task, parts


def test_an_own_model_that_knows_the_means_is_nearly_exact() -> None:
    log, target, _, means = logged(2000, seed=6)
    truth = float(np.mean(np.sum(target * means, axis=1)))
    values = evaluate(target, log, methods=METHODS, predictions=means)
    assert values["dm"].value == pytest.approx(truth, rel=1e-12)
    doubly: tuple[Method, ...] = ("dr", "sndr", *SHRUNKEN)
    for method in doubly:
        assert abs(values[method].value - truth) < 0.1


def test_predictions_of_arms_that_are_never_chosen_may_be_missing() -> None:
    log, target, model, _ = logged(50, seed=7)
    others = np.arange(K) != log.chosen[:, None]
    never = others & (np.arange(K) == (log.chosen[:, None] + 1) % K)
    kept = np.where(never, 0.0, target)
    kept /= kept.sum(axis=1, keepdims=True)
    whole = evaluate(kept, log, predictions=model)
    assert whole == evaluate(kept, log, predictions=np.where(never, np.nan, model))


def test_tasks_are_evaluated_by_their_own_decisions() -> None:
    """Where the model is given, a task's value is that of a log with its decisions alone."""
    log, target, model, _ = logged(400, seed=8)
    fixed: dict[Method, float] = {"switch-dr": 2.0, "dros": 5.0, "sgdr": 0.1}
    found = evaluate_weighed(weigh(target, log, model), methods=METHODS, parameters=fixed)
    assert set(found.tasks) == {0, 1, 2}
    for task, values in found.tasks.items():
        mine = log.tasks == task
        alone = evaluate(
            target[mine],
            log.select(mine),
            methods=METHODS,
            predictions=model[mine],
            parameters=fixed,
        )
        for method, value in values.items():
            assert value.n == mine.sum()
            for end in ("value", "low", "high"):
                expected = getattr(alone[method], end)
                assert getattr(value, end) == pytest.approx(expected, rel=1e-9)


def test_values_per_task_average_to_the_whole() -> None:
    log, target, _, _ = logged(300, seed=9)
    found = evaluate_weighed(weigh(target, log), methods=("ips", "dm", "dr"), rng=0)
    counts = np.bincount(log.tasks) / len(log)
    for method, value in found.overall.items():
        by_task = [found.tasks[t][method].value for t in range(T)]
        assert counts @ by_task == pytest.approx(value.value, rel=1e-9)
        assert all(np.isfinite(found.tasks[t][method].high) for t in range(T))


def test_a_task_of_one_decision_or_without_overlap_has_no_bounds() -> None:
    log, target, model, _ = logged(60, seed=10)
    tasks = np.where(np.arange(60) == 0, "once", np.where(np.arange(60) < 20, "away", "many"))
    target[1:20] = (np.arange(K) == (log.chosen[1:20, None] + 1) % K).astype(float)
    named = Log(
        tasks=tasks,
        arms=log.arms,
        chosen=log.chosen,
        probabilities=log.probabilities,
        rewards=log.rewards,
    )
    for own in (model, None):
        found = evaluate_weighed(weigh(target, named, own), methods=METHODS, rng=0).tasks
        assert all(math.isinf(value.high) for value in found["once"].values())
        assert math.isnan(found["away"]["snips"].value)
        assert any("never chooses" in text for text in found["away"]["ips"].cautions)
        assert all(np.isfinite(value.high) for value in found["many"].values())


def test_parts_are_as_the_whole() -> None:
    log, target, model, _ = logged(101, seed=11)
    whole = evaluate_weighed(weigh(target, log, model), methods=METHODS)
    cuts = [slice(0, 40), slice(40, 41), slice(41, 101)]
    parts = [weigh(target[cut], log.select(cut), model[cut]) for cut in cuts]
    assert evaluate_weighed(Weighed.joined(parts), methods=METHODS) == whole


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: evaluate(a[1], a[0], predictions=a[2][:, :2]), r"predictions \(n, K\)"),
        (lambda a: evaluate(a[1], a[0], predictions=a[2] * np.nan), "must be finite"),
        (lambda a: evaluate(a[1], a[0], parameters={"dr": 1.0}), "dr has no parameter"),
        (lambda a: evaluate(a[1], a[0], parameters={"sgdr": 1.5}), "from 0 to 1, got 1.5"),
        (lambda a: evaluate(a[1], a[0], parameters={"dros": -1.0}), "from 0 to inf"),
    ],
)
def test_misuse(call: Callable[[tuple[Log, Floats, Floats, Floats]], object], message: str) -> None:
    with pytest.raises(CobanditsError, match=message):
        call(logged(30, seed=0))
