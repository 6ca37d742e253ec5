"""The interface of all models: values with five operations, zero, batch, +, −, scale, and what follows from them.

Joint distributions (`joint_model`), classes made of components (`components`), tables (`tables.model`) and texts
(`text.graded`, `text.plain`) implement it; `tests/laws/test_learners.py` discovers them and tests them all. An
estimator wraps one such value, and an engine adds them up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from deciban import bayes
from deciban._typing import Array, Codes, Floats
from deciban.errors import DecibanError, ForgetError, NotAvailableError, did_you_mean
from deciban.joint import log_class_prior
from deciban.reading.labels import Labels
from deciban.results.evidence import Evidence
from deciban.results.importance import Importance
from deciban.show import Table, plain

if TYPE_CHECKING:
    from deciban.corollaries.leave_one_out import LeaveOneOut

ROUNDING = 1e-9  # relative to a class's weight


@dataclass(frozen=True, slots=True)
class Hidden:
    """How to learn rows without a label: the weight of one relative to a labelled row, or clustering of all rows."""

    weight: float = 1.0
    clusters: bool = False
    random_state: Any = 0


AS_LABELLED = Hidden()  # rows without a label count as much as others


class Learner(ABC):
    """Learned sums and the choices they were made under: an immutable value.

    `rows` are in the learner's own form, with a length and `take`; labels are codes and the classes they refer to.
    `n_jobs` is the number of threads.
    """

    __slots__ = ()

    pools: ClassVar[bool] = False  # whether evidence is pooled, and may have no weight
    item_kind: ClassVar[str] = "column"  # what the items of explanations are

    # ------------------------------------------------------------------ classes

    if TYPE_CHECKING:  # fields of some learners, and properties of others

        @property
        def classes(self) -> Array:
            """The labels, sorted."""

        @property
        def weight(self) -> Floats:
            """The weight of the learned rows of each class, (k,)."""

        @property
        def closed(self) -> bool:
            """Whether no other classes can be added."""

        @property
        def class_prior(self) -> str | Floats:
            """P(y): "empirical", "uniform", or as given."""

        @property
        def unlabelled(self) -> int:
            """How many rows were learned with a guessed label."""

    @property
    def log_prior(self) -> Floats:
        """log P(y), (k,)."""
        return log_class_prior(self.class_prior, self.weight)

    def code_of(self, label: Any) -> int:
        """The code of a class."""
        where = np.flatnonzero(self.classes == label)
        if len(where) == 0:
            known = f"choose one of {', '.join(map(repr, self.classes.tolist()))}"
            hint = did_you_mean(str(label), map(str, self.classes.tolist()), known)
            raise DecibanError("{value!r} is not one of the classes: {hint}", value=label, hint=hint)
        return int(where[0])

    @abstractmethod
    def with_prior(self, class_prior: str | Floats) -> Self:
        """The same under another class prior."""

    # ------------------------------------------------------------------ sums

    @abstractmethod
    def zero(self) -> Self:
        """The same choices, nothing learned."""

    @abstractmethod
    def batch(self, rows: Any, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> Self:
        """Only these rows, under the same choices; those without a label are skipped."""

    @abstractmethod
    def __add__(self, other: Self) -> Self:
        """What both have learned. SchemaError if their choices differ."""

    @abstractmethod
    def __sub__(self, other: Self) -> Self:
        """Without what the other learned. ForgetError if this one never learned it."""

    @abstractmethod
    def scale(self, share: float) -> Self:
        """Every sum times a number: a weight, or decay."""

    def learn(self, rows: Any, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> Self:
        """With these rows."""
        return self + self.batch(rows, labels, weight, n_jobs)

    def forget(self, rows: Any, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> Self:
        """Without these rows, which were learned."""
        return self - self.batch(rows, labels, weight, n_jobs)

    def out_of_sums(self, rows: Any, codes: Codes, weight: Floats | None = None) -> Self:
        """Without these learned rows, which can still be scored."""
        return self.forget(rows, Labels(self.classes, codes), weight)

    def every_row(self) -> tuple[Any, Labels, Floats | None] | None:
        """All learned rows, their labels and weights, if the model keeps them for choosing; otherwise None."""
        return None

    def as_part(self) -> Self:
        """What must be stored of sums that will be added to a model with the same choices."""
        return self

    @property
    @abstractmethod
    def why_inexact(self) -> str:
        """Why rows cannot be taken out of the sums exactly; empty if they can."""

    # ------------------------------------------------------------------ predictions

    @abstractmethod
    def log_joints(self, rows: Any, n_jobs: int | None = None) -> Floats:
        """log p(x, y), (n, k); if evidence is pooled, up to a constant per row."""

    def single(self, X: Any) -> Any:
        """A single row, read in a quicker way than many; None if there is none for X."""
        del X

    def scores(self, rows: Any, how: str, n_jobs: int | None = None) -> Array:
        """One of "log_joint", "posterior" and "log_posterior", (n, k); or "best", class codes (n,)."""
        scores = self.log_joints(rows, n_jobs)
        if how == "log_joint":
            return scores
        out = bayes.posterior(scores, self.log_prior, logs=how == "log_posterior")
        return np.asarray(np.argmax(out, axis=1)) if how == "best" else out

    def log_density(self, rows: Any, n_jobs: int | None = None) -> Floats:
        """log p(x), (n,)."""
        del rows, n_jobs
        raise NotAvailableError("this model has no p(x)")

    @abstractmethod
    def log_posterior_without(
        self, rows: Any, codes: Codes, weight: Floats | None, n_jobs: int | None, whole: bool
    ) -> tuple[Floats, str]:
        """log P(y | x) of learned rows, each under the sums without it, (n, k), and the method used.

        `whole`: the rows are all that was learned, so that choices can be made without each of them too.
        """

    def leave_one_out(
        self, rows: Any, codes: Codes, weight: Floats | None = None, n_jobs: int | None = None
    ) -> LeaveOneOut:
        """Every row's posterior under the sums without it."""
        from deciban.corollaries.leave_one_out import LeaveOneOut, alone_in_class, shares_of  # not needed for scoring

        whole = self.check_learned(codes, weight)
        log_proba, way = self.log_posterior_without(rows, codes, weight, n_jobs, whole)
        alone = alone_in_class(self.weight, codes, weight)
        learned = shares_of(self.class_prior, self.weight)
        return LeaveOneOut(self.classes, log_proba, codes, weight, alone, way, learned, self.pools)

    def check_learned(self, codes: Codes, weight: Floats | None) -> bool:
        """Check that no class has more weight than was learned; whether these rows are all that was learned."""
        asked = np.bincount(codes, weight, minlength=len(self.classes))
        over = np.flatnonzero(asked > self.weight * (1 + ROUNDING))
        if len(over):
            c = int(over[0])
            raise ForgetError(
                f"leave-one-out needs rows that the model has learned: of class {plain(self.classes[c])!r} it learned "
                f"{self.weight[c]:g}, but {asked[c]:g} were given"
            )
        return bool(np.allclose(asked, self.weight, rtol=ROUNDING, atol=0.0))

    def check_rows(self, rows: Any) -> None:
        """Check rows that are to be explained: an infinity is an error, with its place."""
        del rows

    @abstractmethod
    def explain(self, row: Any, target: int | None = None, against: int | None = None, **how: Any) -> Evidence:
        """One row's evidence for class `target` over `against`; by default, for the most probable over the second."""

    def explain_each(
        self, rows: Any, target: int | None = None, against: int | None = None, **how: Any
    ) -> list[Evidence]:
        """The same for each row."""
        self.check_rows(rows)
        return [self.explain(rows.take(np.array([i])), target, against, **how) for i in range(len(rows))]

    def item_evidence(self, row: Any) -> list[tuple[str, Any, Floats]]:
        """The items of one row's explanation: name, value, and evidence for every class up to a constant, in nats."""
        found: dict[str, tuple[Any, Floats]] = {}
        for c in range(1, len(self.classes)):
            for name, value, decibans in self.explain(row, c, 0).items:
                found.setdefault(name, (value, np.zeros(len(self.classes))))[1][c] += decibans / bayes.DECIBANS
        return [(name, value, nats) for name, (value, nats) in found.items()]

    def strongest_items(self, row: Any, target: int, against: int, most: int) -> list[tuple[str, float]]:
        """The items of one row with the strongest evidence for a class over another, in decibans."""
        return [(name, db) for name, _, db in self.explain(row, target, against, by="item").items[:most]]

    @property
    def stored_importance(self) -> Importance | None:
        """The importance of its items on some of the rows that it chose on, if that was computed."""
        return None

    def importance(
        self, rows: Any, codes: Codes, weight: Floats | None = None, learned: bool = False
    ) -> Importance | None:
        """The importance of each item of explanations on these rows, which were `learned` or not; None if no row has
        another class to be compared with."""
        from deciban.corollaries.importance import by_explanations  # not needed for scoring

        self.check_rows(rows)
        return by_explanations(self, rows, codes, weight, learned)

    @abstractmethod
    def strongest(self, target: int, most: int) -> list[tuple[str, float]]:
        """The items with the strongest evidence for a class against the others, in decibans."""

    def strongest_table(self, most: int, what: str = "evidence", item: str = "item", only: int | None = None) -> Table:
        """The same for each class, or for `only` one; with the number of rows behind it, if importance is stored."""
        codes = range(len(self.classes)) if only is None else (only,)
        title, stored = f"strongest {what} for each class", self.stored_importance
        rows: list[tuple[Any, ...]]
        if stored is None:
            rows = [(plain(self.classes[c]), name, db) for c in codes for name, db in self.strongest(c, most)]
            return Table(title, ("class", item, "dB"), rows)
        labels = [plain(self.classes[c]) for c in codes]
        rows = [(label, name, n, db) for label in labels for name, db, n in stored.strongest(label, most)]
        return Table(title, ("class", item, "rows", "dB"), rows)

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator, given: int | None = None, **how: Any) -> tuple[Any, Codes]:
        """Rows drawn from the model, and their class codes."""

    # ------------------------------------------------------------------ missing labels, choices

    @abstractmethod
    def fill(
        self,
        rows: Any,
        codes: Codes,
        weight: Floats | None = None,
        hidden: Hidden = AS_LABELLED,
        n_jobs: int | None = None,
        watch: Callable[[int, float], None] | None = None,
    ) -> Self:
        """With the rows in which a label (code −1) or an entry is missing; the others have been learned."""

    @abstractmethod
    def choose(self, rows: Any, codes: Codes, weight: Floats | None = None, n_jobs: int | None = None) -> Self:
        """With choices made by leave-one-out over these learned rows; the same if there is nothing to choose."""

    # ------------------------------------------------------------------ pickling

    @abstractmethod
    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """A document that describes it, and its arrays; `unpack` is the inverse."""

    @classmethod
    @abstractmethod
    def unpack(cls, document: Mapping[str, Any], tensors: Mapping[str, Array]) -> Self:
        """The inverse of `pack`, with everything checked for consistency."""


def without_a_class(model: Learner, scores: Floats, codes: Codes, weight: Floats | None) -> Floats:
    """log P(y | x) of documents left out: without its only document, a class is impossible."""
    amount = np.broadcast_to(1.0 if weight is None else weight, len(codes)) * (1.0 + ROUNDING)
    if not model.closed:
        alone = model.weight[codes] <= amount
        scores[alone, codes[alone]] = -np.inf
    log_proba = bayes.posterior(scores, model.log_prior, logs=True, quiet=True)
    if not model.closed:
        log_proba[model.weight.sum() <= amount] = -np.inf
    return log_proba
