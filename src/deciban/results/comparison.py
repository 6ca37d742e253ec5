"""Learning curves: how well models predict held-out rows, by the number of training rows (S15)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np

from deciban._scipy import issparse
from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.results.evaluation import Details
from deciban.show import WIDTH, Result, Table, axes, bar, colour, label, optional, plain
from deciban.threads import own_threads

MIN_ROWS_PER_CLASS = 2  # rows of every class in every training set: with one, a class has no spread


class ComparedModel(Protocol):
    """A model to compare: `fit` starts afresh, `predict_proba` has a column for each of `classes_`."""

    @property
    def classes_(self) -> Any: ...

    def fit(self, X: Any, y: Any) -> Any: ...

    def predict_proba(self, X: Any) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(Result):
    """Accuracy and log loss of models on held-out rows, by the number of rows they learned from.

    In each repeat all models learn from the same rows and are tested on the same held-out ones; a larger training
    set contains the smaller ones. Standard errors are over repeats, which are draws from one set of rows: they show
    how much the draw matters, not how another set would differ. A lead of less than two standard errors of the
    paired differences is shown with a question mark. Sizes may have fewer repeats than others: NaN marks those
    that were not drawn.

    >>> loss = np.array([[[0.5, 0.7], [0.4, 0.4]], [[0.9, 0.9], [0.2, 0.4]]])
    >>> comparison = Comparison(("a", "b"), (10, 100), np.exp(-loss), loss, 50)
    >>> comparison
    b has the lowest log loss from 100 rows on (50 held-out rows; mean of 2 draws ±
    standard error).
    <BLANKLINE>
    log loss, in nats
    rows  a          b          best
      10  0.6 ± 0.1  0.9 ± 0    a
     100  0.4 ± 0    0.3 ± 0.1  b ?
    <BLANKLINE>
    accuracy
    rows       a       b
      10  55.2 %  40.7 %
     100  67.0 %  74.5 %
    <BLANKLINE>
    ?: the lead is less than two standard errors, and may be chance.
    >>> comparison.best(10), comparison.best(), comparison.crossing
    ('a', 'b', 100)
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    accuracy: Floats  # (models, sizes, repeats)
    log_loss: Floats  # the same shape, the mean of −log P(true class)
    held_out: int

    @property
    def repeats(self) -> int:
        return int(self.log_loss.shape[2])

    @property
    def draws(self) -> tuple[int, ...]:
        """How many repeats each size has."""
        return tuple((~np.isnan(self.log_loss[0])).sum(axis=1).tolist())

    @property
    def crossing(self) -> int | None:
        """The smallest size from which the second model's mean log loss stays below the first's, if there is one."""
        first, second = mean_over_draws(self.log_loss[:2])
        ahead = np.logical_and.accumulate((second < first)[::-1])[::-1]  # at this size, and at all larger ones
        return self.sizes[int(np.argmax(ahead))] if ahead[-1] else None

    def best(self, size: int | None = None) -> str:
        """The model with the lowest mean log loss at this size; by default at the largest."""
        size = self.sizes[-1] if size is None else size
        if size not in self.sizes:
            raise DecibanError(f"there is no size {size}: the sizes are {', '.join(map(str, self.sizes))}")
        return self.names[int(np.argmin(mean_over_draws(self.log_loss[:, self.sizes.index(size)])))]

    def to_dict(self) -> dict[str, Any]:
        return {
            "models": list(self.names),
            "sizes": list(self.sizes),
            "held_out": self.held_out,
            "repeats": self.repeats,
            "draws": list(self.draws),
            "accuracy": dict(zip(self.names, map(self._drawn, self.accuracy), strict=True)),
            "log_loss": dict(zip(self.names, map(self._drawn, self.log_loss), strict=True)),
            "crossing": self.crossing,
        }

    def _drawn(self, values: Floats) -> list[list[float]]:
        """The values of one model by size and repeat, as many as were drawn."""
        return [row[:n].tolist() for row, n in zip(values, self.draws, strict=True)]

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency), a row for each model, size and repeat."""
        rows = [
            (name, size, repeat, float(self.accuracy[m, s, repeat]), float(self.log_loss[m, s, repeat]))
            for m, name in enumerate(self.names)
            for s, size in enumerate(self.sizes)
            for repeat in range(self.draws[s])
        ]
        return Table("", ("model", "rows", "repeat", "accuracy", "log_loss"), rows).to_frame()

    def to_table(self) -> Table:
        losses, errors, accuracies = (
            mean_over_draws(self.log_loss),
            standard_error(self.log_loss),
            mean_over_draws(self.accuracy),
        )
        rows = [
            (size, *map(_with_error, losses[:, s], errors[:, s]), *map(float, accuracies[:, s]), self._leader(size))
            for s, size in enumerate(self.sizes)
        ]
        measures = [f"{what}[{name}]" for what in ("log loss", "accuracy") for name in self.names]
        return Table(self._title(), ("rows", *measures, "best"), rows)

    def _parts(self) -> tuple[Table | str, ...]:
        """Log loss and accuracy in two tables, which fit into 80 columns; in one of `to_table`, they would not."""
        rows, models = self.to_table().rows, len(self.names)
        loss_rows = [(size, *cells[:models], cells[-1]) for size, *cells in rows]
        accuracies = [(size, *(f"{100 * share:.1f} %" for share in cells[models:-1])) for size, *cells in rows]
        doubtful = any(str(row[-1]).endswith(" ?") for row in rows) and self.repeats > 1
        return (
            f"{self._title()}.",
            Table("log loss, in nats", ("rows", *self.names, "best"), loss_rows, width=WIDTH),
            Table("accuracy", ("rows", *self.names), accuracies, right=self.names),
            *(["?: the lead is less than two standard errors, and may be chance."] if doubtful else []),
        )

    def details(self) -> Details:
        """The same as it prints: log loss and accuracy in two tables."""
        return Details(self._parts())

    def _title(self) -> str:
        least, most = min(self.draws), max(self.draws)
        several = f"{most} draws" if least == most else f"{least} to {most} draws"
        spread = f"mean of {several} ± standard error"
        spread = spread if self.repeats > 1 else "one draw: any lead may be chance"
        return f"{self._verdict()} ({self.held_out} held-out rows; {spread})"

    def _leader(self, size: int) -> str:
        """The best model at this size, with a question mark if its lead may be due to the draw."""
        s = self.sizes.index(size)
        best, losses = self.best(size), self.log_loss[:, s, : self.draws[s]]
        own = losses[self.names.index(best)]
        gaps = [
            loss - own
            for name, loss in zip(self.names, losses, strict=True)
            if name != best and np.isfinite(loss).all()  # a finite loss is certainly less than an infinite one
        ]
        sure = np.isfinite(own).all() and all(gap.mean() > 2 * standard_error(gap) for gap in gaps)
        return best if sure else f"{best} ?"

    def _verdict(self) -> str:
        """The model that is best at the largest size, and from which size on."""
        winners = [self.best(size) for size in self.sizes]
        since = max((s + 1 for s, name in enumerate(winners) if name != winners[-1]), default=0)
        when = f"from {self.sizes[since]} rows on" if since else "at every size"
        return f"{winners[-1]} has the lowest log loss {when}"

    def plot(self, ax: Any = None, measure: str = "log_loss") -> Any:
        """Curves of "log_loss" or "accuracy" with a band of standard errors, with matplotlib (an optional dependency);
        returns the axes. A dotted line marks the crossing."""
        if measure not in ("log_loss", "accuracy"):
            raise DecibanError(f"measure is {measure!r}: it must be 'log_loss' or 'accuracy'")
        ax = axes(ax)
        values: Floats = getattr(self, measure)
        means, errors = mean_over_draws(values), standard_error(values)
        for m, (name, mean, error) in enumerate(zip(self.names, means, errors, strict=True)):
            (line,) = ax.plot(
                self.sizes, mean, marker="os^Dv"[m % 5], markersize=4, color=colour(m), label=label(name)
            )  # distinguishable without colour too
            with np.errstate(invalid="ignore"):  # ∞ − ∞: there is no band
                low, high = mean - error, mean + error
            ax.fill_between(self.sizes, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        if measure == "log_loss" and self.crossing is not None:
            ax.axvline(self.crossing, color="grey", linestyle=":", linewidth=1)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(optional("matplotlib.ticker", "plot").ScalarFormatter())  # 1000 rather than 10³
        ax.set_xlabel("rows learned from")
        ax.set_ylabel(f"{measure.replace('_', ' ')} on {self.held_out} held-out rows")
        ax.legend(frameon=False)
        return ax


def mean_over_draws(values: Floats) -> Floats:
    """The mean over the last axis, of the repeats that were drawn."""
    return np.asarray(np.nanmean(values, axis=-1))


def standard_error(values: Floats) -> Floats:
    """The standard error of the mean over the last axis; NaN for one draw, and infinite if a value is."""
    draws = (~np.isnan(values)).sum(axis=-1)
    infinite = np.isinf(values)
    finite = np.where(infinite, 0.0, values)
    deviations = finite - np.nanmean(finite, axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):  # of one draw
        error = np.sqrt(np.nansum(deviations**2, axis=-1) / (draws - 1) / draws)
    return np.asarray(np.where(draws < 2, np.nan, np.where(infinite.any(axis=-1), np.inf, error)))


def _with_error(mean: float, error: float) -> str:
    if np.isinf(mean):
        return "∞"
    return f"{mean:.4g}" if np.isnan(error) else f"{mean:.4g} ± {error:.2g}"


class ByNumber:
    """A model that receives row numbers, and looks the rows up: they are prepared once for all fits."""

    def __init__(self, model: Any, take: Callable[[Array], Any]) -> None:
        self.model, self.take = model, take

    @property
    def classes_(self) -> Any:
        return self.model.classes_

    def fit(self, X: Array, y: Array) -> ByNumber:
        self.model.fit(self.take(X), y)
        return self

    def predict_proba(self, X: Array) -> Any:
        return self.model.predict_proba(self.take(X))

    def predict_log_proba(self, X: Array) -> Any:
        return self.model.predict_log_proba(self.take(X))

    def __deepcopy__(self, memo: Any) -> ByNumber:
        """Another model for the same rows."""
        return ByNumber(copy.deepcopy(self.model, memo), self.take)


def learning_curves(
    models: Mapping[str, ComparedModel],
    X: Any,
    y: Any,
    sizes: Sequence[int],
    *,
    held_out: int,
    repeats: int | Sequence[int],
    rng: np.random.Generator,
    show_progress: bool = True,
) -> Comparison:
    """Accuracy and log loss of models on the same held-out rows, after learning from growing sets of the same rows.

    X may be an array, a sparse matrix or a data frame. Training sets are stratified, with at least two rows of every
    class; so `sizes` start at twice the number of classes. `repeats` may be a number for each size, in their order. The
    models themselves are not changed: copies learn.

    Probabilities are not clipped: a true class of probability 0 has infinite log loss. `predict_log_proba` is used if a
    model has it, since it distinguishes a probability of e⁻¹⁰⁰⁰ from 0.

    BLAS is limited to one thread: the matrices are small, and threads would wait for each other most of the time.
    """
    take, n = taker(X)
    if np.ndim(y) != 1 or len(y) != n:
        raise DecibanError(f"X has {n} rows, but y has shape {np.shape(y)}: give one label per row")
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    check_rows(classes, codes, n, held_out)
    sizes = check_sizes(sizes, n - held_out, len(classes))
    if len(models) < 2:
        raise DecibanError(f"a comparison needs at least two models, got {len(models)}")
    draws = [repeats] * len(sizes) if isinstance(repeats, int) else list(repeats)
    if min(draws) < 1 or len(draws) != len(sizes):
        raise DecibanError("repeats is {value}: it must be at least 1", value=min(draws))
    accuracy, log_loss = np.full((2, len(models), len(sizes), max(draws)), np.nan)
    orders = [stratified_order(codes, rng) for _ in range(max(draws))]
    drawn = [(repeat, s) for repeat in range(max(draws)) for s in range(len(sizes)) if repeat < draws[s]]
    steps = [(*one, m) for one, m in product(drawn, enumerate(models.items()))]
    with own_threads(), bar("comparing", len(steps) if show_progress else 0, "fits") as watch:
        for done, (repeat, s, (m, (name, model))) in enumerate(steps, 1):
            train_rows, test_rows = orders[repeat][: sizes[s]], orders[repeat][n - held_out :]
            try:
                log_proba = fitted_log_proba(
                    model, take(train_rows), classes[codes[train_rows]], take(test_rows), classes
                )
            except Exception as error:
                error.add_note(f"This was {name} on {sizes[s]} of {n} rows.")
                raise
            accuracy[m, s, repeat] = np.mean(np.argmax(log_proba, axis=1) == codes[test_rows])
            log_loss[m, s, repeat] = -np.mean(log_proba[np.arange(held_out), codes[test_rows]])
            watch(done)
    return Comparison(tuple(models), sizes, accuracy, log_loss, held_out)


def stratified_order(codes: Array, rng: np.random.Generator) -> Array:
    """A random order of the rows in which every prefix is stratified, after two rows of each class.

    The r-th row of a class of size n_c is due at (r + u)/n_c with u uniform on [0, 1). Prefixes of the order are
    training sets, so that larger ones contain smaller ones; its end is held out, and is stratified too.
    """
    order = rng.permutation(len(codes))
    by_class = order[np.argsort(codes[order], kind="stable")]
    class_counts = np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(class_counts) - class_counts, class_counts)
    due = (rank + rng.random(len(codes))) / np.repeat(class_counts, class_counts)
    return np.asarray(by_class[np.lexsort((due, rank >= MIN_ROWS_PER_CLASS))])


def fitted_log_proba(model: ComparedModel, X: Any, y: Array, X_test: Any, classes: Array) -> Floats:
    """log P(class | row) of X_test after fitting a copy to X and y, (n, k); −∞ for a class the model does not know."""
    model = copy.deepcopy(model)
    model.fit(X, y)
    with np.errstate(divide="ignore"):  # log 0 is meant
        log_predict = getattr(model, "predict_log_proba", None)
        predicted = np.asarray(np.log(model.predict_proba(X_test)) if log_predict is None else log_predict(X_test))
    if np.isnan(predicted).any():
        raise DecibanError("some probabilities are NaN, so there is no log loss")
    log_proba = np.full((len(predicted), len(classes)), -np.inf)
    log_proba[:, np.searchsorted(classes, model.classes_)] = predicted
    return log_proba


def taker(X: Any) -> tuple[Callable[[Array], Any], int]:
    """A function that selects rows of X by index, and the number of rows."""
    if hasattr(X, "iloc"):  # pandas, where X[rows] would mean columns
        return lambda rows: X.iloc[rows], len(X)
    table = X.tocsr() if issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    if len(table.shape) == 0:
        raise DecibanError(f"X has no rows: it is {X!r}")
    return lambda rows: table[rows], int(table.shape[0])


def check_sizes(sizes: Sequence[int], max_size: int, k: int) -> tuple[int, ...]:
    """Sizes, distinct and ascending: at least two rows per class, at most `max_size`."""
    requested = [plain(size) for size in sizes]
    if not requested or not all(isinstance(size, int) and not isinstance(size, bool) for size in requested):
        raise DecibanError(f"sizes must be whole numbers of rows, got {requested}")
    min_size = MIN_ROWS_PER_CLASS * k
    if min(requested) < min_size:
        raise DecibanError(
            f"a size of {min(requested)} is too small: {MIN_ROWS_PER_CLASS} rows of each class need {min_size} or more"
        )
    if max(requested) > max_size:
        raise DecibanError(f"a size of {max(requested)} is too large: {max_size} rows are left to learn from")
    return tuple(sorted(set(requested)))


def check_rows(classes: Array, codes: Array, n: int, held_out: int) -> None:
    if len(classes) < 2:
        raise DecibanError(
            "y must hold at least two classes, but holds only {classes}",
            classes=", ".join(repr(plain(label)) for label in classes),
            command_line="the column of classes holds only {classes}, but two classes are needed: check --target",
        )
    if not 0 < held_out < n:
        raise DecibanError(f"held_out is {held_out}: of {n} rows, some must be held out and some learned")
    class_counts = np.bincount(codes)
    rarest = int(np.argmin(class_counts))
    if class_counts[rarest] <= MIN_ROWS_PER_CLASS:
        raise DecibanError(
            "class {value!r} has too few rows ({rows}): {least} are needed to learn from and one for evaluation, so "
            "leave the class out or merge it with another",
            value=plain(classes[rarest]),
            rows=int(class_counts[rarest]),
            least=MIN_ROWS_PER_CLASS,
        )
