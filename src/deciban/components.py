"""Classes made of several components: log-sum-exp within the class, and explanations that still add up."""

from __future__ import annotations

from typing import Any

import numpy as np

from deciban._typing import Array, Data, Floats
from deciban.bayes import DECIBANS, log_evidence
from deciban.joint import Model
from deciban.results.evidence import Evidence
from deciban.show import plain


def grouped(log_scores: Floats, owner: Array, k: int) -> Floats:
    """log Σ exp over the components of each class, (n, k); −∞ for a class without any."""
    out = np.full((len(log_scores), k), -np.inf)
    for c in range(k):
        mine = owner == c
        if mine.any():
            out[:, c] = log_evidence(log_scores[:, mine])
    return out


def explain_components(
    model: Model, data: Data, owner: Array, classes: Array, target: int | None = None, against: int | None = None
) -> Evidence:
    """Why one row is of one class rather than another, when classes are mixtures.

    With r_m the share of component m in its class, log p(x | class) = Σ_m r_m (log p(x | m) + log π_m − log r_m): what
    each column says is the average over the components, and the last two terms are said together.
    """
    log_joint = model.log_joint(data)[0]
    by_class = grouped(log_joint[None], owner, len(classes))[0]
    order = np.argsort(-by_class, kind="stable")
    target = int(next(c for c in order if c != against)) if target is None else target
    against = int(next(c for c in order if c != target)) if against is None else against
    if target == against:
        raise ValueError(f"evidence for {classes[target]} over itself is always 0: name another class")
    prior = grouped(model.log_prior[None], owner, len(classes))[0]
    shares, which = np.zeros(len(owner)), np.zeros(len(classes))
    for c in (target, against):
        mine = np.flatnonzero(owner == c)
        if np.isfinite(by_class[c]):
            shares[mine] = np.exp(log_joint[mine] - by_class[c])
        else:  # so far away that no component can be told from another: the prior's shares
            shares[mine] = np.exp(model.log_prior[mine] - prior[c]) if np.isfinite(prior[c]) else 0.0
        some = mine[shares[mine] > 0]
        which[c] = shares[some] @ (model.log_prior[some] - prior[c] - np.log(shares[some]))

    def weigh(said: Floats) -> Floats:
        """Terms of components as the log-odds of the two classes."""
        own, other = (np.dot(said[:, owner == c], shares[owner == c]) for c in (target, against))
        neither = np.isinf(own) & (own == other)  # impossible under both: it speaks for neither
        return np.asarray(np.where(neither, 0.0, own) - np.where(neither, 0.0, other))

    items: list[tuple[str, Any, float]] = []
    for b, X in enumerate(data):
        columns, family = model.columns(b), model.joint.blocks[b].family
        row = np.asarray(X).ravel()
        at, said = family.terms(model.params[b], columns, X)
        items += [
            (columns.name(int(j)), plain(row[j]), float(db)) for j, db in zip(at, weigh(said) * DECIBANS, strict=True)
        ]
        rest = family.rest(model.params[b], columns, X)
        if rest is not None:
            items.append((rest[0], rest[1], float(weigh(rest[2][None])[0]) * DECIBANS))
    items.append(("(which component)", "", float(which[target] - which[against]) * DECIBANS))
    items.sort(key=lambda item: -abs(item[2]))
    evidence = log_evidence(by_class[None])[0]
    probability = float(np.exp(by_class[target] - evidence if np.isfinite(evidence) else prior[target]))
    odds = float(prior[target] - prior[against]) * DECIBANS
    return Evidence(plain(classes[target]), plain(classes[against]), odds, tuple(items), probability)
