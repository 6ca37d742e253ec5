"""Models of every kind and rows to score: missing values, values never seen, names of all sorts."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import cache

import duckdb
import numpy as np
import pandas as pd

import deciban
from deciban import (
    BernoulliNB,
    CategoricalNB,
    Classifier,
    ComplementNB,
    GaussianDiscriminant,
    GaussianMixture,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminant,
    MultinomialNB,
    NaiveBayes,
    NearestCentroid,
    PoissonNB,
    QuadraticDiscriminantAnalysis,
    TreeAugmentedNB,
)


@dataclass
class Case:
    """A fitted model, rows as it reads them, and the same rows as a table."""

    model: deciban.GaussianNB
    X: object
    frame: pd.DataFrame


def matrix(model, X, y, scored):
    scored = np.asarray(scored)
    return Case(model.fit(X, y), scored, pd.DataFrame(scored, columns=[f"x{j}" for j in range(scored.shape[1])]))


def table(model, frame, y, scored):
    return Case(model.fit(frame, y), scored, scored)


def with_missing(X, rng, share=0.15):
    return np.where(rng.random(X.shape) < share, np.nan, X)


def counts(rng, n=120, d=4, k=3):
    y = rng.integers(0, k, n)
    return rng.poisson(0.3 + 2 * rng.random((k, d))[y]).astype(float), np.array(["red", "green", "blue"])[y]


def reals(rng, n=150, d=4, k=3, far=0.0):
    y = rng.integers(0, k, n)
    return far + rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 2 * rng.normal(size=(k, d))[y], y * 10


def mixed_frame(rng, n=300):
    """Numbers, counts, categories, booleans and dates, all with missing values."""
    y = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "height": with_missing(rng.normal(1.7 + 0.1 * y, 0.1), rng),
            "goals": with_missing(rng.poisson(1.0 + y).astype(float), rng),
            "team": np.where(rng.random(n) < 0.2, None, rng.choice(["red", "blue", "green"], n)),
            "plays": pd.array(np.where(rng.random(n) < 0.1, None, rng.random(n) < 0.3 + 0.4 * y), dtype="boolean"),
            "born": pd.to_datetime("1970-01-01")
            + pd.to_timedelta(np.round(9000 + 900 * y + rng.normal(0, 900, n)), "D"),
        }
    )
    frame.loc[rng.random(n) < 0.1, "born"] = pd.NaT
    return frame, np.where(y == 1, "rugby", "hockey")


def rings(rng, n=300):
    """Two rings, one around the other, which Fourier features describe best; and categories, some of a single row."""
    y = rng.integers(0, 2, n)
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1.0 + y + rng.normal(0, 0.35, n)
    x = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) @ [[1.0, 0.8], [-0.2, 0.5]]
    kind = np.where(rng.random(n) < 0.1, [f"only {i}" for i in range(n)], rng.choice(["p", "q"], n))
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "kind": kind}), y


def other_rings(rng):
    """Rows of which some have no value of a number that is never missing, or a kind that was never seen."""
    frame, _ = rings(rng)
    frame.loc[::5, "a"] = np.nan
    frame.loc[::3, "kind"] = "new"
    return frame


def categories(rng, n=150):
    y = rng.integers(0, 2, n)
    first = (y + rng.integers(0, 3, n)) % 4
    rows = np.column_stack([first, (first + rng.integers(0, 2, n)) % 3, rng.integers(0, 5, n)])
    words = np.array(["", "a b", "it's", 'say "x"', "back\\slash", "naïve", "雪"], dtype=object)[rows + 1]
    words[rng.random(words.shape) < 0.1] = None
    return words, y.astype(bool)


def dependent_words(rng, n=200):
    """Seven columns of words, each dependent on the one before."""
    y = rng.integers(0, 3, n)
    rows = np.empty((n, 7), dtype=int)
    rows[:, 0] = rng.integers(0, 3, n)
    for j in range(1, 7):
        rows[:, j] = np.where(rng.random(n) < 0.7, (rows[:, j - 1] + y) % (j % 3 + 2), rng.integers(0, j % 3 + 2, n))
    return np.array(["p", "q", "r", "s"], dtype=object)[rows], y


def half_missing(rows, rng):
    """Half of the entries missing, and a few never seen."""
    chance = rng.random(rows.shape)
    return np.where(chance < 0.5, None, np.where(chance < 0.55, "new", rows))


MAKERS = {
    "gaussian": lambda r: matrix(GaussianNB(), *reals(r), with_missing(reals(r)[0], r)),
    "gaussian far from zero": lambda r: matrix(GaussianNB(), *reals(r, far=1e9), reals(r, far=1e9)[0]),
    "gaussian predictive": lambda r: matrix(
        GaussianNB(alpha=1.0, predictive=True), *reals(r), with_missing(reals(r)[0], r)
    ),
    "gaussian, one class": lambda r: matrix(GaussianNB(), reals(r)[0], ["only"] * 150, reals(r)[0]),
    "bernoulli": lambda r: matrix(BernoulliNB(), *counts(r), with_missing(counts(r)[0], r)),
    "bernoulli, a threshold": lambda r: matrix(BernoulliNB(binarize=1.5), *counts(r), with_missing(counts(r)[0], r)),
    "multinomial": lambda r: matrix(MultinomialNB(), *counts(r), with_missing(counts(r)[0], r)),
    "multinomial, impossible words": lambda _: matrix(
        MultinomialNB(alpha=0.0), [[1, 0, 2], [0, 1, 0], [1, 1, 0]], ["a", "b", "b"], [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    ),
    "poisson": lambda r: matrix(PoissonNB(), *counts(r), with_missing(counts(r)[0], r)),
    "poisson, impossible counts": lambda _: matrix(
        PoissonNB(alpha=0.0), [[1, 0], [2, 0], [0, 1]], [1, 1, 0], [[1, 0], [1, 1], [0, np.nan]]
    ),
    "complement": lambda r: matrix(ComplementNB(), *counts(r), with_missing(counts(r)[0], r)),
    "complement, normalised": lambda r: matrix(ComplementNB(norm=True), *counts(r), counts(r)[0]),
    "categorical": lambda r: matrix(CategoricalNB(), *categories(r), categories(r)[0]),
    "categorical codes": lambda r: matrix(
        CategoricalNB(alpha=0.5), counts(r)[0] % 4, counts(r)[1], with_missing(counts(r)[0] % 6, r)
    ),
    "tree": lambda r: matrix(TreeAugmentedNB(), *categories(r), categories(r)[0]),
    "tree with gaps": lambda r: matrix(
        TreeAugmentedNB(parents=[-1, 0, 1, 1, 3, 3, 5], alpha=0.5),
        *dependent_words(r),
        half_missing(dependent_words(r)[0], r),
    ),
    "tree with gaps, impossible values": lambda r: matrix(
        TreeAugmentedNB(parents=[1, -1, 1, 2, 3, -1, 5], alpha=0.0),
        *dependent_words(r, 40),
        half_missing(dependent_words(r)[0], r),
    ),
    "tree of numbers": lambda r: matrix(TreeAugmentedNB(), *reals(r), with_missing(reals(r)[0], r)),
    "linear discriminant": lambda r: matrix(LinearDiscriminantAnalysis(), *reals(r), reals(r)[0]),
    "linear discriminant far from zero": lambda r: matrix(
        LinearDiscriminantAnalysis(), *reals(r, far=1e9), reals(r, far=1e9)[0]
    ),
    "quadratic discriminant": lambda r: matrix(QuadraticDiscriminantAnalysis(), *reals(r), reals(r)[0]),
    "gaussian discriminant": lambda r: matrix(GaussianDiscriminant(), *reals(r), reals(r)[0]),
    "gaussian discriminant, aligned": lambda r: matrix(
        GaussianDiscriminant(covariance="diag"), *reals(r), with_missing(reals(r)[0], r)
    ),
    "nearest centroid": lambda r: matrix(NearestCentroid(), *reals(r), with_missing(reals(r)[0], r)),
    "nearest centroid, priors": lambda r: matrix(NearestCentroid(priors="empirical"), *reals(r), reals(r)[0]),
    "mixture of components": lambda r: matrix(MixtureDiscriminant(random_state=0), *reals(r, n=300), reals(r)[0]),
    "gaussian mixture": lambda r: matrix(GaussianMixture(2, random_state=0), *reals(r), reals(r)[0]),
    "naive Bayes of a table": lambda r: table(
        NaiveBayes({"goals": "poisson", "team": ("categorical", 0.5)}), *mixed_frame(r), other_rows(r)
    ),
    "naive Bayes, one column dropped": lambda r: matrix(
        NaiveBayes({1: "drop", (0, 2): "full"}), *reals(r), reals(r)[0]
    ),
    "classifier": lambda r: table(Classifier(n_jobs=1), *mixed_frame(r), other_rows(r)),
    "classifier of rings": lambda r: table(Classifier(n_jobs=1), *rings(r), other_rings(r)),
    "classifier of numbers": lambda r: matrix(Classifier(n_jobs=1), *reals(r), with_missing(reals(r)[0], r)),
}


def other_rows(rng):
    """Rows with a team that was never seen."""
    frame, _ = mixed_frame(rng)
    frame.loc[::7, "team"] = "purple"
    return frame


@cache
def case(name: str) -> Case:
    return MAKERS[name](np.random.default_rng(3))


# ------------------------------------------------------------------ databases


def in_duckdb(statement: str, frame: pd.DataFrame, name: str = "data") -> pd.DataFrame:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("rows", frame)
        connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM rows")
        connection.unregister("rows")
        return connection.execute(statement).df()


def in_sqlite(statement: str, frame: pd.DataFrame, name: str = "data") -> pd.DataFrame:
    connection = sqlite3.connect(":memory:")
    columns = ", ".join(quoted(column) for column in frame.columns)
    connection.execute(f"CREATE TABLE {quoted(name)} ({columns})")
    marks = ", ".join("?" * frame.shape[1])
    connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", list(cells(frame)))
    cursor = connection.execute(statement)
    return pd.DataFrame(cursor.fetchall(), columns=[field[0] for field in cursor.description])


DATABASES = {"duckdb": in_duckdb, "sqlite": in_sqlite}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def cells(frame: pd.DataFrame):
    """Rows of Python's own values, None where missing, dates as ISO strings."""
    for row in frame.itertuples(index=False):
        yield tuple(
            None
            if pd.isna(value)
            else value.isoformat(sep=" ")
            if isinstance(value, pd.Timestamp)
            else value.item()
            if isinstance(value, np.generic)
            else value
            for value in row
        )


def unscorable(model, X) -> np.ndarray:
    """Which rows have two values or more that were never seen: exported Gaussians have no score for them."""
    n = len(X)
    if not isinstance(model, Classifier):
        return np.zeros(n, dtype=bool)
    value = model.model_
    weights = zip(value.experts, value.pool.weights, strict=False)
    if not any(expert.name == "gaussians" and weight > 0 for expert, weight in weights):
        return np.zeros(n, dtype=bool)
    rows = value.encoding.rows(model._rows(X))
    return ((rows.small == 255) & (np.bincount(value.encoding.owner, minlength=rows.small.shape[1]) > 0)).sum(
        axis=1
    ) > 1
