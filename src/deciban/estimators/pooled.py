"""What estimators share whose model is a value of its own, with evidence that is pooled: of tables, and of texts."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from deciban import bayes
from deciban._typing import Array, Floats
from deciban.estimators.prediction_sets import PredictsSets
from deciban.reading.labels import Labels, given_prior

Self = TypeVar("Self", bound="PooledClassifier")


class PooledClassifier(ClassifierMixin, PredictsSets):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator around a model that has classes, their weights and a prior, and says by itself what it scores."""

    model_: Any  # not a joint of blocks
    class_prior: Any

    _guesses: ClassVar[bool] = False  # rows without a label, where rows are elsewhere

    def _declared(self, classes: Any, first: bool) -> Array | None:
        """The classes that partial_fit was told of: the first time they close the set, then they must be the same."""
        declared = None if classes is None else np.unique(np.asarray(classes))
        if declared is not None and not first and not np.array_equal(declared, self.classes_):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {self.classes_!r}"
            )
        return declared

    def _placed(self, labels: Labels, declared: Array | None, first: bool) -> Labels:
        """Labels among the classes that there may be, where these are closed."""
        closed = declared if first else self.classes_ if self.model_.closed else None
        if closed is None:
            return labels
        unknown = np.setdiff1d(labels.classes, closed)
        if len(unknown):
            raise ValueError(f"The target label(s) {unknown} in y do not exist in the classes {closed}")
        return labels.placed(closed)

    def _class_prior(self, classes: Array) -> str | Floats:
        return given_prior(self.class_prior, classes)

    def _posterior(self, scores: Floats, how: str) -> Array:
        """What `_apply` is asked for, from the log-joint."""
        if how == "log_joint":
            return scores
        said = bayes.posterior(scores, self.model_.log_prior, logs=how == "log_posterior")
        return np.asarray(np.argmax(said, axis=1)) if how == "best" else said

    def _add(self, X: Any, y: Any, weight: Any) -> None:
        """Learn the rows of a partition."""
        self.partial_fit(X, y, sample_weight=weight)

    def _question(self, split: Any) -> None:
        """No database adds up what these models learn."""
        del split

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows that are predicted right."""
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            return anywhere.score(self, source, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    def with_prior(self: Self, prior: Any) -> Self:
        """The same model under another class prior: probabilities (a sequence or {class: p}), or "uniform"."""
        self._check_classes()
        other = copy.copy(self)
        other.class_prior = self._read_prior(prior)
        other.model_ = self.model_.with_prior(other._class_prior(self.classes_))
        return other

    def adapt_prior(self: Self, X: Any) -> Self:
        """The same model with the class prior under which the unlabelled rows X are most likely, by EM."""
        prior, _ = bayes.adapt_prior(self.predict_proba(X), np.exp(self.model_.log_prior))
        return self.with_prior(prior)

    @property
    def class_count_(self) -> Floats:
        """How much was learned of each class: the sum of its rows' weights."""
        check_is_fitted(self)
        return np.array(self.model_.weight)
