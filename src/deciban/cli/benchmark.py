"""`deciban bench`: speed and accuracy compared with scikit-learn on this machine, within a minute.

The data are generated. The two of a pair take turns and the best run of each counts, so that a busy machine slows both.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import deciban
from deciban._typing import Array, Floats
from deciban.show import Result, Table

BATCHES = 20  # of partial_fit
MIN_SECONDS = 0.3  # runs are repeated up to 10 × `repeats` times until they took this long: short times are noisy
MAX_SECONDS = 4.0  # no more repeats after this


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured, and how."""

    rows: int  # of numbers, for GaussianNB
    columns: int
    documents: int
    table: int  # rows of the mixed table to learn; as many again are predicted
    repeats: int  # of every pair, unless it is very short or long; the best counts
    refits: int  # timed for leave-one-out; the cost of all n is extrapolated
    threads: int | None = None  # for both libraries; None is the default of each


FULL = Sizes(rows=200_000, columns=32, documents=8_000, table=4_000, repeats=5, refits=3)
QUICK = Sizes(rows=50_000, columns=32, documents=2_000, table=1_000, repeats=3, refits=2)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same work done by both: seconds, and the difference of their results."""

    what: str
    ours: float
    theirs: float
    difference: float | None = None  # the largest difference of two probabilities; None if none are computed
    estimated: bool = False  # whether `theirs` is extrapolated from a few refits

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


@dataclass(frozen=True, slots=True)
class Contender:
    """A model of the mixed table: its times in seconds, and its accuracy and log loss on new rows."""

    model: str
    fit: float
    predict: float
    accuracy: float
    log_loss: float


@dataclass(frozen=True, slots=True, repr=False)
class Bench(Result):
    """What `bench` measured: the same work side by side, and a mixed table under three models."""

    sizes: Sizes
    machine: str
    pairs: tuple[Pair, ...]
    contenders: tuple[Contender, ...]

    def to_table(self) -> Table:
        """The same work, by deciban and by scikit-learn."""
        rows = [
            (
                p.what,
                duration_text(p.ours),
                ("≈ " if p.estimated else "") + duration_text(p.theirs),
                ratio_text(p.ratio),
                rounded_difference(p.difference),
            )
            for p in self.pairs
        ]
        columns = ("the same work", "deciban", "scikit-learn", "ratio", "difference")
        return Table("", columns, rows, right=columns[1:])

    def to_contest(self) -> Table:
        """The mixed table under each model."""
        rows = [
            (c.model, duration_text(c.fit), duration_text(c.predict), c.accuracy, c.log_loss) for c in self.contenders
        ]
        return Table("", ("a mixed table", "fit", "predict", "accuracy", "log loss"), rows, right=("fit", "predict"))

    def to_dict(self) -> dict[str, Any]:
        """Times in seconds."""
        return {
            "machine": self.machine,
            "sizes": {name: getattr(self.sizes, name) for name in Sizes.__slots__},
            "pairs": [
                {
                    "what": p.what,
                    "deciban": p.ours,
                    "scikit-learn": p.theirs,
                    "estimated": p.estimated,
                    "ratio": p.ratio,
                    "difference": p.difference,
                    "apart": p.difference,  # the old key
                }
                for p in self.pairs
            ],
            "table": [{name: getattr(c, name) for name in Contender.__slots__} for c in self.contenders],
        }

    def _parts(self) -> list[Table | str]:
        return [
            f"On this machine ({self.machine}), best of several runs, with default settings"
            + (", in one thread because other programs keep the processors busy" if self.sizes.threads == 1 else "")
            + ". Ratios hold for this machine and these data; above 1 deciban is faster.",
            self.to_table(),
            "difference: the largest difference of their probabilities. For texts, the times include counting words. "
            f"≈: estimated from {self.sizes.refits} of the refits.",
            self.to_contest(),
            f"{self.sizes.table:,} rows learned and as many others predicted: generated numbers and categories, some "
            "missing. Generated data favour the model that generated them: try your own data with deciban compare.",
        ]


def bench(quick: bool = False, sizes: Sizes | None = None, on_step: Callable[[str], object] | None = None) -> Bench:
    """Time deciban and scikit-learn: about a minute, or ten seconds if `quick`.

    `on_step` is called with the name of each part before it starts.
    """
    import sklearn

    sizes = sizes or replace(QUICK if quick else FULL, threads=1 if machine_is_busy() else None)
    on_step = on_step or (lambda what: None)  # noqa: ARG005 - nothing to report
    with threadpool_limits(sizes.threads):
        on_step("Gaussian naive Bayes")
        pairs = gaussian_pairs(sizes)
        on_step("words")
        pairs += word_pairs(sizes)
        on_step("a mixed table")
        results = contenders_on_mixed_table(sizes)
    processors = os.cpu_count() or 1
    machine = (
        f"{platform.system()} {platform.machine()}, {processors} processor{'s' * (processors > 1)}, "
        f"Python {platform.python_version()}, deciban {deciban.__version__}, scikit-learn {sklearn.__version__}"
    )
    return Bench(sizes, machine, tuple(pairs), tuple(results))


def machine_is_busy() -> bool:
    """Whether other processes keep the cores busy: then timings of several threads measure the waiting."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1)


def best_times(repeats: int, *runs: Callable[[], object]) -> list[float]:
    """The best wall time of each, taking turns: `repeats` runs, more if they are short and fewer if they are long."""
    best, spent, turns = [float("inf")] * len(runs), 0.0, 0
    while turns == 0 or (turns < repeats and spent < MAX_SECONDS) or (turns < 10 * repeats and spent < MIN_SECONDS):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            run()
            took = time.perf_counter() - start
            best[i], spent = min(best[i], took), spent + took
        turns += 1
    return best


def side_by_side(sizes: Sizes, ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    our_seconds, their_seconds = best_times(sizes.repeats, ours, theirs)
    return our_seconds, their_seconds


# ---------------------------------------------------------------------- numbers


def gaussian_pairs(sizes: Sizes) -> list[Pair]:
    """GaussianNB: fit, predict_proba, partial_fit, and leave-one-out compared with refitting."""
    from sklearn.naive_bayes import GaussianNB

    X, y = gaussian_table(sizes.rows, sizes.columns)
    ours, theirs = deciban.GaussianNB(n_jobs=sizes.threads), GaussianNB()
    shape = f"{len(X):,} × {X.shape[1]}"
    fit = side_by_side(sizes, lambda: ours.fit(X, y), lambda: theirs.fit(X, y))
    predict = side_by_side(sizes, lambda: ours.predict_proba(X), lambda: theirs.predict_proba(X))
    difference = largest_difference(ours.predict_proba(X), theirs.predict_proba(X))
    parts = np.array_split(np.arange(len(X)), BATCHES)
    batches = [(X[part], y[part]) for part in parts]
    partial_fit = side_by_side(
        sizes,
        lambda: fit_in_batches(deciban.GaussianNB(n_jobs=sizes.threads), batches, np.unique(y)),
        lambda: fit_in_batches(GaussianNB(), batches, np.unique(y)),
    )
    return [
        Pair(f"GaussianNB {shape}, fit", *fit),
        Pair("  predict_proba", *predict, difference),
        Pair(f"  partial_fit, {BATCHES} batches", *partial_fit),
        leave_one_out_pair(X, y, ours, theirs, sizes),
    ]


def gaussian_table(n: int, d: int) -> tuple[Floats, Array]:
    """Four classes of Gaussian columns, with means a little apart."""
    rng = np.random.default_rng(1)
    y = np.arange(n) % 4
    return rng.normal(size=(n, d)) * rng.uniform(0.5, 2.0, d) + 0.3 * rng.normal(size=(4, d))[y], y


def fit_in_batches(model: Any, batches: list[tuple[Floats, Array]], classes: Array) -> None:
    for X, y in batches:
        model.partial_fit(X, y, classes)


def leave_one_out_pair(X: Floats, y: Array, ours: Any, theirs: Any, sizes: Sizes) -> Pair:
    """Every row's posterior without itself: exactly in one pass, or by one refit per row."""
    exact = ours.leave_one_out(X, y)
    our_seconds = best_times(sizes.repeats, lambda: ours.leave_one_out(X, y))[0]
    refit_seconds, difference = float("inf"), 0.0
    for i in np.random.default_rng(2).choice(len(X), sizes.refits, replace=False):
        others = np.arange(len(X)) != i
        X_others, y_others = X[others], y[others]  # copied outside the clock
        start = time.perf_counter()
        without_row = theirs.fit(X_others, y_others).predict_proba(X[[i]])
        refit_seconds = min(refit_seconds, time.perf_counter() - start)
        difference = max(difference, largest_difference(exact.proba[[i]], without_row))
    return Pair("  leave-one-out of every row", our_seconds, refit_seconds * len(X), difference, estimated=True)


# ---------------------------------------------------------------------- words


def word_pairs(sizes: Sizes) -> list[Pair]:
    """Texts counted and learned: CountVectorizer and MultinomialNB of both libraries."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    texts, y = documents(sizes.documents)
    new, _ = documents(max(1, sizes.documents // 4), seed=4)
    ours = (deciban.CountVectorizer(n_jobs=sizes.threads), deciban.MultinomialNB(n_jobs=sizes.threads))
    theirs = (CountVectorizer(), MultinomialNB())
    fit = side_by_side(sizes, lambda: fit_counts(*ours, texts, y), lambda: fit_counts(*theirs, texts, y))
    predict = side_by_side(sizes, lambda: predict_proba(*ours, new), lambda: predict_proba(*theirs, new))
    return [
        Pair(f"MultinomialNB {len(texts):,} texts, fit", *fit),
        Pair(
            f"  predict_proba of {len(new):,}",
            *predict,
            largest_difference(predict_proba(*ours, new), predict_proba(*theirs, new)),
        ),
    ]


def documents(n: int, seed: int = 3) -> tuple[list[str], Array]:
    """Texts of about eighty made-up words with Zipf frequencies; the two classes differ in some of them."""
    rng, vocabulary = np.random.default_rng(seed), made_up_words()
    y = np.arange(n) % 2
    sizes = rng.integers(40, 120, n)
    drawn = np.minimum(rng.zipf(1.3, sizes.sum()) - 1, len(vocabulary) - 1)
    shifted = (drawn + (drawn % 11 == 0) * np.repeat(y, sizes) * 7) % len(vocabulary)
    return [" ".join(words) for words in np.split(vocabulary[shifted], np.cumsum(sizes)[:-1])], y


@cache
def made_up_words() -> Array:
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 10, 20_000)
    letters = "".join(rng.choice(list("aeioubdfgklmnprstvz"), lengths.sum()))
    ends = np.cumsum(lengths)
    return np.array([letters[end - length : end] for end, length in zip(ends, lengths, strict=True)])


def fit_counts(vectorizer: Any, model: Any, texts: list[str], y: Array) -> None:
    model.fit(vectorizer.fit_transform(texts), y)


def predict_proba(vectorizer: Any, model: Any, texts: list[str]) -> Floats:
    return np.asarray(model.predict_proba(vectorizer.transform(texts)))


# ---------------------------------------------------------------------- a mixed table


@dataclass(frozen=True, slots=True)
class Mixed:
    """A table of numbers and categories, some missing. `codes` are the categories as numbers, NaN where missing."""

    numbers: Floats
    codes: Floats
    y: Array

    def rows(self, where: slice) -> Mixed:
        return Mixed(self.numbers[where], self.codes[where], self.y[where])

    def columns(self) -> dict[str, Any]:
        """As a data frame: categories are strings."""
        columns: dict[str, Any] = {f"number_{j}": column for j, column in enumerate(self.numbers.T)}
        for j, column in enumerate(self.codes.T):
            columns[f"category_{j}"] = [None if np.isnan(code) else f"value {code:.0f}" for code in column]
        return columns

    def array(self) -> Floats:
        """For scikit-learn: numbers first, then codes."""
        return np.hstack([self.numbers, self.codes])


def mixed_table(n: int) -> Mixed:
    """Three classes of two clusters each: eight correlated numbers, six categories, one entry in 20 missing."""
    rng = np.random.default_rng(5)
    cluster = rng.integers(0, 6, n)
    centres, mixing = rng.normal(size=(6, 8)), rng.normal(size=(6, 8, 8)) / np.sqrt(8)
    values = 0.6 * centres[cluster] + np.einsum("nd,nde->ne", rng.normal(size=(n, 8)), mixing[cluster])
    values[:, :3] = np.exp(values[:, :3])  # skewed, like amounts of money
    chances = rng.dirichlet(np.full(5, 1.5), size=(6, 6))[cluster].cumsum(axis=2)
    codes = np.minimum((rng.random((n, 6, 1)) > chances).sum(axis=2), 4).astype(float)
    values[rng.random(values.shape) < 0.05] = np.nan
    codes[rng.random(codes.shape) < 0.05] = np.nan
    return Mixed(values, codes, cluster % 3)


def contenders_on_mixed_table(sizes: Sizes) -> list[Contender]:
    """deciban's Classifier, gradient boosting and logistic regression on one mixed table."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    table = mixed_table(2 * sizes.table)
    train, test = table.rows(slice(sizes.table)), table.rows(slice(sizes.table, None))
    number_columns = np.arange(train.numbers.shape[1])
    category_columns = len(number_columns) + np.arange(train.codes.shape[1])
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), number_columns),
        (OneHotEncoder(handle_unknown="ignore"), category_columns),
    )
    boosting = HistGradientBoostingClassifier(categorical_features=category_columns, random_state=0)
    regression = make_pipeline(prepare, LogisticRegression(max_iter=1000))
    ours = deciban.Classifier(n_jobs=sizes.threads)
    return [
        contender("deciban Classifier", ours, train.columns(), train.y, test.columns(), test.y, sizes),
        contender("HistGradientBoosting", boosting, train.array(), train.y, test.array(), test.y, sizes),
        contender("LogisticRegression", regression, train.array(), train.y, test.array(), test.y, sizes),
    ]


def contender(name: str, model: Any, X: Any, y: Array, X_new: Any, y_new: Array, sizes: Sizes) -> Contender:
    fit = best_times(sizes.repeats, lambda: model.fit(X, y))[0]
    predict = best_times(sizes.repeats, lambda: model.predict_proba(X_new))[0]
    proba = np.asarray(model.predict_proba(X_new))
    truth = np.searchsorted(model.classes_, y_new)
    accuracy = float(np.mean(np.argmax(proba, axis=1) == truth))
    with np.errstate(divide="ignore"):
        losses = -np.log(proba[np.arange(len(truth)), truth])
    return Contender(name, fit, predict, accuracy, float(np.mean(losses)))


# ---------------------------------------------------------------------- formatting


def largest_difference(a: Any, b: Any) -> float:
    """The largest difference of two tables of probabilities."""
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def duration_text(value: float) -> str:
    """A time in a suitable unit, to three digits: 1.23 ms, 4.56 s, 7.8 h."""
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def rounded_difference(value: float | None) -> str | None:
    return None if value is None else f"{value:.0e}"


def ratio_text(ratio: float) -> str:
    return f"{ratio:.2g}×" if ratio < 10 else f"{ratio:,.0f}×"
