"""CSV and its kin: what separates fields, what the columns are called, and rows of text as columns of values."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from deciban.errors import DecibanError, FileError
from deciban.sources.blocks import LONGEST, Quoted, RecordBlock
from deciban.sources.column_types import (
    EXACT,
    MISSING,
    as_names,
    as_number,
    check_names,
    common,
    describe,
    same_columns,
    wide,
)
from deciban.sources.csv_cells import in_quotes, lines, string
from deciban.sources.input_file import ByteStream, InputFile
from deciban.sources.records import MOST, SAMPLE, Begun, Excerpt, Misread, RecordFile, Records

DELIMITERS = ",;\t|"
HEAD = 1 << 16  # bytes that are looked at for what separates fields
PADDED = r"^\s*[+-]?0\d"  # 007 is a name: as a number it would lose its zeros
LONG = r"\d{16}"
DIGITS = r"^\s*[+-]?\d+\s*$"
END_OF_LINE = re.compile(rb"\r?\n|\r(?!\Z)")  # at the end, CR may be half of CRLF
TRUE, FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
COMMENTS = re.compile(rb"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\n|\r))*")  # lines that are blank or begin with #


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file is written."""

    names: tuple[str, ...]
    delimiter: str


class CsvFile(RecordFile):
    """One CSV file."""

    def __init__(self, file: InputFile, encoding: str, delimiter: str | None) -> None:
        self._delimiter = delimiter
        self._found: Dialect | None = None
        super().__init__(file, encoding)

    @property
    def dialect(self) -> Dialect:
        assert self._found is not None
        return self._found

    def _begin(self, stream: ByteStream) -> Begun:
        data, start, end = read_header(stream, self.name)
        end_of_line = b"\r" if data[end - 1 : end] == b"\r" else b"\n"
        header = decoded(data[start:end], self.name, 1)
        delimiter = self._delimiter or sniffed(data[start:], self.file.name)
        names = tuple(next(csv.reader(io.StringIO(header, newline=""), delimiter=delimiter)))
        if self._found is None:
            check_header(names, header, self.name)
            self._found, self._delimiter = Dialect(names, delimiter), delimiter
            self.cutter = Quoted(delimiter, end_of_line)
        elif self._found.names != names:
            raise FileError(
                "{file} has changed while it was read: its columns are others now. Read it again", file=self.name
            )
        return Begun(data[end:], stream, 1 + data.count(end_of_line, 0, end))

    def may_begin_inside(self, block: RecordBlock) -> bool:
        """Between quotes a line may end, and which quote opens and which closes only the file's beginning tells."""
        return b'"' in block.data

    def count(self, block: RecordBlock) -> int:
        names = self.dialect.names
        first: dict[str, pa.DataType] = {names[0]: pa.string()}
        try:
            return int(read_csv(block.data, self.dialect, first, names[:1]).num_rows)
        except (pa.ArrowException, UnicodeError):
            raise self.diagnosed(block, first, ()) from None

    def diagnosed(self, block: RecordBlock, types: Mapping[str, pa.DataType], missing: Sequence[str]) -> Misread:
        """Why a block cannot be read, found by going through it slowly."""
        return diagnose(block, self.dialect, types, missing)


class Csv(Records):
    """Tables in CSV files."""

    def __init__(
        self,
        name: str,
        record_files: Sequence[CsvFile],
        missing: Sequence[str] | None,
        given: Mapping[str, pa.DataType],
    ) -> None:
        super().__init__(name, record_files)
        self._missing = nulls(MISSING if missing is None else missing)
        self.columns = record_files[0].dialect.names
        for record_file in record_files[1:]:
            same_columns(self.columns, record_file.dialect.names, record_files[0].name, record_file.name)
        self.types = {column: given[column] for column in self.columns if column in given}
        if len(self.types) < len(self.columns):
            self._infer()

    def _infer(self) -> None:
        excerpts = self._excerpts(SAMPLE, MOST)
        types, self.whole = infer(excerpts, self.types, self._missing, self.columns)
        self.types = {column: types[column] for column in self.columns}
        if sum(len(excerpt.block.data) for excerpt in excerpts) <= MOST:
            self._sampled = SAMPLE, self._tables(excerpts)

    def _parse(self, record_file: RecordFile, block: RecordBlock) -> pa.Table:
        assert isinstance(record_file, CsvFile)
        try:
            if b"\0" in block.data:
                raise UnicodeError
            return read_csv(block.data, record_file.dialect, self.types, self.columns, self._missing)
        except (pa.ArrowException, UnicodeError):
            raise record_file.diagnosed(block, self.types, self._missing) from None


# ---------------------------------------------------------------------- the header


def read_header(stream: ByteStream, name: str) -> tuple[bytes, int, int]:
    """The first bytes, and where the header stands in them: behind lines that are comments, up to the end of a line."""
    data = b""
    while True:
        more = stream.read(HEAD)
        data += more
        if data.startswith(b"PK\x03\x04"):
            raise FileError(
                "{file} is a ZIP archive or a spreadsheet, not CSV: unpack it, or save it as CSV", file=name
            )
        if b"\0" in more:
            raise FileError(
                "{file} holds NUL bytes and so is not text: if it is a table of another format, name it so "
                "(--format), and if it is text, give its encoding (--encoding)",
                file=name,
            )
        comment = COMMENTS.match(data)
        start = comment.end() if comment else 0
        end = end_of_record(data, start)
        if end or not more:
            break
        if len(data) > LONGEST:
            raise FileError(
                "the first line of {file} does not end within {most} MB: is this a table?",
                file=name,
                most=LONGEST >> 20,
            )
    if not data[start:].strip():
        what = "is empty" if not data.strip() else "has nothing but comments"
        raise FileError("{file} {problem}: a table begins with a line of column names", file=name, problem=what)
    return data, start, end or len(data)


def end_of_record(data: bytes, start: int) -> int:
    """Behind the line that ends outside of quotes; 0 if there is none yet."""
    for end in END_OF_LINE.finditer(data, start):
        if data.count(b'"', start, end.start()) % 2 == 0:
            return end.end()
    return 0


def decoded(data: bytes, name: str, line: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FileError(not_utf_8(data, error, name, line)) from None


def not_utf_8(data: bytes, error: UnicodeDecodeError, name: str, line: int) -> str:
    line += data.count(b"\n", 0, error.start)
    return (
        f"line {line} of {name} is not UTF-8 (byte 0x{data[error.start]:02x}): give the encoding that it was written "
        "in, as in --encoding latin-1"
    )


def sniffed(data: bytes, name: str) -> str:
    """What separates fields: that which cuts most rows into as many fields as the header."""
    text = data[: data.rfind(b"\n", 0, HEAD) + 1 or HEAD].decode(errors="replace")
    best, chosen = (0.0, 0), "\t" if name.lower().endswith((".tsv", ".tab")) else ","
    for delimiter in DELIMITERS:
        widths = [len(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
        if widths and widths[0] > 1:
            quality = (sum(width == widths[0] for width in widths) / len(widths), widths[0])
            if quality > best:
                best, chosen = quality, delimiter
    return chosen


def check_header(names: Sequence[str], header: str, name: str) -> None:
    # What is quoted is meant to be a name.
    if '"' not in header and all(as_number(column) is not None for column in names):
        raise DecibanError(
            "the first line of {file} holds numbers ({value}), and should name the columns: put such a line first",
            file=name,
            value=", ".join(names[:3]) + (", …" if len(names) > 3 else ""),
        )
    check_names(names, name)


# ---------------------------------------------------------------------- rows


def nulls(missing: Sequence[str]) -> list[str]:
    """What says that nothing is known, also behind the blank that some put after a comma."""
    values = dict.fromkeys(["", *missing])
    return [*values, *(f" {one}" for one in values)]


def read_csv(
    data: bytes,
    dialect: Dialect,
    types: Mapping[str, pa.DataType],
    columns: Sequence[str],
    missing: Sequence[str] = (),
) -> pa.Table:
    """Records as a table; types that are not given are found. One block and one thread: there are others beside it."""
    return arrow_csv.read_csv(
        pa.BufferReader(data),
        arrow_csv.ReadOptions(column_names=list(dialect.names), use_threads=False, block_size=max(1024, len(data) + 1)),
        arrow_csv.ParseOptions(delimiter=dialect.delimiter),
        arrow_csv.ConvertOptions(
            column_types={name: types[name] for name in columns if name in types},
            include_columns=list(columns),
            null_values=list(missing),
            strings_can_be_null=bool(missing),
            true_values=TRUE,
            false_values=FALSE,
        ),
    )


def infer(
    excerpts: Sequence[Excerpt], given: Mapping[str, pa.DataType], missing: Sequence[str], columns: Sequence[str]
) -> tuple[dict[str, pa.DataType], frozenset[str]]:
    """The types of columns that are not given, and those whose numbers are whole.

    Whole numbers are floats, since fractions may come. Those that floats cannot tell apart, and those with leading
    zeros, are names.
    """
    types = dict(given)
    open_ones = [column for column in columns if column not in types]
    files: dict[Dialect, list[bytes]] = {}
    for excerpt in excerpts:
        assert isinstance(excerpt.record_file, CsvFile)
        data = excerpt.block.data
        files.setdefault(excerpt.record_file.dialect, []).append(
            data if data.endswith((b"\n", b"\r")) else data + b"\n"
        )
    joined = {dialect: b"".join(parts) for dialect, parts in files.items()}
    tables = [first_look(data, dialect, open_ones, missing) for dialect, data in joined.items() if data]
    kinds = {column: common(table.schema.field(column).type for table in tables) for column in open_ones}
    doubtful = [column for column in open_ones if is_number(kinds[column]) and whole_or_large(tables, column)]
    strings = [
        read_csv(data, dialect, dict.fromkeys(doubtful, pa.string()), doubtful, missing)
        for dialect, data in joined.items()
        if data and doubtful
    ]
    names = {column for column in doubtful if any(are_names(table.column(column)) for table in strings)}
    whole = frozenset(column for column in open_ones if pa.types.is_integer(kinds[column]) and column not in names)
    for column in open_ones:
        kind = kinds[column]
        if column in names:
            types[column] = as_names([table.column(column) for table in strings])
        elif is_number(kind):
            types[column] = pa.float64()
        elif pa.types.is_boolean(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            types[column] = wide(kind)
        elif pa.types.is_string(kind):
            types[column] = as_names([table.column(column) for table in tables])
        else:
            types[column] = pa.string()
    return types, whole


def first_look(data: bytes, dialect: Dialect, columns: Sequence[str], missing: Sequence[str]) -> pa.Table:
    """A sample with the types that Arrow finds. Bytes that are no text are refused when they are read."""
    table = read_csv(data, dialect, {}, columns, missing)
    for i, name in enumerate(columns):
        if pa.types.is_binary(table.column(i).type):
            table = table.set_column(i, name, pa.nulls(table.num_rows, pa.string()))
    return table


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def whole_or_large(tables: Sequence[pa.Table], column: str) -> bool:
    """Whether numbers may be names: they are whole, or too large for a float to be exact."""
    for table in tables:
        own = table.column(column)
        if pa.types.is_integer(own.type):
            return True
        if pa.types.is_floating(own.type):
            ends = pc.min_max(own)
            if max(abs(ends["min"].as_py() or 0), abs(ends["max"].as_py() or 0)) > EXACT:
                return True
    return False


def are_names(strings: pa.ChunkedArray) -> bool:
    """Whether strings of digits would lose something as floats. Numbers with fractions among them say they are none."""
    digits = pc.match_substring_regex(strings, DIGITS)
    if not pc.all(digits, min_count=0).as_py():
        return False
    if pc.any(pc.match_substring_regex(strings, PADDED), min_count=0).as_py():
        return True
    long = strings.filter(pc.match_substring_regex(strings, LONG))
    return any(abs(int(value)) > EXACT for value in long.to_pylist() if value is not None)


# ---------------------------------------------------------------------- what is wrong with a block


def diagnose(block: RecordBlock, dialect: Dialect, types: Mapping[str, pa.DataType], missing: Sequence[str]) -> Misread:
    """The first record that cannot be read."""
    at = block.data.find(b"\0")
    if at >= 0:
        row, line = record_at(block, dialect, at)
        return Misread("holds a NUL byte, which no text has: is the file damaged, or not a table?", row, line)
    try:
        block.data.decode()
    except UnicodeDecodeError as error:
        row, line = record_at(block, dialect, error.start)
        problem = f"is not UTF-8 (byte 0x{block.data[error.start]:02x})"
        return Misread(f"{problem}: give the encoding that it was written in, as in --encoding latin-1", row, line)
    columns = [name for name in dialect.names if types.get(name) not in (None, pa.string())]
    try:
        texts = read_csv(block.data, dialect, dict.fromkeys(dialect.names, pa.string()), dialect.names, missing)
    except pa.ArrowException:
        width = len(dialect.names)
        for row, (line, fields) in enumerate(records(block, dialect)):
            if len(fields) != width:
                return Misread(ragged(len(fields), width, dialect.delimiter), row, line)
        return Misread("cannot be read", 0, block.line)
    misfits = [(misfit(texts.column(name), types[name], missing), name) for name in columns]
    wrong = [(at, name) for at, name in misfits if at is not None]
    if not wrong:
        return Misread("cannot be read", 0, block.line)
    row, name = min(wrong)
    line = next((line for i, (line, _) in enumerate(records(block, dialect)) if i == row), 0)
    return Misread(unfit(types[name]), row, line, column=name, value=shortened(texts.column(name)[row].as_py()))


def unfit(kind: pa.DataType) -> str:
    """What to say of {value} in {column}, whose values are of a kind."""
    return (
        f"has {{value}} in column {{column!r}}, which holds {describe(kind)} elsewhere: if it says that nothing is "
        "known, name it (--missing {value}), and if it is a name, so are all (--schema {column}=category)"
    )


def shortened(value: object) -> str:
    """A value as Python writes it, its beginning if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def ragged(fields: int, expected: int, delimiter: str) -> str:
    shown = "a tab" if delimiter == "\t" else repr(delimiter)
    few = f"{fields} field{'' if fields == 1 else 's'}"
    problem = f"has {few}, and the header has {expected}"
    if fields > expected:
        return f"{problem}: quote fields that hold {shown}, or say what separates fields (--delimiter)"
    return f"{problem}: put {shown} also where nothing is known, or say what separates fields (--delimiter)"


def records(block: RecordBlock, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """The records of a block, each with its line, blank lines left out; slow, for what is wrong."""
    text = io.StringIO(block.data.decode(errors="replace").replace("\0", "\ufffd"), newline="")
    reader = csv.reader(text, delimiter=dialect.delimiter)
    limit = csv.field_size_limit(LONGEST)
    try:
        before = 0
        for fields in reader:
            if fields:
                yield block.line and block.line + before, fields
            before = reader.line_num
    finally:
        csv.field_size_limit(limit)


def record_at(block: RecordBlock, dialect: Dialect, position: int) -> tuple[int, int]:
    """The number and the line of the record that a byte is in."""
    before = RecordBlock(block.data[:position] + b"x", block.line, block.read)
    before_it = list(records(before, dialect))
    return len(before_it) - 1, before_it[-1][0]


def misfit(texts: pa.ChunkedArray, kind: pa.DataType, missing: Sequence[str]) -> int | None:
    """The first row whose text is not of a kind, by halving: the reader itself is asked, since it decides."""

    def fits(start: int, end: int) -> bool:
        part = texts.slice(start, end - start).combine_chunks().cast(pa.large_string())
        column = in_quotes(pc.fill_null(part, string("")))
        try:
            read_csv(bytes(lines([column], ",")), Dialect(("x",), ","), {"x": kind}, ("x",), ["", *missing])
        except pa.ArrowException:
            return False
        return True

    start, end = 0, len(texts)
    if fits(start, end):
        return None
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if fits(start, middle) else (start, middle)
    return start
