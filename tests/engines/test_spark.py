"""Spark DataFrames on a real cluster: every row counts once, in any partitioning; samples, answers, what is refused."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from threading import Timer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban._kernel import text
from deciban.engines.spark import engine
from deciban.errors import DecibanError, EngineError

pytestmark = pytest.mark.engine("spark")

FIELDS = pa.schema([("twice", pa.float64()), ("who.says", pa.string())])


@dataclass(frozen=True)
class Seen:
    """What `work` was given: rows by label, the schemas of tables, the first rows of partitions in the order added."""

    labels: Counter
    schemas: frozenset
    order: tuple

    def __add__(self, other):
        return Seen(self.labels + other.labels, self.schemas | other.schemas, self.order + other.order)


@dataclass(frozen=True)
class Look:
    """Work that records what it was given; `column` holds the labels."""

    column: str = "id"

    def __call__(self, tables):
        labels, schemas, first = Counter(), set(), None
        for table in tables:
            labels.update(table[self.column].to_pylist())
            schemas.add(table.schema)
            first = table[self.column][0].as_py() if first is None else first
        return Seen(labels, frozenset(schemas), (first,)) if labels else None


@dataclass(frozen=True)
class Wide:
    """Work whose sums are of some size."""

    size: int

    def __call__(self, tables):
        return b"x" * self.size if sum(table.num_rows for table in tables) else None


@dataclass(frozen=True)
class Double:
    """Answers: twice the number, and what it is."""

    def __call__(self, rows):
        numbers = rows["id"].to_pylist()
        return pa.table([pa.array([2.0 * n for n in numbers]), pa.array([f"№{n}" for n in numbers])], schema=FIELDS)


class Refuse:
    def __call__(self, rows):
        raise DecibanError(f"{rows.num_rows} rows are not answered")


def partitioned(spark, partitions, types):
    """A DataFrame with exactly these partitions; of a union of small ones, Spark would make a single one."""
    rows = spark.sparkContext.parallelize(list(map(list, partitions)), len(partitions)).flatMap(lambda part: part)
    return spark.createDataFrame(rows, types)


def ids(spark, partitions):
    return partitioned(spark, [[(i,) for i in part] for part in partitions], "id long")


# ------------------------------------------------------------------ sums


PARTITIONINGS = {
    "one partition": [range(10)],
    "empty partitions": [[], range(4), [], range(4, 5), []],
    "a label in one partition only": [[1, 1], [1, 2], [1, 3, 3]],
}


@pytest.mark.parametrize("partitions", PARTITIONINGS.values(), ids=PARTITIONINGS)
def test_every_row_counts_once(spark, partitions):
    total = engine.Spark(ids(spark, partitions)).collect(Look())
    assert total.labels == Counter(i for part in partitions for i in part)
    assert list(total.order) == [part[0] for part in partitions if len(part)]


@pytest.mark.parametrize("partitions", [50, pytest.param(200, marks=pytest.mark.slow)])
def test_many_partitions_are_merged_in_a_tree_in_their_order(spark, monkeypatch, partitions):
    last = 5 * partitions
    frame = spark.range(0, last, 1, partitions).where("id < 80 OR id >= 240")  # partitions 16 to 47 have nothing to say
    sent = spied_on(monkeypatch)
    progress = []
    total = engine.Spark(frame).collect(Look(), progress.append)
    assert total.labels == Counter([*range(80), *range(240, last)])
    assert list(total.order) == [*range(0, 80, 5), *range(240, last, 5)]
    assert sent == [-(-partitions // 16) - 2]  # of groups of 16 partitions next to each other, two are empty
    assert progress == [partitions - 32]


def test_large_sums_are_merged_until_they_fit(spark, monkeypatch):
    monkeypatch.setattr(engine, "MAX_BYTES_AT_ONCE", 2_500)
    monkeypatch.setattr(engine, "MAX_BYTES_SENT_ALONG", 500)
    sent = spied_on(monkeypatch)
    total = engine.Spark(spark.range(0, 6, 1, 6)).collect(Wide(1_000))
    assert total == b"x" * 6_000
    assert sent == [1]


def spied_on(monkeypatch):
    """How many sums the driver adds, each time that it does."""
    sent, sum_of_parts = [], engine.sum_of_parts

    def count(parts):
        parts = list(parts)
        sent.append(len(parts))
        return sum_of_parts(iter(parts))

    monkeypatch.setattr(engine, "sum_of_parts", count)
    return sent


def test_a_sum_that_no_row_can_hold_is_an_error(spark, monkeypatch):
    del spark  # that PySpark is there
    monkeypatch.setattr(engine, "MAX_SUM_BYTES", 1_000)
    with pytest.raises(EngineError, match=r"sum of one partition takes .*n_features="):
        engine.pack(b"x" * 2_000)


def test_sums_may_hold_what_is_compiled(spark):
    """And functions that only this process can import, as in a notebook."""
    del spark
    words = text.Vocabulary.from_buffers(np.frombuffer(b"hamspam", np.uint8), np.array([0, 3, 7]))
    again, twice = pickle.loads(engine.pack((words, lambda x: 2 * x)))
    assert [part.tolist() for part in again.buffers()] == [part.tolist() for part in words.buffers()]
    assert twice(3) == 6


def test_without_rows_there_is_no_sum(spark):
    source = engine.Spark(spark.range(5).where("id > 7"))
    assert source.collect(Look()) is None
    assert source.sample(10).equals(source.schema.empty_table())


def test_nothing_is_left_in_the_cluster(spark):
    engine.Spark(spark.range(0, 40, 1, 20)).collect(Look())
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()


def test_nobody_is_warned(spark):
    source = engine.Spark(spark.range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert source.collect(Look()).labels == Counter(range(3))
        assert source.sample(2).num_rows == 2
        source.apply(Double(), FIELDS)


# ------------------------------------------------------------------ columns


ROWS = [
    (True, 1, 2, 3, 4, 0.5, 0.25, Decimal("1.25"), "a", date(2020, 2, 3), datetime(2020, 2, 3, 4), b"b", None),
    (None, None, None, None, None, None, None, None, None, None, None, None, None),
]
TYPES = (
    "`a.b` boolean, `back``tick` byte, short short, int int, long long, float float, double double, "
    "decimal decimal(9,2), `ſtring` string, date date, moment timestamp, binary binary, nothing void"
)


def test_every_table_has_exactly_the_schema(spark):
    """With any column names, any time zone, and a partition of missing values only."""
    frame = partitioned(spark, [[row] for row in ROWS], TYPES)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        source = engine.Spark(frame)
        total = source.collect(Look("short"))
        rows = source.sample(10)
        answered = source.apply(Length(), pa.schema([("n", pa.int64())])).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert total.schemas == {source.schema}
    assert rows.schema == source.schema
    numbers = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.float64()]
    moment = pa.timestamp("us", "UTC")
    assert source.schema.types == [*(pa.bool_(), *numbers, pa.string(), pa.date32(), moment, pa.string(), pa.string())]
    assert source.schema.names == frame.columns
    assert rows["decimal"].to_pylist() == [1.25, None]
    assert rows["moment"][0].as_py().timestamp() == ROWS[0][10].timestamp()
    assert sorted(tuple(row)[:-1] for row in answered if row[0] is not None) == ROWS[:1]
    assert [row.n for row in answered] == [1, 1]  # a partition each


class Length:
    def __call__(self, rows):
        return pa.table({"n": pa.array([rows.num_rows] * rows.num_rows, pa.int64())})


def test_what_has_no_place_in_a_table_is_refused(spark):
    from pyspark.ml.linalg import Vectors

    vectors = spark.createDataFrame([(1, Vectors.dense([1.0, 2.0]))], ["id", "features"])
    with pytest.raises(EngineError, match=r"column 'features' .* holds vectors of Spark ML: .*vector_to_array"):
        _ = engine.Spark(vectors).schema
    with pytest.raises(DecibanError, match=r"column 'list' of the Spark DataFrame holds list<.*leave the column out"):
        _ = engine.Spark(spark.sql("SELECT array(1, 2) AS list")).schema
    with pytest.raises(EngineError, match="several columns called 'x': rename all but one"):
        engine.Spark(spark.sql("SELECT 1 AS x, 2 AS x"))
    with pytest.raises(EngineError, match="unbounded stream"):
        engine.Spark(spark.readStream.format("rate").load())
    with pytest.raises(EngineError, match=r"takes a Spark DataFrame, not builtins\.list"):
        engine.Spark([1, 2])


# ------------------------------------------------------------------ samples


def test_a_sample_is_all_rows_where_there_are_few(spark):
    """Also where they are in the last of many partitions, of which few rows are requested first."""
    few = [[], [], [], [1], [], list(range(2, 60))]
    sampled = engine.Spark(ids(spark, few)).sample(100)
    assert sorted(sampled["id"].to_pylist()) == list(range(1, 60))


@pytest.mark.slow  # Spark starts a Python process for every place
def test_a_sample_is_from_all_over(spark, monkeypatch):
    """From evenly spaced parts, the same number from each, and in order."""
    monkeypatch.setattr(engine, "FAN_IN", 4)
    sampled = engine.Spark(spark.range(0, 10_000, 1, 10)).sample(160)["id"].to_pylist()
    assert len(sampled) == 160
    assert sampled == sorted(sampled)
    places = Counter(i // 1_000 for i in sampled)
    assert list(places.values()) == [40] * 4
    assert {b - a for a, b in pairwise(places)} <= {2, 3}


def test_a_sample_does_not_read_on(spark):
    """Reading all of these rows would take days."""
    stop = Timer(120, spark.sparkContext.cancelAllJobs)
    stop.start()
    try:
        sampled = engine.Spark(spark.range(0, 10**14, 1, 2)).sample(1_000)["id"].to_pylist()
    finally:
        stop.cancel()
    assert sampled == [*range(500), *range(5 * 10**13, 5 * 10**13 + 500)]


@given(sizes=st.lists(st.integers(0, 50), max_size=16), rows=st.integers(1, 200))
def test_the_water_level_makes_just_enough(sizes, rows):
    def together(level):
        return sum(min(size, level) for size in sizes)

    level = engine.water_level(sizes, rows)
    assert together(level) >= min(rows, sum(sizes))
    assert level == 0 or together(level - 1) < min(rows, sum(sizes))


# ------------------------------------------------------------------ answers


def test_answers_stand_beside_their_rows(spark):
    frame = spark.range(0, 50, 1, 3)
    answers = engine.Spark(frame).apply(Double(), FIELDS)
    assert answers.columns == ["id", "twice", "who.says"]
    assert answers.schema["twice"].dataType.simpleString() == "double"
    assert sorted(map(tuple, answers.collect())) == [(i, 2.0 * i, f"№{i}") for i in range(50)]


def test_answers_are_worked_out_when_they_are_used(spark):
    answers = engine.Spark(spark.range(0, 5, 1, 1)).apply(Refuse(), FIELDS)
    with pytest.raises(Exception, match="partition 0 of the Spark DataFrame: DecibanError: 5 rows are not answered"):
        answers.collect()


def test_an_answer_does_not_take_the_place_of_a_column(spark):
    source = engine.Spark(spark.sql("SELECT 1 AS id, 2 AS Twice"))
    with pytest.raises(EngineError, match="already has a column 'twice'"):  # to Spark, Twice is the same
        source.apply(Double(), FIELDS)


# ------------------------------------------------------------------ files


def test_files_of_every_kind(spark, tmp_path):
    del spark  # it is the active session
    kinds = ["spam", "ham", "spam", "spam"]
    pq.write_table(pa.table({"id": range(4), "kind": kinds}), tmp_path / "p.parquet")
    rows = "".join(f"{i},{kind}\n" for i, kind in enumerate(kinds))
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(f"id,kind\n{rows}".encode()))
    (tmp_path / "s.csv").write_text(f"id;kind\n{rows}".replace(",", ";"))
    (tmp_path / "j.jsonl").write_text(
        "".join(json.dumps({"id": i, "kind": kind}) + "\n" for i, kind in enumerate(kinds))
    )
    by_file = {}
    for name, how in {
        "p*.parquet": {},
        "c.csv.gz": {},
        "j.jsonl": {},
        "s.csv": {"sep": ";", "schema": "id int, kind string"},
    }.items():
        source = engine.from_paths([f"{tmp_path}/{name}"], **how)
        by_file[name] = source.sample(10)
        assert name in repr(source)
    for name, table in by_file.items():
        assert table["kind"].to_pylist() == kinds, name
        assert pa.types.is_integer(table["id"].type), name


def test_files_that_are_not_there(spark, tmp_path):
    del spark
    with pytest.raises(EngineError, match=r"none\.parquet: .*Path does not exist") as caught:
        engine.from_paths([f"{tmp_path}/none.parquet"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("paths", [["a.csv", "b.parquet"], ["a.xlsx"], []])
def test_files_that_spark_is_not_asked_for(paths):
    with pytest.raises(EngineError, match=r"extension.*parquet, csv"):
        engine.from_paths(paths)


def test_endings():
    assert engine.ending("s3://b/x.y/part-0.c000.snappy.parquet") == "parquet"
    assert engine.ending("data/*.CSV.gz") == "csv"
    assert engine.ending("warehouse.db/table/") == ""


# ------------------------------------------------------------------ without Spark


def test_spark_frames_are_known_without_spark():
    def kind(module, name="DataFrame", *bases):
        return type(name, bases, {"__module__": module})

    classic = kind("pyspark.sql.classic.dataframe", "DataFrame", kind("pyspark.sql.dataframe"))
    for mine in (classic, kind("pyspark.sql.connect.dataframe"), kind("mine", "Subclass", classic)):
        assert engine.is_spark_frame(mine())
    for other in (
        kind("pandas.core.frame"),
        kind("pyspark.sql.classic.column", "Column"),
        kind("pyspark.pandas.frame"),
    ):
        assert not engine.is_spark_frame(other())
    program = (
        "import sys, deciban.engines.spark.engine as s; "
        "s.is_spark_frame(1); sys.exit(any('pyspark' in m for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_pyspark_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(EngineError, match=r"pip install 'deciban\[spark\]'"):
        engine.from_paths(["a.parquet"])


LOST = """Job aborted due to stage failure: Task 7 in stage 3.0 failed 4 times, most recent failure: Lost task 7.3 in \
stage 3.0 (TID 12) (10.0.0.7 executor 2): ExecutorLostFailure (executor 2 exited caused by one of the running tasks) \
Reason: Command exited with code 137
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler"""

BROKEN = """An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 1.0 failed 4 times, most recent \
failure: Lost task 3.3 in stage 1.0 (TID 9) (h executor 1): java.lang.IllegalStateException: \x1b[31mno
\tat a.b.C(D.scala:1)
Caused by: java.io.IOException: disk is full SQLSTATE: 58030
\tat a.b.E(F.scala:2)
"""


def test_what_spark_says_is_told_in_a_line():
    assert engine.reason("[PATH_NOT_FOUND] Path does not exist. SQLSTATE: 42K03", "f") == (
        "f: [PATH_NOT_FOUND] Path does not exist."
    )
    assert engine.reason(LOST, "rows").startswith("partition 7 of rows: the executor was killed")
    assert engine.reason(BROKEN, "rows") == "partition 3 of rows: ␛[31mno disk is full"
    wrong = "Traceback (most recent call last):\n  File …\n    import\nRuntimeError: Python 3.9 there\nand 3.11 here\n"
    assert engine.reason(wrong, "rows") == "rows: RuntimeError: Python 3.9 there"
    missing = "Traceback …\nModuleNotFoundError: No module named 'deciban'\n"
    assert "install the same version there" in engine.reason(missing, "rows")
