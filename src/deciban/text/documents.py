"""Whatever people call documents, as the kernel reads them: in place where that can be."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.reading.missing import is_missing
from deciban.text.raw import Documents

BATCH = 1 << 24  # characters taken at a time from what can be read only once, or must be changed first


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
        everything = np.frombuffer(self.data, dtype=np.uint8)
        found = [
            start + 1 + np.flatnonzero(everything[start : start + BATCH] == ord("\n"))
            for start in range(0, len(everything), BATCH)
        ]
        unfinished = [] if empty or self.data[-1:] == b"\n" else [len(everything)]
        self.offsets: Array = np.concatenate([[0], *found, unfinished]).astype(np.int64)

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
        """For words: each line still has its end, which is no part of a word."""
        return Documents.from_buffer(self.data, self.offsets, lower)


def batches(raw: Any, lower: bool, ends: bool = False) -> Iterator[Documents]:
    """The documents for the kernel, all at once or what can be read only once in pieces.

    With `ends`, the end of a line matters, and lines come without.
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
    """The documents as Python has them: lists, tuples and iterators as they are, columns and arrays as lists."""
    if isinstance(raw, str | bytes):
        raise DecibanError("Iterable over raw text documents expected, string object received. Put it in a list.")
    axes = getattr(raw, "ndim", 2 if hasattr(raw, "columns") else 1)  # a frame of any library has columns
    if axes != 1:
        raise DecibanError(f"documents are one column of texts, not {axes} axes: choose a column, or ravel()")
    for name in ("tolist", "to_list", "to_pylist"):  # NumPy's and pandas', Polars', Arrow's
        if hasattr(raw, name):
            return getattr(raw, name)()  # type: ignore[no-any-return]  # a list, all of them say
    return raw  # type: ignore[no-any-return]  # any other iterable


def in_batches(texts: Iterable[Any]) -> Iterator[list[Any]]:
    """Lists of about BATCH characters; what is not text counts as a few."""
    batch, size = [], 0
    for document in texts:
        batch.append(document)
        size += 64 + (len(document) if isinstance(document, str | bytes) else 0)
        if size >= BATCH:
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
    """Refuse what is no text, by its number."""
    if isinstance(document, str | bytes):
        return
    if isinstance(document, float) and document != document:
        raise DecibanError(
            "np.nan is an invalid document, expected byte or unicode string. Document {row} is missing: drop it, or "
            "put '' in its place",
            row=number,
            value=document,
        )
    if np.ndim(document) == 0 and is_missing(document):
        raise DecibanError(
            "document {row} is missing ({value!r}): drop it, or put '' in its place", row=number, value=document
        )
    raise DecibanError(
        "document {row} is of type {type} ({value!short}), not a string: drop it, or make it a string",
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
    """A column of texts as Arrow has it, if it is one."""
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
    column = pyarrow.chunked_array(raw if hasattr(raw, "__arrow_c_stream__") else [raw])
    if column.type == pyarrow.string_view():  # as Polars gives it
        column = column.cast(pyarrow.large_string())
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
