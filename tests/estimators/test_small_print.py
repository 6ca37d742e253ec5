"""Edge cases where a plausible shortcut gives a wrong answer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import naive_bayes as sklearn_models
from sklearn.base import clone

from deciban import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
    PoissonNB,
    load,
)
from deciban.errors import NotAvailableError

X = np.array([[3, 0, 1], [2, 1, 0], [0, 4, 1], [1, 3, 3]])
y = np.array(["a", "a", "b", "b"])


@pytest.mark.parametrize("alpha", [1e-10, 1e-7, 1e-3])
def test_a_small_alpha_is_not_the_rounding_of_a_large_count(alpha):
    """Every row has the word: its absence has probability α/(n + 2α), not zero."""
    rows, labels = np.ones((200_000, 1)), np.arange(200_000) % 2
    ours = BernoulliNB(alpha=alpha).fit(rows, labels).predict_joint_log_proba([[0]])
    theirs = np.log(0.5) + np.log(alpha / (100_000 + 2 * alpha))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_complements_are_left_out_with_small_alpha():
    rows, labels = np.array([[5000, 1, 0], [0, 2, 3], [0, 3, 1], [0, 1, 4]]), np.array([0, 0, 1, 1])
    left_out = ComplementNB(alpha=1e-6).fit(rows, labels).leave_one_out(rows, labels).log_proba[0]
    refit = ComplementNB(alpha=1e-6).fit(rows[1:], labels[1:]).predict_log_proba(rows[:1])[0]
    np.testing.assert_allclose(left_out, refit, rtol=1e-9)


def test_a_count_that_rounding_left_just_below_one_is_one():
    weights = np.array([0.16, 0.98, 0.9, 0.83, 0.49, 0.24])
    rows, labels = np.tile([1.0, 0.0], (6, 1)), np.zeros(6)
    model = MultinomialNB(alpha=0.5).fit([[1.0, 0.0], [0.0, 3.0]], [0, 1])
    model.partial_fit(rows, labels, sample_weight=weights)
    for i in range(6):
        model.forget(rows[i : i + 1], labels[i : i + 1], sample_weight=weights[i : i + 1])
    clean = MultinomialNB(alpha=0.5).fit([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]], [0, 0, 1])
    model.partial_fit([[2.0, 0.0]], [0])
    np.testing.assert_allclose(
        model.leave_one_out([[1.0, 0.0]], [0]).proba, clean.leave_one_out([[1.0, 0.0]], [0]).proba, rtol=1e-9
    )


def test_integers_are_squared_as_numbers():
    """Soft labels over sparse int32 rows: 100000² does not fit in 32 bits."""
    rows = np.zeros((8, 9), dtype=np.int32)
    rows[:, 0] = [100_000, 70_000] * 4
    soft = np.tile([0.5, 0.5], (8, 1))
    sparse = GaussianNB(var_smoothing=0).fit(sp.csr_matrix(rows), soft)
    np.testing.assert_allclose(sparse.var_[:, 0], rows[:, 0].var())


@pytest.mark.parametrize("model", [MultinomialNB(), ComplementNB(), MultinomialNB(predictive=True)])
def test_single_precision_rows_are_added_in_double(model):
    rows = np.random.default_rng(0).random((12, 3000)).astype(np.float32) * 7
    labels = np.arange(12) % 2
    for stored in (rows, sp.csr_matrix(rows)):
        single, double = clone(model).fit(stored, labels), clone(model).fit(stored.astype(np.float64), labels)
        for what in ("predict_joint_log_proba", "predict_log_proba"):
            np.testing.assert_allclose(getattr(single, what)(stored), getattr(double, what)(stored.astype(np.float64)))
        np.testing.assert_allclose(
            single.leave_one_out(stored, labels).log_proba,
            double.leave_one_out(stored.astype(np.float64), labels).log_proba,
        )


def test_a_declared_class_stays_without_its_only_row():
    model = MultinomialNB(fit_prior=False).partial_fit([[3, 0], [2, 1], [0, 2]], [0, 0, 1], classes=[0, 1])
    left_out = model.leave_one_out([[0, 2]], [1]).proba[0]
    forgotten = model.forget([[0, 2]], [1]).predict_proba([[0, 2]])[0]
    np.testing.assert_allclose(left_out, forgotten)
    np.testing.assert_allclose(left_out, [0.2, 0.8])


def test_the_only_row_left_out_leaves_no_class():
    left_out = GaussianNB().fit([[1.0]], [0]).leave_one_out([[1.0]], [0])
    assert left_out.log_losses.tolist() == [np.inf]
    assert left_out.evaluated_rows == 0


@pytest.mark.parametrize(
    ("model", "variance"),
    [
        (PoissonNB(predictive=True, alpha=1.0), lambda m: m.rate_[0, 0] * (1 + 1 / 3)),  # rows 2 + α: (1 + 1/3)·λ
        (MultinomialNB(predictive=True, alpha=1.0), None),
    ],
)
def test_predictive_samples_are_wider_than_plug_in_ones(model, variance):
    rows, labels = np.array([[5, 2], [6, 1]]), [0, 0]
    drawn, _ = model.fit(rows, labels).sample(60_000, random_state=0, length=20)
    if variance is not None:
        assert drawn[:, 0].var() == pytest.approx(variance(model), rel=0.03)
    else:  # Dirichlet-multinomial: N p (1 − p) (N + A)/(1 + A), A = 14 + 2
        p = np.exp(model.feature_log_prob_[0, 0])
        assert drawn[:, 0].var() == pytest.approx(20 * p * (1 - p) * (20 + 16) / (1 + 16), rel=0.03)


def test_samples_take_either_kind_of_generator():
    model = GaussianNB().fit(X, y)
    twice = [model.sample(4, random_state=np.random.default_rng(1))[0] for _ in range(2)]
    np.testing.assert_array_equal(*twice)
    np.testing.assert_array_equal(*[model.sample(4, random_state=7)[0] for _ in range(2)])


def test_a_column_that_was_always_missing_is_sampled_as_missing():
    rows, _ = CategoricalNB().fit([["a", None], ["b", None]], [0, 1]).sample(3, random_state=0)
    assert rows[:, 1].tolist() == [None] * 3
    codes, _ = CategoricalNB().fit([[0, np.nan], [1, np.nan]], [0, 1]).sample(3, random_state=0)
    assert np.isnan(codes[:, 1]).all()


def test_a_row_of_mixed_values_means_the_same_whatever_stands_beside_it():
    """NumPy makes strings of [[1, 'x']] and objects of [[None, 'x']]; a value keeps its kind in both."""
    rows = [[1, "x"], [2, "y"], [2, "x"], [1, "y"], [None, "x"]]
    model = CategoricalNB().fit(rows, [0, 1, 1, 0, 0])
    assert model.categories_ == [(1, 2), ("x", "y")]
    np.testing.assert_allclose(model.predict_proba([[1, "x"]])[0], model.predict_proba([[1, "x"], [None, "x"]])[0])
    assert model.forget([[1, "x"]], [0]).class_count_.tolist() == [2, 2]


def test_codes_beyond_what_integers_hold_are_refused():
    model = CategoricalNB().fit([[0], [1]], [0, 1])
    assert model.predict_proba([[1e15]]).shape == (1, 2)
    with pytest.raises(ValueError, match="category code"):
        model.predict([[1e19]])


# ------------------------------------------------------------------ parameters changed after fitting


def test_only_partial_fit_takes_up_changed_parameters():
    model = MultinomialNB().fit(X, y)
    model.set_params(alpha=100.0)
    assert model.alpha_ == 1.0
    assert model.with_prior("uniform").alpha_ == 1.0
    assert (model + model).alpha_ == 1.0
    assert model.partial_fit(X, y).alpha_ == 100.0
    np.testing.assert_allclose(
        model.feature_log_prob_,
        sklearn_models.MultinomialNB(alpha=100).fit(np.vstack([X, X]), [*y, *y]).feature_log_prob_,
    )


def test_what_is_counted_cannot_change_between_batches():
    model = BernoulliNB().fit(X, y).set_params(binarize=2.0)
    with pytest.raises(ValueError, match="changed"):
        model.partial_fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), BernoulliNB().fit(X, y).predict_proba(X))


def test_a_model_whose_parameters_moved_on_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="saving"):
        MultinomialNB().fit(X, y).set_params(predictive=True).save(tmp_path / "m")
    with pytest.raises(ValueError, match="Number of priors"):
        MultinomialNB().fit(X, y).set_params(class_prior=[0.2, 0.3, 0.5]).save(tmp_path / "m")
    MultinomialNB().fit(X, y).set_params(alpha=3.0).save(tmp_path / "m")
    assert load(tmp_path / "m").alpha_ == 1.0


def test_sums_of_models_share_nothing_with_their_parts():
    model = MultinomialNB().fit(X, y)
    total = sum([model])
    total.partial_fit(X, y)
    assert model.class_count_.tolist() == [2, 2]
    assert total.class_count_.tolist() == [4, 4]


def test_names_come_along_from_either_side():
    frames = pytest.importorskip("pandas")
    named = MultinomialNB().fit(frames.DataFrame(X, columns=["u", "v", "w"]), y)
    for merged in (named + MultinomialNB().fit(X, y), MultinomialNB().fit(X, y) + named):
        assert merged.feature_names_in_.tolist() == ["u", "v", "w"]


def test_parameters_are_not_pickled():
    model = MultinomialNB().fit(np.random.default_rng(0).poisson(1, (20, 5000)), np.arange(20) % 2)
    before = len(pickle.dumps(model))
    model.predict(np.zeros((1, 5000)))
    assert len(pickle.dumps(model)) == before
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(np.ones((1, 5000))), model.predict_proba(np.ones((1, 5000))))


def test_names_are_read_from_a_vectorizer_or_its_vocabulary():
    from sklearn.feature_extraction.text import CountVectorizer

    words = CountVectorizer()
    counts = words.fit_transform(["zebra yak zebra", "ant bee", "zebra ant ant"])
    model = MultinomialNB().fit(counts, ["z", "a", "a"])
    expected = model.explain(counts[:1], names=words.get_feature_names_out()).items
    assert {name for name, _, _ in expected} == {"zebra", "yak"}
    for names in (words, words.vocabulary_):
        assert model.explain(counts[:1], names=names).items == expected
    for wrong in ("abcd", {"a": 1, "b": 7}):
        with pytest.raises(ValueError, match="names"):
            model.explain(counts[:1], names=wrong)


def test_an_impossible_row_is_explained_by_the_prior():
    why = MultinomialNB(alpha=0).fit([[1, 0, 0], [0, 1, 0]], ["a", "b"]).explain([[1, 1, 0]])
    assert why.total == why.prior == 0.0
    assert "nan" not in repr(why)


def test_a_prior_still_on_the_move_says_so():
    from deciban.bayes import adapt_prior

    posteriors = np.random.default_rng(0).dirichlet([50, 50], 200)
    with pytest.warns(UserWarning, match="3 steps"):
        adapt_prior(posteriors, np.array([0.5, 0.5]), max_iter=3)


@pytest.mark.parametrize("model", [MultinomialNB, BernoulliNB, ComplementNB])
def test_leave_one_out_with_a_strength_for_every_feature_is_a_refit(model):
    rows, labels, alpha = np.random.default_rng(0).poisson(1.0, (12, 4)), np.arange(12) % 2, np.linspace(0.1, 1.0, 4)
    left_out = model(alpha=alpha).fit(rows, labels).leave_one_out(rows, labels)
    for i in range(len(labels)):
        rest = np.arange(len(labels)) != i
        refit = model(alpha=alpha).fit(rows[rest], labels[rest])
        np.testing.assert_allclose(left_out.log_proba[i], refit.predict_log_proba(rows[i : i + 1])[0], atol=1e-12)


@pytest.mark.parametrize(
    ("method", "missing"), [("sample", "no distribution of x to sample"), ("score_samples", r"no p\(x\)")]
)
def test_a_method_that_a_model_lacks_states_the_reason(method, missing):
    model = ComplementNB().fit([[1, 2], [3, 0]], ["a", "b"])
    assert not hasattr(model, method)
    with pytest.raises(NotAvailableError, match=f"ComplementNB is not a generative model: it has {missing}. Multinom"):
        getattr(model, method)
    assert hasattr(MultinomialNB(), method)
