"""Blocks: whole records, whatever quotes do, and all bytes in their order."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban.errors import DecibanError
from deciban.sources import blocks
from deciban.sources.blocks import QuotedCutter, in_blocks
from deciban.sources.input_file import Filled, Pass

PIECES = st.lists(st.sampled_from(['"', '""', "\n", "\r\n", ",", "a", "b c", ',"', '",', '"\n']), max_size=60)


def records(text):
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


@given(PIECES, st.integers(1, 12))
def test_blocks_are_cut_between_the_records_that_python_reads(pieces, size):
    text = "".join(pieces)
    stream = Filled(io.BytesIO(text.encode()), "a.csv")
    old, blocks.BLOCK_BYTES = blocks.BLOCK_BYTES, size
    try:
        blocks_read = [block.data for block in in_blocks(stream, Pass(), QuotedCutter(","), "a.csv")]
    except DecibanError:
        blocks_read = None
    finally:
        blocks.BLOCK_BYTES = old
    if blocks_read is None:  # then whatever comes behind is still in quotes
        assert records(text + "\nend")[-1] != ["end"]
        return
    joined = b"".join(blocks_read).decode()
    assert joined == text or not text.removeprefix(joined).strip()  # blank lines at the end may be left
    assert [row for block in blocks_read for row in records(block.decode())] == records(text)


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", 0),
        (b"a,b", 0),
        (b"a,b\n", 4),
        (b"a,b\nc", 4),
        (b'a,"b\nc', 0),
        (b'x\na,"b\nc', 2),
        (b'a,"b\nc"\nd', 8),
        (b'a,5"\nb,c\nd', 9),  # a quote that does not open a field is a quote
        (b'a,5"\nb,"c\nd', 5),
        (b'a,"x"y"\nb\n"', 10),
    ],
)
def test_where_the_last_whole_record_ends(data, end):
    assert QuotedCutter(",").cut(data) == end


def test_lines_are_counted():
    stream = Filled(io.BytesIO(b'a\n"b\nc"\nd\n'), "a.csv")
    old, blocks.BLOCK_BYTES = blocks.BLOCK_BYTES, 3
    try:
        blocks_read = [
            (block.line, block.data) for block in in_blocks(stream, Pass(), QuotedCutter(","), "a.csv", line=2)
        ]
    finally:
        blocks.BLOCK_BYTES = old
    assert blocks_read == [(2, b"a\n"), (3, b'"b\nc"\n'), (5, b"d\n")]
