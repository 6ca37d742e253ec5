"""The page about the file format: its reader, which knows nothing of deciban, reads files of every kind."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import deciban
from deciban import MultinomialNB
from deciban.storage import files

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/file-format.md"
GOLDEN = sorted((ROOT / "tests/golden/1.0").glob("*.deciban"))


@pytest.fixture(scope="module")
def page():
    """What the code of the page defines."""
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(code[0].splitlines()) <= 100
    assert set(re.findall(r"^import (\w+)", code[0], re.MULTILINE)) == {"hashlib", "json", "math", "struct"}
    names = {}
    exec("\n".join(code), names)
    return names


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_array_is_read(path, page):
    document, arrays = page["read"](path)
    expected_document, expected, about = files.read_parts(path)
    assert document == expected_document
    assert set(arrays) == set(expected)
    for name, (shape, numbers) in arrays.items():
        assert shape == expected[name].shape
        np.testing.assert_array_equal(np.array(numbers, dtype=expected[name].dtype).reshape(shape), expected[name])
    if "Mixture" not in path.stem:  # its classes are components
        assert page["value"](document["classes"]) == deciban.load(path).classes_.tolist()
    assert {key: page["value"](one) for key, one in document["about"].items()}["model"] == about["model"]


def test_there_are_packed_ones():
    assert sum("packed" in files.read_parts(path)[0] for path in GOLDEN) > 3


def test_probabilities_from_the_sums(page, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (30, 200)), np.array(["a", "b", "c"])[np.arange(30) % 3]
    model = MultinomialNB(alpha=0.5).fit(X, y)
    model.save(tmp_path / "m.deciban")
    for row, expected in zip(X[:5], model.predict_proba(X[:5]), strict=True):
        found = page["multinomial_proba"](tmp_path / "m.deciban", row.tolist())
        assert found == pytest.approx(dict(zip("abc", expected, strict=True)))


def test_a_changed_byte_is_noticed(page, tmp_path):
    content = bytearray(GOLDEN[0].read_bytes())
    content[-1] ^= 1
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        page["read"](tmp_path / "bad")


def test_words_of_texts_are_where_the_page_says(page):
    path = next(path for path in GOLDEN if path.stem == "TextClassifier-plain")
    _, arrays = page["read"](path)
    ends, content = arrays["words.ends"][1], bytes(arrays["words.bytes"][1])
    words = [content[a:b].decode() for a, b in pairwise(ends)]
    assert set(words) == set(deciban.load(path).vocabulary_)
