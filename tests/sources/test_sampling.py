"""Samples: all rows if there are few, otherwise a spread sample; and other methods of sources."""

from __future__ import annotations

import csv as python_csv
import gzip
import hashlib
import io
import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban._kernel import csv as kernel
from deciban.errors import DecibanError
from deciban.sources import base, csv, open_source
from deciban.sources.base import even_spans
from deciban.sources.blocks import RecordBlock
from deciban.sources.input_file import InputFile

N_ROWS = 20_000


def write(path, table, ending):
    if ending == ".parquet":
        pq.write_table(table, path, row_group_size=500)
    elif ending == ".one.parquet":
        pq.write_table(table, path)
    elif ending == ".arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, 700)
    else:
        rows = table.to_pylist()
        if ".json" in ending:
            text = "".join(json.dumps(row) + "\n" for row in rows)
        else:
            text = "i,text\n" + "".join(f'{row["i"]},"{row["text"]}"\n' for row in rows)
        if ".array" in ending:
            text = json.dumps(rows)
        path.write_bytes(gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode())


ENDINGS = [".csv", ".csv.gz", ".jsonl", ".array.json", ".parquet", ".one.parquet", ".arrow"]


def table_of(start, end, quoted_ends=False, end_of_line="\n"):
    texts = [f"text{end_of_line if quoted_ends and i % 3 else ', '}{i}" for i in range(start, end)]
    return pa.table({"i": pa.array(np.arange(start, end, dtype=float)), "text": texts})


@pytest.fixture(params=ENDINGS)
def ending(request):
    return request.param


@pytest.mark.parametrize("quoted_ends", [False, True], ids=["", "quoted ends"])
def test_a_sample_is_spread_evenly_over_all_files_in_their_order(tmp_path, ending, quoted_ends, monkeypatch):
    monkeypatch.setattr("deciban.sources.blocks.BLOCK_BYTES", 1 << 14)
    third = N_ROWS // 3
    for k in range(3):
        write(tmp_path / f"{k}{ending}", table_of(k * third, (k + 1) * third, quoted_ends), ending)
    source = open_source([str(tmp_path / f"*{ending}")])
    sampled = source.sample(640).column("i").to_numpy()
    assert 600 <= len(sampled) <= 640
    assert (np.diff(sampled) > 0).all()  # in order, and none twice
    # Every hundredth of the rows, or its neighbour, is there: 64 places are about 300 rows apart.
    gaps = np.diff(np.concatenate([[0], sampled, [3 * third]]))
    assert gaps.max() < 2.5 * third * 3 / 64


def test_a_sample_of_fields_in_quotes_is_read_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("deciban.sources.blocks.BLOCK_BYTES", 1 << 14)
    write(tmp_path / "a.csv", table_of(0, N_ROWS), ".csv")
    source = open_source([tmp_path / "a.csv"])
    monkeypatch.setattr(source, "_excerpts_by_scanning", None)  # not called
    sampled = source.sample(640)
    assert 600 <= sampled.num_rows <= 640
    assert sampled.column("text").to_pylist() == [f"text, {i:.0f}" for i in sampled.column("i").to_pylist()]


def test_a_record_longer_than_an_excerpt_is_passed_over(tmp_path):
    long = '"' + "\n".join(f"line {j} of a long text" for j in range(3000)) + '"'
    rows = (f"{i},{long if i % 500 == 250 else f'short {i}'}" for i in range(N_ROWS))
    (tmp_path / "a.csv").write_text("i,text\n" + "\n".join(rows) + "\n")
    sampled = open_source([tmp_path / "a.csv"]).sample(640)
    assert 100 <= sampled.num_rows <= 640
    texts = zip(sampled.column("i").to_pylist(), sampled.column("text").to_pylist(), strict=True)
    assert all(text == (long[1:-1] if i % 500 == 250 else f"short {i:.0f}") for i, text in texts)


CELLS = st.lists(st.sampled_from(["a", " ", '"', "\n", ",", "\r\n"]), max_size=6).map("".join)
QUOTING = st.sampled_from([python_csv.QUOTE_MINIMAL, python_csv.QUOTE_ALL])


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8), QUOTING)
def test_no_line_inside_quotes_is_taken_for_the_start_of_a_record(rows, quoting):
    text = io.StringIO(newline="")
    python_csv.writer(text, quoting=quoting, lineterminator="\n").writerows(rows)
    data = text.getvalue().encode()
    file = csv.CsvFile(InputFile.of_bytes(b"a,b\n" + data, "a.csv"), "utf-8", ",", header=True)
    for at in (i + 1 for i, byte in enumerate(data) if byte == ord("\n")):
        _, opened = kernel.last_end(data[:at], ord(","), ord("\n"))
        if opened >= 0:
            assert file.may_begin_inside(RecordBlock(data[at:], 0, 0))


def test_a_sample_is_everything_where_that_is_not_more(tmp_path, ending):
    write(tmp_path / f"a{ending}", table_of(0, 500), ending)
    source = open_source([tmp_path / f"a{ending}"])
    for rows in (500, 501, 100_000):
        assert source.sample(rows).column("i").to_pylist() == list(range(500))
    # At 64 places, up to two records are cut each.
    assert 499 - 128 <= source.sample(499).num_rows <= 499


def test_a_sample_of_one_row(tmp_path, ending):
    write(tmp_path / f"a{ending}", table_of(0, 500), ending)
    assert open_source([tmp_path / f"a{ending}"]).sample(1).num_rows == 1


def test_rows_head_and_digest(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    write(path, table_of(0, 3000), ending)
    source = open_source([path])
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    assert source.digests() == [expected]  # read for this alone
    source = open_source([path])
    seen = []
    assert sum(batch.table.num_rows for batch in source.batches(watch=seen.append)) == 3000
    assert source.digests() == [expected]
    assert seen == sorted(seen)
    assert seen[-1] == source.size == path.stat().st_size
    assert source.head(2).column("i").to_pylist() == [0.0, 1.0]
    assert source.row(2999).column("i").to_pylist() == [2999.0]
    with pytest.raises(DecibanError, match="has only 3,000 rows"):
        source.row(3000)
    with pytest.raises(DecibanError, match="before the first"):
        source.row(-1)


def test_batches_are_numbered_over_all_files_and_do_not_mix_them(tmp_path, ending):
    for k in range(2):
        write(tmp_path / f"{k}{ending}", table_of(k * 100, k * 100 + 100), ending)
    source = open_source([str(tmp_path / f"*{ending}")])
    batches = list(source.batches(rows=64))
    assert all(batch.table.num_rows <= 64 for batch in batches)
    for batch in batches:
        assert batch.table.column("i").to_pylist() == list(range(batch.first, batch.first + batch.table.num_rows))
        assert batch.file.endswith(f"{batch.first // 100}{ending}")
    assert source.row(150).column("i").to_pylist() == [150.0]
    assert [batch.first for batch in source.batches(rows=64)] == [batch.first for batch in batches]


def test_batches_have_rows(tmp_path):
    write(tmp_path / "a.csv", table_of(0, 3), ".csv")
    with pytest.raises(DecibanError, match="at least one row"):
        next(open_source([tmp_path / "a.csv"]).batches(rows=0))


def test_long_rows_are_not_all_read_for_the_sake_of_their_types(tmp_path, monkeypatch):
    monkeypatch.setattr("deciban.sources.csv.MAX_SAMPLE_BYTES", 10_000)
    monkeypatch.setattr("deciban.sources.blocks.BLOCK_BYTES", 4096)
    read = []
    infer = csv.infer_types

    def watched(excerpts, *rest):
        read.append(sum(len(excerpt.block.data) for excerpt in excerpts))
        return infer(excerpts, *rest)

    monkeypatch.setattr(csv, "infer_types", watched)
    (tmp_path / "a.csv").write_text("a,b\n" + ("x" * 500 + ",1\n") * 2000)
    assert open_source([tmp_path / "a.csv"]).sample().num_rows == 2000
    assert read[0] < 100_000


@pytest.mark.parametrize(("total", "rows"), [(10, 3), (1000, 999), (100_001, 100_000), (5, 5), (1 << 40, 7)])
def test_spans_are_apart_and_as_many_as_wanted(total, rows):
    spans = even_spans(total, rows)
    assert 0.9 * rows <= sum(end - start for start, end in spans) <= rows
    assert all(start < end <= total for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert len(spans) <= base.SAMPLE_PLACES
