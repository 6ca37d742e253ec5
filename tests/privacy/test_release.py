"""Private models: sensitivities against rows added one by one, budgets, refusals, files and merges."""

from __future__ import annotations

import io
import json
import math
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from every import ESTIMATORS, READS, made, rows_for
from hypothesis import given, settings
from hypothesis import strategies as st

import deciban
from deciban import noise
from deciban.cli.commands.merge import merge
from deciban.cli.commands.show import show
from deciban.errors import DecibanError, ForgetError, SchemaError
from deciban.estimators import private
from deciban.families import Bernoulli, Categorical, Gaussian, Multinomial, Poisson
from deciban.privacy import GRID, declared, with_total
from deciban.results.ledger import Ledger
from deciban.schema import Columns

RNG = np.random.default_rng(0)
Y = np.array(["a", "b"])[RNG.integers(0, 2, 400)]
X = RNG.normal(size=(400, 3)) + 2.0 * (Y == "b")[:, None]
HOW = {"epsilon": 1.0, "classes": ["a", "b"]}
SIGNED = ("GaussianNB", "x")  # the only sum that may be negative
COLOURS = {"colour": ["red", "green", "blue"]}
CAN = {
    "GaussianNB": {"bounds": (-10, 10)},
    "PoissonNB": {"bounds": (0, 20)},
    "MultinomialNB": {"max_words": 20},
    "ComplementNB": {"max_words": 20},
    "BernoulliNB": {},
    "CategoricalNB": {"categories": [list("abcd")] * 3},
}


@pytest.fixture
def without_noise(monkeypatch):
    """Sums as they are before noise."""
    for mechanism in ("laplace", "gaussian"):
        monkeypatch.setattr(noise, mechanism, lambda totals, *_: (totals.astype(float), 0.0))


def block(family, d, k_categories=3):
    columns = Columns(d, categories=(range(k_categories),) * d if isinstance(family, Categorical) else None)
    gappy = np.arange(d) % 2 == 1
    return declared(family, columns, gappy, np.full(d, -1.0), np.full(d, 3.0), 5.0)


numbers = st.one_of(st.floats(allow_nan=True, allow_infinity=True, width=32), st.integers(0, 4).map(float))


@pytest.mark.parametrize(
    "family", [Gaussian(), Poisson(), Bernoulli(), Categorical(), Multinomial()], ids=lambda f: f.name
)
@settings(max_examples=15, deadline=None)
@given(row=st.lists(numbers, min_size=4, max_size=4))
def test_a_row_changes_no_sum_by_more_than_stated(family, row):
    """Of any row, however extreme: the sum over a column's entries, and those of the other class stay as they are."""
    one = np.array([row])
    if isinstance(family, Multinomial):
        one = np.where(np.isfinite(one), np.minimum(np.abs(one), 1e30), 0.0)  # its reader refuses others
    known = block(family, 4)
    for statistic in known.statistics(one, np.array([1]), 2):
        d = len(statistic.columns)
        assert statistic.totals.dtype == np.int64
        assert (statistic.totals[0] == 0).all()
        size = np.abs(statistic.totals[1])
        assert size.sum() <= d * statistic.most
        assert math.sqrt((size.astype(float) ** 2).sum()) <= (math.sqrt(d) * statistic.most * (1 + 1e-12))


def test_the_sensitivities_are_reached():
    """They are not larger than necessary: some row changes the sums by as much."""
    rows = {"gaussian": 3.0, "poisson": 3.0, "bernoulli": 1.0, "categorical": 2.0, "multinomial": 9.0}
    for family in (Gaussian(), Poisson(), Bernoulli(), Categorical(), Multinomial()):
        for statistic in block(family, 4).statistics(np.full((1, 4), rows[family.name]), np.array([0]), 1):
            reached = np.abs(statistic.totals).sum() / (len(statistic.columns) * statistic.most)
            assert reached == pytest.approx(1.0, abs=1e-3)


def test_sums_of_rows_add_up_and_do_not_depend_on_their_order():
    known, codes = block(Gaussian(), 3), (Y == "b").astype(int)
    order = RNG.permutation(400)
    parts = [known.statistics(X[rows], codes[rows], 2) for rows in (slice(0, 150), slice(150, 400), order)]
    for first, second, shuffled in zip(*parts, strict=True):
        assert (first.totals + second.totals == shuffled.totals).all()


@pytest.mark.usefixtures("without_noise")
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_without_noise_it_is_the_model_of_all_rows(delta):
    """Up to rounding to the grid, if nothing is outside the bounds."""
    model = deciban.GaussianNB().private(X, Y, delta=delta, bounds=(-10, 10), **HOW)
    plain = deciban.GaussianNB().fit(X, Y)
    assert model.class_count_.tolist() == plain.class_count_.tolist()
    assert np.allclose(model.theta_, plain.theta_, atol=20 / GRID)
    assert np.allclose(model.var_, plain.var_, rtol=1e-4)


@pytest.mark.usefixtures("without_noise")
def test_without_noise_counts_are_those_of_all_rows():
    counts = RNG.poisson(2.0, size=(400, 3)).astype(float)
    for name in ("PoissonNB", "BernoulliNB", "MultinomialNB", "ComplementNB"):
        how = HOW | CAN[name] | ({"max_words": 100} if "max_words" in CAN[name] else {})
        plain = getattr(deciban, name)()
        model, sparse = (plain.private(rows, Y, **how) for rows in (counts, sp.csr_matrix(counts)))
        plain.fit(counts, Y)
        assert np.allclose(model.predict_log_proba(counts), plain.predict_log_proba(counts), atol=1e-4), name
        assert np.allclose(model.predict_log_proba(counts), sparse.predict_log_proba(counts)), name


@pytest.mark.usefixtures("without_noise")
def test_documents_are_scaled_down_and_values_cut():
    model = deciban.MultinomialNB().private([[30.0, 10.0]], ["a"], epsilon=1.0, classes=["a"], max_words=8)
    assert model.feature_count_.tolist() == [[6.0, 2.0]]
    model = deciban.GaussianNB().private([[1e9], [-5.0]], ["a", "a"], epsilon=1.0, classes=["a"], bounds=(0, 10))
    assert model.theta_[0, 0] == pytest.approx(5.0)
    assert model.var_[0, 0] == pytest.approx(25.0)


@pytest.mark.usefixtures("without_noise")
def test_missing_values_count_where_they_are_declared():
    rows = np.array([[1.0, 1.0], [np.nan, np.nan], [3.0, 3.0], [np.nan, 5.0]])
    with pytest.warns(UserWarning, match="x1"):
        model = deciban.GaussianNB().private(rows, ["a"] * 4, epsilon=1.0, classes=["a"], bounds=(0, 10), missing=[0])
    assert model.theta_[0].tolist() == pytest.approx([2.0, 3.5], abs=1e-4)  # (1 + 3)/2, and (1 + 5 + 3 + 5)/4
    assert [e.column for e in model.privacy_.entries if e.statistic == "values"] == ["x0"]


def mixed(n=300):
    y = RNG.integers(0, 2, n)
    colour = np.where(y == 1, RNG.choice(["red", "green"], n), RNG.choice(["green", "blue"], n))
    table = {"age": 40 + 15 * y + RNG.normal(size=n), "colour": colour.tolist(), "visits": RNG.poisson(1 + 2 * y)}
    return table, y


def test_a_table_is_read_as_declared():
    table, y = mixed()
    nb = deciban.NaiveBayes({"visits": "poisson"})
    how = {"epsilon": 50.0, "classes": [0, 1], "bounds": {"age": (0, 100), "visits": (0, 30)}}
    model = nb.private(table, y, categories=COLOURS, **how)
    assert model.score(table, y) > 0.9
    assert {(e.statistic, e.column) for e in model.privacy_.entries} == {
        ("rows", ""),
        ("Σx", "age"),
        ("Σx²", "age"),
        ("Σ1[x = category]", "colour"),
        ("Σx", "visits"),
    }
    assert sorted(model.model_.columns(1).categories[0]) == ["blue", "green", "red"]
    with pytest.warns(UserWarning, match=r"colour.*do not publish"):
        fewer = nb.private(table, y, categories={"colour": ["red", "blue"]}, **how)
    assert fewer.model_.columns(1).categories == (("red", "blue"),)


def test_undeclared_labels_are_ignored_with_a_warning():
    with pytest.warns(UserWarning, match="rows are ignored"):
        model = deciban.GaussianNB().private(X, Y, epsilon=100.0, classes=["b", "c"], bounds=(-10, 10))
    assert model.classes_.tolist() == ["b", "c"]
    assert model.class_count_[1] < 10
    assert model.class_count_[0] == pytest.approx((Y == "b").sum(), abs=5)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_budget_is_shared_and_not_exceeded(delta):
    table, y = mixed()
    model = deciban.NaiveBayes().private(
        {name: table[name] for name in ("age", "colour")},
        y,
        epsilon=0.7,
        delta=delta,
        classes=[0, 1],
        bounds={"age": (0, 100)},
        categories=COLOURS,
    )
    ledger = model.privacy_
    whole = noise.rho_of(0.7, delta) if delta else 0.7
    assert whole * (1 - 1e-9) < sum(entry.budget for entry in ledger.entries) <= whole
    by_name = {entry.statistic: entry for entry in ledger.entries}
    assert (by_name["Σx"].sensitivity, by_name["Σx²"].sensitivity) == (50.0, 50.0**2 / 2)
    for entry in ledger.entries:  # noise for one column's sensitivity at its own share of the budget
        needed = entry.sensitivity / (math.sqrt(2 * entry.budget) if delta else entry.budget)
        assert entry.scale == pytest.approx(needed, rel=1e-9)


def test_the_noise_in_a_model_is_what_its_ledger_states():
    """Over many columns with the same values: the spread of their sums is the stated noise."""
    d = 400
    rows = np.ones((50, d))
    model = deciban.GaussianNB().private(rows, ["a"] * 50, epsilon=400.0, classes=["a"], bounds=(0, 4))
    stated = next(entry.scale for entry in model.privacy_.entries if entry.statistic == "Σx")
    sums = model.model_.stats.sums[0]["x"][0]  # about the middle of the bounds
    assert abs(np.abs(sums + 50.0).mean() / stated - 1.0) < 5 / math.sqrt(d)


@settings(max_examples=6, deadline=None)
@given(epsilon=st.floats(1e-6, 1e3), rows=st.integers(1, 5))
def test_any_noise_gives_a_possible_model(epsilon, rows):
    for name in ("GaussianNB", "BernoulliNB", "MultinomialNB"):
        model = getattr(deciban, name)().private(
            np.ones((rows, 2)), ["a"] * rows, epsilon=epsilon, classes=["a", "b"], **CAN[name]
        )
        assert (model.class_count_ >= 1).all()
        assert all((sums >= 0).all() for key, sums in model.model_.stats.sums[0].items() if (name, key) != SIGNED)
        proba = model.predict_proba(np.array([[0.0, 1.0], [3.0, 7.0]]))
        assert np.isfinite(proba).all()
        assert np.allclose(proba.sum(axis=1), 1.0)
        if name == "GaussianNB":
            assert (model.var_ > 0).all()
            assert (np.abs(model.theta_) <= 10 + 1e-9).all()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=6), st.floats(0.1, 200))
def test_projected_counts_are_the_nearest(counts, total):
    out = with_total(np.array([counts]), np.array([total]))[0]
    assert (out >= 0).all()
    assert out.sum() == pytest.approx(total)
    positive = out > 1e-9  # at the nearest point all positive ones moved by the same, and no other by less
    moved = np.array(counts) - out
    assert np.ptp(moved[positive]) < 1e-6
    assert (moved[~positive] <= moved[positive].max() + 1e-6).all()


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_estimator_is_private_or_refuses(name):
    if name in READS["documents"]:
        pytest.skip("it is not a classifier")
    rows, y = rows_for(name)
    how = {"epsilon": 1.0, "classes": np.unique(y)}
    if name in private.REFUSED:
        with pytest.raises(DecibanError, match=r"cannot be private.*NaiveBayes"):
            made(name).private(rows, y, bounds=(-10, 10), max_words=10, **how)
    elif name != "NaiveBayes":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert made(name).private(rows, y, **how, **CAN[name]).privacy_.epsilon == 1.0
    assert name in {*private.REFUSED, *CAN, "NaiveBayes"}


@pytest.mark.parametrize(
    ("model", "how", "words"),
    [
        (deciban.GaussianNB(), {}, r"bounds=.*'x0'.*not from the rows"),
        (deciban.GaussianNB(), {"bounds": {"x0": (0, 1)}}, "'x1', 'x2'"),
        (deciban.GaussianNB(), {"bounds": (3, 3)}, "low must be less"),
        (deciban.GaussianNB(), {"bounds": (0, np.inf)}, "low must be less"),
        (deciban.GaussianNB(), {"bounds": {"x7": (0, 1)}}, "x7"),
        (deciban.GaussianNB(), {"bounds": 5}, "pair"),
        (deciban.GaussianNB(), {"bounds": (-9, 9), "missing": ["y"]}, "missing names 'y'"),
        (deciban.GaussianNB(alpha="loo"), {"bounds": (-9, 9)}, "chosen from the rows"),
        (deciban.GaussianNB(), {"bounds": (-9, 9), "epsilon": 0}, "epsilon is 0"),
        (deciban.GaussianNB(), {"bounds": (-9, 9), "epsilon": math.nan}, "epsilon is nan"),
        (deciban.GaussianNB(), {"bounds": (-9, 9), "delta": 1.0}, "delta is 1"),
        (deciban.GaussianNB(), {"bounds": (-9, 9), "classes": []}, "classes"),
        (deciban.GaussianNB(), {"bounds": (-9, 9), "classes": "ab"}, "classes"),
        (deciban.PoissonNB(), {"bounds": (-1, 9)}, "never negative"),
        (deciban.MultinomialNB(), {}, "max_words is None"),
        (deciban.CategoricalNB(), {}, "categories="),
        (deciban.CategoricalNB(), {"categories": [["a", "a"], ["b"], ["c"]]}, "distinct"),
        (deciban.NaiveBayes(), {"bounds": {0: (0, 1)}}, "nothing is declared of 'x1', 'x2'"),
        (deciban.NaiveBayes({(0, 1): "full"}), {"bounds": (-9, 9)}, "covariance"),
        (deciban.NaiveBayes({0: ("gaussian", "loo")}), {"bounds": (-9, 9)}, "chosen from the rows"),
    ],
)
def test_what_is_not_declared_or_not_protected_is_refused(model, how, words):
    with pytest.raises(DecibanError, match=words):
        model.private(np.abs(X), Y, **{**HOW, **how})


@pytest.fixture(scope="module")
def gaussian():
    return deciban.GaussianNB().private(X, Y, bounds=(-10, 10), **HOW)


def test_nothing_is_kept_of_the_rows(gaussian):
    assert gaussian._kept_rows() is None
    pivot = gaussian.model_.columns().pivot
    assert (pivot == 0.0).all()  # the middle of the bounds, and not a mean of rows


def test_private_models_refuse_what_needs_rows(gaussian):
    for refused in (gaussian.forget, gaussian.leave_one_out, gaussian.calibrate):
        with pytest.raises(ForgetError, match="private: noise"):
            refused(X, Y)
    with pytest.raises(ForgetError, match="private: noise"):
        gaussian - gaussian
    for way in ("auto", "full", "cross"):
        with pytest.raises(DecibanError, match="private: noise"):
            gaussian.predict_set(X, rows=(X, Y), way=way)
    plain = deciban.GaussianNB().fit(X, Y)
    before = gaussian.class_count_.tolist()
    for refused in (
        lambda: gaussian.partial_fit(X, Y),
        lambda: gaussian + plain,
        lambda: plain + gaussian,
        lambda: gaussian + gaussian.empty().partial_fit(X, Y),
    ):
        with pytest.raises(SchemaError, match="without noise"):
            refused()
    assert gaussian.class_count_.tolist() == before
    with pytest.raises(AttributeError, match="not private"):
        gaussian.empty().privacy_  # noqa: B018 - it is a property
    assert not hasattr(plain, "privacy_")


def test_private_models_merge():
    sites = [
        deciban.GaussianNB().private(X[i::3], Y[i::3], epsilon=e, classes=["a", "b"], bounds=(-10, 10))
        for i, e in enumerate((0.5, 2.0, 1.0))
    ]
    whole = sum(sites)
    ledger = whole.privacy_
    assert (ledger.epsilon, len(ledger.models)) == (2.0, 3)
    assert "ε is 3.5" in repr(ledger)
    scales = [site.privacy_.entries[0].scale for site in sites]
    assert ledger.entries[0].scale == pytest.approx(math.hypot(*scales))
    assert whole.class_count_.tolist() == pytest.approx(sum(site.class_count_ for site in sites).tolist())
    half = whole.privacy_.scaled(0.5).entries[0]
    assert (half.scale, half.budget) == (ledger.entries[0].scale / 2, ledger.entries[0].budget)
    for other in ({"bounds": (-9, 10)}, {"bounds": (-10, 10), "delta": 1e-6}):
        with pytest.raises(SchemaError, match="same bounds"):
            whole + deciban.GaussianNB().private(X, Y, **HOW, **other)


def test_a_file_keeps_the_ledger(gaussian):
    file = io.BytesIO()
    gaussian.save(file)
    for read in (deciban.load, deciban.read):
        file.seek(0)
        again = read(file)
        ledger = (getattr(again, "model_", None) or again.model).privacy
        assert ledger.to_dict() == gaussian.privacy_.to_dict()
    file.seek(0)
    with pytest.raises(ForgetError, match="private: noise"):
        deciban.load(file).forget(X[:1], Y[:1])


def test_commands_merge_private_models_and_show_the_ledger(tmp_path, capsys, gaussian):
    paths = [str(tmp_path / f"{name}.deciban") for name in ("one", "two", "both", "plain")]
    for path, model in zip(paths, (gaussian, gaussian, None, deciban.GaussianNB().fit(X, Y)), strict=True):
        if model is not None:
            model.save(path)
    merge(paths[:2], paths[2])
    show(paths[2])
    assert "2 models merged" in capsys.readouterr().out
    show(paths[2], json=True)
    assert len(json.loads(capsys.readouterr().out)["privacy"]["models"]) == 2
    with pytest.raises(SchemaError, match="without noise"):
        merge([paths[0], paths[3]], str(tmp_path / "mixed.deciban"))


def test_without_opendp_the_error_tells_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ImportError, match=r"pip install 'deciban\[private\]'"):
        deciban.GaussianNB().private(X, Y, bounds=(-10, 10), **HOW)


@pytest.mark.parametrize(
    "wrong",
    [
        {"models": [], "entries": []},
        {"models": [[1.0]], "entries": []},
        {"models": [[math.nan, 0.0]], "entries": []},
        {"models": [["1", 0.0]], "entries": []},
        {"models": [[1.0, 0.0]], "entries": [{"statistic": 3}]},
        {"models": [[1.0, 0.0]], "entries": 7},
        {"models": [[1.0, 0.0]], "entries": [dict.fromkeys(("statistic", "column"), "") | {"scale": -1.0}]},
    ],
)
def test_a_damaged_ledger_is_an_error(wrong):
    with pytest.raises((DecibanError, LookupError, TypeError, ValueError)):
        Ledger.from_dict(wrong)
