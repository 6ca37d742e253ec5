"""How well Gaussian discriminants judge real tables: five folds, beside scikit-learn's linear and quadratic analysis.

Every table of the data folder with two or more numeric columns takes part, with its numeric columns only. All models
get standardised columns. Missing entries are filled with the column's mean for scikit-learn, while deciban takes them
as they are. DECIBAN_DATA says where the tables are; by default `../shared/data` beside the project.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import deciban

OUT = Path(__file__).parent / "results"
DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
MOST = 20_000  # rows of a table; larger ones are drawn from
SEED = 0
WITHIN = 0.002  # accuracies closer than this are a match
FLOOR = np.log(np.finfo(np.float64).tiny)  # one row can cost 708 nats, so that one certain mistake is not all one sees


def peer(model: Any) -> Any:
    return make_pipeline(SimpleImputer(), StandardScaler(), model)


def own(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


PEERS: dict[str, Callable[[], Any]] = {
    "LDA": lambda: peer(LinearDiscriminantAnalysis()),
    "QDA": lambda: peer(QuadraticDiscriminantAnalysis()),
    "QDA 0.1": lambda: peer(QuadraticDiscriminantAnalysis(reg_param=0.1)),
}
OURS: dict[str, Callable[[], Any]] = {
    "our QDA": lambda: own(deciban.QuadraticDiscriminantAnalysis()),
    "loo": lambda: own(deciban.GaussianDiscriminant()),
    "loo, filled": lambda: peer(deciban.GaussianDiscriminant()),
    "bic": lambda: own(deciban.GaussianDiscriminant(shrinkage=None, covariance="bic")),
}
NAMES = (*PEERS, *OURS)


def numbers(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Numeric columns (NaN where missing) and labels; None for sets that are no tables or have too few numbers."""
    folder = DATA / name
    if name == "covtype":
        frame = pd.read_csv(folder / "covtype.csv.gz")
        X, y = frame.iloc[:, :10].to_numpy(dtype=float), frame["Cover_Type"].to_numpy(dtype=str)
    elif (folder / "schema.json").exists():
        schema = json.loads((folder / "schema.json").read_text())
        files = sorted(folder.glob("*.csv"))
        frame = pd.concat([pd.read_csv(f, na_values=["?"], keep_default_na=False, dtype=str) for f in files])
        frame = frame[frame[schema["target"]].notna()]
        columns = [c["name"] for c in schema["columns"] if c["type"] == "numeric" and c["name"] != schema["target"]]
        if len(columns) < 2:
            return None
        X = frame[columns].apply(pd.to_numeric).to_numpy(dtype=float)
        y = frame[schema["target"]].to_numpy(dtype=str)
    else:
        return None
    if len(y) > MOST:
        drawn = np.sort(np.random.default_rng(SEED).choice(len(y), MOST, replace=False))
        X, y = X[drawn], y[drawn]
    often = dict(zip(*np.unique(y, return_counts=True), strict=True))
    kept = np.array([often[label] >= 10 for label in y])  # two rows or more of a class in each fold
    return X[kept], y[kept]


def judge(make: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> tuple[float, float, float] | str:
    """(accuracy, log loss, seconds to fit) over five folds, or the first line of the error."""
    codes = np.unique(y, return_inverse=True)[1]
    right = loss = seconds = 0.0
    for train, test in StratifiedKFold(5, shuffle=True, random_state=SEED).split(X, y):
        try:
            start = time.perf_counter()
            model = make().fit(X[train], y[train])
            seconds += time.perf_counter() - start
            log_proba = model.predict_log_proba(X[test])
        except (ValueError, np.linalg.LinAlgError) as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"
        chosen = log_proba[np.arange(len(test)), codes[test]]
        right += float((log_proba.argmax(axis=1) == codes[test]).sum())
        loss -= float(np.nan_to_num(np.maximum(chosen, FLOOR), nan=FLOOR).sum())
    return right / len(y), loss / len(y), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", help="names of sets (default: every one that has numbers)")
    names = parser.parse_args().sets or sorted(p.name for p in DATA.iterdir() if p.is_dir())
    warnings.simplefilter("ignore")
    scores: dict[str, dict[str, tuple[float, float, float] | str]] = {}
    sizes: dict[str, str] = {}
    for name in names:
        found = numbers(name)
        if found is None:
            continue
        X, y = found
        gaps = int(np.isnan(X).any(axis=1).sum())
        sizes[name] = f"{len(X):,}×{X.shape[1]}, {len(np.unique(y))} classes"
        if gaps:
            sizes[name] += f", {gaps:,} rows with gaps"
        scores[name] = {}
        for what, make in (PEERS | OURS).items():
            if what == "loo, filled" and not gaps:
                scores[name][what] = scores[name]["loo"]
                continue
            scores[name][what] = judge(make, X, y)
        reached = {w: s for w, s in scores[name].items() if not isinstance(s, str)}
        told = "  ".join(f"{w} {s[0]:.4f}/{s[1]:.3f}" for w, s in reached.items())
        print(f"{name} ({sizes[name]}): {told}", flush=True)

    lines = [
        "# Gaussian discriminants on real tables",
        "",
        f"Five stratified folds (seed {SEED}), numeric columns, at most {MOST:,} rows. deciban {deciban.__version__}, "
        f"scikit-learn {sklearn.__version__}; written by `python benchmarks/discriminants.py`.",
        "",
        "LDA, QDA and QDA 0.1 (reg_param) are scikit-learn's. Ours: `QuadraticDiscriminantAnalysis()`; loo is",
        '`GaussianDiscriminant()`, and "filled" the same after mean imputation; bic is',
        '`GaussianDiscriminant(shrinkage=None, covariance="bic")`. Bold: the best of the row, or within '
        f"{WITHIN} of it.",
    ]
    for place, measure in enumerate(("accuracy", "log loss")):
        lines += ["", f"## {measure.capitalize()}", "", "| table | rows | " + " | ".join(NAMES) + " |"]
        lines += ["|---|---|" + "---:|" * len(NAMES)]
        for name, row in scores.items():
            reached = {w: s[place] for w, s in row.items() if not isinstance(s, str)}
            top = max(reached.values()) if place == 0 else min(reached.values())
            cells = []
            for what in NAMES:
                cell = "fails" if what not in reached else f"{reached[what]:.4f}"
                good = what in reached and abs(reached[what] - top) <= WITHIN
                cells.append(f"**{cell}**" if good else cell)
            lines.append(f"| {name} | {sizes[name]} | " + " | ".join(cells) + " |")
    lines += ["", "## Counts", ""]
    for what in ("loo", "loo, filled", "bic", "our QDA"):
        for place, measure in enumerate(("accuracy", "log loss")):
            for rivals in (("LDA", "QDA"), ("LDA", "QDA", "QDA 0.1")):
                won, lost = 0, []
                for name, row in scores.items():
                    sign = 1.0 if place == 0 else -1.0
                    others = [sign * row[r][place] for r in rivals if not isinstance(row[r], str)]
                    mine = -np.inf if isinstance(row[what], str) else sign * row[what][place]
                    if mine >= max(others) - WITHIN:
                        won += 1
                    else:
                        lost.append(f"{name} ({sign * (mine - max(others)):+.4f})")
                lines.append(
                    f"- {what} matches or beats the best of scikit-learn's {', '.join(rivals)} in {measure} on {won} "
                    f"of {len(scores)}" + (f"; not on {', '.join(lost)}" if lost else "")
                )
    print("\n".join(lines[lines.index("## Accuracy") :]))
    failed = [(n, w, s) for n, row in scores.items() for w, s in row.items() if isinstance(s, str)]
    for name, what, error in failed:
        print(f"{what} fails on {name}: {error}")
    print("seconds to fit five times:")
    for name, row in scores.items():
        print(f"  {name}:", ", ".join(f"{w} {s[2]:.2f}" for w, s in row.items() if not isinstance(s, str)))
    OUT.mkdir(exist_ok=True)
    path = OUT / "discriminants.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"table written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    main()
