"""What a database has added up, put together: its classes and categories, and sums about the pivots that were asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa

from deciban._typing import Array, Categories, Floats
from deciban.algebra import Stats, shift
from deciban.engines.base import Pushed, Question
from deciban.errors import DecibanError, EngineError
from deciban.measure import MEASURES, Cells, One, has_squares, second_moments
from deciban.schema import Bins, Columns, Schema
from deciban.show import one_line

# Of a class's second moment about a shared pivot, this share at least must be its own spread: with 10⁶ rows a sum is
# off by about 10⁻¹³ of itself, and so the spread by 10⁻¹⁰. Fourth moments lose as much again.
OWN_SHARE, OWN_SHARE_OF_FOURTH = 1e-3, 1e-2
TOO_SMALL = 1e-280  # a square a row, below which doubles lose digits


@dataclass(eq=False)
class Answered:
    """Sums by class as they come in, row by row of the answer."""

    question: Question
    target: pa.DataType
    pivots: Callable[[int, Sequence[Any]], Floats | None]  # (block, classes) → those that were asked, (k, d)
    called: str
    booleans: frozenset[tuple[int, int]] = frozenset()  # columns of categories that are true and false
    unlabelled: int = 0
    incomplete: int = 0
    rows: dict[Any, int] = field(default_factory=dict)
    weights: dict[Any, float] = field(default_factory=dict)
    sums: dict[tuple[int, str], dict[Any, Floats]] = field(default_factory=dict)
    counts: dict[tuple[int, tuple[int, ...]], dict[tuple[Any, ...], float]] = field(default_factory=dict)

    # ------------------------------------------------------------------ rows of the answer

    def add_rows(self, y: Any, gap: bool, first: bool, head: Sequence[Any]) -> None:
        """How many rows a class has, and what they weigh. All parts of an answer must say the same."""
        rows, weight, bad = int(head[0]), float(head[1] or 0.0), int(head[2])
        if bad or not isfinite(weight):
            what = "infinite" if not bad else "negative or missing"
            raise DecibanError(
                f"the weights in column {one_line(self.question.weight or '')!r} of {self.called} are {what} in some "
                "rows: give every row a weight of 0 or more"
            )
        label = None if y is None else self._label(y)
        if gap and label is not None:
            self.incomplete += rows if first else 0
            self.weights.setdefault(label, 0.0)
        elif label is None:
            self.unlabelled += rows if first else 0
        elif self.rows.setdefault(label, rows) != rows:
            raise EngineError(f"{self.called} changed while it was read, and nothing was learned: run it again")
        else:
            self.weights[label] = weight

    def add_sum(self, y: Any, block: int, name: str, place: tuple[int, ...], value: Any) -> None:
        d = self.question.schema.blocks[block].size
        by_class = self.sums.setdefault((block, name), {})
        label = self._label(y)
        if label not in by_class:
            by_class[label] = np.zeros((d,) * len(place))
        number = 0.0 if value is None else float(value)  # a sum over nothing
        self._check(block, name, place, number)
        by_class[label][place] = number
        if name in MEASURES and MEASURES[name].symmetric:
            by_class[label][place[::-1]] = number

    def add_count(self, y: Any, block: int, columns: tuple[int, ...], values: tuple[Any, ...], weight: Any) -> None:
        """Rows of a class and a category, or of two; a missing one counts nowhere, and rows of no weight teach none."""
        if any(value is None for value in values) or not float(weight) > 0:
            return
        key = tuple(self._category(block, j, value) for j, value in zip(columns, values, strict=True))
        self.counts.setdefault((block, columns), {})[(self._label(y), *key)] = float(weight)

    def _check(self, block: int, name: str, place: tuple[int, ...], value: float) -> None:
        """Infinities, and negative counts."""
        column = one_line(self.question.schema.blocks[block].name(place[0]))
        if not isfinite(value) and len(set(place)) == 1:  # of a product, the squares tell which column it is
            raise DecibanError(
                f"column {column!r} of {self.called} holds an infinite number, or one that is too large to be added "
                "up: remove it, or make it NULL if it is missing"
            )
        family = self.question.joint.blocks[block].family
        if name == "low" and value < 0 and (self.question.positive or family.values == "counts"):
            raise DecibanError(
                f"column {column!r} of {self.called} holds {value:g}, and counts are never negative: a {family.name} "
                "law does not fit it"
            )

    def _label(self, y: Any) -> Any:
        """A label as what it is: a text, a boolean, or a whole number."""
        if isinstance(y, str):
            return y
        if pa.types.is_boolean(self.target):
            return bool(y)
        if not isinstance(y, int) and not float(y).is_integer():
            raise DecibanError(
                f"column {one_line(self.question.target)!r} of {self.called} holds {float(y):g}: labels are texts, "
                "booleans or whole numbers"
            )
        return int(y)

    def _category(self, block: int, j: int, value: Any) -> Any:
        if isinstance(value, str):
            return value
        if (block, j) in self.booleans:
            return bool(value)
        columns = self.question.schema.blocks[block]
        number = float(value)
        if not isfinite(number):
            raise DecibanError(f"column {one_line(columns.name(j))!r} of {self.called} holds an infinite number")
        codes = isinstance((columns.categories or ())[j], range)
        if codes and (number < 0 or not number.is_integer()):
            raise DecibanError(
                f"column {one_line(columns.name(j))!r} of {self.called} holds {number:g}, and codes are whole numbers "
                "from 0 on"
            )
        return int(number) if number.is_integer() else number

    # ------------------------------------------------------------------ together

    @cached_property
    def classes(self) -> Array:
        """All labels that there are, sorted; where the classes were declared, those."""
        known = self.question.schema
        try:
            found = np.array(sorted(self.weights)) if self.weights else known.classes[:0]
        except TypeError:
            kinds = sorted({type(label).__name__ for label in self.weights})
            raise DecibanError(
                f"column {one_line(self.question.target)!r} of {self.called} holds labels of several kinds, "
                f"{' and '.join(kinds)}: make them all texts or all numbers"
            ) from None
        return Schema(known.classes, (), True).union(Schema(found, ())).classes if known.closed else found

    def pushed(self) -> Pushed:
        """The sums about the pivots of the question; about the asked ones for classes that it does not know."""
        known, labels = self.question.schema, self.classes.tolist()
        blocks = [self._columns(b, labels) for b in range(len(known.blocks))]
        weight = np.array([self.weights.get(label, 0.0) for label in labels])
        sums = [self._block(b, columns, labels, weight) for b, columns in enumerate(blocks)]
        stats = Stats(Schema(self.classes, tuple(blocks), known.closed), weight, tuple(sums))
        wanted = [
            columns if columns.pivot is None else replace(columns, pivot=self._wanted(b, columns.pivot))
            for b, columns in enumerate(blocks)
        ]
        stats = stats.embed(Schema(self.classes, tuple(wanted), known.closed))
        for b, columns in enumerate(wanted):
            self._check_squares(columns, stats.sums[b])
        return Pushed(stats, self.unlabelled, self.incomplete)

    def better_pivots(self) -> list[Floats | None] | None:
        """Pivots for each class, where a shared one has cost digits; None where it has not.

        They are the question's own; and for classes that it does not know, their means.
        """
        labels, lost = self.classes.tolist(), False
        better: list[Floats | None] = []
        weight = np.array([self.weights.get(label, 0.0) for label in labels])
        for b, columns in enumerate(self.question.schema.blocks):
            asked = self.pivots(b, labels)
            if asked is None:
                better.append(None)
                continue
            sums = self._block(b, replace(columns, pivot=asked), labels, weight)
            n = np.broadcast_to(sums["one"], asked.shape)
            means = asked + sums["x"] / np.where(n > 0, n, 1.0)
            pivot = self._wanted(b, means)
            by = asked - pivot
            about = shift(sums, by)
            share = OWN_SHARE_OF_FOURTH if any(MEASURES[name].degree > 3 for name in sums) else OWN_SHARE
            lost = lost or bool(np.any((n > 0) & (by != 0) & (second_moments(about) < share * n * by**2)))
            better.append(pivot)
        return better if lost else None

    def _wanted(self, block: int, otherwise: Floats) -> Floats:
        """The question's pivots, (k, d), and others for classes that it does not know."""
        known = self.question.schema
        place = {label: row for row, label in enumerate(known.classes.tolist())}
        pivot, out = known.blocks[block].pivot, otherwise.copy()
        for row, label in enumerate(self.classes.tolist()):
            if pivot is not None and label in place:
                out[row] = pivot[place[label]]
        return out

    def _columns(self, b: int, labels: list[Any]) -> Columns:
        """A block's columns with all categories that there are."""
        columns = self.question.schema.blocks[b]
        if columns.categories is None:
            return replace(columns, pivot=self.pivots(b, labels))
        found = [{value for _, value in self.counts.get((b, (j,)), {})} for j in range(columns.size)]
        return replace(columns, categories=tuple(map(joined, columns.categories, found)))

    def _block(self, b: int, columns: Columns, labels: list[Any], weight: Floats) -> dict[str, Floats]:
        """A block's sums by class."""
        out: dict[str, Floats] = {}
        for measure in self.question.joint.blocks[b].family.measures(columns):
            if isinstance(measure, Cells):
                out[measure.name] = self._cells(b, columns, measure, labels)
                continue
            if isinstance(measure, One) and (b, measure.name) not in self.sums:
                out[measure.name] = weight[:, None].copy()
                continue
            by_class, shape = self.sums.get((b, measure.name), {}), measure.shapes(columns)[-1]
            out[measure.name] = np.array([by_class.get(label, np.zeros(shape)) for label in labels]).reshape(-1, *shape)
        if "one" in out and np.array_equal(out["one"], np.broadcast_to(weight[:, None], out["one"].shape)):
            out["one"] = weight[:, None].copy()  # nothing is missing: one column does for all
        return out

    def _cells(self, b: int, columns: Columns, measure: Cells, labels: list[Any]) -> Floats:
        """Counts by category, or by pair of categories, laid out flat."""
        assert columns.categories is not None
        row = {label: i for i, label in enumerate(labels)}
        starts, wanted = measure.starts(columns), set(measure.counted())
        places = [{value: i for i, value in enumerate(codes_of(known))} for known in columns.categories]
        out = np.zeros((len(labels), int(starts[-1])))
        for (block, at), counted in self.counts.items():
            if block != b or at not in wanted:
                continue
            child = at[0]
            for (label, value, *above), weight in counted.items():
                cell = places[child][value]
                if above:  # beside each value of the parent, all values of the column
                    cell += places[at[1]][above[0]] * len(places[child])
                out[row[label], starts[child] + cell] = weight
        return out

    def _check_squares(self, columns: Columns, sums: dict[str, Floats] | Any) -> None:
        """Squares below what a double can hold are lost, as they are in memory."""
        if not has_squares(sums):
            return
        vanishing = (second_moments(sums) < TOO_SMALL * sums["one"]) & (np.abs(sums["x"]) > 0.0)
        if vanishing.any():
            column = one_line(columns.name(int(np.argwhere(vanishing)[0][1])))
            raise DecibanError(
                f"the values of column {column!r} differ by less than 1e-140, which is too small to square: multiply "
                "the column by a number that brings it near 1"
            )


def joined(known: Categories, found: set[Any]) -> Categories:
    """The known categories, and behind them what else was found."""
    if isinstance(known, Bins):
        return known
    if isinstance(known, range):
        return range(max([len(known), *(code + 1 for code in found)]))
    new = found - set(known)
    return (*known, *sorted(new, key=lambda value: (isinstance(value, str), value))) if new else known


def codes_of(known: Categories) -> Sequence[Any]:
    """What the database calls each category: itself, or the number of its interval."""
    return range(len(known)) if isinstance(known, Bins) else known
