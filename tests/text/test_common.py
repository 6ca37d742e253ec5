"""The joint Gaussian of the commonest items, against its equations written out."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deciban
from deciban import TextClassifier
from deciban.bayes import DECIBANS
from deciban.errors import FileError
from deciban.text import common, files
from deciban.text.common import (
    DOCUMENTS_PER_ITEM,
    MAX_COMMON_ITEMS,
    MAX_SOLVER_STEPS,
    MEAN_PSEUDO_DOCUMENTS,
    MIN_DOCUMENTS,
    RIDGES,
    RidgeGaussians,
    System,
)
from deciban.text.graded import numbered
from deciban.text.raw import Documents
from deciban.text.sums import some_rows
from deciban.text.tables import PER_BLOCK

WORDS = np.array([f"w{i}" for i in range(60)])


def corpus(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Texts of three classes, which come in unequal shares and favour every third word."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    share = np.array([np.where(np.arange(60) % 3 == c, 2.0, 1.0) / np.arange(2, 62) for c in range(3)])
    share /= share.sum(axis=1, keepdims=True)
    return [" ".join(rng.choice(WORDS, rng.integers(3, 15), p=share[c])) for c in y], y


X, Y = corpus(240)


@pytest.fixture(scope="module")
def model() -> TextClassifier:
    return TextClassifier(n_jobs=1).fit(X, Y)


def rows_of(model, texts):
    ((_, rows),) = numbered(Documents(texts), model.model_.sums.lexicon, model.model_.sums.blocks, 1)
    return rows


def dense(model, texts) -> np.ndarray:
    """x by its definition: u^−½ of the block's distinct items, to a multiple of 2^−10, where the item is present."""
    common, out = model.model_.sums.common, np.zeros((len(texts), model.model_.sums.common.size))
    for j, (block, number) in enumerate(zip(common.block, common.number, strict=True)):
        name = ("words", "pairs")[block]
        (parts,) = common.items.parts(name, np.array([number], dtype=np.int32))
        for i, text in enumerate(texts):
            tokens = text.split()
            items = set(tokens) if name == "words" else set(zip(["", *tokens], [*tokens, ""], strict=True))
            if (parts if name == "pairs" else parts[0]) in items:
                out[i, j] = round(len(items) ** -0.5 * 1024) / 1024
    return out


def by_definition(x, learned, y, ridge, k):
    """F of one row, by the equations: −½ N (x − m)ᵀ (S + R)⁻¹ (x − m)."""
    n, total = np.bincount(y, minlength=k), learned.mean(axis=0)
    S = np.zeros((len(x), len(x)))
    means = np.empty((k, len(x)))
    for c in range(k):
        mine = learned[y == c]
        means[c] = (mine.sum(axis=0) + MEAN_PSEUDO_DOCUMENTS * total) / (n[c] + MEAN_PSEUDO_DOCUMENTS)
        if len(mine):
            S += (mine - mine.mean(axis=0)).T @ (mine - mine.mean(axis=0))
    inverse = np.linalg.inv(S + ridge * np.eye(len(x)))
    return np.array([-0.5 * len(y) * (x - m) @ inverse @ (x - m) for m in means])


def centred(scores):
    return scores - scores.mean(axis=-1, keepdims=True)


# ------------------------------------------------------------------ which items are modelled jointly


def test_the_commonest_words_and_pairs_are_modelled_jointly(model):
    common = model.model_.sums.common
    assert common.size == min(MAX_COMMON_ITEMS, len(X) // DOCUMENTS_PER_ITEM)
    words = {name for b, name in zip(common.block, names(common), strict=True) if b == 0}
    often = sorted(WORDS, key=lambda word: -sum(word in text.split() for text in X))
    assert set(often[:10]) <= words
    assert (common.block == 1).any(), "pairs are among them"
    assert TextClassifier().fit(X[: MIN_DOCUMENTS - 1], Y[: MIN_DOCUMENTS - 1]).model_.sums.common is None


def names(common) -> list[str]:
    out = [""] * common.size
    for b, block in enumerate(("words", "pairs")):
        at = np.flatnonzero(common.block == b)
        for i, name in zip(at, common.items.names(block, common.number[at]), strict=True):
            out[i] = name
    return out


def test_in_long_texts_items_that_most_have_are_left_out():
    rng = np.random.default_rng(0)
    rare = [f"r{i}" for i in range(400)]
    texts = [" ".join([f"c{i}" for i in range(150)] + rng.choice(rare, 30).tolist()) for _ in range(600)]
    taken = names(TextClassifier().fit(texts, np.arange(600) % 2).model_.sums.common)
    assert not any(name.startswith("c") for name in taken)


def test_x_and_its_sums_are_the_definition(model):
    common, x = model.model_.sums.common, dense(model, X)
    vectors = common.vectors(common.columns(model.model_.sums.lexicon), rows_of(model, X))
    actual = np.zeros_like(x)
    actual[np.repeat(np.arange(len(X)), np.diff(vectors.indptr)), vectors.at] = vectors.x
    np.testing.assert_array_equal(actual, x)
    np.testing.assert_array_equal(common.products, x.T @ x)  # multiples of 2^−20: exact
    np.testing.assert_array_equal(common.by_class, [x[Y == c].sum(axis=0) for c in range(3)])


# ------------------------------------------------------------------ evidence


def test_evidence_of_new_texts_is_the_definition(model):
    new, _ = corpus(12, seed=1)
    graded, x = model.model_, dense(model, X)
    evidence = graded.evidence(rows_of(model, new))[:, -len(RIDGES) :]
    for r, ridge in enumerate(graded.ridges()):
        for i, row in enumerate(dense(model, new)):
            expected = by_definition(row, x, Y, ridge, 3)
            np.testing.assert_allclose(evidence[i, r], centred(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strange", ["", "zebra", "zebra okapi"])
def test_a_text_without_any_of_the_items_has_no_evidence(model, strange):
    evidence = model.model_.evidence(rows_of(model, [strange]))[:, -len(RIDGES) :]
    np.testing.assert_array_equal(evidence, 0.0)
    assert "(common words that are absent)" not in [name for name, *_ in model.explain(strange).items]


@pytest.mark.parametrize("weighted", [False, True])
def test_evidence_without_a_text_is_that_of_the_others(weighted):
    weight = np.random.default_rng(0).choice([1.0, 2.0, 3.0], len(X)) if weighted else np.ones(len(X))
    model = TextClassifier(n_jobs=1).fit(X, Y, sample_weight=weight)
    graded, own = model.model_, Y.astype(np.int32)
    evidence = graded.evidence_without(rows_of(model, X), own, weight)[:, -len(RIDGES) :]
    x, times = dense(model, X), weight.astype(int)
    for i in range(0, len(X), 17):
        rest = np.delete(np.arange(len(X)), i)
        learned, y = np.repeat(x[rest], times[rest], axis=0), np.repeat(Y[rest], times[rest])
        for r, ridge in enumerate(graded.ridges()):
            expected = by_definition(x[i], learned, y, ridge, 3)
            np.testing.assert_allclose(evidence[i, r], centred(expected), rtol=1e-8, atol=1e-8)


def test_evidence_for_some_classes_is_that_of_all(model):
    learned, some = model.model_, np.array([0, 2], dtype=np.int32)
    rows, own = rows_of(model, X[:60]), Y[:60].astype(np.int32)
    mine = np.flatnonzero(np.isin(own, some))
    few = {block: some_rows(part, mine) for block, part in rows.items()}
    for part, whole in (
        (learned.evidence(rows, 1, some), learned.evidence(rows, 1)),
        (learned.evidence_without(few, own[mine], None, 1, classes=some), learned.evidence_without(rows, own)[mine]),
    ):
        assert part.shape[2] == 2
        np.testing.assert_allclose(part[..., 0] - part[..., 1], whole[..., 0] - whole[..., 2], atol=1e-10)


def test_a_text_that_is_alone_in_its_class_can_be_left_out():
    y = Y.copy()
    y[0] = 7
    model = TextClassifier(n_jobs=1).fit(X, y)
    graded = model.model_
    evidence = graded.evidence_without(rows_of(model, X[:1]), np.array([3], dtype=np.int32))[0, -len(RIDGES) :]
    x = dense(model, X)
    for r, ridge in enumerate(graded.ridges()):
        expected = by_definition(x[0], x[1:], Y[1:], ridge, 4)  # the class is there, with the mean of all
        np.testing.assert_allclose(evidence[r], centred(expected), rtol=1e-8, atol=1e-8)


def test_words_that_always_occur_together_count_once(monkeypatch):
    """Four words that always occur together are one piece of evidence; counted one by one they are too strong."""
    rng = np.random.default_rng(0)

    def texts(n):
        y = rng.integers(0, 2, n)
        there = rng.random((n, 6)) < np.where(np.arange(6) % 2 == y[:, None], 0.7, 0.4)
        groups = ["a1 a2 a3 a4 a5 a6 a7 a8", *(f"b{j}" for j in range(5))]
        own = [[group for group, t in zip(groups, row, strict=True) if t] for row in there]
        return [" ".join([*parts, *rng.choice(WORDS, 5)]) for parts in own], y

    (X, y), (new, truth) = texts(1500), texts(3000)

    def loss():
        log_proba = TextClassifier(blocks=("words",)).fit(X, y).predict_log_proba(new)
        return -log_proba[np.arange(len(new)), truth].mean()

    with_common = loss()
    monkeypatch.setattr(common, "MIN_DOCUMENTS", 10**9)
    assert with_common < loss() - 0.005


# ------------------------------------------------------------------ a sum


def same(one, two) -> bool:
    a, b = one.model_.sums.common, two.model_.sums.common
    order = np.argsort(names(a)), np.argsort(names(b))
    return (
        sorted(names(a)) == sorted(names(b))
        and (a.by_class[:, order[0]] == b.by_class[:, order[1]]).all()
        and (a.products[np.ix_(order[0], order[0])] == b.products[np.ix_(order[1], order[1])]).all()
    )


@given(st.integers(0, 240), st.booleans())
@settings(max_examples=5)
def test_parts_that_chose_the_same_add_up(cut, turned):
    whole = TextClassifier(n_jobs=1).fit(X, Y)
    parts = [whole.empty().partial_fit(X[s], Y[s]) for s in (slice(cut), slice(cut, None)) if len(X[s])]
    total = sum(parts[::-1] if turned else parts, whole.empty())
    assert same(total, whole)
    np.testing.assert_allclose(total.predict_proba(X[:20]), whole.predict_proba(X[:20]), rtol=1e-9)


def test_forgetting_is_never_having_seen(model):
    more, y = corpus(30, seed=2)
    back = TextClassifier(n_jobs=1).fit(X, Y).partial_fit(more, y).forget(more, y)
    assert same(back, model)
    halved = TextClassifier(n_jobs=1).fit(X, Y).decay(half_life=10, rows=10)
    np.testing.assert_array_equal(halved.model_.sums.common.products, model.model_.sums.common.products / 2)


def test_no_forgotten_item_is_left():
    texts, y = [*X, "zebra zebra", "zebra"], [*Y, 0, 1]
    model = TextClassifier(n_jobs=1).fit(texts, y)
    some = [(text, label) for text, label in zip(texts, y, strict=True) if "w5" in text.split()]
    assert any("w5" in name.split() for name in names(model.model_.sums.common))
    forgotten = model.forget(*(list(part) for part in zip(*some, strict=True)))
    assert not any("w5" in name.split() for name in names(forgotten.model_.sums.common))
    assert np.isfinite(forgotten.predict_proba(X[:5])).all()


def test_models_that_chose_differently_keep_what_both_have(model):
    others, y = corpus(200, seed=3)
    other = TextClassifier(n_jobs=1).fit(others, y)
    both = model + other
    a, b, c = (set(names(m.model_.sums.common)) for m in (model, other, both))
    assert c == a & b
    x = dense(both, [*X, *others])
    order = both.model_.sums.common
    np.testing.assert_array_equal(order.products, x.T @ x)
    few = TextClassifier(n_jobs=1).fit(X[:20], Y[:20])
    assert (model + few).model_.sums.common is None, "sums of items that only one of them has are not known"
    assert np.isfinite((model + few).predict_proba(X[:5])).all()


def test_classes_that_come_later(model):
    later = TextClassifier(n_jobs=1).fit(X, Y).partial_fit(["w1 w2 w3"] * 3, [9] * 3)
    common = later.model_.sums.common
    assert common.by_class.shape[0] == 4
    np.testing.assert_array_equal(common.by_class[:3], model.model_.sums.common.by_class)
    assert later.predict_proba(X[:3]).shape == (3, 4)


@pytest.mark.slow
def test_a_refit_takes_what_is_common_now():
    model = TextClassifier(n_jobs=1).fit(X, Y).partial_fit(["zebra quagga"] * 200, [2] * 200).refit_reliability()
    assert "zebra" in names(model.model_.sums.common)
    expected = TextClassifier(n_jobs=1, blocks=model.model_.sums.blocks).fit(
        [*X, *["zebra quagga"] * 200], [*Y, *[2] * 200]
    )
    assert same(model, expected)


def test_hashed_items_are_modelled_jointly(model):
    hashed = TextClassifier(n_jobs=1, n_features=2**20).fit(X, Y)
    assert hashed.model_.sums.common.size == model.model_.sums.common.size
    # Equally common items come in another order, so the last ones chosen may differ.
    np.testing.assert_allclose(hashed.predict_proba(X[:9]), model.predict_proba(X[:9]), atol=0.01)


# ------------------------------------------------------------------ explanations and files


def test_an_explanation_adds_up_to_the_log_odds(model):
    new, _ = corpus(10, seed=4)
    assert model.model_.effective_choice.ridge_weights.any()
    for text in [*new, "zebra"]:
        why = model.explain(text, target=0, against=1)
        joint = model.predict_joint_log_proba([text])[0]
        assert why.prior + sum(db for *_, db in why.items) == pytest.approx((joint[0] - joint[1]) * DECIBANS, abs=1e-9)
    assert "common" in set(model.reliability_.to_dict()["block"])


def test_a_file_keeps_it(model, tmp_path):
    model.save(tmp_path / "model")
    back = deciban.load(tmp_path / "model")
    assert same(back, model)
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    more, y = corpus(30, seed=5)
    assert same(back.partial_fit(more, y), TextClassifier(n_jobs=1).fit(X, Y).partial_fit(more, y))


def literal(graded):
    """(S + R)⁻¹ Σ x by class, for every ridge, by NumPy. Steps end 1e-12 away, and conditions are below 100."""
    common, weight = graded.sums.common, graded.sums.weight
    S = common.products - (common.by_class.T / weight) @ common.by_class
    return [np.linalg.solve(S + r * np.eye(common.size), common.by_class.T) for r in graded.ridges()]


def test_a_stored_solution_is_used_only_if_it_is_right(model):
    document, tensors = files.parts(model.model_)
    wrong = {**tensors, "common.solved": tensors["common.solved"] * 1.001}
    for arrays, used in ((tensors, True), (wrong, False)):
        back = files.rebuild(document, arrays)
        for gaussian, expected, stored in zip(
            back.gaussians().parts, literal(back), arrays["common.solved"], strict=True
        ):
            np.testing.assert_allclose(gaussian.solved, expected, rtol=1e-9, atol=1e-12)
            assert np.array_equal(gaussian.solved, stored) == used
    with pytest.raises(FileError, match="solved"):
        files.rebuild(document, {**tensors, "common.solved": tensors["common.solved"][:1]})


def test_a_part_has_no_solution_of_its_own(model, monkeypatch):
    """It is to be added to another: solving for it would take long, and replace the inverse that the other has."""
    monkeypatch.setattr(System, "inverted", None)
    part = model.empty().partial_fit(*corpus(3, seed=7))
    assert "common.solved" not in files.parts(part.model_)[1]
    assert part.model_.sums.common.known is not model.model_.sums.common.known
    assert (model + part).model_.sums.common.known is model.model_.sums.common.known


@pytest.mark.slow
@pytest.mark.parametrize("documents", [1, 3, 60])
def test_an_earlier_inverse_saves_steps(documents, monkeypatch):
    """A few documents more take a few steps; with many, or with none known before, S + R is inverted."""
    inverted = []
    monkeypatch.setattr(System, "inverted", lambda *given, plain=System.inverted: inverted.append(1) or plain(*given))
    model = TextClassifier(n_jobs=1).fit(X, Y)
    model.predict(X[:1])
    inverted.clear()
    more, y = corpus(documents, seed=6)
    for change in (model.partial_fit, model.forget):
        change(more, y)
        for gaussian, expected in zip(model.model_.gaussians().parts, literal(model.model_), strict=True):
            np.testing.assert_allclose(gaussian.solved, expected, rtol=1e-9, atol=1e-12)
    assert len(inverted) == (0 if documents < MAX_SOLVER_STEPS else 2 * len(RIDGES))
    assert not pickle.loads(pickle.dumps(model)).model_.sums.common.known


def test_threads_change_nothing(model):
    common, weight = model.model_.sums.common, model.model_.sums.weight
    vectors = common.vectors(common.columns(model.model_.sums.lexicon), rows_of(model, X))
    y = Y.astype(np.int32)
    one, three = (common.of(vectors, y, np.ones(len(y)), 3, n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one.products, three.products)
    laws = RidgeGaussians.of(common, weight, model.model_.ridges(), True)
    for evidence in (laws.evidence, lambda v, jobs: laws.evidence_without(v, y, np.ones(len(y)), jobs)):
        np.testing.assert_array_equal(evidence(vectors, 1), evidence(vectors, 3))
    assert model.model_.vectors == len(model.model_.sums.blocks) * PER_BLOCK + len(RIDGES)


@pytest.mark.parametrize("rows", [slice(240, 241), slice(240, 250), slice(240, 300)])
def test_parts_are_stored_and_added(model, rows):
    """Those of few documents are stored as these, without choices; their classes are not all of the model's."""
    texts, y = corpus(300)
    part = model.empty().partial_fit(texts[rows], y[rows])
    document, tensors = files.parts(part.model_.as_part())
    few = len(y[rows]) <= common.FEW_DOCUMENTS
    assert ("common.products" not in tensors) is few
    back = files.rebuild(document, tensors)
    expected = TextClassifier(n_jobs=1).fit(X, Y).partial_fit(texts[rows], y[rows])
    for one in (part.model_, back):
        total = model.model_ + one
        np.testing.assert_array_equal(total.sums.common.products, expected.model_.sums.common.products)
        np.testing.assert_array_equal(total.sums.common.by_class, expected.model_.sums.common.by_class)
        less = total - one
        np.testing.assert_array_equal(less.sums.common.products, model.model_.sums.common.products)
    two = back + back
    np.testing.assert_array_equal(two.sums.common.products, 2.0 * part.model_.sums.common.products)


def test_damaged_documents_of_a_part_are_refused(model):
    document, tensors = files.parts(model.empty().partial_fit(X[:3], Y[:3]).model_)
    at, ends = tensors["common.rows.at"], tensors["common.rows.ends"]
    twice = at.copy()
    twice[1] = twice[0]
    for name, wrong in [
        ("at", at + 10_000),
        ("at", -at - 1),
        ("at", twice),
        ("x", tensors["common.rows.x"] + 1.0),
        ("x", tensors["common.rows.x"] * np.nan),
        ("ends", ends[::-1].copy()),
        ("ends", ends[:2].copy()),
        ("weight", -tensors["common.rows.weight"]),
        ("weight", 5.0 * tensors["common.rows.weight"]),
        ("code", tensors["common.rows.code"] + np.int32(3)),
    ]:
        with pytest.raises(FileError):
            files.rebuild(document, {**tensors, f"common.rows.{name}": wrong})
