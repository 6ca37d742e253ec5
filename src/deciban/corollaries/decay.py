"""Decay, for drifting data: all sums times 2^(−rows/half_life), as if old rows had that weight."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from deciban._typing import Floats
from deciban.algebra import Stats, about_the_means
from deciban.errors import DecibanError
from deciban.joint import Model

MIN_CLASS_WEIGHT = 2.0**-900  # in rows: with less, sums would soon lose digits, since doubles end at 2^−1074


def decay(model: Model, half_life: float, rows: float) -> Model:
    """The model after `rows` more rows, if what was learned loses half its weight in every `half_life`.

    Classes and categories stay known. A pivot follows a mean that has drifted far from it.

    >>> from deciban import MultinomialNB
    >>> model = MultinomialNB().fit([[8, 0], [0, 4]], ["ham", "spam"]).model_
    >>> decay(model, half_life=100, rows=200).stats.sums[0]["x"].tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    share = share_left(half_life, rows)
    return model if share == 1.0 else Model(model.joint, scaled(model.stats, share))


def share_left(half_life: Any, rows: Any) -> float:
    """2^(−rows/half_life)."""
    if not isinstance(half_life, Real) or not float(half_life) > 0:
        raise DecibanError(f"half_life is {half_life!r}: it must be a number of rows > 0; infinity means no decay")
    if not isinstance(rows, Real) or not 0 <= float(rows) < math.inf:
        raise DecibanError(f"rows is {rows!r}: it must be the number of new rows, ≥ 0")
    return float(np.exp2(-float(rows) / float(half_life)))


def scaled(stats: Stats, share: float) -> Stats:
    """The sums times a share, in a way that keeps their digits however often they decay and however far they drift."""
    return about_the_means(without_faint(stats.scale(share)))


def without_faint(stats: Stats) -> Stats:
    """The same with zeros for classes whose weight is below MIN_CLASS_WEIGHT."""
    has_rows = stats.weight >= MIN_CLASS_WEIGHT
    if (has_rows | (stats.weight == 0)).all():
        return stats

    def kept_or_zero(array: Floats) -> Floats:
        return np.where(has_rows.reshape(-1, *[1] * (array.ndim - 1)), array, 0.0)

    sums = tuple({name: kept_or_zero(array) for name, array in block.items()} for block in stats.sums)
    return replace(stats, weight=kept_or_zero(stats.weight), sums=sums)
