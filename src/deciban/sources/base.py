"""The base of all sources: rows in batches, a sample, a single row, digests."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.sources.input_file import InputFile, Pass, read_through

SAMPLE_ROWS = 100_000
MAX_SAMPLE_CELLS = 1 << 25  # of a sample: 256 MB of numbers
SAMPLE_PLACES = 64  # spans that a sample is taken from
EMPTY_DIGEST = hashlib.sha256().hexdigest()  # SHA-256 of an empty file

Kind = Literal["table", "texts", "mail"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows of one file."""

    table: pa.Table
    first: int  # the number of its first row over all files, from 0
    file: str  # the file of the first row, if files are documents
    names: list[str] | None = None  # of rows, if they are not just numbered
    texts: pa.Table | None = None  # values that are not strings, as the file writes them, if the source `keeps_texts`


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Rows as they are read: any number of them, of one file."""

    table: pa.Table
    file: str
    read: int  # bytes read of this and all earlier files
    names: list[str] | None = None
    texts: pa.Table | None = None


class Source(ABC):
    """Rows of one or several files, all with the same columns and types.

    `name` is for messages; `kind` is "table", "texts" or "mail" (raw messages, bytes as Latin-1, which is what
    `deciban.text.mail.read` takes); `columns` and `types` are those of every batch; `size` is in bytes, None if it
    is unknown; `whole` are the columns of numbers that have no fractions in the sample. `maybe_thousands` are columns
    of fractions such as 1.234, which may be thousands.
    """

    def __init__(self, name: str, kind: Kind, files: Sequence[InputFile]) -> None:
        self.name = name
        self.kind: Kind = kind
        self.files = list(files)
        self.columns: tuple[str, ...] = ()
        self.types: dict[str, pa.DataType] = {}
        self.whole: frozenset[str] = frozenset()
        self.maybe_thousands: frozenset[str] = frozenset()
        sizes = [file.size for file in self.files]
        self.size: int | None = None if None in sizes else sum(size for size in sizes if size is not None)
        self.rows_expected = 0  # an estimate without reading all
        self.hashes = True  # whether to hash while reading; callers that do not need `digests` set it to False
        self.keeps_texts = False  # whether batches have values as the file writes them; only CSV has them
        self._digests: dict[Any, str] | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} of {self.name}: {', '.join(self.columns)}>"

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, self.types[name]) for name in self.columns])

    @abstractmethod
    def _pieces(self, rows: int, one_pass: Pass) -> Iterator[Piece]:
        """All rows, once; `rows` is the preferred number per piece."""

    def _peek(self) -> Iterator[Piece]:
        """All rows, lazily and without consuming them: a later read starts at the beginning."""
        return self._pieces(1024, Pass())

    def batches(self, rows: int = 65_536, watch: Callable[[int], None] | None = None) -> Iterator[Batch]:
        """All rows in order, at most `rows` at a time and of one file; `watch` is called with the bytes read so far."""
        if rows < 1:
            raise DecibanError("a batch must have at least one row, not {value}", value=rows)
        first, one_pass = 0, self._new_pass()
        for piece in self._pieces(rows, one_pass):
            for start in range(0, piece.table.num_rows, rows):
                table = piece.table.slice(start, rows)
                names = piece.names and piece.names[start : start + rows]
                yield Batch(table, first, piece.file, names, piece.texts and piece.texts.slice(start, rows))
                first += table.num_rows
            if watch is not None:
                watch(piece.read)
        self._store_digests(one_pass)

    def whole_batches(self, rows: int, size: int) -> list[Batch] | None:
        """All rows, or None if there are more than `rows`, or more than `size` bytes; none are consumed then."""
        if self.rows_expected > 2 * rows:
            return None  # without reading them
        batches, first, used = [], 0, 0
        for piece in self._peek() if self.size is None else self.batches():
            batches.append(Batch(piece.table, first, piece.file, piece.names))
            first, used = first + piece.table.num_rows, used + piece.table.nbytes
            if first > rows or used > size:
                return None
        return batches

    def _new_pass(self) -> Pass:
        """A pass that hashes what it reads, unless digests are known or not needed."""
        return Pass(self._group if self.hashes and self._digests is None else None)

    def _store_digests(self, one_pass: Pass) -> None:
        """Keep the digests after a full pass. Some formats skip or repeat bytes: then they are computed separately."""
        if one_pass.hashes and one_pass.read == self.size:
            self._digests = one_pass.digests()

    def _group(self, file: InputFile) -> Any:
        """The key under which a file is hashed: each separately."""
        return file

    def _named_digests(self, digests: dict[Any, str]) -> list[str]:
        """The digests of all groups, in the order of the files."""
        return [digests.get(file, EMPTY_DIGEST) for file in self.files]

    def digests(self) -> list[str]:
        """The SHA-256 of each file, computed while `batches` reads all of it, or else by reading it once more.

        A stream has none before it has been read. Files are read for this alone if the digest is needed before the rows
        (has the model learned them?).
        """
        if self._digests is None:
            if self.size is None:
                return []
            one_pass = Pass(self._group)
            read_through(self.files, one_pass)
            self._digests = one_pass.digests()
        return self._named_digests(self._digests)

    def head(self, rows: int = 10) -> pa.Table:
        """The first rows."""
        tables, remaining = [], rows
        for piece in self._peek():
            tables.append(piece.table.slice(0, remaining))
            remaining -= tables[-1].num_rows
            if remaining <= 0:
                break
        return self._concatenated(tables)

    def row(self, number: int) -> pa.Table:
        """One row, by its number over all files, from 0."""
        before = 0
        for piece in self._peek() if number >= 0 else ():
            if number < before + piece.table.num_rows:
                return piece.table.slice(number - before, 1)
            before += piece.table.num_rows
        if number < 0:
            raise DecibanError("there is no row before the first row of {file}: give another row", file=self.name)
        has = f"only {before:,} row{'' if before == 1 else 's'}" if before else "no rows"
        raise DecibanError("{file} has {has}: give another row, or another file", file=self.name, has=has)

    def sample(self, rows: int = SAMPLE_ROWS) -> pa.Table:
        """All rows if there are at most `rows`; otherwise about that many, from evenly spaced places.

        Of a table with many columns they are fewer, since they are held in memory.
        """
        return self._sample(max(1, min(rows, MAX_SAMPLE_CELLS // max(1, len(self.columns)))))

    def _sample(self, rows: int) -> pa.Table:
        tables, total = [], 0
        for piece in self._peek():
            total += piece.table.num_rows
            if total - piece.table.num_rows < rows:
                tables.append(piece.table)
        return self._concatenated(tables) if total <= rows else self._evenly_sampled(total, rows)

    def _evenly_sampled(self, total: int, rows: int) -> pa.Table:
        """At most `rows` of all rows, from evenly spaced places."""
        spans, tables, before = even_spans(total, rows), [], 0
        for piece in self._peek():
            after = before + piece.table.num_rows
            for start, end in spans:
                start, end = max(start, before), min(end, after)
                if start < end:  # copied, since a slice would keep the whole table in memory
                    tables.append(piece.table.take(row_indices(np.arange(start - before, end - before))))
            before = after
        return self._concatenated(tables)

    def _concatenated(self, tables: Sequence[pa.Table]) -> pa.Table:
        if not tables:
            return self.schema.empty_table()
        return pa.concat_tables(tables).unify_dictionaries()


def row_indices(indices: Array) -> pa.Array:
    """Row indices as an Arrow array. (`pa.array` would import pandas, which takes longer than the rest.)"""
    return pa.Array.from_buffers(pa.int64(), len(indices), [None, pa.py_buffer(indices.astype(np.int64))])


def even_spans(total: int, rows: int) -> list[tuple[int, int]]:
    """Evenly spaced spans of rows, at most `rows` of `total` in all.

    >>> even_spans(1000, 6)
    [(0, 1), (166, 167), (333, 334), (500, 501), (666, 667), (833, 834)]
    """
    places = min(SAMPLE_PLACES, rows, total)
    starts = [total * i // places for i in range(places + 1)]
    counts = [rows * (i + 1) // places - rows * i // places for i in range(places)]
    return [(start, min(start + count, end)) for start, count, end in zip(starts, counts, starts[1:], strict=False)]
