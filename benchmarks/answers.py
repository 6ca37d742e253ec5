"""Every public method that deciban shares with scikit-learn, timed side by side over many shapes of data.

For each estimator of the same name, each method that both have is called on the same rows, taking turns, and the best
of the turns is kept: the ratio is scikit-learn's seconds divided by ours. Answers are compared before they are timed.
With one thread, seconds are processor time, which a busy machine disturbs least; with all threads they are wall time,
and scikit-learn's linear algebra has as many threads as deciban. Everything below 1× is listed at the end.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import sklearn
import sklearn.discriminant_analysis
import sklearn.feature_extraction.text
import sklearn.mixture
import sklearn.naive_bayes
import sklearn.neighbors
from threadpoolctl import threadpool_limits

import deciban

OUT = Path(__file__).parent / "results"
PEERS = (
    sklearn.naive_bayes,
    sklearn.discriminant_analysis,
    sklearn.neighbors,
    sklearn.mixture,
    sklearn.feature_extraction.text,
)
LEARNING = ("fit", "partial_fit")
ANSWERS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "predict_joint_log_proba",
    "decision_function",
    "score",
    "score_samples",
    "transform",
)
GAUSSIANS = ("GaussianNB", "LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis", "NearestCentroid")
COUNTS = ("MultinomialNB", "BernoulliNB", "ComplementNB")
STEPS = 5  # of EM in a fit of a mixture
AIMS = {"MultinomialNB": 2.0, "BernoulliNB": 2.0, "ComplementNB": 2.0, "CategoricalNB": 6.0}
DIAGONAL_AIM = 3.0  # for predictions of mixtures with diagonal covariances
# Probabilities by design on another scale: see the docstring.
OTHER_SCALE = {("NearestCentroid", "predict_proba"), ("NearestCentroid", "predict_log_proba")}
FEW = 1_000  # rows up to which a case counts as one of few rows


@dataclass(frozen=True)
class Case:
    """An estimator and rows: those it learns, and those it answers for."""

    model: str
    data: str
    X: Any
    y: Any
    rows: Any
    truth: Any
    options: dict[str, Any] = field(default_factory=dict)
    learns: bool = True  # whether learning is timed too
    group: str = ""

    @property
    def size(self) -> int:
        return len(self.rows) if isinstance(self.rows, list) else int(self.rows.shape[0])

    def aim(self, method: str) -> float:
        if method not in ("predict", "predict_proba", "predict_log_proba") or self.size <= FEW:
            return 1.0
        if self.model == "GaussianMixture":
            return DIAGONAL_AIM if self.options["covariance_type"] in ("diag", "spherical") else 1.0
        return AIMS.get(self.model, 1.0)


@dataclass(frozen=True)
class Timing:
    case: Case
    method: str
    threads: int
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    def __str__(self) -> str:
        shape = self.case.options.get("covariance_type", "")
        name = f"{self.case.model} {shape}".strip()
        return (
            f"{name:30s} {self.case.data:44s} {self.method:24s} {self.threads}  {self.ours * 1e6:10.0f} µs "
            f"{self.theirs * 1e6:10.0f} µs {self.ratio:7.2f}×"
        )


# ---------------------------------------------------------------- data


def gaussian_rows(n: int, d: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows about the centre of their class; every class has rows."""
    y = np.arange(n) % k
    X = rng.normal(size=(n, d)) + rng.normal(scale=0.6, size=(k, d))[y]
    return X, y


def count_rows(n: int, d: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Counts, most of them zero; classes differ in their rates."""
    y = np.arange(n) % k
    rates = rng.gamma(0.5, 1.0, size=(k, d))
    return rng.poisson(rates[y]).astype(np.float64), y


def words(n: int, v: int, k: int, law: str, rng: np.random.Generator, length: int = 100) -> tuple[Any, np.ndarray]:
    """Sparse counts of words, `length` a document, in Zipf's frequencies or uniform; classes prefer some."""
    y = np.arange(n) % k
    if law == "Zipf":
        drawn = np.minimum(rng.zipf(1.3, size=(n, length)) - 1, v - 1)
        drawn = (drawn + (drawn % 7 == 0) * y[:, None] * 13) % v
        drawn = rng.permutation(v)[drawn]  # columns of a vocabulary are in the order of the alphabet
    else:
        drawn = rng.integers(0, v, size=(n, length))
    rows = np.repeat(np.arange(n), length)
    X = sp.csr_matrix((np.ones(n * length), (rows, drawn.ravel())), shape=(n, v))
    X.sum_duplicates()
    return X, y


def with_long_indices(X: Any) -> Any:
    """The same sparse rows with indices of 64 bits."""
    long = X.copy()
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    return long


def layouts(X: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The same numbers in other types and orders."""
    yield "float32", X.astype(np.float32)
    yield "Fortran order", np.asfortranarray(X)
    yield "every other column", np.repeat(X, 2, axis=1)[:, ::2]
    yield "every other row", np.repeat(X, 2, axis=0)[::2]


def size_of(n: int, d: int, k: int) -> str:
    return f"{n:,}×{d:,}, {k} classes"


# ---------------------------------------------------------------- cases


def dense_cases(names: tuple[str, ...], make: Any, scale: float, mixtures: bool) -> Iterator[Case]:
    """Few and many rows, columns and classes; then one shape in other layouts."""
    rng = np.random.default_rng(0)

    def case(data: str, X: Any, y: Any, rows: Any, truth: Any, k: int, **more: Any) -> Iterator[Case]:
        if not mixtures:
            for name in names:
                yield Case(name, data, X, y, rows, truth, **more)
            return
        d = X.shape[1]
        start = {
            "weights_init": np.full(k, 1 / k),
            "means_init": np.array([X[y == c][0] for c in range(k)], dtype=np.float64),
        }
        precisions = {
            "full": np.tile(np.eye(d), (k, 1, 1)),
            "tied": np.eye(d),
            "diag": np.ones((k, d)),
            "spherical": np.ones(k),
        }
        for shape, precision in precisions.items():
            options = {"n_components": k, "covariance_type": shape, "max_iter": STEPS, "tol": 0.0}
            options |= start | {"precisions_init": precision}
            yield Case("GaussianMixture", data, X, None, rows, None, options, **more)

    X, y = make(2_000, 20, 2, rng)
    for n in (1, 10, FEW):
        yield from case(size_of(n, 20, 2), X, y, X[:n], y[:n], 2, learns=n == FEW, group="few rows")
    frame = pd.DataFrame(X, columns=[f"column {j}" for j in range(20)])
    if not mixtures:
        yield from case(f"{size_of(1, 20, 2)}, a list", X, y, X[:1].tolist(), y[:1], 2, learns=False, group="few rows")
        yield from case(f"{size_of(1, 20, 2)}, a frame", frame, y, frame[:1], y[:1], 2, learns=False, group="few rows")
    for n, d, k in (
        (200_000, 8, 2),
        (100_000, 32, 2),
        (100_000, 32, 10),
        (20_000, 32, 100),
        (4_000, 500, 2),
        (10_000, 300, 10),
    ):
        if mixtures and k * d > 2_000:  # scikit-learn takes minutes
            continue
        # Quadratic analysis needs more rows of a class than columns.
        n = max(k * (d + 10), int(n * scale * (0.25 if mixtures else 1.0)))
        X, y = make(n, d, k, rng)
        yield from case(size_of(n, d, k), X, y, X, y, k, group="many rows")
    n = max(FEW + 1, int((12_500 if mixtures else 50_000) * scale))
    X, y = make(n, 32, 4, rng)
    kinds = list(layouts(X))
    if make is count_rows:
        kinds.append(("int64", X.astype(np.int64)))
    for kind, rows in kinds:
        yield from case(f"{size_of(n, 32, 4)}, {kind}", rows, y, rows, y, 4, group="layouts")


def sparse_cases(scale: float) -> Iterator[Case]:
    rng = np.random.default_rng(1)
    v = 50_000
    train, labels = words(2_000, v, 2, "Zipf", rng)
    for n in (1, 10, FEW):
        for name in COUNTS:
            yield Case(
                *(name, f"CSR {size_of(n, v, 2)}, Zipf", train, labels, train[:n], labels[:n]),
                learns=n == FEW,
                group="few rows",
            )
    n = max(FEW + 1, int(50_000 * scale))
    for law, k in (("Zipf", 2), ("Zipf", 10), ("Zipf", 100), ("uniform", 2), ("uniform", 10), ("uniform", 100)):
        S, y = words(n, v, k, law, rng)
        kinds = [("int32 indices", S)]
        if k == 10:
            kinds += [("int64 indices", with_long_indices(S)), ("float32", S.astype(np.float32))]
            kinds += [("int64 values", S.astype(np.int64))]
        for kind, rows in kinds:
            for name in COUNTS:
                yield Case(name, f"CSR {size_of(n, v, k)}, {law}, {kind}", rows, y, rows, y, group="sparse")
    n = max(FEW + 1, int(20_000 * scale))
    S, y = words(n, 2_000, 4, "Zipf", rng)
    yield Case("NearestCentroid", f"CSR {size_of(n, 2_000, 4)}, Zipf", S, y, S, y, group="sparse")


def category_cases(scale: float) -> Iterator[Case]:
    rng = np.random.default_rng(2)

    def make(n: int, d: int, k: int, values: int = 10) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(n) % k
        X = rng.integers(0, values, (n, d))
        X[:values] = np.arange(values)[:, None]  # every value occurs
        return X, y

    X, y = make(2_000, 20, 2)
    for n in (1, 10, FEW):
        data = size_of(n, 20, 2)
        yield Case("CategoricalNB", data, X, y, X[:n], y[:n], learns=n == FEW, group="few rows")
    for n, d, k in ((100_000, 20, 2), (100_000, 20, 10), (20_000, 20, 100), (10_000, 200, 2), (10_000, 200, 10)):
        n = max(FEW + 1, int(n * scale))
        X, y = make(n, d, k)
        yield Case("CategoricalNB", size_of(n, d, k), X, y, X, y, group="many rows")
    n = max(FEW + 1, int(50_000 * scale))
    X, y = make(n, 32, 4)
    kinds = [*layouts(X), ("float64", X.astype(np.float64)), ("int32", X.astype(np.int32)), ("uint8", X.astype("u1"))]
    for kind, rows in kinds:
        yield Case("CategoricalNB", f"{size_of(n, 32, 4)}, {kind}", rows, y, rows, y, group="layouts")


def text_cases(scale: float) -> Iterator[Case]:
    rng = np.random.default_rng(3)
    names = np.array(["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 2 + i % 9)) for i in range(20_000)])
    n = max(FEW + 1, int(10_000 * scale))
    drawn = np.minimum(rng.zipf(1.3, size=(n, 100)) - 1, len(names) - 1)
    texts = [" ".join(row) for row in names[drawn].tolist()]
    for m in (1, 10, FEW, n):
        group = "few rows" if m <= FEW else "many rows"
        yield Case(
            *("CountVectorizer", f"{m:,} texts of 100 words", texts[: max(m, 100)], None, texts[:m], None), group=group
        )


def cases(scale: float) -> Iterator[Case]:
    yield from dense_cases(GAUSSIANS, gaussian_rows, scale, False)
    yield from dense_cases((), gaussian_rows, scale, True)
    yield from dense_cases(COUNTS, count_rows, scale, False)
    yield from sparse_cases(scale)
    yield from category_cases(scale)
    yield from text_cases(scale)


# ---------------------------------------------------------------- timing


def turns(ours: Callable[[], Any], theirs: Callable[[], Any], clock: Callable[[], float], budget: float) -> list[float]:
    """The best seconds of each, taking turns for at least three and until the budget of seconds is spent."""
    best, spent, turn = [np.inf, np.inf], 0.0, 0
    while turn < 3 or (spent < budget and turn < 200):
        for i, function in enumerate((ours, theirs)):
            start = clock()
            function()
            took = clock() - start
            best[i], spent = min(best[i], took), spent + took
        turn += 1
    return best


def repeated(function: Callable[[], Any], times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            function()

    return run


def peer_of(name: str) -> Any:
    return next(getattr(module, name) for module in PEERS if hasattr(module, name))


def check_same(case: Case, method: str, mine: Any, other: Any) -> None:
    """Both sides give the same answers."""
    if (case.model, method) in OTHER_SCALE:
        return
    if method == "predict_log_proba":  # scikit-learn's linear analysis takes logarithms of rounded probabilities
        mine, other = np.maximum(mine, -15.0), np.maximum(other, -15.0)
    if method == "transform" and case.model != "CountVectorizer":  # directions have no sign
        mine, other = np.abs(mine), np.abs(other)
    if sp.issparse(other):
        assert (mine != other).nnz == 0, f"{case.model} {method} {case.data}"
    elif method == "predict":  # two classes may be as good as each other
        assert np.mean(mine != other) < 1e-3, f"{case.model} {method} {case.data}"
    else:
        tolerance = 1e-3 if getattr(case.rows, "dtype", None) == np.float32 else 1e-6
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance, err_msg=f"{case.model} {case.data}")


def calls(case: Case, threads: int) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """(method, our call, scikit-learn's) for every method that both have."""
    own, peer = getattr(deciban, case.model), peer_of(case.model)

    def pair() -> tuple[Any, Any]:
        return own(**case.options, n_jobs=threads), peer(**case.options)

    ours, theirs = pair()
    labels = () if case.y is None else (case.y,)
    ours.fit(case.X, *labels), theirs.fit(case.X, *labels)
    for method in ANSWERS:
        if not (hasattr(ours, method) and hasattr(theirs, method)):
            continue
        more = (case.truth,) if method == "score" and case.truth is not None else ()
        mine, other = getattr(ours, method), getattr(theirs, method)
        check_same(case, method, mine(case.rows, *more), other(case.rows, *more))
        yield method, lambda f=mine, more=more: f(case.rows, *more), lambda f=other, more=more: f(case.rows, *more)
    if not case.learns:
        return
    yield "fit", lambda: pair()[0].fit(case.X, *labels), lambda: pair()[1].fit(case.X, *labels)
    if hasattr(theirs, "partial_fit"):
        ours, theirs = pair()
        classes = np.unique(case.y)
        ours.partial_fit(case.X, case.y, classes), theirs.partial_fit(case.X, case.y, classes)
        yield (
            "partial_fit",
            lambda: ours.partial_fit(case.rows, case.truth),
            lambda: theirs.partial_fit(case.rows, case.truth),
        )


def timings(case: Case, threads: int, budget: float, wanted: tuple[str, ...]) -> Iterator[Timing]:
    clock = time.process_time if threads == 1 else time.perf_counter
    with threadpool_limits(threads):
        for method, ours, theirs in calls(case, threads):
            if method not in wanted:
                continue
            times = 20 if case.size <= 10 and method not in LEARNING else 1  # a clock's tick is a microsecond
            mine, other = turns(repeated(ours, times), repeated(theirs, times), clock, budget)
            yield Timing(case, method, threads, mine / times, other / times)


# ---------------------------------------------------------------- tables


def summary(results: list[Timing]) -> list[str]:
    """Median and least ratio of each estimator and method, by kind of data and threads."""
    lines = ["| estimator | data | threads | method | median | least | least on |", "|---|---|---:|---|---:|---:|---|"]
    groups: dict[tuple[str, str, int, str], list[Timing]] = {}
    for one in results:
        name = f"{one.case.model} {one.case.options.get('covariance_type', '')}".strip()
        groups.setdefault((name, one.case.group, one.threads, one.method), []).append(one)
    for (name, group, threads, method), timed in groups.items():
        least = min(timed, key=lambda one: one.ratio)
        median = float(np.median([one.ratio for one in timed]))
        cells = [name, group, str(threads), method, f"{median:.1f}×", f"{least.ratio:.2f}×", least.case.data]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def shortfalls(results: list[Timing]) -> list[str]:
    """What is below 1×, the worst first, and then what is below its aim."""
    below = sorted((one for one in results if one.ratio < 1.0), key=lambda one: one.ratio)
    short = sorted((one for one in results if 1.0 <= one.ratio < one.case.aim(one.method)), key=lambda one: one.ratio)
    lines = [f"{len(below)} of {len(results)} below 1×:", *(f"  {one}" for one in below)]
    return [*lines, f"{len(short)} more below their aim:", *(f"  {one}" for one in short)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes (default 1.0)")
    parser.add_argument("--budget", type=float, default=0.2, help="seconds for each pair (default 0.2)")
    parser.add_argument("--models", default="", help="only estimators whose name contains one of these, by commas")
    parser.add_argument("--methods", default="", help="only these methods, by commas")
    parser.add_argument("--data", default="", help="only data whose description contains this")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default 1,2)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = tuple(arguments.methods.split(",")) if arguments.methods else (*ANSWERS, *LEARNING)
    results = []
    print("estimator, data, method, threads, ours, scikit-learn's, scikit-learn ÷ ours")
    for case in cases(arguments.scale):
        if not any(part in case.model for part in arguments.models.split(",")) or arguments.data not in case.data:
            continue
        for threads in map(int, arguments.threads.split(",")):
            if threads > 1 and case.size <= FEW:
                continue
            for one in timings(case, threads, arguments.budget, wanted):
                results.append(one)
                print(one, flush=True)
    missed = shortfalls(results)
    print("\n".join(missed))
    lines = [
        "# Every shared method beside scikit-learn",
        "",
        f"deciban {deciban.__version__}, scikit-learn {sklearn.__version__}, NumPy {np.__version__}; "
        f"scale {arguments.scale}; written by `python benchmarks/answers.py`. Ratios are scikit-learn's seconds "
        "divided by ours; processor time with one thread, wall time with more.",
        "",
        *summary(results),
        "",
        "```",
        *missed,
        "```",
        "",
        "```",
        *map(str, results),
        "```",
    ]
    OUT.mkdir(exist_ok=True)
    path = OUT / "answers.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"table written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    main()
