"""Generative against discriminative: which is better when, on synthetic and on real tables (S15)."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from rich.console import Console
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deciban import GaussianNB, MultinomialNB
from deciban.errors import DecibanError
from deciban.estimators import compare as compared
from deciban.estimators.compare import compare
from deciban.reading.frames import read_frame
from deciban.reading.kinds import infer
from deciban.results.comparison import ByNumber, Comparison, learning_curves, stratified_order


def gaussians(n=6000, shared=0.0, seed=0):
    """Two classes of 30 columns, 0.6 apart in each; ten of the columns share a cause of this variance."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 30)) + 0.6 * y[:, None]
    X[:, :10] += np.sqrt(shared) * rng.normal(size=(n, 1))
    return X, y


@pytest.fixture(scope="module")
def crossed():
    """A comparison in which logistic regression overtakes."""
    return compare(*gaussians(shared=0.15), sizes=[120, 250, 1000, 4000], repeats=3)


# ------------------------------ who wins


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_true_model_needs_fewer_rows(seed):
    comparison = compare(*gaussians(seed=seed), sizes=[120, 500, 4000], repeats=3)
    generative, discriminative = comparison.log_loss.mean(axis=2)
    assert comparison.best(120) == "GaussianNB"
    assert generative[0] < 0.9 * discriminative[0]
    assert (comparison.log_loss[0, 0] < comparison.log_loss[1, 0]).all(), "in every repeat"
    assert abs(generative[-1] - discriminative[-1]) < 0.01, "both find the true posterior in the end"
    # The best there is: the log-odds of the true law are 0.6 Σ(x_j − 0.3). Held-out rows leave ±0.005 to chance.
    X, y = gaussians(seed=seed)
    bayes = np.logaddexp(0.0, -(2 * y - 1) * 0.6 * (X - 0.3).sum(axis=1)).mean()
    assert generative[-1] == pytest.approx(bayes, abs=0.015)


def test_a_true_model_needs_far_fewer_than_one_without_a_prior():
    bare = make_pipeline(StandardScaler(), LogisticRegression(C=1e4, max_iter=10_000))
    comparison = compare(*gaussians(n=2000), GaussianNB(), bare, sizes=[120, 1000], repeats=3)
    generative, discriminative = comparison.log_loss.mean(axis=2)
    assert discriminative[0] > 3 * generative[0]
    assert abs(generative[1] - discriminative[1]) < 0.05


@pytest.mark.slow
def test_a_wrong_model_is_overtaken(crossed):
    assert crossed.best(120) == "GaussianNB"
    assert crossed.best() == crossed.best(4000) == "LogisticRegression"
    assert 120 < crossed.crossing <= 1000
    generative, discriminative = crossed.log_loss.mean(axis=2)
    assert generative[-1] > discriminative[-1] + 0.01
    assert repr(crossed).startswith(f"LogisticRegression has the lowest log loss from {crossed.crossing} rows on")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pima", pytest.param("vehicle", marks=pytest.mark.slow)])
def test_which_model_is_better_on_real_tables(table, name):
    data = table(name)
    comparison = compare(data.numbers, data.y, repeats=3)
    assert len(comparison.sizes) == 8
    assert comparison.held_out == round(len(data.y) / 3)
    assert comparison.sizes[-1] == len(data.y) - comparison.held_out
    assert np.isfinite(comparison.log_loss).all()
    assert comparison.best() == "LogisticRegression", "columns of both depend on each other"
    assert comparison.crossing < 100
    assert comparison.to_table().rows[-1][-1] == "LogisticRegression", "without a question mark"
    _, count = np.unique(data.y, return_counts=True)
    share = count / count.sum()
    assert comparison.log_loss[1, -1].mean() < -(share * np.log(share)).sum(), "better than the prior alone"
    assert comparison.accuracy[1, -1].mean() > share.max()


@pytest.mark.slow  # test_which_model_is_better_on_real_tables
def test_a_real_table_on_which_naive_bayes_leads_for_long(table):
    data = table("ionosphere")
    comparison = compare(data.numbers, data.y, sizes=[50, 90, 234], repeats=8)
    assert [row[-1] for row in comparison.to_table().rows[:2]] == ["GaussianNB", "GaussianNB"]
    generative, discriminative = comparison.log_loss.mean(axis=2)
    assert discriminative[0] - generative[0] > 2 * (discriminative[-1] - generative[-1]), "the lead shrinks"


def test_missing_values_are_no_obstacle(table):
    data = table("hepatitis")
    assert np.isnan(data.numbers).any()
    comparison = compare(data.numbers, data.y, repeats=1)
    assert np.isfinite(comparison.log_loss).all()


# ------------------------------ the rows


class Spy:
    """Records which rows it learned and scored, and always predicts the same."""

    seen: list = []  # noqa: RUF012  # shared on purpose: copies learn

    def fit(self, X, y):
        self.classes_, count = np.unique(y, return_counts=True)
        assert (count >= 2).all()
        self.learned, self.share = X[:, 0].astype(int), count / len(y)
        return self

    def predict_proba(self, X):
        Spy.seen.append((self.learned, X[:, 0].astype(int)))
        return np.tile(self.share, (len(X), 1))


def test_every_model_learns_and_judges_the_same_rows():
    Spy.seen = []
    y = np.repeat(["a", "b", "c"], [5, 35, 160])
    X = np.arange(200)[:, None]
    comparison = learning_curves(
        {"one": Spy(), "two": Spy()}, X, y, [6, 20, 100, 140], held_out=60, repeats=3, rng=np.random.default_rng(0)
    )
    assert (comparison.log_loss[0] == comparison.log_loss[1]).all()
    seen = iter(Spy.seen)
    tests = []
    for _ in range(3):
        before, test = set(), None
        for size in comparison.sizes:
            (learned, judged), (again, judged_again) = next(seen), next(seen)
            assert (learned == again).all()
            assert (judged == judged_again).all()
            assert len(set(learned)) == size
            assert len(set(judged)) == 60
            assert before < set(learned), "larger sets contain smaller ones"
            assert not set(learned) & set(judged)
            assert test is None or (test == judged).all(), "one held-out set for all sizes"
            before, test = set(learned), judged
            if size >= 100:  # at six rows each class has its two
                shares = np.unique(y[learned], return_counts=True)[1] / size
                np.testing.assert_allclose(shares, [0.025, 0.175, 0.8], atol=0.02)
        tests.append(set(test))
    assert tests[0] != tests[1]


def test_orders_are_random():
    codes = np.repeat([0, 1], [10, 30])
    rng = np.random.default_rng(0)
    orders = np.array([stratified_order(codes, rng) for _ in range(2000)])
    assert (np.sort(orders) == np.arange(40)).all()
    often = np.array([(orders[:, 20:] == row).any(axis=1).mean() for row in range(40)])
    assert (np.abs(often - 0.5) < 0.06).all(), "each row is as often in the second half as in the first"


def test_the_loss_is_honest():
    """No clipping: certain and wrong costs infinity, and logarithms are used where a model has them."""

    class Certain:
        known = 2

        def fit(self, X, y):
            del X
            self.classes_ = np.unique(y)[: self.known]

        def predict_proba(self, X):
            return np.tile([1.0, 0.0][: self.known], (len(X), 1))

    class Nearly(Certain):
        def predict_log_proba(self, X):
            return np.tile([0.0, -1000.0], (len(X), 1))

    class Ignorant(Certain):
        known = 1

    X, y = np.zeros((20, 1)), np.arange(20) % 2
    models = {"certain": Certain(), "nearly": Nearly(), "ignorant": Ignorant()}
    comparison = learning_curves(models, X, y, [4, 10], held_out=10, repeats=2, rng=np.random.default_rng(0))
    assert (comparison.accuracy == 0.5).all()
    assert (comparison.log_loss[[0, 2]] == np.inf).all()
    np.testing.assert_allclose(comparison.log_loss[1], 500.0)
    assert (comparison.best(4), comparison.crossing) == ("nearly", 4)
    assert "∞" in repr(comparison)


def test_the_form_of_the_rows_does_not_matter():
    rng = np.random.default_rng(0)
    X = rng.poisson(0.5, size=(90, 6)).astype(float)
    y = np.array(["a", "b"])[(X[:, 0] + rng.normal(size=90) > 0.5).astype(int)]
    pair = MultinomialNB(), LogisticRegression()
    expected = compare(X, y, *pair, sizes=[8, 50], repeats=2)
    pandas = pytest.importorskip("pandas")
    forms = [X.tolist(), sp.csr_array(X), sp.coo_matrix(X), pandas.DataFrame(X, index=np.arange(90)[::-1])]
    for rows in forms:
        comparison = compare(rows, y.tolist(), *pair, sizes=[8, 50], repeats=2)
        np.testing.assert_allclose(comparison.log_loss, expected.log_loss, rtol=1e-6)
    assert compare(pandas.DataFrame(X), pandas.Series(y), sizes=[50], repeats=1).names == (
        "GaussianNB",
        "LogisticRegression",
    )
    some_missing = X.copy()
    some_missing[rng.random(X.shape) < 0.2] = np.nan
    some_missing[:, 5] = np.nan
    for rows in (some_missing, sp.csr_array(some_missing)):
        assert np.isfinite(compare(rows, y, sizes=[8, 50], repeats=1).log_loss).all()


def test_the_seed_decides():
    X, y = gaussians(300)
    first, again, other = (compare(X, y, sizes=[20, 80], repeats=2, random_state=seed).log_loss for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()
    one, two = (
        compare(X, y, sizes=[20, 80], repeats=2, random_state=np.random.default_rng(5)).log_loss for _ in range(2)
    )
    assert (one == two).all()


def test_the_models_stay_as_they_are():
    X, y = gaussians(200)
    generative = GaussianNB().fit(X[:, :2], y)
    discriminative = LogisticRegression()
    compare(X, y, generative, discriminative, sizes=[50], repeats=1)
    assert generative.n_features_in_ == 2
    assert not hasattr(discriminative, "coef_")


def test_names_tell_models_apart():
    X, y = gaussians(200)
    comparison = compare(X, y, GaussianNB(), GaussianNB(alpha=5.0), sizes=[20], repeats=1)
    assert comparison.names == ("generative", "discriminative")


def test_many_rows_are_not_all_held_out():
    X = np.arange(70_000.0)[:, None]
    assert compare(X, X[:, 0] > 35_000, sizes=[50], repeats=1).held_out == 20_000
    assert compare(X, X[:, 0] > 35_000, sizes=[50], repeats=1, test_size=100).held_out == 100


# ------------------------------ showing


def test_a_comparison_renders_everywhere(crossed):
    assert json.loads(json.dumps(crossed.to_dict()))["sizes"] == [120, 250, 1000, 4000]
    lines = repr(crossed).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.endswith(" ?") for line in lines) == (
        lines[-1].startswith("?: the lead is less than two standard errors")
    )
    screen = io.StringIO()
    Console(file=screen, width=160, color_system=None).print(crossed)
    assert "LogisticRegression" in screen.getvalue()
    page = Comparison(("<a>", "b"), crossed.sizes, crossed.accuracy, crossed.log_loss, 10)._repr_html_()
    assert page.count("<table>") == 2
    assert "<a>" not in page
    frame = crossed.to_frame()
    assert frame.columns.tolist() == ["model", "rows", "repeat", "accuracy", "log_loss"]
    assert len(frame) == 2 * 4 * 3
    means = frame.groupby(["model", "rows"])["log_loss"].mean()
    np.testing.assert_allclose(means["GaussianNB"], crossed.log_loss[0].mean(axis=1))


@pytest.mark.parametrize("measure", ["log_loss", "accuracy"])
def test_curves_can_be_plotted(crossed, measure):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = crossed.plot(measure=measure)
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(crossed.names)
    assert len(axes.collections) == 2, "a band each"
    assert crossed.plot(axes) is axes
    endless = np.where(crossed.log_loss > 0.25, np.inf, crossed.log_loss)
    assert Comparison(("a", "b"), crossed.sizes, crossed.accuracy, endless, 10).plot().get_xscale() == "log"
    matplotlib.pyplot.close("all")
    with pytest.raises(DecibanError, match="must be 'log_loss' or 'accuracy'"):
        crossed.plot(measure="speed")


def test_crossing_means_for_good():
    def crossing(*second):
        loss = np.stack([np.ones((3, 2)), np.repeat(second, 2).reshape(3, 2)])
        return Comparison(("a", "b"), (10, 20, 40), loss, loss, 5).crossing

    assert crossing(0.5, 0.5, 0.5) == 10
    assert crossing(0.5, 1.5, 0.5) == 40
    assert crossing(1.5, 0.5, 0.5) == 20
    assert crossing(0.5, 0.5, 1.5) is None
    assert crossing(1.0, 1.0, 1.0) is None


def test_a_lead_that_may_be_chance_has_a_question_mark():
    def leaders(first, second):
        loss = np.array([[first], [second]], dtype=float)
        return Comparison(("a", "b"), (10,), loss, loss, 5).to_table().rows[0][-1]

    assert leaders([1, 2, 3], [1.5, 2.4, 3.6]) == "a", "repeat by repeat it is clear"
    assert leaders([1, 2, 3], [3, 2.2, 1]) == "a ?"
    assert leaders([1, 2, 3], [1, 2, np.inf]) == "a"
    assert leaders([1, 2, np.inf], [1, 2, np.inf]) == "a ?"
    assert leaders([1], [2]) == "a ?", "one draw says nothing of another"


def test_sizes_may_have_fewer_draws_than_others():
    loss = np.array([[[0.5, 0.7, 0.6], [0.4, 0.2, np.nan]], [[0.9, 0.9, 0.9], [0.2, 0.2, np.nan]]])
    comparison = Comparison(("a", "b"), (10, 100), np.exp(-loss), loss, 50)
    assert (comparison.repeats, comparison.draws) == (3, (3, 2))
    assert "mean of 2 to 3 draws" in repr(comparison).replace("\n", " ")
    assert (comparison.best(10), comparison.best(100)) == ("a", "b")
    assert comparison.to_table().rows[1][1] == "0.3 ± 0.1", "of the two that were drawn"
    document = comparison.to_dict()
    assert document["draws"] == [3, 2]
    assert document["log_loss"]["a"] == [[0.5, 0.7, 0.6], [0.4, 0.2]]
    assert len(comparison.to_frame()) == 2 * 5
    json.dumps(document, allow_nan=False)


@pytest.mark.slow
def test_large_sizes_are_drawn_less_often():
    X, y = gaussians(6000)
    comparison = compare(X, y, repeats=5)
    assert comparison.draws == tuple(3 if size > 1000 else 5 for size in comparison.sizes)
    assert set(comparison.draws) == {3, 5}
    assert compare(X, y, repeats=1, sizes=[20, 3000]).draws == (1, 1)
    assert compare(X, y, repeats=2, sizes=[20, 3000]).draws == (2, 2), "as asked, where sizes are given"


def test_rows_are_looked_up_by_number():
    X, y = gaussians(200)
    by_number = {name: ByNumber(GaussianNB(), X.__getitem__) for name in "ab"}
    direct, looked_up = (
        learning_curves(models, rows, y, [20], held_out=50, repeats=2, rng=np.random.default_rng(0))
        for models, rows in (({"a": GaussianNB(), "b": GaussianNB()}, X), (by_number, np.arange(200)))
    )
    assert np.array_equal(direct.log_loss, looked_up.log_loss)
    assert not hasattr(by_number["a"].model, "class_count_"), "copies learn"


def test_a_table_is_read_once_for_all_fits(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    frame = pandas.DataFrame(
        {
            "n": rng.normal(size=60) + y,
            "c": rng.choice(["u", "v", None], 60),
            "d": pandas.to_datetime("2020-01-01") + pandas.to_timedelta(rng.integers(0, 900, 60), "D"),
            "t": [f"some words {i} and {'cash' if one else 'lunch'} now" for i, one in enumerate(y)],
        }
    )
    reads = []
    monkeypatch.setattr(compared, "read_frame", lambda X: reads.append(X) or read_frame(X))
    kinds = infer(read_frame(frame), {"n": "number", "c": "category", "d": "date", "t": "text"})
    comparison = compared.compare_tables(frame, y, kinds, repeats=1)
    assert len(reads) == 1
    assert np.isfinite(comparison.log_loss).all()
    assert comparison.names == ("Classifier", "LogisticRegression")
    assert comparison.log_loss[1, -1, 0] < 0.3, "a word says it all"


def test_numbers_as_people_write_them_are_numbers_to_both_models():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    amounts = [f"${amount:,.0f}" for amount in 5000 + 3000 * y + rng.normal(0, 300, 300)]
    frame = pandas.DataFrame({"amount": amounts, "noise": rng.normal(size=300)})
    comparison = compared.compare_tables(frame, y, infer(read_frame(frame)), repeats=1)
    assert (comparison.accuracy[:, -1] > 0.95).all()


def test_a_bar_only_where_somebody_watches(monkeypatch, capsys):
    X, y = gaussians(100)
    compare(X, y, sizes=[20], repeats=1)
    assert capsys.readouterr() == ("", "")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    compare(X, y, sizes=[20], repeats=1)
    assert "comparing" in screen.getvalue()


# ------------------------------ bad input


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sizes": [10, 81]}, "a size of 81 is too large: 80 rows are left to learn from"),
        ({"sizes": [3, 20]}, "a size of 3 is too small: 2 rows of each class need 4 or more"),
        ({"sizes": []}, "sizes must be whole numbers"),
        ({"sizes": [0.5]}, "sizes must be whole numbers"),
        ({"repeats": 0}, "repeats is 0"),
        ({"test_size": 0.0}, "test_size is 0: it must be a share"),
        ({"test_size": 1.5}, "test_size is 1.5"),
        ({"test_size": 120}, "held_out is 120: of 120 rows, some must be held out"),
        ({"test_size": 118}, "a size of 2 is too small"),
        ({"y": np.arange(119) % 2}, "X has 120 rows, y has 119"),
        ({"y": np.zeros(120)}, r"two classes.* 0.0"),
        ({"y": [None] + ["a", "b"] * 59 + ["b"]}, "needs a label for every row"),
        ({"y": ["rare"] * 2 + ["a", "b"] * 59}, r"class 'rare' has too few rows \(2\)"),
        ({"generative": GaussianNB}, "generative must be a classifier"),
        ({"discriminative": "logistic"}, "discriminative must be a classifier"),
        ({"discriminative": RidgeClassifier()}, "RidgeClassifier has no predict_proba"),
    ],
)
def test_bad_input_is_named(options, words):
    X, y = gaussians(120)
    with pytest.raises(DecibanError, match=words):
        compare(X, **{"y": y, "sizes": None, "test_size": 40, **options})


def test_no_rows_and_no_table():
    with pytest.raises(DecibanError, match="two classes"):
        compare(np.zeros((0, 2)), [])
    with pytest.raises(DecibanError, match="no rows"):
        compare(3.0, [1])


def test_an_error_inside_says_which_model():
    X, y = gaussians(120)
    X[:60, 0] = np.nan
    with pytest.raises(ValueError, match="NaN") as caught:
        compare(X, y, discriminative=LogisticRegression())
    assert caught.value.__notes__[0].startswith("This was LogisticRegression on ")
    with pytest.raises(DecibanError, match="two models"):
        learning_curves({"a": GaussianNB()}, X, y, [10], held_out=10, repeats=1, rng=np.random.default_rng(0))
