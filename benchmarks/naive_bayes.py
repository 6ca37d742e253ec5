"""Speed beside scikit-learn, in one process: ratios of the peer's seconds to ours. `make bench` runs it.

Every pair is timed alternately and the best of the repeats is kept, so that a busy machine slows both. Shown beside
the ratio: how far we are from one read of the data, the least that any fit can cost.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import sklearn
import sklearn.naive_bayes as peer

import deciban

OUT = Path(__file__).parent / "results"


def best(*functions: Callable[[], object], repeats: int) -> list[float]:
    """Best wall time of each, taking turns."""
    times = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            times[i] = min(times[i], time.perf_counter() - start)
    return times


def words(n: int, v: int, k: int, rng: np.random.Generator) -> tuple[sp.csr_matrix, np.ndarray]:
    """A corpus with Zipf's frequencies, a hundred words a document, and classes that prefer different words."""
    y = rng.integers(0, k, n)
    drawn = np.minimum(rng.zipf(1.3, size=(n, 100)) - 1, v - 1)
    shifted = (drawn + (drawn % 7 == 0) * y[:, None] * 13) % v
    rows = np.repeat(np.arange(n), 100)
    X = sp.csr_matrix((np.ones(n * 100), (rows, shifted.ravel())), shape=(n, v))
    X.sum_duplicates()
    return X, y


def compare(scale: float, repeats: int, jobs: int | None) -> list[tuple[str, str, float, float, str]]:
    """(model and data, what, our seconds, ratio, note) for every pair."""
    rng = np.random.default_rng(0)
    rows: list[tuple[str, str, float, float, str]] = []
    n, d, k = int(1_000_000 * scale), 32, 4

    def pair(data: str, what: str, ours: Callable[[], object], theirs: Callable[[], object], note: str = "") -> None:
        mine, other = best(ours, theirs, repeats=repeats)
        rows.append((data, what, mine, other / mine, note))
        print(f"  {data:44s} {what:16s} {mine * 1e3:9.1f} ms  {other / mine:7.1f}×  {note}", flush=True)

    X = rng.normal(size=(n, d))
    y = rng.integers(0, k, n)
    X += y[:, None] * 0.3
    read = best(X.sum, repeats=repeats)[0]
    for name, data in (("float64", X), ("float32", X.astype(np.float32)), ("Fortran order", np.asfortranarray(X))):
        label = f"GaussianNB {n:,}×{d}, {k} classes, {name}"
        ours, theirs = deciban.GaussianNB(n_jobs=jobs), peer.GaussianNB()
        pair(label, "fit", lambda: ours.fit(data, y), lambda: theirs.fit(data, y), f"one read: {read * 1e3:.1f} ms")
        pair(label, "predict_proba", lambda: ours.predict_proba(data), lambda: theirs.predict_proba(data))
        if name == "float64":
            pair(label, "predict", lambda: ours.predict(data), lambda: theirs.predict(data))
    model = deciban.GaussianNB(n_jobs=jobs).fit(X, y)
    loo, predict = best(lambda: model.leave_one_out(X, y), lambda: model.predict_log_proba(X), repeats=repeats)
    rows.append((f"GaussianNB {n:,}×{d}, {k} classes", "leave_one_out", loo, 0.0, f"{loo / predict:.1f} × predicting"))
    print(f"  leave-one-out of every row: {loo * 1e3:.1f} ms, {loo / predict:.1f} × predict_log_proba")

    C = rng.integers(0, 10, (n // 2, 20))
    yc = rng.integers(0, k, n // 2)
    label = f"CategoricalNB {n // 2:,}×20, 10 values"
    ours, theirs = deciban.CategoricalNB(n_jobs=jobs), peer.CategoricalNB()
    pair(label, "fit", lambda: ours.fit(C, yc), lambda: theirs.fit(C, yc))
    pair(label, "predict", lambda: ours.predict(C), lambda: theirs.predict(C))
    loo, predict = best(lambda: ours.leave_one_out(C, yc), lambda: ours.predict_log_proba(C), repeats=repeats)
    rows.append((label, "leave_one_out", loo, 0.0, f"{loo / predict:.1f} × predicting"))
    print(f"  leave-one-out of every row: {loo * 1e3:.1f} ms, {loo / predict:.1f} × predict_log_proba")

    for v, kinds in ((30_000, 20), (30_000, 2)):
        S, ys = words(int(100_000 * scale), v, kinds, rng)
        for name in ("MultinomialNB", "BernoulliNB", "ComplementNB"):
            label = f"{name} CSR {S.shape[0]:,}×{v:,}, {kinds} classes"
            ours, theirs = getattr(deciban, name)(n_jobs=jobs), getattr(peer, name)()
            pair(label, "fit", lambda: ours.fit(S, ys), lambda: theirs.fit(S, ys))
            pair(label, "predict", lambda: ours.predict(S), lambda: theirs.predict(S))
            loo, predict = best(lambda: ours.leave_one_out(S, ys), lambda: ours.predict_log_proba(S), repeats=repeats)
            rows.append((label, "leave_one_out", loo, 0.0, f"{loo / predict:.1f} × predicting"))
            print(f"  leave-one-out of every row: {loo * 1e3:.1f} ms, {loo / predict:.1f} × predict_log_proba")
    return rows


def growth(scale: float, repeats: int) -> list[tuple[str, float]]:
    """Seconds per million entries as rows and classes grow: flat in n, and what K costs."""
    rng = np.random.default_rng(1)
    rows = []
    for n, k in ((10_000, 4), (100_000, 4), (1_000_000, 4), (100_000, 2), (100_000, 16), (100_000, 128)):
        n = int(n * scale)
        X = rng.normal(size=(n, 16))
        y = rng.integers(0, k, n)
        model = deciban.GaussianNB()
        fit, predict = best(lambda: model.fit(X, y), lambda: model.predict_proba(X), repeats=repeats)
        rows.append((f"fit, n = {n:,}, K = {k}", fit / X.size * 1e9))
        rows.append((f"predict_proba, n = {n:,}, K = {k}", predict / X.size * 1e9))
    return rows


def memory(scale: float) -> list[tuple[str, float]]:
    """Peak memory above the input, in MB, measured in processes of their own."""
    rows = []
    n = int(1_000_000 * scale)
    for module in ("deciban", "sklearn.naive_bayes"):
        for what in ("fit(X, y)", "fit(X, y).predict(X[:10])", "fit(X, y).predict_proba(X)"):
            code = (
                "import numpy as np\n"
                f"import {module} as m\n"
                "def peak():\n"
                "    status = open('/proc/self/status').read()\n"
                "    return int(status.split('VmHWM:')[1].split()[0]) / 1024\n"
                f"X = np.random.default_rng(0).normal(size=({n}, 32)); y = np.arange(len(X)) % 4\n"
                "m.GaussianNB().fit(X[:100], y[:100]).predict_proba(X[:100])\n"
                "before = peak()\n"
                f"m.GaussianNB().{what}\n"
                "print(peak() - before)\n"
            )
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            rows.append((f"{module} {what}", float(done.stdout)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes (default 1.0)")
    parser.add_argument("--repeats", type=int, default=5, help="turns for each pair (default 5)")
    parser.add_argument("--jobs", type=int, default=None, help="threads for deciban (default: all cores)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [
        "# Naive Bayes beside scikit-learn",
        "",
        f"deciban {deciban.__version__}, scikit-learn {sklearn.__version__}, NumPy {np.__version__}; "
        f"threads: {arguments.jobs or 'all cores'}; scale {arguments.scale}; written by `make bench`.",
        "",
        "| model and data | what | ours, ms | scikit-learn ÷ ours | |",
        "|---|---|---:|---:|---|",
    ]
    print("ratios: scikit-learn's seconds ÷ ours")
    for data, what, ours, ratio, note in compare(arguments.scale, arguments.repeats, arguments.jobs):
        lines.append(f"| {data} | {what} | {ours * 1e3:.1f} | {f'{ratio:.1f}×' if ratio else ''} | {note} |")
    lines += ["", "## Growth: nanoseconds per entry of X", "", "| | ns |", "|---|---:|"]
    lines += [f"| {what} | {value:.2f} |" for what, value in growth(arguments.scale, arguments.repeats)]
    lines += ["", "## Memory above the input, MB", "", "| | MB |", "|---|---:|"]
    lines += [f"| {what} | {value:.0f} |" for what, value in memory(arguments.scale)]
    OUT.mkdir(exist_ok=True)
    path = OUT / "naive_bayes.md"
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines[lines.index("## Growth: nanoseconds per entry of X") :]))
    print(f"table written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    print(f"peak memory of this run: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB")


if __name__ == "__main__":
    main()
