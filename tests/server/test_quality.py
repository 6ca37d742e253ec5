"""Figures of examples that were predicted before they were learned, and the alarms that they raise."""

from __future__ import annotations

import numpy as np
import pytest

from deciban.server.model import Answer
from deciban.server.quality import MIN_BEFORE, RECENT, Quality, figures
from deciban.server.store.base import Outcome

PRIOR, CLASSES = np.array([0.5, 0.5]), ["ham", "spam"]


def outcomes(n, accuracy=0.9, p=0.9, log_density=None, seed=0):
    """Examples of two classes, of which a share is recognised with probability p."""
    rng = np.random.default_rng(seed)
    right = np.arange(n) < round(accuracy * n)
    rng.shuffle(right)
    out = []
    for i, hit in enumerate(right):
        label, other = ('"ham"', '"spam"') if i % 2 else ('"spam"', '"ham"')
        density = None if log_density is None else log_density + rng.normal()
        out.append(Outcome(label, label if hit else other, p if hit else 1 - p, p, density, i, float(i)))
    return out


def codes(before, now):
    return [alarm.code for alarm in Quality([*before, *now], 10_000).alarms(PRIOR, CLASSES)]


def test_figures_by_hand():
    two = [Outcome("1", "1", 0.8, 0.8), Outcome("0", "1", 0.3, 0.7)]
    found = figures(two)
    assert found["accuracy"] == 0.5
    assert found["log_loss"] == pytest.approx(-(np.log(0.8) + np.log(0.3)) / 2)
    assert found["calibration_error"] == pytest.approx((0.2 + 0.7) / 2)
    assert figures([])["accuracy"] is None


def test_the_first_example_of_a_class_does_not_count():
    quality = Quality([Outcome('"ham"', "null", 0.0, 0.0), Outcome('"ham"', '"ham"', 0.9, 0.9)], 100)
    quality.add([Outcome('"spam"', '"ham"', 0.0, 1.0)])
    found = quality.to_dict(PRIOR, CLASSES)
    assert found["examples"] == 1
    assert found["overall"]["accuracy"] == 1.0
    assert found["overall"]["log_loss"] == pytest.approx(-np.log(0.9))


def test_no_alarm_where_nothing_changed():
    for seed in range(20):
        assert (
            codes(outcomes(1000, seed=seed, log_density=-3.0), outcomes(RECENT, seed=seed + 100, log_density=-3.0))
            == []
        )


def test_no_alarm_before_there_is_something_to_compare_with():
    assert codes(outcomes(MIN_BEFORE - 1), outcomes(RECENT, accuracy=0.2)) == []


def test_accuracy_falls():
    assert set(codes(outcomes(1000), outcomes(RECENT, accuracy=0.7))) == {"accuracy", "log_loss", "overconfident"}


def test_answers_claim_too_much():
    assert codes(outcomes(1000, accuracy=0.75, p=0.95), outcomes(RECENT, accuracy=0.75, p=0.95)) == ["overconfident"]


def test_what_is_asked_drifts():
    assert codes(outcomes(1000, log_density=-3.0), outcomes(RECENT, log_density=-5.0)) == ["drift"]


def test_class_shares_move():
    quality = Quality([], 100)
    rng = np.random.default_rng(0)

    def answers(share):
        p = np.where(rng.random(RECENT) < share, 0.95, 0.05)
        return [Answer("spam", np.array([1 - one, one]), CLASSES) for one in p]

    quality.answered(answers(0.5))
    assert quality.alarms(PRIOR, CLASSES) == []
    quality.answered(answers(0.9))
    (alarm,) = quality.alarms(PRIOR, CLASSES)
    assert alarm.code == "class_shares"
    assert alarm.now > 0.8
    quality.answered([Answer("c", np.array([0.2, 0.3, 0.5]), ["a", "b", "c"])])
    assert quality.alarms(PRIOR, CLASSES) == [], "with a new class it begins again"


def test_the_window_is_bounded():
    quality = Quality(outcomes(50), 100)
    quality.add(outcomes(80))
    assert quality.to_dict(PRIOR, CLASSES)["examples"] == 100
    assert len(quality.to_dict(PRIOR, CLASSES)["over_time"]) == 5


def test_figures_by_class_and_calibration():
    found = Quality(outcomes(200, accuracy=0.8, p=0.85), 1000).to_dict(PRIOR, CLASSES)
    assert set(found["by_class"]) == {"ham", "spam"}
    assert sum(one["examples"] for one in found["by_class"].values()) == 200
    assert found["calibration"] == [
        {"from": 0.8, "to": 0.9, "examples": 200, "probability": pytest.approx(0.85), "accuracy": 0.8}
    ]
