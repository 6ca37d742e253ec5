"""The statistics of a text model: sums by class and item, which form a commutative group. Stored sparsely.

A document adds u^−¾ to each of its u distinct items: presence, damped by length. That depends on nothing outside the
document, so the sums add, subtract and merge. It is rounded to a multiple of 2^−30, so that they do so exactly until a
sum passes 2^23.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from deciban._kernel import text as kernel
from deciban._typing import Array, Codes, Floats
from deciban.algebra import scatter
from deciban.corollaries.decay import MIN_CLASS_WEIGHT
from deciban.errors import ForgetError, SchemaError, VocabularyWarning, warn
from deciban.measure import RESIDUE
from deciban.schema import find, union_classes
from deciban.text.common import CommonItems
from deciban.text.items import BLOCKS, MAX_TABULATED_SIZE, PAIRED, Items, Lexicon, Rows, by_size
from deciban.text.parallel import map_with_own_state, over_blocks, workers_for
from deciban.text.raw import Documents, Vocabulary
from deciban.text.store import GRAIN, Changed, Flat, ItemSums
from deciban.text.tokens import TokenRule

DAMPING = 0.75
MAX_ITEMS = 1 << 22  # of a block, unless more are asked for
MAX_QUICK_ITEMS = 1 << 20  # of sums that are added to larger ones in as long as they are themselves
SMALL_SHARE = 1 / 4  # of the larger ones: with more, copying takes no longer


class Limit(NamedTuple):
    """How many items a block may have, and what that has cost: see decision 29.

    Once a block has a quarter more, the least used are dropped. A dropped item is as if it had never been learned.
    """

    most: int | None = None
    lasting: tuple[str, ...] = ()  # words that stay, even if there are no sums of them
    lost: tuple[tuple[str, float], ...] = ()  # by block, the largest use of an item that was dropped
    dropped: int = 0  # items, so far

    @property
    def highest(self) -> float:
        """With more items than this, some are dropped."""
        return np.inf if self.most is None else self.most + self.most // 4

    def slack(self, documents: float) -> dict[str, float]:
        """By block, how much of an item of these documents may be missing though they were learned.

        What one document has of an item is dropped at once, with all that there is of the item then. A grain more is
        for roundings.
        """
        return {block: amount * max(1.0, np.ceil(documents)) + 1.0 / GRAIN for block, amount in self.lost}

    def plus(self, other: Limit) -> Limit:
        both = [most for most in (self.most, other.most) if most is not None]
        lasting = tuple(dict.fromkeys((*self.lasting, *other.lasting)))
        limit = Limit(min(both, default=None), lasting, self.lost, self.dropped + other.dropped)
        return limit.losing(dict(other.lost), 0)

    def losing(self, lost: Mapping[str, float], dropped: int) -> Limit:
        """With items dropped, of which these are the largest uses by block."""
        both = {block: max(dict(self.lost).get(block, 0.0), lost.get(block, 0.0)) for block in BLOCKS}
        every = tuple((block, amount) for block, amount in both.items() if amount)
        return self._replace(lost=every, dropped=self.dropped + dropped)

    def scale(self, share: float) -> Limit:
        return self._replace(lost=tuple((block, amount * share) for block, amount in self.lost))

    def fresh(self) -> Limit:
        """The same before anything was learned."""
        return Limit(self.most, self.lasting)

    def of_part(self) -> Limit:
        """The same for sums that are to be added to others: how much an item is used is known only then."""
        return Limit(None if self.most is None else 4 * self.most, self.lasting)


NO_LIMIT = Limit()


@dataclass(frozen=True, slots=True, eq=False)
class TextSums:
    """By class the weight of documents, by block the sums of items (`cells`) and the total over documents (`mass`).

    If some items are modelled jointly, their sums as well (`common`).
    """

    classes: Array
    weight: Floats  # (k,)
    store: Flat | Changed
    mass: dict[str, float]
    closed: bool = False
    common: CommonItems | None = None
    limit: Limit = NO_LIMIT

    def __reduce__(self) -> tuple[type[TextSums], tuple[Any, ...]]:
        """What was forgotten is in no pickle."""
        store = self.store.flat()
        return TextSums, (self.classes, self.weight, store, self.mass, self.closed, self.common, self.limit)

    @property
    def lexicon(self) -> Items:
        """The items: of `cells`, though not always those of `store`."""
        return self.store.flat().lexicon

    @property
    def cells(self) -> dict[str, ItemSums]:
        return self.store.flat().cells

    @property
    def blocks(self) -> tuple[str, ...]:
        return tuple(self.mass)

    @property
    def n_features(self) -> int | None:
        """The number of buckets, if items are hashed."""
        return self.store.like.n_features

    @property
    def rule(self) -> TokenRule:
        """How texts are cut."""
        return self.store.like.rule

    @property
    def fresh(self) -> Callable[[], Items]:
        """What makes an empty lexicon of the same kind."""
        return self.store.like.fresh

    @property
    def n_items(self) -> int:
        return self.store.n_items

    @classmethod
    def none(
        cls,
        classes: Array,
        blocks: Sequence[str],
        closed: bool = False,
        fresh: Callable[[], Items] = Lexicon,
        limit: Limit = NO_LIMIT,
    ) -> TextSums:
        lexicon = fresh().with_words(limit.lasting)
        cells, mass = {block: ItemSums.none(lexicon.size(block)) for block in blocks}, dict.fromkeys(blocks, 0.0)
        return cls(classes, np.zeros(len(classes)), Flat(lexicon, cells), mass, closed, limit=limit)

    def __add__(self, other: TextSums) -> TextSums:
        large, small = (self, other) if self.n_items >= other.n_items else (other, self)
        quick = large._changed(small, 1.0)
        if quick is not None:
            return quick.cut()[0]
        a, b = self._in_common(other)
        common, limit = a.common_with(b), a.limit.plus(b.limit)
        if b.lexicon.is_empty():
            return replace(a, weight=a.weight + b.weight, common=common, limit=limit)
        if a.lexicon.is_empty():
            return replace(b, weight=a.weight + b.weight, common=common, limit=limit)
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
        return TextSums(a.classes, a.weight + b.weight, Flat(lexicon, cells), mass, a.closed, common, limit).cut()[0]

    def _changed(self, other: TextSums, sign: float) -> TextSums | None:
        """With the sums of a few documents, or with sign −1 without them, in as long as these are.

        None if that concerns more than their items: classes that are new, or empty after it; items that are modelled
        jointly, and of which nothing is left. And if the two do not fit together, or there is less of an item than is
        taken away: then the long way finds out what is wrong.
        """
        to = codes_among(other.classes, self.classes)
        if other.n_items > min(MAX_QUICK_ITEMS, self.n_items * SMALL_SHARE) or to is None or not other.weight.any():
            return None
        if self.blocks != other.blocks or self.n_features != other.n_features or self.rule != other.rule:
            return None
        weight = self.weight.copy()
        weight[to] += sign * other.weight
        used = to[other.weight > 0]
        if (self.weight[used] <= 0).any() or (weight[used] <= self.weight[used] * RESIDUE).any():
            return None
        if (other.closed and len(self.classes) > len(other.classes)) or (self.common is None) != (other.common is None):
            return None
        common, updates = self.common, None
        if common is not None and other.common is not None:
            updates = other.common.updates(to, sign)
            if updates is None or not common.has_items_of(other.common):
                return None
        store = self.store.changed(self.limit.lasting) if isinstance(self.store, Flat) else self.store
        changed = store.plus(other.store.flat(), to, sign, self.limit.slack(other.weight.sum()) if sign < 0 else {})
        if changed is None:
            return None
        store, gone = changed
        if common is not None and updates is not None:
            columns = store.columns(common)
            if any(column[item] >= 0 for b, column in columns.items() for item in gone[b] if item < len(column)):
                return None
            common = common.changed(updates, self.weight)
        mass = {block: max(0.0, total + sign * other.mass[block]) for block, total in self.mass.items()}
        limit = self.limit.plus(other.limit) if sign > 0 else self.limit
        return TextSums(
            self.classes,
            weight,
            store.flat() if store.is_large else store,
            mass,
            self.closed or other.closed,
            common,
            limit,
        )

    def cut(self) -> tuple[TextSums, dict[str, Codes] | None]:
        """Without the least used items of blocks that have too many; and by block where the others went, −1 if nowhere,
        None if nothing was dropped.

        An item's use is its sum over all classes. If several have the same, a hash of what they are decides, so that it
        does not matter in which order they came. With a word go the pairs that it is in.
        """
        most = self.limit.most
        if most is None or self.n_features is not None or not self._too_many(self.store):
            return self, None
        flat = self.store.flat()
        lexicon, lost = flat.lexicon, {}
        assert isinstance(lexicon, Lexicon)
        keep = {block: np.zeros(lexicon.size(block), dtype=bool) for block in BLOCKS}
        alive, dropped = np.ones(lexicon.size("words"), dtype=bool), {}
        for block, cells in sorted(flat.cells.items(), key=lambda pair: pair[0] != "words"):
            use, known = cells.total(), cells.known.copy()
            if block in (*PAIRED, "repeats"):
                first, second = getattr(lexicon, block).arrays()
                known &= alive[first] & (alive[second] if block in PAIRED else True)
            if np.count_nonzero(known) > self.limit.highest:
                known &= most_used(np.where(known, use, 0.0), partial(tie_breakers, lexicon, block), most)
            if block == "words":
                known[lexicon.find(self.limit.lasting)] = True
                alive = known | ~cells.known
            gone = cells.known & ~known
            if block == "words" and not gone.any() and len(known) <= self.limit.highest:
                known[:] = True  # names of header fields stay as well, and so all numbers
            keep[block], dropped[block] = known, int(np.count_nonzero(gone))
            lost[block] = float(use[gone].max(initial=0.0))
        if not any(dropped.values()) and not self._too_many(flat):  # the others were forgotten
            return replace(self, store=flat), None
        lexicon, which = lexicon.kept(keep)
        to = {block: np.full(len(mine), -1, dtype=np.int32) for block, mine in keep.items()}
        for block, mine in which.items():
            to[block][mine] = np.arange(len(mine), dtype=np.int32)
        some = Flat(
            lexicon,
            {b: cells if keep[b].all() else cells.take(which[b]) for b, cells in flat.cells.items()},
        )
        limit = self.limit.losing(lost, sum(dropped.values()))
        if any(dropped.values()):  # otherwise there were too many names of header fields without items
            warn_of_dropped(most, dropped)
        kernel.give_back_memory()
        common = None if self.common is None else self.common.known_in(lexicon)
        return replace(self, store=some, limit=limit, common=common), to

    def _too_many(self, store: Flat | Changed) -> bool:
        """Whether a block has more items than it may have. The names of header fields are words without sums: there may
        be one for each item of that block."""
        more = {"words": store.size("headers") if "headers" in self.blocks else 0}
        return any(store.size(block) > self.limit.highest + more.get(block, 0) for block in self.blocks)

    def common_with(self, other: TextSums) -> CommonItems | None:
        """The sums of both over the items that are modelled jointly; None if either has none."""
        for mine, theirs in ((self, other), (other, self)):
            if theirs.weight.any():
                continue
            same = theirs.common is None or (mine.common is not None and mine.common.has_items_of(theirs.common))
            if same:  # it has learned nothing
                return mine.common
        return None if self.common is None or other.common is None else self.common.plus(other.common)

    def __sub__(self, other: TextSums) -> TextSums:
        """Without what `other` learned, and without classes and items that are then empty."""
        unknown = [c for c in other.classes.tolist() if c not in set(self.classes.tolist())]
        if unknown:
            raise ForgetError(
                "cannot forget documents of class {value!r}: the model never learned that class", value=unknown[0]
            )
        quick = self._changed(other, -1.0)
        if quick is not None:
            return quick
        a, b = self._in_common(other)
        weight, slack = a.weight - b.weight, self.limit.slack(b.weight.sum())
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
            short = short_items(a.cells[block], b.cells[block], to[block], slack.get(block, 0.0))
            if len(short):
                raise never_learned(b.lexicon.names(block, short[:1])[0])
            rows = np.full(a.lexicon.size(block), -1, dtype=np.int32)
            there = np.flatnonzero(to[block] >= 0)
            rows[to[block][there]] = there.astype(np.int32)
            cells[block], _ = a.cells[block].combined(b.cells[block], rows, -1.0)
            empty_classes = np.flatnonzero(weight <= 0)
            if len(empty_classes) and np.isin(cells[block].cls, empty_classes).any():
                raise ForgetError(
                    "cannot forget these documents: their class would have words left but no document, "
                    "so they were not learned in this form"
                )
            keep[block] = cells[block].known
        keep["words"][a.lexicon.find(a.limit.lasting)] = True
        lexicon, which = a.lexicon.kept(keep)
        cells = {block: cells[block].take(which[block]) for block in cells}
        mass = {block: max(0.0, a.mass[block] - b.mass[block]) for block in a.mass}
        common = None if a.common is None or b.common is None else a.common.plus(b.common, -1.0)
        store, common = Flat(lexicon, cells), None if common is None else common.without_empty()
        remaining = TextSums(a.classes, weight, store, mass, a.closed, common, self.limit)
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
        return replace(self, weight=weight, store=Flat(self.lexicon, cells), mass=mass, common=common)

    def scale(self, share: float) -> TextSums:
        """Every sum times a number (decay). Items with less than a grain left are dropped; classes stay."""
        lexicon, cells = self.lexicon, {block: mine.scale(share) for block, mine in self.cells.items()}
        if any(len(mine.val) < len(self.cells[block].val) for block, mine in cells.items()):
            keep = {block: np.zeros(lexicon.size(block), dtype=bool) for block in BLOCKS}
            keep |= {block: mine.known for block, mine in cells.items()}
            keep["words"][lexicon.find(self.limit.lasting)] = True
            lexicon, which = lexicon.kept(keep)
            cells = {block: mine.take(which[block]) for block, mine in cells.items()}
        weight = self.weight * share
        mass = {block: total * share for block, total in self.mass.items()}
        weight = np.where(weight < MIN_CLASS_WEIGHT, 0.0, weight)
        common = None if self.common is None else self.common.scale(share)
        limit = self.limit.scale(share)
        return replace(self, weight=weight, store=Flat(lexicon, cells), mass=mass, common=common, limit=limit)

    def in_lexicon(self, lexicon: Items) -> TextSums:
        """The same with a larger lexicon, whose new items come after the present ones."""
        cells = {}
        for block, mine in self.cells.items():
            more = np.full(lexicon.size(block) - mine.size, mine.ptr[-1])
            cells[block] = replace(mine, ptr=np.concatenate([mine.ptr, more]))
        return replace(self, store=Flat(lexicon, cells))

    def knows(self, words: Sequence[str]) -> Array:
        """Whether anything was learned of each of these words."""
        return self.store.take("words", self.store.find(words)).known

    def nothing(self) -> TextSums:
        """Empty sums of the same classes, blocks and jointly modelled items."""
        none = self.none(self.classes, self.blocks, self.closed, self.fresh, self.limit.fresh())
        return replace(none, common=None if self.common is None else self.common.none(len(self.classes)))

    def only(self, keep: Array) -> TextSums:
        """Only the classes to keep; the others must be empty."""
        if keep.all():
            return self
        to = np.cumsum(keep) - 1
        cells = {block: mine.in_classes(to) for block, mine in self.cells.items()}
        common = None if self.common is None else replace(self.common, by_class=self.common.by_class[keep])
        store = Flat(self.lexicon, cells)
        return replace(self, classes=self.classes[keep], weight=self.weight[keep], store=store, common=common)

    def in_classes(self, classes: Array) -> TextSums:
        """The same with more classes."""
        if classes is self.classes or len(classes) == len(self.classes):
            return replace(self, classes=classes)
        to = find(self.classes, classes)
        cells = {block: mine.in_classes(to) for block, mine in self.cells.items()}
        common = None if self.common is None else self.common.in_classes(to, len(classes))
        weight = scatter(self.weight, to, len(classes))
        return replace(self, classes=classes, weight=weight, store=Flat(self.lexicon, cells), common=common)

    def _in_common(self, other: TextSums) -> tuple[TextSums, TextSums]:
        if self.blocks != other.blocks:
            raise SchemaError(
                f"cannot merge a model of {', '.join(self.blocks)} with one of {', '.join(other.blocks)}: use the "
                f"same blocks= for both"
            )
        check_same_hashing(self.n_features, other.n_features)
        check_same_rule(self.rule, other.rule)
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


def codes_among(some: Array, classes: Array) -> Array | None:
    """The places of some classes among sorted ones; None if they are not all there."""
    if some.dtype.kind != classes.dtype.kind:
        return None
    place = np.searchsorted(classes, some)
    return place if len(classes) and (classes[np.minimum(place, len(classes) - 1)] == some).all() else None


def tie_breakers(lexicon: Lexicon, block: str, which: Codes) -> Array:
    """A number for each of these items that follows from their strings."""
    if block in ("words", "characters"):
        strings: Vocabulary = getattr(lexicon, block)
        return np.asarray(strings.hashes()[which])
    words = lexicon.words.hashes().view(np.uint32)
    first, second = getattr(lexicon, block).arrays(which)
    other = words[second] if block in PAIRED else second.astype(np.uint64)
    both = words[first].astype(np.uint64) << np.uint64(32) | other
    return np.asarray(both * np.uint64(0x9E3779B97F4A7C15))  # so that the first word alone does not decide


def most_used(use: Floats, tie_breaker: Callable[[Codes], Array], most: int) -> Array:
    """Whether each item is one of the `most` that are used most; of those used equally, of the highest numbers. Never
    more, since words whose hashes are equal are easily made."""
    least = np.partition(use, len(use) - most)[len(use) - most]
    above, equal = use > least, np.flatnonzero(use == least).astype(np.int32)
    rest = len(equal) + int(np.count_nonzero(above)) - most
    above[equal[np.argpartition(tie_breaker(equal), rest)[rest:]] if rest else equal] = True
    return np.asarray(above)


def warn_of_dropped(most: int, dropped: dict[str, int]) -> None:
    counts = ", ".join(f"{n:,} of its {block}" for block, n in dropped.items() if n)
    warn(
        f"the model dropped {counts}, those that were used least: it keeps {most:,} of each kind (max_features). They "
        "are as if they had never been learned",
        VocabularyWarning,
    )


def short_items(mine: ItemSums, theirs: ItemSums, to: Codes, slack: float) -> Codes:
    """The items of `theirs`, item w being item to[w] of `mine`, of which some cell is short of what is to be taken
    away, by more than the slack."""
    item = np.repeat(np.arange(theirs.size), np.diff(theirs.ptr))
    there = np.where(to >= 0, to, 0)
    own = mine.take(there) if mine.size else ItemSums.none(len(to))
    owner = np.repeat(np.arange(own.size), np.diff(own.ptr))
    width = int(max(own.cls.max(initial=0), theirs.cls.max(initial=0))) + 1
    keys = owner * width + own.cls
    at = np.minimum(np.searchsorted(keys, item * width + theirs.cls), max(len(keys) - 1, 0))
    found = np.append(keys, -1)[at] == item * width + theirs.cls
    was = np.where(found & (to[item] >= 0), np.append(own.val, 0.0)[at], 0.0)
    short = theirs.val - was
    return np.unique(item[(short > was * RESIDUE) & (short > slack)]).astype(np.int32)


def never_learned(item: str) -> ForgetError:
    return ForgetError(
        "cannot forget these documents: they were not learned in this form (the model has learned less of {value!r} "
        "than they contain)",
        value=item,
    )


def check_known(learned: Array, which: Array, rows: dict[str, Rows], limit: Limit = NO_LIMIT) -> None:
    """Check that learned documents hold no unknown item; `which` are the rows' documents. If items were dropped,
    they cannot be checked."""
    for indptr, indices in (mine for block, mine in rows.items() if block not in dict(limit.lost)):
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
    return by_size(rows, DAMPED, damping)


def damping(u: Array) -> Floats:
    return np.asarray(np.round(np.maximum(u, 1) ** -DAMPING * GRAIN) / GRAIN * (u > 0))


DAMPED = damping(np.arange(MAX_TABULATED_SIZE))


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
        part = replace(part, closed=total.closed, limit=total.limit.of_part())
        total = total.in_lexicon(lexicon) + part if total.weight.any() else replace(part, limit=total.limit).cut()[0]
        lexicon = total.lexicon
        start += len(documents)
    return total


def read_into(
    lexicon: Items, documents: Documents, blocks: Sequence[str], n_jobs: int | None
) -> tuple[Array, dict[str, Rows]]:
    """The document of each row, and documents as rows numbered by the lexicon, which is extended."""
    if workers_for(documents, n_jobs) == 1:
        pieces = over_blocks(documents, 1, lambda some, start, stop: lexicon.read(some, start, stop, blocks))
        return np.arange(len(documents)), {block: stacked([piece[block] for piece in pieces]) for block in blocks}
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
    return TextSums(classes, by_class, Flat(lexicon, cells), mass, False, common)


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
    if len(rows) == 1:
        return rows[0]
    ends = np.cumsum([0, *(len(indices) for _, indices in rows)])
    ptr = [np.zeros(1, dtype=np.int64), *(indptr[1:] + end for (indptr, _), end in zip(rows, ends, strict=False))]
    return np.concatenate(ptr), np.concatenate([np.zeros(0, dtype=np.int32), *(indices for _, indices in rows)])
