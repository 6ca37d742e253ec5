"""Spark under faults: executors die, work fails, files are broken. Sums are exact, or there is none."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deciban.engines.spark import engine
from deciban.errors import EngineError, SchemaError

pytestmark = pytest.mark.engine("spark")

PATIENCE = 60.0  # seconds until something that is waited for will not come any more


def begun(folder):
    """How often each partition was begun, by the number that it was given."""
    return Counter(number(path.name) for path in Path(folder).glob("*-*"))


def number(note):
    return int(note.partition("-")[0])


@dataclass(frozen=True)
class Noted:
    """Work that counts ids, and records its process when it begins."""

    folder: str

    def __call__(self, tables):
        part = engine.partition_number()
        note = Path(self.folder) / f"{part}-{uuid.uuid4().hex}"
        written = note.with_name(f"being written {uuid.uuid4().hex}")
        written.write_text(str(executor()))
        written.rename(note)
        counts = Counter(i for table in tables for i in table["id"].to_pylist())
        self.then(part)
        return counts or None

    def then(self, part):
        pass


def executor():
    """The process of the executor that this worker is of: the parent of the daemon that forked it."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


@dataclass(frozen=True)
class Killed(Noted):
    """From its fifth partition on, it waits until somebody has been killed."""

    def then(self, part):
        until = time.monotonic() + PATIENCE
        while part >= 4 and not (Path(self.folder) / "killed").exists():
            assert time.monotonic() < until, "nobody was killed"
            time.sleep(0.02)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="executors are found by Linux's /proc")
def test_an_executor_that_is_killed_does_not_change_the_sum(spark, tmp_path):
    """It had finished some partitions, whose sums are lost with it, and was at work on another."""
    victims = []

    def kill():
        until = time.monotonic() + PATIENCE
        while not victims and time.monotonic() < until:
            time.sleep(0.02)
            at = {path.name: path.read_text() for path in tmp_path.glob("*-*")}
            finished = {pid for name, pid in at.items() if number(name) < 4}
            victims.extend(
                (number(name), int(pid)) for name, pid in at.items() if number(name) >= 4 and pid in finished
            )
        os.kill(victims[0][1], signal.SIGKILL)
        (tmp_path / "killed").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        total = engine.Spark(spark.range(0, 200, 1, 20)).collect(Killed(str(tmp_path)))
    finally:
        killer.join()
    assert total == Counter(range(200))  # each exactly once
    times = begun(tmp_path)
    assert times[victims[0][0]] > 1  # what it was at work on
    assert sum(times[part] for part in range(4)) > 4  # what it had finished


@dataclass(frozen=True)
class Flaky(Noted):
    """The first attempt at each partition fails, with all rows added up already."""

    def then(self, part):
        if begun(self.folder)[part] == 1:
            raise OSError("the first time it never works")


def test_what_failed_once_counts_once(spark, tmp_path):
    total = engine.Spark(spark.range(0, 30, 1, 3)).collect(Flaky(str(tmp_path)))
    assert total == Counter(range(30))
    assert begun(tmp_path) == {0: 2, 1: 2, 2: 2}


@dataclass(frozen=True)
class Failing(Noted):
    """Partition 1 always fails, with this error."""

    error: Exception

    def then(self, part):
        if part == 1:
            raise self.error


def test_work_that_always_fails_is_told_in_a_line_with_its_partition(spark, tmp_path):
    source = engine.Spark(spark.range(0, 30, 1, 3))
    with pytest.raises(EngineError) as caught:
        source.collect(Failing(str(tmp_path), OSError("the disk\nis gone")))
    assert str(caught.value) == "partition 1 of the Spark DataFrame: OSError: the disk␊is gone"
    assert begun(tmp_path)[1] > 1  # Spark tried again
    assert source.collect(Noted(str(tmp_path))) == Counter(range(30))  # and nothing is left of it


def test_errors_of_ours_come_as_they_are_and_are_not_tried_again(spark, tmp_path):
    with pytest.raises(SchemaError, match=r"^partition 1 of the Spark DataFrame: no such column$"):
        engine.Spark(spark.range(0, 30, 1, 3)).collect(Failing(str(tmp_path), SchemaError("no such column")))
    assert begun(tmp_path)[1] == 1


class Picky:
    def __call__(self, tables):
        raise SchemaError(f"{next(tables).num_rows:,} rows are enough")


def test_errors_do_not_wait_for_the_end_of_a_partition(spark):
    """To read on would take days."""
    stop = threading.Timer(120, spark.sparkContext.cancelAllJobs)
    stop.start()
    try:
        with pytest.raises(SchemaError, match="rows are enough"):
            engine.Spark(spark.range(0, 10**14, 1, 1)).collect(Picky())
    finally:
        stop.cancel()


@dataclass(frozen=True)
class Loner:
    """A sum that does not add up."""

    value: int

    def __add__(self, other):
        raise SchemaError("these two have nothing in common")


class Alone:
    def __call__(self, tables):
        return Loner(sum(table.num_rows for table in tables))


def test_sums_that_do_not_add_up_are_an_error_of_theirs(spark):
    with pytest.raises(
        SchemaError, match="partitions 0 to 15 of the Spark DataFrame: these two have nothing in common"
    ):
        engine.Spark(spark.range(0, 17, 1, 17)).collect(Alone())


@pytest.mark.parametrize("where", ["its middle", "its end"])
def test_a_broken_file_is_named(spark, tmp_path, where):
    del spark  # it is the active session
    for i in range(5):
        pq.write_table(pa.table({"id": range(i, 1_000)}), tmp_path / f"{i}.parquet", compression="none")
    broken = bytearray((tmp_path / "2.parquet").read_bytes())
    if where == "its end":
        broken[-8:] = b"\xff" * 8
    else:
        broken[4:2_000] = b"\xff" * 1_996  # the rows; what is said of them at the end is whole
    (tmp_path / "2.parquet").write_bytes(broken)
    with pytest.raises(EngineError) as caught:
        engine.from_paths([f"{tmp_path}/*.parquet"]).collect(Noted(str(tmp_path)))
    assert f"{tmp_path}/2.parquet" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\tat " not in str(caught.value)
