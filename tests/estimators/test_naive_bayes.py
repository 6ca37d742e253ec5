"""Naive Bayes over mixed columns: the product of its parts, by hand, by law, on real tables, and on bad ones."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import deciban
from deciban import (
    BernoulliNB,
    CategoricalNB,
    GaussianDiscriminant,
    GaussianNB,
    MultinomialNB,
    NaiveBayes,
    PoissonNB,
)
from deciban.errors import DecibanError, FileError, ForgetError, SchemaError, SingularWarning
from deciban.families import Bernoulli, Complement, Gaussian, MultivariateGaussian
from deciban.storage import files

from . import brute_force

LAWS = {"calls": "poisson", "word_*": "multinomial", "member": "bernoulli", "zone": "categorical"}
NAMED = {**LAWS, "age": "gaussian", "size": "gaussian", "town": "categorical"}  # a batch may have nothing in a column


def mixed(seed, n=30, missing_share=0.2):
    """A table of every kind of column, with missing values, and labels: as a mapping of lists."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    columns = {
        "age": 1e3 + 10 * rng.normal(size=n) + 5 * y,
        "size": 1e-3 * rng.normal(size=n) * (1 + y),
        "town": np.array(["Ghent", "Bruges", "Ypres", ""], dtype=object)[np.minimum(rng.integers(0, 3, n) + y // 2, 2)],
        "member": rng.random(n) < 0.3 + 0.2 * y,
        "calls": rng.poisson(1 + y),
        "zone": rng.integers(1, 4, n) * 10,
        "word_a": rng.poisson(2, n),
        "word_b": rng.poisson(1 + 2 * y),
        "word_c": rng.poisson(1, n),
    }
    gone = rng.random((n, len(columns))) < missing_share
    table = {
        name: [None if gone[i, j] else value for i, value in enumerate(np.asarray(values).tolist())]
        for j, (name, values) in enumerate(columns.items())
    }
    return table, np.array(["no", "maybe", "yes"])[y]


def rows(table, at):
    return {name: [values[i] for i in at] for name, values in table.items()}


def numbers(table, *names):
    return np.array([table[name] for name in names], dtype=float).T


def objects(table, *names):
    return np.array([table[name] for name in names], dtype=object).T


def likelihood(model, X):
    """log p(x | y) of a fitted model."""
    return model.predict_joint_log_proba(X) - np.log(model.model_.stats.weight / model.model_.stats.weight.sum())


def same(a, b, X, tolerance=1e-8):
    assert a.classes_.tolist() == b.classes_.tolist()
    np.testing.assert_allclose(a.predict_log_proba(X), b.predict_log_proba(X), rtol=tolerance, atol=tolerance)
    assert a.model_.stats.same_as(b.model_.stats, tolerance)


# ---------------------------------------------------------------------- what it is


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_product_of_its_parts(seed):
    table, y = mixed(seed)
    model = NaiveBayes(LAWS).fit(table, y)
    parts = [
        (GaussianNB(alpha=1.0, var_smoothing=0.0), numbers(table, "age", "size")),
        (CategoricalNB(), objects(table, "town", "zone")),
        (BernoulliNB(), numbers(table, "member")),
        (PoissonNB(), numbers(table, "calls")),
        (MultinomialNB(), numbers(table, "word_a", "word_b", "word_c")),
    ]
    together = sum(likelihood(part.fit(X, y), X) for part, X in parts)
    np.testing.assert_allclose(likelihood(model, table), together, rtol=1e-10)
    assert [row[:2] for row in model.blocks_.rows] == [
        ("age, size", "gaussian"),
        ("calls", "poisson"),
        ("member", "bernoulli"),
        ("town, zone", "categorical"),
        ("word_a, word_b, word_c", "multinomial"),
    ]


@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical", "EVI", "VVE"])
def test_a_group_is_gaussian_together(shape):
    table, y = mixed(1, missing_share=0.0)
    model = NaiveBayes({("age", "size"): shape, "town": "categorical"}, rest="drop").fit(table, y)
    X = numbers(table, "age", "size")
    group = GaussianDiscriminant(covariance=shape, shrinkage=None, predictive=False, alpha=1.0).fit(X, y)
    town = CategoricalNB().fit(objects(table, "town"), y)
    expected = likelihood(group, X) + likelihood(town, objects(table, "town"))
    np.testing.assert_allclose(likelihood(model, table), expected, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_says_what_the_equations_say(alpha):
    """Loops over rows and columns, from the definitions."""
    table, y = mixed(3)
    laws = {
        "age": brute_force.gaussian,
        "size": brute_force.gaussian,
        "town": brute_force.categorical,
        "zone": brute_force.categorical,
        "member": brute_force.bernoulli,
        "calls": brute_force.poisson,
    }
    prior = np.log([np.mean(y == label) for label in sorted(set(y))])
    total = np.tile(prior, (len(y), 1))
    for name, law in laws.items():
        X = [[None if v == "" else v] for v in table[name]]
        total += brute_force.log_joint(law, X, y, X, alpha=alpha) - prior
    words = numbers(table, "word_a", "word_b", "word_c")
    total += brute_force.multinomial_log_joint(words, y, words, alpha=alpha) - prior
    model = NaiveBayes(LAWS, alpha=alpha).fit(table, y)
    np.testing.assert_allclose(model.predict_joint_log_proba(table), total, rtol=1e-9)
    np.testing.assert_allclose(model.predict_log_proba(table), brute_force.posterior(total), atol=1e-9)
    np.testing.assert_allclose(model.score_samples(table), logsumexp(total, axis=1), rtol=1e-9)


def test_an_array_of_numbers_is_gaussian():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    X[::7, 1] = np.nan
    one, other = NaiveBayes().fit(X, y), GaussianNB(alpha=1.0, var_smoothing=0.0).fit(X, y)
    same(one, other, X, 1e-12)
    np.testing.assert_allclose(one.leave_one_out(X, y).log_proba, other.leave_one_out(X, y).log_proba, atol=1e-12)


def test_columns_far_apart_in_scale_do_not_blur_each_other():
    """The floor of scikit-learn's variances, a share of the widest column's, would dominate the narrow one."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 100)
    X = np.column_stack([1e6 * rng.normal(size=200), 1e-3 * (rng.normal(size=200) + 4 * (y == "b"))])
    assert NaiveBayes().fit(X, y).score(X, y) > 0.95
    assert GaussianNB().fit(X, y).score(X, y) < 0.7


# ---------------------------------------------------------------------- laws


@given(st.integers(0, 10_000), st.integers(2, 25), st.integers(0, 1000))
def test_any_batches_give_one_model(seed, n, how):
    table, y = mixed(seed, n)
    cuts = np.sort(np.random.default_rng(how).integers(0, n + 1, 2))
    batches = np.split(np.random.default_rng(how).permutation(n), cuts)
    batches = [at for at in batches if len(at)]
    whole, stream = NaiveBayes(NAMED).fit(table, y), NaiveBayes(NAMED)
    for at in batches:
        stream.partial_fit(rows(table, at), y[at])
    same(stream, whole, table)
    parts = [NaiveBayes(NAMED).fit(rows(table, at), y[at]) for at in batches]
    same(sum(parts), whole, table)


@given(st.integers(0, 10_000), st.integers(3, 25), st.integers(0, 1000))
def test_forgetting_is_never_having_seen(seed, n, which):
    table, y = mixed(seed, n)
    gone = np.random.default_rng(which).random(n) < 0.5
    gone[np.random.default_rng(which).integers(n)] = False
    model = NaiveBayes(NAMED).fit(table, y).forget(rows(table, np.flatnonzero(gone)), y[gone])
    left = NaiveBayes(NAMED).fit(rows(table, np.flatnonzero(~gone)), y[~gone])
    same(model, left, table, 1e-6)  # what rounding leaves of sums of squares that were subtracted


@given(st.integers(0, 10_000), st.integers(2, 8), st.sampled_from([0.5, 1.0, 3.0]))
def test_leave_one_out_is_refitting(seed, n, alpha):
    """Every row occurs twice, so that no category disappears with a row."""
    table, y = mixed(seed, n)
    table, y = {name: values * 2 for name, values in table.items()}, np.tile(y, 2)
    left_out = NaiveBayes(LAWS, alpha=alpha).fit(table, y).leave_one_out(table, y)
    for i in range(n):
        others = np.delete(np.arange(2 * n), i)
        again = NaiveBayes(LAWS, alpha=alpha).fit(rows(table, others), y[others])
        np.testing.assert_allclose(left_out.log_proba[i], again.predict_log_proba(rows(table, [i]))[0], atol=1e-7)


@pytest.mark.parametrize("shape", ["full", "tied", "diag"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_leave_one_out_and_forgetting_with_a_group(shape, alpha):
    table, y = mixed(5, 40, missing_share=0.0)
    table["town"][3] = table["calls"][7] = None
    model = NaiveBayes({("age", "size", "calls"): (shape, alpha), "word_*": "multinomial"})
    table["calls"][7] = 2
    model.fit(table, y)
    left_out = model.leave_one_out(table, y)
    for i in (0, 3, 11):
        others = np.delete(np.arange(40), i)
        again = clone(model).fit(rows(table, others), y[others])
        np.testing.assert_allclose(left_out.log_proba[i], again.predict_log_proba(rows(table, [i]))[0], atol=1e-7)
        same(pickle.loads(pickle.dumps(model)).forget(rows(table, [i]), y[[i]]), again, table, 1e-6)


@given(st.integers(0, 10_000), st.integers(3, 20))
def test_weights_are_repeats(seed, n):
    table, y = mixed(seed, n)
    times = np.random.default_rng(seed).integers(0, 3, n)
    times[0] = 1
    at = np.repeat(np.arange(n), times)
    weighted = NaiveBayes(NAMED).fit(table, y, sample_weight=times)
    classes = np.unique(y)
    repeated = NaiveBayes(NAMED).partial_fit(rows(table, at), y[at], classes=classes)
    np.testing.assert_allclose(
        weighted.predict_joint_log_proba(table), repeated.predict_joint_log_proba(table), rtol=1e-8
    )


def test_the_order_of_columns_is_no_matter():
    table, y = mixed(2)
    names = list(table)
    turned = pd.DataFrame(table)[names[::-1]]
    model = NaiveBayes(LAWS).fit(pd.DataFrame(table), y)
    np.testing.assert_array_equal(model.predict_proba(turned), model.predict_proba(pd.DataFrame(table)))
    same(model, NaiveBayes(LAWS).fit(turned, y), table, 1e-12)
    same(model + NaiveBayes(LAWS).fit(turned, y), NaiveBayes(LAWS).fit(table, y).partial_fit(turned, y), table, 1e-12)
    model.partial_fit(turned.assign(extra="never mind"), y).forget(turned, y)
    same(model, NaiveBayes(LAWS).fit(table, y), table)


# ---------------------------------------------------------------------- tables


def libraries(table):
    return {
        "pandas": pd.DataFrame(table),
        "polars": pl.DataFrame(table),
        "lazy": pl.LazyFrame(table),
        "arrow": pa.table(table),
        "dict": table,
        "dicts": [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)],
    }


@pytest.mark.parametrize("library", ["pandas", "polars", "lazy", "arrow", "dict", "dicts"])
def test_every_library_says_the_same(library):
    table, y = mixed(4)
    expected = NaiveBayes(LAWS).fit(table, y)
    given_table = libraries(table)[library]
    model = NaiveBayes(LAWS).fit(given_table, y)
    assert model.feature_names_in_.tolist() == list(table)
    np.testing.assert_allclose(model.predict_proba(given_table), expected.predict_proba(table), rtol=1e-12)
    drawn, classes = model.sample(8, random_state=0)
    kinds = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.DataFrame, "arrow": pa.Table}
    assert isinstance(drawn, kinds.get(library, dict))
    assert model.predict_proba(drawn).shape == (8, 3)
    assert set(classes) <= set(y)


def test_an_array_of_objects_goes_by_place():
    table, y = mixed(4)
    X = objects(table, *table)
    laws = {4: "poisson", (6, 7, -1): "multinomial", "x3": "bernoulli", 5: "categorical"}
    model = NaiveBayes(laws).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), NaiveBayes(LAWS).fit(table, y).predict_proba(table), rtol=1e-12)
    assert not hasattr(model, "feature_names_in_")
    assert model.sample(3)[0].shape == (3, 9)
    named = model.explain(X[:1], names=list(table))
    assert {name for name, _, _ in named.items} <= set(table)
    with pytest.raises(ValueError, match="X has 8 features, but NaiveBayes is expecting 9"):
        model.predict(X[:, :8])
    with pytest.warns(UserWarning, match="X has feature names, but NaiveBayes was fitted without"):
        model.predict(pd.DataFrame(table))


def test_samples_are_of_the_kind_that_was_learned():
    table, y = mixed(6, 200)
    table["when"] = list(np.datetime64("2024-01-01") + np.arange(200).astype("timedelta64[D]"))
    model = NaiveBayes({**LAWS, "size": "drop"}).fit(pd.DataFrame(table), y)
    drawn, classes = model.sample(500, given="yes", random_state=0)
    assert drawn.columns.tolist() == [name for name in table if name != "size"]
    assert set(drawn["town"]) <= {"Ghent", "Bruges", "Ypres"}
    assert set(drawn["member"]) == {False, True}
    assert set(drawn["zone"]) <= {10, 20, 30}
    assert drawn["calls"].dtype.kind == "i"
    assert drawn["when"].dtype.kind == "M"
    assert set(classes) == {"yes"}
    params = {row[:2]: row[2:] for row in model.params.rows}
    mean, variance = params["age", "mean"][2], params["age", "variance"][2]
    assert abs(drawn["age"].mean() - mean) < 4 * np.sqrt(variance / 500)  # four standard errors
    shown = params["member", "probability"][2]
    assert abs(drawn["member"].mean() - shown) < 4 * np.sqrt(shown * (1 - shown) / 500)


def test_labels_are_a_column_of_the_table():
    table, y = mixed(7)
    expected = NaiveBayes(LAWS).fit(table, y)
    whole = {**table, "label": y.tolist()}
    for frame in libraries(whole).values():
        model = NaiveBayes(LAWS).fit(frame, "label")
        assert model.n_features_in_ == len(table)
        np.testing.assert_allclose(model.predict_proba(frame), expected.predict_proba(table), rtol=1e-12)
        assert model.leave_one_out(frame, "label").accuracy == expected.leave_one_out(table, y).accuracy
        assert model.score(frame, "label") == expected.score(table, y)
        same(model.partial_fit(frame, "label").forget(frame, "label"), expected, table)
    with pytest.raises(DecibanError, match="there is no column 'lable': did you mean 'label'"):
        NaiveBayes().fit(whole, "lable")
    with pytest.raises(DecibanError, match="have no names"):
        NaiveBayes().fit(np.eye(3), "label")


# ---------------------------------------------------------------------- which columns, which law


def test_patterns_groups_and_the_rest():
    table, y = mixed(8)
    blocks = (
        NaiveBayes({"word_*": "poisson", "word_b": "gaussian", ("calls", "zone"): "gaussian"}).fit(table, y).blocks_
    )
    assert [row[:2] for row in blocks.rows] == [
        ("age, size, word_b", "gaussian"),  # given one by one: one block
        ("calls, zone", "gaussian"),  # a group: a block of its own
        ("member, town", "categorical"),
        ("word_a, word_c", "poisson"),
    ]
    starred = {**table, "word_*": table["age"]}
    model = NaiveBayes({"word_*": "gaussian"}, rest="drop").fit(starred, y)
    assert [row[:2] for row in model.blocks_.rows] == [("word_*", "gaussian")]
    model = NaiveBayes({"town": "categorical", "age": Gaussian(predictive=True)}, rest=("bernoulli", 0.5)).fit(
        {name: table[name] for name in ("age", "town", "calls", "member")}, y
    )
    assert [(row[1], row[2]) for row in model.blocks_.rows] == [
        ("gaussian", 1.0),
        ("bernoulli", 0.5),
        ("categorical", 1.0),
    ]


@pytest.mark.parametrize(
    ("columns", "rest", "match"),
    [
        ({"agee": "gaussian"}, "auto", "names 'agee'.*'age', 'size'"),
        ({12: "gaussian"}, "auto", "names column 12, but there are 9 of them"),
        ({"w?": "gaussian"}, "auto", "no remaining column matches 'w\\?'"),
        (
            {"age": "gaussian", ("size", "age"): "full"},
            "auto",
            "names 'age' twice: by 'age' and by \\('size', 'age'\\)",
        ),
        ({"age": "gaussian", 0: "poisson"}, "auto", "names 'age' twice: by 'age' and by 0"),
        ({"word_*": "poisson", "*_a": "poisson"}, "auto", "names 'word_a' twice: by 'word_\\*' and by '\\*_a'"),
        ({"age": "gausian"}, "auto", "'gausian' is not a distribution: choose from 'gaussian', 'categorical'"),
        ({"age": Complement()}, "auto", "the family 'complement' is not a distribution"),
        ({"age": 3}, "auto", "3 is not a distribution"),
        ({"age": ("gaussian", -1)}, "auto", "alpha is -1: it must be a number from 0"),
        ({"age": ("gaussian", "best")}, "auto", "alpha is 'best'"),
        ({"age": ("gaussian", 1, 2)}, "auto", "is not a distribution: give a family, or a pair"),
        ({True: "gaussian"}, "auto", "has the key True"),
        ({(): "gaussian"}, "auto", "has an empty key"),
        ({"calls": "multinomial"}, "auto", "a bag of words with the single column 'calls'"),
        ({"age": "gaussian"}, "error", "does not mention 'calls', 'member'"),
        (None, "drop", "no column is left to learn from"),
        (None, "outo", "'outo' is not a distribution"),
        (
            {"town": "gaussian"},
            "auto",
            "column 'town' holds '[A-Z][a-z]+' in row [0-9]+, but a gaussian distribution takes numbers",
        ),
        ({"town": "bernoulli"}, "auto", "column 'town' holds '[A-Z][a-z]+' in row"),
        ({"size": "poisson"}, "auto", "column 'size' holds -[0-9e.-]+ in row [0-9]+, but counts are never negative"),
        (["age"], "auto", "The 'columns' parameter of NaiveBayes must be"),
    ],
)
def test_bad_layouts_are_refused(columns, rest, match):
    table, y = mixed(9)
    with pytest.raises(ValueError, match=match):
        NaiveBayes(columns, rest=rest).fit(table, y)


def test_bad_rows_are_refused_and_leave_the_model_as_it_was():
    table, y = mixed(9)
    model = NaiveBayes(LAWS).fit(table, y)
    before, names = pickle.dumps(model.model_.stats), set(vars(model))
    short = {name: values for name, values in table.items() if name != "zone"}
    words = {**table, "age": ["old"] * 30}
    years = {**table, "town": [1.5] * 30}
    towns = {**table, "zone": ["ten"] * 30}
    endless = {**table, "age": [np.inf] * 30}
    for bad, match in [
        (short, "column 'zone' is missing"),
        (words, "column 'age' holds 'old' in row 0.*gaussian"),
        (years, "column 'town' holds 1.5.*'Bruges'"),
        (towns, "column 'zone' holds 'ten'.* 10"),
        (endless, "column 'age' holds inf in row 0"),
    ]:
        for act in (
            lambda bad=bad: model.predict(bad),
            lambda bad=bad: model.partial_fit(bad, y),
            lambda bad=bad: model.forget(bad, y),
            lambda bad=bad: model.leave_one_out(bad, y),
        ):
            with pytest.raises(DecibanError, match=match):
                act()
    with pytest.raises(ForgetError, match="learned"):
        model.forget({**table, "town": ["Atlantis"] * 30}, y)
    assert pickle.dumps(model.model_.stats) == before
    assert set(vars(model)) == names
    for empty in ({}, pd.DataFrame(), {"age": []}):
        with pytest.raises(ValueError, match="a minimum of 1 is required"):
            NaiveBayes().fit(empty, [])
    model.set_params(columns={"age": "gaussian"})
    with pytest.raises(ValueError, match="last batch"):
        model.partial_fit(table, y)


def test_a_dropped_column_need_not_come_again():
    table, y = mixed(9)
    model = NaiveBayes({"zone": "drop", "word_*": "drop"}).fit(pd.DataFrame(table), y)
    model.predict(pd.DataFrame(table).drop(columns=["zone", "word_a"]))
    assert not {"zone", "word_a"} & set(model.sample(2)[0])


def test_columns_without_a_value_say_nothing():
    table, y = mixed(9)
    expected = NaiveBayes(LAWS).fit(table, y).predict_proba(table)
    empty = {**table, "never": [None] * 30, "nothing": np.full(30, np.nan)}
    model = NaiveBayes({**LAWS, "never": "categorical"}).fit(empty, y)
    np.testing.assert_allclose(model.predict_proba(empty), expected, rtol=1e-12)
    nothing = {name: [None] for name in empty}
    np.testing.assert_allclose(model.predict_proba(nothing)[0], model.class_prior_, rtol=1e-12)


def test_categories_never_seen_and_new_ones():
    table, y = mixed(10)
    model = NaiveBayes(rest="drop", columns={"town": "categorical"}).fit(table, y)
    town = CategoricalNB().fit(objects(table, "town"), y)
    np.testing.assert_allclose(model.predict_proba({"town": ["Atlantis"]}), town.predict_proba([["Atlantis"]]))
    model.partial_fit({"town": ["Atlantis", None]}, ["yes", "no"])
    town.partial_fit([["Atlantis"], [None]], ["yes", "no"])
    np.testing.assert_allclose(model.predict_proba({"town": ["Atlantis"]}), town.predict_proba([["Atlantis"]]))
    assert model.explain({"town": ["Utopia"]}).items[0][:2] == ("town", "(never seen)")
    model.forget({"town": ["Atlantis", None]}, ["yes", "no"])
    same(model, NaiveBayes({"town": "categorical"}, rest="drop").fit(table, y), table)
    flags = NaiveBayes().fit({"flag": [True, True, None]}, ["a", "b", "b"])
    assert flags.model_.columns().categories == ((True,),)  # False never came
    assert flags.partial_fit({"flag": [False]}, ["a"]).model_.columns().categories == ((True, False),)


# ---------------------------------------------------------------------- hidden labels and entries


def test_gaps_in_a_group_are_expected_and_nothing_is_counted_twice():
    table, y = mixed(11, 60, missing_share=0.0)
    table["size"][::5] = [None] * 12
    model = NaiveBayes({("age", "size"): "full", "town": "categorical"}, rest="drop").fit(table, y)
    X = numbers(table, "age", "size")
    group = GaussianDiscriminant(shrinkage=None, predictive=False, alpha=1.0).fit(X, y)
    town = CategoricalNB().fit(objects(table, "town"), y)
    assert model.class_count_.sum() == pytest.approx(60)
    assert model.model_.stats.sums[1]["is"].sum() == 60
    expected = likelihood(group, X) + likelihood(town, objects(table, "town"))
    np.testing.assert_allclose(likelihood(model, table), expected, rtol=1e-4)  # where each EM came to rest
    assert model.n_incomplete_ == 12
    with pytest.raises(ForgetError, match="EM"):
        model.forget(table, y)
    more = NaiveBayes({("age", "size"): "full", "town": "categorical"}, rest="drop")
    whole = [i for i in range(60) if table["size"][i] is not None]
    more.fit(rows(table, whole), y[whole]).partial_fit(rows(table, range(0, 60, 5)), y[::5])
    assert more.class_count_.sum() == pytest.approx(60)
    assert more.model_.stats.sums[1]["is"].sum() == pytest.approx(60)


@pytest.mark.parametrize("columns", [LAWS, {("age", "size"): "full", "word_*": "multinomial"}])
def test_missing_labels_are_found(columns):
    table, y = mixed(12, 150, missing_share=0.05)
    hidden = np.array([None if i % 3 == 0 else label for i, label in enumerate(y)], dtype=object)
    model = NaiveBayes(columns, alpha=0.0).fit(table, hidden)
    trace = np.array(model.em_.log_likelihood)
    assert (np.diff(trace) >= -1e-8 * np.abs(trace[:-1])).all()  # EM climbs, but for rounding
    assert model.class_count_.sum() == pytest.approx(150)
    assert model.n_unlabelled_ == 50
    marked = NaiveBayes(columns, alpha=0.0).fit(table, np.where(hidden == None, "?", hidden), unlabelled="?")  # noqa: E711 - entry by entry
    np.testing.assert_allclose(marked.predict_proba(table), model.predict_proba(table), atol=1e-8)


def test_clusters_of_mixed_rows_are_found():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 60)
    table = {"x": rng.normal(size=120) + 5 * truth, "c": [["red", "blue"][v] for v in truth], "n": rng.poisson(2, 120)}
    model = NaiveBayes({"n": "poisson"}).fit(table, clusters=2)
    predicted = model.predict(table)
    assert max(np.mean(predicted == truth), np.mean(predicted != truth)) > 0.95
    with pytest.raises(ValueError, match="there are only 120 rows"):
        NaiveBayes().fit(table, clusters=121)


# ---------------------------------------------------------------------- answers


def test_explanations_add_up_and_show_values():
    table, y = mixed(13, missing_share=0.1)
    model = NaiveBayes({**LAWS, ("age", "size"): "full"}).fit(table, y)
    log_joint = model.predict_joint_log_proba(table)
    for i in range(30):
        evidence = model.explain(rows(table, [i]), target="yes", against="no")
        expected = (log_joint[i, 2] - log_joint[i, 1]) * 10 / np.log(10)
        assert evidence.total == pytest.approx(expected, abs=1e-8)
        values = {name: value for name, value, _ in evidence.items}
        assert values.get("town") in (table["town"][i], None)
        assert values.get("zone") == table["zone"][i]
        assert "(spread of the class)" in values
    assert len(model.explain(rows(table, [0, 1]))) == 2
    assert {row[1] for row in model.top_evidence(40).rows} >= {"age", "town=Ghent", "calls", "word_b", "member"}
    assert {row[0] for row in model.params.rows} >= {"age", "town=Ghent", "calls", "zone=10"}
    with pytest.raises(TypeError, match="not linear"):
        model.linear_form()


def test_linear_blocks_have_one_linear_form():
    table, y = mixed(13, missing_share=0.0)
    model = NaiveBayes({"word_*": "multinomial", "member": "bernoulli"}, rest="drop").fit(table, y)
    form = model.linear_form()
    X = np.array([dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)])
    scores = np.array([[float(row[item]) for item in form.items] for row in X]) @ form.weights.T + form.offsets
    np.testing.assert_allclose(scores, model.predict_joint_log_proba(table), rtol=1e-9)


def test_priors_and_decisions():
    table, y = mixed(14, 90)
    model = NaiveBayes(LAWS).fit(table, y)
    given_prior = {"maybe": 0.2, "no": 0.3, "yes": 0.5}
    other = model.with_prior(given_prior)
    again = NaiveBayes(LAWS, class_prior=[0.2, 0.3, 0.5]).fit(table, y)
    same(other, again, table)
    assert NaiveBayes(LAWS, class_prior="uniform").fit(table, y).class_prior_.tolist() == pytest.approx([1 / 3] * 3)
    with pytest.raises(ValueError, match="sum of the priors should be 1"):
        NaiveBayes(LAWS, class_prior=[0.2, 0.3, 0.6]).fit(table, y)
    with pytest.raises(ValueError, match="Number of priors must match"):
        NaiveBayes(LAWS, class_prior=[0.2, 0.8]).fit(table, y)
    many = np.flatnonzero(y == "yes").tolist() * 5 + np.flatnonzero(y != "yes").tolist()
    adapted = model.adapt_prior(rows(table, many))
    assert adapted.class_prior_[2] > model.class_prior_[2] + 0.1
    assert set(model.decide(table, reject=0.0)) <= {None, "yes", "no", "maybe"}
    costs = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [50.0, 50.0, 0.0]])  # truth by answer: maybe, no, yes
    least = model.classes_[np.argmin(model.predict_proba(table) @ costs, axis=1)]
    assert model.decide(table, costs={"yes": {"no": 50, "maybe": 50}}).tolist() == least.tolist()


def test_alpha_is_chosen_block_by_block():
    table, y = mixed(15, 80)
    model = NaiveBayes({**LAWS, "calls": ("poisson", 0.25)}, alpha="empirical").fit(table, y)
    alphas = {row[0]: row[2] for row in model.blocks_.rows}
    assert alphas["calls"] == 0.25
    single = CategoricalNB(alpha="empirical").fit(objects(table, "town", "zone"), y)
    assert alphas["town, zone"] == pytest.approx(single.alpha_, rel=1e-4)
    words = MultinomialNB(alpha="empirical").fit(numbers(table, "word_a", "word_b", "word_c"), y)
    assert alphas["word_a, word_b, word_c"] == pytest.approx(words.alpha_, rel=1e-4)

    chosen = NaiveBayes({**LAWS, "calls": ("poisson", 0.25)}, alpha="loo").fit(table, y)
    plain = NaiveBayes({**LAWS, "calls": ("poisson", 0.25)}).fit(table, y)
    assert chosen.alpha_[1] == 0.25
    some = rows(table, range(79)), y[:79]  # not all that was learned: choices are held
    assert chosen.leave_one_out(*some).log_loss < plain.leave_one_out(*some).log_loss
    kept = chosen.alpha_
    assert chosen.partial_fit(table, y).alpha_ == kept
    other = NaiveBayes({**LAWS, "calls": ("poisson", 0.25)}, alpha="loo").fit(rows(table, range(40)), y[:40])
    for mine, theirs, between in zip(kept, other.alpha_, (chosen + other).alpha_, strict=True):
        assert min(mine, theirs) * (1 - 1e-9) <= between <= max(mine, theirs) * (1 + 1e-9)


def test_singular_groups_are_repaired_and_said_so():
    table, y = mixed(16, missing_share=0.0)
    table["twice"] = [2 * value for value in table["age"]]
    with pytest.warns(SingularWarning, match="left out"):
        NaiveBayes({("age", "twice"): ("full", 0.0)}, rest="drop").fit(table, y)
    table["same"] = [1.0] * 30
    with pytest.warns(SingularWarning, match="'same' is constant"):
        NaiveBayes({"word_*": "multinomial", ("age", "same"): ("tied", 0.0)}, rest="drop").fit(table, y)


# ---------------------------------------------------------------------- merging, keeping


def test_models_of_other_columns_do_not_merge():
    table, y = mixed(17)
    model = NaiveBayes(LAWS).fit(table, y)
    with pytest.raises(SchemaError, match="whose alpha differs"):
        model + NaiveBayes(LAWS, alpha=2.0).fit(table, y)
    with pytest.raises(SchemaError, match="'calls' is poisson in one and gaussian in the other"):
        model + NaiveBayes().fit(table, y)
    with pytest.raises(SchemaError, match="whose columns differs"):
        model + NaiveBayes({**LAWS, "calls": ("poisson", 2.0)}).fit(table, y)
    with pytest.raises(SchemaError, match="'town' is categorical in one and gaussian in the other"):
        model + NaiveBayes(LAWS).fit({**table, "town": table["age"]}, y)
    with pytest.raises(SchemaError, match="only one of them has 'more'"):
        model + NaiveBayes(LAWS).fit({**table, "more": table["age"]}, y)
    renamed = {("years" if name == "age" else name): values for name, values in table.items()}
    with pytest.raises(SchemaError, match="only one of them has 'age', 'years'"):
        model + NaiveBayes(LAWS).fit(renamed, y)


@pytest.mark.parametrize("alpha", [0.5, "empirical", "loo"])
def test_a_saved_model_goes_on(alpha, tmp_path):
    table, y = mixed(18, missing_share=0.1)
    columns = {
        ("age", "size"): (MultivariateGaussian(covariance="tied", sphere=0.1), 0.0),
        "member": Bernoulli(threshold=0.5),
        "zone": "drop",
        "calls": ("poisson", alpha),
    }
    complete = [i for i in range(30) if table["age"][i] is not None and table["size"][i] is not None]
    table, y = rows(table, complete), y[complete]
    model = NaiveBayes(columns, rest="auto", alpha=alpha).fit(pd.DataFrame(table), y)
    model.save(tmp_path / "model.deciban")
    again = deciban.load(tmp_path / "model.deciban")
    assert again.columns == columns
    for one in (model, again):
        one.partial_fit(table, y).forget(rows(table, range(3)), y[:3])
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    assert again.alpha_ == model.alpha_
    assert isinstance(again.sample(2)[0], pd.DataFrame)
    same(again + model, model + model, table)
    model.set_params(rest="drop")
    with pytest.raises(ValueError, match="saving"):
        model.save(tmp_path / "other.deciban")


@pytest.mark.parametrize("kinds", [["number"] * 9, ["number"], ["wave"] * 9])
def test_a_file_whose_parts_do_not_fit_is_refused(kinds, tmp_path):
    table, y = mixed(18)
    model = NaiveBayes(LAWS).fit(table, y)
    about = {"model": "NaiveBayes", "parameters": model._parameters_out(), **model._about()}
    about["state"] = {"kinds_": kinds, "table_kind_": "dict"}
    files.write_parts(tmp_path / "broken.deciban", *model.model_.pack(), about)
    with pytest.raises(FileError, match="damaged"):
        deciban.load(tmp_path / "broken.deciban")


# ---------------------------------------------------------------------- real tables


def by_scipy(frame, y, new, alpha=1.0):
    """log p(x, y) of a mixed naive Bayes written for this test, with pandas and SciPy alone."""
    labels = np.unique(y)
    out = np.zeros((len(new), len(labels)))
    for c, label in enumerate(labels):
        mine = frame[y == label]
        out[:, c] = np.log(len(mine) / len(frame))
        for name in frame:
            values, seen = new[name], mine[name].dropna()
            if pd.api.types.is_numeric_dtype(frame[name]):
                centre, spread = frame[name].mean(), frame[name].var(ddof=0)
                mean = (seen.sum() + alpha * centre) / (len(seen) + alpha)
                squares = ((seen - mean) ** 2).sum() + alpha * (spread + (centre - mean) ** 2)
                log_density = norm.logpdf(values, mean, np.sqrt(squares / (len(seen) + alpha)))
                out[:, c] += np.where(np.isnan(values), 0.0, log_density)
            else:
                sizes = frame[name].nunique()
                counts = values.map(seen.value_counts()).fillna(0.0)
                new_one = ~values.isin(frame[name].dropna().unique())
                log_density = np.log((counts + alpha) / (len(seen) + alpha * (sizes + new_one)))
                out[:, c] += np.where(values.isna(), 0.0, log_density)
    return out


LARGE = ["adult", "anneal"]
REAL = [
    "heart_cleveland",
    "credit_approval",
    "hepatitis",
    "cmc",
    *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE),
]


def as_frame(data):
    numeric = pd.DataFrame(data.numbers, columns=data.numeric) if data.numeric else pd.DataFrame()
    names = pd.DataFrame(data.categories, columns=data.nominal)
    return pd.concat([numeric, names], axis=1).dropna(axis=1, how="all")


@pytest.mark.parametrize("name", REAL)
def test_real_tables_against_scipy(table, name):
    data = table(name)
    frame, y = as_frame(data), data.y
    learn = np.random.default_rng(0).random(len(y)) < 0.7
    frame = frame.loc[:, frame[learn].notna().any()]
    frame = frame.loc[:, [not pd.api.types.is_numeric_dtype(frame[c]) or frame[learn][c].var() > 0 for c in frame]]
    model = NaiveBayes().fit(frame[learn], y[learn])
    expected = by_scipy(frame[learn], y[learn], frame[~learn])
    log_joint = model.predict_joint_log_proba(frame[~learn])
    np.testing.assert_allclose(log_joint, expected, rtol=1e-9, atol=1e-8)
    parts = NaiveBayes().fit(frame[learn][::2], y[learn][::2]) + NaiveBayes().fit(frame[learn][1::2], y[learn][1::2])
    np.testing.assert_allclose(parts.predict_joint_log_proba(frame[~learn]), log_joint, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("name", "least"), [("heart_cleveland", 0.52), ("credit_approval", 0.75), ("hepatitis", 0.8)])
def test_real_tables_are_told_apart(table, name, least):
    """Better than always the commonest class, by cross-validation; the bounds are its results, less two points."""
    data = table(name)
    frame, y = as_frame(data), data.y
    scores = cross_val_score(NaiveBayes(), frame, y, cv=5)
    assert scores.mean() > max(least, np.unique(y, return_counts=True)[1].max() / len(y))
    model = NaiveBayes().fit(frame, y)
    held = model.leave_one_out(frame, y)
    assert held.accuracy > least
    for i in range(0, len(y), 40):
        again = NaiveBayes().fit(frame.drop(index=i), np.delete(y, i))
        if again.model_.schema.blocks[-1].categories == model.model_.schema.blocks[-1].categories:
            np.testing.assert_allclose(held.log_proba[i], again.predict_log_proba(frame.iloc[[i]])[0], atol=1e-8)


# ---------------------------------------------------------------------- scikit-learn


@pytest.mark.slow_where(r"rest=")
@pytest.mark.filterwarnings("ignore::deciban.SingularWarning")  # some of its tables have few rows
@parametrize_with_checks([NaiveBayes(), NaiveBayes(rest="full"), NaiveBayes({0: "gaussian"}, rest="tied")])
def test_estimator(estimator, check):
    check(estimator)


def test_a_class_without_a_value_keeps_the_digits_of_far_offsets() -> None:
    """A class that has nothing in a column yet has its pivot near the others', where the prior is."""
    X = np.array([[1e8, 1e8], [1e8 + 1, 1e8 + 1], [1e8 + 2, 1e8 + 2], [1e8 + 1, np.nan], [1e8 + 3, np.nan]])
    y = np.array([0, 0, 0, 1, 1])
    whole = deciban.GaussianNB(alpha=1, var_smoothing=0).fit(X, y)
    parts = deciban.GaussianNB(alpha=1, var_smoothing=0).partial_fit(X[:3], y[:3]).partial_fit(X[3:], y[3:])
    np.testing.assert_allclose(parts.var_, whole.var_, rtol=1e-9)
