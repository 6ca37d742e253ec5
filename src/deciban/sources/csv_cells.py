"""Cells of CSV from columns of values, all at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deciban.reading.arrow import strings

SPECIAL = r'[",;|\t\r\n]|^#|^\s|\s$|^$'  # quoted with any delimiter


def string(text: str) -> pa.Scalar:
    """A string as an Arrow scalar."""
    return strings([text], pa.large_string())[0]


def cells(column: pa.Array) -> pa.Array:
    """Values as CSV cells, quoted only if needed; times of whole seconds without a fraction."""
    if pa.types.is_timestamp(column.type) and column.type.unit != "s":
        seconds = column.cast(pa.timestamp("s", column.type.tz), safe=False)
        if seconds.cast(column.type).equals(column):
            column = seconds
    text = pc.cast(column, pa.large_string())  # 64-bit offsets, for more than 2 GB
    if pa.types.is_floating(column.type):  # a customer number is 123456789012, not 1.23456789012e+11
        whole = pc.cast(column, pa.int64(), safe=False)
        same = pc.equal(pc.cast(whole, column.type, safe=False), column)
        return pc.if_else(same, pc.cast(whole, pa.large_string()), text)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return text
    return pc.if_else(pc.match_substring_regex(text, SPECIAL), in_quotes(text), text)


def in_quotes(text: pa.Array) -> pa.Array:
    quote = string('"')
    return joined(quote, pc.replace_substring(text, '"', '""'), quote)


def joined(*texts: Any, between: str = "") -> pa.Array:
    """Texts joined row by row."""
    return pc.binary_join_element_wise(*texts, string(between))


def lines(columns: list[pa.Array], delimiter: str) -> memoryview:
    """Columns of cells as lines."""
    return content(joined(joined(*columns, between=delimiter), string("\n")))


def content(texts: pa.Array) -> memoryview:
    """The concatenated bytes of strings, as they are stored."""
    _, offsets, data = texts.buffers()
    at = memoryview(offsets).cast("b").cast("q")  # offsets of large strings are 64-bit
    return memoryview(data)[at[texts.offset] : at[texts.offset + len(texts)]] if data else memoryview(b"")
