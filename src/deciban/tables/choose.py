"""How a model of a table is chosen: experts by exact leave-one-out, and how far each is to be believed.

Bins and scales look at no label. Structures that do (trees, parents) are judged by rows they never saw. Of what is left
to choose (strengths, shapes), the usual is left only for a clear gain where rows are few. How far experts are believed
is judged by rows that are out of the sums: see pool.py. Sums are taken over all rows; what is chosen is judged on some.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.corollaries.leave_one_out import of_one_size
from deciban.joint import log_class_prior, log_class_prior_without
from deciban.learner import Hidden
from deciban.pool import MIN_ROWS_FOR_CLOSED_FORM, Doubt, FoldPart, Folds, Pool, Usual, closed_fit, cross_fit
from deciban.reading.frames import Frame
from deciban.reading.table import TableColumns
from deciban.schema import find
from deciban.tables.encode import Cuts, EncodedRows, Encoding, choose_encoding, coarse
from deciban.tables.experts import contexts, forest, gaussians
from deciban.tables.experts.base import Expert
from deciban.tables.experts.columns import ColumnLaws, centred, choose_laws, log_loss
from deciban.tables.experts.words import Words
from deciban.tables.model import MOST, WORTH, Candidate, Record, TableModel
from deciban.text.parallel import in_threads
from deciban.threads import own_threads, threads

SAMPLE = 20_000  # rows that structures are found on
JUDGES = (3000, 4000, 30_000)  # rows that the pool is fitted on: between the first two, the third over the classes
JUDGED, FEWEST, FEW_EXPERTS = 1 << 24, 500, 10  # entries of what is judged at most, but so many rows
GRID = (500, 1500)  # rows that candidates are compared on: between these,
GRID_ENTRIES = 50_000  # and for Gaussians no more entries than this
MANY = 50  # classes from which on contexts are one parent deep: counts are kept for every class
MUCH = 1.5  # times the loss of whole classes: pieces that do worse are not looked at further
FOLDS = 3  # of rows that judge weights, where they are few
TOO_FEW = 40  # rows, below which nothing but the usual settings is tried: the best of many is so by chance
GAIN = 6.0  # nats in all that a setting must win over the usual one by, below ENOUGH rows
EXPERT_DOUBT, COLUMN_DOUBT, OFFSET_DOUBT = 10.0, 30.0, 1.0  # pseudo-rows behind what is believed of weights beforehand
BELIEVED_AT = np.log([30.0, 100.0, 300.0])  # rows at which the weights below are right, on average over many tables
BELIEVED = {
    "columns": (0.12, 0.08, 0.02),
    "real": (0.02, 0.08, 0.16),
    "scores": (0.03, 0.09, 0.10),
    "pieces": (0.05, 0.06, 0.07),
    "contexts": (0.11, 0.06, 0.08),
    "finer contexts": (0.07, 0.01, 0.0),
    "trees": (0.19, 0.35, 0.48),
}
ALONE = 100  # columns at most that get a weight of their own
PRODUCTS = 1 << 25  # numbers in the scatters of all classes
WIDE = 400  # columns or coordinates from which on their products are too many
BINS = (5, 10)  # of numbers, in contexts
PIECES = (2, 4, 8)

Tried: TypeAlias = list[tuple[float, Expert]]  # leave-one-out log losses, and what was tried
Watch: TypeAlias = Callable[[int, float], None]


def unwatched(step: int, loss: float) -> None:
    """Nobody watches."""


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
    watch: Watch = unwatched,
) -> TableModel:
    """The model of these rows (code −1: no label), every choice made and every row learned.

    Rows without a label show where values lie; `hidden_weight` is what each counts beside one that has one.
    """
    some = sample(frame.size)
    encoding = choose_encoding(frame.take(some) if len(some) < frame.size else frame, reader.texts)
    if len(some) < frame.size:
        encoding = encoding.with_new(frame)
    labelled = np.flatnonzero(y >= 0)
    if len(labelled) < frame.size:
        hidden, hidden_weights = frame.take(np.flatnonzero(y < 0)), None if weight is None else weight[y < 0]
        frame, y = frame.take(labelled), y[labelled]
        weight = None if weight is None else weight[labelled]
        some = sample(frame.size)
    else:
        hidden = None
    all_here = len(some) == frame.size
    rows = encoding.rows(frame if all_here else frame.take(some), True)
    mine, w = (y, weight) if all_here else (y[some], None if weight is None else weight[some])
    with own_threads():
        chooser = Chooser(encoding, rows, mine, len(classes), w, n_jobs)
        experts = chooser.experts(watch)
    count = np.bincount(y, weight, minlength=len(classes)).astype(float)
    weights = np.append(np.full(len(experts), 1.0 / (len(experts) + 1)), np.zeros(len(encoding.columns)))
    pool = Pool(weights, np.zeros(len(classes)))
    model = TableModel(classes, count, reader, encoding, experts, pool, class_prior, closed)
    if not all_here:
        model = model.sums_of(frame, y, weight, n_jobs)
    with own_threads():
        model = chooser.weighed(model)
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
    watch: Watch = unwatched,
) -> TableModel:
    """The model of rows that are elsewhere, wherever that is: a sample chooses, and `collect` learns every row.

    It is given the model with all choices made and nothing learned. The rows of the sample are among those that it
    learns, so they judge as rows left out, of everything learned.
    """
    some = sample(frame.size)
    if len(some) < frame.size:
        frame, y = frame.take(some), y[some]
    encoding = choose_encoding(frame, reader.texts)
    with own_threads():
        chooser = Chooser(encoding, encoding.rows(frame, True), y, len(classes), None, n_jobs)
        experts = chooser.experts(watch)
    weights = np.append(np.full(len(experts), 1.0 / (len(experts) + 1)), np.zeros(len(encoding.columns)))
    pool = Pool(weights, np.zeros(len(classes)))
    model = TableModel(classes, np.zeros(len(classes)), reader, encoding, experts, pool, class_prior).zero()
    model = collect(model)
    with own_threads():
        return chooser.among(find(classes, model.classes), len(model.classes)).weighed(model)


def sample(n: int) -> Array:
    """EncodedRows spread evenly over the table, enough to find structures on."""
    return np.arange(n) if n <= SAMPLE else np.linspace(0, n - 1, SAMPLE).astype(np.intp)


class Chooser:
    """EncodedRows, coded, and what they ask for."""

    def __init__(
        self, encoding: Encoding, rows: EncodedRows, y: Codes, k: int, weight: Floats | None, n_jobs: int | None
    ) -> None:
        self.encoding, self.rows, self.y, self.k, self.weight, self.n_jobs = encoding, rows, y, k, weight, n_jobs
        self.count = np.bincount(y, weight, minlength=k).astype(float)
        self.log_prior = log_class_prior("empirical", self.count)
        self.candidates: list[Candidate] = []
        # Rows by their marks: which are looked at does not depend on the order they came in. A row that is all of its
        # class is no judge: without it there is no such class.
        order = np.argsort(rows.mark, kind="stable")
        amount = np.ones(len(y)) if weight is None else weight
        able = (amount > 0) & (self.count[y] > amount * (1.0 + 1e-9))
        low, high, shared = JUDGES
        entries = (len(encoding.columns) + FEW_EXPERTS) * k
        most = min(np.clip(shared / max(1, k), low, high), max(FEWEST, JUDGED / max(1, entries)))
        self.judges = order[able[order]][: int(most)]
        self.judging = rows.take(self.judges)
        self.judged = np.ascontiguousarray(y[self.judges])
        self.judge_weight = None if weight is None else grouped(weight[self.judges])
        self.workers = threads(n_jobs, rows.codes.size * WORTH)
        self.too_few = len(self.judges) < TOO_FEW
        # With few rows a column, near-singular covariances and chosen laws fit chance.
        self.cramped = len(encoding.columns) > len(y) / 2
        self.laws: tuple[tuple[str, str, float, float], ...] = ()

    def among(self, where: Array, k: int) -> Chooser:
        """The same with room for k classes, of which those at hand are `where`."""
        other = copy.copy(self)
        other.k, other.judged = k, where[self.judged].astype(np.int32)
        return other

    def experts(self, watch: Watch = unwatched) -> tuple[Expert, ...]:
        """The experts, each with what leave-one-out chose, having learned the rows at hand.

        `watch` is told how many ways to look at a row were tried, and the least log loss of the last.
        """
        first = self._columns()
        if len(np.unique(self.judged)) < 2:  # nothing to choose by
            return (first,)
        asked: list[Callable[[], list[Tried]]] = []
        d, numbers = len(self.encoding.columns), any(isinstance(c, Cuts) for c in self.encoding.columns)
        sizes = sorted({max(1, int(np.sqrt(d))), max(1, d // 3)}) if d else []
        sizes = sizes[:1] if self.too_few else sizes
        asked += [partial(self._forest, tries, forest.PILOTS) for tries in sizes if len(sizes) > 1]
        D = len(self.encoding.owner)
        if 0 < D <= WIDE and self.k * D * D <= PRODUCTS:
            asked += [partial(self._gaussians, view) for view in (("real", "scores") if numbers else ("real",))]
        if 1 < d <= WIDE:
            asked += [partial(self._contexts, size) for size in (BINS if numbers else BINS[-1:])]
        asked += [partial(self._words, place) for place in range(len(self.encoding.texts))]
        found = []
        for done in in_threads(lambda i: asked[i](), len(asked), self.workers):
            found.append(done)
            watch(len(found), min(loss for tried in done for loss, _ in tried))
        piloted = len(sizes) if len(sizes) > 1 else 0
        ways = [tried for ways in found[piloted:] for tried in ways]
        if sizes:
            pilots = [min(loss for loss, _ in tried) for tried, *_ in found[:piloted]] or [0.0]
            trees = int(np.clip(forest.ROWS_TIMES_TREES / len(self.y), *forest.TREES))
            ways += self._forest(sizes[int(np.argmin(pilots))], trees, self.workers)
        return (first, *map(self._recorded, ways))

    def _best(self, tried: Tried) -> int:
        """Which of one way's settings to take: the one with the least loss, unless chance may have made it so."""
        best = min(range(len(tried)), key=lambda i: tried[i][0])
        usual = [i for i, (_, expert) in enumerate(tried) if expert.usual]
        if len(self.judges) >= MIN_ROWS_FOR_CLOSED_FORM or not usual:
            return best
        rows = len(self.judges) if self.judge_weight is None else float(self.judge_weight.sum())
        return best if (tried[usual[0]][0] - tried[best][0]) * rows > GAIN else usual[0]

    def _recorded(self, tried: Tried) -> Expert:
        """The chosen setting of one way to look at a row; all that was tried is put on record."""
        best = self._best(tried)
        self.candidates += [
            Candidate(expert.name, expert.settings, loss, None, i == best) for i, (loss, expert) in enumerate(tried)
        ]
        return tried[best][1]

    def _columns(self) -> ColumnLaws:
        offsets = self.encoding.offsets
        empty = ColumnLaws((), offsets, np.zeros((self.k, int(offsets[-1]))))
        counts = empty.learned(self.rows, self.y, self.weight).counts
        binned = self.encoding.ordered
        gone = 1.0 if self.weight is None else float(self.weight.sum() / max(1, (self.weight > 0).sum()))
        may = not (self.cramped or self.too_few)
        laws, losses, usual = choose_laws(counts, offsets, binned, self.log_prior, gone, may)
        seen = self.count > 0
        alone = -float(self.count[seen] @ self.log_prior[seen])
        self.laws = tuple(
            (name, str(law), (alone - loss) / max(1.0, self.count.sum()), default - loss)
            for name, law, loss, default in zip(self.encoding.names, laws, losses, usual, strict=True)
        )
        return ColumnLaws(laws, offsets, counts)

    def _gaussians(self, view: str) -> list[Tried]:
        """Each class whole, and cut in pieces if that is not much worse: in more as long as it gets better."""
        X = getattr(self.rows, view)
        cramped = X.shape[1] > len(X) / 2
        leans: Sequence[float] = gaussians.LEANS[1:] if cramped else gaussians.LEANS
        diagonals: Sequence[float] = gaussians.DIAGONALS[1:] if cramped else gaussians.DIAGONALS
        cut = gaussians.Pieces.whole(self.k, X.shape[1])
        if self.too_few:
            usual = gaussians.USUAL
            return [self._shapes(view, cut, [usual.lean], [usual.diagonal], [usual.tails])]
        whole = self._shapes(view, cut, leans, diagonals)
        least, best = min(whole, key=lambda tried: tried[0])
        assert isinstance(best, gaussians.Gaussians)
        pieces: Tried = []
        diagonals = sorted({best.shape.diagonal, 0.1})
        for most in PIECES:
            before, cut = len(cut.owner), gaussians.cut_classes(X, self.y, self.k, most)
            if len(cut.owner) == before:
                break
            tried = self._shapes(view, cut, gaussians.LEANS[1:4], diagonals)
            loss, best = min(tried, key=lambda tried: tried[0])
            assert isinstance(best, gaussians.Gaussians)
            diagonals = [best.shape.diagonal]
            better = loss < min((before for before, _ in pieces), default=MUCH * least)
            pieces += tried
            if not better:
                break
        return [whole, pieces] if pieces and min(pieces, key=lambda t: t[0])[0] < MUCH * least else [whole]

    def _shapes(
        self,
        view: str,
        cut: gaussians.Pieces,
        leans: Sequence[float],
        diagonals: Sequence[float],
        tails_tried: Sequence[float] = gaussians.TAILS,
    ) -> Tried:
        """Shapes over pieces, judged by rows left out."""
        X = getattr(self.rows, view)
        D, parts = X.shape[1], len(cut.owner)
        some = int(np.clip(GRID_ENTRIES / D, *GRID))
        X_some, y, w = getattr(self.judging, view)[:some], self.judged[:some], self._weights(some)
        gone = 1.0 if w is None else float(np.median(w))
        moments = gaussians.Moments.of(X, cut.of(X, self.y), self.weight, parts)
        within = moments.centred()[1].sum(axis=0)
        # Coordinates have about unit variance: one pseudo-row of that, where few rows show no spread.
        target = (np.diagonal(within) + 1.0) / (max(0.0, float(self.count.sum()) - parts) + 1.0)
        own = cut.of(X_some, y)
        tried: Tried = []
        for diagonal in sorted(diagonals, key=lambda g: g != gaussians.USUAL.diagonal):
            if (
                tried and len(self.judges) < MIN_ROWS_FOR_CLOSED_FORM
            ):  # where rows are few, one thing is moved at a time
                best = min(tried, key=lambda tried: tried[0])[1]
                assert isinstance(best, gaussians.Gaussians)
                leans, tails_tried = [best.shape.lean], [best.shape.tails]
            axes = gaussians.Axes(X_some, moments, diagonal, target, own, gone)
            for lean, (q, log_det, left) in zip(leans, axes.forms(leans), strict=True):
                for tails in tails_tried:
                    said = gaussians.by_class(gaussians.density(q, log_det, tails, D), left, cut.owner, self.k)
                    shape = gaussians.Shape(lean, diagonal, tails)
                    expert = gaussians.Gaussians(view, shape, cut, target, moments, self.encoding.owner)
                    tried.append((log_loss(centred(said, MOST), self.log_prior, y, w), expert))
        return tried

    def _weights(self, some: int) -> Floats | None:
        return None if self.judge_weight is None else self.judge_weight[:some]

    def _contexts(self, bins: int) -> list[Tried]:
        maps, levels = coarse(self.encoding, bins)
        trees = contexts.ContextTrees.chosen(self.rows, self.y, self.k, maps, levels, self.weight)
        trees = trees.learned(self.rows, self.y, self.weight)
        deepest = min(contexts.DEEPEST if self.k <= MANY else 1, len(levels) - 1)
        depths = np.arange(1, 2 if self.too_few else deepest + 1, dtype=np.int32)
        strengths = np.array([contexts.USUAL] if self.too_few else contexts.STRENGTHS)
        some = GRID[1]
        y, w = self.judged[:some], self._weights(some)
        said = trees.each_without(self.judging.take(slice(some)), y, w, depths, strengths)
        tried: Tried = []
        for a, depth in enumerate(depths):
            for b, strength in enumerate(strengths):
                loss = log_loss(centred(said[:, a, b], MOST), self.log_prior, y, w)
                tried.append((loss, replace(trees, depth=int(depth), strength=float(strength))))
        best = self._best(tried)
        loss, chosen = tried[best]
        assert isinstance(chosen, contexts.ContextTrees)
        tried[best] = loss, chosen.trimmed().learned(self.rows, self.y, self.weight)
        return [tried]

    def _forest(self, tries: int, trees: int, workers: int = 1) -> list[Tried]:
        some, encoding = GRID[1], self.encoding
        judging, y, w = self.judging.take(slice(some)), self.judged[:some], self._weights(some)
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
        at = leaves[self.judges[:some]]
        for strength in (forest.USUAL,) if self.too_few else forest.STRENGTHS:
            expert = replace(grown, strength=strength)
            said = expert.evidence_without(judging, y, w, at)
            tried.append((log_loss(centred(said, MOST), self.log_prior, y, w), expert))
        return [tried]

    def _words(self, place: int) -> list[Tried]:
        column = self.encoding.texts[place]
        found = Words.chosen(column, place, self.rows, self.y, self.k, self.weight, self.judges)
        said = found.evidence_without(self.judging, self.judged, self.judge_weight)
        return [[(log_loss(centred(said, MOST), self.log_prior, self.judged, self.judge_weight), found)]]

    def weighed(self, model: TableModel) -> TableModel:
        """With the weights that rows left out ask for."""
        m, d, n = len(model.experts), len(model.encoding.columns), len(self.judges)
        if len(np.unique(self.judged)) < 2:  # nothing shows that evidence is worth anything
            return replace(model, pool=Pool.nothing(m + d, len(model.classes)))
        # To pick the best of many columns would be to look at labels: all may have a weight of their own, or none.
        some = np.arange(d if d <= ALONE else 0)
        vectors, mark, w = self._vectors(model, some), self.judging.mark, self.judge_weight
        log_prior, usual = log_class_prior("empirical", model.weight), self._usual(model, len(some))
        if n >= MIN_ROWS_FOR_CLOSED_FORM:
            last = int(mark.max())
            chosen, _ = closed_fit(vectors, self.judged, log_prior, w, last, usual, (Doubt(1.0, 1.0),), 1.0)
        else:
            folds = Folds.of(mark, self.judged, self.k, FOLDS)
            parts = self._folded(model, some, folds.which(mark, self.judged), folds.count)
            chosen = cross_fit(vectors, self.judged, log_prior, w, folds, mark, parts, usual)
        assert chosen.left_out is not None
        table, which = log_class_prior_without("empirical", model.weight, self.judged, w)
        prior = table[which]
        scores = chosen.left_out.pooled(chosen.pool, vectors, self.judged, mark, prior, w) + prior
        answers = scores - prior + log_prior if of_one_size(model.weight, w) else scores  # see LeaveOneOut
        accuracy = float(np.average(answers.argmax(axis=1) == self.judged, weights=w))
        loss = log_loss(scores, np.zeros(self.k), self.judged, w)
        alone = log_loss(vectors[:, 0], log_prior, self.judged, w)
        found = [Candidate(model.columns.name, model.columns.settings, alone, None, True), *self.candidates]
        weights = iter(chosen.pool.weights)
        found = [replace(c, weight=float(next(weights)) if c.chosen else None) for c in found]
        record = Record(tuple(found), self.laws, loss, accuracy, n, float(model.weight.sum()))
        place = np.append(np.arange(m), m + some)
        pool, left_out = chosen.pool.spread(place, m + d), chosen.left_out.spread(place, m + d)
        return replace(model, pool=pool, left_out=left_out, record=record)

    def _usual(self, model: TableModel, columns: int) -> Usual:
        """What is believed of weights before any row is seen; the fewer there are, the more firmly."""
        n, m = len(self.judges), len(model.experts)
        kinds = ways(model.experts)
        believed = [float(np.interp(np.log(n), BELIEVED_AT, BELIEVED.get(kind, [1.0 / (m + 1)] * 3))) for kind in kinds]
        few = max(1.0, MIN_ROWS_FOR_CLOSED_FORM / n)
        doubt = np.append(np.full(m, EXPERT_DOUBT), np.full(columns, COLUMN_DOUBT * np.sqrt(500 / n)))
        return Usual(doubt * few, np.append(believed, np.zeros(columns)), OFFSET_DOUBT)

    def _folded(self, model: TableModel, columns: Array, fold: Array, folds: int) -> Iterator[FoldPart]:
        """The judges' evidence, one fold after the other out of the sums."""
        amount = np.ones(len(fold)) if self.judge_weight is None else self.judge_weight
        learned = model.weight
        for f in range(folds):
            out, rest = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
            gone, y = self.judging.take(out), np.ascontiguousarray(self.judged[out])
            w = None if self.judge_weight is None else np.ascontiguousarray(amount[out])
            experts = tuple(expert.plus(expert.scaled(0.0).learned(gone, y, w), -1.0) for expert in model.experts)
            left = np.maximum(learned - np.bincount(y, w, minlength=self.k), 0.0)
            left[left <= 1e-9 * learned] = 0.0
            rest, out = rest[left[self.judged[rest]] > amount[rest] * (1.0 + 1e-9)], out[left[self.judged[out]] > 0]
            without = replace(model, experts=experts, weight=left)
            inside, outside = self._vectors(without, columns, rest), self._vectors(without, columns, out, False)
            yield FoldPart(rest, inside, out, outside, log_class_prior("empirical", left))

    def _vectors(self, model: TableModel, columns: Array, some: Array | None = None, learned: bool = True) -> Floats:
        """Evidence of (some of) the judges, each without itself: of every expert, then of these columns; (n, g, k)."""
        rows, y, w = self.judging, self.judged, self.judge_weight
        if some is not None:
            rows, y, w = rows.take(some), np.ascontiguousarray(y[some]), None if w is None else w[some]
        m, taken = len(model.experts), w if learned else np.zeros(len(rows))
        out = np.zeros((len(rows), m + len(columns), self.k))
        out[:, 0], out[:, m:] = model.columns.said_without(rows, y, taken, np.ones(len(model.columns.laws)), columns)

        def work(i: int) -> None:
            expert = model.experts[i]
            said = expert.evidence_without(rows, y, w) if learned else expert.evidence_unlearned(rows, y)
            out[:, i] = centred(said, MOST)

        list(in_threads(lambda i: work(i + 1), m - 1, self.workers))
        return out


def ways(experts: Sequence[Expert]) -> list[str]:
    """How each expert looks at a row, in a word."""
    found: list[str] = []
    for expert in experts:
        again = expert.way == "contexts" and "contexts" in found
        found.append("finer contexts" if again else expert.way)
    return found


def grouped(weight: Floats, most: int = 16) -> Floats:
    """Of many different weights a few that stand for all, for choosing."""
    if len(np.unique(weight)) <= most:
        return weight
    group = np.searchsorted(np.quantile(weight, np.linspace(0, 1, most + 1)[1:-1]), weight)
    total, size = np.bincount(group, weight), np.bincount(group)
    return np.asarray((total / np.maximum(size, 1))[group])
