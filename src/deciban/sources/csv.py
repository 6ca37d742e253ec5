"""CSV, TSV and the like: delimiter, header, and rows of text as typed columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from deciban.errors import FileError
from deciban.reading.numerals import common_decimal, look
from deciban.sources.base import SAMPLE_ROWS
from deciban.sources.blocks import MAX_RECORD_BYTES, LineCutter, QuotedCutter, RecordBlock
from deciban.sources.column_types import (
    CODES,
    MAX_EXACT_INTEGER,
    MISSING,
    at_least_microseconds,
    check_same_columns,
    common_type,
    string_type,
    type_in_words,
    with_columns,
)
from deciban.sources.csv_cells import in_quotes, lines, string
from deciban.sources.csv_dialect import Dialect, decoded_header, detected_dialect, detected_encoding, read_header
from deciban.sources.input_file import ByteStream, InputFile
from deciban.sources.records import MAX_SAMPLE_BYTES, Excerpt, Misread, OpenedRecords, RecordFile, Records

LEADING_ZEROS = r"^\s*[+-]?0\d"  # 007 is an identifier: as a number it would lose its zeros
THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(\.\d{3})?\s*$"
LONG_DIGITS = r"\d{16}"
ALL_DIGITS = r"^\s*[+-]?\d+\s*$"
ROWS_FOR_DECIMAL = 1000  # enough to detect the decimal separator
STRINGS = (pa.string(), CODES)
TRUE, FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]


class CsvFile(RecordFile):
    """One CSV file."""

    def __init__(
        self, file: InputFile, encoding: str, delimiter: str | None = None, header: bool | None = None
    ) -> None:
        self._delimiter, self._header = delimiter, header
        self._dialect: Dialect | None = None
        super().__init__(file, detected_encoding(file, encoding))

    @property
    def dialect(self) -> Dialect:
        assert self._dialect is not None
        return self._dialect

    def _begin(self, stream: ByteStream) -> OpenedRecords:
        data, start, end = read_header(stream, self.name)
        end_of_line = b"\r" if data[end - 1 : end] == b"\r" else b"\n"
        first_line = decoded_header(data[start:end], self.name, 1)
        if self._dialect is None:
            self._dialect = detected_dialect(self.file, data[start:], first_line, self._delimiter, self._header)
            quoted = self._dialect.quoted
            self.cutter = QuotedCutter(self._dialect.delimiter, end_of_line) if quoted else LineCutter(end_of_line)
        elif self._dialect.first_line != first_line:
            raise FileError(
                "{file} changed while it was read, and now has other columns: read it again", file=self.name
            )
        if not self._dialect.header:
            end = start
        return OpenedRecords(data[end:], stream, 1 + data.count(end_of_line, 0, end))

    def may_begin_inside(self, block: RecordBlock) -> bool:
        """Whether the first quote that is not one of a doubled pair may close a field.

        If it does, a delimiter or the end of a line follows. If the block begins with a record, it opens a field, and
        most often something else follows.
        """
        if not self.dialect.quoted or b'"' not in block.data:
            return False
        delimiter = re.escape(self.dialect.delimiter.encode())
        return re.match(rb'(?:[^"]|"")*+(?:" *(?:[\r\n]|' + delimiter + rb"|\Z)|\Z)", block.data) is not None

    def count(self, block: RecordBlock) -> int:
        names = self.dialect.names
        first: dict[str, pa.DataType] = {names[0]: pa.string()}
        try:
            return int(read_csv(block.data, self.dialect, first, names[:1]).num_rows)
        except (pa.ArrowException, UnicodeError):
            raise self.diagnosed(block, first, ()) from None

    def diagnosed(self, block: RecordBlock, types: Mapping[str, pa.DataType], missing: Sequence[str]) -> Misread:
        """Why a block cannot be read, found by a slow pass over it."""
        return diagnose(block, self.dialect, types, missing)


class Csv(Records):
    """Tables in CSV files."""

    def __init__(
        self,
        name: str,
        record_files: Sequence[CsvFile],
        missing: Sequence[str] | None,
        given: Mapping[str, pa.DataType],
        decimal: str | None = None,
    ) -> None:
        super().__init__(name, record_files)
        self._decimal = decimal
        self._missing = null_spellings(MISSING if missing is None else missing)
        self.columns = record_files[0].dialect.names
        for record_file in record_files[1:]:
            check_same_columns(self.columns, record_file.dialect.names, record_files[0].name, record_file.name)
        self.types = {column: given[column] for column in self.columns if column in given}
        if len(self.types) < len(self.columns):
            self._infer()

    def _infer(self) -> None:
        excerpts = self._excerpts(SAMPLE_ROWS, MAX_SAMPLE_BYTES)
        given, columns = self.types, self.columns
        types, self.whole, self.maybe_thousands = infer_types(excerpts, given, self._missing, columns, self._decimal)
        self.types = {column: types[column] for column in self.columns}
        if sum(len(excerpt.block.data) for excerpt in excerpts) <= MAX_SAMPLE_BYTES:
            self._sampled = SAMPLE_ROWS, self._tables(excerpts)

    def _parse(self, record_file: RecordFile, block: RecordBlock) -> pa.Table:
        assert isinstance(record_file, CsvFile)
        try:
            if b"\0" in block.data:
                raise UnicodeError
            return read_csv(block.data, record_file.dialect, self.types, self.columns, self._missing)
        except (pa.ArrowException, UnicodeError):
            raise record_file.diagnosed(block, self.types, self._missing) from None

    def _texts(self, record_file: RecordFile, block: RecordBlock) -> pa.Table | None:
        assert isinstance(record_file, CsvFile)
        as_strings = {column: pa.string() for column, kind in self.types.items() if kind not in STRINGS}
        if not as_strings:
            return None
        return read_csv(block.data, record_file.dialect, as_strings, list(as_strings), self._missing)


# ---------------------------------------------------------------------- rows


def null_spellings(missing: Sequence[str]) -> list[str]:
    """Spellings of a missing value, also with a blank after the comma."""
    values = dict.fromkeys(["", *missing])
    return [*values, *(f" {spelling}" for spelling in values)]


def read_csv(
    data: bytes,
    dialect: Dialect,
    types: Mapping[str, pa.DataType],
    columns: Sequence[str],
    missing: Sequence[str] = (),
) -> pa.Table:
    """Parse records; types that are not given are inferred. One thread: other blocks are parsed in parallel."""
    return arrow_csv.read_csv(
        pa.BufferReader(data),
        arrow_csv.ReadOptions(column_names=list(dialect.names), use_threads=False, block_size=max(1024, len(data) + 1)),
        arrow_csv.ParseOptions(delimiter=dialect.delimiter, quote_char='"' if dialect.quoted else False),
        arrow_csv.ConvertOptions(
            column_types={name: types[name] for name in columns if name in types},
            include_columns=list(columns),
            null_values=list(missing),
            strings_can_be_null=bool(missing),
            true_values=TRUE,
            false_values=FALSE,
        ),
    )


def infer_types(
    excerpts: Sequence[Excerpt],
    given: Mapping[str, pa.DataType],
    missing: Sequence[str],
    columns: Sequence[str],
    decimal: str | None = None,
) -> tuple[dict[str, pa.DataType], frozenset[str], frozenset[str]]:
    """The types of all columns, inferred if not given, and the names of integer columns and of those in doubt.

    Integers are read as floats, since fractions may follow. Those that floats cannot represent exactly, and those with
    leading zeros, are identifiers: strings. If the decimal separator is a comma, 1.200 is not a fraction: such columns
    are strings, which models read as numbers. If fields are separated by semicolons, as where the decimal separator is
    a comma, and all fractions have three digits, they may be thousands: such columns are in doubt.
    """
    types = dict(given)
    untyped = [column for column in columns if column not in types]
    files: dict[Dialect, list[bytes]] = {}
    for excerpt in excerpts:
        assert isinstance(excerpt.record_file, CsvFile)
        data = excerpt.block.data
        files.setdefault(excerpt.record_file.dialect, []).append(
            data if data.endswith((b"\n", b"\r")) else data + b"\n"
        )
    joined = {dialect: b"".join(parts) for dialect, parts in files.items()}
    tables = [read_untyped(data, dialect, untyped, missing) for dialect, data in joined.items() if data]
    kinds = {column: common_type(table.schema.field(column).type for table in tables) for column in untyped}
    if decimal is None:
        string_columns = [column for column in untyped if pa.types.is_string(kinds[column])]
        decimal = common_decimal(look(distinct_strings(tables, column, ROWS_FOR_DECIMAL)) for column in string_columns)
    numbers = [column for column in untyped if is_number(kinds[column])]
    semicolons = decimal is None and any(dialect.delimiter == ";" for dialect in joined)
    fractions = [column for column in numbers if semicolons and pa.types.is_floating(kinds[column])]
    doubtful = [column for column in numbers if decimal == "," or column in fractions or whole_or_large(tables, column)]
    strings = [
        read_csv(data, dialect, dict.fromkeys(doubtful, pa.string()), doubtful, missing)
        for dialect, data in joined.items()
        if data and doubtful
    ]
    identifiers = {column for column in doubtful if any(are_identifiers(table.column(column)) for table in strings)}
    thousands = (pc.match_substring_regex(table.column(column), THOUSANDS) for table in strings for column in fractions)
    if not all(pc.all(found, min_count=0).as_py() for found in thousands):
        fractions = []
    if decimal == ",":
        for column in doubtful:
            seen = look(distinct_strings(strings, column))
            if seen is not None and not seen.is_plain(decimal):
                identifiers.add(column)
    integer_columns = frozenset(
        column for column in untyped if pa.types.is_integer(kinds[column]) and column not in identifiers
    )
    for column in untyped:
        kind = kinds[column]
        if column in identifiers:
            types[column] = string_type([table.column(column) for table in strings])
        elif is_number(kind):
            types[column] = pa.float64()
        elif pa.types.is_boolean(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            types[column] = at_least_microseconds(kind)
        elif pa.types.is_string(kind):
            types[column] = string_type([table.column(column) for table in tables])
        else:
            types[column] = pa.string()
    return types, integer_columns, frozenset(fractions)


def distinct_strings(tables: Sequence[pa.Table], column: str, rows: int | None = None) -> list[str]:
    """The distinct strings of a column, in this many rows of each table."""
    chunks = [chunk for table in tables for chunk in table.column(column).slice(0, rows).cast(pa.string()).chunks]
    return [value for value in pc.unique(pa.chunked_array(chunks, pa.string())).to_pylist() if value is not None]


def read_untyped(data: bytes, dialect: Dialect, columns: Sequence[str], missing: Sequence[str]) -> pa.Table:
    """A sample with the types that Arrow infers. Bytes that are not text are refused later, when all rows are read."""
    table = read_csv(data, dialect, {}, columns, missing)
    nothing = pa.chunked_array([pa.nulls(table.num_rows, pa.string())])
    return with_columns(table, {i: nothing for i, field in enumerate(table.schema) if pa.types.is_binary(field.type)})


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def whole_or_large(tables: Sequence[pa.Table], column: str) -> bool:
    """Whether numbers may be identifiers: integers, or too large for exact floats."""
    for table in tables:
        values = table.column(column)
        if pa.types.is_integer(values.type):
            return True
        if pa.types.is_floating(values.type):
            extremes = pc.min_max(values)
            if max(abs(extremes["min"].as_py() or 0), abs(extremes["max"].as_py() or 0)) > MAX_EXACT_INTEGER:
                return True
    return False


def are_identifiers(strings: pa.ChunkedArray) -> bool:
    """Whether strings of digits would lose information as floats. A fraction among them means that they are numbers."""
    digits = pc.match_substring_regex(strings, ALL_DIGITS)
    if not pc.all(digits, min_count=0).as_py():
        return False
    if pc.any(pc.match_substring_regex(strings, LEADING_ZEROS), min_count=0).as_py():
        return True
    long = strings.filter(pc.match_substring_regex(strings, LONG_DIGITS))
    return any(abs(int(value)) > MAX_EXACT_INTEGER for value in long.to_pylist() if value is not None)


# ---------------------------------------------------------------------- diagnosis of errors


def diagnose(block: RecordBlock, dialect: Dialect, types: Mapping[str, pa.DataType], missing: Sequence[str]) -> Misread:
    """The first record that cannot be read."""
    at = block.data.find(b"\0")
    if at >= 0:
        row, line = record_at(block, dialect, at)
        return Misread(
            "holds a NUL byte, which text never contains: check that the file is a table and not damaged", row, line
        )
    try:
        block.data.decode()
    except UnicodeDecodeError as error:
        row, line = record_at(block, dialect, error.start)
        problem = f"is not UTF-8 (byte 0x{block.data[error.start]:02x})"
        return Misread(f"{problem}: give its encoding, as in --encoding latin-1", row, line)
    columns = [name for name in dialect.names if types.get(name) not in (None, pa.string())]
    try:
        texts = read_csv(block.data, dialect, dict.fromkeys(dialect.names, pa.string()), dialect.names, missing)
    except pa.ArrowException:
        width = len(dialect.names)
        for row, (line, fields) in enumerate(records(block, dialect)):
            if len(fields) != width:
                return Misread(field_count_message(len(fields), width, dialect.delimiter), row, line)
        return Misread("cannot be read", 0, block.line)
    misfits = [(first_misfit(texts.column(name), types[name], missing), name) for name in columns]
    misfitting = [(at, name) for at, name in misfits if at is not None]
    if not misfitting:
        return Misread("cannot be read", 0, block.line)
    row, name = min(misfitting)
    line = next((line for i, (line, _) in enumerate(records(block, dialect)) if i == row), 0)
    return Misread(
        misfit_message(types[name]), row, line, column=name, value=shortened(texts.column(name)[row].as_py())
    )


def misfit_message(kind: pa.DataType) -> str:
    """The error message for {value} in {column}, whose other values are of this type."""
    return (
        f"has {{value}} in column {{column!r}}, where other rows hold {type_in_words(kind)}: if it means a "
        "missing value, give --missing {value}; if the values are names, give --schema {column}=category"
    )


def shortened(value: object) -> str:
    """The repr of a value, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def field_count_message(fields: int, expected: int, delimiter: str) -> str:
    delimiter_text = "a tab" if delimiter == "\t" else repr(delimiter)
    count_text = f"{fields} field{'' if fields == 1 else 's'}"
    problem = f"has {count_text}, but the header has {expected}"
    if fields > expected:
        return f"{problem}: quote fields that contain {delimiter_text}, or give the separator (--delimiter)"
    return f"{problem}: write {delimiter_text} for empty fields, too, or give the separator (--delimiter)"


def records(block: RecordBlock, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """The records of a block, each with its line number, without blank lines; slow, for diagnosis only."""
    text = io.StringIO(block.data.decode(errors="replace").replace("\0", "\ufffd"), newline="")
    reader = dialect.reader(text)
    limit = csv.field_size_limit(MAX_RECORD_BYTES)
    try:
        before = 0
        for fields in reader:
            if fields:
                yield block.line and block.line + before, fields
            before = reader.line_num
    finally:
        csv.field_size_limit(limit)


def record_at(block: RecordBlock, dialect: Dialect, position: int) -> tuple[int, int]:
    """The index and the line of the record that contains a byte."""
    before = RecordBlock(block.data[:position] + b"x", block.line, block.read)
    earlier = list(records(before, dialect))
    return len(earlier) - 1, earlier[-1][0]


def first_misfit(texts: pa.ChunkedArray, kind: pa.DataType, missing: Sequence[str]) -> int | None:
    """The first row whose text does not parse as a type, by bisection with the reader itself."""

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
