"""Types of columns: numbers as floats, strings as dictionary codes if few distinct ones repeat."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deciban.errors import DecibanError, FileError
from deciban.reading.arrow import floats, strings
from deciban.show import one_line

MAX_COLUMNS = 1 << 16  # of a file; a column takes about a millisecond to be read, evaluated and learned
MAX_EXACT_INTEGER = 2**53  # every integer up to here is exact as a float
MAX_DISTINCT_SHARE = 0.1  # of the values, for strings read as codes: repeated names, not texts or row ids
MAX_DECODED_BYTES = 1 << 30  # of a column in one batch
CODES = pa.dictionary(pa.int32(), pa.string())
MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


def string_type(columns: Sequence[pa.ChunkedArray]) -> pa.DataType:
    """The type of a string column: codes, if the sample has far fewer distinct values than rows."""
    n_values = sum(len(column) - column.null_count for column in columns)
    strings = [column.cast(pa.string()) for column in columns]
    chunks = [chunk for column in strings for chunk in column.chunks]
    distinct = pc.count_distinct(pa.chunked_array(chunks, pa.string())).as_py()
    return CODES if 0 < distinct <= MAX_DISTINCT_SHARE * n_values else pa.string()


def common_type(types: Iterable[pa.DataType]) -> pa.DataType:
    """A type that holds values of all these types; string if no other does."""
    kinds = {kind for kind in types if kind != pa.null()}
    if len(kinds) == 1:
        return kinds.pop()
    if not kinds:
        return pa.null()
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return pa.float64()
    if all(pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None) for kind in kinds):
        return pa.timestamp("ns")
    return pa.string()


def at_least_microseconds(kind: pa.DataType) -> pa.DataType:
    """Timestamps in s or ms as microseconds, since later rows may have fractions of a second."""
    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        return pa.timestamp("us", kind.tz)
    return kind


def declared_type(kind: pa.DataType, column: str, file: str) -> pa.DataType:
    """The type that a column with a declared type is read as."""
    types = pa.types
    if types.is_dictionary(kind):
        inner = declared_type(kind.value_type, column, file)
        return CODES if inner == pa.string() else inner
    if kind == pa.null() or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return pa.string()
    if "string_view" in str(kind) or "binary_view" in str(kind):
        return pa.string()
    if types.is_decimal(kind):
        return pa.float64()
    if types.is_nested(kind) or types.is_fixed_size_binary(kind) or isinstance(kind, pa.BaseExtensionType):
        raise DecibanError(
            "column {column!r} of {file} holds {type}, but a value must be a number, a string, a boolean, a date or "
            "missing: split it into columns, or leave the column out",
            column=one_line(column),
            file=file,
            type=one_line(str(kind)),
        )
    return kind


def conform(table: pa.Table, columns: Sequence[str], types: Mapping[str, pa.DataType], file: str) -> pa.Table:
    """A table with its columns in this order and of these types."""
    out = []
    for name in columns:
        column = table.column(name)
        if column.type != types[name]:
            column = cast(column, types[name], name, file)
        out.append(column)
    return pa.table(out, names=list(columns))


def cast(column: pa.ChunkedArray, kind: pa.DataType, name: str, file: str) -> pa.ChunkedArray:
    try:
        if pa.types.is_dictionary(column.type) and column.type != kind:
            column = decoded(column, name)
        if pa.types.is_dictionary(kind):
            plain = column if column.type == kind.value_type else column.cast(kind.value_type)
            return plain.dictionary_encode().cast(kind)
        # Integers beyond 2⁵³ lose digits as floats, which does not matter for numbers.
        return column.cast(kind, safe=not pa.types.is_floating(kind))
    except pa.ArrowException as error:
        raise DecibanError(
            "column {column!r} of {file} holds {type} and cannot be read as {expected} ({problem}): make it the same "
            "in all files, or give its kind (--schema {column}=category)",
            column=one_line(name),
            file=file,
            type=one_line(str(column.type)),
            expected=type_in_words(kind),
            problem=one_line(str(error)),
        ) from None


def type_in_words(kind: pa.DataType) -> str:
    """A type in words."""
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_date(kind):
        return "dates"
    if pa.types.is_timestamp(kind):
        return "dates with a time"
    return "strings" if kind in (pa.string(), CODES) else one_line(str(kind))


def with_nulls(table: pa.Table, missing: Sequence[str] | None) -> pa.Table:
    """The table with nulls in place of the values that mean missing, in columns of strings or numbers."""
    if not missing:
        return table
    changed = {}
    for i, column in enumerate(table.columns):
        is_text = pa.types.is_string(column.type) or column.type == CODES
        if is_text:
            values = strings(missing, pa.string())
            is_missing = pc.is_in(column.cast(pa.string()), value_set=values)
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            values = strings([spelling for spelling in missing if as_number(spelling) is not None], pa.string())
            is_missing = pc.is_in(column.cast(pa.float64(), safe=False), value_set=values.cast(pa.float64()))
        else:
            continue
        if pc.any(is_missing).as_py():
            changed[i] = pc.if_else(is_missing, pa.nulls(1, column.type)[0], column)
    return with_columns(table, changed)


def with_columns(table: pa.Table, changed: Mapping[int, pa.ChunkedArray]) -> pa.Table:
    """The table with these columns replaced, by number. (`set_column` copies the list of all columns.)"""
    columns = [changed.get(i, column) for i, column in enumerate(table.columns)]
    return pa.table(columns, names=table.column_names) if changed else table


def as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def check_same_columns(expected: Sequence[str], actual: Sequence[str], first: str, file: str) -> None:
    """Refuse a file whose columns differ from those of the first."""
    of_first, of_file = set(expected), set(actual)
    missing_columns = [name for name in expected if name not in of_file]
    extra_columns = [name for name in actual if name not in of_first]
    differences = [f"lacks {quoted_names(missing_columns)}"] if missing_columns else []
    differences += [f"also has {quoted_names(extra_columns)}"] if extra_columns else []
    if differences:
        raise DecibanError(
            "{file} does not have the columns of {first}: it {difference}. Read them separately, or give them the "
            "same columns",
            file=file,
            first=first,
            difference=" and ".join(differences),
        )


def quoted_names(names: Sequence[str], max_names: int = 5) -> str:
    return ", ".join(repr(name) for name in names[:max_names]) + (", …" if len(names) > max_names else "")


def check_names(names: Sequence[str], file: str) -> None:
    """Refuse columns without a name, duplicate names, and too many columns."""
    check_column_count(len(names), file)
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise DecibanError(
                "column {number} of {file} has no name: give it one, or leave the column out (pandas writes such a "
                "column for the index unless you pass index=False)",
                number=number,
                file=file,
            )
        if name in seen:
            raise DecibanError(
                "columns {other} and {number} of {file} are both called {column!r}: give one of them another name",
                other=seen[name],
                number=number,
                file=file,
                column=name,
            )
        seen[name] = number


def check_column_count(count: int, file: str) -> None:
    """Refuse more columns than can be read in a minute or so."""
    if count > MAX_COLUMNS:
        raise DecibanError(
            "{file} has {columns:,} columns, but the limit is {limit:,}: leave some out, or pass the numbers to a "
            "model in Python as an array or a sparse matrix",
            file=file,
            columns=count,
            limit=MAX_COLUMNS,
        )


# ---------------------------------------------------------------------- input of models


def as_written(table: pa.Table, whole: Collection[str]) -> pa.Table:
    """The same rows as written, since kinds of columns are inferred from that: codes as strings, and the
    columns `whole`, which are read as floats, as integers if they still are."""
    changed = {}
    for i, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if pa.types.is_dictionary(column.type):
            changed[i] = decoded(column, name)
        elif name in whole and pa.types.is_floating(column.type) and all_whole(column):
            changed[i] = column.cast(pa.int64())
    return with_columns(table, changed)


def decoded(column: pa.ChunkedArray, name: str = "") -> pa.ChunkedArray:
    """Dictionary codes as values. Few codes can stand for more bytes than memory holds, so these are counted first."""
    if pa.types.is_string(column.type.value_type) or pa.types.is_large_string(column.type.value_type):
        total = 0
        for chunk in column.chunks:
            lengths = pc.binary_length(chunk.dictionary)
            total += pc.sum(pc.take(lengths, chunk.indices).cast(pa.int64())).as_py() or 0
        if total > MAX_DECODED_BYTES:
            raise FileError(
                "column {column!r} unpacks to {size:,} MB at a time: its values are too long to be repeated so often",
                column=one_line(name),
                size=total >> 20,
            )
    return column.cast(column.type.value_type)


def all_whole(column: pa.ChunkedArray) -> bool:
    """Whether these are integers that floats represent exactly, or missing."""
    numbers = floats(column.drop_null())
    return bool(((numbers == np.round(numbers)) & (np.abs(numbers) <= MAX_EXACT_INTEGER)).all())


def as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of texts; missing ones become empty."""
    column = decoded(column) if pa.types.is_dictionary(column.type) else column
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    kind = kind if is_text else pa.string()
    return pc.fill_null(column.cast(kind), strings([""], kind)[0])
