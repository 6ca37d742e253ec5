"""The expert of columns: naive Bayes, each column with a law of its own, chosen by leave-one-out.

Counts n_yv of codes by class are all it learns. With π_v = n_v/n and strength s, a column's law given the class is

    p(v | y) = (ñ_yv + s π̃_v) / (n_y + s)

where ñ and π̃ are the counts themselves (categories), or counts spread over neighbouring bins by a kernel (numbers).
Leave-one-out needs no rows: a row of class y and value v takes its weight from n_yv, n_v, n_y and n. A value that no
other row has says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from deciban._kernel import counts as counting
from deciban._kernel import scores as kernel
from deciban._typing import Array, Codes, Floats
from deciban.errors import FileError
from deciban.measure import RESIDUE
from deciban.schema import category_positions
from deciban.storage.arrays import CheckedArrays, positive
from deciban.tables.encode import EncodedRows, Encoding, Known
from deciban.tables.experts.base import Expert

if TYPE_CHECKING:
    from deciban.formula import Sketch, Walks

FAINT = 1e-12  # of all rows: as little is left by rounding, or has been spread from bins far off
SLIGHT = 1e-6  # rows: less than this below nothing is rounding
GAIN = 3.0  # nats that a law must win over the default by: the best of many is often so by chance


@dataclass(frozen=True, slots=True)
class Law:
    """How counts become probabilities: pseudo-counts, and how far a bin's counts spread (in bins; 0: not at all)."""

    strength: float
    spread: float = 0.0

    def __str__(self) -> str:
        return f"counts + {self.strength:g}" + (f", spread over {self.spread:g} bins" if self.spread else "")


CATEGORIES = (Law(2.0), Law(0.5), Law(8.0), Law(32.0))  # the first is the default
BINNED = (
    Law(8.0, 3.0),
    *(Law(s, h) for h in (0.7, 1.5, 3.0, 6.0) for s in (1.0, 8.0) if (s, h) != (8.0, 3.0)),
    *(Law(s) for s in (0.5, 2.0, 8.0, 32.0)),
)


@lru_cache(maxsize=256)
def spreading(size: int, laws: tuple[Law, ...]) -> tuple[Floats, Floats, Floats]:
    """Where a count in a bin goes under each law, (laws, size, size); what stays in it (laws, size); and strengths.

    The first bin, of missing entries, keeps to itself.
    """
    at, out = np.arange(size - 1), np.zeros((len(laws), size, size))
    for by, law in zip(out, laws, strict=True):
        if law.spread:
            weights = np.exp(-0.5 * ((at[:, None] - at) / law.spread) ** 2)
            by[0, 0], by[1:, 1:] = 1.0, weights / weights.sum(axis=0)
        else:
            np.fill_diagonal(by, 1.0)
    return out, np.ascontiguousarray(np.diagonal(out, axis1=1, axis2=2)), np.array([law.strength for law in laws])


def tables(counts: Floats, laws: tuple[Law, ...], gone: float = 0.0) -> tuple[Floats, Floats]:
    """log p(v | y) of (k, v) counts under each law, (laws, k, v), and the same for the class of a row that is left out.

    `gone` is the weight of a row of value v that is left out: from v's share in both, from its class in the second.
    """
    n_v, n_y, size = counts.sum(axis=0), counts.sum(axis=1)[:, None], counts.shape[1]
    if any(law.spread for law in laws):
        by, own, strength = spreading(size, laws)
        smooth, back = counts @ by.transpose(0, 2, 1), by @ n_v  # (laws, k, v), (laws, v)
    else:  # categories may be many
        smooth, back, own = counts[None], n_v[None], np.ones((1, size))
        strength = np.array([law.strength for law in laws])
    s, rest, total = strength[:, None, None], np.maximum(back - gone * own, 0.0), float(n_v.sum()) - gone
    with np.errstate(divide="ignore", invalid="ignore"):
        prior = s * (rest / total)[:, None]
        others = np.log((smooth + prior) / (n_y + s))
        left = np.maximum(smooth - gone * own[:, None], 0.0)
        mine = np.log((left + prior) / (np.maximum(n_y - gone, 0.0) + s))
    lost = (rest <= FAINT * total)[:, None]  # a value that nobody else has, and no neighbour is near, says nothing
    return np.where(lost, 0.0, others), np.where(lost, 0.0, mine)


def law_losses(counts: Floats, laws: tuple[Law, ...], log_prior: Floats, gone: float) -> Floats:
    """Σ of −log P(y | v) under each law, each row left out: from the table alone."""
    others, mine = tables(counts, laws, gone)
    scores, own = others + log_prior[:, None], mine + log_prior[:, None]  # (laws, k, v)
    top = np.maximum(scores.max(axis=1, keepdims=True), own.max(axis=1, keepdims=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.exp(scores - top)
        rest = np.maximum(each.sum(axis=1, keepdims=True) - each, 0.0)  # the other classes', when one's row is out
        losses = np.log(rest + np.exp(own - top)) + top - own
    return np.asarray((counts * np.where(counts > 0, losses, 0.0)).sum(axis=(1, 2)))


def choose_laws(
    counts: Floats, offsets: Array, binned: Array, log_prior: Floats, gone: float, choose: bool
) -> tuple[tuple[Law, ...], Floats, Floats]:
    """A law for every column, its leave-one-out loss in nats, and the default's."""
    laws, losses, usual = [], np.zeros(len(binned)), np.zeros(len(binned))
    for j, here in enumerate(binned):
        tried = BINNED if here else CATEGORIES
        found = law_losses(
            np.ascontiguousarray(counts[:, offsets[j] : offsets[j + 1]]),
            tried if choose else tried[:1],
            log_prior,
            gone,
        )
        best = int(np.argmin(found))
        best = best if found[best] < found[0] - GAIN else 0
        laws.append(tried[best])
        losses[j], usual[j] = found[best], found[0]
    return tuple(laws), losses, usual


@dataclass(frozen=True, slots=True, eq=False)
class ColumnLaws(Expert):
    """Naive Bayes over coded columns."""

    laws: tuple[Law, ...]
    offsets: Array  # (d + 1,)
    counts: Floats  # (k, cells)
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    name: ClassVar[str] = "columns"
    changing: ClassVar[tuple[str, ...]] = ("counts",)

    @property
    def settings(self) -> str:
        return "naive Bayes, a law for each column"

    def learned(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> ColumnLaws:
        counts = self.counts.copy()
        counting.code_counts(rows.codes, y, weight, self.offsets, counts)
        return replace(self, counts=counts)

    def plus(self, other: ColumnLaws, sign: float = 1.0) -> ColumnLaws:
        counts = self.counts + sign * other.counts
        counts[np.abs(counts) <= RESIDUE * self.counts] = 0.0
        return replace(self, counts=counts)

    def scaled(self, factor: float) -> ColumnLaws:
        return replace(self, counts=self.counts * factor)

    def in_classes(self, where: Array, k: int) -> ColumnLaws:
        counts = np.zeros((k, self.counts.shape[1]))
        counts[where] = self.counts
        return replace(self, counts=counts)

    def sound(self) -> bool:
        return bool((self.counts >= -SLIGHT).all())

    def recoded(self, old: Encoding, new: Encoding) -> ColumnLaws:
        """The counts where the categories stand in another encoding, which has them all."""
        offsets = new.offsets
        counts = np.zeros((len(self.counts), int(offsets[-1])))
        for j, (mine, theirs) in enumerate(zip(old.columns, new.columns, strict=True)):
            place = np.arange(mine.size)
            if isinstance(mine, Known) and isinstance(theirs, Known) and mine.levels != theirs.levels:
                place[1:] = 1 + category_positions(mine.levels, theirs.levels)
            counts[:, offsets[j] + place] = self._counts(j)
        return replace(self, offsets=offsets, counts=counts)

    def _counts(self, column: int) -> Floats:
        return np.ascontiguousarray(self.counts[:, self.offsets[column] : self.offsets[column + 1]])

    def pointed(self) -> Floats:
        """log p(v | y), (cells, k), about its mean over the classes that were seen."""
        if "table" not in self._cache:
            seen = self.counts.sum(axis=1) > 0
            seen = seen if seen.any() else ~seen
            parts = [tables(self._counts(j), (law,))[0][0] for j, law in enumerate(self.laws)]
            table = np.concatenate(parts, axis=1).T if parts else np.zeros((0, len(self.counts)))
            self._cache["table"] = np.ascontiguousarray(table - table[:, seen].mean(axis=1, keepdims=True))
        return np.asarray(self._cache["table"])

    def weighed(self, rows: EncodedRows, weights: Floats) -> Floats:
        """Σ_j w_j times what column j says, (n, k)."""
        by = np.repeat(weights, np.diff(self.offsets))
        out = np.zeros((len(rows), len(self.counts)))
        nothing = np.zeros((len(self.laws), len(self.counts)))
        kernel.code_scores(rows.codes, self.offsets, self.pointed() * by[:, None], nothing, out)
        return out

    def evidence(self, rows: EncodedRows) -> Floats:
        return self.weighed(rows, np.ones(len(self.laws)))

    def said_without(
        self, rows: EncodedRows, y: Codes, weight: Floats | None, weights: Floats, alone: Array
    ) -> tuple[Floats, Floats]:
        """Of rows that were learned, without them: Σ_j w_j times what column j says, (n, k), and what the columns
        `alone` say by themselves, (n, columns, k)."""
        n, d, k = len(rows), len(self.laws), len(self.counts)
        out, each, place = np.zeros((n, k)), np.zeros((n, len(alone), k)), np.full(d, -1, dtype=np.intp)
        place[alone] = np.arange(len(alone))
        taken = np.ones(n) if weight is None else np.ascontiguousarray(weight)
        strength, codes = np.array([law.strength for law in self.laws]), np.ascontiguousarray(rows.codes)
        weights = np.ascontiguousarray(weights)
        kernel.code_evidence_without(
            codes, y, taken, self.offsets, *self._spread(), strength, self._totals(), FAINT, weights, place, out, each
        )
        return out, each

    def _spread(self) -> tuple[Floats, Floats, Floats]:
        """Counts as the columns spread them: by class (cells, k), and in all (cells,), and what stays in a cell."""
        if "spread" not in self._cache:
            by_class, own = self.counts.T.copy(order="C"), np.ones(self.counts.shape[1])
            for j, law in enumerate(self.laws):
                if law.spread:
                    mine = slice(self.offsets[j], self.offsets[j + 1])
                    (by,), (stays,), _ = spreading(int(self.offsets[j + 1] - self.offsets[j]), (law,))
                    by_class[mine], own[mine] = by @ self.counts[:, mine].T, stays
            self._cache["spread"] = by_class, np.ascontiguousarray(by_class.sum(axis=1)), own
        return self._cache["spread"]  # type: ignore[no-any-return]  # put there above

    def _totals(self) -> Floats:
        """How much of each class every column has seen, (d, k)."""
        if not self.laws:
            return np.zeros((0, len(self.counts)))
        return np.ascontiguousarray(np.add.reduceat(self.counts, self.offsets[:-1], axis=1).T)

    def evidence_without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Floats:
        return self.said_without(rows, y, weight, np.ones(len(self.laws)), np.zeros(0, dtype=np.intp))[0]

    def terms(self, rows: EncodedRows) -> tuple[Floats, Floats]:
        codes, table = rows.codes[0], self.pointed()
        at = self.offsets[:-1] + np.maximum(codes, 0)
        return np.where(codes[:, None] >= 0, table[at], 0.0), np.zeros(len(self.counts))

    def chances(self) -> list[Floats]:
        """p(v | y) of every column, (k, v) each; columns that were never seen are even."""
        if "chances" not in self._cache:
            out = []
            for j, law in enumerate(self.laws):
                counts = self._counts(j)
                known = counts.sum(axis=0) > 0
                known = known if known.any() else ~known
                chances = np.where(known, np.exp(tables(counts, (law,))[0][0]), 0.0)
                total = chances.sum(axis=1, keepdims=True)  # laws of neighbouring bins reach into empty ones
                out.append(chances / np.where(total > 0, total, 1.0))
            self._cache["chances"] = out
        return self._cache["chances"]  # type: ignore[no-any-return]  # put there above

    def log_prob(self, rows: EncodedRows) -> Floats:
        """log p(codes | class), (n, k): what was never seen counts as half a row.

        A missing entry where none was missing says nothing.
        """
        total = np.maximum(self.counts.sum(axis=1) / max(1, len(self.laws)), 1.0)
        rare = np.log(0.5 / (total + 1.0))
        parts = []
        for chances in self.chances():
            with np.errstate(divide="ignore"):
                table = np.log(chances)
            table[:, ~chances.any(axis=0)] = rare[:, None]
            if not chances[:, 0].any():
                table[:, 0] = 0.0
            parts.append(table)
        whole = np.ascontiguousarray(np.concatenate(parts, axis=1).T) if parts else np.zeros((0, len(self.counts)))
        unseen = np.broadcast_to(rare, (len(self.laws), len(total))).copy()
        out = np.zeros((len(rows), len(self.counts)))
        codes = np.where(rows.codes < 0, np.iinfo(np.int32).max, rows.codes)
        kernel.code_scores(codes, self.offsets, whole, unseen, out)
        return out

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {"laws": [[law.strength, law.spread] for law in self.laws]}, {"counts": self.counts}

    @classmethod
    def unpack(cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int) -> ColumnLaws:
        laws = tuple(Law(positive(s), float(h)) for s, h in settings["laws"])
        if len(laws) != len(encoding.columns) or any(not 0 <= law.spread < np.inf for law in laws):
            raise FileError("its columns do not have a law each")
        offsets = encoding.offsets
        return cls(laws, offsets, arrays.counts("counts", k, int(offsets[-1])))

    def term(self, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> Walks:
        del sketch
        return self.weighed_term(encoding, places, np.ones(len(self.laws)))

    def weighed_term(self, encoding: Encoding, places: Sequence[int], weights: Floats) -> Walks:
        """Σ_j w_j times what column j says; a category that was never seen says nothing."""
        from deciban.formula import Walks, alone

        table, nothing, walks = self.pointed(), np.zeros((1, len(self.counts))), []
        for j in np.flatnonzero(weights).tolist():
            own = table[self.offsets[j] : self.offsets[j + 1]] * weights[j]
            known = isinstance(encoding.columns[j], Known)
            walks.append(alone(places[j], np.vstack([own, nothing]) if known else own))
        return Walks(tuple(walks))


def centred(evidence: Floats, most: float) -> Floats:
    """Evidence about its mean over the classes, none beyond `most` nats; a class that is ruled out is at the end."""
    if evidence.size and np.isfinite(evidence.min()):
        out = evidence - evidence.mean(axis=1, keepdims=True)
    else:
        there = np.isfinite(evidence)
        middle = np.where(there, evidence, 0.0).sum(axis=1, keepdims=True) / np.maximum(
            there.sum(axis=1, keepdims=True), 1
        )
        out = evidence - middle
    return np.asarray(np.clip(out, -most, most, out=out))


def log_loss(evidence: Floats, log_prior: Floats, y: Codes, weight: Floats | None = None) -> float:
    """The mean of −log P(y) when evidence is added to the log prior."""
    scores = evidence + log_prior
    scores -= scores.max(axis=1, keepdims=True)
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]
    return float(losses.mean() if weight is None else np.average(losses, weights=weight))
