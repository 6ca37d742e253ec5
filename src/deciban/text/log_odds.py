"""The evidence of items for some of the classes: see graded.py for the equations.

An item has sums in a few classes. In all others its evidence is the same, up to the factor of the class's
pseudo-counts, of which there are a few. So λ of one class, and its mean over all, take no table of items by classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.text.store import ItemSums
from deciban.text.tables import MAX_KNOWLEDGE, MIN_KNOWLEDGE, Shares


class LogOdds(NamedTuple):
    """λ and κ of items, for every strength of pseudo-counts."""

    cells: ItemSums
    there: Array  # (k,) whether the class has documents
    group: Codes  # (k,) the group of classes with the same factor
    absent: Floats  # (items, strengths, groups) λ of classes that do not have the item
    lift: Floats  # (cells, strengths) by how much it is more for a class that has it
    kappa: Floats  # (items, strengths)

    @classmethod
    def of(cls, cells: ItemSums, strength: Floats, shares: Shares) -> LogOdds:
        share, _, entropy, factor = shares
        distinct, group = np.unique(factor, return_inverse=True)
        there, pseudo, groups = share > 0, factor * share, len(distinct)
        item, total, mine = np.repeat(np.arange(cells.size), np.diff(cells.ptr)), cells.total(), pseudo[cells.cls]
        unseen = strength * np.where(mine > 0, mine, 1.0)[:, None]
        lift = np.where(mine[:, None] > 0, np.log1p(cells.val[:, None] / unseen), 0.0)
        m = strength[:, None] * distinct
        absent = np.log(m) - np.log(total[:, None, None] + m)
        in_group = np.bincount(item * groups + group[cells.cls], cells.val, minlength=cells.size * groups)
        by_group = np.bincount(group, pseudo, minlength=groups)
        known = (absent * (in_group.reshape(-1, 1, groups) + strength[:, None] * by_group)).sum(axis=2)
        gained = (cells.val[:, None] + strength * mine[:, None]) * lift
        known += np.stack([np.bincount(item, column, minlength=cells.size) for column in gained.T], axis=1)
        known /= total[:, None] + strength * pseudo.sum()
        kappa = np.clip(known / entropy[-1], MIN_KNOWLEDGE, MAX_KNOWLEDGE)
        return cls(cells, there, group.astype(np.int32), absent, lift, kappa)

    def at(self, items: Array, classes: Array) -> Floats:
        """λ of each of these items (n,) for its classes (n, c): (n, strengths, c)."""
        k = len(self.there)
        keys = np.repeat(np.arange(self.cells.size), np.diff(self.cells.ptr)) * k + self.cells.cls  # ascending
        wanted = items[:, None] * k + classes
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        lift = np.where((keys[place] == wanted)[..., None], self.lift[place], 0.0).transpose(0, 2, 1)
        absent = self.absent[items[:, None], :, self.group[classes]].transpose(0, 2, 1)
        return np.asarray(np.where(self.there[classes][:, None], absent + lift, 0.0))

    def mean(self, among: Array) -> Floats:
        """The mean of λ over these classes, (items, strengths)."""
        some = among & self.there
        count = np.bincount(self.group[some], minlength=self.absent.shape[2])
        item = np.repeat(np.arange(self.cells.size), np.diff(self.cells.ptr))
        lift = self.lift * some[self.cells.cls, None]
        lifts = np.stack([np.bincount(item, column, minlength=self.cells.size) for column in lift.T], axis=1)
        return np.asarray((self.absent @ count + lifts) / max(1, among.sum()))
