"""How well and how fast `Classifier()` judges tables, with nothing but defaults, beside scikit-learn.

Every set of the data folder with a `schema.json` takes part. All models get the same data frame: numbers as numbers,
categories as pandas categories, missing entries as such. What a peer must do to read it (fill in medians and say where,
one-hot or ordinal codes, scale) belongs to the peer and to its seconds. The parts:

accuracy  five stratified folds (seed 0), at most 20,000 rows of a table, classes of five rows or more: accuracy, log
          loss in nats (a probability below 1e-15 counts as that) and seconds of a fit, with one thread of OpenMP and
          of the linear algebra, because on a busy machine many wait for each other: not for comparing speed
honest    what the model says of itself, its leave-one-out log loss, beside the test folds; and labels that were
          permuted, where the class prior is as good as it gets
mixed     whether any other model knows something that `Classifier()` does not: log loss of a weighted mean of the
          logarithms of both probabilities, by the weight of the other, on tables of fewer than 5,000 rows
missing   0 to 60 % of all entries removed at random, in training and test rows
speed     seconds of fit and predict_proba in turns, the best of three, on tables of fewer than 5,000 rows, adult and
          covtype (once); peers with all threads and with one, whichever is quicker. Then processor seconds of a fit
          with one thread each
answers   rows a second of predict_proba with one thread and with two, adult and covtype; milliseconds of
          predict_proba and explain of a single row, and how often a second a `Scorer` answers one
growth    seconds and memory as rows, columns, classes and categories of a synthetic table grow

LightGBM and CatBoost take part if they are installed: `pip install deciban[peers]`.

DECIBAN_DATA names where the sets are; by default `../shared/data` next to the project.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, lru_cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import sklearn
from scipy.special import log_softmax, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import deciban

OUT = Path(__file__).parent / "results"
DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
FOLDS = 5
MAX_ROWS_JUDGED = 20_000  # of a table
MIN_PROBABILITY = 1e-15  # for clipping, so that one certain mistake costs 34.5 nats and not infinity
MIN_LOSS_COMPARED = 1e-3  # nats: a trivial table is far from all others, and would make any correlation high
SMALL_TABLE_ROWS = 5_000  # smaller tables must be fitted as fast as by boosting
BOOSTED_LEVELS = 255  # per column, the limit of boosting
PERMUTED = ("credit_approval", "hepatitis", "pima", "soybean", "vehicle")
WITH_GAPS = ("pima", "vehicle", "credit_approval", "heart_cleveland", "kr_vs_kp")  # numbers twice, mixed twice, names
SHARES_MIXED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
MIN_PROBABILITY_MIXED = 1e-4  # of the others: boosting is often certain, and wrong
REMOVED = (0.0, 0.2, 0.4, 0.6)
BIG_TABLES = ("adult", "covtype")
REPEATS = 3
ROW_COUNTS = (1_000, 10_000, 100_000, 1_000_000)  # by 20 columns and 2 classes
COLUMN_COUNTS = (10, 30, 100, 300, 1_000)  # by 2,000 rows and 2 classes
CLASS_COUNTS = (2, 5, 10, 20, 50, 100)  # by 5,000 rows and 20 columns
CATEGORY_COUNTS = (10, 100, 1_000, 10_000)  # of each column of categories, by 20,000 rows and 20 columns
ROWS_ANSWERED = {"adult": 48_842, "covtype": 100_000}


class Table(NamedTuple):
    frame: pd.DataFrame
    y: np.ndarray


class Judged(NamedTuple):
    accuracy: float
    loss: float
    seconds: float  # of one fit, the mean over folds
    own: float  # the model's own leave-one-out log loss; NaN for peers


class Target(NamedTuple):
    what: str
    figure: float
    sense: str
    aim: float

    @property
    def met(self) -> bool:
        return {"<=": self.figure <= self.aim, "<": self.figure < self.aim, ">=": self.figure >= self.aim}[self.sense]

    def __str__(self) -> str:
        stands = "unknown" if np.isnan(self.figure) else "met" if self.met else "MISSED"
        return f"{stands:<7}  {self.what}: {self.figure:.4g}, target {self.sense} {self.aim:g}"


Section = tuple[list[str], list[Target]]  # lines of text, and targets

# ---------------------------------------------------------------------- data


def tables() -> list[str]:
    names = sorted(path.parent.name for path in DATA.glob("*/schema.json"))
    if not names:
        raise SystemExit(f"no set with a schema.json in {DATA}: DECIBAN_DATA names where the data sets are")
    return names


@lru_cache(1)
def load(name: str) -> Table:
    """A set as a data frame of numbers and categories, and its labels; rows without a label are left out."""
    if name == "covtype":
        frame = pd.read_csv(DATA / name / "covtype.csv.gz")
        return Table(frame, frame.pop("Cover_Type").to_numpy(dtype=str))
    schema = json.loads((DATA / name / "schema.json").read_text())
    files = sorted((DATA / name).glob("*.csv"))
    read = [pd.read_csv(f, na_values=["?"], keep_default_na=False, dtype=str) for f in files]
    frame = pd.concat(read, ignore_index=True)
    frame = frame[frame[schema["target"]].notna()].reset_index(drop=True)
    y = frame.pop(schema["target"]).to_numpy(dtype=str)
    numeric = {column["name"] for column in schema["columns"] if column["type"] == "numeric"}
    columns = {
        column: pd.to_numeric(frame[column]).astype(float) if column in numeric else frame[column].astype("category")
        for column in frame.columns
    }
    return Table(pd.DataFrame(columns), y)


def judged_rows(table: Table) -> Table:
    """The rows that models are judged on: a sample of a large table, without classes too small for the folds."""
    rows = np.random.RandomState(0).permutation(len(table.y))[:MAX_ROWS_JUDGED]
    labels, often = np.unique(table.y[rows], return_counts=True)
    rows = np.sort(rows[np.isin(table.y[rows], labels[often >= FOLDS])])
    return Table(table.frame.iloc[rows], table.y[rows])


def without(frame: pd.DataFrame, share: float) -> pd.DataFrame:
    """The frame with a share of all entries removed at random; a smaller share is part of a larger one."""
    gone = np.random.RandomState(0).random_sample(frame.shape) < share
    return pd.DataFrame({column: frame[column].mask(gone[:, j]) for j, column in enumerate(frame.columns)})


def learned(frame: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    """Training rows, with only the categories that occur in them."""
    part = frame.iloc[rows]
    names = part.select_dtypes("category").columns
    return part.assign(**{column: part[column].cat.remove_unused_categories() for column in names})


def size(table: Table) -> str:
    numbers = len(table.frame.select_dtypes("number").columns)
    rows, columns = table.frame.shape
    gaps = f", {gone:.0%} missing" if (gone := table.frame.isna().to_numpy().mean()) else ""
    return f"{rows:,} × {columns} ({numbers} numbers), {len(np.unique(table.y))} classes{gaps}"


# ---------------------------------------------------------------------- models


class TextbookNaiveBayes:
    """Numbers are Gaussian, categories are counted with one pseudo-count each, and what is missing drops out."""

    def fit(self, frame: pd.DataFrame, y: np.ndarray) -> TextbookNaiveBayes:
        self.classes_, codes = np.unique(y, return_inverse=True)
        count = np.bincount(codes)
        self.log_prior = np.log(count / len(y))
        self.numbers = frame.select_dtypes("number").columns
        X = frame[self.numbers].to_numpy(dtype=float)
        groups = [X[codes == c] for c in range(len(count))]
        mean, variance = (
            np.array([of(group, axis=0) for group in groups]).reshape(len(count), -1) for of in (np.nanmean, np.nanvar)
        )
        self.mean = np.where(np.isnan(mean), np.nanmean(X, axis=0), mean)  # a class without any known value
        everywhere = np.nanvar(X, axis=0)
        # a constant must not divide by zero: the variance is smoothed as scikit-learn's GaussianNB does
        self.variance = np.where(np.isnan(variance), everywhere, variance) + 1e-9 * np.nanmax(everywhere, initial=0.0)
        self.shares: dict[str, tuple[pd.Index, np.ndarray]] = {}
        for column in frame.columns.difference(self.numbers, sort=False):
            values = frame[column].cat.codes.to_numpy()
            levels, known = frame[column].cat.categories, values >= 0
            table = np.zeros((len(levels), len(count)))
            np.add.at(table, (values[known], codes[known]), 1.0)
            self.shares[column] = levels, np.log((table + 1.0) / (table.sum(axis=0) + len(levels)))
        return self

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        scores = np.tile(self.log_prior, (len(frame), 1))
        for j, x in enumerate(frame[self.numbers].to_numpy(dtype=float).T):
            off = (x[:, None] - self.mean[:, j]) ** 2 / self.variance[:, j]
            scores += np.nan_to_num(-0.5 * (off + np.log(2 * np.pi * self.variance[:, j])))
        for column, (levels, log_share) in self.shares.items():
            values = levels.get_indexer(frame[column].astype(object))
            scores[values >= 0] += log_share[values[values >= 0]]
        return np.asarray(softmax(scores, axis=1))


NUMBERS = make_column_selector(dtype_include=np.number)
NAMES = make_column_selector(dtype_exclude=np.number)


def one_hot(model: Any, scaled: bool = False, indicator: bool = True) -> Any:
    """A peer that takes only numbers: missing values become the median with an indicator, or a level of their own.

    Without `indicator` they become the median or the most frequent level.
    """
    filled = SimpleImputer(strategy="median", add_indicator=indicator)
    numbers = make_pipeline(filled, StandardScaler()) if scaled else filled
    coded = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    names = coded if indicator else make_pipeline(SimpleImputer(strategy="most_frequent"), coded)
    return make_pipeline(ColumnTransformer([("numbers", numbers, NUMBERS), ("names", names, NAMES)]), model)


def logistic(steps: int = 1000) -> Any:
    return one_hot(LogisticRegression(C=1.0, max_iter=steps), scaled=True)


class Boosting:
    """HistGradientBoosting with native categories, given as codes; it handles missing values itself."""

    def fit(self, frame: pd.DataFrame, y: np.ndarray) -> Boosting:
        names = NAMES(frame)
        coded = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=BOOSTED_LEVELS)
        read = ColumnTransformer([("names", coded, names), ("numbers", "passthrough", NUMBERS)])
        boosted = HistGradientBoostingClassifier(categorical_features=list(range(len(names))), random_state=0)
        self.model = make_pipeline(read, boosted).fit(frame, y)
        self.classes_ = self.model.classes_
        return self

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict_proba(frame))


class LightGBM:
    """LightGBM's defaults, with native categories."""

    def fit(self, frame: pd.DataFrame, y: np.ndarray) -> LightGBM:
        from lightgbm import LGBMClassifier

        self.levels = {name: frame[name].cat.categories for name in NAMES(frame)}
        self.model = LGBMClassifier(random_state=0, verbose=-1).fit(self.read(frame), y)
        self.classes_ = self.model.classes_
        return self

    def read(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Its names of columns may not have all characters, and it expects the categories that it learned."""
        out = frame.assign(**{name: frame[name].cat.set_categories(levels) for name, levels in self.levels.items()})
        return out.set_axis([f"c{j}" for j in range(out.shape[1])], axis=1)

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict_proba(self.read(frame)))


class CatBoost:
    """CatBoost's defaults, with native categories; missing names are a category."""

    threads = -1  # of a prediction: as many as there are cores

    def fit(self, frame: pd.DataFrame, y: np.ndarray) -> CatBoost:
        from catboost import CatBoostClassifier

        self.names = NAMES(frame)
        kind = "MultiClass" if len(np.unique(y)) > 2 else None
        self.model = CatBoostClassifier(
            random_seed=0, verbose=0, allow_writing_files=False, cat_features=self.names, loss_function=kind
        ).fit(self.read(frame), y)
        self.classes_ = self.model.classes_
        return self

    def read(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{name: frame[name].astype(object).where(frame[name].notna(), "") for name in self.names})

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict_proba(self.read(frame), thread_count=self.threads))


OURS, LOGISTIC, BOOSTING = "Classifier()", "logistic", "boosting"
OTHER_BOOSTING: dict[str, Callable[[], Any]] = {
    name: make
    for name, module, make in (("LightGBM", "lightgbm", LightGBM), ("CatBoost", "catboost", CatBoost))
    if importlib.util.find_spec(module)
}
MODELS: dict[str, Callable[[], Any]] = {
    OURS: deciban.Classifier,
    "mixed NB": TextbookNaiveBayes,
    "GaussianNB": lambda: one_hot(GaussianNB()),
    "LDA": lambda: one_hot(LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")),
    "QDA": lambda: one_hot(QuadraticDiscriminantAnalysis(reg_param=0.1)),
    LOGISTIC: logistic,
    BOOSTING: Boosting,
    **OTHER_BOOSTING,
}
GENERATIVE = ("mixed NB", "GaussianNB", "LDA", "QDA")
ABOUT = [
    "mixed NB: textbook naive Bayes, Gaussian numbers and Laplace categories. GaussianNB, LDA (lsqr, shrinkage auto),",
    "QDA (reg_param 0.1) and logistic (C = 1, numbers scaled): scikit-learn, one-hot, medians and marks for gaps.",
    "boosting: HistGradientBoosting, categories as such."
    + (f" {' and '.join(OTHER_BOOSTING)}: defaults, categories as such." if OTHER_BOOSTING else ""),
]
IMPUTING: dict[str, Callable[[], Any]] = {
    OURS: MODELS[OURS],
    "imputed + logistic": lambda: one_hot(LogisticRegression(max_iter=1000), scaled=True, indicator=False),
    "imputed + GaussianNB": lambda: one_hot(GaussianNB(), indicator=False),
}

MIXED: dict[str, Callable[[], Any]] = {
    LOGISTIC: logistic,
    "extremely random trees": lambda: one_hot(ExtraTreesClassifier(200, min_samples_leaf=2, random_state=0)),
    "support vectors": lambda: one_hot(
        CalibratedClassifierCV(SVC(C=2.0, random_state=0), cv=3, ensemble=False), scaled=True
    ),
    "neural network": lambda: one_hot(MLPClassifier((64,), alpha=0.1, max_iter=150, random_state=0), scaled=True),
    BOOSTING: Boosting,
}

# ---------------------------------------------------------------------- judging


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def judge(make: Callable[[], Any], table: Table) -> Judged | str:
    """Cross-validated figures of a model, or the error message if it fails."""
    frame, y = table
    right, costs, seconds, own = [], [], [], []
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y, y):
        known = learned(frame, train)
        try:
            with threadpool_limits(1):
                start = time.perf_counter()
                model = make().fit(known, y[train])
                seconds.append(time.perf_counter() - start)
                proba = np.asarray(model.predict_proba(frame.iloc[test]))
        except Exception as error:  # a peer may fail in any way; the others are still judged
            return first_line(error)
        if not np.isfinite(proba).all():
            return "probabilities that are no numbers"
        truth = np.searchsorted(np.asarray(model.classes_), y[test])
        right.append(proba.argmax(axis=1) == truth)
        costs.append(-np.log(np.clip(proba[np.arange(len(test)), truth], MIN_PROBABILITY, 1.0)))
        own.append(model.summary().loss if isinstance(model, deciban.Classifier) else np.nan)
    return Judged(
        float(np.concatenate(right).mean()),
        float(np.concatenate(costs).mean()),
        float(np.mean(seconds)),
        float(np.mean(own)),
    )


@cache
def judged(model: str, name: str) -> Judged | str:
    """The figures of a model on a table, cached for two parts."""
    return judge(MODELS[model], judged_rows(load(name)))


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table that is aligned as plain text."""
    cells = [list(head), *map(list, rows)]
    width = [max(len(row[j]) for row in cells) for j in range(len(head))]
    lines = [
        "| "
        + " | ".join(c.rjust(w) if j else c.ljust(w) for j, (c, w) in enumerate(zip(row, width, strict=True)))
        + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (w + 1) + (":" if j else "-") for j, w in enumerate(width)) + "|"
    return [lines[0], rule, *lines[1:]]


def show(lines: Sequence[str]) -> list[str]:
    if lines:
        print("\n".join(lines), flush=True)
    return list(lines)


# ---------------------------------------------------------------------- parts


def accuracy(names: Sequence[str]) -> Section:
    names = names or tables()
    lines = show(
        [
            "# Accuracy",
            "",
            f"Five folds, at most {MAX_ROWS_JUDGED:,} rows. log loss / accuracy / seconds of a fit, rough ones: "
            "peers have one",
            "thread here, while ours may take more of its own; the part `speed` compares them.",
            *ABOUT,
            "",
        ]
    )
    board: dict[str, dict[str, Judged | str]] = {}
    for name in names:
        lines += show([f"{name}: {size(judged_rows(load(name)))}"])
        board[name] = {}
        for model in MODELS:
            result = board[name][model] = judged(model, name)
            result_text = (
                result
                if isinstance(result, str)
                else f"{result.loss:.4f} / {result.accuracy:.4f} / {result.seconds:.2f} s"
            )
            lines += show([f"    {model:<13} {'FAILS: ' if isinstance(result, str) else ''}{result_text}"])

    def column(model: str, measure: str) -> dict[str, float]:
        by_table = {name: row[model] for name, row in board.items()}
        return {name: getattr(j, measure) for name, j in by_table.items() if isinstance(j, Judged)}

    def cell(name: str, model: str, measure: str) -> str:
        judgement = board[name][model]
        if isinstance(judgement, str):
            return "fails"
        rivals = [getattr(j, measure) for j in board[name].values() if isinstance(j, Judged)]
        best = max(rivals) if measure == "accuracy" else min(rivals)
        return f"{getattr(judgement, measure):.{2 if measure == 'seconds' else 4}f}" + "*" * (
            getattr(judgement, measure) == best
        )

    for measure, title in (("loss", "log loss"), ("accuracy", "accuracy"), ("seconds", "seconds of a fit")):
        means = {model: list(column(model, measure).values()) for model in MODELS}
        averages = [f"{np.mean(m):.4f} ({len(m)})" if m else "fails" for m in means.values()]
        rows = [[name, *(cell(name, model, measure) for model in MODELS)] for name in board]
        note = (
            "* is the best of the row; means are over the tables, in brackets how many, that a model did not fail on."
        )
        lines += show(
            ["", f"## {title.capitalize()}", "", note, "", *grid(["", *MODELS], [*rows, ["mean", *averages]])]
        )

    losses = {model: column(model, "loss") for model in MODELS}
    losses["best generative peer"] = {
        name: min(result) for name in board if (result := [losses[p][name] for p in GENERATIVE if name in losses[p]])
    }
    share: dict[str, float] = {}
    lines += show(["", "## Better log loss than", ""])
    for peer, theirs in losses.items():
        if peer == OURS:
            continue
        behind = [name for name in theirs if not losses[OURS].get(name, np.inf) < theirs[name]]
        share[peer] = 1.0 - len(behind) / len(theirs) if theirs else np.nan
        where = [f"{name} ({losses[OURS].get(name, np.inf):.4f}, {theirs[name]:.4f})" for name in behind]
        lines += show(
            [
                f"- {peer}: on {len(theirs) - len(behind)} of {len(theirs)} ({share[peer]:.0%})"
                + (f"; not on {', '.join(where)}" if where else "")
            ]
        )
    ours = column(OURS, "accuracy")
    aims = {LOGISTIC: 0.95, **dict.fromkeys((*GENERATIVE, "best generative peer"), 0.9), BOOSTING: 0.85}
    aims |= {name: {"CatBoost": 0.65}.get(name, 0.85) for name in OTHER_BOOSTING}
    return lines, [
        Target("mean log loss", float(np.mean(list(losses[OURS].values()) or [np.nan])), "<=", 0.23),
        Target("mean accuracy", float(np.mean(list(ours.values()) or [np.nan])), ">=", 0.902),
        *(Target(f"share of tables with a better log loss than {p}", share[p], ">=", aim) for p, aim in aims.items()),
    ]


def honest(names: Sequence[str]) -> Section:
    lines = show(
        ["# Honest", "", "The leave-one-out log loss that the model states, beside that of the test folds.", ""]
    )
    judgements = {name: judged(OURS, name) for name in names or tables()}
    judged_tables = {name: j for name, j in judgements.items() if isinstance(j, Judged)}
    rows = [[name, f"{j.own:.4f}", f"{j.loss:.4f}", f"{j.loss - j.own:+.4f}"] for name, j in judged_tables.items()]
    lines += show(grid(["", "leave-one-out", "test", "test − leave-one-out"], rows))
    lines += show([f"{name} FAILS: {j}" for name, j in judgements.items() if isinstance(j, str)])
    own, test = (np.array([getattr(j, what) for j in judged_tables.values()]) for what in ("own", "loss"))
    logs = np.log(np.maximum([own, test], MIN_PROBABILITY))
    hard = logs.min(axis=0) > np.log(MIN_LOSS_COMPARED)
    correlation, among_hard = (float(np.corrcoef(x)[0, 1]) if x.shape[1] > 1 else np.nan for x in (logs, logs[:, hard]))
    gap = float(np.mean(test - own)) if judged_tables else np.nan
    lines += show(
        ["", "Labels permuted: test log loss of the model, and of the class prior, which is as good as it gets.", ""]
    )
    rows = []
    for name in names or PERMUTED:
        frame, y = judged_rows(load(name))
        shuffled = Table(frame, np.random.RandomState(0).permutation(y))
        model, prior = judge(MODELS[OURS], shuffled), judge(lambda: DummyClassifier(strategy="prior"), shuffled)
        if isinstance(model, str) or isinstance(prior, str):
            rows.append([name, "fails", "", "", str(model)])
        else:
            rows.append(
                [name, *(f"{x:.4f}" for x in (model.own, model.loss, prior.loss)), f"{model.loss - prior.loss:+.4f}"]
            )
    lines += show(grid(["", "leave-one-out", "test", "class prior", "test − class prior"], rows))
    return lines, [
        Target("mean of test − leave-one-out log loss, either way", abs(gap), "<=", 0.02),
        Target("correlation of the logarithms of both", correlation, ">=", 0.98),
        Target(f"the same without tables where one is below {MIN_LOSS_COMPARED:g}", among_hard, ">=", 0.98),
    ]


def mixed(names: Sequence[str]) -> Section:
    note = f"Tables of fewer than {SMALL_TABLE_ROWS:,} rows: mean log loss of Classifier() mixed with another model, by"
    lines = show(["# Mixed", "", f"{note} the weight of the latter, and the least for each table.", ""])
    chosen = [name for name in names or tables() if len(load(name).y) < SMALL_TABLE_ROWS]
    losses: dict[str, list[np.ndarray]] = {peer: [] for peer in MIXED}
    for name in chosen:
        frame, y = judged_rows(load(name))
        total = {peer: np.zeros(len(SHARES_MIXED)) for peer in MIXED}
        for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y, y):
            known = learned(frame, train)
            with threadpool_limits(1):
                models = [make().fit(known, y[train]) for make in (MODELS[OURS], *MIXED.values())]
                logs = [
                    np.log(np.maximum(model.predict_proba(frame.iloc[test]), least))
                    for model, least in zip(
                        models, (MIN_PROBABILITY, *[MIN_PROBABILITY_MIXED] * len(MIXED)), strict=True
                    )
                ]
            truth = np.searchsorted(np.asarray(models[0].classes_), y[test])
            for peer, other in zip(MIXED, logs[1:], strict=True):
                for i, share in enumerate(SHARES_MIXED):
                    scores = log_softmax((1.0 - share) * logs[0] + share * other, axis=1)
                    total[peer][i] -= scores[np.arange(len(test)), truth].sum()
        for peer, each in total.items():
            losses[peer].append(each / len(y))
        print(name, "  ".join(f"{peer} {losses[peer][-1].round(4).tolist()}" for peer in MIXED), flush=True)
    rows = []
    for peer, own in losses.items():
        each = np.array(own)
        rows.append([peer, *(f"{x:.4f}" for x in each.mean(axis=0)), f"{each.min(axis=1).mean():.4f}"])
    head = ["", *(f"{share:.0%}" for share in SHARES_MIXED), "the best of each table"]
    return lines + show(["", *grid(head, rows)]), []


def missing(names: Sequence[str]) -> Section:
    note = "Entries removed at random from all rows: log loss / accuracy. Imputed: median or most frequent level."
    lines = show(["# Missing", "", note, ""])
    rows = []
    for name in names or WITH_GAPS:
        frame, y = judged_rows(load(name))
        for share in REMOVED:
            table = Table(without(frame, share), y)
            judgements = [judge(make, table) for make in IMPUTING.values()]
            cells = [f"FAILS: {j}" if isinstance(j, str) else f"{j.loss:.4f} / {j.accuracy:.4f}" for j in judgements]
            rows.append([f"{name}, {share:.0%} removed", *cells])
            print("  ".join(rows[-1]), flush=True)
    return lines + show(["", *grid(["", *IMPUTING], rows)]), []


def in_turns(makes: dict[str, Callable[[], Any]], table: Table, repeats: int) -> dict[str, tuple[float, float] | str]:
    """Best seconds of fit and of predict_proba on all rows, models taking turns; the error message if one fails.

    Each turn of a peer is one with all threads of OpenMP and of the linear algebra, and one with a single thread.
    """
    seconds_by_model: dict[str, tuple[float, float] | str] = {}
    for _ in range(repeats):
        for (model, make), threads in product(makes.items(), (None, 1)):
            if model == OURS and threads:
                continue  # it manages its own threads
            so_far = seconds_by_model.get(model, (np.inf, np.inf))
            if isinstance(so_far, str):
                continue
            try:
                with threadpool_limits(threads):
                    start = time.perf_counter()
                    fitted = make().fit(*table)
                    between = time.perf_counter()
                    fitted.predict_proba(table.frame)
                    end = time.perf_counter()
            except Exception as error:  # a peer may fail in any way, and the others are still timed
                seconds_by_model[model] = first_line(error)
            else:
                seconds_by_model[model] = min(so_far[0], between - start), min(so_far[1], end - between)
    return seconds_by_model


def speed(names: Sequence[str]) -> Section:
    lines = show(
        [
            "# Speed",
            "",
            f"Seconds of fit and of predict_proba on all rows, in turns, the best of {REPEATS} (covtype: of one).",
            "Peers read the same data frame, and what that takes is part of their seconds.",
            "",
        ]
    )
    peers = {OURS: MODELS[OURS], LOGISTIC: logistic, BOOSTING: Boosting}
    seconds_of: dict[str, dict[str, tuple[float, float] | str]] = {}
    sizes: dict[str, str] = {}
    small = []
    for name in names or [*tables(), *(big for big in BIG_TABLES if big not in tables())]:
        try:
            table = load(name)
        except FileNotFoundError as error:
            lines += show([f"{name} is left out: {error}"])
            continue
        if name not in BIG_TABLES and len(table.y) >= SMALL_TABLE_ROWS and not names:
            continue
        if len(table.y) < SMALL_TABLE_ROWS:
            small.append(name)
        huge = name == "covtype"
        makes = {**peers, LOGISTIC: lambda: logistic(100)} if huge else peers
        seconds_of[name], sizes[name] = in_turns(makes, table, 1 if huge else REPEATS), size(table)
        print(
            f"{name}: " + ", ".join(f"{model} {seconds_text(times, 0)}" for model, times in seconds_of[name].items()),
            flush=True,
        )
    for which, what in enumerate(("fit", "predict_proba")):
        rows = [
            [name, *(seconds_text(times, which) for times in row.values()), sizes[name]]
            for name, row in seconds_of.items()
        ]
        lines += show(["", f"## Seconds: {what}", "", *grid(["", *peers, "rows"], rows)])
    for name, row in seconds_of.items():
        lines += show([f"{model} on {name} FAILS: {why}" for model, why in row.items() if isinstance(why, str)])

    def ratio(name: str, peer: str) -> float:
        """The ratio of our fit time to the peer's; failures count as infinite time."""
        ours, theirs = seconds_of[name][OURS], seconds_of[name][peer]
        return np.inf if isinstance(ours, str) else 0.0 if isinstance(theirs, str) else ours[0] / theirs[0]

    targets = []
    lines += show(["", f"## Our seconds of a fit by a peer's, tables under {SMALL_TABLE_ROWS:,} rows", ""])
    for peer in (LOGISTIC, BOOSTING):
        ratios = {name: ratio(name, peer) for name in small if not isinstance(seconds_of[name][peer], str)}
        if not ratios:
            continue
        low, middle, high = np.quantile(list(ratios.values()), [0.0, 0.5, 1.0])
        slower = [f"{name} ({r:.2f})" for name, r in ratios.items() if r > 1.0]
        lines += show(
            [
                f"- {peer}: {middle:.2f} in the median, {low:.2f} to {high:.2f}"
                + (f"; slower on {', '.join(slower)}" if slower else "")
            ]
        )
        if peer == BOOSTING:
            worst = max(ratios, key=lambda name: ratios[name])
            targets.append(
                Target(
                    f"tables under {SMALL_TABLE_ROWS:,} rows, our fit by boosting's, the worst ({worst})",
                    high,
                    "<=",
                    1.0,
                )
            )
    targets += [
        Target(f"{name}, our fit by that of {peer}", ratio(name, peer), "<", 1.0)
        for name in BIG_TABLES
        if name in seconds_of
        for peer in (LOGISTIC, BOOSTING)
    ]
    more, aims = of_one_thread(names)
    return lines + more, targets + aims


def seconds_text(times: tuple[float, float] | str, which: int) -> str:
    return "fails" if isinstance(times, str) else f"{times[which]:.3f}"


def processor_seconds(make: Callable[[], Any], table: Table) -> float:
    """Of a fit in one thread, the least of some."""
    out = []
    for _ in range(REPEATS):
        with threadpool_limits(1):
            start = time.process_time()
            make().fit(*table)
            out.append(time.process_time() - start)
    return min(out)


def of_one_thread(names: Sequence[str]) -> Section:
    """Processor seconds of a fit, with one thread each."""
    rows, worst = [], (0.0, "")
    for name in names or tables():
        table = load(name)
        ours = processor_seconds(lambda: deciban.Classifier(n_jobs=1), table)
        theirs = processor_seconds(Boosting, table)
        worst = max(worst, (ours / theirs, name))
        rows.append([name, f"{ours:.3f}", f"{theirs:.3f}", f"{ours / theirs:.2f}"])
        print("  ".join(rows[-1]), flush=True)
    lines = show(["", "## Processor seconds of a fit, one thread", "", *grid(["", OURS, BOOSTING, "ratio"], rows)])
    return lines, [Target(f"processor seconds of our fit by boosting's, the worst ({worst[1]})", worst[0], "<=", 1.0)]


def answers(names: Sequence[str]) -> Section:
    lines = show(["# Answers", "", "Rows a second of predict_proba, the best of three in turns.", ""])
    peers = {OURS: MODELS[OURS], BOOSTING: Boosting, **OTHER_BOOSTING}
    rows, targets = [], []
    for name in names or BIG_TABLES:
        table = load(name)
        some = np.random.RandomState(0).permutation(len(table.y))[: ROWS_ANSWERED.get(name, len(table.y))]
        frame, y = table.frame.iloc[some], table.y[some]
        fitted = {model: make().fit(frame, y) for model, make in peers.items()}
        for threads in (1, 2):
            best = dict.fromkeys(peers, np.inf)
            for _, (model, one) in product(range(REPEATS), fitted.items()):
                if model == OURS:
                    one.set_params(n_jobs=threads)
                elif model == "LightGBM":
                    one.model.set_params(n_jobs=threads)
                elif model == "CatBoost":
                    one.threads = threads
                with threadpool_limits(threads):
                    start = time.perf_counter()
                    one.predict_proba(frame)
                    best[model] = min(best[model], time.perf_counter() - start)
            rate = {model: len(y) / seconds for model, seconds in best.items()}
            rows.append([f"{name}, {threads} thread{'s' * (threads > 1)}", *(f"{r:,.0f}" for r in rate.values())])
            print("  ".join(rows[-1]), flush=True)
            if "LightGBM" in rate:
                what = f"{name}, rows/s with {threads} thread(s), ours by LightGBM's"
                targets.append(Target(what, rate[OURS] / rate["LightGBM"], ">=", 1.0))
    lines += show(["", *grid(["", *peers], rows)])
    more, aims = single_rows()
    return lines + more, targets + aims


def single_rows() -> Section:
    """Milliseconds of a single row of adult, the median of many."""
    table = load("adult")
    model = deciban.Classifier().fit(table.frame[:20_000], table.y[:20_000])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "adult.deciban")
        scorer = deciban.read(Path(folder) / "adult.deciban")
    frame = table.frame.iloc[[20_000]]
    forms = {"dict": frame.iloc[0].to_dict(), "tuple": tuple(frame.iloc[0]), "data frame": frame}
    rows, worst = [], {"predict_proba": 0.0, "explain": 0.0}
    for what, row in forms.items():
        cells = []
        for one, method in product((model, scorer), worst):
            ask, seconds = getattr(one, method), []
            for _ in range(300):
                start = time.perf_counter()
                ask(row)
                seconds.append(time.perf_counter() - start)
            cells.append(f"{np.median(seconds) * 1e3:.3f}")
            worst[method] = max(worst[method], float(np.median(seconds)) * 1e3)
        rows.append([what, *cells])
    head = ["a row as", "Classifier: predict_proba", "explain", "Scorer: predict_proba", "explain"]
    start, n = time.perf_counter(), 3_000
    for _ in range(n):
        scorer.predict_proba(forms["dict"])
    often = n / (time.perf_counter() - start)
    lines = show(["", "## A single row of adult, milliseconds", "", *grid(head, rows)])
    lines += show(["", f"A Scorer answers {often:,.0f} rows a second, one after another, given as dicts."])
    return lines, [
        Target("ms of predict_proba of a row, the worst form", worst["predict_proba"], "<=", 0.3),
        Target("ms of explain of a row, the worst form", worst["explain"], "<=", 2.0),
        Target("answers a second of a Scorer", often, ">=", 3_000),
    ]


def synthetic(n: int, d: int, k: int, levels: int = 8) -> Table:
    """Half the columns Gaussian, a quarter skewed with a tenth missing, a quarter categories; all weakly predictive."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % k)
    columns: dict[str, Any] = {}
    for j in range(d):
        x = rng.normal(size=n) + 0.5 * rng.normal(size=k)[y]
        if j % 4 == 2:
            x = np.exp(x)
            x[rng.random(n) < 0.1] = np.nan
        if j % 4 == 3:
            level = np.where(rng.random(n) < 0.2, rng.integers(0, levels, k)[y], rng.integers(0, levels, n))
            columns[f"name {j}"] = pd.Categorical.from_codes(level, [f"v{i}" for i in range(levels)])
        else:
            columns[f"number {j}"] = x
    return Table(pd.DataFrame(columns), y)


def peak() -> float:
    """Peak memory of this process, in MB; NaN if the system does not report it."""
    status = Path("/proc/self/status")
    return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024 if status.exists() else np.nan


def grown(n: int, d: int, k: int, levels: int) -> tuple[float, float, float]:
    """Seconds of fit and of predict_proba, and MB above the table, in a process of its own."""
    warnings.simplefilter("ignore")
    few = synthetic(200, 4, 2)
    deciban.Classifier().fit(*few).predict_proba(few.frame)  # load what is imported lazily
    table = synthetic(n, d, k, levels)
    before = peak()
    times = in_turns({OURS: MODELS[OURS]}, table, REPEATS if n * d * k <= 1_000_000 else 1)[OURS]
    if isinstance(times, str):
        raise RuntimeError(times)
    return *times, peak() - before


def growth(names: Sequence[str], scale: float = 1.0) -> Section:
    del names
    lines = show(
        ["# Growth", "", "Synthetic mixed tables; each size in a process of its own. MB: peak above the table.", ""]
    )
    sweeps = {
        "rows": [(max(100, int(n * scale)), 20, 2, 8) for n in ROW_COUNTS],
        "columns": [(2_000, d, 2, 8) for d in sorted({max(4, int(d * scale)) for d in COLUMN_COUNTS})],
        "classes": [(5_000, 20, k, 8) for k in CLASS_COUNTS],
        "categories": [(20_000, 20, 2, levels) for levels in CATEGORY_COUNTS],
    }
    for what, sizes in sweeps.items():
        rows, last = [], np.nan
        for n, d, k, levels in sizes:
            cells = [f"{n:,} × {d:,}, {k} classes, {levels:,} categories"]
            try:
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as own:
                    fit, ask, memory = own.submit(grown, n, d, k, levels).result()
            except (RuntimeError, BrokenProcessPool) as error:  # such as a process that ran out of memory
                rows.append([*cells, "fails", "", "", "", first_line(error)])
                continue
            rows.append([*cells, f"{fit:.3f}", "" if np.isnan(last) else f"{fit / last:.1f}", f"{ask:.3f}"])
            rows[-1] += [f"{fit / (n * d) * 1e6:.2f}", f"{memory:.0f}"]
            last = fit
            print("  ".join(rows[-1]), flush=True)
        head = [what, "fit, s", "times the last", "predict_proba, s", "fit, µs an entry", "MB"]
        lines += show(["", *grid(head, rows), ""])
    return lines, []


# ---------------------------------------------------------------------- main

PARTS: dict[str, Callable[[Sequence[str]], Section]] = {
    "accuracy": accuracy,
    "honest": honest,
    "mixed": mixed,
    "missing": missing,
    "speed": speed,
    "answers": answers,
    "growth": growth,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="sets to judge on (default: those that each part is about)")
    parser.add_argument("--part", action="append", choices=[*PARTS], help="a part, may be repeated (default: all)")
    parser.add_argument("--without", action="append", default=[], choices=[*MODELS], help="a peer to leave out")
    parser.add_argument("--scale", type=float, default=1.0, help="share of rows and columns of growth (default 1.0)")
    arguments = parser.parse_args()
    known = [*tables(), "covtype"]
    unknown = [name for name in arguments.sets if name not in known]
    if unknown:
        parser.error(f"{unknown[0]!r} is not a set: choose from {', '.join(known)}")
    for name in arguments.without:
        MODELS.pop(name)
        OTHER_BOOSTING.pop(name, None)
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    by = f"deciban {deciban.__version__}, scikit-learn {sklearn.__version__}, Python {sys.version.split()[0]}"
    targets: list[Target] = []
    for part in arguments.part or PARTS:
        whole = part != "growth" or arguments.scale == 1.0
        section = growth(arguments.sets, arguments.scale) if part == "growth" else PARTS[part](arguments.sets)
        lines, stand = section
        targets += stand
        path = OUT / f"tables_{part}.md"
        if arguments.sets or not whole:
            print(f"\n{path.name} is left as it was: it is for all sets in full\n")
            continue
        OUT.mkdir(exist_ok=True)
        foot = ["", *map(str, stand), "", f"{by}; written by `python benchmarks/tables.py --part {part}`."]
        path.write_text("\n".join([*lines, *foot]) + "\n")
        print(f"\nwritten to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}\n")
    print("# Targets\n")
    print("\n".join(map(str, targets)) or "none in these parts")
    print(f"\n{by}; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
