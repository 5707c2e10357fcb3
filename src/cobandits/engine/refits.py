"""Learning a prior beside the engine: in a thread or, where it takes long, in a process.

A thread holds back others while it runs Python; a process that yields to others does not. Both
give the same bits, so which one it was stands nowhere.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.engine.learner import Learner, as_rows
from cobandits.engine.policies import Learned, policy_bytes, policy_parts, shared_for
from cobandits.engine.settings import Settings
from cobandits.engine.snapshots import packed, unpacked
from cobandits.engine.turns import giving_way
from cobandits.errors import ClusterError, CobanditsError
from cobandits.policies.shared import Refit, Shared, Snapshot, refit
from cobandits.policies.shared.checkpoint import load
from cobandits.policies.shared.state import State
from cobandits.sharded import ShardedShared, StagedRefit

__all__ = ["LARGE", "Found", "Refitter", "ShardedTask", "Task", "main", "task_of"]

Doubles = NDArray[np.float64]
Done = Callable[["Found"], None]
StandsIn = Callable[[Shared], None]

# Features of all rewards from which a process learns the prior. With fewer it takes some hundredths
# of a second, which few would notice; the process has 100 MB.
LARGE = 100_000
_PROGRAM = "from cobandits.engine.refits import main; main()"
_LENGTH = 8  # bytes of the length of a message
_PATIENCE = 900.0  # seconds after which a process is taken to hang, and a thread learns the prior
_NICE = 5  # by how much the process is nicer than this one: decisions come first


class Task(NamedTuple):
    """A prior to learn, with the next reward."""

    settings: Settings
    policy: Shared  # learns nothing meanwhile
    snapshot: Snapshot
    task: str
    x: Doubles  # (d,), of the arm
    value: float

    @property
    def is_large(self) -> bool:
        """Whether a process is to do it."""
        return self.snapshot.origin.rewards * len(self.x) >= LARGE


class Found(NamedTuple):
    """A prior that was learned; nothing, where it could not be."""

    learned: Learned | None = None
    content: bytes = b""  # the policy with it, as in a file
    successor: Shared | None = None  # the same policy, for one who is to learn on before it decides


class ShardedTask(NamedTuple):
    """A prior to learn from shards, which hold the next reward aside."""

    policy: ShardedShared
    staged: StagedRefit


def task_of(settings: Settings, learner: Learner) -> Task | ShardedTask:
    """Return what is needed to learn the prior with the next reward."""
    staged = learner.snapshot()
    if isinstance(staged, Snapshot):
        assert isinstance(learner.policy, Shared)
        return Task(settings, learner.policy, staged, *learner.following())
    assert isinstance(learner.policy, ShardedShared)
    return ShardedTask(learner.policy, staged)


class Refitter:
    """One thread that learns priors one after the other, and the process that it waits for.

    Another one makes stand-ins, so that these do not wait for the priors of other spaces.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="cobandits-refit")
        self._copies = ThreadPoolExecutor(1, thread_name_prefix="cobandits-stand-in")
        self._last: Future[None] | None = None  # what was started last, and so ends last
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def start(self, task: Task | ShardedTask, stands_in: StandsIn, done: Done) -> None:
        """Learn a prior; then call ``done`` with it.

        Where it takes long, or waits for another prior, ``stands_in`` is called with a stand-in of
        the policy meanwhile.
        """
        waits = self._last is not None and not self._last.done()
        if isinstance(task, Task) and (task.is_large or waits):
            self._copies.submit(_hand_over, task.policy, stands_in)
        self._last = self._pool.submit(self._run, task, done)

    def close(self) -> None:
        """Give up what is under way."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()  # so the thread goes on
        for pool in (self._copies, self._pool):
            pool.shutdown(wait=True, cancel_futures=True)
        self._end()

    def _run(self, task: Task | ShardedTask, done: Done) -> None:
        try:
            found: Found | None = None
            if isinstance(task, Task) and task.is_large:
                found = self._in_process(task)
            if not self._closed:
                done(found or _here(task))
        except ClusterError as error:  # the space is made anew, or goes on without this prior
            logging.getLogger("cobandits").info("a prior was given up: %s", error)
        except Exception:  # the reward is learned in line, which fails the same way in a replay
            logging.getLogger("cobandits").exception("a prior could not be learned")
            done(Found())

    def _in_process(self, task: Task) -> Found | None:
        """Return what another process has learned, None if it could not."""
        try:
            with giving_way():
                request = _request(task)
            content = self._asked(request)
            if not content:
                return None
            after, origin = task.snapshot.state.rewards, task.snapshot.origin
            with giving_way():
                state = _state_of(content)
                return Found(
                    Refit(state, after, origin), content, _policy(task.settings, state.fork())
                )
        except (OSError, EOFError, MemoryError, OverflowError, CobanditsError) as error:
            self._end()  # the next one starts another
            if not self._closed:
                logging.getLogger("cobandits").warning("a thread learns the prior: %r", error)
            return None

    def _asked(self, request: list[bytes]) -> bytes:
        """Return what the process answers; start it if it does not run."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # the keyboard ends the engine, not its process
            )
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        if self._closed:
            raise EOFError("the engine was closed")
        limit = threading.Timer(_PATIENCE, self._process.kill)
        limit.daemon = True
        limit.start()
        try:
            _send(asked, *request)
            return _received(answered)
        finally:
            limit.cancel()

    def _end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was not sent is not missed
                        pipe.close()


def _hand_over(policy: Shared, stands_in: StandsIn) -> None:
    """Make a stand-in; where that fails, rewards wait for the prior."""
    try:
        with giving_way():
            stands_in(policy.stand_in())
    except Exception as error:
        logging.getLogger("cobandits").warning("rewards wait for a prior: %r", error)


def _here(task: Task | ShardedTask) -> Found:
    """Learn a prior in this thread."""
    with giving_way():
        if isinstance(task, ShardedTask):
            prepared = task.staged.learned()
            return Found(prepared, task.policy.saved_after(prepared))
        found = refit(task.snapshot)
        successor = _policy(task.settings, found.state.fork()) if task.is_large else None
        return Found(found, policy_bytes(_policy(task.settings, found.state)), successor)


def _policy(settings: Settings, state: State) -> Shared:
    """Return a policy with a state, which nobody may change meanwhile."""
    twin = shared_for(settings)
    twin.restore(state)
    return twin


def _state_of(content: bytes) -> State:
    state: State = load(io.BytesIO(content), lambda _, found: found)
    return state


# ---- The other process: requests and answers, each after its length


def _send(pipe: IO[bytes], *parts: bytes) -> None:
    pipe.write(sum(map(len, parts)).to_bytes(_LENGTH, "big"))
    for part in parts:
        pipe.write(part)
    pipe.flush()


def _received(pipe: IO[bytes]) -> bytes:
    """Return what was sent; raise EOFError where the sender is gone."""
    length = pipe.read(_LENGTH)
    size = int.from_bytes(length, "big")
    content = pipe.read(size)
    if len(length) < _LENGTH or len(content) < size:
        raise EOFError("the process has ended")
    return content


def _request(task: Task) -> list[bytes]:
    """Return all that the process needs. The live state rests until the prior is installed."""
    header = {"task": task.task, "x": task.x.tolist(), "value": task.value}
    return [packed(header, b""), *policy_parts(_policy(task.settings, task.snapshot.origin))]


def _answer(request: bytes) -> bytes:
    """Return the policy of a request after its next reward, with the prior learned."""
    header, content = unpacked(request)
    policy = Shared.load(io.BytesIO(content))
    try:
        policy.learn(*as_rows([header["task"]], [np.array(header["x"])], [header["value"]]))
    except CobanditsError:
        return b""  # the engine tries the same, and says why
    return policy_bytes(policy)


def main() -> None:
    """Answer requests on standard input until there are no more.

    Answers go to what standard output is at first; whatever is printed goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if hasattr(os, "nice"):
        os.nice(_NICE)
    logging.getLogger("cobandits").addHandler(logging.NullHandler())  # the engine says it
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            _send(answers, _answer(_received(sys.stdin.buffer)))
