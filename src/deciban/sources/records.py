"""Files of records that end where lines do: read in blocks, parsed in threads, sampled from places spread evenly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from deciban.errors import DecibanError
from deciban.sources.base import PLACES, Piece, Source
from deciban.sources.blocks import Cutter, RecordBlock, in_blocks
from deciban.sources.input_file import ByteStream, InputFile, Pass, compression, is_utf_8, open_text
from deciban.sources.read_ahead import in_order

SAMPLE = 100_000  # rows from which types are found
MOST = 1 << 26  # bytes of them
SLACK = 1.5  # times the bytes that so many rows took at the beginning are read at a place


class Misread(Exception):  # noqa: N818 - it never leaves this package
    """A record that cannot be read: its number among those of its block, its line in the file, and why.

    `why` is the end of a sentence, with places for {column} and {value}.
    """

    def __init__(self, why: str, row: int, line: int, **fields: Any) -> None:
        super().__init__(why)
        self.why, self.row, self.line, self.fields = why, row, line, fields

    def in_file(self, record_file: RecordFile, before: int) -> DecibanError:
        """What to tell, given how many rows of the file came before the block."""
        if not self.line:  # it was read at a place in the midst of the file
            return DecibanError(f"a row of {{file}} {self.why}", file=record_file.name, **self.fields)
        # People count rows of a file from 1, as its lines are.
        line = f" (line {self.line})" if record_file.lined else ""
        row = before + self.row + 1
        return DecibanError(f"row {{row}} of {{file}}{line} {self.why}", row=row, file=record_file.name, **self.fields)


@dataclass(frozen=True, slots=True)
class Begun:
    """A file from its first record on: what has been read of it, the rest, and the line it is at."""

    rest: bytes
    stream: ByteStream
    line: int


class RecordFile(ABC):
    """One file of records."""

    cutter: Cutter
    lined = True  # whether the lines of a block are those of the file

    def __init__(self, file: InputFile, encoding: str) -> None:
        self.file, self.name = file, file.name
        self._encoding = encoding
        self._first = Pass(lambda file: file)  # the only one, where there is no other
        self._begun = self._begin(open_text(file, self._first, encoding))
        self.start = self._first.read - len(self._begun.rest)  # in bytes, where the file is seekable
        if file.again:
            self._begun.stream.close()

    @abstractmethod
    def _begin(self, stream: ByteStream) -> Begun:
        """Read what comes before the records."""

    @abstractmethod
    def count(self, block: RecordBlock) -> int:
        """How many records a block has; Misread if it is not made of records."""

    def blocks(self, one_pass: Pass) -> Generator[RecordBlock, None, None]:
        begun = self._begin(open_text(self.file, one_pass, self._encoding))
        return in_blocks(begun.stream, one_pass, self.cutter, self.name, begun.line, begun.rest)

    def replay(self) -> Replay:
        """The blocks of a stream, which is begun once."""
        begun = self._begun
        blocks = in_blocks(begun.stream, self._first, self.cutter, self.name, begun.line, begun.rest)
        return Replay(blocks, self._first, self.name)

    def seekable(self) -> bool:
        """Whether one can go to a place in the file and read on from there."""
        return self.file.again and is_utf_8(self._encoding) and compression(self.file.peek(4)) is None

    def may_begin_inside(self, block: RecordBlock) -> bool:
        """Whether what was found by going to a place may begin in the middle of a record, behind a line's end in it."""
        del block
        return False

    def records_between(self, begin: int, end: int) -> bytes:
        """The whole records between two bytes that count from the first record, as far as lines tell."""
        data = self.file.between(self.start + max(0, begin - 1), self.start + end)
        if begin > 0:
            data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
        return data[: self.cutter.cut(data)]


class Replay:
    """The blocks of a stream: those that were looked at are kept for whoever reads it."""

    def __init__(self, blocks: Generator[RecordBlock, None, None], one_pass: Pass, name: str) -> None:
        self._blocks, self._pass, self._name = blocks, one_pass, name
        self._kept: list[RecordBlock] = []
        self._ended = self._spent = False

    def look(self) -> Generator[RecordBlock, None, None]:
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
        yield from self.look() if self._ended else self._rest()

    def _rest(self) -> Generator[RecordBlock, None, None]:
        if self._spent:
            raise DecibanError("{file} can be read only once: save it to a file first", file=self._name)
        self._spent = True
        while self._kept:
            yield self._kept.pop(0)
        yield from self._blocks
        self._ended = True

    def digests(self) -> dict[Any, str] | None:
        """Of all bytes, once all were read."""
        return self._pass.digests() if self._ended else None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some records of a file, and how many of them are wanted."""

    record_file: RecordFile
    block: RecordBlock
    rows: int


class Records(Source):
    """Records in files. What they are made of is for the formats to say."""

    def __init__(self, name: str, record_files: Sequence[RecordFile]) -> None:
        super().__init__(name, "table", [record_file.file for record_file in record_files])
        self.record_files = list(record_files)
        self._replay = None if self.size is not None else self.record_files[0].replay()
        self._sampled: tuple[int, pa.Table] | None = None

    @abstractmethod
    def _parse(self, record_file: RecordFile, block: RecordBlock) -> pa.Table:
        """The rows of a block, with all columns and their types."""

    def _pieces(self, rows: int, one_pass: Pass) -> Iterator[Piece]:
        del rows  # a block has as many as it has
        for record_file in self.record_files:
            before = 0
            blocks = self._replay.read() if self._replay else record_file.blocks(one_pass)
            try:
                for block, table in in_order(blocks, partial(self._parse, record_file)):
                    yield Piece(table, record_file.name, block.read)
                    before += table.num_rows
            except Misread as error:
                raise error.in_file(record_file, before) from None

    def _look(self) -> Iterator[Piece]:
        for record_file in self.record_files:
            before = 0
            for block in self._looked(record_file):
                try:
                    table = self._parse(record_file, block)
                except Misread as error:
                    raise error.in_file(record_file, before) from None
                yield Piece(table, record_file.name, block.read)
                before += table.num_rows

    def _looked(self, record_file: RecordFile) -> Generator[RecordBlock, None, None]:
        return self._replay.look() if self._replay else record_file.blocks(Pass())

    def digests(self) -> list[str]:
        """As of all sources; of a stream, as soon as it has ended."""
        if self._replay is not None:
            self._digests = self._replay.digests()
        return super().digests()

    # ------------------------------------------------------------------ samples

    def sample(self, rows: int = SAMPLE) -> pa.Table:
        """All rows, if there are no more than `rows`; otherwise about so many, from places spread evenly.

        Such a place is gone to directly, and its records begin behind the next end of a line. Where that was the end
        of a line inside of quotes, the pieces do not parse, and the files are passed through to find where records
        begin; so with compressed files. A stream gives its first rows.
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
                table = self._parse(record_file, excerpt.block)
            except Misread as error:
                raise error.in_file(record_file, before) from None
            before += table.num_rows
            tables.append(table.slice(0, excerpt.rows))
        return self._joined(tables)

    def _excerpts(self, rows: int, most: int | None = None) -> list[Excerpt]:
        """Records for a sample, of about `most` bytes."""
        excerpts: list[Excerpt] = []
        total = size = 0
        for record_file in self.record_files:
            before = 0
            for block in self._looked(record_file):
                try:
                    count = record_file.count(block)
                except Misread as error:
                    raise error.in_file(record_file, before) from None
                excerpts.append(Excerpt(record_file, block, min(count, rows - total)))
                before, total, size = before + count, total + count, size + len(block.data)
                if total > rows or (most is not None and size > most):
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
        if most is not None:
            rows = max(1, min(rows, int(most / length)))
        return self._by_going_there(rows, length) or self._by_passing_through(rows, length)

    def _by_going_there(self, rows: int, length: float) -> list[Excerpt] | None:
        """About `rows` records of this mean length; None where one cannot go to places, or what is there is none."""
        if not all(record_file.seekable() for record_file in self.record_files):
            return None
        sizes = [max(0, (record_file.file.size or 0) - record_file.start) for record_file in self.record_files]
        excerpts = []
        for begin, end, wanted in places(sum(sizes), rows):
            for record_file, size in zip(self.record_files, sizes, strict=True):
                if begin < size:
                    enough = begin + int(SLACK * length * wanted) + 1024
                    block = RecordBlock(record_file.records_between(begin, min(end, size, enough)), 0, 0)
                    if record_file.may_begin_inside(block):
                        return None
                    try:
                        excerpts.append(Excerpt(record_file, block, min(wanted, record_file.count(block))))
                    except Misread:
                        return None
                    break
                begin, end = begin - size, end - size
        return excerpts

    def _by_passing_through(self, rows: int, length: float) -> list[Excerpt]:
        """The same, where records are known to begin only if all before are read.

        How much text there is shows at the end. So there are excerpts at every step, and when there are twice as many
        as wanted, every other one is dropped and the step is doubled.
        """
        many = min(PLACES, rows)
        wanted = -(-rows // many)
        step = max(int(length * wanted), (self.size or 0) // (2 * many), 1)
        excerpts: list[Excerpt] = []
        before = following = 0  # bytes of text before the block, and where the next excerpt is
        for record_file in self.record_files:
            for block in record_file.blocks(Pass()):
                begin = 0
                while following < before + len(block.data):
                    begin += record_file.cutter.cut(block.data[begin : following - before])
                    data = block.data[begin : begin + min(step, int(SLACK * length * wanted) + 1024)]
                    excerpts.append(
                        Excerpt(record_file, RecordBlock(data[: record_file.cutter.cut(data)], 0, 0), wanted)
                    )
                    following += step
                    if len(excerpts) == 2 * many:
                        excerpts, step = excerpts[::2], 2 * step
                before += len(block.data)
        return [excerpts[len(excerpts) * i // many] for i in range(many)] if len(excerpts) > many else excerpts


def places(total: int, rows: int) -> list[tuple[int, int, int]]:
    """Bytes at even distances, where the next begins, and how many of the rows are wanted from there."""
    many = max(1, min(PLACES, rows))
    return [
        (total * i // many, total * (i + 1) // many, rows * (i + 1) // many - rows * i // many) for i in range(many)
    ]
