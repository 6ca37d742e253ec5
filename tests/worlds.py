"""Small random worlds for the laws: every family with data it can have been drawn from, by discovery."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from deciban import collect
from deciban.families import FAMILIES, Family
from deciban.joint import Block, Joint, Model
from deciban.schema import Columns, Schema


@dataclass
class World:
    family: Family
    X: np.ndarray
    y: np.ndarray  # class codes
    weight: np.ndarray | None
    schema: Schema
    alpha: float

    @property
    def joint(self) -> Joint:
        return Joint((Block(self.family, self.alpha),))

    def collect(self, rows=slice(None), labels=None, n_jobs=1):
        weight = None if self.weight is None else self.weight[rows]
        codes = self.y[rows] if labels is None else labels
        return collect.collect([self.X[rows]], self.joint, self.schema, codes, weight, n_jobs)

    def model(self, rows=slice(None)) -> Model:
        return Model(self.joint, self.collect(rows))


def make(
    name: str, seed: int, n: int, d: int, k: int, missing: bool, weighted: bool, alpha: float, **settings
) -> World:
    """Rows from about what the family supposes, some entries missing, some weights zero."""
    rng = np.random.default_rng(seed)
    family = FAMILIES[name](**settings)
    y = rng.integers(0, k, n).astype(np.int32)
    columns = Columns(d)
    if FAMILIES[name].pivoted:
        far = 10.0 ** rng.integers(-3, 9)
        X = far + rng.normal(size=(n, d)) + 2.0 * y[:, None] * rng.random(d)
        columns = Columns(d, pivot=far + rng.normal(size=(k, d)))
    elif name == "categorical":
        sizes = rng.integers(1, 5, d)
        X = np.floor(rng.random((n, d)) * sizes)
        columns = Columns(d, categories=tuple(range(int(s)) for s in sizes))
    elif name == "tree":
        sizes = rng.integers(1, 5, d)
        X = np.floor(rng.random((n, d)) * sizes)
        order, parents = rng.permutation(d), np.full(d, -1)
        for i in range(1, d):
            child, parent = order[i], order[rng.integers(0, i)]
            if rng.random() < 0.8:
                parents[child] = parent
            if seed % 2:  # a child that does as its parent does
                X[:, child] = np.where(rng.random(n) < 0.7, X[:, parent], X[:, child]) % sizes[child]
        columns = Columns(d, categories=tuple(range(int(s)) for s in sizes), parents=tuple(parents.tolist()))
    elif name == "bernoulli":
        X = (rng.random((n, d)) < rng.random((k, d))[y]).astype(float)
    else:
        X = rng.poisson(3.0 * rng.random((k, d))[y]).astype(float)
        if seed % 3 == 0:  # a word that fills a document
            X[rng.random((n, d)) < 0.05] *= 1000.0
    if missing:
        X[rng.random((n, d)) < 0.2] = np.nan
    weight = np.where(rng.random(n) < 0.3, 0.0, rng.random(n) + 0.1) if weighted else None
    return World(family, X, y, weight, Schema(np.arange(k), (columns,)), alpha)


def worlds(names=tuple(FAMILIES), least_rows: int = 0, alphas=(1e-6, 0.5, 1.0, 3.0), **settings):
    """Any family, any size, with or without missing entries and weights."""
    return st.builds(
        make,
        st.sampled_from(names),
        st.integers(0, 10_000),
        st.integers(least_rows, 30),
        st.integers(1, 5),
        st.integers(1, 4),
        st.booleans(),
        st.booleans(),
        st.sampled_from(alphas),
        **{key: st.sampled_from(values) for key, values in settings.items()},
    )


GENERATIVE = tuple(name for name, family in FAMILIES.items() if family.generative)
