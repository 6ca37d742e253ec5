"""Columns as a person would have written them, for what they are is found out by that.

Files are read with whole numbers as fractions, and with repeated strings as categories.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deciban._typing import Array


def as_written(table: pa.Table, whole: Collection[str]) -> pa.Table:
    """The same rows with names as strings, and with the columns `whole` as whole numbers if they still are."""
    for place, name in enumerate(table.column_names):
        kind = table.schema.field(place).type
        if pa.types.is_dictionary(kind):
            table = table.set_column(place, name, table[name].cast(kind.value_type))
        elif name in whole and pa.types.is_floating(kind) and all_whole(table[name].drop_null().to_numpy()):
            table = table.set_column(place, name, table[name].cast(pa.int64()))
    return table


def all_whole(numbers: Array) -> bool:
    """Whether these are whole numbers that a float tells apart."""
    return bool(((numbers == np.round(numbers)) & (np.abs(numbers) <= 2.0**53)).all())


def as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of texts; a missing one is empty."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    strings = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return pc.fill_null(column.cast(kind if strings else pa.string()), "")
