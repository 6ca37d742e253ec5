"""Explanation: log-odds are a sum, so every column's part in a decision is a number of decibans."""

from __future__ import annotations

from typing import Any

import numpy as np

from deciban._scipy import issparse
from deciban._typing import Array, Data, Floats
from deciban.bayes import DECIBANS, log_evidence
from deciban.joint import Model
from deciban.results.evidence import Evidence
from deciban.schema import Columns
from deciban.show import plain


def explain(model: Model, data: Data, target: int | None = None, against: int | None = None) -> Evidence:
    """One row's evidence for class `target` over `against`; by default, for the most probable over the second."""
    log_joint = model.log_joint(data)[0]
    target, against = compared_classes(log_joint, model.classes, target, against)
    prior = 0.0
    if model.generative:
        prior = float((model.log_prior[target] - model.log_prior[against]) * DECIBANS)
    items: list[tuple[str, Any, float]] = []
    for b, X in enumerate(data):
        columns = model.columns(b)
        row = X.toarray().ravel() if issparse(X) else np.asarray(X).ravel()
        at, terms = model.joint.blocks[b].family.terms(model.params[b], columns, X)
        for j, db in zip(at, difference(terms, target, against) * DECIBANS, strict=True):
            items.append((item_label(columns, row, int(j)), value_of(columns, row, int(j)), float(db)))
        rest = model.joint.blocks[b].family.rest(model.params[b], columns, X)
        if rest is not None:
            items.append((rest[0], rest[1], float(rest[2][target] - rest[2][against]) * DECIBANS))
    items.sort(key=lambda item: -abs(item[2]))
    evidence = log_evidence(log_joint[None])[0]
    probability = np.exp(log_joint[target] - evidence) if np.isfinite(evidence) else np.exp(model.log_prior[target])
    names = model.classes
    return Evidence(plain(names[target]), plain(names[against]), prior, tuple(items), float(probability))


def item_evidence(model: Model, data: Data) -> list[tuple[str, Any, Floats]]:
    """The terms of one row: name of the column, value, and evidence for every class, in nats."""
    items: list[tuple[str, Any, Floats]] = []
    for b, X in enumerate(data):
        columns, family = model.columns(b), model.joint.blocks[b].family
        row = X.toarray().ravel() if issparse(X) else np.asarray(X).ravel()
        at, terms = family.terms(model.params[b], columns, X)
        named = zip(map(int, at), terms, strict=True)
        items += [(columns.name(j), value_of(columns, row, j), nats) for j, nats in named]
        rest = family.rest(model.params[b], columns, X)
        if rest is not None:
            items.append(rest)
    return items


def value_of(columns: Columns, row: Array, j: int) -> Any:
    """The value of a column, for display."""
    value = plain(row[j])
    if columns.categories is None:
        return value
    known = columns.categories[j]
    return plain(known[int(value)] if int(value) < len(known) else "(never seen)")


def item_label(columns: Columns, row: Array, j: int) -> str:
    """The name of a column's item, with its parent's value if that is known."""
    on = columns.parents[j] if columns.parents is not None else -1
    if on < 0 or columns.categories is None or not 0 <= row[on] < len(columns.categories[on]):
        return columns.name(j)
    return f"{columns.name(j)} given {columns.item(on, int(row[on]))}"


def compared_classes(log_joint: Floats, classes: Array, target: int | None, against: int | None) -> tuple[int, int]:
    """The two classes to compare: as given, or else the most probable."""
    if len(classes) < 2:
        raise ValueError("there is only one class: learn rows of another one to compare it with")
    order = np.argsort(-log_joint, kind="stable")
    target = int(next(c for c in order if c != against)) if target is None else target
    against = int(next(c for c in order if c != target)) if against is None else against
    if target == against:
        raise ValueError(f"evidence for {classes[target]} over itself is always 0: give another class")
    return target, against


def difference(terms: Floats, target: int, against: int) -> Floats:
    """log-odds of every term; 0 if both classes have the same infinite value."""
    a, b = terms[:, target], terms[:, against]
    neither = np.isinf(a) & (a == b)
    return np.asarray(np.where(neither, 0.0, a) - np.where(neither, 0.0, b))


def strongest(model: Model, target: int, most: int) -> list[tuple[str, float]]:
    """The items with the strongest evidence for a class against the others, in decibans.

    For words and categories: log P(item | class) over the others' average probability. For Gaussian columns: the mean
    evidence of a value drawn from the class.
    """
    if len(model.classes) < 2:
        raise ValueError("there is only one class, so there is no evidence for it against another")
    items: list[tuple[str, float]] = []
    others = np.arange(len(model.classes)) != target
    weights = np.exp(model.log_prior[others])
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1.0 / len(weights))
    for b, block in enumerate(model.joint.blocks):
        names, log_prob = block.family.typical(model.params[b], model.columns(b))
        if block.family.typical_is_evidence:
            evidence = log_prob[:, target]
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                evidence = log_prob[:, target] - np.log(np.exp(log_prob[:, others]) @ weights)
        evidence = np.nan_to_num(evidence, nan=0.0, posinf=np.inf, neginf=-np.inf)
        items += [(names[int(j)], float(evidence[j] * DECIBANS)) for j in np.argsort(-evidence)[:most]]
    return sorted(items, key=lambda item: -item[1])[:most]
