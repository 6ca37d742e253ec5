"""Sampling: draw y from the prior, then x from its distribution (S18)."""

from __future__ import annotations

import numpy as np

from deciban._typing import Array, Floats
from deciban.joint import Model


def sample(
    model: Model, n: int, rng: np.random.Generator, given: int | None = None, length: int | None = None
) -> tuple[list[Floats], Array]:
    """n rows (a matrix per block) and their class codes. `length` is the number of words if rows are bags of words;
    without it, it is drawn about the class's mean length."""
    if not model.generative:
        raise TypeError("complement naive Bayes is not a generative model: rows cannot be drawn from it")
    k = len(model.classes)
    prior = np.exp(model.log_prior)
    y = np.full(n, given) if given is not None else rng.choice(k, size=n, p=prior / prior.sum())
    out = []
    for b, block in enumerate(model.joint.blocks):
        sums, columns = model.stats.sums[b], model.columns(b)
        if length is not None:
            words = np.full(n, length)
        elif "x" in sums and model.stats.weight.any():
            mean = sums["x"].sum(axis=1) / np.where(model.stats.weight > 0, model.stats.weight, 1.0)
            words = rng.poisson(np.clip(mean[y], 0.0, 1e9))
        else:
            words = np.zeros(n, dtype=np.int64)
        out.append(block.family.sample(model.params[b], columns, y, rng, words))
    return out, y
