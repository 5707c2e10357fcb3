"""Tasks that come at any time, in any number: each gets a place with its first reward."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.decisions import check_tasks
from cobandits.errors import DataError
from cobandits.fast_checks import are_codes, find_places
from cobandits.labels import check_labels
from cobandits.policies.gaussian import GaussianPosteriors

__all__ = ["TaskIndex", "as_labels", "places_in", "room_for"]

Codes = NDArray[np.int64]
Labels = NDArray[np.object_]


class TaskIndex:
    """The tasks that have had rewards, in the order of the first one of each.

    Arrays of all tasks have a row per place, and at least one more: the next place, where nothing
    has been learned yet. It stands for every task that is not in the index.

    >>> index = TaskIndex([700, 3])
    >>> index.find(np.array([3, 700, 8])).tolist()
    [1, 0, 2]
    """

    def __init__(self, tasks: Iterable[Hashable] = ()) -> None:
        self._places: dict[Hashable, int] = {}
        self._in_order = True  # whether tasks are the numbers 0, 1, 2 and so on: the fast way
        self.add(tasks)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def tasks(self) -> tuple[Hashable, ...]:
        """The tasks by place: numbers, or labels."""
        return tuple(self._places)

    def find(self, tasks: NDArray[Any]) -> Codes:
        """Return the place of each task, (m,); the next place for tasks that have none.

        It may be the same array.
        """
        if self._in_order and tasks.dtype.kind == "i" and are_codes(tasks, len(self._places)):
            return tasks
        return self._found(tasks)[0]

    def number(self, tasks: NDArray[Any]) -> tuple[Codes, tuple[Hashable, ...]]:
        """Return the place of each task, and the new tasks, for which places are numbered on.

        The index stays as it is until :meth:`add` is called with the new tasks.

        >>> places, new = TaskIndex([700]).number(np.array([8, 700, 3, 8]))
        >>> places.tolist(), new
        ([1, 0, 2, 1], (8, 3))
        """
        if self._in_order and tasks.dtype.kind == "i" and are_codes(tasks, len(self._places)):
            return tasks, ()
        places, n_new = self._found(tasks)
        if not n_new:
            return places, ()
        unknown = places == len(self)
        new = {task: len(self) + n for n, task in enumerate(dict.fromkeys(tasks[unknown].tolist()))}
        check_labels(new)
        places[unknown] = [new[task] for task in tasks[unknown].tolist()]
        return places, tuple(new)

    def add(self, new: Iterable[Hashable]) -> None:
        """Give places to new tasks, in their order."""
        for task in new:
            self._in_order &= type(task) is int and task == len(self._places)
            self._places.setdefault(task, len(self._places))

    def copy(self) -> TaskIndex:
        """Return an index that later additions do not change."""
        return TaskIndex(self._places.copy())

    def _found(self, tasks: NDArray[Any]) -> tuple[Codes, int]:
        """Return the places, and how many requests are of tasks without one."""
        if tasks.dtype.kind != "O":
            found = find_places(tasks, self._places)
            if found[1] < 0:
                check_tasks(tasks, None)  # says which
            return found
        get, following = self._places.get, len(self)
        places = np.array([get(label, following) for label in tasks], np.int64)
        return places, int((places == following).sum())


def room_for(n_tasks: int, reserved: int | None) -> int:
    """Return for how many places arrays are made: powers of 2, so that growth is amortised.

    There is always one place more than tasks. Up to ``reserved`` tasks there is no more room than
    for so many.

    >>> [room_for(n, None) for n in (0, 1, 5, 8)], room_for(5, 6), room_for(2, 10**6)
    ([1, 2, 8, 16], 7, 4)
    """
    doubled = 1 << n_tasks.bit_length()
    if reserved is not None and n_tasks <= reserved:
        return min(doubled, reserved + 1)
    return doubled


def places_in(
    index: TaskIndex, tasks: Codes, posteriors: GaussianPosteriors, *, learning: bool
) -> Codes:
    """Return the place of each task in posteriors; those that are to learn get one."""
    if not learning:
        return index.find(tasks)
    places, new = index.number(tasks)
    if new:
        room = room_for(len(index) + len(new), None)
        if room > len(posteriors.means):
            posteriors.grow(room)
        index.add(new)
    return places


def as_labels(tasks: ArrayLike | Iterable[Hashable]) -> Labels:
    """Return labels as an array of objects, (m,); refuse what is no list of labels.

    >>> as_labels([("Oslo", 7), "Rome"]).tolist()
    [('Oslo', 7), 'Rome']
    """
    if isinstance(tasks, str | bytes) or not isinstance(tasks, Iterable):
        raise DataError(f"give a label for each request, such as [{tasks!r}], got {tasks!r} alone")
    given = list(tasks.tolist() if isinstance(tasks, np.ndarray) else tasks)
    others = () if set(map(type, given)) == {str} else given  # a text is always a label
    for label in others:
        if not _is_label(label):
            raise DataError(
                f"a label must be hashable and equal to itself, got {label!r} of type "
                f"{type(label).__name__}; give a text, a number or a tuple of them"
            )
    return np.fromiter(given, object, len(given))


def _is_label(given: object) -> bool:
    try:
        hash(given)
    except TypeError:
        return False
    return bool(given == given)  # a NaN is not
