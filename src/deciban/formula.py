"""A model's score of a row as a formula: columns → places and coordinates → sums by class → Bayes' rule.

Families and experts write their own terms (`Family.term`, `Expert.term`), and each language translates the terms once
(`export.sql`, `export.onnx`).

A *place* is the code of a column's value: 0 if it is missing, 1, 2, … for categories or intervals, and for
categories one past the last, for a value that was never seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.schema import Bins, Columns


@dataclass(frozen=True, slots=True)
class Input:
    """A column of the table to be scored.

    `kind` is how it is read: "number", "boolean" (1 or 0), "date" (days since 1970), "month" and "weekday" (of the date
    in column `source`, as in "Jan" and "Mon"), or "text". `missing_texts` are the texts, in lower case, that mean
    a missing value.
    """

    name: str
    kind: str = "number"
    source: str = ""
    missing_texts: tuple[str, ...] = ()

    @property
    def column(self) -> str:
        """The column it is read from."""
        return self.source or self.name


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPlace:
    """The place of a column's value among known values, or between cuts (x ≤ cuts[0] is place 1)."""

    input: int
    values: tuple[Any, ...] = ()
    cuts: Floats | None = None

    @property
    def size(self) -> int:
        return len(self.values) + 2 if self.cuts is None else len(self.cuts) + 2


@dataclass(frozen=True, slots=True, eq=False)
class Regrouped:
    """Places mapped to fewer codes: `groups[place]`, 0 to `size` − 1."""

    place: int
    groups: Codes
    size: int


AnyPlace: TypeAlias = "ColumnPlace | Regrouped"


@dataclass(frozen=True, slots=True)
class AsIs:
    """A number as it is. If it is missing, the row has no score."""

    input: int


@dataclass(frozen=True, slots=True)
class Scaled:
    """(x − mean)/scale, clipped at ±far; 0 if x is missing."""

    input: int
    mean: float
    scale: float
    far: float


@dataclass(frozen=True, slots=True, eq=False)
class PiecewiseLinear:
    """A number interpolated linearly through (knots, heights), constant beyond them; 0 if it is missing."""

    input: int
    knots: Floats
    heights: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PlaceValues:
    """A number for every place."""

    place: int
    values: Floats


Coordinate: TypeAlias = "AsIs | Scaled | PiecewiseLinear | PlaceValues"


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """Σ_j zero_j + x_j·slope_j over the numbers that are not missing; −∞ if x_j > 0 and `never`, all (k, d)."""

    inputs: tuple[int, ...]
    zero: Floats
    slope: Floats
    never: Array


@dataclass(frozen=True, slots=True, eq=False)
class ColumnGaussians:
    """Σ_j constant_j − precision_j (x_j − mean_j)², or − power_j log(1 + …), over the numbers that are not missing.

    Arrays are (k, d).
    """

    inputs: tuple[int, ...]
    mean: Floats
    precision: Floats
    constant: Floats
    power: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The distribution of a column given others: a path through a tree of contexts, and log-probabilities at its end.

    From node 0, step t goes to steps[t][node, place of given[t]]; −1: the path ends. The term is then
    values[node, own place], (k,).
    """

    given: tuple[int, ...]
    own: int
    steps: tuple[Codes, ...]
    values: Floats  # (nodes, places, k)


@dataclass(frozen=True, slots=True, eq=False)
class ChildOfHidden:
    """A column whose parent is missing: the likelihood of its place for each of the parent's values.

    Relative to the greatest of them, so that products of many keep their digits; 1 if it is missing as well.
    """

    own: int
    shares: Floats  # (values, places, k)
    hidden: int = -1  # its index among the hidden parents; −1: it has no children


@dataclass(frozen=True, slots=True, eq=False)
class HiddenParent:
    """A column with children, if it is missing: log Σ_v P(v | given) Π_children P(child | v).

    `probabilities` has P(v | given) for every place of its own parent; if that is missing too (place 0) and
    `passes`, the column is part of the parent's sum, and its own term is zero.
    """

    own: int
    given: int  # −1: none
    probabilities: Floats  # (places of the given, or 1, values, k)
    passes: bool
    below: tuple[ChildOfHidden, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """A sum over columns.

    If columns have parents, `hidden` are the terms for missing parents; the deepest come first.
    """

    walks: tuple[Walk, ...]
    hidden: tuple[HiddenParent, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Absent:
    """Gaussians if one column's value was never seen: the distribution of the other coordinates.

    With Λ = rootᵀ root and the column's coordinates N, their form is q − vᵀ Λ_NN⁻¹ v, v = Λ_N (x − mean), whatever x is
    in N: so q − |turn (x − mean)|², where `turn` has |N| rows.
    """

    place: int
    never: Array  # (places,) where the value was never seen
    turn: Floats  # (p, |N|, d), or (1, |N|, d) if parts share a root
    constant: Floats  # (p,)
    power: Floats | None  # (p,)


@dataclass(frozen=True, slots=True, eq=False)
class QuadraticForms:
    """Gaussians over coordinates: constant − ½q, or constant − power·log(1 + scale·q), with q = |root (x − mean)|².

    A class is the mixture of the parts that it owns, log Σ exp(share + …); one without any is ruled out.
    """

    coordinates: tuple[int, ...]
    mean: Floats  # (p, d)
    root: Floats  # (p, d, d), or (1, d, d) if they share one; upper triangular
    constant: Floats  # (p,)
    owner: Codes  # (p,) each part's class
    share: Floats  # (p,) log of its share in the class
    scale: Floats | None = None  # (p,)
    power: Floats | None = None  # (p,)
    absent: tuple[Absent, ...] = ()  # if two of these are unseen at once, the row has no score


@dataclass(frozen=True, slots=True, eq=False)
class Cosines:
    """offset + Σ_f slope_f cos(phase_f + Σ_j frequency_jf x_j), over coordinates x_j; times the share that is known.

    That share is 1 less the coordinates that are `unknown`.
    """

    coordinates: tuple[int, ...]
    unknown: tuple[int, ...]
    frequencies: Floats  # (d, D)
    phases: Floats  # (D,)
    slopes: Floats  # (D, k)
    offsets: Floats  # (k,); −∞: the class is ruled out


@dataclass(frozen=True, slots=True, eq=False)
class SplitTrees:
    """Decision trees with a value at every node: the values of the nodes at which a row ends, one per tree, add up.

    At a node that splits on a column, with the row at place p, it ends if `ends[column][p]`, and goes left if
    `lefts[node][p]`.
    """

    trees: tuple[int, ...]  # where each starts, and the end
    place: Codes  # (nodes,) the column that a node splits on, −1 at a leaf
    left: Codes
    right: Codes
    lefts: tuple[Array, ...]  # (places,) each, empty at a leaf
    ends: dict[int, Array]  # (places,) each
    values: Floats  # (nodes, k)


Term: TypeAlias = "Slopes | ColumnGaussians | Walks | QuadraticForms | Cosines | SplitTrees"


@dataclass(frozen=True, slots=True, eq=False)
class WeightedTerm:
    """weight × a term; with `limit`, the term minus that of the best class, but at least −limit."""

    term: Term
    weight: float = 1.0
    limit: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """offsets + Σ parts, by class."""

    parts: tuple[WeightedTerm, ...]
    offsets: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """log P(y | x) up to a constant; the prior if every class has −∞.

    If classes are made of components, `owner` has the class of each, and scores are those of components.
    `label_scores` are the scores that decide the label, if they differ from these.
    """

    classes: Array
    inputs: tuple[Input, ...]
    places: tuple[AnyPlace, ...]
    coordinates: tuple[Coordinate, ...]
    scores: Scores
    log_prior: Floats  # (k,)
    features: tuple[str, ...]  # all columns of the table, in their order, used or not
    owner: Codes | None = None
    label_scores: Scores | None = None

    @property
    def cells(self) -> int:
        """About how many numbers it takes to write it down."""
        scores = (self.scores,) if self.label_scores is None else (self.scores, self.label_scores)
        return sum(cells_of(part.term) for each in scores for part in each.parts)


def cells_of(term: Term) -> int:
    """About how many numbers a term has."""
    if isinstance(term, Slopes | ColumnGaussians):
        return 3 * (term.mean if isinstance(term, ColumnGaussians) else term.slope).size
    if isinstance(term, Walks):
        hidden = sum(one.probabilities.size + sum(each.shares.size for each in one.below) for one in term.hidden)
        return sum(walk.values.size for walk in term.walks) + hidden
    if isinstance(term, QuadraticForms):
        return int(term.root.size + term.mean.size + sum(one.turn.size for one in term.absent))
    if isinstance(term, Cosines):
        return int(term.frequencies.size + term.slopes.size)
    return int(term.values.size)


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """How a table's columns are read: what they are called, which are dates or booleans, which texts mean missing.

    `spell` is how a category that is not a number is written in the table.
    """

    features: tuple[str, ...]
    kinds: Mapping[str, str] = field(default_factory=dict)
    missing_texts: tuple[str, ...] = ()
    spell: Callable[[Any], str] = str

    def number(self, name: str) -> Input:
        """A column of numbers, dates or booleans."""
        kind = self.kinds.get(name, "number")
        return Input(name, kind if kind in ("date", "boolean") else "number")

    def text(self, name: str) -> Input:
        return Input(name, "text", missing_texts=self.missing_texts)


@dataclass(slots=True)
class Sketch:
    """A formula under construction: its columns, places and coordinates, each added once."""

    reading: ColumnReading = field(default_factory=lambda: ColumnReading(()))
    inputs: list[Input] = field(default_factory=list)
    places: list[AnyPlace] = field(default_factory=list)
    coordinates: list[Coordinate] = field(default_factory=list)
    _index: dict[Input, int] = field(default_factory=dict)

    def input(self, column: Input) -> int:
        if column not in self._index:
            self._index[column] = len(self.inputs)
            self.inputs.append(column)
        return self._index[column]

    def place(self, place: AnyPlace) -> int:
        self.places.append(place)
        return len(self.places) - 1

    def coordinate(self, coordinate: Coordinate) -> int:
        self.coordinates.append(coordinate)
        return len(self.coordinates) - 1

    # ------------------------------------------------------------------ a block of columns

    def numbers(self, columns: Columns) -> tuple[int, ...]:
        """The inputs of a block of numbers, in its order."""
        return tuple(self.input(self.reading.number(name)) for name in self._names(columns))

    def categories(self, columns: Columns) -> tuple[int, ...]:
        """The places of a block of categories, in its order."""
        assert columns.categories is not None
        pairs = zip(self._names(columns), columns.categories, strict=True)
        return tuple(self.place(self._category(name, known)) for name, known in pairs)

    def _names(self, columns: Columns) -> tuple[str, ...]:
        return columns.names or self.reading.features

    def _category(self, name: str, known: Any) -> ColumnPlace:
        """The place of a column's value among intervals, numbers, booleans or texts."""
        reading = self.reading
        if isinstance(known, Bins):
            return ColumnPlace(self.input(reading.number(name)), cuts=np.array(known.cuts))
        values = tuple(known)
        if values and all(isinstance(value, bool | np.bool_) for value in values):
            return ColumnPlace(self.input(Input(name, "boolean")), tuple(map(float, values)))
        if values and all(isinstance(value, int | float | np.number) and type(value) is not bool for value in values):
            return ColumnPlace(self.input(reading.number(name)), values)
        return ColumnPlace(self.input(reading.text(name)), tuple(map(reading.spell, values)))


def independent_column(place: int, table: Floats) -> Walk:
    """A column that depends on no other, from the log-probabilities of its places, (places, k)."""
    return Walk((), place, (), np.ascontiguousarray(table)[None])


def possible_classes(term: Term, k: int) -> Array:
    """The classes that a term does not rule out whatever the row is, (k,)."""
    if isinstance(term, QuadraticForms):
        return np.isin(np.arange(k), term.owner)
    return np.isfinite(term.offsets) if isinstance(term, Cosines) else np.ones(k, dtype=bool)


def nodes_by_tree(trees: tuple[int, ...]) -> list[range]:
    """The nodes of every tree."""
    return [range(start, stop) for start, stop in pairwise(trees)]
