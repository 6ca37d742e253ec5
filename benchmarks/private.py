"""What privacy costs: accuracy of private naive Bayes by ε, ours and diffprivlib's, with the same bounds.

Three tables of numbers. Bounds are from what is known about each column (an age is from 0 to 100, a pen's coordinate
is scaled to 0 to 100), never from the rows. Each repeat draws another split, two thirds to learn from and one third to
score, and other noise; `--repeats` of them. An error is a standard error over repeats. With `delta` ours adds Gaussian
noise, at δ = 1e-5. *No noise* is the same model, `GaussianNB`, fitted on the same rows; *largest class* ignores them.

The peer splits its budget into thirds (class counts, means, variances), and its class counts add up to the exact number
of rows, which ours does not use. diffprivlib 0.6.6 cannot be imported with scikit-learn 1.9: in an environment of its
own, `pip install deciban[private] diffprivlib 'scikit-learn<1.8' pandas`. Without it, its column stays empty.
DECIBAN_DATA names where the data is; by default `../shared/data` next to the project.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import deciban

DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-5
BOUNDS: dict[str, dict[str, tuple[float, float]]] = {
    "adult": {
        "age": (17, 100),
        "education-num": (1, 16),
        "capital-gain": (0, 100_000),
        "capital-loss": (0, 5_000),
        "hours-per-week": (0, 100),
    },
    "pima": {
        "preg": (0, 20),
        "plas": (0, 250),
        "pres": (0, 150),
        "skin": (0, 100),
        "insu": (0, 900),
        "mass": (0, 70),
        "pedi": (0, 3),
        "age": (20, 100),
    },
    "pendigits": {f"input{i}": (0, 100) for i in range(1, 17)},
}


def peer(epsilon: float, low: np.ndarray, high: np.ndarray) -> Any:
    try:
        from diffprivlib.models import GaussianNB
    except ImportError:
        return None
    return GaussianNB(epsilon=epsilon, bounds=(low, high))


def load(name: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The columns that have bounds, labels, and declared classes; rows with missing values are left out, since the peer
    takes none."""
    schema = json.loads((DATA / name / "schema.json").read_text())
    target = schema["target"]
    classes = next(column["values"] for column in schema["columns"] if column["name"] == target)
    frame = pd.concat([pd.read_csv(f, na_values=["?"]) for f in sorted((DATA / name).glob("*.csv"))], ignore_index=True)
    frame = frame[[*BOUNDS[name], target]].dropna()
    return frame[[*BOUNDS[name]]].to_numpy(dtype=float), frame[target].astype(str).to_numpy(), classes


def accuracies(name: str, repeats: int) -> dict[str, list[list[float]]]:
    """The accuracy of each model by ε, repeat by repeat."""
    X, y, classes = load(name)
    low, high = np.array([*BOUNDS[name].values()], dtype=float).T
    out: dict[str, list[list[float]]] = {
        model: [[] for _ in EPSILONS] for model in ("ours", "ours, δ", "diffprivlib", "no noise", "largest class")
    }
    for repeat in range(repeats):
        order = np.random.RandomState(repeat).permutation(len(y))
        learned, new = order[len(y) // 3 :], order[: len(y) // 3]
        plain = deciban.GaussianNB().fit(X[learned], y[learned]).score(X[new], y[new])
        labels, often = np.unique(y[learned], return_counts=True)
        for at, epsilon in enumerate(EPSILONS):
            how = {"classes": classes, "bounds": (low, high), "epsilon": epsilon}
            out["no noise"][at].append(plain)
            out["largest class"][at].append(float((y[new] == labels[often.argmax()]).mean()))
            for model, delta in (("ours", 0.0), ("ours, δ", DELTA)):
                private = deciban.GaussianNB().private(X[learned], y[learned], delta=delta, **how)
                out[model][at].append(private.score(X[new], y[new]))
            if (other := peer(epsilon, low, high)) is not None:
                predicted = other.fit(X[learned], y[learned]).predict(X[new])
                out["diffprivlib"][at].append(float((predicted == y[new]).mean()))
    return out


def shown(values: list[float]) -> str:
    if not values:
        return "–"
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.3f} ± {error:.3f}".replace("0.", ".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--tables", nargs="+", choices=[*BOUNDS], default=[*BOUNDS])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # the peer's, of scikit-learn's attributes
    for name in asked.tables:
        results = accuracies(name, asked.repeats)
        X, y, classes = load(name)
        print(f"\n{name}: {len(y):,} rows, {X.shape[1]} columns, {len(classes)} classes; {asked.repeats} repeats\n")
        print(f"| ε | {' | '.join(results)} |\n|{'---|' * (len(results) + 1)}")
        for at, epsilon in enumerate(EPSILONS):
            print(f"| {epsilon:g} | {' | '.join(shown(values[at]) for values in results.values())} |")


if __name__ == "__main__":
    main()
