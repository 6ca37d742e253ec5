"""The expert of columns: naive Bayes, with the smoothing of each column chosen by leave-one-out.

It learns only the counts n_yv of codes by class. With π_v = n_v/n and strength s, a column's distribution is

    p(v | y) = (ñ_yv + s π̃_v) / (n_y + s)

where ñ and π̃ are the counts themselves (categories), or counts smoothed over neighbouring bins by a kernel (numbers).
Leave-one-out needs no rows: a row of class y and value v takes its weight from n_yv, n_v, n_y and n. A value that no
other row has is no evidence.
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
from deciban.families.linear import by_code
from deciban.measure import RESIDUE
from deciban.schema import category_positions
from deciban.storage.arrays import CheckedArrays, positive
from deciban.tables.encode import USUAL_BINS, EncodedRows, Encoding, Known
from deciban.tables.experts.base import Expert, pseudo_rows

if TYPE_CHECKING:
    from deciban.formula import Sketch, Walks

NEGLIGIBLE_SHARE = 1e-12  # of all rows: so little is rounding, or was smoothed from distant bins
ROUNDING_ROWS = 1e-6  # counts may be negative by this many rows through rounding
MIN_GAIN_NATS = 3.0  # by which a smoothing must beat the default: the best of many often wins by chance


@dataclass(frozen=True, slots=True)
class Smoothing:
    """How counts become probabilities: pseudo-counts, and the width of the smoothing kernel in bins (0: none)."""

    strength: float
    spread: float = 0.0

    def __str__(self) -> str:
        smoothed = f", smoothed over ±{self.spread:.2g} bins" if self.spread else ""
        return f"counts + {pseudo_rows(self.strength)}{smoothed}"


CATEGORIES = (Smoothing(2.0), Smoothing(0.5), Smoothing(8.0), Smoothing(32.0))  # the first is the default
BINNED = (
    Smoothing(8.0, 3.0),
    *(Smoothing(s, h) for h in (0.7, 1.5, 3.0, 6.0) for s in (1.0, 8.0) if (s, h) != (8.0, 3.0)),
    *(Smoothing(s) for s in (0.5, 2.0, 8.0, 32.0)),
)


@lru_cache(maxsize=256)
def binned_smoothings(bins: int) -> tuple[Smoothing, ...]:
    """What is tried for a column of numbers: kernels are as much wider as its bins are narrower."""
    times = max(1.0, bins / USUAL_BINS)
    return tuple(replace(one, spread=one.spread * times) for one in BINNED)


@lru_cache(maxsize=256)
def smoothing_kernels(size: int, smoothings: tuple[Smoothing, ...]) -> tuple[Floats, Floats, Floats]:
    """Kernels of these smoothings, (smoothings, size, size); their diagonals (smoothings, size); and their strengths.

    The first bin, of missing values, is not smoothed.
    """
    at, out = np.arange(size - 1), np.zeros((len(smoothings), size, size))
    for matrix, smoothing in zip(out, smoothings, strict=True):
        if smoothing.spread:
            weights = np.exp(-0.5 * ((at[:, None] - at) / smoothing.spread) ** 2)
            matrix[0, 0], matrix[1:, 1:] = 1.0, weights / weights.sum(axis=0)
        else:
            np.fill_diagonal(matrix, 1.0)
    return (
        out,
        np.ascontiguousarray(np.diagonal(out, axis1=1, axis2=2)),
        np.array([smoothing.strength for smoothing in smoothings]),
    )


def smoothed(counts: Floats, smoothings: tuple[Smoothing, ...]) -> tuple[Floats, Floats, Floats, Floats]:
    """Counts (k, v) under each smoothing, (smoothings, k, v); those of all classes together, and the share of a count
    that stays in its value, (smoothings, v); and strengths. There is one of all but the last if none smooths."""
    if any(smoothing.spread for smoothing in smoothings):
        kernels, kept, strength = smoothing_kernels(counts.shape[1], smoothings)
        return counts @ kernels.transpose(0, 2, 1), kernels @ counts.sum(axis=0), kept, strength
    strength = np.array([smoothing.strength for smoothing in smoothings])  # categories may be many
    return counts[None], counts.sum(axis=0)[None], np.ones((1, counts.shape[1])), strength


def log_probabilities(smooth: Floats, back: Floats, total: Floats, strength: float | Floats) -> Floats:
    """log p(v | y), (v, k), of smoothed counts by class and in all (v,), with the rows of each class (v or 1, k).

    It is 0 for a value that no row has, nor a near one: it is no evidence.
    """
    rest, everything = np.maximum(back, 0.0), total.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        prior = (strength * rest / everything)[:, None]
        out = np.log((smooth + prior) / (total + np.reshape(strength, (-1, 1))))
    out[rest <= NEGLIGIBLE_SHARE * everything] = 0.0
    return np.asarray(out)


def log_table(counts: Floats, smoothing: Smoothing) -> Floats:
    """log p(v | y) of the counts (k, v) of one column."""
    (smooth,), (back,), _, (strength,) = smoothed(counts, (smoothing,))
    return log_probabilities(smooth.T, back, counts.sum(axis=1)[None], float(strength)).T


def smoothing_losses(counts: Floats, smoothings: tuple[Smoothing, ...], log_prior: Floats, row_weight: float) -> Floats:
    """Σ −log P(y | v) under each smoothing, each row left out; computed from the counts alone."""
    (smooth, back, kept, strength), out = smoothed(counts, smoothings), np.empty(len(smoothings))
    total = float(counts.sum()) - row_weight
    rest = np.maximum(back - row_weight * kept, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(rest <= NEGLIGIBLE_SHARE * total, -1.0, rest / total)
    kernel.smoothing_losses(counts, np.ascontiguousarray(smooth), share, kept, strength, log_prior, row_weight, out)
    return out


def choose_smoothings(
    counts: Floats, offsets: Array, binned: Array, log_prior: Floats, row_weight: float, choose: bool
) -> tuple[tuple[Smoothing, ...], Floats, Floats]:
    """A smoothing for every column, its leave-one-out loss in nats, and the default's."""
    smoothings, losses, defaults = [], np.zeros(len(binned)), np.zeros(len(binned))
    for j, is_binned in enumerate(binned):
        tried = binned_smoothings(int(offsets[j + 1] - offsets[j]) - 1) if is_binned else CATEGORIES
        losses_tried = smoothing_losses(
            np.ascontiguousarray(counts[:, offsets[j] : offsets[j + 1]]),
            tried if choose else tried[:1],
            log_prior,
            row_weight,
        )
        best = int(np.argmin(losses_tried))
        best = best if losses_tried[best] < losses_tried[0] - MIN_GAIN_NATS else 0
        smoothings.append(tried[best])
        losses[j], defaults[j] = losses_tried[best], losses_tried[0]
    return tuple(smoothings), losses, defaults


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDistributions(Expert):
    """Naive Bayes over coded columns."""

    smoothings: tuple[Smoothing, ...]
    offsets: Array  # (d + 1,)
    counts: Floats  # (k, cells)
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    name: ClassVar[str] = "columns"
    changing: ClassVar[tuple[str, ...]] = ("counts",)

    @property
    def settings(self) -> str:
        return "naive Bayes, each column smoothed on its own"

    def learned(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> ColumnDistributions:
        counts = self.counts.copy()
        counting.code_counts(rows.codes, y, weight, self.offsets, counts)
        return replace(self, counts=counts)

    def plus(self, other: ColumnDistributions, sign: float = 1.0) -> ColumnDistributions:
        counts = self.counts + sign * other.counts
        counts[np.abs(counts) <= RESIDUE * self.counts] = 0.0
        return replace(self, counts=counts)

    def scaled(self, factor: float) -> ColumnDistributions:
        return replace(self, counts=self.counts * factor)

    def in_classes(self, where: Array, k: int) -> ColumnDistributions:
        counts = np.zeros((k, self.counts.shape[1]))
        counts[where] = self.counts
        return replace(self, counts=counts)

    def is_valid(self) -> bool:
        return bool((self.counts >= -ROUNDING_ROWS).all())

    def recoded(self, old: Encoding, new: Encoding) -> ColumnDistributions:
        """The counts in the order of another encoding, which has all the categories."""
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

    def centred_log_table(self) -> Floats:
        """log p(v | y), (cells, k), less its mean over the classes that have rows."""
        if "table" not in self._cache:
            seen = self.counts.sum(axis=1) > 0
            seen = seen if seen.any() else ~seen
            (by_class, back, _), sizes = self._smoothed_counts(), np.diff(self.offsets)
            strength = np.repeat([smoothing.strength for smoothing in self.smoothings], sizes)
            table = log_probabilities(by_class, back, np.repeat(self._class_totals(), sizes, axis=0), strength)
            self._cache["table"] = np.ascontiguousarray(table - table[:, seen].mean(axis=1, keepdims=True))
        return np.asarray(self._cache["table"])

    def weighted_evidence(self, rows: EncodedRows, weights: Floats) -> Floats:
        """Σ_j w_j F_j, the weighted sum of the columns' evidence, (n, k)."""
        used, table = self._cache.get("weighted", (None, None))
        k = len(self.counts)
        if not np.array_equal(used, weights):
            weighted = self.centred_log_table() * np.repeat(weights, np.diff(self.offsets))[:, None]
            table = by_code(weighted, np.zeros((len(self.smoothings), k)))
            self._cache["weighted"] = weights.copy(), table
        out = np.empty((len(rows), k))
        kernel.code_scores(rows.codes, self.offsets, table, np.zeros(k), out)
        return out

    def evidence(self, rows: EncodedRows) -> Floats:
        return self.weighted_evidence(rows, np.ones(len(self.smoothings)))

    def weighted_evidence_without(
        self,
        rows: EncodedRows,
        y: Codes,
        weight: Floats | None,
        weights: Floats,
        alone: Array,
        into: tuple[Floats, Floats] | None = None,
    ) -> tuple[Floats, Floats]:
        """For learned rows, each without itself: Σ_j w_j F_j, (n, k), and the evidence of each of the columns `alone`,
        (n, columns, k); written `into` arrays of zeros, if they are given."""
        n, d, k = len(rows), len(self.smoothings), len(self.counts)
        out, each = (np.zeros((n, k)), np.zeros((n, len(alone), k))) if into is None else into
        place = np.full(d, -1, dtype=np.intp)
        place[alone] = np.arange(len(alone))
        removed = np.ones(n) if weight is None else np.ascontiguousarray(weight)
        strength, codes = (
            np.array([smoothing.strength for smoothing in self.smoothings]),
            np.ascontiguousarray(rows.codes),
        )
        weights = np.ascontiguousarray(weights)
        kernel.code_evidence_without(
            codes,
            y,
            removed,
            self.offsets,
            *self._smoothed_counts(),
            strength,
            self._class_totals(),
            NEGLIGIBLE_SHARE,
            weights,
            place,
            out,
            each,
        )
        return out, each

    def _smoothed_counts(self) -> tuple[Floats, Floats, Floats]:
        """Smoothed counts by class (cells, k) and in all (cells,), and the share of a count that stays in its cell."""
        if "spread" not in self._cache:
            by_class, own = self.counts.T.copy(order="C"), np.ones(self.counts.shape[1])
            for j, smoothing in enumerate(self.smoothings):
                if smoothing.spread:
                    mine = slice(self.offsets[j], self.offsets[j + 1])
                    (by,), (stays,), _ = smoothing_kernels(int(self.offsets[j + 1] - self.offsets[j]), (smoothing,))
                    by_class[mine], own[mine] = by @ self.counts[:, mine].T, stays
            self._cache["spread"] = by_class, np.ascontiguousarray(by_class.sum(axis=1)), own
        return self._cache["spread"]  # type: ignore[no-any-return]  # put there above

    def _class_totals(self) -> Floats:
        """The weight of each class in every column, (d, k)."""
        if not self.smoothings:
            return np.zeros((0, len(self.counts)))
        return np.ascontiguousarray(np.add.reduceat(self.counts, self.offsets[:-1], axis=1).T)

    def evidence_without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Floats:
        return self.weighted_evidence_without(
            rows, y, weight, np.ones(len(self.smoothings)), np.zeros(0, dtype=np.intp)
        )[0]

    def terms(self, rows: EncodedRows, unlearned: Codes | None = None) -> tuple[Floats, Floats]:
        del unlearned  # no structure is chosen on rows
        codes, table = rows.codes, self.centred_log_table()
        at = self.offsets[:-1] + np.maximum(codes, 0)
        return np.where(codes[..., None] >= 0, table[at], 0.0), np.zeros((len(rows), len(self.counts)))

    def probabilities(self) -> list[Floats]:
        """p(v | y) of every column, (k, v) each; uniform for columns without any value."""
        if "chances" not in self._cache:
            out = []
            for j, smoothing in enumerate(self.smoothings):
                counts = self._counts(j)
                known = counts.sum(axis=0) > 0
                known = known if known.any() else ~known
                probabilities = np.where(known, np.exp(log_table(counts, smoothing)), 0.0)
                total = probabilities.sum(axis=1, keepdims=True)  # smoothing reaches into empty bins
                out.append(probabilities / np.where(total > 0, total, 1.0))
            self._cache["chances"] = out
        return self._cache["chances"]  # type: ignore[no-any-return]  # put there above

    def log_prob(self, rows: EncodedRows) -> Floats:
        """log p(codes | class), (n, k): a value that was never seen counts as half a row.

        A missing value in a column that had none adds 0.
        """
        total = np.maximum(self.counts.sum(axis=1) / max(1, len(self.smoothings)), 1.0)
        rare = np.log(0.5 / (total + 1.0))
        parts = []
        for probabilities in self.probabilities():
            with np.errstate(divide="ignore"):
                table = np.log(probabilities)
            table[:, ~probabilities.any(axis=0)] = rare[:, None]
            if not probabilities[:, 0].any():
                table[:, 0] = 0.0
            parts.append(table)
        whole = np.ascontiguousarray(np.concatenate(parts, axis=1).T) if parts else np.zeros((0, len(self.counts)))
        unseen = np.broadcast_to(rare, (len(self.smoothings), len(total))).copy()
        out = np.zeros((len(rows), len(self.counts)))
        codes = np.where(rows.codes < 0, np.iinfo(np.int32).max, rows.codes)
        kernel.code_scores(codes, self.offsets, by_code(whole, unseen), np.zeros(out.shape[1]), out)
        return out

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {"laws": [[smoothing.strength, smoothing.spread] for smoothing in self.smoothings]}, {
            "counts": self.counts
        }

    @classmethod
    def unpack(
        cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int
    ) -> ColumnDistributions:
        smoothings = tuple(Smoothing(positive(s), float(h)) for s, h in settings["laws"])
        if len(smoothings) != len(encoding.columns) or any(
            not 0 <= smoothing.spread < np.inf for smoothing in smoothings
        ):
            raise FileError("its columns do not have one smoothing each")
        offsets = encoding.offsets
        return cls(smoothings, offsets, arrays.counts("counts", k, int(offsets[-1])))

    def term(self, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> Walks:
        del sketch
        return self.weighted_term(encoding, places, np.ones(len(self.smoothings)))

    def weighted_term(self, encoding: Encoding, places: Sequence[int], weights: Floats) -> Walks:
        """Σ_j w_j F_j as a formula; a category that was never seen adds 0."""
        from deciban.formula import Walks, independent_column

        table, nothing, walks = self.centred_log_table(), np.zeros((1, len(self.counts))), []
        for j in np.flatnonzero(weights).tolist():
            own = table[self.offsets[j] : self.offsets[j + 1]] * weights[j]
            known = isinstance(encoding.columns[j], Known)
            walks.append(independent_column(places[j], np.vstack([own, nothing]) if known else own))
        return Walks(tuple(walks))


def row_losses(evidence: Floats, log_prior: Floats, y: Codes) -> Floats:
    """−log P(y) of each row when evidence is added to the log prior, (n,)."""
    out = np.empty(len(y))
    kernel.losses(evidence, log_prior, np.asarray(y, dtype=np.int32), out)
    return out


def limited_losses(
    evidence: Floats,
    max_nats: float,
    log_prior: Floats,
    y: Codes,
    weight: Floats | None = None,
    scales: Sequence[float] = (1.0,),
) -> Floats:
    """`log_loss` of evidence times each of the scales, which is then `limited`."""
    out = np.empty(len(scales))
    kernel.limited_losses(np.ascontiguousarray(evidence), np.array(scales), max_nats, log_prior, y, weight, out)
    return out


def log_loss(evidence: Floats, log_prior: Floats, y: Codes, weight: Floats | None = None) -> float:
    """The mean of these."""
    losses = row_losses(evidence, log_prior, y)
    return float(losses.mean() if weight is None else np.average(losses, weights=weight))
