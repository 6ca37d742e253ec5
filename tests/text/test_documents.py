"""Documents in the containers that people use."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from deciban import CountVectorizer
from deciban.text import documents
from deciban.text.documents import Lines, arrow_column, batches

TALES = ["the cat", "", "Ça va, Ελλάδα?", "a dog\tand a cat", "日本語 😀"]


def counts(raw, **options):
    X = CountVectorizer(token_pattern=r"\w+", **options).fit_transform(raw)
    return X.toarray().tolist()


def columns():
    """One column of texts in many containers."""
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    chunked = pa.chunked_array([pa.array(TALES[:2]), pa.array([], pa.string()), pa.array(TALES[2:])])
    return {
        "list": TALES,
        "tuple": tuple(TALES),
        "generator": (tale for tale in TALES),
        "array of strings": np.array(TALES),
        "array of objects": np.array(TALES, dtype=object),
        "pandas": pd.Series(TALES),
        "pandas, rows out of order": pd.Series(TALES, index=[5, 3, 1, 1, 0]),
        "pandas objects": pd.Series(TALES, dtype=object),
        "pandas Arrow": pd.Series(TALES, dtype=pd.ArrowDtype(pa.string())),
        "pandas Python strings": pd.Series(TALES, dtype="string[python]"),
        "pandas categories": pd.Series(TALES, dtype="category"),
        "Polars": pl.Series(TALES),
        "Polars categories": pl.Series(TALES, dtype=pl.Categorical),
        "Arrow": pa.array(TALES),
        "Arrow, large": pa.array(TALES, pa.large_string()),
        "Arrow, a slice": pa.array(["x", *TALES, "y"])[1:-1],
        "Arrow, chunks": chunked,
        "Arrow, codes": pa.array(TALES).dictionary_encode(),
        "Arrow, views": pa.array(TALES, pa.string_view()),
    }


@pytest.mark.parametrize("options", [{}, {"analyzer": "char"}, {"strip_accents": "ascii"}, {"tokenizer": str.split}])
@pytest.mark.filterwarnings("ignore:The parameter 'token_pattern'")
def test_a_column_by_any_name(options):
    expected = counts(TALES, **options)
    for name, column in columns().items():
        assert counts(column, **options) == expected, name


def test_arrow_is_read_in_its_buffers():
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    column = pa.array(TALES)
    series = pd.Series(column, dtype=pd.ArrowDtype(pa.string()))
    for same in (column, pa.chunked_array([column]), *([series] if hasattr(series, "__arrow_c_stream__") else [])):
        assert arrow_column(same).chunks[0].buffers()[2].address == column.buffers()[2].address


def test_without_pyarrow_columns_are_lists(monkeypatch):
    pl = pytest.importorskip("polars")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert counts(pl.Series(TALES)) == counts(TALES)


def test_empty_columns():
    pa = pytest.importorskip("pyarrow")
    for column in ([], (), np.array([], dtype=object), pa.array([], pa.string()), pa.chunked_array([], pa.string())):
        assert CountVectorizer(vocabulary=["a"]).transform(column).shape == (0, 1)


def test_missing_entries_of_a_column_are_named():
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    with_hole = [*TALES[:3], None, "x"]
    for column in (
        pd.Series(with_hole),
        pl.Series(with_hole),
        pa.array(with_hole),
        pa.chunked_array([pa.array(with_hole[:2]), pa.array(with_hole[2:])]),
    ):
        with pytest.raises(ValueError, match="ocument 3 is missing"):
            counts(column)


def test_a_table_is_refused():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for table in (pd.DataFrame({"a": TALES}), pl.DataFrame({"a": TALES})):
        with pytest.raises(ValueError, match="choose a column"):
            counts(table)


@pytest.fixture
def lines(tmp_path):
    def write(content: bytes) -> Lines:
        path = tmp_path / "lines.txt"
        path.write_bytes(content)
        return Lines(path)

    return write


@pytest.mark.parametrize("block", [3, 1 << 24])
@pytest.mark.parametrize("content", ["", "one", "one\n", "\n", "\n\n", "a\n\nb", "x\r\nΨ y\r\nz\r", "a\x85b\u2028c\nd"])
def test_lines_are_lines(content, block, lines, monkeypatch):
    monkeypatch.setattr(documents, "BATCH_CHARACTERS", block)
    expected = content.split("\n")
    expected = [line.removesuffix("\r") for line in (expected[:-1] if expected[-1] == "" else expected)]
    actual = lines(content.encode())
    assert list(actual) == expected
    assert len(actual) == len(expected)
    assert actual[:] == expected
    assert actual[::-2] == expected[::-2]
    if expected:
        assert actual[-1] == expected[-1]
    with pytest.raises(IndexError):
        actual[len(expected)]


@pytest.mark.parametrize("options", [{}, {"analyzer": "char"}, {"analyzer": "char_wb"}, {"strip_accents": "unicode"}])
@pytest.mark.filterwarnings("ignore:The parameter 'token_pattern'")
def test_lines_are_documents(options, lines):
    tales = [tale for tale in TALES if "\t" not in tale]
    documents_ = lines("\r\n".join(tales).encode())
    assert counts(documents_, **options) == counts(tales, **options)
    assert counts(pickle.loads(pickle.dumps(documents_)), **options) == counts(tales, **options)


def test_lines_of_words_are_one_batch_read_in_place(lines):
    documents_ = lines("\n".join(TALES).encode())
    assert [len(batch) for batch in batches(documents_, lower=True)] == [len(TALES)]


def test_a_broken_line_is_named(lines):
    broken = lines(b"fine\ncaf\xe9\n")
    assert broken[0] == "fine"
    with pytest.raises(UnicodeDecodeError, match="line 1 of"):
        broken[1]
    with pytest.raises(UnicodeDecodeError, match="1"):
        counts(broken)
