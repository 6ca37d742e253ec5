"""Results render themselves: plain text, a terminal in colour, a notebook, a data frame."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows under named columns.

    >>> Table("counts", ("word", "n"), [("spam", 3), ("ham", 12)])
    counts
    word   n
    spam   3
    ham   12
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    most: int = 60  # rows shown; all of them are in `rows`

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: [row[i] for row in self.rows] for i, name in enumerate(self.columns)}

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency)."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        cells = [self.columns, *self._cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = [self.title]
        for row in cells:
            aligned = [
                cell.rjust(width) if self._numeric(i) else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(aligned).rstrip())
        return "\n".join([*lines, *self._more()])

    def __rich__(self) -> RichTable:
        from rich.table import Table as RichTable
        from rich.text import Text

        # Cells may look like markup: they are not.
        table = RichTable(title=Text(self.title), title_justify="left", caption=" ".join(self._more()) or None)
        for i, name in enumerate(self.columns):
            table.add_column(Text(name), justify="right" if self._numeric(i) else "left")
        for row in self._cells():
            table.add_row(*map(Text, row))
        return table

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._cells()
        )
        more = "".join(f"<p>{html.escape(line)}</p>" for line in self._more())
        return f"<table><caption>{html.escape(self.title)}</caption><tr>{head}</tr>{body}</table>{more}"

    def _cells(self) -> list[tuple[str, ...]]:
        return [tuple(_cell(value) for value in row) for row in self.rows[: self.most]]

    def _more(self) -> list[str]:
        left = len(self.rows) - self.most
        return [f"… and {left} more rows"] if left > 0 else []

    def _numeric(self, column: int) -> bool:
        return bool(self.rows) and all(isinstance(row[column], int | float) for row in self.rows[: self.most])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return visible(str(value))


def visible(text: str) -> str:
    """Text as it can be shown: a control character, which could steer a terminal, as its picture.

    >>> visible("red\x1b[31m")
    'red␛[31m'
    """
    return text.translate(PICTURES)


PICTURES = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"},
    0x7F: "␡",
    **dict.fromkeys(range(0x80, 0xA0), "�"),
}


def plain(value: Any) -> Any:
    """NumPy scalars as Python's own, so that they print and serialise as what they are."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, float], None]]:
    """Show steps and a likelihood on a terminal while they come; stay quiet in a pipe."""
    if not sys.stderr.isatty():
        yield lambda step, total: None  # noqa: ARG005 - nobody watches
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda step, total: bar.update(task, description=f"{what}: step {step}, {total:.6g} nats")
