"""Counts of terms and matrices of them, for any number of threads and blocks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban._kernel.text import Documents
from deciban.text import parallel as sharing
from deciban.text.vectorizer import counting
from deciban.text.vectorizer.terms import Recipe

words = st.lists(st.sampled_from(["a", "b", "ab", "a0", "ß", "zz"]), max_size=8)
texts = st.lists(words.map(" ".join), max_size=9)
RECIPES = [Recipe("word", 1, 1), Recipe("word", 2, 3), Recipe("word", 1, 5, stop=frozenset({"b"}))]
RECIPES += [Recipe("char", 1, 2), Recipe("char_wb", 2, 3)]


def terms_of(recipe, text):
    if recipe.unit == "word":
        kept = [word for word in text.split() if word not in recipe.stop]
        return [" ".join(kept[i : i + n]) for n in range(recipe.low, recipe.high + 1) for i in range(len(kept) - n + 1)]
    pieces = [text] if recipe.unit == "char" else [f" {word} " for word in text.split()]
    return [p[i : i + n] for p in pieces for n in range(recipe.low, recipe.high + 1) for i in range(len(p) - n + 1)]


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@given(some=texts, block=st.sampled_from([1, 7, 1 << 22]), workers=st.integers(1, 4))
def test_sorted_columns_whatever_the_threads_and_blocks(recipe, some, block, workers):
    expected = [Counter(terms_of(recipe, text)) for text in some]
    names = sorted(set().union(*expected))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "BLOCK_BYTES", block)
        for module in (counting, sharing):
            patch.setattr(module, "threads", lambda *_: workers)
        tally, ranks, X = counting.learn_and_count([Documents(some), Documents(some[:1])], recipe, np.int64, None)
        assert tally.documents == len(some) + len(some[:1])
        if not names:
            with pytest.raises(ValueError, match="empty vocabulary"):
                counting.choose(tally, ranks, 1, np.inf)
            return
        vocabulary = counting.vocabulary_of(tally.terms, ranks, counting.choose(tally, ranks, 1, np.inf))
        Y = counting.count([Documents(some)], vocabulary, np.int64, None)
    assert vocabulary.names().tolist() == names
    table = [[row[name] for name in names] for row in expected]
    assert X.toarray().tolist() == table + table[:1]
    assert Y.toarray().tolist() == table


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@given(some=texts, others=texts)
def test_tallies_add_up(recipe, some, others):
    def sums(tally):
        names = [
            name
            for level in tally.terms.strings([np.arange(n, dtype=np.int32) for n in tally.terms.sizes()])
            for name in level
        ]
        flat = [np.concatenate([*part, np.zeros(0, dtype=np.int64)]).tolist() for part in (tally.holders, tally.times)]
        return {name: (held, often) for name, held, often in zip(names, *flat, strict=True) if held}

    a = counting.learn([Documents(some)], recipe, 1)
    b = counting.learn([Documents(others)], recipe, 1)
    before = sums(b)
    total = a.copy()
    total.merge(b)
    whole = counting.learn([Documents(some + others)], recipe, 1)
    counted = [Counter(terms_of(recipe, text)) for text in some + others]
    held, often = Counter(term for row in counted for term in row), sum(counted, Counter())
    assert sums(total) == sums(whole) == {term: (held[term], often[term]) for term in often}
    assert sums(b) == before


def test_fixed_columns_of_terms_that_no_document_can_have():
    recipe = Recipe("word", 1, 2)
    vocabulary = counting.fixed(recipe, {"a b": 0, "a b c": 1, "a  b": 2, 7: 3, "b": 4, "": 5})
    X = counting.count([Documents(["a b b"])], vocabulary, np.int32, None)
    assert X.toarray().tolist() == [[1, 0, 0, 0, 2, 0]]
    assert vocabulary.names()[1] is None
