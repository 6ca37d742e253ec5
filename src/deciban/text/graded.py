"""Graded evidence: items are weighted by how informative they are, and the weights are fitted.

For each item w and class k, with N the sums, π the classes' shares, m pseudo-counts and s a factor of about 1/√π:

    P_kw ∝ N_kw + m s_k π_k                    the item's distribution over the classes
    B_kw ∝ N_w π_k + m s_k π_k                 the same, if the item were uninformative
    λ_kw = log P_kw / B_kw                     its evidence
    κ_w  = Σ_k P_kw λ_kw / H(π)                its information, as a share of the entropy of the classes

A document's evidence for k comes in vectors: for each strength m and each knot of log κ, Σ h(κ_w) λ_kw / √Σκ with h
the hat function about the knot; all items equally, u^−¾ Σ λ_kw; and weighted by information, Σ κ_w λ_kw / √Σκ². A pool,
fitted on leave-one-out vectors, gives each vector its weight. Everything but the pool's few numbers is a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from deciban import bayes
from deciban._typing import Array, Codes, Floats
from deciban.joint import log_class_prior, log_class_prior_without
from deciban.learner import AS_LABELLED, Hidden, Learner, without_a_class
from deciban.pool import (
    PRIOR_ONLY,
    Chosen,
    Doubt,
    FoldPart,
    Folds,
    LeftOut,
    Pool,
    Vectors,
    WeightPrior,
    best_doubt,
    closed_fit,
    cross_fit,
    distinct_marks,
)
from deciban.reading.labels import Labels
from deciban.results.evidence import ABSENT, CORRECTION
from deciban.results.importance import Importance
from deciban.results.ways import CROSS_FITTED, EXACT, HELD
from deciban.show import plain
from deciban.text import views
from deciban.text.answers import TextAnswers
from deciban.text.common import CommonItems, ItemGaussian, ItemVectors, RidgeGaussians, ridges
from deciban.text.documents import Texts
from deciban.text.evidence import TextEvidence
from deciban.text.hashed import HashedLexicon
from deciban.text.items import Items, Lexicon, Rows
from deciban.text.kept import NONE_KEPT, Kept, marks, rechosen
from deciban.text.parallel import over_blocks
from deciban.text.raw import Documents
from deciban.text.store import ItemSums
from deciban.text.sums import (
    MAX_ITEMS,
    Limit,
    TextSums,
    check_known,
    collect,
    damped,
    narrowed,
    read_into,
    some_rows,
    stacked,
    sums_of,
)
from deciban.text.tables import PER_BLOCK, STRENGTHS, VECTORS, Shares, Tables, class_factors
from deciban.text.tokens import BY_SCRIPT, TokenRule

ITEMS_PER_CALL = 2_000  # as many items could be looked up in the time that tables of a few items take to set up
ANSWERS_PER_BYTE = 32  # the work of answering, in entries of a matrix: a byte of a short text is in ten items or more
MAX_EVIDENCE_ENTRIES = 1 << 25  # held at a time
DISTINCT_WEIGHTS = 16  # with more of them, rows of about the same weight share one table of class shares
DEFAULT_WEIGHT = 0.3  # of the informative items, and of all items equally; suits a few documents
PRIOR_DOCUMENTS = 30.0  # pseudo-documents of the prior of the weights; that of the offsets has one
TEN_FOLDS_BELOW = 150  # documents; from then on there are five folds
CLOSED_FORM_FROM = 700  # documents: from here on a closed form instead of folds corrects for fitting on the same rows
NO_FOLD_FROM = 2500  # documents: from here on it also chooses the doubt; with fewer, one fold out of the sums does
FOLD_DOUBTS = tuple(Doubt(times, 0.0) for times in (100.0, 10.0, 1.0, 0.1))
CLOSED_FORM_DOUBTS = (*(Doubt(times, 0.0) for times in (0.1, 1.0, 10.0, 100.0, 1000.0)), PRIOR_ONLY)
# A document's label also enters the evidence of the others, and theirs its own: see pool.ByForm. If labels were
# uninformative, the correction would be twice that of the weights alone, which is used to choose a doubt; over many
# data sets it is one and a half times.
PAIRWISE_FACTOR, CAUTIOUS_FACTOR = 1.5, 2.0
N_FOLDS_FOR_HIDDEN = 3  # folds of the labelled documents, each evaluated by the others, if labels are missing


class Labelled(NamedTuple):
    """Documents, their class codes (−1: none) and perhaps weights."""

    documents: Iterable[Documents]
    y: Codes
    weight: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TextChoice:
    """What was chosen: pseudo-counts by block and their factors by class, ridges of the common items, the weight of
    every vector, and how documents that these were fitted on are scored without them."""

    strengths: dict[str, Floats]
    factors: Floats  # (k,)
    ridges: Floats  # each has a vector, after those of the blocks
    pool: Pool
    classes: Array  # of the factors and the pool's offsets
    left_out: LeftOut | None = None
    doubts: tuple[tuple[Doubt, float], ...] = ()
    importance: Importance | None = None  # of words, on some of the documents
    tokens: dict[str, list[str]] = field(default_factory=dict, repr=False)  # of the names in it, once they are known

    def __reduce__(self) -> tuple[type[TextChoice], tuple[Any, ...]]:
        held = self.strengths, self.factors, self.ridges, self.pool, self.classes, self.left_out, self.doubts
        return TextChoice, (*held, self.importance)

    def with_known_words(self, knows: Callable[[Sequence[str]], Array], rule: TokenRule) -> TextChoice:
        """Without the importance of words of which nothing is known any more."""
        if self.importance is None:
            return self
        names = [item.name for item in self.importance.items]
        for name in names if len(self.tokens) < len(names) else ():
            self.tokens[name] = rule.tokens(name, lower=False)
        words = sorted({word for name in names for word in self.tokens[name]})
        known = {word for word, there in zip(words, knows(words).tolist(), strict=True) if there}
        left = [name for name in names if name in (CORRECTION, ABSENT) or known.issuperset(self.tokens[name])]
        if len(left) == len(names):
            return self
        return replace(self, importance=self.importance.only(left), tokens={name: self.tokens[name] for name in left})

    def of_classes(self, classes: Array) -> TextChoice:
        """The same for other classes; a new one is treated as rare, and has no offset."""
        if classes is self.classes or np.array_equal(classes, self.classes):
            return self
        where = {label: i for i, label in enumerate(self.classes.tolist())}
        places = np.array([where.get(label, -1) for label in classes.tolist()], dtype=np.intp)
        left_out = None if self.left_out is None else self.left_out.in_classes(places)
        factors = np.append(self.factors, self.factors.max(initial=1.0))[places]
        return replace(self, pool=self.pool.in_classes(places), factors=factors, classes=classes, left_out=left_out)

    @property
    def groups(self) -> tuple[Floats, Codes]:
        """The distinct factors, and which of them each class has."""
        factor, group = np.unique(self.factors, return_inverse=True)
        return factor, group.astype(np.int32)

    @property
    def ridge_weights(self) -> Floats:
        """The weights of the common items' vectors, one per ridge."""
        return self.pool.weights[len(self.strengths) * PER_BLOCK :]

    def weights(self, block: str) -> Floats:
        """The weights of a block's vectors, (strengths, vectors)."""
        at = list(self.strengths).index(block) * PER_BLOCK
        return self.pool.weights[at : at + PER_BLOCK].reshape(len(STRENGTHS), VECTORS)


@dataclass(frozen=True, slots=True, eq=False)
class Graded(Learner):
    """A text model: sums, choices, and the user's pseudo-counts (`prior`, by word)."""

    sums: TextSums
    choice: TextChoice | None = None
    prior: Mapping[str, Any] = field(default_factory=dict)
    class_prior: str | Floats = "empirical"
    unlabelled: int = 0  # documents whose label was guessed
    choosing: bool = False  # whether it chooses automatically as it learns, for which it keeps documents
    kept: Kept = field(default=NONE_KEPT, repr=False)  # documents that were learned
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    item_kind: ClassVar[str] = "word"
    pools: ClassVar[bool] = True
    chooses: ClassVar[bool] = True  # whether leave-one-out chooses something

    def __reduce__(self) -> tuple[type[Graded], tuple[Any, ...]]:
        """Derived values and kept documents are not pickled."""
        return Graded, (self.sums, self.choice, self.prior, self.class_prior, self.unlabelled, self.choosing)

    @classmethod
    def none(
        cls,
        classes: Array,
        blocks: Sequence[str],
        prior: Mapping[str, Any],
        closed: bool,
        class_prior: str | Floats,
        n_features: int | None = None,
        rule: TokenRule = BY_SCRIPT,
        max_items: int | None = MAX_ITEMS,
    ) -> Graded:
        lexicon = Lexicon(rule=rule) if n_features is None else HashedLexicon.none(n_features, rule)
        sums = TextSums.none(classes, blocks, closed, lexicon.fresh, Limit(max_items, tuple(prior)))
        return cls(sums, None, prior, class_prior)

    def zero(self) -> Graded:
        return replace(self, sums=self.sums.nothing(), unlabelled=0, choosing=False, kept=NONE_KEPT)

    @property
    def n_features(self) -> int | None:
        return self.sums.n_features

    @property
    def rule(self) -> TokenRule:
        return self.sums.rule

    @property
    def limit(self) -> Limit:
        return self.sums.limit

    def with_limit(self, most: int | None) -> Graded:
        """The same with as many items allowed."""
        if most == self.limit.most:
            return self
        return replace(self, sums=replace(self.sums, limit=self.limit._replace(most=most)).cut()[0])

    @property
    def classes(self) -> Array:
        return self.sums.classes

    @property
    def weight(self) -> Floats:
        return self.sums.weight

    @property
    def closed(self) -> bool:
        return self.sums.closed

    @property
    def log_prior(self) -> Floats:
        if "log_prior" not in self._cache:
            self._cache["log_prior"] = log_class_prior(self.class_prior, self.weight)
        return self._cache["log_prior"]  # type: ignore[no-any-return]  # put there above

    def with_prior(self, class_prior: str | Floats) -> Graded:
        return replace(self, class_prior=class_prior)

    # ------------------------------------------------------------------ learning

    def batch(self, rows: Texts, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> Graded:
        labels = labels.placed(self.classes) if self.closed else labels
        sums = self._collected(rows.batches(), labels.codes, labels.classes, weight, n_jobs)
        kept = Kept.of(rows, labels, weight, self.rule) if self.choosing else NONE_KEPT
        sums = replace(sums, closed=self.closed, limit=sums.limit._replace(most=self.limit.most))
        return replace(self, sums=sums, unlabelled=0, kept=kept)

    def learn(self, rows: Texts, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> Graded:
        return self._plus(self.batch(rows, labels, weight, n_jobs))._chosen_if_possible(n_jobs)

    def _collected(
        self, batches: Iterable[Documents], y: Codes, classes: Array, weight: Floats | None, n_jobs: int | None
    ) -> TextSums:
        none = TextSums.none(classes, self.sums.blocks, fresh=self.sums.fresh, limit=self.sums.limit.of_part())
        common = None if self.sums.common is None else self.sums.common.none(len(classes))
        return collect(batches, y, replace(none, common=common), weight, n_jobs)

    def learned_and_chosen(
        self, evaluated: Labelled, others: Labelled, classes: Array, mark: Array, n_jobs: int | None
    ) -> Graded:
        """The model of all documents, from an empty one. The common items are chosen and the weights fitted on
        `evaluated`, whose marks are given. Each document is read once."""
        lexicon, limit = self.sums.lexicon.copy(), self.sums.limit
        rows, order = read_all(lexicon, evaluated.documents, self.sums.blocks, n_jobs)
        y, weight = evaluated.y[order], None if evaluated.weight is None else evaluated.weight[order]
        total = sums_of(lexicon, rows, y, classes, weight)
        model = replace(self, sums=replace(total, closed=self.sums.closed)).with_common_items(rows, y, weight, n_jobs)
        total = collect(others.documents, others.y, model.sums, others.weight, n_jobs)
        sums, to = replace(total, limit=limit).cut()
        if to is not None:
            rows = {block: (indptr, to[block][indices]) for block, (indptr, indices) in rows.items()}
        return replace(model, sums=sums)._chosen_by(rows, y, mark[order], weight, n_jobs)

    def with_common_items(self, rows: dict[str, Rows], y: Codes, weight: Floats | None, n_jobs: int | None) -> Graded:
        """With the most common items chosen, and their sums; the rows are all that was learned."""
        share = {
            block: cells.total() / (self.sums.mass[block] or 1.0) for block, cells in self.sums.cells.items()
        }  # of documents; those with few items count more
        common = CommonItems.chosen(self.sums.lexicon, share, int(np.count_nonzero(y >= 0)), len(self.classes))
        if common is not None:
            amount = np.ones(len(y)) if weight is None else np.ascontiguousarray(weight)
            codes = np.where(amount > 0, y, -1).astype(np.int32)
            vectors = common.vectors(common.columns(self.sums.lexicon), rows)
            common = common.of(vectors, codes, amount, len(self.classes), n_jobs)
        return replace(self, sums=replace(self.sums, common=common))

    def __sub__(self, other: Graded) -> Graded:
        remaining = self.sums - other.sums
        choice = (
            self.choice.of_classes(remaining.classes) if self.choice is not None and remaining.weight.any() else None
        )
        kept = self.kept.without(other.kept, remaining.classes, remaining.weight)
        if choice is not None:
            choice = choice.with_known_words(remaining.knows, self.rule)
        return replace(self, sums=remaining, choice=choice, kept=kept)

    def scale(self, share: float) -> Graded:
        """With every sum times a number; choices stay."""
        return replace(self, sums=self.sums.scale(share), kept=self.kept.scale(share))

    def __add__(self, other: Graded) -> Graded:
        """What both have learned, under the choices of the one that has learned more."""
        return self._plus(other)._chosen_if_possible()

    def _plus(self, other: Graded) -> Graded:
        more = max(self, other, key=lambda model: (model.choice is not None, float(model.weight.sum())))
        return replace(
            self,
            sums=self.sums + other.sums,
            choice=more.choice,
            unlabelled=self.unlabelled + other.unlabelled,
            choosing=self.choosing or other.choosing,
            kept=self.kept + other.kept,
        )

    def as_part(self) -> Graded:
        return replace(self, choice=None)  # the sum has the choice of the model that has one: see `_plus`

    def _chosen_if_possible(self, n_jobs: int | None = None) -> Graded:
        """With weights fitted as soon as there are documents to fit them on."""
        untried = self.choosing and self.choice is None and not self.unlabelled
        return rechosen(self, self.kept, n_jobs) if untried and self.kept.stand_for(self.weight) else self

    def every_row(self) -> tuple[Texts, Labels, Floats | None] | None:
        return None if self.unlabelled else self.kept.every_row(self.classes, self.weight)

    @property
    def why_inexact(self) -> str:
        return "some labels were inferred from all other documents" if self.unlabelled else ""

    # ------------------------------------------------------------------ evidence

    def strengths(self) -> dict[str, Floats]:
        """Pseudo-counts by block, in units of the mean damped presence: as chosen, or else from the present sums."""
        if self.choice is not None:
            return self.choice.strengths
        total = max(float(self.sums.weight.sum()), 1e-300)
        return {block: np.array(STRENGTHS) * (self.sums.mass[block] / total or 1.0) for block in self.sums.blocks}

    def ridges(self) -> Floats:
        """The ridges of the common items: as chosen, or else from the present sums."""
        if self.choice is not None:
            return self.choice.ridges
        return np.zeros(0) if self.sums.common is None else ridges(self.sums.common, self.sums.weight)

    def gaussians(self, left_out: bool = False) -> RidgeGaussians | None:
        """The Gaussians of the common items, cached; with `left_out`, those for leaving rows out."""
        if self.sums.common is None or not len(self.ridges()):
            return None
        name = "gaussians, left out" if left_out else "gaussians"
        if name not in self._cache:
            self._cache[name] = (
                RidgeGaussians.of(self.sums.common, self.sums.weight, self.ridges(), left_out)
                if left_out
                else RidgeGaussians.joined([self._gaussian(r) for r in range(len(self.ridges()))])
            )
        return self._cache[name]  # type: ignore[no-any-return]  # put there above

    def _gaussian(self, r: int) -> ItemGaussian:
        """That of one ridge, cached: to solve for those without weight would be in vain."""
        assert self.sums.common is not None
        name = f"gaussian {r}"
        if name not in self._cache:
            self._cache[name] = ItemGaussian.of(self.sums.common, self.sums.weight, float(self.ridges()[r]), None)
        return self._cache[name]  # type: ignore[no-any-return]  # put there above

    def joint_slopes(self) -> tuple[Floats, Floats] | None:
        """The weighted evidence of the common items is x · slopes + constants, (d, k) and (k,), up to a constant per
        row; cached. None if it has no weight."""
        weights = self.effective_choice.ridge_weights
        if self.sums.common is None or not weights.any():
            return None
        if "slopes" not in self._cache:
            parts = [(weights[r], *self._gaussian(r).weights()) for r in np.flatnonzero(weights).tolist()]
            slopes = sum(weight * slope for weight, slope, _ in parts)
            self._cache["slopes"] = (
                np.ascontiguousarray(slopes),
                sum(weight * constant for weight, _, constant in parts),
            )
        return self._cache["slopes"]  # type: ignore[no-any-return]  # put there above

    def item_vectors(self, rows: dict[str, Rows]) -> ItemVectors:
        """x of rows: the vectors of their common items."""
        assert self.sums.common is not None
        return self.sums.common.vectors(self.sums.store.flat().columns(self.sums.common), rows)

    @property
    def vectors(self) -> int:
        """How many vectors of evidence there are."""
        return len(self.sums.blocks) * PER_BLOCK + len(self.ridges())

    def shares(self, taken: float = 0.0) -> Shares:
        """The classes' shares, and their factors: as chosen, or else from the present sums."""
        if self.choice is None:
            return Shares.of(self.sums.weight, class_factors(self.sums.weight), taken)
        return Shares.of(self.sums.weight, self.choice.of_classes(self.classes).factors, taken)

    def cells(self, block: str) -> ItemSums:
        """The sums with the pseudo-counts, each worth a document of mean presence."""
        mine = self.sums.cells[block]
        if not self.prior or block != "words":
            return mine
        if "cells" not in self._cache:
            self._cache["cells"] = self._with_pseudo_counts(mine, np.arange(mine.size), self.sums.lexicon)
        return self._cache["cells"]  # type: ignore[no-any-return]  # put there above

    def cells_as_numbered(self, block: str, items: Codes | None = None) -> ItemSums:
        """The same for all items of `sums.store`, as that numbers them, or for these; −1 has none."""
        store = self.sums.store
        mine = store.as_numbered(block) if items is None else store.take(block, items)
        if not self.prior or block != "words":
            return mine
        return self._with_pseudo_counts(mine, np.arange(mine.size) if items is None else items, store.like)

    def _with_pseudo_counts(self, mine: ItemSums, items: Array, lexicon: Items) -> ItemSums:
        """The sums of words with these numbers in the lexicon, with the pseudo-counts."""
        unit = float(self.strengths()["words"][STRENGTHS.index(1.0)])
        worth = np.where(self.sums.weight > 0, unit, 0.0)  # a class without documents has none of its own
        which, extra = pseudo_cells(self.prior, lexicon.find(self.prior), self.classes, worth)
        place = np.minimum(np.searchsorted(which, items), len(which) - 1)
        rows = np.where(which[place] == items, place, -1).astype(np.int32)
        return mine.combined(extra, rows)[0]

    def table(self, block: str, which: Codes | None = None, n_jobs: int | None = None) -> Tables:
        """Tables derived from a block's sums, of all items or only of `which`."""
        cells = self.cells(block) if which is None else self.cells(block).take(which)
        return Tables.of(cells, self.strengths()[block], self.shares(), n_jobs)

    def tables(self, n_jobs: int | None = None) -> dict[str, Tables]:
        """Tables of all blocks, cached."""
        if "tables" not in self._cache:
            self._cache["tables"] = {block: self.table(block, None, n_jobs) for block in self.sums.blocks}
        return self._cache["tables"]  # type: ignore[no-any-return]  # put there above

    def tables_for(self, rows: dict[str, Rows], n_jobs: int | None = None) -> dict[str, tuple[Tables, Rows]]:
        """The tables needed for these rows, and the rows as numbered in them.

        One text needs only a few of all items. So at first tables are derived only for the rows' items; once as many
        items have been looked up as there are, tables of all items are derived and cached.
        """
        asked = self._cache.get("asked", 0) + ITEMS_PER_CALL + sum(len(indices) for _, indices in rows.values())
        self._cache["asked"] = asked
        if "tables" in self._cache or asked >= sum(cells.size for cells in self.sums.cells.values()):
            return {block: (table, rows[block]) for block, table in self.tables(n_jobs).items()}
        out = {}
        for block in self.sums.blocks:
            which, mine = narrowed(rows[block], self.sums.cells[block].size)
            out[block] = self.table(block, which, n_jobs), mine
        return out

    def evidence(self, rows: dict[str, Rows], n_jobs: int | None = None, classes: Codes | None = None) -> Floats:
        """All vectors of rows numbered as the lexicon numbers them, (n, g, k); if `classes` are given, for these
        only."""
        own, zeros = np.full(length(rows), -1, dtype=np.int32), np.zeros(length(rows))
        out = np.zeros((length(rows), self.vectors, len(self.classes if classes is None else classes)))
        for b, (table, mine) in enumerate(self.tables_for(rows, n_jobs).values()):
            block_out = out[:, b * PER_BLOCK : (b + 1) * PER_BLOCK]
            table.evidence(mine, own, zeros, block_out, n_jobs, classes)
        if (gaussians := self.gaussians()) is not None:
            joint = gaussians.evidence(self.item_vectors(rows), n_jobs)
            out[:, len(rows) * PER_BLOCK :] = joint if classes is None else joint[:, :, classes]
        return out

    def evidence_without(
        self,
        rows: dict[str, Rows],
        own: Codes,
        weight: Floats | None = None,
        n_jobs: int | None = None,
        approximate: bool = False,
        classes: Codes | None = None,
    ) -> Floats:
        """The same for learned rows of classes `own`, each under the sums without it.

        `approximate` is for choosing: if rows have many different weights, class shares use a few rounded ones. If
        `classes` are given, they must be ascending and include those of all rows.
        """
        n, strengths = length(rows), self.strengths()
        out = np.zeros((n, self.vectors, len(self.classes if classes is None else classes)))
        removed = np.ones(n) if weight is None else weight
        if (gaussians := self.gaussians(left_out=True)) is not None:
            vectors = self.item_vectors(rows)
            out[:, len(rows) * PER_BLOCK :] = gaussians.evidence_without(vectors, own, removed, n_jobs, classes)
        distinct, group = np.unique(removed, return_inverse=True)
        if approximate and len(distinct) > DISTINCT_WEIGHTS:
            group = np.searchsorted(np.quantile(removed, np.linspace(0, 1, DISTINCT_WEIGHTS + 1)[1:-1]), removed)
            groups = [removed[group == i] for i in range(DISTINCT_WEIGHTS)]
            distinct = np.array([mine.mean() if len(mine) else 1.0 for mine in groups])
        for b, block in enumerate(self.sums.blocks):
            cells, items, block_out = self.cells(block), rows[block], out[:, b * PER_BLOCK : (b + 1) * PER_BLOCK]
            if len(items[1]) < cells.size:  # tables of the rows' items are enough
                present, items = narrowed(items, cells.size)
                cells = cells.take(present)
            for i, row_weight in enumerate(
                distinct.tolist()
            ):  # rows of equal weight share the class shares without them
                table = Tables.of(cells, strengths[block], self.shares(row_weight), n_jobs)
                which = np.flatnonzero(group == i)
                if not len(which):
                    continue
                codes = np.ascontiguousarray(own[which], dtype=np.int32)
                mine = items if len(which) == n else some_rows(items, which)
                target = block_out if len(which) == n else np.zeros((len(which), *block_out.shape[1:]))
                table.evidence(mine, codes, damped(mine) * removed[which], target, n_jobs, classes)
                if target is not block_out:
                    block_out[which] = target
        return out

    # ------------------------------------------------------------------ prediction

    def pooled(self, evidence: Floats, log_prior: Floats) -> Floats:
        """log π_k + b_k + Σ_g r_g F_gk, (n, k), up to a constant per row."""
        return self.effective_choice.pool.pooled(evidence) + log_prior

    @property
    def way(self) -> str:
        """How learned documents are evaluated."""
        return EXACT if self.choice is None else HELD if self.choice.left_out is None else CROSS_FITTED

    @property
    def effective_choice(self) -> TextChoice:
        """The choice, or the default before there is one, for the present classes."""
        if "believed" not in self._cache:
            self._cache["believed"] = (self.choice or self.default_choice()).of_classes(self.classes)
        return self._cache["believed"]  # type: ignore[no-any-return]  # put there above

    def log_joints(self, rows: Texts, n_jobs: int | None = None) -> Floats:
        """`pooled` for documents."""
        answers, store = self.answers(), self.sums.store

        def work(documents: Documents, start: int, stop: int) -> Floats:
            return answers.scores(self, store.numbered(documents, start, stop), n_jobs)

        pieces = [
            piece
            for documents in rows.batches()
            for piece in over_blocks(self.rule.prepared(documents), n_jobs, work, ANSWERS_PER_BYTE)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty((0, len(self.classes))), *pieces])

    def answers(self) -> TextAnswers:
        """What answers are derived from, cached."""
        if "answers" not in self._cache:
            self._cache["answers"] = TextAnswers(self)
        return self._cache["answers"]  # type: ignore[no-any-return]  # put there above

    def prepare_like(self, other: Graded, n_jobs: int | None = None) -> None:
        """Derive what another model has derived to answer many texts, as far as this one does not have it yet."""
        known = other._cache.get("answers")
        if known is not None and known.records is not None:
            self.answers().keep_records(self, n_jobs)

    def log_posterior_without(
        self, rows: Texts, codes: Codes, weight: Floats | None, n_jobs: int | None, whole: bool
    ) -> tuple[Floats, str]:
        del whole  # `left_out` knows which documents the weights were fitted on
        scores = self.log_joint_without(rows, codes, weight, n_jobs, marks(rows.strings()))
        return without_a_class(self, scores, codes, weight), self.way

    def log_joint_without(
        self,
        texts: Texts,
        own: Codes,
        weight: Floats | None = None,
        n_jobs: int | None = None,
        mark: Array | None = None,
    ) -> Floats:
        """The same for learned documents of classes `own`, each under the sums without it; and if their marks are
        given, under weights fitted without it."""
        out, left_out = np.empty((len(own), len(self.classes))), self.effective_choice.left_out
        prior, row_prior = log_class_prior_without(self.class_prior, self.sums.weight, own, weight, self.sums.closed)
        if left_out is not None and mark is not None:
            mark = left_out.marks(mark, own)
        for at, rows in self._numbered(texts.batches(), n_jobs):
            check_known(at if weight is None else at[weight[at] > 0], at, rows, self.sums.limit)
            removed, mine = None if weight is None else weight[at], prior[row_prior[at]]
            evidence = self.evidence_without(rows, own[at], removed, n_jobs)
            if left_out is None or mark is None:
                out[at] = self.pooled(evidence, mine)
            else:
                out[at] = left_out.pooled(self.effective_choice.pool, evidence, own[at], mark[at], mine, removed) + mine
        return out

    def _numbered(self, batches: Iterable[Documents], n_jobs: int | None) -> Iterator[tuple[Array, dict[str, Rows]]]:
        start = 0
        for documents in batches:
            for which, rows in numbered(documents, self.sums.lexicon, self.sums.blocks, n_jobs):
                slices = list(self._slices(len(which)))
                for at in slices:
                    yield which[at] + start, rows if len(slices) == 1 else take_rows(rows, at)
            start += len(documents)

    # ------------------------------------------------------------------ explanations and samples

    def explain(self, row: Texts, target: int | None = None, against: int | None = None, **how: Any) -> TextEvidence:
        """One document's evidence for a class over another: `by` word, or by item."""
        text = row.string(0)
        rows = self.sums.store.numbered(Documents([text], row.lower), 0, 1)
        scores = self.answers().scores(self, rows)[0]
        return views.explain(self, text, rows, scores, target, against, row.lower, how.get("by", "column"))

    def strongest_items(self, row: Texts, target: int, against: int, most: int) -> list[tuple[str, float]]:
        text = row.string(0)
        rows = self.sums.store.numbered(Documents([text], row.lower), 0, 1)
        return views.strongest_items(self, text, rows, row.lower, target, against, most)

    @property
    def stored_importance(self) -> Importance | None:
        return None if self.choice is None else self.choice.importance

    def importance(
        self, rows: Texts, codes: Codes, weight: Floats | None = None, learned: bool = False
    ) -> Importance | None:
        from deciban.text.importance import importance

        return importance(self, rows, codes, weight, learned)

    def with_importance(self, rows: Texts, codes: Codes, weight: Floats | None = None) -> Graded:
        """With the importance of words, on some of these learned documents."""
        from deciban.text.importance import at_fit

        if self.choice is None:
            return self
        return replace(self, choice=replace(self.choice, importance=at_fit(self, rows, codes, weight), tokens={}))

    def strongest(self, target: int, most: int) -> list[tuple[str, float]]:
        if self.stored_importance is not None:
            return [(name, db) for name, db, _ in self.stored_importance.strongest(plain(self.classes[target]), most)]
        return views.top_words(self, target, most)

    def sample(self, n: int, rng: np.random.Generator, given: int | None = None, **how: Any) -> tuple[list[str], Codes]:
        return views.sample(self, n, rng, given, how.get("length"))

    # ------------------------------------------------------------------ pickling

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        from deciban.text import files

        return files.parts(self)

    @classmethod
    def unpack(cls, document: Mapping[str, Any], tensors: Mapping[str, Array]) -> Graded:
        from deciban.text import files

        model = files.rebuild(document, tensors)
        assert isinstance(model, cls)
        return model

    # ------------------------------------------------------------------ choosing

    def choose(self, rows: Texts, codes: Codes, weight: Floats | None = None, n_jobs: int | None = None) -> Graded:
        """With weights fitted on the leave-one-out evidence of these learned documents of classes `codes`.

        Documents that are alone in their class are skipped: without them there is no such class. With fewer than
        two classes left nothing is chosen. From then on the model chooses automatically.
        """
        own, mark = codes, marks(rows.strings())
        pieces = list(self._numbered(rows.batches(), n_jobs))
        for at, piece in pieces:
            some = at[own[at] >= 0] if weight is None else at[(own[at] >= 0) & (weight[at] > 0)]
            check_known(some, at, piece, self.sums.limit)
        order = np.concatenate([np.zeros(0, dtype=np.intp), *(at for at, _ in pieces)])
        items = {block: stacked([piece[block] for _, piece in pieces]) for block in self.sums.blocks}
        y, w = own[order], None if weight is None else weight[order]
        given = np.bincount(y[y >= 0], None if w is None else w[y >= 0], minlength=len(self.classes))
        model = self if self.choosing else replace(self, choosing=True)
        if np.allclose(given, self.sums.weight, rtol=1e-9, atol=0.0):  # all that was learned
            model = model.with_common_items(items, y, w, n_jobs)
        return model._chosen_by(items, y, mark[order], w, n_jobs).with_importance(rows, codes, weight)

    def _chosen_by(
        self, rows: dict[str, Rows], own: Codes, mark: Array, weight: Floats | None, n_jobs: int | None
    ) -> Graded:
        amount = np.ones(len(own)) if weight is None else weight
        usable = np.flatnonzero((amount > 0) & (own >= 0) & (self.sums.weight[own] > amount * (1.0 + 1e-9)))
        if len(np.unique(own[usable])) < 2:  # nothing to fit on: the choice is unchanged
            return self
        if len(usable) < len(own):
            rows = take_rows(rows, usable)
        y, mark, w = own[usable], mark[usable], None if weight is None else weight[usable]
        unfitted, classes = self.with_default_choice(), np.unique(y).astype(np.int32)
        if 2 * len(classes) > len(self.classes):  # nothing is learned about the others: they are left out if many
            return unfitted.with_choice(unfitted._chosen_among(rows, y, y, mark, w, None, n_jobs))
        place = np.full(len(self.classes), -1, dtype=np.int32)
        place[classes] = np.arange(len(classes))
        chosen = unfitted._chosen_among(rows, y, place[y], mark, w, classes, n_jobs)
        return unfitted.with_choice(chosen.in_classes(place))

    def _chosen_among(
        self,
        rows: dict[str, Rows],
        own: Codes,
        y: Codes,
        mark: Array,
        w: Floats | None,
        classes: Codes | None,
        n_jobs: int | None,
    ) -> Chosen:
        """The weights fitted on rows of classes `own`, which are y among `classes`, or among all of them."""
        evidence = self.evidence_without(rows, own, w, n_jobs, approximate=True, classes=classes)
        log_prior = among(log_class_prior("empirical", self.sums.weight), classes)
        weight_prior, doubts = self.weight_prior(), CLOSED_FORM_DOUBTS
        if len(y) < NO_FOLD_FROM:
            distinct = distinct_marks(mark, own)
            folds = Folds.of(distinct, y, len(log_prior), 10 if len(y) < TEN_FOLDS_BELOW else 5)
            fold = folds.which(distinct, y)
            if len(y) < CLOSED_FORM_FROM:
                parts = (self._part(rows, own, w, fold == f, fold != f, classes, n_jobs) for f in range(folds.count))
                return cross_fit(evidence, y, log_prior, w, folds, distinct, parts, weight_prior)
            used = (fold == 1) | (fold == 2)  # enough to compare doubts
            part = self._part(rows, own, w, fold == 0, used, classes, n_jobs)
            doubts = (best_doubt(part, y, w, weight_prior, FOLD_DOUBTS, overwrite=True),)
        vectors = Vectors(evidence, y, log_prior, w, overwrite=True)
        return closed_fit(vectors, int(mark.max()), weight_prior, doubts, PAIRWISE_FACTOR, CAUTIOUS_FACTOR)[0]

    def with_default_choice(self) -> Graded:
        """With the default choice, its pseudo-counts from the present sums."""
        return replace(self, choice=replace(self, choice=None).default_choice())

    def with_choice(self, chosen: Chosen) -> Graded:
        """With these fitted weights, and the present pseudo-counts, factors and ridges."""
        fixed = self.strengths(), self.shares().factor, self.ridges()
        found = None if self.choice is None else self.choice.importance
        choice = TextChoice(*fixed, chosen.pool, self.classes, chosen.left_out, chosen.doubts, found)
        return replace(self, choice=choice)

    def weight_prior(self) -> WeightPrior:
        """The prior of the weights."""
        return WeightPrior(PRIOR_DOCUMENTS, self.default_choice().pool.weights, 1.0)

    def _part(
        self,
        rows: dict[str, Rows],
        y: Codes,
        weight: Floats | None,
        removed: Array,
        used: Array,
        classes: Codes | None,
        n_jobs: int | None,
    ) -> FoldPart:
        """The evidence of the documents `removed` from the sums, and of those `used` to fit on, for `classes`."""
        amount, out, rest = np.ones(len(y)) if weight is None else weight, np.flatnonzero(removed), np.flatnonzero(used)
        removed_rows = take_rows(rows, out), y[out], self.classes, amount[out], self.sums.common, n_jobs
        model = replace(self, sums=self.sums.less(sums_of(self.sums.lexicon, *removed_rows)))
        remaining = model.sums.weight
        rest, out = rest[remaining[y[rest]] > amount[rest] * (1.0 + 1e-9)], out[remaining[y[out]] > 0]
        w = None if weight is None else weight[rest]
        inside = model.evidence_without(take_rows(rows, rest), y[rest], w, n_jobs, approximate=True, classes=classes)
        outside = model.evidence(take_rows(rows, out), n_jobs, classes)
        return FoldPart(rest, inside, out, outside, among(log_class_prior("empirical", remaining), classes))

    def fill(
        self,
        rows: Texts,
        codes: Codes,
        weight: Floats | None = None,
        hidden: Hidden = AS_LABELLED,
        n_jobs: int | None = None,
        watch: Callable[[int, float], None] | None = None,
    ) -> Graded:
        """With documents whose label is missing (code −1), shared among the classes by the posterior of this model.

        The posterior of a labelled document that this used would be overconfident. So weights are fitted on documents
        whose own label was left out while missing labels were guessed: each third in turn. The doubts are those chosen
        on only the labelled documents.
        """
        mark, unlabelled = marks(rows.strings()), int((codes < 0).sum())
        unlimited = replace(self, sums=replace(self.sums, limit=self.sums.limit._replace(most=None)))
        model = unlimited._filled(
            rows.batches(), codes, mark, weight, hidden.weight, n_jobs, watch or (lambda *_: None)
        )
        sums, _ = replace(model.sums, limit=self.sums.limit).cut()
        return replace(model, sums=sums, unlabelled=self.unlabelled + unlabelled)

    def _filled(
        self,
        batches: Iterable[Documents],
        codes: Codes,
        mark: Array,
        weight: Floats | None,
        hidden_weight: float,
        n_jobs: int | None,
        watch: Callable[[int, float], None],
    ) -> Graded:
        lexicon, rows = read_in_order(batches, self.sums.lexicon, self.sums.blocks, n_jobs)
        base = replace(self, sums=self.sums.in_lexicon(lexicon))
        amount = np.ones(len(codes)) if weight is None else weight
        known, hidden = (np.flatnonzero((codes >= 0) == labelled) for labelled in (True, False))
        unknown = take_rows(rows, hidden)

        def with_hidden(model: Graded) -> Graded:
            guessed = model.posterior(unknown, n_jobs)
            return replace(
                model, sums=model.sums + shared_out(model.sums, unknown, guessed, hidden_weight * amount[hidden])
            )

        whole = with_hidden(base)
        fold = np.empty(len(known), dtype=np.intp)
        fold[np.argsort(codes[known], kind="stable")] = np.arange(len(known)) % N_FOLDS_FOR_HIDDEN
        vectors, order = [], []
        for f in range(N_FOLDS_FOR_HIDDEN):
            watch(f + 1, 0.0)
            rest, out = known[fold != f], known[fold == f]
            some = take_rows(rows, rest), codes[rest], self.classes, amount[rest], self.sums.common, n_jobs
            part = sums_of(lexicon, *some)
            model = replace(self, sums=part)._chosen_by(
                take_rows(rows, rest), codes[rest], mark[rest], amount[rest], n_jobs
            )
            out = out[part.weight[codes[out]] > 0]  # classes that still have documents without them
            if len(out) and model.choice is not None:
                full = replace(with_hidden(model), choice=whole.choice)  # the pseudo-counts are those of all
                vectors.append(full.evidence(take_rows(rows, out), n_jobs))
                order.append(out)
        which = np.concatenate([np.zeros(0, dtype=np.intp), *order])
        if len(np.unique(codes[which])) < 2 or base.choice is None:
            return whole
        log_prior = log_class_prior("empirical", whole.sums.weight)
        labelled = Vectors(np.concatenate(vectors), codes[which], log_prior, None if weight is None else amount[which])
        doubts, shares = zip(*(base.choice.doubts or ((CLOSED_FORM_DOUBTS[0], 1.0),)), strict=True)
        pools = whole.weight_prior().fit(labelled, doubts, 1e-7)
        return whole.with_choice(Chosen(Pool.mean(pools, np.array(shares)), None, base.choice.doubts))

    def posterior(self, rows: dict[str, Rows], n_jobs: int | None = None) -> Floats:
        """P(y | x) of rows numbered as the lexicon numbers them."""
        return np.asarray(bayes.posterior(self.pooled_rows(rows, n_jobs), self.log_prior))

    def pooled_rows(self, rows: dict[str, Rows], n_jobs: int | None = None) -> Floats:
        """`pooled` for rows numbered as the lexicon numbers them."""
        out = np.empty((length(rows), len(self.classes)))
        for at in self._slices(length(rows)):
            out[at] = self.pooled(self.evidence(take_rows(rows, at), n_jobs), self.log_prior)
        return out

    def _slices(self, n: int) -> Iterator[Array]:
        """Row numbers in slices whose evidence has at most MAX_EVIDENCE_ENTRIES."""
        step = max(1, MAX_EVIDENCE_ENTRIES // (self.vectors * max(1, len(self.classes))))
        return (np.arange(first, min(n, first + step)) for first in range(0, n, step))

    def default_choice(self) -> TextChoice:
        """The choice before there are documents to fit on: every block equally, with moderate weights."""
        weights = np.zeros((len(self.sums.blocks), len(STRENGTHS), VECTORS))
        weights[:, STRENGTHS.index(1.0), -2] = DEFAULT_WEIGHT
        weights[:, STRENGTHS.index(1.0), -1] = DEFAULT_WEIGHT / np.sqrt(len(weights))
        ridges = self.ridges()
        pool = Pool(np.append(weights, np.zeros(len(ridges))), np.zeros(len(self.classes)))
        return TextChoice(self.strengths(), self.shares().factor, ridges, pool, self.classes)


def shared_out(sums: TextSums, rows: dict[str, Rows], posterior: Floats, amount: Floats) -> TextSums:
    """The sums of documents shared among classes; shares below a hundredth of the largest are dropped."""
    shares = np.where(posterior >= 0.01 * posterior.max(axis=1, keepdims=True), posterior, 0.0)
    shares = shares / shares.sum(axis=1, keepdims=True) * amount[:, None]
    row, y = np.nonzero(shares)
    some = take_rows(rows, row), y.astype(np.int32), sums.classes, shares[row, y], sums.common
    return sums_of(sums.lexicon, *some)


def pseudo_cells(prior: Mapping[str, Any], items: Codes, classes: Array, unit: Floats) -> tuple[Codes, ItemSums]:
    """The user's pseudo-counts, {word: n} for every class or {word: {class: n}}, as sums of the words' items, which are
    ascending; n is in units of `unit`, by class. With hashing, several words may be one item."""
    labels = classes.tolist()
    by_word: dict[int, Floats] = {}
    for item, value in zip(items.tolist(), prior.values(), strict=True):
        mine = [float(value.get(c, 0.0)) if isinstance(value, Mapping) else float(value) for c in labels]
        by_word[item] = by_word.get(item, 0.0) + np.array(mine)
    which = np.array(sorted(by_word), dtype=np.int32)
    table = np.array([by_word[item] * unit for item in which.tolist()])
    row, cls = np.nonzero(table > 0)
    ptr = np.concatenate([[0], np.cumsum((table > 0).sum(axis=1))]).astype(np.int64)
    return which, ItemSums(ptr, cls.astype(np.int32), table[row, cls])


def among(log_prior: Floats, classes: Codes | None) -> Floats:
    """The log prior of only these classes; None means all."""
    return log_prior if classes is None else np.asarray(log_prior[classes] - np.logaddexp.reduce(log_prior[classes]))


def length(rows: dict[str, Rows]) -> int:
    return len(next(iter(rows.values()))[0]) - 1


def read_in_order(
    batches: Iterable[Documents], lexicon: Items, blocks: Sequence[str], n_jobs: int | None
) -> tuple[Items, dict[str, Rows]]:
    """The lexicon extended by new items, and all documents as rows in their order."""
    lexicon = lexicon.copy()
    rows, order = read_all(lexicon, batches, blocks, n_jobs)
    return lexicon, take_rows(rows, np.argsort(order))


def read_all(
    lexicon: Items, batches: Iterable[Documents], blocks: Sequence[str], n_jobs: int | None
) -> tuple[dict[str, Rows], Array]:
    """All documents as rows numbered by the lexicon, which is extended; and the document of each row."""
    pieces, order, start = [], [np.zeros(0, dtype=np.intp)], 0
    for documents in batches:
        which, piece = read_into(lexicon, documents, blocks, n_jobs)
        order.append(which + start)
        pieces.append(piece)
        start += len(documents)
    return {block: stacked([piece[block] for piece in pieces]) for block in blocks}, np.concatenate(order)


def take_rows(rows: dict[str, Rows], which: Array) -> dict[str, Rows]:
    return {block: some_rows(mine, which) for block, mine in rows.items()}


def numbered(
    documents: Documents, lexicon: Items, blocks: Sequence[str], n_jobs: int | None
) -> Iterator[tuple[Array, dict[str, Rows]]]:
    """Documents as rows numbered by the lexicon (−1: unknown), in pieces, each with its document numbers."""

    def work(documents: Documents, start: int, stop: int) -> tuple[Array, dict[str, Rows]]:
        return np.arange(start, stop), lexicon.numbered(documents, start, stop, blocks)

    yield from over_blocks(lexicon.rule.prepared(documents), n_jobs, work)
