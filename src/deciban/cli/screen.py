"""Rows of data on a terminal: as many columns as there is room for, each cell in one line."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from deciban.show import Table, one_line

if TYPE_CHECKING:
    import pyarrow as pa

LEAST = 12  # characters of a text that is cut short
BETWEEN = 3  # characters from one column to the next


def on_screen(table: pa.Table, title: str, first: Collection[str], width: int | None = None) -> Table:
    """Rows with their numbers; where not all columns fit, `first` those that were asked for."""
    from rich.cells import cell_len

    cells = {"row": [str(i + 1) for i in range(table.num_rows)]}
    right = ["row"]
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_pylist()
        cells[name] = [spelled(value, name in first) for value in values]
        if any(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            right.append(name)
    wanted = {name: max(map(cell_len, (one_line(name), *column))) for name, column in cells.items()}
    widths = fitting(wanted, ("row", *first), width or shutil.get_terminal_size().columns)
    left = len(wanted) - len(widths)
    if left:
        title += f" ({left} more column{'s' * (left > 1)})"
    rows = [tuple(short(cells[name][i], widths[name]) for name in widths) for i in range(table.num_rows)]
    return Table(title, tuple(widths), rows, right=tuple(right))


def fitting(wanted: dict[str, int], first: Collection[str], width: int) -> dict[str, int]:
    """Columns that fit, in their order, with what each gets: what it wants, or less of a long text.

    >>> fitting({"row": 3, "text": 70, "age": 3, "answer": 6}, ("row", "answer"), 60)
    {'row': 3, 'text': 35, 'age': 3, 'answer': 6}
    >>> fitting({"row": 3, "text": 70, "age": 3, "answer": 6}, ("row", "answer"), 20)
    {'row': 3, 'answer': 6}
    """
    room, given = width - 1, {}
    for name in sorted(wanted, key=lambda name: name not in first):
        least = max(len(one_line(name)), min(wanted[name], LEAST))
        if least + BETWEEN <= room:
            given[name], room = least, room - least - BETWEEN
    while room > 0 and (short_of := [name for name in given if given[name] < wanted[name]]):
        given[min(short_of, key=given.__getitem__)] += 1
        room -= 1
    return {name: given[name] for name in wanted if name in given}


def spelled(value: Any, answer: bool) -> str:
    """A cell: as data are written, or rounded where it is an answer."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4f}" if answer else f"{value:.0f}" if 1e7 <= abs(value) < 1e15 else f"{value:.7g}"
    return one_line(str(value))


def short(text: str, width: int) -> str:
    from rich.text import Text

    cut = Text(text)
    cut.truncate(width, overflow="ellipsis")
    return cut.plain
