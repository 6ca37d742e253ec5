"""What is common to all sources: rows in batches, a sample, a single row, a digest."""

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

PLACES = 64  # from which a sample is taken
EMPTY = hashlib.sha256().hexdigest()  # of a file without a byte

Kind = Literal["table", "texts", "mail"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows of one file."""

    table: pa.Table
    first: int  # the number of its first row over all files, from 0
    file: str  # that of the first row, where files are documents
    names: list[str] | None = None  # what to call rows, if they are not just numbered


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Rows as they are read: any number of them, of one file."""

    table: pa.Table
    file: str
    read: int  # bytes of this and all files before
    names: list[str] | None = None


class Source(ABC):
    """Rows of one or several files, all with the same columns and types.

    `name` is for messages; `kind` is "table", "texts" or "mail" (raw messages, bytes as Latin-1, which is what
    `deciban.text.mail.read` takes); `columns` and `types` say what every batch has; `size` is in bytes, None where it
    is not known; `whole` are the columns of numbers that have no fractions in the sample.
    """

    def __init__(self, name: str, kind: Kind, files: Sequence[InputFile]) -> None:
        self.name = name
        self.kind: Kind = kind
        self.files = list(files)
        self.columns: tuple[str, ...] = ()
        self.types: dict[str, pa.DataType] = {}
        self.whole: frozenset[str] = frozenset()
        sizes = [file.size for file in self.files]
        self.size: int | None = None if None in sizes else sum(size for size in sizes if size is not None)
        self.rows_expected = 0  # as far as can be told without reading all
        self.hashes = True  # in passing; whoever will not ask for `digests` spares the time
        self._digests: dict[Any, str] | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} of {self.name}: {', '.join(self.columns)}>"

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, self.types[name]) for name in self.columns])

    @abstractmethod
    def _pieces(self, rows: int, one_pass: Pass) -> Iterator[Piece]:
        """All rows, once; `rows` is what is wanted at a time, as far as one can choose."""

    def _look(self) -> Iterator[Piece]:
        """All rows, as far as one draws; whoever reads afterwards finds them all again."""
        return self._pieces(1024, Pass())

    def batches(self, rows: int = 65_536, watch: Callable[[int], None] | None = None) -> Iterator[Batch]:
        """All rows in their order, at most `rows` at a time and of one file; `watch` is told the bytes read so far."""
        if rows < 1:
            raise DecibanError("batches have at least one row, not {value}", value=rows)
        first, one_pass = 0, self._hashing()
        for piece in self._pieces(rows, one_pass):
            for start in range(0, piece.table.num_rows, rows):
                table = piece.table.slice(start, rows)
                yield Batch(table, first, piece.file, piece.names and piece.names[start : start + rows])
                first += table.num_rows
            if watch is not None:
                watch(piece.read)
        self._read(one_pass)

    def whole_batches(self, rows: int, size: int) -> list[Batch] | None:
        """All rows, if there are no more than so many, in no more than so many bytes; nothing is lost if there are."""
        if self.rows_expected > 2 * rows:
            return None  # which spares reading as many
        batches, first, used = [], 0, 0
        for piece in self._look() if self.size is None else self.batches():
            batches.append(Batch(piece.table, first, piece.file, piece.names))
            first, used = first + piece.table.num_rows, used + piece.table.nbytes
            if first > rows or used > size:
                return None
        return batches

    def _hashing(self) -> Pass:
        """A pass that hashes what it reads, unless that is known or nobody will ask."""
        return Pass(self._group if self.hashes and self._digests is None else None)

    def _read(self, one_pass: Pass) -> None:
        """All rows were read. Not all bytes need have been: of some formats, parts are left out or are read twice."""
        if one_pass.hashes and one_pass.read == self.size:
            self._digests = one_pass.digests()

    def _group(self, file: InputFile) -> Any:
        """What a file is hashed together with: nothing else."""
        return file

    def _named_digests(self, digests: dict[Any, str]) -> list[str]:
        """The digests of all groups, in the order of the files."""
        return [digests.get(file, EMPTY) for file in self.files]

    def digests(self) -> list[str]:
        """The SHA-256 of each file, known without reading it again once all of `batches` was read.

        Of what can be read only once there is none before. Files are read for this alone where their digest is asked
        for first (has the model learned them?).
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
        tables, left = [], rows
        for piece in self._look():
            tables.append(piece.table.slice(0, left))
            left -= tables[-1].num_rows
            if left <= 0:
                break
        return self._joined(tables)

    def row(self, number: int) -> pa.Table:
        """One row, by its number over all files, from 0."""
        before = 0
        for piece in self._look() if number >= 0 else ():
            if number < before + piece.table.num_rows:
                return piece.table.slice(number - before, 1)
            before += piece.table.num_rows
        if number < 0:
            raise DecibanError("there is no row before the first one of {file}: ask for another", file=self.name)
        has = f"only {before:,} row{'' if before == 1 else 's'}" if before else "no rows"
        raise DecibanError("{file} has {has}: ask for another row, or look into another file", file=self.name, has=has)

    def sample(self, rows: int = 100_000) -> pa.Table:
        """All rows, if there are no more than `rows`; otherwise at most so many, from places spread evenly."""
        tables, total = [], 0
        for piece in self._look():
            total += piece.table.num_rows
            if total - piece.table.num_rows < rows:
                tables.append(piece.table)
        return self._joined(tables) if total <= rows else self._spread(total, rows)

    def _spread(self, total: int, rows: int) -> pa.Table:
        """So many of all rows, from places spread evenly."""
        spans, tables, before = spread(total, rows), [], 0
        for piece in self._look():
            after = before + piece.table.num_rows
            for start, end in spans:
                start, end = max(start, before), min(end, after)
                if start < end:  # copied, since a slice would keep all of the table
                    tables.append(piece.table.take(numbers(np.arange(start - before, end - before))))
            before = after
        return self._joined(tables)

    def _joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        if not tables:
            return self.schema.empty_table()
        return pa.concat_tables(tables).unify_dictionaries()


def numbers(which: Array) -> pa.Array:
    """Rows' numbers as Arrow has them. (`pa.array` looks for pandas first, and that takes longer than the rest.)"""
    return pa.Array.from_buffers(pa.int64(), len(which), [None, pa.py_buffer(which.astype(np.int64))])


def spread(total: int, rows: int) -> list[tuple[int, int]]:
    """Spans of rows, at most `rows` of `total` in all, that begin at even distances.

    >>> spread(1000, 6)
    [(0, 1), (166, 167), (333, 334), (500, 501), (666, 667), (833, 834)]
    """
    places = min(PLACES, rows, total)
    starts = [total * i // places for i in range(places + 1)]
    counts = [rows * (i + 1) // places - rows * i // places for i in range(places)]
    return [(start, min(start + count, end)) for start, count, end in zip(starts, counts, starts[1:], strict=False)]
