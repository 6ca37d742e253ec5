"""What a model states about itself holds on new rows: with few rows, and with random labels.

`benchmarks/honesty.py` does the same on real data, with enough draws to resolve hundredths.
"""

from __future__ import annotations

import numpy as np
import pytest

from deciban import CategoricalNB, Classifier, GaussianDiscriminant, GaussianNB, TextClassifier, TreeAugmentedNB

WORDS = np.array([f"word{i}" for i in range(300)])


def numbers(y, rng, apart):
    """Four columns, two of which are informative."""
    return rng.normal(size=(len(y), 4)) + apart * np.column_stack([y, y, 0 * y, 0 * y])


def mixed(y, rng, apart):
    X = numbers(y, rng, apart)
    names = np.where(rng.random(len(y)) < 0.5 + 0.3 * apart * (y - 0.5), "red", "blue")
    return {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "colour": names}


def codes(y, rng, apart):
    return rng.integers(0, 3, (len(y), 5)) + (rng.random((len(y), 5)) < 0.3 * apart * y[:, None])


def texts(y, rng, apart):
    """Twenty words each; the class favours some of them."""
    each = 1.0 / np.arange(1, len(WORDS) + 1)
    shares = [each, np.where(np.arange(len(WORDS)) % 3, each, each * (1.0 + apart))]
    shares = [share / share.sum() for share in shares]
    return [" ".join(rng.choice(WORDS, 20, p=shares[label])) for label in y]


MODELS = [
    pytest.param(Classifier, mixed, id="Classifier"),
    pytest.param(TextClassifier, texts, id="TextClassifier"),
    pytest.param(GaussianDiscriminant, numbers, id="GaussianDiscriminant"),
    pytest.param(lambda: GaussianDiscriminant(covariance="bic", shrinkage=None), numbers, id="bic"),
    pytest.param(lambda: GaussianNB(alpha="loo"), numbers, id="GaussianNB-loo"),
    pytest.param(lambda: CategoricalNB(alpha="loo"), codes, id="CategoricalNB-loo"),
    pytest.param(TreeAugmentedNB, codes, id="TreeAugmentedNB"),
]
FALL_BACK_TO_SHARES = ("Classifier", "TextClassifier", "GaussianDiscriminant")  # which come out at the class shares


def draws(make, rows, n, seeds, apart):
    """(stated, true log loss, that of the class shares; stated, true accuracy, the larger share), a draw each."""
    out = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        y, new = rng.integers(0, 2, n), rng.integers(0, 2, 1000)
        X, Z = rows(y, rng, apart), rows(new, rng, apart)
        model = make().fit(X, y)
        left = model.leave_one_out(X, y)
        assert left.how == "cross-fitted leave-one-out"
        log_proba, share = model.predict_log_proba(Z), np.log(np.bincount(y, minlength=2) / n)
        out.append(
            (
                left.log_loss,
                -log_proba[np.arange(1000), new].mean(),
                -share[new].mean(),
                left.accuracy,
                (log_proba.argmax(axis=1) == new).mean(),
                np.bincount(y).max() / n,
            )
        )
    return np.array(out)


@pytest.mark.parametrize(("make", "rows"), MODELS)
@pytest.mark.parametrize("n", [30, 100])
def test_random_labels(make, rows, n, request):
    figures = draws(make, rows, n, 5, 0.0)
    stated, new, shares, accuracy, _, larger = figures.mean(axis=0)
    slack = 2.0 * figures.std(axis=0, ddof=1) / np.sqrt(len(figures))  # two standard errors
    assert stated > np.log(2) - 0.02 - slack[0], "stated better than the class shares"
    chance = 3.0 * np.sqrt(0.25 / (n * len(figures)))  # three standard errors of as many coin tosses
    assert accuracy < larger + chance, "stated to know what cannot be known"
    if any(f"{name}]" in request.node.name for name in FALL_BACK_TO_SHARES):
        assert new < shares + (0.02 if n >= 100 else 0.05) + slack[1]


@pytest.mark.parametrize("d", [15, 40])
def test_random_labels_of_many_numbers(d):
    """There is a lot to choose from: directions to cut classes along, and covariances."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(3600, d)), rng.integers(0, 2, 3600)
        model = Classifier(n_jobs=1).fit(X[:600], y[:600])
        stated, new = model.summary().loss, -model.predict_log_proba(X[600:])[np.arange(3000), y[600:]].mean()
        assert stated == pytest.approx(new, abs=0.015), "it was up to 0.07 less"
        assert new < np.log(2) + 0.01
        assert abs(model.summary().accuracy - 0.5) < 0.07, "three standard errors"


@pytest.mark.slow_where("bic|loo|GaussianD|Tree")  # which random labels have above
@pytest.mark.parametrize(("make", "rows"), MODELS)
def test_stated_is_what_new_rows_see(make, rows):
    figures = draws(make, rows, 100, 5, 1.0)
    gaps = np.column_stack([figures[:, 1] - figures[:, 0], figures[:, 3] - figures[:, 4]])  # log loss, accuracy
    slack = 2.0 * gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    assert (np.abs(gaps.mean(axis=0)) < 0.015 + slack).all(), (gaps.mean(axis=0), slack)
    assert figures[:, 1].mean() < figures[:, 2].mean(), "there is something to know"


@pytest.mark.parametrize(
    ("make", "rows"), [(Classifier, mixed), (TextClassifier, texts)], ids=["Classifier", "TextClassifier"]
)
@pytest.mark.parametrize("shares", [[50, 50], [70, 30]], ids=["balanced", "unequal"])
def test_rows_are_not_ranked_by_their_own_absence(make, rows, shares):
    """Without a row its class has a smaller share: without other evidence, that would reveal labels, inverted."""
    figures = []
    for seed in range(8):
        y = np.repeat([0, 1], shares)
        X = rows(y, np.random.default_rng(seed), 0.0)
        left = make().fit(X, y).leave_one_out(X, y)
        figures.append((left.auc, left.accuracy, left.log_loss - left.baseline))
    auc, accuracy, over = np.mean(figures, axis=0)
    assert auc > 0.4  # a standard error of .02; that no more is stated than can be known, is tested above
    assert accuracy > max(shares) / 100 - 0.12
    assert over < 0.05
