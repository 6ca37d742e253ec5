"""A joint of families as a formula: each family writes its own term, and Bayes' rule adds them up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from deciban.formula import ColumnReading, Formula, Scores, Sketch, WeightedTerm
from deciban.joint import Model
from deciban.reading.columns import as_name


def formula_of_joint(model: Model, reading: ColumnReading, label_model: Model | None = None) -> Formula:
    """The model's score of a row; `label_model` is another over the same columns to take the label from."""
    sketch = Sketch(replace(reading, spell=as_name))
    scores = scores_of(model, sketch)
    return Formula(
        model.classes,
        tuple(sketch.inputs),
        tuple(sketch.places),
        tuple(sketch.coordinates),
        scores,
        model.log_prior,
        reading.features,
        label_scores=None if label_model is None else scores_of(label_model, sketch),
    )


def scores_of(model: Model, sketch: Sketch) -> Scores:
    blocks = zip(model.joint.blocks, model.params, model.schema.blocks, strict=True)
    parts = tuple(WeightedTerm(block.family.term(params, columns, sketch)) for block, params, columns in blocks)
    plain = model.generative or len(model.classes) == 1
    return Scores(parts, model.log_prior + 0.0 if plain else np.zeros(len(model.classes)))
