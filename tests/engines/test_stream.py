"""Streams: every row counts once, in constant memory, from any source and after any failure."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import deciban
from deciban import GaussianNB, NaiveBayes
from deciban.engines.dispatch import engine_of
from deciban.engines.stream import TABLE_ROWS, Stream, stream
from deciban.errors import DecibanError, EngineError, FileError, SchemaError
from deciban.sources import open_source, write_rows

pytestmark = pytest.mark.engine("stream")

LINUX = sys.platform.startswith("linux")


def rows(start, stop):
    """Rows identified by `id`."""
    ids = np.arange(start, stop)
    return pa.table({"id": ids, "x": ids % 7 + 0.5, "colour": pa.array([f"c{i % 3}" for i in ids], pa.string())})


def parts(sizes=(5, 0, 1, 40, 7)):
    """Tables of these sizes, one after the other."""
    ends = np.cumsum(sizes)
    return [rows(end - size, end) for size, end in zip(sizes, ends, strict=True)]


TOTAL = Counter(range(53))


def ids(tables):
    """How often each row occurred: a sum."""
    met = Counter()
    for table in tables:
        met.update(map(int, table["id"].to_pylist()))
    return met or None


def met_in(source):
    return stream(source).collect(ids)


# ------------------------------------------------------------------ what rows come as


@pytest.mark.parametrize(
    "ending", [".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".feather", ".jsonl", ".jsonl.zst"]
)
def test_files_of_every_kind(tmp_path, ending):
    paths = []
    for number, table in enumerate(parts()):
        if table.num_rows or ending in (".parquet", ".arrow", ".feather"):  # an empty text file has no columns
            paths.append(tmp_path / f"part-{number}{ending}")
            write_rows(paths[-1], [table])
    assert met_in([os.fspath(path) for path in paths]) == TOTAL
    assert met_in(os.fspath(tmp_path / f"*{ending}")) == TOTAL  # a pattern
    assert met_in(tmp_path) == TOTAL  # a folder, and a path that is not a string
    assert met_in(open_source(paths)) == TOTAL


def scanner(tables):
    return pa.dataset.dataset(pa.concat_tables(tables)).scanner(batch_size=4)


def reader(tables):
    whole = pa.concat_tables(tables)
    return pa.RecordBatchReader.from_batches(whole.schema, whole.to_batches(max_chunksize=4))


COMING = {
    "generator": lambda tables: (table for table in tables),
    "function": lambda tables: lambda: iter(tables),
    "function that returns a list": lambda tables: lambda: tables,
    "record batches": lambda tables: (batch for table in tables for batch in table.to_batches()),
    "reader": reader,
    "dataset": lambda tables: pa.dataset.dataset(pa.concat_tables(tables)),
    "scanner": scanner,
    "pandas": lambda tables: (table.to_pandas() for table in tables),
    "mappings": lambda tables: (table.to_pydict() for table in tables if table.num_rows),
    "lists of dicts": lambda tables: (table.to_pylist() for table in tables if table.num_rows),
}


@pytest.mark.parametrize("coming", COMING)
def test_frames_of_every_kind(coming):
    assert met_in(COMING[coming](parts())) == TOTAL


def test_polars():
    polars = pytest.importorskip("polars")
    assert met_in(polars.from_arrow(table) for table in parts()) == TOTAL


def test_pairs_of_rows_and_labels():
    X, y = np.arange(12.0).reshape(6, 2), np.array(list("ababab"))
    source = stream((X[i : i + 2], y[i : i + 2]) for i in range(0, 6, 2))
    assert not source.named
    assert source.target == "y"
    assert source.schema.names == ["x0", "x1", "y"]

    def said(tables):
        return Counter((row["x0"], row["x1"], row["y"]) for table in tables for row in table.to_pylist())

    assert source.collect(said) == Counter(zip(X[:, 0].tolist(), X[:, 1].tolist(), y.tolist(), strict=True))


def test_the_engine_of_what_comes_by():
    assert isinstance(engine_of(iter(parts()), "colour"), Stream)
    assert engine_of(rows(0, 3), "colour") is None
    assert engine_of(np.zeros((2, 2)), np.zeros(2)) is None
    with pytest.raises(DecibanError, match="must be one of"):
        engine_of(iter(parts()), "colour", engine="abacus")


def test_nothing_comes():
    with pytest.raises(DecibanError, match="no rows"):
        stream(iter([]))
    assert stream(lambda: [rows(0, 0), rows(0, 0)]).collect(ids) is None
    with pytest.raises(DecibanError, match=r"^int "):
        stream(3)
    with pytest.raises(DecibanError, match="'delimiter' is for files"):
        stream(iter(parts()), delimiter=";")
    with pytest.raises(FileError, match="there is no file"):
        stream("no such file.csv")


# ------------------------------------------------------------------ the same columns everywhere


def types_met(tables):
    return Counter(str(table.schema.types) for table in tables)


CHANGING = {
    "fractions after whole numbers": ([1, 2], [1.5, None]),
    "missing after whole numbers": ([1, 2], [None, None]),
    "whole numbers after nothing but missing ones": ([None, None], [1, 2]),
    "fractions after nothing but missing ones": ([None, None], [0.5, 2.0]),
    "strings after nothing but missing ones": ([None, None], ["a", "b"]),
    "missing after strings": (["a", "b"], [None, None]),
}


@pytest.mark.parametrize("how", CHANGING)
@pytest.mark.parametrize("rereads", [True, False])
def test_a_column_has_one_type(how, rereads):
    first, then = CHANGING[how]
    tables = [pa.table({"id": [i], "x": [value]}) for i, value in enumerate(first + then)]
    source = stream(lambda: tables) if rereads else stream(iter(tables))
    sample = source.sample(100)
    assert sample.num_rows == 4
    kinds = source.collect(types_met)
    assert len(kinds) == 1, "every table has the schema's types"
    expected = pa.array(first + then)
    is_number = pa.types.is_integer(expected.type) or pa.types.is_floating(expected.type)
    kind = source.schema.field("x").type
    assert pa.types.is_floating(kind) if is_number else pa.types.is_string(kind) or pa.types.is_large_string(kind)


def test_categories_that_a_table_has_for_itself():
    tables = [pa.table({"colour": pa.array([name, name]).dictionary_encode()}) for name in ("red", "green", "red")]

    def colours(given):
        return Counter(colour for table in given for colour in table["colour"].to_pylist())

    assert stream(iter(tables)).collect(colours) == {"red": 4, "green": 2}


def test_a_table_without_a_column_is_named():
    tables = [*parts((5, 5)), rows(10, 15).drop_columns(["x"])]
    with pytest.raises(EngineError, match=r"table 2 of the generator has no column 'x'"):
        met_in(iter(tables))


def test_a_table_of_another_type_is_named():
    odd = rows(10, 12).set_column(1, "x", pa.array(["half", "a few"]))
    with pytest.raises(EngineError, match=r"table 2 of the generator: column 'x' holds string"):
        met_in(iter([*parts((5, 5)), odd]))


def test_columns_in_another_order():
    assert met_in(iter([rows(0, 5), rows(5, 53).select(["colour", "x", "id"])])) == TOTAL


# ------------------------------------------------------------------ a sample, once and again


def test_a_sample_of_few_rows_is_all_of_them(tmp_path):
    write_rows(tmp_path / "a.parquet", parts())
    for source in (stream(tmp_path / "a.parquet"), stream(iter(parts())), stream(parts)):
        assert ids([source.sample(1000)]) == TOTAL
        assert source.collect(ids) == TOTAL, "what was sampled is among what is learned"


def test_a_sample_of_many_rows(tmp_path):
    write_rows(tmp_path / "a.parquet", [rows(0, 5000)])
    sampled = stream(tmp_path / "a.parquet").sample(100)
    assert 1 <= sampled.num_rows <= 100
    met = sampled["id"].to_pylist()
    assert min(met) < 500
    assert max(met) > 4500, "it is from all over"

    drawn = []
    source = stream(drawn.append(i) or rows(10 * i, 10 * i + 10) for i in range(1000))
    assert source.sample(25).num_rows == 25
    assert len(drawn) <= 4, "no more is drawn than is needed"
    assert source.collect(ids) == Counter(range(10_000))


def test_a_generator_is_gone_through_once():
    source = stream(iter(parts()))
    assert source.once
    assert source.collect(ids) == TOTAL
    with pytest.raises(DecibanError, match="only once"):
        source.collect(ids)
    with pytest.raises(DecibanError, match="only once"):
        list(source.apply(lambda table: table, source.schema))


def test_a_function_is_called_again():
    source = stream(lambda: iter(parts()))
    assert not source.once
    for _ in range(3):
        assert source.collect(ids) == TOTAL
    assert ids(source.apply(lambda table: table, source.schema)) == TOTAL
    assert ids([source.sample(1000)]) == TOTAL, "a sample can be had afterwards as well"


# ------------------------------------------------------------------ order, threads, progress


def test_answers_come_in_the_order_of_rows():
    tables = parts((100,) * 20)
    rng = random.Random(0)
    naps = [rng.uniform(0, 0.01) for _ in range(20)]

    def answer(table):
        time.sleep(naps[int(table["id"][0].as_py()) // 100])  # whoever starts later may be ready first
        return pa.table({"twice": [2 * i for i in table["id"].to_pylist()]})

    source = stream(lambda: tables, n_jobs=3)
    answers = pa.concat_tables(source.apply(answer, pa.schema([("twice", pa.int64())])))
    assert answers["twice"].to_pylist() == [2 * i for i in range(2000)]


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_any_number_of_threads(n_jobs):
    assert stream(parts, n_jobs=n_jobs).collect(ids) == TOTAL


def test_a_table_is_worked_on_while_the_next_is_read():
    """The reader reads table 2 before the work on table 1 is done; if it waited, the test would hang."""
    gate = threading.Event()

    def coming():
        yield rows(0, 5)
        yield rows(5, 10)
        gate.set()
        yield rows(10, 53)

    def work(tables):
        total = Counter()
        for table in tables:
            assert gate.wait(20), "nothing was read while this was at work"
            total += ids([table])
        return total

    assert stream(coming(), n_jobs=1).collect(work) == TOTAL


def test_large_tables_are_cut():
    """So that work can be shared, and a worker's memory is bounded."""

    def work(tables):
        return Counter(table.num_rows for table in tables)

    sizes = stream(iter([rows(0, 2 * TABLE_ROWS + 10)])).collect(work)
    assert max(sizes) <= TABLE_ROWS
    assert sum(size * times for size, times in sizes.items()) == 2 * TABLE_ROWS + 10


def test_progress(tmp_path):
    for number, table in enumerate(parts((500, 800, 20))):
        write_rows(tmp_path / f"{number}.csv", [table])
    source, progress = stream(tmp_path / "*.csv"), []
    source.collect(ids, progress.append)
    assert source.size == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert progress == sorted(progress)
    assert progress[-1] == source.size
    progress.clear()
    stream(iter(parts())).collect(ids, progress.append)
    assert progress[-1] == 53


def test_order_of_tables_changes_nothing():
    tables = parts((3, 1, 0, 30, 2, 17))
    for seed in range(3):
        random.Random(seed).shuffle(tables)
        assert met_in(iter(tables)) == TOTAL


# ------------------------------------------------------------------ what goes wrong


@dataclass
class Raises:
    """Work that fails at row 20."""

    error: Exception

    def __call__(self, tables):
        for table in tables:
            if 20 in table["id"].to_pylist():
                raise self.error
        return Counter()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SchemaError("odd row"), SchemaError),
        (DecibanError("odd row"), DecibanError),
        (ValueError("odd row"), EngineError),
        (ZeroDivisionError("odd row"), EngineError),
        (KeyError("odd row"), EngineError),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_an_error_at_work_names_the_table(tmp_path, error, kind):
    before = threading.active_count()
    with pytest.raises(kind, match=r"table 3 of the function: .*odd row") as caught:
        stream(parts).collect(Raises(error))
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    for number, table in enumerate(parts()):
        write_rows(tmp_path / f"{number}.parquet", [table])
    with pytest.raises(kind, match=r"3\.parquet, rows 7 to 46: .*odd row"):
        stream(tmp_path / "*.parquet").collect(Raises(error))

    def answer(table):
        Raises(error)(iter([table]))
        return table

    with pytest.raises(kind, match=r"3\.parquet, rows 7 to 46: .*odd row"):
        list(stream(tmp_path / "*.parquet").apply(answer, rows(0, 0).schema))
    assert_threads_end(before)


def test_an_error_of_the_generator_comes_through():
    def coming():
        yield from parts()
        raise OSError("the line is dead")

    before = threading.active_count()
    with pytest.raises(OSError, match="the line is dead"):
        met_in(coming())
    assert_threads_end(before)


def assert_threads_end(before):
    end = time.monotonic() + 60
    while threading.active_count() > before:
        assert time.monotonic() < end, [thread.name for thread in threading.enumerate()]
        time.sleep(0.01)


def labelled(start, stop):
    """Rows of two classes that a Gaussian can be learned from."""
    i = np.arange(start, stop)
    label = np.where(i % 3 == 0, "no", "yes")
    return pa.table({"a": np.sin(i) + (i % 3 == 0), "b": np.cos(2.0 * i), "label": label})


def write_parts(folder, sizes=(300, 200, 400, 100)):
    ends = np.cumsum(sizes)
    for number, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        write_rows(folder / f"part-{number}.parquet", [labelled(end - size, end)])


def break_parquet(path):
    """Bytes in the middle of the data are others; the footer, which is read first, is whole."""
    raw = bytearray(path.read_bytes())
    meta = pq.read_metadata(path).row_group(0).column(0)
    start = meta.dictionary_page_offset or meta.data_page_offset
    for at in range(start, start + 40):
        raw[at] ^= 0xA5
    path.write_bytes(bytes(raw))


@pytest.mark.parametrize("harm", ["data", "cut", "empty", "gone"])
def test_a_broken_file_in_the_middle(tmp_path, harm, monkeypatch):
    """The error names it, and the model is what it was."""
    monkeypatch.setattr("deciban.sources.open.MAX_KEPT_BYTES", 0)  # or small files would be read only once
    write_parts(tmp_path)
    pattern, bad = os.fspath(tmp_path / "*.parquet"), tmp_path / "part-2.parquet"
    model = GaussianNB().fit(pattern, "label")
    fresh = NaiveBayes()
    before = model.model_
    source = stream(pattern) if harm == "gone" else None  # opened while all was well
    if harm == "data":
        break_parquet(bad)
    elif harm == "cut":
        bad.write_bytes(bad.read_bytes()[: bad.stat().st_size // 2])
    elif harm == "empty":
        bad.write_bytes(b"")
    else:
        bad.unlink()
    for learn in (model.fit, model.partial_fit, fresh.fit):
        with pytest.raises(DecibanError, match=r"part-2\.parquet") as caught:
            learn(source if source is not None else pattern, "label")
        assert "\n" not in str(caught.value)
    assert model.model_ is before
    assert not hasattr(fresh, "model_")
    assert not hasattr(fresh, "classes_")


# ------------------------------------------------------------------ checkpoints


class KilledError(BaseException):  # which nothing that goes on is to catch
    """As if the process were killed."""


@dataclass
class Kept:
    """Work that keeps its sums in a file, slowly enough for that to happen, and dies at some row."""

    dies_at: int = -1
    met: list[int] = field(default_factory=list)

    def __call__(self, tables):
        total = Counter()
        for table in tables:
            self.met += table["id"].to_pylist()
            if self.dies_at in table["id"].to_pylist():
                raise KilledError
            total += ids([table]) or Counter()
        return total or None

    def keep(self, path, total, note):
        Path(path).write_text(json.dumps([sorted(total.elements()), note]))

    def kept(self, path):
        total, note = json.loads(Path(path).read_text())
        return Counter(total), note


def write_ids(folder, files=6, each=10):
    for number in range(files):
        write_rows(folder / f"part-{number}.parquet", [rows(number * each, (number + 1) * each)])
    return os.fspath(folder / "part-*.parquet"), Counter(range(files * each))


@pytest.mark.parametrize("dies_at", [0, 15, 29, 30, 59])
def test_a_checkpoint_is_gone_on_from(tmp_path, dies_at):
    """Wherever it stopped, every row counts once in the end."""
    pattern, total = write_ids(tmp_path)
    place = tmp_path / "so far"
    with pytest.raises(KilledError):
        stream(pattern, checkpoint=place, every=0.0).collect(Kept(dies_at))
    kept = json.loads(place.read_text()) if place.exists() else [[], {"rows": 0}]
    assert kept[0] == list(range(kept[1]["rows"])), "the file has the first rows, and says how many"
    assert (len(kept[0]) > 0) == (dies_at >= 15)
    rest = Kept()
    assert stream(pattern, checkpoint=place, every=0.0).collect(rest) == total
    assert sorted(rest.met) == list(range(kept[1]["rows"], 60)), "only the others are gone through"
    assert not place.exists(), "it is not needed any more"


def test_a_checkpoint_in_the_middle_of_a_table(tmp_path):
    """Files may be read in other pieces the next time: rows are counted, not tables."""
    pattern, total = write_ids(tmp_path)
    place = tmp_path / "so far"
    source = stream(pattern, checkpoint=place)
    Kept().keep(place, Counter(range(23)), {"rows": 23, "files": source.tables.marks()})
    assert source.collect(Kept()) == total


def test_a_checkpoint_of_other_files(tmp_path):
    pattern, _ = write_ids(tmp_path)
    place = tmp_path / "so far"
    with pytest.raises(KilledError):
        stream(pattern, checkpoint=place, every=0.0).collect(Kept(45))
    before = place.read_text()
    with pytest.raises(DecibanError, match="other files"):
        stream(tmp_path / "part-1.parquet", checkpoint=place).collect(Kept())
    write_rows(tmp_path / "part-1.parquet", [rows(0, 12)])
    with pytest.raises(DecibanError, match="changed"):
        stream(pattern, checkpoint=place).collect(Kept())
    assert place.read_text() == before


def test_a_checkpoint_needs_files():
    with pytest.raises(DecibanError, match="checkpoint="):
        stream(iter(parts()), checkpoint="so far")


LEARN = """
import sys
from deciban import GaussianNB
from deciban.engines.stream import stream
pattern, place, out = sys.argv[1:]
GaussianNB().fit(stream(pattern, checkpoint=place, every=0.0, n_jobs=2), "label").save(out)
"""


def start_learning(pattern, place, out):
    return subprocess.Popen([sys.executable, "-c", LEARN, pattern, place, out], stderr=subprocess.PIPE, text=True)


@pytest.mark.slow  # within a process: test_parity.py, test_a_checkpoint_of_every_model
def test_killed_and_started_again(tmp_path):
    """Learning is killed after its first checkpoint, and resumes from there: every row counts once."""
    write_parts(tmp_path, (500,) * 100)
    pattern = os.fspath(tmp_path / "part-*.parquet")
    place, out = tmp_path / "so far", tmp_path / "model"
    learner, end = start_learning(pattern, place, out), time.monotonic() + 100
    while learner.poll() is None and not place.exists():
        assert time.monotonic() < end
        time.sleep(0.001)
    learner.send_signal(signal.SIGKILL)
    _, complaint = learner.communicate()
    assert learner.returncode == -signal.SIGKILL, complaint
    kept = deciban.load(place).class_count_.sum()  # what is in the file is whole
    assert 0 < kept < 50_000
    assert not out.exists()
    again = start_learning(pattern, place, out)
    _, complaint = again.communicate(timeout=100)
    assert again.returncode == 0, complaint
    assert not place.exists()
    whole = pa.concat_tables(pq.read_table(path) for path in sorted(tmp_path.glob("part-*.parquet")))
    direct = GaussianNB().fit(whole.select(["a", "b"]).to_pandas(), whole["label"].to_numpy(zero_copy_only=False))
    learned = deciban.load(out)
    np.testing.assert_array_equal(learned.class_count_, direct.class_count_)
    assert learned.model_.stats.same_as(direct.model_.stats)


def test_a_damaged_checkpoint(tmp_path):
    write_parts(tmp_path)
    place = tmp_path / "so far"
    place.write_bytes(b"not a model")
    model = GaussianNB()
    with pytest.raises(DecibanError, match="so far"):
        model.fit(stream(tmp_path / "*.parquet", checkpoint=place), "label")
    assert place.read_bytes() == b"not a model"
    assert not hasattr(model, "model_")


# ------------------------------------------------------------------ memory

PEAK = """
import sys
import numpy as np, pyarrow as pa
from deciban import GaussianNB
from deciban.engines.stream import stream
GaussianNB().fit(np.arange(8.0).reshape(4, 2), [0, 0, 1, 1])
def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) / 1024
def tables(size):
    rng = np.random.default_rng(0)
    for _ in range(size):
        X = rng.normal(size=(20, 50_000))
        yield pa.table({**{f"x{j}": x for j, x in enumerate(X)}, "label": X[0] > 0})
for what in sys.argv[1:]:
    kind, size = what.split(":")
    size = int(size)
    source = {"function": lambda: stream(lambda: tables(size)), "generator": lambda: stream(tables(size))}
    model = GaussianNB().fit(source.get(kind, lambda: stream(kind))(), "label")
    print(int(model.class_count_.sum()), peak())
"""


def peaks(*what):
    """How many rows were learned of each in turn, in a process of its own, and the MB at most until then."""
    done = subprocess.run([sys.executable, "-c", PEAK, *what], capture_output=True, text=True, check=True)
    return [(int(learned), float(most)) for learned, most in map(str.split, done.stdout.splitlines())]


@pytest.mark.slow
@pytest.mark.skipif(not LINUX, reason="the peak is read from /proc")
@pytest.mark.parametrize("what", ["generator", pytest.param("function", marks=pytest.mark.slow)])
def test_memory_is_flat(what):
    """A table is 8 MB; some wait, some are worked on, some rows are the sample."""
    (few, less), (many, more) = peaks(f"{what}:6", f"{what}:22")
    assert (few, many) == (6 * 50_000, 22 * 50_000)
    assert more < less + 60, (less, more)  # sixteen tables more are 128 MB


@pytest.mark.slow
@pytest.mark.skipif(not LINUX, reason="the peak is read from /proc")
def test_memory_is_flat_for_files(tmp_path):
    def write(path, tables):
        rng = np.random.default_rng(0)
        columns = ({f"x{j}": rng.normal(size=50_000) for j in range(20)} for _ in range(tables))
        write_rows(path, (pa.table({**X, "label": X["x0"] > 0}) for X in columns))

    write(tmp_path / "small.parquet", 6)
    write(tmp_path / "large.parquet", 36)
    (few, less), (many, more) = peaks(f"{tmp_path}/small.parquet:0", f"{tmp_path}/large.parquet:0")
    assert (few, many) == (6 * 50_000, 36 * 50_000)
    assert more < less + 60, (less, more)
