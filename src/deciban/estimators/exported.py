"""An estimator's model in other languages: what its formula is, and as a logistic regression of scikit-learn's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from deciban.components import ComponentModel
from deciban.corollaries.linear_form import LinearForm
from deciban.corollaries.nearest import EQUAL_PRIOR_NATS, by_distance
from deciban.errors import DecibanError
from deciban.estimators.gaussians.nearest_centroid import NearestCentroid
from deciban.estimators.naive_bayes.mixed import NaiveBayes
from deciban.estimators.naive_bayes.tree_augmented import TreeAugmentedNB
from deciban.export.joints import formula_of_joint
from deciban.export.pooled import formula_of_table
from deciban.formula import ColumnReading, Formula
from deciban.joint import Model
from deciban.tables.model import TableModel

if TYPE_CHECKING:
    from deciban.estimators.base import Estimator


def formula_of(model: Estimator) -> Formula:
    """What the model says of a row, in words that SQL and ONNX have too; an error says why it cannot be put so."""
    model._check_classes()
    value: Any = model.model_
    if isinstance(value, TableModel):
        return formula_of_table(value)
    if isinstance(value, ComponentModel):
        formula = formula_of_joint(value.parts, ColumnReading(model._features(), {}, ()), None)
        owner = value.owner.astype(np.int32)
        return replace(formula, classes=value.classes, owner=owner, log_prior=value.log_prior)
    if not isinstance(value, Model):
        raise DecibanError(
            f"a {type(model).__name__} reads texts, and neither SQL nor ONNX cuts them into words as it does: score "
            "texts with predict_proba"
        )
    if isinstance(model, NearestCentroid) and model.metric == "manhattan":
        raise DecibanError("with metric='manhattan' there are no probabilities: fit with metric='euclidean'")
    kinds = dict(zip(model._features(), model.kinds_, strict=True)) if isinstance(model, NaiveBayes) else {}
    nothing = ("",) if isinstance(model, NaiveBayes | TreeAugmentedNB) else ()
    nearest = (
        by_distance(value)
        if isinstance(model, NearestCentroid) and np.ptp(value.log_prior) <= EQUAL_PRIOR_NATS
        else None
    )
    return formula_of_joint(value, ColumnReading(model._features(), kinds, nothing), nearest)


def columns_of(model: Estimator, columns: Mapping[str, str] | Sequence[str] | None) -> dict[str, str]:
    """{feature: what it is called elsewhere}, from such a mapping, or from names in the features' order."""
    features = model._features()
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        unknown = [name for name in columns if name not in features]
        if unknown:
            raise DecibanError(f"columns= names {unknown[0]!r}, which is no feature: there are {list(features[:10])}")
        return dict(columns)
    if isinstance(columns, str) or len(columns) != len(features):
        raise DecibanError(f"columns must be {len(features)} names, one a feature, or {{feature: name}}")
    return dict(zip(features, columns, strict=True))


def logistic_regression(model: Estimator, form: LinearForm) -> LogisticRegression:
    """The same posterior, in scikit-learn's words: softmax of x·coef_ + intercept_, or of two classes its logistic."""
    features = model._features()
    if len(form.classes) < 2:
        raise DecibanError("there is only one class, and a logistic regression takes two")
    if len(set(form.items)) < len(form.items) or not set(form.items) <= set(features):
        raise DecibanError(
            "the model is linear in indicators of categories, and not in its columns: linear_form() has a weight for "
            "each of them"
        )
    weights = np.zeros((len(form.classes), len(features)))
    weights[:, [features.index(item) for item in form.items]] = form.weights
    out = LogisticRegression()
    if len(form.classes) == 2:
        out.coef_, out.intercept_ = weights[1:] - weights[:1], form.offsets[1:] - form.offsets[:1]
    else:  # what all classes share changes nothing
        out.coef_, out.intercept_ = weights - weights.mean(axis=0), form.offsets - form.offsets.mean()
    out.classes_, out.n_features_in_ = form.classes.copy(), len(features)
    out.n_iter_ = np.zeros(1, dtype=np.int32)
    if model._names() is not None:
        out.feature_names_in_ = np.array(features, dtype=object)
    return out
