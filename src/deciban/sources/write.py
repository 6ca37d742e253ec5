"""Write rows to a file, atomically, or to standard output."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deciban.errors import DecibanError, FileError
from deciban.reading.arrow import strings
from deciban.show import one_line
from deciban.sources.column_types import as_number, with_columns
from deciban.sources.csv_cells import cells, lines, string
from deciban.sources.formulas import escape_formulas
from deciban.sources.open import ENDINGS, FORMATS, TABLES
from deciban.storage.atomic import flush_folder, umask, write_errors

TYPED = ("parquet", "arrow")
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd"}


def write_rows(
    path: str | os.PathLike[str] | None,
    tables: Iterable[pa.Table],
    *,
    format: str | None = None,  # noqa: A002 - what everybody calls it
    whole: Collection[str] = (),
    escape: bool = False,
) -> int:
    """Write tables with the same columns one after another; returns the number of rows.

    A file is written under a temporary name and renamed when complete; on an error the old one stays. The format
    follows the extension (.csv, .tsv, .jsonl, .parquet, .arrow, .feather, .xlsx; with .gz or .zst compressed). `None`
    and "-" are standard output, as CSV unless `format` is given; a closed pipe ends writing without an error.
    Columns of floats that are `whole` are written as integers. In Parquet and Arrow, in which a column has one type, a
    fraction among them is a `FractionError`. `escape` keeps spreadsheets from running strings of CSV as formulas, which
    then are not read back as they were.

    >>> import pyarrow as pa
    >>> write_rows("-", [pa.table({"label": ["spam", "so, so"], "p": [0.5, None]})])
    label,p
    spam,0.5
    "so, so",
    2
    """
    place = None if path is None or os.fspath(path) == "-" else Path(path)
    chosen, delimiter, packer = chosen_format(place, format)
    if escape:
        if chosen != "csv":
            raise DecibanError(
                "--escape-formulas is for CSV and TSV; formulas in {format} are never run: leave it out, or write .csv",
                format=chosen,
            )
        tables = (escape_formulas(decoded_dictionaries(table)) for table in tables)
    if place is None:
        return to_standard_output(tables, chosen, delimiter, whole)
    with atomic_writer(place) as file:
        return write(file, tables, chosen, delimiter, packer, whole)


def is_csv(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name is CSV, in which a number is whatever its text is read as."""
    return chosen_format(Path(path), None)[0] == "csv"


def is_typed(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name has a type for each column, and not text."""
    return chosen_format(Path(path), None)[0] in TYPED


def chosen_format(path: Path | None, format: str | None) -> tuple[str, str, str | None]:  # noqa: A002 - as above
    """The format, the delimiter and the compression."""
    endings = [ending.lower() for ending in path.suffixes[-2:]] if path else []
    packer = COMPRESSIONS.get(endings[-1]) if endings else None
    ending = (endings[-2:-1] if packer else endings[-1:]) or [""]
    named = (format or "").lower()
    delimiter = "\t" if named == "tsv" or (not named and ending[0] in (".tsv", ".tab")) else ","
    chosen = FORMATS.get(named) if named else "csv" if path is None else ENDINGS.get(ending[0])
    if chosen not in TABLES:
        what = f"{format!r} is not a format that can be written" if named else f"{path} has no known extension"
        raise DecibanError(
            "{problem}: use .csv, .tsv, .jsonl, .parquet, .arrow or .xlsx, or give one of them as the format",
            problem=what,
            command_line="{problem}: use .csv, .tsv, .jsonl, .parquet, .arrow or .xlsx",
        )
    if chosen == "spreadsheet" and (named or ending[0]).lstrip(".") not in ("xlsx", "spreadsheet"):
        raise DecibanError("spreadsheets are written as .xlsx, not as {value}", value=named or ending[0])
    if packer and chosen in (*TYPED, "spreadsheet"):
        raise DecibanError(
            "{file} would be compressed twice, because {format} is already compressed: leave out {ending}",
            file=str(path),
            format=chosen,
            ending=endings[-1],
        )
    return chosen, delimiter, packer


def to_standard_output(tables: Iterable[pa.Table], chosen: str, delimiter: str, whole: Collection[str]) -> int:
    out: Any = getattr(sys.stdout, "buffer", None) or Encoded(sys.stdout)
    counted = Counted(out)
    try:
        sys.stdout.flush()
        rows = write(counted, tables, chosen, delimiter, None, whole)
        out.flush()
        return rows
    except BrokenPipeError:
        # The reader has closed the pipe. Discard what Python would still flush at exit.
        with suppress(OSError, ValueError):
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, sys.stdout.fileno())
            os.close(null_device)
        return counted.rows


def write(
    file: Any,
    tables: Iterable[pa.Table],
    chosen: str,
    delimiter: str,
    packer: str | None,
    whole: Collection[str] = (),
) -> int:
    counted = file if isinstance(file, Counted) else Counted(file)
    sink: Any = counted
    if packer is not None:
        sink = pa.CompressedOutputStream(pa.PythonFile(counted, mode="w"), packer)
    writer: Writer | None = None
    try:
        for table in tables:
            decoded = decoded_dictionaries(table)
            if chosen in TYPED:
                decoded = with_integers(decoded, whole)
            if writer is None:
                writer = WRITERS[chosen](sink, decoded.schema, delimiter, whole)
            elif decoded.schema != writer.schema:
                raise DecibanError(
                    "tables written to one file must have the same columns and types: {columns} and {others} differ",
                    columns=writer.schema.names,
                    others=decoded.schema.names,
                )
            writer.write(decoded)
            counted.rows += decoded.num_rows
        if writer is None:
            writer = WRITERS[chosen](sink, pa.schema([]), delimiter, whole)
        writer.close()
        if packer is not None:
            sink.close()
    except BaseException:
        counted.abandon()
        with suppress(Exception):
            if writer is not None:
                writer.close()
        raise
    return counted.rows


class Counted(io.RawIOBase):
    """A wrapper around any output that counts bytes and rows, and that writers cannot close."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self._at = 0
        self.rows = 0

    def writable(self) -> bool:
        return True

    def abandon(self) -> None:
        """Discard what writers still write when they are closed."""
        self._out = io.BytesIO()

    def write(self, data: Any) -> int:
        self._out.write(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        pass


class Encoded:
    """A text stream as a byte stream, if there is no other (in notebooks)."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def write(self, data: Any) -> None:
        self._out.write(bytes(data).decode())

    def flush(self) -> None:
        self._out.flush()


def decoded_dictionaries(table: pa.Table) -> pa.Table:
    """Dictionary columns decoded: the codes of one table are not those of the next."""
    return with_columns(
        table,
        {
            i: column.cast(column.type.value_type)
            for i, column in enumerate(table.columns)
            if pa.types.is_dictionary(column.type)
        },
    )


class FractionError(DecibanError):
    """A column that should hold whole numbers has a fraction."""


def with_integers(table: pa.Table, whole: Collection[str]) -> pa.Table:
    """Columns of floats that are whole as integers."""
    changed = {}
    for i, field in enumerate(table.schema):
        if field.name in whole and pa.types.is_floating(field.type):
            try:
                changed[i] = table.column(i).cast(pa.int64())
            except pa.ArrowInvalid:
                raise FractionError("column {column!r} holds fractions", column=field.name) from None
    return with_columns(table, changed)


# ---------------------------------------------------------------------- formats


class Writer(ABC):
    """Writes tables one after another."""

    def __init__(self, sink: Any, schema: pa.Schema, delimiter: str, whole: Collection[str] = ()) -> None:
        self._sink, self.schema, self._delimiter, self._whole = sink, schema, delimiter, whole
        self._begin()

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None:  # noqa: B027 - most formats have no footer
        pass

    def _check_column_types(self) -> None:
        for field in self.schema:
            if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
                raise DecibanError(
                    "column {column!r} holds {type}, which cannot be written as text: write .parquet",
                    column=field.name,
                    type=field.type,
                )


class CsvWriter(Writer):
    """CSV, with quotes only if needed."""

    def _begin(self) -> None:
        self._check_column_types()
        # A name that is a number is quoted, so that the header is not read as a row.
        names = cells(strings(self.schema.names, pa.string())).to_pylist()
        names = [f'"{name}"' if as_number(name) is not None else name for name in names]
        if names:
            self._sink.write((self._delimiter.join(names) + "\n").encode())

    def write(self, table: pa.Table) -> None:
        nothing = string('""' if table.num_columns == 1 else "")  # a blank line is not a row
        for batch in table.combine_chunks().to_batches():
            if not batch.num_rows:
                continue
            columns = [pc.fill_null(cells(column), nothing) for column in batch.columns]
            self._sink.write(lines(columns, self._delimiter))


class JsonWriter(Writer):
    """One object per line, with null for missing values."""

    def _begin(self) -> None:
        self._check_column_types()

    def write(self, table: pa.Table) -> None:
        for batch in table.to_batches(1 << 14):
            rows = ({name: self._value(name, value) for name, value in row.items()} for row in batch.to_pylist())
            try:
                lines = [json.dumps(row, ensure_ascii=False, allow_nan=False, default=as_text) for row in rows]
            except ValueError:
                raise DecibanError(
                    "JSON cannot hold infinite numbers, but there is one: write .csv or .parquet"
                ) from None
            self._sink.write("".join(line + "\n" for line in lines).encode())

    def _value(self, name: str, value: Any) -> Any:
        """A value for JSON: NaN is missing, and 35.0 is 35 in a column of whole numbers."""
        if value != value:
            return None
        return int(value) if name in self._whole and isinstance(value, float) and value.is_integer() else value


def as_text(value: Any) -> str:
    """A value that JSON has no type for: dates and times in ISO 8601."""
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


class ParquetWriter(Writer):
    def _begin(self) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(self._sink, self.schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()


class ArrowWriter(Writer):
    """An IPC file, which is Feather's second version too."""

    def _begin(self) -> None:
        options = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None)
        self._writer = pa.ipc.new_file(pa.PythonFile(self._sink, mode="w"), self.schema, options=options)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, 1 << 16)

    def close(self) -> None:
        self._writer.close()


class SpreadsheetWriter(Writer):
    """One sheet of an .xlsx file."""

    def _begin(self) -> None:
        from deciban.sources.sheet_writer import SheetWriter

        self._check_column_types()
        self._sheet = SheetWriter(self._sink, self.schema.names)

    def write(self, table: pa.Table) -> None:
        self._sheet.write(table)

    def close(self) -> None:
        self._sheet.close()


WRITERS: dict[str, type[Writer]] = {
    "csv": CsvWriter,
    "json": JsonWriter,
    "parquet": ParquetWriter,
    "arrow": ArrowWriter,
    "spreadsheet": SpreadsheetWriter,
}


# ---------------------------------------------------------------------- atomic writing


@contextmanager
def atomic_writer(path: Path) -> Iterator[Any]:
    """A temporary file that replaces `path` on success. Anything but a regular file (a pipe) is written directly."""
    name = one_line(str(path))
    if path.is_dir():
        raise FileError("cannot write {file}, which is a folder: give the name of a file", file=name)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))  # with links resolved
    if not target.parent.is_dir():
        raise FileError(
            "cannot write {file}: there is no folder {folder}", file=name, folder=one_line(str(target.parent))
        )
    try:
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    except OSError as error:
        raise FileError("cannot write {file}: {problem}", file=name, problem=error.strerror) from None
    try:
        with write_errors(target), os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~umask())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    flush_folder(target)
