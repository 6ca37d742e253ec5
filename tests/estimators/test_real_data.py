"""On real tables: the results of scikit-learn, or of the equations where it has none, and the laws of sums.

Tolerances: a log-joint is a sum of up to d terms, each rounded to 2⁻⁵² of itself, and subtracting two of them
keeps that error; so numbers agree to 1e-10 of the largest log-joint of their row (or of 1, if that is more).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.naive_bayes as reference
from sklearn.base import clone

import deciban
from deciban import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB, PoissonNB
from deciban.corollaries.leave_one_out import merged

from . import brute_force as brute

pytestmark = [pytest.mark.filterwarnings("ignore::deciban.errors.ZeroEvidenceWarning"), pytest.mark.crossed(4)]


def take(table, name, what="numbers", n=None, missing_share=0.0, lonely=False):
    """Rows of a set in random order: numbers, codes or strings. `missing_share`: this share of entries goes missing.
    `lonely`: the first class keeps one row, the next two, as long as the last one keeps all of its own."""
    data, rng = table(name), np.random.default_rng(0)
    X = {"numbers": lambda: data.numbers, "codes": data.codes, "strings": lambda: data.categories}[what]()
    rows = rng.permutation(len(X))
    if lonely:
        for label, keep in zip(np.unique(data.y)[:-1], (1, 2), strict=False):
            mine = np.flatnonzero(data.y[rows] == label)
            rows = np.delete(rows, mine[keep:])
        few = np.isin(data.y[rows], np.unique(data.y)[:-1][:2])
        rows = np.concatenate([rows[few], rows[~few]])
    X, y = X[rows[:n]].copy(), data.y[rows[:n]]
    if missing_share:
        X[rng.random(X.shape) < missing_share] = None if what == "strings" else np.nan
    return X, y


def weights(n):
    """Fractions, whole numbers and zeros."""
    return np.random.default_rng(1).choice([0.0, 0.25, 0.7, 1.0, 3.0], n, p=[0.1, 0.2, 0.3, 0.2, 0.2])


def close(actual, expected, scale=1.0, tolerance=1e-10):
    """Equal to `tolerance` of themselves or of `scale`; infinities in the same places."""
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert actual.shape == expected.shape
    with np.errstate(invalid="ignore"):
        gap = np.where(actual == expected, 0.0, np.abs(actual - expected))
        good = gap <= tolerance * np.maximum(np.abs(expected), np.maximum(scale, 1.0))
    good &= np.isfinite(expected) | (actual == expected)
    assert good.all(), f"off by up to {gap[~good].max()}"


def named(value):
    """The name of a test case."""
    return getattr(value, "__name__", str(value))


def row_scale(log_joint):
    return np.abs(np.where(np.isfinite(log_joint), log_joint, 0.0)).max(axis=1, keepdims=True)


# 1. as scikit-learn, where it can

ATTRIBUTES = ("class_count_", "class_prior_", "theta_", "var_", "epsilon_", "feature_count_", "feature_all_",
              "feature_log_prob_", "class_log_prior_", "category_count_", "n_categories_")  # fmt: skip

AS_SKLEARN = [
    *[("GaussianNB", name, "numbers", {}) for name in ("pima", "letter", "glass", "vehicle", "satimage")],
    *[("GaussianNB", name, "numbers", {}) for name in ("ionosphere", "spambase", "page_blocks", "pendigits")],
    ("GaussianNB", "vehicle", "numbers", {"var_smoothing": 1e-3, "priors": [0.1, 0.2, 0.3, 0.4]}),
    *[("MultinomialNB", name, "numbers", {}) for name in ("letter", "spambase", "pendigits")],
    ("MultinomialNB", "spambase", "numbers", {"alpha": 0.01, "fit_prior": False}),
    *[("ComplementNB", name, "numbers", {"norm": True}) for name in ("letter", "spambase")],
    *[("ComplementNB", name, "numbers", {"norm": False}) for name in ("letter", "spambase")],
    ("BernoulliNB", "spambase", "numbers", {}),
    ("BernoulliNB", "letter", "numbers", {"binarize": 7.0, "alpha": 0.3}),
    ("BernoulliNB", "kr_vs_kp", "codes", {"class_prior": [0.3, 0.7]}),
    *[("CategoricalNB", name, "codes", {}) for name in ("car", "nursery", "kr_vs_kp", "zoo", "cmc")],
    ("CategoricalNB", "car", "codes", {"alpha": 0.1, "min_categories": 6}),
]


@pytest.mark.crossed(3)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(("model", "name", "what", "options"), AS_SKLEARN, ids=named)
def test_says_what_sklearn_says(table, model, name, what, options, weighted, storage):
    X, y = take(table, name, what)
    weight = weights(len(y)) if weighted else None
    if model == "GaussianNB" and weighted:
        # epsilon_ is of the weighted variance here, of the unweighted one there: without it both agree.
        if name not in ("pima", "vehicle", "letter"):
            pytest.skip("some class has a column without spread: a variance of 0 has no reference")
        options = {**options, "var_smoothing": 0.0}
    theirs = getattr(reference, model)(**options).fit(X, y, sample_weight=weight)
    given = X if storage == "dense" else sp.csr_array(X)
    ours = getattr(deciban, model)(**options).fit(given, y, sample_weight=weight)
    for attribute in ATTRIBUTES:
        if hasattr(theirs, attribute):
            a, b = getattr(ours, attribute), getattr(theirs, attribute)
            for one, two in zip(a, b, strict=True) if isinstance(b, list) else [(a, b)]:
                # Column scales differ by 1e6 in a table: a mean near 0 is judged by its own column.
                close(one, two, scale=np.abs(two).max(axis=0) if np.ndim(two) == 2 else 1.0)
    # Sparse rows are summed about zero: a variance is off by 1e-16·mean²/variance of itself, 1e-10 for glass.
    tolerance = 1e-8 if model == "GaussianNB" and storage == "sparse" else 1e-10
    log_joint = theirs.predict_joint_log_proba(X)
    close(ours.predict_joint_log_proba(given), log_joint, row_scale(log_joint), tolerance)
    close(ours.predict_log_proba(given), theirs.predict_log_proba(X), row_scale(log_joint), tolerance)
    assert (ours.predict(given) == theirs.predict(X)).all()


# ------------------------------ 2. as the equations, where it cannot

STUDENT = {"alpha": 2.0, "predictive": True}
BY_HAND = [
    (CategoricalNB, brute.categorical, "voting", "strings", 0.0, {"alpha": 0.5}),
    (CategoricalNB, brute.categorical, "soybean", "strings", 0.0, {}),
    (CategoricalNB, brute.categorical, "credit_approval", "strings", 0.0, {}),
    (CategoricalNB, brute.categorical, "mushroom", "strings", 0.0, {"alpha": 0.1}),
    (CategoricalNB, brute.categorical, "anneal", "strings", 0.0, {}),
    (BernoulliNB, brute.bernoulli, "voting", "codes", 0.0, {"alpha": 0.5}),
    (GaussianNB, brute.gaussian, "hepatitis", "numbers", 0.0, {}),
    (GaussianNB, brute.gaussian, "credit_approval", "numbers", 0.0, {"alpha": 3.0}),
    (GaussianNB, brute.gaussian, "heart_cleveland", "numbers", 0.0, {"predictive": True}),
    (GaussianNB, brute.gaussian, "hepatitis", "numbers", 0.0, STUDENT),
    (GaussianNB, brute.gaussian, "glass", "numbers", 0.1, STUDENT),
    (PoissonNB, brute.poisson, "letter", "numbers", 0.0, {}),
    (PoissonNB, brute.poisson, "letter", "numbers", 0.1, {"alpha": 0.3}),
    (PoissonNB, brute.poisson, "pendigits", "numbers", 0.1, {"alpha": 0.3, "predictive": True}),
]


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(("model", "law", "name", "what", "missing_share", "options"), BY_HAND)
def test_scores_are_those_of_the_equations(table, model, law, name, what, missing_share, options, weighted):
    X, y = take(table, name, what, 160, missing_share)
    learn, new = slice(0, 140), slice(130, 160)  # rows that were learned, and rows with unseen categories
    weight = weights(140) if weighted else None
    known = np.isin(y[new], y[learn])
    ours = model(**options).fit(X[learn], y[learn], sample_weight=weight)
    extra = {"smoothing": 1e-9} if model is GaussianNB else {}
    with np.errstate(divide="ignore"):
        expected = brute.log_joint(law, X[learn], y[learn], X[new], weight, **options, **extra)
    close(ours.predict_joint_log_proba(X[new]), expected)
    close(ours.predict_log_proba(X[new]), brute.posterior(expected), scale=row_scale(expected))
    close(ours.score(X[new][known], y[new][known]),
          np.mean(ours.classes_[expected.argmax(axis=1)][known] == y[new][known]))  # fmt: skip


@pytest.mark.parametrize("missing_share", [0.0, 0.1])
@pytest.mark.parametrize("options", [{}, {"alpha": 0.2}, {"predictive": True}, STUDENT])
def test_bags_of_words_by_hand(table, options, missing_share):
    X, y = take(table, "letter", "numbers", 300, missing_share)
    expected = brute.multinomial_log_joint(X, y, X[:50], **options)
    for rows in (X, sp.csr_array(X)):
        model = MultinomialNB(**options).fit(rows, y)
        close(model.predict_joint_log_proba(rows[:50]), expected)
        close(model.predict_log_proba(rows[:50]), brute.posterior(expected), scale=row_scale(expected))


# ------------------------------ 3. leave-one-out is a refit

SMOOTHED = [{"alpha": 0.0}, {"alpha": 0.5}, {"alpha": 1.0}]
PREDICTIVE = [*SMOOTHED, {"alpha": 0.5, "predictive": True}]
LEFT_OUT = [
    *[(GaussianNB, "glass", "numbers", {**o, "var_smoothing": 1e-4}) for o in PREDICTIVE],
    *[(GaussianNB, name, "numbers", {}) for name in ("hepatitis", "ionosphere", "vehicle")],
    (GaussianNB, "vehicle", "numbers", {"predictive": True}),
    (GaussianNB, "pima", "numbers", {"alpha": 2.0, "prior_mean": 50.0, "prior_var": 900.0}),
    *[(MultinomialNB, "letter", "numbers", o) for o in PREDICTIVE],
    (MultinomialNB, "spambase", "numbers", {"alpha": 0.0}),
    (MultinomialNB, "letter", "numbers", {"fit_prior": False}),
    *[(ComplementNB, "letter", "numbers", {**o, "norm": norm}) for o in SMOOTHED for norm in (False, True)],
    (ComplementNB, "spambase", "numbers", {"alpha": 0.0}),
    *[(BernoulliNB, "zoo", "codes", o) for o in SMOOTHED],
    (BernoulliNB, "voting", "codes", {"alpha": 0.5}),
    *[(CategoricalNB, "soybean", "strings", o) for o in SMOOTHED],
    *[(CategoricalNB, name, "codes", {"alpha": 0.5}) for name in ("voting", "nursery", "cmc")],
    *[(PoissonNB, "pendigits", "numbers", o) for o in PREDICTIVE],
]


@pytest.mark.crossed(8)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("missing_share", [0.0, 0.15], ids=["", "missing"])
@pytest.mark.parametrize("lonely", [False, True], ids=["", "lonely"])
@pytest.mark.parametrize(("model", "name", "what", "options"), LEFT_OUT, ids=named)
def test_leave_one_out_is_a_refit(table, model, name, what, options, missing_share, weighted, lonely):
    X, y = take(table, name, what, 80, missing_share, lonely)
    weight = weights(len(y)) + 0.25 * lonely if weighted else None
    whole = model(**options).fit(X, y, sample_weight=weight)
    left_out = whole.leave_one_out(X, y, sample_weight=weight)
    # What is left of a variance after subtracting all but one value is rounding, 1e-16 of what was there; the
    # least variance is 1e-9 of it by default, so log-densities of such classes are off by 1e-7 of themselves.
    tolerance = 1e-6 if model is GaussianNB else 1e-9
    assert left_out.log_proba.shape == (len(y), len(whole.classes_))
    for i in range(12):
        expected, log_joint = without_row(whole, X, y, weight, i)
        if np.isfinite(log_joint).any():  # rows that are impossible everywhere have a test of their own
            close(left_out.log_proba[i], expected, row_scale(log_joint)[0], tolerance)


def without_row(whole, X, y, weight, i):
    """Row i's log-posterior, and log-joint, under a literal refit; a class that is gone then has −∞."""
    rest = np.delete(np.arange(len(y)), i)
    refit = clone(whole).fit(X[rest], y[rest], None if weight is None else weight[rest])
    expected = np.full(len(whole.classes_), -np.inf)
    expected[np.isin(whole.classes_, refit.classes_)] = refit.predict_log_proba(X[i : i + 1])[0]
    return expected, refit.predict_joint_log_proba(X[i : i + 1])


@pytest.mark.parametrize("lonely", [False, True], ids=["", "lonely"])
@pytest.mark.parametrize(
    ("model", "name", "what"),
    [
        (BernoulliNB, "zoo", "codes"),
        (CategoricalNB, "soybean", "strings"),
        (MultinomialNB, "spambase", "numbers"),
    ],
)
def test_left_out_rows_that_are_impossible_have_the_prior_without_them(table, model, name, what, lonely):
    X, y = take(table, name, what, 80, lonely=lonely)
    whole = model(alpha=0.0).fit(X, y)
    left_out = whole.leave_one_out(X, y)
    refits = [without_row(whole, X, y, None, i) for i in range(30)]
    impossible = [i for i, (_, log_joint) in enumerate(refits) if not np.isfinite(log_joint).any()]
    assert impossible
    for i in impossible:
        close(left_out.log_proba[i], refits[i][0])


@pytest.mark.parametrize("missing_share", [0.0, 0.15], ids=["", "missing"])
@pytest.mark.parametrize(
    ("model", "name", "options"),
    [
        *[(GaussianNB, name, {}) for name in ("vehicle", "ionosphere", "spambase")],
        (GaussianNB, "ionosphere", {"predictive": True}),
        *[(MultinomialNB, "spambase", {"alpha": alpha}) for alpha in (0.0, 1.0)],
        *[(BernoulliNB, "spambase", {"alpha": alpha}) for alpha in (0.0, 1.0)],
        *[(ComplementNB, "spambase", {"norm": norm}) for norm in (False, True)],
        *[(PoissonNB, "letter", {"predictive": predictive}) for predictive in (False, True)],
    ],
)
def test_sparse_rows_are_scored_as_dense_ones(table, model, name, options, missing_share):
    X, y = take(table, name, n=150, missing_share=missing_share)
    dense = model(**options).fit(X, y)
    log_joint, left_out = dense.predict_joint_log_proba(X), dense.leave_one_out(X, y).log_proba
    for rows in (sp.csr_array(X), sp.csc_array(X)):
        sparse, before = model(**options).fit(rows, y), rows.copy()
        close(sparse.predict_joint_log_proba(rows), log_joint, row_scale(log_joint), 1e-7)
        assert (rows != before).nnz == np.isnan(X).sum(), "the caller's matrix was changed"  # NaN is not NaN
        close(sparse.leave_one_out(before, y).log_proba, left_out, row_scale(log_joint), 1e-6)


# ------------------------------ 4. a model is a sum

SUMS = [
    (GaussianNB, "glass", "numbers", {}, 0.0),
    (GaussianNB, "hepatitis", "numbers", {"alpha": 0.5}, 0.1),
    (MultinomialNB, "letter", "numbers", {"alpha": "empirical"}, 0.1),
    (MultinomialNB, "spambase", "numbers", {"predictive": True}, 0.0),
    (ComplementNB, "letter", "numbers", {"norm": True}, 0.0),
    (BernoulliNB, "zoo", "codes", {"alpha": 0.0}, 0.1),
    (CategoricalNB, "soybean", "strings", {}, 0.1),
    (CategoricalNB, "nursery", "codes", {}, 0.0),
    (PoissonNB, "pendigits", "numbers", {"guess": 3.0}, 0.1),
]
every_sum = pytest.mark.parametrize(("model", "name", "what", "options", "missing_share"), SUMS)


def equal(a, b, X, tolerance=1e-9):
    """Models that predict the same and hold the same sums."""
    assert a.classes_.tolist() == b.classes_.tolist()
    if tolerance > 1e-12 and isinstance(a, GaussianNB):
        tolerance = 1e-6  # as in leave-one-out: rounding next to the least variance
    if getattr(a, "alpha", None) == "empirical":
        tolerance = 1e-6  # the search for alpha stops at 1e-6 of log alpha
    close(a.predict_log_proba(X), b.predict_log_proba(X), row_scale(b.predict_joint_log_proba(X)), tolerance)
    if not isinstance(a, CategoricalNB) or isinstance(a.categories_[0], range):
        assert a.model_.stats.same_as(b.model_.stats)  # strings: see the next test


def test_sums_are_the_same_whatever_order_categories_came_in(table):
    X, y = take(table, "soybean", "strings", 200)
    a, b = CategoricalNB().fit(X[:20], y[:20]), CategoricalNB().fit(X[20:], y[20:])
    assert (a + b).model_.stats.same_as((b + a).model_.stats)
    assert (a + b).model_.stats.same_as(CategoricalNB().fit(X, y).model_.stats)


@every_sum
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_batches_merges_and_forgetting_are_sums(table, model, name, what, options, missing_share, weighted, tmp_path):
    X, y = take(table, name, what, 200, missing_share)
    weight = weights(len(y)) + 0.1 if weighted else np.ones(len(y))
    everything = model(**options).fit(X, y, weight)

    def learn(batches, start=None):
        out = model(**options) if start is None else start
        for rows in batches:
            out.partial_fit(X[rows], y[rows], sample_weight=weight[rows])
        return out

    order = np.random.default_rng(3).permutation(len(y))
    equal(learn(np.array_split(np.argsort(y, kind="stable"), 9)), everything, X)
    equal(learn(np.split(order, [1, 2, 50, 50, 51, 140])), everything, X)
    equal(learn(np.arange(len(y))[:, None]), everything, X)
    half = order[:90], order[90:]
    a, b = learn(half[:1]), learn(half[1:])
    equal(a + b, everything, X)
    equal(b + a, a + b, X)
    equal(a + b, everything, X)  # merging changed neither
    for kept, gone in (half, half[::-1]):
        equal(learn([order]).forget(X[gone], y[gone], weight[gone]), learn([kept]), X)
    last = np.flatnonzero(y == y[0])  # a whole class goes
    kept = np.flatnonzero(y != y[0])
    equal(learn([order]).forget(X[last], y[last], weight[last]), learn([kept]), X)
    twice = np.tile(half[0], 2)
    with pytest.raises(deciban.errors.ForgetError):
        a.forget(X[twice], y[twice], weight[twice])
    a.save(tmp_path / "model.deciban")
    read = deciban.load(tmp_path / "model.deciban")
    equal(read, a, X, 1e-12)
    equal(learn(half[1:], read), everything, X)


# ------------------------------ 5. how strong the prior is

CHOSEN = [
    (MultinomialNB, "multinomial", "letter", "numbers", 300),
    (BernoulliNB, "bernoulli", "voting", "codes", 435),
    (CategoricalNB, "categorical", "voting", "strings", 435),
    (CategoricalNB, "categorical", "soybean", "strings", 300),
    (PoissonNB, "poisson", "pendigits", "numbers", 200),
    (GaussianNB, "gaussian", "pima", "numbers", 60),
    (GaussianNB, "gaussian", "hepatitis", "numbers", 60),
]


@pytest.mark.slow_where("pima|voting|pendigits")
@pytest.mark.parametrize(("model", "law", "name", "what", "n"), CHOSEN)
def test_empirical_alpha_makes_the_data_most_likely(table, model, law, name, what, n, thorough):
    X, y = take(table, name, what, n)
    alpha = model(alpha="empirical").fit(X, y).alpha_
    best = brute.log_marginal(law, X, y, alpha)
    grid = [*np.geomspace(1e-3, 1e3, 13 if thorough else 4), alpha * 1.02, alpha / 1.02]
    others = [brute.log_marginal(law, X, y, a) for a in grid]
    assert best >= max(others) - 1e-9 * abs(best)
    assert best > min(others) + 1.0  # the choice matters


def test_empirical_alpha_survives_a_constant_column(table):
    """A constant column, as in ionosphere, does not influence alpha."""
    X, y = take(table, "pima")
    without = GaussianNB(alpha="empirical").fit(X, y).alpha_
    assert without > 0.01
    constant = np.c_[X, np.ones(len(y))]
    assert GaussianNB(alpha="empirical").fit(constant, y).alpha_ == pytest.approx(without, rel=0.1)


@pytest.mark.slow_where(r"ComplementNB-letter")
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(
    ("model", "name", "what"),
    [
        *[(model, name, what) for model, _, name, what, _ in CHOSEN],
        (ComplementNB, "letter", "numbers"),
        (GaussianNB, "ionosphere", "numbers"),
    ],
)
def test_loo_alpha_has_the_least_loss(table, model, name, what, weighted):
    X, y = take(table, name, what, 300)
    weight = weights(len(y)) if weighted else None

    def loss(alpha):
        fitted = model(alpha=alpha).fit(X, y, weight)
        parts = [slice(None, 150), slice(150, None)]  # of some of the rows, under what all have chosen
        each = [fitted.leave_one_out(X[p], y[p], None if weight is None else weight[p]) for p in parts]
        return merged(each).log_loss

    grid = [loss(alpha) for alpha in np.geomspace(1e-4, 1e4, 13)]
    assert np.isfinite(grid).all()
    assert loss("loo") <= min(grid) + 1e-4


# ------------------------------ 6. few labels


@pytest.mark.parametrize(("name", "n"), [("voting", None), ("mushroom", 2000), ("zoo", None)])
def test_hidden_labels_do_no_harm(table, name, n):
    X, y = take(table, name, "strings", n)
    hidden = np.random.default_rng(5).random(len(y)) < 0.8
    partly = y.astype(object)
    partly[hidden] = None
    few = CategoricalNB().fit(X[~hidden], y[~hidden])
    semi = CategoricalNB().fit(X, partly)
    truth = y[hidden]
    assert semi.em_.converged
    if name != "mushroom":  # its columns depend too much on each other: likelier is not better (0.89, 0.92)
        assert semi.score(X[hidden], truth) > few.score(X[hidden], truth) - 0.02
    assert semi.n_unlabelled_ == hidden.sum()
    assert semi.class_count_.sum() == pytest.approx(len(y))
    posterior = np.exp(brute.posterior(semi.predict_joint_log_proba(X[hidden])))
    fixed_point = few.class_count_ + posterior.sum(axis=0)
    close(semi.class_count_, fixed_point, scale=len(y), tolerance=1e-3)


# ------------------------------ 7. what a posterior is for


@pytest.mark.parametrize("reject", [None, 0.5, 0.9, 9.0])
def test_decisions_cost_least(table, reject):
    X, y = take(table, "cmc", "codes")
    model = CategoricalNB().fit(X, y)
    costs = np.array([[0.0, 1.0, 3.0], [3.0, 0.5, 1.0], [2.0, 2.0, 0.0]])
    answers = model.decide(X, costs=costs, reject=reject)
    named = {a: {b: costs[i, j] for j, b in enumerate(model.classes_)} for i, a in enumerate(model.classes_)}
    assert (model.decide(X, costs=named, reject=reject) == answers).all()
    for p, answer in zip(model.predict_proba(X), answers, strict=True):
        expected = [sum(p[i] * costs[i][j] for i in range(3)) for j in range(3)]
        least = min(range(3), key=expected.__getitem__)
        assert answer == (None if reject is not None and expected[least] > reject else model.classes_[least])
    given = {None: {"1", "2", "3"}, 0.5: {None, "1"}, 0.9: {None, "1", "2"}, 9.0: {"1", "2", "3"}}
    assert set(answers.tolist()) == given[reject]
    assert (model.decide(X) == model.predict(X)).all()


@pytest.mark.parametrize(("name", "what"), [("mushroom", "strings"), ("letter", "numbers")])
def test_a_shifted_prior_is_found_again(table, name, what):
    X, y = take(table, name, what)
    model = CategoricalNB().fit(X[::2], y[::2])
    X, y, rng = X[1::2], y[1::2], np.random.default_rng(7)
    k = len(model.classes_)
    shifted = np.linspace(1, 9, k) / np.linspace(1, 9, k).sum()
    at = np.searchsorted(model.classes_, y)
    rows = rng.choice(len(y), 3000, p=shifted[at] / np.bincount(at)[at])
    truth = np.bincount(at[rows], minlength=k) / len(rows)
    adapted = model.adapt_prior(X[rows])
    old, new = (np.abs(np.exp(m.class_log_prior_) - truth).sum() for m in (model, adapted))
    assert new < old / 2
    assert adapted.score(X[rows], y[rows]) >= model.score(X[rows], y[rows])
    assert (adapted.class_count_ == model.class_count_).all()


@pytest.mark.parametrize(
    ("model", "name", "what"),
    [
        (GaussianNB(), "vehicle", "numbers"),
        (PoissonNB(), "pendigits", "numbers"),
        (BernoulliNB(), "voting", "codes"),
        (MultinomialNB(), "letter", "numbers"),
        (CategoricalNB(), "car", "codes"),
    ],
    ids=named,
)
def test_samples_look_like_the_model(table, model, name, what):
    X, y = take(table, name, what)
    model.fit(X, y)
    n, length = 20000, 40
    rows, labels = model.sample(n, random_state=11, length=length)  # of length only bags of words take note
    prior = model.class_count_ / model.class_count_.sum()
    for c, label in enumerate(model.classes_):
        mine = rows[labels == label]
        assert abs(len(mine) / n - prior[c]) < 5 * np.sqrt(prior[c] * (1 - prior[c]) / n)
        if isinstance(model, GaussianNB):
            mean, variance = model.theta_[c], model.var_[c]
            assert np.allclose(mine.var(axis=0), variance, rtol=5 * np.sqrt(2 / len(mine)))
        elif isinstance(model, PoissonNB):
            mean = variance = model.rate_[c]
        elif isinstance(model, CategoricalNB):
            sizes = enumerate(model.n_categories_)
            mine = np.hstack([mine[:, [j]].astype(int) == range(size) for j, size in sizes])
            mean = np.exp(np.hstack([table[c] for table in model.feature_log_prob_]))
            variance = mean * (1 - mean)
        else:
            times = length if isinstance(model, MultinomialNB) else 1
            theta = np.exp(model.feature_log_prob_[c])
            mean, variance = times * theta, times * theta * (1 - theta)
        assert (np.abs(mine.mean(axis=0) - mean) < 5 * np.sqrt(variance / len(mine)) + 1e-12).all()
