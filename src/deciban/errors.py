"""What can go wrong, in words that say what to do, and where: the message is made last, from fields."""

from __future__ import annotations

import pickle
import re
import reprlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import index
from typing import Any, Self, SupportsIndex

PLACE = re.compile(r"\{(\w+)(!r|!short|:g|:,)?\}")
NOT_GIVEN: Any = object()  # a value may be None


class LocatedError(Exception):
    """A message with places for fields, "row {row} of y has no label", and the fields that fill them.

    `row` counts from 0 among the rows that were given. Whoever knows them by other numbers, or which file they are of,
    says so with `located`, and the message follows. `column` is its name, or its number where columns have no names.
    Places are {value}, {value!r} for its `repr`, {value!short} for the beginning of that, {value:g} and {row:,}. What
    else a message shows goes in by a keyword of its own, so that no data is ever taken for a place.

    >>> error = DecibanError("row {row} of column {column!r} is {value!r}", row=2, column="age", value="x")
    >>> str(error)
    "row 2 of column 'age' is 'x'"
    >>> str(error.located(numbers=[7, 8, 9], file="people.csv"))
    "people.csv: row 9 of column 'age' is 'x'"
    >>> str(DecibanError("row {row} has no {what}", row=2, what="{row}"))
    'row 2 has no {row}'
    """

    def __init__(
        self,
        message: str = "",
        *,
        row: SupportsIndex | None = None,
        column: str | SupportsIndex | None = None,
        file: str | None = None,
        value: Any = NOT_GIVEN,
        **data: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        where = {
            "row": None if row is None else index(row),
            "column": column if column is None or isinstance(column, str) else index(column),
            "file": file,
        }
        self._data = {name: place for name, place in where.items() if place is not None} | data
        if value is not NOT_GIVEN:
            self._data["value"] = value

    @property
    def row(self) -> int | None:
        return self._data.get("row")

    @property
    def column(self) -> str | int | None:
        return self._data.get("column")

    @property
    def file(self) -> str | None:
        return self._data.get("file")

    @property
    def value(self) -> Any:
        return self._data.get("value")

    def located(self, numbers: Sequence[int] | None = None, file: str | None = None) -> Self:
        """The same with the row's own number (`numbers` has that of every row that was given), and the file."""
        row = self.row
        if row is not None and numbers is not None and row < len(numbers):
            row = int(numbers[row])
        same = type(self)(self.message, **self._data | {"row": row, "file": self.file or file})
        return same.with_traceback(self.__traceback__)

    def __str__(self) -> str:
        filled = set()

        def fill(place: re.Match[str]) -> str:
            name, how = place.groups()
            if name not in self._data:
                return place[0]
            filled.add(name)
            value = self._data[name]
            if how == "!short":
                return reprlib.repr(value)
            return repr(value) if how == "!r" else format(value, how[1:]) if how else str(value)

        text = PLACE.sub(fill, self.message)  # in one go: what is filled in may have braces of its own
        return text if self.file is None or "file" in filled else f"{self.file}: {text}"

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt, (type(self), self.message, {name: portable(value) for name, value in self._data.items()})


def rebuilt(kind: type[LocatedError], message: str, data: dict[str, Any]) -> LocatedError:
    return kind(message, **data)


class Repr(str):
    """What the `repr` of a value was that could not be sent to another process."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def portable(value: Any) -> Any:
    """A value as it can be pickled: an error has to reach whoever waits for it, whatever is in its fields."""
    try:
        pickle.dumps(value)
    except Exception:  # each object has its own way to refuse
        return Repr(repr(value))
    return value


class DecibanError(LocatedError, ValueError):
    """Base of every error that deciban raises about its input."""


class SchemaError(DecibanError):
    """Two things that should fit together (batches, models) do not."""


class KindError(DecibanError, TypeError):
    """A value is of a type that cannot be used where it stands."""


class ChoiceError(SchemaError):
    """Two models do not add up because each made its own choices (bins, trees, weights)."""


class ForgetError(DecibanError):
    """Rows were to be forgotten that the model had not learned, or that its sums cannot do without."""


class FileError(DecibanError):
    """A model file is broken, foreign, or from a later version."""


class EngineError(DecibanError):
    """A partition, a worker or a connection failed, and trying again did not help: nothing was learned."""


class NotAvailableError(DecibanError, AttributeError):
    """The model has no such answer: it is not generative, has no classes of its own, or keeps no words."""


class DataWarning(LocatedError, UserWarning):  # noqa: N818 - it is raised only where a filter makes it an error
    """Something in the data was not as it was expected to be, and could be read all the same."""


class ZeroEvidenceWarning(UserWarning):
    """Every class gave some row probability zero, so its posterior fell back to the prior."""


class InterruptedWarning(UserWarning):
    """EM was interrupted, and the model is the best it had found."""


class SingularWarning(UserWarning):
    """A covariance had directions without any spread, and something was done about it."""


NUMBERS: ContextVar[tuple[Sequence[int], ...]] = ContextVar("what rows are called, by who is inside first", default=())


def call_rows(numbers: Sequence[int] | None) -> None:
    """From here on, in this thread, warnings call row i of those that are worked on numbers[i]."""
    NUMBERS.set(() if numbers is None else (numbers,))


@contextmanager
def numbered(numbers: Sequence[int] | None) -> Iterator[None]:
    """Rows are called otherwise here: row i of those that are worked on inside is numbers[i], in errors and warnings.

    >>> with numbered([7, 8, 9]):
    ...     raise DecibanError("row {row} has no label", row=2)
    Traceback (most recent call last):
    deciban.errors.DecibanError: row 9 has no label
    """
    if numbers is None:
        yield
        return
    token = NUMBERS.set((numbers, *NUMBERS.get()))
    try:
        yield
    except LocatedError as error:
        if error.row is None or error.file is not None:  # the number is that of the file's row already
            raise
        raise error.located(numbers=numbers) from error
    finally:
        NUMBERS.reset(token)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside the package that led here, however deep inside it is noticed.

    A `Warning` in place of a message is of its own category.
    """
    if isinstance(message, DataWarning):
        for numbers in NUMBERS.get():
            message = message.located(numbers=numbers)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("deciban."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
