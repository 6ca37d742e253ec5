"""`deciban bench`: its report, and that both sides of a pair do the same work."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from deciban.cli.benchmark import (
    FULL,
    QUICK,
    Bench,
    Sizes,
    bench,
    best_times,
    documents,
    duration_text,
    gaussian_table,
    mixed_table,
    ratio_text,
)

TINY = Sizes(rows=400, columns=3, documents=60, table=200, repeats=1, refits=2, threads=1)


@pytest.fixture(scope="module")
def steps():
    return []


@pytest.fixture(scope="module")
def result(steps) -> Bench:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deciban.cli.benchmark.MIN_SECONDS", 0.0)
        return bench(sizes=TINY, on_step=steps.append)


def test_every_pair_was_timed(result):
    assert len(result.pairs) == 6
    assert all(pair.ours > 0 and pair.theirs > 0 for pair in result.pairs)
    assert all(pair.ratio == pytest.approx(pair.theirs / pair.ours) for pair in result.pairs)
    assert [pair.what.strip() for pair in result.pairs if pair.estimated] == ["leave-one-out of every row"]


def test_both_sides_of_a_pair_predict_the_same(result):
    """The same models: probabilities differ by rounding alone, and sums of a few hundred terms keep it below 1e-10."""
    differences = [pair.difference for pair in result.pairs if pair.difference is not None]
    assert len(differences) == 3  # predicting, leave-one-out beside refits, texts
    assert max(differences) < 1e-10


def test_each_model_of_the_mixed_table_learned_something(result):
    """Three classes of the same size: guessing is right in a third of the rows and costs log 3."""
    assert [c.model for c in result.contenders] == ["deciban Classifier", "HistGradientBoosting", "LogisticRegression"]
    for contender in result.contenders:
        assert contender.fit > 0
        assert contender.predict > 0
        assert contender.accuracy > 0.5
        assert contender.log_loss < np.log(3)


def test_each_step_is_reported(result, steps):
    assert isinstance(result, Bench)
    assert steps == ["Gaussian naive Bayes", "words", "a mixed table"]


def test_a_dictionary_of_it_is_json(result):
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert set(document) == {"machine", "sizes", "pairs", "table"}
    assert document["sizes"]["rows"] == TINY.rows
    assert set(document["pairs"][0]) == {"what", "deciban", "scikit-learn", "estimated", "ratio", "difference", "apart"}
    assert set(document["table"][0]) == {"model", "fit", "predict", "accuracy", "log_loss"}


def test_it_prints_everything_and_explains_ratios(result):
    text = " ".join(repr(result).split())
    assert "Ratios hold for this machine" in text
    assert "estimated from 2 of the refits" in text
    assert "Generated data favour" in text
    for pair in result.pairs:
        assert pair.what.strip() in text
    for contender in result.contenders:
        assert contender.model in text


def test_a_line_fits_eighty_characters(result):
    long = [replace(pair, ours=1.11e-3, theirs=1.11e6 * (1 + pair.estimated)) for pair in result.pairs]
    for some in (result, replace(result, pairs=tuple(long))):
        assert max(map(len, repr(some).splitlines())) <= 80


def test_quick_is_less_of_everything():
    for name in ("rows", "columns", "documents", "table", "repeats", "refits"):
        assert getattr(QUICK, name) <= getattr(FULL, name)


@pytest.mark.parametrize(("load", "threads"), [(0.1, None), (1e6, 1)])
def test_on_a_busy_machine_everything_keeps_to_one_thread(monkeypatch, load, threads):
    measured: list[Sizes] = []
    for part in ("gaussian_pairs", "word_pairs", "contenders_on_mixed_table"):
        monkeypatch.setattr(f"deciban.cli.benchmark.{part}", lambda sizes: measured.append(sizes) or [])
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load), raising=False)
    text = " ".join(repr(bench(quick=True)).split())
    assert [sizes.threads for sizes in measured] == [threads] * 3
    assert ("in one thread because" in text) == (threads == 1)


class Clock:
    """A clock that advances only by `sleep`."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("deciban.cli.benchmark.time", clock)
    return clock


def test_the_best_of_several_runs_counts(clock, monkeypatch):
    monkeypatch.setattr("deciban.cli.benchmark.MAX_SECONDS", 100.0)
    monkeypatch.setattr("deciban.cli.benchmark.MIN_SECONDS", 0.0)
    waits = iter([5.0, 1.0, 3.0])
    assert best_times(3, lambda: clock.sleep(next(waits))) == [1.0]


def test_what_takes_long_is_run_once(clock):
    calls: list[str] = []
    best_times(5, lambda: clock.sleep(1000.0), lambda: calls.append("once"))
    assert calls == ["once"]


def test_everything_takes_its_turn():
    calls: list[str] = []
    assert len(best_times(2, lambda: calls.append("a"), lambda: calls.append("b"))) == 2
    assert calls[:4] == ["a", "b", "a", "b"]


def test_generated_data_are_what_they_are_called():
    X, y = gaussian_table(40, 3)
    assert X.shape == (40, 3)
    assert np.bincount(y).tolist() == [10, 10, 10, 10]
    texts, labels = documents(10)
    assert len(texts) == len(labels) == 10
    assert all(40 <= len(text.split()) < 120 for text in texts)
    table = mixed_table(2000)
    share = np.isnan(table.array()).mean()
    assert 0.04 < share < 0.06  # of 28,000 entries one in twenty: four standard deviations are 0.005
    columns = table.columns()
    assert len(columns) == 14
    gaps = [value is None for value in columns["category_0"]]
    assert gaps == np.isnan(table.codes[:, 0]).tolist()


@pytest.mark.parametrize(
    ("value", "expected"), [(2e-6, "2 µs"), (0.0123, "12.3 ms"), (1.5, "1.5 s"), (90.0, "1.5 min"), (7200.0, "2 h")]
)
def test_duration_text(value, expected):
    assert duration_text(value) == expected


def test_ratio_text():
    assert [ratio_text(0.52), ratio_text(3.25), ratio_text(12345.6)] == ["0.52×", "3.2×", "12,346×"]
