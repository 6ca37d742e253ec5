"""Labels are constraints on the posterior. One loop: posterior under the constraint, weighted sum of T(x), estimate.

With every label known it ends after one step; with some missing it is semi-supervised learning; with none it
clusters (S17). `collect` and `score` come from an engine, so the loop runs wherever the data is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deciban._typing import Floats
from deciban.algebra import Stats
from deciban.bayes import log_evidence, posterior
from deciban.joint import Joint, Model


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What the loop found: the model, the posterior of every row without a label, and the log-likelihood's way."""

    model: Model
    posterior: Floats
    log_likelihood: list[float]
    converged: bool

    def __repr__(self) -> str:
        end = "converged" if self.converged else "stopped"
        last = self.log_likelihood[-1] if self.log_likelihood else float("nan")
        return f"EM over {len(self.posterior)} rows: {end} after {len(self.log_likelihood)} steps at {last:.6g} nats"


def learn(
    joint: Joint,
    known: Stats,
    collect: Callable[[Floats], Stats],
    score: Callable[[Model], Floats],
    *,
    known_score: Callable[[Model], float] = lambda model: 0.0,  # noqa: ARG005 - a constant of the model
    weight: Floats | None = None,
    max_iter: int = 200,
    tolerance: float = 1e-7,
) -> Learned:
    """EM over rows without labels, beside the statistics `known` of the rows that have them.

    `collect(r)` sums T(x) of the unlabelled rows under responsibilities r (n, k); `score(model)` is their
    log-joint; `known_score(model)` is the labelled rows' total log p(x, y). The log-likelihood of all rows never
    decreases under plain maximum likelihood (with a prior, likelihood × prior does not); the loop stops when a
    step changes it by less than `tolerance` per row.
    """
    model = Model(joint, known)
    trace: list[float] = []
    responsibilities = np.zeros((0, len(known.classes)))
    converged = False
    for _ in range(max_iter):
        log_joint = score(model)
        evidence = log_evidence(log_joint)
        responsibilities = posterior(log_joint, model.log_prior, quiet=True)
        finite = np.where(np.isfinite(evidence), evidence, 0.0)
        trace.append(float((finite if weight is None else finite * weight).sum()) + known_score(model))
        model = Model(joint, known + collect(responsibilities))
        if len(trace) > 1 and abs(trace[-1] - trace[-2]) <= tolerance * max(1, len(evidence)):
            converged = True
            break
    return Learned(model, responsibilities, trace, converged)
