"""Errors about a request, as an HTTP status and a JSON document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from deciban.errors import DataWarning, DecibanError, FileError, ForgetError, LocatedError
from deciban.server.store.base import StoreError
from deciban.server.store.content import ContentGoneError
from deciban.show import plain

MAX_VALUE_CHARACTERS = 200


class RequestError(DecibanError):
    """A request that cannot be answered: a status, a code for programs, and a message for people."""

    def __init__(self, message: str, *, status: int = 422, code: str = "invalid", **fields: Any) -> None:
        super().__init__(message, **fields)
        self.status, self.code = status, code

    def located(self, numbers: Sequence[int] | None = None, file: str | None = None) -> Self:
        relocated = super().located(numbers, file)
        relocated.status, relocated.code = self.status, self.code
        return relocated


def problem_of(error: Exception) -> RequestError | None:
    """An error about the input as a problem; None for an internal error."""
    if isinstance(error, RequestError):
        return error
    status, code = 422, "invalid"
    if isinstance(error, StoreError):
        status, code = 503, "store_unavailable"
    elif isinstance(error, ForgetError):
        status, code = 409, "not_learned"
    elif isinstance(error, ContentGoneError):
        status, code = 422, "content_needed"
    elif isinstance(error, FileError):
        code = "bad_model_file"
    if isinstance(error, DataWarning) and error.row is not None:
        where = {"row": error.row, "column": error.column, "value": error.value}
        return RequestError("column {column!r} of example {row} cannot be {value!r}", code="bad_value", **where)
    if isinstance(error, LocatedError):
        located = {"row": error.row, "column": error.column}
        value = {} if error.value is None else {"value": error.value}
        return RequestError("{text}", status=status, code=code, text=str(error), **located, **value)
    if isinstance(error, ValueError | TypeError):  # how scikit-learn reports problems with rows
        return RequestError("{text}", status=status, code=code, text=str(error))
    return None


def document(problem: RequestError) -> dict[str, Any]:
    """The body of the response: where the problem is, if known."""
    error: dict[str, Any] = {"code": problem.code, "message": str(problem)}
    for name in ("row", "column"):
        if (field := getattr(problem, name)) is not None:
            error[name] = field
    if (value := plain(problem.value)) is not None:
        number = isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
        error["value"] = value if number else str(value)[:MAX_VALUE_CHARACTERS]
    return {"error": error}
