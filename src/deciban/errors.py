"""Errors and warnings with a message (what is wrong, where, and what to do) that is formatted late, from fields."""

from __future__ import annotations

import os
import re
import reprlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import index
from typing import Any, Self, SupportsIndex

FIELD_PATTERN = re.compile(r"\{(\w+)(!r|!short|:g|:,)?\}")
NOT_GIVEN: Any = object()  # a value may be None
MAX_FILES_SUGGESTED = 3
MIN_SIMILARITY = 0.7  # of 1: "lable" and "label" have 0.8, "message" and "age" 0.6


class LocatedError(Exception):
    """A message template, "row {row} of y has no label", and the fields that fill it.

    `row` counts from 0 among the rows given. A caller that knows other row numbers, or the file, adds them by
    `located`. `column` is a name, or a number if columns have no names. Fields are {value}, {value!r} for its `repr`,
    {value!short} for the start of that, {value:g} and {row:,}. Other data in a message are passed by keywords too,
    so that braces in data are never read as a field.

    `command_line` is the same message for the command line, if that needs other terms: --schema and an
    empty cell, instead of schema= and None.

    >>> error = DecibanError("row {row} of column {column!r} is {value!r}", row=2, column="age", value="x")
    >>> str(error)
    "row 2 of column 'age' is 'x'"
    >>> str(error.located(numbers=[7, 8, 9], file="people.csv"))
    "people.csv: row 9 of column 'age' is 'x'"
    >>> str(DecibanError("row {row} has no {what}", row=2, what="{row}"))
    'row 2 has no {row}'
    >>> DecibanError("give y", command_line="give --target").on_command_line()
    'give --target'
    """

    def __init__(
        self,
        message: str = "",
        *,
        row: SupportsIndex | None = None,
        column: str | SupportsIndex | None = None,
        file: str | None = None,
        value: Any = NOT_GIVEN,
        command_line: str | None = None,
        **data: Any,
    ) -> None:
        super().__init__(message)
        self.message, self.command_line = message, command_line
        location = {
            "row": None if row is None else index(row),
            "column": column if column is None or isinstance(column, str) else index(column),
            "file": file,
        }
        self._data = {name: field_value for name, field_value in location.items() if field_value is not None} | data
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
        """A copy with the row's number in the file (`numbers[i]` is that of row i), and the file."""
        row = self.row
        if row is not None and numbers is not None and row < len(numbers):
            row = int(numbers[row])
        data = self._data | {"row": row, "file": self.file or file}
        relocated = type(self)(self.message, command_line=self.command_line, **data)
        return relocated.with_traceback(self.__traceback__)

    def __str__(self) -> str:
        return self._filled(self.message)

    def on_command_line(self) -> str:
        """The message with the terms of the command line."""
        return self._filled(self.command_line or self.message)

    def _filled(self, template: str) -> str:
        """The template with its fields filled in, after the file if it does not name it."""
        filled = set()

        def fill(match: re.Match[str]) -> str:
            name, conversion = match.groups()
            if name not in self._data:
                return match[0]
            filled.add(name)
            value = self._data[name]
            if conversion == "!short":
                return reprlib.repr(value)
            return repr(value) if conversion == "!r" else format(value, conversion[1:]) if conversion else str(value)

        text = FIELD_PATTERN.sub(fill, template)  # in one pass: values may contain braces
        return text if self.file is None or "file" in filled else f"{self.file}: {text}"

    def __reduce__(self) -> tuple[Any, ...]:
        return restored_error, (
            type(self),
            self.message,
            {"command_line": self.command_line} | {name: picklable(value) for name, value in self._data.items()},
        )


def restored_error(kind: type[LocatedError], message: str, data: dict[str, Any]) -> LocatedError:
    return kind(message, **data)


def similar(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Names that may have been meant.

    >>> similar("lable", ["label", "message"]), similar("AGE", ["age", "page"]), similar("cvs", ["csv"])
    (['label'], ['age'], ['csv'])
    >>> similar("message", ["age"])
    []
    """
    import difflib  # imported late: few runs have a name that does not exist

    wanted, known = str(name), list(names)  # a name may be of any type, if it is wrong
    for key in (str.lower, letters):
        if same := [other for other in known if key(other) == key(wanted)]:
            return same
    return difflib.get_close_matches(wanted, known, n=most, cutoff=MIN_SIMILARITY)


def letters(name: str) -> str:
    """The letters of a name in alphabetical order: the same if two of them are exchanged."""
    return "".join(sorted(name.lower()))


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """The end of a message on a name that does not exist: names that may have been meant, or `otherwise`.

    >>> did_you_mean("lable", ["label", "message"], "check its name"), did_you_mean("x", [], "check its name")
    ("did you mean 'label'?", 'check its name')
    """
    close = similar(name, names)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else otherwise


def did_you_mean_file(path: str, otherwise: str) -> str:
    """The same for a file that does not exist: files of its folder that may have been meant."""
    folder, name = os.path.split(path)
    try:
        names = sorted(os.listdir(folder or "."))
    except PermissionError:
        return "you have no permission to read its folder"
    except OSError:
        return f"the folder {folder!r} does not exist"
    # Endings are not compared: all files of a folder may have the same one.
    stems = {own: os.path.splitext(own)[0] for own in names}
    close = set(similar(os.path.splitext(name)[0], dict.fromkeys(stems.values())))
    matches = [os.path.join(folder, own) for own, stem in stems.items() if stem in close][:MAX_FILES_SUGGESTED]
    return f"did you mean {' or '.join(map(repr, matches))}?" if matches else otherwise


class Repr(str):
    """The `repr` of a value that could not be sent to another process."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def picklable(value: Any) -> Any:
    """A value, or its repr if it cannot be pickled: an error must reach the calling process."""
    import pickle  # rarely needed: a filter starts for every mail

    try:
        pickle.dumps(value)
    except Exception:  # objects fail in many ways
        return Repr(repr(value))
    return value


class DecibanError(LocatedError, ValueError):
    """Base of every error that deciban raises about its input.

    >>> from deciban import BernoulliNB
    >>> try:
    ...     BernoulliNB().fit([[1], [0]], ["a"])
    ... except DecibanError as error:
    ...     print(error)
    Found input variables with inconsistent numbers of samples: X has 2 rows, y has 1
    """


class SchemaError(DecibanError):
    """Two batches or models do not fit together.

    >>> from deciban import BernoulliNB
    >>> BernoulliNB().fit([[1, 0]], ["a"]) + BernoulliNB().fit([[1]], ["a"])
    Traceback (most recent call last):
        ...
    deciban.errors.SchemaError: cannot merge a model of 2 features with one of 1
    """


class KindError(DecibanError, TypeError):
    """A value has a type that cannot be used here."""


class ChoiceError(SchemaError):
    """Two models do not add up because each made its own choices (bins, trees, weights)."""


class ForgetError(DecibanError):
    """Rows to forget that the model has not learned, or that cannot be subtracted from its sums.

    >>> from deciban import BernoulliNB
    >>> BernoulliNB().fit([[1], [0]], ["a", "b"]).forget([[1], [1]], ["a", "a"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    deciban.errors.ForgetError: cannot forget more rows of class 'a' than the model has learned: it has 1, and 2 ...
    """


class FileError(DecibanError):
    """A file is damaged, of another kind, or from a later version.

    >>> import io
    >>> import deciban
    >>> deciban.load(io.BytesIO(b"not a model"))
    Traceback (most recent call last):
        ...
    deciban.errors.FileError: 'the model' is not a complete deciban model file: it is a file of another kind
    """


class WriteError(FileError, OSError):
    """A file could not be written, or not safely.

    If `written` is False, nothing was lost: the old file is unchanged. If it is True, the new file is in place
    and is read from now on, but a power cut could bring the old one back; so do not learn the same rows again. `errno`
    is that of the operating system.

    >>> error = WriteError("cannot write {file!r}: {problem}", file="m.deciban", problem="the disk is full", errno=28)
    >>> str(error), error.written, error.errno
    ("cannot write 'm.deciban': the disk is full", False, 28)
    """

    def __init__(self, message: str = "", *, errno: int | None = None, written: bool = False, **fields: Any) -> None:
        super().__init__(message, errno=errno, written=written, **fields)
        self.errno, self.written = errno, written


class EngineError(DecibanError):
    """A partition, a worker or a connection failed, also when retried: nothing was learned.

    >>> import sqlite3, deciban
    >>> shop = sqlite3.connect(":memory:")
    >>> _ = shop.execute("CREATE TABLE orders (price REAL, returned TEXT)")
    >>> orders = deciban.table(shop, "orders")
    >>> _ = shop.execute("DROP TABLE orders")
    >>> deciban.NaiveBayes().fit(orders, "returned")
    Traceback (most recent call last):
        ...
    deciban.errors.EngineError: table 'orders': no such table: orders; nothing was learned
    """


class NotAvailableError(DecibanError, AttributeError):
    """The model does not support this method: it is not generative, has no classes, or keeps no words."""


class DataWarning(LocatedError, UserWarning):  # noqa: N818 - raised only if a filter makes it an error
    """Something in the data was unexpected, but could be read."""


class ZeroEvidenceWarning(UserWarning):
    """Every class gave some row probability zero, so its posterior fell back to the prior.

    >>> import warnings
    >>> from deciban import MultinomialNB
    >>> model = MultinomialNB(alpha=0).fit([[2, 1, 0], [1, 2, 0]], ["a", "b"])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     proba = model.predict_proba([[0, 0, 1]])  # a word that no class has
    >>> caught[0].category.__name__, proba.tolist()
    ('ZeroEvidenceWarning', [[0.5, 0.5]])
    """


class InterruptedWarning(UserWarning):
    """EM was interrupted; the model is the best so far.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", InterruptedWarning)  # an interrupt during `fit` is then an error
    """


class VocabularyWarning(UserWarning):
    """A model of texts had too many items, and dropped those that were used least.

    >>> import warnings
    >>> from deciban import TextClassifier
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     texts = ["one two three four five six", "one two three four"]
    ...     model = TextClassifier(max_features=4, reliability=None).fit(texts, ["a", "b"])
    >>> caught[0].category.__name__, sorted(model.vocabulary_)
    ('VocabularyWarning', ['four', 'one', 'three', 'two'])
    """


class SingularWarning(UserWarning):
    """A covariance was singular, and was repaired.

    >>> import warnings
    >>> from deciban import QuadraticDiscriminantAnalysis
    >>> with warnings.catch_warnings(record=True) as caught:  # the second column is the first one again
    ...     warnings.simplefilter("always")
    ...     X = [[1, 1], [2, 2], [3, 3], [5, 5], [6, 6], [8, 8]]
    ...     model = QuadraticDiscriminantAnalysis().fit(X, [0, 0, 0, 1, 1, 1])
    >>> caught[0].category.__name__
    'SingularWarning'
    """


ROW_NUMBERS: ContextVar[tuple[Sequence[int], ...]] = ContextVar("row_numbers", default=())


def set_row_numbers(numbers: Sequence[int] | None) -> None:
    """From here on, in this thread, warnings name row i as numbers[i]."""
    ROW_NUMBERS.set(() if numbers is None else (numbers,))


@contextmanager
def numbered(numbers: Sequence[int] | None) -> Iterator[None]:
    """Inside, errors and warnings name row i as numbers[i].

    >>> with numbered([7, 8, 9]):
    ...     raise DecibanError("row {row} has no label", row=2)
    Traceback (most recent call last):
    deciban.errors.DecibanError: row 9 has no label
    """
    if numbers is None:
        yield
        return
    token = ROW_NUMBERS.set((numbers, *ROW_NUMBERS.get()))
    try:
        yield
    except LocatedError as error:
        if error.row is None or error.file is not None:  # it already has the file's row number
            raise
        raise error.located(numbers=numbers) from error
    finally:
        ROW_NUMBERS.reset(token)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside the package that called it.

    A `Warning` given as the message has its own category.
    """
    if isinstance(message, DataWarning):
        for numbers in ROW_NUMBERS.get():
            message = message.located(numbers=numbers)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("deciban."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
