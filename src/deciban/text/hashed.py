"""The hashed vocabulary: an item is the bucket of its hash, and no string is kept.

Memory is bounded by the number of buckets, and models of separate parts have the same items without merging any
vocabulary. Two items in one bucket are one item to the model. Buckets are numbered in order of first use, as words are,
so that a model of few texts is small, and sums, evidence and forgetting work as with words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Self

import numpy as np

from deciban._kernel import text as kernel
from deciban._typing import Array, Codes
from deciban.errors import DecibanError
from deciban.text.items import BLOCKS, Items, Lexicon, Rows
from deciban.text.raw import Documents, PairVocabulary, Vocabulary
from deciban.text.tokens import BY_SCRIPT, TokenRule

SHARED = Lock()  # for sets of new buckets, which threads share
MAX_BUCKETS = 2**31 - 1  # hashes have 32 bits, of which the sign is dropped


@dataclass(slots=True, eq=False)
class Buckets:
    """A growing set of buckets, numbered in order of first use, like a vocabulary without strings.

    >>> buckets = Buckets(1000)
    >>> buckets.add(["to", "be", "or", "not", "to", "be"]).tolist()
    [0, 1, 2, 3, 0, 1]
    >>> buckets.strings()
    ['#691', '#286', '#935', '#988']
    """

    n_features: int  # an item is in bucket |hash| mod n_features
    seen: PairVocabulary = field(default_factory=PairVocabulary)  # (0, bucket)

    def __len__(self) -> int:
        return len(self.seen)

    def number(self, hashes: Codes) -> Codes:
        """The numbers of the buckets that these hashes are in; new ones are added."""
        return self._numbers(self._buckets(hashes), True)

    def place(self, hashes: Codes) -> Codes:
        """The same without adding any: −1 for an unknown bucket."""
        return self._numbers(self._buckets(hashes), False)

    def add(self, strings: Iterable[str]) -> Codes:
        words = Vocabulary()
        at = words.add(strings)
        return self.number(words.hashes())[at]

    def find(self, strings: Iterable[str]) -> Codes:
        words = Vocabulary()
        at = words.add(strings)
        return self.place(words.hashes())[at]

    def merge(self, other: Buckets) -> Codes:
        """Adds the other's buckets; returns their numbers here."""
        return self._numbers(other.buckets(), True)

    def locate(self, other: Buckets) -> Codes:
        """The number here of each of the other's buckets, or −1."""
        return self._numbers(other.buckets(), False)

    def buckets(self, which: Codes | None = None) -> Codes:
        """Which buckets there are, or those with these numbers."""
        return self.seen.arrays(which)[1]

    def strings(self, which: Codes | None = None) -> list[str]:
        """Names of buckets, since the words are unknown."""
        return [f"#{bucket}" for bucket in self.buckets(which).tolist()]

    def take(self, which: Codes) -> Buckets:
        return Buckets(self.n_features, self.seen.take(which))

    def copy(self) -> Buckets:
        return Buckets(self.n_features, self.seen.copy())

    def _buckets(self, hashes: Codes) -> Codes:
        return (np.abs(hashes.astype(np.int64)) % self.n_features).astype(np.int32)

    def _numbers(self, buckets: Codes, grow: bool) -> Codes:
        nothing = np.zeros(len(buckets), dtype=np.int32)
        return self.seen.add(nothing, buckets) if grow else self.seen.find(nothing, buckets)


@dataclass(slots=True, eq=False)
class HashedLexicon(Items):
    """The buckets that have been seen, by block."""

    sets: dict[str, Buckets]
    rule: TokenRule = BY_SCRIPT

    @classmethod
    def none(cls, n_features: int, rule: TokenRule = BY_SCRIPT) -> Self:
        return cls({block: Buckets(n_features) for block in BLOCKS}, rule)

    @property
    def n_features(self) -> int:
        return self.sets["words"].n_features

    def fresh(self) -> Self:
        return self.none(self.n_features, self.rule)

    def size(self, block: str) -> int:
        return len(self.sets[block])

    def is_empty(self) -> bool:
        return not any(map(len, self.sets.values()))

    def read(self, documents: Documents, start: int, stop: int, blocks: Sequence[str]) -> dict[str, Rows]:
        spelled, out = Lexicon(rule=self.rule), {}  # strings are not kept after this call
        for block, (indptr, items) in spelled.read(documents, start, stop, blocks).items():
            mine = self.sets[block]
            numbers = mine.number(hashes(spelled, block))
            _, indices, begin = kernel.count(numbers[items], indptr, len(mine))
            out[block] = begin, indices
        return out

    def numbered(
        self, documents: Documents, start: int, stop: int, blocks: Sequence[str], more: Self | None = None
    ) -> dict[str, Rows]:
        own = self.fresh()
        rows = own.read(documents, start, stop, blocks)
        to = self.places(own, more)
        return {block: (indptr, to[block][indices]) for block, (indptr, indices) in rows.items()}

    def beyond(self) -> Self:
        return self.fresh()

    def adopted(self, other: Self, more: Self) -> dict[str, Codes]:
        return self._numbers(other, more, grow=True)

    def _numbers(self, other: Self, more: Self | None, grow: bool) -> dict[str, Codes]:
        out = {}
        for block, mine in self.sets.items():
            to = out[block] = mine.locate(other.sets[block])
            unknown = np.flatnonzero(to < 0).astype(np.int32)
            if more is not None and len(unknown):
                some, theirs = other.sets[block].take(unknown), more.sets[block]
                with SHARED:
                    numbers = theirs.merge(some) if grow else theirs.locate(some)
                to[unknown] = np.where(numbers >= 0, numbers + len(mine), -1)
        return out

    def joined(self, more: Self, sizes: dict[str, int]) -> Self:
        out = self.copy()
        for block, size in sizes.items():
            out.sets[block].merge(more.sets[block].take(np.arange(size - self.size(block), dtype=np.int32)))
        return out

    def copy(self) -> Self:
        return type(self)({block: mine.copy() for block, mine in self.sets.items()}, self.rule)

    def merge(self, other: Self) -> dict[str, Codes]:
        return {block: mine.merge(other.sets[block]) for block, mine in self.sets.items()}

    def places(self, other: Self, more: Self | None = None) -> dict[str, Codes]:
        return self._numbers(other, more, grow=False)

    def placed(self, spelled: Lexicon, blocks: Iterable[str], more: Self | None = None) -> dict[str, Codes]:
        out = {}
        for block in blocks:
            hashed = hashes(spelled, block)
            out[block] = self.sets[block].place(hashed)
            if more is not None:
                with SHARED:
                    theirs = more.sets[block].place(hashed)
                beyond = (out[block] < 0) & (theirs >= 0)
                out[block] = np.where(beyond, theirs + self.size(block), out[block]).astype(np.int32)
        return out

    def kept(self, keep: dict[str, Array]) -> tuple[Self, dict[str, Codes]]:
        which = {block: np.flatnonzero(keep[block]).astype(np.int32) for block in BLOCKS}
        return type(self)({block: mine.take(which[block]) for block, mine in self.sets.items()}, self.rule), which

    def find(self, words: Iterable[str]) -> Codes:
        return self.sets["words"].find(words)

    def with_words(self, words: Iterable[str]) -> Self:
        known = self.sets["words"].copy()
        known.add(words)
        return self if len(known) == self.size("words") else type(self)({**self.sets, "words": known}, self.rule)

    def names(self, block: str, which: Codes) -> list[str]:
        return self.sets[block].strings(which)


def check_words_are_kept(n_features: int | None) -> None:
    if n_features is not None:
        raise DecibanError(
            f"texts cannot be drawn, because with n_features={n_features} no words are stored: fit with n_features=None"
        )


def hashes(lexicon: Lexicon, block: str) -> Codes:
    """MurmurHash3 of a block's items: of a string's UTF-8; of a pair's two hashes, which is faster than of its string;
    of a repeat's hash and number."""
    if block in ("words", "characters"):
        strings: Vocabulary = getattr(lexicon, block)
        return strings.hashes()
    words = lexicon.words.hashes().view(np.uint32)
    if block == "repeats":
        numbers, times = lexicon.repeats.arrays()
        return murmur_hash([words[numbers], times.view(np.uint32)])
    return murmur_hash([words[numbers] for numbers in getattr(lexicon, block).arrays()])


def murmur_hash(keys: Sequence[Any]) -> Codes:
    """MurmurHash3_x86_32 with seed 0, elementwise, of keys of several 32-bit numbers."""
    total = np.zeros(len(keys[0]), dtype=np.uint32)
    for key in keys:
        total ^= rotated_left(key * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        total = rotated_left(total, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    total ^= np.uint32(4 * len(keys))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        total ^= total >> np.uint32(shift)
        total *= np.uint32(factor)
    return (total ^ (total >> np.uint32(16))).view(np.int32)


def rotated_left(numbers: Any, by: int) -> Any:
    """32-bit numbers rotated left."""
    return (numbers << np.uint32(by)) | (numbers >> np.uint32(32 - by))
