"""A sample of the learned documents, so that weights can be refitted without all of them.

Which ones are kept depends on their content, not on their order: those with the smallest digests. So a sum of models
keeps the same documents as a model of all of them, in any order, and memory is bounded. They are never saved to files.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import RLock
from typing import Any, TypeAlias, TypeVar

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError, ForgetError
from deciban.learner import Learner
from deciban.reading.labels import Labels
from deciban.show import plain
from deciban.text.documents import Texts
from deciban.text.tokens import BY_SCRIPT, TokenRule
from deciban.threads import own_threads

MAX_KEPT_DOCUMENTS = 20_000
MAX_KEPT_CHARACTERS = 1 << 28  # of all of them; and if they have more, documents with more than the next are not kept
MAX_CHARACTERS_OF_ONE = MAX_KEPT_CHARACTERS >> 8
MAX_FITTED_CELLS = 100_000  # documents times classes to fit weights on: more changes them little
MANY_CLASSES = 100  # with more of them, weights are fitted on documents of some
FEW_DOCUMENTS = 256  # are added one by one
SHARED = RLock()  # held while a shelf is used
MIN_KEPT_WEIGHT = 2.0**-10  # of a document: with less, the sums may have lost some of its words


Row: TypeAlias = tuple[str, Any, float]  # a document, its label and its weight


class Shelf:
    """Documents by number, to which some are added, and of which some are taken, in as long as they are."""

    def __init__(self, rows: Iterable[Row], words_of: Callable[[str], str]) -> None:
        self.rows, self.words_of = dict(enumerate(rows)), words_of
        self.next = len(self.rows)
        self.numbers: dict[tuple[str, Any], list[int]] = defaultdict(list)  # of each document and label
        self.by_words: dict[tuple[str, Any], list[int]] | None = None  # the same by the words, once they are asked for
        self.weights: dict[Any, float] = defaultdict(float)  # by label
        self.characters = characters(self.rows.values())
        for number, (text, label, weight) in self.rows.items():
            self.numbers[text, label].append(number)
            self.weights[label] += weight

    def add(self, row: Row) -> int:
        text, label, weight = row
        number, self.next = self.next, self.next + 1
        self.rows[number] = row
        self.numbers[text, label].append(number)
        if self.by_words is not None:
            self.by_words[self.words_of(text), label].append(number)
        self.weights[label] += weight
        self.characters += len(text)
        return number

    @property
    def is_large(self) -> bool:
        """Whether there are twice as many documents or characters as are kept."""
        return len(self.rows) > 2 * MAX_KEPT_DOCUMENTS or self.characters > 2 * MAX_KEPT_CHARACTERS

    def take(self, number: int, weight: float) -> None:
        """Takes a weight of a document away, or all of it."""
        text, label, before = self.rows[number]
        remaining = before - weight
        self.weights[label] -= weight
        if remaining > 1e-9 * before:
            self.rows[number] = text, label, remaining
            return
        del self.rows[number]
        self.characters -= len(text)
        remove(self.numbers, (text, label), number)
        if self.by_words is not None:
            remove(self.by_words, (self.words_of(text), label), number)

    def find(self, text: str, label: Any) -> list[int]:
        return list(self.numbers.get((text, label), ()))

    def find_words(self, text: str, label: Any) -> list[int]:
        """Documents of the same words, which have the same sums."""
        if self.by_words is None:
            self.by_words = defaultdict(list)
            for number, (kept, own, _) in self.rows.items():
                self.by_words[self.words_of(kept), own].append(number)
        return list(self.by_words.get((self.words_of(text), label), ()))


def remove(lists: dict[tuple[str, Any], list[int]], key: tuple[str, Any], number: int) -> None:
    lists[key].remove(number)
    if not lists[key]:
        del lists[key]


class Kept:
    """Kept documents with their labels and weights: a value.

    Those that follow each other share a shelf. The newest one has it; an older one knows what the next one has changed,
    and gets its documents back from there if it is asked for them.
    """

    __slots__ = ("_changes", "_next", "_rows", "_shelf", "lower", "rule")

    def __init__(self, rows: Iterable[Row] = (), lower: bool = True, rule: TokenRule = BY_SCRIPT) -> None:
        self.lower, self.rule = lower, rule  # whether capitals are read as small letters; how texts are cut
        self._rows: tuple[Row, ...] | None = tuple(rows)
        self._shelf: Shelf | None = None
        self._next: Kept | None = None
        self._changes: list[tuple[int, Row | None]] = []  # what documents with these numbers were before

    @classmethod
    def of(cls, texts: Texts, labels: Labels, weight: Floats | None, rule: TokenRule = BY_SCRIPT) -> Kept:
        """The documents that have a label, as Python strings; their weights are > 0."""
        known = np.flatnonzero(labels.codes >= 0)
        names, weights = labels.classes.tolist(), np.ones(len(known)) if weight is None else weight[known]
        own = [names[code] for code in labels.codes[known].tolist()]
        return cls(zip(texts.take(known).documents, own, weights.tolist(), strict=True), texts.lower, rule)

    def __reduce__(self) -> tuple[type[Kept], tuple[Any, ...]]:
        return Kept, (self.rows, self.lower, self.rule)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The documents, at most MAX_KEPT_DOCUMENTS of them with at most MAX_KEPT_CHARACTERS."""
        with SHARED:
            if self._rows is None:
                self._rows = limited(self._every_row(), MAX_KEPT_DOCUMENTS)
            return self._rows

    def _every_row(self) -> tuple[Row, ...]:
        """Those of the newest one, with all that was changed since undone."""
        passed, one = [], self
        while one._shelf is None:
            passed.append(one)
            assert one._next is not None, "who gives the shelf away knows to whom"
            one = one._next
        rows = dict(one._shelf.rows)
        for each in reversed(passed):
            for number, before in reversed(each._changes):
                if before is None:
                    del rows[number]
                else:
                    rows[number] = before
        return tuple(rows[number] for number in sorted(rows))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weight(self) -> float:
        """Their total weight."""
        return sum(weight for _, _, weight in self.rows)

    def stand_for(self, learned: Floats) -> bool:
        """Whether they represent all that was learned (weights by class), and not just a small part."""
        kept = self.weight
        if kept > 0 and kept >= 0.5 * float(learned.sum()):
            return True
        return len(self.rows) >= MAX_KEPT_DOCUMENTS or characters(self.rows) >= MAX_KEPT_CHARACTERS // 2

    def every_row(self, classes: Array, learned: Floats) -> tuple[Texts, Labels, Floats | None] | None:
        """The documents, if they are all that was learned, once or several times."""
        kept = self.weight
        return self.labelled(classes) if kept > 0 and kept == float(learned.sum()) else None

    def labelled(self, classes: Array) -> tuple[Texts, Labels, Floats | None]:
        """Documents, their labels among these classes, and weights (None if all are 1), to learn or score again."""
        place, weight = {label: i for i, label in enumerate(classes.tolist())}, np.array([w for _, _, w in self.rows])
        codes = np.array([place[label] for _, label, _ in self.rows], dtype=np.int32)
        texts = Texts([text for text, _, _ in self.rows], self.lower)
        return texts, Labels(classes, codes), None if (weight == 1.0).all() else weight

    def _with(self, rows: Iterable[Row]) -> Kept:
        return Kept(rows, self.lower, self.rule)

    def scale(self, share: float) -> Kept:
        """With weights times a number, and without documents whose weight is then below MIN_KEPT_WEIGHT."""
        rows = [(text, label, weight * share) for text, label, weight in self.rows]
        return self._with(row for row in rows if row[2] >= MIN_KEPT_WEIGHT)

    def limited(self, most: int) -> Kept:
        """At most `most` of them, those with the smallest digests."""
        rows = limited(self.rows, most)
        return self if rows is self.rows else self._with(rows)

    # ------------------------------------------------------------------ one after the other

    def _following(self) -> tuple[Kept, Shelf]:
        """The next one, which is the same so far, and its shelf, to be changed while SHARED is held."""
        after, shelf = Kept((), self.lower, self.rule), self._shelf
        if shelf is None:
            shelf = Shelf(self._every_row() if self._rows is None else self._rows, self.words_of)
        else:  # it is asked for it from now on
            self._next = after
        self._shelf, after._rows, after._shelf = None, None, shelf
        return after, shelf

    def _changed(self, change: Callable[[Shelf], Iterator[tuple[int, Row | None]]]) -> Kept:
        """The next one, with changes that are given back as what there was before."""
        with SHARED:
            after, shelf = self._following()
            before = list(change(shelf))
            if self._next is after:
                self._changes = before
            if shelf.is_large:
                return self._with(limited(tuple(shelf.rows.values()), MAX_KEPT_DOCUMENTS))
            return after

    def __add__(self, other: Kept) -> Kept:
        if not other.rows:
            return self
        if len(other.rows) > FEW_DOCUMENTS or (self._shelf is None and not self.rows):
            return (self._with((*self.rows, *other.rows)) if self.rows else other).limited(MAX_KEPT_DOCUMENTS)
        return self._changed(lambda shelf: ((shelf.add(row), None) for row in other.rows))

    def without(self, forgotten: Kept, classes: Array, learned: Floats) -> Kept:
        """Without documents that were forgotten; `learned` is what is left of the classes."""
        if self._shelf is None and not self.rows:
            return self
        left = dict(zip(classes.tolist(), learned.tolist(), strict=True))

        def change(shelf: Shelf) -> Iterator[tuple[int, Row | None]]:
            yield from taken(shelf, forgotten.rows)
            yield from overdrawn(shelf, left)

        return self._changed(change)

    def __sub__(self, other: Kept) -> Kept:
        """Without the weight of documents that were forgotten; matched by their words if the texts differ."""
        return self._changed(lambda shelf: taken(shelf, other.rows))

    def words_of(self, text: str) -> str:
        """A key that is the same for texts with the same sums, and for some others: dropping too many is safe."""
        return " ".join(sorted(set(self.rule.tokens(text, self.lower))))


def taken(shelf: Shelf, rows: Iterable[Row]) -> Iterator[tuple[int, Row | None]]:
    """Takes the weight of these documents away."""
    unmatched: list[Row] = []
    for find, given in ((shelf.find, rows), (shelf.find_words, unmatched)):
        for text, label, weight in given:
            for number in find(text, label):
                amount = min(weight, shelf.rows[number][2])
                if amount > 0:
                    yield number, shelf.rows[number]
                    shelf.take(number, amount)
                    weight -= amount
            if weight > 0 and given is not unmatched:
                unmatched.append((text, label, weight))


def overdrawn(shelf: Shelf, learned: dict[Any, float]) -> Iterator[tuple[int, Row | None]]:
    """Takes the classes away of which more is kept than was learned: some of that must have been forgotten."""
    labels = {label for label, weight in shelf.weights.items() if weight > learned.get(label, 0.0) * (1 + 1e-9)}
    for number, row in list(shelf.rows.items()) if labels else ():
        if row[1] in labels:
            yield number, row
            shelf.take(number, row[2])
    for label in labels:
        del shelf.weights[label]


def characters(rows: Iterable[Row]) -> int:
    return sum(len(text) for text, _, _ in rows)


def limited(rows: tuple[Row, ...], most: int) -> tuple[Row, ...]:
    """At most `most` of them, and of MAX_KEPT_CHARACTERS: those with the smallest digests."""
    if characters(rows) <= MAX_KEPT_CHARACTERS:
        return rows if len(rows) <= most else tuple(rows[i] for i in smallest([text for text, _, _ in rows], most))
    rows = tuple(row for row in rows if len(row[0]) <= MAX_CHARACTERS_OF_ONE)
    in_order = by_digest([text for text, _, _ in rows])[:most]
    ends = np.cumsum([len(rows[i][0]) for i in in_order])
    return tuple(rows[i] for i in sorted(in_order[: np.searchsorted(ends, MAX_KEPT_CHARACTERS, "right")]))


NONE_KEPT = Kept()


def marks(texts: Iterable[str]) -> Array:
    """A hash of each text."""
    digests = [zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in texts]
    return np.array(digests, dtype=np.uint64)


def smallest(texts: Sequence[str], most: int) -> list[int]:
    """The numbers of the `most` texts with the smallest marks, ascending; all if there are no more."""
    return list(range(len(texts))) if len(texts) <= most else sorted(by_digest(texts)[:most])


def by_digest(texts: Sequence[str]) -> list[int]:
    """The numbers of the texts in the order of their marks."""
    digests = marks(texts)
    order = np.argsort(digests, kind="stable")
    if (np.diff(digests[order]) > 0).all():
        return order.tolist()  # type: ignore[no-any-return]  # of integers
    keys = digests.tolist()
    return sorted(range(len(texts)), key=lambda i: (keys[i], texts[i]))


# ------------------------------------------------------------------ choosing on them

Model = TypeVar("Model", bound=Learner)


def to_fit_on(rows: Sequence[Row], k: int) -> list[int]:
    """The numbers of the documents that weights are fitted on, ascending: those with the smallest marks.

    With many classes, only some of the classes that have two documents or more: those of the documents with the
    smallest marks. A few documents of every class would be too few in all, since each is compared with every class.
    """
    kept = smallest([text for text, _, _ in rows], MAX_KEPT_DOCUMENTS)
    count = Counter(rows[i][1] for i in kept)
    if k > MANY_CLASSES and len(kept) * k > MAX_FITTED_CELLS and max(count.values()) > 1:
        classes: dict[Any, None] = {}  # in the order of marks
        for i in by_digest([rows[i][0] for i in kept]):
            label = rows[kept[i]][1]
            if count[label] > 1:
                classes[label] = None
        k = max(MANY_CLASSES, int((MAX_FITTED_CELLS * k / len(kept)) ** 0.5))
        some = set(list(classes)[:k])
        kept = [i for i in kept if rows[i][1] in some]
    at = smallest([rows[i][0] for i in kept], max(1, MAX_FITTED_CELLS // max(1, k)))
    return [kept[i] for i in at]


def rechosen(model: Model, kept: Kept, n_jobs: int | None = None) -> Model:
    """The model with choices made on its kept documents."""
    if not kept.stand_for(model.weight):
        raise DecibanError(
            "too few of the learned documents are in memory to fit reliabilities (a model loaded from a file has "
            "none): pass some of them, refit_reliability(X, y)"
        )
    rows = [kept.rows[i] for i in to_fit_on(kept.rows, len(model.classes))]
    return chosen_by(model, *Kept(tuple(rows), kept.lower, kept.rule).labelled(model.classes), n_jobs)


@own_threads()  # as in fit.learn
def chosen_by(model: Model, texts: Texts, labels: Labels, weight: Floats | None, n_jobs: int | None = None) -> Model:
    """The model with choices made on these learned documents."""
    unknown = np.setdiff1d(labels.classes, model.classes)
    if len(unknown):
        raise ForgetError(f"the model has learned nothing of class {plain(unknown[0])!r}")
    codes = labels.among(model.classes)
    known = codes >= 0
    model.check_learned(codes[known], None if weight is None else weight[known])
    return model.choose(texts, codes, weight, n_jobs)
