"""CSV: values, types, and errors."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import re
from functools import partial

import pyarrow as pa
import pytest
from effort import growth
from hypothesis import given
from hypothesis import strategies as st

from deciban.errors import DataWarning, DecibanError, FileError
from deciban.sources import open_source
from deciban.sources.column_types import CODES, as_written, check_same_columns


@pytest.fixture
def opened(tmp_path):
    """opened("a,b\n1,2\n") writes a file and opens it."""

    def open_text(text, name="a.csv", **settings):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return open_source([path], **settings)

    return open_text


def rows(source):
    return [row for batch in source.batches() for row in batch.table.to_pylist()]


def full_table(source):
    return pa.concat_tables([batch.table for batch in source.batches()])


def test_numbers_names_and_what_is_missing(opened):
    source = opened("a,b,c\n1,x,?\n2.5,NA,3\n,y,null\n")
    assert source.columns == ("a", "b", "c")
    assert source.types == {"a": pa.float64(), "b": pa.string(), "c": pa.float64()}
    assert rows(source) == [
        {"a": 1.0, "b": "x", "c": None},
        {"a": 2.5, "b": None, "c": 3.0},
        {"a": None, "b": "y", "c": None},
    ]


def test_missing_values_are_those_that_are_named_and_empty_cells(opened):
    assert rows(opened("a,b\n-9,NA\n3,\n", missing=["-9"])) == [{"a": None, "b": "NA"}, {"a": 3.0, "b": None}]


def test_what_is_missing_may_be_quoted_or_follow_a_blank(opened):
    source = opened('a,b\n"NA","?"\n2, ?\n"", NA\n')
    assert rows(source) == [{"a": None, "b": None}, {"a": 2.0, "b": None}, {"a": None, "b": None}]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2"], pa.float64()),
        (["1", "2.5"], pa.float64()),
        (["9007199254740992", "1"], pa.float64()),  # 2⁵³, the last exact integer of a float
        (["9007199254740993", "1"], pa.string()),
        (["12345678901234567890123", "1"], pa.string()),
        (["-9007199254740993", "1"], pa.string()),
        (["1e300", "2"], pa.float64()),
        (["007", "123"], pa.string()),
        (["0", "10"], pa.float64()),
        (["0.5", "00.5"], pa.float64()),
        (["true", "false"], pa.bool_()),
        (["TRUE", "False"], pa.bool_()),
        (["yes", "no"], pa.string()),
        (["2024-02-29", "1999-12-31"], pa.date32()),
        (["2024-02-29 10:00:00", "1999-12-31T23:59:59"], pa.timestamp("us")),
        (["2024-02-29 10:00:00.25", "1999-12-31 23:59:59"], pa.timestamp("ns")),
        (["10:30:00", "11:00:00"], pa.string()),
        (["", "?"], pa.string()),
        (["x", "1"], pa.string()),
    ],
    ids=str,
)
def test_types_as_a_sample_suggests(opened, values, kind):
    source = opened("key,value\n" + "".join(f"k,{value}\n" for value in values))
    assert source.types["value"] == kind
    assert full_table(source).schema.field("value").type == kind


def test_names_keep_their_digits(opened):
    assert [row["zip"] for row in rows(opened("zip,n\n007,1\n123,2\n"))] == ["007", "123"]


def test_whole_numbers_are_distinguished_from_fractions(opened):
    source = opened("a,b,c\n1,1.0,x\n2,2,y\n")
    assert source.whole == {"a"}


def test_names_that_come_again_and_again_are_codes(opened):
    few = "".join(f"{'xyz'[i % 3]},{i}\n" for i in range(30))
    many = "".join(f"{'vwxyz'[i % 4]},{i}\n" for i in range(30))
    assert opened("a,b\n" + few).types["a"] == CODES  # 3 of 30
    assert opened("a,b\n" + many).types["a"] == pa.string()  # 4 of 30 are more than a tenth
    assert rows(opened("a,b\n" + few))[:2] == [{"a": "x", "b": 0.0}, {"a": "y", "b": 1.0}]


def test_types_can_be_given(opened):
    source = opened("a,b\n1,2\n3,4\n", types={"a": pa.string(), "b": pa.int16(), "elsewhere": pa.bool_()})
    assert source.types == {"a": pa.string(), "b": pa.int16()}
    assert rows(source) == [{"a": "1", "b": 2}, {"a": "3", "b": 4}]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiter_and_line_end_are_detected(opened, delimiter, end):
    lines = [("name", "note", "n"), ("Ann", '"a, b; c|d"', "1"), ("Bob", '"two\nlines"', "2"), ("Eve", "", "3")]
    text = "".join(delimiter.join(line) + end for line in lines)
    assert [row["n"] for row in rows(opened(text))] == [1.0, 2.0, 3.0]
    assert rows(opened(text))[1]["note"] == "two\nlines"


def test_a_given_delimiter_rules(opened):
    assert opened("a;b,c\n1;2,3\n2;3,4\n", delimiter=";").columns == ("a", "b,c")


def test_a_single_column_needs_nothing_that_separates(opened):
    assert rows(opened('text\nhello\n"so, so"\n')) == [{"text": "hello"}, {"text": "so, so"}]


def test_comments_blank_lines_and_a_byte_order_mark_are_passed_over(opened):
    source = opened(b"\xef\xbb\xbf# made by hand\n\n# twice\na,b\n1,2\n\n3,4")
    assert source.columns == ("a", "b")
    assert [row["a"] for row in rows(source)] == [1.0, 3.0]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "cp1252"])
def test_other_encodings(opened, encoding):
    source = opened("naïve,n\ncafé,1\n".encode(encoding), encoding=encoding)
    assert rows(source) == [{"naïve": "café", "n": 1.0}]


def test_utf_16_is_known_by_its_first_bytes(opened):
    assert rows(opened("a\tb\nä\t1\n".encode("utf-16"))) == [{"a": "ä", "b": 1.0}]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.csv.gz", gzip.compress),
        ("a.csv.bz2", bz2.compress),
        ("a.csv.zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
        ("packed-without-saying-so.csv", gzip.compress),
        ("two-members.csv.gz", lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:])),
    ],
    ids=["gz", "bz2", "zst", "hidden", "members"],
)
def test_compressed(opened, name, pack):
    assert rows(opened(pack(b"a,b\n1,x\n2,y\n"), name)) == [{"a": 1.0, "b": "x"}, {"a": 2.0, "b": "y"}]


def test_a_header_without_rows(opened):
    source = opened("a,b\n")
    assert source.columns == ("a", "b")
    assert list(source.batches()) == []
    assert source.sample().column_names == ["a", "b"]
    assert source.head().num_rows == 0


def test_quotes_as_python_reads_them(opened):
    text = 'a,b,c\n"x""y",5" pipe,"q"z\n"1\n2",,"a,b"\n5",7"," x"\n'
    expected = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert [list(row.values()) for row in rows(opened(text, missing=["-"]))] == [
        [cell or None for cell in row] for row in expected
    ]


HOSTILE = st.text(st.sampled_from(list('a"\n\r,;|\t #é\u2028😀 ')), max_size=8)


@given(st.lists(st.tuples(HOSTILE, HOSTILE), min_size=1, max_size=20))
def test_hostile_cells_come_out_as_python_writes_them(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("hostile") / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([("first", "second"), *cells])
    source = open_source([path], delimiter=",", missing=[], types={"first": pa.string(), "second": pa.string()})
    # An empty cell, or a single blank, is a missing value.
    assert [tuple(row.values()) for row in rows(source)] == [
        tuple(cell if cell not in ("", " ") else None for cell in row) for row in cells
    ]


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a.csv is empty"),
        (" \n\n", "a.csv is empty"),
        ("# only\n# comments\n", "a.csv holds only comments"),
        ("1,2\n3,4\n", "the first line of a.csv holds numbers (1, 2): if it is a row, give header=False"),
        ("a,b\n1,2\n3\n", "row 2 of a.csv (line 3) has 1 field, but the header has 2: write ','"),
        (
            "a,b\n1,2\n3,4,5\n",
            "row 2 of a.csv (line 3) has 3 fields, but the header has 2: quote fields that contain ','",
        ),
        ('# note\na,b\n"x\ny",2\n\n3,4,5\n', "row 2 of a.csv (line 6) has 3 fields"),
        ('a,b\n1,2\n3,"open\n5,6\n', "the quote opened in line 3 of a.csv is not closed"),
        ("a,b\n1,x\0y\n", "a.csv holds NUL bytes"),
        (
            b"a,b\n1,2\n" + b"3,x\n" * 20_000 + b"3,caf\xe9\n",
            "row 20002 of a.csv (line 20003) is not UTF-8 (byte 0xe9)",
        ),
        (b"PK\x03\x04rest", "a.csv is a ZIP archive or a spreadsheet"),
        (gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:40], "a.csv is damaged"),
        (bytes(range(256)) * 20, "a.csv holds NUL bytes"),
    ],
    ids=lambda v: None if isinstance(v, bytes) else str(v)[:30],
)
def test_errors_are_one_line(tmp_path, monkeypatch, text, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DecibanError) as error:
        rows(open_source(["a.csv"]))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_names_that_are_numbers_can_be_quoted(opened):
    assert opened('"1","2"\n3,4\n').columns == ("1", "2")


@pytest.fixture
def long_file(tmp_path, monkeypatch):
    """A file whose end is not in the sample: long("1,x", "oops,x") ends so after many rows."""
    monkeypatch.setattr("deciban.sources.csv.SAMPLE_ROWS", 50)
    monkeypatch.chdir(tmp_path)

    def write(row, last, many=100_000):
        (tmp_path / "a.csv").write_text("a,b\n" + f"{row}\n" * many + f"{last}\n")
        return open_source(["a.csv"])

    return write


@pytest.mark.parametrize(
    ("last", "says"),
    [
        ("oops,x", "has 'oops' in column 'a', where other rows hold numbers"),
        ("1", "has 1 field, but the header has 2"),
        ("1,x\0", "holds a NUL byte"),
    ],
)
def test_a_later_row_that_does_not_fit_is_named(long_file, last, says):
    with pytest.raises(DecibanError) as error:
        rows(long_file("1,x", last))
    assert str(error.value).startswith(f"row 100001 of a.csv (line 100002) {says}")
    if "oops" in last:
        assert "--missing 'oops'" in str(error.value)
        assert "--schema a=category" in str(error.value)


@pytest.mark.parametrize(
    ("row", "last", "what"),
    [("true,x", "maybe,x", "true or false"), ("2024-01-01,x", "soon,x", "dates"), ("1,x", "5,5,x", None)],
)
def test_errors_name_the_expected_type(long_file, row, last, what):
    with pytest.raises(DecibanError, match=f"other rows hold {what}" if what else "has 3 fields"):
        rows(long_file(row, last))


def test_a_row_after_many_blocks_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("deciban.sources.blocks.BLOCK_BYTES", 1000)
    monkeypatch.setattr("deciban.sources.csv.SAMPLE_ROWS", 50)
    monkeypatch.chdir(tmp_path)
    lines = ['1,"two\nlines"'] * 20_000 + ["x,y"] + ["1,2"] * 100
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(line + "\n" for line in lines))
    batches = open_source(["a.csv"]).batches()
    assert next(batches).first == 0  # what came before was read
    with pytest.raises(DecibanError, match=r"^row 20001 of a\.csv \(line 40002\) has 'x' in column 'a'"):
        list(batches)


def test_a_quote_that_swallows_the_rest_is_refused_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr("deciban.sources.blocks.BLOCK_BYTES", 1000)
    monkeypatch.setattr("deciban.sources.blocks.MAX_RECORD_BYTES", 10_000)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n" + '3,"open\n' + "1,2\n" * 100_000)
    with pytest.raises(DecibanError, match=r"the quote opened in line 3 of a\.csv is not closed"):
        rows(open_source(["a.csv"]))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n" + "x" * 500_000 + "\n")
    with pytest.raises(DecibanError, match=r"line 3 of a\.csv is longer than"):
        rows(open_source(["a.csv"]))


# ---------------------------------------------------------------------- several files


def test_files_with_columns_in_another_order(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,a\n2,b\n")
    (tmp_path / "b.csv").write_text("y;x\nc;3.5\n")
    source = open_source([tmp_path / "a.csv", tmp_path / "b.csv"])
    batches = [(batch.first, batch.file, batch.table.to_pylist()) for batch in source.batches()]
    assert [first for first, _, _ in batches] == [0, 2]
    assert batches[1][1] == str(tmp_path / "b.csv")
    assert batches[1][2] == [{"x": 3.5, "y": "c"}]
    assert source.sample().num_rows == 3


def test_types_are_inferred_over_all_files(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z\n1,2024-01-01,5\n")
    (tmp_path / "b.csv").write_text("z,x,y\n?,one,2024-01-01 10:00:00\n")
    source = open_source([str(tmp_path / "*.csv")])
    assert source.types == {"x": pa.string(), "y": pa.timestamp("ns"), "z": pa.float64()}
    assert [row["x"] for row in rows(source)] == ["1", "one"]


def test_a_file_with_other_columns_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,z\n1,2\n")
    with pytest.raises(
        DecibanError, match=r"b\.csv does not have the columns of a\.csv: it lacks 'y' and also has 'z'"
    ):
        open_source(["a.csv", "b.csv"])


def test_an_error_in_the_second_file_counts_its_own_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n1,2\n")
    (tmp_path / "b.csv").write_text("x,y\n1,2\n1\n")
    with pytest.raises(DecibanError, match=r"^row 2 of b\.csv \(line 3\)"):
        rows(open_source(["a.csv", "b.csv"]))


def test_a_file_that_changes_its_columns_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr("deciban.sources.open.MAX_KEPT_BYTES", 0)  # or it would be read only once
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,2\n")
    source = open_source([path])
    path.write_text("x,z\n1,2\n")
    with pytest.raises(FileError, match="changed"):
        rows(source)


# ---------------------------------------------------------------------- wide files


def test_too_many_columns_are_refused_before_they_are_read(opened, monkeypatch):
    def read_csv(*_):
        raise AssertionError("rows were read")

    monkeypatch.setattr("deciban.sources.csv.read_csv", read_csv)
    names = ",".join(f"c{j}" for j in range(100_000))
    with pytest.raises(DecibanError) as error:
        opened(names + "\n" + "1," * 99_999 + "1\n")
    assert re.search(r"100,000 columns.* 65,536", str(error.value))


def test_columns_of_wide_files_are_compared_in_time():
    def compare(d):
        names = [f"c{j}" for j in range(d)]
        check_same_columns(names, names[::-1], "a.csv", "b.csv")

    assert growth(partial(compare, 1000), partial(compare, 16_000), 60) <= 60, "16, were it linear"


def test_columns_of_wide_tables_are_replaced_in_time():
    def replace(d):
        table = pa.table([pa.array(["x"]).dictionary_encode()] * d, names=[f"c{j}" for j in range(d)])
        return as_written(table, ())

    assert replace(3).to_pylist() == [{"c0": "x", "c1": "x", "c2": "x"}]
    assert growth(partial(replace, 500), partial(replace, 8000), 60) <= 60, "16, were it linear"


def test_few_of_many_renamed_columns_are_reported(opened):
    with pytest.warns(DataWarning) as caught:
        source = opened(",".join(["a"] * 50) + "\n" + ",".join(["1.5"] * 50) + "\n")
    assert len(source.columns) == 50
    assert len(caught) == 11
    assert str(caught[-1].message).endswith("39 more columns were renamed")
