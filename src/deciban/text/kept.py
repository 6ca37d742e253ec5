"""A few of the documents that were learned, so that reliabilities can be fitted anew without all of them.

Which are kept depends on what they say, not on when they came: the ones with the smallest digests. So a sum of models
keeps what a model of the sum would, in any order, and memory is bounded. They stay in memory: no file has them.
"""

from __future__ import annotations

import zlib
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

    def fewest(self, most: int) -> Kept:
        """At most so many of them."""
        return Kept(tuple(self.rows[i] for i in smallest([text for text, _, _ in self.rows], most)))

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


def smallest(texts: Sequence[str], most: int) -> list[int]:
    """Which texts have the smallest digests, ascending; all of them if there are no more than that."""
    if len(texts) <= most:
        return list(range(len(texts)))
    digests = [zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in texts]
    return sorted(sorted(range(len(texts)), key=lambda i: (digests[i], texts[i]))[:most])
