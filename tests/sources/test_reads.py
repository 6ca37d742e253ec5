"""How often the bytes of a file are read: once if it is small, and not again for its digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
from collections import Counter
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deciban.sources import in_order, open_source, parquet
from deciban.sources import open as opening

N_ROWS = 3000


def as_csv(folder):
    (folder / "a.csv").write_text("x,y\n" + "".join(f"{i},{i % 3}\n" for i in range(N_ROWS)))
    return ["a.csv"]


def as_gzip(folder):
    (folder / "a.csv.gz").write_bytes(
        gzip.compress(b"x,y\n" + b"".join(b"%d,%d\n" % (i, i % 3) for i in range(N_ROWS)))
    )
    return ["a.csv.gz"]


def as_json(folder):
    (folder / "a.jsonl").write_text("".join(json.dumps({"x": i, "y": i % 3}) + "\n" for i in range(N_ROWS)))
    return ["a.jsonl"]


def as_lines(folder):
    for name in "ab":
        (folder / f"{name}.txt").write_text("".join(f"line {i} of {name}\n" for i in range(N_ROWS // 2)))
    return ["one=a.txt", "two=b.txt"]


def as_mail(folder):
    mail = "From me Sat Jan  3 01:05:34 1996\nSubject: {}\n\nText\n\n"
    (folder / "in.mbox").write_text("".join(mail.format(i) for i in range(N_ROWS)))
    return ["ham=in.mbox"]


FORMATS = [as_csv, as_gzip, as_json, as_lines, as_mail]


@pytest.fixture
def read(monkeypatch):
    """Bytes that were read of each file, by its name."""
    counts = Counter()

    class Counting(io.FileIO):
        def readinto(self, buffer):
            size = super().readinto(buffer)
            counts[os.path.basename(self.name)] += size
            return size

        def read(self, size=-1):
            data = super().read(size)
            counts[os.path.basename(self.name)] += len(data)
            return data

        def readall(self):
            data = super().readall()
            counts[os.path.basename(self.name)] += len(data)
            return data

    def opened(path, mode="r", buffering=-1, **more):
        if mode != "rb":
            return open(path, mode, buffering, **more)
        return Counting(path) if buffering == 0 else io.BufferedReader(Counting(path))

    monkeypatch.setattr("pathlib.Path.open", opened)

    def whole(path):
        with opened(path, "rb") as file:
            return file.read()

    monkeypatch.setattr("pathlib.Path.read_bytes", whole)
    return counts


def read_all_batches(source):
    assert sum(batch.table.num_rows for batch in source.batches()) == N_ROWS
    return source.digests()


@pytest.mark.parametrize("write", FORMATS)
def test_a_small_file_is_read_once(write, tmp_path, monkeypatch, read):
    monkeypatch.chdir(tmp_path)
    source = open_source(write(tmp_path))
    assert source.sample(100).num_rows
    read_all_batches(source)
    for path in tmp_path.iterdir():
        assert read[path.name] == path.stat().st_size


@pytest.mark.parametrize("write", FORMATS)
def test_rows_and_digest_are_read_together(write, tmp_path, monkeypatch, read):
    """Not counting what was read before, to infer types."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(opening, "MAX_KEPT_BYTES", 0)
    source = open_source(write(tmp_path))
    read.clear()
    digests = read_all_batches(source)
    read = dict(read)
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == read
    expected = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert {digest.split()[0] for digest in digests} == set(expected.values())


@pytest.mark.parametrize("write", FORMATS)
def test_an_unfinished_pass_gives_no_digest(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = write(tmp_path)
    source = open_source(names)
    next(source.batches(10))
    assert source.digests() == read_all_batches(open_source(names))


def test_digests_that_are_not_needed_are_not_computed(tmp_path, monkeypatch):
    source = open_source([tmp_path / as_csv(tmp_path)[0]])
    source.hashes = False
    monkeypatch.setattr(hashlib, "sha256", None)
    assert sum(batch.table.num_rows for batch in source.batches()) == N_ROWS


# ------------------------------------------------------------------ files that Arrow reads in an order of its own

WIDE = pa.table({f"x{j}": [((i * 7919 + j) % 1000003) / 7 for i in range(N_ROWS)] for j in range(12)})


def as_parquet(path, **how):
    pq.write_table(WIDE, path, compression="none", use_dictionary=False, **how)


def as_ipc(path, streamed=False):
    with (pa.ipc.new_stream if streamed else pa.ipc.new_file)(path, WIDE.schema) as writer:
        writer.write_table(WIDE, max_chunksize=400)


ARROW_WRITERS = {
    "one group": partial(as_parquet, data_page_size=1000),
    "many groups": partial(as_parquet, row_group_size=170, data_page_size=200),
    "file": as_ipc,
    "stream": partial(as_ipc, streamed=True),
}


@pytest.mark.parametrize("kept", [0, 1 << 24])
@pytest.mark.parametrize("how", ARROW_WRITERS)
def test_arrows_files_are_hashed_in_passing(how, kept, tmp_path, monkeypatch, read):
    path = tmp_path / ("a.parquet" if "group" in how else "a.arrow")
    ARROW_WRITERS[how](path)
    size, digest = path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(opening, "MAX_KEPT_BYTES", kept)
    monkeypatch.setattr(parquet, "BUFFER_BYTES", 500)  # so that columns of a group are read by turns
    monkeypatch.setattr(in_order, "PAGE_BYTES", 1000)
    monkeypatch.setattr(in_order, "MAX_GAP_BYTES", 1000)
    source = open_source([path])
    read.clear()
    tables = [batch.table for batch in source.batches(100)]
    assert source.digests() == [digest]
    assert pa.concat_tables(tables).equals(WIDE)
    if not kept:
        assert size <= read["a.parquet" if "group" in how else "a.arrow"] <= 1.05 * size  # and the footer again


def test_groups_larger_than_what_is_kept_are_read_again(tmp_path, monkeypatch):
    ARROW_WRITERS["one group"](tmp_path / "a.parquet")
    for place, name, value in (
        (opening, "MAX_KEPT_BYTES", 0),
        (parquet, "BUFFER_BYTES", 500),
        (in_order, "MAX_KEPT_BYTES", 3000),
    ):
        monkeypatch.setattr(place, name, value)
    monkeypatch.setattr(in_order, "PAGE_BYTES", 1000)
    source = open_source([tmp_path / "a.parquet"])
    assert pa.concat_tables([batch.table for batch in source.batches(100)]).equals(WIDE)
    assert source.digests() == [hashlib.sha256((tmp_path / "a.parquet").read_bytes()).hexdigest()]


def test_arrows_files_that_were_not_read_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "MAX_KEPT_BYTES", 0)
    for name, write in (("a.parquet", "many groups"), ("a.arrow", "file")):
        ARROW_WRITERS[write](tmp_path / name)
        source = open_source([tmp_path / name])
        next(source.batches(10))
        assert source.digests() == [hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()]
