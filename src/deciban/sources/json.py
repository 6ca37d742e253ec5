"""JSON: an object a line, or an array of objects."""

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
from deciban.sources.column_types import EXACT, as_names, check_names, conform, wide, without
from deciban.sources.csv import shortened, unfit
from deciban.sources.input_file import CHUNK, ByteStream, InputFile
from deciban.sources.records import MOST, SAMPLE, Begun, Misread, RecordFile, Records

BLANK = " \t\r\n"


class JsonFile(RecordFile):
    """One JSON file."""

    def __init__(self, file: InputFile, encoding: str) -> None:
        self.cutter = LineCutter()
        self.lined = True
        super().__init__(file, encoding)

    def _begin(self, stream: ByteStream) -> Begun:
        rest = stream.read(CHUNK)
        if not rest.strip():
            raise FileError('{file} is empty: JSON lines are objects, as in {"age": 31}, one a line', file=self.name)
        self.lined = not rest.lstrip().startswith(b"[")
        if not self.lined:
            return Begun(b"", Unrolled(rest, stream, self.name), 1)
        return Begun(rest, stream, 1)

    def seekable(self) -> bool:
        return self.lined and super().seekable()

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
        self._natural: dict[str, pa.DataType] = {}
        self._infer(given)

    def _infer(self, given: Mapping[str, pa.DataType]) -> None:
        excerpts = self._excerpts(SAMPLE, MOST)
        data = b"\n".join(excerpt.block.data for excerpt in excerpts)
        try:
            table = without(read_json(data, None), self._missing)
        except (pa.ArrowException, UnicodeError):
            table = None
        if table is None or any(pa.types.is_nested(field.type) for field in table.schema):
            before = 0
            for excerpt in excerpts:
                problem = diagnose(excerpt.block, None)
                if problem is not None:
                    raise problem.in_file(excerpt.record_file, before)
                before += excerpt.rows
            raise self._mixed(data)
        self.columns = tuple(table.column_names)
        if not self.columns and data.strip():
            raise DecibanError("{file} holds objects without any key: a key names a column", file=self.name)
        check_names(self.columns, self.name)
        whole = set()
        for column in self.columns:
            values = table.column(column)
            if pa.types.is_integer(values.type):
                ends = pc.min_max(values)
                exact = max(abs(ends["min"].as_py() or 0), abs(ends["max"].as_py() or 0)) <= EXACT
                self._natural[column] = pa.float64() if exact else values.type
                whole.add(column)
            elif values.type == pa.null():
                self._natural[column] = pa.string()
            else:
                self._natural[column] = wide(values.type)
        self.whole = frozenset(whole)
        self.types = {
            column: given.get(column) or (as_names([table.column(column)]) if natural == pa.string() else natural)
            for column, natural in self._natural.items()
        }

    def _mixed(self, data: bytes) -> DecibanError:
        """What to say where each line is right and they do not go together."""
        seen: dict[str, Any] = {}
        for line in data.split(b"\n"):
            for key, value in (json.loads(line) if line.strip() else {}).items():
                if value is not None and sort(seen.setdefault(key, value)) != sort(value):
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
            table = read_json(block.data, pa.schema(list(self._natural.items())))
        except (pa.ArrowException, UnicodeError):
            problem = diagnose(block, self._natural)
            raise problem or Misread("cannot be read", 0, block.line) from None
        return conform(without(table, self._missing), self.columns, self.types, record_file.name)


def read_json(data: bytes, schema: pa.Schema | None) -> pa.Table:
    """Objects as a table; without a schema, what there is is found."""
    if not data.isascii():
        data.decode()  # Arrow does not look
    if not data.strip():
        return (schema or pa.schema([])).empty_table()
    return arrow_json.read_json(
        pa.BufferReader(data),
        arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        arrow_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "error"
        ),
    )


# ---------------------------------------------------------------------- what is wrong with a block


def diagnose(block: RecordBlock, natural: Mapping[str, pa.DataType] | None) -> Misread | None:
    """The first line that cannot be read, given what columns hold (None: as far as it can be told by itself)."""
    row = 0
    for number, line in enumerate(block.data.split(b"\n"), block.line):
        if not line.strip():
            continue
        wrong = wrong_with(line, natural)
        if wrong is not None:
            why, fields = wrong
            return Misread(why, row, number if block.line else 0, **fields)
        row += 1
    return None


def wrong_with(line: bytes, natural: Mapping[str, pa.DataType] | None) -> tuple[str, dict[str, Any]] | None:
    """What is wrong with a line, and the fields of what to say."""
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
    for key, inner in value:
        fields = {"column": key, "value": shortened(inner)}
        if key in keys:
            return "has the key {column!r} twice: give one of them another name", fields
        keys.add(key)
        if isinstance(inner, KeyedValues | list):
            return "holds {value} under the key {column!r}: a value is a number, a string, true, false or null", fields
        if natural is not None and key not in natural:
            return (
                "has the key {column!r}, which no row of the sample has: leave it out, or put it into the first row",
                fields,
            )
        if natural is not None and inner is not None and not fits(inner, natural[key]):
            return unfit(natural[key]), fields
        if isinstance(inner, str) and any("\ud800" <= character <= "\udfff" for character in inner):
            return "holds half of a character (a surrogate) under the key {column!r}: write it as UTF-8", fields
    return None


class KeyedValues(list[tuple[str, Any]]):
    """An object with its keys as they stand."""

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


def sort(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


# ---------------------------------------------------------------------- arrays


class Unrolled:
    """An array of objects as lines, as far as one reads. `data` is its beginning."""

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

    def _more(self) -> bytes:
        data, self._data = self._data, None
        return self._stream.read(CHUNK) if data is None else data

    def _unroll(self) -> Iterator[bytes]:
        decoder, text, at, element = codecs.getincrementaldecoder("utf-8")(), "", 0, 0
        reader = json.JSONDecoder()
        expected = "["
        while True:
            more = self._more()
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
                        raise self._broken(element, text[at:])
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
                    raise self._broken(element, text[at:]) from None
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
        rest = text + self._more().decode(errors="replace")
        if rest.strip():
            raise DecibanError(
                "{file} goes on behind its array with {value}: leave that out",
                file=self._name,
                value=shortened(rest.strip()[:40]),
            )
        yield from ()

    def _broken(self, element: int, text: str) -> DecibanError:
        return DecibanError(
            "element {element} of {file} is not JSON, at {value}",
            element=element + 1,
            file=self._name,
            value=shortened(text[:40]),
        )
