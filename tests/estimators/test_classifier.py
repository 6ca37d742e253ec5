"""Any table in, labels out: what the Classifier promises, on made-up tables, bad ones and real ones."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from effort import growth
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import deciban
from deciban import Classifier, TextClassifier, load, read
from deciban.bayes import DECIBANS
from deciban.errors import DecibanError, FileError, ForgetError, SchemaError
from deciban.tables.experts.boosted import BoostedTrees
from deciban.threads import own_threads, threaded_libraries

NAMES = ("size", "legs", "colour", "wild")


def animals(n=120, seed=0, gaps=0.08, classes=("cow", "duck", "hen")):
    """A table with numbers, counts, categories and booleans, some missing, dependent on the class and on each other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(classes), n)
    big = rng.normal(size=n)
    colours = np.array(["brown", "white", "black"])[(y + rng.integers(0, 2, n)) % 3]
    columns = {
        "size": (2.0 * (y == 0) + big).tolist(),
        "legs": np.where(rng.random(n) < 0.9, np.where(y == 0, 4, 2), 3).tolist(),
        "colour": colours.tolist(),
        "wild": (big > 0.5).tolist(),
    }
    for column in columns.values():
        for i in np.flatnonzero(rng.random(n) < gaps):
            column[i] = None
    return columns, np.array(classes)[y]


def some(table, rows):
    """Some rows of a mapping of lists."""
    rows = np.arange(len(next(iter(table.values()))))[rows]
    return {name: [column[i] for i in rows] for name, column in table.items()}


@pytest.fixture(scope="module")
def world():
    X, y = animals()
    return Classifier().fit(X, y), X, y


@pytest.fixture(scope="module")
def real(table):
    """real("voting"): a real table as a mapping of columns, and its labels."""

    def get(name):
        own = table(name)
        X = {name: own.numbers[:, j].tolist() for j, name in enumerate(own.numeric)}
        return X | {name: own.categories[:, j].tolist() for j, name in enumerate(own.nominal)}, own.y

    return get


def log_loss(model, X, y):
    place = {label: c for c, label in enumerate(model.classes_.tolist())}
    return -np.mean([row[place[label]] for row, label in zip(model.predict_log_proba(X), y.tolist(), strict=True)])


# ------------------------------------------------------------------ probabilities


ODD = {
    "size": st.none() | st.floats(-1e300, 1e300, allow_nan=False),
    "legs": st.none() | st.integers(-(10**15), 10**15),
    "colour": st.none() | st.sampled_from(["brown", "white", "plaid", "日本", "x" * 50]),
    "wild": st.none() | st.booleans(),
}


@given(st.lists(st.fixed_dictionaries(ODD), min_size=1, max_size=6))
def test_probabilities_of_any_row(world, rows):
    model, _, _ = world
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a colour such as 3 in a column of names
        p = model.predict_proba(rows)
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.isfinite(model.score_samples(rows)).all()


def test_what_answers_have_in_common(world):
    model, X, y = world
    p = model.predict_proba(X)
    np.testing.assert_allclose(np.log(p), model.predict_log_proba(X), atol=1e-12)
    joint = model.predict_joint_log_proba(X)
    np.testing.assert_allclose(np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True), p)
    assert (model.predict(X) == model.classes_[p.argmax(axis=1)]).all()
    assert model.score(X, y) == (model.predict(X) == y).mean() > 0.8
    assert model.class_count_.tolist() == [(y == label).sum() for label in model.classes_]
    assert model.n_features_in_ == 4
    assert model.feature_names_in_.tolist() == list(NAMES)


@pytest.mark.parametrize("by", ["column", "expert"])
def test_explanations_add_up(world, by):
    model, X, _ = world
    rows = some(X, slice(8))
    strange = {"size": [1e8, -1e8], "legs": [900, None], "colour": ["plaid", None], "wild": [None, True]}
    for table in (rows, strange):
        logs = model.predict_log_proba(table)
        for i, evidence in enumerate(model.explain(table, "cow", "hen", by=by)):
            total = evidence.prior + sum(db for *_, db in evidence.items)
            np.testing.assert_allclose(total, DECIBANS * (logs[i, 0] - logs[i, 2]), atol=1e-6)
            np.testing.assert_allclose(evidence.probability, np.exp(logs[i, 0]), atol=1e-12)
    if by == "column":
        one = model.explain(some(X, slice(1)))
        assert {item[0] for item in one.items} == {*NAMES, "together"}
        value = dict(item[:2] for item in one.items)
        assert value["colour"] == (X["colour"][0] or "missing")
    with pytest.raises(ValueError, match="by is 'row'"):
        model.explain(rows, by="row")
    with pytest.raises(ValueError, match="no row"):
        model.explain(some(X, slice(0)))
    with pytest.raises(ValueError, match="'dog' is not one of the classes"):
        model.explain(rows, "dog")


def test_decisions_are_bayes_rule(world):
    model, X, _ = world
    p = model.predict_proba(X)
    costs = np.array([[0.0, 1.0, 9.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    expected = p @ costs
    assert (model.decide(X, costs) == model.classes_[expected.argmin(axis=1)]).all()
    least = expected.min(axis=1)
    kept = [None if c > 0.3 else model.classes_[a] for c, a in zip(least, expected.argmin(axis=1), strict=True)]
    assert model.decide(X, costs, reject=0.3).tolist() == kept
    assert any(v is None for v in kept)
    assert any(v is not None for v in kept)
    assert (model.decide(X) == model.predict(X)).all()
    by_name = {"cow": {"hen": 9.0}, "duck": {"cow": 2.0}}
    assert (model.decide(X, by_name) == model.classes_[(p @ costs).argmin(axis=1)]).all()


def test_another_prior(world):
    model, X, _ = world
    prior = np.array([0.7, 0.2, 0.1])
    share = model.class_count_ / model.class_count_.sum()
    expected = model.predict_proba(X) * prior / share
    expected /= expected.sum(axis=1, keepdims=True)
    for new_prior in (prior, {"hen": 0.1, "cow": 0.7, "duck": 0.2}):
        np.testing.assert_allclose(model.with_prior(new_prior).predict_proba(X), expected, atol=1e-12)
    uniform = model.with_prior("uniform").predict_proba(X)
    other = model.predict_proba(X) / share
    np.testing.assert_allclose(uniform, other / other.sum(axis=1, keepdims=True), atol=1e-12)
    fitted = Classifier(class_prior={"hen": 0.1, "cow": 0.7, "duck": 0.2}).fit(X, animals()[1])
    np.testing.assert_allclose(fitted.predict_proba(X), expected, atol=1e-12)
    with pytest.raises(ValueError, match="classes"):
        model.with_prior({"cow": 1.0})
    with pytest.raises(ValueError, match="class_prior must"):
        Classifier(class_prior=[0.5, 0.5]).fit(X, animals()[1])


@pytest.mark.parametrize("name", ["voting", "pima"])
def test_a_shift_of_classes_is_found(real, name):
    """In a test set where the second class is five times rarer, to a few percent."""
    X, y = real(name)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    half = len(y) // 2
    model = Classifier().fit(some(X, order[:half]), y[order[:half]])
    test = order[half:]
    first, second = test[y[test] == model.classes_[0]], test[y[test] == model.classes_[1]]
    test = np.append(first, rng.choice(second, len(first) // 5))
    adapted = model.adapt_prior(some(X, test))
    truth = (y[test] == model.classes_[0]).mean()
    assert truth > 0.8
    adapted_prior = np.exp(adapted.model_.log_prior[0])
    before = model.class_count_[0] / model.class_count_.sum()
    assert abs(adapted_prior - truth) < 0.06
    assert abs(adapted_prior - truth) < 0.4 * abs(before - truth)
    assert log_loss(adapted, some(X, test), y[test]) < log_loss(model, some(X, test), y[test])


# ------------------------------------------------------------------ leaving out, and chance


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param("pima", marks=pytest.mark.slow), pytest.param("glass", marks=pytest.mark.slow), "voting"]
)
def test_leave_one_out_is_close_to_cross_validation(real, name):
    """Choices are kept in one and made again in the other, from four fifths of the rows: it is a little worse."""
    X, y = real(name)
    model = Classifier().fit(X, y)
    own = np.searchsorted(model.classes_, y)
    alone = -model.leave_one_out(X, y).log_proba[np.arange(len(y)), own].mean()
    losses = []  # of glass, one way to split differs from another by .03
    for train, test in RepeatedStratifiedKFold(n_splits=5, n_repeats=6, random_state=0).split(y, y):
        fitted = Classifier().fit(some(X, train), y[train])
        losses += [log_loss(fitted, some(X, test), y[test])] * len(test)
    np.testing.assert_allclose(alone, np.mean(losses), atol=0.04)
    # The weights were fitted on these rows: the summary takes back what that gained, and so is nearer to new rows.
    assert alone - 0.005 < model.summary().loss
    np.testing.assert_allclose(model.summary().loss, np.mean(losses), atol=0.03)


@pytest.mark.parametrize("name", ["pima", "voting", "credit_approval"])
def test_labels_by_chance_teach_nothing(real, name):
    X, y = real(name)
    rng = np.random.default_rng(0)
    y, order = rng.permutation(y), rng.permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    model = Classifier().fit(some(X, train), y[train])
    share = {label: (y[train] == label).mean() for label in np.unique(y)}
    prior = -np.mean([np.log(share[label]) for label in y[test]])
    assert log_loss(model, some(X, test), y[test]) < prior + 0.05


def test_leave_one_out(world):
    model, X, y = world
    left_out = model.leave_one_out(X, y)
    np.testing.assert_allclose(np.exp(left_out.log_proba).sum(axis=1), 1.0)
    for i in (0, 17):  # the expert of columns and the prior are those of a model that never saw the row
        less = pickle.loads(pickle.dumps(model)).forget(some(X, [i]), y[[i]])
        np.testing.assert_allclose(less.class_count_.sum(), 119)
        # Only weights differ, which were fitted without the row's fold: probabilities by little, small ones by factors.
        np.testing.assert_allclose(less.predict_proba(some(X, [i]))[0], np.exp(left_out.log_proba[i]), atol=0.1)
    with pytest.raises(ForgetError, match="class 'dog'"):
        model.leave_one_out(some(X, [0]), ["dog"])
    with pytest.raises(ForgetError, match="it learned"):
        model.leave_one_out({k: v * 3 for k, v in X.items()}, np.tile(y, 3))
    with pytest.raises(DecibanError, match="every row's label"):
        model.leave_one_out(some(X, [0, 1]), ["cow", None])


# ------------------------------------------------------------------ learning more, forgetting, merging


def test_batches_are_one_batch(world):
    _, X, y = world
    more, z = animals(90, 5)
    one = Classifier().partial_fit(X, y).partial_fit(more, z)
    two = Classifier().partial_fit(X, y)
    for rows in (slice(40, 90), slice(0), slice(10), slice(10, 40)):
        two.partial_fit(some(more, rows), z[rows])
    np.testing.assert_allclose(two.predict_proba(X), one.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(one.class_count_, two.class_count_)
    first = Classifier().fit(X, y)
    np.testing.assert_allclose(first.partial_fit(more, z).predict_proba(X), one.predict_proba(X), atol=1e-12)


def test_forgotten_rows_were_never_seen(world):
    model, X, y = world
    more, z = animals(40, 6)
    other = pickle.loads(pickle.dumps(model)).partial_fit(more, z).forget(more, z)
    np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-9)
    before = other.predict_proba(X)
    with pytest.raises(ForgetError, match="row 0: its value of column 'colour' was never learned"):
        other.forget({**some(X, [0]), "colour": ["plaid"]}, y[[0]])
    with pytest.raises(ForgetError, match=r"column 'legs', more rows of class '\w+' would be forgotten than were"):
        other.forget({**some(X, [0]), "legs": [77]}, y[[0]])
    with pytest.raises(ForgetError, match="class"):
        other.forget(some(X, [0]), ["dog"])
    assert (other.predict_proba(X) == before).all()
    other.forget(X, y)
    assert other.class_count_.tolist() == [0, 0, 0]
    assert_only_choices_speak(other, X)


def test_models_are_merged(world):
    model, X, _ = world
    more, z = animals(50, 7)
    apart = model.empty().partial_fit(more, z)
    assert apart.class_count_.sum() == 50
    merged, straight = model + apart, pickle.loads(pickle.dumps(model)).partial_fit(more, z)
    np.testing.assert_allclose(merged.predict_proba(X), straight.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose((apart + model).predict_proba(X), straight.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(sum([model, apart]).predict_proba(X), straight.predict_proba(X), atol=1e-9)
    assert model.class_count_.sum() == 120, "neither of them is changed"
    with pytest.raises(SchemaError, match="chose differently"):
        model + Classifier().fit(more, z)
    with pytest.raises(SchemaError, match="class_prior differs"):
        model + model.with_prior("uniform")
    with pytest.raises(TypeError):
        model + 1


def test_nothing_learned_answers_all_alike(world):
    model, X, _ = world
    assert_only_choices_speak(model.empty(), X)


def assert_only_choices_speak(model, X):
    """Nothing is known of any row but what boosted trees say, whose values are choices."""
    scores = model.predict_log_proba(X)
    assert np.isfinite(scores).all()
    rows = model.model_.encoding.rows(model.model_.read(X))
    for expert in model.model_.experts:
        if isinstance(expert, BoostedTrees):
            scores = scores - expert.evidence(rows)
    assert np.ptp(scores - scores[:, :1], axis=0).max() < 1e-9


def test_classes_and_categories_come_later():
    X, y = animals(80)
    model = Classifier().partial_fit(X, y)
    more = {"size": [40.0] * 30, "legs": [4] * 30, "colour": ["grey"] * 30, "wild": [True] * 30}
    model.partial_fit(more, ["elephant"] * 30)
    assert model.classes_.tolist() == ["cow", "duck", "elephant", "hen"]
    assert model.predict(some(more, [0])).tolist() == ["elephant"]
    assert (model.predict(X) == "elephant").mean() < 0.1
    closed = Classifier().partial_fit(X, y, classes=["cow", "duck", "hen", "owl"])
    assert closed.predict_proba(X)[:, 3].tolist() == [0.0] * 80
    with pytest.raises(ValueError, match="do not exist"):
        closed.partial_fit(more, ["elephant"] * 30)
    with pytest.raises(ValueError, match="not the same as on last call"):
        closed.partial_fit(X, y, classes=["cow"])
    closed.partial_fit(more, ["owl"] * 30)
    assert closed.predict(some(more, [0])).tolist() == ["owl"]
    with pytest.raises(DecibanError, match="row 1 of y has no label"):
        model.partial_fit(some(X, [0, 1]), ["cow", None])


def test_decay_halves_what_was_learned(world):
    model, X, y = world
    faded = pickle.loads(pickle.dumps(model)).decay(half_life=60, rows=120)
    np.testing.assert_allclose(faded.class_count_, model.class_count_ / 4)
    faded.partial_fit(X, y)
    np.testing.assert_allclose(faded.class_count_, model.class_count_ * 1.25)
    faded.forget(X, y, np.full(120, 0.25))
    np.testing.assert_allclose(faded.predict_proba(X), model.predict_proba(X), atol=1e-9)
    assert np.isfinite(Classifier().fit(X, y).decay(1, 1000).predict_proba(X)).all()


def test_weights_are_rows(world):
    _, X, y = world
    weight = np.random.default_rng(5).integers(0, 3, 120).astype(float)
    model = Classifier().fit(X, y, sample_weight=weight)
    assert model.class_count_.tolist() == [weight[y == label].sum() for label in model.classes_]
    other = model.empty().partial_fit(
        *[some(X, np.repeat(np.arange(120), weight.astype(int))), np.repeat(y, weight.astype(int))]
    )
    np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-9)
    gone = Classifier().fit(X, y, sample_weight=(y != "cow").astype(float))  # a class of which nothing counts
    assert gone.classes_.tolist() == [c for c in model.classes_.tolist() if c != "cow"]
    assert np.isfinite([column[2:] for column in gone.model_.record.smoothings]).all()
    with pytest.raises(ValueError, match="sample_weight"):
        Classifier().fit(X, y, sample_weight=weight[:3])
    with pytest.raises(ValueError, match="NaN"):
        Classifier().fit(X, y, sample_weight=np.append(np.nan, weight[1:]))
    with pytest.raises(ValueError, match=r"sample_weight\[\d+\] is -\d: to remove rows, use forget"):
        Classifier().fit(X, y, sample_weight=-weight)
    with pytest.raises(ValueError, match="sample_weight is zero"):
        Classifier().fit(X, y, sample_weight=0 * weight)


# ------------------------------------------------------------------ generating, and strangers


def test_samples_are_like_the_table():
    X, y = animals(600, 3, gaps=0.1)
    model = Classifier().fit(X, y)
    rows, labels = model.sample(2000, random_state=0)
    assert list(rows) == list(NAMES)
    for c, label in enumerate(model.classes_):  # five standard errors of a share of 2000
        assert abs((labels == label).mean() - model.class_count_[c] / 600) < 5 * 0.5 / np.sqrt(2000)
    for name in NAMES:
        there = [v for v in X[name] if v is not None]
        drawn = [v for v in rows[name] if v is not None]
        assert abs(len(there) / 600 - len(drawn) / 2000) < 5 * 0.3 / np.sqrt(600), name
        if name == "size":
            assert min(there) <= min(drawn)
            assert max(drawn) <= max(there)
        else:
            assert set(drawn) <= set(there), name
    assert {type(v) for v in rows["legs"]} <= {int, type(None)}

    # Size and wildness hang together, beyond what the class says of both.
    def hang(table, labels):
        at = [
            i
            for i in range(len(labels))
            if labels[i] == "hen" and table["size"][i] is not None and table["wild"][i] is not None
        ]
        pair = np.array([[table["size"][i] > 0.5, table["wild"][i]] for i in at], dtype=int)
        return chi2_contingency(np.histogram2d(*pair.T, bins=2)[0]).statistic / len(at)

    assert hang(rows, labels) > 0.4 * hang(X, y) > 0.1
    only, which = model.sample(50, given="cow", random_state=1)
    assert set(which) == {"cow"}
    assert sum(v == 4 for v in only["legs"]) > 25
    again, _ = model.sample(50, given="cow", random_state=1)
    assert again == only
    assert model.sample(0)[0] == {name: [] for name in NAMES}
    with pytest.raises(ValueError, match="n is -1"):
        model.sample(-1)


def test_samples_have_the_decimals_of_the_table(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = {
        "price": np.round(rng.gamma(3, 900, 300) + 500 * y, 2),
        "share": np.round(rng.random(300), 3),
        "exact": rng.random(300),
        "n": rng.poisson(30, 300),
    }
    model = Classifier().fit(X, y)
    model.save(tmp_path / "m.deciban")
    for drawn in (model.sample(500, random_state=0)[0], load(tmp_path / "m.deciban").sample(500, random_state=0)[0]):
        price, share, exact = (np.array(drawn[name]) for name in ("price", "share", "exact"))
        assert np.array_equal(np.round(price, 2), price)
        assert np.array_equal(np.round(share, 3), share)
        assert not np.array_equal(np.round(share, 2), share)
        assert not np.isclose(np.round(exact, 6), exact, rtol=0, atol=1e-12).all()
        assert {type(value) for value in drawn["n"]} == {int}


def test_samples_come_as_the_table_did():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    X, y = animals(60)
    for make, kind in ((pd.DataFrame, pd.DataFrame), (pl.DataFrame, pl.DataFrame), (pa.table, pa.Table)):
        rows, _ = Classifier().fit(make(X), y).sample(5, random_state=0)
        assert isinstance(rows, kind)
    rows, _ = Classifier().fit(np.random.default_rng(0).normal(size=(60, 2)), y).sample(5, random_state=0)
    assert rows.shape == (5, 2)
    assert rows.dtype == np.float64


def test_strangers_are_unlikely(world):
    model, X, _ = world
    usual = model.score_samples(X)
    far = model.score_samples({"size": [1e4], "legs": [900], "colour": ["plaid"], "wild": [None]})
    assert far[0] < usual.min() - 10
    further = model.score_samples({"size": [1e6], "legs": [900], "colour": ["plaid"], "wild": [None]})
    assert further[0] < far[0]


# ------------------------------------------------------------------ keeping


def test_saved_and_loaded(world, tmp_path):
    model, X, y = world
    model.save(tmp_path / "animals.deciban")
    back = deciban.load(tmp_path / "animals.deciban")
    assert (back.predict_proba(X) == model.predict_proba(X)).all()
    assert back.get_params() == model.get_params()
    assert back.kinds_.to_dict() == model.kinds_.to_dict()
    assert str(back.summary()) == str(model.summary())
    assert back.sample(3, random_state=0)[0] == model.sample(3, random_state=0)[0]
    more, z = animals(30, 8)
    one, two = (pickle.loads(pickle.dumps(m)).partial_fit(more, z) for m in (model, back))
    assert (one.predict_proba(X) == two.predict_proba(X)).all()
    assert ((model + back.empty().partial_fit(more, z)).class_count_ == one.class_count_).all()
    given_ = Classifier(class_prior=np.array([0.2, 0.3, 0.5]), schema={"legs": "category"}, n_jobs=1).fit(X, y)
    given_.save(tmp_path / "given.deciban")
    back = deciban.load(tmp_path / "given.deciban")
    assert (back.predict_proba(X) == given_.predict_proba(X)).all()
    assert back.schema == {"legs": "category"}
    raw = bytearray((tmp_path / "animals.deciban").read_bytes())
    for at in np.random.default_rng(0).integers(0, len(raw), 20):
        broken = raw.copy()
        broken[at] ^= 0x55
        (tmp_path / "broken.deciban").write_bytes(broken)
        with pytest.raises(FileError):
            deciban.load(tmp_path / "broken.deciban")
    (tmp_path / "broken.deciban").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(FileError):
        deciban.load(tmp_path / "broken.deciban")


def test_pickled_cloned_and_asked(world):
    model, X, y = world
    assert (pickle.loads(pickle.dumps(model)).predict_proba(X) == model.predict_proba(X)).all()
    fresh = clone(model)
    assert set(fresh.get_params().values()) == {None}
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    for ask in (fresh.predict_proba, fresh.score_samples, fresh.explain, fresh.predict_joint_log_proba):
        with pytest.raises(NotFittedError):
            ask(X)
    with pytest.raises(NotFittedError):
        fresh.summary()
    fresh.set_params(schema={"legs": "category"}).fit(X, y)
    assert dict(row[:2] for row in fresh.kinds_.rows)["legs"] == "category"
    assert (model.fit(X, y).predict_proba(X) == clone(model).fit(X, y).predict_proba(X)).all(), "nothing is random"


def test_looking_inside(world):
    model, _, _ = world
    assert "size" in str(model.summary())
    assert {row[0] for row in model.params.rows} <= {
        "columns",
        "gaussians",
        "contexts",
        "trees",
        "boosted trees",
        "column",
    }
    top = model.top_evidence(2)
    assert {row[0] for row in top.rows} == {"cow", "duck", "hen"}
    assert all(row[2] > 0 for row in top.rows)
    assert dict(row[:2] for row in model.kinds_.rows) == {
        "size": "number",
        "legs": "count",
        "colour": "category",
        "wild": "boolean",
    }


def test_among_scikit_learns_tools(world):
    pd = pytest.importorskip("pandas")
    _, X, y = world
    frame = pd.DataFrame(X)
    scores = cross_val_score(Classifier(), frame, y, cv=3, error_score="raise")
    assert scores.mean() > 0.7
    piped = Pipeline([("same", FunctionTransformer()), ("model", Classifier())]).fit(frame, y)
    np.testing.assert_allclose(piped.predict_proba(frame), Classifier().fit(frame, y).predict_proba(frame))
    grid = {"schema": [None, {"legs": "category"}, {"size": "skip", "legs": "skip"}]}
    search = GridSearchCV(Classifier(), grid, cv=3, error_score="raise", scoring="neg_log_loss").fit(frame, y)
    assert search.best_params_["schema"] != grid["schema"][2]
    assert len(set(search.cv_results_["mean_test_score"])) == 3


# ------------------------------------------------------------------ the same table by many names


def test_a_table_by_any_name():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    X, y = animals(100)
    rows = [dict(zip(X, values, strict=True)) for values in zip(*X.values(), strict=True)]
    objects = np.array([list(row.values()) for row in rows], dtype=object)
    makes = {
        "dicts": rows,
        "pandas": pd.DataFrame(X),
        "Polars": pl.DataFrame(X),
        "Arrow": pa.table(X),
    }
    model = Classifier().fit(X, y)
    expected = model.predict_proba(X)
    for name, own in makes.items():
        np.testing.assert_allclose(Classifier().fit(own, y).predict_proba(own), expected, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(model.predict_proba(own), expected, atol=1e-12, err_msg=name)
    without_names = Classifier().fit(objects, y)
    np.testing.assert_allclose(without_names.predict_proba(objects), expected, atol=1e-9)
    assert without_names.predict_proba(objects.tolist()).shape == (100, 3)
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_allclose(model.predict_proba(objects), expected, atol=1e-12)
    turned = {name: X[name] for name in reversed(X)}
    np.testing.assert_allclose(model.predict_proba(turned), expected, atol=1e-12, err_msg="columns in another order")


def test_the_name_of_the_target():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    X, y = animals(80)
    whole = {**X, "kind": y.tolist()}
    expected = Classifier().fit(X, y)
    rows = [dict(zip(whole, values, strict=True)) for values in zip(*whole.values(), strict=True)]
    for own in (whole, pd.DataFrame(whole), pl.DataFrame(whole), pa.table(whole), rows):
        model = Classifier().fit(own, "kind")
        np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-9)
        assert model.score(own, "kind") == expected.score(X, y)
        np.testing.assert_allclose(
            model.partial_fit(own, "kind").class_count_, expected.class_count_ * 2, err_msg=str(type(own))
        )
        model.forget(own, "kind")
        np.testing.assert_allclose(
            model.leave_one_out(own, "kind").log_proba, expected.leave_one_out(X, y).log_proba, atol=1e-6
        )
    with pytest.raises(DecibanError, match="there is no column 'kinds': did you mean 'kind'"):
        Classifier().fit(whole, "kinds")
    with pytest.raises(DecibanError, match="have no names"):
        Classifier().fit(np.zeros((3, 2)), "kind")


def test_arrays_and_sparse_matrices():
    sp = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (80, 5)), np.arange(80) % 2
    dense = Classifier().fit(X, y).predict_proba(X)
    for own in (X.astype(float), X.tolist(), sp.csr_matrix(X), sp.csc_matrix(X), np.asfortranarray(X)):
        np.testing.assert_allclose(Classifier().fit(own, y).predict_proba(own), dense, atol=1e-9)
    with pytest.raises(ValueError, match="X has 3 features, but Classifier is expecting 5"):
        Classifier().fit(X, y).predict(X[:, :3])


# ------------------------------------------------------------------ bad tables


def test_tables_that_are_none():
    X, y = animals(30)
    for bad in ({}, {"a": []}, [], np.zeros((0, 3)), np.zeros((3, 0))):
        with pytest.raises(ValueError, match=r"0 sample|0 feature|no columns|no rows|is empty"):
            Classifier().fit(bad, [])
    with pytest.raises(ValueError, match="requires y"):
        Classifier().fit(X, None)
    with pytest.raises(ValueError, match="inconsistent"):
        Classifier().fit(X, y[:-1])
    with pytest.raises(ValueError, match="label"):
        Classifier().fit(X, [None] * 30)
    with pytest.raises(ValueError, match="matrix of weights"):
        Classifier().fit(X, np.full((30, 2), 0.5))
    model = Classifier().fit(X, y)
    assert model.predict_proba(some(X, slice(0))).shape == (0, 3)
    assert model.predict(some(X, slice(0))).tolist() == []
    with pytest.raises(DecibanError, match="column 'legs' is not in this table"):
        model.predict({name: X[name] for name in NAMES if name != "legs"})
    extra = {**X, "shoe": [1] * 30}
    assert (model.predict_proba(extra) == model.predict_proba(X)).all()
    with pytest.raises(DecibanError, match="there is no column 'leg'"):
        Classifier(schema={"leg": "count"}).fit(X, y)
    with pytest.raises(DecibanError, match=r"column 'colour' holds '\w+' in row \d+, which is not a number"):
        Classifier(schema={"colour": "number"}).fit(X, y)


def test_a_failed_fit_changes_nothing(world):
    model, X, _ = world
    before = model.predict_proba(X)
    for bad in ({"a": [np.inf, 1.0]}, {"a": [[1], [2]]}):
        with pytest.raises(DecibanError, match="column 'a'"):
            model.fit(bad, [0, 1])
        with pytest.raises(DecibanError):
            model.partial_fit(bad, ["cow", "hen"])
    assert (model.predict_proba(X) == before).all()
    with pytest.raises(DecibanError, match="column 'size' holds inf in row 1"):
        model.predict({**some(X, [0, 1]), "size": [1.0, np.inf]})


def test_columns_of_the_same_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.zeros((4, 2)), columns=["a", "a"])
    with pytest.raises(DecibanError, match="several columns have the name 'a'"):
        Classifier().fit(frame, [0, 1, 0, 1])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_column_of_many_types():
    X = {"a": [1, "x", 2.5, None, True, "y"] * 5, "b": list(np.arange(30.0) ** 2)}
    model = Classifier().fit(X, [0, 1] * 15)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert dict(row[:2] for row in model.kinds_.rows)["a"] == "category"


def test_constant_columns_answer_the_prior():
    for X in ({"a": [1] * 10, "b": ["x"] * 10}, {"a": [None] * 10, "b": [np.nan] * 10}):
        model = Classifier().fit(X, ["u"] * 3 + ["v"] * 7)
        np.testing.assert_allclose(model.predict_proba({"a": [1, 2], "b": ["x", "z"]}), [[0.3, 0.7]] * 2)
        assert model.predict(some(X, slice(2))).tolist() == ["v", "v"]
        np.testing.assert_allclose(model.explain(some(X, slice(1)), "u", "v").prior, DECIBANS * np.log(3 / 7))
        np.testing.assert_allclose(np.exp(model.leave_one_out(X, ["u"] * 3 + ["v"] * 7).log_proba[0]), [2 / 9, 7 / 9])
        assert "constant" in str(model.summary())
        assert model.score_samples(some(X, slice(2))).shape == (2,)
        assert len(model.sample(4)[1]) == 4


def test_one_class():
    X, _ = animals(20)
    model = Classifier().fit(X, ["cow"] * 20)
    assert model.predict_proba(X).tolist() == [[1.0]] * 20
    assert model.predict(X).tolist() == ["cow"] * 20
    with pytest.raises(ValueError, match="only one class"):
        model.explain(some(X, [0]))
    assert len(model.sample(3)[1]) == 3
    assert np.isfinite(model.score_samples(X)).all()
    texts = {"note": [f"several words that say very little, number {i}" for i in range(20)], **X}
    model = Classifier().fit(texts, ["cow"] * 20)
    assert model.predict(texts).tolist() == ["cow"] * 20
    assert len(model.sample(3)[1]) == 3
    model.partial_fit(texts, ["hen"] * 20)
    np.testing.assert_allclose(model.predict_proba(texts).sum(axis=1), 1.0)


def test_labels_missing_in_places():
    X, y = animals(100)
    some_missing = y.astype(object)
    some_missing[::4] = None
    model = Classifier().fit(X, some_missing)
    assert model.class_count_.sum() == 75
    marked = np.where(np.arange(100) % 4, y, "?")
    same = Classifier().fit(X, marked, unlabelled="?")
    assert (same.predict_proba(X) == model.predict_proba(X)).all()
    floats = np.where(np.arange(100) % 4, np.arange(100) % 2, np.nan)
    assert Classifier().fit(X, floats).classes_.tolist() == [0.0, 1.0]
    kept = np.flatnonzero(np.arange(100) % 4)
    assert model.score(some(X, kept), y[kept]) > 0.8


def test_three_rows():
    X = {"a": [1.0, 2.0, 3.0], "b": ["x", "y", "x"]}
    for y in (["u", "v", "u"], ["u", "v", "w"], ["u", "u", "u"]):
        model = Classifier().fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        left_out = model.leave_one_out(X, y).log_proba
        assert not np.isnan(left_out).any()
        assert len(set(y)) == 1 or len(model.explain(X)) == 3
    one = Classifier().fit({"a": [1.0]}, ["u"])
    assert one.predict({"a": [5.0]}).tolist() == ["u"]


def test_three_rows_are_not_believed_much():
    """The second class is one row: no row was left out to fit its reliability."""
    X = {"a": [1.0, 2.0, 3.0], "b": ["x", "y", "x"]}
    p = Classifier().fit(X, ["u", "v", "u"]).predict_proba(X)
    assert p.max() < 0.999


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 120))
    y = np.arange(30) % 2
    X[:, 0] += 4 * y
    model = Classifier().fit(X, y)
    test = rng.normal(size=(200, 120))
    z = np.arange(200) % 2
    test[:, 0] += 4 * z
    assert np.isfinite(model.predict_log_proba(test)).all()
    assert log_loss(model, test, z) < np.log(2) + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("d", [1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_thousands_of_columns(d):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, d)), np.arange(60) % 2
    p = Classifier().fit(X, y).predict_proba(X)
    few = X[:, : d // 4]
    assert growth(lambda: Classifier().fit(few, y), lambda: Classifier().fit(X, y), 12) <= 12, "4, were it linear"
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_many_columns_of_categories():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = {
        f"c{j}": np.where(rng.random(60) < 0.1, None, np.array(["a", "b", "c"])[rng.integers(0, 3, 60)]).tolist()
        for j in range(300)
    }
    X["c7"] = np.array(["a", "b"])[y].tolist()
    model = Classifier().fit(X, y)
    assert model.score(X, y) > 0.9
    evidence = model.explain(some(X, [0]), 1, 0)
    logs = model.predict_log_proba(some(X, [0]))[0]
    np.testing.assert_allclose(
        evidence.prior + sum(db for *_, db in evidence.items), DECIBANS * (logs[1] - logs[0]), atol=1e-6
    )
    rows, _ = model.sample(200, random_state=0)
    share = np.mean([v is None for v in rows["c1"]])
    assert share > 0.02, "entries are missing in samples as in the table"


@pytest.mark.parametrize("offset", [1e9, -1e12])
def test_far_offsets(offset):
    """The last digits of a number only determine which trees see its row."""
    rng = np.random.default_rng(0)
    y, z = np.arange(200) % 2, np.arange(1000) % 2
    X, test = rng.normal(size=(200, 3)) + y[:, None], rng.normal(size=(1000, 3)) + z[:, None]
    near = log_loss(Classifier().fit(X, y), test, z)
    far = log_loss(Classifier().fit(X + offset, y), test + offset, z)
    np.testing.assert_allclose(far, near, atol=0.02)


def test_columns_that_do_not_vary_in_a_class():
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    X = {"a": np.where(y, 0.0, rng.normal(size=100)).tolist(), "b": rng.normal(size=100).tolist()}
    model = Classifier().fit(X, y)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert model.score(X, y) > 0.95


def test_copies_of_a_column_are_not_believed_twice():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    one = {"a": (rng.normal(size=300) + y).tolist(), "b": (rng.normal(size=300) + y).tolist()}
    twice = {**one, **{f"copy{i}": one["a"] for i in range(6)}}
    test = {"a": (rng.normal(size=500) + np.arange(500) % 2).tolist()}
    test["b"] = (rng.normal(size=500) + np.arange(500) % 2).tolist()
    tests = {**test, **{f"copy{i}": test["a"] for i in range(6)}}
    z = np.arange(500) % 2
    plain = log_loss(Classifier().fit(one, y), test, z)
    assert log_loss(Classifier().fit(twice, y), tests, z) < plain + 0.05


def test_thousands_of_categories():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2000, 6000)
    y = np.where(rng.random(6000) < 0.9, codes % 2, 1 - codes % 2)
    X = {"town": [f"t{c}" for c in codes], "x": rng.normal(size=6000).tolist()}
    model = Classifier().fit(X, y)
    few = {**X, "town": [f"t{c // 4}" for c in codes]}
    assert growth(lambda: Classifier().fit(few, y), lambda: Classifier().fit(X, y), 10) <= 10, "4, were it linear"
    new = rng.integers(0, 2000, 500)
    new_rows = {"town": [f"t{c}" for c in new], "x": rng.normal(size=500).tolist()}
    assert model.score(new_rows, new % 2) > 0.8
    p = model.predict_proba({"town": ["nowhere"], "x": [0.0]})[0]
    assert abs(p[0] - 0.5) < 0.15


def test_many_classes_of_few_rows():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(50), 4)
    X = rng.normal(size=(200, 5)) * 0.3 + np.random.default_rng(1).normal(size=(50, 5))[y] * 3
    model = Classifier().fit(X, y)
    test = rng.normal(size=(200, 5)) * 0.3 + np.random.default_rng(1).normal(size=(50, 5))[y] * 3
    p = model.predict_proba(test)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(test, y) > 0.7
    assert log_loss(model, test, y) < np.log(50) / 2


@pytest.mark.parametrize(
    "labels", [["no", "yes"], [0, 1], [False, True], [-1, 1], [1.0, 2.0], [10**12, 10**13], ["", "a"]], ids=str
)
def test_labels_of_every_kind(labels, tmp_path):
    X, _ = animals(40)
    y = [labels[i % 2] for i in range(40)]
    model = Classifier().fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert {type(v) for v in model.predict(X).tolist()} == {type(labels[0])}
    assert model.leave_one_out(X, y).log_proba.shape == (40, 2)
    assert set(model.decide(X, reject=0.9).tolist()) <= {*labels, None}
    model.save(tmp_path / "m")
    assert (deciban.load(tmp_path / "m").predict(X) == model.predict(X)).all()


def test_labels_of_several_kinds_are_refused():
    X, _ = animals(4)
    with pytest.raises(TypeError, match=r"strings.*numbers"):
        Classifier().fit(X, np.array(["a", 1, "a", 1], dtype=object))
    with pytest.raises(ValueError, match="Unknown label type"):
        Classifier().fit(X, [0.5, 1.25, 3.75, 2.5])


def test_texts_and_dates():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    words = [["rain", "cloud", "storm"], ["sun", "heat", "sand"]]
    X = {
        "note": [f"{words[c][rng.integers(3)]} again on day {i} {words[c][rng.integers(3)]}" for i, c in enumerate(y)],
        "day": [f"2024-{1 + 6 * c + rng.integers(4):02d}-{1 + rng.integers(28):02d}" for c in y],
        "x": rng.normal(size=120).tolist(),
    }
    model = Classifier().fit(X, y)
    assert dict(row[:2] for row in model.kinds_.rows) == {"note": "text", "day": "date", "x": "number"}
    assert model.score(X, y) > 0.95
    logs = model.predict_log_proba(X)
    for new_rows in (
        some(X, [0]),
        {"note": ["unheard of"], "day": [None], "x": [None]},
        {"note": [None], "day": ["1999-01-01"], "x": [5.0]},
    ):
        logs = model.predict_log_proba(new_rows)[0]
        assert np.isfinite(logs).all()
        for by in ("column", "expert"):
            evidence = model.explain(new_rows, 1, 0, by)
            total = evidence.prior + sum(db for *_, db in evidence.items)
            np.testing.assert_allclose(total, DECIBANS * (logs[1] - logs[0]), atol=1e-6, err_msg=str(new_rows))
    rows, _ = model.sample(5, random_state=0)
    assert set(rows) == {"note", "day", "x"}
    other = pickle.loads(pickle.dumps(model)).partial_fit(some(X, slice(30)), y[:30])
    other.forget(some(X, slice(30)), y[:30])
    np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-8)
    merged = model + model.empty().partial_fit(some(X, slice(30)), y[:30])
    np.testing.assert_allclose(
        merged.predict_proba(X), other.partial_fit(some(X, slice(30)), y[:30]).predict_proba(X), atol=1e-8
    )
    assert np.isfinite(model.leave_one_out(X, y).log_proba).all()


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 4))
def test_any_small_table(seed, n, k):
    """Whatever is in it, probabilities are probabilities and explanations add up."""
    rng = np.random.default_rng(seed)
    makes = [
        lambda: rng.normal(size=n).tolist(),
        lambda: rng.integers(0, 3, n).tolist(),
        lambda: [f"v{i}" for i in rng.integers(0, n, n)],
        lambda: [None if i % 2 else "x" for i in range(n)],
        (rng.random(n) < 0.5).tolist,
        lambda: np.exp(20 * rng.normal(size=n)).tolist(),
        lambda: [None] * n,
    ]
    X = {f"c{j}": makes[rng.integers(len(makes))]() for j in range(rng.integers(1, 6))}
    for column in X.values():
        column[rng.integers(n)] = None
    y = rng.integers(0, k, n)
    weight = rng.choice([0.5, 1.0, 3.0], n) if seed % 2 else None
    model = Classifier().fit(X, y, weight)
    logs = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1.0)
    if len(model.classes_) > 1:
        evidence = model.explain(some(X, [0]), *model.classes_[:2].tolist())
        total = evidence.prior + sum(db for *_, db in evidence.items)
        np.testing.assert_allclose(total, DECIBANS * (logs[0, 0] - logs[0, 1]), atol=1e-6)
    left = model.leave_one_out(X, y, weight).log_proba
    np.testing.assert_allclose(np.exp(left).sum(axis=1), 1.0)
    model.sample(3, random_state=0), model.score_samples(X), str(model.summary())
    model.forget(X, y, weight)
    assert np.isfinite(model.predict_proba(X)).all()


# ------------------------------------------------------------------ what a review found


def mixed_table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = {"u": rng.normal(size=n), "v": rng.normal(size=n), "c": rng.choice(list("abc"), n)}
    y = (X["u"] + (X["c"] == "a") + 0.7 * rng.normal(size=n) > 0).astype(int)
    return X, y


@pytest.mark.parametrize("far", [1e3, 1e9, 1e15])
def test_far_values_can_be_forgotten(far):
    """Coordinates are clipped at twenty deviations, so that no value costs the others' digits."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3)), np.arange(300) % 2
    X[11, 1], X[200, 2] = far, -far
    gone = np.isin(np.arange(300), [11, 200])
    model = Classifier().fit(X, y)
    never = model.empty().partial_fit(X[~gone], y[~gone])
    np.testing.assert_allclose(model.forget(X[gone], y[gone]).predict_proba(X), never.predict_proba(X), atol=1e-9)


def test_forgetting_what_was_never_learned_is_seen_by_every_expert():
    X, y = mixed_table()
    model = Classifier().fit(X, y)
    i = int(np.argmax(np.where(y == 1, X["u"], -9)))
    other = {name: values[[i]].copy() for name, values in X.items()}
    other["u"][0] = 1e6  # in the same, open bin, but another number
    before = model.predict_proba(X)
    with pytest.raises(ForgetError, match="never learned"):
        model.forget(other, [1])
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_pairs_of_categories_that_were_never_learned_are_not_forgotten():
    a = np.array(["p", "q"] * 60)
    X, y = {"a": a, "b": np.where(a == "p", "r", "s"), "c": ["x", "z", "z"] * 40}, np.arange(120) % 3 > 0
    model = Classifier().fit(X, y)
    with pytest.raises(ForgetError):
        model.forget({"a": ["p"], "b": ["s"], "c": ["x"]}, [False])


def test_leave_one_out_of_rows_that_were_never_learned():
    X, y = mixed_table()
    model = Classifier().fit(X, y)
    with pytest.raises(ForgetError, match="row 0 was not learned"):
        model.leave_one_out({"u": [0.0], "v": [0.0], "c": ["never"]}, [1])


def test_blas_has_its_threads_back_after_any_overlap():
    one, two = own_threads(), own_threads()
    before = [library.num_threads for library in threaded_libraries().lib_controllers if library.user_api == "blas"]
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    two.__exit__(None, None, None)
    after = [library.num_threads for library in threaded_libraries().lib_controllers if library.user_api == "blas"]
    assert after == before


def test_a_category_never_seen_leaves_gaussians_at_the_mean():
    rng = np.random.default_rng(0)
    c = rng.choice(["a", "b", "c"], 300, p=[0.6, 0.3, 0.1])
    y = np.where(c == "a", rng.random(300) < 0.9, rng.random(300) < 0.2).astype(int)
    model = Classifier().fit({"c": c, "z": rng.normal(size=300)}, y).model_
    rows = model.encoding.rows(model.read({"c": ["never", None], "z": [0.0, 0.0]}))
    owner = model.encoding.owner
    assert (rows.real[:, owner == model.encoding.names.index("c")] == 0.0).all()


def test_a_name_that_a_date_has_taken():
    days = np.array(["2020-01-01"], "M8[D]") + np.arange(60)
    with pytest.raises(DecibanError, match=r"'when \(month\)'"):
        Classifier().fit({"when (month)": np.arange(60) % 7 * 1.5, "when": days}, np.arange(60) % 2)


def test_numbers_in_place_of_dates_are_missing_with_a_warning():
    days = np.array(["2020-01-01"], "M8[D]") + np.arange(60)
    model = Classifier().fit({"when": days, "z": np.arange(60) % 9 * 1.5}, np.arange(60) % 2)
    with pytest.warns(UserWarning, match="numbers, not dates"):
        proba = model.predict_proba({"when": [737425], "z": [1.5]})
    np.testing.assert_allclose(proba, model.predict_proba({"when": [None], "z": [1.5]}))


def test_what_was_forgotten_is_not_likely():
    X, y = mixed_table()
    model = Classifier().fit(X, y)
    gone = X["c"] == "c"
    model.forget({name: values[gone] for name, values in X.items()}, y[gone])
    a, b, c, new = (
        model.score_samples({"u": [0.0], "v": [0.0], "c": [value]})[0] for value in ("a", "b", "c", "never")
    )
    assert c < min(a, b)
    np.testing.assert_allclose(c, new)


def test_neighbouring_numbers_are_told_apart_in_a_file_too(tmp_path):
    step = np.finfo(float).eps
    X = {"v": np.tile([1 + step, 1 + 2 * step, 1 + 3 * step], 20), "w": np.arange(60) % 7 * 1.5}
    model = Classifier(schema={"v": "number"}).fit(X, np.arange(60) % 3 > 0)
    model.save(tmp_path / "m.deciban")
    np.testing.assert_array_equal(load(tmp_path / "m.deciban").predict_proba(X), model.predict_proba(X))


def test_labels_among_the_columns_are_noticed():
    X, y = mixed_table(60)
    labels = np.where(y == 1, "yes", "no")
    with pytest.warns(UserWarning, match="'answer' is the same as the labels"):
        Classifier().fit(X | {"answer": labels}, labels)


def test_all_columns_that_are_not_there_are_named():
    X, y = mixed_table(60)
    model = Classifier().fit(X, y)
    with pytest.raises(DecibanError, match="columns 'v', 'c' are not in this table"):
        model.predict({"u": [0.0]})
    with pytest.raises(DecibanError, match="did you mean 'u' by 'U'"):
        model.predict({"U": [0.0], "v": [0.0], "c": ["a"]})


def test_a_scorer_reads_what_the_estimator_reads(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    A[:, 0] += y
    model = Classifier().fit(A, y)
    model.save(tmp_path / "m.deciban")
    scorer = read(tmp_path / "m.deciban")
    assert len(repr(scorer)) < 80
    np.testing.assert_array_equal(scorer.predict_proba(pd.DataFrame(A)), model.predict_proba(A))
    np.testing.assert_array_equal(scorer.predict(A), model.predict(A))
    assert scorer.decide(A, reject=0.3) == model.decide(A, reject=0.3).tolist()
    assert scorer.explain(A[:1]).total == model.explain(A[:1]).total
    with pytest.raises(DecibanError, match="2 by 2"):
        scorer.decide(A, costs=[[1.0]])


def test_reading_and_scoring_import_no_scikit_learn(tmp_path):
    X, y = mixed_table(60)
    Classifier().fit(X, y).save(tmp_path / "t.deciban")
    TextClassifier().fit(["win cash now", "lunch at noon", "cash prize", "see you"], ["s", "h", "s", "h"]).save(
        tmp_path / "w.deciban"
    )
    code = (
        "import sys, deciban\n"
        f"t, w = deciban.read({str(tmp_path / 't.deciban')!r}), deciban.read({str(tmp_path / 'w.deciban')!r})\n"
        "t.explain([{'u': 0.0, 'v': 1.0, 'c': 'a'}]); t.predict_proba({'u': [0.0], 'v': [1.0], 'c': [None]})\n"
        "w.predict_proba(['cash']); w.explain('cash')\n"
        "assert 'sklearn' not in sys.modules, 'scikit-learn was imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_loss_of_a_summary_takes_back_what_choosing_gained():
    """On random labels, it is hardly better than the prior."""
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(4):
        X, y = rng.normal(size=(150, 12)), rng.permutation(np.arange(150) % 2)
        summary = Classifier().fit(X, y).summary()
        gains.append(summary.baseline - summary.loss)
    assert np.mean(gains) < 0.02


def test_a_summary_says_what_it_is_of():
    X, y = mixed_table()
    model = Classifier().fit(X, y)
    summarised = [row[2] for row in model.summary().columns.rows]
    assert not model.summary().notes
    model.partial_fit(X, y)
    assert [row[2] for row in model.summary().columns.rows] == summarised
    assert "400 are learned" in model.summary().notes[-1]


@pytest.mark.parametrize("where", ["among others", "at the end"])
def test_rows_of_weight_zero_change_nothing(where):
    """Neither the cuts of bins, nor the kinds of columns, nor the number of rows."""
    rng = np.random.default_rng(0)
    n = 120
    y = rng.integers(0, 2, n).astype(object)
    X = {"size": rng.normal(size=n) + y.astype(float), "colour": rng.choice(["a", "b"], n).astype(object)}
    weight = rng.integers(1, 3, n).astype(float)
    gone = np.arange(3) if where == "among others" else np.arange(n - 3, n)
    weight[gone], y[gone] = 0.0, [7, None, 0]
    X["size"][gone], X["colour"][gone] = [1e9, np.nan, -1e9], ["q", "r", "s"]
    left = np.flatnonzero(weight)
    some = {name: values[left] for name, values in X.items()}
    with_them, without = Classifier().fit(X, y, weight), Classifier().fit(some, y[left], weight[left])
    assert repr(with_them.summary()) == repr(without.summary())
    np.testing.assert_array_equal(with_them.predict_proba(X), without.predict_proba(X))
    assert with_them.classes_.tolist() == [0, 1]
    more, fewer = (copy.deepcopy(m) for m in (with_them, without))
    more.partial_fit(X, np.where(y == None, 0, y), sample_weight=weight * (weight > 1))  # noqa: E711
    fewer.partial_fit({k: v[weight > 1] for k, v in X.items()}, y[weight > 1], sample_weight=weight[weight > 1])
    np.testing.assert_array_equal(more.predict_proba(some), fewer.predict_proba(some))
    with_them.predict_set(some)


def test_the_summary_notes_rows_that_are_alone_in_their_class():
    rows = {"x": [float(i % 5) for i in range(41)]}
    model = Classifier().fit(rows, [*("a", "b") * 20, "c"])
    assert model.summary().notes[-1].startswith("1 row is alone in its class and cannot be evaluated; about 2 % of")
    model.partial_fit({"x": [0.0]}, ["c"])
    assert not any("alone" in note for note in model.summary().notes)
