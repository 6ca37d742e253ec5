"""Patterns, folders, pipes, standard input; and errors for what cannot be read."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deciban.errors import DecibanError, FileError
from deciban.sources import open_source

TABLE = "a,b\n" + "".join(f"{i},x\n" for i in range(100))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(path, text=TABLE):
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
        return place

    return write


def count(source):
    return sum(batch.table.num_rows for batch in source.batches())


def test_patterns_and_folders(here):
    here("data/b.csv")
    here("data/a.csv")
    here("data/deep/c.csv")
    here("tables/2.csv")
    here("tables/1.csv")
    here("tables/.hidden.csv", "nonsense")
    assert count(open_source(["data/*.csv"])) == 200
    assert count(open_source(["data/**/*.csv"])) == 300
    source = open_source(["tables"])
    assert [batch.file for batch in source.batches()] == ["tables/1.csv", "tables/2.csv"]
    assert source.name == "2 files like tables"
    assert open_source(["data/a.csv"]).name == "data/a.csv"
    assert open_source("data/a.csv").name == "data/a.csv"
    assert open_source([Path("data/a.csv"), "data/b.csv"]).name == "2 files, data/a.csv to data/b.csv"


def test_the_ending_does_not_matter_if_the_format_is_given(here):
    here("a.data", "a\tb\n1\t2\n")
    assert open_source(["a.data"]).columns == ("a", "b")
    assert open_source(["a.data"], format="tsv").columns == ("a", "b")
    here("x.csv", '{"a": 1}\n')
    assert open_source(["x.csv"], format="jsonl").columns == ("a",)


@pytest.mark.parametrize(
    ("paths", "settings", "says"),
    [
        ([], {}, "there is nothing to read"),
        (["nothing.csv"], {}, "there is no file nothing.csv: check its name"),
        (["no/where.csv"], {}, "there is no file no/where.csv: the folder 'no' does not exist"),
        (["*.pdf"], {}, "no file matches *.pdf"),
        (["empty"], {}, "the folder empty is empty"),
        (
            ["nested"],
            {},
            "the folder nested has tables in its subfolders: give the files to read, as in nested/**/*.csv",
        ),
        (["both"], {}, "the folder both has tables and other files"),
        (["formats"], {}, "the folder formats has tables of several formats (csv, json)"),
        (["mixed"], {}, "the folder mixed has files and folders"),
        (["hollow"], {}, "the folder hollow/inside contains no file to read"),
        (["both"], {"format": "parquet"}, "there is no parquet file in the folder both"),
        (["a.csv", "b.jsonl"], {}, "a.csv is csv and b.jsonl is json"),
        (["a.csv", "./a.csv"], {}, "a.csv is named twice"),
        (["a.csv"], {"format": "excel"}, "there is no format 'excel'"),
        (["a.csv"], {"delimiter": "::"}, "one character"),
        (["a.csv"], {"encoding": "utf-5"}, "there is no encoding 'utf-5'"),
        (["a.csv"], {"encoding": "base64"}, "'base64' is not a text encoding"),
        (["empty.csv"], {}, "empty.csv is empty"),
        (["empty.parquet"], {}, "empty.parquet is not a complete Parquet file"),
        (["empty.arrow"], {}, "empty.arrow is empty"),
        (["empty.jsonl"], {}, "empty.jsonl is empty"),
        (["junk.parquet"], {}, "junk.parquet is not a complete Parquet file"),
        (["junk.arrow"], {}, "junk.arrow is not a complete Arrow file"),
        (["junk.jsonl"], {}, "of junk.jsonl (line 1) is not"),
        (["junk.csv"], {}, "junk.csv"),
        (["loop"], {}, "loop"),
    ],
    ids=lambda v: str(v)[:40],
)
def test_errors_are_one_line(here, paths, settings, says):
    here("a.csv")
    here("b.jsonl", '{"a": 1}\n')
    Path("empty").mkdir()
    Path("hollow/inside").mkdir(parents=True)
    here("nested/x/a.csv")
    here("both/a.csv")
    here("both/readme")
    here("formats/a.csv")
    here("formats/b.jsonl", '{"a": 1}\n')
    here("mixed/a")
    here("mixed/b/c")
    os.symlink("loop", "loop")
    junk = bytes(hashlib.sha512(b"junk").digest() * 50)
    for ending in ("csv", "parquet", "arrow", "jsonl"):
        here(f"empty.{ending}", b"")
        here(f"junk.{ending}", junk)
    with pytest.raises(DecibanError) as error:
        count(open_source(paths, **settings))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_may_not_be_read(here, monkeypatch):
    place = here("a.csv")
    if os.geteuid() == 0:  # who may read everything

        def refuse(self, *_args, **_settings):
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "open", refuse)
    else:
        place.chmod(0)
    with pytest.raises(FileError, match=r"^no permission to read a\.csv"):
        open_source(["a.csv"])


def test_names_of_files_are_never_interpreted(here):
    here("a\x1b[31m.csv", "")
    with pytest.raises(FileError, match=r"^a␛"):
        open_source(["a\x1b[31m.csv"])


def test_reading_and_writing_csv_loads_neither_pandas_nor_scipy(here):
    """Some Arrow functions import pandas if it is installed, which makes commands slow to start."""
    here("a.csv", "zip,big,b\n" + "007,9007199254740993,x\n" * 30)
    code = (
        "import sys\n"
        "from deciban.sources import open_source, write_rows\n"
        "source = open_source(['a.csv'])\n"
        "source.sample(7), source.head(), source.row(3)\n"
        "write_rows('b.csv', (batch.table for batch in source.batches()))\n"
        "print([name for name in ('pandas', 'scipy', 'sklearn', 'narwhals', 'rich') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert Path("b.csv").read_text() == Path("a.csv").read_text()


# ---------------------------------------------------------------------- standard input and pipes


class Trickle(io.RawIOBase):
    """A pipe that gives a few bytes at a time, and counts them."""

    def __init__(self, data):
        self._data, self.at = data, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        some = self._data[self.at : self.at + min(7, len(buffer))]
        buffer[: len(some)] = some
        self.at += len(some)
        return len(some)


@pytest.fixture
def standard_input(monkeypatch):
    def give(data):
        stream = Trickle(data if isinstance(data, bytes) else data.encode())
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(stream)))
        return stream

    return give


def parquet_bytes():
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(100)), "b": ["x"] * 100}), sink)
    return sink.getvalue()


def arrow_bytes(new):
    sink = io.BytesIO()
    table = pa.table({"a": list(range(100)), "b": ["x"] * 100})
    with new(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        TABLE.encode(),
        b"".join(b'{"a": %d, "b": "x"}\n' % i for i in range(100)),
        b"[" + b", ".join(b'{"a": %d, "b": "x"}' % i for i in range(100)) + b"]",
        parquet_bytes(),
        arrow_bytes(pa.ipc.new_file),
        arrow_bytes(pa.ipc.new_stream),
    ],
    ids=["csv", "json", "array", "parquet", "arrow", "stream"],
)
def test_standard_input_in_any_format(standard_input, data):
    standard_input(data)
    source = open_source(["-"])
    assert source.name == "standard input"
    assert source.columns == ("a", "b")
    assert source.sample().num_rows == 100
    assert source.head(3).column("a").to_pylist() == [0, 1, 2]
    assert [batch.first for batch in source.batches(rows=60)] == [0, 60]
    assert source.digests() == [hashlib.sha256(data).hexdigest()]
    assert count(source) == 100  # it was small, and is still there
    assert source.row(99).column("a").to_pylist() == [99]


def test_a_long_stream_is_read_once_and_not_kept(standard_input, monkeypatch):
    monkeypatch.setattr("deciban.sources.blocks.BLOCK_BYTES", 1000)
    monkeypatch.setattr("deciban.sources.csv.SAMPLE_ROWS", 50)
    monkeypatch.setattr("deciban.sources.csv_dialect.HEAD_BYTES", 1000)
    data = ("a,b\n" + "".join(f"{i},x\n" for i in range(20_000))).encode()
    stream = standard_input(data)
    source = open_source(["-"])
    assert source.size is None
    assert stream.at < 10_000  # the types need no more
    assert source.sample(50).column("a").to_pylist() == list(range(50))
    assert source.head(2).num_rows == 2
    assert source.digests() == [], "which is known once all of it has been read"
    numbers = [value for batch in source.batches() for value in batch.table.column("a").to_pylist()]
    assert numbers == list(range(20_000))
    assert source.digests() == [hashlib.sha256(data).hexdigest()]
    for again in (source.batches, source.head):
        with pytest.raises(DecibanError, match=r"standard input .*once"):
            list(again())


@pytest.mark.parametrize(
    ("data", "settings", "says"),
    [
        ("", {}, "standard input is empty"),
        ("a,b\n1\n", {}, "row 1 of standard input (line 2) has 1 field"),
        (b"PAR1junk", {}, "standard input is not a complete Parquet file"),
    ],
)
def test_what_is_wrong_with_standard_input(standard_input, data, settings, says):
    standard_input(data)
    with pytest.raises(DecibanError) as error:
        count(open_source(["-"], **settings))
    assert says in str(error.value)


def test_standard_input_is_read_alone(standard_input, here):
    standard_input(TABLE)
    here("a.csv")
    with pytest.raises(DecibanError, match="read alone"):
        open_source(["-", "a.csv"])


def test_mail_and_lines_from_standard_input(standard_input):
    standard_input("one\ntwo\n")
    assert open_source(["-"], format="lines").head().column("text").to_pylist() == ["one", "two"]
    standard_input("From ann Sat Jan  3 01:05:34 1996\nSubject: x\n\nHello\n")
    source = open_source(["-"])
    assert source.kind == "mail"
    assert count(source) == 1
    assert [batch.file for batch in source.batches()] == ["standard input"]
    standard_input("Subject: x\n\nHello\n")
    assert count(open_source(["-"], format="mail")) == 1


@pytest.mark.usefixtures("here")
def test_a_named_pipe():
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_text(TABLE), daemon=True)
    writer.start()
    assert count(open_source(["pipe"])) == 100
    writer.join(5)
    assert not writer.is_alive()


def test_an_error_is_raised_while_the_pipe_is_open():
    """A bad row is reported at once, even if the pipe stays open."""
    code = (
        "import pyarrow as pa\n"
        "from deciban.sources import open_source\n"
        "try:\n"
        "    list(open_source(['-'], types={'a': pa.float64(), 'b': pa.string()}).batches())\n"
        "except ValueError as error:\n"
        "    print(error, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        row = b"1,and a text of forty characters or so\n"
        # More than is read at a time, with something wrong in it, and then silence.
        with suppress(BrokenPipeError):
            child.stdin.write(b"a,b\n" + row * 10 + b"x,y\n" + row * 200_000)
            child.stdin.flush()
        assert b"row 11 of standard input (line 12) has 'x' in column 'a'" in child.stdout.readline()
        assert child.wait(20) == 0
        assert child.stderr.read() == b""
    finally:
        child.kill()
        child.communicate()
