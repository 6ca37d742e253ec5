"""Results that render themselves: as text, in colour on a terminal, in a notebook, as a data frame, as a picture."""

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
from typing import TYPE_CHECKING, Any, Self

from deciban.errors import DecibanError
from deciban.notebook import drawn, in_notebook

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

WIDTH = 80  # characters per line of prose in plain text
MIN_COLUMN_WIDTH = 8  # characters; text columns are wrapped to no less
COLOURS = {"green": "#1a7f37", "red": "#cf222e"}  # terminal colour names → colours in HTML

# For pictures: colours that colour-blind readers can distinguish, also in grey (after Okabe and Ito).
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9")
FOR, AGAINST, NEITHER = PALETTE[0], PALETTE[1], "#8c8c8c"
MAX_BARS = 30  # in a plot of a table
MAX_VALUE_CHARACTERS = 12  # of a number of the data; longer ones are rounded
BAR_CELLS = 20  # characters of the longest bars on both sides of the middle line, together
EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows under named columns.

    Control characters and markup in a title, a heading or a cell are shown, never interpreted.

    >>> Table("counts", ("word", "n"), [("spam", 3), ("ham", 12)])
    counts
    word   n
    spam   3
    ham   12
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    most: int = 60  # rows shown
    width: int | None = None  # characters per line of plain text, to which long texts are wrapped
    right: tuple[str, ...] = ()  # columns of text to right-align, like numbers
    colours: Sequence[str] = ()  # per row: "green", "red" or ""

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: [plain(row[i]) for row in self.rows] for i, name in enumerate(self.columns)}

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency)."""
        return optional("pandas", "to_frame").DataFrame(self.to_dict())

    def plot(self, ax: Any = None, column: str | None = None) -> Any:
        """Bars of a column of numbers, with matplotlib (an optional dependency); returns the axes.

        Without `column`, the last column of numbers is drawn. A bar is labelled by its row's texts; if the first of
        several text columns has repeated values, such as classes, it sets the colours instead.
        """
        columns = self.to_dict()
        number_columns = [name for name, values in columns.items() if all_numbers(values)]
        if column is None and not number_columns:
            raise DecibanError(f"the table {self.title!r} has no column of numbers, so there is nothing to draw")
        if column is not None and column not in number_columns:
            raise DecibanError(
                f"there is no column of numbers {column!r}: there are {', '.join(number_columns) or 'none'}"
            )
        plotted = number_columns[-1] if column is None else column
        text_columns = [name for name in self.columns if name not in number_columns]
        group_column = (
            text_columns[0] if len(text_columns) > 1 and len(set(columns[text_columns[0]])) < len(self.rows) else None
        )
        groups = columns[group_column] if group_column else [""] * len(self.rows)
        shown = [i for i, value in enumerate(columns[plotted]) if value is not None and not math.isnan(value)][
            :MAX_BARS
        ]
        names = [
            " ".join(_cell(columns[name][i]) for name in text_columns if name != group_column) or str(i) for i in shown
        ]
        colours = {name: colour(i) for i, name in enumerate(dict.fromkeys(groups))}
        ax = axes(ax, len(shown))
        bars(ax, names, [float(columns[plotted][i]) for i in shown], [colours[groups[i]] for i in shown])
        ax.set_xlabel(label(plotted))
        if len(shown) < len(self.rows):
            ax.set_title(f"{len(shown)} of {len(self.rows)} rows", fontsize="medium", loc="left")
        if len(colours) > 1:
            patch = optional("matplotlib.patches", "plot").Patch
            legend_entries = [patch(color=shade, label=label(_cell(name))) for name, shade in colours.items()]
            ax.legend(handles=legend_entries, title=label(group_column), frameon=False)
        return ax

    def __repr__(self) -> str:
        cells, right = [self._head(), *self._cells()], self._right_aligned()
        widths = self._widths(cells, right)
        title = one_line(self.title)
        lines = wrapped(title, self.width or len(title)) if title else []
        for row in cells:
            for parts in zip_longest(*map(wrapped, row, widths), fillvalue=""):
                aligned = [
                    part.rjust(width) if side else part.ljust(width)
                    for part, width, side in zip(parts, widths, right, strict=True)
                ]
                lines.append("  ".join(aligned).rstrip())
        return "\n".join([*lines, *self._hidden_rows_note()])

    def __rich__(self) -> RichTable | Group:
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        # Text, so that cells are not parsed as markup.
        table = RichTable(caption=" ".join(self._hidden_rows_note()) or None)
        for name, side in zip(self._head(), self._right_aligned(), strict=True):
            table.add_column(Text(name), justify="right" if side else "left")
        for i, (row, values) in enumerate(zip(self._cells(), self.rows, strict=False)):
            cells = (value if isinstance(value, Bar) else Text(cell) for cell, value in zip(row, values, strict=True))
            table.add_row(*cells, style=self._colour(i))
        # Rich would wrap its own title to the width of the table, which may be narrow.
        return Group(Text(one_line(self.title), "italic"), table) if self.title else table

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._head())
        rows, right = [], self._right_aligned()
        for i, (row, values) in enumerate(zip(self._cells(), self.rows, strict=False)):
            colour = COLOURS.get(self._colour(i) or "")
            cells = "".join(
                f"<td{' style=text-align:right' * side}>"
                f"{value._repr_html_() if isinstance(value, Bar) else html.escape(cell)}</td>"
                for cell, value, side in zip(row, values, right, strict=True)
            )
            rows.append(f"<tr style='color:{colour}'>{cells}</tr>" if colour else f"<tr>{cells}</tr>")
        more = "".join(f"<p>{html.escape(line)}</p>" for line in self._hidden_rows_note())
        title = f"<caption>{html.escape(one_line(self.title))}</caption>" if self.title else ""
        return f"<table>{title}<tr>{head}</tr>{''.join(rows)}</table>{more}"

    def _head(self) -> tuple[str, ...]:
        return tuple(map(one_line, self.columns))

    def _cells(self) -> list[tuple[str, ...]]:
        return [tuple(map(_cell, row)) for row in self.rows[: self.most]]

    def _hidden_rows_note(self) -> list[str]:
        hidden = len(self.rows) - self.most
        return [f"… and {hidden} more row{'s' * (hidden > 1)}"] if hidden > 0 else []

    def _widths(self, cells: list[tuple[str, ...]], right: list[bool]) -> list[int]:
        """The width of each column: that of its cells, or less if lines are too long and its texts can be wrapped."""
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        texts = [i for i, side in enumerate(right) if not side]
        if self.width is None:
            return widths
        for i in texts:
            widths[i] = min(widths[i], self.width)
        while sum(widths) + 2 * (len(widths) - 1) > self.width:
            widest = max(texts, key=lambda i: widths[i], default=None)
            if widest is None or widths[widest] <= MIN_COLUMN_WIDTH:
                break
            widths[widest] -= 1
        return widths

    def _right_aligned(self) -> list[bool]:
        """Which columns are right-aligned: numbers, and those in `right`."""
        return [
            name in self.right or all_numbers([plain(row[i]) for row in self.rows[: self.most]])
            for i, name in enumerate(self.columns)
        ]

    def _colour(self, row: int) -> str | None:
        return self.colours[row] if row < len(self.colours) and self.colours[row] else None


class Bar(str):
    """A bar on either side of a middle line, in plain signs; on a terminal that has them, in blocks.

    >>> signed_bars([3.0, -1.0])
    ['     |+++++++++++++++', '-----|']
    """

    __slots__ = ("left", "length", "right")
    length: float  # in cells, negative to the left
    left: int  # cells on this side of the middle line
    right: int

    def __new__(cls, length: float, left: int, right: int) -> Self:
        cells = min(round(abs(length)), right if length > 0 else left)
        signs = " " * left + "|" + "+" * cells if length > 0 else " " * (left - cells) + "-" * cells + "|"
        bar = super().__new__(cls, signs)
        bar.length, bar.left, bar.right = length, left, right
        return bar

    def blocks(self) -> str:
        """The same in blocks: to an eighth of a cell on the right, to half a cell on the left."""
        if self.length > 0:
            whole, eighths = divmod(round(self.length * 8), 8)
            return (" " * self.left + "│" + "█" * whole + EIGHTHS[eighths]).rstrip()
        whole, halves = divmod(round(-self.length * 2), 2)
        return ("▐" * halves + "█" * whole).rjust(self.left) + "│"

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        del console
        yield Text(str(self) if options.ascii_only else self.blocks(), no_wrap=True, overflow="crop")

    def __rich_measure__(self, console: Any, options: Any) -> Any:
        from rich.measure import Measurement

        del console, options
        return Measurement(len(self), self.left + 1 + self.right)

    def _repr_html_(self) -> str:
        cells = self.left + self.right
        middle = 100.0 * self.left / cells
        start, end = sorted((middle, middle + 100.0 * self.length / cells))
        drawn = f"linear-gradient(to right,transparent {start:.1f}%,currentColor {start:.1f}% {end:.1f}%,transparent 0)"
        edges = f"calc({middle:.1f}% - .5px),currentColor calc({middle:.1f}% - .5px) calc({middle:.1f}% + .5px)"
        line = f"linear-gradient(to right,transparent {edges},transparent 0)"
        return f"<span style='display:inline-block;width:14em;height:.8em;background:{line},{drawn}'></span>"


def signed_bars(values: Sequence[float], cells: int = BAR_CELLS) -> list[Bar]:
    """A bar for each value, all on one scale: the longest ones of both sides take all cells. Infinite ones are as long
    as the longest."""
    longest = max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0
    lengths = [max(-longest, min(longest, value)) for value in values]
    low, high = max(0.0, -min(lengths, default=0.0)), max(0.0, *lengths, 0.0)
    left = min(max(round(cells * low / (low + high or 1.0)), int(low > 0)), cells - int(high > 0))
    scale = min(side / size for side, size in ((left, low), (cells - left, high)) if size) if low or high else 0.0
    return [Bar(length * scale, left, cells - left) for length in lengths]


class Result:
    """Base of results: rendered as one table, or as several with sentences between.

    Dataclasses that inherit need `repr=False`, to print this way.
    """

    __slots__ = ()

    def to_table(self) -> Table:
        raise TypeError("a result must define its table")

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
    """A number to four digits, or rounded to an integer: 22263, not 2.226e+04. NaN is a dash.

    >>> number(1 / 3), number(22_263.4), number(1e20), number(math.nan), number(-math.inf)
    ('0.3333', '22263', '1e+20', '–', '−∞')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value + 0.0:.4g}"  # −0 becomes 0


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign, such as decibans; what rounds to zero has none.

    >>> signed(3.0), signed(-0.04), signed(-0.04, 2), signed(-math.inf)
    ('+3.0', '0.0', '-0.04', '-∞')
    """
    nearest = round(value, digits) if math.isfinite(value) else value
    return f"{nearest:+.{digits}f}".replace("inf", "∞") if nearest else f"{0.0:.{digits}f}"


def value_text(value: float) -> str:
    """A number of the data as its owner would write it: all of its digits, unless they are the noise of arithmetic.

    >>> value_text(123456.78), value_text(35.0), value_text(0.1 + 0.2), value_text(1 / 3), value_text(-0.0)
    ('123456.78', '35', '0.3', '0.33333333', '0')
    """
    if not math.isfinite(value):
        return number(value)
    written = repr(value + 0.0).removesuffix(".0")
    return written if len(written) <= MAX_VALUE_CHARACTERS else f"{value:.8g}"


def all_numbers(values: Sequence[Any]) -> bool:
    """Whether all values but None are numbers, and there is one."""
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)


def wrapped(cell: str, width: int) -> list[str]:
    """A cell wrapped into lines."""
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width)


def one_line(text: str) -> str:
    """Text for one line: `visible`, with line breaks and tabs as symbols too."""
    return visible(text).translate(LINE_BREAK_PICTURES)


def visible(text: str) -> str:
    """Text that is safe to print: control characters, which could control a terminal, as symbols.

    So are marks that change the writing direction, which can disguise words, and lone surrogates, which cannot be
    encoded.

    >>> visible("red\x1b[31m")
    'red␛[31m'
    """
    return text.translate(CONTROL_PICTURES)


def without_secrets(text: str) -> str:
    """URLs without user name and password.

    >>> without_secrets("s3://me:secret@bucket/day.csv")
    's3://…@bucket/day.csv'
    """
    return re.sub(r"(\w://)[^/\s@]*@", r"\1…@", text)


CONTROL_PICTURES = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"},
    0x7F: "␡",
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)], "�"),
}
LINE_BREAK_PICTURES = {ord("\t"): "␉", ord("\n"): "␊", 0x2028: "␊", 0x2029: "␊"}


def plain(value: Any) -> Any:
    """NumPy scalars as Python values, so that they print and serialise well."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


def optional(module: str, what: str) -> Any:
    """An optional dependency, or an error that explains how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        raise ImportError(
            f"{what} needs {name}, which is not installed: pip install 'deciban[all]', or only {name}"
        ) from error


def axes(ax: Any = None, lines: int = 0) -> Any:
    """The given axes of matplotlib (an optional dependency), or new ones, high enough for `lines` lines of text."""
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
    """Text for matplotlib: $ is escaped, and symbols of control characters, which its font lacks, are replaced."""
    return one_line(str(text)).translate(dict.fromkeys(range(0x2400, 0x2440), "�")).replace("$", r"\$")


def bars(ax: Any, names: Sequence[str], values: Sequence[float], colours: Sequence[str]) -> None:
    """Horizontal bars from the top down, each with its name. Infinite ones are longer than all others, and marked ∞."""
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
    """Show steps and their log-likelihood on a terminal or in a notebook; nothing in a pipe."""
    if in_notebook():
        with drawn() as draw:
            yield lambda step, total: draw(f"{what}: step {step}, {total:.6g} nats", None)
        return
    if not sys.stderr.isatty():
        yield lambda step, total: None  # noqa: ARG005 - no terminal
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda step, total: bar.update(task, description=f"{what}: step {step}, {total:.6g} nats")


@contextmanager
def bar(what: str, total: int | None, unit: str = "bytes") -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal or in a notebook; yields a function that takes the amount done so far.

    Nothing is shown in a pipe, nor if there is nothing to do.
    """
    if total != 0 and in_notebook():
        scale, name = (1e-6, "MB") if unit == "bytes" else (1, unit)
        of_all = "" if total is None else f" of {total * scale:.5g}"
        with drawn() as draw:
            yield lambda done: draw(f"{what}: {done * scale:.5g}{of_all} {name}", done / total if total else None)
        return
    if not sys.stderr.isatty() or total == 0:
        yield lambda done: None  # noqa: ARG005 - no terminal
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
