"""Files of line-based records: read in blocks, parsed in threads, sampled at evenly spaced places."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from deciban.errors import DecibanError
from deciban.sources.base import SAMPLE_PLACES, Piece, Source
from deciban.sources.blocks import Cutter, RecordBlock, in_blocks
from deciban.sources.input_file import ByteStream, InputFile, Pass, compression, is_utf_8, open_text
from deciban.sources.read_ahead import map_in_order

MAX_SAMPLE_BYTES = 1 << 26  # of a sample from which types are inferred
SLACK = 1.5  # factor on the expected bytes of the rows wanted from a place


class Misread(Exception):  # noqa: N818 - it never leaves this package
    """A record that cannot be read: its number among those of its block, its line in the file, and why.

    `why` is the end of a sentence, with fields {column} and {value}.
    """

    def __init__(self, why: str, row: int, line: int, **fields: Any) -> None:
        super().__init__(why)
        self.why, self.row, self.line, self.fields = why, row, line, fields

    def in_file(self, record_file: RecordFile, before: int) -> DecibanError:
        """The error, given how many rows of the file came before the block."""
        if not self.line:  # read from the middle of the file
            return DecibanError(f"a row of {{file}} {self.why}", file=record_file.name, **self.fields)
        # Rows of a file are counted from 1, like its lines.
        line = f" (line {self.line})" if record_file.has_file_lines else ""
        row = before + self.row + 1
        return DecibanError(f"row {{row}} of {{file}}{line} {self.why}", row=row, file=record_file.name, **self.fields)


@dataclass(frozen=True, slots=True)
class OpenedRecords:
    """A file opened at its first record: bytes read already, the remaining stream, and the line number."""

    rest: bytes
    stream: ByteStream
    line: int


class RecordFile(ABC):
    """One file of records."""

    cutter: Cutter
    has_file_lines = True  # whether line numbers of a block are those of the file

    def __init__(self, file: InputFile, encoding: str) -> None:
        self.file, self.name = file, file.name
        self._encoding = encoding
        self._first = Pass(lambda file: file)  # for a stream, the only one
        self._begun = self._begin(open_text(file, self._first, encoding))
        self.start = self._first.read - len(self._begun.rest)  # in bytes, if the file is seekable
        if file.rereadable:
            self._begun.stream.close()

    @abstractmethod
    def _begin(self, stream: ByteStream) -> OpenedRecords:
        """Read the header, up to the first record."""

    @abstractmethod
    def count(self, block: RecordBlock) -> int:
        """How many records a block has; Misread if it is not made of records."""

    def first_rows(self, block: RecordBlock, rows: int) -> RecordBlock:
        """A block cut after its first `rows` records, or all of it if finding their end takes time."""
        del rows
        return block

    def blocks(self, one_pass: Pass) -> Generator[RecordBlock, None, None]:
        begun = self._begin(open_text(self.file, one_pass, self._encoding))
        return in_blocks(begun.stream, one_pass, self.cutter, self.name, begun.line, begun.rest)

    def replay(self) -> Replay:
        """The blocks of a stream, which can be read once."""
        begun = self._begun
        blocks = in_blocks(begun.stream, self._first, self.cutter, self.name, begun.line, begun.rest)
        return Replay(blocks, self._first, self.name)

    def seekable(self) -> bool:
        """Whether the file can be read from any offset."""
        return self.file.rereadable and is_utf_8(self._encoding) and compression(self.file.peek(4)) is None

    def may_begin_inside(self, block: RecordBlock) -> bool:
        """Whether a block read from the middle of a file may start inside a record."""
        del block
        return False

    def records_between(self, begin: int, end: int) -> bytes:
        """The whole records between two offsets from the first record, based on lines."""
        data = self.file.between(self.start + max(0, begin - 1), self.start + end)
        if begin > 0:
            data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
        return data[: self.cutter.cut(data)]


class Replay:
    """The blocks of a stream: those that were peeked at are kept for the actual read."""

    def __init__(self, blocks: Generator[RecordBlock, None, None], one_pass: Pass, name: str) -> None:
        self._blocks, self._pass, self._name = blocks, one_pass, name
        self._kept: list[RecordBlock] = []
        self._ended = self._spent = False

    def peek(self) -> Generator[RecordBlock, None, None]:
        if self._spent:
            raise DecibanError("{file} can be read only once: save it to a file first", file=self._name)
        at = 0
        while at < len(self._kept) or self._draw():
            yield self._kept[at]
            at += 1

    def _draw(self) -> bool:
        block = None if self._ended else next(self._blocks, None)
        if block is None:
            self._ended = True
            return False
        self._kept.append(block)
        return True

    def read(self) -> Generator[RecordBlock, None, None]:
        yield from self.peek() if self._ended else self._rest()

    def _rest(self) -> Generator[RecordBlock, None, None]:
        if self._spent:
            raise DecibanError("{file} can be read only once: save it to a file first", file=self._name)
        self._spent = True
        while self._kept:
            yield self._kept.pop(0)
        yield from self._blocks
        self._ended = True

    def digests(self) -> dict[Any, str] | None:
        """The digests, once all bytes were read."""
        return self._pass.digests() if self._ended else None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some records of a file, and how many of them are wanted."""

    record_file: RecordFile
    block: RecordBlock
    rows: int


class Records(Source):
    """A source of records in files; subclasses parse a format."""

    def __init__(self, name: str, record_files: Sequence[RecordFile]) -> None:
        super().__init__(name, "table", [record_file.file for record_file in record_files])
        self.record_files = list(record_files)
        self._replay = None if self.size is not None else self.record_files[0].replay()
        self._sampled: tuple[int, pa.Table] | None = None

    @abstractmethod
    def _parse(self, record_file: RecordFile, block: RecordBlock) -> pa.Table:
        """The rows of a block, with all columns and their types."""

    def _texts(self, record_file: RecordFile, block: RecordBlock) -> pa.Table | None:
        """The columns of a block that are not strings, as the file writes them."""
        del record_file, block
        return None

    def _parse_and_texts(self, record_file: RecordFile, block: RecordBlock) -> tuple[pa.Table, pa.Table | None]:
        table = self._parse(record_file, block)
        return table, self._texts(record_file, block) if self.keeps_texts else None

    def _pieces(self, rows: int, one_pass: Pass) -> Iterator[Piece]:
        del rows  # a block is a piece, whatever its number of rows
        for record_file in self.record_files:
            before = 0
            try:
                blocks = self._blocks(record_file, one_pass)
                for block, (table, texts) in map_in_order(blocks, partial(self._parse_and_texts, record_file)):
                    yield Piece(table, record_file.name, block.read, texts=texts)
                    before += table.num_rows
            except Misread as error:
                raise error.in_file(record_file, before) from None

    def _peek(self) -> Iterator[Piece]:
        for record_file in self.record_files:
            before = 0
            for block in self._peeked_blocks(record_file):
                try:
                    table = self._parse(record_file, block)
                except Misread as error:
                    raise error.in_file(record_file, before) from None
                yield Piece(table, record_file.name, block.read)
                before += table.num_rows

    def _blocks(self, record_file: RecordFile, one_pass: Pass) -> Generator[RecordBlock, None, None]:
        return self._replay.read() if self._replay else record_file.blocks(one_pass)

    def _peeked_blocks(self, record_file: RecordFile) -> Generator[RecordBlock, None, None]:
        return self._replay.peek() if self._replay else record_file.blocks(Pass())

    def digests(self) -> list[str]:
        """See Source; of a stream, once it has ended."""
        if self._replay is not None:
            self._digests = self._replay.digests()
        return super().digests()

    # ------------------------------------------------------------------ samples

    def _sample(self, rows: int) -> pa.Table:
        """See `sample`; about this many rows, from evenly spaced places.

        Such a place is reached by seeking, and its records start after the next line end. If that may be inside quotes,
        the files are scanned to find where records start; so are compressed files. A stream gives its first rows.
        """
        if self._sampled is None or self._sampled[0] != rows:
            self._sampled = rows, self._tables(self._excerpts(rows))
        return self._sampled[1]

    def _tables(self, excerpts: Sequence[Excerpt]) -> pa.Table:
        tables, before = [], 0
        record_file: RecordFile | None = None
        for excerpt in excerpts:
            before, record_file = before if excerpt.record_file is record_file else 0, excerpt.record_file
            try:
                table = self._parse(record_file, record_file.first_rows(excerpt.block, excerpt.rows))
            except Misread as error:
                raise error.in_file(record_file, before) from None
            before += table.num_rows
            tables.append(table.slice(0, excerpt.rows))
        return self._concatenated(tables)

    def _excerpts(self, rows: int, max_bytes: int | None = None) -> list[Excerpt]:
        """Records for a sample, of about `max_bytes` bytes."""
        excerpts: list[Excerpt] = []
        total = size = 0
        for record_file in self.record_files:
            before = 0
            for block in self._peeked_blocks(record_file):
                try:
                    count = record_file.count(block)
                except Misread as error:
                    raise error.in_file(record_file, before) from None
                excerpts.append(Excerpt(record_file, block, min(count, rows - total)))
                before, total, size = before + count, total + count, size + len(block.data)
                if total > rows or (max_bytes is not None and size > max_bytes):
                    break
            else:
                continue
            break
        else:
            return excerpts
        if self._replay is not None:
            return excerpts
        length = size / max(1, total)
        if all(record_file.seekable() for record_file in self.record_files):
            self.rows_expected = int((self.size or 0) / max(1.0, length))
        if max_bytes is not None:
            rows = max(1, min(rows, int(max_bytes / length)))
        first = 1 + max(excerpts[0].block.data.find(b"\n"), 0)  # which may be much longer than others
        return self._excerpts_by_seeking(rows, length, first) or self._excerpts_by_scanning(rows, length, first)

    def _excerpts_by_seeking(self, rows: int, length: float, first: int) -> list[Excerpt] | None:
        """About `rows` records of this mean length, among them the first, of length `first`.

        None if files are not seekable, or what is read does not parse.
        """
        if not all(record_file.seekable() for record_file in self.record_files):
            return None
        sizes = [max(0, (record_file.file.size or 0) - record_file.start) for record_file in self.record_files]
        excerpts = []
        for begin, end, wanted in sample_spans(sum(sizes), rows):
            for record_file, size in zip(self.record_files, sizes, strict=True):
                if begin < size:
                    sufficient = begin + int(SLACK * length * wanted) + 1024
                    stop = max(min(end, sufficient), first if begin == 0 else 0)
                    block = RecordBlock(record_file.records_between(begin, min(stop, size)), 0, 0)
                    if begin > 0 and record_file.may_begin_inside(block):
                        return None
                    try:
                        excerpts.append(Excerpt(record_file, block, min(wanted, record_file.count(block))))
                    except Misread:
                        return None
                    break
                begin, end = begin - size, end - size
        return excerpts

    def _excerpts_by_scanning(self, rows: int, length: float, first: int) -> list[Excerpt]:
        """The same by reading all, if the start of a record depends on everything before it.

        The length of the text is known only at the end. So an excerpt is taken at every step, and when there are twice
        as many as wanted, every other one is dropped and the step is doubled.
        """
        n_places = min(SAMPLE_PLACES, rows)
        rows_per_place = -(-rows // n_places)
        step = max(int(length * rows_per_place), (self.size or 0) // (2 * n_places), 1)
        excerpts: list[Excerpt] = []
        before = next_start = 0  # bytes of text before the block, and the offset of the next excerpt
        for record_file in self.record_files:
            for block in record_file.blocks(Pass()):
                begin = 0
                while next_start < before + len(block.data):
                    begin += record_file.cutter.cut(block.data[begin : next_start - before])
                    enough = min(step, int(SLACK * length * rows_per_place) + 1024)
                    data = block.data[begin : begin + (enough if next_start else max(enough, first))]
                    if whole := record_file.cutter.cut(data):  # otherwise a record is longer than that
                        excerpts.append(Excerpt(record_file, RecordBlock(data[:whole], 0, 0), rows_per_place))
                    next_start += step
                    if len(excerpts) == 2 * n_places:
                        excerpts, step = excerpts[::2], 2 * step
                before += len(block.data)
        return (
            [excerpts[len(excerpts) * i // n_places] for i in range(n_places)] if len(excerpts) > n_places else excerpts
        )


def sample_spans(total: int, rows: int) -> list[tuple[int, int, int]]:
    """Evenly spaced spans of bytes (begin, end), and how many rows to take from each."""
    n_places = max(1, min(SAMPLE_PLACES, rows))
    return [
        (total * i // n_places, total * (i + 1) // n_places, rows * (i + 1) // n_places - rows * i // n_places)
        for i in range(n_places)
    ]
