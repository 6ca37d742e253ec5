"""How columns of the data are written: whole numbers, decimals, dates. Stored in the model, for rows that it draws."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from deciban.reading.native import decimals

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS_LOOKED_AT = 10_000
DATE, TIME = "date", "time"


def column_forms(table: pa.Table) -> dict[str, int | str]:
    """The form of each column of numbers or dates: how many decimals, "date" or "time".

    Numbers with more decimals than people write have no form.
    """
    import pyarrow as pa

    from deciban.reading.arrow import floats

    forms: dict[str, int | str] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_integer(kind):
            forms[name] = 0
        elif pa.types.is_floating(kind):
            places = decimals(floats(column.slice(0, MAX_ROWS_LOOKED_AT)))
            forms |= {} if places is None else {name: places}
        elif pa.types.is_date(kind):
            forms[name] = DATE
        elif pa.types.is_timestamp(kind):
            forms[name] = TIME
    return forms


def in_form(values: list[Any], form: int | str | None) -> list[Any]:
    """Values of a column in its form, None where missing."""
    if form is None:
        return values
    return [None if value is None or value != value else value_in_form(value, form) for value in values]


def value_in_form(value: Any, form: int | str) -> Any:
    """A number with this many decimals, a date, or a time to the second.

    Simple models learn dates as days since 1970.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(form, int):
        return (round(value, form) if form else round(value)) if is_number else value
    if is_number:
        value = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=value)
    if isinstance(value, datetime.datetime):
        value = (value + datetime.timedelta(milliseconds=500)).replace(microsecond=0)
        return value.date() if form == DATE else value
    return value
