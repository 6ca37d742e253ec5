"""Rows that no memory holds: 50 million of 10 columns from Parquet, beside DuckDB's own aggregate of the same file.

A Parquet file of 10 columns (5 numbers, 3 categories, 1 count, 1 label) is generated into a temporary folder in flat
memory, and one of a tenth of the rows. Each is then read in processes of their own: by DuckDB (n, Σx and Σx² of every
number by class: what a Gaussian naive Bayes learns; the same with the counts of all categories, in one statement; and a
plain scan), and by deciban, through its stream and through DuckDB's push-down. LightGBM's defaults learn the smaller
file, which fits into memory, if installed (`pip install deciban[peers]`). The peak of the memory in use is what the
system says of the process when it has ended, all libraries included.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from streaming import OUT, SCAN, chunks, run

import deciban

DUCKDB = """
import sys, duckdb
path, sets = sys.argv[1], sys.argv[2]
names = [f"x{i}" for i in range(5)] + ["visits"]
sums = ", ".join(f"sum({n}), sum(({n}) * ({n}))" for n in names)
more = ", colour, city, shop" if sets else ""
groups = "GROUPING SETS ((label), (label, colour), (label, city), (label, shop))" if sets else "label"
duckdb.sql(f"SELECT label{more}, count(*), {sums} FROM '{path}' GROUP BY {groups}").fetchall()
"""
LEARN = """
import sys, deciban
path, model, engine = sys.argv[1:]
made = getattr(deciban, model)().fit(path, "label", engine=engine)
assert made.class_count_.sum() > 0
"""
BOOST = """
import sys, lightgbm, pandas
X = pandas.read_parquet(sys.argv[1])
X = X.astype({name: "category" for name in X.select_dtypes(exclude="number")})
lightgbm.LGBMClassifier(verbose=-1).fit(X.drop(columns="label"), X["label"])
"""


def tasks(path: Path) -> dict[str, list[str]]:
    """What is measured, as commands."""
    python = [sys.executable, "-c"]
    return {
        "DuckDB, sums and counts of all columns": [*python, SCAN, str(path)],
        "DuckDB, n, Σx, Σx² of numbers by class": [*python, DUCKDB, str(path), ""],
        "DuckDB, the same and counts of categories": [*python, DUCKDB, str(path), "sets"],
        '`NaiveBayes().fit(path, "label")`': [*python, LEARN, str(path), "NaiveBayes", "stream"],
        '`NaiveBayes().fit(path, "label", engine="duckdb")`': [*python, LEARN, str(path), "NaiveBayes", "duckdb"],
        '`Classifier().fit(path, "label")`': [*python, LEARN, str(path), "Classifier", "stream"],
    }


def generate(path: Path, rows: int) -> None:
    with pq.ParquetWriter(path, next(chunks(1)).schema) as parquet:
        for table in chunks(rows):
            parquet.write_table(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000_000, help="of the larger table (default 50,000,000)")
    parser.add_argument("--folder", help="where the files are generated; by default a temporary folder")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    lines = [
        "# Rows that no memory holds",
        "",
        f"deciban {deciban.__version__}, DuckDB {duckdb.__version__}, Arrow {pa.__version__}, {cores} cores;",
        f"written by `python benchmarks/scale.py --rows {arguments.rows}`. Tables of 10 columns in Parquet.",
        "*Seconds* are from the start of a process to its end, *of all threads* what its threads were busy.",
        "*Aggregates*: its seconds in those of DuckDB's sums by class of the same file.",
        "",
        "| rows | MB | what | seconds | of all threads | rows/s | aggregates | peak, MB |",
        "|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for rows in (arguments.rows // 10, arguments.rows):
            path = Path(folder, "rows.parquet")
            generate(path, rows)
            mb, by_class = path.stat().st_size / 1e6, None
            todo = tasks(path)
            if rows < arguments.rows and importlib.util.find_spec("lightgbm"):
                todo["LightGBM, in memory"] = [sys.executable, "-c", BOOST, str(path)]
            for what, command in todo.items():
                seconds, busy, peak = run(command)
                if "Σx²" in what:
                    by_class = by_class or seconds
                ratio = "" if by_class is None else f"{seconds / by_class:.1f}"
                lines.append(
                    f"| {rows:,} | {mb:,.0f} | {what} | {seconds:.1f} | {busy:.1f} | {rows / seconds:,.0f} | {ratio} | "
                    f"{peak:,.0f} |"
                )
                print(lines[-1], flush=True)
    OUT.mkdir(exist_ok=True)
    path = OUT / "scale.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"\ntable written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
