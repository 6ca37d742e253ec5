"""Spreadsheets (.xlsx, .xlsm, .xlsb, .xls, .ods), read by calamine, an optional dependency. A sheet is a table."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from deciban.errors import DataWarning, DecibanError, FileError, did_you_mean, warn
from deciban.reading.columns import as_name
from deciban.show import optional
from deciban.sources.base import Piece
from deciban.sources.column_types import MISSING
from deciban.sources.header import has_header, numbered_names, unique_names
from deciban.sources.input_file import InputFile, Pass
from deciban.sources.self_describing import SelfDescribing, file_errors

MAX_UNPACKED_BYTES = 1 << 30  # of a file that is a ZIP archive: a small one may unpack to an enormous size
NUMBERS = frozenset({int, float})
MOMENTS = frozenset({datetime.date, datetime.datetime})


class Spreadsheet(SelfDescribing):
    """Tables in sheets: the first sheet that has something in it, or the one of a name."""

    def __init__(
        self,
        name: str,
        files: Sequence[InputFile],
        missing: Sequence[str] | None,
        given: Mapping[str, pa.DataType],
        sheet: str | None = None,
        header: bool | None = None,
    ) -> None:
        super().__init__(name, files, missing)
        absent = frozenset(MISSING if missing is None else missing) | {""}
        self._sheets = [read_sheet(file, sheet, header, absent) for file in files]
        self.rows_expected = sum(table.num_rows for table in self._sheets)
        self._set_columns([table.schema for table in self._sheets], given)
        whole = [set(whole_columns(table)) for table in self._sheets]
        self.whole = frozenset(set.intersection(*whole))

    def _pieces(self, rows: int, one_pass: Pass) -> Iterator[Piece]:
        before = 0
        for file, table in zip(self.files, self._sheets, strict=True):
            one_pass.add(file, file.content())
            before += file.size or 0
            for start in range(0, table.num_rows, rows):
                for batch in table.slice(start, rows).combine_chunks().to_batches():
                    yield Piece(self._as_table(batch, file), file.name, before)


def read_sheet(file: InputFile, sheet: str | None, header: bool | None, missing: frozenset[str]) -> pa.Table:
    """A sheet as a table: numbers, booleans and dates if a column holds nothing else, otherwise strings."""
    cells = [row for row in cells_of(file, sheet) if any(cell != "" for cell in row)]
    if not cells:
        raise FileError("{file} has only empty cells: there is nothing to read", file=file.name)
    cells = without_titles(cells, file.name) if header is not False else without_empty_columns(cells)
    width = max(len(row) for row in cells)
    cells = [[*row, *[""] * (width - len(row))] for row in cells]
    names = headings(file.name, cells, header)
    if names is None:
        names = numbered_names(width)
    else:
        cells = cells[1:]
    columns = zip(*cells, strict=True) if cells else [()] * width
    return pa.table([as_column(column, missing) for column in columns], names=list(names))


def without_empty_columns(cells: list[list[Any]]) -> list[list[Any]]:
    """The columns with anything in them."""
    width = max(len(row) for row in cells)
    filled = [i for i in range(width) if any(i < len(row) and row[i] != "" for row in cells)]
    return [[row[i] if i < len(row) else "" for i in filled] for row in cells]


def without_titles(cells: list[list[Any]], name: str) -> list[list[Any]]:
    """The rows from the first with more than one cell on: a cell alone above a table is a title."""
    start = next((i for i, row in enumerate(cells) if sum(cell != "" for cell in row) > 1), 0)
    if start:
        warn(
            DataWarning(
                "{file}: {count} above the table {verb} treated as a title and skipped",
                file=name,
                count="one row" if start == 1 else f"{start} rows",
                verb="is" if start == 1 else "are",
            )
        )
    return without_empty_columns(cells[start:])


def cells_of(file: InputFile, sheet: str | None) -> list[list[Any]]:
    """The cells of a sheet, row by row, "" where empty."""
    calamine = optional("python_calamine", "a spreadsheet")
    content = file.content()
    check_unpacked_size(content, file.name)
    with file_errors(file.name, "spreadsheet", "save it again", calamine.CalamineError):
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        names = list(book.sheet_names)
        if sheet is not None and sheet not in names:
            raise DecibanError(
                "{file} has no sheet {value!r}: {hint}",
                file=file.name,
                value=sheet,
                hint=did_you_mean(sheet, names, f"choose one of {', '.join(map(repr, names))}"),
            )
        for name in names if sheet is None else [sheet]:
            cells: list[list[Any]] = book.get_sheet_by_name(name).to_python()
            if any(cell != "" for row in cells for cell in row):
                if sheet is None and len(names) > 1:
                    warn(
                        DataWarning(
                            "{file} has {count} sheets; {sheet!r} is read, the first with data: give sheet= to read "
                            "another",
                            command_line="{file} has {count} sheets; {sheet!r} is read, the first with data: give "
                            "--sheet to read another",
                            file=file.name,
                            count=len(names),
                            sheet=name,
                        )
                    )
                return cells
    return []


def check_unpacked_size(content: bytes, name: str) -> None:
    """Refuse an archive that would unpack to more than memory may hold."""
    if not content.startswith(b"PK"):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile:
        raise FileError("{file} is not a complete spreadsheet: save it again", file=name) from None
    if size > MAX_UNPACKED_BYTES:
        raise FileError(
            "{file} unpacks to {size:,} MB, more than a spreadsheet can hold: save it as CSV or Parquet",
            file=name,
            size=size >> 20,
        )


def headings(name: str, cells: Sequence[Sequence[Any]], header: bool | None) -> tuple[str, ...] | None:
    """The names of the columns, None if the first row does not name them."""
    first = [spelled(cell) for cell in cells[0]]
    if header is None:
        named = has_header([[spelled(cell) for cell in row] for row in cells[:1000]])
        header = named is not False  # a row of whole numbers may be a row of years
        if not header:
            warn(
                DataWarning(
                    "the first row of {file} looks like data, so its columns are called column1 to column{count}; give "
                    "header=True if it names them",
                    command_line="the first row of {file} looks like data, so its columns are called column1 to "
                    "column{count}; give --header if it names them",
                    file=name,
                    count=len(first),
                )
            )
    if not header:
        return None
    names, notes = unique_names(first)
    for note in notes:
        warn(DataWarning("{file}: {note}", file=name, note=note))
    return names


def as_column(cells: Sequence[Any], missing: frozenset[str]) -> pa.Array:
    """Cells of one column as Arrow holds them."""
    values = [None if isinstance(cell, str) and cell.strip() in missing else cell for cell in cells]
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= NUMBERS:
        return pa.array(values, pa.float64())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds and kinds <= MOMENTS:
        if kinds == {datetime.date}:
            return pa.array(values, pa.date32())
        return pa.array([value if value is None else as_moment(value) for value in values], pa.timestamp("us"))
    return pa.array([value if value is None else spelled(value) for value in values], pa.string())


def as_moment(value: datetime.date) -> datetime.datetime:
    return value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())


def spelled(cell: Any) -> str:
    """A cell as it would be in CSV."""
    return cell.isoformat() if isinstance(cell, datetime.date | datetime.time) else as_name(cell)


def whole_columns(table: pa.Table) -> list[str]:
    """The columns of numbers without fractions: a spreadsheet stores all numbers as floats."""
    from deciban.sources.column_types import all_whole

    return [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if pa.types.is_floating(column.type) and all_whole(column)
    ]
