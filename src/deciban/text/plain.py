"""The plain text model: one family over word counts (S3–S6, S8). A vocabulary and a model over its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, compress
from typing import Any, ClassVar, Protocol

import numpy as np

from deciban import bayes, collect, expect, score
from deciban._kernel import text as kernel
from deciban._typing import Array, Codes, Data, Floats, Matrix
from deciban.algebra import Stats
from deciban.corollaries.decay import scaled
from deciban.corollaries.explain import explain, strongest
from deciban.corollaries.forget import forget
from deciban.corollaries.leave_one_out import best_alpha, cross_fitted, leave_one_out
from deciban.corollaries.sample import sample
from deciban.errors import ForgetError, NotAvailableError
from deciban.families import Family
from deciban.joint import Block, Joint, Model
from deciban.learner import AS_LABELLED, Hidden, Learner, without_a_class
from deciban.priors import Alpha
from deciban.reading.labels import Labels
from deciban.results.evidence import ABSENT
from deciban.results.ways import CROSS_FITTED, EXACT, HELD
from deciban.schema import Columns, Schema
from deciban.text.documents import Texts
from deciban.text.evidence import TextEvidence, with_text
from deciban.text.hashed import Buckets, check_words_are_kept
from deciban.text.items import ItemStream, interleaved
from deciban.text.kept import NONE_KEPT, Kept
from deciban.text.parallel import map_with_own_state
from deciban.text.raw import Documents, Vocabulary
from deciban.text.shares import ItemEvidence, TokensOfText
from deciban.text.store import GRAIN
from deciban.text.sums import (
    MAX_ITEMS,
    NO_LIMIT,
    Limit,
    check_known,
    check_same_hashing,
    check_same_rule,
    most_used,
    warn_of_dropped,
)
from deciban.text.tokens import BY_SCRIPT, SIMPLE_CHARACTERS, TokenRule

MIN_WORD_CHARACTERS = 2  # characters of a word, as in scikit-learn's CountVectorizer
UNSPACED_WORD = 2  # letters of what counts as a word in scripts without spaces: any two neighbours


class AnyWords(Protocol):
    """Words by number: the words themselves, or their buckets if they are hashed."""

    def __len__(self) -> int: ...
    def add(self, strings: Iterable[str]) -> Codes: ...
    def find(self, strings: Iterable[str]) -> Codes: ...
    def merge(self, other: Any) -> Codes: ...
    def locate(self, other: Any) -> Codes: ...
    def strings(self, which: Codes | None = None) -> list[str]: ...
    def take(self, which: Codes) -> AnyWords: ...
    def copy(self) -> AnyWords: ...


def no_words(n_features: int | None) -> AnyWords:
    return Vocabulary() if n_features is None else Buckets(n_features)


def tokenized(
    documents: Documents, start: int, stop: int, words: Vocabulary, rule: TokenRule, unspaced: int = UNSPACED_WORD
) -> ItemStream:
    """The words of documents, which are added; in scripts without spaces, runs of `unspaced` letters."""
    ids, indptr, _ = kernel.tokenize(documents, start, stop, words, True, rule.words_name, MIN_WORD_CHARACTERS)
    if not rule.scripts:
        return ids, indptr
    runs = kernel.stretches(documents, start, stop, words, True, unspaced, unspaced)
    return interleaved((ids, indptr), runs) if len(runs[0]) else (ids, indptr)


def plain_words(text: str, lower: bool, rule: TokenRule) -> list[str]:
    """The distinct words of a text."""
    words = Vocabulary()
    tokenized(rule.prepared(Documents([text], lower)), 0, 1, words, rule)
    return words.strings()


def certain_characters(lower: bool, rule: TokenRule) -> tuple[str, str]:
    """Of Latin letters and common punctuation, those that are part of a word and stay as they are when read, and those
    that are between words, whatever is next to them: what a simpler splitter needs to know.

    A letter that is read as another one is neither, except a capital of ASCII.
    """
    inside, outside = "", ""
    for code in chain(*SIMPLE_CHARACTERS):
        one = chr(code)
        around, alone = (plain_words(text, lower, rule) for text in (f"ab{one}cd", 2 * one))
        as_read = one.lower() if lower and one.isascii() else one
        if around == ["ab", "cd"] and not alone:
            outside += one
        elif around == [f"ab{as_read}cd"] and alone == [2 * as_read]:
            inside += one
    return inside, outside


def count_words(
    batches: Iterable[Documents],
    n_jobs: int | None,
    n_features: int | None = None,
    rule: TokenRule = BY_SCRIPT,
    unspaced: int = UNSPACED_WORD,
) -> tuple[AnyWords, Matrix]:
    """The words, numbered in order of first use, and their counts by document."""
    import scipy.sparse as sp

    def work(words: AnyWords, documents: Documents, start: int, stop: int) -> tuple[Array, Array, Array]:
        spelled = words if isinstance(words, Vocabulary) else Vocabulary()
        ids, indptr = tokenized(documents, start, stop, spelled, rule, unspaced)
        if isinstance(words, Buckets):
            ids = words.number(spelled.hashes())[ids]
        return kernel.count(ids, indptr, len(words))

    prepared = map(rule.prepared, batches)
    (total, *others), pieces = map_with_own_state(prepared, n_jobs, lambda: no_words(n_features), work)
    to = [np.arange(len(total), dtype=np.int32), *(total.merge(other) for other in others)]
    rows = [
        sp.csr_array((counts.astype(np.float64), to[mine][indices], indptr), shape=(len(indptr) - 1, len(total)))
        for mine, (counts, indices, indptr) in pieces
    ]
    if not rows:
        return total, sp.csr_array((0, len(total)))
    return total, rows[0] if len(rows) == 1 else sp.vstack(rows, format="csr")


@dataclass(frozen=True, slots=True, eq=False)
class Plain(Learner):
    """A model over words: column w is the count of word w. `prior` has the user's pseudo-counts by word."""

    words: AnyWords
    model: Model
    alpha: Alpha = 1.0
    prior: Mapping[str, Any] = field(default_factory=dict)
    rule: TokenRule = BY_SCRIPT
    chooses: bool = False  # whether leave-one-out chooses alpha
    unlabelled: int = 0  # documents whose label was estimated by EM
    choosing: bool = False  # whether it keeps documents to choose alpha on
    kept: Kept = field(default=NONE_KEPT, repr=False)  # documents that were learned
    limit: Limit = NO_LIMIT  # how many words there may be

    item_kind: ClassVar[str] = "word"

    def __reduce__(self) -> tuple[type[Plain], tuple[Any, ...]]:
        """Kept documents are not pickled."""
        state = self.words, self.model, self.alpha, self.prior, self.rule, self.chooses, self.unlabelled, self.choosing
        return Plain, (*state, NONE_KEPT, self.limit)

    @classmethod
    def none(
        cls,
        family: Family,
        alpha: Alpha,
        classes: Array,
        prior: Mapping[str, Any],
        closed: bool,
        class_prior: str | Floats,
        n_features: int | None = None,
        chooses: bool = False,
        rule: TokenRule = BY_SCRIPT,
        max_items: int | None = MAX_ITEMS,
    ) -> Plain:
        words = no_words(n_features)
        words.add(prior)
        joint = Joint((Block(family, 1.0),), class_prior)
        model = Model(joint, joint.zero(Schema(classes, (Columns(len(words)),), closed)))
        limit = Limit(max_items, tuple(prior))
        return cls(words, model, alpha, prior, rule, chooses, limit=limit)._with_pseudo_counts()

    def zero(self) -> Plain:
        words, schema = no_words(self.n_features), self.model.schema
        words.add(self.prior)
        stats = self.model.joint.zero(Schema(schema.classes, (Columns(len(words)),), schema.closed))
        new = replace(self, words=words, unlabelled=0, choosing=False, kept=NONE_KEPT, limit=self.limit.fresh())
        return new._with_stats(stats)

    def with_limit(self, most: int | None) -> Plain:
        """The same with as many words allowed."""
        return self if most == self.limit.most else replace(self, limit=self.limit._replace(most=most))._cut()

    def _cut(self) -> Plain:
        """Without the least used words, if there are too many; see `TextSums.cut`."""
        words, most = self.words, self.limit.most
        if most is None or not isinstance(words, Vocabulary) or len(words) <= self.limit.highest:
            return self
        stats = self.model.stats
        use = stats.sums[0]["x"].sum(axis=0)
        keep = most_used(use, lambda which: words.hashes()[which], most)
        keep[words.find(self.prior)] = True
        dropped, amount = int(np.count_nonzero(~keep)), float(use[~keep].max(initial=0.0))
        warn_of_dropped(most, {"words": dropped})
        return replace(self, limit=self.limit.losing({"words": amount}, dropped))._with_words_of(stats, keep)

    @property
    def n_features(self) -> int | None:
        return self.words.n_features if isinstance(self.words, Buckets) else None

    @property
    def classes(self) -> Array:
        return self.model.classes

    @property
    def weight(self) -> Floats:
        return self.model.stats.weight

    @property
    def closed(self) -> bool:
        return self.model.schema.closed

    @property
    def log_prior(self) -> Floats:
        return self.model.log_prior

    @property
    def class_prior(self) -> str | Floats:
        return self.model.joint.class_prior

    def with_prior(self, class_prior: str | Floats) -> Plain:
        return replace(self, model=self.model.with_prior(class_prior))

    # ------------------------------------------------------------------ learning

    def batch(self, rows: Texts, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> Plain:
        labels = labels.placed(self.classes) if self.closed else labels
        words, X = count_words(rows.batches(), n_jobs, self.n_features, self.rule)
        schema = Schema(labels.classes, (Columns(X.shape[1]),), self.closed)
        stats = collect.collect([X], self.model.joint.with_alpha(1.0), schema, labels.codes, weight, n_jobs)
        model = Model(self.model.joint, stats)
        kept = Kept.of(rows, labels, weight, self.rule) if self.chooses and self.choosing else NONE_KEPT
        alone = replace(self, words=words, model=model, unlabelled=0, kept=kept, limit=self.limit.fresh())
        return alone.with_room_for(self.prior)._with_pseudo_counts()

    def with_room_for(self, strings: Iterable[str]) -> Plain:
        """With these words added to the vocabulary."""
        known = self.words.copy()
        known.add(strings)
        return self if len(known) == len(self.words) else self._among(known)

    def __sub__(self, other: Plain) -> Plain:
        """Without what the other learned, and without words whose count is zero then, except those of the prior."""
        check_same_hashing(self.n_features, other.n_features)
        check_same_rule(self.rule, other.rule)
        to = self.words.locate(other.words)
        theirs = other.model.stats
        unknown = np.flatnonzero((to < 0) & (theirs.sums[0]["x"].sum(axis=0) > 0))
        if len(unknown):
            word = other.words.strings(unknown[:1].astype(np.int32))[0]
            raise ForgetError("cannot forget these documents: the model never learned the word {value!r}", value=word)
        remaining = forget(self.named(), other._moved(to, len(self.words))).stats
        kept = self.kept.without(other.kept, remaining.schema.classes, remaining.weight)
        return replace(self, kept=kept)._with_words_of(remaining, remaining.sums[0]["x"].sum(axis=0) > 0)

    def _moved(self, to: Array, size: int) -> Stats:
        """The sums with word w as column to[w]; −1 drops a word."""
        stats, known = self.model.stats, to >= 0
        sums = dict(stats.sums[0])
        sums["x"] = np.zeros((len(stats.weight), size))
        sums["x"][:, to[known]] = stats.sums[0]["x"][:, known]
        return Stats(replace(stats.schema, blocks=(Columns(size),)), stats.weight, (sums,))

    def scale(self, share: float) -> Plain:
        """With every sum times a number; words with less than a grain left are dropped."""
        remaining = scaled(self.model.stats, share)
        kept = self.kept.scale(share)
        return replace(self, kept=kept)._with_words_of(remaining, remaining.sums[0]["x"].sum(axis=0) >= 1.0 / GRAIN)

    def _with_words_of(self, stats: Stats, keep: Array) -> Plain:
        """With these sums, restricted to the words to keep and those of the prior."""
        keep[self.words.find(self.prior)] = True
        if keep.all():
            return self._with_stats(stats)
        which = np.flatnonzero(keep).astype(np.int32)
        sums = {**stats.sums[0], "x": np.ascontiguousarray(stats.sums[0]["x"][:, which])}
        remaining = Stats(replace(stats.schema, blocks=(Columns(len(which)),)), stats.weight, (sums,))
        return replace(self, words=self.words.take(which))._with_stats(remaining)

    def __add__(self, other: Plain) -> Plain:
        check_same_hashing(self.n_features, other.n_features)
        check_same_rule(self.rule, other.rule)
        few, many = sorted(
            (self, other), key=lambda one: len(one.words)
        )  # the larger is copied, the smaller merged into it
        known = many.words.copy()
        to = known.merge(few.words)
        stats = many._among(known).model.stats + few._moved(to, len(known))
        both = replace(
            self,
            words=known,
            unlabelled=self.unlabelled + other.unlabelled,
            choosing=self.choosing or other.choosing,
            kept=self.kept + other.kept,
            limit=self.limit.plus(other.limit),
        )
        return both._with_stats(stats)._cut()

    def every_row(self) -> tuple[Texts, Labels, Floats | None] | None:
        return None if self.unlabelled else self.kept.every_row(self.classes, self.weight)

    @property
    def why_inexact(self) -> str:
        if self.limit.dropped:  # a word's counts are shares of all words
            return f"{self.limit.dropped:,} words were dropped, so what is left of a document is not known"
        return "some labels were inferred from all other documents" if self.unlabelled else ""

    def _among(self, words: AnyWords) -> Plain:
        """The same with more words, which come after this model's."""
        stats, more = self.model.stats, len(words) - len(self.words)
        sums = {
            name: np.pad(array, ((0, 0), (0, more))) if name == "x" else array for name, array in stats.sums[0].items()
        }
        schema = replace(stats.schema, blocks=(Columns(len(words)),))
        return replace(self, words=words, model=Model(self.model.joint, Stats(schema, stats.weight, (sums,))))

    def _with_stats(self, stats: Stats) -> Plain:
        return replace(self, model=Model(self.model.joint, stats))._with_pseudo_counts()

    def _with_pseudo_counts(self) -> Plain:
        """With alpha for every class and word, plus the user's pseudo-counts: {word: n} or {word: {class: n}}."""
        alpha: Alpha = self.alpha
        if self.prior:
            extra, labels = np.zeros((len(self.classes), len(self.words))), self.classes.tolist()
            for column, value in zip(self.words.find(self.prior), self.prior.values(), strict=True):
                extra[:, column] += [value.get(c, 0.0) for c in labels] if isinstance(value, Mapping) else value
            if not self.model.generative:  # a class's complement gets the pseudo-counts of the others
                extra = extra.sum(axis=0) - extra
            alpha = float(alpha) + extra
        return replace(self, model=self.model.with_joint(self.model.joint.with_alpha(alpha)))

    # ------------------------------------------------------------------ prediction

    def rows(self, batches: Iterable[Documents], n_jobs: int | None = None) -> Matrix:
        """Counts of the model's words; unknown words are dropped."""
        words, counts = count_words(batches, n_jobs, self.n_features, self.rule)
        return columns_moved(counts, self.words.locate(words), len(self.words))

    def log_joints(self, rows: Texts, n_jobs: int | None = None) -> Floats:
        return score.apply([self.rows(rows.batches(), n_jobs)], self.model, "log_joint", n_jobs)

    def log_density(self, rows: Texts, n_jobs: int | None = None) -> Floats:
        if not self.model.generative:
            raise NotAvailableError("complement naive Bayes is not a generative model: it has no p(x)")
        return bayes.log_evidence(self.log_joints(rows, n_jobs))

    def log_posterior_without(
        self, rows: Texts, codes: Codes, weight: Floats | None, n_jobs: int | None, whole: bool
    ) -> tuple[Floats, str]:
        """If alpha was chosen and these are all documents, under the alpha chosen on the other folds."""
        words, counts = count_words(rows.batches(), n_jobs, self.n_features, self.rule)
        to = self.words.locate(words)
        which = np.arange(len(codes))
        weighted = which if weight is None else which[weight > 0]
        check_known(weighted, which, {"words": (counts.indptr, to[counts.indices])})
        X = columns_moved(counts, to, len(self.words))
        if self.chooses and whole:
            scores = cross_fitted(self.model, partial(self._chosen_by, n_jobs), [X], codes, weight, n_jobs).log_proba
        else:
            scores = leave_one_out(self.model, [X], codes, weight, n_jobs).log_proba
        way = EXACT if not self.chooses else CROSS_FITTED if whole else HELD
        return without_a_class(self, scores, codes, weight), way

    def _chosen_by(self, n_jobs: int | None, data: Data, y: Codes, weight: Floats | None) -> Model:
        joint = self.model.joint
        part = Model(joint, collect.collect(data, joint, self.model.schema, y, weight, n_jobs))
        alpha = best_alpha(part, data, y, weight, n_jobs)
        return replace(self, alpha=alpha)._with_pseudo_counts().model

    # ------------------------------------------------------------------ missing labels, choices

    def choose(self, rows: Texts, codes: Codes, weight: Floats | None = None, n_jobs: int | None = None) -> Plain:
        """With the alpha that has the least leave-one-out log loss on these learned documents.

        From then on it keeps documents to choose on.
        """
        if not self.chooses:
            return self
        known = np.flatnonzero(codes >= 0)
        X = self.rows(rows.batches(), n_jobs)[known]
        alpha = best_alpha(self.model, [X], codes[known], None if weight is None else weight[known], n_jobs)
        return replace(self, alpha=alpha, choosing=True)._with_pseudo_counts()

    def fill(
        self,
        rows: Texts,
        codes: Codes,
        weight: Floats | None = None,
        hidden: Hidden = AS_LABELLED,
        n_jobs: int | None = None,
        watch: Callable[[int, float], None] | None = None,
    ) -> Plain:
        """With labels estimated by EM for codes −1."""
        how: dict[str, Any] = {} if watch is None else {"watch": watch}
        data = [self.rows(rows.batches(), n_jobs)]
        learned = expect.learn_hidden(
            data, self.model, codes, weight, hidden_weight=hidden.weight, n_jobs=n_jobs, **how
        )
        return replace(self, model=learned.model, unlabelled=self.unlabelled + int((codes < 0).sum()))

    # ------------------------------------------------------------------ pickling

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        from deciban.text import files

        return files.parts(self)

    @classmethod
    def unpack(cls, document: Mapping[str, Any], tensors: Mapping[str, Array]) -> Plain:
        from deciban.text import files

        model = files.rebuild(document, tensors)
        assert isinstance(model, cls)
        return model

    # ------------------------------------------------------------------ explanations and samples

    def named(self) -> Model:
        """The model with its columns named by their words; cached, since making the strings is slow."""

        def make() -> Model:
            stats = self.model.stats
            columns = Columns(len(self.words), tuple(self.words.strings()))
            return Model(self.model.joint, replace(stats, schema=replace(stats.schema, blocks=(columns,))))

        return self.model.cached("named", make)  # type: ignore[no-any-return]  # what make gives

    def explain(self, row: Texts, target: int | None = None, against: int | None = None, **how: Any) -> TextEvidence:
        """One document's evidence for a class over another: `by` word, or by item."""
        by = how.get("by", "column")
        text, lower, vocabulary = row.string(0), row.lower, Vocabulary()
        ids, _ = tokenized(self.rule.prepared(Documents([text], lower)), 0, 1, vocabulary, self.rule)
        strings = vocabulary.strings()
        numbers = self.words.find(strings)
        columns = numbers[ids]
        counts = np.bincount(columns[columns >= 0], minlength=len(self.words)).astype(np.float64)  # one row: not sparse
        evidence = explain(self.named(), [counts[None]], target, against)
        meant: dict[str, list[str]] = {}  # the words of each column in this text: several may be in one bucket
        known = numbers >= 0
        for word, name in zip(compress(strings, known), self.words.strings(numbers[known]), strict=True):
            meant.setdefault(name, []).append(word)
        items, others = [], []
        for name, value, db in evidence.items:
            if name in meant and value:
                spellings = [tuple(self.rule.tokens(word, lower=False)) for word in meant[name]]
                items.append(ItemEvidence("words", spellings, db, value))
            else:
                others.append((name, value, db))
        absent = [db for _, value, db in others if value == 0]
        if by == "column" and absent:  # Bernoulli: every learned word is evidence, present or not
            others = [(name, value, db) for name, value, db in others if value != 0]
            others.append((ABSENT, "", float(sum(absent))))
        return with_text(evidence, text, TokensOfText.of(text, lower, self.rule), items, others, by)

    def strongest(self, target: int, most: int) -> list[tuple[str, float]]:
        return strongest(self.named(), target, most)

    def sample(self, n: int, rng: np.random.Generator, given: int | None = None, **how: Any) -> tuple[list[str], Codes]:
        """Documents and their classes: bags of words, in any order."""
        if not self.model.generative:
            raise NotAvailableError("complement naive Bayes is not a generative model: texts cannot be drawn from it")
        length = how.get("length")
        check_words_are_kept(self.n_features)
        strings = self.words.strings()
        texts, codes = [], []
        for _ in range(n):  # one at a time: a row is as long as the vocabulary
            if not strings:
                codes.append(int(rng.choice(len(self.classes), p=np.exp(self.log_prior))) if given is None else given)
                texts.append("")
                continue
            (rows, *_), y = sample(self.model, 1, rng, given, length)
            texts.append(shuffled(strings, np.asarray(rows)[0].astype(np.int64), rng))
            codes.append(int(y[0]))
        return texts, np.array(codes, dtype=np.int64)


def shuffled(strings: list[str], counts: Array, rng: np.random.Generator) -> str:
    """Each word as often as it was counted, in any order."""
    at = np.repeat(np.arange(len(counts)), counts)
    rng.shuffle(at)
    return " ".join(strings[i] for i in at)


def columns_moved(X: Matrix, to: Array, size: int) -> Matrix:
    """Column w as column to[w]; −1 drops a column."""
    if len(to) == size and np.array_equal(to, np.arange(size)):
        return X
    import scipy.sparse as sp

    where = to[X.indices]
    keep = where >= 0
    indptr = np.concatenate([[0], np.cumsum(keep)])[X.indptr]
    out = sp.csr_array((X.data[keep], where[keep], indptr), shape=(X.shape[0], size))
    out.sort_indices()
    return out
