"""Text in blocks of whole records, a few megabytes each."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deciban._kernel import csv as kernel
from deciban.errors import DecibanError
from deciban.sources.input_file import ByteStream, Pass

BLOCK_BYTES = 1 << 22  # enough rows to amortise calls, few enough that several blocks fit in memory
MAX_RECORD_BYTES = 1 << 26  # no table has longer records, but an unclosed quote may include the rest
NEWLINE = 10


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
                # Comparing and counting arrays is five times as fast as bytes.count.
                line += int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8, count=end) == cutter.end[0]))
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
        self._delimiter = ord(delimiter)

    def cut(self, data: bytes) -> int:
        return kernel.last_end(data, self._delimiter, self.end[0])[0]

    def unclosed_at(self, data: bytes) -> int | None:
        at = kernel.last_end(data, self._delimiter, self.end[0])[1]
        return None if at < 0 else at
