"""Files larger than memory: reading and training, beside DuckDB's own scan of the same file.

A CSV and a Parquet file of 10 columns (5 numbers, 3 categories, 1 count, 1 label) are generated into a temporary folder
in flat memory. Then each is read in processes of their own: by DuckDB (a sum or a count of each column), by
`Source.batches` alone, and by `deciban train`, with what it chooses and as naive Bayes. MB are 10⁶ bytes of the file;
the peak of the memory in use is what the system says of the process when it has ended, all libraries included.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

import deciban

OUT = Path(__file__).parent / "results"
CHUNK = 500_000  # rows generated at a time
COLOURS = np.array(["red", "green", "blue", "pink"])
CITIES = np.array([f"city {i:02}" for i in range(30)])
SHOPS = np.array([f"shop {i:03}" for i in range(200)])

SCAN = """
import sys, duckdb
path = sys.argv[1]
numbers = ", ".join(f"sum(x{i})" for i in range(5))
names = ", ".join(f"count({name}), max({name})" for name in ("colour", "city", "shop", "label"))
duckdb.sql(f"SELECT count(*), {numbers}, sum(visits), {names} FROM '{path}'").fetchall()
"""
READ = """
import sys
from deciban.sources import open_source
sum(batch.table.num_rows for batch in open_source([sys.argv[1]]).batches())
"""
# Peak memory includes that of the parent at the fork: so a small process starts it.
WATCH = """
import os, sys, time
nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
start = time.perf_counter()
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=nowhere)
_, status, used = os.wait4(process, 0)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


def tasks(path: Path, model: Path) -> dict[str, list[str]]:
    """What is measured, as commands."""
    train = [sys.executable, "-m", "deciban", "train", str(path), "--target", "label", "-o", str(model), "--force"]
    return {
        "DuckDB, sums and counts of all columns": [sys.executable, "-c", SCAN, str(path)],
        "`Source.batches`": [sys.executable, "-c", READ, str(path)],
        "`deciban train`": train,
        "`deciban train --model naive-bayes`": [*train, "--model", "naive-bayes"],
    }


def chunks(rows: int) -> Iterator[pa.Table]:
    """The table, a part at a time: what a row holds depends a little on its label."""
    rng = np.random.default_rng(0)
    for start in range(0, rows, CHUNK):
        n = min(CHUNK, rows - start)
        y = rng.integers(0, 3, n)
        columns = {f"x{i}": np.round(rng.normal(0.3 * i * y, 1.0 + i), 4) for i in range(5)}
        columns |= {
            "colour": COLOURS[(rng.integers(0, 4, n) + (rng.random(n) < 0.2) * y) % 4],
            "city": CITIES[(rng.integers(0, 30, n) * (1 + y)) % 30],
            "shop": SHOPS[np.minimum(199, rng.integers(0, 180, n) + 10 * y)],
            "visits": rng.poisson(2.0 + y),
            "label": np.array(["no", "maybe", "yes"])[y],
        }
        yield pa.table(columns)


def generate(folder: Path, rows: int) -> list[Path]:
    paths = [folder / "rows.csv", folder / "rows.parquet"]
    schema = next(chunks(1)).schema
    with arrow_csv.CSVWriter(str(paths[0]), schema) as csv, pq.ParquetWriter(paths[1], schema) as parquet:
        for table in chunks(rows):
            csv.write_table(table)
            parquet.write_table(table)
    return paths


def run(command: list[str]) -> tuple[float, float, float]:
    """Seconds of a process, seconds of its threads in all, and the peak of its memory in MB."""
    done = subprocess.run([sys.executable, "-S", "-c", WATCH, *command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"this failed, for the reason above: {' '.join(command)}")
    seconds, busy, peak = map(float, done.stdout.split())
    return seconds, busy, peak * (1 if sys.platform == "darwin" else 1024) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000, help="of the generated table (default 20,000,000)")
    parser.add_argument("--folder", help="where the files are generated; by default a temporary folder")
    parser.add_argument("--without", nargs="*", default=[], choices=["train"], help="leave out")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    lines = [
        "# Streaming",
        "",
        f"deciban {deciban.__version__}, DuckDB {duckdb.__version__}, Arrow {pa.__version__}, "
        f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores; written by",
        f"`python benchmarks/streaming.py --rows {arguments.rows}`. A table of 10 columns. *Seconds* are from the "
        "start of a process",
        "to its end, *of all threads* what its threads were busy. *Scans*: its seconds in DuckDB's for the same file.",
        "",
        "| file | MB | what | seconds | of all threads | MB/s | rows/s | scans | peak, MB |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for path in generate(Path(folder), arguments.rows):
            mb, scan = path.stat().st_size / 1e6, None
            for what, command in tasks(path, Path(folder, "m.deciban")).items():
                if "train" in what and "train" in arguments.without:
                    continue
                seconds, busy, peak = run(command)
                scan = scan or seconds
                lines.append(
                    f"| {path.suffix} | {mb:,.0f} | {what} | {seconds:.1f} | {busy:.1f} | {mb / seconds:,.0f} | "
                    f"{arguments.rows / seconds:,.0f} | {seconds / scan:.1f} | {peak:,.0f} |"
                )
                print(lines[-1], flush=True)
    OUT.mkdir(exist_ok=True)
    path = OUT / "streaming.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"\ntable written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
