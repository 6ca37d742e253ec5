"""Prediction sets: what is promised and what is held, beside split conformal prediction by MAPIE and crepes.

Every draw takes rows at random to learn from and others to judge by. Full and cross-conformal sets learn from all of
the first; a split learns from three quarters of them and calibrates on the rest, with the same model and the same
score, the odds against the class. The laws are good and bad: Gaussians for pictures of digits, independence for texts.
Shown are means over draws: the coverage with its standard error, the coverage of the class that fares worst (of all
draws taken together), the mean size of sets, and milliseconds for a new row, all classes, one core.

MAPIE and crepes take part if they are installed. DECIBAN_DATA names where the data is; by default `../shared/data`
beside the project.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone

import deciban

OUT = Path(__file__).parent / "results"
DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
LEARNED, TESTED = 600, 500  # per draw, or all if there are fewer
TABLES = {
    "pima": (deciban.GaussianNB(), deciban.QuadraticDiscriminantAnalysis()),
    "vehicle": (deciban.GaussianNB(), deciban.QuadraticDiscriminantAnalysis()),
    "satimage": (deciban.GaussianNB(), deciban.LinearDiscriminantAnalysis()),
    "pendigits": (deciban.GaussianNB(), deciban.QuadraticDiscriminantAnalysis()),
    "credit_approval": (deciban.NaiveBayes(), deciban.Classifier()),
    "kr_vs_kp": (deciban.CategoricalNB(), deciban.Classifier()),
}
TEXTS = ("sms_spam", "rt_polarity", "trec_qc")


class Draw(NamedTuple):
    coverage: float
    hits: np.ndarray  # (k, 2): rows of each class, and how many of them have it in their set
    size: float
    milliseconds: float


def read_table(name: str) -> tuple[Any, np.ndarray]:
    """Numbers as numbers, everything else as strings; `?` is missing."""
    schema = json.loads((DATA / name / "schema.json").read_text())
    files = sorted((DATA / name).glob("*.csv"))
    frame = pd.concat([pd.read_csv(f, na_values=["?"], keep_default_na=False, dtype=str) for f in files])
    frame = frame[frame[schema["target"]].notna()].reset_index(drop=True)
    columns = {c["name"]: c["type"] for c in schema["columns"] if c["name"] != schema["target"]}
    X = pd.DataFrame({c: pd.to_numeric(frame[c]) if kind == "numeric" else frame[c] for c, kind in columns.items()})
    return X, frame[schema["target"]].to_numpy(dtype=str)


def read_texts(name: str) -> tuple[Any, np.ndarray]:
    if name == "sms_spam":
        lines = (DATA / name / "SMSSpamCollection.tsv").read_text("utf-8").split("\n")
        rows = [line.split("\t", 1)[::-1] for line in lines if line]
    else:
        files = {"trec_qc": ("trec_train.jsonl.gz",)}.get(name, (f"{name}.jsonl.gz",))
        rows = []
        for file in files:
            with gzip.open(DATA / name / file, "rt", encoding="utf-8") as opened:
                rows += [(document["text"], document["label"]) for document in map(json.loads, opened)]
    texts, labels = zip(*rows, strict=True)
    return pd.Series(texts), np.array(labels)


def simulated(n: int) -> tuple[Any, np.ndarray]:
    """Rows for which quadratic discriminants are the true law."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    turn, centre = rng.normal(size=(3, 5, 5)), rng.normal(size=(3, 5))
    return pd.DataFrame(np.einsum("nij,nj->ni", turn[y], rng.normal(size=(n, 5))) + centre[y]), np.array(list("abc"))[y]


def cases() -> Iterator[tuple[str, Any, np.ndarray, Any]]:
    X, y = simulated(4000)
    yield "true law", X, y, deciban.QuadraticDiscriminantAnalysis()
    for name, models in TABLES.items():
        X, y = read_table(name)
        for model in models:
            yield name, X, y, model
    for name in TEXTS:
        texts, y = read_texts(name)
        counts = deciban.CountVectorizer(max_features=2000).fit_transform(texts)
        yield name, counts, y, deciban.BernoulliNB()
        yield name, counts, y, deciban.MultinomialNB()
        yield name, texts, y, deciban.TextClassifier()


def some(X: Any, rows: np.ndarray) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


# ---------------------------------------------------------------------- methods


class StoredProbabilities(ClassifierMixin, BaseEstimator):
    """A stand-in for a fitted model: its input rows are the probabilities."""

    def __init__(self, classes: Any = None) -> None:
        self.classes = classes

    def fit(self, X: Any, y: Any) -> StoredProbabilities:
        del X, y
        self.classes_, self.n_features_in_ = np.asarray(self.classes), len(self.classes)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(X)

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[np.argmax(X, axis=1)]


Judge = Callable[[Any, Any, np.ndarray, Any, float], tuple[np.ndarray, np.ndarray]]


def ours(by_class: bool) -> Judge:
    def judge(model: Any, X: Any, y: np.ndarray, new: Any, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        fitted = clone(model).fit(X, y)
        fitted.predict_set(some(new, np.arange(1)), coverage, by_class=by_class)  # prepared once
        start = time.perf_counter()
        mask = fitted.predict_set(new, coverage, by_class=by_class).mask
        return fitted.classes_, mask, 1e3 * (time.perf_counter() - start)

    return judge


def split(answer: Callable[..., np.ndarray]) -> Judge:
    def judge(model: Any, X: Any, y: np.ndarray, new: Any, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        cut = 3 * len(y) // 4
        fitted = clone(model).fit(some(X, np.arange(cut)), y[:cut])
        known = cut + np.flatnonzero(np.isin(y[cut:], fitted.classes_))
        held_out = fitted.predict_proba(some(X, known))
        start = time.perf_counter()
        mask = answer(fitted.classes_, held_out, y[known], fitted.predict_proba(new), coverage)
        return fitted.classes_, mask, 1e3 * (time.perf_counter() - start)

    return judge


def mapie(classes: Any, held_out: Any, y: Any, new: Any, coverage: float) -> np.ndarray:
    from mapie.classification import SplitConformalClassifier

    conformal = SplitConformalClassifier(
        StoredProbabilities(classes).fit(None, None), confidence_level=coverage, prefit=True
    )
    conformal.conformalize(held_out, y)
    return conformal.predict_set(new)[1][:, :, 0]


def crepes(classes: Any, held_out: Any, y: Any, new: Any, coverage: float) -> np.ndarray:
    from crepes import WrapClassifier

    conformal = WrapClassifier(StoredProbabilities(classes).fit(None, None))
    conformal.calibrate(held_out, y, class_cond=True)
    return conformal.predict_set(new, confidence=coverage, labels=False, smoothing=False).astype(bool)


def ways() -> dict[str, tuple[str, Judge]]:
    """By name: the rows that the guarantee is about, and how sets are made."""
    methods = {"deciban": ("all rows", ours(False)), "deciban, by class": ("each class", ours(True))}
    if importlib.util.find_spec("mapie"):
        methods["MAPIE, split"] = ("all rows", split(mapie))
    if importlib.util.find_spec("crepes"):
        methods["crepes, split by class"] = ("each class", split(crepes))
    return methods


# ---------------------------------------------------------------------- evaluation


def draw(judge: Judge, model: Any, X: Any, y: np.ndarray, seed: int, coverage: float) -> Draw:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    n = min(LEARNED, 2 * len(y) // 3)
    learned, tested = order[:n], order[n : n + TESTED]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes, mask, milliseconds = judge(model, some(X, learned), y[learned], some(X, tested), coverage)
    labels = np.unique(y)
    inside = np.zeros((len(tested), len(labels)), dtype=bool)
    inside[:, np.searchsorted(labels, classes)] = mask
    codes = np.searchsorted(labels, y[tested])
    hit = inside[np.arange(len(codes)), codes]
    hits = np.column_stack([np.bincount(codes, minlength=len(labels)), np.bincount(codes, hit, minlength=len(labels))])
    return Draw(float(hit.mean()), hits, float(mask.sum(axis=1).mean()), milliseconds / len(tested))


def lines(draws: int, coverage: float, only: list[str]) -> tuple[list[str], list[str]]:
    out = [
        f"| rows | model | sets | coverage (asked: {coverage:g}) | worst class | mean size | ms a row |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    broken = []
    for name, X, y, model in cases():
        if only and name not in only:
            continue
        for whose, (_, judge) in ways().items():
            results = [draw(judge, model, X, y, seed, coverage) for seed in range(draws)]
            covered = np.array([one.coverage for one in results])
            mean, error = covered.mean(), covered.std(ddof=1) / np.sqrt(draws)
            rows, hits = np.sum([one.hits for one in results], axis=0).T
            often = rows >= 30  # the coverage of few rows is too noisy
            worst = (hits[often] / rows[often]).min()
            size, cost = (np.mean([getattr(one, what) for one in results]) for what in ("size", "milliseconds"))
            cells = (name, type(model).__name__, whose, f"{mean:.3f} ± {error:.3f}", f"{worst:.3f}", f"{size:.2f}")
            out.append(f"| {' | '.join(cells)} | {cost:.3f} |")
            print(out[-1], flush=True)
            if whose.startswith("deciban") and mean < coverage - 2.0 * error:
                broken.append(f"{name}, {type(model).__name__}, {whose}: {mean:.3f} ± {error:.3f}")
    return out, broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="some of the data sets; all by default")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--coverage", type=float, default=0.9)
    asked = parser.parse_args()
    report, broken = lines(asked.draws, asked.coverage, asked.sets)
    OUT.mkdir(exist_ok=True)
    (OUT / "prediction_sets.md").write_text("\n".join([__doc__.strip(), "", *report, ""]), encoding="utf-8")
    print("below the promise by more than two standard errors:", "; ".join(broken) or "none")


if __name__ == "__main__":
    main()
