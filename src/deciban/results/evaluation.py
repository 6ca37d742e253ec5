"""Rows whose class is known, and what a model said of them: how good it is, in whatever measure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.reading.missing import is_missing
from deciban.show import WIDTH, Result, Table, axes, label, plain

GROUPS = 10  # of rows, by how sure the model is
MATRIX = 10  # classes whose confusions are shown as a matrix; of more, the pairs that are confused most
PAIRS = 12  # that are confused most
LISTED = 200  # classes whose confusions are in `to_dict`: the cells of more are a file of their own

# By which way a row is judged as if the model had never seen it.
EXACT = "leave-one-out"  # the model is its sums: they are those without the row
CROSS_FITTED = "cross-fitted leave-one-out"  # and what was chosen was chosen without the row, or its fold
HELD = "leave-one-out, choices held"  # what was chosen had the row's say, too


class Reliability(NamedTuple):
    """What was said and what was found, a group of rows each; `error` is the standard error of what was found."""

    said: Floats
    found: Floats
    rows: Floats
    error: Floats


class Roc(NamedTuple):
    """The share of each class that is called the second, as the threshold falls from +∞."""

    false_positive: Floats  # of rows of the first class
    true_positive: Floats  # of rows of the second
    threshold: Floats  # log-odds of the second class


class PrecisionRecall(NamedTuple):
    """Of the rows called the second class, how many are; and of those that are, how many are called so."""

    recall: Floats
    precision: Floats
    threshold: Floats  # log-odds of the second class


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Details(Result):
    """Tables and sentences that are shown one after the other."""

    parts: tuple[Table | str, ...]

    def to_table(self) -> Table:
        return next((part for part in self.parts if isinstance(part, Table)), Table("", ("measure", "value", ""), []))

    def _parts(self) -> tuple[Table | str, ...]:
        return self.parts


def likeliest(log_proba: Floats) -> Array:
    """The class of the greatest probability of each row, the first of equals, (n,)."""
    return np.asarray(np.argmax(log_proba, axis=1)) if log_proba.size else np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Judged(Result):
    """What a model said of rows whose class is known.

    Probabilities count as they are, without clipping: a true class of probability 0 is a mistake of infinite log
    loss. `impossible` counts such rows, and `possible_log_loss` is the mean over the others. A row of weight 2
    counts as two; a row of weight 0 does not count.
    """

    classes: Array
    log_proba: Floats  # (n, k)
    truth: Array  # class codes
    weight: Floats | None = None

    @property
    def how(self) -> str:
        """How rows were judged, in a few words."""
        return "judged rows"

    # ------------------------------------------------------------------ row by row

    @property
    def proba(self) -> Floats:
        return np.asarray(np.exp(self.log_proba))

    @property
    def predictions(self) -> Array:
        return np.asarray(self.classes[self._answers])

    @property
    def right(self) -> Array:
        """Which rows are predicted right, (n,)."""
        return np.asarray((self._answers == self.truth) & self._answered)

    @property
    def log_losses(self) -> Floats:
        """−log P(true class), a row."""
        return np.asarray(-self.log_proba[np.arange(len(self.truth)), self.truth])

    @property
    def _answers(self) -> Array:
        return likeliest(self.log_proba)

    @property
    def _comparable(self) -> Floats:
        """Log probabilities that can be compared between rows, (n, k)."""
        return self.log_proba

    @property
    def _answered(self) -> Array:
        """Where some class is possible: where none is, there is no prediction to be right."""
        return np.asarray(self.log_proba.max(axis=1, initial=-np.inf) > -np.inf)

    @property
    def _weights(self) -> Floats:
        return np.ones(len(self.truth)) if self.weight is None else self.weight

    @property
    def counted(self) -> Array:
        """Which rows are judged: those with some weight whose class the model can know, (n,)."""
        return np.asarray(self._weights > 0)

    @property
    def judged(self) -> int:
        """How many rows are judged."""
        return int(np.count_nonzero(self.counted))

    # ------------------------------------------------------------------ on the whole

    @property
    def accuracy(self) -> float:
        """The share of rows that are predicted right."""
        return average(self.right, self._weights)

    @property
    def log_loss(self) -> float:
        """The mean of −log P(true class), in nats."""
        return average(self.log_losses, self._weights)

    @property
    def impossible(self) -> int:
        """How many rows are of a class that was given probability 0."""
        return int(np.count_nonzero(np.isposinf(self.log_losses) & (self._weights > 0)))

    @property
    def possible_log_loss(self) -> float:
        """The log loss of the rows whose class was given some probability."""
        possible = np.isfinite(self.log_losses)
        return average(self.log_losses[possible], self._weights[possible])

    @property
    def shares(self) -> Floats:
        """The share of each class among these rows, (k,)."""
        weights = np.bincount(self.truth, self._weights, minlength=len(self.classes))
        return np.asarray(weights / weights.sum()) if weights.any() else np.full(len(weights), np.nan)

    @property
    def baseline(self) -> float:
        """The log loss of the class shares of these rows: the best that can be said without looking at any of them."""
        return self._in_sample_baseline

    @property
    def _in_sample_baseline(self) -> float:
        there = self.shares[self.shares > 0]
        return abs(float(there @ np.log(there))) if len(there) else math.nan

    @property
    def brier(self) -> float:
        """The mean of Σ_c (P(c) − [c is true])²; of two classes half of it, which is (1 − P(true class))²."""
        off = self.proba
        off[np.arange(len(off)), self.truth] -= 1.0
        return average((off**2).sum(axis=1), self._weights) / (2.0 if len(self.classes) == 2 else 1.0)

    @property
    def calibration_error(self) -> float:
        """The mean of |share that is right − probability of the prediction| over the groups of `reliability()`.

        That is the calibration error of the top label, in groups of about equal weight. It is never quite 0: a group's
        share has an error of its own, of about 0.5/√(rows of a group).
        """
        said, found, rows, _ = self.reliability()
        return average(np.abs(found - said), rows)

    @property
    def confusion(self) -> Floats:
        """The weight of rows of class i that are predicted to be j, (k, k); a row without any possible class is in no
        cell."""
        k, some = len(self.classes), self._answered
        cells = self.truth[some] * k + self._answers[some]
        return np.asarray(np.bincount(cells, self._weights[some], minlength=k * k), dtype=np.float64).reshape(k, k)

    @property
    def per_class(self) -> Table:
        """Precision, recall and their harmonic mean F1, a row each class; None where they are 0/0."""
        k, some, right = len(self.classes), self._answered, self.right
        hits = np.bincount(self.truth[right], self._weights[right], minlength=k)
        said = np.bincount(self._answers[some], self._weights[some], minlength=k)
        there = np.bincount(self.truth, self._weights, minlength=k)
        with np.errstate(invalid="ignore", divide="ignore"):  # 0/0 is NaN, and shown as nothing
            measures = np.column_stack([hits / said, hits / there, 2.0 * hits / (said + there)])
        rows = [
            (plain(name), whole(weight), *map(finite, values))
            for name, weight, values in zip(self.classes, there.tolist(), measures.tolist(), strict=True)
        ]
        return Table("class by class", ("class", "rows", "precision", "recall", "f1"), rows)

    def most_confused(self, most: int = PAIRS) -> Table:
        """Pairs of classes by how many rows of the one are taken for the other."""
        k, wrong = len(self.classes), self._answered & ~self.right & (self._weights > 0)
        pairs, place = np.unique(self.truth[wrong].astype(np.int64) * k + self._answers[wrong], return_inverse=True)
        taken = np.bincount(place, self._weights[wrong], minlength=len(pairs))
        there = np.bincount(self.truth, self._weights, minlength=k)
        rows: list[tuple[Any, ...]] = []
        for at in np.argsort(-taken, kind="stable")[:most].tolist():
            i, j = divmod(int(pairs[at]), k)
            rows.append((plain(self.classes[i]), plain(self.classes[j]), whole(taken[at]), float(taken[at] / there[i])))
        return Table("most confused (share: of the rows of that class)", ("truth", "taken for", "rows", "share"), rows)

    # ------------------------------------------------------------------ curves

    def reliability(self, groups: int = GROUPS) -> Reliability:
        """How often predictions are right by how sure they are: where probabilities are true, `found` is `said`.

        Rows are put in order of the probability of their prediction and cut into at most so many groups of about equal
        weight; rows of one probability are all taken to be as often right as they are together, so that their order
        does not matter. Standard errors are those of a share with one more row right and one more wrong: ten right of
        ten are no certainty.
        """
        weights = self._weights
        rows = np.flatnonzero(weights > 0)
        comparable = self._comparable[rows]
        sure = np.exp(comparable.max(axis=1, initial=-np.inf))
        right = (likeliest(comparable) == self.truth[rows]) & self._answered[rows]
        order = np.lexsort((weights[rows], sure))
        sure, right, weights = sure[order], right[order], weights[rows][order]
        _, tie = np.unique(sure, return_inverse=True)
        right = (np.bincount(tie, weights * right) / np.bincount(tie, weights))[tie] if len(tie) else right
        middle = (np.cumsum(weights) - weights / 2.0) / weights.sum() if len(weights) else weights
        _, group = np.unique(np.floor(middle * min(groups, max(1, len(rows)))), return_inverse=True)
        mass = np.asarray(np.bincount(group, weights), dtype=np.float64)
        said, found = np.bincount(group, weights * sure) / mass, np.bincount(group, weights * right) / mass
        count = mass**2 / np.bincount(group, weights**2)  # rows of equal weight that would be as sure a share
        p = (found * count + 1.0) / (count + 2.0)
        return Reliability(said, found, mass, np.sqrt(p * (1.0 - p) / (count + 2.0)))

    def roc(self) -> Roc:
        """Of two classes: how much of the second is found, by how much of the first is taken for it."""
        threshold, negative, positive = self._falling("roc")
        start = np.zeros(1)
        with np.errstate(invalid="ignore"):  # a class without rows has no share
            false, true = negative / negative[-1:], positive / positive[-1:]
        return Roc(np.append(start, false), np.append(start, true), np.append(np.inf, threshold))

    def precision_recall(self) -> PrecisionRecall:
        """Of two classes: how pure the second is, by how much of it is found."""
        threshold, negative, positive = self._falling("precision_recall")
        with np.errstate(invalid="ignore"):
            return PrecisionRecall(positive / positive[-1:], positive / (positive + negative), threshold)

    @property
    def auc(self) -> float | None:
        """Of two classes: how often a row of the second has a higher probability of it than a row of the first.

        That is the area under `roc()`; equal probabilities count half. None where there are not two classes, and NaN
        where one of them has no rows.
        """
        if len(self.classes) != 2:
            return None
        false, true, _ = self.roc()
        return float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2.0)) if len(false) > 1 else math.nan

    @property
    def average_precision(self) -> float | None:
        """Of two classes: the mean of the precision at which each row of the second is found."""
        if len(self.classes) != 2:
            return None
        recall, precision, _ = self.precision_recall()
        return float(np.sum(np.diff(recall, prepend=0.0) * precision)) if len(recall) else math.nan

    def _falling(self, what: str) -> tuple[Floats, Floats, Floats]:
        """Distinct log-odds of the second class from the highest down, and the weight of each class up to there."""
        if len(self.classes) != 2:
            raise DecibanError(f"{what} is of two classes, and there are {len(self.classes)}: merge some, or leave out")
        first, second = self._comparable.T
        with np.errstate(invalid="ignore"):  # where neither class is possible, the odds are taken to be even
            odds = np.where(first == second, 0.0, second - first)
        rows = np.flatnonzero(self._weights > 0)
        threshold, place = np.unique(-odds[rows], return_inverse=True)
        truth, weights = self.truth[rows], self._weights[rows]
        negative, positive = (np.bincount(place, weights * (truth == c), minlength=len(threshold)) for c in (0, 1))
        return -threshold, np.cumsum(negative), np.cumsum(positive)

    # ------------------------------------------------------------------ every form

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON has them: what is infinite or 0/0 is None.

        The confusion matrix is None past 200 classes.
        """
        many = len(self.classes) > LISTED
        return {
            "rows": len(self.truth),
            "how": self.how,
            "accuracy": finite(self.accuracy),
            "log_loss": finite(self.log_loss),
            "baseline_log_loss": finite(self.baseline),
            "impossible_rows": self.impossible,
            "possible_log_loss": finite(self.possible_log_loss),
            "brier": finite(self.brier),
            "calibration_error": finite(self.calibration_error),
            "auc": finite(self.auc),
            "average_precision": finite(self.average_precision),
            "classes": self.per_class.to_dict(),
            "confusion": None if many else [[whole(cell) for cell in row] for row in self.confusion.tolist()],
            "reliability": {name: list(map(finite, v.tolist())) for name, v in self.reliability()._asdict().items()},
        }

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency), a row each: truth, prediction, log loss, probabilities."""
        columns = {"truth": self.classes[self.truth], "prediction": self.predictions, "log_loss": self.log_losses}
        columns |= {f"P({plain(label)})": self.proba[:, c] for c, label in enumerate(self.classes)}
        return Table("", tuple(columns), list(zip(*columns.values(), strict=True))).to_frame()

    def to_table(self) -> Table:
        """The measures, each with what it means."""
        top = int(np.argmax(np.nan_to_num(self.shares))) if len(self.classes) else 0
        usual = f"always {plain(self.classes[top])}: {self.shares[top]:.4g}" if self.judged else ""
        rows: list[tuple[Any, ...]] = [
            ("accuracy", self.accuracy, f"share of rows predicted right ({usual})" if usual else ""),
            ("log loss", self.log_loss, f"nats a row (class shares alone: {self.baseline:.4g})"),
            ("Brier score", self.brier, "squared error of probabilities; 0 is best"),
            ("calibration error", self.calibration_error, "how far probabilities are off, on average"),
        ]
        if self.auc is not None:
            rows.append(("AUC", self.auc, f"pairs of rows ranked right, for {plain(self.classes[1])}; 0.5 is chance"))
        if self.impossible and math.isfinite(self.possible_log_loss):
            rows.insert(2, ("… of the others", self.possible_log_loss, self._impossible()))
        n = self.judged
        return Table(f"{self.how}: {n:,} row{'s' * (n != 1)}", ("measure", "value", ""), rows, width=WIDTH)

    def _impossible(self) -> str:
        """What is said of rows of infinite log loss."""
        n = self.impossible
        return f"log loss without {n:,} row{'s' * (n != 1)} whose class had probability 0"

    def details(self) -> Details:
        """All there is to say, to be shown: measures, each class, and what is taken for what."""
        return Details(tuple(self._all()))

    def _all(self) -> list[Table | str]:
        measures, by_class = Judged.to_table(self), replace(self.per_class, most=20, width=WIDTH)
        if len(self.classes) > MATRIX:
            return [measures, by_class, replace(self.most_confused(), width=WIDTH)]
        names = [str(plain(name)) for name in self.classes]
        rows = [(name, *map(whole, row)) for name, row in zip(names, self.confusion.tolist(), strict=True)]
        return [measures, by_class, Table("confusion: truth down, prediction across", ("", *names), rows)]

    def _parts(self) -> list[Table | str]:
        return self._all()

    def plot(self, ax: Any = None, what: str = "reliability") -> Any:
        """A picture with matplotlib (an optional dependency); returns the axes.

        `what` is "reliability" (how often predictions are right by how sure they are: on the line, probabilities are
        what they say; below it, they are too high), "confusion", "roc" or "precision_recall", the last two of two
        classes.
        """
        draw: Mapping[str, Callable[[Judged, Any], None]] = {
            "reliability": draw_reliability,
            "confusion": draw_confusion,
            "roc": draw_roc,
            "precision_recall": draw_precision_recall,
        }
        if what not in draw:
            raise DecibanError(f"what is {what!r}: it must be {', '.join(map(repr, draw))}")
        ax = axes(ax)
        draw[what](self, ax)
        return ax


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation(Judged):
    """How good a model is on rows that it has not learned.

    A label that the model does not know stands behind its classes, in `unknown` too, and has probability 0 in every
    row: a row of that label is a mistake of infinite log loss. `known()` is the evaluation without such rows.

    >>> proba = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]
    >>> Evaluation(np.array(["ham", "spam"]), np.log(proba), np.array([0, 0, 1, 1]))
    new rows: 4 rows
    measure             value
    accuracy             0.75  share of rows predicted right (always ham: 0.5)
    log loss           0.5108  nats a row (class shares alone: 0.6931)
    Brier score         0.175  squared error of probabilities; 0 is best
    calibration error    0.35  how far probabilities are off, on average
    AUC                  0.75  pairs of rows ranked right, for spam; 0.5 is chance
    <BLANKLINE>
    class by class
    class  rows  precision  recall      f1
    ham       2     0.6667       1     0.8
    spam      2          1     0.5  0.6667
    <BLANKLINE>
    confusion: truth down, prediction across
          ham  spam
    ham     2     0
    spam    1     1
    """

    unknown: tuple[Any, ...] = ()  # labels that the model does not know, the last of `classes`

    @property
    def how(self) -> str:
        return "new rows"

    @property
    def unknown_rows(self) -> int:
        """How many rows have a label that the model does not know."""
        return int(np.count_nonzero((self.truth >= len(self.classes) - len(self.unknown)) & (self._weights > 0)))

    def known(self) -> Evaluation:
        """The same without rows of labels that the model does not know."""
        k = len(self.classes) - len(self.unknown)
        rows = np.flatnonzero(self.truth < k)
        weight = None if self.weight is None else self.weight[rows]
        return Evaluation(self.classes[:k], self.log_proba[rows, :k], self.truth[rows], weight)

    def to_dict(self) -> dict[str, Any]:
        return {**Judged.to_dict(self), "unknown_labels": list(self.unknown), "unknown_rows": self.unknown_rows}

    def _all(self) -> list[Table | str]:
        parts = Judged._all(self)
        if self.unknown:
            named = ", ".join(map(str, self.unknown[:5])) + (", …" if len(self.unknown) > 5 else "")
            one = self.unknown_rows == 1
            parts.append(
                f"{self.unknown_rows:,} row{'' if one else 's'} with labels that the model does not know ({named}): "
                f"{'it counts as a mistake' if one else 'they count as mistakes'} of infinite log loss."
            )
        return parts


def evaluate(model: Any, X: Any, y: Any, weight: Any = None) -> Evaluation:
    """How good a model is on rows that it has not learned: anything with `predict_log_proba` and `classes_` will do.

    A label that the model does not know counts as a mistake of infinite log loss, and `unknown_rows` says how many
    there were. A row without a label cannot be judged: that is an error.

    >>> from deciban import GaussianNB
    >>> model = GaussianNB().fit([[1.0], [2.0], [6.0], [7.0]], ["small", "small", "large", "large"])
    >>> found = evaluate(model, [[1.4], [6.4], [5.0]], ["small", "large", "huge"])
    >>> found.accuracy, found.known().accuracy, found.unknown
    (0.6666666666666666, 1.0, ('huge',))
    """
    said = np.asarray(model.predict_log_proba(X), dtype=np.float64)
    labels = as_labels(y)
    if len(labels) != len(said):
        raise DecibanError(f"X has {len(said)} rows, but y has {len(labels)} labels: one label a row is needed")
    classes = np.asarray(model.classes_)
    place = {plain(name): c for c, name in enumerate(classes)}
    k = len(place)
    for row, name in enumerate(labels):
        if is_missing(name):
            raise DecibanError(
                "row {row} of y has no label, and cannot be judged: leave such rows out", row=row, value=name
            )
        place.setdefault(name, len(place))
    unknown = tuple(place)[k:]
    truth = np.fromiter((place[name] for name in labels), dtype=np.int64, count=len(labels))
    if len(labels) and (truth >= k).all():
        learned, given = ", ".join(map(repr, tuple(place)[: min(k, 5)])), ", ".join(map(repr, unknown[:5]))
        raise DecibanError(
            "no label of y is a class of the model: it learned {learned}, and y has {given}. Is y the right column, "
            "and are its labels of the same type?",
            value=unknown[0],
            learned=learned + ", …" * (k > 5),
            given=given + ", …" * (len(unknown) > 5),
        )
    bad = np.flatnonzero(np.isnan(said).any(axis=1))
    if len(bad):
        raise DecibanError("row {row} has a probability that is NaN, and cannot be judged", row=bad[0])
    if unknown:
        said = np.column_stack([said, np.full((len(said), len(unknown)), -np.inf)])
        several = np.empty(len(place), dtype=object)
        several[:] = list(place)
        classes = several
    return Evaluation(classes, said, truth, None if weight is None else read_weight(weight, len(said)), unknown)


def as_labels(y: Any) -> list[Any]:
    """Labels of any make as Python's own values."""
    values = y.tolist() if isinstance(y, np.ndarray) else list(y)
    return [plain(value.as_py() if hasattr(value, "as_py") else value) for value in values]


def read_weight(weight: Any, n: int) -> Floats:
    found = np.asarray(weight, dtype=np.float64)
    if found.shape != (n,):
        raise DecibanError(f"weight has shape {found.shape}, and there are {n} rows: one weight a row is needed")
    wrong = np.flatnonzero(~(found >= 0) | np.isinf(found))
    if len(wrong):
        row = int(wrong[0])
        raise DecibanError(
            "weight is {value:g} in row {row}: weights are numbers ≥ 0",
            row=row,
            column="weight",
            value=float(found[row]),
        )
    return found


def average(values: Array, weight: Floats | None) -> float:
    """The weighted mean; NaN of no rows, which have none. What weighs nothing may be infinite."""
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    return float(np.average(values, weights=weight)) if len(values) else math.nan


def finite(value: float | None) -> float | None:
    """A number as JSON has it."""
    return value if value is not None and math.isfinite(value) else None


def whole(weight: float) -> float | int:
    """A weight of rows, as a count where it is one."""
    return int(weight) if float(weight).is_integer() else float(weight)


# ------------------------------------------------------------------ pictures


def draw_reliability(judged: Judged, ax: Any) -> None:
    said, found, _, error = judged.reliability()
    ax.plot([0.0, 1.0], [0.0, 1.0], color="grey", linestyle=":", linewidth=1)
    (line,) = ax.plot(said, found, marker="o", markersize=4)
    ax.vlines(said, np.maximum(0.0, found - error), np.minimum(1.0, found + error), color=line.get_color(), alpha=0.4)
    ax.set_xlabel("probability of the prediction" + ", without the row" * ("leave-one-out" in judged.how))
    ax.set_ylabel("share of rows that are right")
    ax.set_title(f"log loss {judged.log_loss:.4g} nats, accuracy {judged.accuracy:.4g}", fontsize="medium")


def draw_confusion(judged: Judged, ax: Any) -> None:
    """A matrix in shades, each row of it a whole; with numbers where they can be read."""
    table = judged.confusion
    k, total = len(table), table.sum(axis=1, keepdims=True)
    ax.imshow(table / np.where(total > 0, total, 1.0), cmap="Blues", vmin=0.0, vmax=1.0)
    names = [label(plain(name)) for name in judged.classes]
    if k <= 3 * MATRIX:
        ax.set_xticks(range(k), labels=names, rotation=90 if k > MATRIX or max(map(len, names)) > 8 else 0)
        ax.set_yticks(range(k), labels=names)
    for i, j in np.ndindex(table.shape) if k <= MATRIX else ():
        shade = "white" if total[i, 0] and table[i, j] > total[i, 0] / 2 else "black"
        ax.annotate(f"{table[i, j]:g}", (j, i), ha="center", va="center", color=shade, fontsize="small")
    ax.set_xlabel("prediction")
    ax.set_ylabel("truth")


def draw_roc(judged: Judged, ax: Any) -> None:
    false, true, _ = judged.roc()
    first, second = (label(plain(name)) for name in judged.classes)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="grey", linestyle=":", linewidth=1)
    ax.plot(false, true)
    ax.set_xlabel(f"share of {first} that is taken for {second}")
    ax.set_ylabel(f"share of {second} that is found")
    ax.set_title(f"AUC {judged.auc:.4g}", fontsize="medium")


def draw_precision_recall(judged: Judged, ax: Any) -> None:
    recall, precision, _ = judged.precision_recall()
    second = label(plain(judged.classes[1]))
    ax.axhline(judged.shares[1], color="grey", linestyle=":", linewidth=1)
    ax.step(recall, precision, where="pre")
    ax.set_ylim(0.0, 1.03)
    ax.set_xlabel(f"recall: share of {second} that is found")
    ax.set_ylabel(f"precision: share of what is called {second} that is")
    ax.set_title(f"average precision {judged.average_precision:.4g}", fontsize="medium")
