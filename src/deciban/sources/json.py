"""JSON: one object per line, or an array of objects."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from deciban.errors import DecibanError, FileError
from deciban.show import one_line
from deciban.sources.blocks import LineCutter, RecordBlock
from deciban.sources.column_types import (
    MAX_EXACT_INTEGER,
    at_least_microseconds,
    check_names,
    conform,
    string_type,
    with_nulls,
)
from deciban.sources.csv import misfit_message, shortened
from deciban.sources.input_file import CHUNK_BYTES, ByteStream, InputFile
from deciban.sources.records import MAX_SAMPLE_BYTES, SAMPLE_ROWS, Misread, OpenedRecords, RecordFile, Records

BLANK = " \t\r\n"


class JsonFile(RecordFile):
    """One JSON file."""

    def __init__(self, file: InputFile, encoding: str) -> None:
        self.cutter = LineCutter()
        self.has_file_lines = True
        super().__init__(file, encoding)

    def _begin(self, stream: ByteStream) -> OpenedRecords:
        rest = stream.read(CHUNK_BYTES)
        if not rest.strip():
            raise FileError('{file} is empty: JSON lines are objects, as in {"age": 31}, one a line', file=self.name)
        self.has_file_lines = not rest.lstrip().startswith(b"[")
        if not self.has_file_lines:
            return OpenedRecords(b"", ArrayLines(rest, stream, self.name), 1)
        return OpenedRecords(rest, stream, 1)

    def seekable(self) -> bool:
        return self.has_file_lines and super().seekable()

    def count(self, block: RecordBlock) -> int:
        return sum(1 for line in block.data.split(b"\n") if line.strip())


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
        self._infer(given)

    def _infer(self, given: Mapping[str, pa.DataType]) -> None:
        excerpts = self._excerpts(SAMPLE_ROWS, MAX_SAMPLE_BYTES)
        data = b"\n".join(excerpt.block.data for excerpt in excerpts)
        try:
            table = with_nulls(read_json(data, None), self._missing)
        except (pa.ArrowException, UnicodeError):
            table = None
        if table is None or any(pa.types.is_nested(field.type) for field in table.schema):
            before = 0
            for excerpt in excerpts:
                problem = diagnose(excerpt.block, None)
                if problem is not None:
                    raise problem.in_file(excerpt.record_file, before)
                before += excerpt.rows
            raise self._mixed_types_error(data)
        self.columns = tuple(table.column_names)
        if not self.columns and data.strip():
            raise DecibanError("{file} holds objects without any key: a key names a column", file=self.name)
        check_names(self.columns, self.name)
        integer_columns = set()
        for column in self.columns:
            values = table.column(column)
            if pa.types.is_integer(values.type):
                extremes = pc.min_max(values)
                exact = max(abs(extremes["min"].as_py() or 0), abs(extremes["max"].as_py() or 0)) <= MAX_EXACT_INTEGER
                self._parsed_types[column] = pa.float64() if exact else values.type
                integer_columns.add(column)
            elif values.type == pa.null():
                self._parsed_types[column] = pa.string()
            else:
                self._parsed_types[column] = at_least_microseconds(values.type)
        self.whole = frozenset(integer_columns)
        self.types = {
            column: given.get(column)
            or (string_type([table.column(column)]) if parsed_type == pa.string() else parsed_type)
            for column, parsed_type in self._parsed_types.items()
        }

    def _mixed_types_error(self, data: bytes) -> DecibanError:
        """The error where each line is valid but a key has values of different types."""
        seen: dict[str, Any] = {}
        for line in data.split(b"\n"):
            for key, value in (json.loads(line) if line.strip() else {}).items():
                if value is not None and json_type(seen.setdefault(key, value)) != json_type(value):
                    return DecibanError(
                        "key {column!r} of {file} holds {other} in one line and {value} in another: make all of them "
                        "strings, or all numbers, with null where nothing is known",
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


def read_json(data: bytes, schema: pa.Schema | None) -> pa.Table:
    """Parse objects into a table; without a schema, types are inferred."""
    if not data.isascii():
        data.decode()  # Arrow does not check
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
    except (ValueError, RecursionError) as error:
        problem = one_line(str(error))
        return 'is not JSON ({problem}): every line is an object, as in {"age": 31}', {"problem": problem}
    if not isinstance(value, KeyedValues):
        return 'is {value}, and not an object as in {"age": 31}', {"value": shortened(value)}
    keys: set[str] = set()
    for key, item in value:
        fields = {"column": key, "value": shortened(item)}
        if key in keys:
            return "has the key {column!r} twice: give one of them another name", fields
        keys.add(key)
        if isinstance(item, KeyedValues | list):
            return "holds {value} under the key {column!r}: a value is a number, a string, true, false or null", fields
        if types is not None and key not in types:
            return (
                "has the key {column!r}, which no row of the sample has: leave it out, or put it into the first row",
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
    """An array of objects as lines, parsed lazily. `data` is its beginning."""

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

    def _next_chunk(self) -> bytes:
        data, self._data = self._data, None
        return self._stream.read(CHUNK_BYTES) if data is None else data

    def _unroll(self) -> Iterator[bytes]:
        decoder, text, at, element = codecs.getincrementaldecoder("utf-8")(), "", 0, 0
        reader = json.JSONDecoder()
        expected = "["
        while True:
            more = self._next_chunk()
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
                except (ValueError, RecursionError):
                    if more:
                        break
                    raise self._syntax_error(element, text[at:]) from None
                if not isinstance(value, dict):
                    raise DecibanError(
                        'element {element} of {file} is {value}, and not an object as in {"age": 31}',
                        element=element + 1,
                        file=self._name,
                        value=shortened(value),
                    )
                yield json.dumps(value).encode() + b"\n"
                element, expected = element + 1, ","
            if not more:
                raise DecibanError(
                    "{file} ends within an array, after {elements:,} elements: is it cut off?",
                    file=self._name,
                    elements=element,
                )

    def _end(self, text: str) -> Iterator[bytes]:
        rest = text + self._next_chunk().decode(errors="replace")
        if rest.strip():
            raise DecibanError(
                "{file} goes on behind its array with {value}: leave that out",
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
