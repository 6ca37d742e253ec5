"""How well Gaussian discriminants classify real tables: five folds, compared with scikit-learn's linear and quadratic
analysis.

Every table of the data folder with two or more numeric columns takes part, with its numeric columns only, and 5,000
rows drawn with a fixed seed where it has more: mixtures take their time, and the whole should end within four minutes.
A mixture that would need more than a minute for its five fits (told by the first) is left out. All models get
standardised columns. Missing entries are filled with the column's mean for scikit-learn, while deciban takes them as
they are. DECIBAN_DATA names where the tables are; by default `../shared/data` next to the project.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

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
MAX_ROWS = 5_000  # of a table; larger ones are sampled
MAX_FIT_SECONDS = 20.0  # of five fits; slower mixtures are left out
SEED = 0
TIE_MARGIN = 0.002  # accuracies closer than this are a tie
MIN_LOG_PROBA = np.log(np.finfo(np.float64).tiny)  # so that one certain mistake costs 708 nats and not infinity


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
    "loo accuracy": lambda: own(deciban.GaussianDiscriminant(criterion="accuracy")),
    "mixture": lambda: own(deciban.MixtureDiscriminant()),
}
NAMES = (*PEERS, *OURS)
MEASURES = ("accuracy", "log loss")
PREFERRED_MODEL = {"accuracy": "loo accuracy", "log loss": "loo"}  # for each measure
RIVALS = ("LDA", "QDA")


class Score(NamedTuple):
    """Accuracy and log loss in each fold, rows of the folds, and seconds to fit them all."""

    accuracy: np.ndarray
    loss: np.ndarray
    rows: np.ndarray
    seconds: float

    def folds(self, measure: str) -> np.ndarray:
        return self.accuracy if measure == "accuracy" else self.loss

    def mean(self, measure: str) -> float:
        return float(np.average(self.folds(measure), weights=self.rows))


Row = dict[str, Score | str]  # by model: its score, or the reason for having none


def numbers(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Numeric columns (NaN if missing) and labels; None for sets that are no tables or have too few numeric columns."""
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
    if len(y) > MAX_ROWS:
        drawn = np.sort(np.random.default_rng(SEED).choice(len(y), MAX_ROWS, replace=False))
        X, y = X[drawn], y[drawn]
    often = dict(zip(*np.unique(y, return_counts=True), strict=True))
    kept = np.array([often[label] >= 10 for label in y])  # two rows or more of a class in each fold
    return X[kept], y[kept]


def judge(make: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> Score | str:
    """The score over five folds, or why there is none: the first line of an error, or that it takes too long."""
    codes = np.unique(y, return_inverse=True)[1]
    right, loss, rows = [], [], []
    seconds = 0.0
    for train, test in StratifiedKFold(5, shuffle=True, random_state=SEED).split(X, y):
        try:
            start = time.perf_counter()
            model = make().fit(X[train], y[train])
            seconds += time.perf_counter() - start
            log_proba = model.predict_log_proba(X[test])
        except (ValueError, np.linalg.LinAlgError) as error:
            return f"fails: {type(error).__name__}: {str(error).splitlines()[0]}"
        if not rows and 5 * seconds > MAX_FIT_SECONDS:
            return f"slow: {seconds:.0f} s for the first of five fits"
        chosen = log_proba[np.arange(len(test)), codes[test]]
        right.append((log_proba.argmax(axis=1) == codes[test]).mean())
        loss.append(-np.nan_to_num(np.maximum(chosen, MIN_LOG_PROBA), nan=MIN_LOG_PROBA).mean())
        rows.append(len(test))
    return Score(np.array(right), np.array(loss), np.array(rows), seconds)


def margin(row: Row, what: str, rivals: tuple[str, ...], measure: str) -> tuple[float, float]:
    """How much better a model is than the best rival, and the standard error over the folds; −inf if it fails."""
    sign = 1.0 if measure == "accuracy" else -1.0
    mine = row[what]
    others = [score for score in (row[rival] for rival in rivals) if isinstance(score, Score)]
    best = max(others, key=lambda score: sign * score.mean(measure))
    if not isinstance(mine, Score):
        return -np.inf, 0.0
    gaps = sign * (mine.folds(measure) - best.folds(measure))
    return sign * (mine.mean(measure) - best.mean(measure)), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))


def count(scores: dict[str, Row], what: str, rivals: tuple[str, ...], measure: str) -> str:
    """On how many tables a model matches or beats the best rival: within WITHIN, and within one standard error."""
    met = {name: row for name, row in scores.items() if not str(row[what]).startswith("slow")}
    margins = {name: margin(row, what, rivals, measure) for name, row in met.items()}
    near = [name for name, (gain, _) in margins.items() if gain >= -TIE_MARGIN]
    even = [name for name, (gain, error) in margins.items() if gain >= -error]
    clear = [name for name, (gain, error) in margins.items() if gain > error]
    behind = [f"{name} ({gain:+.4f} ± {error:.4f})" for name, (gain, error) in margins.items() if name not in near]
    return (
        f"- {what}, {measure}, compared with the best of {', '.join(rivals)}: within {TIE_MARGIN} or better on "
        f"{len(near)} of {len(met)}; within one standard error or better on {len(even)} (better by more than one on "
        f"{len(clear)})" + (f". Behind by more than {TIE_MARGIN}: {', '.join(behind)}" if behind else "")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", help="names of sets (default: every one that has numbers)")
    names = parser.parse_args().sets or sorted(p.name for p in DATA.iterdir() if p.is_dir())
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    scores: dict[str, Row] = {}
    sizes: dict[str, str] = {}
    for name in names:
        table = numbers(name)
        if table is None:
            continue
        X, y = table
        gaps = int(np.isnan(X).any(axis=1).sum())
        sizes[name] = f"{len(X):,}×{X.shape[1]}, {len(np.unique(y))} classes"
        if gaps:
            sizes[name] += f", {gaps:,} rows with gaps"
        scores[name] = {what: judge(make, X, y) for what, make in (PEERS | OURS).items()}
        reached = {w: s for w, s in scores[name].items() if isinstance(s, Score)}
        figures = "  ".join(f"{w} {s.mean('accuracy'):.4f}/{s.mean('log loss'):.3f}" for w, s in reached.items())
        print(f"{name} ({sizes[name]}): {figures}", flush=True)

    lines = [
        "# Gaussian discriminants on real tables",
        "",
        f"Five stratified folds (seed {SEED}), numeric columns, {MAX_ROWS:,} rows drawn (seed {SEED}) of tables with "
        f"more. deciban {deciban.__version__}, scikit-learn {sklearn.__version__}; written by "
        "`python benchmarks/discriminants.py`.",
        "",
        "LDA, QDA and QDA 0.1 (reg_param) are scikit-learn's; QDA fails where it finds a class's covariance not to be",
        "of full rank, by its own tolerance. Ours: `QuadraticDiscriminantAnalysis()`; loo is `GaussianDiscriminant()`,",
        'loo accuracy is `GaussianDiscriminant(criterion="accuracy")`; mixture is `MixtureDiscriminant()`, left out',
        f"(slow) where five fits take more than {MAX_FIT_SECONDS:.0f} s. Bold: the best of the row, or within "
        f"{TIE_MARGIN} of it.",
    ]
    for measure in MEASURES:
        lines += ["", f"## {measure.capitalize()}", "", "| table | rows | " + " | ".join(NAMES) + " |"]
        lines += ["|---|---|" + "---:|" * len(NAMES)]
        for name, row in scores.items():
            reached = {w: s.mean(measure) for w, s in row.items() if isinstance(s, Score)}
            top = max(reached.values()) if measure == "accuracy" else min(reached.values())
            cells = []
            for what, score in row.items():
                cell = score.split(":")[0] if isinstance(score, str) else f"{reached[what]:.4f}"
                good = what in reached and abs(reached[what] - top) <= TIE_MARGIN
                cells.append(f"**{cell}**" if good else cell)
            lines.append(f"| {name} | {sizes[name]} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Counts",
        "",
        "The rival is the better of scikit-learn's on each table, picked by the very folds that judge, or the only one",
        "that does not fail. In brackets: how much better ours is, and the standard error of the five folds' paired",
        "differences, whose training rows overlap: a rough measure.",
        "",
        'What each measure judges: `criterion="accuracy"` for accuracy, the default for log loss.',
        "",
    ]
    for rivals in (RIVALS, tuple(PEERS)):
        lines += [count(scores, PREFERRED_MODEL[measure], rivals, measure) for measure in MEASURES]
    lines += ["", "The others:", ""]
    for what in OURS:
        lines += [count(scores, what, RIVALS, measure) for measure in MEASURES if PREFERRED_MODEL[measure] != what]
    print("\n".join(lines[lines.index("## Accuracy") :]))
    for name, row in scores.items():
        for what, score in row.items():
            if isinstance(score, str):
                print(f"{what} on {name} {score}")
    print("seconds to fit five times:")
    for name, row in scores.items():
        print(f"  {name}:", ", ".join(f"{w} {s.seconds:.2f}" for w, s in row.items() if isinstance(s, Score)))
    OUT.mkdir(exist_ok=True)
    path = OUT / "discriminants.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"table written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
