"""Importance compared with permutation importance: do both rank the columns of a table in the same way, and if not,
why?

A `Classifier` learns half of a table's rows. Its importance is computed on rows of the other half, and so is
permutation importance: how much the log loss grows if a column's values are shuffled, the mean of five times (at most
1,500 rows). The two answer different questions: importance says what evidence a column adds to the answers, permutation
importance what the model loses without it. Two columns that say the same share evidence, and each is missed little.

For each table: Spearman's rank correlation of the two, whether both name the same column first, and the columns whose
ranks differ most, each with the column that it is most associated with (Cramér's V of the model's bins). `seconds` is
what the importance that a model stores takes, compared with the fit (processor time).

    python benchmarks/importance.py [TABLE ...]

DECIBAN_DATA names where the sets are; by default `../shared/data` next to the project.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.metrics import log_loss

import deciban

DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
TABLES = ("adult", "credit_approval", "heart_cleveland", "mushroom", "page_blocks")
MAX_ROWS, MAX_ROWS_SHUFFLED, TIMES = 20_000, 1500, 5


def read(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    schema = json.loads((DATA / name / "schema.json").read_text())
    files = sorted((DATA / name).glob("*.csv"))
    table = pd.concat([pd.read_csv(f, na_values=["?"], keep_default_na=False) for f in files], ignore_index=True)
    table = table[table[schema["target"]].notna()].reset_index(drop=True)
    y = table.pop(schema["target"])
    some = np.sort(np.random.default_rng(0).permutation(len(table))[:MAX_ROWS])
    return table.iloc[some].reset_index(drop=True), y.iloc[some].astype(str).to_numpy()


def permutation_importance(model: deciban.Classifier, X: pd.DataFrame, y: np.ndarray) -> dict[str, float]:
    """Nats by which the log loss grows, in decibans, if a column is shuffled."""
    rng, classes = np.random.default_rng(0), model.classes_
    whole = log_loss(y, model.predict_proba(X), labels=classes)
    out = {}
    for name in X.columns:
        losses = []
        for _ in range(TIMES):
            shuffled = X.copy()
            shuffled[name] = X[name].to_numpy()[rng.permutation(len(X))]
            losses.append(log_loss(y, model.predict_proba(shuffled), labels=classes))
        out[name] = (float(np.mean(losses)) - whole) * 10 / np.log(10)
    return out


def association(codes: np.ndarray, i: int, j: int) -> float:
    """Cramér's V of two columns of codes."""
    table = pd.crosstab(codes[:, i], codes[:, j]).to_numpy()
    if min(table.shape) < 2:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return float(np.sqrt(((table - expected) ** 2 / expected).sum() / table.sum() / (min(table.shape) - 1)))


def compare(name: str) -> None:
    X, y = read(name)
    order = np.random.default_rng(1).permutation(len(y))
    fit, rest = order[::2], order[1::2]
    start = time.process_time()
    model = deciban.Classifier().fit(X.iloc[fit], y[fit])
    whole, start = time.process_time() - start, time.process_time()
    stored = {item.name: item.size for item in model.importance().items}  # computed now, when it is first asked for
    seconds = time.process_time() - start
    known = rest[np.isin(y[rest], model.classes_)][:MAX_ROWS_SHUFFLED]
    ours = {item.name: item.size for item in model.importance(X.iloc[known], y[known]).items}
    theirs = permutation_importance(model, X.iloc[known], y[known])
    names = [column for column in X.columns if column in ours]
    mine, other = np.array([ours[n] for n in names]), np.array([theirs[n] for n in names])
    print(f"\n{name}: {len(fit):,} rows, {len(names)} columns, {len(model.classes_)} classes")
    print(f"  rank correlation {spearmanr(mine, other)[0]:.2f} (as stored by fit, with that on new rows: ", end="")
    print(f"{spearmanr([stored.get(n, 0.0) for n in names], mine)[0]:.2f})")
    print(f"  first: {names[int(mine.argmax())]} by importance, {names[int(other.argmax())]} by permutation")
    print(f"  seconds: {seconds:.3f}, a fit takes {whole:.2f} ({seconds / whole:.1%})")
    ranks = [np.argsort(np.argsort(-values)) + 1 for values in (mine, other)]
    codes = model.model_.encoding.rows(model.model_.read(X.iloc[known])).codes
    place = {column: j for j, column in enumerate(model.model_.encoding.names)}
    for i in np.argsort(-np.abs(ranks[0] - ranks[1]), kind="stable")[:3]:
        if ranks[0][i] == ranks[1][i]:
            break
        own = place[names[i]]
        near = {other: association(codes, own, at) for other, at in place.items() if at != own}
        most = max(near, key=near.__getitem__)
        print(
            f"  {names[i]}: rank {ranks[0][i]} ({mine[i]:.1f} dB) against {ranks[1][i]} ({other[i]:.2f} dB lost); "
            f"most like {most} (V = {near[most]:.2f})"
        )
    for pair in model.importance().pairs:
        print(f"  together: {pair.first} and {pair.second}, ±{pair.decibans:.1f} dB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=TABLES)
    warnings.simplefilter("ignore")
    for name in parser.parse_args().tables:
        compare(name)


if __name__ == "__main__":
    main()
