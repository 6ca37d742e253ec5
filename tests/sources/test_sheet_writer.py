"""Rows written as a sheet of an .xlsx file."""

from __future__ import annotations

import datetime
import math

import pyarrow as pa
import pytest

from deciban.errors import DecibanError
from deciban.sources import open_source, sheet_writer, write_rows

pytest.importorskip("xlsxwriter", reason="XlsxWriter writes spreadsheets")
calamine = pytest.importorskip("python_calamine", reason="python-calamine reads them")


def cells(path) -> list[list]:
    return calamine.load_workbook(path).get_sheet_by_index(0).to_python()


def test_cells_have_types(tmp_path):
    path = tmp_path / "a.xlsx"
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9)
    table = pa.table(
        {
            "n": [1, None, 2**60],
            "x": [1.5, math.nan, math.inf],
            "b": [True, None, False],
            "d": [moment.date(), None, datetime.date(1850, 1, 1)],
            "t": [moment, None, None],
            "s": pa.array(["=1+1", None, ""]).dictionary_encode(),
        }
    )
    assert write_rows(path, [table, table]) == 6
    header, first, second, third, *again = cells(path)
    assert header == ["n", "x", "b", "d", "t", "s"]
    assert first == [1.0, 1.5, True, moment.date(), moment, "=1+1"]
    assert second == [""] * 6
    assert third[:5] == [str(2**60), "inf", False, "1850-01-01", ""]
    assert again == [first, second, third]


def test_times_with_a_zone_are_in_utc(tmp_path):
    path = tmp_path / "a.xlsx"
    times = pa.array([datetime.datetime(2024, 5, 6, 12)], pa.timestamp("us")).cast(pa.timestamp("us", "Europe/Paris"))
    write_rows(path, [pa.table({"t": times})])
    assert cells(path)[1] == [datetime.datetime(2024, 5, 6, 12)]


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "a.xlsx"
    table = pa.table({"n": [1.0, 2.0, 3.0], "s": ["a", "b", "=c"]})
    write_rows(path, [table])
    source = open_source([path])
    assert source.head(3).to_pydict() == table.to_pydict()
    assert source.whole == {"n"}


def test_a_sheet_has_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(sheet_writer, "MAX_ROWS", 4)
    monkeypatch.setattr(sheet_writer, "MAX_COLUMNS", 2)
    path = tmp_path / "a.xlsx"
    assert write_rows(path, [pa.table({"a": [1, 2, 3]})]) == 3
    whole = path.read_bytes()
    with pytest.raises(DecibanError, match="at most 3 rows"):
        write_rows(path, [pa.table({"a": [1, 2, 3]}), pa.table({"a": [4]})])
    with pytest.raises(DecibanError, match=r"2 columns.* 3"):
        write_rows(path, [pa.table({"a": [1], "b": [1], "c": [1]})])
    with pytest.raises(DecibanError, match="32,768 characters in row 1") as raised:
        write_rows(path, [pa.table({"a": ["short", "x" * 32_768]})])
    assert (raised.value.row, raised.value.column) == (1, "a")
    assert path.read_bytes() == whole


@pytest.mark.parametrize("name", ["a.ods", "a.xls", "a.xlsx.gz"])
def test_other_spreadsheets_are_not_written(tmp_path, name):
    with pytest.raises(DecibanError):
        write_rows(tmp_path / name, [pa.table({"a": [1]})])
    assert not (tmp_path / name).exists()
