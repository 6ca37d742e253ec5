"""Raw text in, labels out."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Floats
from deciban.errors import DecibanError, ForgetError, NotAvailableError
from deciban.estimators.base import Estimator
from deciban.estimators.parameters import prior_by_class
from deciban.estimators.prediction_sets import LearnedRows
from deciban.families import Bernoulli, Complement, Family, Multinomial
from deciban.learner import AS_LABELLED, Hidden
from deciban.readers.texts import TextReader
from deciban.reading.given import Rows
from deciban.reading.labels import Labels, read_labels
from deciban.show import Table, plain, progress
from deciban.text.common import RIDGES
from deciban.text.documents import Texts
from deciban.text.evidence import TOKEN
from deciban.text.graded import Graded, Labelled
from deciban.text.hashed import MAX_BUCKETS as MOST_BUCKETS
from deciban.text.items import BLOCKS, choose_blocks
from deciban.text.kept import MAX_KEPT_DOCUMENTS, Kept, marks, smallest
from deciban.text.plain import SHORTEST, Plain
from deciban.text.raw import Documents
from deciban.text.tables import KNOTS, STRENGTHS

FAMILIES: dict[str, Family] = {"multinomial": Multinomial(), "bernoulli": Bernoulli(), "complement": Complement()}
JUDGED_CELLS = 100_000  # documents times classes that reliabilities are fitted on: more changes them little


class TextClassifier(Estimator):
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
    _sparse: ClassVar[bool] = False
    _strings: ClassVar[bool] = True
    _labelled_alone: ClassVar[bool] = True
    _unlabelled_weight: ClassVar[float] = 0.1
    _apart: ClassVar[tuple[str, ...]] = ("n_jobs", "blocks")
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

    def _reader(self) -> TextReader:
        return TextReader(self.lowercase)

    def _validated(self, X: Any, *, reset: bool, least: int = 1) -> Texts:
        del least
        if not reset and self.lowercase != self.lowercase_:
            raise ValueError("lowercase has changed since the model was fitted: its words are others. Fit it again")
        return self._reader().texts(X)

    # ------------------------------------------------------------------ learning

    def _split(self, X: Any, y: Any) -> tuple[Any, Any]:
        return X, y  # the name of a column is for rows that are not in memory

    def _read(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> tuple[Any, Labels, Floats | None]:
        X, labels, weight = super()._read(X, y, sample_weight, **how)
        if labels.soft is not None:
            raise ValueError(f"{type(self).__name__} takes one label a document, not a matrix of weights")
        return X, labels, weight

    def _counted(self, X: Any, y: Any, sample_weight: Any, some: bool = False) -> tuple[Any, Any, Any]:
        """What weighs nothing is not even looked at."""
        del some
        weight = None if sample_weight is None else np.asarray(sample_weight)
        if weight is None or weight.ndim != 1 or weight.all() or y is None:
            return X, y, sample_weight
        texts = self._reader().texts(X)
        if len(texts) != len(weight):
            return texts, y, sample_weight  # whose length is complained of where weights are read
        rows = np.flatnonzero(weight)
        labels = read_labels(y, len(texts))
        values = np.array([*labels.classes.tolist(), None], dtype=object)[labels.codes[rows]]
        return texts.take(rows), values, weight[rows]

    def _learned(
        self, X: Texts, labels: Labels, weight: Floats | None, *, closed: bool = False, hidden: Hidden = AS_LABELLED
    ) -> Graded | Plain:
        if hidden.clusters:
            raise ValueError(f"{type(self).__name__} needs labels, and finds no clusters")
        if len(labels.codes) == 0 and not closed:
            raise ValueError("there are 0 documents: at least one is needed to learn from")
        if len(labels.classes) == 0:
            raise ValueError("every label is missing: at least one document of each class needs one")
        classes = labels.classes
        prior, class_prior = self._pseudo_counts(classes), prior_by_class(self.class_prior, classes)
        self.__dict__.pop("model_", None)
        self.lowercase_, self._choosing = self.lowercase, True
        learned = self._labelled(X, labels, weight) if self._chooses() else Kept()
        self.kept_ = learned.fewest(MAX_KEPT_DOCUMENTS)
        model: Graded | Plain
        if self.reliability is None:
            loo = isinstance(self.alpha, str) and self.alpha == "loo"
            alpha = 1.0 if loo else self.alpha
            family = FAMILIES[self.family]
            plain_one = Plain.none(family, alpha, classes, prior, closed, class_prior, self.n_features, loo)
            model = plain_one.learn(X, labels, weight, self.n_jobs)
            if loo:
                model = self._rechosen(model)
        else:
            empty = Graded.none(classes, self._blocks(X), prior, closed, class_prior, self.n_features)
            model = self._learned_and_chosen(empty, X, labels, weight, learned)
        if labels.any_missing:
            with progress("labels") as watch:
                model = model.fill(X, labels.codes, weight, hidden, self.n_jobs, watch)
        return model

    def _learned_and_chosen(
        self, empty: Graded, X: Texts, labels: Labels, weight: Floats | None, learned: Kept
    ) -> Graded:
        """All documents learned, some of which choose: each is read once."""
        known = np.flatnonzero(labels.codes >= 0)
        some = smallest([text for text, _, _ in learned.rows], enough(labels.classes))
        mark, rest = marks(learned.rows[i][0] for i in some), np.setdiff1d(np.arange(len(X)), known[some])
        judges, others = (
            Labelled(
                (X if len(rows) == len(X) else X.take(rows)).batches(),
                labels.codes[rows],
                None if weight is None else weight[rows],
            )
            for rows in (known[some], rest)
        )
        return empty.learned_and_chosen(judges, others, labels.classes, mark, self.n_jobs)

    def _more(self, X: Texts, labels: Labels, weight: Floats | None) -> Graded | Plain:
        model: Graded | Plain = self.model_.learn(X, labels, weight, self.n_jobs)
        self._check_model(model)
        if self._chooses() and self._choosing:
            self.kept_ = self.kept_ + self._labelled(X, labels, weight)
        return self._tried(model)

    def _forgotten(self, rows: Texts, labels: Labels, weight: Floats | None) -> None:
        learned = dict(zip(self.classes_.tolist(), self.model_.weight.tolist(), strict=True))
        self.kept_ = (self.kept_ - self._labelled(rows, labels, weight)).at_most(learned)

    def decay(self, half_life: float, rows: float = 1) -> Self:
        """Make what was learned so far count half as much for every `half_life` rows that came since.

        See `Estimator.decay`. Reliabilities and alpha="loo" stay until `refit_reliability`, which weighs texts by age.
        """
        before = self.model_ if self.__sklearn_is_fitted__() else None
        super().decay(half_life, rows)
        if before is not None and self.model_ is not before:
            self.kept_ = self.kept_.scale(float(np.exp2(-float(rows) / float(half_life))))
        return self

    def refit_reliability(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the reliabilities anew (or alpha="loo"), by leave-one-out over documents that the model has learned.

        Without any given, over those that it kept: all of a few thousand, or as many of more. A model read from a file
        has kept none.
        """
        check_is_fitted(self)
        self._check_exact("no document can be taken out exactly: fit again")
        if not self._chooses():
            raise DecibanError("there is nothing to choose: reliability is None, and alpha is not 'loo'")
        with self._unchanged_on_error():
            if X is None:
                model = self._rechosen(self.model_)
            else:
                texts, labels, weight = self._read(X, y, sample_weight, reset=False, least=0)
                model = self._chosen_by(self.model_, texts, labels, weight)
            self.model_, self._choosing = model, True
        return self

    def _rechosen(self, model: Graded | Plain) -> Graded | Plain:
        """With what the documents that were kept choose."""
        if not self._kept_enough(model):
            raise DecibanError(
                "of the documents that the model has learned, too few are kept in memory to fit reliabilities on "
                "(a model read from a file has none): give some of them, refit_reliability(X, y)"
            )
        rows = self.kept_.fewest(enough(model.classes)).rows
        texts, labels = Texts([text for text, _, _ in rows], self.lowercase), [label for _, label, _ in rows]
        weight = np.array([w for _, _, w in rows])
        return self._chosen_by(model, texts, read_labels(labels, len(rows)), None if (weight == 1.0).all() else weight)

    def _chosen_by(self, model: Graded | Plain, texts: Texts, labels: Labels, weight: Floats | None) -> Graded | Plain:
        """With what these documents, which were learned, choose."""
        unknown = np.setdiff1d(labels.classes, model.classes)
        if len(unknown):
            raise ForgetError(f"the model has learned nothing of class {plain(unknown[0])!r}")
        codes = labels.among(model.classes)
        known = codes >= 0
        model.check_learned(codes[known], None if weight is None else weight[known])
        return model.choose(texts, codes, weight, self.n_jobs)

    def empty(self) -> Self:
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
        other = super().empty()
        other.kept_, other._choosing = Kept(), False
        return other

    def __add__(self, other: Self) -> Self:
        """The model that learned what both did; the reliabilities are those of the one that has seen more."""
        merged = super().__add__(other)
        if merged is NotImplemented:
            return merged
        merged.kept_ = self.kept_ + other.kept_
        merged._choosing = self._choosing or other._choosing
        merged.model_ = merged._tried(merged.model_)
        return merged

    def _tried(self, model: Graded | Plain) -> Graded | Plain:
        """With reliabilities as soon as there is something to choose them by."""
        untried = isinstance(model, Graded) and model.choice is None
        ready = untried and self._choosing and not model.unlabelled and self._kept_enough(model)
        return self._rechosen(model) if ready else model

    def _kept_enough(self, model: Graded | Plain) -> bool:
        """Whether the documents in memory stand for all that were learned, and not just for the last of them."""
        kept = sum(weight for _, _, weight in self.kept_.rows)
        return len(self.kept_) >= MAX_KEPT_DOCUMENTS or (kept > 0 and kept >= 0.5 * float(model.weight.sum()))

    def _chooses(self) -> bool:
        """Whether leave-one-out chooses something, for which documents are kept."""
        return self.reliability is not None or bool(self.alpha == "loo")

    def _labelled(self, texts: Texts, labels: Labels, weight: Floats | None) -> Kept:
        """The documents that have a label, as Python has them; none of them weighs nothing."""
        known = np.flatnonzero(labels.codes >= 0)
        names, weights = labels.classes.tolist(), np.ones(len(known)) if weight is None else weight[known]
        own = [names[code] for code in labels.codes[known].tolist()]
        return Kept(tuple(zip(texts.take(known).documents, own, weights.tolist(), strict=True)))

    # ------------------------------------------------------------------ texts that are not in memory

    def _learned_by(self, engine: Any, split: Any, hidden: Hidden, clusters: int | None) -> Graded | Plain:
        from deciban.engines import learn
        from deciban.estimators import on_engines

        if clusters is not None:
            raise ValueError(f"{type(self).__name__} needs labels, and finds no clusters")
        del hidden  # rows without a label are passed over
        X, y, weight = learn.some_rows(engine, split)
        if not len(y):
            raise DecibanError(f"no row of a sample of {engine.rows_named} has a label: there is nothing to choose by")
        with learn.in_sample(engine):
            template = self._template(X, y, weight)
        on_engines.take_over(self, on_engines.with_model(template, on_engines.total_of(engine, template, split)))
        return self._rechoose(X, y, weight)

    def _template(self, X: Any, y: Any, weight: Any, classes: Array | None = None) -> Self:
        part = copy.copy(self)
        part.__dict__.pop("model_", None)
        if classes is not None:
            return part.partial_fit(X, y, classes, weight).empty()
        return part.fit(X, y, weight).empty()

    def _batch(self, X: Any, y: Any, weight: Any) -> Any:
        return copy.copy(self).partial_fit(X, y, sample_weight=weight).model_

    def _rechoose(self, X: Any, y: Any, weight: Any) -> Graded | Plain:
        if self._chooses():
            self.refit_reliability(X, y, weight)
        found: Graded | Plain = self.model_
        return found

    # ------------------------------------------------------------------ prediction sets

    def _rows_to_keep(self, given: Any, X: Texts) -> Texts | None:
        """As they were read: a mail is not parsed again. Those that are kept to choose by are not kept twice."""
        del given
        return None if self._kept_all() or len(X) > MAX_KEPT_DOCUMENTS else X

    def _kept_all(self) -> bool:
        """Whether every document that was learned is kept to choose by."""
        total = sum(weight for _, _, weight in self.kept_.rows)
        return total > 0 and not self.model_.unlabelled and total == float(self.class_count_.sum())

    def _kept_rows(self) -> LearnedRows | None:
        """Documents that choose are those that are compared with, where every one is kept, once or several times."""
        if not self._kept_all():
            return super()._kept_rows()
        weights = [weight for _, _, weight in self.kept_.rows]
        texts, labels, _ = (list(part) for part in zip(*self.kept_.rows, strict=True))
        weight = None if all(w == 1.0 for w in weights) else np.array(weights)
        rows = Rows(Texts(texts, self.lowercase), len(texts), "texts")
        return LearnedRows(rows, read_labels(labels, len(labels)), weight)

    # ------------------------------------------------------------------ parameters

    def _blocks(self, texts: Any) -> tuple[str, ...]:
        if isinstance(self.blocks, str):
            return choose_blocks(next(texts.batches(), Documents([])))
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

    def _check_model(self, model: Any) -> None:
        prior_by_class(self.class_prior, model.classes)

    # ------------------------------------------------------------------ looking inside

    def _has_density(self) -> bool:
        graded = isinstance(self.model_, Graded) if self.__sklearn_is_fitted__() else self.reliability is not None
        if graded or self.family == "complement":
            raise NotAvailableError(
                "p(x) is what a plain generative model has: reliability=None and no complement family"
            )
        return True

    def top_words(self, target: Any = None, n: int = 10) -> Table:
        """The words that speak most for a class (or each) against the others, in decibans.

        That is what a word says on its own. With `n_features` words are not kept, and buckets are named, "#12345".
        With reliability, a text's words are weighed beside each other before they are added up: `explain` says what
        each of them came to there, which is less.
        """
        self._check_classes()
        only = None if target is None else self.model_.code_of(target)
        return self.model_.strongest_table(n, "words", "word", only)

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

    def _check_savable(self) -> None:
        """Choices are in the model: no parameter can contradict them."""

    def _parameters_out(self) -> dict[str, Any]:
        return {
            name: list(value) if isinstance(value, tuple | np.ndarray) else value
            for name, value in super()._parameters_out().items()
        }

    def _about(self) -> dict[str, Any]:
        return {"n_unlabelled": self.model_.unlabelled}

    def _restored(self, model: Any, about: dict[str, Any]) -> Graded | Plain:
        self._check_parameters()
        if isinstance(model, Plain) != (self.reliability is None):
            raise ValueError("its model is not the one that its parameters speak of")
        if isinstance(model, Plain) and model.model.joint.blocks[0].family != FAMILIES[self.family]:
            raise ValueError("its family is not the one that its parameters speak of")
        if model.n_features != self.n_features:
            raise ValueError("its buckets are not those that its parameters speak of")
        self.kept_, self.lowercase_, unlabelled = Kept(), self.lowercase, int(about["n_unlabelled"])
        if unlabelled < 0:
            raise ValueError("fewer than no documents were without a label")
        if isinstance(model, Plain):
            return replace(model, unlabelled=unlabelled, chooses=bool(self.alpha == "loo"))
        found: Graded = replace(model, unlabelled=unlabelled)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Kept documents stay where they are: a pickled model has none."""
        state = dict(super().__getstate__())
        if "kept_" in state:
            state["kept_"] = Kept()
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.categorical = False
        tags.no_validation = True
        return tags


def enough(classes: Array) -> int:
    """How many documents reliabilities are fitted on."""
    return min(MAX_KEPT_DOCUMENTS, max(1, JUDGED_CELLS // max(1, len(classes))))
