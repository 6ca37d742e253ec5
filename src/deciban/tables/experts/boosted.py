"""The expert of boosted trees: small trees, each grown on what the pool and the trees before it leave unexplained.

    evidence(x, y) = 1/J Σ_j Σ_t v_jt(node of x in tree t of ensemble j, y)

There are J ensembles, one for each fold of the rows. An ensemble never uses the labels of its fold: not to grow, and
not in the scores that it starts from, since the fold is removed from the sums of all other experts first. So its fold
shows when to stop, and a learned row is evaluated by the ensemble of its fold, as a new row would be.

New rows get values that are fitted once more, on all rows: the same trees, one after the other, and then each again
when all others are known.

Trees and values are choices, like the weights of the pool: learning and forgetting leave them as they are. The
difference of a node's value from its parent's is evidence of the column that the parent splits on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from deciban._kernel import boosting as kernel
from deciban._kernel import forest as forest_kernel
from deciban._typing import Array, Codes, Floats
from deciban.errors import FileError
from deciban.pool import Folds, distinct_marks
from deciban.storage.arrays import CheckedArrays
from deciban.tables.encode import EncodedRows, Encoding
from deciban.tables.experts.base import Expert
from deciban.tables.experts.forest import Trees
from deciban.text.parallel import in_threads

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term

MAX_ROUNDS = 120
MIN_GAIN_NATS = 3.0  # in all, on rows that the trees never used: less is not worth the time of an answer;
MIN_GAIN_OF_FEW_ROWS = 1000, 1.0  # but with fewer rows than this, as much as that is
CHANCE_NATS = 6.0  # of a gain g; all values are multiplied by g / (g + this),
MAX_ROWS_OF_CHANCE = 300  # with more rows by as much less
PATIENCE = 15  # rounds after which growing stops, unless they added
MIN_SHARE_OF_GAIN = 0.02  # this much of the whole gain
RATES = (0.1, 0.3)  # the first step, as a share of a full Newton step, and the greatest:
RATE_GROWTH = 1.03  # steps grow by this, since the first ones are the riskiest
RIDGE = 1.0  # λ of a leaf's value
SMOOTHING = 10.0  # of the order of categories
REFIT_RIDGE = 3.0  # of the second pass over all rows, in which trees share what is left
MIN_LEAF_ROWS = 10
MAX_DEPTH = 8
LEAF_LIMITS = (8, 32)
ROWS_PER_LEAF = 400
ROUNDS_AT_ONCE = 5  # of each ensemble, before losses are compared
MAX_ROWS_FOR_ALL_FOLDS = 8000  # with more rows, one ensemble is tried first


@dataclass(frozen=True, slots=True, eq=False)
class BoostedTrees(Expert):
    """Ensembles of small trees over small codes."""

    trees: Trees
    values: Floats  # (nodes, k), for new rows
    crossed: Floats  # (nodes, k) as they were grown, without a fold: for learned rows
    rounds: int  # trees of each ensemble
    folds: Folds  # the fold of a row is the ensemble that never used it
    by_copy: bool  # whether copies of a row have marks of their own
    levels: Codes
    ordered: Array

    name: ClassVar[str] = "boosted trees"
    changing: ClassVar[tuple[str, ...]] = ("values", "crossed", "edges", "first")

    @property
    def settings(self) -> str:
        return f"{self.folds.count} × {self.rounds} small trees on what the other experts leave unexplained"

    def learned(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> BoostedTrees:
        del rows, y, weight
        return self

    def plus(self, other: BoostedTrees, sign: float = 1.0) -> BoostedTrees:
        del other, sign
        return self

    def scaled(self, factor: float) -> BoostedTrees:
        del factor
        return self

    def in_classes(self, where: Array, k: int) -> BoostedTrees:
        values, crossed = np.zeros((2, len(self.values), k))
        edges = np.zeros((k, self.folds.count - 1), dtype=np.uint64)
        values[:, where], crossed[:, where], edges[where] = self.values, self.crossed, self.folds.edges
        first = np.zeros(k, dtype=np.int32)
        first[where] = self.folds.first
        return replace(self, values=values, crossed=crossed, folds=Folds(edges, first))

    def is_valid(self) -> bool:
        return True

    def evidence(self, rows: EncodedRows) -> Floats:
        return self._sums(rows, self.values, 0, self.trees.n_trees) / self.folds.count

    def evidence_without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Floats:
        del weight
        out, ensemble = np.zeros((len(rows), self.values.shape[1])), self.ensemble(rows, y)
        for j in range(self.folds.count):
            at = np.flatnonzero(ensemble == j)
            out[at] = self._sums(rows.take(at), self.crossed, j * self.rounds, (j + 1) * self.rounds)
        return out

    def evidence_unlearned(self, rows: EncodedRows, y: Codes) -> Floats:
        return self.evidence_without(rows, y)

    def _sums(self, rows: EncodedRows, values: Floats, first: int, last: int) -> Floats:
        """The sums of values over some trees, (n, k)."""
        out = np.zeros((len(rows), values.shape[1]))
        where = (rows.small, self.levels, self.ordered, *self.trees.walked)
        forest_kernel.node_sums(*where, values, first, last, out)
        return out

    def ensemble(self, rows: EncodedRows, y: Codes) -> Array:
        """The ensemble that never used the labels of each row."""
        return self.folds.which(distinct_marks(rows.mark, y) if self.by_copy else rows.mark, y)

    def terms(self, rows: EncodedRows, unlearned: Codes | None = None) -> tuple[Floats, Floats]:
        n, k, count = len(rows), self.values.shape[1], self.folds.count
        out, rest = np.zeros((n, len(self.levels), k)), np.zeros((n, k))
        leaves, values = self.trees.leaves(rows, self.levels, self.ordered), self.values
        if unlearned is not None:
            own = self.ensemble(rows, unlearned)[:, None] * self.rounds + np.arange(self.rounds)
            leaves, values, count = np.take_along_axis(leaves, own, axis=1), self.crossed, 1
        links = (self.trees.column, self.trees.parent)
        forest_kernel.value_terms(np.ascontiguousarray(leaves), *links, values, out, rest)
        return out / count, rest / count

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        arrays = {"values": self.values, "edges": self.folds.edges, "first": self.folds.first}
        if self.crossed is not self.values:
            arrays["crossed"] = self.crossed
        return {"rounds": self.rounds, "by_copy": self.by_copy}, {**self.trees._asdict(), **arrays}

    @classmethod
    def unpack(cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int) -> BoostedTrees:
        trees, rounds = Trees.unpack(arrays, len(encoding.columns)), int(settings["rounds"])
        edges, first = arrays.whole("edges", np.uint64, k, None), arrays.whole("first", np.int32, k)
        folds = Folds(edges, first)
        if not (rounds > 0 and trees.n_trees == rounds * folds.count and ((first >= 0) & (first < folds.count)).all()):
            raise FileError("its boosted trees are not as many for each fold")
        values = crossed = arrays.floats("values", (len(trees.column), k))
        if "crossed" in arrays.all():  # files of the first versions have one table for both
            crossed = arrays.floats("crossed", values.shape)
        return cls(trees, values, crossed, rounds, folds, bool(settings["by_copy"]), encoding.levels, encoding.ordered)

    def term(self, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> Term:
        del sketch
        return self.trees.term(self.values / self.folds.count, encoding, self.ordered, places)


def grown(
    rows: EncodedRows,
    y: Codes,
    weight: Floats | None,
    encoding: Encoding,
    scores: Callable[[Sequence[int]], Iterable[Floats]],
    folds: Folds,
    fold: Array,
    by_copy: bool,
    workers: int = 1,
) -> BoostedTrees | None:
    """Boosted trees on rows of classes y, or None if they do not help with rows that they never used.

    scores(some folds) are log joints (n, k) of all rows by models that know nothing of each of these folds; `fold` is
    that of each row. A row is left out if its own class has no finite score. With many rows, the ensemble of the first
    fold must help before the others are begun.
    """
    levels, ordered, n = encoding.levels, encoding.ordered, len(y)
    codes, ensembles, places = np.ascontiguousarray(rows.small.T), list[kernel.Boosting](), list[Array]()
    total = np.zeros((n, 0))  # of the scores of all folds
    leaves = int(np.clip(n / ROWS_PER_LEAF, *LEAF_LIMITS))
    settings = (leaves, MAX_DEPTH, MIN_LEAF_ROWS, RIDGE, SMOOTHING)

    def begin(some: Sequence[int]) -> None:
        nonlocal total
        for f, base in zip(some, scores(some), strict=True):
            total = total + base if total.size else base
            at = np.flatnonzero(np.isfinite(base[np.arange(n), y]))
            mine = codes if len(at) == n else np.ascontiguousarray(codes[:, at])
            own_y, base = np.ascontiguousarray(y[at]), np.ascontiguousarray(base if len(at) == n else base[at])
            amount = None if weight is None else np.ascontiguousarray(weight[at])
            used = (fold[at] != f).astype(np.uint8)
            ensembles.append(kernel.Boosting(mine, levels, ordered, own_y, amount, base, used, *settings, f))
            places.append(at)

    each = range(folds.count)
    if n > MAX_ROWS_FOR_ALL_FOLDS:
        begin(each[:1])
        if not promises(ensembles[0]):
            return None
    begin(each[len(ensembles) :])
    few, least = MIN_GAIN_OF_FEW_ROWS
    rounds, gain = stopped(ensembles, least if n < few else MIN_GAIN_NATS, workers)
    if not rounds:
        return None
    parts = [ensemble.trees(rounds) for ensemble in ensembles]
    trees, crossed = Trees.joined([Trees(*part[:7]) for part in parts]), np.concatenate([part[7] for part in parts])
    mean = total / folds.count
    rates, ridges = np.array([[rate(t) for t in range(rounds)], [RATES[1]] * rounds]), np.array([RIDGE, REFIT_RIDGE])
    refitted = in_threads(lambda j: ensembles[j].refit(mean[places[j]], rates, ridges), folds.count, workers)
    share = gain / (gain + CHANCE_NATS * min(1.0, MAX_ROWS_OF_CHANCE / n))
    values = share * np.concatenate(list(refitted))
    return BoostedTrees(trees, values, share * crossed, rounds, folds, by_copy, levels, ordered)


def rate(round_: int) -> float:
    """The share of a full Newton step that the tree of a round takes."""
    return min(RATES[1], RATES[0] * RATE_GROWTH**round_)


def step(ensemble: kernel.Boosting) -> None:
    """One more tree."""
    ensemble.step(rate(len(ensemble.losses)))


def promises(ensemble: kernel.Boosting) -> bool:
    """Whether some rounds, as many as that takes, clearly lower the loss of the rows that an ensemble does not use."""
    losses = [ensemble.start]
    while len(losses) <= MAX_ROUNDS and len(losses) - 1 - int(np.argmin(losses)) < PATIENCE:
        step(ensemble)
        losses.append(ensemble.losses[-1])
        if ensemble.start - losses[-1] > MIN_GAIN_NATS:
            return True
    return False


def stopped(ensembles: Sequence[kernel.Boosting], min_gain: float, workers: int) -> tuple[int, float]:
    """Grow all ensembles, and return the number of rounds after which the rows that they do not use have the least loss
    in all, and their gain; 0 and 0 unless that is more than `min_gain`.

    Threads take the ensembles in turn, and need not wait until all have as many rounds: there may be three for two
    threads. Rounds that one is ahead of the others do not count.
    """
    start, count = sum(ensemble.start for ensemble in ensembles), len(ensembles)
    losses = [start]
    if start < min_gain:
        return 0, 0.0
    locks = [Lock() for _ in ensembles]

    def work(i: int) -> None:
        mine = ensembles[i % count]
        with locks[i % count]:
            while len(mine.losses) < (i // count + 1) * ROUNDS_AT_ONCE:
                step(mine)

    with closing(in_threads(work, count * (MAX_ROUNDS // ROUNDS_AT_ONCE), workers)) as steps:
        for i, _ in enumerate(steps):
            if i % count == count - 1:
                new = slice(len(losses) - 1, len(losses) - 1 + ROUNDS_AT_ONCE)
                losses += np.sum([ensemble.losses[new] for ensemble in ensembles], axis=0).tolist()
                if len(losses) > PATIENCE:
                    least, before = min(losses), min(losses[:-PATIENCE])
                    if before - least <= MIN_SHARE_OF_GAIN * (start - least):
                        break
    best = int(np.argmin(losses))
    gain = start - losses[best]
    return (best, gain) if gain > min_gain else (0, 0.0)
