"""Tables of any type are read as the same columns, and bad ones are refused with a message."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import subprocess
import sys
from collections import OrderedDict, namedtuple
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from effort import growth
from hypothesis import given
from hypothesis import strategies as st

from deciban.errors import DecibanError
from deciban.reading.columns import Levels, Numbers, as_name
from deciban.reading.frames import Frame, native_kind, read_frame, split_target, to_native

PLUS_TWO = dt.timezone(dt.timedelta(hours=2))
TABLE = {
    "whole": [1, 2, -3],
    "real": [1.5, None, 2.0],
    "name": ["b", "", "a"],
    "boolean": [True, None, False],
    "date": [dt.date(2020, 1, 2), None, dt.date(1969, 12, 31)],
    "moment": [dt.datetime(2020, 1, 2, 12), None, dt.datetime(2000, 1, 1)],
    "zoned": [dt.datetime(2020, 1, 2, 14, tzinfo=PLUS_TWO), None, dt.datetime(2000, 1, 1, tzinfo=dt.UTC)],
    "span": [dt.timedelta(hours=36), None, dt.timedelta(0)],
    "time": [dt.time(12), None, dt.time(6)],
    "decimal": [decimal.Decimal("1.5"), None, decimal.Decimal(3)],
    "bytes": [b"x", None, b"\xff"],
    "nothing": [None, None, None],
}
NAN = np.nan
EXPECTED = {  # written down by hand: values, whole, dates; or codes, levels
    "whole": ([1.0, 2.0, -3.0], True, None),
    "real": ([1.5, NAN, 2.0], False, None),
    "name": ([0, -1, 1], ("b", "a")),
    "boolean": ([1, -1, 0], (False, True)),
    "date": ([18263.0, NAN, -1.0], False, "days"),
    "moment": ([18263.5, NAN, 10957.0], False, "days"),
    "zoned": ([18263.5, NAN, 10957.0], False, "days"),
    "span": ([1.5, NAN, 0.0], False, None),
    "time": ([0.5, NAN, 0.25], False, None),
    "decimal": ([1.5, NAN, 3.0], False, None),
    "bytes": ([0, -1, 1], ("x", "\ufffd")),
    "nothing": ([NAN, NAN, NAN], False, None),
}


def as_values(frame: Frame) -> dict:
    """A frame as plain values; as text they compare with NaN equal to itself and 1 unlike 1.0 and True."""
    out = {}
    for name, column in zip(frame.names, frame.columns, strict=True):
        numbers = isinstance(column, Numbers)
        assert (column.values.dtype if numbers else column.codes.dtype) == (np.float64 if numbers else np.int32)
        assert len(column) == frame.size
        own = (
            (column.values.tolist(), column.whole, column.dates) if numbers else (column.codes.tolist(), column.levels)
        )
        out[name] = repr(own)
    return out


def table_types(table: dict) -> dict:
    """One table in many types."""
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    arrow, rows = pa.table(table), list(zip(*table.values(), strict=True))
    objects = np.empty((len(rows), len(table)), dtype=object)
    for j, column in enumerate(table.values()):
        objects[:, j] = column
    return {
        "mapping": table,
        "ordered mapping": OrderedDict(table),
        "mapping of tuples": {name: tuple(column) for name, column in table.items()},
        "mapping of arrays": {name: objects[:, j] for j, name in enumerate(table)},
        "mapping of Arrow": {name: arrow[name].combine_chunks() for name in table},
        "mapping of Polars": {name: pl.Series(column) for name, column in table.items()},
        "dicts": [dict(zip(table, row, strict=True)) for row in rows],
        "dicts with keys left out": [
            {name: v for name, v in zip(table, row, strict=True) if v is not None or i == 0}
            for i, row in enumerate(rows)
        ],
        "generator": (dict(zip(table, row, strict=True)) for row in rows),
        "named tuples": [namedtuple("Row", table)(*row) for row in rows],  # noqa: PYI024 - its fields are the table's
        "structured": np.array(rows, dtype=[(name, object) for name in table]),
        "pandas": pd.DataFrame(table),
        "pandas, index out of order": pd.DataFrame(table, index=[7, 7, 3][: len(rows)] if len(rows) == 3 else None),
        "pandas objects": pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in table.items()}),
        "pandas nullable": pd.DataFrame(table).convert_dtypes(),
        "pandas Arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "Polars": pl.DataFrame(table),
        "Polars, lazy": pl.LazyFrame(table),
        "Arrow": arrow,
        "Arrow, a slice": pa.concat_tables([arrow, arrow]).slice(len(rows)),
        "Arrow batch": pa.RecordBatch.from_pydict(table),
        "Arrow reader": arrow.to_reader(),
    }


def test_a_table_of_any_type():
    for table_type, table in table_types(TABLE).items():
        frame = read_frame(table)
        assert as_values(frame) == {name: repr(value) for name, value in EXPECTED.items()}, table_type
        assert frame.size == 3, table_type
        assert not frame.notes, table_type


def columns_of(size):
    names = st.text(alphabet="ab ß日", max_size=3)
    kinds = {
        "whole": st.integers(-(2**40), 2**40),
        "real": st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32),
        "name": st.none() | names,
        "boolean": st.none() | st.booleans(),
        "date": st.none() | st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),  # what nanoseconds reach
        "moment": st.none() | st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
    }
    # A first value that is there: a column of nothing has no type, and libraries choose different ones.
    firsts = {"whole": 0, "real": 0.5, "name": "x", "boolean": True, "date": dt.date(2000, 1, 1)}
    firsts["moment"] = dt.datetime(2000, 1, 1, 1)
    return st.fixed_dictionaries(
        {
            name: st.lists(values, min_size=size, max_size=size).map(lambda rest, first=firsts[name]: [first, *rest])
            for name, values in kinds.items()
        }
    )


@given(st.integers(0, 5).flatmap(columns_of))
def test_any_table_of_any_type(table):
    expected = as_values(read_frame(table))
    for table_type, same in table_types(table).items():
        assert as_values(read_frame(same)) == expected, table_type


@given(st.integers(0, 5).flatmap(columns_of))
def test_round_trip(table):
    frame = read_frame(table)
    for like in ("pandas", "polars", "pyarrow", "dict"):
        back = to_native(like, frame.names, frame.columns)
        assert native_kind(back) == like
        again = read_frame(back)
        for name in frame.names:
            one, two = frame[name], again[name]
            if isinstance(one, Levels):
                assert one.objects().tolist() == two.objects().tolist(), (like, name)
            else:  # moments are kept to the microsecond, which is 1.2e-11 days
                np.testing.assert_allclose(two.values, one.values, rtol=0, atol=1.2e-11 if one.dates else 0)
                assert (one.dates, one.whole) == (two.dates, two.whole), (like, name)


def test_round_trip_as_an_array():
    whole = to_native("numpy", ("a", "b"), (Numbers(np.array([1.0, 2.0]), whole=True),) * 2)
    assert whole.dtype == np.int64
    assert whole.tolist() == [[1, 1], [2, 2]]
    real = to_native("numpy", ("a",), (Numbers(np.array([1.0, NAN]), whole=True),))
    assert real.dtype == np.float64
    assert np.isnan(real[1, 0])
    objects = to_native("numpy", ("a", "b"), (Numbers(np.array([1.0, NAN])), Levels(np.array([0, -1]), ("x",))))
    assert objects.tolist() == [[1.0, "x"], [None, None]]
    assert native_kind(objects) == native_kind([[1]]) == native_kind(sp.eye(2)) == "numpy"
    with pytest.raises(DecibanError, match="'excel'"):
        to_native("excel", (), ())


def test_missing_values_of_every_library():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    nothing = [None, NAN, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), decimal.Decimal("nan")]
    for value in nothing:
        assert as_values(read_frame({"a": [value, "x"]})) == {"a": repr(([-1, 0], ("x",)))}, repr(value)
        assert as_values(read_frame({"a": [value, 1.5]})) == {"a": repr(([NAN, 1.5], False, None))}, repr(value)
        assert as_values(read_frame({"a": [value, True]})) == {"a": repr(([-1, 1], (False, True)))}, repr(value)
        assert as_values(read_frame({"a": [value, dt.date(1970, 1, 2)]})) == {"a": repr(([NAN, 1.0], False, "days"))}
    masked = np.ma.array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])
    assert as_values(read_frame(masked))["x1"] == repr(([NAN, 4.0], False, None))
    assert as_values(read_frame(pl.DataFrame({"a": [1.0, NAN, None]})))["a"] == repr(([1.0, NAN, NAN], False, None))
    nullable = pd.DataFrame({"a": pd.array([1, pd.NA], dtype="Int64"), "b": pd.array([True, pd.NA], dtype="boolean")})
    assert as_values(read_frame(nullable)) == {
        "a": repr(([1.0, NAN], True, None)),
        "b": repr(([1, -1], (False, True))),
    }


def test_categories_keep_their_order_without_unused_ones():
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    values, order = ["low", "high", None, "low"], ["", "none", "low", "mid", "high"]
    expected = repr(([0, 1, -1, 0], ("low", "high")))
    encoded = pa.DictionaryArray.from_arrays(pa.array([2, 4, None, 2], pa.int32()), pa.array(order))
    split = pa.chunked_array([encoded[:1], pa.array(["high", None, "low"]).dictionary_encode()])
    for table in (
        pd.DataFrame({"a": pd.Categorical(values, categories=order)}),
        pl.DataFrame({"a": pl.Series(values, dtype=pl.Enum(order))}),
        pl.DataFrame({"a": pl.Series(values, dtype=pl.Categorical)}),
        pa.table({"a": encoded}),
        pa.table({"a": split}),
        pa.table({"a": encoded}).to_pandas(types_mapper=pd.ArrowDtype),
    ):
        assert as_values(read_frame(table))["a"] == expected, table
    numbers = pd.DataFrame({"a": pd.Categorical([3, 1, None]), "b": pd.cut([1.0, 5.0, 9.0], [0, 4, 8])})
    assert as_values(read_frame(numbers))["a"] == repr(([1, 0, -1], (1, 3)))
    assert read_frame(numbers)["b"].levels == ("(0, 4]", "(4, 8]")
    assert as_values(read_frame(pd.DataFrame({"a": pd.Categorical(["", "x"])})))["a"] == repr(([-1, 0], ("x",)))


def test_arrays():
    for dtype in (np.float64, np.float32, np.float16, np.int64, np.int8, np.uint64, ">f8", np.longdouble):
        for order in "CF":
            X = np.array([[1, 2], [3, 4], [5, 6]], dtype=dtype, order=order)
            frame = read_frame(X)
            whole = X.dtype.kind in "iu"
            assert as_values(frame) == {
                "x0": repr(([1.0, 3.0, 5.0], whole, None)),
                "x1": repr(([2.0, 4.0, 6.0], whole, None)),
            }
    booleans = read_frame(np.array([[True, False]]))
    assert as_values(booleans) == {"x0": repr(([1], (False, True))), "x1": repr(([0], (False, True)))}
    assert as_values(read_frame(np.array([["a", "b"], ["a", ""]])))["x1"] == repr(([0, -1], ("b",)))
    assert as_values(read_frame(np.array([["1970-01-02", "NaT"]], dtype="M8[s]")))["x1"] == repr(([NAN], False, "days"))
    for unit, expected in {"Y": 1096, "M": 90, "W": 21, "D": 3, "h": 1 / 8, "m": 1 / 480, "10s": 1 / 2880}.items():
        later = np.datetime64("1970", "Y").astype(f"M8[{unit}]") + np.array([3], dtype=f"m8[{unit}]")
        assert read_frame({"a": later})["a"].values.tolist() == [expected], unit
    for unit in ("s", "ms", "us", "ns"):
        assert read_frame({"a": np.array(["1970-01-02T12"], dtype=f"M8[{unit}]")})["a"].values.tolist() == [1.5], unit
    assert read_frame(np.array([[1, "x"], [None, "y"]], dtype=object))["x0"].values[0] == 1.0
    structured = np.array([(1, 2.5, "x"), (3, 4.5, "")], dtype=[("a", "i4"), ("b", "f4"), ("c", "U3")])
    assert as_values(read_frame(structured)) == {
        "a": repr(([1.0, 3.0], True, None)),
        "b": repr(([2.5, 4.5], False, None)),
        "c": repr(([0, -1], ("x",))),
    }


def test_a_column_ordered_array_is_read_in_place():
    X = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    assert all(np.shares_memory(X, column.values) for column in read_frame(X).columns)
    tall = np.arange(3000.0).reshape(1500, 2)  # more than a block of rows
    np.testing.assert_array_equal(np.array([c.values for c in read_frame(tall).columns]), tall.T)


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array])
def test_sparse(make):
    X = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0]])
    np.testing.assert_array_equal(np.array([c.values for c in read_frame(make(X)).columns]), X.T)
    twice = sp.coo_matrix(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 3))
    assert read_frame(twice)["x1"].values.tolist() == [3.0, 0.0]
    with pytest.raises(DecibanError, match="10,000 rows and 1,000,000 columns"):
        read_frame(sp.csr_matrix((10_000, 1_000_000)))


def test_names():
    assert read_frame(np.eye(2), names=["a", "b"]).names == ("a", "b")
    assert read_frame([[1, 2]], names=["a", "b"]).names == ("a", "b")
    assert read_frame(TABLE, names=["span", "whole"]).names == ("span", "whole")
    assert read_frame({0: [1], ("a", 1): [2]}).names == ("0", "('a', 1)")
    with pytest.raises(DecibanError, match="3 names for the 2 columns"):
        read_frame(np.eye(2), names=["a", "b", "c"])
    with pytest.raises(DecibanError, match="no column 'spam': did you mean 'span'"):
        read_frame(TABLE, names=["spam"])


def test_no_columns_and_no_rows():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for nothing in ([], {}, pd.DataFrame(), pl.DataFrame(), np.empty((0, 0))):
        assert (read_frame(nothing).names, read_frame(nothing).size) == ((), 0)
    for wide in (pd.DataFrame({"a": [], "b": []}), {"a": [], "b": []}, pl.DataFrame({"a": [], "b": []})):
        assert (read_frame(wide).names, read_frame(wide).size) == (("a", "b"), 0)
    assert (read_frame([], names=["a"]).names, read_frame(np.empty((0, 2))).names) == (("a",), ("x0", "x1"))
    assert read_frame(np.empty((5, 0))).size == read_frame(pd.DataFrame(index=range(5))).size == 5
    pa = pytest.importorskip("pyarrow")
    empty = pa.schema([("a", pa.string()), ("b", pa.dictionary(pa.int8(), pa.string()))]).empty_table()
    assert as_values(read_frame(empty)) == {"a": "([], ())", "b": "([], ())"}


def test_a_frame_is_cut():
    frame = read_frame(TABLE)
    assert frame.take([2, 0, 0])["name"].objects().tolist() == ["a", "b", "b"]
    assert frame.take(np.array([True, False, True])).size == 2
    assert frame.take(slice(1, None))["whole"].values.tolist() == [2.0, -3.0]
    assert frame.take([]).size == 0
    assert frame.select(["date", "name"]).names == ("date", "name")
    assert "span" not in frame.without("span")
    assert read_frame(frame) is frame
    assert read_frame(frame, names=["name"]).names == ("name",)
    for ask in (frame.__getitem__, frame.without, lambda name: frame.select([name])):
        with pytest.raises(DecibanError, match="no column 'wholes': did you mean 'whole'"):
            ask("wholes")
    with pytest.raises(IndexError):
        frame.take([3])


def test_mixed_types_are_strings_with_a_note():
    frame = read_frame({"a": [None, "x", 3, 4.0, "3"], "b": [1, 2, 3, 4, 5]})
    assert frame["a"].objects().tolist() == [None, "x", "3", "4", "3"]
    assert list(frame.notes) == ["a"]
    assert frame.notes["a"].startswith("mixed: column 'a'")
    for example in ("'x' in row 1", "3 in row 2", "4.0 in row 3"):
        assert example in frame.notes["a"]
    assert frame.without("a").notes == {}
    pd = pytest.importorskip("pandas")
    late = pd.DataFrame({"a": ["x"] * 500 + [7]})
    assert read_frame(late)["a"].levels == ("x", "7")
    assert "7 in row 500" in read_frame(late).notes["a"]


def test_a_moment_is_the_same_number_in_every_unit():
    moments = np.array(["1823-01-01T00:00:01", "2000-01-01T00:00:00.000001", "NaT"], dtype="datetime64[us]")
    in_microseconds, in_nanoseconds = (
        read_frame({"a": moments.astype(f"datetime64[{unit}]")})["a"].values for unit in ("us", "ns")
    )
    np.testing.assert_array_equal(in_nanoseconds, in_microseconds)
    finest = read_frame({"a": np.array([1], dtype="datetime64[ns]")})["a"].values
    np.testing.assert_allclose(finest, 1 / 86_400e9, rtol=1e-15)


def test_numbers_of_every_type():
    values = [True, 2, 2.5, np.float32(1.5), np.int8(3), fractions.Fraction(1, 2), decimal.Decimal("0.25"), 2**60]
    assert read_frame({"a": values})["a"].values.tolist() == [1.0, 2.0, 2.5, 1.5, 3.0, 0.5, 0.25, 2.0**60]
    assert read_frame({"a": [np.int8(3), 2, None]})["a"].whole
    pl = pytest.importorskip("polars")
    if hasattr(pl, "Int128"):  # since Polars 1.18
        wide = pl.DataFrame({"a": pl.Series([1, None], dtype=pl.Int128)})
        assert as_values(read_frame(wide))["a"] == repr(([1.0, NAN], True, None))
    pd = pytest.importorskip("pandas")
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0, 0.0])})
    assert as_values(read_frame(sparse))["a"] == repr(([0.0, 1.0, 0.0], False, None))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": [1.0, np.inf]}, r"column 'a' holds inf in row 1: .* NaN"),
        (np.array([[0.0, 1.0], [-np.inf, 0.0]]), r"column 'x0' holds -inf in row 1"),
        ({"a": np.array([1e400], dtype=np.longdouble) * np.longdouble(10) ** 400}, r"column 'a' holds inf in row 0"),
        ({"a": [1, 10**400]}, r"column 'a' holds 1000.* in row 1, which is too large"),
        ({"a": [None, [1, 2]]}, r"column 'a' holds \[1, 2\] in row 1, of type list"),
        ({"a": ["x", {"b": 1}]}, r"column 'a' holds \{'b': 1\} in row 1, of type dict"),
        ({"a": [1 + 2j]}, r"column 'a' holds \(1\+2j\) in row 0, of type complex"),
        ({"a": [np.array([1, 2])]}, r"column 'a' holds array.* in row 0, of type ndarray"),
        (np.array([[1j]]), r"column 'x0' is of type complex128"),
        (np.arange(3), r"an array of shape \(3,\) is not a table.*reshape\(-1, 1\)"),
        (np.zeros((2, 2, 2)), r"an array of shape \(2, 2, 2\) is not a table"),
        ([1, 2, 3], r"row 0 is 1, a int: every row of a table must be a list"),
        (["a", "b"], r"row 0 is 'a', a str"),
        ([{"a": 1}, None], r"row 1 is None, a NoneType: every row of a table must be a dict"),
        ([[1, 2], [3]], r"row 1 has 1 values.*row 0 has 2"),
        ({"a": [1, 2], "b": [1]}, r"column 'b' has 1 values.*column 'a' has 2"),
        ({"a": 5}, r"column 'a' is 5, a single int"),
        ({"a": "xyz"}, r"column 'a' is 'xyz', a single str"),
        ({"a": np.zeros((2, 2))}, r"column 'a' has 2 dimensions"),
        ({1: [1], "1": [2]}, r"several columns have the name '1'"),
        ("a,b\n1,2", r"a str is not a table"),
        (None, r"a NoneType is not a table"),
        (5, r"a int is not a table"),
    ],
)
def test_bad_tables(table, message):
    with pytest.raises(DecibanError, match=message):
        read_frame(table)


def test_infinities_are_named_by_the_users_names():
    pd = pytest.importorskip("pandas")
    X = np.array([[0.0, 1.0], [0.0, np.inf]])
    for read in (
        lambda: read_frame(X, names=["a", "b"]),
        lambda: read_frame(sp.csr_matrix(X), names=["a", "b"]),
        lambda: read_frame(pd.DataFrame(X, columns=["a", "b"])),
        lambda: read_frame(X.tolist(), names=["a", "b"]),
    ):
        with pytest.raises(DecibanError, match="column 'b' holds inf in row 1"):
            read()


def test_bad_tables_of_libraries():
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    for table in (pd.DataFrame(np.eye(3), columns=["a", "b", "a"]), pa.table([[1], [2], [3]], names=["a", "b", "a"])):
        with pytest.raises(DecibanError, match="several columns have the name 'a'"):
            read_frame(table)
    for series in (pd.Series([1, 2]), pl.Series([1, 2]), pa.chunked_array([[1, 2]])):
        with pytest.raises(DecibanError, match="single column"):
            read_frame(series)
    for table in (pl.DataFrame({"a": [None, [1]]}), pa.table({"a": [None, [1]]}), pd.DataFrame({"a": [None, [1]]})):
        with pytest.raises(DecibanError, match=r"column 'a' holds .*1.* in row 1, of type \w+"):
            read_frame(table)
    for table in (
        pl.DataFrame({"a": [1.0, np.inf]}),
        pa.table({"a": [1.0, np.inf]}),
        pd.DataFrame({"a": [1.0, np.inf]}),
    ):
        with pytest.raises(DecibanError, match="column 'a' holds inf in row 1"):
            read_frame(table)


def test_the_target_is_split_off():
    for make, table in table_types(TABLE).items():
        rest, y = split_target(table, "name")
        assert isinstance(y, np.ndarray), make
        assert [v for v in y.tolist() if v] == ["b", "a"], make
        frame = read_frame(rest)
        assert frame.names == tuple(name for name in TABLE if name != "name"), make
        if make in ("pandas", "Polars", "Arrow", "mapping"):
            assert native_kind(rest) == native_kind(table), make
    assert split_target(TABLE, "whole")[1].dtype.kind == "i"
    assert split_target(read_frame(TABLE), "name")[1].tolist() == ["b", None, "a"]
    alone, y = split_target([{"y": 1}, {"y": 2}], "y")
    assert (alone.size, alone.names, y.tolist()) == (2, (), [1, 2])


def test_a_target_that_is_not_there():
    for make, table in table_types(TABLE).items():
        with pytest.raises(DecibanError, match="no column 'nmae': did you mean 'name'"):
            split_target(table, "nmae")
        assert make
    with pytest.raises(DecibanError, match="no column 'zzz': the table has 'whole', 'real', "):
        split_target(TABLE, "zzz")
    with pytest.raises(DecibanError, match="have no names"):
        split_target(np.eye(2), "x0")


def test_a_value_as_a_file_would_have_it():
    assert [as_name(v) for v in (2.0**60, np.str_("x"), dt.date(2020, 1, 2))] == [str(2.0**60), "x", "2020-01-02"]


def test_other_libraries_are_imported_only_for_their_own_tables():
    code = (
        "import sys; from deciban.reading.frames import read_frame; from deciban.reading.kinds import infer\n"
        "infer(read_frame({'a': [1, 2], 'b': ['x', None]})); infer(read_frame([[1, 2]]))\n"
        "print(sorted({'pandas', 'polars', 'pyarrow', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def columns(X):
    return {f"c{j}": X[:, j] for j in range(X.shape[1])}


def test_five_thousand_columns():
    pd = pytest.importorskip("pandas")
    X = np.zeros((50, 5000))
    table = pd.DataFrame(X, columns=[f"c{j}" for j in range(5000)])
    for few, many in ((table.iloc[:, :500], table), (X[:, :500], X), (columns(X[:, :500]), columns(X))):
        assert len(read_frame(many).names) == 5000
        grown = growth(partial(read_frame, few), partial(read_frame, many), 30)
        assert grown <= 30, "10, were it linear"


def test_columns_of_a_wide_table_are_found_by_name_in_no_more_time():
    def select_all(frame):
        return frame.select(reversed(frame.names))

    few, many = (read_frame({f"c{j}": [1.0] for j in range(d)}) for d in (1000, 16_000))
    assert growth(partial(select_all, few), partial(select_all, many), 60) <= 60, "16, were it linear"
    assert select_all(many).names[0] == "c15999"
    assert "c7" in many
    with pytest.raises(DecibanError, match="there is no column 'd'"):
        many.select(["c1", "d"])
