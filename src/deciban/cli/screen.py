"""Rows of data on a terminal: as many columns as fit, one line per row."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from deciban.show import Table, one_line

if TYPE_CHECKING:
    import pyarrow as pa

MIN_TEXT_WIDTH = 12  # characters that a truncated text keeps at least
COLUMN_GAP = 3  # characters between columns


def screen_table(table: pa.Table, title: str, preferred: Collection[str], width: int | None = None) -> Table:
    """Numbered rows; if not all columns fit, the `preferred` ones come first."""
    from rich.cells import cell_len

    cells = {"row": [str(i + 1) for i in range(table.num_rows)]}
    right = ["row"]
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_pylist()
        cells[name] = [cell_text(value, name in preferred) for value in values]
        if any(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            right.append(name)
    full_widths = {name: max(map(cell_len, (one_line(name), *column))) for name, column in cells.items()}
    widths = fit_columns(full_widths, ("row", *preferred), width or shutil.get_terminal_size().columns)
    hidden = len(full_widths) - len(widths)
    if hidden:
        title += f" ({hidden} more column{'s' * (hidden > 1)})"
    rows = [tuple(truncated(cells[name][i], widths[name]) for name in widths) for i in range(table.num_rows)]
    return Table(title, tuple(widths), rows, right=tuple(right))


def fit_columns(full_widths: dict[str, int], preferred: Collection[str], width: int) -> dict[str, int]:
    """The columns that fit, in their order, with the width of each: its full width, or less for long texts.

    >>> fit_columns({"row": 3, "text": 70, "age": 3, "answer": 6}, ("row", "answer"), 60)
    {'row': 3, 'text': 35, 'age': 3, 'answer': 6}
    >>> fit_columns({"row": 3, "text": 70, "age": 3, "answer": 6}, ("row", "answer"), 20)
    {'row': 3, 'answer': 6}
    """
    free, widths = width - 1, {}
    for name in sorted(full_widths, key=lambda name: name not in preferred):
        min_width = max(len(one_line(name)), min(full_widths[name], MIN_TEXT_WIDTH))
        if min_width + COLUMN_GAP <= free:
            widths[name], free = min_width, free - min_width - COLUMN_GAP
    while free > 0 and (too_narrow := [name for name in widths if widths[name] < full_widths[name]]):
        widths[min(too_narrow, key=widths.__getitem__)] += 1
        free -= 1
    return {name: widths[name] for name in full_widths if name in widths}


def cell_text(value: Any, is_prediction: bool) -> str:
    """A cell as text: a number in full, or to four decimals if it is a prediction."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4f}" if is_prediction else f"{value:.0f}" if 1e7 <= abs(value) < 1e15 else f"{value:.7g}"
    return one_line(str(value))


def truncated(text: str, width: int) -> str:
    from rich.text import Text

    cut = Text(text)
    cut.truncate(width, overflow="ellipsis")
    return cut.plain
