"""Bad and extreme input: a right answer, or an error that says what is wrong and leaves the model as it was.

A RuntimeWarning fails a test (pyproject.toml), so "never NaN, never a stray warning" is asserted throughout.
"""

from __future__ import annotations

import contextlib
import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from every import quickly, reading
from sklearn.base import clone

from deciban import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB, PoissonNB
from deciban.errors import ForgetError, SchemaError, ZeroEvidenceWarning

pytestmark = pytest.mark.crossed(4)

COUNTS = reading("counts")
DISCRETE = [*COUNTS, *reading("bits"), CategoricalNB]  # a tree has tests of its own
MODELS = [*reading("numbers"), *DISCRETE]
GENERATIVE = [m for m in MODELS if m is not ComplementNB]
every_model = pytest.mark.parametrize("Model", quickly(MODELS))
every_discrete = pytest.mark.parametrize("Model", quickly(DISCRETE))
every_generative = pytest.mark.parametrize("Model", quickly(GENERATIVE))
impossible_rows_are_fine = pytest.mark.filterwarnings("ignore::deciban.errors.ZeroEvidenceWarning")

X = np.random.default_rng(0).integers(0, 4, (12, 3)).astype(float)
y = np.array(list("abc") * 4)
HIDDEN = np.array([None if i % 4 == 3 else label for i, label in enumerate(y)], dtype=object)
SOFT = np.eye(3)[np.arange(12) % 3]
NAN, INF = np.nan, np.inf
X_WITH_MISSING = X.copy()
X_WITH_MISSING[1, 1] = X_WITH_MISSING[5, 0] = X_WITH_MISSING[7] = NAN


def learned(Model, **parameters):
    return Model(**parameters).fit(X, y)


def with_class_prior(Model, prior):
    return Model(**{"priors" if Model is GaussianNB else "class_prior": prior})


def assert_refused(model, act, match, error=(ValueError, TypeError)):
    """The act raises an error that says why; the model predicts and holds what it did before."""
    before, stats, names = model.predict_proba(X), pickle.dumps(model.model_.stats), set(vars(model))
    with pytest.raises(error, match=match):
        act(model)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert pickle.dumps(model.model_.stats) == stats
    assert set(vars(model)) == names


def assert_same(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=tolerance, rtol=0)


def assert_posterior(proba):
    """Finite, non-negative, rows sum to one."""
    assert np.isfinite(proba).all()
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


# ---------------------------------------------------------------------- what every model refuses

NARROW = X[:, :2]
REFUSED = {
    "X of 1 dimension": (lambda m: m.fit(X[:, 0], y), "Expected 2D"),
    "X of 3 dimensions": (lambda m: m.fit(X[None], y), "dim 3"),
    "X without columns": (lambda m: m.fit(X[:, :0], y), "0 feature"),
    "X without rows": (lambda m: m.fit(X[:0], y[:0]), "0 sample"),
    "X of ragged rows": (lambda m: m.fit([[1, 2], [3]], [0, 1]), "inhomogeneous"),
    "X of complex numbers": (lambda m: m.fit(X + 1j, y), "Complex"),
    "predict narrow": (lambda m: m.predict(NARROW), "2 features.*expecting 3"),
    "explain narrow": (lambda m: m.explain(NARROW), "2 features.*expecting 3"),
    "partial_fit narrow": (lambda m: m.partial_fit(NARROW, y), "2 features.*expecting 3"),
    "forget narrow": (lambda m: m.forget(NARROW, y), "2 features.*expecting 3"),
    "leave_one_out narrow": (lambda m: m.leave_one_out(NARROW, y), "2 features.*expecting 3"),
    "y short": (lambda m: m.fit(X, y[:-1]), "inconsistent numbers"),
    "y None": (lambda m: m.fit(X, None), "requires y"),
    "y of 3 dimensions": (lambda m: m.fit(X, y[:, None, None]), "dim 3"),
    "y of mixed types": (lambda m: m.fit(X, np.array(["a", 1] * 6, dtype=object)), "int and str"),
    "y continuous": (lambda m: m.fit(X, [0.5, 1.5] * 6), "continuous"),
    "y infinite": (lambda m: m.fit(X, [INF, 1.0] * 6), "infinity: row 0"),
    "y all missing": (lambda m: m.fit(X, [None] * 12), "every label is missing"),
    "y soft, sums of 2": (lambda m: m.fit(X, SOFT * 2), "sum to 1"),
    "y soft, NaN": (lambda m: m.fit(X, SOFT * NAN), "sum to 1"),
    "y soft, negative": (lambda m: m.fit(X, SOFT - 0.5), "≥ 0"),
    "y soft, short": (lambda m: m.fit(X, SOFT[:4]), "inconsistent"),
    "y soft, a class short": (lambda m: m.partial_fit(X, np.full((12, 2), 0.5)), "2 columns.*3 classes"),
    "partial_fit missing labels": (lambda m: m.partial_fit(X, HIDDEN), "row 3 of y has no label"),
    "forget missing labels": (lambda m: m.forget(X, HIDDEN), "label"),
    "leave_one_out missing labels": (lambda m: m.leave_one_out(X, HIDDEN), "label"),
    "partial_fit labels of another kind": (lambda m: m.partial_fit(X[:1], [1]), "cannot be compared"),
    "weights zero": (lambda m: m.fit(X, y, np.zeros(12)), "(?i)weight"),
    "weights negative": (lambda m: m.fit(X, y, -np.ones(12)), r"sample_weight\[0\] is -1.*forget"),
    "weights NaN": (lambda m: m.fit(X, y, np.full(12, NAN)), "NaN"),
    "weights infinite": (lambda m: m.fit(X, y, np.full(12, INF)), "infinity"),
    "weights short": (lambda m: m.fit(X, y, np.ones(3)), r"\(3,\), expected \(12,\)"),
    "weights of 2 dimensions": (lambda m: m.fit(X, y, np.ones((12, 2))), "1D"),
    "forget unknown class": (lambda m: m.forget(X[:1], ["z"]), "class 'z'.*never learned"),
    "forget unknown kind of label": (lambda m: m.forget(X[:1], [7]), "class 7.*never learned"),
    "forget too many": (lambda m: m.forget(np.r_[X, X], np.r_[y, y]), "more rows of class 'a'"),
    "forget missing values": (lambda m: m.forget(X * NAN, y), "never learned|more"),
    "merge narrow": (lambda m: m + type(m)().fit(NARROW, y), "3 features with one of 2"),
    "merge unfitted": (lambda m: m + type(m)(), "not fitted"),
    "merge labels of another kind": (lambda m: m + type(m)().fit(X, np.arange(12) % 3), "cannot be compared"),
    "merge None": (lambda m: m + None, "unsupported operand"),
    "merge another type": (lambda m: m + learned(MODELS[MODELS.index(type(m)) - 1]), "unsupported operand"),
    "prior short": (lambda m: m.with_prior([0.5, 0.5]), "(?i)prior"),
    "prior negative": (lambda m: m.with_prior([-0.5, 1.0, 0.5]), "(?i)prior"),
    "prior NaN": (lambda m: m.with_prior([NAN, 0.5, 0.5]), "(?i)prior"),
    "prior of some classes": (lambda m: m.with_prior({"a": 1.0}), r"missing \['b', 'c'\]"),
    "prior bogus": (lambda m: m.with_prior("bogus"), "'uniform'"),
    "costs of 2 classes": (lambda m: m.decide(X, np.ones((2, 2))), r"shape \(3, 3\)"),
    "costs NaN": (lambda m: m.decide(X, np.full((3, 3), NAN)), "(?i)nan|finite"),
    "costs of an unknown class": (lambda m: m.decide(X, {"z": {"a": 1}}), "'z' is not one of the classes"),
    "costs without answers": (lambda m: m.decide(X, {"a": 1}), "costs"),
    "explain unknown class": (lambda m: m.explain(X[:1], "z"), "'z' is not one of the classes"),
    "explain unknown kind of label": (lambda m: m.explain(X[:1], 7), "7 is not one of the classes"),
    "explain against itself": (lambda m: m.explain(X[:1], "a", "a"), "another class"),
    "explain no row": (lambda m: m.explain(X[:0]), "no row"),
    "alpha negative": (lambda m: m.set_params(alpha=-1.0).fit(X, y), "alpha"),
    "alpha NaN": (lambda m: m.set_params(alpha=NAN).fit(X, y), "alpha"),
    "alpha bogus": (lambda m: m.set_params(alpha="bogus").fit(X, y), "alpha"),
    "alpha empty": (lambda m: m.set_params(alpha=[]).fit(X, y), "alpha"),
    "alpha short": (lambda m: m.set_params(alpha=[1.0, 1.0]).fit(X, y), "alpha"),
    "alpha partly negative": (lambda m: m.set_params(alpha=[1.0, 1.0, -1.0]).fit(X, y), "alpha"),
    "alpha partly NaN": (lambda m: m.set_params(alpha=[1.0, 1.0, NAN]).fit(X, y), "alpha"),
    "alpha of 2 classes": (lambda m: m.set_params(alpha=np.ones((2, 3))).fit(X, y), "alpha"),
    "alpha of 2 columns": (lambda m: m.set_params(alpha=np.ones((3, 2))).fit(X, y), "alpha"),
}


@pytest.mark.crossed(3)
@every_model
@pytest.mark.parametrize("what", REFUSED)
def test_refused(Model, what):
    assert_refused(learned(Model), *REFUSED[what])


@every_model
def test_a_closed_set_of_classes_stays_closed(Model):
    model = Model().partial_fit(X, y, classes=list("abcd"))
    for labels in (["z"], ["abc"], [1]):
        assert_refused(model, lambda m, labels=labels: m.partial_fit(X[:1], labels), "do not exist")
    assert_refused(model, lambda m: m.partial_fit(X, y, classes=list("ab")), "not the same as on last call")
    assert_refused(model, lambda m: m + Model().fit(X[:1], ["z"]), r"'z'\] cannot be added", SchemaError)


@every_generative
def test_samples_of_none_of_too_few_and_of_nobody(Model):
    model = learned(Model)
    for given in (None, "a"):
        rows, labels = model.sample(0, given=given)
        assert (rows.shape, labels.shape) == ((0, 3), (0,))
    assert_refused(model, lambda m: m.sample(-1), "negative")
    assert_refused(model, lambda m: m.sample(2, given="z"), "not one of the classes")


STORED_AS = ["array float64", "array float32", "csr_matrix float64", "csc_matrix float32"]


@pytest.mark.crossed(3)
@every_model
@pytest.mark.parametrize("storage", STORED_AS)
@pytest.mark.parametrize("act", ["fit", "partial_fit", "forget", "leave_one_out", "predict", "explain"])
def test_infinity_is_refused_and_its_place_named(Model, storage, act):
    name, dtype = storage.split()
    bad = X.astype(dtype)
    bad[3, 1] = INF
    bad = bad if name == "array" else getattr(sp, name)(bad)
    rows = (bad,) if act in ("predict", "explain") else (bad, y)
    assert_refused(learned(Model), lambda m: getattr(m, act)(*rows), r"(?i)infinity.*row 3, column '?x?1")


@pytest.mark.parametrize("Model", [*COUNTS, CategoricalNB])
@pytest.mark.parametrize("act", ["fit", "partial_fit", "forget", "leave_one_out", "predict"])
def test_negative_counts_are_refused(Model, act):
    rows = (-X,) if act == "predict" else (-X, y)
    assert_refused(learned(Model), lambda m: getattr(m, act)(*rows), "Negative values")


@pytest.mark.parametrize("values", [X, -X], ids=["above 1", "below 0"])
def test_bernoulli_without_threshold_takes_only_0_and_1(values):
    """Otherwise a probability is above one, and the log of its complement is not a number."""
    with pytest.raises(ValueError, match=r"0 (and|or) 1|binarize"):
        BernoulliNB(binarize=None).fit(values, y)


# ---------------------------------------------------------------------- missing values, few rows, no rows

WHERE = {"column": np.s_[:, 1], "row": np.s_[2], "column of a class": np.s_[::3, 1], "all": np.s_[:]}


@pytest.mark.crossed(3)
@every_model
@pytest.mark.parametrize("alpha", [1.0, 0.0, "empirical", "loo"])
@pytest.mark.parametrize("missing", WHERE)
@impossible_rows_are_fine
def test_whatever_is_missing_the_posterior_is_one(Model, alpha, missing):
    if Model is ComplementNB and alpha == "empirical":
        pytest.skip("complement naive Bayes has no marginal likelihood")
    rows = X.copy()
    rows[WHERE[missing]] = NAN
    model = Model(alpha=alpha).fit(rows, y)
    for proba in (model.predict_proba(rows), model.predict_proba(X), model.leave_one_out(rows, y).proba):
        assert_posterior(proba)


@every_generative
def test_a_row_that_says_nothing_leaves_the_prior(Model):
    proba = with_class_prior(Model, [0.2, 0.3, 0.5]).fit(X, y).predict_proba(np.full((1, 3), NAN))
    np.testing.assert_allclose(proba, [[0.2, 0.3, 0.5]])


@every_model
@pytest.mark.parametrize("alpha", [1.0, "empirical", "loo"])
@pytest.mark.parametrize("lone", [0, 1, 12])
def test_classes_of_one_row(Model, alpha, lone):
    labels = [0] * (12 - lone) + list(range(1, lone + 1))
    if Model is ComplementNB and alpha == "empirical":
        pytest.skip("complement naive Bayes has no marginal likelihood")
    model = Model(alpha=alpha).fit(X, labels)
    assert_posterior(model.predict_proba(X))
    assert not np.isnan(model.leave_one_out(X, labels).log_proba).any()


@every_generative
def test_a_class_of_zero_weight_has_probability_zero(Model):
    model = Model().fit(X, y, np.where(y == "a", 0.0, 1.0))
    proba = model.predict_proba(X)
    assert_posterior(proba)
    assert (proba[:, 0] == 0).all()
    others = Model().fit(X[y != "a"], y[y != "a"])
    np.testing.assert_allclose(proba[:, 1:], others.predict_proba(X), atol=1e-12)


@every_model
@pytest.mark.parametrize("empty", [X[:0], sp.csr_matrix((0, 3))], ids=["dense", "sparse"])
def test_empty_batches_change_nothing(Model, empty):
    model = learned(Model)
    model.partial_fit(empty, []).forget(empty, [])
    assert_same(model, learned(Model), tolerance=0)
    assert model.predict(empty).shape == (0,)
    assert model.predict_proba(empty).shape == (0, 3)
    assert model.leave_one_out(empty, []).log_proba.shape == (0, 3)
    assert_same(Model().partial_fit(empty, []).partial_fit(X, y), learned(Model), tolerance=1e-12)


@every_model
@pytest.mark.parametrize("act", ["predict", "sample", "explain"])
def test_a_model_without_classes_says_so(Model, act):
    if Model is ComplementNB and act == "sample":
        pytest.skip("not generative")
    model = learned(Model).forget(X, y)
    with pytest.raises(ValueError, match=r"(?i)class"):
        getattr(model, act)(*(() if act == "sample" else (X,)))


# ---------------------------------------------------------------------- forgetting and merging


@every_model
def test_forgetting_a_whole_class_by_other_rows_is_refused(Model):
    """The class has no weight left, but some counts: the sums show it."""
    mine = X[y == "a"]
    assert_refused(learned(Model), lambda m: m.forget(np.zeros_like(mine), ["a"] * 4), "column", ForgetError)


def test_bernoulli_cannot_forget_an_absence_it_never_saw():
    """Two rows had the word; after forgetting one without it, two of one row would have it."""
    model = BernoulliNB().fit([[1, 1, 0], [1, 0, 1], [0, 1, 1]], [0, 0, 1])
    assert_refused(model, lambda m: m.forget([[0, 0, 0]], [0]), "column 'x0'", ForgetError)


@every_model
def test_forgetting_everything_and_learning_again(Model):
    model = learned(Model)
    for i in np.random.default_rng(1).permutation(12):
        model.forget(X[i : i + 1], y[i : i + 1])
    assert len(model.classes_) == 0
    assert_same(model.partial_fit(X, y), learned(Model), tolerance=1e-12)


@every_model
@pytest.mark.parametrize("which", ["prior", "alpha"])
def test_forgetting_a_class_the_parameters_name_keeps_the_model_usable(Model, which):
    """A prior or pseudo-counts given per class do not fit when a class goes: refuse, or go on predicting."""
    if Model is GaussianNB and which == "alpha":
        pytest.skip("Gaussians take one alpha")
    model = with_class_prior(Model, [0.2, 0.3, 0.5]) if which == "prior" else Model(alpha=np.ones((3, 3)))
    model.fit(X, y)
    with contextlib.suppress(ForgetError):
        model.forget(X[y == "a"], y[y == "a"])
    assert_posterior(model.predict_proba(X))


@every_model
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_labels_found_by_em_cannot_be_forgotten_even_after_a_merge(Model, left):
    a, b = Model().fit(X, HIDDEN), learned(Model)
    merged = a + b if left else b + a
    with pytest.raises(ForgetError, match="EM"):
        merged.forget(X[3:4], y[3:4])


def test_models_that_read_their_rows_differently_do_not_merge():
    with pytest.raises(SchemaError, match="binarize differs"):
        _ = BernoulliNB(binarize=1.0).fit(X, y) + learned(BernoulliNB)


@every_model
@pytest.mark.parametrize("what", ["alpha", "prior"])
def test_a_merge_does_not_depend_on_the_order(Model, what):
    """Where two models' parameters differ, a + b is b + a, or both are refused."""
    if what == "alpha":
        a, b = learned(Model, alpha=0.5), learned(Model, alpha=5.0)
    else:
        a, b = (with_class_prior(Model, p).fit(X, y) for p in ([0.1, 0.1, 0.8], [0.8, 0.1, 0.1]))
    try:
        ab, ba = a + b, b + a
    except SchemaError:
        return
    assert_same(ab, ba, tolerance=1e-9)


# ---------------------------------------------------------------------- labels


def test_labels_that_are_tuples_do_not_become_a_table():
    labels = np.empty(12, dtype=object)
    labels[:] = [("a", i % 2) for i in range(12)]
    try:
        model = GaussianNB().fit(X, labels)
    except (TypeError, ValueError):
        return
    assert model.classes_.shape == (2,)


def test_large_unsigned_labels():
    labels = np.array([2**64 - 2, 2**64 - 1] * 6, dtype=np.uint64)
    assert GaussianNB().fit(X, labels).classes_.tolist() == [2**64 - 2, 2**64 - 1]


@every_model
@pytest.mark.parametrize("marker", [None, NAN], ids=["None", "NaN"])
@pytest.mark.parametrize("container", [list, lambda v: np.array(v, dtype=object)], ids=["list", "array"])
def test_missing_labels_are_found_not_made_a_class(Model, marker, container):
    """NumPy turns ["a", nan] into the strings "a" and "nan"."""
    model = Model().fit(X, container([marker if label is None else label for label in HIDDEN]))
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.n_unlabelled_ == 3


def test_labels_under_a_mask_are_missing():
    masked = np.ma.array(np.arange(12) % 2, mask=np.arange(12) < 3)
    try:
        model = GaussianNB().fit(X, masked)
    except (TypeError, ValueError):
        return
    assert model.n_unlabelled_ == 3


# ---------------------------------------------------------------------- parameters, decisions, explanations


@every_discrete
def test_a_matrix_of_equal_pseudo_counts_is_the_number(Model):
    assert_same(learned(Model, alpha=np.full((3, 3), 0.7)), learned(Model, alpha=0.7))


@pytest.mark.parametrize("name", ["prior_mean", "prior_var"])
@pytest.mark.parametrize("value", [NAN, INF, [1.0, 2.0], [1.0, NAN, 1.0]])
def test_gaussian_guesses_are_finite_and_fit(name, value):
    with pytest.raises(ValueError, match=name):
        GaussianNB(alpha=1.0, **{name: value}).fit(X, y).predict_proba(X)


@pytest.mark.parametrize("Model", [MultinomialNB, BernoulliNB, CategoricalNB, PoissonNB])
@pytest.mark.parametrize("storage", [np.array, sp.csr_matrix], ids=["dense", "csr"])
def test_impossible_rows_get_the_prior_and_a_warning(Model, storage):
    """alpha=0: a word no class has, and words that exclude each other."""
    model = with_class_prior(Model, [0.3, 0.7]).set_params(alpha=0.0)
    model.fit([[1, 0, 0], [2, 0, 0], [0, 1, 0], [0, 3, 0]], ["a", "a", "b", "b"])
    rows = storage(np.array([[0, 0, 4], [1, 1, 0]]))
    with pytest.warns(ZeroEvidenceWarning, match="2 of 2 rows"):
        np.testing.assert_allclose(model.predict_proba(rows), [[0.3, 0.7]] * 2)
    with pytest.warns(ZeroEvidenceWarning):
        assert model.predict(rows).tolist() == ["b", "b"]


@every_discrete
def test_explaining_an_impossible_row(Model):
    """Evidence of −∞ on both sides is no evidence, not NaN."""
    model = Model(alpha=0.0).fit([[1, 0, 0], [2, 0, 0], [0, 1, 0], [0, 3, 0]], ["a", "a", "b", "b"])
    for why in model.explain([[0, 0, 4], [1, 1, 0], [1, 0, 0]]):
        assert not np.isnan([db for _, _, db in why.items]).any()
        assert 0.0 <= why.probability <= 1.0


@every_model
def test_reject_is_an_answer_of_none(Model):
    model = learned(Model)
    assert model.decide(X, reject=0.0).tolist() == [None] * 12
    assert model.decide(X, reject=1.0).tolist() == model.predict(X).tolist()


@every_model
def test_evidence_against_the_best_class_is_for_the_runner_up(Model):
    model = learned(Model)
    best = model.predict(X[:1])[0]
    assert model.explain(X[:1], against=best).target != best


# ---------------------------------------------------------------------- how rows are stored


def unsorted(A):
    """CSR whose column indices fall."""
    at = [np.flatnonzero((row != 0) | np.isnan(row))[::-1] for row in A]
    values = np.concatenate([A[i, k] for i, k in enumerate(at)])
    ends = np.cumsum([len(k) for k in at])
    return sp.csr_matrix((values, np.concatenate(at), np.r_[0, ends]), shape=A.shape)


def explicit_zeros(A):
    """CSR that stores its zeros."""
    at = np.tile(np.arange(3), len(A))
    return sp.csr_matrix((A.ravel().copy(), at, np.arange(0, A.size + 1, 3)), shape=A.shape)


def duplicates(A):
    """CSR in which every entry is stored as two that add up to it."""
    half = np.floor(A / 2)
    at = np.tile(np.r_[:3, :3], len(A))
    return sp.csr_matrix((np.c_[half, A - half].ravel(), at, np.arange(0, 2 * A.size + 1, 6)), shape=A.shape)


def wide_indices(A):
    out = sp.csr_matrix(A)
    out.indices, out.indptr = out.indices.astype(np.int64), out.indptr.astype(np.int64)
    return out


def read_only(A):
    A = A.copy()
    A.setflags(write=False)
    return A


STORAGES = {
    **{f.__name__: f for f in (sp.csr_matrix, sp.csc_matrix, unsorted, explicit_zeros, duplicates)},
    **{f.__name__: f for f in (wide_indices, read_only, np.asfortranarray)},
    "reversed": lambda A: A[::-1, ::-1].copy()[::-1, ::-1],
    "strided": lambda A: np.repeat(A, 2, axis=1)[:, ::2],
    "big-endian": lambda A: A.astype(">f8"),
    "float16": lambda A: A.astype(np.float16),
    "int64": lambda A: A.astype(np.int64),
    "csc of int8": lambda A: sp.csc_matrix(A.astype(np.int8)),
}
SLOW = ["em", "alpha loo"]  # tried where rows are picked out of X again, which some storages do not survive
HOWS = ["fit", "soft", "predict", "alpha 0", "leave_one_out", "forget", "explain"]
STORED = [
    *((storage, how, False) for storage in STORAGES for how in HOWS),
    *((storage, how, True) for storage in ("csr_matrix", "unsorted", "float16") for how in HOWS),
    *((storage, how, False) for storage in ("csc_matrix", "unsorted", "duplicates", "int64") for how in SLOW),
    *(("csr_matrix", how, True) for how in SLOW),
]


@pytest.mark.crossed(5)
@every_model
@pytest.mark.parametrize(("storage", "how", "with_missing"), STORED)
@impossible_rows_are_fine
def test_storage_does_not_matter_and_stays_as_it_was(Model, storage, how, with_missing):
    rows = X_WITH_MISSING if with_missing else X
    act = {
        "fit": lambda A: Model().fit(A, y).predict_proba(X),
        "soft": lambda A: Model().fit(A, SOFT).predict_proba(X),
        "em": lambda A: Model().fit(A, HIDDEN).predict_proba(X),
        "alpha loo": lambda A: Model(alpha="loo").fit(A, y).predict_proba(X),
        "predict": lambda A: learned(Model).predict_proba(A),
        "alpha 0": lambda A: learned(Model, alpha=0.0).predict_proba(A),
        "leave_one_out": lambda A: Model().fit(rows, y).leave_one_out(A, y).proba,
        "forget": lambda A: Model().fit(rows, y).forget(A[:6], y[:6]).predict_proba(X),
        "explain": lambda A: [why.total for why in learned(Model).explain(A)],
    }[how]
    stored = STORAGES[storage](rows)
    np.testing.assert_allclose(act(stored), act(rows), atol=1e-4 if how in SLOW else 1e-7)
    np.testing.assert_array_equal(stored.toarray() if sp.issparse(stored) else stored, rows)


@every_model
@pytest.mark.parametrize("storage", [np.array, sp.csr_matrix, sp.csc_matrix])
def test_booleans_count_as_0_and_1(Model, storage):
    rows = X > 1
    assert_same(Model().fit(storage(rows), y), Model().fit(rows.astype(float), y), tolerance=1e-9)


# ---------------------------------------------------------------------- far, tiny, huge


RNG = np.random.default_rng(2)
NEAR = RNG.normal(size=(600, 2))
SIDE = np.repeat([0, 1], 300)
NEAR[SIDE == 1, 0] += 1.0
FAR_APART = NEAR + 1e9 * SIDE[:, None]
MIXED = RNG.permutation(600)


def wide_model():
    return GaussianNB(var_smoothing=0.0)


def halves(A, **closed):
    """Two models that saw one class each."""
    return (wide_model().partial_fit(A[part], SIDE[part], **closed) for part in (np.s_[:300], np.s_[300:]))


FAR = {  # ways to learn classes a billion apart, each within a deviation of one
    "fit": lambda A: wide_model().fit(A, SIDE),
    "shuffled": lambda A: wide_model().fit(A[MIXED], SIDE[MIXED]),
    "open merge": lambda A: sum(halves(A)),
    "closed merge": lambda A: sum(halves(A, classes=[0, 1])),
    "closed batches": lambda A: next(halves(A, classes=[0, 1])).partial_fit(A[300:], SIDE[300:]),
    "empty first": lambda A: wide_model().partial_fit(A[:0], [], classes=[0, 1]).partial_fit(A, SIDE),
    "soft": lambda A: wide_model().fit(A, np.eye(2)[SIDE]),
    "sparse": lambda A: wide_model().fit(sp.csr_matrix(A), SIDE),
    "first rows weightless": lambda A: wide_model().fit(
        np.r_[np.zeros((100, 2)), A], np.r_[np.ones(100, int), SIDE], np.r_[np.zeros(100), np.ones(600)]
    ),
    "first rows missing": lambda A: wide_model().fit(np.r_[np.full((100, 2), NAN), A], np.r_[np.ones(100, int), SIDE]),
    "moved": lambda A: wide_model().partial_fit(NEAR, SIDE, classes=[0, 1]).forget(NEAR, SIDE).partial_fit(A, SIDE),
}


@pytest.mark.parametrize("how", FAR)
def test_classes_a_billion_apart_keep_their_variances(how):
    expected = [FAR_APART[:300].var(axis=0), FAR_APART[300:].var(axis=0)]
    np.testing.assert_allclose(FAR[how](FAR_APART).var_, expected, rtol=1e-5)


@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_a_far_offset_changes_no_posterior(offset):
    moved = NEAR + offset
    near, far = GaussianNB().fit(moved - offset, SIDE), GaussianNB().fit(moved, SIDE)
    np.testing.assert_allclose(far.predict_proba(moved), near.predict_proba(moved - offset), atol=1e-6)
    a, b = far.leave_one_out(moved, SIDE), near.leave_one_out(moved - offset, SIDE)
    np.testing.assert_allclose(a.proba, b.proba, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-160, 1e-100, 1e100, 1e150, 1e160, 1e300])
@pytest.mark.parametrize("var_smoothing", [1e-9, 0.0])
def test_units_do_not_matter_or_are_refused(scale, var_smoothing):
    """Squares of 1e-200 underflow and of 1e200 overflow: say so, rather than call the column constant."""
    expected = GaussianNB(var_smoothing=var_smoothing).fit(NEAR, SIDE).predict_proba(NEAR)
    model = GaussianNB(var_smoothing=var_smoothing)
    if 1e-154 < scale < 1e154:
        proba = model.fit(NEAR * scale, SIDE).predict_proba(NEAR * scale)
        np.testing.assert_allclose(proba, expected, atol=1e-9)
        return
    try:
        model.fit(NEAR * scale, SIDE)
    except ValueError:
        with pytest.raises(ValueError, match=r"too (large|small)"):
            model.fit(NEAR * scale, SIDE)
    else:
        np.testing.assert_allclose(model.predict_proba(NEAR * scale), expected, atol=1e-9)


@pytest.mark.parametrize("var_smoothing", [1e-9, 0.0])
def test_a_constant_column_says_nothing(var_smoothing):
    rows = np.c_[np.full(12, 7.0), X]
    with_it = GaussianNB(var_smoothing=var_smoothing).fit(rows, y)
    without = GaussianNB(var_smoothing=var_smoothing).fit(X, y)
    np.testing.assert_allclose(with_it.predict_proba(rows), without.predict_proba(X), atol=1e-12)
    assert_posterior(with_it.predict_proba(rows + 1))


def test_a_column_twice_is_its_evidence_twice():
    model = GaussianNB(var_smoothing=0.0, priors=[0.5, 0.5])
    once = model.fit(NEAR[:, [0]], SIDE).explain(NEAR[:1, [0]], 0, 1).total
    assert model.fit(NEAR[:, [0, 0]], SIDE).explain(NEAR[:1, [0, 0]], 0, 1).total == pytest.approx(2 * once)


@pytest.mark.parametrize("act", ["fit", "partial_fit"])
def test_integer_categories_that_are_names_are_refused(act):
    huge = np.array([[10**12, 1, 1], [3, 0, 1]])
    model = learned(CategoricalNB)
    assert_refused(model, lambda m: getattr(m, act)(huge, ["a", "b"]), r"1000000000000.*strings")
    assert CategoricalNB().fit(huge.astype(str), ["a", "b"]).predict(huge.astype(str)).tolist() == ["a", "b"]


@pytest.mark.parametrize("Model", COUNTS)
def test_counts_near_the_largest_double(Model):
    assert_posterior(learned(Model).predict_proba(X * 1e300))
    assert_refused(learned(Model), lambda m: m.fit(X * 5e307, y), "too large")


# ---------------------------------------------------------------------- frames, copies


@every_model
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_in_another_order_or_by_another_name_are_refused(Model, library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({name: X[:, j] for j, name in enumerate("pqr")})
    wrong = [frame[["q", "p", "r"]], frames.DataFrame({name: X[:, j] for j, name in enumerate("pqz")})]
    model = Model().fit(frame, y)
    for other in wrong:
        for act in (model.predict, lambda A: model.partial_fit(A, y), lambda A: model.forget(A, y)):
            with pytest.raises(ValueError, match="feature names should match"):
                act(other)
        with pytest.raises(SchemaError, match="is called"):
            _ = model + Model().fit(other, y)
    np.testing.assert_array_equal(model.predict_proba(frame), learned(Model).predict_proba(X))


@every_model
def test_copies_are_whole_and_apart(Model):
    model = learned(Model)
    before = model.predict_proba(X)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model + learned(Model)):
        other.partial_fit(X[:1], ["z"]).forget(X[:1], y[:1])
        np.testing.assert_array_equal(model.predict_proba(X), before)
    assert not hasattr(clone(model), "model_")


@every_model
def test_a_first_fit_that_fails_leaves_an_unfitted_model(Model):
    model = Model()
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y[:-1])
    assert vars(model) == vars(Model())


@every_model
@pytest.mark.parametrize(
    "what", ["a column beyond the last", "a column before the first", "rows that end before they begin"]
)
def test_sparse_rows_that_point_outside_are_refused(Model, what):
    broken = sp.csr_matrix(X.astype(float))
    if what == "a column beyond the last":
        broken.indices[0] = 10**6
    elif what == "a column before the first":
        broken.indices[0] = -5
    else:
        broken.indptr[1], broken.indptr[2] = broken.indptr[2] + 2, broken.indptr[1]
    for act in (lambda m: m.fit(broken, y), lambda m: m.predict(broken)):
        assert_refused(learned(Model), act, "out of range")
