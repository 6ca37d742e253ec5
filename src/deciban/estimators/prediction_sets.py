"""Prediction sets of any classifier: which rows new ones are compared with, and how.

There are three ways. Full conformal, if the sums determine everything: a row is added to them, others are left out.
Cross-conformal, for models that make choices from rows: refits, each without a fifth of them. And scores stored with
the model, if no learned rows are available.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from deciban._typing import Array, Floats
from deciban.corollaries.conformal import (
    CROSS,
    FULL,
    STORED,
    PredictionSets,
    Strangeness,
    check_coverage,
    promise,
    share,
    strangeness,
    thresholds,
)
from deciban.corollaries.full_conformal import FullConformal
from deciban.corollaries.leave_one_out import random_subset
from deciban.errors import DecibanError
from deciban.joint_model import JointModel
from deciban.pool import distinct_marks
from deciban.reading.given import Rows
from deciban.reading.labels import Labels, read_labels, read_weights
from deciban.schema import find
from deciban.show import bar, plain

WAYS = {"full": FULL, "cross": CROSS, "stored": STORED}
FOLDS = 5
MAX_COMPARED_ROWS = 4096  # random rows to compare new ones with, if the sums contain the others
MAX_KEPT_ROWS = 20_000  # rows kept for refits: all or none
MAX_KEPT_ENTRIES = 1 << 22  # values of the kept rows
MIN_KEPT_ROWS = 200  # random rows are kept only if there are this many, or all
NOT_SAVED = ("_learned_rows_", "_set_predictors")  # attributes kept in memory, but not in files or pickles


@dataclass(frozen=True, slots=True, eq=False)
class LearnedRows:
    """Rows with their labels, as `fit` was given them."""

    rows: Rows
    labels: Labels
    weight: Floats | None = None
    how: Mapping[str, Any] = field(default_factory=dict)  # further arguments of `fit`

    @property
    def size(self) -> int:
        return self.rows.size

    @property
    def y(self) -> Array:
        """The labels, or None."""
        if not self.labels.any_missing:
            return np.asarray(self.labels.classes[self.labels.codes])
        return np.array([*self.labels.classes.tolist(), None], dtype=object)[self.labels.codes]

    def some(self, rows: Array) -> LearnedRows:
        """Some of the rows; a copy."""
        labels = replace(self.labels, codes=self.labels.codes[rows])
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, rows=Rows.of(self.rows.take(rows)), labels=labels, weight=weight)

    def check_whole_weights(self) -> None:
        """A row of weight 2 is two rows, but half a row is not exchangeable with others."""
        if self.weight is not None and (self.weight % 1.0).any():
            row = int(np.argmax(self.weight % 1.0 > 0))
            raise DecibanError(
                f"sample_weight is {self.weight[row]:g} in row {row}: prediction sets count rows, so weights must be "
                "whole numbers"
            )


class Compared(Protocol):
    """Learned rows, prepared for comparisons with new ones."""

    @property
    def estimator(self) -> Any:
        """The estimator that learned them."""

    @property
    def model(self) -> Any:
        """Its model when they were prepared."""

    @property
    def way(self) -> str:
        """One of FULL, CROSS and STORED."""

    @property
    def rows(self) -> Floats:
        """The number of rows of each class, (k,)."""

    @property
    def folds(self) -> int:
        """The number of refits."""

    def p_values(self, X: Any, by_class: bool) -> Floats:
        """The p-value of every class for every new row, (n, k)."""


def predict_set(
    estimator: Any, X: Any, coverage: float, by_class: bool, rows: Any, way: str, allow_empty: bool
) -> PredictionSets:
    """For every row the classes that cannot be ruled out."""
    coverage = check_coverage(coverage)
    if estimator._engine(X) is not None:
        raise DecibanError("predict_set takes rows in memory: read them in batches, and call it for each batch")
    estimator._check_classes()
    compared = estimator.compared_with(rows, way)
    p_values = compared.p_values(X, by_class)
    likeliest = None if allow_empty else np.argmax(estimator.predict_log_proba(X), axis=1)
    guarantee = promise(compared.way, coverage, by_class, compared.rows, compared.folds)
    return PredictionSets(
        estimator.classes_, p_values, coverage, by_class, compared.way, guarantee, compared.rows, likeliest
    )


def calibrated(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Strangeness:
    """How strange learned rows are, each left out."""
    estimator._check_classes()
    if X is not None and estimator._engine(X, y) is not None:
        raise DecibanError("calibrate takes rows in memory: a random sample of the training rows is enough")
    learned = needed_rows(estimator) if X is None else as_learned(estimator, X, y, sample_weight)
    rows = random_subset(np.flatnonzero(learned.labels.codes >= 0), MAX_COMPARED_ROWS)
    left_out = learned.some(rows)
    return Strangeness.of_judged(estimator.leave_one_out(left_out.rows.X, left_out.y, left_out.weight)).thinned()


# ------------------------------------------------------------------ what new rows are compared with


def compared_with(estimator: Any, rows: Any, way: str) -> Compared:
    """Learned rows to compare new ones with."""
    if way not in ("auto", *WAYS):
        raise ValueError(f"way is {way!r}: it must be 'auto', {', '.join(map(repr, WAYS))}")
    if isinstance(rows, Full | Cross | Stored):
        if rows.estimator is not estimator or rows.model is not estimator.model_:
            raise DecibanError("rows was prepared for another model, or before this one changed: prepare it again")
        return rows
    if rows is not None and way != "stored":
        if not isinstance(rows, list | tuple) or len(rows) not in (2, 3):
            raise ValueError("rows must be (X, y) or (X, y, sample_weight), with rows that the model has learned")
        return prepared(estimator, as_learned(estimator, *rows), way)
    kept = None if way == "stored" else estimator._kept_rows()
    if kept is None:
        if way in ("auto", "stored") and estimator.calibration_ is not None:
            return Stored(estimator, estimator.model_, estimator.calibration_)
        if way == "stored":
            raise DecibanError("the model has no stored scores: store them with calibrate(X, y)")
        needed_rows(estimator)
    assert kept is not None
    ready: dict[str, Compared] = estimator.__dict__.setdefault("_set_predictors", {})
    if way not in ready:
        ready[way] = prepared(estimator, kept, way)
    return ready[way]


def prepared(estimator: Any, learned: LearnedRows, way: str) -> Compared:
    learned.check_whole_weights()
    if getattr(estimator.model_, "privacy", None) is not None:
        raise DecibanError(
            f"{estimator.model_.why_inexact}, so new rows cannot be compared with those it has learned: evaluate it on "
            "rows that it has not learned"
        )
    if way == "full" or (way == "auto" and sums_decide(estimator.model_)):
        full = Full.of(estimator, learned)
        if way == "full" or full.conformal.affordable:
            return full
    return Cross.of(estimator, learned)


def chosen_by_rows(model: Any) -> str:
    """What was chosen from rows, so that one more row might change it; "" if nothing."""
    if not isinstance(model, JointModel):
        return "the weights of its evidence were fitted on rows"
    return (model.choice.why(model) if model.choice is not None else "") or model.why_inexact


def sums_decide(model: Any) -> bool:
    """Whether the model is a fixed function of its sums, and rows are cheap to take out."""
    if not isinstance(model, JointModel):
        return False
    quick = all(block.family.downdates(block.alpha) for block in model.joint.blocks)
    return quick and not chosen_by_rows(model)


# ------------------------------------------------------------------ rows that are kept


def as_learned(estimator: Any, X: Any, y: Any, weight: Any = None) -> LearnedRows:
    """Rows with their labels, as `fit` is given them."""
    X, y = estimator._split(X, y)
    rows = Rows.of(X)
    labels = read_labels(y, rows.size)
    if labels.soft is not None:
        raise DecibanError("prediction sets need one label per row, not a matrix of weights")
    return LearnedRows(rows, labels, None if weight is None else read_weights(weight, rows.size))


def keep(estimator: Any, X: Any, labels: Labels, weight: Floats | None, how: dict[str, Any]) -> None:
    """Keep the rows given to `fit`, if they are small; if the sums decide, a random sample of them."""
    if X is None or labels.soft is not None or isinstance(X, Iterator):
        return
    learned = LearnedRows(Rows.of(X), labels, weight, how)
    n = learned.size
    if n != len(labels.codes):  # rows of weight zero were left out while reading
        return
    entries, kept = learned.rows.entries, np.arange(n)
    if sums_decide(estimator.model_):
        limit = min(MAX_COMPARED_ROWS, MAX_KEPT_ENTRIES * n // max(1, entries))
        if limit < min(n, MIN_KEPT_ROWS) or (n > limit and learned.weight is not None):
            return
        if n > limit:
            kept = random_subset(kept, limit)
    elif n > MAX_KEPT_ROWS or entries > MAX_KEPT_ENTRIES:
        return
    estimator._learned_rows_ = learned.some(kept)


def needed_rows(estimator: Any) -> LearnedRows:
    kept: LearnedRows | None = estimator._kept_rows()
    if kept is None:
        raise DecibanError(
            "there are no training rows to compare new rows with: fit keeps only small data, and model files never "
            "contain rows. Pass rows=(X, y), or store scores beforehand with calibrate(X, y)"
        )
    return kept


def refit(estimator: Any, learned: LearnedRows, rows: Array) -> Any:
    """The same model refitted, on some of the rows."""
    weight = None if learned.weight is None else learned.weight[rows]
    return clone(estimator).fit(learned.rows.take(rows), learned.y[rows], weight, **learned.how)


# ------------------------------------------------------------------ the three ways


@dataclass(frozen=True, slots=True, eq=False)
class Full:
    """Every row added to the sums, and every other left out of them."""

    estimator: Any
    model: Any
    conformal: FullConformal
    way: str = FULL
    folds: int = 0

    @classmethod
    def of(cls, estimator: Any, learned: LearnedRows) -> Full:
        if learned.labels.any_missing:
            raise DecibanError("way='full' needs every row's label: leave out rows that have none")
        if why := chosen_by_rows(estimator.model_):
            raise DecibanError(f"way='full' needs a model that depends on its sums only, and {why}: use way='cross'")
        counted = np.arange(learned.size) if learned.weight is None else np.flatnonzero(learned.weight)
        weight = None if learned.weight is None else learned.weight[counted]
        rows, codes, weight = estimator._learned_rows(learned.rows.take(counted), learned.y[counted], weight)
        estimator.model_.check_learned(codes, weight)
        return cls(estimator, estimator.model_, FullConformal.of(estimator.model_, rows.data, codes, weight))

    @property
    def rows(self) -> Floats:
        return self.conformal.rows

    def p_values(self, X: Any, by_class: bool) -> Floats:
        return self.conformal.p_values(self.estimator._rows(X).data, by_class)


@dataclass(frozen=True, slots=True, eq=False)
class Cross:
    """Refits, each without a fold of the rows: new rows are compared with that fold under the refit."""

    estimator: Any
    model: Any
    classes: Array
    models: tuple[Any, ...]
    scores: tuple[Strangeness, ...]  # of the rows that each refit has not seen
    way: str = CROSS

    @classmethod
    def of(cls, estimator: Any, learned: LearnedRows) -> Cross:
        classes, labels = estimator.classes_, learned.labels
        unknown = [plain(label) for label in labels.classes if label not in set(classes.tolist())]
        if unknown:
            raise DecibanError(f"the model has learned nothing of class {unknown[0]!r}")
        codes = np.where(labels.codes < 0, -1, find(labels.classes, classes)[labels.codes]).astype(np.int32)
        if learned.weight is not None:
            codes = np.where(learned.weight > 0, codes, np.int32(-1))
        known = np.flatnonzero(codes >= 0)
        folds = min(FOLDS, len(known))
        fold = np.full(len(codes), -1)
        fold[known] = fold_of(learned.rows.digests()[known], codes[known], max(1, folds))
        models, scores = [], []
        with bar("refits", folds, "folds") as watch, quietly():
            for f in range(folds if folds > 1 else 0):
                held_out = np.flatnonzero(fold == f)
                model = refitted(estimator, learned, np.flatnonzero(fold != f))
                log_proba = in_classes(model.predict_log_proba(learned.rows.take(held_out)), model.classes_, classes)
                own_scores = strangeness(log_proba)[np.arange(len(held_out)), codes[held_out]]
                weight = None if learned.weight is None else learned.weight[held_out]
                models.append(model)
                scores.append(Strangeness.of(own_scores, codes[held_out], len(classes), weight))
                watch(f + 1)
        return cls(estimator, estimator.model_, classes, tuple(models), tuple(scores))

    @property
    def folds(self) -> int:
        return len(self.models)

    @property
    def rows(self) -> Floats:
        total = np.zeros(len(self.classes))
        for scores in self.scores:
            total += scores.rows
        return total

    def p_values(self, X: Any, by_class: bool) -> Floats:
        if not self.models:  # a single row is no evidence about another
            return np.ones((Rows.of(X).size, len(self.classes)))
        total = np.zeros((1, len(self.classes)))
        with quietly():
            for model, scores in zip(self.models, self.scores, strict=True):
                log_proba = in_classes(model.predict_log_proba(X), model.classes_, self.classes)
                total = total + scores.at_least(thresholds(log_proba), by_class)
        return share(total, self.rows, by_class)


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Scores stored with the model."""

    estimator: Any
    model: Any
    scores: Strangeness
    way: str = STORED
    folds: int = 0

    @property
    def rows(self) -> Floats:
        return self.scores.rows

    def p_values(self, X: Any, by_class: bool) -> Floats:
        return self.scores.p_values(self.estimator.predict_log_proba(X), by_class)


def fold_of(digests: Array, codes: Array, folds: int) -> Array:
    """A fold for every row, stratified by class, independent of the order of the rows.

    Rows are assigned in the order of hashes of their content and of how many equal rows came before, so that equal rows
    are spread at random, too.
    """
    shuffled = np.lexsort((distinct_marks(digests, codes), codes))
    out = np.empty(len(shuffled), dtype=np.intp)
    out[shuffled] = np.arange(len(shuffled)) % folds
    return out


def refitted(estimator: Any, learned: LearnedRows, rows: Array) -> Any:
    try:
        return refit(estimator, learned, rows)
    except (ValueError, DecibanError) as error:
        raise DecibanError(
            f"prediction sets need refits without a fifth of the rows, and one failed: {error}"
        ) from error


def in_classes(log_proba: Floats, own: Array, classes: Array) -> Floats:
    """Columns for all classes: a class without rows in a refit has −∞."""
    if len(own) == len(classes):
        return log_proba
    out = np.full((len(log_proba), len(classes)), -np.inf)
    out[:, find(own, classes)] = log_proba
    return out


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings: the fit on all rows has issued them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
