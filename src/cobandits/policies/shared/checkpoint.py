"""Save and load the state of the shared policy: without pickle, and exact to the last bit.

Each part of the state writes and reads its own arrays; this module puts them together. Values that
follow from others are saved too, since computing them again may round differently. A file whose
arrays do not fit each other is refused, so that damage is noticed before any decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from cobandits.archives import Archive, Arrays, File, Header
from cobandits.estimate import Estimate, Status
from cobandits.labels import decoded_label, encoded_label
from cobandits.policies.shared import version_2, version_3
from cobandits.policies.shared.discount import discount_of
from cobandits.policies.shared.drift import DriftDetector
from cobandits.policies.shared.empirical_bayes import DecomposedPrior, HyperparameterSelector
from cobandits.policies.shared.forgetful import ForgetfulPrior
from cobandits.policies.shared.forgetting import Forgetting
from cobandits.policies.shared.likelihoods import LIKELIHOODS, Likelihood
from cobandits.policies.shared.pending import Pending
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.reader import ADVICE, Part, Reader, refused
from cobandits.policies.shared.row_store import RowStore
from cobandits.policies.shared.state import State
from cobandits.policies.shared.task_drift import TaskDrift
from cobandits.policies.task_index import TaskIndex

__all__ = ["load", "save"]

Made = TypeVar("Made")

_FILE = Archive(
    holds="shared-policy",
    version=5,
    advice=ADVICE,
    upgrades={
        2: lambda header, arrays: version_3.upgraded(*version_2.upgraded(header, arrays)),
        3: version_3.upgraded,
        4: lambda header, arrays: (header, arrays),  # it had no packed arrays
    },
)
_KEPT = "before."  # prefix of the arrays of the state from before a change


def save(path: File, setting: Header, state: State) -> None:
    """Write the setting of a policy and its state, whole or not at all."""
    header, arrays = _written(state, labelled=setting["labels"])
    header["setting"] = setting
    if state.before is not None:
        header["before"], kept = _written(state.before, labelled=setting["labels"])
        arrays |= {_KEPT + name: values for name, values in kept.items()}
    _FILE.save(path, header, arrays)


def load(path: File, make: Callable[[Header, State], Made]) -> Made:
    """Read what :func:`save` wrote, and return ``make(setting, state)``."""
    return _FILE.load(path, lambda header, arrays: make(header["setting"], _read(header, arrays)))


def _written(state: State, *, labelled: bool) -> tuple[Header, Arrays]:
    """Return the numbers and the arrays of all parts."""
    header: Header = {}
    arrays: Arrays = {}
    for prefix, part in _parts(state, labelled=labelled).items():
        header[prefix] = part.numbers
        arrays |= {f"{prefix}.{name}": values for name, values in part.arrays.items()}
    return header, arrays


def _parts(state: State, *, labelled: bool) -> dict[str, Part]:
    parts = {
        "state": _numbers(state, labelled=labelled),
        "store": state.store.saved(),
        "selector": state.selector.saved(),
        "drift": state.detector.saved(),
        "task_drift": state.task_drift.saved(len(state.tasks)),
        "forgetting": state.forgetting.saved(),
        "forgetful": state.forgetful.saved(),
        "pending": Pending.joined([Pending.none(state.store.width), *state.pending]).saved(),
    }
    if state.posteriors is not None and state.estimate is not None:
        parts["prior"] = state.posteriors.prior.saved()
        parts["posteriors"] = state.posteriors.saved(len(state.tasks))
        parts["estimate"] = _estimate_part(state.estimate)
    return parts


def _numbers(state: State, *, labelled: bool) -> Part:
    numbers: dict[str, Any] = {
        "rewards": state.rewards,
        "seen": state.seen,
        "due": state.due,
        "changes": state.changes,
        "task_changes": state.task_changes,
        "range": (state.lowest, state.highest) if state.seen else None,
        "return_evidence": state.return_evidence,
        "likelihood": state.likelihood.name,
        "whole": state.whole,
        "judged": state.judged,
        "outliers": state.outliers,
    }
    T = len(state.tasks)
    arrays: Arrays = {"counts": state.counts[:T], "full_counts": state.full_counts[:T]}
    if labelled:
        numbers["labels"] = [encoded_label(label) for label in state.tasks.tasks]
    else:
        arrays["tasks"] = np.array(state.tasks.tasks, np.int64)
    return Part(numbers, arrays)


def _estimate_part(estimate: Estimate) -> Part:
    arrays = {"basis": estimate.basis, "weights": estimate.weights}
    return Part({"status": vars(estimate.status), "n_tasks": len(estimate.labels)}, arrays)


def _read(header: Header, arrays: Arrays) -> State:
    """Read a state, and the one that it keeps from before a change."""
    state = _read_state(header, arrays)
    if "before" in header:
        kept = {name: values for name, values in arrays.items() if name.startswith(_KEPT)}
        theirs = {name.removeprefix(_KEPT): values for name, values in kept.items()}
        state.before = _read_state({"setting": header["setting"], **header["before"]}, theirs)
    return state


def _read_state(header: Header, arrays: Arrays) -> State:
    setting, reader = header["setting"], Reader("state", header, arrays)
    tasks, dim = _read_tasks(reader, labelled=setting["labels"]), setting["dim"]
    n_tasks = len(tasks)
    counts = reader.codes("counts", (n_tasks,))
    full_counts = reader.codes("full_counts", counts.shape)
    seen = reader.count("seen")
    if (full_counts > counts).any():
        raise refused("state.full_counts above counts")
    if counts.sum() != seen:
        raise refused(f"counts of {counts.sum()} rewards, expected {seen}")
    state = State.fresh(
        dim=dim,
        reserved=setting["n_tasks"],
        tasks=tasks,
        on_change=setting["on_change"],
        kind=setting["rewards"],
        likelihood=_read_likelihood(reader),
    )
    state.whole = bool(reader.plain("whole"))
    state.judged, state.outliers = reader.count("judged"), reader.count("outliers")
    state.counts, state.full_counts, state.seen = counts, full_counts, seen
    state.rewards, state.due = reader.count("rewards"), reader.count("due")
    state.changes = tuple(int(change) for change in reader.plain("changes"))
    state.return_evidence = reader.number("return_evidence")
    state.detector = DriftDetector.read(Reader("drift", header, arrays), n_tasks=n_tasks)
    _read_task_drift(state, header, arrays)
    state.store = RowStore.read(Reader("store", header, arrays), n_tasks=n_tasks, dim=dim)
    _read_forgetting(state, header, arrays)
    _read_range(state, reader)
    if seen or "estimate.basis" in arrays:  # a shard may have a prior before any reward
        _read_learned(state, header, arrays)
    state.selector = HyperparameterSelector.read(
        Reader("selector", header, arrays),
        prior=None if state.posteriors is None else state.posteriors.prior.plain,
        n_slots=len(state.store.tasks),
    )
    _check_numbers(state)
    state.grow(n_tasks)
    return state


def _read_range(state: State, reader: Reader) -> None:
    """Read the lowest and the highest reward, where there was one."""
    if (reader.plain("range") is None) != (state.seen == 0):
        raise refused(f"{state.seen} as state.seen, and a range that says otherwise")
    if state.seen:
        state.lowest, state.highest = reader.pair("range")


def _read_task_drift(state: State, header: Header, arrays: Arrays) -> None:
    """Read which tasks changed alone; older files know nothing of it."""
    n_tasks = len(state.tasks)
    state.task_drift = TaskDrift.none(n_tasks)
    if "task_drift" not in header:
        return
    state.task_drift = TaskDrift.read(Reader("task_drift", header, arrays), n_tasks=n_tasks)
    noted = [(int(n), int(place)) for n, place in header["state"]["task_changes"]]
    if any(not 0 <= place < n_tasks for _, place in noted):
        raise refused(f"state.task_changes of places beyond {n_tasks} tasks")
    state.task_changes = tuple(noted)


def _read_forgetting(state: State, header: Header, arrays: Arrays) -> None:
    """Read how fast rewards are forgotten; older files know nothing of it."""
    if "forgetting" not in header:
        return
    reader = Reader("forgetting", header, arrays)
    width = state.store.width - 1
    state.forgetting = Forgetting.read(reader, n_tasks=len(state.tasks), width=width)
    discount = discount_of(state.forgetting.half_life)
    state.store = replace(state.store, discount=discount)
    if "forgetful" in header:
        reader, dim = Reader("forgetful", header, arrays), state.store.width - 2
        state.forgetful = ForgetfulPrior.read(reader, dim=dim)


def _read_likelihood(reader: Reader) -> Likelihood:
    """Read what rewards are taken to be."""
    name = reader.plain("likelihood")
    if name not in LIKELIHOODS:
        raise refused(f"{name!r} as state.likelihood")
    return LIKELIHOODS[name]


def _read_tasks(reader: Reader, *, labelled: bool) -> TaskIndex:
    """Read the tasks by place."""
    if labelled:
        found = [decoded_label(label) for label in reader.plain("labels")]
    else:
        found = reader.codes("tasks", (None,)).tolist()
    index = TaskIndex(found)
    if len(index) < len(found):
        raise refused("state.tasks that are not different")
    return index


def _check_numbers(state: State) -> None:
    """Refuse numbers that contradict each other."""
    if state.seen and state.lowest > state.highest:
        raise refused(f"({state.lowest}, {state.highest}) as state.range")
    if state.rewards < state.seen:
        raise refused(f"{state.rewards} as state.rewards, of which {state.seen} are counted")


def _read_learned(state: State, header: Header, arrays: Arrays) -> None:
    """Read the parts that there are from the first reward on."""
    n_tasks, dim = len(state.counts), state.store.width - 2
    prior = DecomposedPrior.read(Reader("prior", header, arrays), dim=dim)
    state.posteriors = TaskPosteriors.read(
        Reader("posteriors", header, arrays), n_tasks=n_tasks, prior=prior
    )
    reader = Reader("estimate", header, arrays)
    basis = reader.doubles("basis", (dim, None))
    fitted = reader.count("n_tasks")
    if fitted > n_tasks:
        raise refused(f"{fitted} as estimate.n_tasks, there are {n_tasks}")
    state.estimate = Estimate(
        basis=basis,
        weights=reader.doubles("weights", (basis.shape[1], fitted)),
        labels=state.tasks.tasks[:fitted],
        status=Status(**reader.plain("status")),
    )
    waiting = Pending.read(Reader("pending", header, arrays), counts=state.counts, width=dim + 2)
    if len(waiting.tasks):
        state.pending, state.n_pending = [waiting], len(waiting.tasks)
