"""Labelled rows and the probabilities a model gave them, with all measures of how good it is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.reading.frames import Levels, read_frame, split_target
from deciban.reading.missing import is_missing
from deciban.results.answers import proba_column
from deciban.results.renamed import renamed
from deciban.show import WIDTH, Result, Table, axes, label, plain

N_GROUPS = 10  # of rows, by confidence
MAX_CLASSES_IN_MATRIX = 10  # with more, the most confused pairs are shown instead
MAX_PAIRS_SHOWN = 12  # of most confused classes
ONE_CLASS = "There is only one class, so every row is predicted to be of it and the model cannot be evaluated."
MAX_CLASSES_IN_DICT = 200  # with more, the confusion matrix is too large


class Reliability(NamedTuple):
    """Per group of rows: the mean probability of the prediction (`predicted`), the share of the predictions that is
    correct (`observed`), the weight of the rows, and the standard error of the share."""

    predicted: Floats
    observed: Floats
    rows: Floats
    error: Floats

    def __getattr__(self, name: str) -> Floats:
        """Old names, with a warning."""
        if name not in OLD_NAMES:
            raise AttributeError(f"a Reliability has no {name!r}, but {', '.join(self._fields)}")
        warnings.warn(f"Reliability.{name} is now called {OLD_NAMES[name]}", DeprecationWarning, stacklevel=2)
        values: Floats = getattr(self, OLD_NAMES[name])
        return values


OLD_NAMES = {"said": "predicted", "confidence": "predicted", "found": "observed", "accuracy": "observed"}


class Roc(NamedTuple):
    """The share of each class that is predicted as the second, as the threshold falls from +∞."""

    false_positive: Floats  # of rows of the first class
    true_positive: Floats  # of rows of the second
    threshold: Floats  # log-odds of the second class


class PrecisionRecall(NamedTuple):
    """Precision and recall of the second class, as the threshold falls."""

    recall: Floats
    precision: Floats
    threshold: Floats  # log-odds of the second class


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Details(Result):
    """Tables and sentences to show one after another."""

    parts: tuple[Table | str, ...]

    def to_table(self) -> Table:
        return next((part for part in self.parts if isinstance(part, Table)), Table("", ("measure", "value", ""), []))

    def _parts(self) -> tuple[Table | str, ...]:
        return self.parts


def likeliest(log_proba: Floats) -> Array:
    """The most probable class of each row, the first of ties, (n,)."""
    return np.asarray(np.argmax(log_proba, axis=1)) if log_proba.size else np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Judged(Result):
    """The probabilities that a model gave labelled rows.

    Probabilities are not clipped: a true class of probability 0 is a mistake of infinite log loss. `impossible`
    counts such rows, and `possible_log_loss` is the mean over the others. A row of weight 2 counts as two; a row of
    weight 0 does not count.
    """

    classes: Array
    log_proba: Floats  # (n, k)
    truth: Array  # class codes
    weight: Floats | None = None

    @property
    def how(self) -> str:
        """How rows were evaluated, in a few words."""
        return "evaluated rows"

    # ------------------------------------------------------------------ row by row

    @property
    def proba(self) -> Floats:
        return np.asarray(np.exp(self.log_proba))

    @property
    def predictions(self) -> Array:
        return np.asarray(self.classes[self._answers])

    @property
    def right(self) -> Array:
        """Which rows are predicted correctly, (n,)."""
        return np.asarray((self._answers == self.truth) & self._answered)

    @property
    def log_losses(self) -> Floats:
        """−log P(true class), per row."""
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
        """Rows for which some class is possible: otherwise there is no prediction."""
        return np.asarray(self.log_proba.max(axis=1, initial=-np.inf) > -np.inf)

    @property
    def _weights(self) -> Floats:
        return np.ones(len(self.truth)) if self.weight is None else self.weight

    @property
    def counted(self) -> Array:
        """Which rows are evaluated: those of positive weight whose class the model can know, (n,)."""
        return np.asarray(self._weights > 0)

    @property
    def evaluated_rows(self) -> int:
        """How many rows are evaluated."""
        return int(np.count_nonzero(self.counted))

    judged = renamed("judged", "evaluated_rows")

    # ------------------------------------------------------------------ on the whole

    @property
    def accuracy(self) -> float:
        """The share of rows that are predicted correctly."""
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
        """The log loss of the class shares of these rows: the best possible without any column."""
        return self._in_sample_baseline

    @property
    def _in_sample_baseline(self) -> float:
        positive = self.shares[self.shares > 0]
        return abs(float(positive @ np.log(positive))) if len(positive) else math.nan

    @property
    def brier(self) -> float:
        """The mean of Σ_c (P(c) − [c is true])²; of two classes half of it, which is (1 − P(true class))²."""
        off = self.proba
        off[np.arange(len(off)), self.truth] -= 1.0
        return average((off**2).sum(axis=1), self._weights) / (2.0 if len(self.classes) == 2 else 1.0)

    @property
    def calibration_error(self) -> float:
        """The mean of |share that is correct − probability of the prediction| over the groups of `reliability()`.

        That is the calibration error of the top label, in groups of about equal weight. It is never quite 0: a group's
        share has an error of its own, of about 0.5/√(rows of a group).
        """
        confidence, accuracy, rows, _ = self.reliability()
        return average(np.abs(accuracy - confidence), rows)

    @property
    def confusion(self) -> Floats:
        """The weight of rows of class i that are predicted to be j, (k, k); a row without any possible class is not
        counted."""
        k, some = len(self.classes), self._answered
        cells = self.truth[some] * k + self._answers[some]
        return np.asarray(np.bincount(cells, self._weights[some], minlength=k * k), dtype=np.float64).reshape(k, k)

    @property
    def per_class(self) -> Table:
        """Precision, recall and their harmonic mean F1, a row per class; None if they are 0/0."""
        k, some, right = len(self.classes), self._answered, self.right
        correct = np.bincount(self.truth[right], self._weights[right], minlength=k)
        predicted = np.bincount(self._answers[some], self._weights[some], minlength=k)
        actual = np.bincount(self.truth, self._weights, minlength=k)
        with np.errstate(invalid="ignore", divide="ignore"):  # 0/0 is NaN, and shown as an empty cell
            measures = np.column_stack([correct / predicted, correct / actual, 2.0 * correct / (predicted + actual)])
        rows = [
            (plain(name), int_if_whole(weight), *map(finite, values))
            for name, weight, values in zip(self.classes, actual.tolist(), measures.tolist(), strict=True)
        ]
        return Table("class by class", ("class", "rows", "precision", "recall", "f1"), rows)

    def most_confused(self, most: int = MAX_PAIRS_SHOWN) -> Table:
        """Pairs of classes by how many rows of the first are predicted to be the second."""
        k, wrong = len(self.classes), self._answered & ~self.right & (self._weights > 0)
        pairs, pair_of_row = np.unique(
            self.truth[wrong].astype(np.int64) * k + self._answers[wrong], return_inverse=True
        )
        confused = np.bincount(pair_of_row, self._weights[wrong], minlength=len(pairs))
        actual = np.bincount(self.truth, self._weights, minlength=k)
        rows: list[tuple[Any, ...]] = []
        for at in np.argsort(-confused, kind="stable")[:most].tolist():
            i, j = divmod(int(pairs[at]), k)
            rows.append(
                (
                    plain(self.classes[i]),
                    plain(self.classes[j]),
                    int_if_whole(confused[at]),
                    float(confused[at] / actual[i]),
                )
            )
        return Table(
            "most confused (share: of the rows of that class)", ("truth", "predicted as", "rows", "share"), rows
        )

    # ------------------------------------------------------------------ curves

    def reliability(self, groups: int = N_GROUPS) -> Reliability:
        """Accuracy by confidence: if probabilities are calibrated, the two are equal.

        Rows are sorted by the probability of their prediction and cut into at most `groups` groups of about equal
        weight. Rows of equal probability all get their mean accuracy, so that their order does not matter. Standard
        errors are those of a share with one more row correct and one more wrong: ten correct of ten is no certainty.
        """
        weights = self._weights
        rows = np.flatnonzero(weights > 0)
        comparable = self._comparable[rows]
        confidence = np.exp(comparable.max(axis=1, initial=-np.inf))
        right = (likeliest(comparable) == self.truth[rows]) & self._answered[rows]
        order = np.lexsort((weights[rows], confidence))
        confidence, right, weights = confidence[order], right[order], weights[rows][order]
        _, tie_group = np.unique(confidence, return_inverse=True)
        right = (
            (np.bincount(tie_group, weights * right) / np.bincount(tie_group, weights))[tie_group]
            if len(tie_group)
            else right
        )
        middle = (np.cumsum(weights) - weights / 2.0) / weights.sum() if len(weights) else weights
        _, group = np.unique(np.floor(middle * min(groups, max(1, len(rows)))), return_inverse=True)
        group_weight = np.asarray(np.bincount(group, weights), dtype=np.float64)
        mean_confidence, accuracy = (
            np.bincount(group, weights * confidence) / group_weight,
            np.bincount(group, weights * right) / group_weight,
        )
        effective_rows = group_weight**2 / np.bincount(group, weights**2)  # Kish's effective sample size
        smoothed = (accuracy * effective_rows + 1.0) / (effective_rows + 2.0)
        return Reliability(
            mean_confidence, accuracy, group_weight, np.sqrt(smoothed * (1.0 - smoothed) / (effective_rows + 2.0))
        )

    def roc(self) -> Roc:
        """For two classes: true-positive rate by false-positive rate; the second class is the positive one."""
        threshold, negative, positive = self._cumulative_weights("roc")
        start = np.zeros(1)
        with np.errstate(invalid="ignore"):  # a class without rows has no share
            false, true = negative / negative[-1:], positive / positive[-1:]
        return Roc(np.append(start, false), np.append(start, true), np.append(np.inf, threshold))

    def precision_recall(self) -> PrecisionRecall:
        """For two classes: precision by recall of the second class."""
        threshold, negative, positive = self._cumulative_weights("precision_recall")
        with np.errstate(invalid="ignore"):
            return PrecisionRecall(positive / positive[-1:], positive / (positive + negative), threshold)

    @property
    def auc(self) -> float | None:
        """For two classes: how often a row of the second has a higher probability of it than a row of the first.

        That is the area under `roc()`; equal probabilities count half. None if there are not two classes, and NaN
        if one of them has no rows.
        """
        if len(self.classes) != 2:
            return None
        false, true, _ = self.roc()
        return float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2.0)) if len(false) > 1 else math.nan

    @property
    def average_precision(self) -> float | None:
        """For two classes: the mean precision over the thresholds at which rows of the second class are reached."""
        if len(self.classes) != 2:
            return None
        recall, precision, _ = self.precision_recall()
        return float(np.sum(np.diff(recall, prepend=0.0) * precision)) if len(recall) else math.nan

    def _cumulative_weights(self, method: str) -> tuple[Floats, Floats, Floats]:
        """Distinct log-odds of the second class, descending, and each class's cumulative weight down to there."""
        if len(self.classes) != 2:
            raise DecibanError(
                f"{method} needs two classes, but there are {len(self.classes)}: merge or leave out some"
            )
        first, second = self._comparable.T
        with np.errstate(invalid="ignore"):  # if neither class is possible, the odds are even
            odds = np.where(first == second, 0.0, second - first)
        rows = np.flatnonzero(self._weights > 0)
        threshold, step_of_row = np.unique(-odds[rows], return_inverse=True)
        truth, weights = self.truth[rows], self._weights[rows]
        negative, positive = (
            np.bincount(step_of_row, weights * (truth == c), minlength=len(threshold)) for c in (0, 1)
        )
        return -threshold, np.cumsum(negative), np.cumsum(positive)

    # ------------------------------------------------------------------ every form

    def to_dict(self) -> dict[str, Any]:
        """All numbers, for JSON: infinity and 0/0 become None.

        The confusion matrix is None for more than 200 classes.
        """
        many = len(self.classes) > MAX_CLASSES_IN_DICT
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
            "confusion": None if many else [[int_if_whole(cell) for cell in row] for row in self.confusion.tolist()],
            "reliability": {
                name: [int_if_whole(v) if name == "rows" else finite(v) for v in values.tolist()]
                for name, values in self.reliability()._asdict().items()
            },
        }

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency) with truth, prediction, log loss and probabilities per row."""
        columns = {"truth": self.classes[self.truth], "prediction": self.predictions, "log_loss": self.log_losses}
        columns |= {proba_column(label): self.proba[:, c] for c, label in enumerate(self.classes)}
        return Table("", tuple(columns), list(zip(*columns.values(), strict=True))).to_frame()

    def to_table(self) -> Table:
        """The measures, each with its meaning."""
        majority = int(np.argmax(np.nan_to_num(self.shares))) if len(self.classes) else 0
        majority_note = (
            f"always {plain(self.classes[majority])}: {self.shares[majority]:.4g}" if self.evaluated_rows else ""
        )
        rows: list[tuple[Any, ...]] = [
            (
                "accuracy",
                self.accuracy,
                f"share of rows predicted correctly ({majority_note})" if majority_note else "",
            ),
            *self._log_loss_rows(),
            ("Brier score", self.brier, "squared error of probabilities; 0 is best"),
            ("calibration error", self.calibration_error, "mean gap between confidence and accuracy"),
        ]
        if self.auc is not None and math.isfinite(self.auc):
            rows.append(
                (
                    "AUC",
                    self.auc,
                    f"pairs ranked correctly, for {plain(self.classes[1])}; 0.5 is chance",
                )
            )
        n = self.evaluated_rows
        return Table(f"{self.how}: {n:,} row{'s' * (n != 1)}", ("measure", "value", ""), rows, width=WIDTH)

    def _log_loss_rows(self) -> list[tuple[Any, ...]]:
        """The log loss; if a row's class had probability 0, that of the other rows instead."""
        n = self.impossible
        if not n:
            return [("log loss", self.log_loss, f"nats per row (class frequencies alone: {self.baseline:.4g})")]
        none = f"none, because {n:,} row{' has' if n == 1 else 's have'} a true class of probability 0"
        if not math.isfinite(self.possible_log_loss):
            return [("log loss", None, none)]
        return [("log loss", None, none), ("… of the others", self.possible_log_loss, "nats per row")]

    def details(self) -> Details:
        """Everything, to be shown: measures, each class, and the confusion matrix."""
        return Details(tuple(self._all_parts()))

    def _all_parts(self) -> list[Table | str]:
        if len(self.classes) == 1 and len(self.truth):
            return [ONE_CLASS]
        measures, by_class = Judged.to_table(self), replace(self.per_class, most=20, width=WIDTH)
        if len(self.classes) > MAX_CLASSES_IN_MATRIX:
            confused = replace(self.most_confused(), width=WIDTH)
            return [measures, by_class, *([confused] if confused.rows else [])]
        names = [str(plain(name)) for name in self.classes]
        rows = [(name, *map(int_if_whole, row)) for name, row in zip(names, self.confusion.tolist(), strict=True)]
        return [
            measures,
            by_class,
            Table("confusion matrix: true class in rows, prediction in columns", ("", *names), rows),
        ]

    def _parts(self) -> list[Table | str]:
        return self._all_parts()

    def plot(self, ax: Any = None, what: str = "reliability") -> Any:
        """A picture with matplotlib (an optional dependency); returns the axes.

        `what` is "reliability" (accuracy by confidence: on the line, probabilities are calibrated; below it, they are
        too high), "confusion", "roc" or "precision_recall", the last two for two classes.
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

    A label that the model does not know is appended to its classes, and listed in `unknown`. It has probability 0 in
    every row: a row of that label is a mistake of infinite log loss. `known()` is the evaluation without such rows.

    >>> proba = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]
    >>> Evaluation(np.array(["ham", "spam"]), np.log(proba), np.array([0, 0, 1, 1]))
    new rows: 4 rows
    measure             value
    accuracy             0.75  share of rows predicted correctly (always ham: 0.5)
    log loss           0.5108  nats per row (class frequencies alone: 0.6931)
    Brier score         0.175  squared error of probabilities; 0 is best
    calibration error    0.35  mean gap between confidence and accuracy
    AUC                  0.75  pairs ranked correctly, for spam; 0.5 is chance
    <BLANKLINE>
    class by class
    class  rows  precision  recall      f1
    ham       2     0.6667       1     0.8
    spam      2          1     0.5  0.6667
    <BLANKLINE>
    confusion matrix: true class in rows, prediction in columns
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

    def _all_parts(self) -> list[Table | str]:
        parts = Judged._all_parts(self)
        if self.unknown:
            named = ", ".join(map(str, self.unknown[:5])) + (", …" if len(self.unknown) > 5 else "")
            single = self.unknown_rows == 1
            parts.append(
                f"{self.unknown_rows:,} row{'' if single else 's'} with labels unknown to the model ({named}): "
                f"{'it counts as a mistake' if single else 'they count as mistakes'}."
            )
        return parts


def evaluate(model: Any, X: Any, y: Any, weight: Any = None) -> Evaluation:
    """How good a model is on rows that it has not learned: anything with `predict_log_proba` and `classes_` works.

    `y` are labels, or the name of the column of X that holds them. For a model of texts, X is then a table with one
    other column, or with the column that it was trained on from the command line.

    A label that the model does not know counts as a mistake of infinite log loss, and `unknown_rows` is their
    number. A row without a label is an error.

    >>> from deciban import GaussianNB
    >>> model = GaussianNB().fit([[1.0], [2.0], [6.0], [7.0]], ["small", "small", "large", "large"])
    >>> result = evaluate(model, [[1.4], [6.4], [5.0]], ["small", "large", "huge"])
    >>> result.accuracy, result.known().accuracy, result.unknown
    (0.6666666666666666, 1.0, ('huge',))
    >>> from deciban import NaiveBayes
    >>> model = NaiveBayes().fit({"cm": [1.0, 2.0, 6.0, 7.0], "size": ["small", "small", "large", "large"]}, "size")
    >>> evaluate(model, {"cm": [1.4, 6.4], "size": ["small", "large"]}, "size").accuracy
    1.0
    """
    if isinstance(y, str):
        X, y = split_target(X, y)
        X = text_column(model, X) if is_of_texts(model) else X
    log_proba = np.asarray(model.predict_log_proba(X), dtype=np.float64)
    labels = as_labels(y)
    if len(labels) != len(log_proba):
        raise DecibanError(f"X has {len(log_proba)} rows, but y has {len(labels)} labels: give one label per row")
    classes = np.asarray(model.classes_)
    code_of = {plain(name): c for c, name in enumerate(classes)}
    k = len(code_of)
    for row, name in enumerate(labels):
        if is_missing(name):
            raise DecibanError(
                "row {row} of y has no label and cannot be evaluated: leave out such rows", row=row, value=name
            )
        code_of.setdefault(name, len(code_of))
    unknown = tuple(code_of)[k:]
    truth = np.fromiter((code_of[name] for name in labels), dtype=np.int64, count=len(labels))
    if len(labels) and (truth >= k).all():
        learned, given = ", ".join(map(repr, tuple(code_of)[: min(k, 5)])), ", ".join(map(repr, unknown[:5]))
        raise DecibanError(
            "no label of y is a class of the model: it learned {learned}, and y has {given}: check that y is the "
            "right column and that its labels have the same type",
            command_line="no label of these rows is a class of the model: it learned {learned}, and the rows have "
            "{given}; give the right column with --target",
            value=unknown[0],
            learned=learned + ", …" * (k > 5),
            given=given + ", …" * (len(unknown) > 5),
        )
    nan_rows = np.flatnonzero(np.isnan(log_proba).any(axis=1))
    if len(nan_rows):
        raise DecibanError("row {row} has a probability of NaN and cannot be evaluated", row=nan_rows[0])
    if unknown:
        log_proba = np.column_stack([log_proba, np.full((len(log_proba), len(unknown)), -np.inf)])
        all_labels = np.empty(len(code_of), dtype=object)
        all_labels[:] = list(code_of)
        classes = all_labels
    return Evaluation(
        classes, log_proba, truth, None if weight is None else checked_weight(weight, len(log_proba)), unknown
    )


def is_of_texts(model: Any) -> bool:
    """Whether a model, an estimator or a scorer, takes texts instead of a table."""
    reader = getattr(model, "reader", None)
    return bool(getattr(model, "_texts", False)) or getattr(reader, "form", None) == "texts"


def text_column(model: Any, X: Any) -> Any:
    """The texts in a table: the column that was learned from, or the only one."""
    frame = read_frame(X)
    learned = (getattr(model, "origin_", None) or {}).get("text")
    name = learned if learned in frame.names else frame.names[0] if len(frame.names) == 1 else None
    if name is None:
        raise DecibanError(
            "the model takes texts, but the table has the columns {columns}: pass the column of texts as X, and the "
            "labels as y",
            columns=", ".join(map(repr, frame.names)),
        )
    column = frame[name]
    if not isinstance(column, Levels):
        raise DecibanError("the model takes texts, but column {column!r} holds none", column=name)
    return ["" if text is None else str(text) for text in column.objects().tolist()]


def as_labels(y: Any) -> list[Any]:
    """Labels of any container as a list of Python values."""
    values = y.tolist() if isinstance(y, np.ndarray) else list(y)
    return [plain(value.as_py() if hasattr(value, "as_py") else value) for value in values]


def checked_weight(weight: Any, n: int) -> Floats:
    weights = np.asarray(weight, dtype=np.float64)
    if weights.shape != (n,):
        raise DecibanError(f"weight has shape {weights.shape}, but there are {n} rows: give one weight per row")
    invalid = np.flatnonzero(~(weights >= 0) | np.isinf(weights))
    if len(invalid):
        row = int(invalid[0])
        raise DecibanError(
            "weight is {value:g} in row {row}: weights must be numbers ≥ 0",
            row=row,
            column="weight",
            value=float(weights[row]),
        )
    return weights


def average(values: Array, weight: Floats | None) -> float:
    """The weighted mean, NaN without rows. Values of weight 0 may be infinite."""
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    return float(np.average(values, weights=weight)) if len(values) else math.nan


def finite(value: float | None) -> float | None:
    """A finite number, or None."""
    return value if value is not None and math.isfinite(value) else None


def int_if_whole(weight: float) -> float | int:
    """A weight of rows, as an int if it is whole."""
    return int(weight) if float(weight).is_integer() else float(weight)


# ------------------------------------------------------------------ pictures


def draw_reliability(judged: Judged, ax: Any) -> None:
    confidence, accuracy, _, error = judged.reliability()
    ax.plot([0.0, 1.0], [0.0, 1.0], color="grey", linestyle=":", linewidth=1)
    (line,) = ax.plot(confidence, accuracy, marker="o", markersize=4)
    ax.vlines(
        confidence,
        np.maximum(0.0, accuracy - error),
        np.minimum(1.0, accuracy + error),
        color=line.get_color(),
        alpha=0.4,
    )
    ax.set_xlabel("probability of the prediction" + ", without the row" * ("leave-one-out" in judged.how))
    ax.set_ylabel("share of rows that are correct")
    loss = f"log loss {judged.log_loss:.4g} nats, " if math.isfinite(judged.log_loss) else ""
    ax.set_title(f"{loss}accuracy {judged.accuracy:.4g}", fontsize="medium")


def draw_confusion(judged: Judged, ax: Any) -> None:
    """A matrix shaded by shares of each true class; with numbers if there is room."""
    table = judged.confusion
    k, total = len(table), table.sum(axis=1, keepdims=True)
    ax.imshow(table / np.where(total > 0, total, 1.0), cmap="Blues", vmin=0.0, vmax=1.0)
    names = [label(plain(name)) for name in judged.classes]
    if k <= 3 * MAX_CLASSES_IN_MATRIX:
        ax.set_xticks(
            range(k), labels=names, rotation=90 if k > MAX_CLASSES_IN_MATRIX or max(map(len, names)) > 8 else 0
        )
        ax.set_yticks(range(k), labels=names)
    for i, j in np.ndindex(table.shape) if k <= MAX_CLASSES_IN_MATRIX else ():
        shade = "white" if total[i, 0] and table[i, j] > total[i, 0] / 2 else "black"
        ax.annotate(f"{table[i, j]:g}", (j, i), ha="center", va="center", color=shade, fontsize="small")
    ax.set_xlabel("prediction")
    ax.set_ylabel("truth")


def draw_roc(judged: Judged, ax: Any) -> None:
    false, true, _ = judged.roc()
    first, second = (label(plain(name)) for name in judged.classes)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="grey", linestyle=":", linewidth=1)
    ax.plot(false, true)
    ax.set_xlabel(f"false-positive rate: share of {first} predicted as {second}")
    ax.set_ylabel(f"true-positive rate: share of {second} predicted as {second}")
    ax.set_title(f"AUC {judged.auc:.4g}", fontsize="medium")


def draw_precision_recall(judged: Judged, ax: Any) -> None:
    recall, precision, _ = judged.precision_recall()
    second = label(plain(judged.classes[1]))
    ax.axhline(judged.shares[1], color="grey", linestyle=":", linewidth=1)
    ax.step(recall, precision, where="pre")
    ax.set_ylim(0.0, 1.03)
    ax.set_xlabel(f"recall: share of {second} predicted as {second}")
    ax.set_ylabel(f"precision: share of predictions of {second} that are correct")
    ax.set_title(f"average precision {judged.average_precision:.4g}", fontsize="medium")
