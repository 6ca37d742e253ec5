"""Text in blocks of whole records: a few megabytes each, cut where a record ends."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.sources.input_file import ByteStream, Pass

BLOCK = 1 << 22  # bytes: enough rows that calls do not count, few enough that several blocks fit anywhere
LONGEST = 1 << 28  # bytes of a single record: no table has longer ones, but an open quote may swallow the rest
QUOTE = ord('"')


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Whole records as UTF-8, and where they stand."""

    data: bytes
    line: int  # of the file, from 1, on which the block begins
    read: int  # bytes that were read of this and all files before, up to the end of the block


class Cutter(Protocol):
    """How records end, and lines."""

    end: bytes

    def cut(self, data: bytes) -> int:
        """Where the last record that is whole ends, given that one begins at 0; 0 if none is whole."""

    def open_at(self, data: bytes) -> int | None:
        """Where something begins that the data does not end, if there is such a thing."""


def in_blocks(
    stream: ByteStream, one_pass: Pass, cutter: Cutter, name: str, line: int = 1, rest: bytes = b""
) -> Generator[RecordBlock, None, None]:
    """What a stream holds, from a record's beginning on; `rest` is what has been read of it already."""
    try:
        while more := stream.read(BLOCK):
            data = rest + more
            end = cutter.cut(data)
            if end:
                yield RecordBlock(data[:end], line, one_pass.read)
                line += data.count(cutter.end, 0, end)
            rest = data[end:]
            if len(rest) > LONGEST:
                raise DecibanError(endless(rest, cutter, name, line))
        if rest.strip(b"\r\n"):
            if cutter.open_at(rest) is not None:
                raise DecibanError(endless(rest, cutter, name, line))
            yield RecordBlock(rest, line, one_pass.read)
    finally:
        stream.close()


def endless(rest: bytes, cutter: Cutter, name: str, line: int) -> str:
    """What to say of a record that does not end."""
    at = cutter.open_at(rest)
    if at is None:
        return f"line {line} of {name} is longer than {LONGEST >> 20} MB: is this a table?"
    line += rest.count(cutter.end, 0, at)
    return f'the quote that opens in line {line} of {name} is not closed: close it, or write "" for a quote in a field'


class LineCutter:
    """A record is a line."""

    end = b"\n"

    def cut(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def open_at(self, data: bytes) -> int | None:
        del data
        return None


class Quoted:
    """A record is a line, unless the line ends in quotes. Quotes open where a field begins, and are doubled inside."""

    def __init__(self, delimiter: str, end: bytes = b"\n") -> None:
        self.end = end  # that of CRLF too
        separators = [delimiter.encode(), b"\n", b"\r"]
        self._around = np.zeros(256, dtype=bool)
        self._around[[QUOTE, *(ord(one) for one in separators)]] = True
        before = re.escape(delimiter).encode()
        self._field = re.compile(rb'(?:\A|(?<=[\n\r%b]))"[^"]*+(?:""[^"]*+)*+("?)' % before)

    def cut(self, data: bytes) -> int:
        end = data.rfind(self.end)
        if b'"' not in data:
            return end + 1
        quotes: Array = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == QUOTE)
        if not self._alternate(data, quotes):
            quotes = self._marks(data)
        # Inside of quotes, an odd number of them has come before. The last of these opened them.
        while end >= 0 and (before := int(np.searchsorted(quotes, end))) % 2:
            end = data.rfind(self.end, 0, int(quotes[before - 1]))
        return end + 1

    def open_at(self, data: bytes) -> int | None:
        marks = self._marks(data)
        return int(marks[-1]) if len(marks) % 2 else None

    def _alternate(self, data: bytes, quotes: Array) -> bool:
        """Whether quotes open and close in turns: what opens stands behind a separator or another quote, what closes
        before one. Then counting them is enough, which is fast."""
        octets = np.frombuffer(data, dtype=np.uint8)
        opening, closing = quotes[::2], quotes[1::2]
        opens = self._around[octets[opening - 1]] | (opening == 0)
        closes = self._around[octets[np.minimum(closing + 1, len(data) - 1)]]
        return bool(opens.all() and closes.all())

    def _marks(self, data: bytes) -> Array:
        """Where quotes open and close, in turns, if there are some that are neither: field by field."""
        marks: list[int] = []
        for field in self._field.finditer(data):
            marks.append(field.start())
            if field[1]:
                marks.append(field.end() - 1)
        return np.array(marks, dtype=np.int64)
