"""An estimator's model as a formula, for SQL and ONNX, and as scikit-learn's logistic regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from deciban.components import ComponentModel
from deciban.corollaries.linear_form import LinearForm, linear_form
from deciban.corollaries.nearest import EQUAL_PRIOR_NATS, by_distance
from deciban.errors import DecibanError
from deciban.estimators.gaussians.nearest_centroid import NearestCentroid
from deciban.estimators.naive_bayes.mixed import NaiveBayes
from deciban.estimators.naive_bayes.tree_augmented import TreeAugmentedNB
from deciban.estimators.spam import SpamFilter
from deciban.export.joints import formula_of_joint
from deciban.export.onnx import to_onnx
from deciban.export.onnx_graded import graded_to_onnx
from deciban.export.onnx_text import WordsOfTexts, words_to_onnx
from deciban.export.pooled import formula_of_table
from deciban.families import Bernoulli
from deciban.families.linear import slopes
from deciban.formula import ColumnReading, Formula, Scores, Sketch, WeightedTerm
from deciban.joint import Model
from deciban.tables.model import TableModel
from deciban.text.graded import Graded
from deciban.text.plain import MIN_WORD_CHARACTERS, certain_characters

if TYPE_CHECKING:
    from deciban.estimators.base import Estimator


def formula_of(model: Estimator) -> Formula:
    """The model's score of a row as a formula for SQL and ONNX; an error explains why there is none."""
    model._check_classes()
    fitted: Any = model.model_
    if isinstance(fitted, TableModel):
        return formula_of_table(fitted)
    if isinstance(fitted, ComponentModel):
        formula = formula_of_joint(fitted.parts, ColumnReading(model._features(), {}, ()), None)
        owner = fitted.owner.astype(np.int32)
        return replace(formula, classes=fitted.classes, owner=owner, log_prior=fitted.log_prior)
    if not isinstance(fitted, Model):
        raise DecibanError(
            "a {model} reads texts, which SQL cannot split into words: score texts with predict_proba",
            model=type(model).__name__,
            command_line="a {model} reads texts, which SQL cannot split into words: score texts with `deciban predict`",
        )
    if isinstance(model, NearestCentroid) and model.metric == "manhattan":
        raise DecibanError("with metric='manhattan' there are no probabilities: fit with metric='euclidean'")
    kinds = dict(zip(model._features(), model.kinds_, strict=True)) if isinstance(model, NaiveBayes) else {}
    missing_texts = ("",) if isinstance(model, NaiveBayes | TreeAugmentedNB) else ()
    nearest = (
        by_distance(fitted)
        if isinstance(model, NearestCentroid) and np.ptp(fitted.log_prior) <= EQUAL_PRIOR_NATS
        else None
    )
    return formula_of_joint(fitted, ColumnReading(model._features(), kinds, missing_texts), nearest)


def onnx_of(model: Estimator, columns: Any) -> Any:
    """The model as an ONNX graph; an error explains why there is none."""
    if not model._texts:
        return to_onnx(formula_of(model), columns_of(model, columns), named=model._names() is not None)
    model._check_classes()
    fitted: Any = model.model_
    if fitted.n_features is not None or not fitted.rule.scripts:
        hashed = fitted.n_features is not None
        raise DecibanError(
            "{what}, which ONNX cannot do in the same way: fit again{how}",
            what="with n_features= words are hashed"
            if hashed
            else "the model was saved by an older version, and splits texts differently",
            how=" without n_features=" if hashed else "",
            command_line="{what}, which ONNX cannot do in the same way: score texts with `deciban predict`",
        )
    if columns is not None:
        raise DecibanError("columns= is for tables: the input of a graph that reads texts is called 'text'")
    lower = bool(model.lowercase)
    if isinstance(fitted, Graded):
        costs = (model.false_negative, model.unsure, model.false_positive) if isinstance(model, SpamFilter) else None
        return graded_to_onnx(fitted, lower, costs)
    inside, outside = certain_characters(lower, fitted.rule)
    words = tuple(fitted.words.strings())
    reading = ColumnReading(tuple(f"x{j}" for j in range(len(words))))
    once = isinstance(fitted.model.joint.blocks[0].family, Bernoulli)
    formula = linear_formula(fitted.model, reading) if once else formula_of_joint(fitted.model, reading)
    return words_to_onnx(formula, WordsOfTexts(inside, outside, MIN_WORD_CHARACTERS, lower, words, once))


def linear_formula(model: Model, reading: ColumnReading) -> Formula:
    """The formula of a linear model: one product of matrices, where terms by column would be thousands of nodes."""
    try:
        form = linear_form(model)
    except ValueError as error:
        raise DecibanError(str(error)) from None
    sketch = Sketch(reading)
    term = slopes(sketch, model.columns(), np.zeros_like(form.weights), form.weights)
    scores = Scores((WeightedTerm(term),), form.offsets)
    return Formula(model.classes, tuple(sketch.inputs), (), (), scores, model.log_prior, reading.features)


def columns_of(model: Estimator, columns: Mapping[str, str] | Sequence[str] | None) -> dict[str, str]:
    """{feature: name in the database}, from such a mapping, or from names in the features' order."""
    features = model._features()
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        unknown = [name for name in columns if name not in features]
        if unknown:
            raise DecibanError(
                f"columns= names {unknown[0]!r}, which is not a feature: the features are {list(features[:10])}"
            )
        return dict(columns)
    if isinstance(columns, str) or len(columns) != len(features):
        raise DecibanError(f"columns must be {len(features)} names, one per feature, or {{feature: name}}")
    return dict(zip(features, columns, strict=True))


def logistic_regression(model: Estimator, form: LinearForm) -> LogisticRegression:
    """The same posterior as scikit-learn's: softmax of x·coef_ + intercept_, or with two classes the logistic."""
    features = model._features()
    if len(form.classes) < 2:
        raise DecibanError("there is only one class, but a logistic regression needs two")
    if len(set(form.items)) < len(form.items) or not set(form.items) <= set(features):
        raise DecibanError(
            "the model is linear in indicators of categories, not in its columns: linear_form() returns the weight "
            "of each"
        )
    weights = np.zeros((len(form.classes), len(features)))
    place = {name: j for j, name in enumerate(features)}
    weights[:, [place[item] for item in form.items]] = form.weights
    out = LogisticRegression()
    if len(form.classes) == 2:
        out.coef_, out.intercept_ = weights[1:] - weights[:1], form.offsets[1:] - form.offsets[:1]
    else:  # a common shift changes nothing
        out.coef_, out.intercept_ = weights - weights.mean(axis=0), form.offsets - form.offsets.mean()
    out.classes_, out.n_features_in_ = form.classes.copy(), len(features)
    out.n_iter_ = np.zeros(1, dtype=np.int32)
    if model._names() is not None:
        out.feature_names_in_ = np.array(features, dtype=object)
    return out
