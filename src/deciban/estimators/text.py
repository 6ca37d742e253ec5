"""Raw text in, labels out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from deciban._typing import Array, Floats
from deciban.errors import NotAvailableError
from deciban.estimators import text_methods
from deciban.estimators.base import Estimator
from deciban.estimators.parameters import prior_by_class
from deciban.families import Bernoulli, Complement, Family, Multinomial
from deciban.learner import AS_LABELLED, Hidden
from deciban.readers.texts import TextReader
from deciban.reading.labels import Labels
from deciban.text import fit
from deciban.text.documents import Texts
from deciban.text.graded import Graded
from deciban.text.plain import Plain
from deciban.text.sums import MAX_ITEMS
from deciban.text.tokens import TokenRule

FAMILIES: dict[str, Family] = {"multinomial": Multinomial(), "bernoulli": Bernoulli(), "complement": Complement()}


class TextClassifier(Estimator):
    """Texts in, labels out: learned in one pass, updated, forgotten and merged exactly, explained word by word.

    By default the evidence of words, pairs of words, header fields, and in short texts of gaps and characters is graded
    by how informative each item is, and weighted by reliabilities fitted on exact leave-one-out evidence, so that the
    probabilities are calibrated. `reliability=None` is the plain model of one family on words, in one pass.

    Parameters
    ----------
    reliability : "loo" or None, default="loo"
        How evidence is weighted: by leave-one-out, or not at all, as in plain naive Bayes.
    family : "multinomial", "bernoulli" or "complement", default="multinomial"
        The distribution of words if reliability is None (S3–S6, S8).
    alpha : float, "loo" or "empirical", default=1.0
        Pseudo-counts of the family. With reliability, several strengths are combined and this is not used.
    blocks : "auto" or a sequence of "words", "pairs", "headers", "gaps", "characters", "repeats", default="auto"
        The kinds of evidence, with reliability. "auto": words and pairs; header fields if most of the documents start
        with lines "Name: …"; gaps (words two or three apart) and characters if texts are short; repeats (words that
        occur at least two, three or five times) if several words of a text do.
    prior : mapping, optional
        Pseudo-counts (S6, S19): {word: n} for all classes or {word: {class: n}}. With reliability, of n documents. See
        `deciban.text.background` for those of a corpus.
    class_prior : array-like of shape (k,), {class: p}, "uniform" or None, default=None
        The class prior; None is the empirical one.
    lowercase : bool, default=True
        Whether "Free" and "free" are the same word.
    normalise : bool, default=True
        Whether texts are normalised to Unicode NFKC, which replaces full-width letters and digits, ligatures, styled
        letters and separately typed accents with the usual characters.
    n_features : int, default=None
        Hash items into this many buckets, |MurmurHash3| mod n_features, and keep no words: memory is bounded however
        many texts there are, and no text can be read from a model. Items in one bucket are the same to the model: with
        2**20 buckets few collisions matter. Per block of evidence; a model has only the buckets that it has seen.
    max_features : int or None, default=4194304
        How many words the model keeps, and pairs, header fields, gaps, characters and repeats, each; None: all. Once
        there are a quarter more, those that were used least are dropped, with a `VocabularyWarning`, and are as if they
        had never been learned. So texts of ever new words cannot fill the memory. Not used with `n_features`.
    n_jobs : int, default=None
        Number of threads; None uses all cores if there is enough text to benefit.

    Attributes
    ----------
    classes_ : the labels, sorted
    class_count_ : the number of documents of each class
    reliability_ : the reliabilities, a table
    n_dropped_ : how many items were dropped because of `max_features`
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

    _texts: ClassVar[bool] = True
    _sparse: ClassVar[bool] = False
    _strings: ClassVar[bool] = True
    _skips_unlabelled: ClassVar[bool] = True
    _unlabelled_weight: ClassVar[float] = 0.1
    _may_differ: ClassVar[tuple[str, ...]] = ("n_jobs", "blocks")

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "reliability": [StrOptions({"loo"}), None],
        "family": [StrOptions(set(FAMILIES))],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"loo", "empirical"})],
        "blocks": [StrOptions({"auto"}), "array-like"],
        "prior": [Mapping, None],
        "class_prior": ["array-like", Mapping, StrOptions({"uniform"}), None],
        "lowercase": ["boolean"],
        "normalise": ["boolean"],
        "n_features": text_methods.N_FEATURES_CONSTRAINT,
        "max_features": text_methods.MAX_FEATURES_CONSTRAINT,
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
        normalise: bool = True,
        n_features: int | None = None,
        max_features: int | None = MAX_ITEMS,
        n_jobs: int | None = None,
    ) -> None:
        self.reliability = reliability
        self.family = family
        self.alpha = alpha
        self.blocks = blocks
        self.prior = prior
        self.class_prior = class_prior
        self.lowercase = lowercase
        self.normalise = normalise
        self.n_features = n_features
        self.max_features = max_features
        self.n_jobs = n_jobs

    def _reader(self) -> TextReader:
        return TextReader(self.lowercase)

    def _validated(self, X: Any, *, reset: bool, least: int = 1) -> Texts:
        if not reset and self.lowercase != self.lowercase_:
            raise ValueError("lowercase has changed since the model was fitted, which changes the words: fit it again")
        if not reset and self.normalise != self.model_.rule.normalise:
            raise ValueError("normalise has changed since the model was fitted, which changes the words: fit it again")
        texts: Texts = super()._validated(X, reset=reset, least=least)
        return texts

    # ------------------------------------------------------------------ learning

    def _learned(
        self, X: Texts, labels: Labels, weight: Floats | None, *, closed: bool = False, hidden: Hidden = AS_LABELLED
    ) -> Graded | Plain:
        if len(labels.codes) == 0 and not closed:
            raise ValueError("there are 0 documents: give at least one to learn from")
        if len(labels.classes) == 0:
            raise ValueError("every label is missing: label at least one document of each class")
        empty_model = self._empty_model(X, labels.classes, closed)
        self.__dict__.pop("model_", None)
        self.lowercase_ = self.lowercase
        return fit.learn(empty_model, X, labels, weight, hidden, self.n_jobs)

    def _empty_model(self, texts: Texts, classes: Array, closed: bool) -> Graded | Plain:
        """The model of the parameters, which has learned nothing."""
        rule = TokenRule(normalise=bool(self.normalise))
        prior = fit.pseudo_counts(self.prior, classes, self.lowercase, rule, plain=self.reliability is None)
        class_prior = prior_by_class(self.class_prior, classes)
        size = {"n_features": self.n_features, "max_items": self.max_features}
        if self.reliability is not None:
            blocks = fit.blocks_of(self.blocks, texts, rule)
            return Graded.none(classes, blocks, prior, closed, class_prior, rule=rule, **size)
        if prior and isinstance(self.alpha, str):
            raise ValueError("a prior by word needs alpha to be a number")
        family, alpha, loo = FAMILIES[self.family], 1.0 if self._wants_loo() else self.alpha, self._wants_loo()
        return Plain.none(family, alpha, classes, prior, closed, class_prior, chooses=loo, rule=rule, **size)

    _rows_with_weight = text_methods.rows_with_weight
    _with_more_rows = text_methods.with_more_rows
    _rows_to_keep = text_methods.rows_to_keep
    _learned_on_engine = text_methods.learned_on_engine
    _template = text_methods.template
    _chosen_by_sample = text_methods.chosen_by_sample
    refit_reliability = text_methods.refit_reliability

    def _check_parameters(self) -> None:
        self._validate_params()
        if self.alpha == "empirical" and self.family == "complement":
            raise ValueError(
                "complement naive Bayes has no marginal likelihood to maximise: use alpha='loo' or a number"
            )

    # ------------------------------------------------------------------ inspection

    kept_ = text_methods.kept
    n_dropped_ = text_methods.n_dropped
    top_words = text_methods.top_words
    vocabulary_ = text_methods.vocabulary
    alpha_ = text_methods.alpha
    reliability_ = text_methods.reliability

    def _has_density(self) -> bool:
        graded = isinstance(self.model_, Graded) if self.__sklearn_is_fitted__() else self.reliability is not None
        if graded or self.family == "complement":
            raise NotAvailableError(text_methods.NO_DENSITY)
        return True

    # ------------------------------------------------------------------ saving

    _about = text_methods.about

    def _parameters_out(self) -> dict[str, Any]:
        return {
            name: list(value) if isinstance(value, tuple | np.ndarray) else value
            for name, value in super()._parameters_out().items()
        }

    def _restored(self, model: Any, about: dict[str, Any]) -> Graded | Plain:
        if "normalise" not in about["parameters"]:  # an older version, which did not
            self.normalise = False
        self._check_parameters()
        restored = text_methods.restored(model, about, self.reliability is None, self.n_features, self.max_features)
        if restored.rule.normalise != self.normalise:
            raise ValueError("its texts are not read according to its parameters")
        self.lowercase_ = self.lowercase
        if not isinstance(restored, Plain):
            return restored
        if restored.model.joint.blocks[0].family != FAMILIES[self.family]:
            raise ValueError("its family is not the one in its parameters")
        return replace(restored, chooses=self._wants_loo())
