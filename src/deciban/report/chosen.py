"""What the model is made of: its experts, or its distributions."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from deciban.report.markup import (
    Markup,
    count,
    cut,
    data,
    heading,
    is_number,
    number,
    paragraph,
    pluralize,
    table,
)
from deciban.report.rows import Material
from deciban.results.summary import Summary
from deciban.show import Table, plain

MAX_CANDIDATES = 2  # of those that are not used
ITEMS = {
    "words": "words",
    "pairs": "two words in a row",
    "headers": "words of a header field, such as the subject",
    "gaps": "two words with one or two others between them",
    "characters": "runs of letters within words",
    "repeats": "words that come again",
}
MAX_PARAMETER_ROWS = 12  # of a table of parameters
MAX_PARAMETER_COLUMNS = 9  # of such a table


def summary_of(model: Any) -> Summary | None:
    """The summary of a model that makes choices, else None."""
    summarize = getattr(model, "summary", None)
    summary = summarize() if callable(summarize) and hasattr(model, "kinds_") else None
    return summary if isinstance(summary, Summary) else None


def chosen_section(material: Material) -> list[Markup]:
    """The experts that were chosen, and what was tried; or the distribution of a model without choices."""
    summary = summary_of(material.model)
    if summary is None:
        return parameters_section(material)
    return [
        paragraph(
            "Several small models, called experts, use each row in their own way. Their weights were fitted on "
            "left-out rows. Log losses are leave-one-out: lower is better. An expert of weight 0 was chosen among "
            "candidates of its kind and not needed; one without a weight was not chosen."
        ),
        candidate_table(summary),
        *(paragraph(cut(note, 600), class_="note") for note in (summary.legend, *summary.notes[:10]) if note),
    ]


def candidate_table(summary: Summary) -> Markup:
    """The candidates in use, and the best of the others."""
    candidates = summary.candidates.to_dict()
    indices = range(len(candidates["candidate"]))
    used = [i for i in indices if candidates["chosen"][i] and candidates["weight"][i] != 0]
    others = sorted(set(indices) - set(used), key=lambda i: candidates["log loss"][i] or 0.0)
    lines: list[tuple[Any, ...]] = [
        (
            candidates["candidate"][i],
            cut(candidates["setting"][i] or "", 140),
            number(candidates["log loss"][i]),
            number(candidates["weight"][i], 3),
        )
        for i in [*used, *others[:MAX_CANDIDATES]]
    ]
    if len(others) > MAX_CANDIDATES:
        lines.append((f"{count(len(others) - MAX_CANDIDATES)} more", "", "", ""))
    return table(("expert", "setting", "log loss", "weight"), lines, "What was tried", "settings")


def parameters_section(material: Material) -> list[Markup]:
    """A model without choices: the first sentence of its docstring, and its parameters."""
    model = material.model
    first_sentence = (inspect.getdoc(type(model)) or "").split("\n\n")[0].replace("\n", " ")
    out = [paragraph(f"{material.name}. {first_sentence}" if first_sentence else material.name)]
    cells = getattr(getattr(getattr(model, "model_", None), "sums", None), "cells", None)
    if cells is not None:
        return [*out, item_table(cells, model.reliability_)]
    for name in ("blocks_", "params"):
        parameters = getattr(model, name, None)
        if isinstance(parameters, Table) and parameters.rows:
            return [*out, heading(parameters.title.replace("_", " ").capitalize()), parameter_table(parameters)]
    return out


def item_table(cells: Mapping[str, Any], reliability: Table) -> Markup:
    """The kinds of items that a model of texts counts, how many there are, and how many weights they have."""
    weights = Counter(row[0] for row in reliability.rows)
    lines: list[tuple[Any, ...]] = [
        (block, ITEMS[block], count(int(np.count_nonzero(np.diff(own.ptr)))), count(weights[block]))
        for block, own in cells.items()
    ]
    if weights["common"]:
        lines.append(("common", "the most common of these, modelled together", "", count(weights["common"])))
    return table(("items", "what they are", "distinct", "weights"), lines, "What is counted")


def parameter_table(parameters: Table) -> Markup:
    """The first rows and columns of a table of parameters."""
    rows = [
        tuple(cell_markup(value) for value in row[:MAX_PARAMETER_COLUMNS])
        for row in parameters.rows[:MAX_PARAMETER_ROWS]
    ]
    if len(parameters.rows) > MAX_PARAMETER_ROWS:
        rows.append(
            (
                f"… and {pluralize(len(parameters.rows) - MAX_PARAMETER_ROWS, 'row')} more",
                *[""] * (len(parameters.columns[:MAX_PARAMETER_COLUMNS]) - 1),
            )
        )
    head = [data(name, 40) for name in parameters.columns[:MAX_PARAMETER_COLUMNS]]
    return table(head, rows, parameters.title)


def cell_markup(value: Any) -> Any:
    value = plain(value)
    if value is None:
        return ""
    return number(float(value)) if is_number(value) else data(value, 60)
