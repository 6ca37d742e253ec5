"""JSON lines and arrays of objects."""

from __future__ import annotations

import gzip
import io
import json

import pyarrow as pa
import pytest

from deciban.errors import DecibanError
from deciban.sources import open_source
from deciban.sources.column_types import CODES
from deciban.sources.json import ArrayLines


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


def test_dates_that_are_declared_strings_stay_as_they_are(opened):
    source = opened('{"a": "2024-01-01"}\n{"a": null}\n{"a": "soon"}\n', types={"a": pa.string()})
    assert [row["a"] for row in rows(source)] == ["2024-01-01", None, "soon"]
    source = opened('{"a": "2024-01-01"}\n', name="b.jsonl", types={"a": pa.string()})
    assert rows(source) == [{"a": "2024-01-01"}]


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
        ('{"a": 1}\n5\n', "row 2 of a.json (line 2) is 5, but must be an object"),
        ('{"a": 1}\n{"a": "x"}\n', "key 'a' of a.json holds 1 in one line and 'x' in another"),
        ('{"a": 1, "a": 2}\n', "row 1 of a.json (line 1) has the key 'a' twice"),
        ('{"a": 1, "": 2}\n', "column 2 of a.json has no name"),
        (b'{"a": "caf\xe9"}\n', "row 1 of a.json (line 1) is not UTF-8 (byte 0xe9)"),
        ('{"a": "\\ud800"}\n', "holds half of a character"),
        ("{}\n{}\n", "a.json holds objects without keys"),
        ('[{"a": 1}, 5]', "element 2 of a.json is 5, but must be an object"),
        ('[{"a": 1}, {"a": 2}', "a.json ends inside an array, after 2 elements"),
        ('[{"a": 1} {"a": 2}]', "element 2 of a.json is not JSON"),
        ('[{"a": 1}, {"a": ', "element 2 of a.json is not JSON"),
        ('[{"a": 1}] tail', "a.json continues after its array with 'tail'"),
        ('[{"a": 1}, {"a": [2]}]', "row 2 of a.json holds [2] under the key 'a'"),
        ("[" * 100_000, "element 1 of a.json holds nested objects or arrays"),
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
        ('{"a": "x"}', "has 'x' in column 'a', where other rows hold numbers"),
        ('{"z": 1}', "has the key 'z'"),
        ('{"a": true}', "has True in column 'a', where other rows hold numbers"),
    ],
)
def test_a_later_line_that_does_not_fit_is_named(opened, monkeypatch, last, says):
    monkeypatch.setattr("deciban.sources.json.SAMPLE_ROWS", 50)
    with pytest.raises(DecibanError) as error:
        rows(opened('{"a": 1}\n' * 50_000 + last + "\n"))
    assert str(error.value).startswith(f"row 50001 of a.jsonl (line 50001) {says}")


# ---------------------------------------------------------------------- nesting


DEEP = {
    "arrays": '{"a": ' + "[" * 20_000 + "]" * 20_000 + "}\n",
    "objects": '{"a": ' + '{"a": ' * 20_000 + "1" + "}" * 20_000 + "}\n",
    "unclosed": '{"a": ' + "[" * 200_000 + "\n",
}
PLAIN = '{"b": "[[{{"}\n'


@pytest.mark.parametrize("deep", DEEP.values(), ids=DEEP)
def test_deep_nesting_is_refused_and_named(opened, deep):
    """Arrow's parser would overflow the stack, which ends the process."""
    with pytest.raises(DecibanError, match=r"^row 3 of a\.jsonl \(line 3\) holds nested objects or arrays: "):
        opened(PLAIN * 2 + deep + PLAIN)


def test_deep_nesting_is_refused_in_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((PLAIN + DEEP["objects"]).encode())))
    with pytest.raises(DecibanError, match=r"^row 2 of standard input \(line 2\) holds nested objects or arrays"):
        open_source(["-"])


def test_deep_nesting_is_refused_in_a_later_block(opened, monkeypatch):
    monkeypatch.setattr("deciban.sources.json.SAMPLE_ROWS", 50)
    monkeypatch.setattr("deciban.sources.blocks.BLOCK_BYTES", 1 << 12)
    source = opened(PLAIN * 2000 + DEEP["objects"].replace("a", "b") + PLAIN * 2000)
    with pytest.raises(DecibanError, match=r"^row 2001 of a\.jsonl \(line 2001\) holds nested objects or arrays"):
        rows(source)


def test_deep_nesting_is_refused_in_an_array(opened):
    for deep in DEEP["arrays"], DEEP["objects"]:
        with pytest.raises(DecibanError, match=r"^element 2 of a\.json holds nested objects or arrays: "):
            opened(f"[{PLAIN}, {deep}]", "a.json")


def test_deep_nesting_over_many_lines_is_refused(opened):
    with pytest.raises(DecibanError, match=r"^row 2 of a\.jsonl \(line 2\) is not JSON"):
        opened(PLAIN + '{"a":\n' + "[\n" * 20_000)


# ---------------------------------------------------------------------- keys


def test_a_new_key_in_every_row_is_refused(opened):
    lines = "".join(f'{{"y": "p", "k{i}": {i}}}\n' for i in range(12_000))
    with pytest.raises(DecibanError) as error:
        opened(lines)
    assert str(error.value) == (
        "a.jsonl has 12,001 different keys in 12,000 rows, and each key is a column, with a limit of 10,000: if "
        'the keys are identifiers, make them values, as in {"name": "x7", "amount": 3}'
    )


def test_rows_that_have_nearly_all_of_many_keys_are_a_wide_table(opened, monkeypatch):
    monkeypatch.setattr("deciban.sources.json.MAX_SPARSE_KEYS", 20)
    line = json.dumps({f"k{i}": i for i in range(40)}) + "\n"
    assert len(opened(line * 3).columns) == 40
    monkeypatch.setattr("deciban.sources.json.MAX_COLUMNS", 39)
    with pytest.raises(DecibanError, match=r"a\.jsonl has 40 different keys in 3 rows.*39"):
        opened(line * 3)


SPARSE = [
    {"n": 5, "when": "2024-01-01 10:00:00"},
    {"f": 3},
    {"f": 0.5, "big": 2**60},
    {"name": "x", "none": None},
    {"big": 1, "when": "2024-01-01T10:00:00.5"},
    {},
    {"when": None, "name": "2024-01-01"},
    {"n": 7},
]


def test_types_are_the_same_whatever_is_parsed_at_once(opened, monkeypatch):
    lines = "".join(json.dumps(line) + "\n" for line in SPARSE)
    whole = opened(lines)
    expected = rows(whole)
    monkeypatch.setattr("deciban.sources.json.MAX_BLOCK_CELLS", 6)  # a row at a time
    source = opened(lines)
    assert (source.columns, source.types, source.whole) == (whole.columns, whole.types, whole.whole)
    assert rows(source) == expected
    assert [batch.table.num_rows for batch in source.batches()] == [1] * 8


def test_types_that_differ_are_refused_whatever_is_parsed_at_once(opened, monkeypatch):
    monkeypatch.setattr("deciban.sources.json.MAX_BLOCK_CELLS", 1)
    with pytest.raises(DecibanError, match=r"key 'a' of a\.jsonl holds 1 in one line and 'x' in another"):
        opened('{"a": 1}\n{"a": "x"}\n')


def test_rows_that_lack_most_keys_are_read_few_at_a_time(opened, monkeypatch):
    monkeypatch.setattr("deciban.sources.json.MAX_BLOCK_CELLS", 4000)
    monkeypatch.setattr("deciban.sources.base.MAX_SAMPLE_CELLS", 8000)
    source = opened(json.dumps({f"k{i}": i for i in range(40)}) + "\n" + "{}\n" * 999)
    assert [batch.table.num_rows for batch in source.batches()] == [100] * 10
    assert source.sample().num_rows <= 200
    monkeypatch.setattr("deciban.sources.json.SAMPLE_ROWS", 50)
    with pytest.raises(DecibanError, match=r"^row 1001 of a\.jsonl \(line 1001\) has the key 'z'"):
        rows(opened(json.dumps({f"k{i}": i for i in range(40)}) + "\n" + "{}\n" * 999 + '{"z": 1}\n'))


def test_a_first_row_that_is_longer_than_the_others_is_in_the_sample(opened, monkeypatch):
    monkeypatch.setattr("deciban.sources.json.SAMPLE_ROWS", 50)
    long = json.dumps({f"k{i}": i for i in range(400)}) + "\n"
    assert len(opened(long + "{}\n" * 5000).columns) == 400
    assert len(opened(gzip.compress((long + "{}\n" * 5000).encode()), "a.jsonl.gz").columns) == 400


# ---------------------------------------------------------------------- long elements of arrays


class Reads:
    """A stream that remembers how much was read at once."""

    def __init__(self, data):
        self.data, self.sizes = io.BytesIO(data), []

    def read(self, size):
        self.sizes.append(size)
        return self.data.read(size)

    def close(self):
        pass


def test_a_long_element_is_decoded_a_few_times(monkeypatch):
    monkeypatch.setattr("deciban.sources.json.CHUNK_BYTES", 64)
    stream = Reads(json.dumps([{"text": "x" * 100_000}]).encode())
    assert len(ArrayLines(stream.read(64), stream, "a.json").read(1 << 20)) > 100_000
    assert len(stream.sizes) < 20


def test_an_element_that_is_wrong_is_named_before_the_rest_is_read(monkeypatch):
    monkeypatch.setattr("deciban.sources.json.CHUNK_BYTES", 64)
    stream = Reads(b'[{"a": 1}, {"a": nil}' + b', {"a": 1}' * 10_000 + b"]")
    with pytest.raises(DecibanError, match=r"element 2 of a\.json is not JSON"):
        ArrayLines(stream.read(64), stream, "a.json").read(1 << 20)
    assert sum(stream.sizes) < 1000


def test_an_element_that_does_not_end_is_refused(monkeypatch):
    monkeypatch.setattr("deciban.sources.json.CHUNK_BYTES", 64)
    monkeypatch.setattr("deciban.sources.json.MAX_RECORD_BYTES", 1 << 20)
    stream = Reads(b'[{"a": 1}, {"a": "' + b"x" * (1 << 23))
    with pytest.raises(DecibanError, match=r"element 2 of a\.json is longer than 1 MB"):
        ArrayLines(stream.read(64), stream, "a.json").read(1 << 20)
    assert stream.data.tell() < 1 << 22
