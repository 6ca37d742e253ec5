"""Prediction sets: the classes that cannot be ruled out, with the true one among them as often as promised.

The strangeness of a row as one of class y is the log-odds against y,

    a(x, y) = log Σ_{c≠y} p(x, c) − log p(x, y),

and the p-value of y is the share of rows, the new one included, that are at least as strange in their own class. A set
has every class whose p-value is above ε = 1 − coverage. Rows are compared with all others or, class by class, with
those of y only. Coverage is guaranteed if the model treats all rows the same: see `full_conformal`, and `promise` for
models that choose on their rows.

Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError, FileError
from deciban.reading.missing import is_missing
from deciban.results.evaluation import Judged, as_labels, finite
from deciban.results.renamed import renamed
from deciban.show import WIDTH, Result, Table, plain

TIE_TOLERANCE = 1e-9  # relative to the log-densities of a score: closer scores are ties, and count as strange enough
P_VALUE_TOLERANCE = 1e-12  # p-values are ratios of whole numbers: one this close to ε is equal to it
MAX_KEPT_SCORES = 2048  # stored with a model, over all classes
MIN_KEPT_SCORES_PER_CLASS = 64  # if a class has as many
MAX_CLASSES_SHOWN = 6  # with more classes, p-values are not shown beside the sets

FULL, CROSS, STORED = "full conformal", "cross-conformal", "jackknife"


# ------------------------------------------------------------------ scores


def strangeness(log_joint: Floats) -> Floats:
    """The log-odds against each class, (n, k); −∞ if there is only one class.

    >>> strangeness(np.log([[0.2, 0.6], [0.7, 0.1]])).round(3).tolist()
    [[1.099, -1.099], [-1.946, 1.946]]
    """
    return difference(others(log_joint), log_joint)


def thresholds(log_joint: Floats) -> Floats:
    """The smallest score of another row that is at least as strange, (n, k), lowered by the rounding of the score."""
    rest = others(log_joint)
    score = difference(rest, log_joint)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(score), score - TIE_TOLERANCE * (1.0 + np.abs(rest) + np.abs(log_joint)), score)


def difference(rest: Floats, own: Floats) -> Floats:
    """rest − own. If both are impossible, +∞, or −∞ if there is only one class."""
    with np.errstate(invalid="ignore"):
        score = rest - own
    return np.where(np.isnan(score), np.inf if own.shape[-1] > 1 else -np.inf, score)


def others(log_joint: Floats) -> Floats:
    """log Σ over all classes but each one, (n, k): summed from both ends, since a difference would lose digits."""
    out = np.full(log_joint.shape, -np.inf)
    if log_joint.shape[-1] > 1:
        out[..., 1:] = np.logaddexp.accumulate(log_joint[..., :-1], axis=-1)
        after = np.logaddexp.accumulate(log_joint[..., :0:-1], axis=-1)[..., ::-1]
        out[..., :-1] = np.logaddexp(out[..., :-1], after)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Strangeness:
    """Strangeness of rows in their own class, each under a model without it."""

    values: tuple[Floats, ...]  # by class, ascending
    above: tuple[Floats, ...]  # the weight of rows at least as strange; one more entry than `values`, which is 0

    @classmethod
    def of(cls, scores: Floats, codes: Array, k: int, weight: Floats | None = None) -> Strangeness:
        """For rows with these scores and classes; a row of weight 2 counts as two."""
        values, above = [], []
        for c in range(k):
            rows = np.flatnonzero(codes == c)
            rows = rows[np.argsort(scores[rows], kind="stable")]
            mass = np.ones(len(rows)) if weight is None else weight[rows]
            values.append(np.asarray(scores[rows], dtype=np.float64))
            above.append(np.append(np.cumsum(mass[::-1])[::-1], 0.0))
        return cls(tuple(values), tuple(above))

    @classmethod
    def of_judged(cls, judged: Judged) -> Strangeness:
        """For rows that were left out one by one."""
        score = strangeness(judged.log_proba)[np.arange(len(judged.truth)), judged.truth]
        return cls.of(score, judged.truth, len(judged.classes), judged.weight)

    @property
    def rows(self) -> Floats:
        """How many rows each class has, (k,)."""
        return np.array([above[0] for above in self.above])

    def at_least(self, threshold: Floats, by_class: bool) -> Floats:
        """The weight of rows that reach each threshold, (n, k): of that class, or of all classes."""
        out = np.empty(threshold.shape)
        if by_class:
            for c, (values, above) in enumerate(zip(self.values, self.above, strict=True)):
                out[:, c] = above[np.searchsorted(values, threshold[:, c], side="left")]
            return out
        together = np.concatenate(self.values)
        order = np.argsort(together, kind="stable")
        mass = np.concatenate([above[:-1] - above[1:] for above in self.above])[order]
        above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
        return np.asarray(above[np.searchsorted(together[order], threshold, side="left")])

    def p_values(self, log_joint: Floats, by_class: bool) -> Floats:
        """The share of rows, the new one included, that are at least as strange, (n, k)."""
        return share(self.at_least(thresholds(log_joint), by_class), self.rows, by_class)

    def thinned(self) -> Strangeness:
        """At most MAX_KEPT_SCORES quantiles in place of all scores."""
        limit = max(MIN_KEPT_SCORES_PER_CLASS, MAX_KEPT_SCORES // max(1, len(self.values)))
        values, above = [], []
        for scores, weight_above in zip(self.values, self.above, strict=True):
            if len(scores) > limit:
                at = weight_above[0] * (
                    1.0 - (np.arange(limit) + 0.5) / limit
                )  # the weight of rows at least as strange
                scores = scores[np.searchsorted(-weight_above, -at, side="right") - 1]
                weight_above = weight_above[0] * np.arange(limit, -1, -1) / limit
            values.append(scores)
            above.append(weight_above)
        return Strangeness(tuple(values), tuple(above))

    def to_dict(self) -> dict[str, Any]:
        """For a model file: scores to five digits, of equal weight within a class."""
        return {"scores": [[rounded(v) for v in mine] for mine in self.values], "rows": self.rows.tolist()}

    @classmethod
    def from_dict(cls, document: Any, k: int) -> Strangeness:
        """The inverse of `to_dict`, checked."""
        scores, rows = document["scores"], np.asarray(document["rows"], dtype=np.float64)
        if not isinstance(scores, list) or len(scores) != k or rows.shape != (k,) or not (rows >= 0).all():
            raise FileError("the scores of its rows do not match its classes")
        values = tuple(np.asarray(mine, dtype=np.float64).reshape(-1) for mine in scores)
        for mine, n in zip(values, rows, strict=True):
            if not (mine[1:] >= mine[:-1]).all() or np.isnan(mine[:1]).any() or (len(mine) == 0) != (n == 0):
                raise FileError("the scores of its rows are not sorted")
        above = tuple(
            n * np.arange(len(mine), -1, -1) / max(1, len(mine)) for mine, n in zip(values, rows, strict=True)
        )
        return cls(values, above)


def rounded(value: float) -> float:
    return float(f"{value:.5g}")


def share(at_least: Floats, rows: Floats, by_class: bool) -> Floats:
    """p-values from the weight of rows that are at least as strange, to which the new row is added."""
    return np.asarray((at_least + 1.0) / ((rows if by_class else rows.sum()) + 1.0))


def left_out_p_values(judged: Judged, by_class: bool) -> Floats:
    """p-values of rows that were left out one by one, each compared with all others, (n, k).

    Every row was scored by a model that has seen the others, and they by models that have seen it: as for stored
    scores, the guarantee is not exact.
    """
    codes, weight = judged.truth, judged._weights
    limit = thresholds(judged.log_proba)
    scores = Strangeness.of_judged(judged)
    counts = scores.at_least(limit, by_class)
    own = strangeness(judged.log_proba)[np.arange(len(codes)), codes]
    self_ = own[:, None] >= limit  # if a row counts itself, it is subtracted again, also from the total
    among = np.arange(len(judged.classes)) == codes[:, None] if by_class else np.ones(limit.shape, dtype=bool)
    total = (scores.rows if by_class else scores.rows.sum()) - among * weight[:, None]
    return np.asarray((counts - (self_ & among) * weight[:, None] + 1.0) / (total + 1.0))


# ------------------------------------------------------------------ the guarantee


def check_coverage(coverage: Any) -> float:
    if isinstance(coverage, bool) or not isinstance(coverage, int | float | np.number) or not 0.0 < coverage < 1.0:
        raise DecibanError(
            "coverage is {value!r}: it must be a number between 0 and 1, such as 0.9",
            value=coverage,
            command_line="--coverage is {value:g}: it must be a number between 0 and 1, such as 0.9",
        )
    return float(coverage)


def cross_bound(coverage: float, rows: float, folds: int) -> float:
    """The guaranteed coverage of cross-conformal sets: 1 − 2ε − 2(1 − ε)(K − 1)/(n + K).

    Every fold's p-value is valid, and twice an average of p-values is (Vovk and Wang 2020); the p-value of all folds
    is ((n + K)·average − (K − 1))/(n + 1), whatever their sizes.

    >>> round(cross_bound(0.9, 1000, 5), 4)
    0.7928
    """
    if folds < 2:  # no class is ruled out
        return coverage
    epsilon = 1.0 - coverage
    return max(0.0, 1.0 - 2.0 * epsilon - 2.0 * coverage * (folds - 1) / (rows + folds))


def promise(way: str, coverage: float, by_class: bool, rows: Floats, folds: int = 0) -> str:
    """The guarantee in a sentence."""
    share = f"{100.0 * coverage:.6g} %"
    whose = "of new rows of every class" if by_class else "of new rows"
    like = "if they come from the same source as the training rows, whatever their distribution"
    if way == FULL:
        return f"At least {share} {whose} have their class in the set, {like}."
    if way == CROSS:
        some = rows[rows > 0]
        n = float((some.min() if len(some) else 0.0) if by_class else rows.sum())
        sure = math.floor(1000.0 * cross_bound(coverage, n, folds)) / 10.0
        return f"About {share} {whose} have their class in the set, and at least {sure:.6g} %, {like}."
    return f"About {share} {whose} have their class in the set, if a single row changes the model little."


# ------------------------------------------------------------------ results


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PredictionSets(Result):
    """For every row the classes that cannot be ruled out: those whose p-value is above 1 − coverage.

    An empty set means that for every class, at most a share 1 − coverage of the rows is as strange as this one.

    >>> p = np.array([[0.6, 0.02], [0.2, 0.3], [0.05, 0.04]])
    >>> result = PredictionSets(np.array(["ham", "spam"]), p, 0.9, False, FULL, "A promise.", np.array([60.0, 40.0]))
    >>> result.sets
    [['ham'], ['ham', 'spam'], []]
    >>> result.evaluate(["ham", "spam", "spam"]).coverage
    0.6666666666666666
    """

    classes: Array
    p_values: Floats  # (n, k)
    coverage: float  # as requested
    by_class: bool
    way: str
    guarantee: str
    rows: Floats  # (k,) how many rows of each class the new ones are compared with
    likeliest: Array | None = None  # class codes (n,) for sets that would be empty; None leaves them empty

    @property
    def mask(self) -> Array:
        """Which classes are in the set, (n, k)."""
        mask = self.p_values > 1.0 - self.coverage + P_VALUE_TOLERANCE
        if self.likeliest is not None:
            empty = np.flatnonzero(~mask.any(axis=1))
            mask[empty, self.likeliest[empty]] = True
        return np.asarray(mask)

    @property
    def sets(self) -> list[list[Any]]:
        """The labels of each row's set."""
        labels = [plain(label) for label in self.classes]
        return [[labels[c] for c in np.flatnonzero(row)] for row in self.mask]

    @property
    def sizes(self) -> Array:
        """How many classes each set has."""
        return np.asarray(self.mask.sum(axis=1))

    @property
    def notes(self) -> list[str]:
        """Notes on classes with so few rows that nothing can be ruled out."""
        least = math.ceil(1.0 / (1.0 - self.coverage) - 1.0 - P_VALUE_TOLERANCE / (1.0 - self.coverage))
        if not self.by_class:
            few = self.rows.sum() < least
            return [f"Every set contains every class: ruling one out takes {least} rows or more."] if few else []
        few = [str(plain(label)) for label, n in zip(self.classes, self.rows, strict=True) if n < least]
        if not few:
            return []
        named = ", ".join(few[:5]) + (f" and {len(few) - 5} more" if len(few) > 5 else "")
        return [f"In every set, because ruling a class out takes {least} rows of it: {named}."]

    def evaluate(self, y: Any) -> SetsEvaluation:
        """How often the true class is in the set, and how large sets are, over rows whose class is known.

        A label that is not one of the classes is in no set.
        """
        labels = as_labels(y)
        if len(labels) != len(self.p_values):
            raise DecibanError(
                f"there are {len(self.p_values)} sets, but y has {len(labels)} labels: give one label per row"
            )
        place = {plain(label): c for c, label in enumerate(self.classes)}
        for row, label in enumerate(labels):
            if is_missing(label):
                raise DecibanError(
                    "row {row} of y has no label and cannot be evaluated: leave out such rows", row=row, value=label
                )
            place.setdefault(label, len(place))
        codes = np.fromiter((place[label] for label in labels), dtype=np.int64, count=len(labels))
        mask, known = self.mask, codes < len(self.classes)
        hit = np.zeros(len(codes), dtype=bool)
        hit[known] = mask[known, codes[known]]
        return SetsEvaluation(tuple(place), self.coverage, codes, hit, mask.sum(axis=1), self.way)

    def to_table(self) -> Table:
        """A line per row: the set, and its p-values if there are few classes."""
        labels = [str(plain(label)) for label in self.classes]
        show_p_values = len(labels) <= MAX_CLASSES_SHOWN
        head = ("row", "set", *(f"p({label})" for label in labels)) if show_p_values else ("row", "set", "size")
        rows = [
            (
                i,
                ", ".join(map(str, labels_in_set)) or "(none)",
                *(self.p_values[i].tolist() if show_p_values else (len(labels_in_set),)),
            )
            for i, labels_in_set in enumerate(self.sets)
        ]
        how = "class by class, " if self.by_class else ""
        return Table(f"sets of {100.0 * self.coverage:.6g} % coverage, {how}{self.way}", head, rows, 20, WIDTH)

    def _parts(self) -> list[Table | str]:
        return [self.to_table(), " ".join([self.guarantee, *self.notes])]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "coverage": self.coverage,
            "by_class": self.by_class,
            "way": self.way,
            "guarantee": self.guarantee,
            "notes": self.notes,
            "classes": [plain(label) for label in self.classes],
            "sets": self.sets,
            "p_values": self.p_values.tolist(),
        }

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency), by row: the set, its size, and the p-values."""
        columns = {"set": self.sets, "size": self.sizes.tolist()}
        columns |= {f"p({plain(label)})": self.p_values[:, c].tolist() for c, label in enumerate(self.classes)}
        return Table("", tuple(columns), list(zip(*columns.values(), strict=True))).to_frame()


def stored_sets(
    scores: Strangeness, classes: Array, log_proba: Floats, coverage: float, by_class: bool, allow_empty: bool = True
) -> PredictionSets:
    """Sets by the scores stored with a model, from its log-probabilities of new rows."""
    coverage = check_coverage(coverage)
    return PredictionSets(
        classes,
        scores.p_values(log_proba, by_class),
        coverage,
        by_class,
        STORED,
        promise(STORED, coverage, by_class, scores.rows),
        scores.rows,
        None if allow_empty else np.argmax(log_proba, axis=1),
    )


def judged_sets(judged: Judged, scores: Strangeness | None, coverage: float, by_class: bool) -> SetsEvaluation | None:
    """The evaluation of sets for rows of known class: left out one by one, or new to a model that has scores."""
    if not len(judged.truth) or len(judged.classes) < 2:
        return None
    if judged.how == "leave-one-out":
        sets = PredictionSets(
            judged.classes,
            left_out_p_values(judged, by_class),
            check_coverage(coverage),
            by_class,
            STORED,
            "",
            np.bincount(judged.truth, minlength=len(judged.classes)).astype(np.float64),
        )
    elif scores is not None:
        k = len(scores.values)
        sets = stored_sets(scores, judged.classes[:k], judged.log_proba[:, :k], coverage, by_class)
    else:
        return None
    return sets.evaluate(judged.classes[judged.truth])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetsEvaluation(Result):
    """How good prediction sets are on rows whose class is known.

    >>> from sklearn.datasets import load_iris
    >>> from deciban import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> sets = GaussianNB().fit(X[::2], y[::2]).predict_set(X[1::2], rows=(X[::2], y[::2]))
    >>> quality = sets.evaluate(y[1::2])
    >>> round(quality.coverage, 2), round(quality.mean_size, 2)
    (0.95, 0.99)
    """

    classes: tuple[Any, ...]  # the model's, followed by labels that it does not know
    requested_coverage: float
    truth: Array  # class codes
    hit: Array  # whether the true class is in the set
    sizes: Array
    way: str

    asked = renamed("asked", "requested_coverage")

    @property
    def coverage(self) -> float:
        """The share of rows whose class is in the set."""
        return mean(self.hit)

    @property
    def error(self) -> float:
        """The standard error of the coverage, with one hit and one miss added."""
        n = len(self.hit) + 2.0
        p = (float(self.hit.sum()) + 1.0) / n
        return math.sqrt(p * (1.0 - p) / n)

    @property
    def mean_size(self) -> float:
        """How many classes a set has, on average."""
        return mean(self.sizes)

    @property
    def empty(self) -> float:
        """The share of sets that are empty."""
        return mean(self.sizes == 0)

    @property
    def single(self) -> float:
        """The share of sets that name one class."""
        return mean(self.sizes == 1)

    @property
    def per_class(self) -> Table:
        """Coverage and size of the sets of each class's rows."""
        rows: list[tuple[Any, ...]] = []
        for c, label in enumerate(self.classes):
            mine = self.truth == c
            if mine.any():
                rows.append((label, int(mine.sum()), mean(self.hit[mine]), mean(self.sizes[mine])))
        return Table("class by class", ("class", "rows", "coverage", "mean size"), rows)

    @property
    def worst_class(self) -> float:
        """The lowest coverage of a class."""
        return min((row[2] for row in self.per_class.rows), default=math.nan)

    def in_words(self) -> str:
        """A summary in a sentence."""
        worst = f" ({100.0 * self.worst_class:.3g} % of the class covered least)" if len(self.classes) > 1 else ""
        return (
            f"Prediction sets of {100.0 * self.requested_coverage:.6g} %: they contain the true class of "
            f"{100.0 * self.coverage:.3g} % of rows{worst}, and their mean size is {self.mean_size:.3g}; "
            f"{100.0 * self.single:.3g} % contain one class, {100.0 * self.empty:.3g} % none."
        )

    def to_table(self) -> Table:
        rows = [
            (
                "coverage",
                self.coverage,
                f"share of rows whose class is in the set; requested {self.requested_coverage:g}",
            ),
            ("mean size", self.mean_size, "classes in a set"),
            ("single", self.single, "share of sets with one class"),
            ("empty", self.empty, "share of sets with no class"),
        ]
        n = len(self.hit)
        return Table(f"prediction sets: {n:,} row{'s' * (n != 1)}", ("measure", "value", ""), rows, width=WIDTH)

    def _parts(self) -> list[Table | str]:
        return [self.to_table(), self.per_class]

    def to_dict(self) -> dict[str, Any]:
        """All numbers, for JSON: 0/0 is None."""
        return {
            "rows": len(self.hit),
            "way": self.way,
            "requested_coverage": self.requested_coverage,
            "asked": self.requested_coverage,  # the old key
            "coverage": finite(self.coverage),
            "error": finite(self.error),
            "mean_size": finite(self.mean_size),
            "single": finite(self.single),
            "empty": finite(self.empty),
            "classes": self.per_class.to_dict(),
        }


def mean(values: Iterable[Any]) -> float:
    """The mean; NaN for no rows."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()) if len(array) else math.nan
