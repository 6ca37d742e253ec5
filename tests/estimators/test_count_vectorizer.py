"""CountVectorizer against scikit-learn's: the same vocabulary and counts; and laws for what is deciban's own."""

from __future__ import annotations

import copy
import csv
import gzip
import json
import pickle
import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from conftest import DATA
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer as Theirs
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

from deciban import CountVectorizer, MultinomialNB
from deciban.errors import DecibanError, SchemaError
from deciban.text import parallel as sharing
from deciban.text.vectorizer import counting

TALES = [
    "The quick brown fox jumps over the lazy dog.",
    "The dog — the LAZY dog — sleeps; a fox doesn't.",
    "Ça va? Naïve café, Ελλάδα, ΟΔΟΣ, İstanbul, straße, ﬁne, Ⅻ, ℌ.",
    "",
    "  tabs\tand\n\nlines  \r\n and_underscores 42 4 x1",
    "fox fox fox, dog!",
    "日本語 の テキスト 𝒳𝒴 😀😀",
]
OPTIONS = {
    "default": {},
    "case": {"lowercase": False},
    "pairs": {"ngram_range": (1, 2)},
    "only triples": {"ngram_range": (3, 3)},
    "up to four": {"ngram_range": (2, 4)},
    "characters": {"analyzer": "char", "ngram_range": (1, 3)},
    "characters of words": {"analyzer": "char_wb", "ngram_range": (2, 4)},
    "stop words": {"stop_words": "english"},
    "stop words, pairs": {"stop_words": ["the", "fox", "Dog", "and"], "ngram_range": (1, 2)},
    "any word": {"token_pattern": r"\w+"},
    "any word, unanchored": {"token_pattern": r"(?u)\b\w+\b", "ngram_range": (1, 2)},
    "long words": {"token_pattern": r"\w\w\w\w+"},
    "own pattern": {"token_pattern": r"[a-z']+"},
    "own group": {"token_pattern": r"(\w)\w+", "ngram_range": (1, 2)},
    "own tokenizer": {"tokenizer": str.split, "token_pattern": None, "ngram_range": (1, 2)},
    "own preprocessor": {"preprocessor": lambda text: text.replace("o", " O")},
    "own preprocessor, characters": {"preprocessor": str.swapcase, "analyzer": "char"},
    "own analyzer": {"analyzer": lambda text: (text[:4], text[:4], text[4:5])},
    "rare": {"min_df": 2},
    "frequent": {"max_df": 0.3},
    "both, by share": {"min_df": 0.2, "max_df": 0.5, "ngram_range": (1, 2)},
    "most frequent": {"max_features": 5},
    "most frequent, once a document": {"max_features": 5, "binary": True, "ngram_range": (1, 2)},
    "most frequent of some, as float": {"max_features": 4, "max_df": 3, "dtype": np.float32},
    "binary": {"binary": True},
    "float": {"dtype": np.float64, "analyzer": "char"},
    "bool": {"dtype": bool, "max_features": 6},
    "accents as ASCII": {"strip_accents": "ascii"},
    "accents": {"strip_accents": "unicode", "ngram_range": (1, 2)},
    "own accents": {"strip_accents": lambda text: text.replace("ç", "c")},
    "no words at all": {"ngram_range": (0, 2)},
    "fixed": {"vocabulary": ["fox", "the", "dog", "lazy dog", "Ça", "never seen", "quick  brown"]},
    "fixed, pairs": {"vocabulary": {"the lazy": 1, "lazy": 0, "brown fox": 2, "": 3}, "ngram_range": (1, 2)},
    "fixed, without stop words": {"vocabulary": ["the", "fox"], "stop_words": "english"},
    "fixed, characters": {"vocabulary": {"ab", "th", "e", "o", " t"}, "analyzer": "char_wb", "ngram_range": (1, 2)},
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@pytest.fixture(params=[False, True], ids=["one thread", "three threads"])
def threaded(request, monkeypatch):
    """Small texts too are split into blocks and read in threads."""
    if request.param:
        for module in (counting, sharing):
            monkeypatch.setattr(module, "threads", lambda *_: 3)
        monkeypatch.setattr(sharing, "BLOCK_BYTES", 16)


def assert_same_counts(mine, theirs):
    assert type(mine) is type(theirs)
    assert mine.shape == theirs.shape
    assert mine.has_sorted_indices
    theirs.sort_indices()  # scikit-learn leaves the columns of a row as they were first seen
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name), err_msg=name)
        assert getattr(mine, name).dtype == getattr(theirs, name).dtype, name


def outcome(act):
    """The result of an action, or its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return act(), None
        except ValueError as error:
            return None, str(error)


def assert_same(options, documents, others=()):
    mine, theirs = CountVectorizer(**options), Theirs(**options)
    (X, mine_fails), (Y, theirs_fails) = (
        outcome(lambda: mine.fit_transform(documents)),
        outcome(lambda: theirs.fit_transform(documents)),
    )
    assert mine_fails == theirs_fails
    if theirs_fails is not None:
        return
    assert_same_counts(X, Y)
    fitted = CountVectorizer(**options)
    outcome(lambda: fitted.fit(documents))
    for new in (documents, others):
        assert_same_counts(mine.transform(new), theirs.transform(new))
        assert_same_counts(fitted.transform(new), theirs.transform(new))
    assert mine.vocabulary_ == fitted.vocabulary_ == theirs.vocabulary_
    np.testing.assert_array_equal(fitted.get_feature_names_out(), theirs.get_feature_names_out())
    assert mine.fixed_vocabulary_ == theirs.fixed_vocabulary_
    for a, b in zip(mine.inverse_transform(X), theirs.inverse_transform(Y), strict=True):
        np.testing.assert_array_equal(a, b)


@every_option
@pytest.mark.usefixtures("threaded")
def test_same_as_scikit_learn(options):
    assert_same(options, TALES, [*TALES[::-2], "an unseen fox"])


# Letters with unusual case, lone surrogates, NUL, marks, white space of all kinds, and enough repetition to count.
ODD = "aAbB ßẞſİıΣσςǅǆŉﬁéé́Å𝒳😀٣²Ⅻ_'-\0\x1c\x1f\x85\xa0\u2028\u3000\ud800\udfff\t\n"
text = st.one_of(st.text(st.sampled_from(ODD), max_size=30), st.text(max_size=30))
documents = st.lists(text, min_size=1, max_size=6)
UNICODE = ["default", "case", "any word", "up to four", "characters", "characters of words", "stop words, pairs"]
UNICODE += ["most frequent, once a document", "rare"]


@pytest.mark.parametrize("name", UNICODE)
@given(documents, documents)
def test_same_on_any_unicode(name, some, others):
    assert_same(OPTIONS[name], some, others)


@pytest.mark.parametrize("how", ["ascii", "unicode"])
@given(documents)
def test_same_accents_stripped_on_any_unicode(how, some):
    assert_same({"strip_accents": how, "token_pattern": r"\w+"}, some)


def load_lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def load_tsv(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [row[1] for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


SETS = {
    "20newsgroups": ("20news-bydate-train.jsonl.gz", load_lines),
    "rt_polarity": ("rt_polarity.jsonl.gz", load_lines),
    "sms_spam": ("SMSSpamCollection.tsv", load_tsv),
    "spamassassin": ("spamassassin.jsonl.gz", load_lines),
    "trec_qc": ("trec_train.jsonl.gz", load_lines),
    "webkb": ("webkb_stemmed.jsonl.gz", load_lines),
}
REAL = {
    "default": {},
    "pairs": {"ngram_range": (1, 2)},
    "characters": {"analyzer": "char", "ngram_range": (1, 2)},
    "characters of words": {"analyzer": "char_wb", "ngram_range": (2, 3)},
    "stop words": {"stop_words": "english", "ngram_range": (1, 2), "min_df": 3},
    "rare": {"min_df": 2, "max_df": 0.5},
    "most frequent": {"max_features": 1000},
    "binary": {"binary": True, "max_features": 1000},
    "accents": {"strip_accents": "unicode"},
}


@pytest.fixture(scope="session")
def corpus():
    loaded = {}

    def get(name):
        file, load = SETS[name]
        if not (DATA / name / file).exists():
            pytest.skip(f"there is no data set {name!r}: DECIBAN_DATA says where the sets are")
        if name not in loaded:
            loaded.clear()
            loaded[name] = load(DATA / name / file)
        return loaded[name]

    return get


def assert_same_on(name, options, texts, more):
    mine, theirs = CountVectorizer(**options), Theirs(**options)
    assert_same_counts(mine.fit_transform(texts), theirs.fit_transform(texts))
    assert_same_counts(mine.transform(more), theirs.transform(more))
    assert mine.vocabulary_ == theirs.vocabulary_, name


@pytest.mark.crossed(6)
@pytest.mark.parametrize("options", REAL.values(), ids=REAL)
@pytest.mark.parametrize("name", SETS)
def test_same_on_real_text(name, options, corpus):
    texts = corpus(name)
    assert_same_on(name, options, texts[:150], texts[150:200])


@pytest.mark.slow
@pytest.mark.parametrize("options", REAL.values(), ids=REAL)
@pytest.mark.parametrize("name", SETS)
def test_same_on_all_of_the_real_text(name, options, corpus):
    texts = corpus(name)
    assert_same_on(name, options, texts, texts[::7])


# ---- a sum

LEARNING = {name: OPTIONS[name] for name in OPTIONS if "vocabulary" not in OPTIONS[name]}


def assert_same_learned(a, b, some=TALES):
    first, second = outcome(lambda: a.vocabulary_), outcome(lambda: b.vocabulary_)
    assert first == second
    if first[1] is None:
        assert_same_counts(a.transform(some), b.transform(some))


@cache
def learned_whole(name):
    return CountVectorizer(**LEARNING[name]).fit(TALES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if i % 2 else []) for i, name in enumerate(LEARNING)]
)
@given(st.permutations(range(len(TALES))), st.lists(st.integers(0, len(TALES)), max_size=4))
@pytest.mark.filterwarnings("ignore:Your stop_words")
def test_any_split_and_order_is_fit_on_everything(name, order, cuts):
    edges = [0, *sorted(cuts), len(TALES)]
    options, whole = LEARNING[name], learned_whole(name)
    batches = [[TALES[i] for i in order[a:b]] for a, b in pairwise(edges)]
    grown = CountVectorizer(**options)
    total = None
    for batch in batches:
        grown.partial_fit(batch)
        alone = CountVectorizer(**options).partial_fit(batch)
        total = alone if total is None else total + alone
    assert_same_learned(grown, whole)
    assert_same_learned(total, whole)


def test_learning_goes_on_after_fit_transform_and_after_a_pickle():
    grown = CountVectorizer(min_df=2)
    grown.fit_transform(TALES[:3])
    grown.vocabulary_  # noqa: B018  # what was derived before must not stay
    grown = pickle.loads(pickle.dumps(grown)).partial_fit(TALES[3:])
    assert_same_learned(grown, CountVectorizer(min_df=2).fit(TALES))


def test_a_sum_leaves_its_parts_alone():
    a, b = CountVectorizer().fit(TALES[:3]), CountVectorizer().fit(TALES[3:])
    before = dict(a.vocabulary_), dict(b.vocabulary_)
    assert_same_learned(a + b, CountVectorizer().fit(TALES))
    assert (a.vocabulary_, b.vocabulary_) == before
    twin = copy.copy(a)
    a.partial_fit(["something new"])
    assert twin.vocabulary_ == before[0]
    assert "something" in a.vocabulary_
    assert "something" not in b.vocabulary_


def test_nothing_frequent_enough_yet_is_no_error_until_it_is_asked_for():
    grown = CountVectorizer(min_df=2).partial_fit(["one", "two"])
    with pytest.raises(ValueError, match="no terms remain"):
        grown.transform(["one"])
    assert grown.partial_fit(["one three"]).vocabulary_ == {"one": 0}


def test_what_cannot_be_added_is_refused():
    a, b = CountVectorizer().fit(TALES), CountVectorizer(min_df=2).fit(TALES)
    with pytest.raises(SchemaError, match="min_df differs: 1 and 2"):
        a + b
    with pytest.raises(NotFittedError, match="fit both"):
        a + CountVectorizer()
    with pytest.raises(TypeError):
        a + 1
    with pytest.raises(SchemaError, match="fit again"):
        a.set_params(ngram_range=(1, 2)).partial_fit(TALES)


def test_fixed_columns_stay_as_they_are():
    for columns in (["fox", "dog"], np.array(["fox", "dog"]), {"fox": 0, "dog": 1}):
        fixed = CountVectorizer(vocabulary=columns).partial_fit(TALES)
        assert (fixed + clone(fixed)).vocabulary_ == fixed.vocabulary_ == {"fox": 0, "dog": 1}


# ---- hashing

HASHED = {name: OPTIONS[name] for name in ("default", "up to four", "characters", "characters of words", "binary")}
HASHED |= {name: OPTIONS[name] for name in ("stop words, pairs", "own pattern", "own analyzer", "accents")}


@pytest.mark.parametrize("size", [1, 13, 2**20])
@pytest.mark.parametrize("options", HASHED.values(), ids=HASHED)
@pytest.mark.usefixtures("threaded")
def test_hashing_is_scikit_learns(options, size):
    theirs = HashingVectorizer(n_features=size, alternate_sign=False, norm=None, **options)
    mine = CountVectorizer(n_features=size, **options)
    expected = outcome(lambda: theirs.transform(TALES))[0]
    for X in (outcome(lambda: mine.transform(TALES))[0], outcome(lambda: mine.fit_transform(TALES))[0]):
        assert X.shape == expected.shape
        assert X.has_canonical_format
        assert (X != expected).nnz == 0
    assert not hasattr(mine, "vocabulary_")


def test_hashing_keeps_nothing():
    mine = CountVectorizer(n_features=8).partial_fit(TALES)
    assert not [name for name in vars(mine) if name not in mine.get_params()]
    check_is_fitted(mine)
    assert (mine + mine).transform(TALES).shape == (len(TALES), 8)
    for ask in (mine.get_feature_names_out, lambda: mine.inverse_transform(mine.transform(TALES))):
        with pytest.raises(NotFittedError, match="hashes"):
            ask()
    for name, value in (("vocabulary", ["a"]), ("min_df", 2), ("max_features", 3)):
        with pytest.raises(ValueError, match=name):
            CountVectorizer(n_features=8, **{name: value}).transform(TALES)


# ---- the estimator


def test_reads_what_was_given_in_bytes_and_files(tmp_path):
    paths = []
    for i, tale in enumerate(TALES):
        paths.append(tmp_path / f"{i}.txt")
        paths[-1].write_bytes(tale.encode())
    expected = Theirs().fit_transform(TALES)
    assert_same_counts(CountVectorizer().fit_transform([tale.encode() for tale in TALES]), expected)
    assert_same_counts(CountVectorizer(input="filename").fit_transform(paths), expected)
    with_handles = [path.open("rb") for path in paths]
    assert_same_counts(CountVectorizer(input="file").fit_transform(with_handles), expected)
    for handle in with_handles:
        handle.close()
    broken = [b"caf\xe9 au lait", "café au lait".encode("latin-1")]
    for options in ({"encoding": "latin-1"}, {"decode_error": "ignore"}, {"decode_error": "replace"}):
        assert_same(options, broken)


def test_iterators_are_read_once_in_pieces(monkeypatch):
    from deciban.text import documents

    monkeypatch.setattr(documents, "BATCH_CHARACTERS", 100)
    assert_same_counts(CountVectorizer().fit_transform(iter(TALES)), Theirs().fit_transform(TALES))
    with pytest.raises(ValueError, match="document 5 is of type int"):
        CountVectorizer().fit(iter([*TALES[:5], 7]))


def test_vocabulary_is_made_when_it_is_asked_for():
    mine = CountVectorizer().fit(TALES)
    mine.transform(TALES)
    mine.get_feature_names_out()
    assert "_columns" not in vars(mine)
    assert all(type(column) is int for column in mine.vocabulary_.values())
    assert mine.vocabulary_ is mine.vocabulary_


def test_vocabulary_can_be_set_by_hand():
    mine = CountVectorizer()
    assert not hasattr(mine, "vocabulary_")
    mine.vocabulary_ = {"fox": 1, "dog": 0}
    np.testing.assert_array_equal(mine.transform(TALES[:1]).toarray(), [[1, 1]])
    assert mine.get_feature_names_out().tolist() == ["dog", "fox"]
    with pytest.raises(DecibanError, match="fit first"):
        mine.partial_fit(TALES)
    mine.vocabulary_ = {"fox": 7}
    with pytest.raises(DecibanError, match="from 0 to 0"):
        mine.transform(TALES)
    assert mine.fit(TALES[:1]).vocabulary_ == Theirs().fit(TALES[:1]).vocabulary_


def test_parameters_may_change_after_fit_as_in_scikit_learn():
    mine, theirs = CountVectorizer().fit(TALES), Theirs().fit(TALES)
    for change in ({"lowercase": False}, {"analyzer": "char"}, {"analyzer": str.split}, {"analyzer": "word"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X, Y = mine.set_params(**change).transform(TALES), theirs.set_params(**change).transform(TALES)
        assert_same_counts(X, Y)


@every_option
@pytest.mark.parametrize("fitted", [False, True])
def test_clone_and_pickle(options, fitted):
    if any(callable(value) and value.__name__ == "<lambda>" for value in options.values()):
        pytest.skip("a lambda has no name to pickle")
    mine = CountVectorizer(**options)
    if fitted:
        outcome(lambda: mine.fit(TALES))
    again = pickle.loads(pickle.dumps(mine))
    assert clone(mine).get_params() == again.get_params() == mine.get_params()
    if fitted:
        assert_same_counts(again.transform(TALES), mine.transform(TALES))
        assert again.vocabulary_ == mine.vocabulary_
    else:
        assert hasattr(again, "vocabulary_") == hasattr(mine, "vocabulary_") == False  # noqa: E712  # three at once


def test_a_subclass_may_build_its_own_analyzer():
    class Initials(CountVectorizer):
        def build_tokenizer(self):
            words = super().build_tokenizer()
            return lambda text: [word[0] for word in words(text)]

    assert Initials().fit(["big dog", "blue"]).vocabulary_ == {"b": 0, "d": 1}


def test_terms_of_any_kind_as_in_scikit_learn():
    numbers = [[3, 1, 2, 1], [], [2, 7]]
    assert_same({"analyzer": lambda row: row}, numbers, [[7, 7, 9]])


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_scikit_learns_checks_of_a_vectorizer():
    check_estimator(CountVectorizer(), on_skip=None)


def test_in_a_pipeline_with_fitted_checks():
    with pytest.raises(NotFittedError):
        check_is_fitted(CountVectorizer())
    with pytest.raises(NotFittedError, match="not fitted"):
        CountVectorizer().transform(TALES)
    model = make_pipeline(CountVectorizer(), MultinomialNB()).fit(TALES, list("aabbaba"))
    check_is_fitted(model)
    assert (
        model.predict(["fox fox"]).tolist()
        == make_pipeline(Theirs(), MultinomialNB()).fit(TALES, list("aabbaba")).predict(["fox fox"]).tolist()
    )


# ---- bad input

NOT_TEXTS = {
    "None": (None, r"document 2 is missing \(None\)"),
    "NaN": (float("nan"), "np.nan is an invalid document.*Document 2 is missing"),
    "int": (5, r"document 2 is of type int \(5\), not a string"),
    "list": (["a"], "document 2 is of type list"),
}


@pytest.mark.parametrize("options", [{}, {"analyzer": "char"}, {"strip_accents": "ascii"}, {"token_pattern": "[a-z]+"}])
@pytest.mark.parametrize(("document", "says"), NOT_TEXTS.values(), ids=NOT_TEXTS)
def test_what_is_no_text_is_named(document, says, options):
    mine = CountVectorizer(**options).fit(TALES)
    before = dict(mine.vocabulary_)
    for act in (mine.fit, mine.fit_transform, mine.transform, mine.partial_fit):
        with pytest.raises(ValueError, match=says):
            act([*TALES[:2], document, "text"])
    assert mine.vocabulary_ == before
    assert_same_counts(mine.transform(TALES), CountVectorizer(**options).fit_transform(TALES))


@pytest.mark.parametrize("act", ["fit", "fit_transform", "transform", "partial_fit"])
def test_one_string_is_not_a_list_of_documents(act):
    mine = CountVectorizer(vocabulary=["a"])
    for single in ("one text", b"one text"):
        with pytest.raises(ValueError, match="Iterable over raw text documents expected, string object"):
            getattr(mine, act)(single)


def test_bad_bytes_name_their_document():
    with pytest.raises(UnicodeDecodeError, match="document 1"):
        CountVectorizer().fit(["fine", b"caf\xe9"])
    with pytest.raises(UnicodeDecodeError):
        CountVectorizer(encoding="ascii").fit(["fine", b"caf\xe9"])


@pytest.mark.parametrize(
    ("options", "documents"),
    [
        ({}, []),
        ({}, ["", " . "]),
        ({"stop_words": "english"}, ["the", "and"]),
        ({"ngram_range": (3, 3)}, ["too short"]),
        ({"min_df": 2}, ["a b", "c d"]),
        ({"min_df": 2, "max_df": 1}, ["aa", "bb"]),
        ({"min_df": 3, "max_df": 0.5}, ["aa", "aa"]),
        ({"vocabulary": []}, ["aa"]),
        ({"vocabulary": ["a", "a"]}, ["aa"]),
        ({"vocabulary": {"a": 0, "b": 2}}, ["aa"]),
        ({"ngram_range": (2, 1)}, ["aa"]),
        ({"stop_words": "klingon"}, ["aa"]),
        ({"token_pattern": r"(\w)(\w)"}, ["aa"]),
        ({"analyzer": "sentence"}, ["aa"]),
        ({"min_df": 1.5}, ["aa"]),
    ],
)
def test_errors_are_scikit_learns(options, documents):
    says = outcome(lambda: Theirs(**options).fit(documents))[1]
    assert says
    for act in ("fit", "fit_transform"):
        mine = CountVectorizer(**options)
        assert outcome(lambda: getattr(mine, act)(documents))[1] == says  # noqa: B023  # called at once


def test_transform_of_nothing():
    mine, theirs = CountVectorizer(ngram_range=(1, 2)).fit(TALES), Theirs(ngram_range=(1, 2)).fit(TALES)
    assert_same_counts(mine.transform([]), theirs.transform([]))
    assert_same_counts(mine.transform([""]), theirs.transform([""]))


def test_a_table_is_not_a_column():
    with pytest.raises(ValueError, match="choose a column"):
        CountVectorizer().fit(np.array([["a b"], ["c d"]]))
