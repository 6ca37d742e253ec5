"""Importance: the evidence of every column or word, in decibans, on average over rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from deciban.errors import DecibanError, FileError
from deciban.results.evidence import CONSTANTS, MEANINGS, MIN_DECIBANS_EXPLAINED
from deciban.show import AGAINST, FOR, Result, Table, axes, bars, colour, label, plain, signed

MAX_BARS = 20  # of a picture
MAX_ITEMS_IN_BRIEF = 12
MAX_CLASSES_IN_TABLE = 3  # with more, the table has no columns by class
ROWS_FOR_TWO, ROWS_FOR_THREE = 20, 100  # from this many rows on, values of one row, and of two, are not listed
ROWS_LEFT_OUT, NEW_ROWS = "left out of the sums", "that were not learned"  # how rows were evaluated


class Item(NamedTuple):
    """A column's or word's evidence for the true class over the most probable other class, in decibans."""

    name: str
    size: float  # the mean of |dB| over all rows
    decibans: float  # the mean of dB: positive if it is evidence for the truth
    by_class: tuple[float, ...]  # the same over the rows of each class
    rows: int  # that have it


class Point(NamedTuple):
    """A value of a column, or several neighbouring ones, and their mean evidence for each class against the others."""

    value: str
    at: float | None  # the mean, of numbers
    rows: int
    decibans: tuple[float, ...]


class Curve(NamedTuple):
    """The evidence of a column against its value. A word has a single point: that it is present."""

    name: str
    points: tuple[Point, ...]

    @property
    def is_number(self) -> bool:
        return any(point.at is not None for point in self.points)


class ActingPair(NamedTuple):
    """Two columns that act together: the first one's evidence for the same value differs by the second."""

    first: str
    second: str
    decibans: float  # the standard deviation that the second explains


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Importance(Result):
    """What decides: the mean evidence of every column or word over rows, on the scale of `explain`, in decibans (dB).

    Each row's evidence is that for its true class over the most probable other class. `items` are ranked by the mean of
    |dB|; the mean of dB is positive if an item is evidence for the truth. `curves` have the evidence by value, for each
    of `sides` against the mean of the other classes; of two classes, for the second over the first. `classes` and
    `sides` are at most six, the largest.

    >>> items = (Item("age", 3.0, 2.0, (1.0, 3.0), 200), Item("town", 0.5, -0.1, (0.0, -0.2), 200))
    >>> Importance("column", 200, ROWS_LEFT_OUT, ("no", "yes"), ("yes",), items)
    importance: mean evidence by column, over 200 rows left out of the sums
    column  |dB|    dB  dB, no  dB, yes
    age      3.0  +2.0    +1.0     +3.0
    town     0.5  -0.1     0.0     -0.2
    """

    what: str  # "column" or "word"
    rows: int
    how: str  # how rows were evaluated
    classes: tuple[Any, ...]
    sides: tuple[Any, ...]  # the classes that curves are evidence for
    items: tuple[Item, ...]
    curves: tuple[Curve, ...] = ()
    pairs: tuple[ActingPair, ...] = ()

    @property
    def ranked(self) -> tuple[Item, ...]:
        """The items that differ between rows: all but the constants of a text model."""
        return tuple(item for item in self.items if item.name not in CONSTANTS)

    @property
    def least_rows(self) -> int:
        """How many rows must have a value for it to be listed among the strongest."""
        return 1 + (self.rows >= ROWS_FOR_TWO) + (self.rows >= ROWS_FOR_THREE)

    def only(self, names: Collection[str]) -> Importance:
        """The same for only these items."""
        keep = set(names)
        items = tuple(item for item in self.items if item.name in keep)
        if len(items) == len(self.items):
            return self
        return replace(self, items=items, curves=tuple(curve for curve in self.curves if curve.name in keep))

    def curve(self, name: str) -> Curve:
        """The evidence of a column by value."""
        found = [curve for curve in self.curves if curve.name == name]
        if not found:
            raise DecibanError("there is no curve of {column!r} among those of importance", column=name)
        return found[0]

    def strongest(self, target: Any, most: int) -> list[tuple[str, float, int]]:
        """The values or words with the strongest evidence for a class: name, decibans, and number of rows."""
        if target in self.sides:
            at, sign = self.sides.index(target), 1.0
        elif len(self.sides) == 1 and target in self.classes:  # the first of two
            at, sign = 0, -1.0
        else:
            return []
        found = [
            (f"{curve.name} = {point.value}" if point.value else curve.name, sign * point.decibans[at], point.rows)
            for curve in self.curves
            for point in curve.points
            if point.rows >= self.least_rows
        ]
        return sorted((one for one in found if one[1] > 0), key=lambda one: -one[1])[:most]

    def to_table(self, most: int = 60) -> Table:
        sparse = any(item.rows < self.rows for item in self.ranked)
        shown = self.classes if len(self.classes) <= MAX_CLASSES_IN_TABLE else ()
        head = (self.what, "|dB|", "dB", *(f"dB, {plain(c)}" for c in shown), *(("rows",) if sparse else ()))
        rows = [
            (
                item.name,
                f"{item.size:.1f}",
                signed(item.decibans),
                *map(signed, item.by_class[: len(shown)]),
                *((item.rows,) if sparse else ()),
            )
            for item in self.ranked
        ]
        return Table(self._title(), head, rows, most, right=head[1:])

    def _title(self) -> str:
        return f"importance: mean evidence by {self.what}, over {self.rows:,} rows {self.how}"

    def _parts(self) -> list[Table | str]:
        return self.brief(60)

    def brief(self, most: int = MAX_ITEMS_IN_BRIEF) -> list[Table | str]:
        """Only the most important items, to be shown above something else."""
        return [self.to_table(most), *self.sentences()]

    def sentences(self) -> list[str]:
        """Which columns act together, and what is the same in every row, and so not ranked."""
        constant = [
            f"{item.name}, {item.size:.1f} dB in every text: {MEANINGS[item.name]}"
            for item in self.items
            if item.name in CONSTANTS and item.size >= MIN_DECIBANS_EXPLAINED
        ]
        return [*map(pair_sentence, self.pairs), *constant]

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "rows": self.rows,
            "how": self.how,
            "classes": [plain(c) for c in self.classes],
            "sides": [plain(c) for c in self.sides],
            "items": [item._asdict() | {"by_class": list(item.by_class)} for item in self.items],
            "curves": [
                {"name": curve.name, "points": [p._asdict() | {"decibans": list(p.decibans)} for p in curve.points]}
                for curve in self.curves
            ],
            "pairs": [pair._asdict() for pair in self.pairs],
        }

    def to_frame(self) -> Any:
        """A pandas data frame of the items (an optional dependency)."""
        rows = [(item.name, item.size, item.decibans, item.rows) for item in self.items]
        return Table("", (self.what, "|dB|", "dB", "rows"), rows).to_frame()

    def plot(self, ax: Any = None, column: str | None = None) -> Any:
        """Bars of the mean of |dB|, or the curve of a column, with matplotlib (an optional dependency); returns the
        axes."""
        if column is not None:
            return self._plot_curve(ax, self.curve(column))
        shown = self.ranked[:MAX_BARS]
        ax = axes(ax, len(shown))
        colours = [FOR if item.decibans >= 0 else AGAINST for item in shown]
        bars(ax, [item.name for item in shown], [item.size for item in shown], colours)
        ax.set_xlabel("mean |evidence| (dB); blue: on average for the truth")
        return ax

    def _plot_curve(self, ax: Any, curve: Curve) -> Any:
        ax = axes(ax, len(curve.points))
        numbers = [point for point in curve.points if point.at is not None]
        points = numbers or list(curve.points)
        x = [point.at if point.at is not None else i for i, point in enumerate(points)]
        most = max(point.rows for point in points)
        for i, side in enumerate(self.sides):
            y = [point.decibans[i] for point in points]
            sizes = [10.0 + 50.0 * point.rows / most for point in points]
            if numbers:
                ax.plot(x, y, color=colour(i), linewidth=1)
            ax.scatter(x, y, sizes, color=colour(i), label=label(side))
        if not numbers:
            ax.set_xticks(x, labels=[label(point.value) for point in points], rotation=45, ha="right")
        ax.axhline(0.0, color="black", linewidth=0.8)
        ax.set_xlabel(label(curve.name))
        ax.set_ylabel("evidence (dB); larger dots: more rows")
        ax.legend(frameon=False)
        return ax


def pair_sentence(pair: ActingPair) -> str:
    """An explanation of two columns that act together."""
    return (
        f"{pair.first} and {pair.second} act together: for the same {pair.first}, its evidence varies by "
        f"±{pair.decibans:.1f} dB with {pair.second}."
    )


# ------------------------------------------------------------------ files


def packed(importance: Importance | None) -> list[Any] | None:
    """As lists for a file, without names that would repeat."""
    if importance is None:
        return None
    one = importance
    items = [[*item[:3], list(item.by_class), item.rows] for item in one.items]
    curves = [[curve.name, [[*point[:3], list(point.decibans)] for point in curve.points]] for curve in one.curves]
    return [
        one.what, one.rows, one.how, list(one.classes), list(one.sides), items, curves, [list(p) for p in one.pairs]
    ]  # fmt: skip


def unpacked(about: Any) -> Importance | None:
    """The inverse of `packed`; older files have none."""
    if about is None:
        return None
    what, rows, how, classes, sides, items, curves, pairs = about
    if what not in ("column", "word") or how not in (ROWS_LEFT_OUT, NEW_ROWS):
        raise FileError("its importance is of an unknown kind")
    read_items = tuple(
        Item(str(name), float(size), float(db), floats(each, len(classes)), int(n)) for name, size, db, each, n in items
    )
    read_curves = tuple(
        Curve(
            str(name),
            tuple(
                Point(str(value), None if at is None else float(at), int(n), floats(each, len(sides)))
                for value, at, n, each in points
            ),
        )
        for name, points in curves
    )
    read_pairs = tuple(ActingPair(str(first), str(second), float(db)) for first, second, db in pairs)
    return Importance(what, int(rows), how, tuple(classes), tuple(sides), read_items, read_curves, read_pairs)


def floats(values: Sequence[Any], size: int) -> tuple[float, ...]:
    if len(values) != size:
        raise FileError(f"its importance has {len(values)} numbers instead of {size}")
    return tuple(map(float, values))
