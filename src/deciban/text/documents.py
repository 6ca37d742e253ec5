"""Documents in any container, as the kernel reads them: in place if possible."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.reading.columns import short_repr
from deciban.reading.missing import is_missing
from deciban.text.raw import Documents

BATCH_CHARACTERS = 1 << 24  # taken at a time from an iterator, or from documents that must be converted first


class Lines(Sequence[str]):
    r"""The lines of a UTF-8 file, each a document: the file is mapped into memory and read in place.

    >>> import os, tempfile
    >>> from deciban.text.documents import Lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tales.txt")
    ...     with open(path, "w", encoding="utf-8") as file:
    ...         _ = file.write("the cat\nthe dog\n")
    ...     lines = Lines(path)
    ...     len(lines), lines[1]
    (2, 'the dog')
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        with open(path, "rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            self.data: bytes | mmap.mmap = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        content = np.frombuffer(self.data, dtype=np.uint8)
        line_ends = [
            start + 1 + np.flatnonzero(content[start : start + BATCH_CHARACTERS] == ord("\n"))
            for start in range(0, len(content), BATCH_CHARACTERS)
        ]
        unfinished = [] if empty or self.data[-1:] == b"\n" else [len(content)]
        self.offsets: Array = np.concatenate([[0], *line_ends, unfinished]).astype(np.int64)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        i = range(len(self))[at]
        line = self.data[self.offsets[i] : self.offsets[i + 1]].removesuffix(b"\n").removesuffix(b"\r")
        return decoded(line, f"line {i} of {os.fspath(self.path)!r}")

    def __reduce__(self) -> tuple[type[Lines], tuple[Any]]:
        return Lines, (self.path,)

    def documents(self, lower: bool) -> Documents:
        """For counting words: each line keeps its line end, which is not part of any word."""
        return Documents.from_buffer(self.data, self.offsets, lower)


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Documents with a length that can be read more than once: lines of a file, a list, an Arrow column."""

    documents: Any
    lower: bool = True

    @classmethod
    def of(cls, X: Any, lower: bool = True) -> Texts:
        """Documents in any container; an iterator is read into a list."""
        if isinstance(X, Lines | list | tuple):
            return cls(X, lower)
        column = arrow_column(X)
        if column is None:
            texts = as_texts(X)
            column = texts if isinstance(texts, list | tuple) else list(texts)
        return cls(column, lower)

    def __len__(self) -> int:
        return len(self.documents)

    def batches(self) -> Iterator[Documents]:
        """For the kernel."""
        return batches(self.documents, self.lower)

    def strings(self) -> Iterator[str]:
        """All documents as Python strings."""
        return (as_string(text, i) for i, text in enumerate(self.documents))

    def string(self, i: int) -> str:
        return as_string(self.documents[i], i)

    def take(self, rows: Array) -> Texts:
        """Some of the documents."""
        return Texts([self.string(i) for i in rows.tolist()], self.lower)


def as_string(text: Any, number: int = 0) -> str:
    """A document as a Python string."""
    if type(text) is str:  # almost always
        return text
    if hasattr(text, "as_py"):
        text = text.as_py()
    check(text, number)
    return decoded(text, f"document {number}") if isinstance(text, bytes) else str(text)


def batches(raw: Any, lower: bool, ends: bool = False) -> Iterator[Documents]:
    """The documents for the kernel, all at once, or in pieces from an iterator.

    With `ends`, line ends matter, and lines of a file come without them.
    """
    if isinstance(raw, Lines) and not ends:
        yield raw.documents(lower)
        return
    start = 0
    if (column := arrow_column(raw)) is not None:
        for chunk in column.chunks:
            yield from_arrow(chunk, start, lower)
            start += len(chunk)
    elif isinstance(texts := as_texts(raw), list | tuple):
        yield from_list(texts, 0, lower)
    else:
        for batch in in_batches(texts):
            yield from_list(batch, start, lower)
            start += len(batch)


def as_texts(raw: Any) -> Iterable[Any]:
    """The documents as Python objects: lists, tuples and iterators as they are, columns and arrays as lists."""
    if isinstance(raw, str | bytes):
        raise DecibanError("Iterable over raw text documents expected, string object received. Put it in a list.")
    if isinstance(raw, Mapping) or not (hasattr(raw, "__iter__") or hasattr(raw, "ndim")):
        raise DecibanError(
            "documents must be texts in a list or a column, not {value}, a {type}: choose the column that holds them",
            value=short_repr(raw),
            type=type(raw).__name__,
        )
    axes = getattr(raw, "ndim", 2 if hasattr(raw, "columns") else 1)  # a frame of any library has columns
    if axes != 1:
        raise DecibanError(
            f"documents must be one column of texts, not an array of {axes} axes: choose a column, or call ravel()"
        )
    for name in ("tolist", "to_list", "to_pylist"):  # NumPy's and pandas', Polars', Arrow's
        if hasattr(raw, name):
            return getattr(raw, name)()  # type: ignore[no-any-return]  # a list in all three
    return raw  # type: ignore[no-any-return]  # any other iterable


def in_batches(texts: Iterable[Any]) -> Iterator[list[Any]]:
    """Lists of about BATCH_CHARACTERS characters; anything that is not text counts as a few."""
    batch, size = [], 0
    for document in texts:
        batch.append(document)
        size += 64 + (len(document) if isinstance(document, str | bytes) else 0)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def from_list(texts: list[Any] | tuple[Any, ...], start: int, lower: bool) -> Documents:
    """Texts read in place; an error numbers them from `start`."""
    try:
        return Documents(texts, lower)
    except TypeError:
        for number, document in enumerate(texts, start):
            check(document, number)
        raise
    except UnicodeDecodeError:
        for number, document in enumerate(texts, start):
            if isinstance(document, bytes):
                decoded(document, f"document {number}")
        raise


def check(document: Any, number: int) -> None:
    """Raise an error with the document's number if it is not text."""
    if isinstance(document, str | bytes):
        return
    if isinstance(document, float) and document != document:
        raise DecibanError(
            "np.nan is an invalid document, expected byte or unicode string. Document {row} is missing: leave it "
            "out, or replace it with ''",
            row=number,
            value=document,
        )
    if np.ndim(document) == 0 and is_missing(document):
        raise DecibanError(
            "document {row} is missing ({value!r}): leave it out, or replace it with ''", row=number, value=document
        )
    raise DecibanError(
        "document {row} is of type {type} ({value!short}), not a string: leave it out, or make it a string",
        row=number,
        value=document,
        type=type(document).__name__,
    )


def decoded(line: bytes, where: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        error.reason += f" ({where})"
        raise


def arrow_column(raw: Any) -> Any:
    """The texts as an Arrow column if they are one, otherwise None."""
    if not hasattr(raw, "__arrow_c_stream__") and not hasattr(raw, "__arrow_c_array__"):
        return None
    if hasattr(raw, "columns") or getattr(getattr(raw, "dtype", None), "storage", "") == "python":
        return None  # a table; pandas' strings that are Python's
    if str(getattr(raw, "dtype", "")) == "object":
        return None  # pandas' again
    try:
        import pyarrow
    except ImportError:
        return None
    if hasattr(raw, "to_arrow"):  # Polars' texts as Arrow 17 reads them, and its categories before Polars 1.36
        raw = raw.to_arrow()
    column = pyarrow.chunked_array(raw if hasattr(raw, "__arrow_c_stream__") else [raw])
    if column.type == pyarrow.string_view():
        try:
            column = column.cast(pyarrow.large_string())
        except pyarrow.ArrowNotImplementedError:  # before Arrow 18
            return None
    return column if column.type in (pyarrow.string(), pyarrow.large_string()) else None


def from_arrow(chunk: Any, start: int, lower: bool) -> Documents:
    """Texts read in Arrow's buffers; an error numbers them from `start`."""
    if chunk.null_count:
        check(float("nan"), start + chunk.is_null().index(True).as_py())
    _, offsets, data = chunk.buffers()
    if not len(chunk):
        return Documents([], lower)
    kind: Any = np.int64 if str(chunk.type).startswith("large") else np.int32
    at: Array = np.frombuffer(offsets, dtype=kind)[chunk.offset : chunk.offset + len(chunk) + 1]
    return Documents.from_buffer(b"" if data is None else data, at, lower)
