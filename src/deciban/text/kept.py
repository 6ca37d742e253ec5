"""A few of the documents that were learned, so that reliabilities can be fitted anew without all of them.

Which are kept depends on what they say, not on when they came: the ones with the smallest digests. So a sum of models
keeps what a model of the sum would, in any order, and memory is bounded. They stay in memory: no file has them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Documents with their labels and weights."""

    rows: tuple[tuple[str, Any, float], ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: Kept) -> Kept:
        return Kept((*self.rows, *other.rows)).fewest(MOST)

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[Any], weight: Sequence[float] | None) -> Kept:
        weights = [1.0] * len(texts) if weight is None else weight
        return cls(tuple(zip(texts, labels, weights, strict=True))).fewest(MOST)

    def fewest(self, most: int) -> Kept:
        """At most so many of them."""
        if len(self.rows) <= most:
            return self
        return Kept(tuple(sorted(self.rows, key=lambda row: digest(row[0]))[:most]))

    def __sub__(self, other: Kept) -> Kept:
        """Without documents that were forgotten, once for each time."""
        gone = Counter(other.rows)
        left = []
        for row in self.rows:
            if gone[row] > 0:
                gone[row] -= 1
            else:
                left.append(row)
        return Kept(tuple(left))


def digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
