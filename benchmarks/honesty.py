"""Whether the figures that a model states about itself are those that new rows see, with few rows and with many.

Rows are drawn at random, n of a set, and `Classifier()` or `TextClassifier()` learns them with nothing but defaults.
What it states is the log loss and the accuracy of its own `leave_one_out`; what is true is found on at most 1,000 other
rows of the set (rows of classes that were not drawn left out, as leave-one-out leaves out rows that are alone in their
class). With *shuffled* labels there is nothing to learn, and the class shares among the drawn rows are as good as it
gets. Beside it, on the same rows and the true labels (the first draws only): logistic regression with C chosen by
five-fold cross-validation, naive Bayes, and for tables histogram boosting.

Means are over sets, each set the mean of its draws. An error is a standard error over draws. Probabilities below 1e-15
count as that. DECIBAN_DATA names where the sets are; by default `../shared/data` next to the project.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process for every core, and small matrices in each

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
import tables
import text_accuracy as texts
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import deciban

DRAWS = {20: 30, 30: 30, 50: 20, 100: 12, 300: 6, 1000: 4, 3000: 3}
PEER_DRAWS = 3  # per set, on which peers are judged too
MAX_NEW_ROWS = 1000  # that a model is judged on
MIN_NEW_ROWS = 50  # with fewer, a draw is skipped
MIN_PROBABILITY = 1e-15
STRENGTHS = np.logspace(-2, 3, 6)  # C of logistic regression
TEXTS = ("20newsgroups", "webkb", "trec_qc", "sms_spam", "spamassassin", "rt_polarity", "zh_reviews", *texts.PAIRS)
TABLES = tuple(name for name in tables.tables() if name != "covtype")


class Set(NamedTuple):
    X: Any
    y: np.ndarray

    def some(self, rows: np.ndarray) -> Set:
        if isinstance(self.X, list):
            return Set([self.X[i] for i in rows], self.y[rows])
        return Set(tables.learned(self.X, rows).reset_index(drop=True), self.y[rows])


class Draw(NamedTuple):
    """One draw of one set."""

    shares: float  # the log loss of the class shares among the drawn rows
    loss: float  # of new rows
    accuracy: float
    stated: float  # log loss
    stated_accuracy: float
    seconds: float  # of the fit
    baseline: float  # the log loss of the class shares on the drawn rows themselves


# ---------------------------------------------------------------------- rows


def load(name: Any) -> Set:
    if name in TABLES:
        return Set(*tables.load(name))
    source = "20newsgroups" if name in texts.PAIRS else name
    given = texts.published(source)
    X, y = texts.whole(source) if given is None else (given[0][0] + given[1][0], np.append(given[0][1], given[1][1]))
    every = Set(X, y)
    return every.some(np.flatnonzero(np.isin(y, name))) if name in texts.PAIRS else every


def draw(rows: Set, n: int, seed: int, shuffled: bool) -> tuple[Set, Set] | None:
    """Rows to learn, and others of the same classes; None where there are too few."""
    rng = np.random.default_rng([n, seed])  # draws of different sizes are independent
    order = rng.permutation(len(rows.y))
    learned, new = np.sort(order[:n]), order[n : n + MAX_NEW_ROWS]
    train = rows.some(learned)
    if shuffled:
        train = train._replace(y=rng.permutation(train.y))
    new = new[np.isin(rows.y[new], train.y)]
    return None if len(new) < MIN_NEW_ROWS or len(np.unique(train.y)) < 2 else (train, rows.some(new))


# ---------------------------------------------------------------------- models


class Logistic:
    """Logistic regression with C chosen by log loss over five folds."""

    def __init__(self, around: Callable[[Any], Any]) -> None:
        self.around = around

    def fit(self, X: Any, y: np.ndarray) -> Any:
        rows, loss = Set(X, y), np.zeros(len(STRENGTHS))
        fold = np.empty(len(y), dtype=int)
        fold[np.argsort(y, kind="stable")] = np.arange(len(y)) % 5
        for f in range(5):
            rest, out = (rows.some(np.flatnonzero(part)) for part in (fold != f, fold == f))
            if len(np.unique(rest.y)) < 2:
                continue
            for i, strength in enumerate(STRENGTHS):
                model = self._with(strength).fit(*rest)
                known = np.isin(out.y, model.classes_)
                if known.any():
                    loss[i] += judged(model, out.some(np.flatnonzero(known)))[0] * known.sum()
        return self._with(STRENGTHS[loss.argmin()]).fit(X, y)

    def _with(self, strength: float) -> Any:
        return self.around(LogisticRegression(C=strength, max_iter=300))


OURS = "deciban"
PEERS: dict[str, dict[str, Callable[[], Any]]] = {
    "texts": {
        "logistic": lambda: Logistic(lambda model: make_pipeline(TfidfVectorizer(), model)),
        "naive Bayes": lambda: make_pipeline(CountVectorizer(), MultinomialNB()),
    },
    "tables": {
        "logistic": lambda: Logistic(partial(tables.one_hot, scaled=True)),
        "naive Bayes": tables.TextbookNaiveBayes,
        "boosting": tables.Boosting,
    },
}


def judged(model: Any, new: Set) -> tuple[float, float]:
    """Log loss and accuracy on rows that it has not learned."""
    P, truth = np.asarray(model.predict_proba(new.X)), np.searchsorted(model.classes_, new.y)
    own = P[np.arange(len(truth)), truth]
    return float(-np.log(np.maximum(own, MIN_PROBABILITY)).mean()), float((P.argmax(axis=1) == truth).mean())


def ours(train: Set, new: Set) -> Draw:
    model = deciban.TextClassifier() if isinstance(train.X, list) else deciban.Classifier()
    start = time.process_time()
    model.fit(*train)
    seconds = time.process_time() - start
    left = model.leave_one_out(*train)
    known = model.class_count_[np.searchsorted(model.classes_, new.y)]
    return Draw(
        float(-np.log(known / len(train.y)).mean()),
        *judged(model, new),
        left.log_loss,
        left.accuracy,
        seconds,
        left.baseline,
    )


class Case(NamedTuple):
    """One set and number of rows: the draws with true and with shuffled labels, and those of peers."""

    kind: str
    name: str
    n: int
    classes: int
    true: np.ndarray  # (draws, fields of Draw)
    shuffled: np.ndarray
    peers: dict[str, np.ndarray]  # (draws, 3) loss, accuracy, seconds


def study(job: tuple[str, Any, Sequence[int], float]) -> list[Case]:
    kind, name, sizes, share = job
    warnings.filterwarnings("ignore")
    rows, out = load(name), []
    for n in sizes:
        draws = max(3, round(DRAWS[n] * share))
        draws_by_labels: dict[bool, list[Draw]] = {False: [], True: []}
        peers: dict[str, list[tuple[float, ...]]] = {peer: [] for peer in PEERS[kind]}
        for seed in range(draws):
            for shuffled in (False, True):
                drawn = draw(rows, n, seed, shuffled)
                if drawn is None:
                    continue
                draws_by_labels[shuffled].append(ours(*drawn))
                if shuffled or len(draws_by_labels[False]) > PEER_DRAWS:
                    continue
                for peer, make in PEERS[kind].items():
                    start = time.process_time()
                    try:
                        model = make().fit(*drawn[0])
                        peers[peer].append((*judged(model, drawn[1]), time.process_time() - start))
                    except ValueError:  # a peer that cannot fit so few rows
                        peers[peer].append((np.nan,) * 3)
        if len(draws_by_labels[False]) >= 2 and len(draws_by_labels[True]) >= 2:
            arrays = {peer: np.array(each) for peer, each in peers.items()}
            every = " / ".join(name) if isinstance(name, tuple) else name
            k = len(np.unique(rows.y))
            out.append(
                Case(kind, every, n, k, np.array(draws_by_labels[False]), np.array(draws_by_labels[True]), arrays)
            )
    return out


# ---------------------------------------------------------------------- reporting


def gap(draws: np.ndarray, accuracy: bool = False) -> tuple[float, float]:
    """How much worse new rows do than was stated, and its standard error over draws."""
    each = draws[:, 4] - draws[:, 2] if accuracy else draws[:, 1] - draws[:, 3]
    each = each[np.isfinite(each)]
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))


def mean(values: Sequence[float]) -> float:
    """The mean of finite values."""
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else np.nan


def mean_over_sets(cases: Sequence[Case], which: str, field: str) -> float:
    """The mean of a field over sets, each the mean of its draws."""
    return mean([getattr(case, which)[:, Draw._fields.index(field)].mean() for case in cases])


def allowed(case: Case) -> float:
    """How far above the class shares' log loss a model of shuffled labels may be."""
    return 0.02 if case.n >= 100 else 0.1 if case.classes >= 10 else 0.05


def missed_targets(kind: str, n: int, cases: Sequence[Case], beside: dict[str, float], own: float) -> list[str]:
    """A line for each missed target."""
    off = []
    for what, aim in (("log loss", 0.01 if n >= 100 else 0.03), ("accuracy", 0.015)):
        each = [gap(case.true, what == "accuracy") for case in cases]
        if abs(middle := mean([case[0] for case in each])) > aim:
            off.append(f"{kind}, {n}: the stated {what} is off by {middle:+.4f} on average, target ±{aim}")
        for case, (middle, error) in zip(cases, each, strict=True):
            if n >= 100 and abs(middle) > 0.03 + 2.0 * error:
                off.append(f"{case.name}, {n}: the stated {what} is off by {middle:+.3f} ± {error:.3f}")
    for case in cases:
        above = mean_over_sets([case], "shuffled", "loss") - mean_over_sets([case], "shuffled", "shares")
        if above > allowed(case):
            off.append(f"{case.name}, {n}, shuffled: {above:+.3f} above the class shares, target {allowed(case)}")
    better = mean_over_sets(cases, "shuffled", "baseline") - mean_over_sets(cases, "shuffled", "stated")
    if better > 0.02:
        off.append(f"{kind}, {n}, shuffled: stated {better:.3f} better than the class shares, target 0.02")
    for peer, loss in beside.items():
        if loss < own:
            off.append(f"{kind}, {n}: {peer} has a log loss of {loss:.4f}, ours {own:.4f}")
    return off


def report_lines(kind: str, n: int, cases: Sequence[Case]) -> tuple[list[str], list[str], list[str]]:
    """Missed targets, and a row for each of the two tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a peer that failed on every draw of a set
        beside = {peer: [np.nanmean(case.peers[peer], axis=0) for case in cases] for peer in PEERS[kind]}
    losses = {peer: mean([each[0] for each in figures]) for peer, figures in beside.items()}
    first = [case._replace(true=case.true[:PEER_DRAWS]) for case in cases]
    own = mean_over_sets(first, "true", "loss")
    size = [kind, f"{n:,}", str(len(cases))]
    honest = [
        *size,
        *(f"{mean_over_sets(cases, 'true', field):.4f}" for field in ("stated", "loss")),
        f"{mean([gap(case.true)[0] for case in cases]):+.4f}",
        *(f"{mean_over_sets(cases, 'true', field):.1%}" for field in ("stated_accuracy", "accuracy")),
        *(f"{mean_over_sets(cases, 'shuffled', field):.3f}" for field in ("stated", "loss", "shares")),
    ]
    peers = [*size, f"{own:.4f} / {mean_over_sets(first, 'true', 'accuracy'):.1%}"]
    for peer in ("logistic", "naive Bayes", "boosting"):
        figures = beside.get(peer)
        peers.append(f"{losses[peer]:.4f} / {mean([each[1] for each in figures]):.1%}" if figures else "–")
    seconds = mean_over_sets(cases, "true", "seconds"), mean([each[2] for each in beside["logistic"]])
    peers += [f"{1e3 * each:,.0f} ms" for each in seconds]
    return missed_targets(kind, n, cases, losses, own), honest, peers


def lines(cases: Sequence[Case], sizes: Sequence[int]) -> list[str]:
    off, honest, peers = [], [], []
    for kind in ("texts", "tables"):
        for n in sizes:
            here = [case for case in cases if (case.kind, case.n) == (kind, n)]
            if here:
                more, *rows = report_lines(kind, n, here)
                off += more
                honest.append(rows[0])
                peers.append(rows[1])
    head = ["", "n", "sets", "stated", "new rows", "gap", "accuracy stated", "new rows"]
    head += ["shuffled: stated", "new rows", "class shares"]
    second = ["", "n", "sets", OURS, "logistic", "naive Bayes", "boosting", "our fit", "logistic's"]
    return [
        "# What is stated, and what new rows see", "", *tables.grid(head, honest), "",
        "# Beside others, log loss / accuracy of new rows", "", *tables.grid(second, peers), "",
        "# Off the mark", "", *(off or ["nothing"]),
    ]  # fmt: skip


def jobs(only: Sequence[str], sizes: Sequence[int], share: float) -> Iterator[tuple[str, Any, Sequence[int], float]]:
    for kind, names in (("texts", TEXTS), ("tables", TABLES)):
        for name in names:
            if not only or kind in only or (" / ".join(name) if isinstance(name, tuple) else name) in only:
                yield kind, name, sizes, share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help='"texts", "tables" or names of sets; all by default')
    parser.add_argument("--rows", type=int, nargs="*", default=list(DRAWS), help="how many to learn", choices=DRAWS)
    parser.add_argument("--draws", type=float, default=1.0, help="times the usual number of draws; at least 3")
    parser.add_argument("--cases", action="store_true", help="show every case, too")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    start, cases = time.perf_counter(), []
    with ProcessPoolExecutor(asked.processes, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for new_cases in pool.map(study, jobs(asked.sets, asked.rows, asked.draws)):
            cases += new_cases
            for case in new_cases if asked.cases else ():
                (loss, error), (right, wrong) = gap(case.true), gap(case.true, True)
                up = case.shuffled[:, 1].mean() - case.shuffled[:, 0].mean()
                print(
                    f"{case.name:<24}{case.n:>6}  new {case.true[:, 1].mean():.4f}  gap {loss:+.4f} ± {error:.4f}  "
                    f"accuracy {right:+.4f} ± {wrong:.4f}  shuffled {up:+.4f}",
                    flush=True,
                )
    report = lines(cases, asked.rows)
    print("\n".join(report))
    if not asked.sets and asked.rows == list(DRAWS):
        tables.OUT.mkdir(exist_ok=True)
        (tables.OUT / "honesty.md").write_text("\n".join([__doc__.strip(), "", *report, ""]), encoding="utf-8")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
