"""Files of records that end where lines do: read in blocks, parsed in threads, sampled from places spread evenly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from deciban.errors import DecibanError
from deciban.sources.base import PLACES, Piece, Source
from deciban.sources.blocks import Block, Cutter, in_blocks
from deciban.sources.input_file import Place, Stream, Tally, compression, is_utf_8, opened, readable
from deciban.sources.read_ahead import in_order

SAMPLE = 100_000  # rows from which types are found
MOST = 1 << 26  # bytes of them
SLACK = 1.5  # times the bytes that so many rows took at the beginning are read at a place


class Misread(Exception):  # noqa: N818 - it never leaves this package
    """A record that cannot be read: its number among those of its block, its line in the file, and why."""

    def __init__(self, why: str, row: int, line: int) -> None:
        super().__init__(why)
        self.why, self.row, self.line = why, row, line

    def in_file(self, part: Part, before: int) -> DecibanError:
        """What to tell, given how many rows of the file came before the block."""
        if not self.line:  # it was read at a place in the midst of the file
            return DecibanError(f"a row of {part.name} {self.why}")
        # People count rows of a file from 1, as its lines are.
        line = f" (line {self.line})" if part.lined else ""
        return DecibanError(f"row {before + self.row + 1} of {part.name}{line} {self.why}")


@dataclass(frozen=True, slots=True)
class Begun:
    """A file from its first record on: what has been read of it, the rest, and the line it is at."""

    rest: bytes
    stream: Stream
    line: int


class Part(ABC):
    """One file of records."""

    cutter: Cutter
    lined = True  # whether the lines of a block are those of the file

    def __init__(self, place: Place, encoding: str) -> None:
        self.place, self.name = place, place.name
        self._encoding = encoding
        self._tally = Tally()
        self._begun = self._begin(opened(place, self._tally, encoding))
        self.start = self._tally.read - len(self._begun.rest)  # in bytes, where the file is seekable
        if place.again:
            self._begun.stream.close()

    @abstractmethod
    def _begin(self, stream: Stream) -> Begun:
        """Read what comes before the records."""

    @abstractmethod
    def count(self, block: Block) -> int:
        """How many records a block has; Misread if it is not made of records."""

    def blocks(self, tally: Tally) -> Generator[Block, None, None]:
        begun = self._begin(opened(self.place, tally, self._encoding))
        return in_blocks(begun.stream, tally, self.cutter, self.name, begun.line, begun.rest)

    def replay(self) -> Replay:
        """The blocks of a stream, which is begun once."""
        begun = self._begun
        blocks = in_blocks(begun.stream, self._tally, self.cutter, self.name, begun.line, begun.rest)
        return Replay(blocks, self._tally, self.name)

    def seekable(self) -> bool:
        """Whether one can go to a place in the file and read on from there."""
        return self.place.again and is_utf_8(self._encoding) and compression(self.place.peek(4)) is None

    def may_begin_inside(self, block: Block) -> bool:
        """Whether what was found by going to a place may begin in the middle of a record, behind a line's end in it."""
        del block
        return False

    def records_between(self, begin: int, end: int) -> bytes:
        """The whole records between two bytes that count from the first record, as far as lines tell."""
        assert self.place.path is not None
        with readable(self.name), self.place.path.open("rb") as file:
            file.seek(self.start + max(0, begin - 1))
            data = file.read(end - max(0, begin - 1))
        if begin > 0:
            data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
        return data[: self.cutter.cut(data)]


class Replay:
    """The blocks of a stream: those that were looked at are kept for whoever reads it."""

    def __init__(self, blocks: Generator[Block, None, None], tally: Tally, name: str) -> None:
        self._blocks, self.tally, self._name = blocks, tally, name
        self._kept: list[Block] = []
        self._ended = self._spent = False

    def look(self) -> Generator[Block, None, None]:
        if self._spent:
            raise DecibanError(f"{self._name} can be read only once: save it to a file first")
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

    def read(self) -> Generator[Block, None, None]:
        yield from self.look() if self._ended else self._rest()

    def _rest(self) -> Generator[Block, None, None]:
        if self._spent:
            raise DecibanError(f"{self._name} can be read only once: save it to a file first")
        self._spent = True
        while self._kept:
            yield self._kept.pop(0)
        yield from self._blocks


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some records of a file, and how many of them are wanted."""

    part: Part
    block: Block
    rows: int


class Records(Source):
    """Records in files. What they are made of is for the formats to say."""

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        super().__init__(name, "table", [part.place for part in parts])
        self.parts = list(parts)
        self._replay = None if self.size is not None else self.parts[0].replay()
        self._sampled: tuple[int, pa.Table] | None = None

    @abstractmethod
    def _parse(self, part: Part, block: Block) -> pa.Table:
        """The rows of a block, with all columns and their types."""

    def _pieces(self, rows: int, tally: Tally) -> Iterator[Piece]:
        del rows  # a block has as many as it has
        for part in self.parts:
            before = 0
            blocks = self._replay.read() if self._replay else part.blocks(tally)
            try:
                for block, table in in_order(blocks, partial(self._parse, part)):
                    yield Piece(table, part.name, block.read)
                    before += table.num_rows
            except Misread as error:
                raise error.in_file(part, before) from None

    def _look(self) -> Iterator[Piece]:
        for part in self.parts:
            before = 0
            for block in self._looked(part):
                try:
                    table = self._parse(part, block)
                except Misread as error:
                    raise error.in_file(part, before) from None
                yield Piece(table, part.name, block.read)
                before += table.num_rows

    def _looked(self, part: Part) -> Generator[Block, None, None]:
        return self._replay.look() if self._replay else part.blocks(Tally())

    def _finished(self, tally: Tally) -> None:
        super()._finished(self._replay.tally if self._replay else tally)

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
        part: Part | None = None
        for excerpt in excerpts:
            before, part = before if excerpt.part is part else 0, excerpt.part
            try:
                table = self._parse(part, excerpt.block)
            except Misread as error:
                raise error.in_file(part, before) from None
            before += table.num_rows
            tables.append(table.slice(0, excerpt.rows))
        return self._joined(tables)

    def _excerpts(self, rows: int, most: int | None = None) -> list[Excerpt]:
        """Records for a sample, of about `most` bytes."""
        found: list[Excerpt] = []
        total = size = 0
        for part in self.parts:
            before = 0
            for block in self._looked(part):
                try:
                    count = part.count(block)
                except Misread as error:
                    raise error.in_file(part, before) from None
                found.append(Excerpt(part, block, min(count, rows - total)))
                before, total, size = before + count, total + count, size + len(block.data)
                if total > rows or (most is not None and size > most):
                    break
            else:
                continue
            break
        else:
            return found
        if self._replay is not None:
            return found
        length = size / max(1, total)
        if most is not None:
            rows = max(1, min(rows, int(most / length)))
        return self._by_going_there(rows, length) or self._by_passing_through(rows, length)

    def _by_going_there(self, rows: int, length: float) -> list[Excerpt] | None:
        """About `rows` records of this mean length; None where one cannot go to places, or what is there is none."""
        if not all(part.seekable() for part in self.parts):
            return None
        sizes = [max(0, (part.place.size or 0) - part.start) for part in self.parts]
        found = []
        for begin, end, wanted in places(sum(sizes), rows):
            for part, size in zip(self.parts, sizes, strict=True):
                if begin < size:
                    enough = begin + int(SLACK * length * wanted) + 1024
                    block = Block(part.records_between(begin, min(end, size, enough)), 0, 0)
                    if part.may_begin_inside(block):
                        return None
                    try:
                        found.append(Excerpt(part, block, min(wanted, part.count(block))))
                    except Misread:
                        return None
                    break
                begin, end = begin - size, end - size
        return found

    def _by_passing_through(self, rows: int, length: float) -> list[Excerpt]:
        """The same, where records are known to begin only if all before are read.

        How much text there is shows at the end. So there are excerpts at every step, and when there are twice as many
        as wanted, every other one is dropped and the step is doubled.
        """
        many = min(PLACES, rows)
        wanted = -(-rows // many)
        step = max(int(length * wanted), (self.size or 0) // (2 * many), 1)
        found: list[Excerpt] = []
        before = following = 0  # bytes of text before the block, and where the next excerpt is
        for part in self.parts:
            for block in part.blocks(Tally()):
                begin = 0
                while following < before + len(block.data):
                    begin += part.cutter.cut(block.data[begin : following - before])
                    data = block.data[begin : begin + min(step, int(SLACK * length * wanted) + 1024)]
                    found.append(Excerpt(part, Block(data[: part.cutter.cut(data)], 0, 0), wanted))
                    following += step
                    if len(found) == 2 * many:
                        found, step = found[::2], 2 * step
                before += len(block.data)
        return [found[len(found) * i // many] for i in range(many)] if len(found) > many else found


def places(total: int, rows: int) -> list[tuple[int, int, int]]:
    """Bytes at even distances, where the next begins, and how many of the rows are wanted from there."""
    many = max(1, min(PLACES, rows))
    return [
        (total * i // many, total * (i + 1) // many, rows * (i + 1) // many - rows * i // many) for i in range(many)
    ]
