"""The results of a database's statements as statistics: classes, categories, and sums about the pivots used."""

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
from deciban.engines.base import PushedSums, Question
from deciban.errors import DecibanError, EngineError
from deciban.measure import MEASURES, Cells, One, has_squares, second_moments
from deciban.schema import Bins, Columns, Schema
from deciban.show import one_line

# At least this share of a class's second moment about a shared pivot must be its own variance: with 10⁶ rows a sum has
# a relative error of about 10⁻¹³, and so the variance 10⁻¹⁰. Fourth moments lose as much again.
MIN_OWN_SHARE, MIN_OWN_SHARE_OF_FOURTH = 1e-3, 1e-2
MIN_SQUARE_PER_ROW = 1e-280  # mean squares below this lose digits as doubles


@dataclass(eq=False)
class ReceivedSums:
    """Sums by class, collected row by row of a result."""

    question: Question
    target: pa.DataType
    pivots: Callable[[int, Sequence[Any]], Floats | None]  # (block, classes) → the pivots of the statement, (k, d)
    rows_named: str
    booleans: frozenset[tuple[int, int]] = frozenset()  # (block, column) of boolean categories
    unlabelled: int = 0
    incomplete: int = 0
    rows: dict[Any, int] = field(default_factory=dict)
    weights: dict[Any, float] = field(default_factory=dict)
    sums: dict[tuple[int, str], dict[Any, Floats]] = field(default_factory=dict)
    counts: dict[tuple[int, tuple[int, ...]], dict[tuple[Any, ...], float]] = field(default_factory=dict)

    # ------------------------------------------------------------------ rows of the result

    def add_rows(self, y: Any, gap: bool, first: bool, head: Sequence[Any]) -> None:
        """The number of rows of a class, and their weight. All parts of a result must agree."""
        rows, weight, bad_weights = int(head[0]), float(head[1] or 0.0), int(head[2])
        if bad_weights or not isfinite(weight):
            problem = "infinite" if not bad_weights else "negative or missing"
            raise DecibanError(
                f"the weights in column {one_line(self.question.weight or '')!r} of {self.rows_named} are {problem} in "
                "some rows: give every row a weight of 0 or more"
            )
        label = None if y is None else self._label(y)
        if gap and label is not None:
            self.incomplete += rows if first else 0
            self.weights.setdefault(label, 0.0)
        elif label is None:
            self.unlabelled += rows if first else 0
        elif self.rows.setdefault(label, rows) != rows:
            raise EngineError(f"{self.rows_named} changed while it was read, and nothing was learned: run it again")
        else:
            self.weights[label] = weight

    def add_sum(self, y: Any, block: int, name: str, place: tuple[int, ...], value: Any) -> None:
        d = self.question.schema.blocks[block].size
        by_class = self.sums.setdefault((block, name), {})
        label = self._label(y)
        if label not in by_class:
            by_class[label] = np.zeros((d,) * len(place))
        number = 0.0 if value is None else float(value)  # a sum over no rows
        self._check(block, name, place, number)
        by_class[label][place] = number
        if name in MEASURES and MEASURES[name].symmetric:
            by_class[label][place[::-1]] = number

    def add_count(self, y: Any, block: int, columns: tuple[int, ...], values: tuple[Any, ...], weight: Any) -> None:
        """The weight of a class and a category, or two; missing categories and rows of weight 0 do not count."""
        if any(value is None for value in values) or not float(weight) > 0:
            return
        key = tuple(self._category(block, j, value) for j, value in zip(columns, values, strict=True))
        self.counts.setdefault((block, columns), {})[(self._label(y), *key)] = float(weight)

    def _check(self, block: int, name: str, place: tuple[int, ...], value: float) -> None:
        """Raise an error for infinite sums and negative counts."""
        column = one_line(self.question.schema.blocks[block].name(place[0]))
        if not isfinite(value) and len(set(place)) == 1:  # of a product, the squares show which column it is
            raise DecibanError(
                f"column {column!r} of {self.rows_named} holds an infinite number, or one that is too large to add "
                f"up: remove it, or make it NULL if it is missing"
            )
        family = self.question.joint.blocks[block].family
        if name == "low" and value < 0 and (self.question.positive or family.values == "counts"):
            raise DecibanError(
                f"column {column!r} of {self.rows_named} holds {value:g}, but counts are never negative: a "
                f"{family.name} distribution does not fit it"
            )

    def _label(self, y: Any) -> Any:
        """A label of its own type: a text, a boolean, or an integer."""
        if isinstance(y, str):
            return y
        if pa.types.is_boolean(self.target):
            return bool(y)
        if not isinstance(y, int) and not float(y).is_integer():
            raise DecibanError(
                f"column {one_line(self.question.target)!r} of {self.rows_named} holds {float(y):g}: labels must be "
                f"texts, booleans or whole numbers"
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
            raise DecibanError(f"column {one_line(columns.name(j))!r} of {self.rows_named} holds an infinite number")
        codes = isinstance((columns.categories or ())[j], range)
        if codes and (number < 0 or not number.is_integer()):
            raise DecibanError(
                f"column {one_line(columns.name(j))!r} of {self.rows_named} holds {number:g}, but codes must be "
                f"whole numbers, 0 or more"
            )
        return int(number) if number.is_integer() else number

    # ------------------------------------------------------------------ statistics

    @cached_property
    def classes(self) -> Array:
        """All labels that occur, sorted; all declared classes, if they were declared."""
        known = self.question.schema
        try:
            present = np.array(sorted(self.weights)) if self.weights else known.classes[:0]
        except TypeError:
            kinds = sorted({type(label).__name__ for label in self.weights})
            raise DecibanError(
                f"column {one_line(self.question.target)!r} of {self.rows_named} holds labels of several kinds, "
                f"{' and '.join(kinds)}: make them all texts or all numbers"
            ) from None
        return Schema(known.classes, (), True).union(Schema(present, ())).classes if known.closed else present

    def pushed(self) -> PushedSums:
        """The sums about the question's pivots; for classes that it does not know, about those of the statement."""
        known, labels = self.question.schema, self.classes.tolist()
        blocks = [self._columns(b, labels) for b in range(len(known.blocks))]
        weight = np.array([self.weights.get(label, 0.0) for label in labels])
        sums = [self._block(b, columns, labels, weight) for b, columns in enumerate(blocks)]
        stats = Stats(Schema(self.classes, tuple(blocks), known.closed), weight, tuple(sums))
        final = [
            columns if columns.pivot is None else replace(columns, pivot=self._final_pivots(b, columns.pivot))
            for b, columns in enumerate(blocks)
        ]
        stats = stats.embed(Schema(self.classes, tuple(final), known.closed))
        for b, columns in enumerate(final):
            self._check_squares(columns, stats.sums[b])
        return PushedSums(stats, self.unlabelled, self.incomplete)

    def better_pivots(self) -> list[Floats | None] | None:
        """Pivots for each class, if a shared one has lost digits; otherwise None.

        They are the question's own; and for classes that it does not know, their means.
        """
        labels, lost = self.classes.tolist(), False
        better: list[Floats | None] = []
        weight = np.array([self.weights.get(label, 0.0) for label in labels])
        for b, columns in enumerate(self.question.schema.blocks):
            used = self.pivots(b, labels)
            if used is None:
                better.append(None)
                continue
            sums = self._block(b, replace(columns, pivot=used), labels, weight)
            n = np.broadcast_to(sums["one"], used.shape)
            means = used + sums["x"] / np.where(n > 0, n, 1.0)
            pivot = self._final_pivots(b, means)
            shift_by = used - pivot
            about = shift(sums, shift_by)
            share = MIN_OWN_SHARE_OF_FOURTH if any(MEASURES[name].degree > 3 for name in sums) else MIN_OWN_SHARE
            lost = lost or bool(np.any((n > 0) & (shift_by != 0) & (second_moments(about) < share * n * shift_by**2)))
            better.append(pivot)
        return better if lost else None

    def _final_pivots(self, block: int, otherwise: Floats) -> Floats:
        """The question's pivots, (k, d), and those of `otherwise` for classes that it does not know."""
        known = self.question.schema
        index = {label: row for row, label in enumerate(known.classes.tolist())}
        pivot, out = known.blocks[block].pivot, otherwise.copy()
        for row, label in enumerate(self.classes.tolist()):
            if pivot is not None and label in index:
                out[row] = pivot[index[label]]
        return out

    def _columns(self, b: int, labels: list[Any]) -> Columns:
        """A block's columns with all categories that occur."""
        columns = self.question.schema.blocks[b]
        if columns.categories is None:
            return replace(columns, pivot=self.pivots(b, labels))
        present = [{value for _, value in self.counts.get((b, (j,)), {})} for j in range(columns.size)]
        return replace(columns, categories=tuple(map(all_categories, columns.categories, present)))

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
            out["one"] = weight[:, None].copy()  # nothing is missing: one column is enough
        return out

    def _cells(self, b: int, columns: Columns, measure: Cells, labels: list[Any]) -> Floats:
        """Counts by category, or by pair of categories, laid out flat."""
        assert columns.categories is not None
        row = {label: i for i, label in enumerate(labels)}
        starts, counted_sets = measure.starts(columns), set(measure.counted())
        places = [{value: i for i, value in enumerate(codes_of(known))} for known in columns.categories]
        out = np.zeros((len(labels), int(starts[-1])))
        for (block, column_set), counted in self.counts.items():
            if block != b or column_set not in counted_sets:
                continue
            child = column_set[0]
            for (label, value, *parent_values), weight in counted.items():
                cell = places[child][value]
                if parent_values:  # for each value of the parent, all values of the column
                    cell += places[column_set[1]][parent_values[0]] * len(places[child])
                out[row[label], starts[child] + cell] = weight
        return out

    def _check_squares(self, columns: Columns, sums: dict[str, Floats] | Any) -> None:
        """Raise an error for squares that are too small for a double, as in memory."""
        if not has_squares(sums):
            return
        vanishing = (second_moments(sums) < MIN_SQUARE_PER_ROW * sums["one"]) & (np.abs(sums["x"]) > 0.0)
        if vanishing.any():
            column = one_line(columns.name(int(np.argwhere(vanishing)[0][1])))
            raise DecibanError(
                f"the values of column {column!r} differ by less than 1e-140, which is too small to square: multiply "
                f"the column so that its values are near 1"
            )


def all_categories(known: Categories, present: set[Any]) -> Categories:
    """The known categories, followed by new ones."""
    if isinstance(known, Bins):
        return known
    if isinstance(known, range):
        return range(max([len(known), *(code + 1 for code in present)]))
    new = present - set(known)
    return (*known, *sorted(new, key=lambda value: (isinstance(value, str), value))) if new else known


def codes_of(known: Categories) -> Sequence[Any]:
    """The database's value for each category: itself, or the number of its interval."""
    return range(len(known)) if isinstance(known, Bins) else known
