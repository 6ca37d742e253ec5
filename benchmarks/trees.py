"""What a tree between the columns is worth: naive Bayes and tree-augmented naive Bayes on the same categories.

Five folds over real tables. Both sides have the same intervals of numbers, smoothing and class prior; the only
difference is the tree, which each fold finds on its own rows. How edges, intervals and smoothing are chosen by default
was decided on folds of these very tables, so the columns are to be read against each other, not as promises.
DECIBAN_DATA names where the data is; by default `../shared/data` next to the project.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

import deciban

OUT = Path(__file__).parent / "results"
DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
TABLES = [
    *("car", "nursery", "kr_vs_kp", "letter", "vehicle", "voting", "mushroom", "soybean"),
    *("hepatitis", "cmc", "glass", "credit_approval", "adult", "pima", "heart_cleveland"),
]


def read(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers as numbers, everything else as strings; `?` is missing."""
    schema = json.loads((DATA / name / "schema.json").read_text())
    files = sorted((DATA / name).glob("*.csv"))
    frame = pd.concat([pd.read_csv(f, na_values=["?"], keep_default_na=False, dtype=str) for f in files])
    frame = frame[frame[schema["target"]].notna()].reset_index(drop=True)
    columns = {c["name"]: c["type"] for c in schema["columns"] if c["name"] != schema["target"]}
    X = pd.DataFrame({c: pd.to_numeric(frame[c]) if kind == "numeric" else frame[c] for c, kind in columns.items()})
    return X, frame[schema["target"]].to_numpy(dtype=str)


def judge(model: Any, X: pd.DataFrame, y: np.ndarray, folds: int) -> tuple[np.ndarray, np.ndarray]:
    """Cross-validated log loss of each row, and whether it was predicted correctly."""
    losses, right = np.empty(len(y)), np.empty(len(y))
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y):
        model.fit(X.iloc[train], y[train])
        proba, place = model.predict_proba(X.iloc[test]), {c: i for i, c in enumerate(model.classes_)}
        truth = np.array([place.get(label, -1) for label in y[test]])
        p_true = np.where(truth >= 0, proba[np.arange(len(test)), truth], 0.0)
        losses[test] = -np.log(np.maximum(p_true, 1e-15))  # a class that was not learned
        right[test] = proba.argmax(axis=1) == truth
    return losses, right


def line(name: str, folds: int) -> str:
    X, y = read(name)
    without, plain = judge(deciban.TreeAugmentedNB(parents=[-1] * X.shape[1]), X, y, folds)
    start = time.perf_counter()
    tree, right = judge(deciban.TreeAugmentedNB(), X, y, folds)
    seconds = (time.perf_counter() - start) / folds
    gain = without - tree
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    verdict = "better" if gain.mean() > 2 * error else "worse" if gain.mean() < -2 * error else "even"
    edges = int((deciban.TreeAugmentedNB().fit(X, y).parents_ >= 0).sum())
    cells = [
        f"{name}, {len(y):,}×{X.shape[1]}",
        f"{edges}",
        f"{without.mean():.3f} ({plain.mean():.3f})",
        f"{tree.mean():.3f} ({right.mean():.3f})",
        f"{gain.mean():+.3f} ± {error:.3f}, {verdict}",
        f"{seconds * 1e3:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=5, help="folds (default 5)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    lines = [
        "# What a tree between the columns is worth",
        "",
        f"Log loss (accuracy) over {arguments.folds} folds of `TreeAugmentedNB(parents=[-1, …])`, naive Bayes, and of",
        "`TreeAugmentedNB()` on the same intervals; the mean gain in log loss, its standard error over rows, and",
        "whether it is more than two of them; milliseconds to fit and predict a fold with a tree. Edges are those",
        "found on all rows. How edges, intervals and smoothing are chosen was decided on folds of these very tables.",
        f"Written by `python benchmarks/trees.py` with deciban {deciban.__version__}.",
        "",
        "| data | edges | naive Bayes | with a tree | gain | ms |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines[-2:]))
    for name in TABLES:
        if (DATA / name / "schema.json").exists():
            lines.append(line(name, arguments.folds))
            print(lines[-1], flush=True)
    OUT.mkdir(exist_ok=True)
    path = OUT / "trees.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"table written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
