"""The state of the shared policy in a file: without pickle, and resumed to the last bit.

Saved is what cannot be computed again with the same rounding: thetas, for example, follow from
posteriors, but a product of matrices rounds as its shape wants it. What is loaded is refused
unless all arrays fit each other, so that a damaged file is noticed before it decides anything.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cobandits.archives import Archive, Arrays, Header
from cobandits.errors import ModelFileError
from cobandits.estimate import Estimate, Status
from cobandits.histories import GIVEN_UP, NEW, Histories
from cobandits.policies.alarm import Alarm
from cobandits.policies.heads import Heads
from cobandits.priors import Contest, Coordinates, Prior, Settings, different_rivals

if TYPE_CHECKING:
    from cobandits.policies.shared import Shared

__all__ = ["load", "save"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Shape = tuple[int | None, ...]  # None for any length

_UNSETTLED = ("new_tasks", "new_rows", "new_squares", "new_expected")

_FILE = Archive(
    holds="shared-policy",
    version=2,
    advice="load another copy, or let a new policy relearn its log",
)


def save(policy: Shared, path: str | Path) -> None:
    """Write all that a policy has learned, whole or not at all."""
    header: Header = {
        "setting": {
            "dim": int(policy.dim),
            "n_tasks": int(policy.n_tasks),
            "explore": policy.explore,
            "floor": float(policy.floor),
        },
        "rewards": policy.rewards,
        "seen": policy._seen,
        "changes": policy.changes,
        "due": policy._due,
        "alarm": {"rows": policy._alarm.rows, "evidence": policy._alarm.evidence},
        "contest": policy._contest.settings._asdict(),
        "learned": policy._heads is not None,
    }
    arrays: Arrays = {
        "counts": policy._counts,
        "counts_whole": policy._counts_whole,
        "usual": policy._alarm.usual,
        "gained_tasks": np.array(list(policy._alarm.gained), np.int64),
        "gained": np.array(list(policy._alarm.gained.values()), np.float64),
        "errors": policy._contest.errors,
        "rivals": policy._contest.thetas,
        "rival_places": policy._contest.places,
        **_history_arrays(policy._histories),
        **_unsettled_arrays(policy),
    }
    if policy._heads is not None and policy.estimate is not None:
        prior, sharing = policy._heads.prior, policy._contest.prior
        assert sharing is not None
        header["prior"] = {"offset": prior.offset, "noise": prior.noise}
        header["sharing"] = {"offset": sharing.offset, "noise": sharing.noise}
        header["lowest"], header["highest"] = policy._lowest, policy._highest
        header["status"] = vars(policy.estimate.status)
        arrays |= {"sharing": sharing.covariance, **_heads_arrays(policy._heads)}
        arrays |= {"basis": policy.estimate.basis, "weights": policy.estimate.weights}
    _FILE.save(path, header, arrays)


def load(path: str | Path, kind: type[Shared]) -> Shared:
    """Read what :func:`save` wrote."""
    return _FILE.load(path, lambda header, arrays: _made(kind, header, arrays))


def _history_arrays(histories: Histories) -> Arrays:
    """Return the rows in their present order: sums over them round as it wants it."""
    owners, rows = histories.flat
    return {
        "slots": histories.slots,
        "slot_tasks": histories.tasks,
        "slot_sizes": histories.sizes,
        "owners": owners,
        "rows": rows,
    }


def _unsettled_arrays(policy: Shared) -> Arrays:
    """Return what only heads have learned so far."""
    nothing = np.zeros(0, np.int64), np.zeros((0, policy.dim + 2)), np.zeros(0), np.zeros(0)
    parts = zip(nothing, *policy._unsettled, strict=True)
    return dict(zip(_UNSETTLED, (np.concatenate(part) for part in parts), strict=True))


def _heads_arrays(heads: Heads) -> Arrays:
    return {
        "coordinates": heads.prior.coordinates.matrix,
        "covariance": heads.prior.covariance,
        "variances": heads.prior.variances,
        "vectors": heads.prior.vectors,
        "spread": heads.prior.spread,
        "directions": heads.directions,
        "thetas": heads.thetas,
        "noises": heads.noises,
        "means": heads.posteriors.means,
        "roots": heads.posteriors.roots,
        "log_volumes": heads.posteriors.log_volumes,
    }


def _made(kind: type[Shared], header: Header, arrays: Arrays) -> Shared:
    setting = header["setting"]
    counts = _codes(arrays, "counts", (setting["n_tasks"],))  # before memory is taken for so many
    _doubles(arrays, "rows", (None, setting["dim"] + 2))
    policy = kind(**setting)
    policy.rewards = _count(header, "rewards")
    policy.changes = tuple(int(change) for change in header["changes"])
    policy._seen, policy._due = _count(header, "seen"), _count(header, "due")
    policy._counts = counts
    policy._counts_whole = _codes(arrays, "counts_whole", counts.shape)
    if (policy._counts_whole > counts).any():
        raise _refused("counts_whole above counts")
    if counts.sum() != policy._seen:
        raise _refused(f"counts of {counts.sum()} rewards, expected {policy._seen}")
    policy._alarm = _alarm(header["alarm"], arrays, policy.n_tasks)
    policy._histories = _histories(arrays, policy.n_tasks, policy.dim)
    policy._contest = _contest(header["contest"], arrays)
    if header["learned"]:
        policy._lowest = _number(header, "lowest")
        policy._highest = _number(header, "highest")
        policy._heads = _heads(header, arrays, policy.n_tasks, policy.dim)
        _add_rivals(policy._contest, arrays, policy._histories)
        policy._contest.prior = _sharing(header["sharing"], arrays, policy._heads.prior)
        policy.estimate = _estimate(header["status"], arrays, policy.n_tasks, policy.dim)
        _add_unsettled(policy, arrays)
    return policy


def _add_unsettled(policy: Shared, arrays: Arrays) -> None:
    tasks = _codes(arrays, "new_tasks", (None,))
    if tasks.max(initial=0) >= policy.n_tasks:
        raise _refused(f"new_tasks up to {tasks.max()} of {policy.n_tasks}")
    rows = _doubles(arrays, "new_rows", (len(tasks), policy.dim + 2))
    squares, expected = (_doubles(arrays, name, tasks.shape) for name in _UNSETTLED[2:])
    if squares.min(initial=0) < 0:
        raise _refused(f"{squares.min()} in new_squares, the least is 0")
    if expected.min(initial=1) <= 0:
        raise _refused(f"{expected.min()} in new_expected, which are above 0")
    if (np.bincount(tasks, minlength=policy.n_tasks) > policy._counts).any():
        raise _refused("new_tasks with more rows than rewards")
    if len(tasks):
        policy._unsettled, policy._n_unsettled = [(tasks, rows, squares, expected)], len(tasks)


def _alarm(numbers: Header, arrays: Arrays, n_tasks: int) -> Alarm:
    alarm = Alarm(n_tasks)
    alarm.rows, alarm.evidence = _count(numbers, "rows"), _number(numbers, "evidence")
    alarm.usual = _doubles(arrays, "usual", alarm.usual.shape)
    tasks = _codes(arrays, "gained_tasks", (None,))
    gained = _doubles(arrays, "gained", tasks.shape)
    if tasks.max(initial=0) >= n_tasks or len(np.unique(tasks)) < len(tasks):
        raise _refused(f"gained_tasks that are not different ones of {n_tasks}")
    alarm.gained = dict(zip(tasks.tolist(), gained.tolist(), strict=True))
    return alarm


def _histories(arrays: Arrays, n_tasks: int, dim: int) -> Histories:
    histories = Histories(n_tasks=n_tasks, dim=dim)
    tasks = _codes(arrays, "slot_tasks", (None,))
    sizes = _codes(arrays, "slot_sizes", tasks.shape)
    slots = _codes(arrays, "slots", (n_tasks,), least=GIVEN_UP)
    _check_slots(slots, tasks, sizes)
    owners = _codes(arrays, "owners", (int(sizes.sum()),))
    slots_with_rows, counts = np.unique(owners, return_counts=True)
    filled = np.flatnonzero(sizes)
    if not (np.array_equal(slots_with_rows, filled) and np.array_equal(counts, sizes[filled])):
        raise _refused("owners of rows that are not as many as slot_sizes says")
    histories.slots, histories.tasks, histories.sizes = slots, tasks, sizes
    histories.set(owners, _doubles(arrays, "rows", (len(owners), histories.width)))
    return histories


def _check_slots(slots: Codes, tasks: Codes, sizes: Codes) -> None:
    """Refuse slots that are not those of the tasks."""
    if tasks.max(initial=-1) >= len(slots) or len(np.unique(tasks)) < len(tasks):
        raise _refused(f"slot_tasks that are not different ones of {len(slots)}")
    given_up = slots == GIVEN_UP
    expected = np.full(len(slots), NEW)
    expected[tasks] = np.arange(len(tasks))
    if (slots != expected)[~given_up].any():
        raise _refused("slots that are not those of slot_tasks")
    if sizes[given_up[tasks]].any():
        raise _refused("slot_sizes above 0 of tasks whose rows were given up")


def _contest(settings: Header, arrays: Arrays) -> Contest:
    contest = Contest()
    contest.settings = Settings(
        isotropic=_number(settings, "isotropic"),
        least_noise=_number(settings, "least_noise"),
        offset=bool(settings["offset"]),
    )
    contest.errors = _doubles(arrays, "errors", contest.errors.shape)
    return contest


def _add_rivals(contest: Contest, arrays: Arrays, histories: Histories) -> None:
    """Give the contest the thetas that compete, each of which belongs to a slot."""
    rivals = len(different_rivals(contest.settings))
    thetas = _doubles(arrays, "rivals", (None, rivals, histories.width - 1))
    places = _codes(arrays, "rival_places", (None,), least=-1)
    if not np.array_equal(np.sort(places[places >= 0]), np.arange(len(thetas))):
        raise _refused(f"rival_places that are not those of {len(thetas)} rivals")
    if not 0 < len(places) <= len(histories.tasks):
        raise _refused(f"rival_places of {len(places)} slots, there are {len(histories.tasks)}")
    contest.thetas, contest.places = thetas, places


def _sharing(numbers: Header, arrays: Arrays, prior: Prior) -> Prior:
    """Return the prior that shares most, in the coordinates of the one in use."""
    return replace(
        prior,
        covariance=_doubles(arrays, "sharing", prior.covariance.shape),
        offset=_number(numbers, "offset"),
        noise=_variance(numbers, "noise"),
    )


def _heads(header: Header, arrays: Arrays, n_tasks: int, dim: int) -> Heads:
    matrix = _doubles(arrays, "coordinates", (dim + 1, None))
    square = (matrix.shape[1], matrix.shape[1])
    prior = Prior(
        coordinates=Coordinates(matrix=matrix),
        covariance=_doubles(arrays, "covariance", square),
        offset=_number(header["prior"], "offset"),
        noise=_variance(header["prior"], "noise"),
        spread=_doubles(arrays, "spread", square),
    )
    variances = _doubles(arrays, "variances", square[:1])
    if not variances.min() > 0:
        raise _refused(f"{variances.min()} in variances, which are above 0")
    prior.remember(variances, _doubles(arrays, "vectors", square))
    directions = _doubles(arrays, "directions", (None, dim + 1))
    if not 0 < len(directions) <= prior.coordinates.dim:
        raise _refused(f"{len(directions)} directions, there are {prior.coordinates.dim}")
    heads = Heads(n_tasks=n_tasks, prior=prior, directions=len(directions))
    heads.directions = directions
    heads.thetas = _doubles(arrays, "thetas", heads.thetas.shape)
    heads.noises = _doubles(arrays, "noises", heads.noises.shape)
    if not heads.noises.min() >= prior.noise > 0:
        raise _refused(f"{heads.noises.min()} in noises, the least is {prior.noise}, above 0")
    posteriors = heads.posteriors
    posteriors.means = _doubles(arrays, "means", posteriors.means.shape)
    posteriors.roots = _doubles(arrays, "roots", posteriors.roots.shape)
    posteriors.log_volumes = _doubles(arrays, "log_volumes", posteriors.log_volumes.shape)
    return heads


def _estimate(status: Header, arrays: Arrays, n_tasks: int, dim: int) -> Estimate:
    basis = _doubles(arrays, "basis", (dim, None))
    return Estimate(
        basis=basis,
        weights=_doubles(arrays, "weights", (basis.shape[1], n_tasks)),
        labels=tuple(range(n_tasks)),
        status=Status(**status),
    )


def _doubles(arrays: Arrays, name: str, shape: Shape) -> Doubles:
    """Return an array of finite numbers, or refuse one that is not as expected."""
    values = _fitting(arrays[name], name, shape, "f")
    _check_finite(values, name)
    return np.ascontiguousarray(values, np.float64)


def _check_finite(values: NDArray[Any], name: str) -> None:
    if not np.isfinite(values).all():
        raise _refused(f"a NaN or an infinite value in {name}")


def _codes(arrays: Arrays, name: str, shape: Shape, least: int = 0) -> Codes:
    """Return an array of whole numbers, or refuse one that is not as expected."""
    values = _fitting(arrays[name], name, shape, "i")
    if values.min(initial=least) < least:
        raise _refused(f"{values.min()} in {name}, the least is {least}")
    return np.ascontiguousarray(values, np.int64)


def _fitting(values: NDArray[Any], name: str, shape: Shape, kind: str) -> NDArray[Any]:
    """Return an array of 8-byte numbers of a kind, in any byte order."""
    lengths = zip(values.shape, shape, strict=False)
    fits = values.ndim == len(shape) and all(n in (has, None) for has, n in lengths)
    if not fits or (values.dtype.kind, values.dtype.itemsize) != (kind, 8):
        wanted = str(shape).replace("None", "any")
        raise _refused(
            f"{name} of shape {values.shape} and type {values.dtype}, "
            f"expected {wanted} of type {kind}8"
        )
    return values


def _number(numbers: Header, name: str) -> float:
    value = float(numbers[name])
    if not np.isfinite(value):
        raise _refused(f"{value} as {name}")
    return value


def _variance(numbers: Header, name: str) -> float:
    value = _number(numbers, name)
    if value < 0:
        raise _refused(f"{value} as {name}, the least is 0")
    return value


def _count(numbers: Header, name: str) -> int:
    value = int(numbers[name])
    if value < 0:
        raise _refused(f"{value} as {name}, the least is 0")
    return value


def _refused(what: str) -> ModelFileError:
    return ModelFileError(f"holds {what}; it is damaged: {_FILE.advice}")
