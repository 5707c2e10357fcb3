"""The messages of the HTTP API, shared by the service and its client.

They are msgspec structs: one declaration reads and checks a body, and is shown in the OpenAPI
document. Names are those of :mod:`cobandits.engine`.
"""

from cobandits.errors import MissingExtraError

try:
    import msgspec as _msgspec  # noqa: F401
except ImportError as error:  # pragma: no cover - tests have every extra
    raise MissingExtraError("msgspec", "client") from error

from cobandits.wire.asked import (
    Asked,
    DecideBatch,
    DecideOne,
    RewardBatch,
    RewardInBatch,
    RewardOne,
)
from cobandits.wire.history import (
    CompareQuery,
    ComparisonReply,
    DecisionPage,
    DecisionQuery,
    DecisionRecord,
    LogQuery,
    Neighbour,
    OneDecision,
    Relearn,
    RewardRecord,
    SharingReply,
    TaskPoint,
    TaskReply,
    VersionReplies,
    VersionReply,
)
from cobandits.wire.operations import CreateKey, KeyReplies, KeyReply, Ready, SpaceNames
from cobandits.wire.problems import Detail, ProblemDocument
from cobandits.wire.replies import (
    ActivationReply,
    DecisionReply,
    DecisionResult,
    DecisionResults,
    Ranked,
    RewardReply,
    RewardResult,
    RewardResults,
)
from cobandits.wire.reports import (
    AskEvaluation,
    Day,
    Earned,
    Estimate,
    EvaluationReplies,
    EvaluationReply,
    ImportReply,
    PastBatch,
    PastDecision,
    ReportReply,
)
from cobandits.wire.spaces import (
    ChangeSpace,
    CreateSpace,
    DeletedReply,
    SchemaMessage,
    SchemaReplies,
    SchemaReply,
    SpaceReply,
)

__all__ = [
    "ActivationReply",
    "AskEvaluation",
    "Asked",
    "ChangeSpace",
    "CompareQuery",
    "ComparisonReply",
    "CreateKey",
    "CreateSpace",
    "Day",
    "DecideBatch",
    "DecideOne",
    "DecisionPage",
    "DecisionQuery",
    "DecisionRecord",
    "DecisionReply",
    "DecisionResult",
    "DecisionResults",
    "DeletedReply",
    "Detail",
    "Earned",
    "Estimate",
    "EvaluationReplies",
    "EvaluationReply",
    "ImportReply",
    "KeyReplies",
    "KeyReply",
    "LogQuery",
    "Neighbour",
    "OneDecision",
    "PastBatch",
    "PastDecision",
    "ProblemDocument",
    "Ranked",
    "Ready",
    "Relearn",
    "ReportReply",
    "RewardBatch",
    "RewardInBatch",
    "RewardOne",
    "RewardRecord",
    "RewardReply",
    "RewardResult",
    "RewardResults",
    "SchemaMessage",
    "SchemaReplies",
    "SchemaReply",
    "SharingReply",
    "SpaceNames",
    "SpaceReply",
    "TaskPoint",
    "TaskReply",
    "VersionReplies",
    "VersionReply",
]
