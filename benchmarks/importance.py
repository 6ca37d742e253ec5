"""Importance compared with permutation importance: do both rank the columns of a table in the same way, and if not,
why?

A `Classifier` learns half of a table's rows. Its importance is computed on rows of the other half, and so is
permutation importance: how much the log loss grows if a column's values are shuffled, the mean of five times (at most
1,500 rows). The two answer different questions: importance says what evidence a column adds to the answers, permutation
importance what the model loses without it. Two columns that say the same share evidence, and each is missed little.

For each table: Spearman's rank correlation of the two, whether both name the same column first, and the columns whose
ranks differ most, each with the column that it is most associated with (Cramér's V of the model's bins). By how many
decibans half of the rows are decided, which is evidence that they can spare; the columns of numbers that are nearly one
(rank correlation of .85 or more). `seconds` is what the importance that a model stores takes, compared with the fit
(processor time). Then the same for other halves: the range of the rank correlation, and how far each of the two agrees
with itself between halves, which is as much as they can agree with each other.

`--texts` measures what importance costs while texts are fitted: processor time, the least of five fits.

    python benchmarks/importance.py [--halves 5] [TABLE ...]
    python benchmarks/importance.py --texts

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
TEXT_SETS = ("sms_spam", "rt_polarity", "webkb", "zh_reviews", "spamassassin", "20newsgroups")
MAX_ROWS, MAX_ROWS_SHUFFLED, TIMES = 20_000, 1500, 5
DECIBANS = 10 / np.log(10)
NEARLY_ONE = 0.85


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
        out[name] = (float(np.mean(losses)) - whole) * DECIBANS
    return out


def association(codes: np.ndarray, i: int, j: int) -> float:
    """Cramér's V of two columns of codes."""
    table = pd.crosstab(codes[:, i], codes[:, j]).to_numpy()
    if min(table.shape) < 2:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return float(np.sqrt(((table - expected) ** 2 / expected).sum() / table.sum() / (min(table.shape) - 1)))


def halves(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(len(y))
    return order[::2], order[1::2]


def both(model: deciban.Classifier, X: pd.DataFrame, y: np.ndarray, rest: np.ndarray) -> tuple[pd.Series, pd.Series]:
    """Importance and permutation importance by column, on rows that were not learned."""
    known = rest[np.isin(y[rest], model.classes_)][:MAX_ROWS_SHUFFLED]
    ours = pd.Series({item.name: item.size for item in model.importance(X.iloc[known], y[known]).items})
    theirs = pd.Series(permutation_importance(model, X.iloc[known], y[known]))
    names = [column for column in X.columns if column in ours]
    return ours[names], theirs[names]


def other_halves(X: pd.DataFrame, y: np.ndarray, n: int) -> None:
    """How far the two agree, and each with itself, between models of other halves of the rows."""
    found = []
    for seed in range(1, n + 1):
        fit, rest = halves(y, seed)
        found.append(both(deciban.Classifier().fit(X.iloc[fit], y[fit]), X, y, rest))
    between = [spearmanr(*pd.concat(one, axis=1).dropna().to_numpy().T)[0] for one in found]
    print(f"  in {n} halves: {min(between):.2f} to {max(between):.2f}, mean {np.mean(between):.2f}", end="")
    for k, what in enumerate(("importance", "permutation importance")):
        pairs = [pd.concat([a[k], b[k]], axis=1).dropna().to_numpy().T for i, a in enumerate(found) for b in found[:i]]
        print(f"; {what} with itself {np.mean([spearmanr(*pair)[0] for pair in pairs]):.2f}", end="")
    means = pd.concat([one[0] for one in found], axis=1).mean(axis=1).sort_values(ascending=False)
    print("\n  importance on average: " + ", ".join(f"{column} {size:.1f}" for column, size in means.items()))


def compare(name: str, n_halves: int) -> None:
    X, y = read(name)
    fit, rest = halves(y, 1)
    start = time.process_time()
    model = deciban.Classifier().fit(X.iloc[fit], y[fit])
    whole, start = time.process_time() - start, time.process_time()
    stored = {item.name: item.size for item in model.importance().items}  # computed now, when it is first asked for
    seconds = time.process_time() - start
    ours, theirs = both(model, X, y, rest)
    names, mine, other = list(ours.index), ours.to_numpy(), theirs.to_numpy()
    print(f"\n{name}: {len(fit):,} rows, {len(names)} columns, {len(model.classes_)} classes")
    print(f"  rank correlation {spearmanr(mine, other)[0]:.2f} (as stored by fit, with that on new rows: ", end="")
    print(f"{spearmanr([stored.get(n, 0.0) for n in names], mine)[0]:.2f})")
    print(f"  first: {names[int(mine.argmax())]} by importance, {names[int(other.argmax())]} by permutation")
    print(f"  seconds: {seconds:.3f}, a fit takes {whole:.2f} ({seconds / whole:.1%})")
    some = X.iloc[rest[:MAX_ROWS_SHUFFLED]]
    ordered = np.sort(model.predict_log_proba(some), axis=1)
    print(f"  half of the rows are decided by {np.median(ordered[:, -1] - ordered[:, -2]) * DECIBANS:.0f} dB or more")
    alike = some.select_dtypes("number").rank().corr().abs().to_numpy()
    columns, near = some.select_dtypes("number").columns, np.argwhere(np.triu(alike, 1) >= NEARLY_ONE)
    if len(near):
        print("  nearly one: " + ", ".join(f"{columns[i]} and {columns[j]} ({alike[i, j]:.2f})" for i, j in near))
    ranks = [np.argsort(np.argsort(-values)) + 1 for values in (mine, other)]
    codes = model.model_.encoding.rows(model.model_.read(some)).codes
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
    if n_halves > 1:
        other_halves(X, y, n_halves)
    for pair in model.importance().pairs:
        print(f"  together: {pair.first} and {pair.second}, ±{pair.decibans:.1f} dB")


def text_costs() -> None:
    """What importance costs compared with the fit of texts; in one thread, so that nothing waits."""
    import text_accuracy

    from deciban.text import importance

    compute, seconds = importance.at_fit, []

    def timed(*given):
        start = time.process_time()
        found = compute(*given)
        seconds.append(time.process_time() - start)
        return found

    importance.at_fit = timed
    for name in TEXT_SETS:
        given = text_accuracy.published(name)
        (texts, y), wholes = text_accuracy.whole(name) if given is None else given[0], []
        seconds.clear()
        for _ in range(TIMES):
            start = time.process_time()
            deciban.TextClassifier(n_jobs=1).fit(texts, y)
            wholes.append(time.process_time() - start)
        own, whole = min(seconds), min(wholes)
        print(f"{name}: {len(y):,} texts, {own:.3f} of {whole:.2f} s ({own / whole:.1%})", flush=True)
    importance.at_fit = compute


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--halves", type=int, default=5, help="how often a table is halved")
    parser.add_argument(
        "--texts", action="store_true", help="the cost compared with the fit of texts, and nothing else"
    )
    warnings.simplefilter("ignore")
    given = parser.parse_args()
    if given.texts:
        text_costs()
        return
    for name in given.tables:
        compare(name, given.halves)


if __name__ == "__main__":
    main()
