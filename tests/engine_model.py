"""A simple model of a space, in memory: what each request must be answered."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Entry", "Model"]


@dataclass
class Entry:
    """A decision."""

    until: int | None
    shown: bool
    values: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    closed: bool = False


@dataclass
class Model:
    """Windows in seconds of a clock that the test sets; rewards as the space says."""

    window: int | None
    default: float | None
    rewards: str
    now: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    learned: int = 0  # rewards that must have been learned, once

    def decide(self, name: str, *, held: bool) -> None:
        until = None if self.window is None else self.now + self.window
        self.entries[name] = Entry(until, shown=not held)

    def activate(self, name: str) -> str:
        one = self.entries[name]
        if one.shown:
            return "repeated"
        if one.until is not None and self.now > one.until:
            return "late"
        one.shown = True
        one.until = None if self.window is None else self.now + self.window
        return "accepted"

    def reward(self, name: str, value: float) -> str:
        """Return the status, or the name of the error."""
        one = self.entries.get(name)
        if one is None or not one.shown:
            return "UnknownDecisionError" if one is None else "NotActivatedError"
        if self.rewards == "first" and (one.values or one.late):
            before = (one.values or one.late)[0]
            if before != value:
                return "ConflictError"
            return "repeated" if one.values else "late"
        if self.rewards == "last" and (given := one.values + one.late) and given[-1] == value:
            return "late" if one.late else "repeated"
        if one.until is not None and self.now > one.until:
            one.late.append(value)
            return "late"
        one.values.append(value)
        if self.rewards == "first" and self.default is None:
            self.learned += 1
        return "accepted"

    def close_windows(self) -> None:
        """Count what is learned at the end of windows that are over."""
        if self.rewards == "first" and self.default is None:
            return
        for one in self.entries.values():
            over = one.until is not None and one.until < self.now
            if over and one.shown and not one.closed:
                one.closed = True
                self.learned += bool(one.values) or self.default is not None
