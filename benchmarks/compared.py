"""`Classifier()` and the libraries that docs/compared.md names, on tables that anyone has: defaults only, five folds.

The tables come with scikit-learn or with deciban, or are drawn here; nothing is downloaded. Every library gets the same
data frame; what it needs to read it (codes, imputation, scaling) belongs to it and to its seconds, which are processor
seconds of a fit and a prediction with one thread. Log loss is in nats; a probability below 1e-15 counts as that.

CatBoost, LightGBM, EBM and river take part if they are installed: `pip install catboost lightgbm interpret-core river`;
R if `Rscript` is, with e1071 and MASS (Debian: r-base-core r-cran-e1071 r-cran-mass).
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
import warnings
from importlib.resources import files
from importlib.util import find_spec

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

import deciban

FOLDS = 5
R = """
args <- commandArgs(trailingOnly = TRUE)
train <- read.csv(args[1], stringsAsFactors = TRUE); test <- read.csv(args[2], stringsAsFactors = TRUE)
train$y <- factor(train$y)
for (name in setdiff(names(train), "y")) if (is.factor(train[[name]]))
  test[[name]] <- factor(test[[name]], levels = levels(train[[name]]))
if (args[3] == "e1071") {
  proba <- predict(e1071::naiveBayes(y ~ ., train), test, type = "raw")
} else {
  proba <- predict(MASS::lda(y ~ ., train), test)$posterior
}
write.csv(proba, args[4], row.names = FALSE)
"""


def tables():
    """(frame, labels) by name."""
    found = {}
    for name, loaded in (("iris", load_iris()), ("wine", load_wine()), ("breast cancer", load_breast_cancer())):
        columns = [f"x{j}" for j in range(loaded.data.shape[1])]
        found[name] = pd.DataFrame(loaded.data, columns=columns), loaded.target
    customers = pd.read_csv(str(files("deciban") / "demo" / "customers.csv"))
    customers = customers.astype({"plan": "category", "months": float, "calls": float})
    found["customers"] = customers.drop(columns=["customer", "leaves"]), (customers["leaves"] == "yes").to_numpy(int)
    rng = np.random.default_rng(0)
    board = pd.DataFrame(rng.uniform(0, 4, (2000, 2)), columns=["x0", "x1"])
    found["chessboard"] = board, (np.floor(board["x0"]) + np.floor(board["x1"])).to_numpy(int) % 2
    return found


def proba_of(model):
    return lambda X, y, new: model().fit(X, y).predict_proba(new)


def prepared(model):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
    )
    return make_pipeline(columns, model)


def by_catboost(X, y, new):
    from catboost import CatBoostClassifier

    names = [name for name in X if X[name].dtype == "category"]
    model = CatBoostClassifier(verbose=False, allow_writing_files=False, thread_count=1, cat_features=names)
    return model.fit(X, y).predict_proba(new)


def by_lightgbm(X, y, new):
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1).fit(X, y).predict_proba(new)


def by_ebm(X, y, new):
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(n_jobs=1).fit(X, y).predict_proba(new)


def by_river(make):
    def answer(X, y, new):
        def rows(frame):  # without the missing values, which these models do not read
            named = frame.astype(dict.fromkeys(frame.select_dtypes("category"), object)).to_dict("records")
            return [{name: value for name, value in row.items() if value == value} for row in named]

        model = make()
        for row, label in zip(rows(X), y.tolist(), strict=True):
            model.learn_one(row, label)
        answers = [model.predict_proba_one(row) for row in rows(new)]
        return np.array([[answer.get(c, 0.0) for c in np.unique(y).tolist()] for answer in answers])

    return answer


def river_naive_bayes():
    from river.naive_bayes import GaussianNB

    return GaussianNB()


def river_forest():
    from river.forest import ARFClassifier

    return ARFClassifier(seed=0)


def by_r(which):
    def answer(X, y, new):
        if which == "MASS" and (X.isna().any(axis=None) or len(X.select_dtypes("category").columns)):
            raise ValueError("lda reads complete numbers only")
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("train.csv", "test.csv", "code.R", "out.csv")]
            X.assign(y=y).to_csv(paths[0], index=False)
            new.to_csv(paths[1], index=False)
            with open(paths[2], "w", encoding="utf-8") as file:
                file.write(R)
            command = ["Rscript", paths[2], paths[0], paths[1], which, paths[3]]
            subprocess.run(command, check=True, capture_output=True)
            return pd.read_csv(paths[3]).to_numpy()

    return answer


MODELS = {
    "deciban, Classifier": proba_of(deciban.Classifier),
    "deciban, NaiveBayes": proba_of(deciban.NaiveBayes),
    "deciban, GaussianDiscriminant": proba_of(deciban.GaussianDiscriminant),
    "scikit-learn, logistic regression": proba_of(lambda: prepared(LogisticRegression(max_iter=1000))),
    "scikit-learn, HistGradientBoosting": proba_of(
        lambda: HistGradientBoostingClassifier(categorical_features="from_dtype")
    ),
    **({"CatBoost": by_catboost} if find_spec("catboost") else {}),
    **({"LightGBM": by_lightgbm} if find_spec("lightgbm") else {}),
    **({"EBM": by_ebm} if find_spec("interpret") else {}),
    **(
        {"river, GaussianNB": by_river(river_naive_bayes), "river, ARF": by_river(river_forest)}
        if find_spec("river")
        else {}
    ),
    **({"R, e1071 naiveBayes": by_r("e1071"), "R, MASS lda": by_r("MASS")} if shutil.which("Rscript") else {}),
}


def seconds():
    """Processor seconds of this process and of those that it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(answer, X, y):
    """Log loss, accuracy and seconds of a fold, on average."""
    losses, right, took = [], [], 0.0
    names = np.array(["a", "b", "c"])[y]  # not numbers, which could be grades
    for learn, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y):
        begun = seconds()
        proba = np.clip(answer(X.iloc[learn], names[learn], X.iloc[test]), 1e-15, None)
        took += seconds() - begun
        proba /= proba.sum(axis=1, keepdims=True)
        losses.extend(-np.log(proba[np.arange(len(test)), y[test]]))
        right.extend(proba.argmax(axis=1) == y[test])
    return np.mean(losses), np.mean(right), took / FOLDS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help="tables to use (default: all)")
    parser.add_argument("--without", action="append", default=[], choices=[*MODELS], help="a model to leave out")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, (X, y) in tables().items():
        if given.tables and name not in given.tables:
            continue
        print(f"\n{name}, {len(X):,}×{X.shape[1]}, {len(np.unique(y))} classes\n")
        print("| | log loss | accuracy | processor seconds |\n|---|---:|---:|---:|")
        for model, answer in MODELS.items():
            if model in given.without:
                continue
            try:
                loss, accuracy, took = measured(answer, X, y)
                print(f"| {model} | {loss:.3f} | {accuracy:.3f} | {took:.2f} |", flush=True)
            except (TypeError, ValueError, subprocess.CalledProcessError) as error:
                print(f"| {model} | fails: {str(error).splitlines()[0][:60]} | | |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
