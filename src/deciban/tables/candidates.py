"""The experts of a model of a table: each kind in several settings, of which exact leave-one-out chooses one.

Bins and scales do not use labels. Structures that do (trees, parents) are evaluated on rows they never saw. With few
rows, other settings (strengths, shapes) replace the defaults only for a clear gain. Sums are taken over the whole
sample, and settings are compared on some of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from deciban._typing import Codes, Floats
from deciban.pool import MIN_ROWS_FOR_CLOSED_FORM
from deciban.tables.encode import UNSEEN, Cuts, EncodedRows, coarse_codes
from deciban.tables.experts import contexts, forest, fourier, gaussians, ordered
from deciban.tables.experts.base import CALIBRATED_LIMIT, SCALES, Expert
from deciban.tables.experts.columns import ColumnDistributions, choose_smoothings, limited_losses
from deciban.tables.experts.words import Words
from deciban.tables.model import Candidate
from deciban.tables.sample import Sample
from deciban.text.parallel import in_threads

GRID_ROWS = (500, 1500)  # candidates are compared on so many rows, at least and at most,
MAX_GRID_ENTRIES = 50_000  # and for Gaussians on no more entries than this
MAX_CLASSES_FOR_DEEP_CONTEXTS = 50  # with more classes contexts are one parent deep: counts are kept for every class
MAX_LOSS_RATIO_OF_PIECES = 1.5  # pieces with more than so many times the loss of whole classes are dropped
MIN_GAIN_NATS = 6.0  # by which a setting must beat the default in all, below MIN_ROWS_FOR_CLOSED_FORM rows
MIN_GAIN_OF_ORDER = 2.0  # nats in all, by which means on a line must beat free ones
MAX_SCATTER_ENTRIES = 1 << 25  # in the scatters of all classes
MAX_COLUMNS_FOR_PAIRS = 400  # with more columns or coordinates there are too many pairs of them
CONTEXT_BINS = (5, 10)  # bins of numbers in contexts
PIECE_COUNTS = (2, 4, 8)
MIN_ROWS_FOR_FOURIER = 200
PILOT_ROWS = 4000  # how many columns a tree tries at a split is chosen on at most so many

Watch: TypeAlias = Callable[[int, float], None]


class Try(NamedTuple):
    """A candidate, and its leave-one-out log loss on some rows."""

    loss: float
    expert: Expert
    evidence: Floats | None  # about these rows, before it is limited; None if it is not needed any more


Tried: TypeAlias = list[Try]


def best_of(tried: Tried) -> Try:
    return min(tried, key=lambda one: one.loss)


def note(tried: Tried, loss: float, expert: Expert, evidence: Floats) -> None:
    """Add a candidate. Evidence is kept of the best so far and of the default: one of them will be chosen."""
    tried.append(Try(loss, expert, evidence))
    best = best_of(tried)
    for i, one in enumerate(tried):
        if one.evidence is not None and one is not best and not one.expert.is_default:
            tried[i] = Try(one.loss, one.expert, None)


def no_progress(step: int, loss: float) -> None:
    """The default callback: ignores progress."""


class Candidates:
    """Experts in several settings, on a sample of rows; `tried` and `smoothings` list what `experts` tried."""

    def __init__(self, sample: Sample, rank: Codes | None = None) -> None:
        self.sample, self.rank = sample, rank  # the classes are in this order, if any
        self.numbers = any(isinstance(column, Cuts) for column in sample.encoding.columns)
        # With one weight for all rows and all values seen, settings are compared by the evidence that is weighted then.
        self.is_plain = sample.eval_weight is None and not (sample.eval_rows.small == UNSEEN).any()
        self.tried: list[Candidate] = []
        self.smoothings: tuple[tuple[str, str, float, float], ...] = ()

    def experts(self, watch: Watch = no_progress) -> tuple[Expert, ...]:
        """The experts, each with the settings that leave-one-out chose, having learned the sample.

        `watch` gets the number of kinds of experts tried so far, and the least log loss of the last.
        """
        sample = self.sample
        first = self._columns()
        if not sample.has_classes:
            return (first,)
        tasks: list[Callable[[], list[Tried]]] = []
        d, numbers = len(sample.encoding.columns), self.numbers
        sizes = sorted({max(1, int(np.sqrt(d))), max(1, d // 3)}) if d else []
        sizes = sizes[:1] if sample.too_few else sizes
        tasks += [partial(self._forest, tries, forest.N_PILOT_TREES, pilot=True) for tries in sizes if len(sizes) > 1]
        D = len(sample.encoding.owner)
        if 0 < D <= MAX_COLUMNS_FOR_PAIRS and sample.k * D * D <= MAX_SCATTER_ENTRIES:
            tasks += [partial(self._gaussians, view) for view in (("real", "scores") if numbers else ("real",))]
            if self.rank is not None and not sample.too_few:
                tasks.append(self._ordered)
        if numbers and 1 < D <= MAX_COLUMNS_FOR_PAIRS and len(sample.eval_index) >= MIN_ROWS_FOR_FOURIER:
            tasks.append(self._fourier)
        if 1 < d <= MAX_COLUMNS_FOR_PAIRS:
            tasks += [partial(self._contexts, size) for size in (CONTEXT_BINS if numbers else CONTEXT_BINS[-1:])]
        tasks += [partial(self._words, place) for place in range(len(sample.encoding.texts))]
        results: list[list[Tried]] = []
        for result in in_threads(lambda i: tasks[-1 - i](), len(tasks), sample.workers):  # the longest first
            results.insert(0, result)
            watch(len(results), min(one.loss for tried in result for one in tried))
        piloted = len(sizes) if len(sizes) > 1 else 0
        tried_ways = self._without_useless_order([tried for tried_ways in results[piloted:] for tried in tried_ways])
        if sizes:
            pilots = [best_of(tried) for tried, *_ in results[:piloted]]
            best = min(range(piloted), key=lambda i: pilots[i].loss, default=0)
            trees = int(np.clip(forest.ROWS_TIMES_TREES / len(sample.y), *forest.TREE_LIMITS))
            begin = pilots[best].expert if pilots and len(sample.y) <= PILOT_ROWS else None
            assert begin is None or isinstance(begin, forest.Forest)
            tried_ways += self._forest(sizes[best], trees, sample.workers, begin=begin)
        return (first, *map(self._recorded, tried_ways))

    def _best(self, tried: Tried) -> int:
        """Which of the settings of an expert to take: the least loss, or the default unless the gain is clear."""
        sample = self.sample
        best = min(range(len(tried)), key=lambda i: tried[i].loss)
        usual = [i for i, one in enumerate(tried) if one.expert.is_default]
        if len(sample.eval_index) >= MIN_ROWS_FOR_CLOSED_FORM or not usual:
            return best
        rows = len(sample.eval_index) if sample.eval_weight is None else float(sample.eval_weight.sum())
        return best if (tried[usual[0]].loss - tried[best].loss) * rows > MIN_GAIN_NATS else usual[0]

    def _recorded(self, tried: Tried) -> Expert:
        """The expert in its chosen setting; all settings tried are recorded."""
        best = self._best(tried)
        self.tried += [
            Candidate(one.expert.name, one.expert.settings, one.loss, None, i == best) for i, one in enumerate(tried)
        ]
        _, expert, evidence = tried[best]
        if isinstance(expert, gaussians.Gaussians):
            expert = self._with_limit(expert, evidence)
        if evidence is not None and len(evidence) == len(self.sample.eval_index) and self.is_plain:
            self.sample.remember_evidence(expert, expert.limited(evidence))
        return expert

    def _with_limit(self, expert: gaussians.Gaussians, evidence: Floats | None) -> Expert:
        """With a limit for its evidence: on unusual rows it may be sure, and wrong."""
        if self.sample.too_few:
            return expert
        rows, y, w = self._grid_rows(len(expert.target))
        if evidence is None or not self.is_plain:
            evidence = expert.evidence_without(rows, y, w)
        _, scale = self._best_scale(evidence[: len(y)], y, w)  # means on a line were compared on more rows
        return replace(expert, shape=replace(expert.shape, limit=CALIBRATED_LIMIT / scale))

    def _best_scale(self, evidence: Floats, y: Codes, weight: Floats | None) -> tuple[float, float]:
        """The least log loss of evidence times a number, and that number."""
        losses = limited_losses(evidence, CALIBRATED_LIMIT, self.sample.log_prior, y, weight, SCALES)
        return min(zip(losses.tolist(), SCALES, strict=True))

    def _loss(self, expert: Expert, evidence: Floats, y: Codes, weight: Floats | None) -> float:
        """The log loss of an expert's evidence, as it is weighted, about rows of classes y."""
        return float(limited_losses(evidence, expert.limit, self.sample.log_prior, y, weight)[0])

    def _grid_rows(self, coordinates: int) -> tuple[EncodedRows, Codes, Floats | None]:
        """The rows on which settings with so many coordinates are compared, their classes and weights."""
        some = int(np.clip(MAX_GRID_ENTRIES / coordinates, *GRID_ROWS))
        return self.sample.eval_rows.take(slice(some)), self.sample.eval_y[:some], self._eval_weights(some)

    def _columns(self) -> ColumnDistributions:
        sample = self.sample
        offsets = sample.encoding.offsets
        empty = ColumnDistributions((), offsets, np.zeros((sample.k, int(offsets[-1]))))
        counts = empty.learned(sample.rows, sample.y, sample.weight).counts
        binned = sample.encoding.ordered
        row_weight = 1.0 if sample.weight is None else float(sample.weight.sum() / max(1, (sample.weight > 0).sum()))
        choose = not (sample.cramped or sample.too_few)
        smoothings, losses, usual = choose_smoothings(counts, offsets, binned, sample.log_prior, row_weight, choose)
        seen = sample.count > 0
        prior_loss = -float(sample.count[seen] @ sample.log_prior[seen])
        self.smoothings = tuple(
            (name, str(smoothing), (prior_loss - loss) / max(1.0, sample.count.sum()), default - loss)
            for name, smoothing, loss, default in zip(sample.encoding.names, smoothings, losses, usual, strict=True)
        )
        return ColumnDistributions(smoothings, offsets, counts)

    def _gaussians(self, view: str) -> list[Tried]:
        """Each class whole, and cut in pieces if that is not much worse; in more pieces as long as the loss falls."""
        sample = self.sample
        X = getattr(sample.rows, view)
        cramped = X.shape[1] > len(X) / 2
        leans: Sequence[float] = gaussians.LEANS[1:] if cramped else gaussians.LEANS
        diagonals: Sequence[float] = gaussians.DIAGONALS[1:] if cramped else gaussians.DIAGONALS
        cut = gaussians.Pieces.whole(sample.k, X.shape[1])
        if sample.too_few:
            usual = gaussians.DEFAULT_SHAPE
            return [self._shapes(view, cut, [usual.lean], [usual.diagonal], [usual.tails])]
        whole = self._shapes(view, cut, leans, diagonals)
        if not self.numbers:  # a cut across indicators is a split by a category, as trees and contexts have them
            return [whole]
        least, best, _ = best_of(whole)
        assert isinstance(best, gaussians.Gaussians)
        pieces: Tried = []
        axes: dict[str, Floats] = {}
        diagonals = sorted({best.shape.diagonal, 0.1})
        for most in PIECE_COUNTS:
            before, cut = len(cut.owner), gaussians.cut_classes(X, sample.y, sample.k, most, axes)
            if len(cut.owner) == before:
                break
            tried = self._shapes(view, cut, gaussians.LEANS[1:4], diagonals)
            loss, best, _ = best_of(tried)
            assert isinstance(best, gaussians.Gaussians)
            diagonals = [best.shape.diagonal]
            better = loss < min((one.loss for one in pieces), default=MAX_LOSS_RATIO_OF_PIECES * least)
            pieces += tried
            if not better:
                break
        return [whole, pieces] if pieces and best_of(pieces).loss < MAX_LOSS_RATIO_OF_PIECES * least else [whole]

    def _fourier(self) -> list[Tried]:
        """Fourier features in every diagonal, each with the scale that is best alone."""
        sample = self.sample
        expert = fourier.FourierFeatures.over(sample.encoding, sample.rows, sample.k)
        phi = expert.features(sample.rows)
        expert = expert.with_features(phi, sample.y, sample.weight)
        expert = replace(expert, target=self._variances(np.diagonal(expert.sums.centred()[1]), sample.k))
        rows, y, w = self._grid_rows(len(expert.target))
        some = phi[sample.eval_index[: len(rows)]]
        tried: Tried = []
        for diagonal in fourier.DIAGONALS:
            own = replace(expert, diagonal=diagonal)
            evidence = own.evidence_without(rows, y, w, some)
            loss, scale = self._best_scale(evidence, y, w)
            note(tried, loss, replace(own, scale=scale), scale * evidence)
        if len(rows) < len(sample.eval_index):  # the features are at hand
            best = best_of(tried)
            rows, y, w = sample.eval_rows, sample.eval_y, sample.eval_weight
            assert isinstance(best.expert, fourier.FourierFeatures)
            evidence = best.expert.evidence_without(rows, y, w, phi[sample.eval_index])
            tried[tried.index(best)] = best._replace(evidence=evidence)
        return [tried]

    def _ordered(self) -> list[Tried]:
        """Means on a line by the order of the classes; one setting is varied at a time."""
        sample, some = self.sample, GRID_ROWS[1]
        rows, y, w = sample.eval_rows.take(slice(some)), sample.eval_y[:some], self._eval_weights(some)
        cut = gaussians.Pieces.whole(sample.k, len(sample.encoding.owner))
        tried: Tried = []

        def try_shape(expert: Expert) -> None:
            evidence = expert.evidence_without(rows, y, w)
            note(tried, self._loss(expert, evidence, y, w), expert, evidence)

        for view in ("real", "scores"):
            moments = gaussians.Moments.of(getattr(sample.rows, view), sample.y, sample.weight, sample.k)
            owner, target = sample.encoding.owner, self._within_variances(moments)
            assert self.rank is not None
            try_shape(
                ordered.OrderedGaussian(view, gaussians.DEFAULT_SHAPE, cut, target, moments, owner, rank=self.rank)
            )
        for setting, values in (("diagonal", gaussians.DIAGONALS), ("tails", gaussians.TAILS)):
            best = best_of(tried).expert
            assert isinstance(best, ordered.OrderedGaussian)
            for value in values:
                if value != getattr(best.shape, setting):
                    try_shape(replace(best, shape=replace(best.shape, **{setting: value})))
        return [tried]

    def _without_useless_order(self, ways: list[Tried]) -> list[Tried]:
        """Without means on a line, unless they clearly beat free means: numbers may be mere names of classes."""
        least = [(best_of(tried).loss, tried[0].expert.kind) for tried in ways]
        free = min((loss for loss, kind in least if kind in ("real", "scores")), default=np.inf)
        enough = free - MIN_GAIN_OF_ORDER / max(1, len(self.sample.eval_index))
        return [tried for tried, (loss, kind) in zip(ways, least, strict=True) if kind != "ordered" or loss < enough]

    def _within_variances(self, moments: gaussians.Moments) -> Floats:
        """The variance of each coordinate within parts."""
        return self._variances(np.diagonal(moments.centred()[1].sum(axis=0)), len(moments.one))

    def _variances(self, within: Floats, parts: int) -> Floats:
        # Coordinates have about unit variance: one pseudo-row of that, if too few rows show any spread.
        return np.asarray((within + 1.0) / (max(0.0, float(self.sample.count.sum()) - parts) + 1.0))

    def _shapes(
        self,
        view: str,
        cut: gaussians.Pieces,
        leans: Sequence[float],
        diagonals: Sequence[float],
        tails_tried: Sequence[float] = gaussians.TAILS,
    ) -> Tried:
        """Shapes over pieces, evaluated on rows left out."""
        sample = self.sample
        X = getattr(sample.rows, view)
        D, parts = X.shape[1], len(cut.owner)
        rows, y, w = self._grid_rows(D)
        X_some = getattr(rows, view)
        row_weight = 1.0 if w is None else float(np.median(w))
        moments = gaussians.Moments.of(X, cut.of(X, sample.y), sample.weight, parts)
        target = self._within_variances(moments)
        own, owner = cut.of(X_some, y), sample.encoding.owner
        shares = gaussians.log_shares_without(moments.one, cut.owner, sample.k, own, row_weight)
        tried: Tried = []
        for diagonal in sorted(diagonals, key=lambda g: g != gaussians.DEFAULT_SHAPE.diagonal):
            if tried:  # one setting is varied at a time
                best = best_of(tried).expert
                assert isinstance(best, gaussians.Gaussians)
                leans, tails_tried = [best.shape.lean], [best.shape.tails]
            if len(leans) > 1:
                all_forms = gaussians.Axes(X_some, moments, diagonal, target, own, row_weight).forms(leans)
            else:  # common axes of several do not pay for one
                shape = gaussians.Shape(leans[0], diagonal, tails_tried[0])
                all_forms = [gaussians.forms_without(X_some, moments, shape, target, own, row_weight)]
            for lean, forms in zip(leans, all_forms, strict=True):
                for tails in tails_tried:
                    evidence = gaussians.by_class(gaussians.density(*forms, tails, D), shares, cut.owner, sample.k)
                    shape = gaussians.Shape(lean, diagonal, tails)
                    expert = gaussians.Gaussians(view, shape, cut, target, moments, owner)
                    note(tried, self._loss(expert, evidence, y, w), expert, evidence)
        return tried

    def _eval_weights(self, some: int) -> Floats | None:
        sample = self.sample
        return None if sample.eval_weight is None else sample.eval_weight[:some]

    def _contexts(self, bins: int) -> list[Tried]:
        sample = self.sample
        maps, levels = coarse_codes(sample.encoding, bins)
        trees = contexts.ContextTrees.chosen(sample.rows, sample.y, sample.k, maps, levels, sample.weight)
        deepest = min(contexts.MAX_PARENTS if sample.k <= MAX_CLASSES_FOR_DEEP_CONTEXTS else 1, len(levels) - 1)
        deepest = 1 if sample.too_few else deepest
        trees = replace(trees, depth=deepest).trimmed().learned(sample.rows, sample.y, sample.weight)
        depths = np.arange(1, deepest + 1, dtype=np.int32)
        strengths = np.array([contexts.DEFAULT_STRENGTH] if sample.too_few else contexts.STRENGTHS)
        some = GRID_ROWS[1]
        y, w = sample.eval_y[:some], self._eval_weights(some)
        evidence = trees.evidence_grid_without(sample.eval_rows.take(slice(some)), y, w, depths, strengths)
        tried: Tried = []
        for a, depth in enumerate(depths):
            for b, strength in enumerate(strengths):
                own = np.ascontiguousarray(evidence[:, a, b])
                expert = trees.with_settings(int(depth), float(strength))
                note(tried, self._loss(expert, own, y, w), expert, own)
        best = self._best(tried)
        chosen = tried[best].expert
        assert isinstance(chosen, contexts.ContextTrees)
        if chosen.depth < deepest:
            tried[best] = tried[best]._replace(expert=chosen.trimmed().learned(sample.rows, sample.y, sample.weight))
        return [tried]

    def _forest(
        self, tries: int, trees: int, workers: int = 1, pilot: bool = False, begin: forest.Forest | None = None
    ) -> list[Tried]:
        """Trees with the best of `tries` columns at each split; a pilot grows fewer trees, on fewer rows.

        `begin` has the first of the trees, grown on the same rows.
        """
        sample, some = self.sample, GRID_ROWS[1]
        rows, y, w = sample.rows, sample.y, sample.weight
        if pilot and len(y) > PILOT_ROWS:
            rows, y, w = rows.take(slice(PILOT_ROWS)), y[:PILOT_ROWS], None if w is None else w[:PILOT_ROWS]
        levels, ordered = sample.encoding.levels, sample.encoding.ordered
        grown = forest.Forest.grown(rows, y, sample.k, levels, ordered, tries, w, trees, workers, begin)
        leaves = np.empty((len(rows), trees), dtype=np.int32)
        edges = np.linspace(0, len(leaves), workers + 1).astype(int)

        def work(i: int) -> None:
            mine = slice(int(edges[i]), int(edges[i + 1]))
            leaves[mine] = grown.leaves(rows.take(mine))

        list(in_threads(work, workers, workers))
        grown = grown.counted(leaves, y, w)
        if not pilot:
            sample.remember(grown.trees, leaves)
        at = sample.eval_index[:some]
        at = at[at < len(rows)]
        eval_rows, eval_w = rows.take(at), self._eval_weights(len(at))
        eval_rows.remember(grown.trees, leaves[at])
        tried: Tried = []
        for strength in (forest.DEFAULT_STRENGTH,) if sample.too_few else forest.STRENGTHS:
            expert = replace(grown, strength=strength)
            evidence = expert.evidence_without(eval_rows, y[at], eval_w)
            note(tried, self._loss(expert, evidence, y[at], eval_w), expert, evidence)
        return [tried]

    def _words(self, place: int) -> list[Tried]:
        sample = self.sample
        column = sample.encoding.texts[place]
        expert = Words.chosen(column, place, sample.rows, sample.y, sample.k, sample.weight, sample.eval_index)
        evidence = expert.evidence_without(sample.eval_rows, sample.eval_y, sample.eval_weight)
        loss = self._loss(expert, evidence, sample.eval_y, sample.eval_weight)
        return [[Try(loss, expert, evidence)]]
