"""Rows to files: round trips, atomic writes, and closed pipes."""

from __future__ import annotations

import datetime
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban.errors import DecibanError, FileError
from deciban.sources import open_source, write_rows

ENDINGS = [".csv", ".tsv", ".csv.gz", ".csv.zst", ".jsonl", ".jsonl.gz", ".parquet", ".arrow", ".feather"]
MISSING_SPELLINGS = ("", " ", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # missing values in CSV

CELLS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=6) | st.sampled_from(
    ['"', '""', "a\nb", "a\r\nb", "\r", ",", "a;b|c\td", "#x", " x ", "'", "\\", "é😀\u2028", "1", "true", "2024-01-01"]
)
REALS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.lists(CELLS.filter(str.strip), min_size=3, max_size=3, unique=True)
ROWS = st.lists(st.tuples(REALS, st.none() | CELLS, st.none() | st.booleans()), min_size=1, max_size=12)


@pytest.fixture(params=ENDINGS)
def ending(request):
    return request.param


def read(path, **options):
    source = open_source([path], **options)
    return pa.concat_tables([source.schema.empty_table(), *(batch.table for batch in source.batches())])


@pytest.mark.parametrize("ending", ENDINGS)
@given(rows=ROWS, pieces=st.integers(1, 3), names=NAMES)
def test_what_was_written_is_what_is_read(tmp_path_factory, ending, rows, pieces, names):
    kinds = (pa.float64(), pa.string(), pa.bool_())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    table = pa.table(columns, names=names)
    path = tmp_path_factory.mktemp("round") / f"a{ending}"
    size = -(-len(rows) // pieces)
    assert write_rows(path, (table.slice(at, size) for at in range(0, len(rows), size))) == len(rows)
    dialect = {"delimiter": "\t" if ".tsv" in ending else ","} if ".csv" in ending or ".tsv" in ending else {}
    table_read = read(path, types=dict(zip(names, kinds, strict=True)), **dialect)
    nothing = MISSING_SPELLINGS + tuple(f" {mark}" for mark in MISSING_SPELLINGS) if dialect else ()
    if not path.name.startswith("a.json"):  # whose columns are the keys there are
        assert table_read.column_names == names
    for name in table_read.column_names:
        expected = [None if value in nothing else value for value in table.column(name).to_pylist()]
        if name == names[0]:
            expected = table.column(name).to_pylist()
        assert table_read.column(name).to_pylist() == expected


def test_a_nul_is_refused_when_it_is_read(tmp_path):
    write_rows(tmp_path / "a.csv", [pa.table({"a": ["x\0y"]})])
    with pytest.raises(DecibanError, match="NUL"):
        read(tmp_path / "a.csv")


def test_a_column_of_names_and_nothing(tmp_path, ending):
    table = pa.table({"name": ["x", None, "y", None, None]})
    write_rows(tmp_path / f"a{ending}", [table])
    assert read(tmp_path / f"a{ending}").to_pylist() == table.to_pylist()


def test_codes_are_written_as_names(tmp_path, ending):
    tables = [
        pa.table({"c": pa.array(values).dictionary_encode(), "n": [1.0, 2.0]}) for values in (["x", "y"], ["z", None])
    ]
    write_rows(tmp_path / f"a{ending}", tables)
    assert read(tmp_path / f"a{ending}").column("c").to_pylist() == ["x", "y", "z", None]


def test_dates_and_whole_numbers(tmp_path, ending):
    day, moment = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30)
    write_rows(tmp_path / f"a{ending}", [pa.table({"d": [day], "m": [moment], "n": [2**53]})])
    row = read(tmp_path / f"a{ending}").to_pylist()[0]
    assert row["m"] == moment
    assert row["n"] == 2**53
    assert row["d"] in (day, datetime.datetime(2024, 2, 29))


def test_nothing_to_write(tmp_path, ending):
    assert write_rows(tmp_path / f"a{ending}", []) == 0
    assert (tmp_path / f"a{ending}").exists()
    table = pa.table({"a": pa.array([], pa.float64()), "b": pa.array([], pa.string())})
    assert write_rows(tmp_path / f"b{ending}", [table]) == 0
    if "json" not in ending:
        assert open_source([tmp_path / f"b{ending}"]).columns == ("a", "b")


def test_csv_is_plain_where_it_can_be(tmp_path):
    write_rows(
        tmp_path / "a.csv",
        [pa.table({"label": ["spam", "a b", 'q"'], "1": [0.1, None, 3.0], "ok": [True, False, None]})],
    )
    assert (tmp_path / "a.csv").read_text() == 'label,"1",ok\nspam,0.1,true\na b,,false\n"q""",3,\n'


FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "=1,2",
    "\uff1d1",
    "-",
    "--5",
    "+a",
]
NO_FORMULAS = ["a=b", "-5", "+49.5", "-1.200,50", "1e-9", "-3%", "", " =1", "'=1", "x\n=1", "mail@example.org", None]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
def test_formulas_are_escaped_on_demand(tmp_path, ending, kind):
    texts = pa.array([*FORMULAS, *NO_FORMULAS, "x"], pa.string()).cast(kind)
    table = pa.table({"n": [-1.5] * len(texts), "=a": texts})
    options = {"encoding": "utf-8", "missing": []}
    for escape, mark in ((False, ""), (True, "'")):
        write_rows(tmp_path / f"a.{ending}", [table, table.slice(0, 0)], escape=escape)
        back = next(iter(open_source([tmp_path / f"a.{ending}"], **options).batches())).table
        assert back.column_names == ["n", f"{mark}=a"]
        assert back["n"].to_pylist() == [-1.5] * len(texts), "numbers are no texts"
        expected = [mark + text for text in FORMULAS] + [text or None for text in NO_FORMULAS] + ["x"]
        assert back[1].cast(pa.string()).to_pylist() == expected


def test_formulas_of_other_formats_are_not_escaped(tmp_path):
    with pytest.raises(DecibanError, match="parquet"):
        write_rows(tmp_path / "a.parquet", [pa.table({"a": ["=1"]})], escape=True)
    assert not list(tmp_path.iterdir())


def test_json_has_null_for_nothing_and_no_infinity(tmp_path):
    write_rows(tmp_path / "a.jsonl", [pa.table({"a": [float("nan"), None, 0.5]})])
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()] == [
        {"a": None},
        {"a": None},
        {"a": 0.5},
    ]
    with pytest.raises(DecibanError, match="infinite numbers"):
        write_rows(tmp_path / "b.jsonl", [pa.table({"a": [float("inf")]})])


@pytest.mark.parametrize(
    ("path", "options", "says"),
    [
        ("a.xyz", {}, "has no known extension"),
        ("a", {}, "has no known extension"),
        ("a.csv", {"format": "excel"}, "'excel' is not a format that can be written"),
        ("a.txt", {"format": "mail"}, "'mail' is not a format that can be written"),
        ("a.parquet.gz", {}, "compressed twice"),
        ("no/a.csv", {}, "there is no folder"),
        ("folder", {"format": "csv"}, "is a folder: give the name of a file"),
    ],
)
def test_where_nothing_can_be_written(tmp_path, monkeypatch, path, options, says):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    with pytest.raises(DecibanError) as error:
        write_rows(path, [pa.table({"a": [1]})], **options)
    assert says in str(error.value)
    assert os.listdir() == ["folder"]


def test_columns_that_are_no_cells(tmp_path):
    for ending in (".csv", ".jsonl"):
        with pytest.raises(DecibanError, match=r"column 'a' holds list.*write \.parquet"):
            write_rows(tmp_path / f"a{ending}", [pa.table({"a": [[1]]})])
    assert os.listdir(tmp_path) == []


def test_tables_have_the_same_columns(tmp_path):
    with pytest.raises(DecibanError, match="same columns"):
        write_rows(tmp_path / "a.csv", [pa.table({"a": [1]}), pa.table({"b": [1]})])


# ---------------------------------------------------------------------- whole or not at all


def test_on_an_error_the_old_file_stays_and_nothing_else(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    write_rows(path, [pa.table({"a": [1.0]})])
    before = path.read_bytes()

    def tables():
        yield pa.table({"a": [2.0] * 100_000})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rows(path, tables())
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_modes_and_links_are_kept(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "real.csv").chmod(0o640)
    os.symlink("real.csv", tmp_path / "link.csv")
    write_rows(tmp_path / "link.csv", [pa.table({"a": [1]})])
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "a\n1\n"
    assert stat.S_IMODE((tmp_path / "real.csv").stat().st_mode) == 0o640
    mask = os.umask(0o027)
    try:
        write_rows(tmp_path / "new.csv", [pa.table({"a": [1]})])
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new.csv").stat().st_mode) == 0o640


def test_what_is_no_file_is_written_to_and_not_replaced():
    assert write_rows("/dev/null", [pa.table({"a": [1]})], format="csv") == 1
    assert not Path("/dev/null").is_file()


def test_a_folder_that_is_closed(tmp_path, monkeypatch):
    def refuse(*_args, **_settings):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(FileError, match=r"cannot write .*a\.csv: Permission denied"):
        write_rows(tmp_path / "a.csv", [pa.table({"a": [1]})])


# ---------------------------------------------------------------------- standard output

MANY_ROWS_SCRIPT = (
    "import pyarrow as pa\n"
    "from deciban.sources import write_rows\n"
    "import sys\n"
    "table = pa.table({'a': [float(i) for i in range(1000)], 'b': ['x'] * 1000})\n"
    "rows = write_rows('-', (table for _ in range(2000)), format=sys.argv[1])\n"
    "print(rows, file=sys.stderr)\n"
)


@pytest.mark.slow_where(r"parquet")
@pytest.mark.parametrize(
    "chosen", ["csv", "parquet", *(pytest.param(k, marks=pytest.mark.slow) for k in ("jsonl", "arrow"))]
)
def test_a_pipe_that_closes_ends_it_quietly(chosen):
    command = [sys.executable, "-c", MANY_ROWS_SCRIPT, chosen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert len(child.stdout.read(100)) == 100
        child.stdout.close()
        rows_written = child.stderr.read().decode()
        assert child.wait(60) == 0
    assert int(rows_written) < 2_000_000


@pytest.mark.parametrize("chosen", ["csv", "tsv", "jsonl", "parquet", "arrow"])
def test_standard_output_in_any_format(chosen, monkeypatch, tmp_path):
    out = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out))
    table = pa.table({"a": [1.5, None], "b": ["x", "y"]})
    assert write_rows(None, [table], format=chosen) == 2
    (tmp_path / "out").write_bytes(out.getvalue())
    assert read(tmp_path / "out").to_pylist() == table.to_pylist()


def test_parquet_is_of_many_row_groups_where_many_tables_were_written(tmp_path):
    write_rows(tmp_path / "a.parquet", (pa.table({"a": [i]}) for i in range(5)))
    assert pq.ParquetFile(tmp_path / "a.parquet").metadata.num_rows == 5
