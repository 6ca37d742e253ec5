"""Results render themselves: plain text, a terminal in colour, a notebook, a data frame, a picture."""

from __future__ import annotations

import html
import importlib
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from deciban.errors import DecibanError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

WIDTH = 80  # characters of a line of prose in plain text
NARROWEST = 8  # characters a column of text is folded to, at least
COLOURS = {"green": "#1a7f37", "red": "#cf222e"}  # a terminal's names of colours, and a page's

# Of pictures: hues that stay apart for colour-blind eyes and in grey (after Okabe and Ito).
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9")
FOR, AGAINST, NEITHER = PALETTE[0], PALETTE[1], "#8c8c8c"
BARS = 30  # of a picture of a table


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows under named columns.

    Whatever is in a title, a heading or a cell is shown and never obeyed: neither control characters nor markup are.

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
    width: int | None = None  # characters of a line of plain text, to which the longest texts are folded
    right: tuple[str, ...] = ()  # columns of text that stand to the right, as those of numbers do
    colours: Sequence[str] = ()  # of rows: "green", "red" or ""

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: [plain(row[i]) for row in self.rows] for i, name in enumerate(self.columns)}

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency)."""
        return optional("pandas", "to_frame").DataFrame(self.to_dict())

    def plot(self, ax: Any = None, column: str | None = None) -> Any:
        """Bars of a column of numbers, with matplotlib (an optional dependency); returns the axes.

        Without `column`, of the last one that has numbers. A bar is called by its row's texts; where the first of
        several texts repeats, as a class does over its words, it is the bars' colour instead.
        """
        said = self.to_dict()
        found = [name for name, values in said.items() if numbers(values)]
        if column is None and not found:
            raise DecibanError(f"the table {self.title!r} has no column of numbers, so there is nothing to draw")
        if column is not None and column not in found:
            raise DecibanError(f"there is no column of numbers {column!r}: there are {', '.join(found) or 'none'}")
        drawn = found[-1] if column is None else column
        texts = [name for name in self.columns if name not in found]
        group = texts[0] if len(texts) > 1 and len(set(said[texts[0]])) < len(self.rows) else None
        groups = said[group] if group else [""] * len(self.rows)
        shown = [i for i, value in enumerate(said[drawn]) if value is not None and not math.isnan(value)][:BARS]
        names = [" ".join(_cell(said[name][i]) for name in texts if name != group) or str(i) for i in shown]
        colours = {key: colour(i) for i, key in enumerate(dict.fromkeys(groups))}
        ax = axes(ax, len(shown))
        bars(ax, names, [float(said[drawn][i]) for i in shown], [colours[groups[i]] for i in shown])
        ax.set_xlabel(label(drawn))
        if len(shown) < len(self.rows):
            ax.set_title(f"{len(shown)} of {len(self.rows)} rows", fontsize="medium", loc="left")
        if len(colours) > 1:
            patch = optional("matplotlib.patches", "plot").Patch
            key = [patch(color=shade, label=label(_cell(name))) for name, shade in colours.items()]
            ax.legend(handles=key, title=label(group), frameon=False)
        return ax

    def __repr__(self) -> str:
        cells, right = [self._head(), *self._cells()], self._to_the_right()
        widths = self._widths(cells, right)
        title = one_line(self.title)
        lines = folded(title, self.width or len(title)) if title else []
        for row in cells:
            for parts in zip_longest(*map(folded, row, widths), fillvalue=""):
                aligned = [
                    part.rjust(width) if side else part.ljust(width)
                    for part, width, side in zip(parts, widths, right, strict=True)
                ]
                lines.append("  ".join(aligned).rstrip())
        return "\n".join([*lines, *self._more()])

    def __rich__(self) -> RichTable | Group:
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        # Cells may look like markup: they are not.
        table = RichTable(caption=" ".join(self._more()) or None)
        for name, side in zip(self._head(), self._to_the_right(), strict=True):
            table.add_column(Text(name), justify="right" if side else "left")
        for i, row in enumerate(self._cells()):
            table.add_row(*map(Text, row), style=self._colour(i))
        # A title of rich's own is folded to the width of its table, which may be narrow.
        return Group(Text(one_line(self.title), "italic"), table) if self.title else table

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._head())
        rows = []
        for i, row in enumerate(self._cells()):
            colour = COLOURS.get(self._colour(i) or "")
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
            rows.append(f"<tr style='color:{colour}'>{cells}</tr>" if colour else f"<tr>{cells}</tr>")
        more = "".join(f"<p>{html.escape(line)}</p>" for line in self._more())
        title = f"<caption>{html.escape(one_line(self.title))}</caption>" if self.title else ""
        return f"<table>{title}<tr>{head}</tr>{''.join(rows)}</table>{more}"

    def _head(self) -> tuple[str, ...]:
        return tuple(map(one_line, self.columns))

    def _cells(self) -> list[tuple[str, ...]]:
        return [tuple(map(_cell, row)) for row in self.rows[: self.most]]

    def _more(self) -> list[str]:
        left = len(self.rows) - self.most
        return [f"… and {left} more rows"] if left > 0 else []

    def _widths(self, cells: list[tuple[str, ...]], right: list[bool]) -> list[int]:
        """The columns' widths: as their cells are, or less where a line would be too long and texts can be folded."""
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        texts = [i for i, side in enumerate(right) if not side]
        if self.width is None:
            return widths
        for i in texts:
            widths[i] = min(widths[i], self.width)
        while sum(widths) + 2 * (len(widths) - 1) > self.width:
            widest = max(texts, key=lambda i: widths[i], default=None)
            if widest is None or widths[widest] <= NARROWEST:
                break
            widths[widest] -= 1
        return widths

    def _to_the_right(self) -> list[bool]:
        """Which columns stand to the right: those of numbers, and those that are to."""
        return [
            name in self.right or numbers([plain(row[i]) for row in self.rows[: self.most]])
            for i, name in enumerate(self.columns)
        ]

    def _colour(self, row: int) -> str | None:
        return self.colours[row] if row < len(self.colours) and self.colours[row] else None


class Result:
    """What was found out, shown alike everywhere: as its table, or as several of them with sentences between.

    A dataclass that inherits says `repr=False`, so that this is how it prints.
    """

    __slots__ = ()

    def to_table(self) -> Table:
        raise TypeError("a result says what its table is")

    def _parts(self) -> Sequence[Table | str]:
        return [self.to_table()]

    def __repr__(self) -> str:
        parts = [
            textwrap.fill(one_line(part), WIDTH) if isinstance(part, str) else repr(part) for part in self._parts()
        ]
        return "\n\n".join(parts)

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        parts: list[Text | RichTable | Group] = []
        for part in self._parts():
            parts += [Text(), Text(one_line(part)) if isinstance(part, str) else part.__rich__()]
        return Group(*parts[1:])

    def _repr_html_(self) -> str:
        parts = [
            f"<p>{html.escape(one_line(part))}</p>" if isinstance(part, str) else part._repr_html_()
            for part in self._parts()
        ]
        return "".join(parts)


def _cell(value: Any) -> str:
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, float):
        return number(value)
    return one_line(str(value))


def number(value: float) -> str:
    """A number to four digits, or to the whole: 22,263.4 is not 2.226e+04 to anybody. What is not known is a dash.

    >>> number(1 / 3), number(22_263.4), number(1e20), number(math.nan)
    ('0.3333', '22263', '1e+20', '–')
    """
    if math.isnan(value):
        return "–"
    return f"{value:.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"


def numbers(values: Sequence[Any]) -> bool:
    """Whether these are numbers, with some missing perhaps."""
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in there)


def folded(cell: str, width: int) -> list[str]:
    """A cell's lines."""
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width)


def one_line(text: str) -> str:
    """Text as it can be shown in a line: `visible`, and so are its ends of lines and tabs."""
    return visible(text).translate(BREAKS)


def visible(text: str) -> str:
    """Text as it can be shown: a control character, which could steer a terminal, as its picture.

    So with marks that turn the direction of writing, under which a word can pass for another, and with halves of
    characters, which no terminal can be sent.

    >>> visible("red\x1b[31m")
    'red␛[31m'
    """
    return text.translate(PICTURES)


def without_secrets(text: str) -> str:
    """Addresses without the user and the password that may be in them.

    >>> without_secrets("s3://me:secret@bucket/day.csv")
    's3://…@bucket/day.csv'
    """
    return re.sub(r"(\w://)[^/\s@]*@", r"\1…@", text)


PICTURES = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"},
    0x7F: "␡",
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)], "�"),
}
BREAKS = {ord("\t"): "␉", ord("\n"): "␊", 0x2028: "␊", 0x2029: "␊"}


def plain(value: Any) -> Any:
    """NumPy scalars as Python's own, so that they print and serialise as what they are."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


def optional(module: str, what: str) -> Any:
    """A library that not everybody has, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        raise ImportError(
            f"{what} needs {name}, which is not installed: pip install 'deciban[all]', or {name} by itself"
        ) from error


def axes(ax: Any = None, lines: int = 0) -> Any:
    """Where to draw with matplotlib (an optional dependency): as given, or new axes, high enough for lines of text."""
    if ax is not None:
        return ax
    plt = optional("matplotlib.pyplot", "plot")
    ax = plt.subplots(figsize=(6.4, max(4.8, 1.2 + 0.25 * lines)), layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_prop_cycle(color=PALETTE)
    return ax


def colour(i: int) -> str:
    """The i-th class's colour in every picture."""
    return PALETTE[i % len(PALETTE)]


def label(text: Any) -> str:
    """Text as matplotlib shows it: $ is money, not mathematics, and its font has no pictures of control characters."""
    return one_line(str(text)).translate(dict.fromkeys(range(0x2400, 0x2440), "�")).replace("$", r"\$")


def bars(ax: Any, names: Sequence[str], values: Sequence[float], colours: Sequence[str]) -> None:
    """Bars from the top down, each with its name. An infinite one is longer than all others, and says so."""
    finite = [abs(value) for value in values if abs(value) < float("inf")]
    longest = 1.2 * max(finite, default=0.0) or 1.0
    lengths = [max(-longest, min(longest, value)) for value in values]
    ax.barh(range(len(names)), lengths, color=colours)
    for i, (value, length) in enumerate(zip(values, lengths, strict=True)):
        if abs(value) == float("inf"):
            ax.annotate("∞" if value > 0 else "−∞", (length, i), va="center", ha="right" if value > 0 else "left")
    ax.set_yticks(range(len(names)), labels=list(map(label, names)))
    ax.invert_yaxis()


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


@contextmanager
def bar(what: str, total: int | None, unit: str = "bytes") -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, told how much is done so far, in bytes or in other things; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda done: None  # noqa: ARG005 - nobody watches
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    amount = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(), TextColumn(unit))
    columns = (TextColumn("{task.description}"), BarColumn(), *amount, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.update(task, completed=done)
