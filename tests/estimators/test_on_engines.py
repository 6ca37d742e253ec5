"""Estimators on data in files, databases and clusters, beyond the sums that the parity test compares."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import LedoitWolf

import deciban
import deciban.sources
from deciban.errors import DecibanError
from deciban.results.evaluation import Judged
from deciban.results.tally import Tally

LABELS = np.array(["cow", "duck", "hen"])


def flowers(n=3000, seed=0):
    """Two numbers by class, three classes apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 2)) + 4.0 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    return X, LABELS[y]


def table_of(X, y=None):
    columns = {name: X[:, j] for j, name in enumerate("ab")}
    return pa.table(columns if y is None else columns | {"label": y})


def coming(table, rows=700):
    """The table as a stream of a few rows at a time, which can be read repeatedly."""
    return lambda: iter(table.to_batches(rows))


# ------------------------------------------------------------------ what is hidden


def test_clusters_are_found_where_rows_are():
    X, y = flowers()
    model = deciban.NaiveBayes().fit(coming(table_of(X)), None, clusters=3)
    assert model.n_unlabelled_ == len(X)
    assert model.class_count_.sum() == pytest.approx(len(X))
    predicted = model.predict(coming(table_of(X)))
    for label in LABELS:  # each cluster is one class, nearly
        assert np.bincount(predicted[y == label], minlength=3).max() > 0.9 * (y == label).sum()
    steps = model.em_.log_likelihood
    assert all(b >= a - 1e-6 * abs(a) for a, b in itertools.pairwise(steps)), "a step of EM climbs"


def test_a_mixture_goes_on_from_a_sample_over_all_rows():
    X, _ = flowers()
    whole = deciban.GaussianMixture(3, tol=1e-9, max_iter=500, random_state=0).fit(X)
    there = deciban.GaussianMixture(3, tol=1e-9, max_iter=500, random_state=0).fit(coming(table_of(X)))
    order = [int(np.argmin(((whole.means_ - mean) ** 2).sum(axis=1))) for mean in there.means_]
    assert sorted(order) == [0, 1, 2]
    # Both stop where a step gains less than 1e-9 nats a row, and that far from the top the means may be apart.
    assert np.allclose(there.means_, whole.means_[order], atol=1e-2)
    assert there.weights_.sum() == pytest.approx(1.0)
    assert there.converged_


def test_a_mixture_discriminant_learns_where_rows_are():
    X, y = flowers()
    model = deciban.MixtureDiscriminant(components=2, random_state=0)
    there = model.fit(coming(table_of(X, y)), "label")
    assert there.class_count_.sum() == pytest.approx(len(y))
    assert there.score(coming(table_of(X, y)), "label") > 0.9
    more = there.class_count_.copy()
    there.partial_fit(coming(table_of(X, y)), "label")
    assert np.allclose(there.class_count_, 2 * more)


def test_a_mixture_discriminant_says_which_class_is_too_rare(monkeypatch):
    X, y = flowers()
    monkeypatch.setattr("deciban.engines.learn.SAMPLE_ROWS", 500)
    y[-1] = "emu"
    with pytest.raises(DecibanError, match="'emu' has no row in the sample"):
        deciban.MixtureDiscriminant(components=1).fit(deciban.stream(coming(table_of(X, y), 100)), "label")


def test_what_goes_over_rows_again_needs_rows_that_come_again():
    X, y = flowers(300)
    with pytest.raises(DecibanError, match="only once"):
        deciban.GaussianMixture(2).fit(iter([table_of(X)]))
    missing = pa.table({"a": X[:, 0], "label": pa.array([None, *y[1:].tolist()])})
    with pytest.raises(DecibanError, match="only once"):
        deciban.NaiveBayes().fit(iter([missing]), "label")
    assert deciban.NaiveBayes().fit(lambda: iter([missing]), "label").n_unlabelled_ == 1


def test_what_looks_at_rows_must_have_them_all():
    X, y = flowers(300)
    rows = coming(table_of(X, y))
    with pytest.raises(DecibanError, match="in memory"):
        deciban.LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=LedoitWolf()).fit(rows, "label")
    with pytest.raises(DecibanError, match="in memory"):
        deciban.NearestCentroid(metric="manhattan").fit(rows, "label")


# ------------------------------------------------------------------ what is chosen by rows left out


def test_a_strength_is_chosen_by_all_sums():
    X, y = flowers(4000)
    whole = deciban.GaussianNB(alpha="loo").fit(X, y)
    there = deciban.GaussianNB(alpha="loo").fit(coming(table_of(X, y)), "label")
    # The sample is all rows here, and the search for the strength stops within a thousandth of its logarithm: sums that
    # differ by rounding lead it to the same place, nearly.
    assert there.alpha_ == pytest.approx(whole.alpha_, rel=1e-6)
    assert np.allclose(there.predict_proba(table_of(X)), whole.predict_proba(X), atol=1e-6)


def test_a_strength_is_chosen_on_a_sample_of_more(monkeypatch):
    X, y = flowers(4000)
    monkeypatch.setattr("deciban.engines.learn.SAMPLE_ROWS", 1000)
    there = deciban.GaussianNB(alpha="loo").fit(coming(table_of(X, y)), "label")
    fixed = deciban.GaussianNB(alpha=there.alpha_).fit(X, y)
    assert there.model_.stats.same_as(fixed.model_.stats)
    assert np.allclose(there.predict_proba(table_of(X)), fixed.predict_proba(X), atol=1e-9)


# ------------------------------------------------------------------ tallies


@st.composite
def judged(draw):
    k, n = draw(st.integers(1, 4)), draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    with np.errstate(divide="ignore"):
        log_proba = np.log(rng.dirichlet(np.ones(k), n)).reshape(n, k)
    if n and draw(st.booleans()):
        log_proba[0] = -np.inf  # nothing was possible
    weight = rng.integers(0, 3, n).astype(float) if draw(st.booleans()) else None
    return Judged(np.array(list("abcd")[:k]), log_proba, rng.integers(0, k, n), weight)


@given(judged(), st.integers(0, 12))
def test_a_tally_is_what_is_judged_however_it_is_cut(whole, cut):
    def part(rows):
        weight = None if whole.weight is None else whole.weight[rows]
        return Tally.of(Judged(whole.classes, whole.log_proba[rows], whole.truth[rows], weight))

    both, alone = part(slice(None, cut)) + part(slice(cut, None)), Tally.of(whole)
    for tally in (both, alone):
        assert tally.rows == pytest.approx(whole._weights.sum())
        for name in ("accuracy", "log_loss"):
            assert getattr(tally, name) == pytest.approx(getattr(whole, name), nan_ok=True)
    assert np.array_equal(both.confusion, alone.confusion)
    assert both.brier == pytest.approx(alone.brier, nan_ok=True)


def test_tallies_of_other_classes_add_up():
    one = Tally.of(Judged(np.array(["a", "c"]), np.log([[0.9, 0.1]]), np.array([0])))
    two = Tally.of(Judged(np.array(["b", "c"]), np.log([[0.2, 0.8]]), np.array([0])))
    both = one + two
    assert both.classes.tolist() == ["a", "b", "c"]
    assert both.confusion.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert both.accuracy == 0.5
    assert both.log_loss == pytest.approx(-(np.log(0.9) + np.log(0.2)) / 2)
    assert "accuracy" in repr(both)
    assert both.confusions().rows[1] == ("b", 0.0, 0.0, 1.0)


def test_scores_are_those_of_rows_in_memory():
    X, y = flowers(1000)
    rows = coming(table_of(X, y))
    for model in (deciban.GaussianNB(), deciban.Classifier(), deciban.NaiveBayes()):
        model.fit(table_of(X), y)
        assert model.score(rows, "label") == pytest.approx(model.score(table_of(X), y))
        left = model.leave_one_out(rows, "label")
        assert left.rows == len(y)
        assert left.log_loss == pytest.approx(model.leave_one_out(table_of(X), y).log_loss)


@pytest.mark.filterwarnings("ignore:X has feature names")  # of a model that was fitted without
def test_a_label_that_was_never_learned():
    X, y = flowers(100)
    model = deciban.GaussianNB().fit(X, np.where(y == "hen", "cow", y))
    rows = coming(pa.table({"x0": X[:, 0], "x1": X[:, 1], "label": y}))
    assert model.score(rows, "label") == pytest.approx(model.score(X, y)), "such rows are wrong, and count"
    with pytest.raises(ValueError, match="hen"):
        model.leave_one_out(rows, "label")


# ------------------------------------------------------------------ what is told


def test_columns_that_are_not_there_are_named():
    X, y = flowers(200)
    rows = coming(table_of(X, y))
    with pytest.raises(DecibanError, match=r"no column 'lable': did you mean 'label'\?"):
        deciban.GaussianNB().fit(rows, "lable")
    with pytest.raises(DecibanError, match="no column 'w'"):
        deciban.GaussianNB().fit(rows, "label", sample_weight="w")
    model = deciban.GaussianNB().fit(rows, "label")
    with pytest.raises(DecibanError, match="no column 'b'"):
        model.predict(coming(table_of(X).select(["a"])))


def test_weights_are_where_the_rows_are():
    X, y = flowers(200)
    with pytest.raises(DecibanError, match="name of a column"):
        deciban.GaussianNB().fit(coming(table_of(X, y)), "label", np.ones(200))
    with pytest.raises(DecibanError, match="in memory"):
        deciban.Classifier().fit(coming(table_of(X, y).append_column("w", [np.ones(200)])), "label", "w")


def test_a_model_of_numbers_says_which_column_holds_none():
    rows = coming(pa.table({"a": [1.0, 2.0], "town": ["x", "y"], "label": ["p", "q"]}))
    with pytest.raises(DecibanError, match=r"column 'town' .* NaiveBayes"):
        deciban.GaussianNB().fit(rows, "label")
    assert deciban.NaiveBayes().fit(rows, "label").class_count_.tolist() == [1.0, 1.0]


def test_rows_without_any_label():
    rows = coming(pa.table({"a": [1.0, 2.0], "label": pa.array([None, None], pa.string())}))
    for model in (deciban.NaiveBayes(), deciban.Classifier()):
        with pytest.raises(ValueError, match="label"):
            model.fit(rows, "label")
    with pytest.raises(DecibanError, match="column as y"):
        deciban.NaiveBayes().fit(rows)


def test_an_engine_that_is_not_there():
    with pytest.raises(DecibanError, match="engine is 'hadoop': it must be one of"):
        deciban.GaussianNB().fit("a.csv", "label", engine="hadoop")
    X, y = flowers(50)
    with pytest.raises(DecibanError, match="engine 'stream', not 'dask'"):
        deciban.GaussianNB().fit(deciban.stream(coming(table_of(X, y))), "label", engine="dask")


def test_which_column_holds_the_texts():
    table = pa.table({"subject": ["cash", "lunch"], "body": ["win cash", "at noon"], "label": ["spam", "ham"]})
    with pytest.raises(DecibanError, match=r"2 columns of strings: .* text="):
        deciban.TextClassifier().fit(coming(table), "label")
    model = deciban.TextClassifier(reliability=None).fit(coming(table), "label", text="body")
    assert model.predict(coming(table.select(["body", "subject"]))).tolist() == ["spam", "ham"]


def test_texts_in_a_list_are_texts():
    model = deciban.TextClassifier(reliability=None).fit(["win cash", "at noon"], ["spam", "ham"])
    assert model.predict(["cash"]).tolist() == ["spam"]
    assert model.predict(iter(["cash", "noon"])).tolist() == ["spam", "ham"]


def test_a_set_of_classes_that_is_closed():
    X, y = flowers(300)
    rows = coming(table_of(X, y))
    model = deciban.GaussianNB().partial_fit(rows, "label", classes=[*LABELS, "emu"])
    assert model.classes_.tolist() == ["cow", "duck", "emu", "hen"]
    assert model.class_count_[2] == 0
    before = model.class_count_.tolist()
    with pytest.raises(ValueError, match="gnu"):
        model.partial_fit(coming(table_of(X, np.full(300, "gnu"))), "label")
    assert model.class_count_.tolist() == before


def test_nothing_is_changed_by_an_error():
    X, y = flowers(300)
    model = deciban.GaussianNB().fit(X, y)
    before = dict(vars(model))

    def broken():
        yield from table_of(X, y).to_batches(100)
        raise OSError("the wire was cut")

    for method in (model.fit, model.partial_fit):
        with pytest.raises((OSError, DecibanError)):
            method(deciban.stream(broken), "label")
        assert vars(model) == before


def test_labels_of_arrow():
    model = deciban.GaussianNB().fit([[1.0], [2.0], [3.0]], pa.array(["a", "b", "a"]))
    assert model.class_count_.tolist() == [2.0, 1.0]
    coded = pa.chunked_array([pa.array(["x", "y"]).dictionary_encode(), pa.array(["z", "y"]).dictionary_encode()])
    model = deciban.GaussianNB().fit([[1.0], [2.0], [3.0], [4.0]], coded)
    assert dict(zip(model.classes_.tolist(), model.class_count_.tolist(), strict=True)) == {"x": 1, "y": 2, "z": 1}
    with pytest.raises(DecibanError, match="X has 1 rows, y has 2"):
        deciban.GaussianNB().fit([[1.0]], pa.array(["a", "b"]))


# ------------------------------------------------------------------ as in memory


def test_a_mark_of_missing_labels():
    X, y = flowers(600)
    labels = np.where(np.arange(600) % 3 == 0, "?", y)
    for make in (deciban.NaiveBayes, deciban.GaussianNB):
        whole = make().fit(table_of(X), labels, unlabelled="?")
        there = make().fit(coming(table_of(X, labels)), "label", unlabelled="?")
        assert there.classes_.tolist() == LABELS.tolist()
        assert there.n_unlabelled_ == 200
        assert whole.model_.stats.same_as(there.model_.stats, 1e-6)
    table = deciban.Classifier().fit(coming(table_of(X, labels)), "label", unlabelled="?")
    assert table.class_count_.sum() == 400


def test_a_fit_leaves_nothing_of_the_one_before():
    X, y = flowers(300)
    model = deciban.GaussianNB().fit(coming(table_of(X)), None, clusters=2)
    assert model.n_unlabelled_ == 300
    model.fit(coming(table_of(X, y)), "label")
    assert model.n_unlabelled_ == 0
    assert not hasattr(model, "em_")
    model.forget(coming(table_of(X, y)), "label")
    assert model.class_count_.sum() == 0


def test_a_table_is_forgotten_where_it_is():
    X, y = flowers(900)
    model = deciban.Classifier(n_jobs=1).fit(table_of(X), y)
    here = deciban.Classifier(n_jobs=1).fit(table_of(X), y).forget(table_of(X[:300]), y[:300])
    model.forget(coming(table_of(X[:300], y[:300]), rows=70), "label")
    assert model.class_count_.tolist() == here.class_count_.tolist()
    # Sums of a few hundred doubles, taken away in other parts.
    np.testing.assert_allclose(model.predict_proba(table_of(X)), here.predict_proba(table_of(X)), rtol=0, atol=1e-12)


def test_texts_are_forgotten_where_they_are():
    texts, labels = ["win cash now", "cash prize", "lunch at noon", "see you at lunch"] * 30, ["s", "s", "h", "h"] * 30
    rows = pa.table({"words": texts[:40], "kind": labels[:40]})
    model, here = (deciban.TextClassifier().fit(texts, labels) for _ in range(2))
    model.text_ = "words"
    model.forget(coming(rows, rows=7), "kind")
    here.forget(texts[:40], labels[:40])
    assert model.class_count_.tolist() == here.class_count_.tolist() == [40, 40]
    np.testing.assert_allclose(model.predict_proba(texts), here.predict_proba(texts), rtol=0, atol=1e-12)


def test_all_rows_are_forgotten_or_none(tmp_path):
    """The last one was never learned, and the error has its number in the file."""
    rows = "".join(f"{i % 7},{'red' if i % 2 else 'blue'},{'ab'[i % 2]}\n" for i in range(50))
    (tmp_path / "all.csv").write_text("x,colour,label\n" + rows)
    (tmp_path / "odd.csv").write_text("x,colour,label\n1,red,b\n1,,\n3,pink,a\n")
    model = deciban.Classifier(n_jobs=1).fit(tmp_path / "all.csv", "label")
    before = model.model_
    with pytest.raises(deciban.ForgetError, match="row 3") as raised:
        model.forget(tmp_path / "odd.csv", "label")
    assert raised.value.row == 3
    assert model.model_ is before


def test_labels_are_read_as_the_model_knows_them():
    """A class may be called 1 in one file and "1" in another."""
    X, y = flowers(300)
    number = np.searchsorted(LABELS, y)
    rows = table_of(X, number.astype(float))
    model = deciban.GaussianNB().fit(table_of(X), number.astype(str))
    model.partial_fit(coming(rows), "label")
    assert model.classes_.tolist() == ["0", "1", "2"]
    assert model.class_count_.sum() == 600
    model = deciban.GaussianNB().fit(table_of(X), number)
    with pytest.raises(DecibanError, match="'cow' is a label, but the model's classes are 0, 1, 2"):
        model.partial_fit(coming(table_of(X, y)), "label")


def test_a_score_is_of_what_is_predicted():
    X, y = flowers(400)
    model = deciban.NearestCentroid().fit(table_of(X), y)
    rows = coming(table_of(X, y))
    assert model.score(rows, "label") == model.score(table_of(X), y)
    assert model.predict(rows).tolist() == model.predict(table_of(X)).tolist()


def test_a_mixture_answers_where_rows_are():
    duckdb = pytest.importorskip("duckdb")
    X, _ = flowers(300)
    model = deciban.GaussianMixture(2, random_state=0).fit(table_of(X))
    connection = duckdb.connect()
    connection.register("rows", table_of(X))
    answered = model.predict_proba(connection.table("rows")).fetchnumpy()
    assert np.allclose(answered["proba_0"] + answered["proba_1"], 1.0)


def test_a_checkpoint_is_of_the_same_columns(tmp_path):
    texts = pa.table({"a": ["x y", "z"] * 50, "b": ["u", "v w"] * 50, "one": ["p", "q"] * 50, "two": ["r", "s"] * 50})
    deciban.sources.write_rows(tmp_path / "texts.parquet", [texts])
    part = tmp_path / "part"
    engine = deciban.stream(tmp_path / "texts.parquet", checkpoint=part, every=0.0)
    read = engine.tables.read

    def stops(skip, watch):
        for batch in read(skip, watch):
            yield replace(batch, table=batch.table.slice(0, 40))
            raise KeyboardInterrupt

    engine.tables.read = stops
    with pytest.raises(KeyboardInterrupt):
        deciban.TextClassifier(reliability=None).fit(engine, "one", text="a")
    assert part.exists()
    again = deciban.stream(tmp_path / "texts.parquet", checkpoint=part)
    with pytest.raises(DecibanError, match="other columns"):
        deciban.TextClassifier(reliability=None).fit(again, "two", text="b")
    again = deciban.stream(tmp_path / "texts.parquet", checkpoint=part, missing=["p"])
    with pytest.raises(DecibanError, match="other files"):
        deciban.TextClassifier(reliability=None).fit(again, "one", text="a")


def test_what_is_wrong_in_a_sample_is_said_to_be_there():
    X, y = flowers(300)
    X[7, 1] = np.inf
    with pytest.raises(DecibanError, match="sample"):
        deciban.GaussianNB().fit(coming(table_of(X, y)), "label")
