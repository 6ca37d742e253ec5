"""Constant memory: a file four times as long needs no more."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from deciban.sources import write_rows

N_ROWS = 100_000
READ_SCRIPT = """
import sys
from deciban.sources import open_source

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024

before = peak()
source = open_source([sys.argv[1]])
rows = sum(batch.table.num_rows for batch in source.batches())
source.digests()
print(rows, peak() - before)
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")


def table():
    names = ["red", "green", "blue"]
    return pa.table(
        {
            "number": [i * 0.37 for i in range(N_ROWS)],
            "name": [names[i % 3] for i in range(N_ROWS)],
            "text": [f"row {i}, and what is said of it\nat some length" for i in range(N_ROWS)],
        }
    )


def peak(path, copies):
    """How many rows were read in a process of its own, and the MB that took."""
    one = table()
    write_rows(path, (one for _ in range(copies)))
    done = subprocess.run([sys.executable, "-c", READ_SCRIPT, str(path)], capture_output=True, text=True, check=True)
    rows, megabytes = done.stdout.split()
    return int(rows), float(megabytes)


def check_flat(folder, ending, few, many):
    small, large = folder / f"small{ending}", folder / f"large{ending}"
    rows, less = peak(small, few)
    assert rows == few * N_ROWS
    rows, more = peak(large, many)
    assert rows == many * N_ROWS
    # How far it reads ahead varies: some blocks and their tables, a few MB each.
    assert more < less + 60
    assert more < 300


def test_memory_is_flat(tmp_path):
    check_flat(tmp_path, ".csv", 3, 8)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".parquet", ".arrow"])
def test_memory_is_flat_for_hundreds_of_megabytes(tmp_path, ending):
    check_flat(tmp_path, ending, 8, 32)
