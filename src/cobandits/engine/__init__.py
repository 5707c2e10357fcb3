"""The engine: named tasks, named features, a log that is never lost, a model that replays from it.

An :class:`Engine` owns a database. A :class:`Space` in it has a schema, a policy and a log.
Whatever a space answers is on disk. One process decides; any number of threads may call.

>>> import tempfile
>>> from cobandits.engine import Category, Engine, Number, Schema
>>> schema = Schema(
...     context={"hour": Number()},
...     arm={"price": Number(), "kind": Category(values=("hot", "cold"))},
...     crosses=[("hour", "kind")],
... )
>>> arms = [
...     {"id": "tea", "price": 3.5, "kind": "hot"},
...     {"id": "cola", "price": 2.5, "kind": "cold"},
... ]
>>> with tempfile.TemporaryDirectory() as folder, Engine.open(f"{folder}/shops.db") as engine:
...     space = engine.space("teas", schema)
...     decision = space.decide("berlin", context={"hour": 14}, arms=arms)
...     space.reward(decision.id, 1.0).status, space.reward(decision.id, 1.0).status
('accepted', 'repeated')

**Requests.** ``space.decide(...)``, ``space.reward(...)`` and ``space.activate(...)`` ask for one
thing and raise what is wrong. ``space.ask([Decide(...), Reward(...), ...])`` answers several, with
a result or the error for each; ``space.submit([...])`` does the same and returns a
:class:`concurrent.futures.Future`, which suits an event loop (``asyncio.wrap_future``).
Answers are :class:`Decision`, :class:`Rewarded` and :class:`Activated`.

**Errors** are of :mod:`cobandits.engine.errors`, each with one meaning for the caller,
:class:`cobandits.errors.DataError` for a request that makes no sense, and
:class:`cobandits.errors.ConfigurationError` for settings.

**What happened**: ``space.events(after=, limit=, task=, kinds=, since=, before=)`` yields
:class:`Event`; ``space.decision(id)`` returns a :class:`Record` with the request and its rewards;
``space.recompute(id)`` makes a decision again from the log, with the same arm and probability.
``space.report()`` compares what was earned with what else could have been done; ``space.log()`` and
``space.export("log.parquet")`` are for evaluation; ``space.import_past([Past(...), ...])`` starts
warm. ``engine.status()`` says what waits, ``engine.verify()`` replays the whole log and compares.

**Versions**: ``space.version`` such as ``"v412+1873"`` is the event that the state began with, and
the rewards since. ``space.versions()`` lists the events, ``space.policy("v412")`` returns a copy of
the policy, ``space.compare("v412")`` says how differently it would decide, and
``space.rollback("v412")`` returns to it.

**Settings** of a space are in :class:`Settings`; ``space.change(floor=0.1)`` is an event.
"""

from cobandits.engine.comparison import Comparison
from cobandits.engine.encoding import Prepared
from cobandits.engine.engine import Engine
from cobandits.engine.errors import (
    ClosedError,
    ConflictError,
    DamagedLogError,
    DiskFullError,
    EngineError,
    NotActivatedError,
    OverloadedError,
    OwnedError,
    StoreAwayError,
    StoreError,
    UnknownDecisionError,
    UnknownSpaceError,
    UnknownVersionError,
)
from cobandits.engine.events import Event
from cobandits.engine.exchange import Past
from cobandits.engine.history import Record
from cobandits.engine.messages import (
    Activate,
    Activated,
    Answer,
    Decide,
    Decision,
    Ranked,
    Request,
    Reward,
    Rewarded,
)
from cobandits.engine.report import Report
from cobandits.engine.settings import Settings
from cobandits.engine.space import Space
from cobandits.engine.status import Status
from cobandits.engine.verify import Verification
from cobandits.engine.versions import Version
from cobandits.schema import Category, Cyclic, Date, Flag, Number, Schema, Vector

__all__ = [
    "Activate",
    "Activated",
    "Answer",
    "Category",
    "ClosedError",
    "Comparison",
    "ConflictError",
    "Cyclic",
    "DamagedLogError",
    "Date",
    "Decide",
    "Decision",
    "DiskFullError",
    "Engine",
    "EngineError",
    "Event",
    "Flag",
    "NotActivatedError",
    "Number",
    "OverloadedError",
    "OwnedError",
    "Past",
    "Prepared",
    "Ranked",
    "Record",
    "Report",
    "Request",
    "Reward",
    "Rewarded",
    "Schema",
    "Settings",
    "Space",
    "Status",
    "StoreAwayError",
    "StoreError",
    "UnknownDecisionError",
    "UnknownSpaceError",
    "UnknownVersionError",
    "Vector",
    "Verification",
    "Version",
]
