"""JSON: one object per line, or an array of objects."""

from __future__ import annotations

import codecs
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from deciban._kernel import json as kernel
from deciban.errors import DecibanError, FileError
from deciban.show import one_line
from deciban.sources.base import SAMPLE_ROWS
from deciban.sources.blocks import MAX_RECORD_BYTES, LineCutter, RecordBlock, in_lines
from deciban.sources.column_types import (
    MAX_COLUMNS,
    MAX_EXACT_INTEGER,
    at_least_microseconds,
    check_names,
    common_type,
    conform,
    string_type,
    with_nulls,
)
from deciban.sources.csv import misfit_message, shortened
from deciban.sources.input_file import CHUNK_BYTES, ByteStream, InputFile, Pass
from deciban.sources.records import MAX_SAMPLE_BYTES, Misread, OpenedRecords, RecordFile, Records

BLANK = " \t\r\n"
MAX_BLOCK_CELLS = 1 << 22  # of a table parsed at once: a row of two bytes, {}, has a cell for every key of the others
MAX_SPARSE_KEYS = 10_000  # if each row has few of all keys
MIN_FILLED_SHARE = 0.01  # of cells: with less, rows have few of the keys
MAX_KEYS_COUNTED = 1 << 20
MAX_CUT_CHARACTERS = 16  # at the end of a chunk, in which a number, a word or an escape may be cut off


class JsonFile(RecordFile):
    """One JSON file."""

    def __init__(self, file: InputFile, encoding: str) -> None:
        self.cutter = LineCutter()
        self.has_file_lines = True
        super().__init__(file, encoding)

    def _begin(self, stream: ByteStream) -> OpenedRecords:
        rest = stream.read(CHUNK_BYTES)
        if not rest.strip():
            raise FileError('{file} is empty: JSON lines hold one object per line, as in {"age": 31}', file=self.name)
        self.has_file_lines = not rest.lstrip().startswith(b"[")
        if not self.has_file_lines:
            return OpenedRecords(b"", ArrayLines(rest, stream, self.name), 1)
        return OpenedRecords(rest, stream, 1)

    def seekable(self) -> bool:
        return self.has_file_lines and super().seekable()

    def count(self, block: RecordBlock) -> int:
        return sum(1 for line in block.data.split(b"\n") if line.strip())

    def first_rows(self, block: RecordBlock, rows: int) -> RecordBlock:
        end = 0
        for line in block.data.split(b"\n"):
            if not rows:
                break
            end += len(line) + 1
            rows -= bool(line.strip())
        return replace(block, data=block.data[:end])


class Json(Records):
    """Tables in JSON files."""

    def __init__(
        self,
        name: str,
        record_files: Sequence[JsonFile],
        missing: Sequence[str] | None,
        given: Mapping[str, pa.DataType],
    ) -> None:
        super().__init__(name, record_files)
        self._missing = missing
        self._parsed_types: dict[str, pa.DataType] = {}
        self._max_rows: int | None = None  # of a block, once keys are known
        self._infer(given)

    def _infer(self, given: Mapping[str, pa.DataType]) -> None:
        excerpts = self._excerpts(SAMPLE_ROWS, MAX_SAMPLE_BYTES)
        blocks = [excerpt.record_file.first_rows(excerpt.block, excerpt.rows).data for excerpt in excerpts]
        data = b"\n".join(blocks)
        n_keys = self._checked_key_count(data, sum(excerpt.rows for excerpt in excerpts))
        try:
            sampled = self._sampled_values(data, MAX_BLOCK_CELLS // max(1, n_keys))
        except (pa.ArrowException, UnicodeError):
            before = 0
            for excerpt in excerpts:
                problem = diagnose(excerpt.block, None)
                if problem is not None:
                    raise problem.in_file(excerpt.record_file, before) from None
                before += excerpt.rows
            raise self._mixed_types_error(data) from None
        self.columns = tuple(sampled)
        if not self.columns and data.strip():
            raise DecibanError(
                "{file} holds objects without keys: each key is the name of a column, so give at least one",
                file=self.name,
            )
        check_names(self.columns, self.name)
        integer_columns = set()
        for column, values in sampled.items():
            if pa.types.is_integer(values.type):
                extremes = pc.min_max(values)
                exact = max(abs(extremes["min"].as_py() or 0), abs(extremes["max"].as_py() or 0)) <= MAX_EXACT_INTEGER
                self._parsed_types[column] = pa.float64() if exact else values.type
                integer_columns.add(column)
            elif values.type == pa.null() or (pa.types.is_timestamp(values.type) and given.get(column) == pa.string()):
                self._parsed_types[column] = pa.string()
            else:
                self._parsed_types[column] = at_least_microseconds(values.type)
        self.whole = frozenset(integer_columns)
        self.types = {
            column: given.get(column)
            or (pa.date32() if are_dates(sampled[column]) else None)
            or (string_type([sampled[column]]) if parsed_type == pa.string() else parsed_type)
            for column, parsed_type in self._parsed_types.items()
        }
        self._max_rows = max(1, MAX_BLOCK_CELLS // max(1, len(self.columns)))

    def _checked_key_count(self, data: bytes, rows: int) -> int:
        """How many different keys the objects have, unless they are too many for columns of a table."""
        n_keys, n_values = kernel.count_keys(data, MAX_KEYS_COUNTED)
        sparse = n_values < MIN_FILLED_SHARE * rows * n_keys
        limit = MAX_SPARSE_KEYS if sparse else MAX_COLUMNS
        if n_keys <= limit:
            return n_keys
        raise DecibanError(
            "{file} has {keys} different keys in {rows:,} rows, and each key is a column, with a limit of {limit:,}: "
            "{advice}",
            file=self.name,
            keys=f"{n_keys:,}" if n_keys < MAX_KEYS_COUNTED else f"more than {n_keys:,}",
            rows=rows,
            limit=limit,
            advice='if the keys are identifiers, make them values, as in {"name": "x7", "amount": 3}'
            if sparse
            else "leave some of them out",
        )

    def _sampled_values(self, data: bytes, max_rows: int) -> dict[str, pa.ChunkedArray]:
        """The values of every key, without nulls, by `max_rows` rows at a time: most rows may lack most keys."""
        values: dict[str, list[pa.ChunkedArray]] = {}
        for block in in_lines(RecordBlock(data, 0, 0), max(1, max_rows)):
            table = with_nulls(read_json(block.data, None), self._missing)
            for name, column in zip(table.column_names, table.columns, strict=True):
                values.setdefault(name, []).append(column.drop_null())
        return {name: joined(columns) for name, columns in values.items()}

    def _blocks(self, record_file: RecordFile, one_pass: Pass) -> Generator[RecordBlock, None, None]:
        return self._with_few_cells(super()._blocks(record_file, one_pass))

    def _peeked_blocks(self, record_file: RecordFile) -> Generator[RecordBlock, None, None]:
        return self._with_few_cells(super()._peeked_blocks(record_file))

    def _with_few_cells(self, blocks: Generator[RecordBlock, None, None]) -> Generator[RecordBlock, None, None]:
        """The same lines in blocks of at most as many rows as a table may have."""
        try:
            for block in blocks:
                yield from (block,) if self._max_rows is None else in_lines(block, self._max_rows)
        finally:
            blocks.close()

    def _mixed_types_error(self, data: bytes) -> DecibanError:
        """The error if each line is valid but a key has values of different types."""
        seen: dict[str, Any] = {}
        for line in data.split(b"\n"):
            for key, value in (json.loads(line) if line.strip() else {}).items():
                if value is not None and json_type(seen.setdefault(key, value)) != json_type(value):
                    return DecibanError(
                        "key {column!r} of {file} holds {other} in one line and {value} in another: make all of them "
                        "strings or all numbers, with null for missing values",
                        column=key,
                        file=self.name,
                        other=shortened(seen[key]),
                        value=shortened(value),
                    )
        return DecibanError("{file} cannot be read as JSON lines", file=self.name)

    def _parse(self, record_file: RecordFile, block: RecordBlock) -> pa.Table:
        try:
            table = read_json(block.data, pa.schema(list(self._parsed_types.items())))
        except (pa.ArrowException, UnicodeError):
            problem = diagnose(block, self._parsed_types)
            raise problem or Misread("cannot be read", 0, block.line) from None
        return conform(with_nulls(table, self._missing), self.columns, self.types, record_file.name)


def joined(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Values of a key as one column, of the type that Arrow would infer for all of them."""
    kind = common_type(column.type for column in columns)
    if kind == pa.string() and not all(is_text(column.type) for column in columns):
        raise pa.ArrowInvalid("a key holds strings and others")
    return pa.chunked_array([chunk for column in columns for chunk in column.cast(kind, safe=False).chunks], kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether values were written as strings, as timestamps are too."""
    return bool(pa.types.is_string(kind) or pa.types.is_timestamp(kind) or pa.types.is_null(kind))


def are_dates(values: pa.ChunkedArray) -> bool:
    """Whether times are all at midnight: JSON has no dates, and what looks like one is read as a time."""
    if not pa.types.is_timestamp(values.type) or values.type.tz is not None or values.null_count == len(values):
        return False
    return bool(pc.all(pc.equal(values.cast(pa.date32(), safe=False).cast(values.type), values)).as_py())


def read_json(data: bytes, schema: pa.Schema | None) -> pa.Table:
    """Parse objects into a table; without a schema, types are inferred."""
    if not data.isascii():
        data.decode()  # Arrow does not check
    if kernel.nested_at(data) >= 0:
        raise pa.ArrowInvalid("a value is nested")  # no cell is, and the parser overflows the stack if it is too deep
    if not data.strip():
        return (schema or pa.schema([])).empty_table()
    return arrow_json.read_json(
        pa.BufferReader(data),
        arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        arrow_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "error"
        ),
    )


# ---------------------------------------------------------------------- diagnosis of errors


def diagnose(block: RecordBlock, types: Mapping[str, pa.DataType] | None) -> Misread | None:
    """The first line that cannot be read, given the columns' types (None: without checking types)."""
    row = 0
    for number, line in enumerate(block.data.split(b"\n"), block.line):
        if not line.strip():
            continue
        wrong = line_problem(line, types)
        if wrong is not None:
            why, fields = wrong
            return Misread(why, row, number if block.line else 0, **fields)
        row += 1
    return None


def line_problem(line: bytes, types: Mapping[str, pa.DataType] | None) -> tuple[str, dict[str, Any]] | None:
    """What is wrong with a line, as a message and its fields; None if it is valid."""
    try:
        value = json.loads(line.decode(), object_pairs_hook=KeyedValues)
    except UnicodeDecodeError as error:
        byte = f"{line[error.start]:02x}"
        return "is not UTF-8 (byte 0x{value}): give its encoding, as in --encoding latin-1", {"value": byte}
    except RecursionError:
        return "holds nested objects or arrays: a value must be a number, a string, true, false or null", {}
    except ValueError as error:
        problem = one_line(str(error))
        return 'is not JSON ({problem}): every line must be an object, as in {"age": 31}', {"problem": problem}
    if not isinstance(value, KeyedValues):
        return 'is {value}, but must be an object, as in {"age": 31}', {"value": shortened(value)}
    keys: set[str] = set()
    for key, item in value:
        fields = {"column": key, "value": shortened(item)}
        if key in keys:
            return "has the key {column!r} twice: give one of them another name", fields
        keys.add(key)
        if isinstance(item, KeyedValues | list):
            return (
                "holds {value} under the key {column!r}: a value must be a number, a string, true, false or null",
                fields,
            )
        if types is not None and key not in types:
            return (
                "has the key {column!r}, which occurs in no row of the sample: leave it out, or add it to the first "
                "row",
                fields,
            )
        if types is not None and item is not None and not fits(item, types[key]):
            return misfit_message(types[key]), fields
        if isinstance(item, str) and any("\ud800" <= character <= "\udfff" for character in item):
            return "holds half of a character (a surrogate) under the key {column!r}: write it as UTF-8", fields
    return None


class KeyedValues(list[tuple[str, Any]]):
    """An object as (key, value) pairs, with duplicate keys."""

    def __repr__(self) -> str:
        return repr(dict(self))


def fits(value: Any, kind: pa.DataType) -> bool:
    if isinstance(value, bool):
        return bool(pa.types.is_boolean(kind))
    if isinstance(value, str):
        try:
            pa.array([value]).cast(kind)
        except pa.ArrowException:
            return False
        return not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))
    if pa.types.is_integer(kind):
        return isinstance(value, int) and abs(value) < 2**63
    return bool(pa.types.is_floating(kind))


def json_type(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


# ---------------------------------------------------------------------- arrays


class ArrayLines:
    """An array of objects as lines, parsed lazily. `data` is its start."""

    def __init__(self, data: bytes, stream: ByteStream, name: str) -> None:
        self._stream, self._name = stream, name
        self._data: bytes | None = data
        self._lines = self._unroll()
        self._left = b""

    def read(self, size: int) -> bytes:
        parts, length = [self._left], len(self._left)
        while length < size and (line := next(self._lines, None)) is not None:
            parts.append(line)
            length += len(line)
        whole = b"".join(parts)
        self._left = whole[size:]
        return whole[:size]

    def close(self) -> None:
        self._stream.close()

    def _next_chunk(self, size: int = CHUNK_BYTES) -> bytes:
        data, self._data = self._data, None
        return self._stream.read(size) if data is None else data

    def _unroll(self) -> Iterator[bytes]:
        decoder, text, at, element = codecs.getincrementaldecoder("utf-8")(), "", 0, 0
        reader = json.JSONDecoder()
        expected = "["
        while True:
            more = self._next_chunk(max(CHUNK_BYTES, len(text) - at))  # what is decoded again doubles each time
            try:
                text, at = text[at:] + decoder.decode(more, not more), 0
            except UnicodeDecodeError:
                raise DecibanError(
                    "{file} is not UTF-8: give its encoding, as in --encoding latin-1", file=self._name
                ) from None
            while True:
                while at < len(text) and text[at] in BLANK:
                    at += 1
                if at == len(text):
                    break
                if expected:
                    if text[at] == "]" and expected != "[":
                        yield from self._end(text[at + 1 :])
                        return
                    if text[at] != expected:
                        raise self._syntax_error(element, text[at:])
                    at, expected = at + 1, ""
                    continue
                if text[at] == "]" and element == 0:
                    yield from self._end(text[at + 1 :])
                    return
                try:
                    value, at = reader.raw_decode(text, at)
                except RecursionError:
                    raise DecibanError(
                        "element {element} of {file} holds nested objects or arrays: a value must be a number, a "
                        "string, true, false or null",
                        element=element + 1,
                        file=self._name,
                    ) from None
                except ValueError as error:
                    if more and may_be_cut_off(error, text):
                        if len(text) - at > MAX_RECORD_BYTES:
                            raise DecibanError(
                                "element {element} of {file} is longer than {limit} MB: check that this is a table",
                                element=element + 1,
                                file=self._name,
                                limit=MAX_RECORD_BYTES >> 20,
                            ) from None
                        break
                    raise self._syntax_error(element, text[at:]) from None
                if not isinstance(value, dict):
                    raise DecibanError(
                        'element {element} of {file} is {value}, but must be an object, as in {"age": 31}',
                        element=element + 1,
                        file=self._name,
                        value=shortened(value),
                    )
                yield json.dumps(value).encode() + b"\n"
                element, expected = element + 1, ","
            if not more:
                raise DecibanError(
                    "{file} ends inside an array, after {elements:,} elements: it may be cut off, so copy it again",
                    file=self._name,
                    elements=element,
                )

    def _end(self, text: str) -> Iterator[bytes]:
        rest = text + self._next_chunk().decode(errors="replace")
        if rest.strip():
            raise DecibanError(
                "{file} continues after its array with {value}: remove that",
                file=self._name,
                value=shortened(rest.strip()[:40]),
            )
        yield from ()

    def _syntax_error(self, element: int, text: str) -> DecibanError:
        return DecibanError(
            "element {element} of {file} is not JSON, at {value}",
            element=element + 1,
            file=self._name,
            value=shortened(text[:40]),
        )


def may_be_cut_off(error: ValueError, text: str) -> bool:
    """Whether what could not be decoded may be the start of something valid."""
    return isinstance(error, json.JSONDecodeError) and (
        error.msg.startswith("Unterminated string") or error.pos >= len(text) - MAX_CUT_CHARACTERS
    )
