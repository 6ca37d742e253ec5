"""A filter for mail: ham, unsure or spam."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from email.message import Message
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval

from deciban._typing import Array, Floats
from deciban.engines.dispatch import is_engine
from deciban.errors import DecibanError, ForgetError, NotAvailableError
from deciban.estimators import text_methods
from deciban.estimators.base import Estimator
from deciban.estimators.changes import changing
from deciban.estimators.parameters import prior_by_class
from deciban.learner import AS_LABELLED, Hidden
from deciban.readers.texts import MailReader
from deciban.reading.labels import Labels
from deciban.results.evidence import Evidence
from deciban.scorer import MAIL_ANSWERS, mail_answers
from deciban.text import fit, mail
from deciban.text.graded import Graded
from deciban.text.sums import MAX_ITEMS
from deciban.text.tokens import BY_SCRIPT

CLASSES = np.array(["ham", "spam"])
HEADER_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9-]*:")
MAIL_TYPES = (str, bytes, os.PathLike, Message, mail.Mail, Iterator, list, tuple)
TRAIN_BATCH = 2000  # mails of a mailbox learned at a time


class SpamFilter(Estimator):
    """Ham, unsure or spam: the answer with the lowest expected cost, given the mail's words, pairs and header fields.

    Mails are raw messages (bytes or strings), `email` messages, paths of message files, or what `deciban.text.mail`
    reads. With p the probability of spam, "spam" costs (1 − p)·false_positive, "ham" p·false_negative and "unsure"
    its own cost: by default a mail is spam above p = 0.99 and ham below 0.2. `leave_one_out` evaluates probabilities:
    its accuracy is that of the more probable of ham and spam. For `score`, "unsure" is wrong.

    Parameters
    ----------
    false_positive : float, default=20.0
        The cost of classifying a wanted mail as spam.
    false_negative : float, default=1.0
        The cost of classifying a spam as wanted mail.
    unsure : float, default=0.2
        The cost of an unsure answer: someone has to look.
    headers : sequence of str or None, default=None
        The header fields that are read; None reads all. `deciban.text.mail.CONTENT_HEADERS` are those that the sender
        wrote: a filter on all of them also learns which lists and servers mail comes through.
    prior : mapping, optional
        Pseudo-counts, {word: {"spam": n}}.
    n_features : int, default=None
        Hash items into this many buckets and keep no words: no mail can be read from the filter.
    max_features : int or None, default=4194304
        How many words, pairs and header fields the filter keeps, each. Of more, those that were used least are dropped,
        so that mail of ever new words cannot fill the memory; see `TextClassifier`.
    n_jobs : int, default=None
        Threads.

    Examples
    --------
    >>> from deciban import SpamFilter
    >>> spam = [f"Subject: you win\\n\\nClaim cash prize {i} now!" for i in range(100)]
    >>> ham = [f"Subject: lunch\\n\\nSee you at noon in room {i}?" for i in range(100)]
    >>> filter = SpamFilter().train(spam, "spam").train(ham, "ham")
    >>> mails = ["Subject: you win\\n\\nClaim your cash now!", "Subject: lunch\\n\\nat noon?", "Subject: hello"]
    >>> filter.predict(mails).tolist()
    ['spam', 'ham', 'unsure']
    >>> filter.correct(ham[0], "spam").class_count_.tolist()  # no: that one was spam
    [99.0, 101.0]
    """

    model_: Graded

    reliability = "loo"  # parameters of TextClassifier that are fixed for a filter
    family = "multinomial"
    alpha = 1.0
    blocks = ("words", "pairs", "headers")
    class_prior: Any = None  # until `with_prior` sets it
    lowercase = True

    _texts: ClassVar[bool] = True
    _sparse: ClassVar[bool] = False
    _strings: ClassVar[bool] = True
    _skips_unlabelled: ClassVar[bool] = True
    _unlabelled_weight: ClassVar[float] = 0.1
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "false_positive": [Interval(Real, 0, None, closed="neither")],
        "false_negative": [Interval(Real, 0, None, closed="neither")],
        "unsure": [Interval(Real, 0, None, closed="left")],
        "headers": [list, tuple, None],
        "prior": [dict, None],
        "n_features": text_methods.N_FEATURES_CONSTRAINT,
        "max_features": text_methods.MAX_FEATURES_CONSTRAINT,
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        *,
        false_positive: float = 20.0,
        false_negative: float = 1.0,
        unsure: float = 0.2,
        headers: Any = None,
        prior: Any = None,
        n_features: int | None = None,
        max_features: int | None = MAX_ITEMS,
        n_jobs: int | None = None,
    ) -> None:
        self.false_positive = false_positive
        self.false_negative = false_negative
        self.unsure = unsure
        self.headers = headers
        self.prior = prior
        self.n_features = n_features
        self.max_features = max_features
        self.n_jobs = n_jobs

    # ------------------------------------------------------------------ learning

    def train(self, mails: Any, label: str) -> Self:
        """Learn mails of one class: a list of them, or the path of an mbox, a Maildir or a folder of messages.

        A mailbox is read and learned in batches; the reliabilities are fitted at the end.
        """
        check_labels([label])
        with changing(self) as new:
            empty = True
            for batch in in_batches(new._reader().opened(as_path(mails))):
                new.partial_fit(batch, [label] * len(batch))
                empty = False
            if empty:
                raise DecibanError(f"there is no mail to learn from in {mails!r}")
            if new.model_.kept.stand_for(new.model_.weight):  # otherwise keep those fitted on more mails
                new.refit_reliability()
        return self

    def correct(self, mails: Any, label: str) -> Self:
        """Correct mails that were learned as the other class: forget them as that, and learn them as this."""
        check_labels([label])
        mails = list(self._reader().opened(as_path(mails)))
        other = "ham" if label == "spam" else "spam"
        with changing(self) as new:
            try:
                new.forget(mails, other)
            except ForgetError as error:
                raise ForgetError(f"there is nothing to correct: it was not learned as {other}: {error}") from None
            new.partial_fit(mails, label)
        return self

    def _reader(self) -> MailReader:
        return MailReader(self.lowercase, None if self.headers is None else tuple(self.headers))

    def _engine(self, X: Any, y: Any = None, engine: str | None = None, anew: bool = False) -> Any:
        """Strings are mails, and paths are mailboxes; tables of mails are recognised by their type."""
        return super()._engine(X, y, engine, anew) if is_engine(X) or not isinstance(X, MAIL_TYPES) else None

    def _split(self, X: Any, y: Any) -> tuple[Any, Any]:
        """A single label applies to all mails."""
        if not isinstance(y, str):
            return X, y
        texts = self._reader().texts(X)
        return texts, [y] * len(texts)

    def _read(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> tuple[Any, Labels, Floats | None]:
        texts, labels, weight = super()._read(X, y, sample_weight, **how)
        check_labels(labels.classes.tolist())
        return texts, labels, weight

    def _declared(self, classes: Any, first: bool) -> Array | None:
        """There are two classes, even if only one was seen."""
        return super()._declared(CLASSES if classes is None and first else classes, first)

    def _learned(
        self, X: Any, labels: Labels, weight: Floats | None, *, closed: bool = False, hidden: Hidden = AS_LABELLED
    ) -> Any:
        del closed  # there are two classes
        prior = fit.pseudo_counts(self.prior, CLASSES, self.lowercase, BY_SCRIPT)
        class_prior = prior_by_class(self.class_prior, CLASSES)
        how = self.n_features, BY_SCRIPT, self.max_features
        empty_model = Graded.none(CLASSES, self.blocks, prior, True, class_prior, *how)
        self.__dict__.pop("model_", None)
        return fit.learn(empty_model, X, labels.placed(CLASSES), weight, hidden, self.n_jobs)

    _rows_with_weight = text_methods.rows_with_weight
    _with_more_rows = text_methods.with_more_rows
    _rows_to_keep = text_methods.rows_to_keep
    _learned_on_engine = text_methods.learned_on_engine
    _template = text_methods.template
    _chosen_by_sample = text_methods.chosen_by_sample
    refit_reliability = text_methods.refit_reliability

    def _check_parameters(self) -> None:
        super()._check_parameters()
        invalid = [field for field in self.headers or () if not isinstance(field, str)]
        if invalid:
            raise ValueError(f"headers holds {invalid[0]!r}: header fields must be names, such as 'subject'")

    # ------------------------------------------------------------------ predicting

    def _possible_answers(self) -> Array:
        return MAIL_ANSWERS

    def _predicted(self, X: Any) -> Array:
        """The one of "ham", "unsure" and "spam" with the least expected cost; unsure until both classes were
        learned."""
        costs = (self.false_negative, self.unsure, self.false_positive)
        return mail_answers(self._probabilities(X), costs, self.class_count_)

    def explain(
        self, X: Any, target: Any = "spam", against: Any = None, names: Any = None, by: str | None = None
    ) -> Evidence | list[Evidence]:
        """Why a mail is spam: every word's evidence in decibans, and the mail in colour."""
        return super().explain(X, target, against, names, by)

    def _has_density(self) -> bool:
        raise NotAvailableError(text_methods.NO_DENSITY)

    # ------------------------------------------------------------------ inspection and saving

    kept_ = text_methods.kept
    n_dropped_ = text_methods.n_dropped
    top_words = text_methods.top_words
    vocabulary_ = text_methods.vocabulary
    alpha_ = text_methods.alpha
    reliability_ = text_methods.reliability
    _about = text_methods.about

    def _parameters_out(self) -> dict[str, Any]:
        return {**super()._parameters_out(), "headers": None if self.headers is None else list(self.headers)}

    def _restored(self, model: Any, about: dict[str, Any]) -> Any:
        self._check_parameters()
        return text_methods.restored(model, about, False, self.n_features, self.max_features)


def check_labels(labels: Iterable[Any]) -> None:
    invalid = [label for label in labels if label not in ("ham", "spam")]
    if invalid:
        raise ValueError(f"a label must be 'ham' or 'spam', not {invalid[0]!r}")


def as_path(mails: Any) -> Any:
    """A line that is not a header field is the path of a mailbox. Only for training: mail to score is never read as a
    path."""
    if isinstance(mails, str) and "\n" not in mails and not HEADER_FIELD.match(mails):
        return Path(mails).expanduser()
    return mails


def in_batches(mails: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(islice(mails, TRAIN_BATCH)):
        yield batch
