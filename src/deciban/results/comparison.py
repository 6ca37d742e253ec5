"""Learning curves: how well models predict rows they have not seen, by how many they have (S15)."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from deciban._scipy import issparse
from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.results.evaluation import Details
from deciban.show import Result, Table, axes, colour, label, optional, plain

LEAST = 2  # rows of every class in every training set: with one, a class has no spread


class Learner(Protocol):
    """What can be compared: `fit` starts afresh, `predict_proba` has a column for each of `classes_`."""

    @property
    def classes_(self) -> Any: ...

    def fit(self, X: Any, y: Any) -> Any: ...

    def predict_proba(self, X: Any) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(Result):
    """What models got right on held-out rows, by the number of rows they learned from.

    In each repeat all models learn from the same rows and are judged by the same held-out ones; a larger training
    set contains the smaller ones. Standard errors are over repeats, which are draws from one set of rows: they say
    how much the draw matters, not how another set would differ. A lead of less than two standard errors, of the
    differences repeat by repeat, is shown with a question mark.

    >>> loss = np.array([[[0.5, 0.7], [0.4, 0.4]], [[0.9, 0.9], [0.2, 0.4]]])
    >>> found = Comparison(("a", "b"), (10, 100), np.exp(-loss), loss, 50)
    >>> found
    b has the lowest log loss from 100 rows on (50 held-out rows; mean of 2 draws ± standard error, ? within two)
    rows  log loss[a]  log loss[b]  accuracy[a]  accuracy[b]  best
      10  0.6 ± 0.1    0.9 ± 0           0.5516       0.4066  a
     100  0.4 ± 0      0.3 ± 0.1         0.6703       0.7445  b ?
    >>> found.best(10), found.best(), found.crossing
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
    def crossing(self) -> int | None:
        """The smallest size from which the second model's mean log loss stays below the first's, if there is one."""
        first, second = self.log_loss[:2].mean(axis=2)
        ahead = np.logical_and.accumulate((second < first)[::-1])[::-1]  # at this size, and at all larger ones
        return self.sizes[int(np.argmax(ahead))] if ahead[-1] else None

    def best(self, size: int | None = None) -> str:
        """The model with the least mean log loss at this size; by default at the largest."""
        size = self.sizes[-1] if size is None else size
        if size not in self.sizes:
            raise DecibanError(f"there is no size {size}: compared were {', '.join(map(str, self.sizes))}")
        return self.names[int(np.argmin(self.log_loss[:, self.sizes.index(size)].mean(axis=1)))]

    def to_dict(self) -> dict[str, Any]:
        return {
            "models": list(self.names),
            "sizes": list(self.sizes),
            "held_out": self.held_out,
            "repeats": self.repeats,
            "accuracy": dict(zip(self.names, self.accuracy.tolist(), strict=True)),
            "log_loss": dict(zip(self.names, self.log_loss.tolist(), strict=True)),
            "crossing": self.crossing,
        }

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency), a row for each model, size and repeat."""
        rows = [
            (name, size, repeat, float(self.accuracy[m, s, repeat]), float(self.log_loss[m, s, repeat]))
            for m, name in enumerate(self.names)
            for s, size in enumerate(self.sizes)
            for repeat in range(self.repeats)
        ]
        return Table("", ("model", "rows", "repeat", "accuracy", "log_loss"), rows).to_frame()

    def to_table(self) -> Table:
        losses, errors, hits = self.log_loss.mean(axis=2), standard_error(self.log_loss), self.accuracy.mean(axis=2)
        rows = [
            (size, *map(_with_error, losses[:, s], errors[:, s]), *map(float, hits[:, s]), self._leader(size))
            for s, size in enumerate(self.sizes)
        ]
        measures = [f"{what}[{name}]" for what in ("log loss", "accuracy") for name in self.names]
        return Table(self._title(), ("rows", *measures, "best"), rows)

    def details(self) -> Details:
        """Log loss and accuracy below each other, which a narrow terminal has room for."""
        rows, models = self.to_table().rows, len(self.names)
        losses = [(size, *said[:models], said[-1]) for size, *said in rows]
        hits = [(size, *(f"{share:.1%}" for share in said[models:-1])) for size, *said in rows]
        return Details(
            (
                f"{self._title()}.",
                Table("log loss, in nats", ("rows", *self.names, "best"), losses),
                Table("accuracy", ("rows", *self.names), hits, right=self.names),
            )
        )

    def _title(self) -> str:
        spread = f"mean of {self.repeats} draws ± standard error, ? within two"
        spread = spread if self.repeats > 1 else "one draw: any lead may be chance"
        return f"{self._verdict()} ({self.held_out} held-out rows; {spread})"

    def _leader(self, size: int) -> str:
        """The best model at this size, with a question mark where another draw of rows might have another."""
        best, losses = self.best(size), self.log_loss[:, self.sizes.index(size)]
        own = losses[self.names.index(best)]
        gaps = [
            loss - own
            for name, loss in zip(self.names, losses, strict=True)
            if name != best and np.isfinite(loss).all()  # a finite loss is less than an infinite one for sure
        ]
        sure = np.isfinite(own).all() and all(gap.mean() > 2 * standard_error(gap) for gap in gaps)
        return best if sure else f"{best} ?"

    def _verdict(self) -> str:
        """Who wins in the end, and since when."""
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
        means, errors = values.mean(axis=2), standard_error(values)
        for m, (name, mean, error) in enumerate(zip(self.names, means, errors, strict=True)):
            (line,) = ax.plot(
                self.sizes, mean, marker="os^Dv"[m % 5], markersize=4, color=colour(m), label=label(name)
            )  # told apart without colour too
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


def standard_error(values: Floats) -> Floats:
    """Of the mean over the last axis; NaN (unknown) for one draw, and infinite where a value is."""
    repeats = values.shape[-1]
    if repeats == 1:
        return np.full(values.shape[:-1], np.nan)
    finite = np.asarray(np.isfinite(values).all(axis=-1))
    deviations = np.where(finite[..., None], values, 0.0).std(axis=-1, ddof=1)
    return np.asarray(np.where(finite, deviations / np.sqrt(repeats), np.inf))


def _with_error(mean: float, error: float) -> str:
    if np.isinf(mean):
        return "∞"
    return f"{mean:.4g}" if np.isnan(error) else f"{mean:.4g} ± {error:.2g}"


def learning_curves(
    models: Mapping[str, Learner],
    X: Any,
    y: Any,
    sizes: Sequence[int],
    *,
    held_out: int,
    repeats: int,
    rng: np.random.Generator,
) -> Comparison:
    """Accuracy and log loss of models on the same held-out rows after learning from the same rows, more and more.

    X may be anything whose rows can be taken: an array, a sparse matrix, a data frame. Every class has two rows at
    least in every training set, and otherwise its share; so `sizes` start at twice the number of classes. The models
    themselves stay as they are: copies learn.

    Probabilities count as they are, without clipping: a true class of probability 0 costs infinity. A model that has
    `predict_log_proba` is asked for that, which tells a probability of e⁻¹⁰⁰⁰ from none.
    """
    take, n = taker(X)
    if np.ndim(y) != 1 or len(y) != n:
        raise DecibanError(f"X has {n} rows, but y has shape {np.shape(y)}: one label a row is needed")
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    check_rows(classes, codes, n, held_out)
    sizes = check_sizes(sizes, n - held_out, len(classes))
    if len(models) < 2:
        raise DecibanError(f"a comparison needs two models at least, got {len(models)}")
    if repeats < 1:
        raise DecibanError(f"repeats is {repeats}: at least one draw is needed")
    accuracy, log_loss = np.empty((2, len(models), len(sizes), repeats))
    orders = [draw_order(codes, rng) for _ in range(repeats)]
    for repeat, s in progress([(r, s) for r in range(repeats) for s in range(len(sizes))], "comparing"):
        rows, judges = orders[repeat][: sizes[s]], orders[repeat][n - held_out :]
        learned, labels, unseen = take(rows), classes[codes[rows]], take(judges)
        for m, (name, model) in enumerate(models.items()):
            try:
                log_proba = posterior(model, learned, labels, unseen, classes)
            except Exception as error:
                error.add_note(f"This was {name} on {sizes[s]} of {n} rows.")
                raise
            accuracy[m, s, repeat] = np.mean(np.argmax(log_proba, axis=1) == codes[judges])
            log_loss[m, s, repeat] = -np.mean(log_proba[np.arange(held_out), codes[judges]])
    return Comparison(tuple(models), sizes, accuracy, log_loss, held_out)


def draw_order(codes: Array, rng: np.random.Generator) -> Array:
    """A random order of the rows whose every beginning has two rows of each class and otherwise each class's share.

    The r-th row of a class of size n_c is due at (r + u)/n_c with u uniform on [0, 1). Beginnings of the order are
    training sets, so that larger ones contain smaller ones; its end is held out, and has each class's share too.
    """
    order = rng.permutation(len(codes))
    by_class = order[np.argsort(codes[order], kind="stable")]
    count = np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(count) - count, count)
    due = (rank + rng.random(len(codes))) / np.repeat(count, count)
    return np.asarray(by_class[np.lexsort((due, rank >= LEAST))])


def posterior(model: Learner, X: Any, y: Array, unseen: Any, classes: Array) -> Floats:
    """log P(class | row) of unseen rows after learning X and y, (n, k); −∞ for a class the model does not know."""
    model = copy.deepcopy(model)
    model.fit(X, y)
    with np.errstate(divide="ignore"):  # log 0 is meant
        log_predict = getattr(model, "predict_log_proba", None)
        said = np.asarray(np.log(model.predict_proba(unseen)) if log_predict is None else log_predict(unseen))
    if np.isnan(said).any():
        raise DecibanError("some probabilities are NaN, so that no log loss can be had from them")
    log_proba = np.full((len(said), len(classes)), -np.inf)
    log_proba[:, np.searchsorted(classes, model.classes_)] = said
    return log_proba


def taker(X: Any) -> tuple[Callable[[Array], Any], int]:
    """How to take rows of X, and how many there are."""
    if hasattr(X, "iloc"):  # pandas, where X[rows] would mean columns
        return lambda rows: X.iloc[rows], len(X)
    table = X.tocsr() if issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    if len(table.shape) == 0:
        raise DecibanError(f"X has no rows: it is {X!r}")
    return lambda rows: table[rows], int(table.shape[0])


def check_sizes(sizes: Sequence[int], most: int, k: int) -> tuple[int, ...]:
    """Distinct and rising, at least two rows a class, no more than there are."""
    found = [plain(size) for size in sizes]
    if not found or not all(isinstance(size, int) and not isinstance(size, bool) for size in found):
        raise DecibanError(f"sizes must be whole numbers of rows, got {found}")
    least = LEAST * k
    if min(found) < least:
        raise DecibanError(f"a size of {min(found)} is too small: {LEAST} rows of each class need {least} or more")
    if max(found) > most:
        raise DecibanError(f"a size of {max(found)} is too large: {most} rows are left to learn from")
    return tuple(sorted(set(found)))


def check_rows(classes: Array, codes: Array, n: int, held_out: int) -> None:
    if len(classes) < 2:
        raise DecibanError(f"y has no two classes to tell apart, only {classes.tolist()}")
    if not 0 < held_out < n:
        raise DecibanError(f"held_out is {held_out}: of {n} rows some must be held out and some learned")
    count = np.bincount(codes)
    rare = int(np.argmin(count))
    if count[rare] <= LEAST:
        raise DecibanError(
            "class {value!r} has too few rows ({rows}): {least} are needed to learn from and one to judge by, so leave "
            "the class out or merge it with another",
            value=plain(classes[rare]),
            rows=int(count[rare]),
            least=LEAST,
        )


def progress(steps: Sequence[tuple[int, int]], what: str) -> Iterable[tuple[int, int]]:
    """The steps, with a bar where somebody watches: not in pipes, logs and notebooks."""
    if not sys.stderr.isatty():
        return steps
    return _bar(steps, what)


def _bar(steps: Sequence[tuple[int, int]], what: str) -> Iterator[tuple[int, int]]:
    from rich.console import Console
    from rich.progress import track

    yield from track(steps, what, console=Console(stderr=True), transient=True)
