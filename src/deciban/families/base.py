"""The interface of a family: a distribution of x given the class whose statistics add up.

Each family is one file, with its methods in the order below. `X` is a block of n rows and d columns, dense or sparse;
`sums` are the block's statistics; `alpha` is the strength of the prior (a number, one per column, or one per class and
column).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from deciban._typing import Array, Floats, Matrix, Sums
from deciban.errors import DecibanError
from deciban.schema import Columns

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term
    from deciban.measure import Measure

# scorer(X, start, out) writes start + log p(x | class) of rows into out, (n, k); start is (k,).
Scorer: TypeAlias = Callable[[Matrix, Floats, Floats], None]
Values: TypeAlias = Literal["numbers", "counts", "truths", "categories"]  # counts are never negative; truths are 0 or 1


@dataclass(frozen=True, slots=True)
class Family(ABC):
    """A distribution of a block of columns given the class. `Params` is whatever `estimate` returns."""

    name: ClassVar[str]
    typical_is_evidence: ClassVar[bool] = False  # whether `typical` returns evidence instead of log-probabilities
    pivoted: ClassVar[bool] = False  # whether its sums are moments about a pivot
    generative: ClassVar[bool] = True  # whether log_prob is a log-density, so that p(x) and samples exist
    values: ClassVar[Values] = "numbers"  # what its columns hold
    counts_missing: ClassVar[bool] = True  # whether a missing value may be one of the categories
    apart: ClassVar[bool] = False  # whether a class's distribution depends only on the sums of that class

    @classmethod
    def by_name(cls) -> Mapping[str, Family]:
        """The names of this family as a distribution of table columns; empty if it cannot be one."""
        return {cls.name: cls()}

    @property
    def by_column(self) -> bool:
        """Whether the distribution of several columns is the product of the same distribution of each."""
        return True

    @property
    def whole_rows(self) -> bool:
        """Whether columns depend on each other, so that a missing value must be guessed from the others."""
        return False

    @abstractmethod
    def measures(self, columns: Columns) -> tuple[Measure, ...]:
        """T(x): what to sum."""

    @abstractmethod
    def pseudo(self, alpha: Array | float, columns: Columns, sums: Sums) -> Sums:
        """The prior as pseudo-statistics: strength × E[T] under a guess."""

    @abstractmethod
    def estimate(self, sums: Sums, columns: Columns) -> Any:
        """Parameters from statistics to which the prior's have been added."""

    def unknown(self, sums: Sums, columns: Columns) -> Array:
        """Where a subtraction has left less of a sum than its rounding error, (k, d); never for counts."""
        return np.zeros((len(next(iter(sums.values()))), columns.size), dtype=bool)

    @abstractmethod
    def expect(self, params: Any, columns: Columns) -> Sums:
        """E[T] of one row: estimate(expect(params)) = params."""

    @abstractmethod
    def log_prob(self, params: Any, columns: Columns, X: Matrix) -> Floats:
        """log p(x | class), shape (n, k). A missing value adds 0."""

    def scorer(self, params: Any, columns: Columns, relative: bool = False) -> Scorer:
        """`log_prob` as a function that has prepared what it needs, for many rows.

        With `relative` it is up to a constant per row, which is all that a posterior depends on.
        """
        del relative

        def write(X: Matrix, start: Floats, out: Floats) -> None:
            np.add(self.log_prob(params, columns, X), start, out=out)

        return write

    def first_guess(self, columns: Columns, X: Matrix, shares: Floats) -> Any:
        """Params as if columns were independent, from the values that are not missing: the start of EM."""
        del columns, X, shares
        raise TypeError(f"the {self.name} family leaves missing entries out")

    def fill(self, params: Any, X: Matrix, shares: Floats) -> Floats:
        """Rows with missing values replaced by their expectations, if columns depend on each other."""
        del params, X, shares
        raise TypeError(f"the {self.name} family leaves missing entries out")

    def expected_sums(self, params: Any, columns: Columns, X: Matrix, shares: Floats) -> Sums:
        """E[T] of rows with missing values, weighted by `shares` (n, k), if columns depend on each other."""
        del params, columns, X, shares
        raise TypeError(f"the {self.name} family leaves missing entries out")

    @abstractmethod
    def leave_one_out(
        self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix, y: Array, weight: Floats | None
    ) -> Floats:
        """log p(x_i | class) under the statistics without row i, shape (n, k); exactly what a refit gives."""

    def without_each(self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix) -> Floats:
        """log p(x_i | class) with row i subtracted from the sums of every class, which all include it, shape (n, k).

        Only for families that are `apart`: there it is leave-one-out in each class separately.
        """
        own = np.zeros(X.shape[0], dtype=np.int32)
        parts = [
            self.leave_one_out({name: array[c : c + 1] for name, array in sums.items()}, alpha, columns, X, own, None)
            for c in range(len(next(iter(sums.values()))))
        ]
        return np.hstack(parts)

    def downdates(self, alpha: Array | float | str) -> bool:
        """Whether leave-one-out costs about as much as prediction, and not a new estimate for every row."""
        del alpha
        return True

    @abstractmethod
    def sample(self, params: Any, columns: Columns, y: Array, rng: np.random.Generator, length: Array) -> Floats:
        """One row for every class code in y. `length` is each row's number of words, for families of words."""

    @abstractmethod
    def log_marginal(self, sums: Sums, prior: Sums, columns: Columns) -> Floats:
        """log ∫ p(data | params) p(params | prior) by class, in closed form."""

    @abstractmethod
    def terms(self, params: Any, columns: Columns, X: Matrix) -> tuple[Array, Floats]:
        """The terms of one row's log_prob: the columns, and the term of each, shape (m, k)."""

    def rest(self, params: Any, columns: Columns, X: Matrix) -> tuple[str, Any, Floats] | None:
        """The term of log_prob that belongs to no single column, if any: its name, its value, and its (k,) terms."""
        del params, columns, X
        return None

    @abstractmethod
    def typical(self, params: Any, columns: Columns) -> tuple[list[str], Floats]:
        """Items (a word, column = category, …) and each one's log-probability by class, shape (m, k).

        If `typical_is_evidence`, the item's evidence for each class against the others instead.
        """

    @abstractmethod
    def table(self, params: Any, columns: Columns) -> dict[str, Floats]:
        """Parameters as columns of a table, each of shape (k, items), items as in `typical`."""

    def linear(self, params: Any, columns: Columns) -> tuple[list[str], Floats, Floats]:
        """Items, weights (k, items) and offsets (k,) of log p(x | class) as a linear form, if it is one."""
        del params, columns
        raise TypeError(f"the {self.name} family is not linear in x")

    def term(self, params: Any, columns: Columns, sketch: Sketch) -> Term:
        """log p(x | class) as a formula, up to a constant per row; SQL and ONNX are written from it.

        `sketch.numbers(columns)` or `sketch.categories(columns)` are the inputs of the formula. The classes of formulas
        are imported inside the method, since few models need them.
        """
        del params, columns, sketch
        raise DecibanError(
            f"the {self.name} distribution cannot be exported to SQL or ONNX: score rows with predict_proba"
        )
