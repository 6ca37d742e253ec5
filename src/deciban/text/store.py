"""Items and their sums as a value holds them: flat arrays, or those and what a few documents have changed since.

To learn a document changes the sums of its own items, so it should take as long as the document. `Changed` shares the
arrays that were there first, adds new items to sets that all later values share, and has a version of the sums of its
own (`_kernel/versions`). Whatever concerns all items is done with the flat form, which is derived when it is asked for;
and once the changes take half as much room as the arrays, the flat form replaces both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

import numpy as np

from deciban._kernel import evidence as kernel
from deciban._kernel import versions as versioned
from deciban._typing import Array, Codes, Floats
from deciban.measure import RESIDUE
from deciban.text.items import BLOCKS, Items, Lexicon, Rows
from deciban.text.raw import Documents

GRAIN = 2.0**30
MIN_CHANGED_CELLS = 1 << 16  # fewer are not worth a new flat form


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

    @property
    def known(self) -> Array:
        """Whether anything is known of each item."""
        return np.diff(self.ptr) > 0

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
        return np.asarray(np.add.reduceat(np.append(self.val, 0.0), self.ptr[:-1]) * self.known)

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

    def take(self, which: Array) -> ItemSums:
        """These items only, in this order."""
        begin = self.ptr[which]
        sizes = self.ptr[1:][which] - begin
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        at = np.arange(ptr[-1]) + np.repeat(begin - ptr[:-1], sizes)
        return ItemSums(ptr, self.cls[at], self.val[at])

    def versions(self) -> versioned.Version:
        """The first of versions that begin with these sums."""
        return versioned.Version(self.ptr, self.cls, self.val)


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """The items, and by block their sums."""

    lexicon: Items
    cells: dict[str, ItemSums]
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> tuple[type[Flat], tuple[Any, ...]]:
        return Flat, (self.lexicon, self.cells)

    @property
    def like(self) -> Items:
        """A lexicon of the same kind, which may lack some of the items."""
        return self.lexicon

    @property
    def n_items(self) -> int:
        return sum(mine.size for mine in self.cells.values())

    def size(self, block: str) -> int:
        """How many items have numbers."""
        return self.cells[block].size

    def flat(self) -> Flat:
        return self

    def numbered(self, documents: Documents, start: int, stop: int) -> dict[str, Rows]:
        """The distinct items of each document, by block; −1 where unknown."""
        return self.lexicon.numbered(documents, start, stop, tuple(self.cells))

    def placed(self, spelled: Lexicon) -> dict[str, Codes]:
        """The numbers of the items of a lexicon with strings, as `numbered` has them; −1 where unknown."""
        return self.lexicon.placed(spelled, tuple(self.cells))

    def take(self, block: str, which: Codes) -> ItemSums:
        """The sums of items that are numbered as `numbered` does; −1 has none."""
        if block not in self._cache:
            self._cache[block] = self.cells[block].versions()
        return ItemSums(*self._cache[block].take(which))

    def as_numbered(self, block: str) -> ItemSums:
        """The sums of all items, numbered as `numbered` does."""
        return self.cells[block]

    def columns(self, common: Any) -> dict[str, Codes]:
        """By block, the column of x of each item among those that are modelled jointly; −1 if it has none."""
        if self._cache.get("common") is not common.items:
            self._cache["columns"], self._cache["common"] = common.columns(self.lexicon), common.items
        return self._cache["columns"]  # type: ignore[no-any-return]  # put there above

    def find(self, words: Iterable[str]) -> Codes:
        """The numbers of words, as `numbered` has them; −1 where unknown."""
        return self.lexicon.find(words)

    def changed(self, lasting: Iterable[str]) -> Changed:
        """The same, to be changed; words that are `lasting` stay when all of them is forgotten."""
        versions = {block: mine.versions() for block, mine in self.cells.items()}
        return Changed(self, self.lexicon.beyond(), RLock(), versions, tuple(lasting))


@dataclass(frozen=True, slots=True, eq=False)
class Changed:
    """Flat items and sums, the items that are new since, and by block the version of the sums.

    New items are numbered after those of the flat form. Some of them may be those of later values, or of others that
    went their own way: they have no sums here, and so are as good as unknown. So is an item of which all was forgotten.
    """

    base: Flat
    more: Items  # shared by all values that were changed one after the other,
    lock: Any  # of whom one at a time adds to it
    versions: dict[str, versioned.Version]
    lasting: tuple[str, ...]  # words that stay when all of them is forgotten
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def like(self) -> Items:
        return self.base.lexicon

    @property
    def n_items(self) -> int:
        return sum(version.size for version in self.versions.values())

    def size(self, block: str) -> int:
        return self.versions[block].size

    @property
    def newest(self) -> bool:
        return all(version.newest for version in self.versions.values())

    @property
    def is_large(self) -> bool:
        """Whether what has changed takes half as much room as what was there first."""
        changed = sum(version.cells for version in self.versions.values())
        return changed > max(MIN_CHANGED_CELLS, sum(len(mine.cls) for mine in self.base.cells.values()) // 2)

    def flat(self) -> Flat:
        """Without items of which all was forgotten."""
        if "flat" not in self._cache:
            cells = {block: self.as_numbered(block) for block in self.versions}
            with self.lock:
                lexicon = self.base.lexicon.joined(self.more, {block: mine.size for block, mine in cells.items()})
            keep = {block: np.ones(lexicon.size(block), dtype=bool) for block in BLOCKS}
            for block, mine in cells.items():
                keep[block] = mine.known
                before = self.base.cells[block].known
                keep[block][: len(before)] |= ~before
            keep["words"][lexicon.find(self.lasting)] = True
            if all(mine.all() for mine in keep.values()):
                self._cache["flat"] = Flat(lexicon, cells)
            else:
                lexicon, which = lexicon.kept(keep)
                self._cache["flat"] = Flat(lexicon, {block: mine.take(which[block]) for block, mine in cells.items()})
        return self._cache["flat"]  # type: ignore[no-any-return]  # put there above

    def numbered(self, documents: Documents, start: int, stop: int) -> dict[str, Rows]:
        return self.base.lexicon.numbered(documents, start, stop, tuple(self.versions), self.more)

    def placed(self, spelled: Lexicon) -> dict[str, Codes]:
        with self.lock:
            return self.base.lexicon.placed(spelled, tuple(self.versions), self.more)

    def take(self, block: str, which: Codes) -> ItemSums:
        return ItemSums(*self.versions[block].take(which))

    def as_numbered(self, block: str) -> ItemSums:
        if block not in self._cache:
            self._cache[block] = ItemSums(*self.versions[block].all())
        return self._cache[block]  # type: ignore[no-any-return]  # put there above

    def columns(self, common: Any) -> dict[str, Codes]:
        return self.base.columns(common)  # common items are in many documents, and new ones in few

    def find(self, words: Iterable[str]) -> Codes:
        strings = list(words)
        with self.lock:
            first, beyond = self.base.lexicon.find(strings), self.more.find(strings)
        further = (first < 0) & (beyond >= 0)
        return np.where(further, beyond + self.base.lexicon.size("words"), first).astype(np.int32)

    def plus(
        self, other: Flat, to: Array, sign: float, slack: dict[str, float]
    ) -> tuple[Changed, dict[str, list[int]]] | None:
        """With (or with sign −1 without) other sums, whose class c is class to[c] here, in as long as those are; and by
        block the items that have no sums then.

        None if more is taken of an item than there is of it, by more than the slack of its block: then nothing has
        changed.
        """
        versions, to = dict(self.versions), to.astype(np.int32)
        gone: dict[str, list[int]] = {block: [] for block in versions}
        steps: list[tuple[versioned.Version, versioned.Version]] = []
        done = False
        with self.lock:
            if not self.newest:  # it has been changed in another way: from here on there are two
                return self.flat().changed(self.lasting).plus(other, to, sign, slack)
            lexicon, more = self.base.lexicon, self.more
            numbers = lexicon.adopted(other.lexicon, more) if sign > 0 else lexicon.places(other.lexicon, more)
            try:
                for block, summed in other.cells.items():
                    mine = summed
                    items, before, limit = numbers[block], versions[block], slack.get(block, 0.0)
                    usable = mine.known
                    if sign < 0 and (strange := usable & (items < 0)).any():
                        if mine.total()[strange].max() > limit:
                            return None
                        usable &= ~strange
                    if not usable.all():
                        mine, items = mine.take(np.flatnonzero(usable)), items[usable]
                    cls, size = to[mine.cls], lexicon.size(block) + more.size(block)
                    after, empty = before.plus(items, mine.ptr, cls, mine.val, sign, RESIDUE, limit, size)
                    if after is None:
                        return None
                    steps.append((before, after))
                    versions[block] = after
                    gone[block] += empty
                done = True
            finally:
                if not done:
                    for before, after in reversed(steps):
                        before.take_back(after)
        return replace(self, versions=versions), gone
