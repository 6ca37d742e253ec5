"""Dask under faults: the sum is still right, or the error names the place, and nothing is half done."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from deciban.engines.dask.engine import Dask, from_paths
from deciban.errors import DecibanError, EngineError, SchemaError

pd = pytest.importorskip("pandas", reason="pandas is not installed: pip install 'deciban[dask]'")
dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'deciban[dask]'")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.engine("dask")

PARTITIONS, ROWS = 12, 10


@dataclass(frozen=True)
class Count:
    """How often each row occurred; one partition fails, and a file records each partition that is begun."""

    folder: str
    trap: int | None = None
    harm: str = ""
    times: int = 1  # that the trap is sprung

    def __call__(self, tables):
        rows = [row for table in tables for row in table["row"].to_pylist()]
        number = rows[0] // ROWS
        Path(self.folder, f"{number}-{uuid4().hex}").touch()
        if number == self.trap and begun(self.folder)[number] <= self.times:
            self.spring()
        return Counter(rows)

    def spring(self):
        if self.harm == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.harm == "refuse":
            raise SchemaError("these rows do not fit")
        raise ZeroDivisionError("one\ntwo")


def begun(folder):
    """How often each partition was begun."""
    return Counter(int(path.name.partition("-")[0]) for path in Path(folder).iterdir())


def rows():
    frame = pd.DataFrame({"row": np.arange(PARTITIONS * ROWS)})
    return dd.from_pandas(frame, npartitions=PARTITIONS)


EACH_ONCE = Counter(range(PARTITIONS * ROWS))


@pytest.fixture(params=["synchronous", "threads", "cluster"])
def scheduler(request):
    if request.param == "cluster":
        request.getfixturevalue("dask_client")
        yield request.param
    else:
        with dask.config.set(scheduler=request.param):
            yield request.param


def nothing_held(client):
    """Whether the cluster keeps no results for us, which it learns in a thread of the client."""
    end = time.monotonic() + 60
    while client.futures and time.monotonic() < end:
        time.sleep(0.01)
    return not client.futures


def test_a_worker_killed_while_it_works(dask_client, tmp_path):
    before = set(dask_client.run(os.getpid).values())
    progress = []
    total = Dask(rows()).collect(Count(str(tmp_path), 6, "kill"), progress.append)
    assert total == EACH_ONCE
    assert begun(tmp_path)[6] >= 2  # it was begun, its worker died of it, and it was begun again
    assert set(begun(tmp_path)) == set(range(PARTITIONS))
    dask_client.wait_for_workers(2)
    assert set(dask_client.run(os.getpid).values()) != before
    assert progress == list(range(1, PARTITIONS + 1))
    assert nothing_held(dask_client)


def test_a_worker_killed_with_the_sums_it_holds(dask_client, tmp_path):
    """Sums that a lost worker had finished, but not sent yet, are computed again: once."""
    victims = []

    def kill_one(done):
        if done == PARTITIONS // 2 and not victims:
            victims.append(next(iter(dask_client.run(os.getpid).values())))
            os.kill(victims[0], signal.SIGKILL)

    assert Dask(rows()).collect(Count(str(tmp_path)), kill_one) == EACH_ONCE
    assert victims
    dask_client.wait_for_workers(2)
    assert victims[0] not in dask_client.run(os.getpid).values()


def test_a_partition_that_kills_every_worker(dask_client, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_client.cluster.scheduler, "allowed_failures", 0)  # rather than three workers more
    # Dask cannot tell it from those that were waiting for the same worker.
    with pytest.raises(EngineError, match=r"^partition \d+ .*died.*nothing was learned.*smaller partitions"):
        Dask(rows()).collect(Count(str(tmp_path), 4, "kill", times=99))
    assert begun(tmp_path)[4] >= 1
    dask_client.wait_for_workers(2)
    monkeypatch.undo()
    assert Dask(rows()).collect(Count(str(tmp_path))) == EACH_ONCE


def test_work_that_raises_says_where(scheduler, tmp_path, request):
    engine, work = Dask(rows()), Count(str(tmp_path), 7, "raise", times=99)
    with pytest.raises(EngineError, match=r"^partition 7 \(counted from 0\) .*: ZeroDivisionError: one two$"):
        engine.collect(work)
    with pytest.raises(SchemaError, match=r"^partition 7 .*: these rows do not fit$"):
        engine.collect(replace(work, harm="refuse"))
    assert engine.collect(replace(work, trap=None)) == EACH_ONCE  # and nothing is left of it
    if scheduler == "cluster":
        assert nothing_held(request.getfixturevalue("dask_client"))


def test_dask_tries_again_if_it_is_told_to(dask_client, tmp_path):
    del dask_client
    engine = Dask(rows())
    engine.sample(1)  # so that Dask has planned how to make the rows, about which it warns that it tries only once
    with dask.annotate(retries=2):
        assert engine.collect(Count(str(tmp_path), 3, "raise", times=2)) == EACH_ONCE
    assert begun(tmp_path)[3] == 3
    assert begun(tmp_path).total() == PARTITIONS + 2


def test_rows_that_cannot_be_computed_say_where(scheduler):
    del scheduler
    broken = rows().map_partitions(break_at, 50, meta={"row": "int64"})
    for ask in (lambda: Dask(broken).collect(count_rows), lambda: Dask(broken).sample(100)):
        with pytest.raises(EngineError, match=r"^partition 5 .* cannot be computed: KeyError: 'fifty'$"):
            ask()


def break_at(frame, row):
    if (frame["row"] == row).any():
        raise KeyError("fifty")
    return frame


def count_rows(tables):
    return sum(table.num_rows for table in tables)


@pytest.fixture
def files(tmp_path):
    """Parquet files whose order by number is not that of their names; the third is damaged."""
    rng = np.random.default_rng(0)
    for i in range(11):
        frame = pd.DataFrame({"x": rng.normal(size=200), "y": rng.choice(["a", "b"], 200)})
        frame.to_parquet(tmp_path / f"part{i}.parquet", index=False)
    return tmp_path


@pytest.mark.parametrize("damage", ["cut", "garbled", "empty"])
def test_a_damaged_file_is_named(scheduler, files, damage):
    del scheduler
    engine, again = from_paths([str(files / "*.parquet")]), from_paths([str(files / "*.parquet")])
    assert engine.collect(count_rows) == 2200
    whole = (files / "part2.parquet").read_bytes()
    harmed = {"cut": whole[: len(whole) // 2], "garbled": whole[:4] + b"\xff" * 200 + whole[204:], "empty": b""}
    (files / "part2.parquet").write_bytes(harmed[damage])
    with pytest.raises(EngineError, match=r"^partition 2 .*part2\.parquet\) cannot be computed"):
        again.collect(count_rows)
    (files / "part2.parquet").write_bytes(whole)
    assert mended(again) == 2200


def mended(engine):
    """A failed task is forgotten a moment after it is no longer needed; until then it fails again at once."""
    for _ in range(50):
        try:
            return engine.collect(count_rows)
        except EngineError:
            time.sleep(0.1)
    return engine.collect(count_rows)


def test_an_estimator_is_as_it_was(files, dask_client):
    del dask_client
    from deciban import GaussianNB  # here, since workers import this file and have no use for it

    model = GaussianNB().fit(np.array([[0.0], [1.0], [2.0], [4.0]]), ["a", "a", "b", "b"])
    before = model.predict_proba([[0.5]])
    (files / "part2.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DecibanError, match=r"part2\.parquet"):
        model.fit(str(files / "*.parquet"), "y", engine="dask")
    assert np.array_equal(model.predict_proba([[0.5]]), before)
    assert model.class_count_.tolist() == [2.0, 2.0]


def test_a_cluster_that_goes_away(dask_client, tmp_path):
    distributed = pytest.importorskip("distributed")
    how = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with (
        distributed.LocalCluster(**how) as cluster,
        distributed.Client(cluster, timeout=5) as client,
        client.as_current(),
        pytest.raises(EngineError, match=r"scheduler cannot be reached.*nothing was learned"),
    ):
        Dask(rows()).collect(Count(str(tmp_path)), lambda done: client.close() if done == 2 else None)
    with dask_client.as_current():
        assert Dask(rows()).collect(Count(str(tmp_path))) == EACH_ONCE
