"""The statistics of a text model: sums by class and item, which form a commutative group. Stored sparsely.

A document adds u^−¾ to each of its u distinct items: presence, damped by length. That depends on nothing outside the
document, so the sums add, subtract and merge. It is rounded to a multiple of 2^−30, so that they do so exactly until a
sum passes 2^23.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deciban._kernel import evidence as kernel
from deciban._typing import Array, Codes, Floats
from deciban.algebra import scatter
from deciban.corollaries.decay import MIN_CLASS_WEIGHT
from deciban.errors import ForgetError, SchemaError
from deciban.measure import RESIDUE
from deciban.schema import find, union_classes
from deciban.text.common import CommonItems
from deciban.text.items import BLOCKS, Items, Lexicon, Rows
from deciban.text.parallel import map_with_own_state
from deciban.text.raw import Documents
from deciban.text.tokens import TokenRule

DAMPING = 0.75
GRAIN = 2.0**30


@dataclass(frozen=True, slots=True, eq=False)
class ItemSums:
    """Sums by item and class, the nonzero ones only: those of an item are at ptr[item]..ptr[item + 1]."""

    ptr: Array
    cls: Codes
    val: Floats

    @classmethod
    def none(cls, size: int = 0) -> ItemSums:
        return cls(np.zeros(size + 1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0))

    @classmethod
    def of(cls, rows: Rows, y: Codes, amount: Floats, size: int, k: int) -> ItemSums:
        """Each row's amount, added to every item it has."""
        indptr, indices = rows
        room = min(len(indices), size * k)
        ptr, which, val = np.empty(size + 1, dtype=np.int64), np.empty(room, dtype=np.int32), np.empty(room)
        used = kernel.class_sums(indptr, indices, y, amount, size, k, ptr, which, val)
        return cls(ptr, which[:used].copy(), val[:used].copy())

    @property
    def size(self) -> int:
        return len(self.ptr) - 1

    def combined(self, other: ItemSums, rows: Codes, sign: float = 1.0) -> tuple[ItemSums, int]:
        """self + sign·other, whose item rows[w] is item w here; and the first item with a negative sum (−1: none)."""
        room = len(self.cls) + len(other.cls)
        ptr, which, val = np.empty(len(rows) + 1, dtype=np.int64), np.empty(room, dtype=np.int32), np.empty(room)
        used, short = kernel.combine(
            self.ptr, self.cls, self.val, other.ptr, other.cls, other.val, rows, sign, RESIDUE, ptr, which, val
        )
        return ItemSums(ptr, which[:used].copy(), val[:used].copy()), short

    def total(self) -> Floats:
        """The sum of each item over all classes."""
        return np.asarray(np.add.reduceat(np.append(self.val, 0.0), self.ptr[:-1]) * (np.diff(self.ptr) > 0))

    def in_classes(self, to: Array) -> ItemSums:
        """The same with class c as class to[c]; `to` is ascending."""
        return replace(self, cls=to.astype(np.int32)[self.cls])

    def scale(self, share: float) -> ItemSums:
        """Times a number, without sums below a grain."""
        val = self.val * share
        kept = val >= 1.0 / GRAIN
        if kept.all():
            return replace(self, val=val)
        return ItemSums(np.concatenate([[0], np.cumsum(kept)])[self.ptr], self.cls[kept], val[kept])

    def take(self, which: Codes) -> ItemSums:
        """These items only, in this order."""
        begin = self.ptr[which]
        sizes = self.ptr[1:][which] - begin
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        at = np.arange(ptr[-1]) + np.repeat(begin - ptr[:-1], sizes)
        return ItemSums(ptr, self.cls[at], self.val[at])


@dataclass(frozen=True, slots=True, eq=False)
class TextSums:
    """By class the weight of documents, by block the sums of items (`cells`) and the total over documents (`mass`).

    If some items are modelled jointly, their sums as well (`common`).
    """

    classes: Array
    weight: Floats  # (k,)
    lexicon: Items
    cells: dict[str, ItemSums]
    mass: dict[str, float]
    closed: bool = False
    common: CommonItems | None = None

    @property
    def blocks(self) -> tuple[str, ...]:
        return tuple(self.cells)

    @property
    def n_items(self) -> int:
        return sum(mine.size for mine in self.cells.values())

    @classmethod
    def none(
        cls, classes: Array, blocks: Sequence[str], closed: bool = False, fresh: Callable[[], Items] = Lexicon
    ) -> TextSums:
        lexicon = fresh()
        cells = {block: ItemSums.none(lexicon.size(block)) for block in blocks}
        return cls(classes, np.zeros(len(classes)), lexicon, cells, dict.fromkeys(blocks, 0.0), closed)

    def __add__(self, other: TextSums) -> TextSums:
        a, b = self._in_common(other)
        common = a.common_with(b)
        if b.lexicon.is_empty():
            return replace(a, weight=a.weight + b.weight, common=common)
        if a.lexicon.is_empty():
            return replace(b, weight=a.weight + b.weight, common=common)
        if a.n_items < b.n_items:  # the larger is copied, the smaller is merged into it
            a, b = b, a
        if a.lexicon is b.lexicon:
            lexicon, to = a.lexicon, {block: np.arange(mine.size, dtype=np.int32) for block, mine in a.cells.items()}
        else:
            lexicon = a.lexicon.copy()
            to = lexicon.merge(b.lexicon)
        cells = {}
        for block in a.cells:
            rows = np.full(lexicon.size(block), -1, dtype=np.int32)
            rows[to[block]] = np.arange(len(to[block]), dtype=np.int32)
            cells[block], _ = a.cells[block].combined(b.cells[block], rows)
        mass = {block: a.mass[block] + b.mass[block] for block in a.mass}
        return TextSums(a.classes, a.weight + b.weight, lexicon, cells, mass, a.closed, common)

    def common_with(self, other: TextSums) -> CommonItems | None:
        """The sums of both over the items that are modelled jointly; None if either has none."""
        for mine, theirs in ((self, other), (other, self)):
            if theirs.common is None and not theirs.weight.any():  # it has learned nothing
                return mine.common
        return None if self.common is None or other.common is None else self.common.plus(other.common)

    def __sub__(self, other: TextSums) -> TextSums:
        """Without what `other` learned, and without classes and items that are then empty."""
        unknown = [c for c in other.classes.tolist() if c not in set(self.classes.tolist())]
        if unknown:
            raise ForgetError(
                "cannot forget documents of class {value!r}: the model never learned that class", value=unknown[0]
            )
        a, b = self._in_common(other)
        weight = a.weight - b.weight
        weight = np.where(np.abs(weight) <= a.weight * RESIDUE, 0.0, weight)
        if (weight < 0).any():
            c = int(np.argmin(weight))
            raise ForgetError(
                "cannot forget {given:g} documents of class {value!r}: only {learned:g} were learned",
                value=a.classes.tolist()[c],
                given=b.weight[c],
                learned=a.weight[c],
            )
        to = a.lexicon.places(b.lexicon)
        cells, keep = {}, {block: np.zeros(a.lexicon.size(block), dtype=bool) for block in BLOCKS}
        for block in a.cells:
            used = np.diff(b.cells[block].ptr) > 0
            unknown_items = np.flatnonzero((to[block] < 0) & used)
            if len(unknown_items):
                raise never_learned(b.lexicon.names(block, unknown_items[:1].astype(np.int32))[0])
            rows = np.full(a.lexicon.size(block), -1, dtype=np.int32)
            there = np.flatnonzero(to[block] >= 0)
            rows[to[block][there]] = there.astype(np.int32)
            cells[block], short = a.cells[block].combined(b.cells[block], rows, -1.0)
            if short >= 0:
                raise never_learned(a.lexicon.names(block, np.array([short], dtype=np.int32))[0])
            empty_classes = np.flatnonzero(weight <= 0)
            if len(empty_classes) and np.isin(cells[block].cls, empty_classes).any():
                raise ForgetError(
                    "cannot forget these documents: their class would have words left but no document, "
                    "so they were not learned in this form"
                )
            keep[block] = np.diff(cells[block].ptr) > 0
        lexicon, which = a.lexicon.kept(keep)
        cells = {block: cells[block].take(which[block]) for block in cells}
        mass = {block: max(0.0, a.mass[block] - b.mass[block]) for block in a.mass}
        common = None if a.common is None or b.common is None else a.common.plus(b.common, -1.0)
        remaining = TextSums(
            a.classes, weight, lexicon, cells, mass, a.closed, None if common is None else common.without_empty()
        )
        return remaining if a.closed else remaining.only(weight > 0)

    def less(self, other: TextSums) -> TextSums:
        """Without what `other` learned, which must be a part of this; empty classes and items stay."""
        weight = self.weight - other.weight
        cells = {
            block: mine.combined(other.cells[block], np.arange(mine.size, dtype=np.int32), -1.0)[0]
            for block, mine in self.cells.items()
        }
        mass = {block: max(0.0, self.mass[block] - other.mass[block]) for block in self.mass}
        weight = np.where(np.abs(weight) <= self.weight * RESIDUE, 0.0, weight)
        common = None if self.common is None or other.common is None else self.common.plus(other.common, -1.0)
        return replace(self, weight=weight, cells=cells, mass=mass, common=common)

    def scale(self, share: float) -> TextSums:
        """Every sum times a number (decay). Items with less than a grain left are dropped; classes stay."""
        lexicon, cells = self.lexicon, {block: mine.scale(share) for block, mine in self.cells.items()}
        if any(len(mine.val) < len(self.cells[block].val) for block, mine in cells.items()):
            keep = {block: np.zeros(lexicon.size(block), dtype=bool) for block in BLOCKS}
            keep |= {block: np.diff(mine.ptr) > 0 for block, mine in cells.items()}
            lexicon, which = lexicon.kept(keep)
            cells = {block: mine.take(which[block]) for block, mine in cells.items()}
        weight = self.weight * share
        mass = {block: total * share for block, total in self.mass.items()}
        weight = np.where(weight < MIN_CLASS_WEIGHT, 0.0, weight)
        common = None if self.common is None else self.common.scale(share)
        return replace(self, weight=weight, lexicon=lexicon, cells=cells, mass=mass, common=common)

    def in_lexicon(self, lexicon: Items) -> TextSums:
        """The same with a larger lexicon, whose new items come after the present ones."""
        cells = {}
        for block, mine in self.cells.items():
            more = np.full(lexicon.size(block) - mine.size, mine.ptr[-1])
            cells[block] = replace(mine, ptr=np.concatenate([mine.ptr, more]))
        return replace(self, lexicon=lexicon, cells=cells)

    def with_words(self, words: Iterable[str]) -> TextSums:
        """With these words added to the lexicon."""
        lexicon = self.lexicon.with_words(words)
        return self if lexicon is self.lexicon else self.in_lexicon(lexicon)

    def nothing(self) -> TextSums:
        """Empty sums of the same classes, blocks and jointly modelled items."""
        none = self.none(self.classes, self.blocks, self.closed, self.lexicon.fresh)
        return replace(none, common=None if self.common is None else self.common.none(len(self.classes)))

    def only(self, keep: Array) -> TextSums:
        """Only the classes to keep; the others must be empty."""
        if keep.all():
            return self
        to = np.cumsum(keep) - 1
        cells = {block: mine.in_classes(to) for block, mine in self.cells.items()}
        common = None if self.common is None else replace(self.common, by_class=self.common.by_class[keep])
        return replace(self, classes=self.classes[keep], weight=self.weight[keep], cells=cells, common=common)

    def in_classes(self, classes: Array) -> TextSums:
        """The same with more classes."""
        if classes is self.classes or len(classes) == len(self.classes):
            return replace(self, classes=classes)
        to = find(self.classes, classes)
        cells = {block: mine.in_classes(to) for block, mine in self.cells.items()}
        common = None if self.common is None else self.common.in_classes(to, len(classes))
        weight = scatter(self.weight, to, len(classes))
        return replace(self, classes=classes, weight=weight, cells=cells, common=common)

    def _in_common(self, other: TextSums) -> tuple[TextSums, TextSums]:
        if self.blocks != other.blocks:
            raise SchemaError(
                f"cannot merge a model of {', '.join(self.blocks)} with one of {', '.join(other.blocks)}: use the "
                f"same blocks= for both"
            )
        check_same_hashing(self.lexicon.n_features, other.lexicon.n_features)
        check_same_rule(self.lexicon.rule, other.lexicon.rule)
        classes = union_classes(self.classes, other.classes)
        for one, two in ((self, other), (other, self)):
            if one.closed and len(classes) > len(one.classes):
                new = [c for c in two.classes.tolist() if c not in set(one.classes.tolist())]
                raise SchemaError(f"the classes were declared as {one.classes.tolist()}, so {new} cannot be added")
        closed = self.closed or other.closed
        return replace(self.in_classes(classes), closed=closed), replace(other.in_classes(classes), closed=closed)


def check_same_hashing(one: int | None, two: int | None) -> None:
    if one != two:
        raise SchemaError(
            f"cannot merge models whose n_features differs: {one} and {two}, so their buckets do not match: fit both "
            f"with the same n_features"
        )


def check_same_rule(one: TokenRule, two: TokenRule) -> None:
    if one.scripts != two.scripts:
        raise SchemaError(
            "cannot merge these models: one of them was saved by an older version, which split texts only at spaces "
            "and punctuation. Train it again"
        )
    if one.normalise != two.normalise:
        raise SchemaError("cannot merge models whose normalise differs: fit both with the same")


def never_learned(item: str) -> ForgetError:
    return ForgetError(
        "cannot forget these documents: they were not learned in this form (the model has learned less of {value!r} "
        "than they contain)",
        value=item,
    )


def check_known(learned: Array, which: Array, rows: dict[str, Rows]) -> None:
    """Check that learned documents hold no unknown item; `which` are the rows' documents."""
    for indptr, indices in rows.values():
        new = np.add.reduceat(np.append(indices < 0, False), indptr[:-1]) * (np.diff(indptr) > 0)
        unknown = np.intersect1d(which[new > 0], learned)
        if len(unknown):
            raise ForgetError(
                "document {row} was never learned: it has words that are new to the model", row=int(unknown[0])
            )


def narrowed(rows: Rows, size: int) -> tuple[Codes, Rows]:
    """The items of rows below `size`, ascending, and the rows renumbered by these; −1 is any other item."""
    indptr, indices = rows
    known = np.flatnonzero((indices >= 0) & (indices < size))
    ascending = np.sort(indices[known])
    which = ascending[np.diff(ascending, prepend=-1) > 0]
    numbers = np.full(len(indices), -1, dtype=np.int32)
    numbers[known] = np.searchsorted(which, indices[known])
    return which, (indptr, numbers)


def damped(rows: Rows) -> Floats:
    """u^−¾ of each row with u distinct items, rounded to a multiple of 2^−30; 0 for a row without items."""
    u = np.diff(rows[0])
    return np.asarray(np.round(np.maximum(u, 1) ** -DAMPING * GRAIN) / GRAIN * (u > 0))


def collect(
    batches: Iterable[Documents],
    y: Codes,
    total: TextSums,
    weight: Floats | None = None,
    n_jobs: int | None = None,
) -> TextSums:
    """The total plus the sums of documents of class codes y (−1: not added); its lexicon is extended."""
    lexicon, start = total.lexicon, 0
    for documents in batches:
        if not len(documents):
            continue
        order, rows = read_into(lexicon, documents, total.blocks, n_jobs)
        mine = order + start
        w = None if weight is None else weight[mine]
        part = sums_of(lexicon, rows, y[mine], total.classes, w, total.common, n_jobs)
        total = total.in_lexicon(lexicon) + part if total.weight.any() else replace(part, closed=total.closed)
        start += len(documents)
    return total


def read_into(
    lexicon: Items, documents: Documents, blocks: Sequence[str], n_jobs: int | None
) -> tuple[Array, dict[str, Rows]]:
    """The document of each row, and documents as rows numbered by the lexicon, which is extended."""
    order = [np.zeros(0, dtype=np.intp)]
    rows: dict[str, list[Rows]] = {block: [] for block in blocks}
    for part in read(documents, blocks, n_jobs, lexicon):
        to = lexicon.merge(part.lexicon)
        for first, last, piece in part.pieces:
            order.append(np.arange(first, last))
            for block, (indptr, indices) in piece.items():
                rows[block].append((indptr, to[block][indices]))
    return np.concatenate(order), {block: stacked(mine) for block, mine in rows.items()}


def some_rows(rows: Rows, which: Array) -> Rows:
    indptr, indices = rows
    sizes = np.diff(indptr)[which]
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return ptr, indices[np.arange(ptr[-1]) + np.repeat(indptr[:-1][which] - ptr[:-1], sizes)]


def sums_of(
    lexicon: Items,
    rows: dict[str, Rows],
    y: Codes,
    classes: Array,
    weight: Floats | None,
    common: CommonItems | None = None,
    n_jobs: int | None = 1,
) -> TextSums:
    """The sums of rows whose items are numbered by the lexicon; `common` has the items to model jointly."""
    y = np.ascontiguousarray(y, dtype=np.int32)
    if weight is not None:
        y = np.where(weight > 0, y, -1).astype(np.int32)  # documents of weight 0 add nothing, not even a word
    amount = np.ones(len(y)) if weight is None else weight
    k, cells, mass = len(classes), {}, {}
    for block, mine in rows.items():
        x = damped(mine) * amount
        cells[block] = ItemSums.of(mine, y, np.ascontiguousarray(x), lexicon.size(block), k)
        mass[block] = float(x[y >= 0].sum())
    known = y >= 0
    by_class = np.bincount(y[known], amount[known], minlength=k).astype(float)
    if common is not None:
        common = common.of(common.vectors(common.columns(lexicon), rows), y, np.ascontiguousarray(amount), k, n_jobs)
    return TextSums(classes, by_class, lexicon, cells, mass, False, common)


@dataclass(slots=True)
class ThreadPart:
    """What one thread has read: its lexicon, and (start, stop, rows by block) of each piece of documents."""

    lexicon: Items
    pieces: list[tuple[int, int, dict[str, Rows]]]


def read(documents: Documents, blocks: Sequence[str], n_jobs: int | None, like: Items) -> list[ThreadPart]:
    """Documents as rows of items, in threads, each with a lexicon of its own that is like the given one."""

    def work(lexicon: Items, documents: Documents, start: int, stop: int) -> tuple[int, int, dict[str, Rows]]:
        return start, stop, lexicon.read(documents, start, stop, blocks)

    lexicons, done = map_with_own_state([like.rule.prepared(documents)], n_jobs, like.fresh, work)
    parts = [ThreadPart(lexicon, [piece for own, piece in done if own == i]) for i, lexicon in enumerate(lexicons)]
    return [part for part in parts if part.pieces]


def stacked(rows: Sequence[Rows]) -> Rows:
    """Several blocks of rows as one."""
    ends = np.cumsum([0, *(len(indices) for _, indices in rows)])
    ptr = [np.zeros(1, dtype=np.int64), *(indptr[1:] + end for (indptr, _), end in zip(rows, ends, strict=False))]
    return np.concatenate(ptr), np.concatenate([np.zeros(0, dtype=np.int32), *(indices for _, indices in rows)])
