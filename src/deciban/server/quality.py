"""The model's quality over time: every example is predicted before it is learned.

Outcomes are kept in a window; alarms compare its recent part with the part before. An example of a class that the model
did not know yet does not count.
"""

from __future__ import annotations

import json
import math
import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban import bayes
from deciban._typing import Array, Floats
from deciban.server.model import Answer
from deciban.server.store.base import Outcome

RECENT = 200  # outcomes, and predictions, that count as recent
MIN_BEFORE = 200  # outcomes before those, to compare with
Z_ALARM = 3.0  # standard errors: about one false alarm in a thousand
MIN_SHARE_MOVED = 0.1  # of the predictions, compared with the class prior
BINS = 10
MAX_POINTS = 50  # of a curve


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that became worse: its code, a sentence, and the figures before and now."""

    code: str
    message: str
    before: float
    now: float

    def to_dict(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "before": self.before, "now": self.now}


class Quality:
    """A window of outcomes, and one of predicted probabilities. Written and read by different threads."""

    def __init__(self, outcomes: Iterable[Outcome], most: int) -> None:
        self._lock = threading.Lock()
        self._outcomes, self._proba = deque(outcomes, maxlen=most), deque[Floats](maxlen=RECENT)
        self.most, self.total = most, len(self._outcomes)

    def add(self, outcomes: Sequence[Outcome]) -> None:
        with self._lock:
            self._outcomes.extend(outcomes)
            self.total += len(outcomes)

    def answered(self, answers: Sequence[Answer]) -> None:
        """Record predicted probabilities, labelled or not, to detect changes in class shares."""
        with self._lock:
            if self._proba and len(self._proba[-1]) != len(answers[-1].probabilities):
                self._proba.clear()  # there is a new class
            self._proba.extend(answer.probabilities for answer in answers[-RECENT:])

    @property
    def last_seq(self) -> int:
        with self._lock:
            return self._outcomes[-1].seq if self._outcomes else -1

    def window(self) -> list[Outcome]:
        """The outcomes that count: the first example of a class cannot be predicted."""
        with self._lock:
            return [one for one in self._outcomes if one.p_label > 0]

    def to_dict(self, prior: Floats, classes: Sequence[Any]) -> dict[str, Any]:
        """All figures: of the whole window and its recent part, by class, over time, and alarms."""
        outcomes = self.window()
        return {
            "examples": len(outcomes),
            "window": self.most,
            "overall": figures(outcomes),
            "recent": figures(outcomes[-RECENT:]),
            "by_class": by_class(outcomes),
            "calibration": calibration(outcomes),
            "over_time": over_time(outcomes),
            "shares": self.shares(prior, classes),
            "alarms": [alarm.to_dict() for alarm in self.alarms(prior, classes)],
        }

    def shares(self, prior: Floats, classes: Sequence[Any]) -> dict[str, Any]:
        """Class shares of the learned examples, and of recent requests, labelled or not, as estimated by EM."""
        with self._lock:
            proba = np.array(self._proba)
        known = len(proba) > 0 and proba.shape[1] == len(prior) and bool((prior > 0).all())
        adapted = bayes.adapt_prior(proba, prior)[0].tolist() if known else [None] * len(classes)
        pairs = zip(classes, prior.tolist(), adapted, strict=True)
        by_class_ = {str(label): {"learned": learned, "requests": asked} for label, learned, asked in pairs}
        return {"requests": len(proba) if known else 0, "classes": by_class_}

    def alarms(self, prior: Floats, classes: Sequence[Any]) -> list[Alarm]:
        outcomes = self.window()
        with self._lock:
            proba = np.array(self._proba) if len(self._proba) == RECENT else None
        out = outcome_alarms(outcomes)
        if proba is not None and proba.shape[1] == len(prior) and (prior > 0).all():
            out += share_alarms(proba, prior, classes)
        return out


def figures(outcomes: Sequence[Outcome]) -> dict[str, float | int | None]:
    """Accuracy, log loss, and how far probabilities are from frequencies."""
    if not outcomes:
        return {"examples": 0, "accuracy": None, "log_loss": None, "calibration_error": None, "log_density": None}
    hit, loss = hits(outcomes), losses(outcomes)
    densities = [one.log_density for one in outcomes if one.log_density is not None]
    return {
        "examples": len(outcomes),
        "accuracy": float(hit.mean()),
        "log_loss": float(loss.mean()),
        "calibration_error": calibration_error(outcomes),
        "log_density": float(np.mean(densities)) if densities else None,
    }


def hits(outcomes: Sequence[Outcome]) -> Floats:
    return np.array([one.label == one.answer for one in outcomes], dtype=np.float64)


def losses(outcomes: Sequence[Outcome]) -> Floats:
    return -np.log([one.p_label for one in outcomes])


def by_class(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """Recall and precision of each class."""
    out = {}
    for label in sorted({one.label for one in outcomes}):
        own = [one for one in outcomes if one.label == label]
        answered = [one for one in outcomes if one.answer == label]
        right = sum(one.answer == label for one in own)
        out[str(json.loads(label))] = {
            "examples": len(own),
            "recall": right / len(own),
            "precision": right / len(answered) if answered else None,
            "log_loss": float(losses(own).mean()),
        }
    return out


def calibration(outcomes: Sequence[Outcome]) -> list[dict[str, float | int]]:
    """Calibration by bins of probability: how many predictions, their mean probability, how many were correct."""
    if not outcomes:
        return []
    p, hit = np.array([one.p_answer for one in outcomes]), hits(outcomes)
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    return [
        {
            "from": b / BINS,
            "to": (b + 1) / BINS,
            "examples": int((bins == b).sum()),
            "probability": float(p[bins == b].mean()),
            "accuracy": float(hit[bins == b].mean()),
        }
        for b in np.unique(bins).tolist()
    ]


def calibration_error(outcomes: Sequence[Outcome]) -> float:
    """The mean distance between probability and frequency, over bins."""
    distances = [abs(part["probability"] - part["accuracy"]) * part["examples"] for part in calibration(outcomes)]
    return float(sum(distances) / len(outcomes))


def over_time(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The figures of consecutive parts of the window."""
    size = max(20, math.ceil(len(outcomes) / MAX_POINTS))
    parts = [outcomes[start : start + size] for start in range(0, len(outcomes), size)]
    return [
        {"time": part[-1].time, "seq": part[-1].seq, **figures(part), "shares": label_shares(part)} for part in parts
    ]


def label_shares(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """The share of each label."""
    counts = Counter(str(json.loads(one.label)) for one in outcomes)
    return {label: n / len(outcomes) for label, n in sorted(counts.items())}


def outcome_alarms(outcomes: Sequence[Outcome]) -> list[Alarm]:
    """Whether the recent outcomes are worse than those before, beyond chance."""
    before, now = outcomes[:-RECENT], outcomes[-RECENT:]
    if len(before) < MIN_BEFORE:
        return []
    out = []
    old, new = hits(before), hits(now)
    if z_of(new, old) < -Z_ALARM:
        message = f"accuracy fell from {percent(old.mean())} to {percent(new.mean())} over the last {RECENT} examples"
        out.append(Alarm("accuracy", message, float(old.mean()), float(new.mean())))
    old, new = losses(before), losses(now)
    if z_of(new, old) > Z_ALARM:
        message = f"log loss rose from {old.mean():.3f} to {new.mean():.3f} over the last {RECENT} examples"
        out.append(Alarm("log_loss", message, float(old.mean()), float(new.mean())))
    sure, new = np.array([one.p_answer for one in now]), hits(now)
    spread = math.sqrt(float((sure * (1.0 - sure)).sum()) + 1.0)  # plus one, for predictions with probability 1
    if float((sure - new).sum()) / spread > Z_ALARM:
        message = (
            f"predictions are overconfident: their mean probability is {percent(sure.mean())}, but "
            f"{percent(new.mean())} of the last {RECENT} were correct"
        )
        out.append(Alarm("overconfident", message, float(sure.mean()), float(new.mean())))
    densities = [[one.log_density for one in part if one.log_density is not None] for part in (before, now)]
    if min(map(len, densities)) >= MIN_BEFORE // 2:
        old, new = np.array(densities[0]), np.array(densities[1])
        if z_of(new, old) < -Z_ALARM:
            message = f"new examples are less similar to what was learned: mean log p(x) fell from {old.mean():.2f} to "
            out.append(Alarm("drift", f"{message}{new.mean():.2f}", float(old.mean()), float(new.mean())))
    return out


def percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def z_of(new: Floats, old: Floats) -> float:
    """The difference of two means in standard errors; with one pseudo-outcome each way if all are equal."""
    variance = (spread(new) / len(new)) + (spread(old) / len(old))
    return float((new.mean() - old.mean()) / math.sqrt(variance))


def spread(values: Floats) -> float:
    return float(np.var(values)) + 1.0 / len(values)


def share_alarms(proba: Array, prior: Floats, classes: Sequence[Any]) -> list[Alarm]:
    """Whether the class shares of requests differ from those learned (by EM over the posteriors)."""
    adapted, _ = bayes.adapt_prior(proba, prior)
    moved = 0.5 * float(np.abs(adapted - prior).sum())
    noise = Z_ALARM * math.sqrt(float((prior * (1.0 - prior)).max()) / len(proba))
    if moved <= max(MIN_SHARE_MOVED, noise):
        return []
    most = int(np.argmax(np.abs(adapted - prior)))
    message = (
        f"class {classes[most]} makes up {percent(adapted[most])} of the last {len(proba)} requests, but "
        f"{percent(prior[most])} of the learned examples: call adapt_prior, or learn recent examples"
    )
    return [Alarm("class_shares", message, float(prior[most]), float(adapted[most]))]
