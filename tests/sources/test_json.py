"""JSON lines and arrays of objects."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest

from deciban.errors import DecibanError
from deciban.sources import open_source
from deciban.sources.column_types import CODES


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def open_text(text, name="a.jsonl", **settings):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return open_source([name], **settings)

    return open_text


def rows(source):
    return [row for batch in source.batches() for row in batch.table.to_pylist()]


LINES = '{"a": 1, "b": "x"}\n{"b": null, "c": true}\n\n{"a": 2.5, "b": "é"}\n'
EXPECTED = [
    {"a": 1.0, "b": "x", "c": None},
    {"a": None, "b": None, "c": True},
    {"a": 2.5, "b": "é", "c": None},
]


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "unnamed"])
def test_lines(opened, name):
    source = opened(LINES, name)
    assert source.columns == ("a", "b", "c")
    assert source.types == {"a": pa.float64(), "b": pa.string(), "c": pa.bool_()}
    assert rows(source) == EXPECTED


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array(opened, indent):
    array = [{"a": 1, "b": "x"}, {"b": None, "c": True}, {"a": 2.5, "b": "é"}]
    assert rows(opened(json.dumps(array, indent=indent), "a.json")) == EXPECTED
    assert rows(opened(json.dumps(array, ensure_ascii=False).encode("utf-16"), "a.json")) == EXPECTED


def test_a_long_array_is_read_in_pieces(opened, monkeypatch):
    monkeypatch.setattr("deciban.sources.json.CHUNK_BYTES", 50)
    monkeypatch.setattr("deciban.sources.blocks.BLOCK_BYTES", 300)
    array = [{"i": i, "text": f']}}{{[ \\ " {i}'} for i in range(500)]
    source = opened(json.dumps(array, indent=1), "a.json")
    assert rows(source) == array
    assert len(list(source.batches())) > 10


def test_compressed(opened):
    assert rows(opened(gzip.compress(LINES.encode()), "a.jsonl.gz")) == EXPECTED


def test_types(opened):
    lines = [
        {"n": 5, "f": 0.5, "big": 2**60, "when": "2024-01-01 10:00:00", "name": "xyz"[i % 3], "none": None}
        for i in range(40)
    ]
    source = opened("".join(json.dumps(line) + "\n" for line in lines))
    assert source.types == {
        "n": pa.float64(),
        "f": pa.float64(),
        "big": pa.int64(),  # not exact as a float
        "when": pa.timestamp("us"),
        "name": CODES,
        "none": pa.string(),
    }
    assert source.whole == {"n", "big"}
    assert rows(source)[0]["big"] == 2**60


def test_types_can_be_given(opened):
    source = opened('{"zip": 123, "n": 4}\n{"zip": 99, "n": 5}\n', types={"zip": pa.string()})
    assert rows(source) == [{"zip": "123", "n": 4.0}, {"zip": "99", "n": 5.0}]


def test_missing_values_can_be_named(opened):
    assert rows(opened('{"a": -9, "b": "?"}\n{"a": 1, "b": "x"}\n', missing=["-9", "?"])) == [
        {"a": None, "b": None},
        {"a": 1.0, "b": "x"},
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a.json is empty"),
        ('{"a": 1}\n{"a": [1]}\n', "row 2 of a.json (line 2) holds [1] under the key 'a'"),
        ('{"a": 1}\n\n{"a": {"b": 1}}\n', "row 2 of a.json (line 3) holds {'b': 1} under the key 'a'"),
        ('{"a": 1}\n{"a": 2\n', "row 2 of a.json (line 2) is not JSON"),
        ('{"a": 1}\n5\n', "row 2 of a.json (line 2) is 5, and not an object"),
        ('{"a": 1}\n{"a": "x"}\n', "key 'a' of a.json holds 1 in one line and 'x' in another"),
        ('{"a": 1, "a": 2}\n', "row 1 of a.json (line 1) has the key 'a' twice"),
        ('{"a": 1, "": 2}\n', "column 2 of a.json has no name"),
        (b'{"a": "caf\xe9"}\n', "row 1 of a.json (line 1) is not UTF-8 (byte 0xe9)"),
        ('{"a": "\\ud800"}\n', "holds half of a character"),
        ("{}\n{}\n", "a.json holds objects without any key"),
        ('[{"a": 1}, 5]', "element 2 of a.json is 5, and not an object"),
        ('[{"a": 1}, {"a": 2}', "a.json ends within an array, after 2 elements"),
        ('[{"a": 1} {"a": 2}]', "element 2 of a.json is not JSON"),
        ('[{"a": 1}, {"a": ', "element 2 of a.json is not JSON"),
        ('[{"a": 1}] tail', "a.json goes on behind its array"),
        ('[{"a": 1}, {"a": [2]}]', "row 2 of a.json holds [2] under the key 'a'"),
        ("[" * 100_000, "element 1 of a.json is not JSON"),
    ],
    ids=lambda v: str(v)[:25],
)
def test_errors_are_one_line(opened, text, says):
    with pytest.raises(DecibanError) as error:
        rows(opened(text, "a.json"))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("last", "says"),
    [
        ('{"a": "x"}', "has 'x' in column 'a', which holds numbers elsewhere"),
        ('{"z": 1}', "has the key 'z', which no row of the sample has"),
        ('{"a": true}', "has True in column 'a', which holds numbers elsewhere"),
    ],
)
def test_a_later_line_that_does_not_fit_is_named(opened, monkeypatch, last, says):
    monkeypatch.setattr("deciban.sources.json.SAMPLE_ROWS", 50)
    with pytest.raises(DecibanError) as error:
        rows(opened('{"a": 1}\n' * 50_000 + last + "\n"))
    assert str(error.value).startswith(f"row 50001 of a.jsonl (line 50001) {says}")
