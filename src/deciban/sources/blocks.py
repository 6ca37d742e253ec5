"""Text in blocks of whole records, a few megabytes each."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.sources.input_file import ByteStream, Pass

BLOCK_BYTES = 1 << 22  # enough rows to amortise calls, few enough that several blocks fit in memory
MAX_RECORD_BYTES = 1 << 26  # no table has longer records, but an unclosed quote may include the rest
QUOTE, NEWLINE = b'"\n'


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Whole records as UTF-8, and their position."""

    data: bytes
    line: int  # of the file, from 1, at which the block starts
    read: int  # bytes read of this and all earlier files, up to the end of the block


class Cutter(Protocol):
    """Finds the ends of records and lines."""

    end: bytes

    def cut(self, data: bytes) -> int:
        """The end of the last complete record, given that one starts at 0; 0 if none is complete."""

    def unclosed_at(self, data: bytes) -> int | None:
        """The position of a quote that is not closed, if there is one."""


def in_blocks(
    stream: ByteStream, one_pass: Pass, cutter: Cutter, name: str, line: int = 1, rest: bytes = b""
) -> Generator[RecordBlock, None, None]:
    """The records of a stream in blocks; `rest` is what was already read."""
    try:
        while more := stream.read(BLOCK_BYTES):
            data = rest + more
            end = cutter.cut(data)
            if end:
                yield RecordBlock(data[:end], line, one_pass.read)
                line += data.count(cutter.end, 0, end)
            rest = data[end:]
            if len(rest) > MAX_RECORD_BYTES:
                raise DecibanError(unfinished_record_message(rest, cutter, name, line))
        if rest.strip(b"\r\n"):
            if cutter.unclosed_at(rest) is not None:
                raise DecibanError(unfinished_record_message(rest, cutter, name, line))
            yield RecordBlock(rest, line, one_pass.read)
    finally:
        stream.close()


def in_lines(block: RecordBlock, rows: int) -> Iterator[RecordBlock]:
    """A block in which every record is a line, as blocks of at most `rows` lines."""
    data, begin, line = block.data, 0, block.line
    if data.count(b"\n") <= rows:
        yield block
        return
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == NEWLINE)[rows - 1 :: rows] + 1
    for end in (*ends.tolist(), len(data)):
        if begin < end:
            yield RecordBlock(data[begin:end], line, block.read)
        begin, line = end, line and line + rows


def unfinished_record_message(rest: bytes, cutter: Cutter, name: str, line: int) -> str:
    """The error message for a record that does not end."""
    at = cutter.unclosed_at(rest)
    if at is None:
        return f"line {line} of {name} is longer than {MAX_RECORD_BYTES >> 20} MB: check that this is a table"
    line += rest.count(cutter.end, 0, at)
    return f'the quote opened in line {line} of {name} is not closed: close it, or write "" for a quote in a field'


class LineCutter:
    """A record is a line."""

    def __init__(self, end: bytes = b"\n") -> None:
        self.end = end

    def cut(self, data: bytes) -> int:
        return data.rfind(self.end) + 1

    def unclosed_at(self, data: bytes) -> int | None:
        del data
        return None


class QuotedCutter:
    """A record is a line, except inside quotes. Quotes open at the start of a field, and are doubled inside."""

    def __init__(self, delimiter: str, end: bytes = b"\n") -> None:
        self.end = end  # also of CRLF
        separators = [delimiter.encode(), b"\n", b"\r"]
        self._may_adjoin_quote = np.zeros(256, dtype=bool)
        self._may_adjoin_quote[[QUOTE, *(ord(one) for one in separators)]] = True
        before = re.escape(delimiter).encode()
        self._quoted_field = re.compile(rb'(?:\A|(?<=[\n\r%b]))"[^"]*+(?:""[^"]*+)*+("?)' % before)

    def cut(self, data: bytes) -> int:
        end = data.rfind(self.end)
        if b'"' not in data:
            return end + 1
        quotes: Array = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == QUOTE)
        if not self._alternate(data, quotes):
            quotes = self._quote_positions(data)
        # Inside quotes, the number of quotes before is odd, and the last of them is the opening one.
        while end >= 0 and (before := int(np.searchsorted(quotes, end))) % 2:
            end = data.rfind(self.end, 0, int(quotes[before - 1]))
        return end + 1

    def unclosed_at(self, data: bytes) -> int | None:
        marks = self._quote_positions(data)
        return int(marks[-1]) if len(marks) % 2 else None

    def _alternate(self, data: bytes, quotes: Array) -> bool:
        """Whether quotes alternate between opening and closing: opening ones follow a separator or a quote, closing
        ones precede one. Then counting them is enough, which is fast."""
        octets = np.frombuffer(data, dtype=np.uint8)
        opening, closing = quotes[::2], quotes[1::2]
        opens = self._may_adjoin_quote[octets[opening - 1]] | (opening == 0)
        closes = self._may_adjoin_quote[octets[np.minimum(closing + 1, len(data) - 1)]]
        return bool(opens.all() and closes.all())

    def _quote_positions(self, data: bytes) -> Array:
        """The positions of opening and closing quotes, found field by field; others are ignored."""
        marks: list[int] = []
        for field in self._quoted_field.finditer(data):
            marks.append(field.start())
            if field[1]:
                marks.append(field.end() - 1)
        return np.array(marks, dtype=np.int64)
