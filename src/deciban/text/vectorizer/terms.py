"""Sets of terms: words and runs of words, runs of characters, or the output of a Python analyzer.

Each reads documents as *streams* of term numbers, one stream per *level*: words are a level, pairs of words the next. A
growing set numbers terms in order of first use; `ranks` gives their places in sorted order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from deciban._kernel import text
from deciban._typing import Array, Codes
from deciban.text.raw import PairVocabulary, Vocabulary

TermStream: TypeAlias = tuple[Codes, Array]  # items of some documents, one after another, and where each one starts
Bools: TypeAlias = Array


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the terms of a document are."""

    unit: str  # "word", "char", "char_wb", or "given": an analyzer has listed them
    low: int = 1  # words or characters in a term, at least
    high: int = 1  # and at most
    shortest: int = 1  # characters of a word, at least
    stop: frozenset[str] = frozenset()  # words that are skipped

    def terms(self) -> Terms:
        """A set of such terms, with none in it yet."""
        kinds: dict[str, Callable[[Recipe], Terms]] = {
            "word": WordRuns,
            "char": CharacterRuns,
            "char_wb": CharactersOfWords,
            "given": GivenTerms,
        }
        return kinds[self.unit](self)


class Terms(ABC):
    """A growing set of terms, numbered level by level in order of first use."""

    recipe: Recipe
    repetitive: ClassVar[bool] = False  # whether a document is much longer than the list of its distinct terms

    @abstractmethod
    def read(self, documents: Any, start: int, stop: int, grow: bool) -> list[TermStream]:
        """The terms of documents[start:stop], a stream per level; unless the set may `grow`, unknown terms are −1."""

    @abstractmethod
    def sizes(self) -> list[int]:
        """How many terms there are, by level."""

    @abstractmethod
    def add(self, strings: Sequence[Any]) -> tuple[Codes, Codes]:
        """Level and number of these terms, new or old; level −1 if no document can have such a term."""

    @abstractmethod
    def merge(self, other: Self) -> list[Codes]:
        """Add the other's terms; by level, the numbers that they have here."""

    @abstractmethod
    def ranks(self, wanted: Sequence[Bools]) -> list[Codes]:
        """By level, the places of the wanted terms among all wanted, sorted; −1 for the others."""

    @abstractmethod
    def strings(self, which: Sequence[Codes]) -> list[Array]:
        """By level, the terms of these numbers: arrays of objects."""

    @abstractmethod
    def hashes(self) -> list[Codes]:
        """By level, MurmurHash3 of all terms."""

    @abstractmethod
    def copy(self) -> Self: ...

    def finish(self) -> None:
        """Free what is needed only while documents are read."""
        return


class WordRuns(Terms):
    """Words, and runs of words with a space between. A run of n is a pair: its first n − 1 words, and the last.

    Stop words have the first numbers; they are read and dropped, so that the words around them become neighbours.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.single = Vocabulary(sorted(recipe.stop))
        self.longer: list[PairVocabulary] = []

    def read(self, documents: Any, start: int, stop: int, grow: bool) -> list[TermStream]:
        recipe = self.recipe
        ids, indptr, _ = text.tokenize(documents, start, stop, self.single, grow, "words", recipe.shortest)
        if recipe.stop:
            ids, indptr = text.drop(ids, indptr, np.arange(len(self.single)) < len(recipe.stop))
        streams = [(ids, indptr)]
        for n in range(1, recipe.high):
            if len(self.longer) < n and grow and len(streams[-1][0]):
                self.longer.append(PairVocabulary())
            if len(self.longer) < n:
                break  # no run is as long
            streams.append(text.pair_up(*streams[-1], ids, indptr, n, self.longer[n - 1], grow))
        return streams[recipe.low - 1 :]

    def sizes(self) -> list[int]:
        return [len(self.single), *map(len, self.longer)][self.recipe.low - 1 :]

    def add(self, strings: Sequence[Any]) -> tuple[Codes, Codes]:
        level, number = np.full(len(strings), -1, dtype=np.int32), np.zeros(len(strings), dtype=np.int32)
        parts = [term.split(" ") if isinstance(term, str) else [] for term in strings]
        lengths = np.array([len(p) for p in parts], dtype=np.int64)
        for n in range(self.recipe.low, min(self.recipe.high, int(lengths.max(initial=0))) + 1):
            here = np.flatnonzero(lengths == n)
            while len(self.longer) < n - 1:
                self.longer.append(PairVocabulary())
            numbers_ = self.single.add([parts[i][0] for i in here])
            for k in range(1, n):
                numbers_ = self.longer[k - 1].add(numbers_, self.single.add([parts[i][k] for i in here]))
            level[here], number[here] = n - self.recipe.low, numbers_
        return level, number

    def merge(self, other: Self) -> list[Codes]:
        to = [self.single.merge(other.single)]
        for n, pairs in enumerate(other.longer):
            if len(self.longer) == n:
                self.longer.append(PairVocabulary())
            to.append(self.longer[n].merge(pairs, to[-1], to[0]))
        return to[self.recipe.low - 1 :]

    def ranks(self, wanted: Sequence[Bools]) -> list[Codes]:
        """The space between words sorts before every character of a word, so runs sort as lists of words do.

        They form a tree, a run below the run that it extends, and sorted order is its preorder. A place is the number
        of wanted terms before it.
        """
        sizes = [len(self.single), *map(len, self.longer)]
        is_wanted = [np.zeros(size, dtype=np.int64) for size in sizes]
        for level, chosen in enumerate(wanted, self.recipe.low - 1):
            is_wanted[level][:] = chosen
        first, last = zip(*[pairs.arrays() for pairs in self.longer], strict=True) if self.longer else ((), ())
        below = [is_wanted[-1]]  # wanted terms in the tree from here on
        for k in range(len(self.longer) - 1, -1, -1):
            below.insert(0, is_wanted[k] + np.bincount(first[k], below[0], sizes[k]).astype(np.int64))
        order: Array = self.single.order()
        word_rank = rank = inverse(order)
        place = np.empty(sizes[0], dtype=np.int64)
        place[order] = sum_before(below[0][order])
        places = [place]
        for k in range(len(self.longer)):
            order = np.argsort(rank[first[k]].astype(np.int64) * sizes[0] + word_rank[last[k]])
            rank, parent = inverse(order), first[k][order]
            before = sum_before(below[k + 1][order])
            # Subtract the count before the first run with the same parent: `before` is monotone, so a running maximum.
            new = np.diff(parent, prepend=-1) != 0
            before -= np.maximum.accumulate(np.where(new, before, 0))
            place = np.empty(sizes[k + 1], dtype=np.int64)
            place[order] = (places[-1] + is_wanted[k])[parent] + before
            places.append(place)
        return [
            np.where(mine, place, -1).astype(np.int32)
            for mine, place in zip(is_wanted[self.recipe.low - 1 :], places[self.recipe.low - 1 :], strict=True)
        ]

    def strings(self, which: Sequence[Codes]) -> list[Array]:
        low = self.recipe.low
        prefixes = words = np.array(self.single.strings(), dtype=object)
        out = [words[which[0]]] if low == 1 else []
        for n, pairs in enumerate(self.longer, 2):
            first, last = pairs.arrays()
            with_space = prefixes + " "
            if n >= low:
                here = which[n - low]
                out.append(with_space[first[here]] + words[last[here]])
            if n <= len(self.longer):  # what longer runs begin with
                prefixes = with_space[first] + words[last]
        return out

    def hashes(self) -> list[Codes]:
        runs = [self.single]
        for pairs in self.longer:
            runs.append(text.join(runs[-1], pairs, self.single))
        return [level.hashes() for level in runs[self.recipe.low - 1 :]]

    def copy(self) -> Self:
        other = type(self)(self.recipe)
        other.single, other.longer = self.single.copy(), [pairs.copy() for pairs in self.longer]
        return other


class CharacterRuns(Terms):
    """Runs of characters of the whole text, with runs of white space collapsed: a single level."""

    repetitive: ClassVar[bool] = True

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.grams: Any = Vocabulary()

    def read(self, documents: Any, start: int, stop: int, grow: bool) -> list[TermStream]:
        return [text.characters(documents, start, stop, self.grams, grow, self.recipe.low, self.recipe.high)]

    def sizes(self) -> list[int]:
        return [len(self.grams)]

    def add(self, strings: Sequence[Any]) -> tuple[Codes, Codes]:
        possible = np.array([isinstance(term, str) for term in strings], dtype=bool)
        number = np.zeros(len(strings), dtype=np.int32)
        number[possible] = self.grams.add([term for term in strings if isinstance(term, str)])
        return possible.astype(np.int32) - 1, number

    def merge(self, other: Self) -> list[Codes]:
        return [self.grams.merge(other.grams)]

    def ranks(self, wanted: Sequence[Bools]) -> list[Codes]:
        order = self.grams.order()
        out = np.full(len(order), -1, dtype=np.int32)
        order = order[wanted[0][order]]
        out[order] = np.arange(len(order))
        return [out]

    def strings(self, which: Sequence[Codes]) -> list[Array]:
        return [np.fromiter(self.grams.strings(which[0]), dtype=object, count=len(which[0]))]

    def hashes(self) -> list[Codes]:
        return [self.grams.hashes()]

    def copy(self) -> Self:
        other = type(self)(self.recipe)
        other.grams = self.grams.copy()
        return other


class CharactersOfWords(CharacterRuns):
    """Runs of characters of words with a space on either side: computed once per word, then looked up."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self.finish()

    def finish(self) -> None:
        self.seen = Vocabulary()
        self.runs: TermStream = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)

    def read(self, documents: Any, start: int, stop: int, grow: bool) -> list[TermStream]:
        seen, runs = (self.seen, self.runs) if grow else (Vocabulary(), None)
        before = len(seen)
        ids, indptr, _ = text.tokenize(documents, start, stop, seen, True, "spaces")
        table = text.characters_of(seen, before, self.grams, grow, self.recipe.low, self.recipe.high)
        if runs is not None:
            table = self.runs = (
                np.concatenate([runs[0], table[0]]),
                np.concatenate([runs[1], table[1][1:] + runs[1][-1]]),
            )
        return [text.spread(ids, indptr, *table)]


class HashableVocabulary:
    """A growing set of hashable terms, numbered in order of first use, like a vocabulary of strings."""

    def __init__(self, terms: Iterable[Hashable] = ()) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.add(terms)

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, terms: Iterable[Hashable]) -> Codes:
        numbers = self.numbers
        return np.array([numbers.setdefault(term, len(numbers)) for term in terms], dtype=np.int32)

    def find(self, terms: Iterable[Hashable]) -> Codes:
        numbers = self.numbers
        return np.array([numbers.get(term, -1) for term in terms], dtype=np.int32)

    def merge(self, other: Self) -> Codes:
        return self.add(other.numbers)

    def order(self) -> Codes:
        return np.array([number for _, number in sorted(self.numbers.items(), key=itemgetter(0))], dtype=np.int32)

    def strings(self, which: Codes | None = None) -> list[Any]:
        terms: list[Any] = list(self.numbers)
        return terms if which is None else [terms[i] for i in which]

    def hashes(self) -> Codes:
        return Vocabulary(self.strings()).hashes()

    def copy(self) -> Self:
        return type(self)(self.numbers)


class GivenTerms(CharacterRuns):
    """Terms from a Python analyzer: documents are lists of them, and they may be anything hashable."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.grams = HashableVocabulary()

    def read(self, documents: Sequence[Sequence[Hashable]], start: int, stop: int, grow: bool) -> list[TermStream]:
        number = self.grams.add if grow else self.grams.find
        ids = [number(terms) for terms in documents[start:stop]]
        indptr = np.cumsum([0, *map(len, ids)], dtype=np.int64)
        return [(np.concatenate([*ids, np.zeros(0, dtype=np.int32)]), indptr)]

    def add(self, strings: Sequence[Any]) -> tuple[Codes, Codes]:
        return np.zeros(len(strings), dtype=np.int32), self.grams.add(strings)


def inverse(order: Array) -> Array:
    """The inverse of a permutation."""
    out = np.empty(len(order), dtype=np.int32)
    out[order] = np.arange(len(order), dtype=np.int32)
    return out


def sum_before(sizes: Array) -> Array:
    """The sum of all earlier entries."""
    return np.cumsum(sizes) - sizes
