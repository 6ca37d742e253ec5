"""Evidence as a local explanation of InterpretML."""

from __future__ import annotations

import numpy as np
import pytest

from deciban import NaiveBayes
from deciban.explanations import to_interpret


def test_the_evidence_of_rows_is_a_local_explanation():
    mixin = pytest.importorskip("interpret.api.base", reason="InterpretML is not installed: make ecosystem")
    table = {"size": [1.0, 2.0, 7.0, 8.0, None], "colour": ["red", "blue", "red", "red", "blue"]}
    model = NaiveBayes().fit(table, ["a", "a", "b", "b", "b"])
    found = to_interpret(model, table)
    assert isinstance(found, mixin.ExplanationMixin)
    assert found.explanation_type == "local"
    assert found.feature_names == ["size", "colour"]
    assert found.feature_types == ["continuous", "nominal"]
    log_odds = np.diff(model.predict_log_proba(table), axis=1)[:, 0] * 10 / np.log(10)
    for i, (total, probability) in enumerate(zip(log_odds, model.predict_proba(table)[:, 1], strict=True)):
        data = found.data(i)
        assert sum(data["scores"]) + data["extra"]["scores"][0] == pytest.approx(total)
        assert data["perf"]["predicted_score"] == pytest.approx(probability)
    assert found.data(0)["values"] == [1.0, "red"]
    assert found.data(4)["scores"][0] == 0.0, "a missing value is no evidence"
