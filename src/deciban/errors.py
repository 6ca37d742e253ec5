"""What can go wrong, in words that say what to do, and where: the message is made last, from fields."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

Self = TypeVar("Self", bound="LocatedError")

FIELDS = ("row", "column", "file", "value")
PLACE = re.compile(r"\{(row|column|file|value)(!r)?\}")


class LocatedError(Exception):
    """A message with places for fields, "row {row} of y has no label", and the fields that fill them.

    `row` counts from 0 among the rows that were given. Whoever knows them by other numbers, or which file they are of,
    says so with `located`, and the message follows. Values go through `repr` only where the message says {value!r}.

    >>> error = DecibanError("row {row} of column {column!r} is {value!r}", row=2, column="age", value="x")
    >>> str(error)
    "row 2 of column 'age' is 'x'"
    >>> str(error.located(numbers=[7, 8, 9], file="people.csv"))
    "people.csv: row 9 of column 'age' is 'x'"
    """

    def __init__(
        self,
        message: str = "",
        *,
        row: int | None = None,
        column: str | None = None,
        file: str | None = None,
        value: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.row, self.column, self.file, self.value = row, column, file, value

    def located(self: Self, numbers: Sequence[int] | None = None, file: str | None = None) -> Self:
        """The same with the row's own number (`numbers` has that of every row that was given), and the file."""
        row = self.row
        if row is not None and numbers is not None and row < len(numbers):
            row = int(numbers[row])
        return type(self)(self.message, row=row, column=self.column, file=self.file or file, value=self.value)

    def __str__(self) -> str:
        def fill(place: re.Match[str]) -> str:
            value = getattr(self, place[1])
            return repr(value) if place[2] else str(value)

        said = PLACE.sub(fill, self.message)  # in one go: what is filled in may have braces of its own
        return said if self.file is None or "{file" in self.message else f"{self.file}: {said}"

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt, (type(self), self.message, {name: getattr(self, name) for name in FIELDS})


def rebuilt(kind: type[LocatedError], message: str, fields: dict[str, Any]) -> LocatedError:
    return kind(message, **fields)


class DecibanError(LocatedError, ValueError):
    """Base of every error that deciban raises about its input."""


class SchemaError(DecibanError):
    """Two things that should fit together (batches, models) do not."""


class ForgetError(DecibanError):
    """Rows were to be forgotten that the model had not learned, or that its sums cannot do without."""


class FileError(DecibanError):
    """A model file is broken, foreign, or from a later version."""


class EngineError(DecibanError):
    """A partition, a worker or a connection failed, and trying again did not help: nothing was learned."""


class NotAvailableError(DecibanError, AttributeError):
    """This model has no such answer: it is not generative, has no classes of its own, or keeps no words."""


class ZeroEvidenceWarning(UserWarning):
    """Every class gave some row probability zero, so its posterior fell back to the prior."""


class InterruptedWarning(UserWarning):
    """EM was interrupted, and the model is the best it had found."""


class SingularWarning(UserWarning):
    """A covariance had directions without any spread, and something was done about it."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside the package that led here, however deep inside it is noticed."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("deciban."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
