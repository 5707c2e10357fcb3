"""The schema: which fields there are, how they cross, and the vectors that they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.schema.base import Field
from cobandits.schema.fields import KINDS
from cobandits.schema.inference import infer_fields
from cobandits.schema.values import Problems, Rows, Values, columns_of_rows, values_of

__all__ = ["Schema"]

Doubles = NDArray[np.float64]
Cross = tuple[str, str]

_VERSION = 1  # of the JSON


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Turns named values into vectors of a fixed dimension.

    Parameters
    ----------
    arm
        What is known of an arm, or of a row of a table, by name: columns of their own.
    context
        What all arms of a request have in common. Alone it would add the same to each arm of a
        linear model, so it has columns only where it is crossed with a field of the arms.
    crosses
        Pairs of fields whose columns are multiplied, each with each; ``"all"`` crosses every
        field of the context with every field of an arm.

    Examples
    --------
    >>> from cobandits.schema import Category, Number
    >>> schema = Schema(
    ...     context={"rain": Number(missing="error")},
    ...     arm={"kind": Category(values=("tea", "cola"), unknown="error", missing="error")},
    ...     crosses="all",
    ... )
    >>> schema.names
    ('kind=tea', 'kind=cola', 'rain * kind=tea', 'rain * kind=cola')
    >>> schema.encode([{"kind": "cola"}], context={"rain": 3}).tolist()
    [[0.0, 1.0, 0.0, 3.0]]
    """

    arm: Mapping[str, Field]
    context: Mapping[str, Field] = field(default_factory=dict)
    crosses: Sequence[Cross] | Literal["all"] = ()

    def __post_init__(self) -> None:
        if self.crosses != "all":  # however they were given, equal ones are equal
            object.__setattr__(self, "crosses", tuple(self._pairs))
        both = sorted(set(self.arm) & set(self.context))
        if both:
            raise ConfigurationError(f"fields of context and arm alike: {', '.join(both)}")
        for pair in self._pairs:
            unknown = [name for name in pair if name not in self.fields]
            if unknown:
                raise ConfigurationError(
                    f"a cross names two fields, got {pair}; there are: {', '.join(self.fields)}"
                )
        for name, one in self.fields.items():
            if one.usual and (len(one.usual) != one.width or not np.isfinite(one.usual).all()):
                raise ConfigurationError(
                    f"{name}: usual must be {one.width} finite numbers, one per column, or none, "
                    f"got {list(one.usual)}"
                )
        if not self.names:
            raise ConfigurationError("a schema needs at least one field of an arm, or a cross")

    @classmethod
    def infer(
        cls,
        rows: Rows,
        *,
        categorical: Sequence[str] = (),
        dates: Sequence[str] = (),
        missing: Literal["indicator", "mean"] = "indicator",
        standardise: bool = False,
        context: Sequence[str] = (),
        crosses: Sequence[tuple[str, str]] | Literal["all"] = (),
    ) -> Schema:
        """Return a first schema for rows like these; see :func:`cobandits.schema.infer_fields`.

        ``context`` names the fields that are the same for all arms of a request, such as the
        weather. ``crosses`` are pairs of fields whose products are features too, or ``"all"`` of a
        field of the context and one of the arms.

        >>> Schema.infer([{"price": 3.5, "kind": "hot"}, {"price": 2, "kind": "cold"}]).names
        ('price', 'kind=cold', 'kind=hot')
        """
        found = infer_fields(
            rows,
            categorical=categorical,
            dates=dates,
            missing=missing,
            standardise=standardise,
        )
        unknown = [name for name in context if name not in found.fields]
        if unknown:
            raise DataError(
                f"no field {', '.join(unknown)} for the context; there are: "
                f"{', '.join(found.fields)}"
            )
        return cls(
            arm={name: one for name, one in found.fields.items() if name not in context},
            context={name: found.fields[name] for name in context},
            crosses=crosses,
        )

    @property
    def fields(self) -> dict[str, Field]:
        """All fields by name: those of an arm, then those of the context."""
        return {**self.arm, **self.context}

    @property
    def _pairs(self) -> Sequence[Cross]:
        if self.crosses == "all":
            return [(one, other) for one in self.context for other in self.arm]
        return [(str(one), str(other)) for one, other in self.crosses]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        of = {name: one.names(name) for name, one in self.fields.items()}
        crossed = (f"{a} * {b}" for one, two in self._pairs for a in of[one] for b in of[two])
        return (*(column for name in self.arm for column in of[name]), *crossed)

    @property
    def dim(self) -> int:
        """The number of columns."""
        return len(self.names)

    def encode(
        self,
        rows: Rows,
        context: Mapping[str, object] | None = None,
        *,
        strict: bool = True,
        out: Doubles | None = None,
    ) -> Doubles:
        """Return one vector per row, (n, dim).

        Parameters
        ----------
        rows
            A frame, a mapping of columns, or a sequence of rows: of arms, if a ``context`` is
            given, else with the fields of the context too. A field that a row lacks is missing.
        context
            The same for all rows.
        strict
            If not, a missing value in a field that had none is the mean of the field's columns,
            where :meth:`with_usual` has told it, and not refused.
        out
            Where to write the vectors, (n, dim); a new array by default.
        """
        problems, parts, last = Problems(), {}, 0
        columns, n = self._columns(rows, context, problems)
        encoded = np.empty((n, self.dim)) if out is None else out
        if encoded.shape != (n, self.dim):
            raise DataError(f"out must be of shape {(n, self.dim)}, got {encoded.shape}")
        for name, one in self.fields.items():
            count = len(columns[name].cells)
            first, last = last, last + one.width if name in self.arm else last
            part = encoded[:, first:last] if name in self.arm else np.empty((count, one.width))
            one.encode(name, columns[name], problems, part, strict=strict)
            parts[name] = part
        problems.refuse()
        for left, right in self._pairs:
            first, last = last, last + parts[left].shape[1] * parts[right].shape[1]
            product = parts[left][:, :, None] * parts[right][:, None, :]
            encoded[:, first:last] = product.reshape(len(product), -1)
        return encoded

    def with_usual(self, vectors: Doubles) -> Schema:
        """Return the schema with the means of the columns of ``vectors``, (n, dim).

        They are for the fields of an arm that had no missing values, and refuse them therefore.
        """
        means, arm, last = vectors.mean(axis=0).tolist(), {}, 0
        for name, one in self.arm.items():
            first, last = last, last + one.width
            told = one.missing == "error"
            arm[name] = replace(one, usual=means[first:last]) if told else one
        return replace(self, arm=arm)

    def new_gaps(self, rows: Rows) -> dict[str, int]:
        """Return how many values are missing in each field that refuses them, if there are any."""
        names = [name for name, one in self.fields.items() if one.missing == "error"]
        columns = columns_of_rows(rows, names)
        counts = {name: int(values.missing.sum()) for name, values in columns.items()}
        return {name: count for name, count in counts.items() if count}

    def _columns(
        self, rows: Rows, context: Mapping[str, object] | None, problems: Problems
    ) -> tuple[dict[str, Values], int]:
        """Return the values of each field, one of each in a context, and the number of rows."""
        columns = columns_of_rows(rows, list(self.fields if context is None else self.arm))
        n = len(next(iter(columns.values())).cells) if columns else len(rows)
        if context is not None:
            for name in sorted(set(context) - set(self.context)):
                problems.add(name, f"unknown; the context has: {', '.join(self.context)}")
            columns |= {name: values_of([context.get(name)]) for name in self.context}
        return columns, n

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as JSON can hold it."""
        crosses = self.crosses if self.crosses == "all" else [list(pair) for pair in self._pairs]
        return {
            "version": _VERSION,
            "context": {name: one.to_dict() for name, one in self.context.items()},
            "arm": {name: one.to_dict() for name, one in self.arm.items()},
            "crosses": crosses,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Schema:
        """Read what :meth:`to_dict` returned, or what a user wrote; refuse what is not known."""
        unknown = sorted(set(given) - {"version", "context", "arm", "crosses"})
        if unknown:
            raise ConfigurationError(
                f"unknown {', '.join(unknown)} in a schema; it has context, arm and crosses"
            )
        if given.get("version", _VERSION) != _VERSION:
            raise ConfigurationError(
                f"a schema of version {given['version']}; this release reads {_VERSION}"
            )
        problems: list[str] = []
        groups = {
            group: {name: _field(name, one, problems) for name, one in given.get(group, {}).items()}
            for group in ("context", "arm")
        }
        if problems:
            raise ConfigurationError("; ".join(problems))
        crosses = given.get("crosses", ())
        pairs = crosses if crosses == "all" else tuple((str(a), str(b)) for a, b in crosses)
        read = {group: {k: v for k, v in ones.items() if v} for group, ones in groups.items()}
        return cls(arm=read["arm"], context=read["context"], crosses=pairs)


def _field(name: str, given: Mapping[str, Any], problems: list[str]) -> Field | None:
    """Return a field from its JSON, or None and a problem."""
    kind: Callable[..., Field] | None = KINDS.get(str(given.get("type")))
    if kind is None:
        problems.append(
            f"{name}: type must be one of {', '.join(KINDS)}, got {given.get('type')!r}"
        )
        return None
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if k != "type"}
    try:
        return kind(**options)
    except (TypeError, ConfigurationError) as error:
        problems.append(f"{name}: {str(error).partition('__init__() ')[2] or error}")
        return None
