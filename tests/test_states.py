"""The state of the shared policy: saved, resumed to the last bit, refused, and relearned."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
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
from cobandits.histories import GIVEN_UP, NEW, Histories
from cobandits.logs import Log, LogWriter
from cobandits.policies import Ridge, Shared
from cobandits.policies.heads import Narrowing

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

TASKS, DIM, ARMS = 5, 4, 3
CHANGE = 70  # the round in which all thetas become others
ROUNDS = 60  # that a resumed policy is followed for
MOMENTS = [
    "new",
    "first",
    "middle",
    "before a refit",
    "after a refit",
    "unsettled",
    "settled",
    "after a change",
]


def asked(n: int, T: int = TASKS, d: int = DIM) -> tuple[Codes, Floats]:
    """Return tasks, some of them more than once, and their arms in round n."""
    rng = np.random.default_rng([1, n])
    m = int(rng.integers(1, 2 * T))
    return rng.integers(T, size=m), 1 + rng.standard_normal((m, ARMS, d))


def paid(n: int, tasks: Codes, rows: Floats) -> Floats:
    """Return the rewards of chosen arms in round n; thetas share two directions."""
    rng = np.random.default_rng(2 + (n >= CHANGE))
    thetas = rng.standard_normal((TASKS, 2)) @ rng.standard_normal((2, rows.shape[1]))
    noise = 0.1 * np.random.default_rng([3, n]).standard_normal(len(tasks))
    return np.asarray(0.7 + np.einsum("md,md->m", rows, thetas[tasks]) + noise)


def play(policy: Shared, n: int, writer: LogWriter | None = None) -> tuple[Floats, Codes, Floats]:
    """Play round n, whatever was before, and return what was decided."""
    tasks, arms = asked(n, d=policy.dim)
    shares = policy.probabilities(tasks, arms)
    made = policy.decide(tasks, arms, np.random.default_rng([4, n]))
    decided = shares, made.chosen, made.probabilities
    rewards = paid(n, tasks, made.features(arms))
    policy.learn(tasks, arms, made, rewards)
    if writer is not None:
        writer.add(tasks, arms, made, rewards)
    return decided


@functools.cache
def moments() -> dict[str, int]:
    """Return how many rounds to play until each moment."""
    policy, refits, settled, changes = Shared(dim=DIM, n_tasks=TASKS), [], [], []
    for n in range(CHANGE + 30):
        before, used = (policy.estimate, policy.changes), policy._histories.used
        play(policy, n)
        if policy.estimate is not before[0]:
            refits.append(n)
        elif policy._histories.used != used:
            settled.append(n)
        if policy.changes != before[1]:
            changes.append(n)
    refit = next(n for n in refits if n > 20 and n - 1 not in refits)
    unsettled = next(n for n in settled if n > 20)
    assert refit < CHANGE <= changes[0]
    assert unsettled < CHANGE
    return {
        "new": 0,
        "first": 1,
        "middle": refit + 2,
        "before a refit": refit,
        "after a refit": refit + 1,
        "unsettled": unsettled,
        "settled": unsettled + 1,
        "after a change": changes[0] + 1,
    }


def cached(thing: object, name: str) -> bool:
    """Tell whether a member follows from the others, and is kept because it takes time."""
    return isinstance(getattr(type(thing), name, None), functools.cached_property)


def parts(thing: object, path: str = "policy") -> dict[str, object]:
    """Return every number, text and array that an object holds, by its path."""
    if isinstance(thing, Histories):
        owners, rows = thing.flat  # what is beyond the rows in use means nothing
        members = {**vars(thing), "_owners": owners, "_rows": rows}
        del members["_starts"]  # None, or those of rows that are sorted
    elif dataclasses.is_dataclass(thing):
        members = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    elif hasattr(thing, "__dict__") and not isinstance(thing, np.ndarray):
        members = {name: value for name, value in vars(thing).items() if not cached(thing, name)}
    elif isinstance(thing, list | tuple) and path.endswith("._unsettled"):
        joined = [np.concatenate(arrays) for arrays in zip(*thing, strict=True)]
        members = {str(place): array for place, array in enumerate(joined)}
    elif isinstance(thing, Narrowing):
        members = thing._asdict()
    else:
        return {path: thing}
    found: dict[str, object] = {}
    for name, member in members.items():
        found |= parts(member, f"{path}.{name}")
    return found


def assert_same(one: object, other: object) -> None:
    """Compare all that two objects hold, bit for bit."""
    ours, theirs = parts(one), parts(other)
    assert ours.keys() == theirs.keys()
    for name, a in ours.items():
        b = theirs[name]
        if isinstance(a, np.ndarray):
            assert isinstance(b, np.ndarray)
            assert (a.dtype, a.flags.c_contiguous) == (b.dtype, b.flags.c_contiguous), name
            np.testing.assert_array_equal(a, b, err_msg=name, strict=True)
        else:
            assert a == b, name


def played(rounds: int, **setting: Any) -> Shared:
    """Return a policy that has played so many rounds."""
    policy = Shared(**{"dim": DIM, "n_tasks": TASKS, **setting})
    for n in range(rounds):
        play(policy, n)
    return policy


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
def test_tasks_whose_rows_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    monkeypatch.setattr("cobandits.histories._MOST_BYTES", 1)
    monkeypatch.setattr("cobandits.policies.wholes._MOST_BYTES", 1)
    policy = played(start, dim=8)
    assert (policy._histories.slots == GIVEN_UP).any() == (start > 4)
    resumed = assert_goes_on(policy, tmp_path / "policy", start, CHANGE - start)
    assert resumed._heads is not None
    assert (resumed._heads.posteriors.dim, resumed._histories.most) == (4, 80)
    assert (resumed._histories.slots == GIVEN_UP).any()
    assert_goes_on(resumed, tmp_path / "policy", CHANGE, 20)


def test_tasks_that_came_when_there_was_no_room(tmp_path: Path) -> None:
    policy = Shared(dim=DIM, n_tasks=TASKS)
    policy._histories.most = 16
    made = Decisions(chosen=[0] * 12, probabilities=[1.0] * 12, policy="")
    arms = np.random.default_rng(0).standard_normal((12, ARMS, DIM))
    policy.learn([0] * 12, arms, made, arms[:, 0, 0])
    policy.learn([1] * 12, arms, made, arms[:, 0, 1])
    assert policy._histories.slots[:2].tolist() == [0, GIVEN_UP]
    policy.save(tmp_path / "policy")
    resumed = Shared.load(tmp_path / "policy")
    resumed._histories.most = 16
    for n in range(10):
        play(policy, n)
        play(resumed, n)
    assert_same(policy, resumed)


@pytest.mark.parametrize("moment", ["settled", "after a refit"])
def test_rows_stay_in_their_order_whether_they_are_known_to_be_sorted_or_not(
    tmp_path: Path, moment: str
) -> None:
    """Sums over rows round as their order wants it."""
    policy = played(moments()[moment])
    is_sorted = policy._histories._starts is not None
    assert is_sorted == (moment == "after a refit")
    owners, rows = (part.copy() for part in policy._histories.flat)
    policy.save(tmp_path / "policy")
    histories = Shared.load(tmp_path / "policy")._histories
    assert histories._starts is None
    for held in (policy._histories, histories):
        np.testing.assert_array_equal(held.flat[0], owners)
        np.testing.assert_array_equal(held.flat[1], rows)
    every = np.arange(len(histories.tasks))
    longest = int(histories.sizes.max())
    np.testing.assert_array_equal(
        histories.rows(every, longest), policy._histories.rows(every, longest)
    )
    for held in (policy._histories, histories):
        np.testing.assert_array_equal(held.flat[1], rows)  # reading moves none of them
        held.sort()
    assert_same(histories, policy._histories)
    assert np.array_equal(histories.flat[1], rows) == is_sorted


def test_more_features_than_directions(tmp_path: Path) -> None:
    assert_goes_on(played(3, dim=270), tmp_path / "policy", 3, 3)


def test_a_policy_of_a_file_can_be_saved_again(tmp_path: Path) -> None:
    policy = played(moments()["unsettled"])
    assert len(policy._unsettled) > 1
    policy.save(tmp_path / "one")
    Shared.load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_only_rows_in_use_are_saved(tmp_path: Path) -> None:
    policy = played(moments()["middle"])
    policy.save(tmp_path / "policy")
    _, arrays = content(tmp_path / "policy")
    assert arrays["new_rows"].shape == (policy._n_unsettled, DIM + 2)
    assert policy._histories.used + policy._n_unsettled < policy._seen  # some were compressed
    assert len(policy._histories._rows) > policy._histories.used
    assert arrays["rows"].shape == (policy._histories.sizes.sum(), DIM + 2)
    assert arrays["owners"].shape == (policy._histories.sizes.sum(),)
    assert all(array.flags.c_contiguous for array in arrays.values())


# What is refused.


def content(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(arrays.pop("header").tobytes()), arrays


def write(path: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, header=text, **arrays)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "policy"
    policy = played(moments()["middle"])
    assert policy._n_unsettled > 3
    policy.save(path)
    return path


def names() -> list[str]:
    """Return the arrays of a file, as they are known to be."""
    known = (
        "counts counts_whole usual errors rivals rival_places slots slot_tasks slot_sizes owners"
    )
    learned = "coordinates covariance sharing spread means roots log_volumes basis weights"
    heads = "variances vectors directions thetas noises new_tasks new_rows new_squares new_expected"
    return f"{known} rows {learned} {heads}".split()


def test_these_are_the_arrays(saved: Path) -> None:
    assert sorted(content(saved)[1]) == sorted([*names(), "gained", "gained_tasks"])


@pytest.mark.parametrize(
    ("tasks", "gained"), [([0, 0], [1.0, 1.0]), ([TASKS], [1.0]), ([0], []), ([0], [np.nan])]
)
def test_gains_of_tasks_that_do_not_fit_are_refused(
    tmp_path: Path, saved: Path, tasks: list[int], gained: list[float]
) -> None:
    header, arrays = content(saved)
    spoilt = {"gained_tasks": np.array(tasks), "gained": np.array(gained, np.float64)}
    write(tmp_path / "bad", header, {**arrays, **spoilt})
    with pytest.raises(ModelFileError, match="gained"):
        Shared.load(tmp_path / "bad")


def test_more_rows_to_settle_than_there_were_rewards_are_refused(
    tmp_path: Path, saved: Path
) -> None:
    header, arrays = content(saved)
    new = {name: np.concatenate([a] * 40) for name, a in arrays.items() if name.startswith("new_")}
    assert len(new["new_tasks"]) > header["seen"]
    write(tmp_path / "bad", header, {**arrays, **new})
    with pytest.raises(ModelFileError, match=r"holds .*new_"):
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


@pytest.mark.parametrize("name", names())
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, saved: Path, name: str) -> None:
    header, arrays = content(saved)
    for wrong in damages(arrays[name]):
        write(tmp_path / "bad", header, {**arrays, name: wrong})
        with pytest.raises(ModelFileError, match="relearn its log"):
            Shared.load(tmp_path / "bad")
    del arrays[name]
    write(tmp_path / "bad", header, arrays)
    with pytest.raises(ModelFileError, match="not a whole cobandits shared-policy"):
        Shared.load(tmp_path / "bad")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("means", lambda a: a[:, :-1], r"holds means of shape \(5, 4\).* expected \(5, 5\)"),
        ("roots", lambda a: spoiled(a, np.nan), "a NaN or an infinite value in roots"),
        ("rivals", lambda a: spoiled(a, np.nan), "a NaN or an infinite value in rivals"),
        ("rivals", lambda a: a[:4], "rival_places that are not those of 4 rivals"),
        ("rivals", lambda a: a[:0], "rival_places that are not those of 0 rivals"),
        ("rival_places", lambda a: spoiled(a, a[0]), "that are not those of 5 rivals"),
        ("rival_places", lambda a: np.r_[a, -1], "rival_places of 6 slots, there are 5"),
        ("rivals", lambda a: a[:, :3], r"rivals of shape \(5, 3, 5\).* expected \(any, 6, 5\)"),
        ("slot_tasks", lambda a: spoiled(a, TASKS), "not different ones of 5"),
        ("slot_tasks", lambda a: spoiled(a, a[0]), "not different ones of 5"),
        ("slot_sizes", lambda a: a + 1, r"holds owners of shape"),
        ("slot_sizes", lambda a: a[:-1], r"holds slot_sizes of shape \(4,\).* expected \(5,\)"),
        ("slots", lambda a: a[::-1], "slots that are not those of slot_tasks"),
        ("slots", lambda a: spoiled(a, NEW), "slots that are not those of slot_tasks"),
        ("slots", lambda a: spoiled(a, GIVEN_UP), "slot_sizes above 0 of tasks whose rows were"),
        ("slots", lambda a: spoiled(a, -3), "-3 in slots, the least is -2"),
        ("owners", lambda a: spoiled(a, TASKS), "owners of rows that are not as many as"),
        ("owners", np.zeros_like, "owners of rows that are not as many as"),
        ("rows", lambda a: a[1:], "holds rows of shape"),
        ("thetas", lambda a: a[:, :-1], r"thetas of shape \(5, 4\).* expected \(5, 5\)"),
        ("thetas", lambda a: spoiled(a, np.nan), "a NaN or an infinite value in thetas"),
        ("directions", lambda a: a[1:], r"means of shape \(5, 5\).* expected \(5, 4\)"),
        ("directions", lambda a: a[:0], "0 directions, there are 5"),
        ("noises", lambda a: spoiled(a, 0.0), r"0.0 in noises, the least is 0\.\d+, above 0"),
        ("noises", lambda a: spoiled(a, -1.0), r"-1.0 in noises, the least is 0\.\d+, above 0"),
        ("noises", lambda a: 1e-3 * a, r"\de-05 in noises, the least is 0\.\d+, above 0"),
        ("new_tasks", lambda a: spoiled(a, TASKS), "new_tasks up to 5 of 5"),
        ("new_tasks", lambda a: spoiled(a, -1), "-1 in new_tasks, the least is 0"),
        ("new_tasks", lambda a: a[1:], "new_rows of shape"),
        ("new_rows", lambda a: a[1:], "new_rows of shape"),
        ("new_rows", lambda a: a[:, 1:], "new_rows of shape"),
        ("new_squares", lambda a: a[1:], "new_squares of shape"),
        ("new_expected", lambda a: spoiled(a, np.inf), "an infinite value in new_expected"),
        ("new_expected", lambda a: spoiled(a, 0.0), "0.0 in new_expected"),
        ("new_expected", lambda a: spoiled(a, -1.0), "-1.0 in new_expected"),
        ("new_squares", lambda a: spoiled(a, -1.0), "-1.0 in new_squares"),
        ("counts", lambda a: spoiled(a, -1), "-1 in counts, the least is 0"),
        ("counts", lambda a: a + 1, r"counts of \d+ rewards, expected \d+"),
        ("counts_whole", lambda a: spoiled(a, -1), "-1 in counts_whole, the least is 0"),
        ("counts_whole", lambda a: a + 1000, "counts_whole"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path,
    saved: Path,
    name: str,
    change: Callable[[NDArray[Any]], NDArray[Any]],
    message: str,
) -> None:
    header, arrays = content(saved)
    write(tmp_path / "bad", header, {**arrays, name: change(arrays[name])})
    with pytest.raises(ModelFileError, match=f"bad holds .*{message.removeprefix('holds ')}"):
        Shared.load(tmp_path / "bad")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"setting": {"dim": DIM, "n_tasks": 10**12, "explore": "never"}}, "holds counts of"),
        ({"setting": {"dim": 10**9, "n_tasks": TASKS, "explore": "never"}}, "holds rows of"),
        ({"setting": {"dim": DIM, "n_tasks": TASKS, "explore": "no"}}, "ConfigurationError"),
        ({"setting": {"dim": DIM, "n_tasks": TASKS, "horizon": 3}}, "TypeError"),
        ({"rewards": -1}, "-1 as rewards"),
        ({"due": "soon"}, "ValueError"),
        ({"changes": None}, "TypeError"),
        ({"prior": {"offset": 0.0, "noise": float("nan")}}, "nan as noise"),
        ({"prior": {"offset": 0.0, "noise": -1.0}}, "-1.0 as noise, the least is 0"),
        ({"alarm": {"rows": 5, "evidence": float("inf")}}, "inf as evidence"),
        ({"contest": {}}, "KeyError"),
        ({"seen": -1}, "-1 as seen"),
        ({"seen": 1}, "rewards, expected 1"),
        ({"sharing": {"offset": 0.0, "noise": -1.0}}, "-1.0 as noise, the least is 0"),
        ({"sharing": {"offset": float("inf"), "noise": 1.0}}, "inf as offset"),
        ({"prior": {"offset": float("nan"), "noise": 1.0}}, "nan as offset"),
        ({"version": 1}, "version 1; this release reads 'cobandits-shared-policy' version 2"),
        ({"version": 3}, "version 3; this release reads 'cobandits-shared-policy' version 2"),
        ({"format": "cobandits-estimate"}, "format 'cobandits-estimate'"),
    ],
)
def test_headers_that_do_not_fit_are_refused(
    tmp_path: Path, saved: Path, change: dict[str, Any], message: str
) -> None:
    header, arrays = content(saved)
    write(tmp_path / "bad", {**header, **change}, arrays)
    with pytest.raises(ModelFileError, match=f"{message}.*relearn its log"):
        Shared.load(tmp_path / "bad")


def test_truncated_and_altered_files_are_refused(tmp_path: Path, saved: Path) -> None:
    path, whole = tmp_path / "bad", saved.read_bytes()
    for end in range(0, len(whole), 211):
        path.write_bytes(whole[:end])
        with pytest.raises(ModelFileError, match="not a whole cobandits shared-policy"):
            Shared.load(path)
    rows = whole.index(content(saved)[1]["rows"].tobytes())
    path.write_bytes(whole[:rows] + bytes([whole[rows] ^ 1]) + whole[rows + 1 :])
    with pytest.raises(ModelFileError, match="BadZipFile"):
        Shared.load(path)


def test_foreign_files_are_refused(tmp_path: Path, saved: Path) -> None:
    path = tmp_path / "other"
    with pytest.raises(ModelFileError, match="there is no file"):
        Shared.load(path)
    Estimate(basis=np.eye(2), weights=np.eye(2), labels=("a", "b")).save(path)
    with pytest.raises(ModelFileError, match="format 'cobandits-estimate'"):
        Shared.load(path)
    with pytest.raises(ModelFileError, match="format 'cobandits-shared-policy'"):
        Estimate.load(saved)
    with path.open("wb") as file:
        np.savez(file, header=np.array([object()]), allow_pickle=True)
    with pytest.raises(ModelFileError, match="not a whole"):
        Shared.load(path)


def test_files_of_the_other_byte_order_are_read(tmp_path: Path, saved: Path) -> None:
    header, arrays = content(saved)
    swapped = {name: array.astype(array.dtype.newbyteorder()) for name, array in arrays.items()}
    write(tmp_path / "swapped", header, swapped)
    assert_same(Shared.load(tmp_path / "swapped"), Shared.load(saved))


def test_a_failed_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: Path
) -> None:
    path = tmp_path / "policy"
    path.write_bytes(saved.read_bytes())

    def fails(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(OSError, match="disk full"):
        played(3).save(path)
    assert path.read_bytes() == saved.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["policy"]


# Updates that are refused.


@pytest.mark.parametrize(
    ("tasks", "chosen", "rewards"),
    [
        ([0, 1], [0, 1], [1.0, np.nan]),
        ([0, 1], [0, ARMS], [1.0, 2.0]),
        ([0, TASKS], [0, 1], [1.0, 2.0]),
        ([0, 1], [0, 1], [1.0]),
        ([0, 1], [0, 1], [1.0, 1e200]),
        ([0, 1], [0, 1], [1.0, 9e74]),  # too large for the heads alone
    ],
)
@pytest.mark.parametrize("moment", ["middle", "unsettled", "settled"])
def test_a_refused_update_leaves_no_trace(
    tmp_path: Path, moment: str, tasks: list[int], chosen: list[int], rewards: list[float]
) -> None:
    """Neither where rows that heads have learned are about to be settled."""
    start = moments()[moment]
    policy = played(start)
    assert policy._seen + 2 < policy._due
    policy.save(tmp_path / "before")
    made = Decisions(chosen=chosen, probabilities=[1.0, 1.0], policy="")
    twin = copy.deepcopy(policy)
    with pytest.raises(DataError):
        policy.learn(tasks, np.ones((2, ARMS, DIM)), made, rewards)
    policy.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
    assert_same(policy, twin)
    assert_alike(policy, twin, start, 5)


def assert_alike(policy: Shared, twin: Shared, start: int, rounds: int) -> None:
    """Play with both, and compare what they decide and what they hold."""
    for n in range(start, start + rounds):
        for a, b in zip(play(policy, n), play(twin, n), strict=True):
            np.testing.assert_array_equal(a, b)
    assert_same(policy, twin)


@pytest.mark.parametrize(
    ("moment", "where"),
    [
        ("before a refit", "cobandits.policies.shared.improved"),
        ("before a refit", "cobandits.priors.Contest.next_round"),
        ("before a refit", "cobandits.posteriors.Posteriors.settle"),
        ("before a change", "cobandits.policies.shared.improved"),
        ("middle", "cobandits.posteriors.Posteriors.learn_along"),
        ("unsettled", "cobandits.priors.Contest.errors_with"),
        ("unsettled", "cobandits.policies.alarm.Alarm.after"),
        ("unsettled", "cobandits.histories.Histories.reserve"),
        ("before a refit", "cobandits.histories.Histories.make_room"),
        ("before a refit", "cobandits.policies.heads.Heads.foresee"),
        ("before a change", "cobandits.policies.heads.Heads.of"),
    ],
)
def test_an_update_that_fails_midway_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, where: str
) -> None:
    when = {**moments(), "before a change": moments()["after a change"] - 1}[moment]
    policy = played(when)
    policy.save(tmp_path / "before")

    def fails(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("no")

    with monkeypatch.context() as patch:
        patch.setattr(where, fails)
        with pytest.raises((DataError, np.linalg.LinAlgError)):
            play(policy, when)
    twin = Shared.load(tmp_path / "before")
    assert_same(policy, twin)
    assert_alike(policy, twin, when, 5)


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
    """While 0 to 8 rows are unsettled, over a refit; also where few directions move."""
    policy, unsettled, refits = Shared(dim=dim, n_tasks=TASKS), set(), 0
    while policy._seen < 5 * dim or policy._due - policy._seen != 20:
        requested(policy, policy._seen)
    for n in range(policy._seen, policy._seen + 40):
        policy.save(tmp_path / "policy")
        resumed = Shared.load(tmp_path / "policy")
        assert_same(policy, resumed)
        unsettled.add(policy._n_unsettled)
        before, twin = policy.estimate, copy.deepcopy(policy)
        for later in range(n, n + 10):
            assert requested(twin, later) == requested(resumed, later)
        assert_same(twin, resumed)
        requested(policy, n)
        refits += policy.estimate is not before
    assert unsettled == set(range(9))
    assert refits == 1
    assert policy._heads is not None
    if dim > DIM:
        assert policy._heads.posteriors.dim < dim + 1
        inside = policy._heads.posteriors.means @ policy._heads.directions
        assert np.abs(policy._heads.thetas - inside).max() > 0


def busy(policy: Shared, n: int, others: bool) -> None:
    """Let the last task ask, or one of the others."""
    rng = np.random.default_rng([6, n])
    tasks = np.array([int(rng.integers(TASKS - 1)) if others else TASKS - 1])
    arms = rng.standard_normal((1, ARMS, policy.dim))
    made = policy.decide(tasks, arms, rng)
    policy.learn(tasks, arms, made, paid(0, tasks, made.features(arms)))


def joined_late(n: int) -> Shared:
    """Return a policy of four tasks with many rewards, of which a fifth has had n."""
    policy = Shared(dim=24, n_tasks=TASKS)
    while policy._seen < 400 or policy._due - policy._seen < 80:
        busy(policy, policy._seen, others=True)
    for later in range(n):
        busy(policy, 1000 + later, others=False)
    return policy


def test_a_policy_can_be_resumed_before_and_after_thetas_are_learned_whole(tmp_path: Path) -> None:
    """To the last bit, though the prior is not learned in between."""
    policy, renewed = joined_late(0), set()
    prior = policy.prior
    for n in range(50):
        policy.save(tmp_path / "policy")
        resumed, twin = Shared.load(tmp_path / "policy"), copy.deepcopy(policy)
        for later in range(n, n + 12):
            busy(twin, 1000 + later, others=False)
            busy(resumed, 1000 + later, others=False)
        assert_same(twin, resumed)
        busy(policy, 1000 + n, others=False)
        renewed.add(int(policy._counts_whole[-1]))
    assert policy.prior is prior
    assert policy._heads is not None
    assert policy._heads.are_narrow
    assert len(renewed) > 3
    assert (policy._counts_whole <= policy._counts).all()


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
        assert policy._heads is not None
        assert resumed._heads is not None
        for n in range(6, 30):
            for each in (policy, resumed):
                busy(each, 1000 + n, others=False)
            np.testing.assert_allclose(resumed._heads.thetas, policy._heads.thetas, atol=1e-6)
    assert resumed._counts_whole[-1] > 6


def test_a_log_of_single_requests_is_relearned_to_the_same_state(tmp_path: Path) -> None:
    """From its beginning, and from a policy that was saved while rows were unsettled."""
    policy, writer, saved_at = Shared(dim=DIM, n_tasks=TASKS), LogWriter(), 203
    for n in range(400):
        rng = np.random.default_rng([5, n])
        tasks, arms = rng.integers(TASKS, size=1), rng.standard_normal((1, ARMS, DIM))
        made = policy.decide(tasks, arms, rng)
        rewards = paid(0, tasks, made.features(arms))
        policy.learn(tasks, arms, made, rewards)
        writer.add(tasks, arms, made, rewards)
        if n + 1 == saved_at:
            assert policy._n_unsettled > 0
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
    assert_same(first, second)


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
    policy = Shared(dim=DIM, n_tasks=TASKS - 1)
    with pytest.raises(DataError, match="make the policy for more tasks"):
        relearn(policy, log)
    assert_same(policy, Shared(dim=DIM, n_tasks=TASKS - 1))


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
