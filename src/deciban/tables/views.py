"""Explanations and summaries of a model of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from deciban._typing import Floats
from deciban.bayes import DECIBANS, log_evidence
from deciban.corollaries.explain import compared_classes
from deciban.reading.columns import Column, Levels
from deciban.reading.frames import Frame
from deciban.reading.kinds import LEFT_OUT
from deciban.reading.native import iso_date
from deciban.results.evidence import Evidence
from deciban.results.summary import Summary, candidates_table
from deciban.show import Table, plain
from deciban.tables.experts.columns import centred
from deciban.tables.model import MAX_EVIDENCE_NATS, TableModel

TOGETHER = "together"  # the item for evidence of no single column


def explain(model: TableModel, frame: Frame, target: int | None, against: int | None, by: str = "column") -> Evidence:
    """One row's evidence for a class over another: prior + Σ = the log-odds, column by column or expert by expert."""
    rows = model.encoding.rows(frame)
    scores = model.pooled(rows, model.log_prior)[0]
    target, against = compared_classes(scores, model.classes, target, against)
    columns = np.zeros(len(model.encoding.names))
    experts: list[tuple[str, float]] = []
    items: list[tuple[str, Any, float]] = []
    terms = model.columns.terms(rows)[0]
    by_column = model.column_weights * (terms[:, target] - terms[:, against])
    columns += by_column
    experts.append((model.columns.name, float(by_column.sum())))
    rest = float(model.pool.offsets[target] - model.pool.offsets[against])
    experts.append(("offset", rest))
    for weight, expert in zip(model.pool.weights[1:], model.experts[1:], strict=False):
        if weight <= 0:
            continue
        evidence = centred(expert.evidence(rows), MAX_EVIDENCE_NATS)[0]
        total = weight * float(evidence[target] - evidence[against])
        experts.append((f"{expert.name}: {expert.settings}", total))
        words = expert.items(rows, target, against)
        if words is not None:
            shares = shared_out(np.array([db for _, db in words]), weight, total * DECIBANS)
            items += [(name, "", db) for (name, _), db in zip(words, shares.tolist(), strict=True)]
            continue
        each, together = expert.terms(rows)
        parts = np.append(each[:, target] - each[:, against], together[target] - together[against])
        parts = shared_out(parts, weight, total)
        columns += parts[:-1]
        rest += float(parts[-1])
    if by == "expert":
        items = [(name, "", nats * DECIBANS) for name, nats in experts]
    else:
        items += [
            (name, value_of(frame[name]), nats * DECIBANS)
            for name, nats in zip(model.encoding.names, columns, strict=True)
        ]
        items.append((TOGETHER, "", rest * DECIBANS))
    items.sort(key=lambda item: -abs(item[2]))
    same = model.log_prior[target] == model.log_prior[against]  # both may be ruled out
    prior = 0.0 if same else float(model.log_prior[target] - model.log_prior[against]) * DECIBANS
    probability = float(np.exp(scores[target] - log_evidence(scores[None])[0]))
    return Evidence(
        plain(model.classes[target]), plain(model.classes[against]), prior, tuple(items), min(1.0, probability)
    )


def shared_out(parts: Floats, weight: float, total: float) -> Floats:
    """Parts that add up to `total`: times the weight, or in proportion where the expert's evidence was clipped.

    Where there are no finite parts, as where a class is impossible, the last part has it all.
    """
    whole = float(parts.sum())
    if np.isfinite(whole) and abs(weight * whole - total) <= 1e-9 * (1.0 + weight * float(np.abs(parts).sum())):
        return weight * parts
    if np.isfinite(whole) and whole:
        return parts * (total / whole)
    return np.append(np.zeros(max(0, len(parts) - 1)), total)


def value_of(column: Column) -> Any:
    """The value in the first row, for display; None if it is missing."""
    if column.missing[0]:
        return None
    if isinstance(column, Levels):
        return column.levels[column.codes[0]]
    value = float(column.values[0])
    if column.dates is not None:
        return iso_date(value)
    return int(value) if column.whole and abs(value) < 2**53 else value


def summary(model: TableModel) -> Summary:
    """What was chosen and why: columns with the evidence of each alone, and candidates, those in use first."""
    laws = {name: (law, gain) for name, law, gain, _ in model.record.laws}
    weights = dict(zip(model.encoding.names, model.column_weights, strict=True))
    rows: list[tuple[Any, ...]] = []
    for kind in model.reader.kinds:
        law, gain = laws.get(kind.name, ("left out" if kind.kind in LEFT_OUT else "", None))
        decibans = None if gain is None else gain * DECIBANS
        rows.append((kind.name, kind.kind, decibans, weights.get(kind.name), law, kind.why))
    title = "columns (dB: what each tells of a row's class by itself, on average)"
    columns = Table(title, ("column", "kind", "dB", "weight", "law", "why"), rows, most=max(60, len(rows)))
    candidates = sorted(model.record.candidates, key=lambda c: (not c.weight, not c.chosen, c.loss))
    tried = candidates_table((c.expert, c.setting, c.loss, c.weight, c.chosen) for c in candidates)
    tried = replace(tried, most=sum(c.chosen for c in candidates) + 5)
    seen = model.weight > 0
    share = model.weight[seen] / model.weight.sum() if seen.any() else np.ones(1)
    notes = [f"column {kind.name!r} is left out: {kind.why}" for kind in model.reader.kinds if kind.kind in LEFT_OUT]
    now, then = float(model.weight.sum()), model.record.weight
    if then and abs(now - then) > 1e-9 * max(now, then):  # with too few rows nothing was chosen
        notes.append(f"choices and losses are of the {then:g} rows that fit saw; {now:g} are learned now")
    return Summary(
        "Classifier",
        round(now),
        tuple(plain(label) for label in model.classes),
        columns,
        tried,
        model.record.loss,
        model.record.accuracy,
        tuple(notes),
        abs(float(share @ np.log(share))),
        model.way,
    )


def strongest(model: TableModel, target: int, most: int) -> list[tuple[str, float]]:
    """The strongest evidence of single values for a class against the mean of the others, in decibans."""
    if not model.weight[target] > 0:
        return []
    table, others = model.columns.centred_log_table(), np.flatnonzero(model.weight > 0)
    others = others[others != target]
    evidence = table[:, target] - (table[:, others].mean(axis=1) if len(others) else 0.0)
    offsets = model.encoding.offsets
    nats = np.repeat(model.column_weights, np.diff(offsets)) * evidence
    items = []
    for cell in np.argsort(-nats, kind="stable")[:most]:
        j = int(np.searchsorted(offsets, cell, side="right")) - 1
        label = model.encoding.columns[j].label(int(cell - offsets[j]))
        items.append((f"{model.encoding.names[j]} = {label}", float(nats[cell]) * DECIBANS))
    return [(item, decibans) for item, decibans in items if decibans > 0]
