"""Methods and attributes of text estimators, written once and assigned, as `attributes` are for the others."""

from __future__ import annotations

import copy
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from deciban.errors import DecibanError
from deciban.estimators.base import Estimator
from deciban.estimators.changes import changing
from deciban.estimators.prediction_sets import MAX_KEPT_ROWS
from deciban.reading.labels import read_labels
from deciban.show import Table
from deciban.text.common import RIDGES
from deciban.text.graded import Graded
from deciban.text.hashed import MAX_BUCKETS
from deciban.text.kept import Kept, chosen_by, rechosen
from deciban.text.plain import Plain
from deciban.text.tables import KNOTS, STRENGTHS

N_FEATURES_CONSTRAINT = [Interval(Integral, 1, MAX_BUCKETS, closed="both"), None]  # constraint of n_features
MAX_FEATURES_CONSTRAINT = [Interval(Integral, 1, None, closed="left"), None]  # of max_features
NO_DENSITY = "p(x) needs a plain generative model: use reliability=None and a family other than complement"

# ------------------------------------------------------------------ inspection


def top_words(self: Any, target: Any = None, n: int = 10) -> Table:
    """The words of strongest evidence for a class (or each) against the others, in decibans.

    It is the mean evidence in the documents of `importance()` that contain the word, so it has the scale of `explain`;
    `rows` is the number of these documents. If none is stored (reliability=None, `n_features`, older files), it is the
    evidence of a word on its own. With `n_features` words are not kept, and buckets are listed by name, "#12345".
    """
    self._check_classes()
    only = None if target is None else self.model_.code_of(target)
    table: Table = self.model_.strongest_table(n, "words", "word", only)
    return table


def _vocabulary(self: Any) -> dict[str, int]:
    """The learned words and their numbers."""
    check_is_fitted(self)
    model: Graded | Plain = self.model_
    if model.n_features is not None:
        raise AttributeError(f"there is no vocabulary: n_features is {model.n_features}, so no word is stored")
    if isinstance(model, Plain):
        return {word: i for i, word in enumerate(model.words.strings())}
    counted = np.diff(model.sums.cells["words"].ptr) > 0
    words = model.sums.lexicon.names("words", np.arange(len(counted), dtype=np.int32))
    return {word: i for i, word in enumerate(words) if counted[i] or word in model.prior}


def _alpha(self: Any) -> Any:
    """The pseudo-counts in use if reliability is None."""
    check_is_fitted(self)
    if not isinstance(self.model_, Plain):
        raise AttributeError("with reliability there are several strengths: see reliability_")
    return self.model_.model.alpha()


def _reliability(self: Any) -> Table:
    """The weight of each part of the evidence; parts of weight zero are left out."""
    check_is_fitted(self)
    if not isinstance(self.model_, Graded):
        raise AttributeError("reliability is None, so the evidence is not weighted")
    choice = self.model_.effective_choice
    kinds = [f"information {np.exp(knot):.3g}" for knot in KNOTS] + ["all, equally", "all, by information"]
    rows = [
        (block, mu, kind, float(weight))
        for block in self.model_.sums.blocks
        for mu, weights in zip(STRENGTHS, choice.weights(block), strict=True)
        for kind, weight in zip(kinds, weights, strict=True)
        if weight > 0
    ]
    rows += [
        ("common", ridge, "modelled jointly", float(weight))
        for ridge, weight in zip(RIDGES, choice.ridge_weights, strict=False)
        if weight > 0
    ]
    return Table("reliability of the evidence", ("block", "pseudo-counts", "items", "weight"), rows)


def _n_dropped(self: Any) -> int:
    """How many words, pairs and other items were dropped so far, because there were more than `max_features`."""
    check_is_fitted(self)
    return int(self.model_.limit.dropped)


def _kept(self: Any) -> Kept:
    """The documents kept in memory for choices."""
    check_is_fitted(self)
    documents: Kept = self.model_.kept
    return documents


vocabulary = property(_vocabulary)
alpha = property(_alpha)
reliability = property(_reliability)
kept = property(_kept)
n_dropped = property(_n_dropped)

# ------------------------------------------------------------------ learning


def refit_reliability(self: Any, X: Any = None, y: Any = None, sample_weight: Any = None) -> Any:
    """Fit the reliabilities again (or alpha="loo"), by leave-one-out over documents that the model has learned.

    By default over those that it kept: all, or a few thousand of them. A model read from a file has kept none.
    """
    with changing(self) as new:
        check_is_fitted(new)
        new._check_exact("no document can be left out exactly: fit again")
        if not new.model_.chooses:
            raise DecibanError("there is nothing to choose: reliability is None, and alpha is not 'loo'")
        if X is None:
            new.model_ = rechosen(new.model_, new.model_.kept, new.n_jobs)
        else:
            texts, labels, weight = new._read(X, y, sample_weight, reset=False, least=0)
            new.model_ = chosen_by(new.model_, texts, labels, weight, new.n_jobs)
    return self


def with_more_rows(self: Any, X: Any, labels: Any, weight: Any) -> Any:
    """The model with more texts, and with as many items as `max_features` allows now."""
    self.model_ = self.model_.with_limit(self.max_features)
    return Estimator._with_more_rows(self, X, labels, weight)


def rows_with_weight(self: Any, X: Any, y: Any, sample_weight: Any, some: bool = False) -> tuple[Any, Any, Any]:
    """Texts, labels and weights without those of weight zero."""
    del some
    weight = None if sample_weight is None else np.asarray(sample_weight)
    if weight is None or weight.ndim != 1 or weight.all() or y is None:
        return X, y, sample_weight
    texts = self._reader().texts(X)
    if len(texts) != len(weight):
        return texts, y, sample_weight  # reading the weights raises an error for their length
    rows = np.flatnonzero(weight)
    labels = read_labels(y, len(texts))
    values = np.array([*labels.classes.tolist(), None], dtype=object)[labels.codes[rows]]
    return texts.take(rows), values, weight[rows]


def rows_to_keep(self: Any, given: Any, X: Any) -> Any:
    """Texts as they were read, so that mails are not parsed again; None if they are already kept for choices."""
    del given
    return None if len(X) > MAX_KEPT_ROWS or self.model_.every_row() is not None else X


# ------------------------------------------------------------------ learning on engines


def learned_on_engine(self: Any, engine: Any, split: Any, hidden: Any, clusters: int | None) -> Any:
    """The model of all texts of an engine."""
    from deciban.estimators import on_engines

    return on_engines.learn_texts(self, engine, split, hidden, clusters)


def template(self: Any, X: Any, y: Any, weight: Any, classes: Any = None) -> Any:
    """A copy that has made all choices on a sample, and has learned nothing."""
    part = copy.copy(self)
    part.__dict__.pop("model_", None)
    return (part.fit(X, y, weight) if classes is None else part.partial_fit(X, y, classes, weight)).empty()


def chosen_by_sample(self: Any, X: Any, y: Any, weight: Any) -> Any:
    """The model with what leave-one-out chooses by the texts of a sample, which were all learned."""
    if not self.model_.chooses:
        return self.model_
    texts, labels, weight = self._read(X, y, weight, reset=False, least=0)
    return chosen_by(self.model_, texts, labels, weight, self.n_jobs)


# ------------------------------------------------------------------ saving


def about(self: Any) -> dict[str, Any]:
    """What a file contains about the estimator besides its parameters."""
    return {"n_unlabelled": self.model_.unlabelled}


def restored(
    model: Any, about: dict[str, Any], plain: bool, n_features: int | None, max_features: int | None
) -> Graded | Plain:
    """The model of a file, checked against the parameters, with automatic choices."""
    if isinstance(model, Plain) != plain:
        raise ValueError("its model does not match its parameters")
    if model.n_features != n_features:
        raise ValueError("its buckets do not match its parameters")
    unlabelled = int(about["n_unlabelled"])
    if unlabelled < 0:
        raise ValueError("the number of documents without a label is negative")
    checked: Graded | Plain = replace(model, unlabelled=unlabelled, choosing=True)
    return checked.with_limit(max_features)
