"""How a model of a table is chosen: experts by exact leave-one-out, and the weight of each.

Bins and scales do not use labels. Structures that do (trees, parents) are evaluated on rows they never saw. With few
rows, other settings (strengths, shapes) replace the defaults only for a clear gain. The experts' weights are fitted on
rows that are left out of the sums: see pool.py. Sums are taken over all rows; choices are evaluated on a sample.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.corollaries.importance import MAX_ROWS_AT_FIT, max_rows, spread_rows
from deciban.corollaries.leave_one_out import of_one_size
from deciban.errors import DecibanError
from deciban.joint import log_class_prior, log_class_prior_without
from deciban.learner import Hidden
from deciban.pool import (
    MIN_ROWS_FOR_CLOSED_FORM,
    Doubt,
    FoldPart,
    Folds,
    Pool,
    WeightPrior,
    closed_fit,
    cross_fit,
    distinct_marks,
)
from deciban.reading.frames import Frame
from deciban.reading.table import TableColumns
from deciban.results.importance import Importance
from deciban.schema import find
from deciban.tables.encode import Cuts, EncodedRows, Encoding, choose_encoding, coarse_codes
from deciban.tables.experts import contexts, forest, gaussians
from deciban.tables.experts.base import Expert
from deciban.tables.experts.columns import ColumnDistributions, centred, choose_smoothings, log_loss
from deciban.tables.experts.words import Words
from deciban.tables.model import MAX_EVIDENCE_NATS, WORK_PER_ENTRY, Candidate, Record, TableModel
from deciban.tables.views import importance
from deciban.text.parallel import in_threads
from deciban.threads import own_threads, threads

SAMPLE_ROWS = 20_000  # structures are chosen on at most this many rows
MIN_EVAL_ROWS, MAX_EVAL_ROWS = 3000, 4000  # the pool is fitted on a number of rows between these,
EVAL_ROWS_TIMES_CLASSES = 30_000  # and on fewer, the more classes there are
MAX_EVAL_ENTRIES = 1 << 24  # of their evidence, but never fewer rows than
MIN_EVAL_ROWS_OF_WIDE_TABLES = 500
EXPECTED_EXPERTS = 10
GRID_ROWS = (500, 1500)  # candidates are compared on this many rows, at least and at most,
MAX_GRID_ENTRIES = 50_000  # and for Gaussians on no more entries than this
MAX_CLASSES_FOR_DEEP_CONTEXTS = 50  # with more classes contexts are one parent deep: counts are kept for every class
MAX_LOSS_RATIO_OF_PIECES = 1.5  # pieces are dropped if their loss is more than this many times that of whole classes
N_FOLDS = 3  # for fitting the weights on few rows
MIN_ROWS_TO_CHOOSE = 40  # with fewer rows only the default settings are tried: the best of many wins by chance
MIN_GAIN_NATS = 6.0  # total gain over the default that a setting needs, below MIN_ROWS_FOR_CLOSED_FORM rows
EXPERT_DOUBT, COLUMN_DOUBT, OFFSET_DOUBT = 10.0, 30.0, 1.0  # pseudo-rows of the prior of the weights
PRIOR_WEIGHT_LOG_ROWS = np.log([30.0, 100.0, 300.0])  # numbers of rows for which the prior weights below hold
PRIOR_WEIGHTS = {
    "columns": (0.12, 0.08, 0.02),
    "real": (0.02, 0.08, 0.16),
    "scores": (0.03, 0.09, 0.10),
    "pieces": (0.05, 0.06, 0.07),
    "contexts": (0.11, 0.06, 0.08),
    "finer contexts": (0.07, 0.01, 0.0),
    "trees": (0.19, 0.35, 0.48),
}
MAX_COLUMNS_WITH_OWN_WEIGHT = 100
MAX_TEXT_COLUMNS = 200  # each is a model of texts, and takes about a tenth of a second even with few rows
MAX_SCATTER_ENTRIES = 1 << 25  # in the scatters of all classes
MAX_COLUMNS_FOR_PAIRS = 400  # with more columns or coordinates there are too many pairs of them
CONTEXT_BINS = (5, 10)  # bins of numbers in contexts
PIECE_COUNTS = (2, 4, 8)

Tried: TypeAlias = list[tuple[float, Expert]]  # candidates with their leave-one-out log losses
Watch: TypeAlias = Callable[[int, float], None]


def no_progress(step: int, loss: float) -> None:
    """The default callback: ignores progress."""


def choose(
    reader: TableColumns,
    frame: Frame,
    y: Codes,
    classes: Array,
    weight: Floats | None = None,
    class_prior: str | Floats = "empirical",
    closed: bool = False,
    n_jobs: int | None = None,
    hidden_weight: float = 0.0,
    watch: Watch = no_progress,
) -> TableModel:
    """The model of these rows (code −1: no label), with every choice made and every row learned.

    Rows without a label help to choose bins and scales; `hidden_weight` is the weight of one relative to a labelled
    row.
    """
    check_text_columns(reader.texts)
    sampled = sample(frame.size)
    encoding = choose_encoding(frame.take(sampled) if len(sampled) < frame.size else frame, reader.texts)
    if len(sampled) < frame.size:
        encoding = encoding.with_new(frame)
    labelled = np.flatnonzero(y >= 0)
    if len(labelled) < frame.size:
        hidden, hidden_weights = frame.take(np.flatnonzero(y < 0)), None if weight is None else weight[y < 0]
        frame, y = frame.take(labelled), y[labelled]
        weight = None if weight is None else weight[labelled]
        sampled = sample(frame.size)
    else:
        hidden = None
    is_whole = len(sampled) == frame.size
    rows = encoding.rows(frame if is_whole else frame.take(sampled), True)
    labels, w = (y, weight) if is_whole else (y[sampled], None if weight is None else weight[sampled])
    with own_threads():
        chooser = Chooser(encoding, rows, labels, len(classes), w, n_jobs)
        experts = chooser.experts(watch)
    count = np.bincount(y, weight, minlength=len(classes)).astype(float)
    weights = np.append(np.full(len(experts), 1.0 / (len(experts) + 1)), np.zeros(len(encoding.columns)))
    pool = Pool(weights, np.zeros(len(classes)))
    model = TableModel(classes, count, reader, encoding, experts, pool, class_prior, closed)
    if not is_whole:
        model = model.sums_of(frame, y, weight, n_jobs)
    with own_threads():
        model = chooser.with_fitted_pool(model)
    if hidden is not None and hidden_weight:
        missing = np.full(hidden.size, -1, dtype=np.int32)
        model = model.fill(hidden, missing, hidden_weights, Hidden(hidden_weight), n_jobs)
    return model


def choose_by_sample(
    reader: TableColumns,
    frame: Frame,
    y: Codes,
    classes: Array,
    collect: Callable[[TableModel], TableModel],
    class_prior: str | Floats = "empirical",
    n_jobs: int | None = None,
    watch: Watch = no_progress,
) -> TableModel:
    """The model of data in files, databases or clusters: a sample makes the choices, and `collect` learns every row.

    `collect` gets the model with all choices made and nothing learned. It also learns the rows of the sample, so these
    are left out of the sums when they are used to fit the weights.
    """
    check_text_columns(reader.texts)
    sampled = sample(frame.size)
    if len(sampled) < frame.size:
        frame, y = frame.take(sampled), y[sampled]
    encoding = choose_encoding(frame, reader.texts)
    with own_threads():
        chooser = Chooser(encoding, encoding.rows(frame, True), y, len(classes), None, n_jobs)
        experts = chooser.experts(watch)
    weights = np.append(np.full(len(experts), 1.0 / (len(experts) + 1)), np.zeros(len(encoding.columns)))
    pool = Pool(weights, np.zeros(len(classes)))
    model = TableModel(classes, np.zeros(len(classes)), reader, encoding, experts, pool, class_prior).zero()
    model = collect(model)
    with own_threads():
        return chooser.in_classes(find(classes, model.classes), len(model.classes)).with_fitted_pool(model)


def check_text_columns(names: tuple[str, ...]) -> None:
    """Refuse more columns of text than can be learned in half a minute or so."""
    if len(names) > MAX_TEXT_COLUMNS:
        raise DecibanError(
            "{columns:,} columns hold text, {column!r} first, and at most {limit} can be learned: join them into one "
            "column, or leave some out, which is the kind 'skip'",
            columns=len(names),
            limit=MAX_TEXT_COLUMNS,
            column=names[0],
        )


def sample(n: int) -> Array:
    """Row numbers spread evenly over the table, enough to choose structures by."""
    return np.arange(n) if n <= SAMPLE_ROWS else np.linspace(0, n - 1, SAMPLE_ROWS).astype(np.intp)


class Chooser:
    """Chooses experts, and the weights of a model, by a sample of encoded rows."""

    def __init__(
        self, encoding: Encoding, rows: EncodedRows, y: Codes, k: int, weight: Floats | None, n_jobs: int | None
    ) -> None:
        self.encoding, self.rows, self.y, self.k, self.weight, self.n_jobs = encoding, rows, y, k, weight, n_jobs
        self.count = np.bincount(y, weight, minlength=k).astype(float)
        self.log_prior = log_class_prior("empirical", self.count)
        self.candidates: list[Candidate] = []
        # Evaluation rows are taken in the order of their marks, so they do not depend on the order of the table. A row
        # that is alone in its class cannot be one: without it there is no such class.
        order = np.argsort(rows.mark, kind="stable")
        amount = np.ones(len(y)) if weight is None else weight
        usable = (amount > 0) & (self.count[y] > amount * (1.0 + 1e-9))
        entries = (len(encoding.columns) + EXPECTED_EXPERTS) * k
        by_classes = np.clip(EVAL_ROWS_TIMES_CLASSES / max(1, k), MIN_EVAL_ROWS, MAX_EVAL_ROWS)
        by_entries = max(MIN_EVAL_ROWS_OF_WIDE_TABLES, MAX_EVAL_ENTRIES / max(1, entries))
        self.eval_index = order[usable[order]][: int(min(by_classes, by_entries))]
        self.eval_rows = rows.take(self.eval_index)
        self.eval_y = np.ascontiguousarray(y[self.eval_index])
        self.eval_weight = None if weight is None else grouped(weight[self.eval_index])
        self.workers = threads(n_jobs, rows.codes.size * WORK_PER_ENTRY)
        self.too_few = len(self.eval_index) < MIN_ROWS_TO_CHOOSE
        # With few rows per column, near-singular covariances and chosen smoothings overfit.
        self.cramped = len(encoding.columns) > len(y) / 2
        self.smoothings: tuple[tuple[str, str, float, float], ...] = ()

    def in_classes(self, where: Array, k: int) -> Chooser:
        """The same among k classes; those present are at `where`."""
        other = copy.copy(self)
        other.k, other.eval_y = k, where[self.eval_y].astype(np.int32)
        return other

    def experts(self, watch: Watch = no_progress) -> tuple[Expert, ...]:
        """The experts, each with the settings that leave-one-out chose, having learned the sample.

        `watch` gets the number of kinds of experts tried so far, and the least log loss of the last.
        """
        first = self._columns()
        if len(np.unique(self.eval_y)) < 2:  # nothing to choose from
            return (first,)
        tasks: list[Callable[[], list[Tried]]] = []
        d, numbers = len(self.encoding.columns), any(isinstance(c, Cuts) for c in self.encoding.columns)
        sizes = sorted({max(1, int(np.sqrt(d))), max(1, d // 3)}) if d else []
        sizes = sizes[:1] if self.too_few else sizes
        tasks += [partial(self._forest, tries, forest.N_PILOT_TREES) for tries in sizes if len(sizes) > 1]
        D = len(self.encoding.owner)
        if 0 < D <= MAX_COLUMNS_FOR_PAIRS and self.k * D * D <= MAX_SCATTER_ENTRIES:
            tasks += [partial(self._gaussians, view) for view in (("real", "scores") if numbers else ("real",))]
        if 1 < d <= MAX_COLUMNS_FOR_PAIRS:
            tasks += [partial(self._contexts, size) for size in (CONTEXT_BINS if numbers else CONTEXT_BINS[-1:])]
        tasks += [partial(self._words, place) for place in range(len(self.encoding.texts))]
        results = []
        for result in in_threads(lambda i: tasks[i](), len(tasks), self.workers):
            results.append(result)
            watch(len(results), min(loss for tried in result for loss, _ in tried))
        piloted = len(sizes) if len(sizes) > 1 else 0
        tried_ways = [tried for tried_ways in results[piloted:] for tried in tried_ways]
        if sizes:
            pilots = [min(loss for loss, _ in tried) for tried, *_ in results[:piloted]] or [0.0]
            trees = int(np.clip(forest.ROWS_TIMES_TREES / len(self.y), *forest.TREE_LIMITS))
            tried_ways += self._forest(sizes[int(np.argmin(pilots))], trees, self.workers)
        return (first, *map(self._recorded, tried_ways))

    def _best(self, tried: Tried) -> int:
        """Which of the settings of an expert to take: the least loss, or the default unless the gain is clear."""
        best = min(range(len(tried)), key=lambda i: tried[i][0])
        usual = [i for i, (_, expert) in enumerate(tried) if expert.is_default]
        if len(self.eval_index) >= MIN_ROWS_FOR_CLOSED_FORM or not usual:
            return best
        rows = len(self.eval_index) if self.eval_weight is None else float(self.eval_weight.sum())
        return best if (tried[usual[0]][0] - tried[best][0]) * rows > MIN_GAIN_NATS else usual[0]

    def _recorded(self, tried: Tried) -> Expert:
        """The expert in its chosen setting; all settings tried are recorded."""
        best = self._best(tried)
        self.candidates += [
            Candidate(expert.name, expert.settings, loss, None, i == best) for i, (loss, expert) in enumerate(tried)
        ]
        return tried[best][1]

    def _columns(self) -> ColumnDistributions:
        offsets = self.encoding.offsets
        empty = ColumnDistributions((), offsets, np.zeros((self.k, int(offsets[-1]))))
        counts = empty.learned(self.rows, self.y, self.weight).counts
        binned = self.encoding.ordered
        row_weight = 1.0 if self.weight is None else float(self.weight.sum() / max(1, (self.weight > 0).sum()))
        choose = not (self.cramped or self.too_few)
        smoothings, losses, usual = choose_smoothings(counts, offsets, binned, self.log_prior, row_weight, choose)
        seen = self.count > 0
        prior_loss = -float(self.count[seen] @ self.log_prior[seen])
        self.smoothings = tuple(
            (name, str(smoothing), (prior_loss - loss) / max(1.0, self.count.sum()), default - loss)
            for name, smoothing, loss, default in zip(self.encoding.names, smoothings, losses, usual, strict=True)
        )
        return ColumnDistributions(smoothings, offsets, counts)

    def _gaussians(self, view: str) -> list[Tried]:
        """Each class whole, and cut in pieces if that is not much worse; in more pieces as long as the loss falls."""
        X = getattr(self.rows, view)
        cramped = X.shape[1] > len(X) / 2
        leans: Sequence[float] = gaussians.LEANS[1:] if cramped else gaussians.LEANS
        diagonals: Sequence[float] = gaussians.DIAGONALS[1:] if cramped else gaussians.DIAGONALS
        cut = gaussians.Pieces.whole(self.k, X.shape[1])
        if self.too_few:
            usual = gaussians.DEFAULT_SHAPE
            return [self._shapes(view, cut, [usual.lean], [usual.diagonal], [usual.tails])]
        whole = self._shapes(view, cut, leans, diagonals)
        least, best = min(whole, key=lambda tried: tried[0])
        assert isinstance(best, gaussians.Gaussians)
        pieces: Tried = []
        diagonals = sorted({best.shape.diagonal, 0.1})
        for most in PIECE_COUNTS:
            before, cut = len(cut.owner), gaussians.cut_classes(X, self.y, self.k, most)
            if len(cut.owner) == before:
                break
            tried = self._shapes(view, cut, gaussians.LEANS[1:4], diagonals)
            loss, best = min(tried, key=lambda tried: tried[0])
            assert isinstance(best, gaussians.Gaussians)
            diagonals = [best.shape.diagonal]
            better = loss < min((before for before, _ in pieces), default=MAX_LOSS_RATIO_OF_PIECES * least)
            pieces += tried
            if not better:
                break
        return (
            [whole, pieces]
            if pieces and min(pieces, key=lambda t: t[0])[0] < MAX_LOSS_RATIO_OF_PIECES * least
            else [whole]
        )

    def _shapes(
        self,
        view: str,
        cut: gaussians.Pieces,
        leans: Sequence[float],
        diagonals: Sequence[float],
        tails_tried: Sequence[float] = gaussians.TAILS,
    ) -> Tried:
        """Shapes over pieces, evaluated on rows left out."""
        X = getattr(self.rows, view)
        D, parts = X.shape[1], len(cut.owner)
        some = int(np.clip(MAX_GRID_ENTRIES / D, *GRID_ROWS))
        X_some, y, w = getattr(self.eval_rows, view)[:some], self.eval_y[:some], self._eval_weights(some)
        row_weight = 1.0 if w is None else float(np.median(w))
        moments = gaussians.Moments.of(X, cut.of(X, self.y), self.weight, parts)
        within = moments.centred()[1].sum(axis=0)
        # Coordinates have about unit variance: one pseudo-row of that, if too few rows show any spread.
        target = (np.diagonal(within) + 1.0) / (max(0.0, float(self.count.sum()) - parts) + 1.0)
        own = cut.of(X_some, y)
        tried: Tried = []
        for diagonal in sorted(diagonals, key=lambda g: g != gaussians.DEFAULT_SHAPE.diagonal):
            if tried and len(self.eval_index) < MIN_ROWS_FOR_CLOSED_FORM:  # few rows: one setting is varied at a time
                best = min(tried, key=lambda tried: tried[0])[1]
                assert isinstance(best, gaussians.Gaussians)
                leans, tails_tried = [best.shape.lean], [best.shape.tails]
            axes = gaussians.Axes(X_some, moments, diagonal, target, own, row_weight)
            for lean, (q, log_det, left) in zip(leans, axes.forms(leans), strict=True):
                for tails in tails_tried:
                    evidence = gaussians.by_class(gaussians.density(q, log_det, tails, D), left, cut.owner, self.k)
                    shape = gaussians.Shape(lean, diagonal, tails)
                    expert = gaussians.Gaussians(view, shape, cut, target, moments, self.encoding.owner)
                    tried.append((log_loss(centred(evidence, MAX_EVIDENCE_NATS), self.log_prior, y, w), expert))
        return tried

    def _eval_weights(self, some: int) -> Floats | None:
        return None if self.eval_weight is None else self.eval_weight[:some]

    def _contexts(self, bins: int) -> list[Tried]:
        maps, levels = coarse_codes(self.encoding, bins)
        trees = contexts.ContextTrees.chosen(self.rows, self.y, self.k, maps, levels, self.weight)
        trees = trees.learned(self.rows, self.y, self.weight)
        deepest = min(contexts.MAX_PARENTS if self.k <= MAX_CLASSES_FOR_DEEP_CONTEXTS else 1, len(levels) - 1)
        depths = np.arange(1, 2 if self.too_few else deepest + 1, dtype=np.int32)
        strengths = np.array([contexts.DEFAULT_STRENGTH] if self.too_few else contexts.STRENGTHS)
        some = GRID_ROWS[1]
        y, w = self.eval_y[:some], self._eval_weights(some)
        evidence = trees.evidence_grid_without(self.eval_rows.take(slice(some)), y, w, depths, strengths)
        tried: Tried = []
        for a, depth in enumerate(depths):
            for b, strength in enumerate(strengths):
                loss = log_loss(centred(evidence[:, a, b], MAX_EVIDENCE_NATS), self.log_prior, y, w)
                tried.append((loss, replace(trees, depth=int(depth), strength=float(strength))))
        best = self._best(tried)
        loss, chosen = tried[best]
        assert isinstance(chosen, contexts.ContextTrees)
        tried[best] = loss, chosen.trimmed().learned(self.rows, self.y, self.weight)
        return [tried]

    def _forest(self, tries: int, trees: int, workers: int = 1) -> list[Tried]:
        some, encoding = GRID_ROWS[1], self.encoding
        eval_rows, y, w = self.eval_rows.take(slice(some)), self.eval_y[:some], self._eval_weights(some)
        grown = forest.Forest.grown(
            self.rows, self.y, self.k, encoding.levels, encoding.ordered, tries, self.weight, trees, workers
        )
        leaves = np.empty((len(self.rows), trees), dtype=np.int32)
        edges = np.linspace(0, len(leaves), workers + 1).astype(int)

        def work(i: int) -> None:
            mine = slice(int(edges[i]), int(edges[i + 1]))
            leaves[mine] = grown.leaves(self.rows.take(mine))

        list(in_threads(work, workers, workers))
        grown = grown.counted(leaves, self.y, self.weight)
        tried: Tried = []
        at = leaves[self.eval_index[:some]]
        for strength in (forest.DEFAULT_STRENGTH,) if self.too_few else forest.STRENGTHS:
            expert = replace(grown, strength=strength)
            evidence = expert.evidence_without(eval_rows, y, w, at)
            tried.append((log_loss(centred(evidence, MAX_EVIDENCE_NATS), self.log_prior, y, w), expert))
        return [tried]

    def _words(self, place: int) -> list[Tried]:
        column = self.encoding.texts[place]
        expert = Words.chosen(column, place, self.rows, self.y, self.k, self.weight, self.eval_index)
        evidence = expert.evidence_without(self.eval_rows, self.eval_y, self.eval_weight)
        return [
            [(log_loss(centred(evidence, MAX_EVIDENCE_NATS), self.log_prior, self.eval_y, self.eval_weight), expert)]
        ]

    def with_fitted_pool(self, model: TableModel) -> TableModel:
        """The model with weights fitted on rows left out."""
        m, d, n = len(model.experts), len(model.encoding.columns), len(self.eval_index)
        if len(np.unique(self.eval_y)) < 2:  # nothing to fit weights on
            return replace(model, pool=Pool.zero(m + d, len(model.classes)))
        # Picking the best of many columns would use the labels: either all columns get a weight of their own, or none.
        some = np.arange(d if d <= MAX_COLUMNS_WITH_OWN_WEIGHT else 0)
        vectors, mark, w = self._evidence_vectors(model, some), self.eval_rows.mark, self.eval_weight
        log_prior, usual = log_class_prior("empirical", model.weight), self._weight_prior(model, len(some))
        if n >= MIN_ROWS_FOR_CLOSED_FORM:
            last = int(mark.max())
            chosen, _ = closed_fit(vectors, self.eval_y, log_prior, w, last, usual, (Doubt(1.0, 1.0),), 1.0)
        else:
            mark = distinct_marks(mark, self.eval_y)
            folds = Folds.of(mark, self.eval_y, self.k, N_FOLDS)
            parts = self._fold_parts(model, some, folds.which(mark, self.eval_y), folds.count)
            chosen = cross_fit(vectors, self.eval_y, log_prior, w, folds, mark, parts, usual)
        assert chosen.left_out is not None
        table, which = log_class_prior_without("empirical", model.weight, self.eval_y, w)
        prior = table[which]
        scores = chosen.left_out.pooled(chosen.pool, vectors, self.eval_y, mark, prior, w) + prior
        answers = scores - prior + log_prior if of_one_size(model.weight, w) else scores  # see LeaveOneOut
        accuracy = float(np.average(answers.argmax(axis=1) == self.eval_y, weights=w))
        loss = log_loss(scores, np.zeros(self.k), self.eval_y, w)
        alone = log_loss(vectors[:, 0], log_prior, self.eval_y, w)
        candidates = [Candidate(model.columns.name, model.columns.settings, alone, None, True), *self.candidates]
        weights = iter(chosen.pool.weights)
        candidates = [replace(c, weight=float(next(weights)) if c.chosen else None) for c in candidates]
        record = Record(tuple(candidates), self.smoothings, loss, accuracy, n, float(model.weight.sum()))
        place = np.append(np.arange(m), m + some)
        pool, left_out = chosen.pool.spread(place, m + d), chosen.left_out.spread(place, m + d)
        model = replace(model, pool=pool, left_out=left_out, record=record)
        return replace(model, record=replace(record, importance=self._importance(model)))

    def _importance(self, model: TableModel) -> Importance | None:
        """The importance of columns on some of the evaluation rows, which are in the order of their marks."""
        items = len(model.encoding.columns) + len(model.encoding.texts) + 1
        some = spread_rows(len(self.eval_y), max_rows(items, self.k, MAX_ROWS_AT_FIT))
        weight = None if self.eval_weight is None else np.ascontiguousarray(self.eval_weight[some])
        return importance(model, self.eval_rows.take(some), np.ascontiguousarray(self.eval_y[some]), weight, True)

    def _weight_prior(self, model: TableModel, columns: int) -> WeightPrior:
        """The prior of the weights; the fewer rows there are, the stronger it is."""
        n, m = len(self.eval_index), len(model.experts)
        kinds = expert_kinds(model.experts)
        prior_weights = [
            float(np.interp(np.log(n), PRIOR_WEIGHT_LOG_ROWS, PRIOR_WEIGHTS.get(kind, [1.0 / (m + 1)] * 3)))
            for kind in kinds
        ]
        few = max(1.0, MIN_ROWS_FOR_CLOSED_FORM / n)
        doubt = np.append(np.full(m, EXPERT_DOUBT), np.full(columns, COLUMN_DOUBT * np.sqrt(500 / n)))
        return WeightPrior(doubt * few, np.append(prior_weights, np.zeros(columns)), OFFSET_DOUBT)

    def _fold_parts(self, model: TableModel, columns: Array, fold: Array, folds: int) -> Iterator[FoldPart]:
        """The evidence of the evaluation rows, each fold in turn taken out of the sums."""
        amount = np.ones(len(fold)) if self.eval_weight is None else self.eval_weight
        learned = model.weight
        for f in range(folds):
            out, rest = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
            removed, y = self.eval_rows.take(out), np.ascontiguousarray(self.eval_y[out])
            w = None if self.eval_weight is None else np.ascontiguousarray(amount[out])
            experts = tuple(expert.plus(expert.scaled(0.0).learned(removed, y, w), -1.0) for expert in model.experts)
            remaining = np.maximum(learned - np.bincount(y, w, minlength=self.k), 0.0)
            remaining[remaining <= 1e-9 * learned] = 0.0
            rest, out = (
                rest[remaining[self.eval_y[rest]] > amount[rest] * (1.0 + 1e-9)],
                out[remaining[self.eval_y[out]] > 0],
            )
            without = replace(model, experts=experts, weight=remaining)
            inside, outside = (
                self._evidence_vectors(without, columns, rest),
                self._evidence_vectors(without, columns, out, False),
            )
            yield FoldPart(rest, inside, out, outside, log_class_prior("empirical", remaining))

    def _evidence_vectors(
        self, model: TableModel, columns: Array, some: Array | None = None, learned: bool = True
    ) -> Floats:
        """Evidence of (some) evaluation rows, each without itself: by expert, then by these columns; (n, g, k)."""
        rows, y, w = self.eval_rows, self.eval_y, self.eval_weight
        if some is not None:
            rows, y, w = rows.take(some), np.ascontiguousarray(y[some]), None if w is None else w[some]
        m, removed = len(model.experts), w if learned else np.zeros(len(rows))
        out = np.zeros((len(rows), m + len(columns), self.k))
        out[:, 0], out[:, m:] = model.columns.weighted_evidence_without(
            rows, y, removed, np.ones(len(model.columns.smoothings)), columns
        )

        def work(i: int) -> None:
            expert = model.experts[i]
            evidence = expert.evidence_without(rows, y, w) if learned else expert.evidence_unlearned(rows, y)
            out[:, i] = centred(evidence, MAX_EVIDENCE_NATS)

        list(in_threads(lambda i: work(i + 1), m - 1, self.workers))
        return out


def expert_kinds(experts: Sequence[Expert]) -> list[str]:
    """What kind each expert is, as named in PRIOR_WEIGHTS."""
    kinds: list[str] = []
    for expert in experts:
        again = expert.kind == "contexts" and "contexts" in kinds
        kinds.append("finer contexts" if again else expert.kind)
    return kinds


def grouped(weight: Floats, most: int = 16) -> Floats:
    """Row weights rounded to a few distinct values if there are many: good enough for choosing."""
    if len(np.unique(weight)) <= most:
        return weight
    group = np.searchsorted(np.quantile(weight, np.linspace(0, 1, most + 1)[1:-1]), weight)
    total, size = np.bincount(group, weight), np.bincount(group)
    return np.asarray((total / np.maximum(size, 1))[group])
