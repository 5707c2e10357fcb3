"""Retention: old events are folded into a snapshot, and removed."""

from __future__ import annotations

from cobandits.engine.core import Core
from cobandits.engine.fold import SpaceFold
from cobandits.engine.stores import Query, Store

__all__ = ["erase_events", "needed_events", "remove_events"]

_LASTING = ("space", "change", "relearn", "upload")  # what says how a space is, and its files
_AT_ONCE = 2000  # events of one transaction


def needed_events(fold: SpaceFold) -> set[int]:
    """Return the decisions that a space has yet to learn from, whatever their age."""
    open_ = {int(one[0]) for one in fold.outcomes.saved()}
    return open_ | {lesson.decision for lesson in fold.learner.waiting}


def remove_events(core: Core, before: int) -> int:
    """Remove the events before a time, but for those that are needed; return how many.

    Each space must have a snapshot of its present state. What makes a space, its schemas and its
    files stay.
    """
    store, needed = core.store, set[int]().union(*map(needed_events, core.folds.values()))
    last = min((fold.last for fold in core.folds.values()), default=0)  # all snapshots are later
    through = min(_last_before(store, before), last)
    count = 0
    for start in range(store.folded(), through, _AT_ONCE):
        end = min(start + _AT_ONCE, through)
        found = [
            event.number
            for event in store.read(Query(after=start, through=end))
            if event.kind not in _LASTING and not {event.number, event.ref} & needed
        ]
        store.remove(found, end)
        count += len(found)
    for fold in core.folds.values():
        fold.memory.clear()
    return count


def erase_events(core: Core, space: int, after: int) -> int | None:
    """Erase some events of a deleted space, and its snapshots.

    Returns the number after which to go on, or None: then all are erased. The one that tells of
    the deletion is the last, so that what was interrupted is noticed when the log is read.
    """
    found = core.store.page(Query(space=space, after=after, limit=_AT_ONCE))
    core.store.erase(space, [event.number for event in found])
    if len(found) == _AT_ONCE:
        return found[-1].number
    core.deleted.discard(space)
    return None


def _last_before(store: Store, before: int) -> int:
    """Return the number of the last event before a time; times rise with numbers."""
    low, high = store.folded(), store.last()[0]
    while low < high:
        middle = (low + high + 1) // 2
        found = store.page(Query(after=middle - 1, limit=1))
        if found and found[0].at < before:
            low = middle
        else:
            high = middle - 1
    return low
