"""The state of the shared policy: saved, resumed to the last bit, refused, and relearned."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.decisions import Decisions
from cobandits.environments import Synthetic
from cobandits.errors import DataError, ModelFileError
from cobandits.estimate import Estimate
from cobandits.evaluation import collect, relearn
from cobandits.logs import Log, LogWriter
from cobandits.policies import Ridge, Shared
from cobandits.policies.shared import config
from tests.shared_states import (
    assert_same,
    content,
    full_counts,
    made,
    n_dropped,
    saved,
    state_of,
    thetas,
    write,
)
from tests.shared_trajectory import (
    ARMS,
    CHANGE,
    DIM,
    MOMENTS,
    TASKS,
    joined_late,
    late_request,
    moments,
    paid,
    play,
    played,
)

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

ROUNDS = 60  # that a resumed policy is followed for


def assert_goes_on(policy: Shared, path: Path, start: int, rounds: int = ROUNDS) -> Shared:
    """Save, load, and play with both; return the one that was loaded."""
    policy.save(path)
    resumed = Shared.load(path)
    assert_same(policy, resumed)
    for n in range(start, start + rounds):
        for a, b in zip(play(policy, n), play(resumed, n), strict=True):
            np.testing.assert_array_equal(a, b)
    assert_same(policy, resumed)
    return resumed


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_loaded_policy_goes_on_as_the_saved_one(tmp_path: Path, moment: str) -> None:
    start = moments()[moment]
    policy = played(start)
    before = policy.estimate
    resumed = assert_goes_on(policy, tmp_path / "policy.npz", start)
    assert resumed.estimate is not before
    assert bool(resumed.changes) == (start + ROUNDS > moments()["after a change"])
    assert [path.name for path in tmp_path.iterdir()] == ["policy.npz"]


@pytest.mark.parametrize(
    "setting", [{"explore": "always", "floor": 0.1}, {"explore": "never", "floor": 0}]
)
def test_settings_come_back(tmp_path: Path, setting: dict[str, Any]) -> None:
    resumed = assert_goes_on(played(9, **setting), tmp_path / "policy", 9, 20)
    assert (resumed.explore, resumed.floor) == (setting["explore"], setting["floor"])


def test_numbers_of_numpy_are_saved_too(tmp_path: Path) -> None:
    setting = {"dim": np.int64(DIM), "n_tasks": np.int32(TASKS), "floor": np.float64(0.3)}
    assert_goes_on(played(3, **setting), tmp_path / "policy", 3, 3)


@pytest.mark.parametrize("start", [4, 18, 30, CHANGE - 1])
def test_tasks_whose_rows_were_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    monkeypatch.setattr(config, "COMPRESSION", 2)  # so that there are too many rows
    monkeypatch.setattr(config, "ROW_BYTES", 1)
    monkeypatch.setattr(config, "POSTERIOR_BYTES", 1)
    policy = played(start, dim=8)
    assert (n_dropped(policy) > 0) == (start > 4)
    resumed = assert_goes_on(policy, tmp_path / "policy", start, CHANGE - start)
    assert len(saved(resumed).arrays["posteriors.directions"]) == 4
    assert len(saved(resumed).arrays["store.rows"]) <= 80
    assert n_dropped(resumed) > 0
    assert_goes_on(resumed, tmp_path / "policy", CHANGE, 20)


def test_tasks_that_came_when_there_was_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "COMPRESSION", 2)  # so that there are too many rows
    monkeypatch.setattr(config, "ROW_BYTES", 1)
    monkeypatch.setattr(config, "FEWEST_ROWS", 2)  # widths of a row: 12 rows
    policy = Shared(dim=DIM, n_tasks=TASKS)
    arms = np.random.default_rng(0).standard_normal((12, ARMS, DIM))
    policy.learn([0] * 12, arms, made([0] * 12), arms[:, 0, 0])
    policy.learn([1] * 12, arms, made([0] * 12), arms[:, 0, 1])
    arrays = saved(policy).arrays
    assert arrays["store.tasks"].tolist() == [0]
    assert arrays["store.dropped"].tolist() == [1]
    assert_goes_on(policy, tmp_path / "policy", 0, 10)


@pytest.mark.parametrize("moment", ["stored", "after a refit"])
def test_rows_stay_in_their_order_whether_they_are_known_to_be_sorted_or_not(
    tmp_path: Path, moment: str
) -> None:
    """Sums over rows round as their order wants it."""
    policy = played(moments()[moment])
    policy.save(tmp_path / "policy")
    ours, theirs = state_of(policy).store, state_of(Shared.load(tmp_path / "policy")).store
    is_sorted = ours.starts is not None
    assert is_sorted == (moment == "after a refit")
    assert theirs.starts is None
    every, longest = np.arange(len(ours.tasks)), int(ours.sizes.max())
    np.testing.assert_array_equal(ours.rows(every, longest), theirs.rows(every, longest))
    for one, other in ((ours, theirs), (ours.sorted(), theirs.sorted())):
        np.testing.assert_array_equal(one.flat[0], other.flat[0])
        np.testing.assert_array_equal(one.flat[1], other.flat[1])
    assert np.array_equal(theirs.sorted().flat[1], theirs.flat[1]) == is_sorted


def test_more_features_than_directions(tmp_path: Path) -> None:
    assert_goes_on(played(3, dim=270), tmp_path / "policy", 3, 3)


def test_a_policy_of_a_file_can_be_saved_again(tmp_path: Path) -> None:
    policy = played(moments()["pending"])
    assert len(saved(policy).arrays["pending.tasks"]) > 1
    policy.save(tmp_path / "one")
    Shared.load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_only_rows_in_use_are_saved() -> None:
    policy = played(moments()["middle"])
    arrays, state = saved(policy).arrays, state_of(policy)
    assert arrays["pending.rows"].shape == (state.n_pending, DIM + 2)
    assert state.store.used + state.n_pending < policy.rewards  # some were compressed
    assert arrays["store.rows"].shape == (state.store.used, DIM + 2)
    assert arrays["store.owners"].shape == (arrays["store.sizes"].sum(),)
    assert all(array.flags.c_contiguous for array in arrays.values())


# What is refused.


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "policy"
    played(moments()["middle"]).save(path)
    assert len(content(path).arrays["pending.tasks"]) > 2
    return path


def names() -> list[str]:
    """Return the arrays of a file, as they are known to be."""
    parts = {
        "state": "tasks counts full_counts",
        "store": "tasks sizes owners rows",
        "selector": "errors thetas places recent covariance mean alone_mean newcomers",
        "drift": "baseline",
        "task_drift": "table moments",
        "forgetting": "losses squares places thetas lines",
        "pending": "tasks rows squares expected",
        "prior": "coordinates covariance mean variances vectors feature_second_moment",
        "posteriors": "directions thetas noises means roots log_volumes",
        "estimate": "basis weights",
    }
    return [f"{part}.{name}" for part, held in parts.items() for name in held.split()]


def test_these_are_the_arrays(file: Path) -> None:
    others = ["drift.evidence_tasks", "drift.task_evidence", "store.dropped"]  # these are empty
    kept = ("tasks", "sizes", "owners", "rows", "dropped", "read", "thetas", "earlier", "latest")
    forgetful = [f"forgetful.{name}" for name in kept]  # tests/test_forgetful.py has these
    assert sorted(content(file).arrays) == sorted([*names(), *others, *forgetful, *LATER])


LATER = ("selector.calibration",)


@pytest.mark.parametrize("name", LATER)
def test_what_came_later_may_be_missing_but_not_wrong(
    tmp_path: Path, file: Path, name: str
) -> None:
    """The first files of this version have none; the next refit says it."""
    header, arrays = content(file)
    for wrong in damages(arrays[name]):
        write(tmp_path / "bad", header, {**arrays, name: wrong})
        with pytest.raises(ModelFileError, match=re.escape(name)):
            Shared.load(tmp_path / "bad")
    del arrays[name]
    header["arrays"].remove(name)
    write(tmp_path / "before", header, arrays)
    assert_goes_on(Shared.load(tmp_path / "before"), tmp_path / "after", moments()["middle"], 20)


def test_the_first_files_of_this_version_have_fewer_candidates(tmp_path: Path, file: Path) -> None:
    """None that leaves directions out: nothing is predicted until the next refit."""
    header, arrays = content(file)
    selector = header["selector"]
    del selector["hyperparameters"]["clear"], selector["noise_in_use"]
    arrays["selector.errors"] = arrays["selector.errors"][:4]
    arrays["selector.thetas"] = arrays["selector.thetas"][:, :3]
    del arrays["selector.newcomers"]
    header["arrays"].remove("selector.newcomers")
    write(tmp_path / "before", header, arrays)
    assert_goes_on(Shared.load(tmp_path / "before"), tmp_path / "after", moments()["middle"], 20)


@pytest.mark.parametrize(
    ("tasks", "evidence"), [([0, 0], [1.0, 1.0]), ([TASKS], [1.0]), ([0], []), ([0], [np.nan])]
)
def test_evidence_of_tasks_that_does_not_fit_is_refused(
    tmp_path: Path, file: Path, tasks: list[int], evidence: list[float]
) -> None:
    header, arrays = content(file)
    arrays["drift.evidence_tasks"] = np.array(tasks)
    arrays["drift.task_evidence"] = np.array(evidence, np.float64)
    write(tmp_path / "bad", header, arrays)
    with pytest.raises(ModelFileError, match=r"drift\..*evidence"):
        Shared.load(tmp_path / "bad")


def test_more_rows_that_are_pending_than_there_were_rewards_are_refused(
    tmp_path: Path, file: Path
) -> None:
    header, arrays = content(file)
    pending = {n: np.concatenate([a] * 100) for n, a in arrays.items() if n.startswith("pending.")}
    assert len(pending["pending.tasks"]) > header["state"]["seen"]
    write(tmp_path / "bad", header, {**arrays, **pending})
    with pytest.raises(ModelFileError, match=r"holds .*pending\."):
        Shared.load(tmp_path / "bad")


def spoiled(values: NDArray[Any], value: float) -> NDArray[Any]:
    copy = values.copy()
    copy.flat[-1] = value
    return copy


def damages(values: NDArray[Any]) -> list[NDArray[Any]]:
    """Return what an array must not be."""
    whole = values.dtype.kind == "i"
    return [
        values[..., :-1],
        np.concatenate([values, values[:1]]),
        values[None],
        values.astype(np.int32 if whole else np.float32),
        values.astype(complex),
        values.astype(str),
        *(
            [spoiled(values, -3), spoiled(values, 10**15)]
            if whole
            else [spoiled(values, np.nan), spoiled(values, np.inf)]
        ),
    ]


def test_tasks_that_are_not_different_are_refused(tmp_path: Path, file: Path) -> None:
    header, arrays = content(file)
    wrong = {**arrays, "state.tasks": spoiled(arrays["state.tasks"], arrays["state.tasks"][0])}
    write(tmp_path / "bad", header, wrong)
    with pytest.raises(ModelFileError, match=r"state\.tasks that are not different"):
        Shared.load(tmp_path / "bad")


@pytest.mark.parametrize("name", sorted({*names()} - {"state.tasks"}))  # any number is a task
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, file: Path, name: str) -> None:
    header, arrays = content(file)
    for wrong in damages(arrays[name]):
        write(tmp_path / "bad", header, {**arrays, name: wrong})
        with pytest.raises(ModelFileError, match="relearn its log"):
            Shared.load(tmp_path / "bad")
    del arrays[name]
    write(tmp_path / "bad", header, arrays)
    with pytest.raises(ModelFileError, match="not a whole cobandits shared-policy"):
        Shared.load(tmp_path / "bad")


NO_NUMBER = "a NaN or an infinite value in"
LEAST_NOISE = r"in noises, the least is 0\.\d+, above 0"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "posteriors.means",
            lambda a: a[:, :-1],
            r"holds posteriors.means of shape \(5, 4\).* expected \(5, 5\)",
        ),
        ("posteriors.roots", lambda a: spoiled(a, np.nan), f"{NO_NUMBER} posteriors.roots"),
        ("selector.thetas", lambda a: spoiled(a, np.nan), f"{NO_NUMBER} selector.thetas"),
        ("selector.thetas", lambda a: a[:4], "selector.places that are not those of 4 thetas"),
        ("selector.thetas", lambda a: a[:0], "selector.places that are not those of 0 thetas"),
        ("selector.places", lambda a: spoiled(a, a[0]), "that are not those of 5 thetas"),
        ("selector.places", lambda a: np.r_[a, -1], "selector.places of 6 slots, there are 5"),
        (
            "selector.thetas",
            lambda a: a[:, :2],
            r"selector.thetas of shape \(5, 2, 5\).* expected \(any, 4, 5\)",
        ),
        ("store.tasks", lambda a: spoiled(a, TASKS), "5 in store.tasks, which are below 5"),
        ("store.tasks", lambda a: spoiled(a, a[0]), "store.tasks that are not different"),
        ("store.sizes", lambda a: a + 1, "store.owners of shape"),
        ("store.sizes", lambda a: a[:-1], r"store.sizes of shape \(4,\).* expected \(5,\)"),
        ("store.dropped", lambda a: np.array([0]), "store.sizes above 0 of store.dropped"),
        ("store.dropped", lambda a: np.array([-3]), "-3 in store.dropped, the least is 0"),
        ("store.dropped", lambda a: np.array([TASKS]), "5 in store.dropped, which are below 5"),
        ("store.owners", lambda a: spoiled(a, TASKS), "5 in store.owners, which are below 5"),
        ("store.owners", np.zeros_like, "store.owners of rows that are not as many as"),
        ("store.rows", lambda a: a[1:], "holds store.rows of shape"),
        ("posteriors.thetas", lambda a: a[:, :-1], r"thetas of shape \(5, 4\).* \(5, 5\)"),
        ("posteriors.thetas", lambda a: spoiled(a, np.nan), f"{NO_NUMBER} posteriors.thetas"),
        ("posteriors.directions", lambda a: a[1:], r"means of shape \(5, 5\).* \(5, 4\)"),
        ("posteriors.directions", lambda a: a[:0], "0 directions, there are 5"),
        ("posteriors.noises", lambda a: spoiled(a, 0.0), rf"0.0 {LEAST_NOISE}"),
        ("posteriors.noises", lambda a: spoiled(a, -1.0), rf"-1.0 {LEAST_NOISE}"),
        ("posteriors.noises", lambda a: 1e-6 * a, rf"\de-0\d {LEAST_NOISE}"),
        ("pending.tasks", lambda a: spoiled(a, TASKS), "5 in pending.tasks, which are below 5"),
        ("pending.tasks", lambda a: spoiled(a, -1), "-1 in pending.tasks, the least is 0"),
        ("pending.tasks", lambda a: a[1:], "pending.(rows|squares) of shape"),
        ("pending.rows", lambda a: a[1:], "pending.rows of shape"),
        ("pending.rows", lambda a: a[:, 1:], "pending.rows of shape"),
        ("pending.squares", lambda a: a[1:], "pending.squares of shape"),
        ("pending.expected", lambda a: spoiled(a, np.inf), f"{NO_NUMBER} pending.expected"),
        ("pending.expected", lambda a: spoiled(a, 0.0), "0.0 in pending.expected"),
        ("pending.expected", lambda a: spoiled(a, -1.0), "-1.0 in pending.expected"),
        ("pending.squares", lambda a: spoiled(a, -1.0), "-1.0 in pending.squares"),
        ("state.counts", lambda a: spoiled(a, -1), "-1 in state.counts, the least is 0"),
        ("state.counts", lambda a: a + 1, r"counts of \d+ rewards, expected \d+"),
        ("state.full_counts", lambda a: spoiled(a, -1), "-1 in state.full_counts, the least is 0"),
        ("state.full_counts", lambda a: a + 1000, "state.full_counts above counts"),
        ("prior.variances", lambda a: spoiled(a, 0.0), "0.0 in prior.variances, .* above 0"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path,
    file: Path,
    name: str,
    change: Callable[[NDArray[Any]], NDArray[Any]],
    message: str,
) -> None:
    header, arrays = content(file)
    write(tmp_path / "bad", header, {**arrays, name: change(arrays[name])})
    with pytest.raises(ModelFileError, match=f"bad holds .*{message.removeprefix('holds ')}"):
        Shared.load(tmp_path / "bad")


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("setting", {"dim": 10**9}, "holds store.rows of"),
        ("setting", {"explore": "no"}, "ConfigurationError"),
        ("setting", {"horizon": 3}, "TypeError"),
        ("state", {"rewards": -1}, "-1 as state.rewards"),
        ("state", {"due": "soon"}, "ValueError"),
        ("state", {"changes": None}, "TypeError"),
        ("state", {"seen": -1}, "-1 as state.seen"),
        ("state", {"seen": 1}, "rewards, expected 1"),
        ("state", {"range": [0.0, float("inf")]}, "inf as state.range"),
        ("state", {"range": [0.0]}, "ValueError"),
        ("prior", {"noise": float("nan")}, "nan as prior.noise"),
        ("prior", {"noise": -1.0}, "-1.0 as prior.noise, the least is 0"),
        ("prior", {"offset": float("nan")}, "nan as prior.offset"),
        ("drift", {"evidence": float("inf")}, "inf as drift.evidence"),
        ("selector", {"hyperparameters": {}}, "KeyError"),
        ("selector", {"noise": -1.0}, "-1.0 as selector.noise, the least is 0"),
        ("selector", {"offset": float("inf")}, "inf as selector.offset"),
        ("estimate", {"status": {}}, "TypeError"),
        ("state", {"range": None}, "a range that says otherwise"),
        ("state", {"range": [5, -5]}, r"\(5.0, -5.0\) as state.range"),
        ("state", {"rewards": 1}, "1 as state.rewards, of which"),
    ],
)
def test_headers_that_do_not_fit_are_refused(
    tmp_path: Path, file: Path, part: str, change: dict[str, Any], message: str
) -> None:
    header, arrays = content(file)
    write(tmp_path / "bad", {**header, part: {**header[part], **change}}, arrays)
    with pytest.raises(ModelFileError, match=f"{message}.*relearn its log"):
        Shared.load(tmp_path / "bad")


@pytest.mark.parametrize(
    "part", ["setting", "state", "store", "selector", "drift", "pending", "prior", "estimate"]
)
def test_headers_that_lack_a_part_are_refused(tmp_path: Path, file: Path, part: str) -> None:
    header, arrays = content(file)
    del header[part]
    write(tmp_path / "bad", header, arrays)
    with pytest.raises(ModelFileError, match=r"not a whole .*KeyError.*relearn its log"):
        Shared.load(tmp_path / "bad")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 1}, "version 1; this release reads 'cobandits-shared-policy' version 5: up"),
        ({"version": 6}, "version 6; this release reads 'cobandits-shared-policy' version 5: up"),
        ({"format": "cobandits-estimate"}, r"holds a cobandits estimate, .* Estimate\.load"),
    ],
)
def test_files_of_another_kind_or_version_are_refused(
    tmp_path: Path, file: Path, change: dict[str, Any], message: str
) -> None:
    header, arrays = content(file)
    write(tmp_path / "bad", {**header, **change}, arrays)
    with pytest.raises(ModelFileError, match=message):
        Shared.load(tmp_path / "bad")


def test_truncated_and_altered_files_are_refused(tmp_path: Path, file: Path) -> None:
    path, whole = tmp_path / "bad", file.read_bytes()
    for end in range(0, len(whole), 211):
        path.write_bytes(whole[:end])
        with pytest.raises(ModelFileError, match="not a whole cobandits shared-policy"):
            Shared.load(path)
    rows = whole.index(content(file).arrays["store.rows"].tobytes())
    path.write_bytes(whole[:rows] + bytes([whole[rows] ^ 1]) + whole[rows + 1 :])
    with pytest.raises(ModelFileError, match="BadZipFile"):
        Shared.load(path)


def test_foreign_files_are_refused(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "other"
    with pytest.raises(ModelFileError, match="there is no file"):
        Shared.load(path)
    Estimate(basis=np.eye(2), weights=np.eye(2), labels=("a", "b")).save(path)
    with pytest.raises(ModelFileError, match="holds a cobandits estimate, not a shared-policy"):
        Shared.load(path)
    with pytest.raises(ModelFileError, match=r"a cobandits shared-policy, .* Shared\.load"):
        Estimate.load(file)
    with path.open("wb") as foreign:
        np.savez(foreign, header=np.array([object()]), allow_pickle=True)
    with pytest.raises(ModelFileError, match="not a whole"):
        Shared.load(path)


def test_files_of_the_other_byte_order_are_read(tmp_path: Path, file: Path) -> None:
    header, arrays = content(file)
    swapped = {name: array.astype(array.dtype.newbyteorder()) for name, array in arrays.items()}
    write(tmp_path / "swapped", header, swapped)
    assert_same(Shared.load(tmp_path / "swapped"), Shared.load(file))


def test_a_failed_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    path = tmp_path / "policy"
    path.write_bytes(file.read_bytes())

    def fails(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(OSError, match="disk full"):
        played(3).save(path)
    assert path.read_bytes() == file.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["policy"]


# One request at a time.


def requested(policy: Shared, n: int) -> tuple[int, float]:
    """Decide and learn request n, and return the choice and its probability."""
    rng = np.random.default_rng([5, n])
    tasks, arms = rng.integers(TASKS, size=1), 1 + rng.standard_normal((1, ARMS, policy.dim))
    made = policy.decide(tasks, arms, rng)
    decided = int(made.chosen[0]), float(made.probabilities[0])
    policy.learn(tasks, arms, made, paid(n // TASKS, tasks, made.features(arms)))
    return decided


@pytest.mark.parametrize("dim", [DIM, 24])
def test_one_request_at_a_time_a_policy_can_be_resumed_at_any_of_them(
    tmp_path: Path, dim: int
) -> None:
    """While 0 to 8 rewards are pending, over a refit; also where few directions move."""
    policy, pending, refits = Shared(dim=dim, n_tasks=TASKS), set(), 0
    while policy.rewards < 5 * dim or policy.refit_due(19) or not policy.refit_due(20):
        requested(policy, policy.rewards)
    for n in range(policy.rewards, policy.rewards + 40):
        policy.save(tmp_path / "policy")
        resumed = Shared.load(tmp_path / "policy")
        assert_same(policy, resumed)
        pending.add(state_of(policy).n_pending)
        before, twin = policy.estimate, copy.deepcopy(policy)
        for later in range(n, n + 10):
            assert requested(twin, later) == requested(resumed, later)
        assert_same(twin, resumed)
        requested(policy, n)
        refits += policy.estimate is not before
    assert pending == set(range(9))
    assert refits == 1
    if dim > DIM:
        arrays = saved(policy).arrays
        assert len(arrays["posteriors.directions"]) < dim + 1
        inside = arrays["posteriors.means"] @ arrays["posteriors.directions"]
        assert np.abs(arrays["posteriors.thetas"] - inside).max() > 0


def test_a_policy_can_be_resumed_before_and_after_thetas_are_learned_again(tmp_path: Path) -> None:
    """To the last bit, though the prior is not learned in between."""
    policy, renewed = joined_late(0), set()
    prior = policy.prior
    for n in range(60):
        policy.save(tmp_path / "policy")
        resumed, twin = Shared.load(tmp_path / "policy"), copy.deepcopy(policy)
        for later in range(n, n + 12):
            late_request(twin, later)
            late_request(resumed, later)
        assert_same(twin, resumed)
        late_request(policy, n)
        renewed.add(int(full_counts(policy)[-1]))
    assert policy.prior is prior
    assert len(saved(policy).arrays["posteriors.directions"]) < 25
    assert len(renewed) > 3
    assert (full_counts(policy) <= policy.explain_all().rewards).all()


def test_what_the_last_bits_of_a_machine_decide_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one may find the prior's directions with other signs."""
    policy = joined_late(6)
    policy.save(tmp_path / "policy")
    found = np.linalg.eigh

    def turned(matrix: Floats) -> tuple[Floats, Floats]:
        values, vectors = found(matrix)
        return values, vectors * (-1) ** np.arange(len(values))

    with monkeypatch.context() as patch:
        patch.setattr(np.linalg, "eigh", turned)
        resumed = Shared.load(tmp_path / "policy")
        for n in range(6, 30):
            for each in (policy, resumed):
                late_request(each, n)
            np.testing.assert_allclose(thetas(resumed), thetas(policy), atol=1e-6)
    assert full_counts(resumed)[-1] > 6


def test_a_log_of_single_requests_is_relearned_to_the_same_state(tmp_path: Path) -> None:
    """From its beginning, and from a policy that was saved while rewards were pending."""
    policy, writer, saved_at = Shared(dim=DIM, n_tasks=TASKS), LogWriter(), 203
    for n in range(400):
        rng = np.random.default_rng([5, n])
        tasks, arms = rng.integers(TASKS, size=1), rng.standard_normal((1, ARMS, DIM))
        made = policy.decide(tasks, arms, rng)
        rewards = paid(0, tasks, made.features(arms))
        policy.learn(tasks, arms, made, rewards)
        writer.add(tasks, arms, made, rewards)
        if n + 1 == saved_at:
            assert state_of(policy).n_pending > 0
            policy.save(tmp_path / "policy")
    log, again = writer.log(), Shared(dim=DIM, n_tasks=TASKS)
    relearn(again, log)
    assert_same(policy, again)
    resumed = Shared.load(tmp_path / "policy")
    assert resumed.rewards == saved_at
    relearn(resumed, log.select(slice(saved_at, None)))
    assert_same(policy, resumed)


# Logs that are learned from again.


def logged(rounds: int) -> tuple[Shared, Log]:
    """Return a policy that has played so many rounds, and its log."""
    policy, writer = Shared(dim=DIM, n_tasks=TASKS), LogWriter()
    for n in range(rounds):
        play(policy, n, writer)
    return policy, writer.log()


def test_a_log_is_relearned_to_the_same_state(tmp_path: Path) -> None:
    rounds = moments()["after a change"] + 20
    policy, log = logged(rounds)
    assert policy.changes
    log.save(tmp_path / "log")
    again = Shared(dim=DIM, n_tasks=TASKS)
    relearn(again, Log.load(tmp_path / "log"))
    assert_same(policy, again)


def test_the_batches_since_a_save_are_enough(tmp_path: Path) -> None:
    played(moments()["middle"]).save(tmp_path / "policy")
    policy, log = logged(moments()["after a change"] + 5)
    resumed = Shared.load(tmp_path / "policy")
    relearn(resumed, log.select(slice(resumed.rewards, None)))
    assert_same(policy, resumed)


def test_what_was_collected_is_relearned() -> None:
    world = Synthetic(dim=6, n_tasks=4, rank=2, n_arms=3)
    first, second = (Shared(dim=6, n_tasks=4, explore="always") for _ in range(2))
    relearn(second, collect(first, world, rounds=25, seed=3))
    assert_same(first, second)


def test_other_policies_relearn_too() -> None:
    world = Synthetic(dim=6, n_tasks=4, rank=2, n_arms=3)
    first, second = (Ridge(dim=6, n_tasks=4) for _ in range(2))
    relearn(second, collect(first, world, rounds=25, seed=3))
    assert first.posteriors.means.any()
    np.testing.assert_array_equal(first.posteriors.means, second.posteriors.means)
    np.testing.assert_array_equal(first.posteriors.roots, second.posteriors.roots)


def test_decisions_without_a_batch_are_learned_one_by_one() -> None:
    _, log = logged(20)
    arrays = {name: getattr(log, name) for name in ("tasks", "arms", "chosen", "rewards")}
    loose = Log(**arrays, probabilities=log.probabilities)
    assert loose.batches.tolist() == list(range(len(log)))
    first, second = (Shared(dim=DIM, n_tasks=TASKS) for _ in range(2))
    relearn(first, loose)
    for n in range(len(log)):
        made = Decisions(chosen=log.chosen[n : n + 1], probabilities=[1.0], policy="")
        second.learn(log.tasks[n : n + 1], log.arms[n : n + 1], made, log.rewards[n : n + 1])
    assert_same(first, second)


def test_a_log_for_fewer_tasks_is_refused_before_anything_is_learned() -> None:
    _, log = logged(20)
    policy = Ridge(dim=DIM, n_tasks=TASKS - 1)
    with pytest.raises(DataError, match="make the policy for more tasks"):
        relearn(policy, log)
    assert not policy.posteriors.means.any()


def small(n: int, **changed: Any) -> Log:
    halves = np.full(n, 0.5)
    fields = {"tasks": np.zeros(n, int), "chosen": np.zeros(n, int), "arms": np.ones((n, 2, 1))}
    return Log(**{**fields, "probabilities": halves, "rewards": halves, **changed})


def test_batches_are_numbered_in_their_order() -> None:
    log = small(5, batches=[7, 7, 2, 9, 9])
    assert log.batches.tolist() == [0, 0, 1, 2, 2]
    assert log.select(slice(1, 4)).batches.tolist() == [0, 1, 2]
    assert log.select(np.array([0, 1, 3, 4])).batches.tolist() == [0, 0, 1, 1]
    assert Log.concatenate([log, log]).batches.tolist() == [0, 0, 1, 2, 2, 3, 3, 4, 5, 5]


def test_a_writer_makes_a_batch_of_what_is_added_at_once() -> None:
    writer, arms = LogWriter(), np.ones((3, 2, 1))
    made = Decisions(chosen=[0, 1, 0], probabilities=[0.5] * 3, policy="")
    for rewards in ([1.0, np.nan, 1.0], [np.nan] * 3, [1.0] * 3):
        writer.add([0, 1, 2], arms, made, rewards)
    assert writer.log().batches.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("batches", [[0, 0], [[0, 0, 1]], [0.0, 0.0, 1.0], ["a", "a", "b"]])
def test_batches_that_are_none_are_refused(batches: list[Any]) -> None:
    with pytest.raises(DataError, match=r"expected batches \(3,\)"):
        small(3, batches=batches)


def test_logs_that_were_saved_before_there_were_batches_are_read(tmp_path: Path) -> None:
    small(3).save(tmp_path / "log")
    header, arrays = content(tmp_path / "log")
    header["arrays"].remove("batches")
    del arrays["batches"]
    write(tmp_path / "log", header, arrays)
    assert Log.load(tmp_path / "log").batches.tolist() == [0, 1, 2]
