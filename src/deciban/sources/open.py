"""From what a user gives (files, folders, patterns, LABEL=PATH, standard input) to a source."""

from __future__ import annotations

import codecs
import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from deciban.errors import DataWarning, DecibanError, FileError, did_you_mean, did_you_mean_file, warn
from deciban.show import one_line
from deciban.sources.base import Source
from deciban.sources.input_file import InputFile, compression

if TYPE_CHECKING:
    from deciban.sources.texts import How, TextFile

MAX_KEPT_BYTES = 1 << 24  # files up to this total are read once and kept: for header, sample, rows and digest
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".zst", ".zstd")
ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "spreadsheet"),
}
TABLES = ("csv", "parquet", "arrow", "json", "spreadsheet")
HOWS: dict[str, How] = {"texts": "file", "lines": "lines", "mail": "mail"}
FORMATS = {  # names that users may give
    **{name: name for name in (*TABLES, *HOWS)},
    "tsv": "csv",
    "feather": "arrow",
    "ipc": "arrow",
    "jsonl": "json",
    "ndjson": "json",
    **dict.fromkeys(("xlsx", "xls", "ods"), "spreadsheet"),
    "txt": "lines",
    "mbox": "mail",
    "maildir": "mail",
    "eml": "mail",
}
LABEL_SEPARATOR = "="
HEADER_BYTES = 1 << 12  # of a stream, in which a first line that names columns ends


@dataclass(frozen=True, slots=True)
class Entry:
    """One input: a table in some format, or documents."""

    file: InputFile | None = None
    format: str | None = None
    texts: tuple[TextFile, ...] = ()


def open_source(
    paths: Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,  # noqa: A002 - what everybody calls it
    delimiter: str | None = None,
    encoding: str = "utf-8",
    missing: Sequence[str] | None = None,
    types: Mapping[str, pa.DataType] | None = None,
    strings: Sequence[str] | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    sheet: str | None = None,
    text_columns: Sequence[str] = (),
) -> Source:
    r"""Open files as one source of rows.

    Parameters
    ----------
    paths : files, patterns ("data/*.csv", "**" for all folders within), folders, or "-" for standard input.
        Tables are CSV (also TSV, and separated by ; or |), Parquet, Arrow (IPC, Feather), JSON lines or arrays of
        objects, and spreadsheets (.xlsx, .xls, .ods; they need python-calamine). CSV and JSON may be compressed (gzip,
        bzip2, Zstandard). A folder with only tables in it is all of them. Texts are a folder with a folder of files for
        each class, or LABEL=PATH with a folder of files, a .txt file (one document per line), an mbox, a Maildir or an
        .eml; without LABEL=, they have no labels. A path that exists is never taken for LABEL=PATH.
    format : "csv", "tsv", "parquet", "arrow", "json", "xlsx", "ods", "texts" (one document per file), "lines" (one per
        line) or "mail"; by default detected from the extension, or from the first bytes.
    delimiter : the separator of fields in CSV; by default detected in the first lines.
    encoding : of text that is not UTF-8. UTF-16 is detected by its first bytes.
    missing : spellings of a missing value; by default, in CSV, ? NA N/A NaN nan null NULL None. An empty cell is always
        missing.
    types : types of columns, by name; by default those of CSV and JSON are inferred from a sample. Unknown names are
        ignored.
    strings : columns of CSV that are read as strings, whatever they hold: a model knows how they write numbers. Other
        formats distinguish numbers from strings.
    decimal : the decimal separator of CSV, "." or ","; by default inferred from a sample.
    header : whether the first line of CSV names the columns; by default detected. Without it they are called column1,
        column2, …
    sheet : the sheet of spreadsheets; by default the first that is not empty.
    text_columns : columns in which texts are expected, for standard input and pipes without a format: if the first line
        names no column, every line is a text.

    Numbers in CSV and JSON are float64, unless they are identifiers: those with leading zeros, and integers beyond 2⁵³.
    Those written as 1,234 or $5 are strings, which `Classifier` reads as numbers.
    Strings are dictionary-encoded if a sample has at most a tenth as many distinct ones as rows.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.csv")
    ...     _ = path.write_text("zip;age\n01234;31\n99999;?\n")
    ...     source = open_source([path])
    ...     source.columns, source.types["zip"], source.head(1).to_pylist()
    (('zip', 'age'), DataType(string), [{'zip': '01234', 'age': 31.0}])
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise DecibanError("there is nothing to read: give files, folders, or - for standard input")
    wanted = known_format(format)
    if format == "tsv" and delimiter is None:
        delimiter = "\t"
    check_text_settings(delimiter, encoding)
    entries = [entry for path in given for entry in entries_of(os.fspath(path), wanted)]
    if text_columns and wanted is None:
        entries = [as_lines_unless_named(entry, text_columns, header) for entry in entries]
        header = None if all(entry.texts for entry in entries) else header
    check_compatible(entries)
    name = display_name([os.fspath(path) for path in given], entries)
    texts = [text_file for entry in entries for text_file in entry.texts]
    files = [entry.file for entry in entries if entry.file is not None]
    keep_small_files([*files, *(text_file.file for text_file in texts)])
    if not files:
        from deciban.sources.texts import text_source

        return text_source(name, texts, encoding)
    table_format = str(entries[0].format)
    types = {**(dict.fromkeys(strings or (), pa.string()) if table_format == "csv" else {}), **(types or {})}
    return open_tables(name, table_format, files, delimiter, encoding, missing, types, decimal, header, sheet)


def keep_small_files(files: Sequence[InputFile]) -> None:
    """Keep files in memory once read, if they are small in total."""
    sizes = [file.size for file in files]
    all_small = sum(size for size in sizes if size is not None) <= MAX_KEPT_BYTES and None not in sizes
    for file in files if all_small else ():
        file.keeps_content = True


def open_tables(
    name: str,
    format: str,  # noqa: A002 - as above
    files: list[InputFile],
    delimiter: str | None,
    encoding: str,
    missing: Sequence[str] | None,
    types: Mapping[str, pa.DataType],
    decimal: str | None,
    header: bool | None,
    sheet: str | None,
) -> Source:
    """Open tables of one format. Readers are imported on demand."""
    if sheet is not None and format != "spreadsheet":
        raise DecibanError(
            "sheet= is for spreadsheets, but {rows} is {format}: leave it out",
            command_line="--sheet is for spreadsheets, but {rows} is {format}: leave it out",
            rows=name,
            format=format,
        )
    if header is not None and format not in ("csv", "spreadsheet"):
        raise DecibanError(
            "header= is for CSV and spreadsheets, but {rows} is {format}, which names its columns: leave it out",
            command_line="--header and --no-header are for CSV and spreadsheets, but {rows} is {format}, which names "
            "its columns: leave it out",
            rows=name,
            format=format,
        )
    if format == "csv":
        from deciban.sources.csv import Csv, CsvFile

        return Csv(name, [CsvFile(file, encoding, delimiter, header) for file in files], missing, types, decimal)
    if format == "json":
        from deciban.sources.json import Json, JsonFile

        return Json(name, [JsonFile(file, encoding) for file in files], missing, types)
    files = [file.spooled() for file in files]
    if format == "parquet":
        from deciban.sources.parquet import Parquet

        return Parquet(name, files, missing, types)
    if format == "spreadsheet":
        from deciban.sources.spreadsheet import Spreadsheet

        return Spreadsheet(name, files, missing, types, sheet, header)
    from deciban.sources.arrow import Arrow

    return Arrow(name, files, missing, types)


def known_format(format: str | None) -> str | None:  # noqa: A002 - as above
    if format is None:
        return None
    if format.lower() not in FORMATS:
        raise DecibanError(
            "there is no format {value!r}: {hint}",
            value=format,
            hint=did_you_mean(format, FORMATS, f"choose one of {', '.join((*TABLES, *HOWS))}"),
        )
    return FORMATS[format.lower()]


def check_text_settings(delimiter: str | None, encoding: str) -> None:
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\n\r'):
        raise DecibanError(
            "the delimiter must be one character, such as , or ; or a tab, not {value!r}", value=delimiter
        )
    try:
        known = codecs.lookup(encoding)
    except LookupError:
        raise DecibanError(
            "there is no encoding {value!r}: try utf-8, latin-1, cp1252 or utf-16", value=encoding
        ) from None
    if not getattr(known, "_is_text_encoding", True):
        raise DecibanError("{value!r} is not a text encoding: try utf-8, latin-1, cp1252 or utf-16", value=encoding)


# ---------------------------------------------------------------------- resolving paths


def entries_of(path: str, wanted: str | None) -> list[Entry]:
    """The inputs that an argument names."""
    if path == "-":
        return [stream_entry(InputFile(None, "standard input"), wanted)]
    if os.path.lexists(path):
        return entries_in_path(Path(path), wanted)
    label, is_labelled, inner = path.partition(LABEL_SEPARATOR)
    if is_labelled and label and inner and os.sep not in label:
        return labelled_entries(label, inner, wanted)
    if glob.has_magic(path):
        return [entry for match in matching_paths(path) for entry in entries_in_path(match, wanted)]
    raise FileError(
        "there is no file {file}: {hint}", file=one_line(path), hint=did_you_mean_file(path, "check its name")
    )


def matching_paths(pattern: str) -> list[Path]:
    """The files that match a pattern, sorted; if there are none, the folders."""
    paths = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]
    files = [path for path in paths if not path.is_dir()]
    if not paths:
        raise FileError("no file matches {file}: check the folder and the extension", file=one_line(pattern))
    return files or paths


def labelled_entries(label: str, path: str, wanted: str | None) -> list[Entry]:
    """LABEL=PATH, where the path may be a pattern too."""
    inner = os.path.expanduser(path)
    if os.path.lexists(inner):
        paths = [Path(inner)]
    elif glob.has_magic(inner):
        paths = matching_paths(inner)
    else:
        raise FileError(
            "there is no file {file} for the label {label!r}: {hint}",
            file=one_line(path),
            label=label,
            hint=did_you_mean_file(inner, "check its name"),
        )
    if wanted in TABLES or (wanted is None and any(format_of(one) for one in paths)):
        raise DecibanError(
            "{file} is a table but was given the label {label!r}: leave the label out, and give the column of labels "
            "with --target",
            file=one_line(path),
            label=label,
        )
    from deciban.sources.texts import text_files_of

    how = None if wanted is None else HOWS[wanted]
    return [Entry(texts=tuple(text_file for one in paths for text_file in text_files_of(one, how, label)))]


def entries_in_path(path: Path, wanted: str | None) -> list[Entry]:
    if path.is_dir():
        return entries_in_folder(path, wanted)
    file = InputFile(path)
    if not file.rereadable:
        return [stream_entry(file, wanted)]
    table = wanted if wanted in TABLES else format_of(path) if wanted is None else None
    if table is not None:
        return [Entry(file, table)]
    # Imported late: the readers of texts and mail take a while.
    from deciban.sources.mail import is_mail
    from deciban.sources.texts import is_lines, text_files_of

    if wanted in HOWS or is_lines(path) or is_mail(path):
        return [Entry(texts=tuple(text_files_of(path, None if wanted is None else HOWS[wanted], None)))]
    return [Entry(file, detected_format(file))]


def format_of(path: Path) -> str | None:
    """The format by file extension."""
    endings = path.suffixes[-2:]
    if endings and endings[-1].lower() in COMPRESSED_SUFFIXES:
        endings = endings[:-1]
    return ENDINGS.get(endings[-1].lower()) if endings else None


def detected_format(file: InputFile) -> str:
    """The format by the first bytes."""
    beginning = file.peek(64)
    if beginning.startswith(b"PAR1"):
        return "parquet"
    if beginning.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if beginning.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        return "spreadsheet"
    if compression(beginning) is None and beginning.removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"{", b"[")):
        return "json"
    return "csv"


def as_lines_unless_named(entry: Entry, columns: Sequence[str], header: bool | None) -> Entry:
    """A stream of texts, if it would be read as CSV and its first line names no column; any other entry as it is."""
    file = entry.file
    if file is None or file.rereadable or entry.format != "csv" or header or compression(file.peek(64)) is not None:
        return entry
    from deciban.sources.csv_dialect import COMMENTS
    from deciban.sources.header import names_columns
    from deciban.sources.texts import TextFile

    head = file.peek(HEADER_BYTES).removeprefix(codecs.BOM_UTF8)
    comment = COMMENTS.match(head)
    first_line = head[comment.end() if comment else 0 :].partition(b"\n")[0].decode(errors="replace")
    if names_columns(first_line, columns) and header is None:
        return entry
    if header is None:
        warn(
            DataWarning(
                '{file} is read as one text per line; give format="csv" if it is a table',
                command_line="{file} is read as one text per line; give --format csv if it is a table",
                file=file.name,
            )
        )
    return Entry(texts=(TextFile(file.spooled(), "lines"),))


def stream_entry(file: InputFile, wanted: str | None) -> Entry:
    """Standard input, or a pipe."""
    if not file.peek(1):
        raise FileError("{file} is empty: there is nothing to read", file=file.name)
    if wanted is None and file.peek(5) == b"From ":
        wanted = "mail"
    if wanted in HOWS:
        from deciban.sources.texts import TextFile

        return Entry(texts=(TextFile(file.spooled(), HOWS[wanted]),))
    return Entry(file, wanted or detected_format(file))


def entries_in_folder(folder: Path, wanted: str | None) -> list[Entry]:
    """The tables of a folder, or its documents, with or without a subfolder per class."""
    name = one_line(str(folder))
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise FileError("the folder {file} cannot be read: {problem}", file=name, problem=error.strerror) from None
    if not paths:
        raise FileError("the folder {file} is empty: there is nothing to read", file=name)
    files, folders = [path for path in paths if path.is_file()], [path for path in paths if path.is_dir()]
    if wanted in TABLES:
        tables = [path for path in files if format_of(path) == wanted]
        if not tables:
            raise FileError("there is no {format} file in the folder {file}", format=wanted, file=name)
        return [Entry(InputFile(path), wanted) for path in tables]
    from deciban.sources.mail import is_maildir
    from deciban.sources.texts import text_files_of

    how = None if wanted is None else HOWS[wanted]
    if is_maildir(folder):
        return [Entry(texts=tuple(text_files_of(folder, how or "mail", None)))]
    formats = {format_of(path) for path in files}
    if formats and formats <= set(TABLES) and how is None:
        if len(formats) > 1:
            raise DecibanError(
                "the folder {file} has tables of several formats ({formats}): give the files to read, as in "
                "{file}/*{ending}",
                file=name,
                formats=", ".join(sorted(map(str, formats))),
                ending=files[0].suffix,
            )
        return [Entry(InputFile(path), formats.copy().pop()) for path in files]
    if how is None and formats & set(TABLES):
        table = next(path for path in files if format_of(path))
        raise DecibanError(
            "the folder {file} has tables and other files: give the files to read, as in {file}/*{ending}",
            file=name,
            ending=table.suffix,
        )
    if folders and files:
        raise DecibanError(
            "the folder {file} has files and folders: name the files ({file}/*), or move them, so that every folder "
            "in it is a class",
            file=name,
        )
    if not folders:
        return [Entry(texts=tuple(text_files_of(folder, how, None)))]
    return class_folders(folders, how, name)


def class_folders(folders: Sequence[Path], how: How | None, name: str) -> list[Entry]:
    """Subfolders as classes, each with its documents."""
    from deciban.sources.texts import files_within, text_files_of

    texts: list[TextFile] = []
    for folder in folders:
        tables = [path for path in files_within(folder) if format_of(path)]
        if tables and how is None:
            raise DecibanError(
                "the folder {file} has tables in its subfolders: give the files to read, as in {file}/**/*{ending}",
                file=name,
                ending=tables[0].suffix,
            )
        texts += text_files_of(folder, how, folder.name)
    return [Entry(texts=tuple(texts))]


def check_compatible(entries: Sequence[Entry]) -> None:
    """Refuse inputs that cannot be read together."""
    files = [entry.file or entry.texts[0].file for entry in entries if entry.file or entry.texts]
    if any(not file.rereadable for file in files) and len(files) > 1:
        raise DecibanError("standard input and pipes are read alone: save them to files, and name all files")
    kinds = {one.format or "texts": one for one in entries}
    if len(kinds) > 1:
        (a, one), (b, other) = list(kinds.items())[:2]
        names = [(x.file or x.texts[0].file).name for x in (one, other)]
        raise DecibanError(
            "{file} is {format} and {other} is {other_format}: read them separately, or convert one of them",
            file=names[0],
            format=a,
            other=names[1],
            other_format=b,
        )
    seen: set[tuple[int, int]] = set()
    for file in [*files, *(text_file.file for one in entries for text_file in one.texts[1:])]:
        if file.path is not None and file.rereadable:
            status = file.path.stat()
            if (status.st_dev, status.st_ino) in seen:
                raise DecibanError("{file} is named twice: its rows would count twice", file=file.name)
            seen.add((status.st_dev, status.st_ino))


def display_name(given: Sequence[str], entries: Sequence[Entry]) -> str:
    """A name for all inputs, for messages."""
    n_files = sum(len(entry.texts) or 1 for entry in entries)
    if len(given) == 1 and given[0] == "-":
        return "standard input"
    if len(given) == 1:
        path = one_line(given[0])
        return path if os.path.isfile(given[0]) else f"{n_files:,} file{'' if n_files == 1 else 's'} like {path}"
    return f"{n_files:,} files, {one_line(given[0])} to {one_line(given[-1])}"
