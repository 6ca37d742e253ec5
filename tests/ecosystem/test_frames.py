"""Tables of pandas, Polars, Arrow, DuckDB and xarray: in with the caller's types, out with the caller's index."""

from __future__ import annotations

import numpy as np
import pytest

import deciban
from deciban import CategoricalNB, Classifier, GaussianNB, NaiveBayes
from deciban.errors import DecibanError

pd = pytest.importorskip("pandas", reason="pandas is not installed")
pa = pytest.importorskip("pyarrow")

N = 90
Y = np.where(np.arange(N) % 2, "yes", "no")


def table():
    """Every kind of column that pandas has, with values missing where it can be."""
    rng = np.random.default_rng(0)
    some = np.arange(N) % 7 == 0
    return pd.DataFrame(
        {
            "number": rng.normal(size=N) + (Y == "yes"),
            "nullable": pd.array(np.where(some, None, rng.integers(0, 50, N) + 10 * (Y == "yes")), dtype="Int64"),
            "category": pd.Categorical(rng.choice(["a", "b", "c"], N), categories=["c", "b", "a", "never"]),
            "ordered": pd.Categorical(rng.choice(["low", "high"], N), categories=["low", "high"], ordered=True),
            "truth": pd.array(np.where(some, None, rng.random(N) < 0.5), dtype="boolean"),
            "string": pd.array(rng.choice(["x", "y", None], N), dtype="string"),
            "moment": pd.date_range("2024-03-30 22:00", periods=N, freq="7h", tz="Europe/Berlin"),
            "day": pd.date_range("2024-01-01", periods=N, freq="D"),
            "lasts": pd.to_timedelta(rng.integers(0, 1000, N), unit="min"),
        },
        index=pd.Index([f"r{i}" for i in range(N)], name="key"),
    )


def arrow():
    return pa.Table.from_pandas(table().drop(columns="lasts"), preserve_index=False)


@pytest.fixture(scope="module", params=[Classifier, NaiveBayes])
def fitted(request):
    X = table().drop(columns="lasts")
    model = request.param().fit(X, Y)
    return model, model.predict_proba(X)


@pytest.mark.parametrize("make", [Classifier, NaiveBayes])
def test_every_type_of_pandas_and_its_index(make):
    X = table()
    frame = make().fit(X, Y).predict_proba(X, as_frame=True)
    assert frame.index.equals(X.index)
    assert frame.index.name == "key"
    assert frame.columns.tolist() == ["no", "yes"]


@pytest.mark.parametrize("kind", ["arrow", "batch", "arrow types", "polars", "lazy"])
def test_the_same_rows_of_any_library_have_the_same_probabilities(kind, fitted):
    model, expected = fitted
    rows = arrow()
    if kind == "batch":
        rows = rows.to_batches()[0]
    elif kind == "arrow types":
        rows = rows.to_pandas(types_mapper=pd.ArrowDtype)
    elif kind != "arrow":
        pl = pytest.importorskip("polars", reason="Polars is not installed")
        rows = pl.from_arrow(rows)
        rows = rows.lazy() if kind == "lazy" else rows
    np.testing.assert_allclose(model.predict_proba(rows), expected, atol=1e-12)
    again = type(model)().fit(rows, Y)
    np.testing.assert_allclose(again.predict_proba(rows), expected, atol=1e-12)


def test_a_relation_of_duckdb_is_scored_where_it_is(fitted):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    model, expected = fitted
    con = duckdb.connect()
    rows = arrow().append_column("row", pa.array(range(N)))
    con.register("rows", rows)
    scored = model.predict_proba(con.sql("SELECT * FROM rows"))
    assert isinstance(scored, duckdb.DuckDBPyRelation)
    found = scored.order("row").select("row, proba_no, proba_yes").fetchnumpy()
    np.testing.assert_allclose(np.column_stack([found["proba_no"], found["proba_yes"]]), expected, atol=1e-9)
    learned = NaiveBayes().fit(con.sql('SELECT number, "category", number > 0 AS label FROM rows'), "label")
    assert learned.classes_.tolist() == [False, True]


def test_a_moment_is_the_same_in_every_time_zone(fitted):
    """A moment with a time zone counts in UTC, also across the change to summer time."""
    model, expected = fitted
    X = table().drop(columns="lasts")
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        moved = X.assign(moment=X["moment"].dt.tz_convert(zone))
        np.testing.assert_array_equal(model.predict_proba(moved), expected)
    naive = X.assign(moment=X["moment"].dt.tz_convert("UTC").dt.tz_localize(None))
    np.testing.assert_array_equal(model.predict_proba(naive), expected)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (lambda: pd.Categorical(Y), ["no", "yes"]),
        (lambda: pd.array(Y, dtype="string"), ["no", "yes"]),
        (lambda: pd.array((Y == "yes").astype(int), dtype="Int64"), [0, 1]),
        (lambda: pd.array(Y == "yes", dtype="boolean"), [False, True]),
        (lambda: pa.array(Y.tolist()).dictionary_encode(), ["no", "yes"]),
        (lambda: pd.Series(Y).where(np.arange(N) % 5 > 0), ["no", "yes"]),
    ],
    ids=["categorical", "string", "Int64", "boolean", "dictionary", "missing"],
)
def test_labels_of_any_type(labels, expected):
    X = table()[["number", "category"]]
    model = NaiveBayes().fit(X, labels())
    assert model.classes_.tolist() == expected
    assert set(model.predict(X).tolist()) <= set(expected)


@pytest.mark.parametrize("make", [Classifier, NaiveBayes])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_integers_beside_a_missing_label_stay_integers(make, library):
    labels = [None if i % 5 == 0 else int(y == "yes") for i, y in enumerate(Y)]
    frames = pytest.importorskip(library)
    y = frames.Series(labels, **({"dtype": "Int64"} if library == "pandas" else {}))
    frame = frames.DataFrame({"number": table()["number"].to_numpy(), "y": y})
    for model in (make().fit(frame[["number"]], y), make().fit(frame, "y")):
        assert model.classes_.dtype.kind == "i"
        assert model.predict(frame).dtype.kind == "i"
        if make is Classifier:  # which leaves out rows without a label
            assert model.summary().rows == model.class_count_.sum() == sum(label is not None for label in labels)


def test_estimators_of_one_kind_of_column_take_frames_too():
    numbers, names = table()[["number", "nullable"]], table()[["category", "string"]]
    for make, X in ((GaussianNB, numbers), (CategoricalNB, names)):
        frame = make().fit(X, Y).predict_proba(X, as_frame=True)
        assert frame.index.equals(X.index)
        other = pa.Table.from_pandas(X, preserve_index=False)
        np.testing.assert_allclose(make().fit(other, Y).predict_proba(other), frame.to_numpy(), atol=1e-12)


def test_a_type_that_has_no_place_is_an_error_with_the_column():
    X = pd.DataFrame({"month": pd.period_range("2020-01", periods=4, freq="M")})
    with pytest.raises(DecibanError, match=r"'month' holds Period\('2020-01', 'M'\) in row 0"):
        NaiveBayes().fit(X, list("abab"))


class TestXarray:
    """A Dataset of variables along one dimension is a table; a DataArray of two dimensions is a matrix."""

    xr = pytest.importorskip("xarray", reason="xarray is not installed")

    def test_a_dataset_is_a_table(self):
        X = table()[["number", "string", "day"]]
        dataset = self.xr.Dataset.from_dataframe(X)
        for make in (Classifier, NaiveBayes):
            frame = make().fit(dataset, Y).predict_proba(dataset, as_frame=True)
            expected = make().fit(X, Y).predict_proba(X)
            np.testing.assert_allclose(frame.to_numpy(), expected, atol=1e-12)
            assert frame.index.equals(X.index)
        assert NaiveBayes().fit(dataset.assign(label=("key", Y)), "label").classes_.tolist() == ["no", "yes"]

    def test_an_array_is_a_matrix_with_the_index_of_its_rows(self):
        X = table()[["number"]].assign(two=np.arange(N) % 3)
        array = X.to_xarray().to_array("feature").transpose("key", "feature")
        model = GaussianNB().fit(array, self.xr.DataArray(Y))
        frame = model.predict_proba(array, as_frame=True)
        assert frame.index.equals(X.index)
        np.testing.assert_allclose(frame.to_numpy(), GaussianNB().fit(X.to_numpy(), Y).predict_proba(X.to_numpy()))
        without = self.xr.DataArray(X.to_numpy())
        assert model.predict_proba(without, as_frame=True).index.equals(pd.RangeIndex(N))

    def test_a_grid_is_not_a_table(self):
        grid = self.xr.Dataset({"heat": (("x", "y"), np.zeros((4, 4)))})
        with pytest.raises(DecibanError, match="'heat'"):
            NaiveBayes().fit(grid, list("abab"))


def test_a_saved_model_gives_frames_of_the_callers_library(tmp_path):
    X = table()[["number", "category"]]
    NaiveBayes().fit(X, Y).save(tmp_path / "m.deciban")
    pl = pytest.importorskip("polars", reason="Polars is not installed")
    rows = pl.from_pandas(X)
    assert isinstance(deciban.read(tmp_path / "m.deciban").predict_proba(rows, as_frame=True), pl.DataFrame)
