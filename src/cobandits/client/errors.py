"""What a client raises."""

from __future__ import annotations

from cobandits.errors import CobanditsError
from cobandits.wire import ProblemDocument

__all__ = ["ServiceError", "UnreachableError"]


class ServiceError(CobanditsError):
    """The service refused a request.

    Attributes
    ----------
    problem
        What it said.
    kind
        The kind of problem, such as ``"unknown-space"``.
    status
        Of the answer.
    """

    def __init__(self, problem: ProblemDocument) -> None:
        super().__init__(f"{problem.title}: {problem.detail}")
        self.problem = problem
        self.kind = problem.type.rpartition("/")[2]
        self.status = problem.status


class UnreachableError(CobanditsError):
    """The service did not answer, however often it was asked."""
