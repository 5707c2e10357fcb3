"""The settings of a space: what it learns from, how it decides, how long it waits for rewards."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from cobandits.decisions import LARGEST_VALUE
from cobandits.engine.codec import decoded
from cobandits.engine.messages import Mode
from cobandits.errors import ConfigurationError, DataError
from cobandits.policies.shared.likelihoods import LIKELIHOODS
from cobandits.policies.shared.likelihoods import Rewards as RewardKind
from cobandits.schema import Schema, Vector

__all__ = [
    "CHANGEABLE",
    "LEARNED",
    "SHARDED",
    "VECTOR",
    "Settings",
    "microseconds",
    "relearned_under",
]

Explore = Literal["needed", "always", "never", "ucb"]
OnChange = Literal["adapt", "start-over", "alert"]
Rewards = Literal["first", "sum", "last"]

VECTOR = "features"  # the field of an arm in a space that takes vectors
_ID = "id"  # of an arm, no field
_UNITS = {"ms": 1e3, "s": 1e6, "m": 6e7, "h": 3.6e9, "d": 8.64e10, "w": 6.048e11}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_LONGEST = 3.2e15  # microseconds, a century: ends of windows are dates
CHANGEABLE = ("window", "default_reward", "floor", "mode", "baseline_share", "frozen")
SHARDED: dict[str, Any] = {
    "reward_kind": "gaussian",
    "on_change": "alert",
}  # what several shards can do
_POLICY = ("schema", "reward_kind", "explore", "on_change", "shards")  # what a policy is made with
LEARNED = "learned"  # in a change of `frozen`, beside it: the rewards learned by then


def microseconds(window: str | float | timedelta | None) -> int | None:
    """Return a duration: "90s", "1h", "7d", a timedelta, or a number of seconds.

    >>> microseconds("1.5h"), microseconds(2), microseconds(None)
    (5400000000, 2000000, None)
    """
    if window is None:
        return None
    if isinstance(window, timedelta):
        found = window / timedelta(microseconds=1)
    elif isinstance(window, str):
        match = _DURATION.fullmatch(window.strip())
        found = float(match[1]) * _UNITS[match[2]] if match else math.nan
    else:
        found = float(window) * 1e6
    if not 1 <= found <= _LONGEST:
        raise ConfigurationError(
            f"a window is a time above 0, such as '90s', '1h' or '7d', got {window!r}"
        )
    return round(found)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that a space is told, as it stands in its log.

    Parameters
    ----------
    schema : Schema
        Which fields arms and contexts have.
    window : str, timedelta or seconds, optional
        How long a decision waits for its reward; without one, for ever.
    default_reward : float, optional
        What is learned when the window ends without a reward; nothing if there is none. With a
        default, all rewards are learned at the end of their windows: otherwise good ones, which
        come sooner, would be learned first.
    rewards : "first", "sum" or "last"
        Which of several rewards for a decision counts. ``"first"`` refuses other ones. The others
        need a window, and are learned when it ends.
    reward_kind : "auto", "gaussian", "robust", "binary" or "count"
        What rewards are, as ``rewards`` of :class:`cobandits.Shared`: numbers with Gaussian noise,
        or with outliers; 0 and 1; counts. Others than these are refused. ``"auto"`` takes any
        numbers, for what they look like.
    mode : "live" or "shadow"
        In shadow mode the baseline is taken, and the policy learns from it.
    floor : float
        Share of the decisions that are uniformly random, so that no arm has probability 0.
    baseline_share : float
        Share of the decisions that the baseline makes, to compare with.
    frozen : bool
        Whether learning rests. Rewards are kept, and learned in their order when it goes on.
    explore, on_change
        As in :class:`cobandits.Shared`.
    shards : int
        Processes that the tasks are dealt to, where one does not suffice. With several, rewards
        are any numbers (``reward_kind="gaussian"``), and when tasks have changed learning goes on
        (``on_change="alert"``): set both.
    """

    schema: Schema
    window: str | float | timedelta | None = None
    default_reward: float | None = None
    rewards: Rewards = "first"
    reward_kind: RewardKind = "auto"  # in logs of earlier releases it is not said: the same
    mode: Mode = "live"
    floor: float = 0.0
    baseline_share: float = 0.0
    frozen: bool = False
    explore: Explore = "needed"
    on_change: OnChange = "adapt"
    shards: int = 1

    def __post_init__(self) -> None:
        wait = microseconds(self.window)
        object.__setattr__(self, "window", None if wait is None else wait / 1e6)
        for name, kinds in _CHOICES.items():
            if (given := getattr(self, name)) not in kinds:
                raise ConfigurationError(f"{name} must be one of {', '.join(kinds)}, got {given!r}")
        for name in ("floor", "baseline_share"):
            if not 0 <= (share := getattr(self, name)) <= 1:
                raise ConfigurationError(f"{name} must be a share from 0 to 1, got {share}")
        self._check_rewards()
        self._check_shards()
        if wait is None and (self.default_reward is not None or self.rewards != "first"):
            what = "a default reward" if self.rewards == "first" else f"rewards={self.rewards!r}"
            raise ConfigurationError(f"{what} needs a window at whose end it is learned, as '1h'")
        if _ID in self.schema.fields:
            raise ConfigurationError("a field cannot be named 'id': that is the name of an arm")

    def _check_rewards(self) -> None:
        default = self.default_reward
        if default is not None and not abs(default) <= LARGEST_VALUE:
            raise ConfigurationError(
                f"default_reward must be at most {LARGEST_VALUE:g} in size, got {default}"
            )
        if default is not None and not self._admits(default):
            raise ConfigurationError(
                f"default_reward must be {self._needed}, as reward_kind={self.reward_kind!r} says, "
                f"got {default:g}"
            )
        if self.reward_kind == "binary" and self.rewards == "sum":
            raise ConfigurationError(
                "a sum of rewards of 0 and 1 may be more than 1: with rewards='sum' take "
                "reward_kind='count'"
            )

    def _check_shards(self) -> None:
        if type(self.shards) is not int or self.shards < 1:
            raise ConfigurationError(
                f"shards must be a whole number from 1 on, got {self.shards!r}"
            )
        wrong = [
            f"{name}={value!r}, got {given!r}"
            for name, value in SHARDED.items()
            if (given := getattr(self, name)) != value
        ]
        if self.shards > 1 and wrong:
            raise ConfigurationError(f"a space with several shards needs {' and '.join(wrong)}")

    @property
    def _needed(self) -> str:
        return "a number" if self.reward_kind == "auto" else LIKELIHOODS[self.reward_kind].needed

    def _admits(self, value: float) -> bool:
        kind = self.reward_kind
        return kind == "auto" or bool(LIKELIHOODS[kind].admits(np.array([value])))

    def check_reward(self, value: float) -> None:
        """Refuse a reward that is not what rewards of this space are."""
        if not self._admits(value):
            raise DataError(
                f"rewards of this space are {self._needed} (reward_kind={self.reward_kind!r}), got "
                f"{value:g}; correct it, or make a space that takes such rewards"
            )

    @cached_property
    def wait(self) -> int | None:
        """The window in microseconds."""
        return microseconds(self.window)

    @cached_property
    def learns_at_once(self) -> bool:
        """Whether a reward is learned when it comes, not at the end of its window."""
        return self.rewards == "first" and self.default_reward is None

    @classmethod
    def of(cls, *, schema: Schema | None, dim: int | None, **given: Any) -> Settings:
        """Return settings for a schema, or for vectors of ``dim`` numbers."""
        if (schema is None) == (dim is None):
            raise ConfigurationError("a new space needs a schema, or dim for plain vectors")
        if schema is None:
            assert dim is not None
            schema = Schema(arm={VECTOR: Vector(size=dim, missing="error")})
        return cls(schema=schema, **given)

    def changed(self, **given: Any) -> Settings:
        """Return settings of which some are others."""
        fixed = sorted(set(given) - set(CHANGEABLE))
        if fixed:
            raise ConfigurationError(
                f"{', '.join(fixed)} cannot be changed; these can: {', '.join(CHANGEABLE)}"
            )
        return replace(self, **given)

    def followed(self, body: str | None) -> Settings:
        """Return the settings after a change, by the body of its event."""
        given = dict(decoded(body or ""))
        given.pop(LEARNED, None)
        return self.changed(**given)

    def relearned(self, body: str | None) -> Settings:
        """Return the settings after the log was learned anew, by the body of its event."""
        return replace(self, **relearned_under(body))

    def differences_in_policy(self, other: Settings) -> list[str]:
        """Return what keeps a policy that was made with other settings from going on here."""
        return [
            name
            for name in _POLICY
            if _comparable(getattr(self, name)) != _comparable(getattr(other, name))
        ]

    def differences(self, given: Mapping[str, Any]) -> list[str]:
        """Return the names of the settings that are given and not as they are here."""
        asked = replace(self, **given)
        return [
            one.name
            for one in fields(self)
            if _comparable(getattr(asked, one.name)) != _comparable(getattr(self, one.name))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        return {one.name: _comparable(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Settings:
        """Read what :meth:`to_dict` returned; refuse what is not known."""
        unknown = sorted(set(given) - {one.name for one in fields(cls)})
        if unknown:
            raise ConfigurationError(f"unknown settings: {', '.join(unknown)}")
        return cls(**{**given, "schema": Schema.from_dict(given["schema"])})


def relearned_under(body: str | None) -> dict[str, Any]:
    """Return the settings that the log was learned anew under, by the body of the event."""
    given: dict[str, Any] = decoded(body or "")
    changed = dict(given.get("settings", {}))
    if "schema" in given:
        changed["schema"] = Schema.from_dict(given["schema"])
    return changed


def _comparable(value: object) -> Any:
    return value.to_dict() if isinstance(value, Schema) else value


_CHOICES = {
    "explore": get_args(Explore),
    "on_change": get_args(OnChange),
    "rewards": get_args(Rewards),
    "reward_kind": get_args(RewardKind),
    "mode": get_args(Mode),
}
