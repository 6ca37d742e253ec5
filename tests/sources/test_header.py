"""Files as they come: without a header, with an unnamed first column, in encodings of Windows, with loose quotes."""

from __future__ import annotations

import io
from functools import partial

import pytest
from effort import growth

from deciban.errors import DataWarning, DecibanError, FileError
from deciban.sources import open_source
from deciban.sources.csv_dialect import read_header
from deciban.sources.header import has_header, unique_names


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(content, name="a.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return written


def rows(source):
    return [tuple(row.values()) for batch in source.batches() for row in batch.table.to_pylist()]


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("age,job\n39,clerk\n50,cook\n", True),
        ("39,clerk\n50,cook\n28,clerk\n31,clerk\n", False),
        ("5.1,3.5,Iris-setosa\n4.9,3.0,Iris-setosa\n", False),  # nobody calls a column 5.1
        ("country,2019,2020\nFR,5,6\nDE,7,8\n", True),  # a table of years
        ("2019,2020\n5,7\n", None),
        ("5,red,a\n6,blue,b\n7,green,a\n", False),  # beside a number, one that comes again is enough
        ("red,tall,a\nblue,low,b\ngreen,low,a\n", True),  # without numbers it is not
        ("1,14.23,1.71\n1,13.2,1.78\n", False),
        ("ham,Go until jurong\nspam,Free entry\nham,Ok lar\nham,Nah\n", False),
        ("label,text\nspam,Free entry\nham,Ok lar\nham,Nah\n", True),
        ("a,b\nx,y\nx,z\n", True),
        ("?,clerk\n50,clerk\n28,clerk\n?,clerk\n", True),  # not known is no number: better lose a row than a name
        ("a,b\n", True),
        ("1,2\n", None),
    ],
)
def test_whether_the_first_line_names_the_columns(text, header):
    assert has_header([line.split(",") for line in text.splitlines()]) is header


def test_a_file_without_a_header_is_read_whole(write):
    name = write("39,clerk\n50,cook\n28,clerk\n31,clerk\n")
    with pytest.warns(DataWarning, match="first line of a.csv"):
        source = open_source([name])
    assert source.columns == ("column1", "column2")
    assert rows(source)[0] == (39.0, "clerk")
    assert len(rows(source)) == 4


def test_whoever_knows_says_so(write):
    name = write("1,2\n3,4\n")
    with pytest.raises(DecibanError, match="header=False"):
        open_source([name])
    assert rows(open_source([name], header=False)) == [(1.0, 2.0), (3.0, 4.0)]
    assert open_source([name], header=True).columns == ("1", "2")
    name = write("x,y\nx,z\nx,w\nx,y\n")
    assert open_source([name], header=True).columns == ("x", "y")


def test_lines_are_counted_as_the_file_has_them(write):
    name = write("5.1,a\n" * 30 + "5.1\n")
    with pytest.raises(DecibanError, match=r"row 31 of a.csv \(line 31\) has 1 field"):
        rows(open_source([name], header=False))


def test_the_index_of_a_data_frame(write):
    assert open_source([write(",a,b\n0,1.5,x\n1,2.5,y\n")]).columns == ("index", "a", "b")
    assert open_source([write("a,,b\n1,2,3\n")]).columns == ("a", "column2", "b")
    assert open_source([write("a,b,\n1,2,\n")]).columns == ("a", "b", "column3")


def test_a_name_that_comes_twice(write):
    name = write("a,b,a,a (2)\n1,2,3,4\n")
    with pytest.warns(DataWarning, match=r"columns 1 and 3 .*'a'.*'a \(3\)'"):
        assert open_source([name]).columns == ("a", "b", "a (3)", "a (2)")


def test_text_of_windows_is_read_with_a_note(write):
    name = write("town;n\nMünchen;5\nKöln;€6\n".encode("cp1252"))
    with pytest.warns(DataWarning, match=r"a.csv .*byte 0xfc.*Windows-1252"):
        source = open_source([name])
    assert rows(source) == [("München", "5"), ("Köln", "€6")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_byte_order_marks(write, encoding):
    source = open_source([write("town\tn\nMünchen\t5\n".encode(encoding), "a.tsv")])
    assert rows(source) == [("München", 5.0)]


def test_quotes_in_texts_between_tabs_are_quotes(write):
    text = 'label\ttext\nham\t"Hello there\nham\tok\nspam\t"Win" a prize\nham\tsaid "no"\n'
    assert rows(open_source([write(text, "a.tsv")])) == [
        ("ham", '"Hello there'),
        ("ham", "ok"),
        ("spam", '"Win" a prize'),
        ("ham", 'said "no"'),
    ]
    quoted = 'label\ttext\nham\t"Hello\nthere"\nham\tok\n'  # a line does end within quotes here
    assert rows(open_source([write(quoted, "a.tsv")])) == [("ham", "Hello\nthere"), ("ham", "ok")]


def test_a_thousand_messages_with_loose_quotes_are_cut_into_lines(write, monkeypatch):
    monkeypatch.setattr("deciban.sources.blocks.BLOCK_BYTES", 100)
    text = "label\ttext\n" + "".join(
        f"{'ham' if i % 2 else 'spam'}\t{chr(34) * (i % 3 == 0)}message {i}\n" for i in range(1000)
    )
    source = open_source([write(text, "a.tsv")])
    assert len(rows(source)) == 1000
    assert source.sample(10).num_rows == 10


def test_equal_names_of_a_wide_file_are_numbered_in_time():
    def rename(d):
        unique_names(["a"] * d)

    assert growth(partial(rename, 1000), partial(rename, 16_000), 60) <= 60, "16, were it linear"
    assert unique_names(["a", "a", "a (2)", "a", "b", "b"])[0] == ("a", "a (3)", "a (2)", "a (4)", "b", "b (2)")


def test_a_wide_header_of_numbers_is_detected_in_time():
    def detect(d):
        has_header([[str(j) for j in range(d)], ["1"] * d])

    assert growth(partial(detect, 1000), partial(detect, 16_000), 60) <= 60, "16, were it linear"


def test_a_quote_that_is_never_closed_is_searched_in_time():
    def search(lines):
        read_header(io.BytesIO(b'"a,b\n' + b"1,2\n" * lines), "t.csv")

    assert growth(partial(search, 50_000), partial(search, 800_000), 60) <= 60, "16, were it linear"


@pytest.mark.parametrize("header", ['"a,b\n' + "1,2\n" * 40_000, "a" * 200_000 + ",b\n1,2\n"])
def test_a_name_without_end_is_refused(write, header):
    with pytest.raises(FileError, match=r"a.csv .*131,072 characters"):
        open_source([write(header)])
