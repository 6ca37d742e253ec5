"""Raw text in, labels out."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from deciban import bayes
from deciban._typing import Array, Floats
from deciban.corollaries.decay import share_left
from deciban.corollaries.leave_one_out import NO_WAY, LeaveOneOut, alone_in_class, shares_of
from deciban.errors import DecibanError, ForgetError, SchemaError
from deciban.estimators.answers import generator, one_column
from deciban.estimators.pooled import PooledClassifier
from deciban.estimators.prediction_sets import LearnedRows
from deciban.families import Bernoulli, Complement, Family, Multinomial
from deciban.reading.given import Rows
from deciban.reading.labels import Labels, read_labels, read_weights, without_mark
from deciban.results.evaluation import CROSS_FITTED, EXACT, HELD
from deciban.results.tally import Tally
from deciban.show import Table, plain, progress
from deciban.storage import files
from deciban.text.common import RIDGES
from deciban.text.documents import Lines, arrow_column, as_texts, batches, check, decoded
from deciban.text.evidence import TOKEN, TextEvidence
from deciban.text.files import parts, rebuild
from deciban.text.graded import Graded, Labelled
from deciban.text.hashed import MOST as MOST_BUCKETS
from deciban.text.items import BLOCKS, choose_blocks
from deciban.text.kept import MOST, Kept, marks, smallest
from deciban.text.plain import SHORTEST, Plain
from deciban.text.raw import Documents
from deciban.text.tables import KNOTS, STRENGTHS

Self = TypeVar("Self", bound="TextClassifier")

FAMILIES: dict[str, Family] = {"multinomial": Multinomial(), "bernoulli": Bernoulli(), "complement": Complement()}
ROWS = 100_000  # documents times classes that reliabilities are fitted on: more changes them little


def is_plain(model: Any) -> bool:
    graded = isinstance(vars(model).get("model_"), Graded) if "model_" in vars(model) else model.reliability is not None
    if graded or model.family == "complement":
        raise AttributeError("p(x) is what a plain generative model has: reliability=None and no complement family")
    return True


class TextClassifier(PooledClassifier):
    """Texts in, labels out: learned in one pass, updated, forgotten and merged exactly, explained word by word.

    By default the evidence of words, pairs of words, header fields, and in short texts of gaps and characters is graded
    by how much each item knows, and weighed by reliabilities that are fitted on exact leave-one-out evidence; so the
    probabilities come calibrated. `reliability=None` is the plain model of one family on words, in one pass.

    Parameters
    ----------
    reliability : "loo" or None, default="loo"
        How far evidence is believed: by leave-one-out, or as the family has it.
    family : "multinomial", "bernoulli" or "complement", default="multinomial"
        The law of words where reliability is None (S3–S6, S8).
    alpha : float, "loo" or "empirical", default=1.0
        Pseudo-counts of the family. With reliability, several strengths are weighed and this is not used.
    blocks : "auto" or a sequence of "words", "pairs", "headers", "gaps", "characters", "repeats", default="auto"
        What evidence is taken of where there is reliability. By itself: words and pairs; header fields if most of the
        documents begin with lines "Name: …"; gaps (words two or three apart) and characters if texts are short; repeats
        (words that come two, three or five times at least) where several words of a text do.
    prior : mapping, optional
        Pseudo-counts that a person puts in (S6, S19): {word: n} for all classes or {word: {class: n}}. With
        reliability, n documents' worth. See `deciban.text.background` for those of a corpus.
    class_prior : array-like of shape (k,), {class: p}, "uniform" or None, default=None
        The class prior; None counts it.
    lowercase : bool, default=True
        Whether "Free" is "free".
    n_features : int, default=None
        Hashes items into so many buckets, |MurmurHash3| mod n_features, and keeps no words: memory is bounded however
        many texts there are, and nothing of them can be read from a model. Items in one bucket are one to the model:
        with 2**20 few matter. By block of evidence; a model has only the buckets that it has seen.
    n_jobs : int, default=None
        Threads; None is all cores where there is enough text to gain from them.

    Attributes
    ----------
    classes_ : the labels, sorted
    class_count_ : how many documents of each were learned
    reliability_ : the reliabilities, a table
    model_ : the model as a value

    Examples
    --------
    >>> from deciban import TextClassifier
    >>> texts = ["win cash now", "claim a cash prize now", "win a prize", "lunch?", "see you at lunch", "lunch at noon"]
    >>> labels = ["spam", "spam", "spam", "ham", "ham", "ham"]
    >>> model = TextClassifier().fit(texts, labels)
    >>> model.predict(["cash for lunch", "claim your prize now"]).tolist()
    ['ham', 'spam']
    >>> model.partial_fit(["free cash"], ["spam"]).forget(texts[:1], labels[:1]).class_count_.tolist()
    [3.0, 3.0]
    """

    model_: Graded | Plain
    kept_: Kept

    _texts: ClassVar[bool] = True
    _choosing = True  # whether it chooses by itself, for which it keeps documents

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "reliability": [StrOptions({"loo"}), None],
        "family": [StrOptions(set(FAMILIES))],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"loo", "empirical"})],
        "blocks": [StrOptions({"auto"}), "array-like"],
        "prior": [Mapping, None],
        "class_prior": ["array-like", Mapping, StrOptions({"uniform"}), None],
        "lowercase": ["boolean"],
        "n_features": [Interval(Integral, 1, MOST_BUCKETS, closed="both"), None],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        *,
        reliability: str | None = "loo",
        family: str = "multinomial",
        alpha: Any = 1.0,
        blocks: Any = "auto",
        prior: Any = None,
        class_prior: Any = None,
        lowercase: bool = True,
        n_features: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.reliability = reliability
        self.family = family
        self.alpha = alpha
        self.blocks = blocks
        self.prior = prior
        self.class_prior = class_prior
        self.lowercase = lowercase
        self.n_features = n_features
        self.n_jobs = n_jobs

    # ------------------------------------------------------------------ learning

    def fit(
        self: Self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        unlabelled: Any = None,
        unlabelled_weight: float = 0.1,
        text: str | None = None,
        engine: str | None = None,
    ) -> Self:
        """Learn from texts and labels, forgetting everything learned before.

        Parameters
        ----------
        X : list, array or column of strings
            Texts: Python strings, UTF-8 bytes, or a column of NumPy, pandas, Polars or Arrow. Or rows that are
            elsewhere: files (a path), `deciban.stream`, tables of databases, Dask's and Spark's frames.
        y : array-like of shape (n,), or the name of a column of rows that are elsewhere
            Labels; missing ones (None, NaN) are guessed: with reliability by what the labelled documents say, else by
            EM.
        sample_weight : array-like of shape (n,), optional
            A document of weight 2 counts as two.
        unlabelled : label, optional
            Another mark of a missing label.
        unlabelled_weight : float, default=0.1
            What a document without a label counts beside one that has one: guesses are worth less than labels, and
            many of them must not drown the few. Of rows that are elsewhere, those without a label are passed over.
        text : str, optional
            The column of texts of rows that are elsewhere, if there are several of strings.
        engine : {"stream", "duckdb", "dask", "spark"}, optional
            What reads files; by default "stream", or what X belongs to.
        """
        source = self._elsewhere(X, y, engine)
        if source is not None:
            from deciban.estimators import anywhere

            anywhere.fit(self, source, y, sample_weight, text, mark=unlabelled)
            return self
        with self._unchanged_on_error():
            self._check_parameters()
            if not 0 <= unlabelled_weight < np.inf:
                raise ValueError(f"unlabelled_weight is {unlabelled_weight}: it must be a number ≥ 0")
            texts, labels, weight = self._read_to_learn(X, y, sample_weight, unlabelled)
            if len(labels.codes) == 0:
                raise ValueError("there are 0 documents: at least one is needed to learn from")
            if len(labels.classes) == 0:
                raise ValueError("every label is missing: at least one document of each class needs one")
            self._start(texts, labels, labels.classes, False, weight)
            if labels.any_missing:
                self._fill(texts, labels, weight, float(unlabelled_weight))
            if not self._kept_all() and len(labels.codes) <= MOST:
                how = {"unlabelled_weight": unlabelled_weight}
                self._keep(chosen(texts, np.arange(len(labels.codes))), None, labels, weight, how)
        return self

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more texts: new words and classes join as they come. The sums are those of `fit` on everything.

        Which blocks are counted is decided by the first batch, unless they are named. What leave-one-out chose
        (`reliability`, or alpha="loo") is kept until `refit_reliability` or `fit`. With
        `classes` on the first call the set of classes is closed.
        """
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            anywhere.learn_more(self, source, y, sample_weight, classes=classes)
            return self
        with self._unchanged_on_error():
            self._check_parameters()
            first = not self.__sklearn_is_fitted__()
            declared = self._declared(classes, first)
            texts, labels, weight = self._read_to_learn(X, y, sample_weight)
            if labels.any_missing:
                raise DecibanError(
                    f"document {int(np.argmax(labels.codes < 0))} has no label: partial_fit adds documents whose class "
                    "is known; fit guesses missing labels from all documents at once"
                )
            labels = self._placed(labels, declared, first)
            if first:
                self._start(texts, labels, labels.classes, declared is not None, weight)
                return self
            self.model_ = self.model_.learned(self._batches(texts), labels.codes, labels.classes, weight, self.n_jobs)
            if self._chooses() and self._choosing:
                self.kept_ = self.kept_ + self._labelled(texts, labels, weight)
            self._try()
            self._class_prior(self.classes_)
        return self

    def forget(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Unlearn texts: afterwards the sums are those of a model that never saw them, words included.

        Texts that were never learned are an error where the sums can tell, and the model stays as it was. After `decay`
        texts weigh what is left of them, which `sample_weight` must say.
        """
        check_is_fitted(self)
        self._check_exact("documents cannot be subtracted: fit again without them")
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            anywhere.forget(self, source, y, sample_weight)
            return self
        with self._unchanged_on_error():
            texts, labels, weight = self._read_to_learn(X, y, sample_weight)
            if labels.any_missing:
                raise DecibanError("documents to forget need their labels")
            self.model_ = self.model_.forgotten(self._batches(texts), labels.codes, labels.classes, weight, self.n_jobs)
            learned = dict(zip(self.classes_.tolist(), self.model_.weight.tolist(), strict=True))
            self.kept_ = (self.kept_ - self._labelled(texts, labels, weight)).at_most(learned)
            self._class_prior(self.classes_)
        return self

    def decay(self: Self, half_life: float, rows: float = 1) -> Self:
        """Make what was learned so far count half as much for every `half_life` texts that came since.

        Where the world drifts, old texts mislead. In a stream, each batch comes after a decay by as many texts as it
        has:

            model.decay(half_life=10_000, rows=len(texts)).partial_fit(texts, labels)

        Then a text has the weight 2^(−age/half_life), age being the texts of later batches. Classes stay known; words
        of which less than 2^−30 is left are dropped, so that a stream does not fill the memory. Reliabilities and
        alpha="loo" stay until `refit_reliability`, which weighs texts by age too. To `forget` a text, give its
        weight as it is now, sample_weight=[2 ** (-age / half_life)].

        Parameters
        ----------
        half_life : float
            Texts after which something counts half. Infinity changes nothing. Any other unit will do: with
            half_life=30, call it with rows=1 once a day.
        rows : float, default=1
            How many texts came since.
        """
        share = share_left(half_life, rows)
        if self.__sklearn_is_fitted__() and share < 1.0:
            self.model_ = self.model_.scale(share)
            self.kept_ = self.kept_.scale(share)
        return self

    def refit_reliability(self: Self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the reliabilities anew (or alpha="loo"), by leave-one-out over documents that the model has learned.

        Without any given, over those that it kept: all of a few thousand, or as many of more. A model read from a file
        has kept none.
        """
        check_is_fitted(self)
        self._check_exact("no document can be taken out exactly: fit again")
        if not self._chooses():
            raise DecibanError("there is nothing to choose: reliability is None, and alpha is not 'loo'")
        with self._unchanged_on_error():
            if X is not None:
                texts, labels, weight = self._read_labelled(X, y, sample_weight)
            elif self._kept_enough():
                rows = self.kept_.fewest(self._enough(self.classes_)).rows
                texts, labels = [text for text, _, _ in rows], read_labels([label for _, label, _ in rows], len(rows))
                weight = np.array([w for _, _, w in rows])
                weight = None if (weight == 1.0).all() else weight
            else:
                raise DecibanError(
                    "of the documents that the model has learned, too few are kept in memory to fit reliabilities on "
                    "(a model read from a file has none): give some of them, refit_reliability(X, y)"
                )
            self._check_learned(labels, weight)
            known = (self._batches(texts), labels.among(self.classes_), marks(strings(texts)))
            self.model_ = self.model_.chosen(*known, weight, self.n_jobs)
            self._choosing = True
        return self

    def empty(self: Self) -> Self:
        """A copy that made the same choices (blocks, reliabilities) and has learned nothing.

        Parts of the data can be learned by such copies, anywhere, and merged with `+`. They choose nothing by
        themselves and keep no documents to choose by; in the end, `refit_reliability(X, y)` with some of the documents
        fits reliabilities to all that was learned.

        >>> from deciban import TextClassifier
        >>> first = TextClassifier().fit(["win cash", "cash prize", "lunch at noon", "at lunch"], [1, 1, 0, 0])
        >>> parts = [first.empty().partial_fit(["cash now"], [1]), first.empty().partial_fit(["noon?"], [0])]
        >>> (first + parts[0] + parts[1]).class_count_.tolist()
        [3.0, 3.0]
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other.model_, other.kept_, other.n_unlabelled_, other._choosing = self.model_.nothing(), Kept(), 0, False
        return other

    def __add__(self: Self, other: Self) -> Self:
        """The model that learned what both did; the reliabilities are those of the one that has seen more."""
        if type(other) is not type(self):
            return NotImplemented
        check_is_fitted(self)
        check_is_fitted(other)
        for name in self.get_params(deep=False):
            mine, theirs = getattr(self, name), getattr(other, name)
            if name not in ("n_jobs", "blocks") and not np.array_equal(np.asarray(mine), np.asarray(theirs)):
                raise SchemaError(f"cannot merge models whose {name} differs: {mine!r} and {theirs!r}")
        merged = copy.copy(self)
        merged.model_ = self.model_ + other.model_  # type: ignore[operator]  # both plain, or both graded
        merged.kept_ = self.kept_ + other.kept_
        merged.n_unlabelled_ = self.n_unlabelled_ + other.n_unlabelled_
        merged._choosing = self._choosing or other._choosing
        merged._class_prior(merged.classes_)
        merged._try()
        return merged

    def _try(self) -> None:
        """Choose reliabilities as soon as there is something to choose by."""
        untried = isinstance(self.model_, Graded) and self.model_.choice is None
        if untried and self._choosing and self._kept_enough() and not self.n_unlabelled_:
            self.refit_reliability()

    def _start(self, texts: Any, labels: Labels, classes: Array, closed: bool, weight: Floats | None) -> None:
        prior = self._pseudo_counts(classes)
        class_prior = self._class_prior(classes)
        self.__dict__.pop("model_", None)
        self.lowercase_, self._choosing = self.lowercase, True
        if self.reliability is None:
            alpha = 1.0 if self.alpha == "loo" else self.alpha
            family = FAMILIES[self.family]
            empty: Graded | Plain = Plain.none(family, alpha, classes, prior, closed, class_prior, self.n_features)
        else:
            empty = Graded.none(classes, self._blocks(texts), prior, closed, class_prior, self.n_features)
        learned = self._labelled(texts, labels, weight) if self._chooses() else Kept()
        self.kept_, self.n_unlabelled_ = learned.fewest(MOST), 0
        if isinstance(empty, Graded):
            known = np.flatnonzero(labels.codes >= 0)
            some = smallest([text for text, _, _ in learned.rows], self._enough(classes))
            mark, rest = marks(learned.rows[i][0] for i in some), np.setdiff1d(np.arange(len(texts)), known[some])
            judges, others = (
                Labelled(
                    self._batches(texts if len(rows) == len(texts) else chosen(texts, rows)),
                    labels.codes[rows],
                    None if weight is None else weight[rows],
                )
                for rows in (known[some], rest)
            )
            self.model_ = empty.learned_and_chosen(judges, others, classes, mark, self.n_jobs)
            return
        self.model_ = empty.learned(self._batches(texts), labels.codes, classes, weight, self.n_jobs)
        if self._chooses():
            self.refit_reliability()

    def _kept_enough(self) -> bool:
        """Whether the documents in memory stand for all that were learned, and not just for the last of them."""
        kept = sum(weight for _, _, weight in self.kept_.rows)
        return len(self.kept_) >= MOST or (kept > 0 and kept >= 0.5 * float(self.class_count_.sum()))

    def _chooses(self) -> bool:
        """Whether leave-one-out chooses something, for which documents are kept."""
        return self.reliability is not None or bool(self.alpha == "loo")

    def _enough(self, classes: Array) -> int:
        """How many documents reliabilities are fitted on."""
        return min(MOST, max(1, ROWS // max(1, len(classes))))

    def _fill(self, texts: Any, labels: Labels, weight: Floats | None, hidden_weight: float) -> None:
        """Labels that are missing, as the others have it."""
        with progress("labels") as watch:
            known = (self._batches(texts), labels.among(self.classes_), marks(strings(texts)))
            self.model_ = self.model_.filled(*known, weight, hidden_weight, self.n_jobs, watch)
        self.n_unlabelled_ = int((labels.codes < 0).sum())

    def _labelled(self, texts: Any, labels: Labels, weight: Floats | None) -> Kept:
        """The documents that have a label, as Python has them; none of them weighs nothing."""
        known = np.flatnonzero(labels.codes >= 0)
        strings = chosen(texts, known)
        names, weights = labels.classes.tolist(), np.ones(len(known)) if weight is None else weight[known]
        said = [names[code] for code in labels.codes[known].tolist()]
        return Kept(tuple(zip(strings, said, weights.tolist(), strict=True)))

    # ------------------------------------------------------------------ prediction sets

    def _kept_all(self) -> bool:
        """Whether every document that was learned is kept, once or several times."""
        weights = [weight for _, _, weight in self.kept_.rows]
        return bool(weights) and not self.n_unlabelled_ and sum(weights) == float(self.class_count_.sum())

    def _kept_rows(self) -> LearnedRows | None:
        if not self._kept_all():
            return super()._kept_rows()
        texts, labels, weights = (list(part) for part in zip(*self.kept_.rows, strict=True))
        weight = None if all(w == 1.0 for w in weights) else np.array(weights)
        return read_already(texts, read_labels(labels, len(labels)), weight)

    def _as_learned(self, X: Any, y: Any, weight: Any = None) -> LearnedRows:
        texts, labels, weight = self._read_to_learn(X, y, weight)
        return read_already(chosen(texts, np.arange(len(labels.codes))), labels, weight)

    def _refit(self: Self, learned: LearnedRows, rows: Array) -> Self:
        part, texts = clone(self), learned.rows.take(rows)
        labels = read_labels(learned.y[rows], len(rows))
        weight = None if learned.weight is None else learned.weight[rows]
        part._check_parameters()
        part._start(texts, labels, labels.classes, False, weight)
        if labels.any_missing:
            part._fill(texts, labels, weight, float(learned.how.get("unlabelled_weight", 0.1)))
        return part  # type: ignore[no-any-return]  # scikit-learn has no types

    def _log_proba_of(self, learned: LearnedRows, rows: Array) -> Floats:
        scores = self.model_.log_joint(self._batches(learned.rows.take(rows)), self.n_jobs)
        return self._posterior(scores, "log_posterior")

    def _left_out(self, learned: LearnedRows) -> LeaveOneOut:
        return self._leave_out(learned.rows.X, learned.labels, learned.weight)

    # ------------------------------------------------------------------ texts that are elsewhere

    def _fit_engine(self, engine: Any, split: Any) -> None:
        from deciban.estimators import anywhere

        X, y, weight = anywhere.some_rows(engine, split)
        if not len(y):
            raise DecibanError(f"no row of a sample of {engine.rows_named} has a label: there is nothing to choose by")
        with anywhere.in_sample(engine):
            template = self._begun(X, y, weight)
        anywhere.take_over(self, anywhere.total_of(engine, template, split))
        self._choose_last(X, y, weight)

    def _begun(self: Self, X: Any, y: Any, weight: Any, classes: Array | None = None) -> Self:
        """A copy with what must be chosen beforehand chosen on a sample, and nothing learned."""
        part = copy.copy(self)
        part.__dict__.pop("model_", None)
        if classes is not None:
            return part.partial_fit(X, y, classes, weight).empty()
        return part.fit(X, y, weight).empty()

    def _choose_last(self, X: Any, y: Any, weight: Any) -> None:
        """What leave-one-out chooses, by documents that were learned."""
        if self._chooses():
            self.refit_reliability(X, y, weight)

    # ------------------------------------------------------------------ reading input

    def _read_texts(self, X: Any) -> Any:
        """Documents in an order that can be gone through twice, and that have a length."""
        if isinstance(X, Lines | list | tuple):
            return X
        column = arrow_column(X)
        if column is not None:
            return column
        texts = as_texts(X)
        return texts if isinstance(texts, list | tuple) else list(texts)

    def _read_labelled(self, X: Any, y: Any, sample_weight: Any, mark: Any = None) -> tuple[Any, Labels, Floats | None]:
        texts = self._read_texts(X)
        if y is None:
            raise ValueError("TextClassifier requires y to be passed, but the target y is None")
        labels = read_labels(one_column(y) if mark is None else without_mark(y, mark), len(texts))
        if labels.soft is not None:
            raise ValueError("TextClassifier takes one label a document, not a matrix of weights")
        if sample_weight is None:
            return texts, labels, None
        weight = read_weights(sample_weight, len(texts))
        if (weight < 0).any():
            row = int(np.argmax(weight < 0))
            raise ValueError(f"sample_weight[{row}] is {weight[row]:g}: to take documents away, use forget")
        return texts, labels, weight

    def _read_to_learn(self, X: Any, y: Any, sample_weight: Any, mark: Any = None) -> tuple[Any, Labels, Floats | None]:
        """The same without what weighs nothing, which is not even looked at."""
        texts, labels, weight = self._read_labelled(X, y, sample_weight, mark)
        if weight is None or weight.all():
            return texts, labels, weight
        some = np.flatnonzero(weight)
        labels = replace(labels, codes=labels.codes[some], any_missing=bool((labels.codes[some] < 0).any()))
        return chosen(texts, some), labels, weight[some]

    def _batches(self, texts: Any) -> Iterable[Any]:
        if self.__sklearn_is_fitted__() and self.lowercase != self.lowercase_:
            raise ValueError("lowercase has changed since the model was fitted: its words are others. Fit it again")
        return batches(texts, self.lowercase)

    def _blocks(self, texts: Any) -> tuple[str, ...]:
        if isinstance(self.blocks, str):
            return choose_blocks(next(iter(self._batches(texts)), Documents([])))
        named = tuple(self.blocks)
        unknown = [block for block in named if block not in BLOCKS]
        if unknown or "words" not in named or len(set(named)) < len(named):
            raise ValueError(f"blocks is {named}: it must be 'words' and any of {', '.join(BLOCKS[1:])}, each once")
        return tuple(block for block in BLOCKS if block in named)

    def _pseudo_counts(self, classes: Array) -> dict[str, Any]:
        """What a person put in, checked."""
        out = {}
        for word, said in (self.prior or {}).items():
            if not isinstance(word, str):
                raise ValueError(f"prior speaks of {word!r}, which is not a word")
            amounts = said if isinstance(said, Mapping) else {None: said}
            for label, n in amounts.items():
                if isinstance(said, Mapping) and label not in set(classes.tolist()):
                    raise ValueError(
                        f"prior[{word!r}] speaks of a class {label!r} that is not among {classes.tolist()}"
                    )
                if not isinstance(n, Real) or not 0 <= float(n) < 1e100:
                    raise ValueError(f"prior[{word!r}] has {n!r}: pseudo-counts are numbers ≥ 0")
            read = word.lower() if self.lowercase else word
            if not TOKEN.fullmatch(read) or (self.reliability is None and (len(read) < SHORTEST or not read.isalnum())):
                raise ValueError(f"prior speaks of {word!r}, which is not one word as texts are read here")
            if read in out:
                raise ValueError(f"prior speaks of {read!r} twice")
            out[read] = {c: float(n) for c, n in said.items()} if isinstance(said, Mapping) else float(said)
        if out and self.reliability is None and isinstance(self.alpha, str):
            raise ValueError("a prior by word needs alpha to be a number")
        return out

    def _check_parameters(self) -> None:
        self._validate_params()
        if self.alpha == "empirical" and self.family == "complement":
            raise ValueError(
                "complement naive Bayes has no marginal likelihood to maximise: use alpha='loo' or a number"
            )

    def _check_exact(self, so: str) -> None:
        if self.n_unlabelled_:
            raise ForgetError(f"some labels were guessed, by what all the others said, and {so}")

    def _check_learned(self, labels: Labels, weight: Floats | None) -> bool:
        """Documents of a class cannot outweigh what was learned of it. Whether they are all that was learned."""
        unknown = np.setdiff1d(labels.classes, self.classes_)
        if len(unknown):
            raise ForgetError(f"the model has learned nothing of class {plain(unknown[0])!r}")
        codes = labels.among(self.classes_)
        known = codes >= 0
        asked = np.bincount(codes[known], None if weight is None else weight[known], minlength=len(self.classes_))
        over = np.flatnonzero(asked > self.model_.weight * (1 + 1e-9))
        if len(over):
            c = int(over[0])
            raise ForgetError(
                f"leave-one-out takes documents that the model has learned: of class {plain(self.classes_[c])!r} it "
                f"learned {self.model_.weight[c]:g}, and {asked[c]:g} were given"
            )
        return bool(np.allclose(asked, self.model_.weight, rtol=1e-9, atol=0.0))

    # ------------------------------------------------------------------ answering

    def _apply(self, X: Any, how: str) -> Array:
        self._check_classes()
        scores: Floats = self.model_.log_joint(self._batches(self._read_texts(X)), self.n_jobs)
        return self._posterior(scores, how)

    def predict_joint_log_proba(self, X: Any) -> Floats:
        """log p(x, y), (n, k); with reliability, up to what all classes share."""
        return super().predict_joint_log_proba(X)

    @available_if(is_plain)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def score_samples(self, X: Any) -> Floats:
        """log p(x) = log Σ_y p(x, y): low for texts unlike anything learned."""
        return np.asarray(bayes.log_evidence(self._apply(X, "log_joint")))

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any = None) -> LeaveOneOut | Tally:
        """Every document's posterior under the sums that never saw it, exactly and without refitting.

        Reliabilities are those that the document had no part in: of few documents those that were chosen without its
        fold, of many those that are left when its pull is taken out in closed form. The documents must be among those
        the model has learned. Of rows that are elsewhere, the answer is a `Tally`: sums over them all.
        """
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            return anywhere.leave_one_out(self, source, y, sample_weight)
        self._check_classes()
        return self._leave_out(*self._read_labelled(X, y, sample_weight))

    def _leave_out(self, texts: Any, labels: Labels, weight: Floats | None) -> LeaveOneOut:
        self._check_exact(NO_WAY)
        if labels.any_missing:
            raise DecibanError("leave-one-out needs every document's label: leave out those that have none")
        learned = self._check_learned(labels, weight)
        codes = labels.among(self.classes_)
        rows, way = (self._batches(texts), codes, weight, self.n_jobs, marks(strings(texts))), EXACT
        if isinstance(self.model_, Graded):
            scores, way = self.model_.log_joint_without(*rows), self.model_.way
        else:
            if self._chooses():
                way = CROSS_FITTED if learned else HELD
            scores = self.model_.log_joint_without(*rows, way == CROSS_FITTED)
        amount = np.broadcast_to(1.0 if weight is None else weight, len(codes)) * (1.0 + 1e-9)
        if not self.model_.closed:  # a class that the document was all of is gone without it
            alone = self.model_.weight[codes] <= amount
            scores[alone, codes[alone]] = -np.inf
        log_proba = bayes.posterior(scores, self.model_.log_prior, logs=True, quiet=True)
        if not self.model_.closed:
            log_proba[self.model_.weight.sum() <= amount] = -np.inf
        alone = alone_in_class(self.model_.weight, codes, weight)
        shares = shares_of(self.model_.class_prior, self.model_.weight)
        return LeaveOneOut(self.classes_, log_proba, codes, weight, alone, way, shares, isinstance(self.model_, Graded))

    def explain(  # type: ignore[override]  # a list of texts' evidence is what a list of evidence is
        self, X: Any, target: Any = None, against: Any = None, names: Any = None
    ) -> TextEvidence | list[TextEvidence]:
        """Why: every word's evidence in decibans for `target` over `against`, and the text in colour.

        Without them, for the likeliest class over the next. One text gives one explanation, several give a list.
        """
        del names
        texts = [X] if isinstance(X, str | bytes) else self._read_texts(X)
        return self._explain_texts(texts, target, against)

    def _explain_texts(self, texts: Any, target: Any, against: Any) -> TextEvidence | list[TextEvidence]:
        self._check_classes()
        which = [None if label is None else self._class_index(label) for label in (target, against)]
        out = [
            self.model_.explain(as_string(text, i), which[0], which[1], self.lowercase) for i, text in enumerate(texts)
        ]
        if not out:
            raise ValueError("there is no text to explain")
        return out[0] if len(out) == 1 else out

    def top_words(self, target: Any = None, n: int = 10) -> Table:
        """The words that speak most for a class (or each) against the others, in decibans.

        That is what a word says on its own. With `n_features` words are not kept, and buckets are named, "#12345".
        With reliability, a text's words are weighed beside each other before they are added up: `explain` says what
        each of them came to there, which is less.
        """
        self._check_classes()
        labels = self.classes_ if target is None else [self.classes_[self._class_index(target)]]
        rows = [
            (plain(label), word, db)
            for label in labels
            for word, db in self.model_.top_words(self._class_index(label), n)
        ]
        return Table("strongest words for each class", ("class", "word", "dB"), rows)

    def top_evidence(self, n: int = 10, names: Any = None) -> Table:
        """The same for every class."""
        del names
        return self.top_words(n=n)

    def sample(
        self, n: int = 1, given: Any = None, random_state: Any = None, length: int | None = None
    ) -> tuple[list[str], Array]:
        """Draw n texts and their classes: y from the class prior (or `given`), then words of the class (S18).

        `length` is the number of words; by default it is drawn about what texts have. With reliability the words of
        a text are distinct. With `n_features` there are no words to draw.
        """
        self._check_classes()
        if self.reliability is None and self.family == "complement":
            raise AttributeError("complement naive Bayes is not a generative model: it has no law of x to draw from")
        if n < 0 or (length is not None and length < 0):
            raise ValueError(f"n and length must not be negative, got {n} and {length}")
        rng = generator(random_state)
        texts, codes = self.model_.sample(n, rng, None if given is None else self._class_index(given), length)
        return texts, self.classes_[codes]

    # ------------------------------------------------------------------ looking inside

    @property
    def vocabulary_(self) -> dict[str, int]:
        """The words that were learned, each with its number."""
        check_is_fitted(self)
        if self.model_.n_features is not None:
            raise AttributeError(f"there is no vocabulary: n_features is {self.model_.n_features}, and no word is kept")
        if isinstance(self.model_, Plain):
            return {word: i for i, word in enumerate(self.model_.words.strings())}
        sums, prior = self.model_.sums, self.model_.prior
        counted = np.diff(sums.cells["words"].ptr) > 0
        words = sums.lexicon.names("words", np.arange(len(counted), dtype=np.int32))
        return {word: i for i, word in enumerate(words) if counted[i] or word in prior}

    @property
    def alpha_(self) -> Any:
        """The pseudo-counts in use where reliability is None."""
        check_is_fitted(self)
        if not isinstance(self.model_, Plain):
            raise AttributeError("with reliability, several strengths are weighed: see reliability_")
        return self.model_.model.alpha()

    @property
    def reliability_(self) -> Table:
        """How far each part of the evidence is believed; parts that are not are left out."""
        check_is_fitted(self)
        if not isinstance(self.model_, Graded):
            raise AttributeError("a plain model believes its family: reliability is None")
        choice = self.model_.believed
        kinds = [f"know {np.exp(knot):.3g}" for knot in KNOTS] + ["all alike", "by what they know"]
        rows = [
            (block, mu, kind, float(weight))
            for block in self.model_.sums.blocks
            for mu, mine in zip(STRENGTHS, choice.weights(block), strict=True)
            for kind, weight in zip(kinds, mine, strict=True)
            if weight > 0
        ]
        rows += [
            ("common", ridge, "are taken together", float(weight))
            for ridge, weight in zip(RIDGES, choice.together, strict=False)
            if weight > 0
        ]
        return Table("reliability of the evidence", ("block", "pseudo-counts", "items that", "weight"), rows)

    # ------------------------------------------------------------------ keeping

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safe file; `deciban.load` reads it. Kept documents are not in it."""
        check_is_fitted(self)
        self._check_parameters()
        document, tensors = parts(self.model_)
        parameters = {
            name: list(value) if isinstance(value, tuple | np.ndarray) else value
            for name, value in self.get_params(deep=False).items()
        }
        about = {"model": type(self).__name__, "parameters": parameters, "n_unlabelled": self.n_unlabelled_}
        files.write_parts(path, document, tensors, about | self._origin())

    def _restore(self, document: dict[str, Any], tensors: dict[str, Array], about: dict[str, Any]) -> None:
        """What `save` kept, checked."""
        model = rebuild(document, tensors)
        self._check_parameters()
        if isinstance(model, Plain) != (self.reliability is None):
            raise ValueError("its model is not the one that its parameters speak of")
        if isinstance(model, Plain) and model.model.joint.blocks[0].family != FAMILIES[self.family]:
            raise ValueError("its family is not the one that its parameters speak of")
        if model.n_features != self.n_features:
            raise ValueError("its buckets are not those that its parameters speak of")
        self.model_, self.kept_, self.n_unlabelled_ = model, Kept(), int(about["n_unlabelled"])
        self.lowercase_ = self.lowercase
        if self.n_unlabelled_ < 0:
            raise ValueError("fewer than no documents were without a label")

    def __getstate__(self) -> dict[str, Any]:
        """Kept documents stay where they are: a pickled model has none."""
        state = dict(super().__getstate__())
        if "kept_" in state:
            state["kept_"] = Kept()
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = False
        tags.no_validation = True
        return tags


def read_already(texts: list[str], labels: Labels, weight: Floats | None) -> LearnedRows:
    """Documents as they were read."""
    return LearnedRows(Rows(texts, len(texts), "texts"), labels, weight)


def as_string(text: Any, number: int = 0) -> str:
    """A document as Python has it."""
    if hasattr(text, "as_py"):
        text = text.as_py()
    check(text, number)
    return decoded(text, f"document {number}") if isinstance(text, bytes) else str(text)


def strings(texts: Any) -> Iterator[str]:
    """All documents, as Python has them."""
    return (as_string(text, i) for i, text in enumerate(texts))


def chosen(texts: Any, which: Array) -> list[str]:
    """Some of the documents."""
    return [as_string(texts[i], i) for i in which.tolist()]
