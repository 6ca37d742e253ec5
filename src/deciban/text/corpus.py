"""A background corpus as pseudo-counts: word frequencies before any class is known (S6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from deciban.errors import DecibanError
from deciban.text.documents import batches
from deciban.text.tokens import TokenRule


def background(
    documents: Any,
    strength: float = 100.0,
    lowercase: bool = True,
    normalise: bool = True,
    reliability: str | None = "loo",
) -> dict[str, float]:
    """Pseudo-counts by word: `strength` of them in all, in proportion to the words' counts in the documents.

    For the `prior` of a TextClassifier with the same `lowercase`, `normalise` and `reliability`: every class then
    starts from the word frequencies of the documents, and moves away from them with its own documents.

    >>> from deciban.text import background
    >>> background(["the cat and the dog", "the end"], strength=7)
    {'the': 3.0, 'cat': 1.0, 'and': 1.0, 'dog': 1.0, 'end': 1.0}
    """
    if not (np.isfinite(strength) and strength >= 0):
        raise ValueError(f"strength is {strength}: it must be a number ≥ 0")
    from deciban.text.plain import UNSPACED_WORD, count_words

    rule, unspaced = TokenRule(normalise=normalise), UNSPACED_WORD if reliability is None else 1
    words, counts = count_words(batches(documents, lowercase), None, None, rule, unspaced)
    times = np.bincount(counts.indices, counts.data, minlength=len(words))
    if not len(words):
        raise DecibanError("the documents have no words: give documents with at least one word")
    return dict(zip(words.strings(), (times * (strength / times.sum())).tolist(), strict=True))
