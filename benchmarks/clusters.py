"""Dask and Spark on one and two workers, compared with one process and with Spark MLlib's own naive Bayes.

A table of 9 numbers and a label is generated as Parquet files into a temporary folder. Every engine then learns a
Gaussian naive Bayes from the files: a stream in one process with one and two threads, Dask on clusters of one and two
processes of one thread each, Spark on one and two executors of one core each (`local-cluster[n,1,2048]`), and there
MLlib's `NaiveBayes(modelType="gaussian")` too, with the vectors and label numbers that it needs. Each cluster is
warmed up by a fit on the first file; the seconds are the least of several fits. All must learn the same means and
variances, or the benchmark fails. Workers share the machine's cores with what they talk to.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import deciban

OUT = Path(__file__).parent / "results"
NAMES = [f"x{i}" for i in range(9)]
LABELS = np.array(["maybe", "no", "yes"])


def generate(folder: Path, rows: int, files: int) -> list[str]:
    rng, paths = np.random.default_rng(0), []
    for i in range(files):
        n = rows * (i + 1) // files - rows * i // files
        y = rng.integers(0, 3, n)
        table = {name: np.round(rng.normal(0.1 * j * y, 1.0 + j), 4) for j, name in enumerate(NAMES)}
        paths.append(str(folder / f"part{i:03}.parquet"))
        pq.write_table(pa.table(table | {"label": LABELS[y]}), paths[-1])
    return paths


def timed(fit: Callable[[], Any], times: int) -> tuple[float, Any]:
    model, best = None, float("inf")
    for _ in range(times):
        start = time.perf_counter()
        model = fit()
        best = min(best, time.perf_counter() - start)
    return best, model


def means_and_variances(model: Any) -> np.ndarray:
    """Means and variances, (2, k, d)."""
    return np.stack([model.theta_, model.var_])


def local(paths: list[str], times: int, report: Callable[..., None]) -> None:
    for threads in (1, 2):
        seconds, model = timed(
            lambda: deciban.GaussianNB(var_smoothing=0.0).fit(deciban.stream(paths, n_jobs=threads), "label"), times
        )
        report("stream", f"{threads} thread{'s' * (threads > 1)}", seconds, means_and_variances(model))


def dask(paths: list[str], times: int, report: Callable[..., None]) -> None:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    for workers in (1, 2):
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster,
            Client(cluster),
        ):

            def fit(some: list[str]) -> Any:
                return deciban.GaussianNB(var_smoothing=0.0).fit(dd.read_parquet(some), "label")

            fit(paths[:workers])
            seconds, model = timed(lambda: fit(paths), times)
            report("Dask", f"{workers} process{'es' * (workers > 1)}", seconds, means_and_variances(model))


def spark(paths: list[str], times: int, report: Callable[..., None]) -> None:
    for workers in (1, 2):  # each in its own process: a JVM can start only one such cluster
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            for run in process.submit(on_spark, workers, paths, times).result():
                report(*run)


def on_spark(workers: int, paths: list[str], times: int) -> list[tuple[str, str, float, np.ndarray]]:
    from pyspark.ml.classification import NaiveBayes
    from pyspark.ml.feature import StringIndexer, VectorAssembler
    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local-cluster[{workers},1,2048]")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "2g")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )

    def fit(some: list[str]) -> Any:
        return deciban.GaussianNB(var_smoothing=0.0).fit(session.read.parquet(*some), "label")

    def peer(some: list[str]) -> Any:
        rows = session.read.parquet(*some)
        numbers = StringIndexer(inputCol="label", outputCol="y", stringOrderType="alphabetAsc").fit(rows)
        vectors = VectorAssembler(inputCols=NAMES, outputCol="x").transform(numbers.transform(rows))
        return NaiveBayes(modelType="gaussian", featuresCol="x", labelCol="y").fit(vectors)

    fit(paths[:workers])
    ours, model = timed(lambda: fit(paths), times)
    peer(paths[:workers])
    theirs, other = timed(lambda: peer(paths), times)
    named = f"{workers} executor{'s' * (workers > 1)}"
    their_law = np.stack([other.theta.toArray(), other.sigma.toArray()])
    session.stop()
    return [("Spark", named, ours, means_and_variances(model)), ("Spark MLlib", named, theirs, their_law)]


def bytes_per_partition() -> list[str]:
    """What a partition sends, by model: the size of the pickled sums."""
    import csv
    import pickle
    from importlib import resources

    from streaming import chunks

    table = next(chunks(20_000))
    with resources.files("deciban").joinpath("demo/messages.csv").open() as file:
        messages = list(csv.DictReader(line for line in file if not line.startswith("#")))
    texts, labels = [row["message"] for row in messages], [row["label"] for row in messages]
    numbers = table.select([f"x{i}" for i in range(5)])
    models = {
        "GaussianNB, 5 numbers, 3 classes": deciban.GaussianNB().fit(numbers, table["label"]),
        "GaussianDiscriminant, 5 numbers, 3 classes": deciban.GaussianDiscriminant().fit(numbers, table["label"]),
        "NaiveBayes, 6 numbers, 234 categories, 3 classes": deciban.NaiveBayes().fit(table, "label"),
        "Classifier, the same table": deciban.Classifier().fit(table, "label").empty().partial_fit(table, "label"),
        f"TextClassifier, {len(texts)} messages": deciban.TextClassifier()
        .fit(texts, labels)
        .empty()
        .partial_fit(texts, labels),
        "the same with n_features=2**20": deciban.TextClassifier(n_features=2**20)
        .fit(texts, labels)
        .empty()
        .partial_fit(texts, labels),
    }
    lines = ["", "What a partition sends, whatever the number of its rows:", "", "| model | bytes |", "|---|---:|"]
    return lines + [f"| {what} | {len(pickle.dumps(model)):,} |" for what, model in models.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000, help="of the generated table (default 8,000,000)")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--times", type=int, default=3, help="fits, of which the quickest counts")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("deciban", "dask", "pyspark"))
    lines = [
        "# Clusters",
        "",
        f"{versions}, {cores} cores; written by",
        f"`python benchmarks/clusters.py --rows {arguments.rows} --files {arguments.files}`. A Gaussian naive Bayes of "
        "9 columns and 3 classes",
        "from Parquet files. *Apart*: the largest relative difference of a variance, or of a mean in standard",
        "deviations, from the first line's. Workers share the cores with the client, the scheduler and the driver.",
        "",
        "| engine | workers | seconds | rows/s | largest difference |",
        "|---|---|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    first: list[np.ndarray] = []

    def report(engine: str, workers: str, seconds: float, law_learned: np.ndarray) -> None:
        first.append(law_learned)
        (mean, var), (m, v) = first[0], law_learned
        difference = max(np.max(np.abs(m - mean) / np.sqrt(var)), np.max(np.abs(v - var) / var))
        if difference > 1e-6:
            raise SystemExit(f"{engine} on {workers} learned something else: a difference of {difference:.2g}")
        lines.append(f"| {engine} | {workers} | {seconds:.2f} | {arguments.rows / seconds:,.0f} | {difference:.0e} |")
        print(lines[-1], flush=True)

    with tempfile.TemporaryDirectory() as folder:
        paths = generate(Path(folder), arguments.rows, arguments.files)
        for engine in (local, dask, spark):
            engine(paths, arguments.times, report)
    more = bytes_per_partition()
    print("\n".join(more))
    lines += more
    OUT.mkdir(exist_ok=True)
    path = OUT / "clusters.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"\ntable written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    main()
