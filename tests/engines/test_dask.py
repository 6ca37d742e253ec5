"""Dask: each row counts once in any partitioning; every table has the same schema; answers stay beside their rows."""

from __future__ import annotations

import datetime
import decimal
import pickle
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from deciban.engines.dask import partitions
from deciban.engines.dask.engine import Dask, collection_kind, evenly_spaced, from_paths, rows_per_partition
from deciban.errors import DecibanError

pd = pytest.importorskip("pandas", reason="pandas is not installed: pip install 'deciban[dask]'")
dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'deciban[dask]'")
da = pytest.importorskip("dask.array")
db = pytest.importorskip("dask.bag")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.engine("dask")


@dataclass
class Seen:
    """Which rows there were, how often, in what order, and what schemas their tables had."""

    rows: list = field(default_factory=list)
    schemas: Counter = field(default_factory=Counter)

    def __add__(self, other):
        return Seen(self.rows + other.rows, self.schemas + other.schemas)


def see(tables):
    seen = Seen()
    for table in tables:
        seen.rows += [tuple(None if v != v else v for v in row.values()) for row in table.to_pylist()]
        seen.schemas[table.schema.to_string()] += 1
    return seen if seen.rows else None


@pytest.fixture
def here():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(params=["synchronous", "threads", "cluster"])
def scheduler(request):
    if request.param == "cluster":
        request.getfixturevalue("dask_client")
        yield
    else:
        with dask.config.set(scheduler=request.param):
            yield


def in_parts(frames, meta=None):
    """A Dask frame with exactly these partitions; `meta` is what Dask assumes of them."""
    meta = frames[0].iloc[:0] if meta is None else meta
    with dask.config.set({"dataframe.convert-string": False}):  # objects are not to become strings
        return dd.from_map(as_it_is, frames, meta=meta, enforce_metadata=False)


def as_it_is(frame):
    return frame


def nothing_held(client):
    """Whether the cluster keeps no results for us, which it learns in a thread of the client."""
    end = time.monotonic() + 60
    while client.futures and time.monotonic() < end:
        time.sleep(0.01)
    return not client.futures


def never(*part):
    del part
    raise AssertionError("this was not to be computed")


def lazily(frame):
    """The same, in a way that fails when it is computed."""
    return frame.map_partitions(never, meta=frame._meta)


def numbered(sizes):
    """Rows with their numbers, cut into partitions of these sizes."""
    ends = np.cumsum([0, *sizes])
    return [
        pd.DataFrame(
            {"row": np.arange(start, end), "y": pd.Series(["ab"[i % 2] for i in range(start, end)], dtype=str)}
        )
        for start, end in pairwise(ends)
    ]


# ------------------------------------------------------------------ adding up


@pytest.mark.parametrize("sizes", [[7], [0, 3, 1, 0, 5], [0, 0, 4], [1] * 30])
@pytest.mark.usefixtures("scheduler")
def test_each_row_counts_once_in_order(sizes):
    progress = []
    engine = Dask(in_parts(numbered(sizes)))
    seen = engine.collect(see, progress.append)
    assert [row[0] for row in seen.rows] == list(range(sum(sizes)))
    assert progress == list(range(1, len(sizes) + 1))
    assert engine.size == len(sizes)
    assert set(seen.schemas) == {engine.schema.to_string()}


def test_a_hundred_partitions_on_a_cluster(dask_client):
    seen = Dask(in_parts(numbered([2] * 100))).collect(see)
    assert [row[0] for row in seen.rows] == list(range(200))
    assert nothing_held(dask_client)


@pytest.mark.usefixtures("here")
def test_without_rows_there_is_no_sum():
    assert Dask(in_parts(numbered([0, 0]))).collect(see) is None


@pytest.mark.usefixtures("here")
def test_no_task_adds_more_than_a_few(monkeypatch):
    from deciban.engines.dask import engine

    widths = []
    monkeypatch.setattr(engine, "add_up", lambda parts: widths.append(len(parts)) or sum(parts))
    assert Dask(in_parts(numbered([1] * 100))).collect(lambda tables: sum(t.num_rows for t in tables)) == 100
    assert max(widths) <= engine.FAN_IN
    assert len(widths) == 13 + 2 + 1  # a tree


@pytest.mark.usefixtures("here")
def test_what_is_sent_is_sent_once():
    engine = Dask(in_parts(numbered([1] * 20)))
    tasks = engine._tasks(Holding(np.zeros(100_000)), range(20))  # as large as a model may be
    layers = {name: layer for task in tasks.values() for name, layer in task.dask.layers.items()}
    assert sum("Holding" in repr(dict(layer)) for layer in layers.values()) == 1
    assert list(dask.compute(*tasks.values())) == [1] * 20


@dataclass(frozen=True)
class Holding:
    what: np.ndarray

    def __call__(self, part):
        return len(part)


class Plain:
    """An object that pickle accepts and cloudpickle does not."""

    def __reduce_ex__(self, protocol):
        frame = sys._getframe(1)
        if "cloudpickle" in frame.f_code.co_filename:
            raise pickle.PicklingError("not by cloudpickle")
        return Plain, ()

    def __call__(self, tables):
        return sum(table.num_rows for table in tables)


@pytest.mark.usefixtures("dask_client")
def test_a_graph_with_nameless_functions_holds_any_work():
    rows = in_parts(numbered([2, 3])).map_partitions(lambda part: part)
    with pytest.raises(pickle.PicklingError):
        pytest.importorskip("cloudpickle").dumps(Plain())
    assert Dask(rows).collect(Plain()) == 5
    nameless = 1
    assert Dask(rows).collect(lambda tables: sum(table.num_rows for table in tables) + nameless) == 7


@pytest.mark.usefixtures("here")
def test_large_partitions_are_cut(monkeypatch):
    monkeypatch.setattr(partitions, "MAX_TABLE_ROWS", 10)
    engine = Dask(in_parts(numbered([25, 3])))
    seen = engine.collect(see)
    assert [row[0] for row in seen.rows] == list(range(28))
    assert seen.schemas.total() == 3 + 1
    monkeypatch.setattr(partitions, "MAX_TABLE_ROWS", 1 << 18)
    monkeypatch.setattr(partitions, "MAX_TABLE_BYTES", 100)  # a row has at least eight
    assert engine.collect(see).schemas.total() > 4


# ------------------------------------------------------------------ one schema

TYPES = [
    ("float64", [0.5, None], pa.float64()),
    ("float32", [0.5, None], pa.float32()),
    ("float16", [0.5, None], pa.float32()),
    ("int64", [3, 4], pa.int64()),
    ("uint8", [3, 4], pa.uint8()),
    ("Int32", [3, None], pa.int32()),
    ("int64[pyarrow]", [3, None], pa.int64()),
    ("bool", [True, False], pa.bool_()),
    ("boolean", [True, None], pa.bool_()),
    ("str", ["a", None], pa.string()),
    ("string[pyarrow]", ["a", None], pa.string()),
    ("datetime64[ns]", [datetime.datetime(2020, 1, 2), None], pa.timestamp("ns")),
    ("datetime64[s]", [datetime.datetime(2020, 1, 2), None], pa.timestamp("us")),
    ("datetime64[us, UTC]", [datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC), None], pa.timestamp("us", "UTC")),
    ("timedelta64[us]", [datetime.timedelta(1), None], pa.duration("us")),
    (pd.CategoricalDtype(["a", "b"]), ["b", None], pa.dictionary(pa.int32(), pa.string())),
    (pd.CategoricalDtype([1, 2]), [2, None], pa.dictionary(pa.int32(), pa.int64())),
    (pd.SparseDtype(float, 0.0), [0.5, 0.0], pa.float64()),
]


@pytest.mark.parametrize(("dtype", "values", "kind"), TYPES, ids=[str(dtype) for dtype, _, _ in TYPES])
@pytest.mark.usefixtures("here")
def test_types_are_what_dask_says(dtype, values, kind):
    if str(dtype) == "str" and pd.__version__ < "3":
        pytest.skip("texts are objects before pandas 3, whose type is seen in the rows alone")
    series = pd.Series(values, dtype=dtype, name="v")
    frame = in_parts([series.to_frame(), series.iloc[:0].to_frame(), series.iloc[1:].to_frame()])
    assert Dask(lazily(frame)).schema.field("v").type == kind
    seen = Dask(frame).collect(see)
    assert set(seen.schemas) == {Dask(frame).schema.to_string()}
    assert [row[0] for row in seen.rows] == [*values, *values[1:]]


OBJECTS = [
    (["a", None], pa.string()),
    ([None, 3], pa.int64()),
    ([3, 0.5], pa.float64()),
    ([True, None], pa.bool_()),
    ([decimal.Decimal("0.5"), None], pa.float64()),
    ([b"a", None], pa.string()),
    ([datetime.date(2020, 1, 2), None], pa.date32()),
    ([2**80, 1], pa.float64()),
    (["a", 4.0], pa.string()),
    ([None, None], pa.string()),
]


@pytest.mark.parametrize(("values", "kind"), OBJECTS, ids=[str(kind) + str(i) for i, (_, kind) in enumerate(OBJECTS)])
@pytest.mark.usefixtures("here")
def test_objects_are_what_they_hold(values, kind):
    frames = [pd.DataFrame({"v": pd.Series(own, dtype=object)}) for own in ([None, None], values, [])]
    engine = Dask(in_parts(frames))
    assert engine.schema.field("v").type == kind
    converted = {b"a": "a", 4.0: "4", decimal.Decimal("0.5"): 0.5} if kind != pa.int64() else {}
    assert [row[0] for row in engine.collect(see).rows] == [None, None, *(converted.get(v, v) for v in values)]


@pytest.mark.usefixtures("here")
def test_a_column_that_is_missing_in_many_partitions_is_found():
    frames = [pd.DataFrame({"v": pd.Series([None], dtype=object)}) for _ in range(10)]
    frames[7] = pd.DataFrame({"v": pd.Series([1.5], dtype=object)})
    assert Dask(in_parts(frames)).schema.field("v").type == pa.float64()


@pytest.mark.usefixtures("here")
def test_whole_numbers_stay_whole_where_some_are_missing():
    frames = [pd.DataFrame({"v": [1, 2**60 + 1]}), pd.DataFrame({"v": [np.nan, 3.0]}), pd.DataFrame({"v": [np.nan]})]
    engine = Dask(in_parts(frames))
    assert engine.schema.field("v").type == pa.int64()
    assert [row[0] for row in engine.collect(see).rows] == [1, 2**60 + 1, None, 3, None]
    turned = Dask(in_parts([frames[1], pd.DataFrame({"v": [1, 2]})]))  # and floats take whole numbers
    assert turned.schema.field("v").type == pa.float64()
    assert [row[0] for row in turned.collect(see).rows] == [None, 3.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("first", "other", "says"),
    [
        ([1, 2], [0.5, 3.0], r"holds 0.5 here.*whole numbers.*'float64'"),
        ([1, 2], ["x", "y"], r"holds 'x' here.*whole numbers"),
        ([1.5, 2], ["3", "4"], r"holds '3' here.* numbers"),
        ([True, False], [0.0, 1.0], r"holds 0.0 here.*true or false"),
        ([datetime.datetime(2020, 1, 1)], [5], r"holds 5 here.*dates with a time"),
    ],
)
@pytest.mark.usefixtures("here")
def test_other_things_than_elsewhere_are_refused_by_name(first, other, says):
    engine = Dask(in_parts([pd.DataFrame({"v": first}), pd.DataFrame({"v": other})]))
    with pytest.raises(DecibanError, match=rf"^partition 1 .*column 'v' {says}"):
        engine.collect(see)


@pytest.mark.usefixtures("here")
def test_categories_may_differ_between_partitions():
    frames = [pd.DataFrame({"c": pd.Categorical(list(own))}) for own in ("ab", "cd", "")]
    frames.append(pd.DataFrame({"c": ["e", None]}))  # not even categories
    unknown = pd.DataFrame({"c": pd.Categorical([partitions.UNKNOWN_CATEGORY])}).iloc[:0]
    for meta in (frames[0].iloc[:0], unknown):
        engine = Dask(in_parts(frames, meta))
        assert engine.schema.field("c").type == pa.dictionary(pa.int32(), pa.string())
        assert [row[0] for row in engine.collect(see).rows] == ["a", "b", "c", "d", "e", None]


@pytest.mark.parametrize("dtype", ["complex128", "period[D]"])
def test_what_is_no_value_is_refused(dtype):
    frame = dd.from_pandas(pd.DataFrame({"v": pd.Series([], dtype=dtype)}), npartitions=1)
    with pytest.raises(DecibanError, match="column 'v' of the Dask DataFrame"):
        _ = Dask(frame).schema


@pytest.mark.usefixtures("here")
def test_nested_values_are_refused():
    with pytest.raises(DecibanError, match="column 'v' of the Dask Bag holds list"):
        _ = Dask(db.from_sequence([{"v": [1, 2]}], npartitions=1)).schema


@pytest.mark.usefixtures("here")
def test_halves_of_characters_are_shown_as_such():
    frame = in_parts([pd.DataFrame({"v": pd.Series(["a\ud800"], dtype=object)})])
    assert Dask(frame).collect(see).rows == [("a?",)]


def test_names_are_strings_and_each_there_once():
    frame = pd.DataFrame([[1, 2]])
    assert Dask(in_parts([frame])).schema.names == ["0", "1"]
    frame.columns = [1, "1"]
    with pytest.raises(DecibanError, match="several columns have the name '1'"):
        Dask(in_parts([frame]))


# ------------------------------------------------------------------ labels apart


@pytest.mark.usefixtures("here")
def test_labels_apart_have_the_name_of_their_series():
    frame = in_parts(numbered([3, 0, 2]))
    engine = Dask(frame[["row"]], frame["y"])
    assert (engine.target, engine.schema.names) == ("y", ["row", "y"])
    assert engine.collect(see).rows == Dask(frame).collect(see).rows
    assert Dask(frame, frame["y"]).target == "y_"  # a column of X is called so already
    assert Dask(frame[["row"]], frame["row"]).target == "y"
    assert Dask(frame[["row"]], frame[["y"]]).target == "y"


@pytest.mark.usefixtures("here")
def test_labels_are_cut_where_rows_are():
    frame = pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20)})
    X, y = dd.from_pandas(frame[["x"]], npartitions=4), dd.from_pandas(frame["y"], npartitions=3)
    assert all(x == label for x, label in Dask(X, y).collect(see).rows)
    assert all(x == label for x, label in Dask(X, da.from_array(np.arange(20), chunks=5)).collect(see).rows)
    with pytest.raises(DecibanError, match="4 partitions and the labels in 2"):
        Dask(X, da.from_array(np.arange(20), chunks=10))
    with pytest.raises(DecibanError, match=r"partition [12] .*5 rows and [46] labels"):
        Dask(X, da.from_array(np.arange(20), chunks=((5, 4, 6, 5),))).collect(see)
    for y in (np.arange(20), frame["y"]):
        with pytest.raises(DecibanError, match="column of X"):
            Dask(X, y)
    with pytest.raises(DecibanError, match="label"):
        Dask(X, da.zeros((20, 2), chunks=5))


@pytest.mark.usefixtures("here")
def test_a_series_is_one_column():
    texts = dd.from_pandas(pd.DataFrame({"t": ["a b", "c"], "y": [0, 1]}), npartitions=2)
    assert Dask(texts["t"], texts["y"]).collect(see).rows == [("a b", 0), ("c", 1)]


# ------------------------------------------------------------------ arrays


@pytest.mark.usefixtures("here")
def test_arrays_have_whole_rows():
    values = np.arange(40.0).reshape(10, 4)
    values[3, 1] = np.nan
    X, y = da.from_array(values, chunks=(3, 2)), da.from_array(np.arange(10) % 2, chunks=(4,))
    engine = Dask(X, y)
    assert (engine.schema.names, engine.target, engine.named) == (["x0", "x1", "x2", "x3", "y"], "y", False)
    expected = [(*(None if v != v else v for v in row), i % 2) for i, row in enumerate(values.tolist())]
    assert engine.collect(see).rows == expected
    assert Dask(X, y[:, None]).collect(see).rows == expected
    assert Dask(X, dd.from_dask_array(y.rechunk(3))).collect(see).rows == expected


@pytest.mark.usefixtures("here")
def test_arrays_of_unknown_lengths():
    X, y = da.from_array(np.arange(20.0).reshape(10, 2), chunks=(3, 2)), da.from_array(np.arange(10), chunks=3)
    keep = X[:, 0] > 7.0
    assert [row[0] for row in Dask(X[keep], y[keep]).collect(see).rows] == np.arange(8.0, 20, 2).tolist()
    with pytest.raises(DecibanError, match="compute_chunk_sizes"):
        Dask(X[keep], y.rechunk(5))
    with pytest.raises(DecibanError, match=r"partition [01] .*[02] rows and 3 labels"):
        Dask(X[keep], y).collect(see)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array([[1, 2], [3, 4]], dtype=np.int16), pa.int16()),
        (np.array([["a", "b"], ["c", "d"]]), pa.string()),
        (np.array([["a", "b"], [None, "d"]], dtype=object), pa.string()),
        (np.array([[True, False], [True, True]]), pa.bool_()),
        (np.array([["2020-01-01", "NaT"]], dtype="M8[D]"), pa.date32()),
    ],
)
@pytest.mark.usefixtures("here")
def test_arrays_of_all_types(values, kind):
    engine = Dask(da.from_array(values, chunks=(1, 2)))
    assert engine.schema.types == [kind, kind]
    assert set(engine.collect(see).schemas) == {engine.schema.to_string()}


def test_arrays_that_are_no_tables():
    with pytest.raises(DecibanError, match="reshape"):
        Dask(da.zeros(4))
    with pytest.raises(DecibanError, match="not a table"):
        Dask(da.zeros((4, 2, 2)))
    with pytest.raises(DecibanError, match="4 rows and 5 labels"):
        Dask(da.zeros((4, 2)), da.zeros(5))
    scipy = pytest.importorskip("scipy.sparse")
    with pytest.raises(DecibanError, match="toarray"):
        Dask(da.zeros((4, 2), chunks=(2, 2)).map_blocks(scipy.csr_matrix))


@pytest.mark.usefixtures("here")
def test_an_array_of_texts():
    X, y = da.from_array(np.array(["a b", "c"], dtype=object), chunks=1), da.from_array(np.array([1, 0]), chunks=1)
    engine = Dask(X, y)
    assert (engine.target, engine.schema.names) == ("label", ["text", "label"])
    assert engine.collect(see).rows == [("a b", 1), ("c", 0)]
    assert engine.apply(length, pa.schema([("n", pa.int64())])).compute().tolist() == [3, 1]


# ------------------------------------------------------------------ bags


@pytest.mark.usefixtures("scheduler")
def test_bags_of_dicts_texts_and_pairs():
    dicts = Dask(db.from_sequence([{"a": 1, "b": "x"}, {"a": 2}, {"b": "y", "a": 0.5}], npartitions=3))
    assert dicts.schema == pa.schema([("a", pa.float64()), ("b", pa.string())])
    assert dicts.collect(see).rows == [(1.0, "x"), (2.0, None), (0.5, "y")]
    assert dicts.target is None
    pairs = db.from_sequence([("one", 1), ("two", 0), ("three", 1)], npartitions=2)
    assert Dask(pairs).target == "label"
    apart = Dask(pairs.map(first_of), pairs.map(second_of))
    for engine in (Dask(pairs), apart):
        assert engine.schema == pa.schema([("text", pa.string()), ("label", pa.int64())])
        assert engine.collect(see).rows == [("one", 1), ("two", 0), ("three", 1)]
    texts = Dask(pairs.map(first_of))
    assert (texts.schema.names, texts.target) == (["text"], None)
    assert texts.apply(length, pa.schema([("n", pa.int64())])).compute() == [3, 3, 5]
    assert Dask(pairs).apply(length, pa.schema([("n", pa.int64())])).compute() == [3, 3, 5]


def first_of(pair):
    return pair[0]


def second_of(pair):
    return pair[1]


@pytest.mark.usefixtures("here")
def test_bags_that_are_no_tables():
    with pytest.raises(DecibanError, match=r"partition 0 .*row 1 is 3: the rows of a Bag"):
        Dask(db.from_sequence(["a", 3], npartitions=1))
    with pytest.raises(DecibanError, match="2 partitions and the labels in 1"):
        Dask(db.from_sequence(["a", "b"], npartitions=2), db.from_sequence([1, 2], npartitions=1))
    with pytest.raises(DecibanError, match="Bag"):
        Dask(db.from_sequence(["a", "b"], npartitions=2), da.zeros(2))
    rows = [{"a": 1}] * 40
    rows[17] = {"a": 1, "late": 2}
    with pytest.raises(DecibanError, match=r"partition 17 .*column 'late'"):
        Dask(db.from_sequence(rows, npartitions=40)).collect(see)


@pytest.mark.usefixtures("here")
def test_an_empty_bag_has_no_columns():
    engine = Dask(db.from_sequence([{"a": 1}], npartitions=1).filter(lambda row: row["a"] > 1))
    assert engine.schema.names == []
    assert engine.collect(see) is None
    assert engine.sample(10).num_rows == 0


# ------------------------------------------------------------------ samples


@dataclass
class Reads:
    """Frames that know which of them were read."""

    frames: list
    read: set = field(default_factory=set)

    def __call__(self, i):
        self.read.add(i)
        return self.frames[i]

    def dask(self):
        return dd.from_map(self, range(len(self.frames)), meta=self.frames[0].iloc[:0])


@pytest.mark.parametrize("sizes", [[5], [0, 3, 1, 0, 5], [1] * 40, [95, 1, 1], [0] * 30 + [9]])
@pytest.mark.usefixtures("here")
def test_a_sample_of_few_rows_is_all_of_them(sizes):
    table = Dask(in_parts(numbered(sizes))).sample(100)
    assert table["row"].to_pylist() == list(range(sum(sizes)))


@pytest.mark.usefixtures("here")
def test_a_sample_is_from_all_over_and_reads_little():
    reads = Reads(numbered([100] * 200))
    sampled = np.array(Dask(reads.dask()).sample(800)["row"])
    assert len(sampled) == len(set(sampled)) == 800
    assert len(reads.read) == 16
    per_partition = np.bincount(sampled // 100, minlength=200)
    assert set(per_partition[per_partition > 0]) == {50}
    assert np.diff(np.flatnonzero(per_partition)).max() <= 13  # 200 / 16
    assert (np.diff(sampled[:50]) == 2).all()  # and from all over each of them


@pytest.mark.usefixtures("here")
def test_a_sample_goes_on_until_there_are_enough():
    reads = Reads(numbered([10] * 200))
    table = Dask(reads.dask()).sample(400)
    assert table.num_rows == 400
    assert 40 < len(reads.read) < 60


@pytest.mark.usefixtures("here")
def test_uneven_partitions_give_what_they_have():
    table = Dask(in_parts(numbered([0, 3, 1000, 2]))).sample(100)
    assert table.num_rows == 100
    assert set(range(3)) <= set(table["row"].to_pylist())


def test_a_sample_on_a_cluster(dask_client):
    engine = Dask(in_parts(numbered([50] * 6)))
    assert engine.sample(60).num_rows == 60
    assert engine.sample(300)["row"].to_pylist() == list(range(300))
    assert nothing_held(dask_client)


def test_sharing_out():
    assert evenly_spaced(list(range(5)), 9) == [0, 1, 2, 3, 4]
    assert sum(rows_per_partition(dict(enumerate([5, 100, 7, 100])), 51).values()) == 51
    assert rows_per_partition({0: 3, 1: 4}, 100) == {0: 3, 1: 4}


# ------------------------------------------------------------------ answers


def length(table):
    name = "text" if "text" in table.column_names else table.column_names[0]
    return pa.table({"n": pa.array([len(str(v)) for v in table[name].to_pylist()], pa.int64())})


def doubled(table):
    return pa.table({"twice": [2.0 * v for v in table["row"].to_pylist()], "same": table["y"].cast(pa.string())})


TWICE = pa.schema([("twice", pa.float64()), ("same", pa.string())])


@pytest.mark.usefixtures("scheduler")
def test_answers_stand_where_their_rows_do():
    frame = pd.concat(numbered([4, 4, 5])).set_index(pd.Index(np.arange(13) * 3, name="id"))
    rows = dd.from_pandas(frame, npartitions=3, sort=True)
    answers = Dask(rows).apply(doubled, TWICE)
    assert isinstance(answers, dd.DataFrame)
    assert answers.divisions == rows.divisions
    computed = answers.compute()
    assert computed.index.equals(frame.index)
    assert computed["twice"].tolist() == [2.0 * i for i in range(13)]
    assert computed["same"].tolist() == frame["y"].tolist()
    assert computed.dtypes.equals(answers.dtypes)
    one = Dask(rows).apply(length, pa.schema([("n", pa.int64())]))
    assert isinstance(one, dd.Series)
    assert (one.name, one.dtype) == ("n", np.int64)
    assert one.compute().tolist() == [1] * 10 + [2] * 3


@pytest.mark.skipif(
    pd.__version__ < "3", reason="texts are objects before pandas 3, whose type is seen in the rows alone"
)
def test_nothing_is_answered_before_it_is_asked_for():
    rows = lazily(in_parts(numbered([2, 2])))
    assert list(Dask(rows).apply(doubled, TWICE).columns) == ["twice", "same"]
    blocks = da.zeros((4, 2), chunks=2).map_blocks(never, dtype=float, meta=np.empty((0, 2)))
    assert Dask(blocks).apply(length, pa.schema([("n", pa.int64())])).shape == (4,)


@pytest.mark.usefixtures("here")
def test_answers_of_empty_partitions():
    answers = Dask(in_parts(numbered([0, 2, 0]))).apply(doubled, TWICE).compute()
    assert answers["twice"].tolist() == [0.0, 2.0]


@pytest.mark.usefixtures("here")
def test_coded_answers_are_strings():
    kind = pa.dictionary(pa.int32(), pa.string())
    answers = Dask(in_parts(numbered([1, 2]))).apply(
        lambda table: pa.table({"c": table["y"].dictionary_encode().cast(kind)}), pa.schema([("c", kind)])
    )
    assert answers.compute().tolist() == ["a", "b", "a"]


@pytest.mark.usefixtures("scheduler")
def test_answers_of_arrays():
    X = da.from_array(np.arange(20.0).reshape(10, 2), chunks=(4, 1))
    fields = pa.schema([("a", pa.float64()), ("b", pa.float64())])
    answers = Dask(X).apply(swapped, fields)
    assert (answers.shape, answers.dtype) == ((10, 2), np.float64)
    assert np.array_equal(answers.compute(), np.arange(20.0).reshape(10, 2)[:, ::-1])
    one = Dask(X).apply(length, pa.schema([("n", pa.int64())]))
    assert (one.shape, one.chunks[0], one.dtype) == ((10,), (4, 4, 2), np.int64)
    assert one.compute().tolist() == [3] * 5 + [4] * 5
    some = Dask(X[X[:, 0] > 9.0]).apply(length, pa.schema([("n", pa.int64())]))
    assert some.compute().tolist() == [4] * 5


def swapped(table):
    return pa.table({"a": table["x1"], "b": table["x0"]})


@pytest.mark.usefixtures("here")
def test_answers_of_bags():
    rows = db.from_sequence([{"row": 1, "y": "a"}, {"row": 2, "y": "b"}], npartitions=2)
    assert Dask(rows).apply(doubled, TWICE).compute() == [{"twice": 2.0, "same": "a"}, {"twice": 4.0, "same": "b"}]


@pytest.mark.parametrize("kind", ["frame", "array", "bag"])
@pytest.mark.usefixtures("here")
def test_answers_that_fail_say_where(kind):
    def refuse(table):
        if 3 in table.column(0).to_pylist():
            raise DecibanError("three is too many")
        return pa.table({"n": table.column(0)})

    values = np.arange(6.0)
    rows = {
        "frame": lambda: dd.from_pandas(pd.DataFrame({"v": values}), npartitions=3),
        "array": lambda: da.from_array(values[:, None], chunks=(2, 1)),
        "bag": lambda: db.from_sequence([{"v": v} for v in values], npartitions=3),
    }[kind]()
    with pytest.raises(DecibanError, match=r"^partition 1 .*: three is too many$"):
        Dask(rows).apply(refuse, pa.schema([("n", pa.float64())])).compute()


# ------------------------------------------------------------------ files, and whose


@pytest.mark.usefixtures("here")
def test_files_by_their_endings(tmp_path):
    for i, frame in enumerate(numbered([2, 3])):
        frame.to_parquet(tmp_path / f"{i}.parquet", index=False)
        frame.to_csv(tmp_path / f"{i}.csv", index=False)
        frame.to_csv(tmp_path / f"{i}.tsv", index=False, sep="\t")
    rows = [(i, "ab"[i % 2]) for i in range(5)]
    for pattern in ("*.parquet", "*.csv", "*.tsv"):
        engine = from_paths([str(tmp_path / pattern)])
        assert engine.collect(see).rows == rows
        assert str(tmp_path / pattern) in repr(engine)
    assert from_paths([str(tmp_path / f"{i}.csv") for i in (1, 0)]).collect(see).rows == rows[2:] + rows[:2]
    assert from_paths([str(tmp_path / "0.csv")], usecols=["y"]).schema.names == ["y"]
    with pytest.raises(DecibanError, match="same format"):
        from_paths([str(tmp_path / "0.csv"), str(tmp_path / "0.parquet")])
    with pytest.raises(DecibanError, match="there is no file"):
        from_paths([str(tmp_path / "*.pq")])
    with pytest.raises(DecibanError, match=r"none\.parquet cannot be read"):
        from_paths([str(tmp_path / "none.parquet")])


@pytest.mark.usefixtures("here")
def test_what_is_missing_in_csv(tmp_path):
    (tmp_path / "a.csv").write_text("n,c\n1,x\n2,?\n")
    (tmp_path / "b.csv").write_text("n,c\n,NULL\n0.5,y\n")
    engine = from_paths([str(tmp_path / "*.csv")])
    assert engine.schema.field("n").type == pa.float64()
    assert engine.collect(see).rows == [(1.0, "x"), (2.0, None), (None, None), (0.5, "y")]


def test_passwords_in_addresses_are_not_shown():
    with pytest.raises(DecibanError) as caught:
        from_paths(["nowhere://me:secret@host/day.parquet"])
    assert "secret" not in str(caught.value)
    assert "nowhere://…@host/day.parquet" in str(caught.value)


def test_what_is_dasks():
    frame = in_parts(numbered([1]))
    for mine in (frame, frame["y"], da.zeros(3), db.from_sequence([1])):
        assert collection_kind(mine) is not None
    for other in (frame.compute(), np.zeros(3), [], "dask", dask.delayed(1), None):
        assert collection_kind(other) is None
    with pytest.raises(DecibanError, match="list"):
        Dask([])


def test_dask_is_not_imported_before_it_is_needed():
    code = (
        "import sys, deciban.engines.dask.engine as d; "
        "d.collection_kind([]); sys.exit(bool({'dask', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
