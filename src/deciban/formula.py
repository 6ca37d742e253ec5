"""What a model says of a row, spelled out: columns → places and coordinates → sums by class → Bayes' rule.

Families and experts say themselves in these words (`Family.term`, `Expert.term`), and the words are put into each
language once (`export.sql`, `export.onnx`).

A *place* is where a column's value stands: 0 where it is missing, 1, 2, … for categories or intervals, and for
categories one more past the last, for a value that was never seen.
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
    """A column of the table that is to be scored.

    `kind` is how it is read: "number", "boolean" (1 or 0), "date" (days since 1970), "month" and "weekday" (of the date
    in column `source`, as in "Jan" and "Mon"), or "text". `nothing` are the texts, in lower case, that say that it is
    missing.
    """

    name: str
    kind: str = "number"
    source: str = ""
    nothing: tuple[str, ...] = ()

    @property
    def column(self) -> str:
        """The column that it is read from."""
        return self.source or self.name


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPlace:
    """Where a column's value stands among known values, or between cuts (x ≤ cuts[0] is place 1)."""

    input: int
    values: tuple[Any, ...] = ()
    cuts: Floats | None = None

    @property
    def size(self) -> int:
        return len(self.values) + 2 if self.cuts is None else len(self.cuts) + 2


@dataclass(frozen=True, slots=True, eq=False)
class Regrouped:
    """Places under fewer numbers: `groups[place]`, 0 to `size` − 1."""

    place: int
    groups: Codes
    size: int


Where: TypeAlias = "ColumnPlace | Regrouped"


@dataclass(frozen=True, slots=True)
class AsIs:
    """A number as it is. Where it is missing, nothing can be said of the row."""

    input: int


@dataclass(frozen=True, slots=True)
class Scaled:
    """A number in units of `scale` from `mean`, none further than `far`; 0 where it is missing."""

    input: int
    mean: float
    scale: float
    far: float


@dataclass(frozen=True, slots=True, eq=False)
class Bent:
    """A number on a line through (knots, heights), flat beyond them; 0 where it is missing."""

    input: int
    knots: Floats
    heights: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """A number for every place."""

    place: int
    values: Floats


Coordinate: TypeAlias = "AsIs | Scaled | Bent | Marked"


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """Σ_j zero_j + x_j·slope_j over the numbers that are there; −∞ where x_j > 0 and `never`. Tables are (k, d)."""

    inputs: tuple[int, ...]
    zero: Floats
    slope: Floats
    never: Array


@dataclass(frozen=True, slots=True, eq=False)
class Bells:
    """Σ_j constant_j − precision_j (x_j − mean_j)², or − power_j log(1 + …), over the numbers that are there.

    Tables are (k, d).
    """

    inputs: tuple[int, ...]
    mean: Floats
    precision: Floats
    constant: Floats
    power: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """A law of one column given others: a way through a tree of contexts, and what the column says at its end.

    From node 0, step t goes on to steps[t][node, place of its column]; −1: it ends where it is. What the column then
    says is values[node, its own place], (k,).
    """

    given: tuple[int, ...]
    own: int
    steps: tuple[Codes, ...]
    values: Floats  # (nodes, places, k)


@dataclass(frozen=True, slots=True, eq=False)
class Below:
    """A column that hangs on one that is missing: what its place says of each of the other's values.

    Beside the most that it says of any, so that products of many keep their digits; 1 where it is missing as well.
    """

    own: int
    shares: Floats  # (values, places, k)
    hidden: int = -1  # which one it is among those that something hangs on; −1: none


@dataclass(frozen=True, slots=True, eq=False)
class HiddenParent:
    """A column that others hang on, where it is missing: log Σ_v P(v | given) Π what they say of v.

    `laws` has P(v | given) for every place of the column that it hangs on itself; where that is missing too (place 0)
    and `passes`, it is among those that speak there, and says nothing here.
    """

    own: int
    given: int  # −1: none
    laws: Floats  # (places of the given, or 1, values, k)
    passes: bool
    below: tuple[Below, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """The sum of what several columns say.

    Where columns hang on others, `hidden` is what they say where some of those are missing; the deepest come first.
    """

    walks: tuple[Walk, ...]
    hidden: tuple[HiddenParent, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Absent:
    """What Gaussians say where one column's value was never seen: the law of the other coordinates.

    With Λ = rootᵀ root and the column's coordinates N, their form is q − vᵀ Λ_NN⁻¹ v, v = Λ_N (x − mean), whatever x is
    in N: so q − |turn (x − mean)|², by a turn of as many rows as N has.
    """

    place: int
    never: Array  # (places,) where the value was never seen
    turn: Floats  # (p, |N|, d), or (1, |N|, d) where parts share a root
    constant: Floats  # (p,)
    power: Floats | None  # (p,)


@dataclass(frozen=True, slots=True, eq=False)
class Forms:
    """Gaussians over coordinates: constant − ½q, or constant − power·log(1 + scale·q), with q = |root (x − mean)|².

    A class is the mixture of the parts that it owns, log Σ exp(share + …); one that owns none is ruled out.
    """

    coordinates: tuple[int, ...]
    mean: Floats  # (p, d)
    root: Floats  # (p, d, d), or (1, d, d) where they share one; upper triangular
    constant: Floats  # (p,)
    owner: Codes  # (p,) each part's class
    share: Floats  # (p,) log of its share in the class
    scale: Floats | None = None  # (p,)
    power: Floats | None = None  # (p,)
    absent: tuple[Absent, ...] = ()  # where two of these are missing at once, nothing can be said of the row


@dataclass(frozen=True, slots=True, eq=False)
class SplitTrees:
    """Trees of splits, and a value at every node: those at which a row ends, a node a tree, add up.

    At a node that looks at some place, the row ends if `ends[place][where it is]`, and goes left if `lefts[node][…]`.
    """

    trees: tuple[int, ...]  # where each begins, and the end
    place: Codes  # (nodes,) what a node looks at, −1 at a leaf
    left: Codes
    right: Codes
    lefts: tuple[Array, ...]  # (places,) each, empty at a leaf
    ends: dict[int, Array]  # (places,) each
    values: Floats  # (nodes, k)


Term: TypeAlias = "Slopes | Bells | Walks | Forms | SplitTrees"


@dataclass(frozen=True, slots=True, eq=False)
class WeightedTerm:
    """weight × a term; with `most`, the term about its mean over the classes, none further from it than that."""

    term: Term
    weight: float = 1.0
    most: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """offsets + Σ parts, by class."""

    parts: tuple[WeightedTerm, ...]
    offsets: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """log P(y | x) up to what all classes share, and the prior where every class says −∞.

    Where classes are made of components, `owner` has the class of each, and scores are those of components. `decided`
    are other scores that the label goes by, where it does not go by these.
    """

    classes: Array
    inputs: tuple[Input, ...]
    places: tuple[Where, ...]
    coordinates: tuple[Coordinate, ...]
    scores: Scores
    log_prior: Floats  # (k,)
    features: tuple[str, ...]  # all columns of the table, in their order, whether they say something or not
    owner: Codes | None = None
    decided: Scores | None = None

    @property
    def cells(self) -> int:
        """How many numbers it takes to write it down, about."""
        scores = (self.scores,) if self.decided is None else (self.scores, self.decided)
        return sum(cells_of(part.term) for each in scores for part in each.parts)


def cells_of(term: Term) -> int:
    """How many numbers a term has, about."""
    if isinstance(term, Slopes | Bells):
        return 3 * (term.mean if isinstance(term, Bells) else term.slope).size
    if isinstance(term, Walks):
        hidden = sum(one.laws.size + sum(each.shares.size for each in one.below) for one in term.hidden)
        return sum(walk.values.size for walk in term.walks) + hidden
    if isinstance(term, Forms):
        return int(term.root.size + term.mean.size + sum(one.turn.size for one in term.absent))
    return int(term.values.size)


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """How a table's columns are read: what they are called, which are dates or booleans, which texts say nothing.

    `spell` is how a category that is no number is written in the table.
    """

    features: tuple[str, ...]
    kinds: Mapping[str, str] = field(default_factory=dict)
    nothing: tuple[str, ...] = ()
    spell: Callable[[Any], str] = str

    def number(self, name: str) -> Input:
        """A column of numbers, dates or booleans."""
        kind = self.kinds.get(name, "number")
        return Input(name, kind if kind in ("date", "boolean") else "number")

    def text(self, name: str) -> Input:
        return Input(name, "text", nothing=self.nothing)


@dataclass(slots=True)
class Sketch:
    """A formula's columns, places and coordinates while terms are written, each once."""

    reading: ColumnReading = field(default_factory=lambda: ColumnReading(()))
    inputs: list[Input] = field(default_factory=list)
    places: list[Where] = field(default_factory=list)
    coordinates: list[Coordinate] = field(default_factory=list)
    _at: dict[Input, int] = field(default_factory=dict)

    def input(self, one: Input) -> int:
        if one not in self._at:
            self._at[one] = len(self.inputs)
            self.inputs.append(one)
        return self._at[one]

    def place(self, where: Where) -> int:
        self.places.append(where)
        return len(self.places) - 1

    def coordinate(self, one: Coordinate) -> int:
        self.coordinates.append(one)
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
        """Where a column's value stands: among intervals, numbers, booleans, or texts."""
        how = self.reading
        if isinstance(known, Bins):
            return ColumnPlace(self.input(how.number(name)), cuts=np.array(known.cuts))
        values = tuple(known)
        if values and all(isinstance(value, bool | np.bool_) for value in values):
            return ColumnPlace(self.input(Input(name, "boolean")), tuple(map(float, values)))
        if values and all(isinstance(value, int | float | np.number) and type(value) is not bool for value in values):
            return ColumnPlace(self.input(how.number(name)), values)
        return ColumnPlace(self.input(how.text(name)), tuple(map(how.spell, values)))


def alone(place: int, table: Floats) -> Walk:
    """A column that depends on no other, from what each of its places says, (places, k)."""
    return Walk((), place, (), np.ascontiguousarray(table)[None])


def live(term: Forms, k: int) -> Array:
    """Which classes own a part."""
    return np.isin(np.arange(k), term.owner)


def spans(trees: tuple[int, ...]) -> list[range]:
    """The nodes of every tree."""
    return [range(start, stop) for start, stop in pairwise(trees)]
