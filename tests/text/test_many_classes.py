"""Texts of many classes: which documents weights are fitted on, and evidence without a table of items by classes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban import TextClassifier
from deciban.text import kept
from deciban.text.kept import Kept, smallest, to_fit_on
from deciban.text.log_odds import LogOdds
from deciban.text.sums import ItemSums
from deciban.text.tables import MAX_KNOWLEDGE, MIN_KNOWLEDGE, Shares, class_factors


def documents(k: int, each: int, seed: int = 0) -> list[tuple[str, str, float]]:
    """Documents of k classes, each of which has three words of its own."""
    rng = np.random.default_rng(seed)
    return [
        (" ".join(f"w{w}" for w in [*rng.choice(50, 5), *(1000 + 3 * c + rng.choice(3, 2))]), f"class {c}", 1.0)
        for c in range(k)
        for _ in range(each)
    ]


# ------------------------------------------------------------------ documents to fit on


def test_few_classes_are_fitted_on_the_documents_with_the_smallest_marks(monkeypatch):
    rows = documents(20, 10)
    assert to_fit_on(rows, 20) == list(range(200))
    monkeypatch.setattr(kept, "MAX_FITTED_CELLS", 1000)
    assert to_fit_on(rows, 20) == smallest([text for text, _, _ in rows], 50)


def test_many_classes_are_fitted_on_documents_of_some(monkeypatch):
    monkeypatch.setattr(kept, "MANY_CLASSES", 5)
    monkeypatch.setattr(kept, "MAX_FITTED_CELLS", 800)
    rows = documents(40, 8)
    chosen = [rows[i] for i in to_fit_on(rows, 40)]
    labels = [label for _, label, _ in chosen]
    assert len(set(labels)) == 10, "10 classes with 8 documents each make 800 cells"
    assert all(labels.count(label) == 8 for label in labels), "all documents of a class"


def test_with_many_documents_a_class_some_of_them_are_enough(monkeypatch):
    monkeypatch.setattr(kept, "MANY_CLASSES", 5)
    monkeypatch.setattr(kept, "MAX_FITTED_CELLS", 200)
    rows = documents(12, 30)
    chosen = [rows[i] for i in to_fit_on(rows, 12)]
    assert len({label for _, label, _ in chosen}) == 5
    assert len(chosen) == 40


def test_a_class_of_one_document_is_not_chosen(monkeypatch):
    monkeypatch.setattr(kept, "MANY_CLASSES", 5)
    monkeypatch.setattr(kept, "MAX_FITTED_CELLS", 100)
    rows = [*documents(40, 1), *documents(8, 4, seed=1)]
    rows = [*rows[:40], *((text, f"other {label}", w) for text, label, w in rows[40:])]
    assert all(rows[i][1].startswith("other") for i in to_fit_on(rows, 48))
    alone = documents(40, 1)
    assert to_fit_on(alone, 40) == smallest([text for text, _, _ in alone], 100 // 40)


@given(st.randoms(use_true_random=False))
def test_the_order_of_documents_does_not_matter(random):
    rows = documents(130, 7)
    chosen = {rows[i][:2] for i in to_fit_on(rows, 130)}
    random.shuffle(rows)
    assert {rows[i][:2] for i in to_fit_on(rows, 130)} == chosen


@pytest.fixture(scope="module")
def many():
    rows = documents(130, 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "MAX_FITTED_CELLS", 20_000)
        patch.setattr(kept, "MANY_CLASSES", 50)
        yield rows, TextClassifier(n_jobs=1).fit([text for text, _, _ in rows], [label for _, label, _ in rows])


def test_a_model_of_many_classes_predicts_all_of_them(many):
    rows, model = many
    new = documents(130, 1, seed=5)
    proba = model.predict_proba([text for text, _, _ in new])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    assert (model.classes_[proba.argmax(axis=1)] == [label for _, label, _ in new]).mean() > 0.9
    offsets = model.model_.choice.pool.offsets
    fitted = {rows[i][1] for i in to_fit_on(rows, 130)}
    assert len(fitted) < 65, "fewer than half of the classes, whose evidence alone is used"
    assert set(model.classes_[offsets != 0.0]) <= fitted, "the others have no offset"


@pytest.mark.slow
def test_a_refit_is_the_fit(many):
    rows, model = many
    again = TextClassifier(n_jobs=1).fit([text for text, _, _ in rows], [label for _, label, _ in rows])
    again.refit_reliability()
    one, two = model.model_.choice.pool, again.model_.choice.pool
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(one.offsets, two.offsets, rtol=1e-6, atol=1e-9)


def test_learned_documents_are_scored_without_them(many):
    rows, model = many
    known = Kept(tuple(rows[:70]))
    found = model.leave_one_out([text for text, _, _ in known.rows], [label for _, label, _ in known.rows])
    assert np.isfinite(found.log_losses).all()
    assert found.accuracy > 0.9


# ------------------------------------------------------------------ evidence of items


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 30))
def test_log_odds_are_the_definition(seed, items, k):
    """λ and κ, from tables of items by classes: see the equations in graded.py."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 4, k) * rng.exponential(1.0, k)
    weight[:2] += 1.0
    counts = rng.exponential(1.0, (items, k)) * (rng.random((items, k)) < 0.3) * (weight > 0)
    counts[:, 0] += 0.1
    item, cls = np.nonzero(counts)
    ptr = np.concatenate([[0], np.cumsum((counts > 0).sum(axis=1))]).astype(np.int64)
    strength, shares = np.array([0.01, 0.3, 9.0]), Shares.of(weight, class_factors(weight))
    found = LogOdds.of(ItemSums(ptr, cls.astype(np.int32), counts[item, cls]), strength, shares)
    there, pseudo = weight > 0, strength[:, None] * shares.share * shares.factor
    seen, chance = counts[:, None] + pseudo, counts.sum(axis=1)[:, None, None] * shares.share + pseudo
    lam = np.where(there, np.log(np.where(there, seen, 1.0) / np.where(there, chance, 1.0)), 0.0)
    kappa = (seen * lam).sum(axis=2) / seen.sum(axis=2) / shares.entropy[-1]
    np.testing.assert_allclose(found.kappa, np.clip(kappa, MIN_KNOWLEDGE, MAX_KNOWLEDGE), rtol=1e-7, atol=1e-12)
    every = np.tile(np.arange(k), (items, 1))
    np.testing.assert_allclose(found.at(np.arange(items), every), lam, atol=1e-11)
    among = rng.random(k) < 0.5
    among[0] = True
    np.testing.assert_allclose(found.mean(among), lam[..., among].mean(axis=2), atol=1e-11)
