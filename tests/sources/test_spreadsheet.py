"""Spreadsheets, written by other libraries."""

from __future__ import annotations

import datetime
import io
import zipfile

import pyarrow as pa
import pytest

from deciban.errors import DataWarning, DecibanError, FileError
from deciban.sources import open_source, spreadsheet

pytest.importorskip("python_calamine", reason="python-calamine reads spreadsheets")
xlsxwriter = pytest.importorskip("xlsxwriter", reason="XlsxWriter writes them")

DAY = datetime.datetime(2021, 12, 23)
ROWS = [["when", "n", "price", "ok", "town", "zip"], [DAY, 3, 1.5, True, "Ghent", "01234"],
        [DAY + datetime.timedelta(days=1), 4, None, False, "?", "99999"]]  # fmt: skip


def write(path, sheets):
    book = xlsxwriter.Workbook(path)
    book.set_properties({"created": DAY})  # so that the same cells are the same bytes
    day = book.add_format({"num_format": "yyyy-mm-dd"})
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for i, row in enumerate(rows):
            for j, cell in enumerate(row):
                if isinstance(cell, datetime.datetime):
                    sheet.write_datetime(i, j, cell, day)
                elif cell is not None:
                    sheet.write(i, j, cell)
    book.close()
    return path


def ods(path, rows):
    """An OpenDocument sheet, by hand."""
    cells = "".join(
        "<table:table-row>"
        + "".join(
            f'<table:table-cell office:value-type="float" office:value="{cell}"/>'
            if isinstance(cell, int | float)
            else f'<table:table-cell office:value-type="string"><text:p>{cell}</text:p></table:table-cell>'
            for cell in row
        )
        + "</table:table-row>"
        for row in rows
    )
    names = ["office:1.0", "table:1.0", "text:1.0"]
    spaces = " ".join(f'xmlns:{n.split(":")[0]}="urn:oasis:names:tc:opendocument:xmlns:{n}"' for n in names)
    content = f'<table:table table:name="One">{cells}</table:table>'
    for tag in ("office:spreadsheet", "office:body"):
        content = f"<{tag}>{content}</{tag}>"
    content = f'<?xml version="1.0"?><office:document-content {spaces}>{content}</office:document-content>'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", '<?xml version="1.0"?><manifest/>')
        archive.writestr("content.xml", content)
    return path


def table(source):
    return pa.concat_tables([batch.table for batch in source.batches()])


def test_cells_keep_their_types(tmp_path):
    source = open_source([write(tmp_path / "a.xlsx", {"One": ROWS})])
    assert source.columns == ("when", "n", "price", "ok", "town", "zip")
    assert source.whole == {"n"}
    rows = table(source).to_pylist()
    assert rows[0] == {"when": DAY.date(), "n": 3.0, "price": 1.5, "ok": True, "town": "Ghent", "zip": "01234"}
    assert (rows[1]["price"], rows[1]["town"]) == (None, None)


def test_open_document(tmp_path):
    source = open_source([ods(tmp_path / "a.ods", [["x", "name"], [1.5, "a"], [2, "b"]])])
    assert table(source).to_pylist() == [{"x": 1.5, "name": "a"}, {"x": 2.0, "name": "b"}]


def test_sheets(tmp_path):
    path = write(tmp_path / "a.xlsx", {"empty": [], "first": [["x"], [1]], "second": [["y"], [2]]})
    with pytest.warns(DataWarning, match="'first' is read"):
        assert open_source([path]).columns == ("x",)
    assert open_source([path], sheet="second").columns == ("y",)
    with pytest.raises(
        DecibanError, match=r"^\S*a\.xlsx has no sheet 'third': choose one of 'empty', 'first', 'second'"
    ):
        open_source([path], sheet="third")


def test_blank_rows_and_short_rows(tmp_path):
    path = write(tmp_path / "a.xlsx", {"One": [[], ["a", "b"], [], ["x", 1], ["y"], []]})
    assert table(open_source([path])).to_pylist() == [{"a": "x", "b": 1.0}, {"a": "y", "b": None}]


def test_without_a_header(tmp_path):
    path = write(tmp_path / "a.xlsx", {"One": [[5.1, "a"], [4.9, "b"], [4.7, "a"]]})
    with pytest.warns(DataWarning, match="looks like data"):
        source = open_source([path])
    assert source.columns == ("column1", "column2")
    assert table(source).num_rows == 3


def test_mixed_cells_are_strings(tmp_path):
    source = open_source([write(tmp_path / "a.xlsx", {"One": [["x"], [1], ["two"], [2.5], [True]]})])
    assert table(source)["x"].to_pylist() == ["1", "two", "2.5", "True"]


def test_by_its_first_bytes(tmp_path):
    write(tmp_path / "a.xlsx", {"One": ROWS}).rename(tmp_path / "noname")
    assert open_source([tmp_path / "noname"]).columns[0] == "when"


def test_several_files_are_one_table(tmp_path):
    paths = [write(tmp_path / f"{name}.xlsx", {"One": ROWS}) for name in "ab"]
    source = open_source(paths)
    assert table(source).num_rows == 4
    assert len(set(source.digests())) == 1


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04rest", b"", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 600, b"a,b\n1,2\n"]
)
def test_what_is_no_spreadsheet(tmp_path, content):
    (tmp_path / "a.xlsx").write_bytes(content)
    with pytest.raises(FileError, match=r"a\.xlsx"):
        open_source([tmp_path / "a.xlsx"])


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(spreadsheet, "MAX_UNPACKED_BYTES", 1 << 20)
    path = write(tmp_path / "a.xlsx", {"One": ROWS})
    packed = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/bomb.xml", b"0" * (2 << 20))
    path.write_bytes(packed.getvalue())
    with pytest.raises(FileError, match="unpacks to 2 MB"):
        open_source([path])


def test_a_model_learns_and_answers_a_spreadsheet(tmp_path):
    from deciban import Classifier

    rows = [["size", "class"], *([i % 7 + 10.5 * (i % 2), "ab"[i % 2]] for i in range(60))]
    path = write(tmp_path / "a.xlsx", {"One": rows})
    model = Classifier().fit(path, "class")
    assert model.score(path, "class") == 1.0


def test_titles_above_a_table_and_empty_columns_are_left_out(tmp_path):
    rows = [["Sales of the third quarter"], [], [None, "town", "n", None], [None, "Ghent", 3], [None, "Lyon", 4]]
    path = write(tmp_path / "a.xlsx", {"One": rows})
    with pytest.warns(DataWarning, match="one row .*title"):
        rows = table(open_source([path])).to_pydict()
    assert rows == {"town": ["Ghent", "Lyon"], "n": [3.0, 4.0]}
