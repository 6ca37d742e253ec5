"""Small random data sets for the laws: every family, by discovery, with data drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
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
            if seed % 2:  # a child that copies its parent
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


# Settings under which a family keeps other sums, or makes another law of them. Every law is held to each.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "multivariate_gaussian": [
        {},
        {"covariance": "tied"},
        {"covariance": "diag"},
        {"covariance": "tied_spherical"},
        {"covariance": "EVI"},
        {"covariance": "EEV"},
        {"tie": 0.3, "sphere": 0.1},
        {"covariance": "tied", "sphere": "oas"},
        {"sphere": "auto"},
        {"predictive": True},
    ],
    "gaussian": [
        {},
        {"smoothing": 0.0},
        {"smoothing": 0.1},
        {"smoothing": 0.0, "guess_mean": 1.0},
        {"guess_mean": 1.0, "guess_variance": 2.0},
        {"predictive": True},
        {"predictive": True, "smoothing": 0.0},
        {"predictive": True, "smoothing": 0.1, "guess_mean": 1.0},
    ],
    "multinomial": [{}, {"predictive": True}],
    "geometric": [{}, {"predictive": True}],
    "poisson": [{}, {"predictive": True}],
    "complement": [{}, {"norm": True}],
    "bernoulli": [{}, {"threshold": None}],
}


@dataclass(frozen=True)
class Case:
    """A family in one of its settings."""

    family: str
    settings: dict[str, Any] = field(default_factory=dict, hash=False)

    def make(self, seed: int, n: int, d: int, k: int, missing: bool, weighted: bool, alpha: float) -> World:
        return make(self.family, seed, n, d, k, missing, weighted, alpha, **self.settings)

    @property
    def law(self) -> Family:
        return FAMILIES[self.family](**self.settings)

    def __str__(self) -> str:
        return ",".join([self.family, *(f"{name}={value}" for name, value in self.settings.items())])


CASES = [Case(name, each) for name in FAMILIES for each in SETTINGS.get(name, [{}])]
GENERATIVE = [case for case in CASES if case.law.generative]
PIVOTED = [case for case in CASES if case.law.pivoted]


def law(
    cases: list[Case] = CASES,
    *,
    rows: tuple[int, int] = (0, 30),
    columns: int = 5,
    classes: int = 4,
    alphas: tuple[float, ...] = (1e-6, 0.5, 1.0, 3.0),
    always: tuple[dict[str, Any], ...] = (),
    **drawn: st.SearchStrategy[Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate `check(world, …)` as a property test: per case, worlds of any size, with and without gaps and weights.

    The family is not drawn: every family is met in every run. A quick run tries five worlds each, of which the first
    is the smallest there is, and `make test-all` forty; both try those that are given by `always`.
    """
    sizes = {
        "seed": st.integers(0, 10_000),
        "n": st.integers(*rows),
        "d": st.integers(1, columns),
        "k": st.integers(1, classes),
        "missing": st.booleans(),
        "weighted": st.booleans(),
        "alpha": st.sampled_from(alphas),
    }

    def held(check: Callable[..., None]) -> Callable[..., None]:
        def test(case: Case, **values: Any) -> None:
            check(case.make(**{name: values.pop(name) for name in sizes}), **values)

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__doc__, test.__module__ = check.__doc__, check.__module__
        examples = 5 if settings.get_current_profile_name() == "quick" else 40
        tried = settings(max_examples=examples)(given(**sizes, **drawn)(test))
        for world in always:
            tried = example(**world)(tried)
        return pytest.mark.parametrize("case", cases, ids=str)(tried)

    return held
