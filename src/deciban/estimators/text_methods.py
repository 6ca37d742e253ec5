"""Methods and attributes of estimators of texts, written once and taken over, as `attributes` are by the others."""

from __future__ import annotations

import copy
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from deciban.errors import DecibanError
from deciban.estimators.prediction_sets import KEPT_ROWS
from deciban.reading.labels import read_labels
from deciban.show import Table
from deciban.text.common import RIDGES
from deciban.text.graded import Graded
from deciban.text.hashed import MAX_BUCKETS
from deciban.text.kept import Kept, chosen_by, rechosen
from deciban.text.plain import Plain
from deciban.text.tables import KNOTS, STRENGTHS

BUCKETS = [Interval(Integral, 1, MAX_BUCKETS, closed="both"), None]  # what n_features may be
NO_DENSITY = "p(x) is what a plain generative model has: reliability=None and no complement family"

# ------------------------------------------------------------------ looking inside


def top_words(self: Any, target: Any = None, n: int = 10) -> Table:
    """The words that speak most for a class (or each) against the others, in decibans.

    That is what a word says on its own. With `n_features` words are not kept, and buckets are named, "#12345".
    With reliability, a text's words are weighed beside each other before they are added up: `explain` says what
    each of them came to there, which is less.
    """
    self._check_classes()
    only = None if target is None else self.model_.code_of(target)
    found: Table = self.model_.strongest_table(n, "words", "word", only)
    return found


def _vocabulary(self: Any) -> dict[str, int]:
    """The words that were learned, each with its number."""
    check_is_fitted(self)
    model: Graded | Plain = self.model_
    if model.n_features is not None:
        raise AttributeError(f"there is no vocabulary: n_features is {model.n_features}, and no word is kept")
    if isinstance(model, Plain):
        return {word: i for i, word in enumerate(model.words.strings())}
    counted = np.diff(model.sums.cells["words"].ptr) > 0
    words = model.sums.lexicon.names("words", np.arange(len(counted), dtype=np.int32))
    return {word: i for i, word in enumerate(words) if counted[i] or word in model.prior}


def _alpha(self: Any) -> Any:
    """The pseudo-counts in use where reliability is None."""
    check_is_fitted(self)
    if not isinstance(self.model_, Plain):
        raise AttributeError("with reliability, several strengths are weighed: see reliability_")
    return self.model_.model.alpha()


def _reliability(self: Any) -> Table:
    """How far each part of the evidence is believed; parts that are not are left out."""
    check_is_fitted(self)
    if not isinstance(self.model_, Graded):
        raise AttributeError("a plain model believes its family: reliability is None")
    choice = self.model_.effective_choice
    kinds = [f"know {np.exp(knot):.3g}" for knot in KNOTS] + ["all alike", "by what they know"]
    rows = [
        (block, mu, kind, float(weight))
        for block in self.model_.sums.blocks
        for mu, mine in zip(STRENGTHS, choice.weights(block), strict=True)
        for kind, weight in zip(kinds, mine, strict=True)
        if weight > 0
    ]
    rows += [
        ("common", ridge, "are taken together", float(weight))
        for ridge, weight in zip(RIDGES, choice.ridge_weights, strict=False)
        if weight > 0
    ]
    return Table("reliability of the evidence", ("block", "pseudo-counts", "items that", "weight"), rows)


def _kept(self: Any) -> Kept:
    """The documents that are kept in memory to choose by."""
    check_is_fitted(self)
    found: Kept = self.model_.kept
    return found


vocabulary = property(_vocabulary)
alpha = property(_alpha)
reliability = property(_reliability)
kept = property(_kept)

# ------------------------------------------------------------------ learning


def refit_reliability(self: Any, X: Any = None, y: Any = None, sample_weight: Any = None) -> Any:
    """Fit the reliabilities anew (or alpha="loo"), by leave-one-out over documents that the model has learned.

    Without any given, over those that it kept: all of a few thousand, or as many of more. A model read from a file
    has kept none.
    """
    check_is_fitted(self)
    self._check_exact("no document can be taken out exactly: fit again")
    if not self.model_.chooses:
        raise DecibanError("there is nothing to choose: reliability is None, and alpha is not 'loo'")
    with self._unchanged_on_error():
        if X is None:
            self.model_ = rechosen(self.model_, self.model_.kept, self.n_jobs)
        else:
            texts, labels, weight = self._read(X, y, sample_weight, reset=False, least=0)
            self.model_ = chosen_by(self.model_, texts, labels, weight, self.n_jobs)
    return self


def that_count(self: Any, X: Any, y: Any, sample_weight: Any, some: bool = False) -> tuple[Any, Any, Any]:
    """Texts, labels and weights: what weighs nothing is not even looked at."""
    del some
    weight = None if sample_weight is None else np.asarray(sample_weight)
    if weight is None or weight.ndim != 1 or weight.all() or y is None:
        return X, y, sample_weight
    texts = self._reader().texts(X)
    if len(texts) != len(weight):
        return texts, y, sample_weight  # whose length is complained of where weights are read
    rows = np.flatnonzero(weight)
    labels = read_labels(y, len(texts))
    values = np.array([*labels.classes.tolist(), None], dtype=object)[labels.codes[rows]]
    return texts.take(rows), values, weight[rows]


def rows_to_keep(self: Any, given: Any, X: Any) -> Any:
    """Texts as they were read, for a mail is not parsed again; and not twice, if they are kept to choose by."""
    del given
    return None if len(X) > KEPT_ROWS or self.model_.every_row() is not None else X


# ------------------------------------------------------------------ learning where texts are


def learned_by(self: Any, engine: Any, split: Any, hidden: Any, clusters: int | None) -> Any:
    """The model of all texts of an engine."""
    from deciban.estimators import on_engines

    return on_engines.learn_texts(self, engine, split, hidden, clusters)


def template(self: Any, X: Any, y: Any, weight: Any, classes: Any = None) -> Any:
    """A copy that has learned a sample, to choose by it, and forgotten it."""
    part = copy.copy(self)
    part.__dict__.pop("model_", None)
    return (part.fit(X, y, weight) if classes is None else part.partial_fit(X, y, classes, weight)).empty()


def rechoose(self: Any, X: Any, y: Any, weight: Any) -> Any:
    """What leave-one-out chooses, by the texts of a sample: all of them were learned."""
    if not self.model_.chooses:
        return self.model_
    texts, labels, weight = self._read(X, y, weight, reset=False, least=0)
    return chosen_by(self.model_, texts, labels, weight, self.n_jobs)


# ------------------------------------------------------------------ keeping


def about(self: Any) -> dict[str, Any]:
    """What a file says of the estimator beside its parameters."""
    return {"n_unlabelled": self.model_.unlabelled}


def restored(model: Any, about: dict[str, Any], plain: bool, n_features: int | None) -> Graded | Plain:
    """The model that a file kept, checked against what the parameters speak of. It chooses by itself."""
    if isinstance(model, Plain) != plain:
        raise ValueError("its model is not the one that its parameters speak of")
    if model.n_features != n_features:
        raise ValueError("its buckets are not those that its parameters speak of")
    unlabelled = int(about["n_unlabelled"])
    if unlabelled < 0:
        raise ValueError("fewer than no documents were without a label")
    found: Graded | Plain = replace(model, unlabelled=unlabelled, choosing=True)
    return found
