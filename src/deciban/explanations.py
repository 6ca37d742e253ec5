"""Evidence as explanations of other libraries: SHAP's, whose plots then draw decibans, and InterpretML's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.estimators.widen import dependent
from deciban.joint_model import JointModel
from deciban.results.evidence import Evidence
from deciban.show import optional, plain


def to_shap(model: Any, X: Any, target: Any = None, against: Any = None, *, background: Any = None) -> Any:
    """The exact SHAP values of rows, as a `shap.Explanation` in decibans: those of the log-odds of two classes.

    If columns are independent given the class, the log-odds are a sum over columns, and so a column's SHAP value is its
    evidence, whatever the others are: with nothing to compare with, the evidence itself, which is the value if columns
    are left out of the model; with `background`, the evidence minus its mean over these rows, as SHAP's explainers of
    independent columns estimate it. Models whose columns depend on each other are refused.

    Parameters
    ----------
    model : a fitted naive Bayes model of a table
    X : rows, as `predict` takes them
    target, against : labels, optional
        The classes that are compared; with two classes, by default the second and the first.
    background : rows, optional
        What rows are compared with.

    Examples
    --------
    >>> import shap  # doctest: +SKIP
    >>> model = GaussianNB().fit(X, y)  # doctest: +SKIP
    >>> shap.plots.waterfall(to_shap(model, X)[0])  # doctest: +SKIP
    """
    table = evidence_of(model, X, target, against)
    values, base = table.decibans, table.prior
    if background is not None:
        usual = evidence_of(model, background, table.target, table.against).decibans.mean(axis=0)
        values, base = values - usual, base + float(usual.sum())
    shap = optional("shap", "to_shap")
    return shap.Explanation(
        values,
        np.full(len(values), base),
        table.data,
        feature_names=list(table.names),
        output_names=f"{table.target} rather than {table.against}, dB",
    )


def to_interpret(model: Any, X: Any, target: Any = None, against: Any = None, name: str | None = None) -> Any:
    """The evidence of rows as a local explanation of InterpretML, which its `show` draws; as in `to_shap`.

    >>> import interpret  # doctest: +SKIP
    >>> interpret.show(to_interpret(model, X[:5]))  # doctest: +SKIP
    """
    table = evidence_of(model, X, target, against)
    kinds = ["continuous" if isinstance(value, float) else "nominal" for value in table.data[0]]
    rows = [
        {
            "type": "univariate",
            "names": list(table.names),
            "scores": decibans.tolist(),
            "values": values.tolist(),
            "extra": {"names": ["prior odds"], "scores": [table.prior], "values": [1]},
            "perf": {"is_classification": True, "predicted": table.target, "predicted_score": probability},
            "meta": {"label_names": [table.against, table.target]},
        }
        for decibans, values, probability in zip(table.decibans, table.data, table.probability, strict=True)
    ]
    inside = {"overall": None, "specific": rows, "mli": []}
    made = optional("interpret.api.templates", "to_interpret").FeatureValueExplanation
    selector = optional("pandas", "to_interpret").DataFrame({"PrScore": table.probability})
    title = name or f"{type(model).__name__}: {table.target} rather than {table.against}, dB"
    return made("local", inside, list(table.names), kinds, title, selector)


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceTable:
    """The evidence of rows by column: prior + Σ_j decibans[i, j] are the log-odds of row i."""

    target: Any
    against: Any
    names: tuple[str, ...]
    prior: float
    decibans: Floats  # (n, d)
    data: Array  # (n, d) the values
    probability: list[float]


def evidence_of(model: Any, X: Any, target: Any, against: Any) -> EvidenceTable:
    """The evidence of each column of a model whose columns are independent given the class."""
    model._check_is_fitted()
    learner, classes = model.model_, [plain(label) for label in model.classes_]
    if (
        not isinstance(learner, JointModel)
        or not learner.generative
        or any(map(dependent, learner.schema.blocks, learner.stats.sums))
    ):
        raise DecibanError(
            "the columns of a {model} are not independent given the class, so that evidence by column is not a SHAP "
            "value: use explain, or a naive Bayes model",
            model=type(model).__name__,
        )
    if target is None and against is None and len(classes) == 2:
        against, target = classes
    if target is None or against is None:
        raise DecibanError(f"give the classes to compare, target= and against=, of {classes[:10]}")
    given = model.explain(X, target, against)
    rows: list[Evidence] = given if isinstance(given, list) else [given]
    names = model._features()
    place = {name: j for j, name in enumerate(names)}
    decibans, data = np.zeros((len(rows), len(names))), np.full((len(rows), len(names)), None, dtype=object)
    for i, row in enumerate(rows):
        for name, value, db in row.items:
            decibans[i, place[name]] += db
            data[i, place[name]] = value
    numbers = all(isinstance(value, int | float | None) for value in data.flat)
    return EvidenceTable(
        target,
        against,
        names,
        rows[0].prior,
        decibans,
        data.astype(float) if numbers else data,
        [row.probability for row in rows],
    )
