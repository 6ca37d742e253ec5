"""Parquet, and Arrow's own files: types as they are declared."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from deciban.errors import DecibanError, FileError
from deciban.sources import open_source
from deciban.sources.column_types import CODES, as_written

TABLE = pa.table(
    {
        "whole": pa.array([1, None, 3], pa.int64()),
        "real": pa.array([0.5, float("nan"), None]),
        "flag": [True, None, False],
        "day": [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 2)],
        "price": [decimal.Decimal("1.25"), None, decimal.Decimal("3.50")],
        "long": pa.array(["x", None, "y"], pa.large_string()),
        "coded": pa.array(["u", None, "u"]).dictionary_encode(),
        "raw": pa.array([b"x", None, b"y"], pa.binary()),
        "none": pa.nulls(3),
    }
)
TYPES = {
    "whole": pa.int64(),
    "real": pa.float64(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "price": pa.float64(),
    "long": pa.string(),
    "coded": CODES,
    "raw": pa.string(),
    "none": pa.string(),
}


def write_stream(table, path):
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def write_file(table, path):
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "a.parquet": pq.write_table,
    "a.arrow": write_file,
    "a.ipc": write_stream,
    "a.feather": pyarrow.feather.write_feather,
    "unnamed-parquet": pq.write_table,
    "unnamed-arrow": write_file,
    "unnamed-stream": write_stream,
}


@pytest.fixture(params=WRITERS)
def write(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def to_file(table):
        WRITERS[request.param](table, str(tmp_path / request.param))
        return request.param

    return to_file


def rows(source):
    return [row for batch in source.batches() for row in batch.table.to_pylist()]


def test_types_and_values(write):
    source = open_source([write(TABLE)])
    assert source.types == TYPES
    values = rows(source)
    assert values[0] == {
        "whole": 1,
        "real": 0.5,
        "flag": True,
        "day": datetime.date(2024, 1, 1),
        "price": 1.25,
        "long": "x",
        "coded": "u",
        "raw": "x",
        "none": None,
    }
    assert {key: value for key, value in values[1].items() if key != "real"} == dict.fromkeys(set(TYPES) - {"real"})
    assert source.whole == {"whole"}
    assert source.sample().num_rows == 3


def test_names_that_come_again_are_codes_and_types_can_be_given(write):
    path = write(pa.table({"name": ["x", "y"] * 30, "n": list(range(60))}))
    assert open_source([path]).types == {"name": CODES, "n": pa.int64()}
    source = open_source([path], types={"name": pa.string(), "n": pa.float64()})
    expected = pa.schema([("name", pa.string()), ("n", pa.float64())])
    assert next(source.batches()).table.schema == expected


def test_missing_values_can_be_named(write):
    path = write(pa.table({"name": ["x", "unknown"], "n": [-9, 1]}))
    assert rows(open_source([path], missing=["unknown", "-9"])) == [
        {"name": "x", "n": None},
        {"name": None, "n": 1},
    ]


def test_batches_rows_and_no_rows(write):
    path = write(pa.table({"n": list(range(1000))}))
    source = open_source([path])
    batches = list(source.batches(rows=300))
    assert [batch.first for batch in batches] == [0, 300, 600, 900]
    assert source.row(777).to_pylist() == [{"n": 777}]
    with pytest.raises(DecibanError, match="has only 1,000 rows"):
        source.row(1000)
    assert source.head(3).column("n").to_pylist() == [0, 1, 2]


def test_an_empty_table(write):
    source = open_source([write(TABLE.slice(0, 0))])
    assert source.columns == tuple(TYPES)
    assert rows(source) == []
    assert source.sample().num_rows == 0


@pytest.mark.parametrize("cut", [0, 3, 9, 0.5, 0.9])
def test_files_that_are_cut_off(write, tmp_path, cut):
    path = tmp_path / write(pa.table({"n": list(range(10_000)), "s": ["x"] * 10_000}))
    data = path.read_bytes()
    path.write_bytes(data[: cut if isinstance(cut, int) else int(cut * len(data))])
    with pytest.raises(FileError) as error:
        rows(open_source([path.name], format="parquet" if "parquet" in path.name else "arrow"))
    assert path.name in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())])], ids=str)
def test_what_is_nested_is_refused(write, kind):
    with pytest.raises(DecibanError, match=r"column 'a' of .* holds .*split it into columns"):
        open_source([write(pa.table({"a": pa.array([None], kind)}))])


def test_several_files_are_cast_to_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"a": [1.5], "b": ["x"]}), "1.parquet")
    pq.write_table(pa.table({"b": ["y"], "a": [2]}), "2.parquet")
    source = open_source(["*.parquet"])
    assert source.name == "2 files like *.parquet"
    assert rows(source) == [{"a": 1.5, "b": "x"}, {"a": 2.0, "b": "y"}]
    pq.write_table(pa.table({"b": ["y"], "a": ["two"]}), "2.parquet")
    with pytest.raises(DecibanError, match=r"column 'a' of 2\.parquet holds string and cannot be read as numbers"):
        rows(open_source(["*.parquet"]))
    pq.write_table(pa.table({"a": [2]}), "2.parquet")
    with pytest.raises(DecibanError, match=r"2\.parquet does not have the columns of 1\.parquet: it lacks 'b'"):
        open_source(["*.parquet"])


def test_hostile_arrow_is_refused_and_not_followed(tmp_path):
    """Codes out of range, as only a broken or malicious program writes them."""
    beyond = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), pa.array(["x"]), safe=False)
    path = tmp_path / "a.arrow"
    write_file(pa.table({"a": beyond}), str(path))
    with pytest.raises(FileError, match="not a complete Arrow file"):
        rows(open_source([path]))


def test_codes_that_stand_for_more_than_memory_holds_are_refused(tmp_path):
    """Five thousand codes of one value of a million characters: few bytes in the file, 5 GB as texts."""
    codes = pa.DictionaryArray.from_arrays(pa.array([0] * 5000, pa.int8()), pa.array(["x" * 1_000_000]))
    path = tmp_path / "bomb.arrow"
    with pa.ipc.new_file(path, pa.schema([("t", codes.type)])) as file:
        file.write_batch(pa.record_batch([codes], names=["t"]))
    with pytest.raises(FileError, match="column 't' unpacks to 4,768 MB"):
        as_written(next(open_source([path]).batches()).table, ())
