"""A few of the documents that were learned, so that reliabilities can be fitted anew without all of them.

Which are kept depends on what they say, not on when they came: the ones with the smallest digests. So a sum of models
keeps what a model of the sum would, in any order, and memory is bounded. They stay in memory: no file has them.
"""

from __future__ import annotations

import zlib
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
from deciban.text.evidence import TOKEN
from deciban.text.items import MAX_WORD_CHARACTERS

MAX_KEPT_DOCUMENTS = 20_000
JUDGED_CELLS = 100_000  # documents times classes that reliabilities are fitted on: more changes them little
MIN_KEPT_WEIGHT = 2.0**-10  # of a document: what is kept weighs enough for the sums to have all of its words still


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Documents with their labels and weights."""

    rows: tuple[tuple[str, Any, float], ...] = ()
    lower: bool = True  # whether capitals are read as small letters

    @classmethod
    def of(cls, texts: Texts, labels: Labels, weight: Floats | None) -> Kept:
        """The documents that have a label, as Python has them; none of them weighs nothing."""
        known = np.flatnonzero(labels.codes >= 0)
        names, weights = labels.classes.tolist(), np.ones(len(known)) if weight is None else weight[known]
        own = [names[code] for code in labels.codes[known].tolist()]
        return cls(tuple(zip(texts.take(known).documents, own, weights.tolist(), strict=True)), texts.lower)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weight(self) -> float:
        """What they weigh together."""
        return sum(weight for _, _, weight in self.rows)

    def stand_for(self, learned: Floats) -> bool:
        """Whether they stand for all that was learned, by class, and not just for the last of it."""
        kept = self.weight
        return len(self.rows) >= MAX_KEPT_DOCUMENTS or (kept > 0 and kept >= 0.5 * float(learned.sum()))

    def every_row(self, classes: Array, learned: Floats) -> tuple[Texts, Labels, Floats | None] | None:
        """The documents, if they are all that was learned, once or several times."""
        kept = self.weight
        return self.labelled(classes) if kept > 0 and kept == float(learned.sum()) else None

    def labelled(self, classes: Array) -> tuple[Texts, Labels, Floats | None]:
        """To be learned or judged again: documents, their labels among these, and weights unless each is one."""
        place, weight = {label: i for i, label in enumerate(classes.tolist())}, np.array([w for _, _, w in self.rows])
        codes = np.array([place[label] for _, label, _ in self.rows], dtype=np.int32)
        texts = Texts([text for text, _, _ in self.rows], self.lower)
        return texts, Labels(classes, codes), None if (weight == 1.0).all() else weight

    def __add__(self, other: Kept) -> Kept:
        if not self.rows or not other.rows:
            return (self if self.rows else other).fewest(MAX_KEPT_DOCUMENTS)
        return replace(self, rows=(*self.rows, *other.rows)).fewest(MAX_KEPT_DOCUMENTS)

    def scale(self, share: float) -> Kept:
        """With weights times a number, and without documents that are too faint by now to choose anything by."""
        rows = [(text, label, weight * share) for text, label, weight in self.rows]
        return replace(self, rows=tuple(row for row in rows if row[2] >= MIN_KEPT_WEIGHT))

    def left(self, forgotten: Kept, classes: Array, learned: Floats) -> Kept:
        """Without documents that were forgotten, of whose classes so much is left."""
        if not self.rows:
            return self
        return (self - forgotten).at_most(dict(zip(classes.tolist(), learned.tolist(), strict=True)))

    def at_most(self, learned: dict[Any, float]) -> Kept:
        """Without the classes of which more is kept than was learned: something forgotten must be among it."""
        held = due_of([("", label, weight) for _, label, weight in self.rows], str)
        over = {label for (_, label), weight in held.items() if weight > learned.get(label, 0.0) * (1 + 1e-9)}
        return replace(self, rows=tuple(row for row in self.rows if row[1] not in over)) if over else self

    def fewest(self, most: int) -> Kept:
        """At most so many of them."""
        if len(self.rows) <= most:
            return self
        return replace(self, rows=tuple(self.rows[i] for i in smallest([text for text, _, _ in self.rows], most)))

    def __sub__(self, other: Kept) -> Kept:
        """Without documents that were forgotten, as much of them as that; in another form if not in the same."""
        left, due = take_out(self.rows, due_of(other.rows, str), str)
        if due:
            left, _ = take_out(left, due_of([(text, label, w) for (text, label), w in due.items()], words_of), words_of)
        return replace(self, rows=tuple(left))


NONE_KEPT = Kept()


Row: TypeAlias = tuple[str, Any, float]
Due: TypeAlias = dict[tuple[str, Any], float]


def due_of(rows: Iterable[Row], form: Callable[[str], str]) -> Due:
    """How much of each document is to go."""
    due: Due = {}
    for text, label, weight in rows:
        due[form(text), label] = due.get((form(text), label), 0.0) + weight
    return due


def take_out(rows: Iterable[Row], due: Due, form: Callable[[str], str]) -> tuple[list[Row], Due]:
    """The rows without what is due, and what is due still."""
    left = []
    for text, label, weight in rows:
        key = (form(text), label)
        gone = min(weight, due.get(key, 0.0))
        if gone:
            due[key] -= gone
        if weight - gone > 1e-9 * weight:
            left.append((text, label, weight - gone))
    return left, {key: weight for key, weight in due.items() if weight > 0}


def words_of(text: str) -> str:
    """The same for texts that the sums cannot tell apart, and for some that they can: rather too much is let go."""
    return " ".join(sorted({word[:MAX_WORD_CHARACTERS] for word in TOKEN.findall(text.lower())}))


def marks(texts: Iterable[str]) -> Array:
    """A number for each text that depends on nothing but the text."""
    digests = [zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in texts]
    return np.array(digests, dtype=np.uint64)


def smallest(texts: Sequence[str], most: int) -> list[int]:
    """Which texts have the smallest marks, ascending; all of them if there are no more than that."""
    if len(texts) <= most:
        return list(range(len(texts)))
    digests = marks(texts).tolist()
    return sorted(sorted(range(len(texts)), key=lambda i: (digests[i], texts[i]))[:most])


# ------------------------------------------------------------------ choosing by them

Model = TypeVar("Model", bound=Learner)


def enough(classes: Array) -> int:
    """How many documents reliabilities are fitted on."""
    return min(MAX_KEPT_DOCUMENTS, max(1, JUDGED_CELLS // max(1, len(classes))))


def rechosen(model: Model, kept: Kept, n_jobs: int | None = None) -> Model:
    """The model with what the documents that were kept choose."""
    if not kept.stand_for(model.weight):
        raise DecibanError(
            "of the documents that the model has learned, too few are kept in memory to fit reliabilities on "
            "(a model read from a file has none): give some of them, refit_reliability(X, y)"
        )
    return chosen_by(model, *kept.fewest(enough(model.classes)).labelled(model.classes), n_jobs)


def chosen_by(model: Model, texts: Texts, labels: Labels, weight: Floats | None, n_jobs: int | None = None) -> Model:
    """The model with what these documents, which were learned, choose."""
    unknown = np.setdiff1d(labels.classes, model.classes)
    if len(unknown):
        raise ForgetError(f"the model has learned nothing of class {plain(unknown[0])!r}")
    codes = labels.among(model.classes)
    known = codes >= 0
    model.check_learned(codes[known], None if weight is None else weight[known])
    return model.choose(texts, codes, weight, n_jobs)
