"""Cells that spreadsheets would run as formulas, turned into texts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deciban.reading.arrow import strings
from deciban.sources.csv_cells import joined, string

FORMULA = "^[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]"  # also the wide signs of East Asian keyboards
NUMBER = r"^[+-]?\d[\d.,]*(?:[eE][+-]?\d+)?%?$"  # -5 and +1.200,50 are not formulas


def escape_formulas(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before strings, and names of columns, that a spreadsheet would run as formulas.

    >>> import pyarrow as pa
    >>> escape_formulas(pa.table({"note": ["=1+1", "-5", "a=b", None]}))["note"].to_pylist()
    ["'=1+1", '-5', 'a=b', None]
    """
    names = escaped(strings(table.column_names, pa.string())).to_pylist()
    return pa.table([escaped(column) if is_text(column.type) else column for column in table.columns], names=names)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def escaped(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    is_formula = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, NUMBER))
    if not pc.any(is_formula).as_py():
        return texts
    wide = texts.cast(pa.large_string())
    return pc.if_else(is_formula, joined(string("'"), wide), wide).cast(texts.type)
