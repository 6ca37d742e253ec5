"""Counts of terms in documents: scikit-learn's CountVectorizer over a compiled reader of text."""

from __future__ import annotations

import codecs
import copy
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer as Base
from sklearn.utils import metadata_routing
from sklearn.utils._param_validation import Interval

from deciban._typing import Array, Codes, Matrix
from deciban.errors import DecibanError, SchemaError, warn
from deciban.estimators.changes import lock_of
from deciban.text.documents import as_texts, batches, check
from deciban.text.vectorizer import counting
from deciban.text.vectorizer.counting import TermColumns, TermCounts
from deciban.text.vectorizer.terms import Recipe

# Patterns that only mean "words of at least this many characters".
PLAIN_WORDS = re.compile(r"(?:\(\?u\))?(?:\\b)?((?:\\w)*)\\w\+(?:\\b)?")
# If a subclass overrides one of these, terms are computed in Python.
BUILDERS = (
    *("build_analyzer", "build_preprocessor", "build_tokenizer", "decode", "get_stop_words"),
    *("_word_ngrams", "_char_ngrams", "_char_wb_ngrams"),
)
ANALYSER_BATCH = 1024  # documents analysed in Python at a time, before terms are counted


class CountVectorizer(Base):  # type: ignore[misc]  # scikit-learn has no types
    """Documents as counts of their terms: scikit-learn's CountVectorizer, compiled, in threads, and a sum.

    Words, runs of words and runs of characters are read by compiled code; a `tokenizer`, an `analyzer` or a
    `token_pattern` of your own is called as scikit-learn calls it. Documents may also be a column of pandas, Polars or
    Arrow, or `Lines` of a file.

    What is learned is, for every term, how many documents have it and how often it occurs. `vocabulary_` is derived
    from these sums, so `partial_fit` on batches in any order, or `a + b`, equals `fit` on everything; also if
    `min_df`, `max_df` or `max_features` select terms.

    Parameters
    ----------
    input, encoding, decode_error, strip_accents, lowercase, preprocessor, tokenizer, stop_words, token_pattern, \
ngram_range, analyzer, max_df, min_df, max_features, vocabulary, binary, dtype : as in scikit-learn
    n_features : int, default=None
        The number of columns; a term's is |MurmurHash3(term)| mod n_features, as in scikit-learn's HashingVectorizer
        with alternate_sign=False and norm=None. Nothing is learned: `transform` needs no `fit`, and memory does not
        grow with the number of distinct terms.
    n_jobs : int, default=None
        Threads; None uses all cores if there is enough text to benefit.

    Attributes
    ----------
    vocabulary_ : dict of terms and their columns, computed when first needed
    fixed_vocabulary_ : whether the parameter `vocabulary` gave it

    Examples
    --------
    >>> from deciban import CountVectorizer
    >>> counts = CountVectorizer()
    >>> counts.fit_transform(["The dog, the cat.", "A cat!"]).toarray().tolist()
    [[1, 1, 2], [1, 0, 0]]
    >>> counts.vocabulary_
    {'cat': 0, 'dog': 1, 'the': 2}
    >>> counts.partial_fit(["a bird"]).get_feature_names_out().tolist()
    ['bird', 'cat', 'dog', 'the']
    """

    # As in scikit-learn: the first argument of partial_fit is the data, whatever its name.
    __metadata_request__partial_fit: ClassVar[dict[str, Any]] = {"raw_documents": metadata_routing.UNUSED}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Base._parameter_constraints,
        "n_features": [Interval(Integral, 1, np.iinfo(np.int32).max, closed="left"), None],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        *,
        input: str = "content",  # noqa: A002  # scikit-learn's name
        encoding: str = "utf-8",
        decode_error: str = "strict",
        strip_accents: Any = None,
        lowercase: bool = True,
        preprocessor: Any = None,
        tokenizer: Any = None,
        stop_words: Any = None,
        token_pattern: str | None = r"(?u)\b\w\w+\b",  # noqa: S107 - no password
        ngram_range: tuple[int, int] = (1, 1),
        analyzer: Any = "word",
        max_df: float = 1.0,
        min_df: float = 1,
        max_features: int | None = None,
        vocabulary: Any = None,
        binary: bool = False,
        dtype: Any = np.int64,
        n_features: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            input=input,
            encoding=encoding,
            decode_error=decode_error,
            strip_accents=strip_accents,
            lowercase=lowercase,
            preprocessor=preprocessor,
            tokenizer=tokenizer,
            stop_words=stop_words,
            token_pattern=token_pattern,
            ngram_range=ngram_range,
            analyzer=analyzer,
            max_df=max_df,
            min_df=min_df,
            max_features=max_features,
            vocabulary=vocabulary,
            binary=binary,
            dtype=dtype,
        )
        self.n_features = n_features
        self.n_jobs = n_jobs

    def fit(self, raw_documents: Iterable[Any], y: Any = None) -> Self:
        """Learn the vocabulary of the documents."""
        del y
        if self._start(raw_documents):
            recipe, documents = self._read(raw_documents)
            tally = counting.learn(documents, recipe, self.n_jobs)
            self._learned(tally, self._choose(tally, tally.ranks())[0])
        return self

    def fit_transform(self, raw_documents: Iterable[Any], y: Any = None) -> Matrix:
        """Learn the vocabulary of the documents and count, in one pass. CSR of shape (n, v)."""
        del y
        if not self._start(raw_documents):
            return self._count(raw_documents)
        recipe, documents = self._read(raw_documents)
        tally, ranks, X = counting.learn_and_count(documents, recipe, self.dtype, self.n_jobs)
        vocabulary, columns = self._choose(tally, ranks)
        self._learned(tally, vocabulary)
        return self._finish(counting.prune(X, columns))

    def transform(self, raw_documents: Iterable[Any]) -> Matrix:
        """Count the terms of the vocabulary in each document. CSR of shape (n, v)."""
        check_not_a_string(raw_documents)
        if self.n_features is None:
            self._check_vocabulary()
        else:
            self._check_hashing()
        return self._count(raw_documents)

    def partial_fit(self, raw_documents: Iterable[Any], y: Any = None) -> Self:
        """Learn from more documents: the result is that of `fit` on all of them."""
        del y
        if not self._start(raw_documents):
            return self
        recipe, documents = self._read(raw_documents)
        with lock_of(self):  # another thread may be at its first documents
            self._sums_so_far(recipe)  # checked before documents are read
        tally = counting.learn(documents, recipe, self.n_jobs)
        with lock_of(self):
            before = self._sums_so_far(recipe)
            if before is not None:
                before.merge(tally)
            self._learned(before or tally)
        return self

    def _sums_so_far(self, recipe: Recipe) -> TermCounts | None:
        """What more documents are added to; None before the first."""
        before: TermCounts | None = vars(self).get("_tally")
        if before is None and self.__sklearn_is_fitted__():
            raise DecibanError("vocabulary_ was set without the sums needed to continue learning: call fit first")
        if before is not None and before.terms.recipe != recipe:
            raise SchemaError("parameters have changed since the first documents were learned: call fit again")
        return before

    def __add__(self, other: Self) -> Self:
        """The vectorizer that learned what both did."""
        if type(other) is not type(self):
            return NotImplemented
        for name, mine in self.get_params(deep=False).items():
            theirs = getattr(other, name)
            if name != "n_jobs" and not np.array_equal(np.asarray(mine), np.asarray(theirs)):
                raise SchemaError(f"cannot merge vectorizers whose {name} differs: {mine!r} and {theirs!r}")
        merged = copy.copy(self)
        if self.n_features is None and self.vocabulary is None:
            if "_tally" not in vars(self) or "_tally" not in vars(other):
                raise NotFittedError("only fitted vectorizers can be added: fit both first")
            if self._tally.terms.recipe != other._tally.terms.recipe:
                raise SchemaError("parameters of one of the two have changed since it was fitted: fit it again")
            merged._tally.merge(other._tally)
        return merged

    def __copy__(self) -> Self:
        """A copy that learns independently."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        with lock_of(self):
            if "_tally" in vars(self):
                other._learned(self._tally.copy())
        return other

    @property
    def vocabulary_(self) -> dict[Any, int]:
        """Terms and their columns."""
        if "_columns" not in vars(self):
            vocabulary = self._derived()
            self._columns = dict(zip(vocabulary.names().tolist(), range(vocabulary.size), strict=True))
        return self._columns

    @vocabulary_.setter
    def vocabulary_(self, columns: dict[Any, int]) -> None:
        self._forget()
        self._columns = columns

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The terms in the order of their columns."""
        self._check_vocabulary()
        if "_columns" in vars(self):
            return super().get_feature_names_out(input_features)  # type: ignore[no-any-return]  # scikit-learn's
        return self._derived().names()

    def _start(self, raw_documents: Any) -> bool:
        """scikit-learn's checks before fitting, in its order; returns whether there is anything to learn."""
        self._validate_params()
        check_not_a_string(raw_documents)
        self._validate_ngram_range()
        self._warn_for_unused_params()
        if self.n_features is not None:
            self._check_hashing()
            return False
        self._validate_vocabulary()
        if self.fixed_vocabulary_ and self.lowercase and any(map(has_capitals, self.vocabulary_)):
            warn(
                "Upper case characters found in vocabulary while 'lowercase' is True. "
                "These entries will not be matched with any documents",
                UserWarning,
            )
        return not self.fixed_vocabulary_

    def _check_hashing(self) -> None:
        if self.vocabulary is not None:
            raise ValueError(
                "give n_features (columns are hashes of terms) or vocabulary (columns are given), not both"
            )
        if (self.min_df, self.max_df, self.max_features) != (1, 1.0, None):
            raise ValueError(
                "min_df, max_df and max_features need a vocabulary, but with n_features there is none: leave them out"
            )

    def _check_vocabulary(self) -> None:
        if self.n_features is not None:
            raise NotFittedError("with n_features columns are hashes of terms, so there is no vocabulary")
        if "_tally" in vars(self):
            self._derived()
        else:
            super()._check_vocabulary()

    def __sklearn_is_fitted__(self) -> bool:
        return "_tally" in vars(self) or "_columns" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = self.n_features is None
        return tags

    def _forget(self) -> None:
        for name in ("_tally", "_chosen", "_columns"):
            self.__dict__.pop(name, None)

    def _learned(self, tally: TermCounts, vocabulary: TermColumns | None = None) -> None:
        with lock_of(self):
            self._forget()
            self._tally = tally
            if vocabulary is not None:
                self._chosen = vocabulary

    def _derived(self) -> TermColumns:
        """The vocabulary of the learned terms, computed when first needed."""
        with lock_of(self):
            if "_chosen" not in vars(self):
                if "_tally" not in vars(self):
                    raise AttributeError(f"{type(self).__name__!r} object has no attribute 'vocabulary_': fit first")
                self._chosen = self._choose(self._tally, self._tally.ranks())[0]
            return self._chosen

    def _choose(self, tally: TermCounts, ranks: list[Codes]) -> tuple[TermColumns, Codes]:
        """The vocabulary of the learned terms, and its columns by rank."""
        n = tally.documents
        least, most = (
            float(bound if isinstance(bound, Integral) else bound * n) for bound in (self.min_df, self.max_df)
        )
        # The type in which scikit-learn adds counts determines how ties are sorted.
        kind = sp.csr_array((1, 1), dtype=self.dtype).sum(axis=0).dtype
        once = self.binary or np.dtype(self.dtype) == bool
        columns = counting.choose(tally, ranks, least, most, self.max_features, once, kind)
        return counting.vocabulary_of(tally.terms, ranks, columns), columns

    def _read(self, raw_documents: Any) -> tuple[Recipe, Iterator[Any]]:
        """How terms are extracted, and the documents: for the kernel, or as lists of terms extracted in Python."""
        analyze = self.build_analyzer()  # with scikit-learn's errors and warnings
        recipe = self._recipe()
        if recipe.unit == "given":
            return recipe, in_lists(map(analyze, self._checked(raw_documents)))
        utf8 = self.decode_error == "strict" and codecs.lookup(self.encoding).name == "utf-8"
        unprocessed = self.preprocessor is None and not self.strip_accents
        if self.input == "content" and utf8 and unprocessed:
            return recipe, batches(raw_documents, self.lowercase, ends=recipe.unit == "char")
        decoded = map(self.decode, self._checked(raw_documents))
        if unprocessed:
            return recipe, batches(decoded, self.lowercase)
        return recipe, batches(map(self.build_preprocessor(), decoded), lower=False)

    def _recipe(self) -> Recipe:
        """How the kernel extracts terms; "given" if Python has to."""
        min_n, max_n = self.ngram_range
        overridden = overrides(type(self)) or not vars(self).keys().isdisjoint(BUILDERS)
        if overridden or callable(self.analyzer) or not 1 <= min_n <= max_n:
            return Recipe("given")
        max_n = min(max_n, np.iinfo(np.int32).max)
        if self.analyzer != "word":
            return Recipe(self.analyzer, min_n, max_n)
        match = PLAIN_WORDS.fullmatch(self.token_pattern or "")
        if match is None or self.tokenizer is not None:
            return Recipe("given")
        stop_words = frozenset(word for word in self.get_stop_words() or () if isinstance(word, str))
        return Recipe("word", min_n, max_n, 1 + len(match[1]) // len(r"\w"), stop_words)

    def _checked(self, raw_documents: Any) -> Iterator[Any]:
        """The documents one by one; what is not a text is an error, unless other code processes it."""
        texts = self.input == "content" and self.preprocessor is None and not callable(self.analyzer)
        for number, document in enumerate(as_texts(raw_documents)):
            if texts:
                check(document, number)
            yield document

    def _count(self, raw_documents: Any) -> Matrix:
        recipe, documents = self._read(raw_documents)
        if self.n_features is not None:
            return self._finish(counting.count_hashed(documents, recipe, self.n_features, self.dtype, self.n_jobs))
        if "_columns" not in vars(self):
            self._derived()
        if "_chosen" not in vars(self) or self._chosen.terms.recipe != recipe:
            self._chosen = counting.fixed(recipe, self.vocabulary_)
        return self._finish(counting.count(documents, self._chosen, self.dtype, self.n_jobs))

    def _finish(self, X: Matrix) -> Matrix:
        if self.binary:
            X.data.fill(1)
        return sp.csr_array(X) if get_config().get("sparse_interface") == "sparray" else X


def overrides(kind: type) -> bool:
    """Whether a subclass has its own way of extracting terms."""
    return any(getattr(kind, name) is not getattr(Base, name) for name in BUILDERS)


def check_not_a_string(raw_documents: Any) -> None:
    if isinstance(raw_documents, str | bytes):
        raise ValueError("Iterable over raw text documents expected, string object received.")


def has_capitals(term: str) -> bool:
    return not term.islower() and any(map(str.isupper, term))


def in_lists(analysed: Iterator[Iterable[Any]]) -> Iterator[list[list[Any]]]:
    while batch := [list(terms) for terms in islice(analysed, ANALYSER_BATCH)]:
        yield batch
