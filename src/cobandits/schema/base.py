"""What all fields have in common: columns of a fixed number, and what a missing value means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.schema.values import Problems, Values

__all__ = ["Doubles", "Field"]

Doubles = NDArray[np.float64]
Missing = Literal["indicator", "fill", "error"]


@dataclass(frozen=True, kw_only=True)
class Field(ABC):
    """A field of a row: its columns have a fixed number, whatever the values.

    ``missing`` says what a missing value means: ``"indicator"`` adds a column that is 1 where
    the value is missing and the others are at their usual value; ``"fill"`` does the second
    alone; ``"error"`` refuses it. ``usual`` has the means of the columns, where rows told them:
    they stand in for a missing value that is refused, if whoever encodes is not strict.
    """

    kind: ClassVar[str]  # in JSON

    missing: Missing = "indicator"
    usual: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.missing not in ("indicator", "fill", "error"):
            raise ConfigurationError(
                f"missing must be 'indicator', 'fill' or 'error', got {self.missing!r}"
            )
        object.__setattr__(self, "usual", tuple(self.usual))

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.names(""))

    def names(self, field: str) -> tuple[str, ...]:
        """Return the names of the columns of a field with this name."""
        shown = self._names(field)
        return (*shown, f"{field} is missing") if self.missing == "indicator" else shown

    def encode(
        self,
        field: str,
        values: Values,
        problems: Problems,
        out: Doubles,
        *,
        strict: bool = True,
    ) -> None:
        """Write the columns into ``out``, (n, width); what cannot be encoded is a problem."""
        refused = self.missing == "error" and values.missing.any()
        if refused and (strict or not self.usual):
            count = int(values.missing.sum())
            text = f"{count} value{' is' if count == 1 else 's are'} missing"
            problems.add(field, f"{text}, and none was before: fill in, or leave out the rows")
        if self.missing == "indicator":
            self._encode(field, values, problems, out[:, :-1])
            out[:, -1] = values.missing
            return
        self._encode(field, values, problems, out)
        if refused and self.usual:
            out[values.missing] = self.usual

    @abstractmethod
    def _names(self, field: str) -> tuple[str, ...]:
        """Return the names of the columns without the indicator."""

    @abstractmethod
    def _encode(self, field: str, values: Values, problems: Problems, out: Doubles) -> None:
        """Write the columns without the indicator."""

    def to_dict(self) -> dict[str, Any]:
        """Return the field as JSON can hold it, without what is as by default."""
        given = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.default is MISSING or getattr(self, one.name) != one.default
        }
        listed = {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}
        return {"type": self.kind, **listed}
