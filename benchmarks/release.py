"""Processor time of the installed version beside the last release, which is built from its tag: `make bench-release`.

Both take turns, each time in a new process, and the best of several counts: a busy machine slows both. A ratio above
1.1 is listed as slower, and the script then ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLOWER = 1.1

CASES = """
import json, time
import numpy as np
import deciban

rng = np.random.default_rng(0)
X, y = rng.normal(size=(40_000, 20)), rng.integers(0, 5, 40_000)
X += 0.3 * y[:, None]
counts = rng.poisson(0.2, (4_000, 500)).astype(float)
words = np.array([f"word{i}" for i in range(2_000)])
texts = [" ".join(words[np.minimum(rng.geometric(0.005, 60), 2_000) - 1]) for _ in range(1_500)]
table = {"a": X[:4_000, 0].tolist(), "b": X[:4_000, 1].tolist(), "c": [f"c{int(v)}" for v in 3 * X[:4_000, 2]]}
kinds, few = [str(c) for c in y[:1_500] % 2], [str(c) for c in y[:4_000] % 2]
out = {}

def timed(name, work):
    best = np.inf
    for _ in range(3):
        began = time.process_time()
        result = work()
        best = min(best, time.process_time() - began)
    out[name] = best
    return result

for name, model, rows, labels in [
    ("GaussianNB", deciban.GaussianNB(), X, y),
    ("QuadraticDiscriminantAnalysis", deciban.QuadraticDiscriminantAnalysis(), X, y),
    ("MultinomialNB", deciban.MultinomialNB(), counts, y[:4_000]),
    ("TextClassifier", deciban.TextClassifier(n_jobs=1), texts, kinds),
    ("Classifier", deciban.Classifier(n_jobs=1), table, few),
]:
    model = timed(f"{name}.fit", lambda: model.fit(rows, labels))
    timed(f"{name}.predict_proba", lambda: model.predict_proba(rows))
    timed(f"{name}.leave_one_out", lambda: model.leave_one_out(rows, labels))
print(json.dumps(out))
"""


def last_release() -> str | None:
    tags = subprocess.run(
        ["git", "tag", "--list", "v*", "--sort=-version:refname"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    head = subprocess.run(["git", "tag", "--points-at", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return next((tag for tag in tags.stdout.split() if tag not in head.stdout.split()), None)


def timed(python_path: str | None) -> dict[str, float]:
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1") | ({"PYTHONPATH": python_path} if python_path else {})
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [sys.executable, "-c", CASES], env=environment, cwd=elsewhere, capture_output=True, text=True, check=True
        )
    return json.loads(done.stdout.splitlines()[-1])


def install(source: Path, folder: str, **environment: str) -> None:
    """The package of a source tree, compiled into a folder of its own."""
    how = ["--quiet", "--no-deps", "--no-build-isolation", "--target", folder]
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))  # where meson and ninja are
    environment = {**os.environ, "PATH": path, **environment}
    subprocess.run([sys.executable, "-m", "pip", "install", *how, source], env=environment, check=True)


def best_of(versions: dict[str, str | None], turns: int) -> dict[str, dict[str, float]]:
    """The least seconds of each case by version. They take turns; None is the version that is installed."""
    best: dict[str, dict[str, float]] = {name: {} for name in versions}
    for _ in range(turns):
        for name, path in versions.items():
            for case, seconds in timed(path).items():
                best[name][case] = min(best[name].get(case, seconds), seconds)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--against", help="a tag or commit (default: the last release)")
    parser.add_argument("--turns", type=int, default=5, help="processes of each version (default: %(default)s)")
    given = parser.parse_args()
    against = given.against or last_release()
    if against is None:
        print("there is no earlier release to compare with")
        return
    with tempfile.TemporaryDirectory() as name:
        source, installed = Path(name, "source"), str(Path(name, "installed"))
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", source, against], cwd=ROOT, check=True)
        try:
            install(source, installed)
            best = best_of({"before": installed, "now": None}, given.turns)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", source], cwd=ROOT, check=True)
    before, now = best["before"], best["now"]
    rows = [(case, before[case], now[case], now[case] / before[case]) for case in now if case in before]
    print(f"| processor time, ms | {against} | now | ratio |\n|---|---|---|---|")
    for case, was, is_now, ratio in rows:
        print(f"| `{case}` | {1e3 * was:.1f} | {1e3 * is_now:.1f} | {ratio:.2f} |")
    out = ROOT / "benchmarks" / "results" / "release.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"against": against, **best}, indent=1) + "\n")
    slower = [case for case, _, _, ratio in rows if ratio > SLOWER]
    if slower:
        sys.exit(f"slower than {against}: {', '.join(slower)}")


if __name__ == "__main__":
    main()
