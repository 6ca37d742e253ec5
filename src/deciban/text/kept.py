"""A sample of the learned documents, so that weights can be refitted without all of them.

Which ones are kept depends on their content, not on their order: those with the smallest digests. So a sum of models
keeps the same documents as a model of all of them, in any order, and memory is bounded. They are never saved to files.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError, ForgetError
from deciban.learner import Learner
from deciban.reading.labels import Labels
from deciban.show import plain
from deciban.text.documents import Texts
from deciban.text.tokens import BY_SCRIPT, TokenRule

MAX_KEPT_DOCUMENTS = 20_000
MAX_FITTED_CELLS = 100_000  # documents times classes to fit weights on: more changes them little
MANY_CLASSES = 100  # with more of them, weights are fitted on documents of some
MIN_KEPT_WEIGHT = 2.0**-10  # of a document: with less, the sums may have lost some of its words


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Kept documents with their labels and weights."""

    rows: tuple[tuple[str, Any, float], ...] = ()
    lower: bool = True  # whether capitals are read as small letters
    rule: TokenRule = BY_SCRIPT

    @classmethod
    def of(cls, texts: Texts, labels: Labels, weight: Floats | None, rule: TokenRule = BY_SCRIPT) -> Kept:
        """The documents that have a label, as Python strings; their weights are > 0."""
        known = np.flatnonzero(labels.codes >= 0)
        names, weights = labels.classes.tolist(), np.ones(len(known)) if weight is None else weight[known]
        own = [names[code] for code in labels.codes[known].tolist()]
        return cls(tuple(zip(texts.take(known).documents, own, weights.tolist(), strict=True)), texts.lower, rule)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weight(self) -> float:
        """Their total weight."""
        return sum(weight for _, _, weight in self.rows)

    def stand_for(self, learned: Floats) -> bool:
        """Whether they represent all that was learned (weights by class), and not just a small part."""
        kept = self.weight
        return len(self.rows) >= MAX_KEPT_DOCUMENTS or (kept > 0 and kept >= 0.5 * float(learned.sum()))

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

    def __add__(self, other: Kept) -> Kept:
        if not self.rows or not other.rows:
            return (self if self.rows else other).limited(MAX_KEPT_DOCUMENTS)
        return replace(self, rows=(*self.rows, *other.rows)).limited(MAX_KEPT_DOCUMENTS)

    def scale(self, share: float) -> Kept:
        """With weights times a number, and without documents whose weight is then below MIN_KEPT_WEIGHT."""
        rows = [(text, label, weight * share) for text, label, weight in self.rows]
        return replace(self, rows=tuple(row for row in rows if row[2] >= MIN_KEPT_WEIGHT))

    def without(self, forgotten: Kept, classes: Array, learned: Floats) -> Kept:
        """Without documents that were forgotten; `learned` is what is left of the classes."""
        if not self.rows:
            return self
        return (self - forgotten).without_overdrawn(dict(zip(classes.tolist(), learned.tolist(), strict=True)))

    def without_overdrawn(self, learned: dict[Any, float]) -> Kept:
        """Without the classes of which more is kept than was learned: some of that must have been forgotten."""
        kept_weight = weight_by_document([("", label, weight) for _, label, weight in self.rows], str)
        overdrawn = {
            label for (_, label), weight in kept_weight.items() if weight > learned.get(label, 0.0) * (1 + 1e-9)
        }
        return replace(self, rows=tuple(row for row in self.rows if row[1] not in overdrawn)) if overdrawn else self

    def limited(self, most: int) -> Kept:
        """At most `most` of them, those with the smallest digests."""
        if len(self.rows) <= most:
            return self
        return replace(self, rows=tuple(self.rows[i] for i in smallest([text for text, _, _ in self.rows], most)))

    def __sub__(self, other: Kept) -> Kept:
        """Without the weight of documents that were forgotten; matched by their words if the texts differ."""
        remaining, unmatched = take_out(self.rows, weight_by_document(other.rows, str), str)
        if unmatched:
            remaining, _ = take_out(
                remaining,
                weight_by_document([(text, label, w) for (text, label), w in unmatched.items()], self.words_of),
                self.words_of,
            )
        return replace(self, rows=tuple(remaining))

    def words_of(self, text: str) -> str:
        """A key that is the same for texts with the same sums, and for some others: dropping too many is safe."""
        return " ".join(sorted(set(self.rule.tokens(text, self.lower))))


NONE_KEPT = Kept()


Row: TypeAlias = tuple[str, Any, float]
WeightByDocument: TypeAlias = dict[tuple[str, Any], float]


def weight_by_document(rows: Iterable[Row], form: Callable[[str], str]) -> WeightByDocument:
    """The weight of each (document, label), where documents are compared by `form`."""
    amounts: WeightByDocument = {}
    for text, label, weight in rows:
        amounts[form(text), label] = amounts.get((form(text), label), 0.0) + weight
    return amounts


def take_out(
    rows: Iterable[Row], amounts: WeightByDocument, form: Callable[[str], str]
) -> tuple[list[Row], WeightByDocument]:
    """The rows less these amounts, and the amounts that no row matched."""
    remaining = []
    for text, label, weight in rows:
        key = (form(text), label)
        removed = min(weight, amounts.get(key, 0.0))
        if removed:
            amounts[key] -= removed
        if weight - removed > 1e-9 * weight:
            remaining.append((text, label, weight - removed))
    return remaining, {key: weight for key, weight in amounts.items() if weight > 0}


def marks(texts: Iterable[str]) -> Array:
    """A hash of each text."""
    digests = [zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in texts]
    return np.array(digests, dtype=np.uint64)


def smallest(texts: Sequence[str], most: int) -> list[int]:
    """The numbers of the `most` texts with the smallest marks, ascending; all if there are no more."""
    if len(texts) <= most:
        return list(range(len(texts)))
    return sorted(by_mark(texts)[:most])


def by_mark(texts: Sequence[str]) -> list[int]:
    """The numbers of the texts in the order of their marks."""
    digests = marks(texts).tolist()
    return sorted(range(len(texts)), key=lambda i: (digests[i], texts[i]))


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
        for i in by_mark([rows[i][0] for i in kept]):
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


def chosen_by(model: Model, texts: Texts, labels: Labels, weight: Floats | None, n_jobs: int | None = None) -> Model:
    """The model with choices made on these learned documents."""
    unknown = np.setdiff1d(labels.classes, model.classes)
    if len(unknown):
        raise ForgetError(f"the model has learned nothing of class {plain(unknown[0])!r}")
    codes = labels.among(model.classes)
    known = codes >= 0
    model.check_learned(codes[known], None if weight is None else weight[known])
    return model.choose(texts, codes, weight, n_jobs)
