"""The items of a text: words, pairs of them, header fields, gaps, characters, repeats. Each item has a number.

Words are tokens (see tokens.py). Characters are runs of them inside words; in scripts without spaces between words,
where every letter is a token, runs of letters.

Pairs, header fields and gaps are pairs of words, so they are stored as pairs of numbers, not as strings. A repeat is a
word and its least number of occurrences.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Self, TypeAlias

import numpy as np

from deciban._kernel import text as kernel
from deciban._typing import Array, Codes, Floats
from deciban.text.item_names import item_name
from deciban.text.raw import Documents, PairVocabulary, Vocabulary
from deciban.text.tokens import BY_SCRIPT, MAX_WORD_CHARACTERS, TokenRule

BLOCKS = ("words", "pairs", "headers", "gaps", "characters", "repeats")
PAIRED = ("pairs", "headers", "gaps")  # those made of two words
REPEAT_TIMES = (2, 3, 5)  # least numbers of occurrences for a repeat
GAPS = (2, 3)  # distances between the words of a gap
RUNS = (3, 5)  # the shortest and the longest run of characters
SYLLABLE_RUNS = (2, 3)  # the same in words of syllables, such as Hangul's, which are several letters each
UNSPACED_RUNS = (2, 4)  # the same of letters in scripts without spaces between words
# Repeats help if documents have at least this many repeated words and at most this many distinct ones, on average.
MIN_REPEATED_WORDS, MAX_WORDS_FOR_REPEATS = 5, 100
MAX_WORDS_OF_SHORT_TEXT = 64  # distinct words of a short text, on average, for which gaps and characters help
DOCUMENTS_LOOKED_AT = 200  # to choose blocks
MAX_TABULATED_SIZE = 4096  # functions of the number of a document's items are looked up for fewer

ItemStream: TypeAlias = tuple[Codes, Array]  # numbers, one document after another, and where each document starts
Rows: TypeAlias = tuple[Array, Codes]  # where each document starts, and its distinct items


NOT_SPELLED: ItemStream = (np.zeros(0, np.int32), np.zeros(1, np.int64))


class Items(ABC):
    """A growing set of items, numbered by block in the order in which they were first seen."""

    @property
    @abstractmethod
    def n_features(self) -> int | None:
        """The number of buckets, if items are hashed."""

    @property
    @abstractmethod
    def rule(self) -> TokenRule:
        """How texts are cut."""

    @abstractmethod
    def fresh(self) -> Self:
        """An empty set of the same kind."""

    @abstractmethod
    def size(self, block: str) -> int: ...

    @abstractmethod
    def is_empty(self) -> bool: ...

    @abstractmethod
    def read(self, documents: Documents, start: int, stop: int, blocks: Sequence[str]) -> dict[str, Rows]:
        """The distinct items of each document, by block; new ones are added."""

    @abstractmethod
    def numbered(
        self, documents: Documents, start: int, stop: int, blocks: Sequence[str], more: Self | None = None
    ) -> dict[str, Rows]:
        """The same by the numbers of the present items, and after those of the items of `more`, −1 for others; none is
        added."""

    @abstractmethod
    def beyond(self) -> Self:
        """An empty set for items that this one does not have: see `adopted`."""

    @abstractmethod
    def adopted(self, other: Self, more: Self) -> dict[str, Codes]:
        """By block, the number of each of the other's items, as `numbered` has them; those that are new are added to
        `more`, which threads may read at the same time."""

    @abstractmethod
    def joined(self, more: Self, sizes: dict[str, int]) -> Self:
        """A set of these items and the first of `more`, as many as there are `sizes`, by block."""

    @abstractmethod
    def copy(self) -> Self: ...

    @abstractmethod
    def merge(self, other: Self) -> dict[str, Codes]:
        """Add the other's items after the present ones; by block, the new number of each."""

    @abstractmethod
    def places(self, other: Self, more: Self | None = None) -> dict[str, Codes]:
        """By block, the number here of each of the other's items, as `numbered` has them; −1 if unknown."""

    @abstractmethod
    def placed(self, spelled: Lexicon, blocks: Iterable[str], more: Self | None = None) -> dict[str, Codes]:
        """The same for items of a lexicon with strings, which may be of another kind."""

    @abstractmethod
    def kept(self, keep: dict[str, Array]) -> tuple[Self, dict[str, Codes]]:
        """The set of the items to keep, and by block their old numbers."""

    @abstractmethod
    def find(self, words: Iterable[str]) -> Codes:
        """The numbers of these words, −1 if unknown."""

    @abstractmethod
    def with_words(self, words: Iterable[str]) -> Self:
        """The same with these words added; itself if it has them all."""

    @abstractmethod
    def names(self, block: str, which: Codes) -> list[str]:
        """Names of items, for display."""


@dataclass(slots=True)
class Lexicon(Items):
    """The items that have been seen, by block. Word 0 is the mark before the first word and after the last."""

    words: Vocabulary = field(default_factory=lambda: Vocabulary([""]))
    pairs: PairVocabulary = field(default_factory=PairVocabulary)
    headers: PairVocabulary = field(default_factory=PairVocabulary)  # (name of the field, word)
    gaps: PairVocabulary = field(default_factory=PairVocabulary)
    characters: Vocabulary = field(default_factory=Vocabulary)
    repeats: PairVocabulary = field(default_factory=PairVocabulary)  # (word, how often at least)
    spelled: ItemStream = NOT_SPELLED  # the characters of each word
    rule: TokenRule = BY_SCRIPT

    @property
    def n_features(self) -> None:
        return None

    def fresh(self) -> Self:
        return type(self)(rule=self.rule)

    def size(self, block: str) -> int:
        return len(getattr(self, block))

    def is_empty(self) -> bool:
        return len(self.words) == 1 and not any(self.size(block) for block in BLOCKS[1:])

    def read(self, documents: Documents, start: int, stop: int, blocks: Sequence[str]) -> dict[str, Rows]:
        return row_reader(tuple(blocks), self.rule).learn(self.rule.prepared(documents), start, stop, self.sets())

    def numbered(
        self, documents: Documents, start: int, stop: int, blocks: Sequence[str], more: Self | None = None
    ) -> dict[str, Rows]:
        reader, beyond = row_reader(tuple(blocks), self.rule), None if more is None else more.sets()
        return reader.ask(self.rule.prepared(documents), start, stop, self.sets(), beyond)

    def beyond(self) -> Self:
        return type(self)(Vocabulary(), rule=self.rule)

    def adopted(self, other: Self, more: Self) -> dict[str, Codes]:
        with more.sets():
            to = {}
            for block in ("words", "characters"):
                to[block] = getattr(self, block).locate(getattr(other, block))
                new = np.flatnonzero(to[block] < 0).astype(np.int32)
                to[block][new] = getattr(more, block).merge(getattr(other, block).take(new)) + self.size(block)
            for block in (*PAIRED, "repeats"):
                first, second = getattr(other, block).arrays()
                first, second = to["words"][first], to["words"][second] if block in PAIRED else second
                to[block] = getattr(self, block).find(first, second)
                new = np.flatnonzero(to[block] < 0).astype(np.int32)
                to[block][new] = getattr(more, block).add(first[new], second[new]) + self.size(block)
            return to

    def joined(self, more: Self, sizes: dict[str, int]) -> Self:
        out = self.copy()
        for block, size in sizes.items():
            new = np.arange(size - self.size(block), dtype=np.int32)
            if block in ("words", "characters"):
                getattr(out, block).merge(getattr(more, block).take(new))
            else:
                getattr(out, block).add(*getattr(more, block).arrays(new))
        return out

    def sets(self) -> kernel.Sets:
        return kernel.Sets(self.words, self.pairs, self.headers, self.gaps, self.characters, self.repeats)

    def runs_of(self, words: Iterable[str]) -> dict[str, list[str]]:
        """The runs of characters of these words, which are added; a run that a word has twice is listed twice."""
        numbers = self.words.add(words)
        self.spell()
        ids, indptr = self.spelled
        spelled = zip(self.words.strings(numbers), indptr[numbers], indptr[numbers + 1], strict=True)
        return {word: self.characters.strings(ids[start:end]) for word, start, end in spelled}

    def spell(self) -> None:
        """The runs of characters of every word that has none yet."""
        ids, indptr = self.spelled
        syllables = SYLLABLE_RUNS if self.rule.scripts else None
        new, ends = kernel.characters_of(self.words, len(indptr) - 1, self.characters, True, *RUNS, syllables)
        self.spelled = np.concatenate([ids, new]), np.concatenate([indptr, indptr[-1] + ends[1:]])

    def copy(self) -> Self:
        return replace(self, **{block: getattr(self, block).copy() for block in BLOCKS}, spelled=NOT_SPELLED)

    def merge(self, other: Self) -> dict[str, Codes]:
        if self.is_empty():
            for block in BLOCKS:  # a copy is much faster than adding items one by one
                setattr(self, block, getattr(other, block).copy())
            return {block: np.arange(self.size(block), dtype=np.int32) for block in BLOCKS}
        to = {"words": self.words.merge(other.words)}
        for block in PAIRED:
            to[block] = getattr(self, block).merge(getattr(other, block), to["words"], to["words"])
        to["characters"] = self.characters.merge(other.characters)
        to["repeats"] = self.repeats.merge(other.repeats, to["words"], np.arange(REPEAT_TIMES[-1] + 1, dtype=np.int32))
        return to

    def places(self, other: Self, more: Self | None = None) -> dict[str, Codes]:
        return self.placed(other, BLOCKS, more)

    def placed(self, spelled: Lexicon, blocks: Iterable[str], more: Self | None = None) -> dict[str, Codes]:
        to = {"words": self.words.locate(spelled.words), "characters": self.characters.locate(spelled.characters)}
        if more is not None:
            for block, mine in to.items():
                theirs = getattr(more, block).locate(getattr(spelled, block))
                to[block] = np.where((mine < 0) & (theirs >= 0), theirs + self.size(block), mine).astype(np.int32)
        for block in (block for block in (*PAIRED, "repeats") if block in blocks):
            first, second = getattr(spelled, block).arrays()
            first, second = to["words"][first], to["words"][second] if block in PAIRED else second
            known = np.flatnonzero((first >= 0) & (second >= 0))
            first, second = first[known], second[known]
            number = getattr(self, block).find(first, second)
            if more is not None:
                theirs = getattr(more, block).find(first, second)
                number = np.where((number < 0) & (theirs >= 0), theirs + self.size(block), number)
            to[block] = np.full(len(getattr(spelled, block)), -1, dtype=np.int32)
            to[block][known] = number
        return {block: to[block] for block in blocks}

    def kept(self, keep: dict[str, Array]) -> tuple[Self, dict[str, Codes]]:
        """As in Items; the words of kept pairs and repeats are kept too. Sets of which all is kept are shared."""
        keep_word = keep["words"].copy()
        keep_word[0] = True
        if not keep_word.all():
            for block in PAIRED:
                for numbers in getattr(self, block).arrays():
                    keep_word[numbers[keep[block]]] = True
            keep_word[self.repeats.arrays()[0][keep["repeats"]]] = True
        which = {block: np.flatnonzero(keep[block]).astype(np.int32) for block in BLOCKS}
        which["words"] = np.flatnonzero(keep_word).astype(np.int32)
        same, new = keep_word.all(), np.cumsum(keep_word, dtype=np.int32) - 1
        out = type(self)(self.words if same else self.words.take(which["words"]), rule=self.rule)
        out.characters = self.characters if keep["characters"].all() else self.characters.take(which["characters"])
        for block in (*PAIRED, "repeats"):
            if same and keep[block].all():
                setattr(out, block, getattr(self, block))
            else:
                first, second = getattr(self, block).arrays(which[block])
                setattr(out, block, PairVocabulary(new[first], new[second] if block in PAIRED else second))
        return out, which

    def find(self, words: Iterable[str]) -> Codes:
        return self.words.find(words)

    def with_words(self, words: Iterable[str]) -> Self:
        known = self.words.copy()
        known.add(words)
        if len(known) == len(self.words):
            return self
        return replace(self, words=known, spelled=NOT_SPELLED)

    def parts(self, block: str, which: Codes | None = None) -> list[tuple[str, ...]]:
        """The one or two strings of these items, or of all."""
        if block == "repeats":
            words, times = self.repeats.arrays(which)
            return list(zip(self.words.strings(words), map(str, times.tolist()), strict=True))
        if block not in PAIRED:
            return [(item,) for item in getattr(self, block).strings(which)]
        return list(zip(*(self.words.strings(numbers) for numbers in getattr(self, block).arrays(which)), strict=True))

    def names(self, block: str, which: Codes) -> list[str]:
        return [item_name(block, parts) for parts in self.parts(block, which)]


@cache
def row_reader(blocks: tuple[str, ...], rule: TokenRule) -> kernel.RowReader:
    """What reads texts as rows of these blocks."""
    lengths = RUNS, SYLLABLE_RUNS, UNSPACED_RUNS
    return kernel.RowReader(blocks, rule.name, MAX_WORD_CHARACTERS, GAPS, REPEAT_TIMES, *lengths)


def by_size(rows: Rows, table: Floats, formula: Callable[[Array], Floats]) -> Floats:
    """A function of the number of distinct items of each row, from a table of it where that is long enough."""
    ptr = rows[0]
    if len(ptr) == 2 and (size := int(ptr[1] - ptr[0])) < len(table):  # one row: quicker, and asked for most often
        return table[size : size + 1]
    u = ptr[1:] - ptr[:-1]
    return table[u] if not len(u) or u.max() < len(table) else formula(u)


def interleaved(a: ItemStream, b: ItemStream) -> ItemStream:
    """Both streams as one: in each document first the items of `a`, then those of `b`."""
    (one, one_ptr), (two, two_ptr) = a, b
    out = np.empty(len(one) + len(two), dtype=np.int32)
    out[np.arange(len(one)) + np.repeat(two_ptr[:-1], np.diff(one_ptr))] = one
    out[np.arange(len(two)) + np.repeat(one_ptr[1:], np.diff(two_ptr))] = two
    return out, one_ptr + two_ptr


def choose_blocks(documents: Documents, rule: TokenRule = BY_SCRIPT) -> tuple[str, ...]:
    """The blocks that suit such documents: header fields if most have some; characters, and no gaps, if most words are
    letters of scripts without spaces; otherwise gaps and characters if they are short; repeats if words recur in them
    and they are not long."""
    n = len(documents)
    if not n:
        return ("words", "pairs")
    documents, step = rule.prepared(documents), max(1, n // DOCUMENTS_LOOKED_AT)
    words, letters, with_headers, total, distinct, repeated = Vocabulary(), Vocabulary(), 0, 0, 0, 0
    unspaced, sampled = 0, range(0, n, step)
    for i in sampled:
        ids, indptr, fields = kernel.tokenize(documents, i, i + 1, words, True, rule.name, headers=True)
        assert fields is not None
        with_headers += bool((fields >= 0).any())
        times, _, _ = kernel.count(ids, indptr, len(words))
        total += len(ids)
        distinct += len(times)
        repeated += int(np.count_nonzero(times >= REPEAT_TIMES[0]))
        unspaced += len(kernel.stretches(documents, i, i + 1, letters, True, 1, 1)[0]) if rule.scripts else 0
    blocks = ["words", "pairs"]
    if with_headers > len(sampled) / 2:
        blocks.append("headers")
    if unspaced > total / 2:
        blocks.append("characters")
    elif distinct <= MAX_WORDS_OF_SHORT_TEXT * len(sampled):
        blocks += ["gaps", "characters"]
    if repeated >= MIN_REPEATED_WORDS * len(sampled) and distinct <= MAX_WORDS_FOR_REPEATS * len(sampled):
        blocks.append("repeats")
    return tuple(blocks)
