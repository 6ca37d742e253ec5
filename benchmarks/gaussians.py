"""Gaussian models compared with scikit-learn, in one process: ratios of the peer's seconds to ours.

Every pair is timed alternately and the best of the repeats is kept, so that a busy machine slows both. Both sides give
the same answers, and that is asserted before anything is timed. scikit-learn runs with as many threads of its linear
algebra as suit it best: all, or one, because on a busy machine many threads wait for each other. Shown beside the
ratios: the least that any implementation must spend, which is one read of the data or its floating-point operations at
the speed of a large matrix product, whichever is longer.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sklearn
import sklearn.discriminant_analysis
import sklearn.mixture
from threadpoolctl import threadpool_limits

import deciban

OUT = Path(__file__).parent / "results"
STEPS = 20  # of EM, on both sides

TARGETS = {
    ("LinearDiscriminantAnalysis", "fit"): 30.0,
    ("QuadraticDiscriminantAnalysis", "fit"): 12.0,
    ("QuadraticDiscriminantAnalysis", "predict_proba"): 4.0,
    ("GaussianMixture full", "fit"): 6.0,
    ("GaussianMixture diag", "fit"): 3.0,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Seconds; `least` is the minimum for the operations or one read of the data."""

    model: str
    what: str
    ours: float
    theirs: float | None = None
    least: float | None = None
    note: str = ""

    @property
    def target(self) -> str:
        aim = TARGETS.get((self.model, self.what))
        if aim is None or self.theirs is None:
            return ""
        return f"≥ {aim:g}× {'met' if self.theirs / self.ours >= aim else 'MISSED'}"

    def cells(self) -> list[str]:
        return [
            self.model,
            self.what,
            f"{self.ours * 1e3:.1f}",
            "" if self.theirs is None else f"{self.theirs * 1e3:.1f}",
            "" if self.theirs is None else f"{self.theirs / self.ours:.1f}×",
            self.target,
            "" if self.least is None else f"{self.least * 1e3:.1f}",
            self.note,
        ]


HEAD = ["model", "what", "ours, ms", "scikit-learn, ms", "ratio", "target", "least, ms", ""]


def best(*functions: Callable[[], object], repeats: int) -> list[float]:
    """Best wall time of each, taking turns."""
    times = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            times[i] = min(times[i], time.perf_counter() - start)
    return times


def quicker(function: Callable[[], object]) -> Callable[[], object]:
    """The function with all threads of the linear algebra or with one, whichever is quicker here."""

    def single() -> object:
        with threadpool_limits(1, user_api="blas"):
            return function()

    alone, together = best(single, function, repeats=1)
    return single if alone < together else function


def classes(n: int, d: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Correlated Gaussian rows, and the class or cluster of each, with its own mean and covariance."""
    y = rng.integers(0, k, n)
    X = rng.normal(size=(n, d))
    for c in range(k):
        X[y == c] = X[y == c] @ (np.eye(d) + 0.15 * rng.normal(size=(d, d))) + rng.normal(scale=0.7, size=d)
    return X, y


class Limits:
    """Measured limits of this machine: flops of a matrix product, and one read of X in one thread."""

    def __init__(self, X: np.ndarray, repeats: int) -> None:
        size = 1536
        left, right = np.random.default_rng(0).normal(size=(2, size, size))
        out = np.empty((size, size))
        self.peak = 2 * size**3 / best(lambda: np.matmul(left, right, out=out), repeats=repeats)[0]
        self.read = best(X.sum, repeats=repeats)[0]
        self.bytes = X.nbytes

    def least(self, X: np.ndarray, flops: float, reads: int = 1) -> float:
        return max(reads * self.read * X.nbytes / self.bytes, flops / self.peak)

    def __str__(self) -> str:
        return (
            f"one read of {self.bytes / 2**20:.0f} MB in one thread: {self.read * 1e3:.1f} ms "
            f"({self.bytes / self.read / 1e9:.1f} GB/s); "
            f"dgemm in {os.cpu_count()} threads: {self.peak / 1e9:.0f} GFLOP/s"
        )


def print_row(row: Row) -> None:
    model, what, ours, theirs, ratio, target, least, note = row.cells()
    print(f"  {model:30s} {what:14s} {ours:>8s} {theirs:>9s} {ratio:>7s}  {target:12s} {least:>7s}  {note}", flush=True)


def discriminants(X: np.ndarray, y: np.ndarray, limits: Limits, repeats: int, jobs: int | None) -> list[Row]:
    """Linear and quadratic analysis: fit, predict_proba, and exact leave-one-out in units of a prediction."""
    n, d, k = *X.shape, int(y.max()) + 1
    symmetric = d * (d + 1.0)  # flops of one rank-one update of half a symmetric matrix, or of one triangular solve
    scores = {"LinearDiscriminantAnalysis": 2.0 * d * k, "QuadraticDiscriminantAnalysis": symmetric * k}
    rows = []
    for name, flops in scores.items():
        ours = getattr(deciban, name)(n_jobs=jobs).fit(X, y)
        theirs = getattr(sklearn.discriminant_analysis, name)().fit(X, y)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)
        mine, other = best(lambda: ours.fit(X, y), quicker(lambda: theirs.fit(X, y)), repeats=repeats)
        rows.append(Row(name, "fit", mine, other, limits.least(X, n * symmetric)))
        print_row(rows[-1])
        mine, other = best(lambda: ours.predict_proba(X), quicker(lambda: theirs.predict_proba(X)), repeats=repeats)
        rows.append(Row(name, "predict_proba", mine, other, limits.least(X, n * flops)))
        print_row(rows[-1])
        alone, predict = best(lambda: ours.leave_one_out(X, y), lambda: ours.predict_log_proba(X), repeats=repeats)
        rows.append(Row(name, "leave_one_out", alone, note=f"{alone / predict:.1f} predictions"))
        print_row(rows[-1])
    return rows


def mixtures(scale: float, limits: Limits, repeats: int, jobs: int | None) -> list[Row]:
    """EM from the same start for the same number of steps, ending at the same likelihood."""
    rng = np.random.default_rng(1)
    n, d, k = int(100_000 * scale), 16, 8
    X, _ = classes(n, d, k, rng)
    means = X[rng.choice(n, k, replace=False)]
    rows = []
    for shape in ("full", "diag"):
        precisions = np.tile(np.eye(d), (k, 1, 1)) if shape == "full" else np.ones((k, d))
        options = {
            "covariance_type": shape,
            "weights_init": np.full(k, 1 / k),
            "means_init": means,
            "precisions_init": precisions,
            "tol": 0.0,
            "max_iter": STEPS,
        }
        ours = deciban.GaussianMixture(k, **options, n_jobs=jobs).fit(X)
        with threadpool_limits(1, user_api="blas"):
            theirs = sklearn.mixture.GaussianMixture(k, **options).fit(X)
        assert ours.n_iter_ == theirs.n_iter_ == STEPS
        np.testing.assert_allclose(ours.score(X), theirs.score(X), rtol=1e-6)
        mine, other = best(lambda: ours.fit(X), quicker(lambda: theirs.fit(X)), repeats=repeats)
        each = 2.0 * d * (d + 1) if shape == "full" else 8.0 * d  # density and weighted sums, per row and component
        least = limits.least(X, STEPS * n * k * each, STEPS)
        rows.append(Row(f"GaussianMixture {shape}", "fit", mine, other, least, f"log-likelihood {ours.score(X):.6f}"))
        print_row(rows[-1])
        mine, other = best(lambda: ours.predict_proba(X), quicker(lambda: theirs.predict_proba(X)), repeats=repeats)
        rows.append(Row(f"GaussianMixture {shape}", "predict_proba", mine, other, limits.least(X, n * k * each / 2)))
        print_row(rows[-1])
    return rows


def memory(scale: float) -> list[tuple[str, float, float]]:
    """(what, our peak memory above the input, scikit-learn's), in MB, measured in processes of their own."""
    n, m = int(500_000 * scale), int(100_000 * scale)
    discriminant = f"X = np.random.default_rng(0).normal(size=({n}, 32)); y = np.arange(len(X)) % 3"
    mixture = f"X = np.random.default_rng(0).normal(size=({m}, 16)); y = None"
    peer = "sklearn.discriminant_analysis"
    cases = [
        (peer, discriminant, "LinearDiscriminantAnalysis()", "fit(X, y)"),
        (peer, discriminant, "LinearDiscriminantAnalysis()", "fit(X, y).predict_proba(X)"),
        (peer, discriminant, "QuadraticDiscriminantAnalysis()", "fit(X, y)"),
        (
            "sklearn.discriminant_analysis",
            discriminant,
            "QuadraticDiscriminantAnalysis()",
            "fit(X, y).predict_proba(X)",
        ),
        ("sklearn.mixture", mixture, "GaussianMixture(8, init_params='random_from_data', max_iter=3, tol=0)", "fit(X)"),
    ]
    rows = []
    for peer, data, model, what in cases:
        peaks = []
        for module in ("deciban", peer):
            code = (
                "import warnings; import numpy as np\n"
                f"import {module} as m\n"
                "warnings.simplefilter('ignore')\n"
                "def peak():\n"
                "    status = open('/proc/self/status').read()\n"
                "    return int(status.split('VmHWM:')[1].split()[0]) / 1024\n"
                f"{data}\n"
                f"m.{model}.fit(X[:200], None if y is None else y[:200]).predict_proba(X[:200])\n"
                "before = peak()\n"
                f"m.{model}.{what}\n"
                "print(peak() - before)\n"
            )
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            peaks.append(float(done.stdout))
        rows.append((f"{model.split('(')[0]} {what}", peaks[0], peaks[1]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes (default 1.0)")
    parser.add_argument("--repeats", type=int, default=3, help="turns for each pair (default 3)")
    parser.add_argument("--jobs", type=int, default=None, help="threads for deciban (default: all cores)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    n, d, k = int(500_000 * arguments.scale), 32, 3
    X, y = classes(n, d, k, np.random.default_rng(0))
    limits = Limits(X, repeats=10)
    print(f"milliseconds: ours, scikit-learn's, ratio, target, the least possible\n{limits}")
    rows = discriminants(X, y, limits, arguments.repeats, arguments.jobs)
    rows += mixtures(arguments.scale, limits, arguments.repeats, arguments.jobs)
    lines = [
        "# Gaussian models compared with scikit-learn",
        "",
        f"deciban {deciban.__version__}, scikit-learn {sklearn.__version__}, NumPy {np.__version__}; "
        f"threads: {arguments.jobs or 'all cores'}; scale {arguments.scale}; "
        "written by `python benchmarks/gaussians.py`.",
        "",
        f"Discriminants on {n:,}×{d} float64, {k} classes; mixtures on {int(100_000 * arguments.scale):,}×16, 8 "
        f"components, {STEPS} steps of EM from one start. Limits: {limits}.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|---|---|---:|---:|---:|---|---:|---|",
    ]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    above = ["", "## Memory above the input, MB", "", "| | ours | scikit-learn |", "|---|---:|---:|"]
    above += [f"| {what} | {mine:.0f} | {other:.0f} |" for what, mine, other in memory(arguments.scale)]
    print("\n".join(above))
    OUT.mkdir(exist_ok=True)
    path = OUT / "gaussians.md"
    path.write_text("\n".join(lines + above) + "\n")
    print(f"table written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    print(f"peak memory of this run: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB")


if __name__ == "__main__":
    main()
