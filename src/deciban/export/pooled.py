"""The model of a table as a formula: each expert writes its own term, and the pool weights them."""

from __future__ import annotations

from deciban.formula import ColumnPlace, Formula, Input, Scores, Sketch, WeightedTerm
from deciban.reading.columns import as_name
from deciban.reading.convert import MISSING_NAMES
from deciban.reading.table import derived_names
from deciban.tables.encode import Cuts
from deciban.tables.model import TableModel


def formula_of_table(model: TableModel) -> Formula:
    """A table model's score of a row; an error names the expert that cannot be written so."""
    sketch, encoding = Sketch(), model.encoding
    places = [sketch.place(place) for place in places_of(model, sketch)]
    parts = [WeightedTerm(model.columns.weighted_term(encoding, places, model.column_weights))]
    for weight, expert in zip(model.pool.weights[1:], model.experts[1:], strict=False):
        if weight > 0:
            parts.append(WeightedTerm(expert.term(encoding, places, sketch), float(weight), expert.limit))
    return Formula(
        model.classes,
        tuple(sketch.inputs),
        tuple(sketch.places),
        tuple(sketch.coordinates),
        Scores(tuple(parts), model.pool.offsets + model.log_prior),
        model.log_prior,
        tuple(kind.name for kind in model.reader.kinds),
    )


def places_of(model: TableModel, sketch: Sketch) -> list[ColumnPlace]:
    """Each coded column's places, which are its codes."""
    kinds: dict[str, Input] = {}
    for kind in model.reader.used:
        names = derived_names(kind)
        kinds[names[0]] = Input(kind.name, "date" if kind.kind == "date" else "number")
        kinds |= {
            name: Input(name, part, kind.name) for name, part in zip(names[1:], ("month", "weekday"), strict=False)
        }
    out = []
    for name, coded in zip(model.encoding.names, model.encoding.columns, strict=True):
        one = kinds[name]
        if isinstance(coded, Cuts):
            out.append(ColumnPlace(sketch.input(one), cuts=coded.cuts))
        elif one.kind in ("month", "weekday"):
            out.append(ColumnPlace(sketch.input(one), coded.levels))
        elif coded.levels and all(isinstance(level, bool) for level in coded.levels):
            out.append(ColumnPlace(sketch.input(Input(name, "boolean")), tuple(map(float, coded.levels))))
        elif coded.levels and not any(isinstance(level, str | bool) for level in coded.levels):
            out.append(ColumnPlace(sketch.input(Input(name)), coded.levels))
        else:
            missing_texts = tuple(sorted(MISSING_NAMES))
            out.append(
                ColumnPlace(
                    sketch.input(Input(name, "text", missing_texts=missing_texts)), tuple(map(as_name, coded.levels))
                )
            )
    return out
