"""A few of the documents that were learned, so that reliabilities can be fitted anew without all of them.

Which are kept depends on what they say, not on when they came: the ones with the smallest digests. So a sum of models
keeps what a model of the sum would, in any order, and memory is bounded. They stay in memory: no file has them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from deciban._typing import Array
from deciban.text.evidence import TOKEN
from deciban.text.items import MAX_WORD_CHARACTERS

MAX_KEPT_DOCUMENTS = 20_000
MIN_KEPT_WEIGHT = 2.0**-10  # of a document: what is kept weighs enough for the sums to have all of its words still


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Documents with their labels and weights."""

    rows: tuple[tuple[str, Any, float], ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: Kept) -> Kept:
        return Kept((*self.rows, *other.rows)).fewest(MAX_KEPT_DOCUMENTS)

    def scale(self, share: float) -> Kept:
        """With weights times a number, and without documents that are too faint by now to choose anything by."""
        rows = [(text, label, weight * share) for text, label, weight in self.rows]
        return Kept(tuple(row for row in rows if row[2] >= MIN_KEPT_WEIGHT))

    def at_most(self, learned: dict[Any, float]) -> Kept:
        """Without the classes of which more is kept than was learned: something forgotten must be among it."""
        held = due_of([("", label, weight) for _, label, weight in self.rows], str)
        over = {label for (_, label), weight in held.items() if weight > learned.get(label, 0.0) * (1 + 1e-9)}
        return Kept(tuple(row for row in self.rows if row[1] not in over)) if over else self

    def fewest(self, most: int) -> Kept:
        """At most so many of them."""
        return Kept(tuple(self.rows[i] for i in smallest([text for text, _, _ in self.rows], most)))

    def __sub__(self, other: Kept) -> Kept:
        """Without documents that were forgotten, as much of them as that; in another form if not in the same."""
        left, due = take_out(self.rows, due_of(other.rows, str), str)
        if due:
            left, _ = take_out(left, due_of([(text, label, w) for (text, label), w in due.items()], words_of), words_of)
        return Kept(tuple(left))


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
