"""Where rows can be: a PostgreSQL server, a Dask cluster and a Spark cluster, each started once, if a test asks for it.

`--engines=stream,duckdb` leaves the others out. A test says which engine it is about by `@pytest.mark.engine("stream")`
or by asking for one of the servers here. Each process that tests run in starts its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from postgres_server import postgres  # noqa: F401 - a fixture

HERE = Path(__file__).parent
ENGINES = ("stream", "duckdb", "sqlite", "postgresql", "dask", "spark")
SERVERS = {"postgres": "postgresql", "dask_client": "dask", "spark": "spark"}  # fixture → engine


def pytest_configure(config):
    config.addinivalue_line("markers", "one_of_a_cluster: the one test of a cluster that a quick run starts it for")
    unknown = sorted(asked_for(config) - set(ENGINES))
    if unknown:
        raise pytest.UsageError(f"--engines: there is no engine {unknown[0]!r}, only {', '.join(ENGINES)}")


CLUSTERS = {
    "dask_client",
    "dask",
    "cluster",
    "spark",
}  # fixtures, and values of `engine` and `scheduler`, that start one


@pytest.hookimpl(tryfirst=True)  # before those that are slow are left out
def pytest_collection_modifyitems(config, items):
    """Skip the engines not selected; tests that start a cluster are slow, unless marked `one_of_a_cluster`."""
    selected = asked_for(config)
    for item in items:
        if HERE not in item.path.parents:
            continue
        given = getattr(item, "callspec", None)
        values = {given.params.get("engine"), given.params.get("scheduler")} if given else set()
        if CLUSTERS & (values | set(getattr(item, "fixturenames", ()))) and not item.get_closest_marker(
            "one_of_a_cluster"
        ):
            item.add_marker(pytest.mark.slow)
        servers = {SERVERS[name] for name in SERVERS.keys() & set(getattr(item, "fixturenames", ()))}
        named = {name for mark in item.iter_markers("engine") for name in mark.args}
        missing = sorted((servers | named) - selected)
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"--engines leaves {missing[0]} out"))


def asked_for(config):
    given = config.getoption("engines")
    return set(ENGINES) if given == "all" else {name.strip() for name in given.split(",") if name.strip()}


@pytest.fixture(scope="session")
def importable_elsewhere(pytestconfig):
    """Let processes that we start import tests and their imports by the names used here."""
    given = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    folders = [str(pytestconfig.rootpath), str(HERE.parent), *map(os.path.abspath, given)]
    before = list(sys.path)
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    yield folders
    sys.path[:] = before


@pytest.fixture(scope="session")
def dask_client(importable_elsewhere):
    """A client of a Dask cluster of two processes, which Dask uses from then on by default."""
    del importable_elsewhere  # its workers are spawned, and given the path
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'deciban[dask]'")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # None would still serve pages, on a port that somebody else may have
            worker_dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


# Without an appender Spark believes that nothing was set, and speaks.
QUIET = """
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
appender.none.type = Null
appender.none.name = none
"""


@pytest.fixture(scope="session")
def spark(importable_elsewhere, thorough, tmp_path_factory):
    """A Spark session on a cluster of two executors, each a process of its own with one core.

    In a quick run it is one of two threads: the Pythons that work are processes of their own all the same.
    """
    pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'deciban[spark]'")
    if java_version() < 17:
        pytest.skip("Spark needs Java 17 or later: apt-get install openjdk-17-jre-headless")
    folder = tmp_path_factory.mktemp("spark")
    (folder / "log4j2.properties").write_text(QUIET)
    # One thread to collect garbage and the quick compiler alone: such short jobs never earn back what the others cost.
    java = f"-Dlog4j.configurationFile={folder / 'log4j2.properties'} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.default.parallelism": "2",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(importable_elsewhere),
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_LOCAL_DIRS", str(folder / "local"))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        master = "local-cluster[2,1,1024]" if thorough else "local[2]"
        builder = pyspark.sql.SparkSession.builder.master(master).appName("deciban tests")
        session = builder.config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        work = Path(pyspark.__file__).parent / "work" / session.sparkContext.applicationId
        yield session
        session.stop()
    shutil.rmtree(work, ignore_errors=True)  # where a worker of such a cluster keeps what its executors say


def java_version():
    """The major version of Java; 0 where there is none."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin" if home else None)
    if program is None:
        return 0
    output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(version[1]) if version else 0
