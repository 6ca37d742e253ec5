"""Numbers as categories: intervals of about equal weight, chosen without labels."""

from __future__ import annotations

import numpy as np

from deciban._typing import Array, Floats
from deciban.schema import Bins


def usual_bins(rows: float) -> int:
    """The fourth root of the number of rows: a pair of columns then has as many cells as a cell has rows.

    >>> [usual_bins(rows) for rows in (5, 150, 846, 20_000)]
    [2, 3, 5, 12]
    """
    return max(2, round(float(np.sqrt(np.sqrt(rows)))))


def quantile_bins(values: Floats, weight: Floats, bins: int) -> Bins:
    """About `bins` intervals of equal weight; a value as heavy as an interval gets its own.

    >>> list(quantile_bins(np.array([0, 0, 0, 0, 1, 2, 3, 4.0]), np.ones(8), 3))
    ['≤ 0.5', '0.5 to 2.5', '> 2.5']
    """
    distinct, index = np.unique(values, return_inverse=True)
    mass = np.bincount(index.ravel(), weights=weight, minlength=len(distinct))
    starts = np.ones(len(distinct), dtype=bool)
    if len(distinct) > bins:
        heavy = mass >= mass.sum() / bins
        light = np.where(heavy, 0.0, mass)
        share = light.sum() / max(1, bins - int(heavy.sum()))
        interval = np.floor((np.cumsum(light) - light / 2) / share) if share > 0 else np.zeros(len(distinct))
        starts[1:] = (np.diff(interval) > 0) | heavy[1:] | heavy[:-1]
    first = np.flatnonzero(starts)[1:]
    return bins_at(between(distinct[first - 1], distinct[first]), values, weight)


def between(low: Floats, high: Floats) -> Floats:
    """Halfway, or `low` if no float is between the two: a cut belongs to the interval below it."""
    middle = low / 2 + high / 2
    return np.where((low <= middle) & (middle < high), middle, low)


def bins_at(cuts: Array, values: Floats, weight: Floats) -> Bins:
    """Intervals that end at these cuts, each represented by the median of its values, or by an end if it is empty."""
    interval = np.searchsorted(cuts, values)
    order = np.lexsort((values, interval))
    middles = []
    for b in range(len(cuts) + 1):
        members = order[np.searchsorted(interval[order], b) : np.searchsorted(interval[order], b, side="right")]
        cumulative = np.cumsum(weight[members])
        if len(members) and cumulative[-1] > 0:
            middles.append(float(values[members[np.searchsorted(cumulative, cumulative[-1] / 2)]]))
        else:
            middles.append(float(cuts[min(b, len(cuts) - 1)]) if len(cuts) else 0.0)
    return Bins(tuple(float(cut) for cut in cuts), tuple(middles))
