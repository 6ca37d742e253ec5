"""What the model assumes: the distributions it chose, and why."""

from __future__ import annotations

import inspect
from typing import Any

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
from deciban.report.svg import bar
from deciban.results.summary import Summary
from deciban.show import Table, plain

MAX_CANDIDATES = 5  # of those that were not chosen
MAX_COLUMNS_LISTED = 40  # of the data
MAX_PARAMETER_ROWS = 12  # of a table of parameters
MAX_PARAMETER_COLUMNS = 9  # of such a table


def summary_of(model: Any) -> Summary | None:
    """The summary of a model that makes choices, else None."""
    summarize = getattr(model, "summary", None)
    summary = summarize() if callable(summarize) and hasattr(model, "kinds_") else None
    return summary if isinstance(summary, Summary) else None


def chosen_section(material: Material) -> list[Markup]:
    """The experts and why they were chosen; or the parameters of a model without choices."""
    summary = summary_of(material.model)
    if summary is None:
        return parameters_section(material)
    return [
        paragraph(
            "Several small models, called experts, use each row in their own way. Their weights were fitted on "
            "left-out rows: those that predicted such rows best were kept."
        ),
        heading("Evidence of each column"),
        paragraph("dB: mean evidence of the column alone about a row's class.", class_="note"),
        column_table(summary),
        heading("What was tried"),
        paragraph(
            "By leave-one-out log loss: lower is better. An expert of weight 0 was tried and not needed.",
            class_="note",
        ),
        candidate_table(summary),
        *(paragraph(cut(note, 300), class_="note") for note in summary.notes[:10]),
    ]


def column_table(summary: Summary) -> Markup:
    """Columns by how informative they are, with their smoothing."""
    columns = summary.columns.to_dict()
    order = sorted(range(len(columns["column"])), key=lambda i: -(columns["dB"][i] or 0.0))
    largest = max((db for db in columns["dB"] if db), default=1.0)
    lines: list[tuple[Any, ...]] = [
        (
            data(columns["column"][i], 60),
            number(columns["dB"][i], 3),
            bar((columns["dB"][i] or 0.0) / largest),
            columns["kind"][i],
            columns["distribution"][i] or "",
        )
        for i in order[:MAX_COLUMNS_LISTED]
    ]
    if len(order) > MAX_COLUMNS_LISTED:
        lines.append((f"{count(len(order) - MAX_COLUMNS_LISTED)} more", "", "", "", ""))
    return table(("column", "dB", "", "kind", "distribution"), lines, "Evidence of each column", "bars by-column")


def candidate_table(summary: Summary) -> Markup:
    """The candidates in use, and the best of the others."""
    candidates = summary.candidates.to_dict()
    indices = range(len(candidates["candidate"]))
    used = [i for i in indices if candidates["chosen"][i]]
    others = sorted((i for i in indices if not candidates["chosen"][i]), key=lambda i: candidates["log loss"][i] or 0.0)
    lines: list[tuple[Any, ...]] = [
        (
            candidates["candidate"][i],
            cut(candidates["setting"][i] or "", 80),
            number(candidates["log loss"][i]),
            number(candidates["weight"][i], 3),
            "in use" if candidates["chosen"][i] else "",
        )
        for i in [*used, *others[:MAX_CANDIDATES]]
    ]
    if len(others) > MAX_CANDIDATES:
        lines.append((f"{count(len(others) - MAX_CANDIDATES)} more", "", "", "", ""))
    return table(("expert", "setting", "log loss", "weight", ""), lines, "What was tried")


def parameters_section(material: Material) -> list[Markup]:
    """A model without choices: the first sentence of its docstring, and its parameters."""
    model = material.model
    first_sentence = (inspect.getdoc(type(model)) or "").split("\n\n")[0].replace("\n", " ")
    out = [paragraph(f"{material.name}. {first_sentence}" if first_sentence else material.name)]
    for name in ("blocks_", "reliability_", "params"):
        parameters = getattr(model, name, None)
        if isinstance(parameters, Table) and parameters.rows:
            return [*out, heading(parameters.title.replace("_", " ").capitalize()), parameter_table(parameters)]
    return out


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
