"""Tokens, sets of strings and of pairs, against what plain Python says of the same text."""

from __future__ import annotations

import doctest
import pickle
import random
import re
import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils import murmurhash3_32

from deciban._kernel import text as kernel
from deciban._kernel.text import Documents, PairVocabulary, Vocabulary

RULES = {"words": r"\w+", "punctuation": r"\w+|[^\w\s]+", "spaces": r"\S+"}
# What goes wrong easily: both characters that Python lower-cases in context, letters whose lower case is longer or
# shorter in UTF-8, white space of every width, surrogates, NUL, and characters at the edges of UTF-8's lengths.
SPECIAL = (
    "aAzZ09_-.,:!? \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x00\x7f\x85\xa0\xb2\xb5\xbd\xc4\xdf\xe4\xff"
    "\u0100\u0130\u0131\u01c5\u023a\u0300\u03a3\u03c2\u0410\u05d0\u0660\u07ff\u0800\u1680\u1e9e\u1f08\u2000\u2028"
    "\u2126\u212a\u2160\u3000\u4e2d\ud7ff\ud800\udbff\udc00\udfff\ue000\ufeff\uff21\uffff"
    "\U00010000\U00010400\U0001d400\U0001f600\U000e0001\U0010ffff"
)
letters = st.one_of(st.sampled_from(SPECIAL), st.characters(), st.characters(max_codepoint=0x7F))
texts = st.one_of(
    st.text(letters, max_size=30), st.text(st.sampled_from("ab C.\n"), max_size=300), st.text(letters, max_size=200)
)
clean_texts = texts.map(lambda text: text.encode("utf-8", "ignore").decode())  # without surrogates: fit for UTF-8
corpora = st.lists(texts, max_size=6)


def plain_tokens(text, rule="words", shortest=1, longest=0, lower=True):
    matches = re.findall(RULES[rule], text.lower() if lower else text)
    if rule != "spaces":
        matches = [t for t in matches if len(t) >= shortest or not re.match(r"\w", t)]
    return [t[:longest] if longest else t for t in matches]


def read(stream, words):
    """A stream as lists of strings, a list a document; None is an unknown item."""
    ids, indptr = stream[:2]
    assert ids.dtype == np.int32
    assert indptr.dtype == np.int64
    strings = [*words.strings(), None]
    assert indptr[0] == 0
    assert indptr[-1] == len(ids)
    return [[strings[i] for i in ids[a:b]] for a, b in pairwise(indptr)]


def tokens(given, rule="words", *, lower=True, **more):
    words = Vocabulary()
    documents = Documents(given, lower)
    return read(kernel.tokenize(documents, 0, len(documents), words, True, rule, **more), words)


def stream(lists):
    """A stream of lists of numbers."""
    ids = np.array([i for numbers in lists for i in numbers], dtype=np.int32)
    return ids, np.cumsum([0] + [len(numbers) for numbers in lists], dtype=np.int64)


def unstream(ids, indptr):
    return [ids[a:b].tolist() for a, b in pairwise(indptr)]


# ---- characters ----


@pytest.mark.slow_where(r"spaces|words")
@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("lower", [True, False])
def test_every_character_is_lowered_and_classed_as_python_does(rule, lower, thorough):
    """All of Unicode as one text, in which each character stands between letters, and a document a character."""
    every = list(map(chr, range(0x110000)))
    for some in (every[:: 1 if thorough else 31], ["a".join(every)]):
        words = Vocabulary()
        ids, _, _ = kernel.tokenize(Documents(some, lower), 0, len(some), words, True, rule)
        text = "\n".join(some)
        assert words.strings(ids) == re.findall(RULES[rule], text.lower() if lower else text)


def test_only_two_characters_are_lowered_in_context():
    """The claim that the kernel rests on: all others become one character of the same kind, whatever is around them."""
    text = "".join(c for c in map(chr, range(0x110000)) if c not in "\u0130\u03a3")
    lowered = "".join(map(str.lower, text))
    assert len(lowered) == len(text)
    assert text.lower() == lowered == lowered.lower()
    for kind in (r"\w", r"\s"):
        assert [m.start() for m in re.finditer(kind, text)] == [m.start() for m in re.finditer(kind, lowered)]
    assert not set(re.findall(r"\w", text)) & set(re.findall(r"\s", text))


# ---- tokens ----


@given(corpora, st.sampled_from(sorted(RULES)), st.integers(0, 5), st.integers(0, 6), st.booleans())
def test_tokens_are_those_of_a_regular_expression(given, rule, shortest, longest, lower):
    read_tokens = tokens(given, rule, lower=lower, shortest=shortest, longest=longest)
    assert read_tokens == [plain_tokens(t, rule, shortest, longest, lower) for t in given]


@given(corpora)
def test_spaces_are_those_of_split(given):
    assert tokens(given, "spaces") == [t.lower().split() for t in given]


@given(
    st.lists(clean_texts, max_size=6),
    st.sampled_from(sorted(RULES)),
    st.booleans(),
    st.sampled_from([np.int32, np.int64]),
)
def test_bytes_and_buffers_read_as_strings_do(given, rule, lower, dtype):
    coded = [t.encode() for t in given]
    expected = tokens(given, rule, lower=lower)
    assert tokens(coded, rule, lower=lower) == expected
    data = b"??" + b"".join(coded)
    offsets = np.cumsum([2] + [len(b) for b in coded]).astype(dtype)
    for held in (data, bytearray(data), memoryview(data), np.frombuffer(data, dtype=np.uint8)):
        documents = Documents.from_buffer(held, offsets, lower)
        assert len(documents) == len(given)
        words = Vocabulary()
        assert read(kernel.tokenize(documents, 0, len(given), words, True, rule), words) == expected


@given(st.text(st.sampled_from("aB.\xe9\u0434\u4e2d\U00010400 "), max_size=400), st.integers(0, 130))
def test_blocks_of_every_alignment(text, shift):
    """ASCII goes by blocks of 64, the rest one by one: what comes before must not matter."""
    given = "x" * shift + text
    for rule in RULES:
        assert tokens([given, given.encode()], rule) == [plain_tokens(given, rule)] * 2


@given(corpora, st.data())
def test_ranges_of_documents(given, data):
    start = data.draw(st.integers(0, len(given)))
    stop = data.draw(st.integers(start, len(given)))
    words = Vocabulary()
    read_tokens = read(kernel.tokenize(Documents(given), start, stop, words, True, "words"), words)
    assert read_tokens == [plain_tokens(t) for t in given[start:stop]]


@given(corpora, corpora)
def test_a_set_that_does_not_grow_keeps_the_places_of_unknown_words(known, given):
    words = Vocabulary(t for text in known for t in plain_tokens(text))
    before = words.strings()
    read_tokens = read(kernel.tokenize(Documents(given), 0, len(given), words, False, "words"), words)
    assert read_tokens == [[t if t in before else None for t in plain_tokens(text)] for text in given]
    assert words.strings() == before


def test_examples():
    failed, run = doctest.testmod(kernel)
    assert run > 0
    assert not failed


def test_sizes_are_bytes_as_stored():
    documents = Documents(["abc", "\xe9b", "\u0434", "\U0001f600a", b"ab", "\xe9".encode(), ""])
    assert documents.sizes.tolist() == [3, 2, 2, 8, 2, 2, 0]
    assert documents.lower
    assert len(documents) == 7


# ---- header fields ----


def plain_fields(text, rule, shortest):
    """(token, field) of a text, by regular expressions."""
    spans, at = [], 0  # (start of a value, its end, field)
    first = re.match(r"From [^\n]*(\n|\Z)", text)
    if first:
        at = first.end()
    while at < len(text):
        line = re.compile(r"([^\n]*)(\n|\Z)").match(text, at)
        name = re.match(r"([A-Za-z][A-Za-z0-9-]*):", line[1])
        if name:
            spans.append((at + name.end(), line.end(), name[1].lower()))
        elif spans and line[1][:1] in (" ", "\t") and line[1]:
            spans[-1] = (spans[-1][0], line.end(), spans[-1][2])
        else:
            break
        at = line.end()
    out = []
    for token in re.finditer(RULES[rule], text):
        if rule == "spaces" or len(token[0]) >= shortest or not re.match(r"\w", token[0]):
            field = [f for a, b, f in spans if a <= token.start() < b]
            out.append((token[0].lower(), field[0] if field else None))
    return out


LINES = [
    "From someone Thu", "From: a.b@c.d", "Subject: Re: two words", "subject:close", "X-Mail-2: \xe9t\xe9 \u4e2d", "a:",
    ": no name", " continued one", "\tcontinued two", "", " ", "Body text here", "1st: no", "na_me: no", "\u212aey: no",
    "FROM me", "b-: x", "caf\xe9: no", "Last:\U0001f600 ok :-)", "\r",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(LINES), max_size=8).map("\n".join),
    st.sampled_from(["\n", ""]),
    st.sampled_from(sorted(RULES)),
    st.integers(1, 3),
    st.booleans(),
)
def test_header_fields(text, end, rule, shortest, lower):
    text += end
    words = Vocabulary()
    ids, indptr, fields = kernel.tokenize(
        Documents([text, text.encode()], lower), 0, 2, words, True, rule, shortest, 0, True
    )
    strings = [*words.strings(), None]
    pairs = [(strings[i].lower(), strings[f]) for i, f in zip(ids, fields, strict=True)]
    expected = plain_fields(text, rule, shortest)
    assert pairs == expected * 2
    assert indptr.tolist() == [0, len(expected), 2 * len(expected)]


def test_header_fields_of_a_message():
    text = "From a@b Mon\nSubject: Free\n\tmoney\nX-A: 1\nnot a field\nDate: now\n"
    words = Vocabulary()
    ids, _, fields = kernel.tokenize(Documents([text]), 0, 1, words, True, "words", headers=True)
    strings = [*words.strings(), "-"]
    assert " ".join(f"{strings[i]}/{strings[f]}" for i, f in zip(ids, fields, strict=True)) == (
        "from/- a/- b/- mon/- subject/- free/subject money/subject x/- a/- 1/x-a not/- a/- field/- date/- now/-"
    )


def test_names_of_fields_come_from_the_text_as_it_was_given():
    """A kelvin sign is no letter of a name though its lower case is, also where Python lower-cased the text."""
    for text in ("\u212aey: value", "\u212aey: value \u03a3", "From x\nFROM y\nA: b \u0130"):
        words = Vocabulary()
        fields = kernel.tokenize(Documents([text]), 0, 1, words, True, "words", headers=True)[2]
        assert (fields == -1).all()


def test_unknown_names_of_fields():
    words = Vocabulary(["value", "subject"])
    ids, _, fields = kernel.tokenize(
        Documents(["Subject: value\nOther: value"]), 0, 1, words, False, "words", headers=True
    )
    assert ids.tolist() == [1, 0, -1, 0]
    assert fields.tolist() == [-1, 1, -1, -1]
    assert len(words) == 2


# ---- runs of characters ----


def sklearn_runs(given, analyzer, low, high):
    return [CountVectorizer(analyzer=analyzer, ngram_range=(low, high)).build_analyzer()(t) for t in given]


@given(corpora, st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_characters_are_those_of_scikit_learn(given, low, more, as_bytes):
    if as_bytes:
        given = [t.encode("utf-8", "ignore") for t in given]
    grams = Vocabulary()
    runs = read(kernel.characters(Documents(given), 0, len(given), grams, True, low, low + more), grams)
    assert runs == sklearn_runs(given, "char", low, low + more)


@given(corpora, st.integers(1, 6), st.integers(0, 4))
def test_characters_of_words_are_those_of_scikit_learn(given, low, more):
    words, grams = Vocabulary(), Vocabulary()
    ids, indptr, _ = kernel.tokenize(Documents(given), 0, len(given), words, True, "spaces")
    table = kernel.characters_of(words, 0, grams, True, low, low + more)
    runs = read(kernel.spread(ids, indptr, *table), grams)
    expected = sklearn_runs(given, "char_wb", low, low + more)
    assert runs == expected
    later = len(words) // 2
    rest = kernel.characters_of(words, later, grams, False, low, low + more)
    assert read(rest, grams) == read(table, grams)[later:]


# ---- sets of strings ----


@given(st.lists(st.text(letters, max_size=12), max_size=40), st.lists(st.text(letters, max_size=12), max_size=10))
def test_words_are_a_dictionary(strings, others):
    words = Vocabulary()
    numbers = {}
    expected = [numbers.setdefault(s, len(numbers)) for s in strings]
    assert words.add(strings).tolist() == expected
    assert len(words) == len(numbers)
    assert words.strings() == list(numbers)
    assert words.find(others + strings).tolist() == [numbers.get(s, -1) for s in others + strings]
    assert words.strings(words.order()) == sorted(numbers)
    assert words.hashes().tolist() == [murmurhash3_32(s.encode("utf-8", "surrogatepass")) for s in numbers]
    data, offsets = words.buffers()
    assert [data[a:b].tobytes() for a, b in pairwise(offsets)] == [s.encode("utf-8", "surrogatepass") for s in numbers]
    for same in (
        words.copy(),
        Vocabulary.from_buffers(data, offsets),
        pickle.loads(pickle.dumps(words)),
        Vocabulary(numbers),
    ):
        assert same.strings() == list(numbers)
        assert same.add(["another", *numbers])[1:].tolist() == list(range(len(numbers)))
    assert words.strings() == list(numbers)
    assert words.nbytes >= len(data)


@given(st.lists(st.text(st.sampled_from("ab\x00\xff"), max_size=20), unique=True, max_size=300))
def test_order_where_strings_begin_alike_and_hold_nul(strings):
    words = Vocabulary(strings)
    assert words.strings(words.order()) == sorted(strings)


@pytest.mark.parametrize("prefix", ["", "a" * 7, "a" * 8, "\x00" * 16, "x" * 1000])
def test_order_of_many(prefix):
    strings = [prefix + "".join(random.Random(i).choices("\x00ab\u4e2d", k=i % 11)) for i in range(3000)]
    strings += [prefix * i for i in range(1, 40)]
    words = Vocabulary(strings)
    assert words.strings(words.order()) == sorted(set(strings))


@given(corpora, st.lists(st.integers(0, 2), min_size=6, max_size=6), st.permutations(range(3)))
def test_merging_parts_is_reading_the_whole(given, split, order):
    """Whatever the split and the order: the same set, and the same stream once numbers are mapped."""
    whole = Vocabulary()
    ids, indptr, _ = kernel.tokenize(Documents(given), 0, len(given), whole, True, "words")
    merged = Vocabulary()
    documents_read = [None] * len(given)
    for part in order:
        which = [i for i in range(len(given)) if split[i] == part]
        words = Vocabulary()
        part_ids, part_indptr, _ = kernel.tokenize(
            Documents([given[i] for i in which]), 0, len(which), words, True, "words"
        )
        to = merged.merge(words)
        assert merged.strings(to) == words.strings()
        for i, own in zip(which, unstream(to[part_ids], part_indptr), strict=True):
            documents_read[i] = merged.strings(np.array(own, dtype=np.int32))
    assert set(merged.strings()) == set(whole.strings())
    assert len(merged) == len(whole)
    assert documents_read == read((ids, indptr), whole)
    assert merged.merge(merged).tolist() == list(range(len(merged)))


@given(st.lists(st.text(letters, max_size=20), max_size=20), st.lists(st.text(letters, max_size=20), max_size=20))
def test_locating_is_finding_without_adding(strings, others):
    words, other = Vocabulary(strings), Vocabulary(others + strings[::2])
    assert words.locate(other).tolist() == words.find(other.strings()).tolist()
    assert words.locate(words).tolist() == list(range(len(words)))
    assert words.strings() == list(dict.fromkeys(strings))


@given(st.lists(st.text(letters, max_size=12), unique=True, max_size=30), st.randoms())
def test_taking_some_words(strings, chance):
    words = Vocabulary(strings)
    which = chance.sample(range(len(strings)), chance.randint(0, len(strings)))
    some = words.take(np.array(which, dtype=np.int32))
    assert some.strings() == [strings[i] for i in which]
    assert some.find(strings).tolist() == [which.index(i) if i in which else -1 for i in range(len(strings))]


def test_a_million_probes_are_quick_whatever_the_words_are():
    """Words that differ in their last bytes, in their first, or in their length alone end in slots of their own."""
    for strings in (
        [f"{i:08d}" for i in range(30000)],
        [f"{i:08d}"[::-1] for i in range(30000)],
        ["x" * 40 + str(i) for i in range(30000)],
        ["\x00" * i for i in range(3000)],
    ):
        words = Vocabulary(strings)
        assert len(words) == len(strings)
        assert words.find(strings).tolist() == list(range(len(strings)))


# ---- pairs ----

numbers = st.integers(0, 2**31 - 1) | st.integers(0, 5)
couples = st.lists(st.tuples(numbers, numbers), max_size=60)


def columns(pairs):
    table = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])


@given(couples, couples)
def test_pairs_are_a_dictionary(pairs, others):
    held = PairVocabulary()
    known = {}
    assert held.add(*columns(pairs)).tolist() == [known.setdefault(p, len(known)) for p in pairs]
    assert len(held) == len(known)
    assert held.find(*columns(others + pairs)).tolist() == [known.get(p, -1) for p in others + pairs]
    for same in (held, held.copy(), pickle.loads(pickle.dumps(held)), PairVocabulary(*columns(pairs))):
        first, second = same.arrays()
        assert list(zip(first.tolist(), second.tolist(), strict=True)) == list(known)
    which = np.arange(len(known), dtype=np.int32)[::-2].copy()
    for first, second in (held.take(which).arrays(), held.arrays(which)):
        assert list(zip(first.tolist(), second.tolist(), strict=True)) == list(known)[::-2]
    for outside in (-1, len(known)):
        with pytest.raises(IndexError, match="outside the set"):
            held.arrays(np.array([outside], dtype=np.int32))


def test_many_pairs_are_a_dictionary():
    """More than fit into the lines that they belong to, at every size of the table, copied and not."""
    rng, held, known = np.random.default_rng(0), PairVocabulary(), {}
    while len(known) < 20_000:
        below = rng.choice([3, 60, 5_000, 2**31 - 1], (len(known) // 8 + 1, 2))
        pairs = list(map(tuple, rng.integers(below).tolist()))
        assert held.add(*columns(pairs)).tolist() == [known.setdefault(pair, len(known)) for pair in pairs]
        others = [(b, a) for a, b in pairs]
        for same in (held, held.copy()):
            assert same.find(*columns(pairs + others)).tolist() == [known.get(pair, -1) for pair in pairs + others]
    assert held.find(*columns(list(known))).tolist() == list(range(len(known)))


small = st.integers(-1, 4)
documents_of_numbers = st.lists(st.lists(small, max_size=12), max_size=5)


@given(documents_of_numbers, st.integers(0, 3), st.integers(-1, 6), st.data())
def test_pairing_is_zip(left, shift, mark, data):
    right = data.draw(st.lists(st.lists(small, max_size=12), min_size=len(left), max_size=len(left)))
    pairs = PairVocabulary()
    paired = kernel.pair_up(*stream(left), *stream(right), shift, pairs, True, mark)
    first, second = pairs.arrays()
    table = [*zip(first.tolist(), second.tolist(), strict=True), None]
    expected = []
    for a, b in zip(left, right, strict=True):
        here = list(zip(a, b[shift:], strict=False))
        if mark >= 0:
            here = [(mark, i) for i in b[:1]] + here + [(i, mark) for i in a[-1:]]
        expected.append([None if -1 in pair else pair for pair in here])
    assert [[table[i] for i in ids] for ids in unstream(*paired)] == expected
    again = kernel.pair_up(*stream(left), *stream(right), shift, pairs, False, mark)
    assert unstream(*again) == unstream(*paired)
    nothing = kernel.pair_up(*stream(left), *stream(right), shift, PairVocabulary(), False, mark)
    assert set(nothing[0].tolist()) <= {-1}


@given(st.lists(st.text(st.sampled_from("ab c"), max_size=60), max_size=4))
def test_joined_pairs_and_triples_are_those_of_scikit_learn(given):
    words, pairs, triples = Vocabulary(), PairVocabulary(), PairVocabulary()
    ids, indptr, _ = kernel.tokenize(Documents(given), 0, len(given), words, True, "words", 2)
    pair_ids, pair_indptr = kernel.pair_up(ids, indptr, ids, indptr, 1, pairs, True)
    triple_ids, triple_indptr = kernel.pair_up(pair_ids, pair_indptr, ids, indptr, 2, triples, True)
    two = kernel.join(words, pairs, words)
    three = kernel.join(two, triples, words)
    assert read((pair_ids, pair_indptr), two) == [
        CountVectorizer(ngram_range=(2, 2)).build_analyzer()(t) for t in given
    ]
    assert read((triple_ids, triple_indptr), three) == [
        CountVectorizer(ngram_range=(3, 3)).build_analyzer()(t) for t in given
    ]


@given(st.lists(st.lists(st.integers(0, 5), max_size=10), max_size=6), st.integers(0, 6))
def test_merged_pairs_are_the_pairs_of_merged_words(given, cut):
    """Two parts with words of their own: merged words, then merged pairs, are those of the whole."""
    merged_words, merged_pairs, pair_lists = Vocabulary(), PairVocabulary(), []
    for part in (given[:cut], given[cut:]):
        words, pairs = Vocabulary(), PairVocabulary()
        text = Documents([" ".join(f"w{i}" for i in numbers) for numbers in part])
        ids, indptr, _ = kernel.tokenize(text, 0, len(part), words, True, "words")
        pair_ids, pair_indptr = kernel.pair_up(ids, indptr, ids, indptr, 1, pairs, True)
        to = merged_words.merge(words)
        pair_to = merged_pairs.merge(pairs, to, to)
        pair_lists += unstream(pair_to[pair_ids], pair_indptr)
    joined = kernel.join(merged_words, merged_pairs, merged_words).strings()
    expected = [[f"w{a} w{b}" for a, b in pairwise(numbers)] for numbers in given]
    assert [[joined[i] for i in ids] for ids in pair_lists] == expected
    assert len(merged_pairs) == len({pair for pairs in expected for pair in pairs})


def test_pairs_merge_with_themselves():
    pairs = PairVocabulary(*columns([(0, 1), (1, 1)]))
    assert pairs.merge(pairs, np.array([5, 1], dtype=np.int32), np.array([0, 1], dtype=np.int32)).tolist() == [2, 1]
    assert len(pairs) == 3


# ---- streams ----


@given(documents_of_numbers, st.lists(st.lists(st.integers(-1, 9), max_size=4), min_size=5, max_size=5))
def test_spreading(given, table):
    spread_out = kernel.spread(*stream(given), *stream(table))
    assert unstream(*spread_out) == [[i for item in items if item >= 0 for i in table[item]] for items in given]


@given(documents_of_numbers, st.lists(st.booleans(), min_size=5, max_size=5))
def test_dropping(given, unwanted):
    kept = kernel.drop(*stream(given), np.array(unwanted))
    assert unstream(*kept) == [[i for i in items if i < 0 or not unwanted[i]] for items in given]


@given(st.lists(st.lists(st.integers(-1, 5) | st.integers(0, 299_999), max_size=40), max_size=5))
def test_counting_is_a_counter(given):
    for size in (300_000, max([0] + [i + 1 for items in given for i in items])):
        counts, indices, indptr = kernel.count(*stream(given), size)
        assert (counts.dtype, indices.dtype, indptr.dtype) == (np.int64, np.int32, np.int64)
        counted = list(zip(unstream(indices, indptr), unstream(counts, indptr), strict=True))
        expected = [sorted(Counter(i for i in items if i >= 0).items()) for items in given]
        assert counted == [([i for i, _ in e], [c for _, c in e]) for e in expected]


def test_counting_at_the_edges_of_every_level():
    edges = sorted({e for p in range(31) for e in (2**p - 1, 2**p) if e < 2**24})
    counts, indices, _ = kernel.count(*stream([edges * 2, [], edges[::-1]]), 2**24)
    assert indices.tolist() == edges * 2
    assert counts.tolist() == [2] * len(edges) + [1] * len(edges)


def test_empty_everything():
    words = Vocabulary()
    ids, indptr, fields = kernel.tokenize(Documents([]), 0, 0, words, True, "words", headers=True)
    assert (ids.tolist(), indptr.tolist(), fields.tolist()) == ([], [0], [])
    assert unstream(*kernel.tokenize(Documents(["", b"", " "]), 0, 3, words, True, "words")[:2]) == [[], [], []]
    assert unstream(*kernel.characters(Documents(["", "ab"]), 0, 2, words, True, 3, 9)) == [[], []]
    assert unstream(*kernel.characters_of(words, 0, Vocabulary(), True, 1, 2)) == []
    assert unstream(*kernel.spread(ids, indptr, ids, indptr)) == []
    assert unstream(*kernel.drop(ids, indptr, np.zeros(0, dtype=bool))) == []
    assert [a.tolist() for a in kernel.count(ids, indptr, 0)] == [[], [], [0]]
    assert unstream(*kernel.pair_up(ids, indptr, ids, indptr, 1, PairVocabulary(), True, 3)) == []
    assert len(kernel.join(words, PairVocabulary(), words)) == 0
    assert words.order().tolist() == words.hashes().tolist() == words.strings() == []
    assert (
        len(words.merge(Vocabulary())) == len(words.take(ids)) == len(words.copy()) == len(PairVocabulary().copy()) == 0
    )
    assert pickle.loads(pickle.dumps(words)).strings() == []
    assert len(pickle.loads(pickle.dumps(PairVocabulary()))) == 0
    assert Vocabulary([""]).strings() == [""]
    assert Vocabulary([""]).find([""]).tolist() == [0]
    assert len(Documents.from_buffer(b"", np.zeros(1, dtype=np.int64))) == 0
    assert len(Documents.from_buffer(b"", np.zeros(3, dtype=np.int32))) == 2


# ---- what is refused ----


def ints(*values):
    return np.array(values, dtype=np.int32)


def longs(*values):
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"document 3 is a float \(nan\), not a string"),
        (None, r"document 3 is a NoneType \(None\), not a string"),
        (7, r"document 3 is an int \(7\), not a string"),
        (["x" * 100], r"document 3 is a list \(\['x+\.\.\.\), not a string"),
    ],
)
def test_a_document_that_is_no_text(value, message):
    with pytest.raises(TypeError, match=message):
        Documents(["a", "b", b"c", value])


def test_one_text_is_no_list_of_texts():
    for one in ("abc", b"abc"):
        with pytest.raises(TypeError, match="list"):
            Documents(one)


BROKEN = [
    b"\xff", b"a\x80", b"\xc0\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xf4\x90\x80\x80",
    b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"x" * 100 + b"\xc3(",
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_bytes_that_are_not_utf8(broken):
    with pytest.raises(UnicodeDecodeError) as plain:
        broken.decode()
    before = "é".encode()
    buffered = Documents.from_buffer
    for make in (
        lambda: Documents(["fine", before, broken]),
        lambda: buffered(before + broken, longs(0, 1, 2, 2 + len(broken))[[0, 0, 2, 3]]),
    ):
        with pytest.raises(UnicodeDecodeError, match="document 2") as raised:
            make()
        error = raised.value
        assert (error.object, error.start, error.end) == (broken, plain.value.start, plain.value.end)
        assert error.reason.startswith(plain.value.reason)


def test_random_bytes_are_refused_exactly_where_python_refuses_them():
    chance = random.Random(5)
    for _ in range(3000):
        pieces = [chance.choice(SPECIAL).encode("utf-8", "surrogatepass") for _ in range(chance.randrange(6))]
        if chance.random() < 0.5:
            pieces.append(chance.randbytes(chance.randrange(4)))
        chance.shuffle(pieces)
        data = b"".join(pieces)
        try:
            expected = plain_tokens(data.decode())
        except UnicodeDecodeError:
            with pytest.raises(UnicodeDecodeError):
                Documents([data])
        else:
            assert tokens([data]) == [expected]
        try:
            data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            with pytest.raises(ValueError, match="string 0 is not UTF-8"):
                Vocabulary.from_buffers(np.frombuffer(data, dtype=np.uint8), longs(0, len(data)))
        else:
            held = Vocabulary.from_buffers(np.frombuffer(data, dtype=np.uint8), longs(0, len(data)))
            assert held.strings() == [data.decode("utf-8", "surrogatepass")]


def test_a_buffer_that_changes_after_it_was_checked_is_never_left():
    """Whatever it holds by then, tokens come out of it, and nothing beside it is read."""
    chance = random.Random(6)
    for _ in range(300):
        data = bytearray(chance.choice(["é" * 50, "中" * 40, "😀" * 30, "abc" * 70]).encode())
        documents = Documents.from_buffer(data, longs(0, len(data)))
        data[:] = chance.choices([0x41, 0x80, 0xC3, 0xE2, 0xF0, 0xF4, 0xFF], k=len(data))
        words = Vocabulary()
        kernel.tokenize(documents, 0, 1, words, True, "words", headers=True)
        kernel.characters(documents, 0, 1, words, True, 1, 3)


@pytest.mark.parametrize("offsets", [[], [0, 4], [-1, 2], [0, 2, 1], [2**62, 2**63 - 1]])
def test_offsets_outside_the_buffer(offsets):
    with pytest.raises(ValueError, match="offsets must ascend"):
        Documents.from_buffer(b"abc", np.array(offsets, dtype=np.int64))


def test_offsets_of_another_kind():
    for offsets in ([0, 1], np.array([0.0, 1.0]), np.zeros((1, 2), dtype=np.int64), np.array([0, 1], dtype=np.uint8)):
        with pytest.raises(ValueError, match="int32 or int64"):
            Documents.from_buffer(b"abc", offsets)


def test_a_buffer_is_held_while_documents_are_there():
    data = bytearray(b"abc")
    documents = Documents.from_buffer(data, longs(0, 3))
    with pytest.raises(BufferError):
        data.extend(b"x")
    del documents
    data.extend(b"x")


def test_arrays_of_the_wrong_kind_are_refused():
    words, pairs = Vocabulary(["a", "b"]), PairVocabulary(ints(0), ints(1))
    ids, indptr = ints(0, 1), longs(0, 2)
    for bad in (
        ids.astype(np.int64),
        ids.astype(float),
        np.array([[0, 1]], dtype=np.int32),
        np.arange(4, dtype=np.int32)[::2],
    ):
        for call in (
            lambda bad=bad: words.take(bad),
            lambda bad=bad: words.strings(bad),
            lambda bad=bad: pairs.add(bad, ids),
            lambda bad=bad: kernel.count(bad, indptr, 2),
            lambda bad=bad: kernel.spread(ids, indptr, bad, indptr),
            lambda bad=bad: kernel.drop(bad, indptr, np.zeros(2, dtype=bool)),
            lambda bad=bad: kernel.pair_up(bad, indptr, ids, indptr, 1, pairs, True),
        ):
            with pytest.raises(ValueError, match=r"Buffer|contiguous"):
                call()
    for bad in (indptr.astype(np.int32), longs(0, 0, 2, 2)[::2]):
        with pytest.raises(ValueError, match=r"Buffer|contiguous"):
            kernel.count(ids, bad, 2)
    for bad in (np.zeros(2, dtype=np.uint8), [False, True]):
        with pytest.raises(ValueError, match="bool"):
            kernel.drop(ids, indptr, bad)


def test_read_only_arrays_will_do():
    ids, indptr = stream([[0, 1], [1]])
    for array in (ids, indptr):
        array.setflags(write=False)
    assert kernel.count(ids, indptr, 2)[0].tolist() == [1, 1, 1]


def test_numbers_outside_are_refused():
    words, pairs = Vocabulary(["a", "b"]), PairVocabulary(ints(0), ints(1))
    for bad in (ints(-1), ints(2), ints(0, 2**31 - 1)):
        for call in (words.take, words.strings):
            with pytest.raises(IndexError):
                call(bad)
        with pytest.raises(IndexError):
            pairs.take(bad[-1:])
    for what in (words, pairs):
        with pytest.raises(ValueError, match="twice"):
            what.take(ints(0, 0))
    with pytest.raises(IndexError, match="≥ 0"):
        pairs.add(ints(-1), ints(0))
    assert pairs.find(ints(-1), ints(0)).tolist() == [-1]
    for first_to, second_to in (
        (ints(), ints(0, 0)),
        (ints(0), ints(0)),
        (ints(-1), ints(0, 0)),
        (ints(0), ints(0, -5)),
    ):
        with pytest.raises(IndexError):
            PairVocabulary().merge(pairs, first_to, second_to)
    for call in (
        lambda: kernel.count(ints(0, 2), longs(0, 2), 2),
        lambda: kernel.drop(ints(2), longs(0, 1), np.zeros(2, dtype=bool)),
        lambda: kernel.spread(ints(1), longs(0, 1), ints(5), longs(0, 1)),
        lambda: kernel.join(Vocabulary(), pairs, words),
        lambda: kernel.join(words, pairs, Vocabulary(["a"])),
    ):
        with pytest.raises(IndexError):
            call()


@pytest.mark.parametrize("bad", [longs(), longs(0, 3), longs(-1, 1), longs(0, 2, 1), longs(2**62)])
def test_indptr_outside_is_refused(bad):
    ids, good = ints(0, 1), longs(0, 2)
    for call in (
        lambda: kernel.count(ids, bad, 2),
        lambda: kernel.drop(ids, bad, np.zeros(2, dtype=bool)),
        lambda: kernel.spread(ids, bad, ids, good),
        lambda: kernel.spread(ids, good, ids, bad),
        lambda: kernel.pair_up(ids, bad, ids, good, 1, PairVocabulary(), True),
        lambda: kernel.pair_up(ids, good, ids, bad, 1, PairVocabulary(), True),
    ):
        with pytest.raises(ValueError, match="indptr must ascend"):
            call()


def test_arguments_that_make_no_sense():
    documents, words = Documents(["a b"]), Vocabulary()
    ids, indptr = ints(0), longs(0, 1)
    for start, stop in ((-1, 1), (0, 2), (1, 0), (2, 2)):
        with pytest.raises(ValueError, match="there are 1"):
            kernel.tokenize(documents, start, stop, words, True, "words")
        with pytest.raises(ValueError, match="there are 1"):
            kernel.characters(documents, start, stop, words, True, 1, 2)
    with pytest.raises(ValueError, match=r"'letters'.*'words'"):
        kernel.tokenize(documents, 0, 1, words, True, "letters")
    with pytest.raises(ValueError, match="negative"):
        kernel.tokenize(documents, 0, 1, words, True, "words", -1)
    for low, high in ((0, 1), (2, 1), (-1, 3)):
        with pytest.raises(ValueError, match=f"{low} to {high} characters"):
            kernel.characters(documents, 0, 1, words, True, low, high)
        with pytest.raises(ValueError, match=f"{low} to {high} characters"):
            kernel.characters_of(words, 0, words, False, low, high)
    with pytest.raises(ValueError, match=r"17 letters.* 16"):
        kernel.stretches(documents, 0, 1, words, True, 1, 17)
    with pytest.raises(ValueError, match="there are 0"):
        kernel.characters_of(words, 1, Vocabulary(), True, 1, 2)
    for size in (-1, 2**31):
        with pytest.raises(ValueError, match="size"):
            kernel.count(ids, indptr, size)
    with pytest.raises(ValueError, match="shift"):
        kernel.pair_up(ids, indptr, ids, indptr, -1, PairVocabulary(), True)
    for mark in (-2, 2**31):
        with pytest.raises(ValueError, match="mark"):
            kernel.pair_up(ids, indptr, ids, indptr, 1, PairVocabulary(), True, mark)
    with pytest.raises(ValueError, match=r"1 documents.* 2"):
        kernel.pair_up(ids, indptr, ids, longs(0, 1, 1), 1, PairVocabulary(), True)
    with pytest.raises(ValueError, match="2 first and 1 second"):
        PairVocabulary(ints(0, 1), ints(0))
    with pytest.raises(ValueError, match="both"):
        PairVocabulary(ints(0))
    with pytest.raises(TypeError, match="string 1 is an int"):
        words.add(["a", 1])
    assert len(words) == 0
    with pytest.raises(ValueError, match="twice"):
        kernel.join(Vocabulary(["a b", "a"]), PairVocabulary(ints(0, 1), ints(0, 1)), Vocabulary(["c", "b c"]))


def test_buffers_that_came_from_no_set_are_refused():
    def make(data, offsets):
        return Vocabulary.from_buffers(np.frombuffer(data, dtype=np.uint8), np.array(offsets, dtype=np.int64))

    assert make(b"abc", [0, 1, 3]).strings() == ["a", "bc"]
    assert make(b"", [0]).strings() == []
    assert make(b"", [0, 0]).strings() == [""]
    for data, offsets, message in [
        (b"abab", [0, 2, 4], "string 1 is the same as string 0"),
        (b"xabab", [0, 1, 3, 5], "string 2 is the same as string 1"),
        (b"", [0, 0, 0], "string 1 is the same as string 0"),
        (b"a\xff", [0, 1, 2], "string 1 is not UTF-8"),
        ("é".encode(), [0, 1, 2], "string 0 is not UTF-8"),
        (b"ab", [0, 1], "end with the size"),
        (b"ab", [1, 2], "begin with 0"),
        (b"ab", [0, 3], "ascend"),
        (b"ab", [0, 2, 1, 2], "ascend"),
        (b"ab", [], "ascend"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(data, offsets)


# ---- threads ----


def test_threads_share_a_set_that_they_only_read():
    given = [f"word{i % 97} and {'é' * (i % 5)} {i}" for i in range(2000)]
    documents, words = Documents(given), Vocabulary()
    expected = kernel.tokenize(documents, 0, len(given), words, True, "words")[0].tolist()
    results_by_thread = [None] * 4

    def work(k):
        results_by_thread[k] = [
            kernel.tokenize(documents, 0, len(given), words, False, "words")[0].tolist() for _ in range(20)
        ]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == expected for results in results_by_thread for result in results)


def test_a_set_that_changes_is_let_alone_by_other_threads():
    """Nobody gets in while one thread adds words, and what it adds is right in the end."""
    given = [" ".join(f"w{i}x{j}" for j in range(200)) for i in range(1000)]
    documents, refused = Documents(given), 0
    for _ in range(50):  # whether both are there at once is a matter of timing: it would have to miss every time
        words = Vocabulary()
        thread = threading.Thread(target=kernel.tokenize, args=(documents, 0, len(given), words, True, "words"))
        thread.start()
        while thread.is_alive():
            # None of these lets other threads in while it runs, so that the thread itself is never refused.
            for call in (words.strings, words.buffers, lambda words=words: words.add(["a"])):
                try:
                    call()
                except RuntimeError as error:
                    refused += "another thread" in str(error)
        thread.join()
        assert set(words.strings()) - {"a"} == set(" ".join(given).split())
        if refused:
            break
    assert refused


# ---- sizes ----


def test_one_long_token_and_many_words():
    long = "aé" * 300_000
    assert tokens([long, long + "b " + long]) == [[long], [long + "b", long]]
    assert tokens([long], longest=3) == [["aéa"]]
    many = " ".join(f"w{i}" for i in range(200_000))
    words = Vocabulary()
    ids, _, _ = kernel.tokenize(Documents([many]), 0, 1, words, True, "words")
    assert ids.tolist() == list(range(200_000))
    assert words.nbytes < 20 * len(many)


@pytest.mark.slow
def test_hostile_sizes():
    """One token of 100 MB; a document of ten million words; two million distinct ones."""
    words = Vocabulary()
    long = "A" * 100_000_000
    assert kernel.tokenize(Documents([long, long.encode()]), 0, 2, words, True, "words")[0].tolist() == [0, 0]
    assert words.strings()[0] == long.lower()
    assert words.order().tolist() == [0]
    del words, long
    words = Vocabulary()
    ids, _, _ = kernel.tokenize(Documents(["to be " * 5_000_000]), 0, 1, words, True, "words")
    assert ids.tolist() == [0, 1] * 5_000_000
    assert kernel.count(ids, longs(0, len(ids)), 2)[0].tolist() == [5_000_000] * 2
    words = Vocabulary()
    many = [f"{i:x}" for i in range(2_000_000)]
    ids, _, _ = kernel.tokenize(Documents([" ".join(many)]), 0, 1, words, True, "words")
    assert len(words) == 2_000_000
    assert words.strings(words.order()) == sorted(many)
    pairs = PairVocabulary()
    kernel.pair_up(ids, longs(0, len(ids)), ids, longs(0, len(ids)), 1, pairs, True)
    assert len(pairs) == 1_999_999
