"""The systems of the lecture notes, S1–S14 and S16–S21, on numbers worked by hand. Real data: tests/models."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from deciban import (
    BernoulliNB,
    CategoricalNB,
    GaussianDiscriminant,
    GaussianMixture,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MultinomialNB,
    NearestCentroid,
    PoissonNB,
    QuadraticDiscriminantAnalysis,
    TreeAugmentedNB,
    ZeroEvidenceWarning,
)

PLUS = np.array([0.5, 0.4, 0.05, 0.05])  # dog, cat, tulip, rose
MINUS = np.array([0.1, 0.1, 0.5, 0.3])
DOCUMENT = np.array([[3, 2, 1, 0]])  # dog dog cat dog cat tulip


@pytest.fixture
def pets():
    """A class of animals and one of flowers whose word frequencies are the notes' θ⁺ and θ⁻."""
    return MultinomialNB(alpha=0.0, class_prior=[0.5, 0.5]).fit(np.array([PLUS, MINUS]) * 100, ["+", "-"])


# ------------------------------------------------------------------ S1, S2: Bayes' rule and the class prior


def test_s1_the_posterior_is_the_joint_over_its_sum(pets):
    joint = np.array([0.5 * np.prod(PLUS ** DOCUMENT[0]), 0.5 * np.prod(MINUS ** DOCUMENT[0])])
    expected = dict(zip("+-", joint / joint.sum(), strict=True))
    posterior = dict(zip(pets.classes_, pets.predict_proba(DOCUMENT)[0], strict=True))
    assert posterior == pytest.approx(expected)
    assert pets.predict(DOCUMENT) == ["+"]


def test_s2_the_class_prior_is_counted_given_or_uniform():
    X, y = [[1], [1], [1], [0]], ["a", "a", "a", "b"]
    assert np.exp(MultinomialNB().fit(X, y).class_log_prior_) == pytest.approx([0.75, 0.25])
    assert np.exp(MultinomialNB(fit_prior=False).fit(X, y).class_log_prior_) == pytest.approx([0.5, 0.5])
    assert np.exp(MultinomialNB(class_prior=[0.1, 0.9]).fit(X, y).class_log_prior_) == pytest.approx([0.1, 0.9])
    weighted = GaussianNB().fit(X, y, sample_weight=[1, 1, 1, 3])
    assert weighted.class_prior_ == pytest.approx([0.5, 0.5])


# ------------------------------------------------------------------ S3–S6: bags of words


def test_s3_s4_dog_cat_tulip_rose(pets):
    log_joint = dict(zip(pets.classes_, pets.predict_joint_log_proba(DOCUMENT)[0], strict=True))
    assert np.exp(log_joint["+"] - np.log(0.5)) == pytest.approx(1.0e-3)
    assert np.exp(log_joint["-"] - np.log(0.5)) == pytest.approx(5.0e-6)
    assert log_joint["+"] - log_joint["-"] == pytest.approx(5.298, abs=5e-4)
    assert pets.explain(DOCUMENT, target="+").total == pytest.approx(23.01, abs=5e-3)


def test_s3_several_documents_collapse_into_one_bag():
    documents = np.array([[1, 0, 2], [0, 3, 1], [2, 1, 0]])
    bag = documents.sum(axis=0, keepdims=True)
    apart = MultinomialNB(alpha=0).fit(documents, ["a"] * 3)
    together = MultinomialNB(alpha=0).fit(bag, ["a"])
    assert np.exp(apart.feature_log_prob_) == pytest.approx(np.array([[0.3, 0.4, 0.3]]))
    assert apart.feature_log_prob_ == pytest.approx(together.feature_log_prob_)


def test_s5_the_linear_form(pets):
    form = pets.linear_form()
    weights, offset = form.pair("+", "-")
    assert weights == pytest.approx(np.log(PLUS / MINUS))
    assert offset == pytest.approx(0.0)
    assert DOCUMENT[0] @ weights + offset == pytest.approx(np.log(200))
    uneven = pets.with_prior({"+": 0.2, "-": 0.8}).linear_form()
    assert uneven.pair("+", "-")[1] == pytest.approx(np.log(0.25))
    scores = DOCUMENT @ form.weights.T + form.offsets
    assert scores == pytest.approx(pets.predict_joint_log_proba(DOCUMENT))


@pytest.mark.parametrize("model", [MultinomialNB(), BernoulliNB(), PoissonNB()])
def test_s5_linear_models_are_linear(model):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (60, 5)), rng.integers(0, 3, 60)
    form = model.fit(X, y).linear_form()
    assert (X @ form.weights.T + form.offsets)[:, 1:] - (X @ form.weights.T + form.offsets)[:, :1] == pytest.approx(
        np.diff(model.predict_joint_log_proba(X)[:, [0, 1, 0, 2]], axis=1)[:, [0, 2]]
    )


def test_s5_a_table_of_categories_is_linear_in_its_indicators():
    X, y = [["r", "s"], ["g", "s"], ["g", "t"], ["r", "t"]], [0, 0, 1, 1]
    model = CategoricalNB().fit(X, y)
    form = model.linear_form()
    assert form.items == ["x0=g", "x0=r", "x1=s", "x1=t"]
    assert form.weights @ [0, 1, 1, 0] + form.offsets == pytest.approx(model.predict_joint_log_proba([["r", "s"]])[0])


def test_s6_a_pseudo_count_for_every_word():
    X, y = np.array([[3, 1, 0]]), ["a"]
    theta = {
        0.0: [3 / 4, 1 / 4, 0.0],  # plain maximum likelihood
        1.0: [4 / 7, 2 / 7, 1 / 7],  # Laplace
    }
    for alpha, expected in theta.items():
        assert np.exp(MultinomialNB(alpha=alpha).fit(X, y).feature_log_prob_[0]) == pytest.approx(expected)
    per_word = MultinomialNB(alpha=[1.0, 2.0, 3.0]).fit(X, y)
    assert np.exp(per_word.feature_log_prob_[0]) == pytest.approx([4 / 10, 3 / 10, 3 / 10])
    nothing = MultinomialNB(alpha=[1.0, 2.0, 3.0]).partial_fit(np.zeros((1, 3)), ["a"])
    assert np.exp(nothing.feature_log_prob_[0]) == pytest.approx([1 / 6, 2 / 6, 3 / 6]), "the prior's own mode"
    per_class = MultinomialNB(alpha=[[1, 1, 1], [0, 0, 9]]).fit([[3, 1, 0], [1, 0, 0]], ["a", "b"])
    assert np.exp(per_class.feature_log_prob_[1]) == pytest.approx([1 / 10, 0, 9 / 10])


def test_s6_an_impossible_word_falls_back_to_the_prior_with_a_warning():
    model = MultinomialNB(alpha=0).fit([[2, 1, 0], [1, 2, 0], [1, 1, 0]], ["a", "b", "b"])
    with pytest.warns(ZeroEvidenceWarning, match=r"1 of 2 rows have probability zero under every class \(0/0\)"):
        proba = model.predict_proba([[1, 0, 1], [1, 0, 0]])
    assert proba[0] == pytest.approx([1 / 3, 2 / 3])
    assert not np.isnan(proba).any()
    with pytest.warns(ZeroEvidenceWarning):
        assert model.predict([[0, 0, 5]]).tolist() == ["b"]


# ------------------------------------------------------------------ S7–S9: categories, presence, Laplace


def test_s7_categories():
    X = [["high", "yes"], ["high", "no"], ["low", "yes"], ["low", "no"], ["low", "yes"]]
    y = [+1, +1, -1, -1, -1]
    plain = CategoricalNB(alpha=0).fit(X, y)
    assert plain.categories_[0] == ("high", "low")
    assert np.exp(plain.feature_log_prob_[0]) == pytest.approx(np.array([[0.0, 1.0], [1.0, 0.0]]))
    laplace = CategoricalNB(alpha=1).fit(X, y)
    assert np.exp(laplace.feature_log_prob_[0][1]) == pytest.approx([3 / 4, 1 / 4])  # (2+1)/(2+2), (0+1)/(2+2)
    by_hand = {
        +1: Fraction(2, 5) * Fraction(1, 4) * Fraction(2, 4),
        -1: Fraction(3, 5) * Fraction(4, 5) * Fraction(3, 5),
    }
    share = float(by_hand[+1] / sum(by_hand.values()))
    assert laplace.predict_proba([["low", "yes"]])[0, 1] == pytest.approx(share)


def test_s7_a_category_never_seen_has_the_priors_probability():
    model = CategoricalNB(alpha=0.5).fit([["r"], ["g"], ["g"]], ["a", "b", "b"])
    unseen = np.exp(model.predict_joint_log_proba([["blue"]])[0])
    assert unseen == pytest.approx([(1 / 3) * 0.5 / (1 + 1.5), (2 / 3) * 0.5 / (2 + 1.5)])
    known = CategoricalNB(alpha=0.5, min_categories=3).fit([[0], [1], [1]], ["a", "b", "b"])
    assert np.exp(known.predict_joint_log_proba([[2]])[0]) == pytest.approx(unseen), "as if known but never counted"


def test_s8_presence_and_absence():
    X, y = np.array([[1, 0], [1, 1], [0, 0], [0, 1]]), ["s", "s", "s", "h"]
    model = BernoulliNB(alpha=1).fit(X, y)
    phi = np.exp(model.feature_log_prob_)
    assert phi[1] == pytest.approx([(1 + 2) / (2 + 3), (1 + 1) / (2 + 3)])
    absent = np.log(0.75) + np.log(1 - 3 / 5) + np.log(1 - 2 / 5)
    assert model.predict_joint_log_proba([[0, 0]])[0, 1] == pytest.approx(absent), "an absent word is evidence too"
    big = BernoulliNB().fit(np.zeros((2, 50_000)), [0, 1])
    assert big.feature_log_prob_.size + 1 == 50_000 * 2 + 1


def test_s9_laplace_for_a_variable_of_k_values():
    counts = np.array([5, 0, 2, 3])
    draws = np.repeat(np.arange(4), counts)[:, None]
    model = CategoricalNB(alpha=1, min_categories=4).fit(draws, np.zeros(10))
    assert np.exp(model.feature_log_prob_[0][0]) == pytest.approx((1 + counts) / (4 + 10))


# ------------------------------------------------------------------ S17: few labels


CROSS = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])  # scatter 2·I, covariance ½·I
SLANT = np.array([[2.0, 1.0], [-2.0, -1.0], [0.0, 1.0], [0.0, -1.0]])  # covariance [[2, 1], [1, 1]], of determinant 1
SIDES = np.repeat([0, 1], 4)


def test_s10_unit_spheres_and_the_nearest_mean():
    """Means (0, 0) and (3, 0): the rule is argmax log P(y) − ½‖x − μ_y‖², and the border lies at 1.5."""
    X = np.r_[CROSS, CROSS + np.array([3.0, 0.0])]
    model = GaussianDiscriminant(covariance="unit", shrinkage=None).fit(X, SIDES)
    log_odds = np.diff(model.predict_log_proba([[1.0, 0.0], [1.5, 7.0]]), axis=1).ravel()
    np.testing.assert_allclose(log_odds, [-0.5 * (4.0 - 1.0), 0.0], atol=1e-12)
    assert NearestCentroid().fit(X, SIDES).predict([[1.4, 9.0], [1.6, -9.0]]).tolist() == [0, 1]


def test_s11_one_sigma_for_all_is_linear():
    """σ² = 8/(8·2) = ½, θ = (μ⁺ − μ⁻)/σ² = (6, 0), θ_0 = −(9 − 0)/(2·½) = −9."""
    X = np.r_[CROSS, CROSS + np.array([3.0, 0.0])]
    model = GaussianDiscriminant(covariance="tied_spherical", shrinkage=None).fit(X, SIDES)
    np.testing.assert_allclose(model.covariances_[0], 0.5 * np.eye(2))
    theta, offset = model.linear_form().pair(1, 0)
    np.testing.assert_allclose(theta, [6.0, 0.0], atol=1e-12)
    assert offset == pytest.approx(-9.0)


def test_s12_s14_a_shared_covariance_is_a_logistic_regression():
    """Σ⁻¹ = [[1, −1], [−1, 2]], μ_1 = (1, 2): θ = (−1, 3), θ_0 = −½·μ_1ᵀθ + log φ/(1 − φ) = −2.5 + log ½."""
    X, y = np.r_[SLANT, SLANT, SLANT + np.array([1.0, 2.0])], np.repeat([0, 1], [8, 4])
    for model in (
        LinearDiscriminantAnalysis(store_covariance=True).fit(X, y),
        GaussianDiscriminant(covariance="tied", shrinkage=None, predictive=False).fit(X, y),
    ):
        np.testing.assert_allclose(model.covariances_[1], [[2.0, 1.0], [1.0, 1.0]])
        theta, offset = model.linear_form().pair(1, 0)
        np.testing.assert_allclose(theta, [-1.0, 3.0], atol=1e-12)
        assert offset == pytest.approx(-2.5 + np.log(0.5))
        new = np.array([[0.3, -1.0], [2.0, 2.0]])
        np.testing.assert_allclose(model.predict_proba(new)[:, 1], 1.0 / (1.0 + np.exp(-new @ theta - offset)))


def test_s13_a_covariance_for_every_class():
    """Σ_1 = 4·Σ_0 at the same mean: log-odds = −½(2 log 4 + q/4 − q), q = xᵀΣ_0⁻¹x; at (1, 0), q = 1."""
    X = np.r_[SLANT, 2.0 * SLANT]
    log_odds = np.diff(QuadraticDiscriminantAnalysis().fit(X, SIDES).predict_log_proba([[1.0, 0.0]]))[0, 0]
    assert log_odds == pytest.approx(-0.5 * (2.0 * np.log(4.0) + 0.25 - 1.0))


def test_s16_a_mixture_and_one_step_of_em():
    """¼·N(0, 1) + ¾·N(2, 1) at 0: ¼·.398942 + ¾·.053991 = .140229; one step over {0, 2} moves the first mean."""
    start = {"weights_init": [0.25, 0.75], "means_init": [[0.0], [2.0]], "precisions_init": [1.0, 1.0]}
    mixture = GaussianMixture(2, covariance_type="spherical", max_iter=0, **start).fit([[0.0], [2.0]])
    assert mixture.score_samples([[0.0]])[0] == pytest.approx(np.log(0.140229), abs=1e-5)
    with pytest.warns(ConvergenceWarning):
        moved = GaussianMixture(2, covariance_type="spherical", max_iter=1, **start).fit([[0.0], [2.0]])
    near, far = 0.25 * 0.398942 / 0.140229, 0.25 * 0.053991 / (0.25 * 0.053991 + 0.75 * 0.398942)
    assert moved.weights_[0] == pytest.approx((near + far) / 2, abs=1e-5)
    assert moved.means_[0, 0] == pytest.approx(2 * far / (near + far), abs=1e-5)


def test_s17_one_label_a_class_and_em():
    """Two clusters and one label in each: the unlabelled rows join the clusters."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 1, 60), rng.normal(3, 1, 60)])[:, None]
    truth = np.repeat([0.0, 1.0], 60)
    y = np.full(120, np.nan)
    y[[0, 1, 60, 61]] = truth[[0, 1, 60, 61]]
    few = GaussianNB().fit(X[[0, 1, 60, 61]], truth[[0, 1, 60, 61]])
    model = GaussianNB().fit(X, y)
    assert model.score(X, truth) >= 0.98
    assert np.abs(model.theta_.ravel() - [-3, 3]).max() < 0.3 < np.abs(few.theta_.ravel() - [-3, 3]).max()
    trace = model.em_.log_likelihood
    assert model.em_.converged
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(trace)), "EM never goes down"


@pytest.mark.parametrize(
    ("model", "draw"),
    [
        (BernoulliNB(alpha=0.0), lambda rng, p: rng.random(p.shape) < p),
        (PoissonNB(alpha=0.0), lambda rng, p: rng.poisson(4 * p)),
        (MultinomialNB(alpha=0.0), lambda rng, p: rng.poisson(4 * p)),
        (CategoricalNB(alpha=0.0), lambda rng, p: (rng.random(p.shape) < p).astype(int)),
    ],
)
def test_s17_the_likelihood_never_decreases(model, draw):
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 300)
    X = draw(rng, np.where(truth[:, None] == 1, np.linspace(0.2, 0.8, 6), np.linspace(0.8, 0.2, 6)))
    y = np.where(rng.random(300) < 0.1, truth.astype(float), np.nan)
    model.fit(X, y)
    trace = np.array(model.em_.log_likelihood)
    assert len(trace) > 2
    assert (np.diff(trace) >= -1e-9 * np.abs(trace[:-1])).all()
    assert model.score(X, truth) > 0.7


def test_s17_a_label_that_is_there_is_believed():
    y = np.array(["a", None, "b", None], dtype=object)
    model = MultinomialNB().fit([[9, 0], [8, 1], [0, 9], [1, 7]], y)
    assert model.class_count_.sum() == pytest.approx(4)
    assert model.class_count_ == pytest.approx([2, 2], abs=0.05)


# ------------------------------------------------------------------ S18–S20: generating, knowing, deciding


@pytest.mark.parametrize(
    "model",
    [GaussianNB(), MultinomialNB(), BernoulliNB(), PoissonNB(), CategoricalNB(), GaussianNB(predictive=True)],
)
def test_s18_what_is_generated_is_learned_back(model):
    rng = np.random.default_rng(2)
    y = rng.choice(["x", "y", "y"], 400)
    X = rng.integers(0, 4, (400, 3)) + (y == "y")[:, None]
    model.fit(X, y)
    drawn, labels = model.sample(20_000, random_state=0)
    again = type(model)(**model.get_params()).fit(drawn, labels)
    assert again.class_count_ / 20_000 == pytest.approx(model.class_count_ / 400, abs=0.02)
    gap = np.abs(again.predict_proba(X) - model.predict_proba(X))
    assert gap.mean() < 0.03
    only, which = model.sample(50, given="x", random_state=1)
    assert set(which) == {"x"}
    assert only.shape == (50, 3)


def test_s19_what_the_user_knows():
    """50 pseudo-counts of "viagra" in spam outweigh that neither class has the word."""
    X, y = [[5, 5, 0], [4, 6, 0]], ["ham", "spam"]
    known = MultinomialNB(alpha=[[1, 1, 1], [1, 1, 50]]).fit(X, y)
    assert known.predict([[0, 0, 1]]).tolist() == ["spam"]
    assert np.exp(known.feature_log_prob_[1, 2]) == pytest.approx(50 / (10 + 52))
    held = GaussianNB(alpha=4.0, prior_mean=10.0, prior_var=2.0, var_smoothing=0.0).fit([[0.0], [4.0]], ["a", "a"])
    assert held.theta_[0, 0] == pytest.approx((0 + 4 + 4 * 10) / 6)
    assert held.var_[0, 0] == pytest.approx((0**2 + 4**2 + 4 * (2 + 10**2)) / 6 - (44 / 6) ** 2)


def test_s19_the_gaussian_predictive_integrates_mean_and_variance_out():
    """Student-t against the integral over the normal–inverse-gamma posterior, by quadrature."""
    X = np.array([[1.0], [2.0], [4.0]])
    kappa, m0, v0 = 2.0, 1.5, 3.0
    model = GaussianNB(alpha=kappa, prior_mean=m0, prior_var=v0, predictive=True, var_smoothing=0.0).fit(X, [0, 0, 0])
    n = 3 + kappa
    mean = (X.sum() + kappa * m0) / n
    scatter = (X**2).sum() + kappa * (v0 + m0**2) - n * mean**2
    new = 2.7

    def density_given_variance(v):
        inverse_gamma = np.exp(-(n / 2 + 1) * np.log(v) - scatter / (2 * v))
        return inverse_gamma * norm.pdf(new, mean, np.sqrt(v * (1 + 1 / n))), inverse_gamma

    top = quad(lambda v: density_given_variance(v)[0], 1e-3, 400, limit=500)[0]
    bottom = quad(lambda v: density_given_variance(v)[1], 1e-3, 400, limit=500)[0]
    assert np.exp(model.score_samples([[new]])[0]) == pytest.approx(top / bottom, rel=1e-5)


def test_s20_one_joint_any_loss(pets):
    """P(+) = 200/201: an answer of "+" is right unless a missed "-" costs more than 200 times as much."""
    costs = {"-": {"+": 199.0}}
    assert pets.decide(DOCUMENT, costs=costs).tolist() == ["+"]
    costs = {"-": {"+": 201.0}}
    assert pets.decide(DOCUMENT, costs=costs).tolist() == ["-"]
    assert pets.decide(DOCUMENT, reject=1 / 202).tolist() == [None]
    assert pets.decide(DOCUMENT, reject=1 / 200).tolist() == ["+"]


def test_prior_shift_is_estimated_without_labels():
    rng = np.random.default_rng(3)
    y = rng.random(4000) < 0.5
    X = rng.normal(2.0 * y, 1.0)[:, None]
    model = GaussianNB().fit(X, y)
    shifted = rng.random(4000) < 0.9
    new = rng.normal(2.0 * shifted, 1.0)[:, None]
    adapted = model.adapt_prior(new)
    assert adapted.class_prior_[1] == pytest.approx(0.9, abs=0.02)
    assert adapted.score(new, shifted) > model.score(new, shifted)
    assert model.class_prior_[1] == pytest.approx(0.5, abs=0.03), "the old model is left alone"


# ------------------------------------------------------------------ S21: dependence between features


def test_s21_a_column_may_depend_on_another():
    """Two copies of a column: naive Bayes counts the evidence twice, a tree once."""
    X = np.array([["w", "w"]] * 6 + [["b", "b"]] * 2 + [["w", "w"]] * 2 + [["b", "b"]] * 6)
    y = np.repeat(["+", "-"], 8)
    naive = TreeAugmentedNB(parents=[-1, -1]).fit(X, y)
    tree = TreeAugmentedNB().fit(X, y)
    assert tree.parents_.tolist() == [-1, 0]
    w_plus, w_minus = Fraction(6 + 1, 8 + 2), Fraction(2 + 1, 8 + 2)
    twice = w_plus**2 / (w_plus**2 + w_minus**2)
    assert naive.predict_proba([["w", "w"]])[0].tolist() == pytest.approx([float(twice), float(1 - twice)])
    given_plus, given_minus = Fraction(6 + 1, 6 + 2), Fraction(2 + 1, 2 + 2)  # P(x_1 = w | x_0 = w, y)
    once = w_plus * given_plus / (w_plus * given_plus + w_minus * given_minus)
    assert tree.predict_proba([["w", "w"]])[0].tolist() == pytest.approx([float(once), float(1 - once)])
