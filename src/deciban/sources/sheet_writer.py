"""Rows written as one sheet of an .xlsx file, by XlsxWriter, an optional dependency."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deciban.errors import DecibanError
from deciban.show import optional

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS, MAX_COLUMNS, MAX_CHARACTERS = 1_048_576, 16_384, 32_767  # of a sheet, with its header, and of a cell
MAX_EXACT_INTEGER = 2**53  # numbers of a sheet are floats
FIRST_YEAR = 1900  # of dates in a sheet
DATE, TIME = "yyyy-mm-dd", "yyyy-mm-dd hh:mm:ss"


class SheetWriter:
    """A sheet, row by row in constant memory. A text is never a formula, whatever it starts with."""

    def __init__(self, sink: Any, names: Sequence[str]) -> None:
        if len(names) > MAX_COLUMNS:
            raise DecibanError(
                "a sheet can have at most {most:,} columns, but there are {count:,}: write .csv or .parquet",
                most=MAX_COLUMNS,
                count=len(names),
            )
        self._names, self._rows = tuple(names), 0
        xlsxwriter = optional("xlsxwriter", "writing a spreadsheet")
        self._book = xlsxwriter.Workbook(sink, {"constant_memory": True})
        self._sheet = self._book.add_worksheet("rows")
        self._date = self._book.add_format({"num_format": DATE})
        self._time = self._book.add_format({"num_format": TIME})
        self._write_row(self._names)

    def write(self, table: pa.Table) -> None:
        for batch in table.to_batches(1 << 14):
            if self._rows + batch.num_rows > MAX_ROWS:
                raise DecibanError(
                    "a sheet can have at most {most:,} rows, but there are more: write .csv or .parquet",
                    most=MAX_ROWS - 1,
                )
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                self._write_row(row)

    def close(self) -> None:
        self._book.close()

    def _write_row(self, row: Sequence[Any]) -> None:
        for column, value in enumerate(row):
            self._write_cell(column, value)
        self._rows += 1

    def _write_cell(self, column: int, value: Any) -> None:
        sheet, row = self._sheet, self._rows
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return
        if isinstance(value, bool):
            sheet.write_boolean(row, column, value)
        elif is_number(value):
            sheet.write_number(row, column, value)
        elif isinstance(value, datetime.date) and value.year >= FIRST_YEAR:
            if isinstance(value, datetime.datetime) and value.tzinfo is not None:
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
            form = self._time if isinstance(value, datetime.datetime) else self._date
            sheet.write_datetime(row, column, value, form)
        else:
            text = str(value)
            if len(text) > MAX_CHARACTERS:
                raise DecibanError(
                    "column {column!r} holds a text of {length:,} characters in row {row}, but a cell can have at "
                    "most {most:,}: write .csv or .parquet",
                    column=self._names[column],
                    row=row - 1,
                    length=len(text),
                    most=MAX_CHARACTERS,
                )
            sheet.write_string(row, column, text)


def is_number(value: Any) -> bool:
    """Whether a sheet holds the number as it is: it has no infinite ones, and no integers beyond those of floats."""
    if isinstance(value, int):
        return abs(value) <= MAX_EXACT_INTEGER
    return isinstance(value, float) and math.isfinite(value)
