"""How a CSV file is written: encoding, delimiter, quotes, and whether its first line names the columns."""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass, field
from typing import Any, TextIO

from deciban.errors import DataWarning, DecibanError, FileError, warn
from deciban.sources.blocks import MAX_RECORD_BYTES
from deciban.sources.column_types import as_number, check_column_count
from deciban.sources.header import DELIMITERS, has_header, numbered_names, unique_names
from deciban.sources.input_file import UTF_16, ByteStream, InputFile, compression, is_utf_8

MAX_NAMES_REPORTED = 10  # of columns that are renamed
HEAD_BYTES = 1 << 16  # examined to detect the delimiter and the header
TAB_HEAD_BYTES = 1 << 20  # examined to see whether quotes mean anything in files with tabs
END_OF_LINE = re.compile(rb"\r?\n|\r(?!\Z)")  # at the end, CR may be half of CRLF
COMMENTS = re.compile(rb"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\n|\r))*")  # blank lines, and lines that start with #
OPEN_QUOTE = re.compile(rb'(?:\A|\t)"(?!(?:[^"]|"")*+"(?:\t|\Z))')  # opens a field that it does not close
CONTROL = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]")  # of which text has none
FALLBACK_ENCODING = "cp1252"  # what Windows programs write in western Europe and America


@dataclass(frozen=True, slots=True)
class Dialect:
    """Columns, delimiter and quotes of a file."""

    names: tuple[str, ...]
    delimiter: str
    quoted: bool = True  # whether quotes enclose fields
    header: bool = True  # whether the first line names the columns
    first_line: str = field(default="", compare=False)

    def reader(self, text: TextIO) -> Any:
        """Python's own reader of such a file."""
        return csv.reader(text, delimiter=self.delimiter, quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE)


def detected_dialect(
    file: InputFile, data: bytes, first_line: str, delimiter: str | None, header: bool | None
) -> Dialect:
    """The dialect of a file that starts with these bytes; given properties are not detected. Warns about
    assumptions."""
    name = file.name
    delimiter = delimiter or detected_delimiter(data, name)
    quoted = delimiter != "\t" or not has_loose_quotes(longest_head(file, data))
    rows = list(Dialect((), delimiter, quoted).reader(io.StringIO(head_text(data), newline="")))
    try:
        first = next(Dialect((), delimiter, quoted).reader(io.StringIO(first_line, newline="")))
    except csv.Error:  # a field is too long
        raise FileError(
            "a column name in the first line of {file} has more than {limit:,} characters: close its quote, or put a "
            "line of column names first",
            file=name,
            limit=csv.field_size_limit(),
        ) from None
    check_column_count(len(first), name)
    if header is None:
        quoted_number = '"' in first_line and any(
            as_number(cell) is not None and f'"{cell}"' in first_line for cell in first
        )
        named = True if quoted and quoted_number else has_header([first, *rows[1:]])
        if named is None:
            raise DecibanError(
                "the first line of {file} holds numbers ({value}): if it is a row, give header=False; if it names the "
                "columns, header=True",
                command_line="the first line of {file} holds numbers ({value}): if it is a row, give --no-header; if "
                "it names the columns, --header",
                file=name,
                value=", ".join(first[:3]) + (", …" if len(first) > 3 else ""),
            )
        header = named
        if not header:
            warn(
                DataWarning(
                    "the first line of {file} looks like a row, so its columns are called column1 to column{count}; "
                    "give header=True if it names them",
                    command_line="the first line of {file} looks like a row, so its columns are called column1 to "
                    "column{count}; give --header if it names them",
                    file=name,
                    count=len(first),
                )
            )
    if not header:
        return Dialect(numbered_names(len(first)), delimiter, quoted, False, first_line)
    names, notes = unique_names(first)
    for note in notes[:MAX_NAMES_REPORTED]:
        warn(DataWarning("{file}: {note}", file=name, note=note))
    if len(notes) > MAX_NAMES_REPORTED:
        more = len(notes) - MAX_NAMES_REPORTED
        warn(DataWarning("{file}: {more:,} more columns were renamed", file=name, more=more))
    return Dialect(names, delimiter, quoted, True, first_line)


def detected_encoding(file: InputFile, encoding: str) -> str:
    """The encoding, or that of Windows if the first bytes are not UTF-8, with a warning."""
    if not is_utf_8(encoding) or not file.rereadable:
        return encoding
    head = file.peek(HEAD_BYTES)
    if compression(head) is not None or head.startswith(UTF_16) or CONTROL.search(head):
        return encoding
    position = first_undecodable(head, "utf-8")
    if position is None or first_undecodable(head, FALLBACK_ENCODING) is not None:
        return encoding
    warn(
        DataWarning(
            "{file} is not UTF-8 (byte {byte}): it is read as Windows-1252; if characters look wrong, give encoding=",
            command_line="{file} is not UTF-8 (byte {byte}): it is read as Windows-1252; if characters look wrong, "
            "give --encoding",
            file=file.name,
            byte=f"0x{head[position]:02x}",
        )
    )
    return FALLBACK_ENCODING


def first_undecodable(data: bytes, encoding: str) -> int | None:
    """Where bytes stop being text in an encoding; a character cut off at the end is no error."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError as error:
        return error.start
    return None


def longest_head(file: InputFile, data: bytes) -> bytes:
    """More of the first bytes than were read, if possible."""
    more = file.peek(TAB_HEAD_BYTES) if file.rereadable else b""
    return data if compression(more) else max(data, more, key=len)


def has_loose_quotes(data: bytes) -> bool:
    """Whether quotes are part of the texts: one opens a field and does not close it, and yet all lines are complete.

    Files with tabs rarely need quotes, and texts in them may start with one.
    """
    lines = (data[: data.rfind(b"\n") + 1] or data).splitlines()
    tabs = {line.count(b"\t") for line in lines if line}
    return len(tabs) == 1 and any(OPEN_QUOTE.search(line) for line in lines)


def head_text(data: bytes) -> str:
    """The complete lines of the first bytes."""
    return data[: data.rfind(b"\n", 0, HEAD_BYTES) + 1 or HEAD_BYTES].decode(errors="replace")


def detected_delimiter(data: bytes, name: str) -> str:
    """The delimiter: the one that splits most rows into as many fields as the header."""
    text = head_text(data)
    best_quality, chosen = (0.0, 0), "\t" if name.lower().endswith((".tsv", ".tab")) else ","
    for delimiter in DELIMITERS:
        widths = [len(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
        if widths and widths[0] > 1:
            agreement = (sum(width == widths[0] for width in widths) / len(widths), widths[0])
            if agreement > best_quality:
                best_quality, chosen = agreement, delimiter
    return chosen


def read_header(stream: ByteStream, name: str) -> tuple[bytes, int, int]:
    """The first bytes, and the start and end of the header in them, after any comment lines."""
    data = b""
    while True:
        more = stream.read(max(HEAD_BYTES, len(data)))  # as much again, since all is searched again
        data += more
        if data.startswith(b"PK\x03\x04"):
            raise FileError(
                "{file} is a ZIP archive or a spreadsheet, not CSV: unpack it, or save it as CSV", file=name
            )
        if b"\0" in more:
            raise FileError(
                "{file} holds NUL bytes, so it is not UTF-8 text: give its format with --format, or its encoding "
                "with --encoding",
                file=name,
            )
        comment = COMMENTS.match(data)
        start = comment.end() if comment else 0
        end = end_of_record(data, start)
        if end or not more:
            break
        if len(data) > MAX_RECORD_BYTES:
            raise FileError(
                "the first line of {file} does not end within {most} MB: check that this is a table",
                file=name,
                most=MAX_RECORD_BYTES >> 20,
            )
    if not data[start:].strip():
        what = "is empty" if not data.strip() else "holds only comments"
        raise FileError("{file} {problem}: a table starts with a line of column names", file=name, problem=what)
    return data, start, end or len(data)


def end_of_record(data: bytes, start: int) -> int:
    """The position after the first line end outside quotes; 0 if there is none yet."""
    quotes, counted = 0, start
    for end in END_OF_LINE.finditer(data, start):
        quotes += data.count(b'"', counted, end.start())
        counted = end.start()
        if quotes % 2 == 0:
            return end.end()
    return 0


def decoded_header(data: bytes, name: str, line: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FileError(not_utf_8_message(data, error, name, line)) from None


def not_utf_8_message(data: bytes, error: UnicodeDecodeError, name: str, line: int) -> str:
    line += data.count(b"\n", 0, error.start)
    return (
        f"line {line} of {name} is not UTF-8 (byte 0x{data[error.start]:02x}): give its encoding, as in --encoding "
        f"latin-1"
    )
