"""Estimates: what they predict, how they are aligned, and how they are kept in files."""

from __future__ import annotations

import datetime
import io
import json
import pickle
import tempfile
import zipfile
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cobandits.errors import CobanditsError, DataError, ModelFileError, UnknownTaskError
from cobandits.estimate import Estimate, History, Status
from cobandits.estimators import LowRank
from cobandits.labels import check_labels
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows
from tests.support import drawn, flat


def small(
    labels: tuple[Hashable, ...] = ("a", "b", "c"), *, d: int = 5, r: int = 2, seed: int = 0
) -> Estimate:
    rng = np.random.default_rng(seed)
    return Estimate(
        basis=np.linalg.qr(rng.standard_normal((d, r)))[0],
        weights=rng.standard_normal((r, len(labels))),
        labels=labels,
        status=Status(outcome="limit", message="raise iterations", iterations=3),
        history=History(costs=np.array([3.0, 2.0, 1.5]), errors=np.array([1.0, 0.5, 0.2])),
        estimator="LowRank",
        feature_names=tuple(f"x{i}" for i in range(d)),
    )


def check_equal(a: Estimate, b: Estimate) -> None:
    for name in ("basis", "weights"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.history.costs, b.history.costs)
    assert (a.history.errors is None) == (b.history.errors is None)
    if a.history.errors is not None and b.history.errors is not None:
        np.testing.assert_array_equal(a.history.errors, b.history.errors)
    for name in ("labels", "status", "estimator", "feature_names"):
        assert getattr(a, name) == getattr(b, name)


# ---- predictions


@given(st.lists(st.sampled_from("abc"), max_size=20))
def test_predictions_equal_a_loop(tasks: list[str]) -> None:
    estimate = small()
    Phi = np.random.default_rng(1).standard_normal((len(tasks), 5))
    expected = [phi @ estimate.theta[:, "abc".index(t)] for phi, t in zip(Phi, tasks, strict=True)]
    np.testing.assert_allclose(estimate.predict(Phi, tasks), expected, atol=1e-13)
    np.testing.assert_array_equal(
        estimate.predict(Phi.tolist() or np.empty((0, 5)), np.array(tasks, dtype=str)),
        estimate.predict(Phi, tasks),
    )


def test_unknown_labels_are_named_with_advice() -> None:
    estimate = small()
    with pytest.raises(UnknownTaskError) as caught:
        estimate.predict(np.ones((3, 5)), ["a", "z", "z"])
    assert str(caught.value) == (
        "not among the 3 fitted tasks: 'z'; fit again with rows of these tasks, or predict them by "
        "the mean of all with strict=False"
    )
    with pytest.raises(UnknownTaskError, match=r"0, 1, 2, 3, 4 and 5 more; fit again"):
        estimate.predict(np.ones((10, 5)), range(10))
    with pytest.raises(KeyError):
        estimate.predict(np.ones((1, 5)), [("a",)])


def test_label_that_cannot_be_hashed_is_unknown_too() -> None:
    with pytest.raises(CobanditsError, match=r"\['a'\]"):
        small().predict(np.ones((1, 5)), [["a"]])  # type: ignore[list-item]


def test_many_unknown_labels_are_named_at_once() -> None:
    """A hundred thousand of them take seconds if each is compared with those before."""
    with pytest.raises(UnknownTaskError, match=r"0, 1, 2, 3, 4 and 99995 more; fit again"):
        small().codes(range(100_000))


@pytest.mark.parametrize("shape", [(2, 5), (3, 4), (3,), (3, 5, 1)])
def test_features_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"expected features \(3, 5\), one row per label, got"):
        small().predict(np.ones(shape), ["a", "b", "c"])


def test_theta_of_labels_in_any_order() -> None:
    estimate = small()
    found = estimate.theta_of(["c", "new", "a"])
    np.testing.assert_array_equal(found[:, [0, 2]], estimate.theta[:, [2, 0]])
    assert not found[:, 1].any()
    assert estimate.theta_of([]).shape == (5, 0)
    assert not estimate.theta_of(["new"]).any()
    alone = small()
    alone.theta_of(["c"])
    assert "theta" not in vars(alone)  # for a few tasks, that of all is not computed


def test_parts_that_do_not_fit_together_are_refused() -> None:
    B, W = np.eye(4)[:, :2], np.ones((2, 3))
    for basis, weights, labels in (
        (B, W, "ab"),
        (B, W[:1], "abc"),
        (B[:, 0], W, "abc"),
        (B, W[0], "abc"),
    ):
        with pytest.raises(DataError, match=r"expected basis \(d, r\), weights \(r, T\)"):
            Estimate(basis=basis, weights=weights, labels=tuple(labels))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_parts_that_are_not_finite_are_refused(value: float) -> None:
    B, W = np.eye(4)[:, :2], np.ones((2, 3))
    with pytest.raises(DataError, match=r"the basis must be finite, .* scale the features"):
        Estimate(basis=np.full((4, 2), value), weights=W, labels=(0, 1, 2))
    with pytest.raises(DataError, match=r"the weights must be finite, .* scale the features"):
        Estimate(basis=B, weights=np.full((2, 3), value), labels=(0, 1, 2))


def test_labels_that_are_there_twice_are_refused() -> None:
    with pytest.raises(DataError, match="expected 3 different labels, one per task, got 2"):
        small(labels=("a", "b", "a"))


def test_singular_values_are_those_of_theta() -> None:
    estimate = small()
    expected = np.linalg.svd(estimate.theta, compute_uv=False)[:2]
    np.testing.assert_allclose(estimate.singular_values, expected, rtol=1e-12)


# ---- alignment


@given(st.integers(0, 1000), st.integers(1, 4))
def test_aligned_estimate_has_the_same_theta_and_the_other_basis(seed: int, r: int) -> None:
    """Two estimates that differ by a rotation in the subspace become equal."""
    rng = np.random.default_rng(seed)
    original = small(r=r, seed=seed)
    R = np.linalg.qr(rng.standard_normal((r, r)))[0]
    turned = Estimate(
        basis=original.basis @ R, weights=R.T @ original.weights, labels=original.labels
    )
    aligned = turned.aligned_to(original)
    np.testing.assert_allclose(aligned.theta, original.theta, atol=1e-12)
    np.testing.assert_allclose(aligned.basis, original.basis, atol=1e-12)
    np.testing.assert_allclose(aligned.weights, original.weights, atol=1e-12)


def test_weights_are_comparable_after_a_refit() -> None:
    """A day's new rows change theta a little; aligned weights change as little."""
    problem = drawn(T=30, r=3, n=25, noise=0.05)
    tasks = problem.tasks
    first = LowRank(rank=3).fit(tasks)
    tasks.add(tasks.rows[:60], tasks.rewards[:60] + 0.05, tasks.owners[:60])
    second = LowRank(rank=3).fit(tasks)
    aligned = second.aligned_to(first)
    change = relative_error(second.theta, first.theta)
    assert 0 < change < 0.05
    assert relative_error(aligned.weights, first.weights) < 2 * change
    np.testing.assert_allclose(aligned.theta, second.theta, atol=1e-12)
    np.testing.assert_allclose(aligned.basis.T @ aligned.basis, np.eye(3), atol=1e-12)


def test_bases_of_different_shapes_cannot_be_aligned() -> None:
    with pytest.raises(DataError, match="fit both with the same features and rank"):
        small(r=1).aligned_to(small(r=2))


# ---- files


LABELS: list[Hashable] = [
    "text", "", "ünï", "a\nb", '"', 7, -5, 10**40, 2.5, 1e300, True, None,
    (), ("a", 1), ("a", (1, None, (2.5, False))), ({}.__class__.__name__, "tuple"),
    datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
    ("a", datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)),
    np.int64(4), np.str_("n"), np.float32(0.5), np.bool_(False),
]  # fmt: skip


def test_every_kind_of_label_comes_back(tmp_path: Path) -> None:
    estimate = small(tuple(LABELS))
    estimate.save(tmp_path / "model")
    loaded = Estimate.load(tmp_path / "model")
    check_equal(loaded, estimate)
    for label, original in zip(loaded.labels, LABELS, strict=True):
        plain = original.item() if isinstance(original, np.generic) else original
        assert type(label) is (str if isinstance(plain, str) else type(plain))
    Phi = np.ones((len(LABELS), 5))
    np.testing.assert_array_equal(loaded.predict(Phi, LABELS), estimate.predict(Phi, LABELS))


@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
            lambda inner: st.tuples(inner, inner),
        ),
        min_size=2,
        max_size=6,
        unique=True,
    )
)
def test_any_labels_come_back(labels: list[Hashable]) -> None:
    estimate = small(tuple(labels))
    with tempfile.TemporaryDirectory() as directory:
        estimate.save(Path(directory) / "model")
        check_equal(Estimate.load(Path(directory) / "model"), estimate)


@pytest.mark.parametrize("label", [datetime.timedelta(1), frozenset({1}), b"x", 1j, object()])
def test_label_that_cannot_be_saved_is_refused(tmp_path: Path, label: Hashable) -> None:
    for labels in ((label,), (("a", label),)):
        with pytest.raises(DataError, match="cannot be saved; use strings, numbers"):
            small(labels).save(tmp_path / "model")
        with pytest.raises(DataError, match="cannot be saved; use strings, numbers"):
            check_labels(labels)
    assert list(tmp_path.iterdir()) == []


def test_time_that_a_file_would_round_is_refused(tmp_path: Path) -> None:
    small((pandas.Timestamp(1_000),)).save(tmp_path / "model")  # whole microseconds
    assert Estimate.load(tmp_path / "model").labels == (pandas.Timestamp(1_000),)
    with pytest.raises(DataError, match="of type Timestamp cannot be saved"):
        small((pandas.Timestamp(1),)).save(tmp_path / "model")


def test_what_is_optional_may_be_missing(tmp_path: Path) -> None:
    plain = Estimate(basis=np.eye(3)[:, :1], weights=np.ones((1, 2)), labels=(0, 1))
    plain.save(tmp_path / "model.npz")
    check_equal(Estimate.load(str(tmp_path / "model.npz")), plain)
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def test_saved_estimate_replaces_the_old_one(tmp_path: Path) -> None:
    small(seed=1).save(tmp_path / "model")
    small(seed=2).save(tmp_path / "model")
    check_equal(Estimate.load(tmp_path / "model"), small(seed=2))


def test_same_estimate_makes_the_same_file(tmp_path: Path) -> None:
    small().save(tmp_path / "a")
    small().save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_every_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    small().save(path)
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match="truncated or of another program: fit and save"):
            Estimate.load(path)
    path.write_bytes(content[:-1])
    with pytest.raises(ModelFileError, match="fit and save it again"):
        Estimate.load(path)


def test_file_with_a_broken_byte_is_refused_or_read_rightly(tmp_path: Path) -> None:
    """No broken byte gives another estimate, or an error of another kind."""
    path = tmp_path / "model"
    original = small()
    original.save(path)
    content = bytearray(path.read_bytes())
    for place in range(0, len(content), 3):
        broken = content.copy()
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        try:
            loaded = Estimate.load(path)
        except ModelFileError:
            continue
        check_equal(loaded, original)


def npz(**arrays: NDArray[np.generic]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("readme.txt", "hello")
    return buffer.getvalue()


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ones(3))
    return buffer.getvalue()


FOREIGN: dict[str, bytes] = {
    "text": b"city,clicks\nRome,1\n",
    "nothing": b"",
    "zeros": bytes(4096),
    "a zip of something else": zipped(),
    "an array": npy(),
    "other arrays": npz(x=np.ones(3)),
    "a header that is no JSON": npz(header=np.frombuffer(b"{nope", np.uint8)),
    "a header that is a list": npz(header=np.frombuffer(b"[1, 2]", np.uint8)),
    "a header of numbers": npz(header=np.ones(3)),
    "a header of another format": npz(
        header=np.frombuffer(json.dumps({"format": "other", "version": 1}).encode(), np.uint8)
    ),
    "a pickle": pickle.dumps({"basis": [1.0]}),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="fit and save it again"):
        Estimate.load(path)


class Trap:
    """Sets a mark when it is unpickled."""

    sprung = False

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return (spring, ())


def spring() -> None:
    Trap.sprung = True


def test_pickled_arrays_are_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "model"
    small().save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    trap = np.array([Trap()], dtype=object)
    for name in ("header", "basis", "weights", "costs", "extra"):
        path.write_bytes(npz(**{**arrays, name: trap}))
        with pytest.raises(ModelFileError, match="fit and save it again"):
            Estimate.load(path)
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ModelFileError):
        Estimate.load(path)
    assert not Trap.sprung


def tampered(path: Path, **changes: object) -> None:
    """Save an estimate with another header; a value of None takes the entry out."""
    small().save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = {**json.loads(arrays["header"].tobytes()), **changes}
    header = {key: value for key, value in header.items() if value is not None}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    path.write_bytes(npz(**arrays))


@pytest.mark.parametrize("version", [3, 99, 0, "1.0"])
def test_file_of_another_version_asks_for_an_upgrade(tmp_path: Path, version: object) -> None:
    tampered(tmp_path / "model", version=version)
    with pytest.raises(ModelFileError, match=rf"version {version!r}; this release .* upgrade"):
        Estimate.load(tmp_path / "model")


@pytest.mark.parametrize("key", ["format", "version", "estimator", "labels", "status"])
def test_file_that_lacks_a_part_is_refused(tmp_path: Path, key: str) -> None:
    tampered(tmp_path / "model", **{key: None})
    with pytest.raises(ModelFileError, match="fit and save it again"):
        Estimate.load(tmp_path / "model")


WRONG: dict[str, dict[str, object]] = {
    "no feature names at all": {"feature_names": None},
    "too few labels": {"labels": ["a"]},
    "labels of no known kind": {"labels": [{"set": [1]}, "b", "c"]},
    "labels that cannot be hashed": {"labels": [["a"], "b", "c"]},
    "labels that are a number": {"labels": 3},
    "a status of other fields": {"status": {"done": True}},
    "feature names that are a number": {"feature_names": 3},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_header_with_wrong_parts_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    tampered(tmp_path / "model", **change)
    with pytest.raises(ModelFileError, match="fit and save it again"):
        Estimate.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["basis", "weights", "costs"])
def test_arrays_of_wrong_shape_or_type_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model"
    small().save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    for wrong in (np.array("text"), np.array(1.0)) + ((np.ones(4),) if name != "costs" else ()):
        path.write_bytes(npz(**{**arrays, name: wrong}))
        with pytest.raises(ModelFileError, match="fit and save it again"):
            Estimate.load(path)
    path.write_bytes(npz(**{key: value for key, value in arrays.items() if key != name}))
    with pytest.raises(ModelFileError, match="fit and save it again"):
        Estimate.load(path)


def test_missing_file_and_directory_are_said(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"there is no file .*; check the path"):
        Estimate.load(tmp_path / "model")
    with pytest.raises(ModelFileError):
        Estimate.load(tmp_path)


def test_saving_into_a_missing_directory_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"there is no folder .*missing"):
        small().save(tmp_path / "missing" / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["replace", "write"])
def test_crash_while_saving_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "model"
    small(seed=1).save(path)

    def crash(*_: object, **__: object) -> None:
        raise OSError("no space left")

    if step == "replace":
        monkeypatch.setattr("os.replace", crash)
        monkeypatch.setattr(Path, "replace", crash)
    else:
        monkeypatch.setattr("os.fsync", crash)
    with pytest.raises(OSError, match="no space left"):
        small(seed=2).save(path)
    monkeypatch.undo()
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    check_equal(Estimate.load(path), small(seed=1))


def test_saved_file_can_be_read_by_those_who_can_read_new_files(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    small().save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_status_reads_as_a_sentence() -> None:
    assert str(small().status) == "limit after 3 iterations: raise iterations"


def test_estimate_of_float32_rows_is_saved_whole(tmp_path: Path) -> None:
    tasks = drawn().tasks
    estimate = LowRank(rank=2).fit(flat(tasks.rows.astype(np.float32), tasks.rewards, tasks.owners))
    estimate.save(tmp_path / "model")
    check_equal(Estimate.load(tmp_path / "model"), estimate)


# ---- frames


def test_predict_takes_the_columns_of_a_frame_by_name() -> None:
    rng = np.random.default_rng(0)
    frame = polars.DataFrame(
        {
            "city": ["a", "b"] * 20,
            **{name: rng.standard_normal(40) for name in "xyz"},
            "clicks": rng.standard_normal(40),
        }
    )
    tasks = TaskRows.from_frame(frame, task="city", reward="clicks", intercept=True)
    estimate = LowRank(rank=2).fit(tasks)
    wide = np.column_stack([frame[name].to_numpy() for name in "xyz"] + [np.ones(40)])
    expected = estimate.predict(wide, frame["city"].to_list())
    for other in (frame, frame.select("z", "city", "y", "x"), frame.to_pandas()):
        found = estimate.predict(other, frame["city"].to_list())
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(DataError, match=r"no column z; the fit used: x, y, z, \(intercept\)"):
        estimate.predict(frame.drop("z"), frame["city"].to_list())
    with pytest.raises(DataError, match="no feature names"):
        replace(small(), feature_names=None).predict(frame, ["a"] * 40)


def test_one_string_is_not_a_list_of_labels() -> None:
    with pytest.raises(DataError, match=r"such as \['ab'\], not one string"):
        small().predict(np.ones((2, 5)), "ab")


# ---- tasks that were not fitted


def test_new_tasks_are_predicted_by_the_mean_of_the_fitted_ones() -> None:
    rng = np.random.default_rng(0)
    basis, weights = np.linalg.qr(rng.standard_normal((5, 2)))[0], rng.standard_normal((2, 7))
    estimate = Estimate(basis=basis, weights=weights, labels=tuple("abcdefg"))
    features = rng.standard_normal((3, 5))
    every = features @ estimate.theta  # (row, task)
    predicted = estimate.predict(features, ["b", "new", ("no", "label")], strict=False)
    expected = [every[0, 1], every[1].mean(), every[2].mean()]
    np.testing.assert_allclose(predicted, expected)
    spread = np.sqrt(every.var(axis=1, ddof=1) * (1 + 1 / 7))
    np.testing.assert_allclose(estimate.spread(features), spread)
    with pytest.raises(UnknownTaskError, match="'new'"):
        estimate.predict(features, ["b", "new", "c"])
    alone = Estimate(basis=basis, weights=weights[:, :1], labels=("a",))
    assert np.isnan(alone.spread(features)).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_spread_covers_new_tasks(seed: int) -> None:
    """Of 400 new tasks of the same population, about 95 % are within 2 standard deviations."""
    rng = np.random.default_rng(seed)
    B = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    thetas = B @ (rng.standard_normal((2, 440)) * [[2.0], [0.5]] + [[1.0], [3.0]])  # (6, 440)
    X = rng.standard_normal((40, 30, 6))
    y = np.einsum("tnd,dt->tn", X, thetas[:, :40]) + 0.3 * rng.standard_normal((40, 30))
    estimate = LowRank(rank=2).fit(TaskRows.from_stacked(X, y))
    features = rng.standard_normal((400, 6))
    away = np.einsum("nd,dn->n", features, thetas[:, 40:])
    away -= estimate.predict(features, ["new"] * 400, strict=False)
    assert 0.85 < np.mean(np.abs(away) < 2 * estimate.spread(features)) < 0.995
