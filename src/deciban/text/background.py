"""A background corpus as pseudo-counts: what words are like before any class is known (S6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from deciban.errors import DecibanError
from deciban.text.documents import batches


def background(documents: Any, strength: float = 100.0, lowercase: bool = True) -> dict[str, float]:
    """Pseudo-counts by word: `strength` of them in all, shared out as the documents use the words.

    For the `prior` of a TextClassifier: every class then starts from the language of the documents, and moves away
    from it by what it says itself.

    >>> from deciban.text import background
    >>> background(["the cat and the dog", "the end"], strength=7)
    {'the': 3.0, 'cat': 1.0, 'and': 1.0, 'dog': 1.0, 'end': 1.0}
    """
    if not (np.isfinite(strength) and strength >= 0):
        raise ValueError(f"strength is {strength}: it must be a number ≥ 0")
    from deciban.text.plain import count_words

    words, counts = count_words(batches(documents, lowercase), None)
    times = np.bincount(counts.indices, counts.data, minlength=len(words))
    if not len(words):
        raise DecibanError("the documents have no words to take pseudo-counts from")
    return dict(zip(words.strings(), (times * (strength / times.sum())).tolist(), strict=True))
