"""The client for threads; written by `tools/make_client.py`, do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx

from cobandits.client.errors import UnreachableError
from cobandits.client.exchange import FILE, Retries, answer, body_of, new_id, path, plain
from cobandits.client.rewards_sync import Rewards
from cobandits.client.waiting import Waiting
from cobandits.wire import (
    ActivationReply,
    ComparisonReply,
    DecideBatch,
    DecideOne,
    DecisionReply,
    DecisionResult,
    DecisionResults,
    DeletedReply,
    RewardBatch,
    RewardInBatch,
    RewardOne,
    RewardReply,
    RewardResult,
    RewardResults,
    SpaceReply,
    VersionReplies,
    VersionReply,
)

__all__ = ["Client"]

Answer = TypeVar("Answer")


class Client:
    """A client of the service.

    Parameters
    ----------
    address
        Such as ``"http://127.0.0.1:8000"``.
    key
        An API key.
    retries
        How often and how long to try again.
    timeout
        Seconds to wait for one answer.
    verify
        Whether to check the certificate of the service.
    """

    def __init__(
        self,
        address: str,
        key: str,
        *,
        retries: Retries | None = None,
        timeout: float = 10.0,
        verify: bool = True,
    ) -> None:
        self._retries = retries or Retries()
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        self._http = httpx.Client(
            base_url=address,
            headers=headers,
            timeout=timeout,
            verify=verify and address.startswith("https:"),  # loading certificates takes long
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    # ---- Spaces

    def create_space(self, name: str, **settings: Any) -> SpaceReply:
        """Make a space; settings are those of ``POST /v1/spaces``."""
        return self._ask("POST", path("spaces"), SpaceReply, {"name": name, **settings})

    def spaces(self) -> list[str]:
        """Return the names of all spaces."""
        found = self._ask("GET", path("spaces"), dict[str, list[str]])
        return found["spaces"]

    def space(self, name: str) -> SpaceReply:
        """Return a space and its settings."""
        return self._ask("GET", path("spaces", name), SpaceReply)

    def change_space(self, name: str, **settings: Any) -> SpaceReply:
        """Change settings from now on."""
        return self._ask("PATCH", path("spaces", name), SpaceReply, settings)

    def freeze(self, name: str) -> SpaceReply:
        """Let learning rest: rewards are kept, and learned after :meth:`unfreeze`."""
        return self.change_space(name, frozen=True)

    def unfreeze(self, name: str) -> SpaceReply:
        """Let learning go on."""
        return self.change_space(name, frozen=False)

    def delete_space(self, name: str) -> DeletedReply:
        """Delete a space with all its events, for ever."""
        return self._ask("DELETE", path("spaces", name), DeletedReply)

    # ---- Decisions and rewards

    def decide(
        self,
        space: str,
        task: str,
        arms: Sequence[Mapping[str, Any]],
        *,
        context: Mapping[str, Any] | None = None,
        exclude: Sequence[str] = (),
        baseline: str | None = None,
        held: bool = False,
        id: str | None = None,  # noqa: A002
    ) -> DecisionReply:
        """Return a decision. If the answer is lost it is asked for again, and is the same."""
        asked = DecideOne(
            task=task,
            arms=[dict(arm) for arm in arms],
            context=None if context is None else dict(context),
            exclude=list(exclude),
            baseline=baseline,
            held=held,
            id=id or new_id(),
        )
        return self._ask("POST", path("spaces", space, "decisions"), DecisionReply, asked)

    def decide_many(self, space: str, asked: Sequence[DecideOne]) -> list[DecisionResult]:
        """Return a decision or a problem for each; each should have an id."""
        address = path("spaces", space, "decisions:batch")
        batch = DecideBatch(decisions=list(asked))
        return (self._ask("POST", address, DecisionResults, batch)).results

    def activate(self, space: str, decision: str) -> ActivationReply:
        """Tell that a held decision was shown."""
        address = path("spaces", space, "decisions", decision, "activate")
        return self._ask("POST", address, ActivationReply, {})

    def reward(
        self,
        space: str,
        decision: str,
        value: float,
        *,
        key: str | None = None,
        taken: str | None = None,
    ) -> RewardReply:
        """Tell what a decision has earned.

        Where rewards are summed and no key is given, a new one is made: a lost answer does not
        count the reward twice.
        """
        address = path("spaces", space, "decisions", decision, "rewards")
        asked = RewardOne(value=value, key=key or new_id(), taken=taken)
        return self._ask("POST", address, RewardReply, asked)

    def reward_many(self, space: str, rewards: Sequence[RewardInBatch]) -> list[RewardResult]:
        """Tell many rewards; each gets its status or its problem."""
        address = path("spaces", space, "rewards:batch")
        batch = RewardBatch(rewards=list(rewards))
        return (self._ask("POST", address, RewardResults, batch)).results

    def rewards(self, space: str, *, size: int = 100, seconds: float = 1.0) -> Rewards:
        """Return a place for rewards that are sent in batches, of ``size`` or each ``seconds``."""
        return Rewards(self.reward_many, space, size=size, seconds=seconds)

    # ---- Versions

    def versions(self, space: str) -> list[VersionReply]:
        """Return the versions, in order."""
        return (self._ask("GET", path("spaces", space, "versions"), VersionReplies)).versions

    def restore(self, space: str, version: str) -> VersionReply:
        """Return to a version, by its name or its label."""
        address = path("spaces", space, "versions", version, "restore")
        return self._ask("POST", address, VersionReply, {})

    def compare(
        self, space: str, version: str, other: str = "present", *, last: int = 100
    ) -> ComparisonReply:
        """Return how differently two versions would make the last decisions."""
        address = path("spaces", space, "versions", version, "compare")
        query = {"other": other, "last": last}
        return self._ask("GET", address, ComparisonReply, query=query)

    def download(self, space: str, version: str) -> bytes:
        """Return a version as a file, for ``Shared.load`` or ``ShardedShared.load``."""
        return self._ask("GET", path("spaces", space, "versions", version, "file"), bytes)

    def upload(self, space: str, label: str, content: bytes) -> VersionReply:
        """Keep a file of :meth:`cobandits.Shared.save` as a version, to compare and restore."""
        address = path("spaces", space, "versions", label, "file")
        return self._ask("PUT", address, VersionReply, content)

    # ---- Reading

    def decision(self, space: str, decision: str) -> dict[str, Any]:
        """Return all that is known of a decision."""
        return self._ask("GET", path("spaces", space, "decisions", decision), dict[str, Any])

    def get(self, *parts: str, **query: str | int | None) -> Any:
        """Return what another call answers: ``get("spaces", "teas", "report")``."""
        return self._ask("GET", path(*parts), object, query=plain(query))

    def post(self, *parts: str, **message: Any) -> Any:
        """Make another call: ``post("spaces", "teas", "versions", "v7+0", "restore")``."""
        return self._ask("POST", path(*parts), object, message)

    # ---- Asking

    def _ask(
        self,
        method: str,
        address: str,
        kind: type[Answer],
        message: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> Answer:
        body = None if message is None else body_of(message)
        headers = {"content-type": FILE} if isinstance(message, bytes) else None
        last = "it was not asked"
        for attempt in range(self._retries.attempts):
            asked_to_wait = None
            try:
                response = self._http.request(
                    method, address, content=body, params=query, headers=headers
                )
            except httpx.TransportError as error:
                last = f"{type(error).__name__}: {error}"
            else:
                final = attempt + 1 == self._retries.attempts
                if final or not self._retries.again(response.status_code):
                    return answer(response.status_code, response.content, kind)
                asked_to_wait = response.headers.get("retry-after")
            if attempt + 1 < self._retries.attempts:
                Waiting.sleep(self._retries.pause(attempt, asked_to_wait))
        raise UnreachableError(
            f"{self._http.base_url} did not answer in {self._retries.attempts} attempts ({last}); "
            "check the address, and that the service runs"
        )
