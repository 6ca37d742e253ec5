"""A summary shows what was chosen and why, within the width of a terminal."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from deciban import SchemaError, Summary
from deciban.results.summary import candidates_table
from deciban.show import Table

COLUMNS = Table(
    "columns", ("column", "kind", "why"), [("age", "number", "74 distinct values"), ("town", "category", "")]
)
CANDIDATES = [
    ("columns", "gaussian", 0.5, 0.7, True),
    ("columns", "bins", 0.6, None, False),
    ("pairs", "", 0.4, np.float64(0.9), np.True_),
]


def summary(tried=CANDIDATES, **about) -> Summary:
    about = {"title": "Classifier", "rows": 1234, "classes": ("no", "yes"), "loss": 0.35, "accuracy": 0.9, **about}
    return Summary(columns=about.pop("columns", COLUMNS), candidates=candidates_table(tried), **about)


def test_it_reads_as_text():
    lines = repr(summary(notes=("one", "two"), baseline=0.6931)).splitlines()
    assert lines[:2] == [
        "Classifier: 1,234 rows, 2 classes (no, yes). By leave-one-out: log loss 0.35",
        "nats (class frequencies alone: 0.6931), accuracy 0.9.",
    ]
    assert [line.split() for line in lines[-7:-4]] == [
        ["columns", "gaussian", "0.5", "0.7", "yes"],
        ["columns", "bins", "0.6"],
        ["pairs", "0.4", "0.9", "yes"],
    ]
    assert lines[-4:] == ["", "one", "", "two"]
    assert "prior" not in repr(summary())
    assert repr(summary(rows=1, classes=("a",))).startswith("Classifier: 1 row, 1 class (a).")
    many = " ".join(repr(summary(classes=tuple(range(20)))).split())
    assert "20 classes (0, 1, 2, 3, 4, 5, 6, 7, …)" in many


def test_what_was_chosen_but_has_no_weight_is_not_needed():
    shown = summary([*CANDIDATES, ("trees", "", 0.55, 0.0, True)]).to_table()
    assert [row[-1] for row in shown.rows] == ["yes", "", "yes", "not needed"]


def test_its_lines_fit_a_terminal_however_long_its_words():
    long = "a sentence that goes on " * 9
    columns = Table(long, ("column", "kind", "why"), [("c" * 90, "number", long), (long, "text", "w" * 200)])
    shown = summary([(long, long, 0.5, 1.0, True)], columns=columns, notes=(long,), classes=(long,))
    assert max(len(line) for line in repr(shown).splitlines()) <= 80
    assert "".join(repr(shown).split()).count("asentencethatgoesonasentence") > 10, "folded, not cut off"


def test_it_is_a_dictionary_and_a_frame():
    there = summary(notes=("one",), classes=tuple(np.array([0, 1]))).to_dict()
    assert json.loads(json.dumps(there)) == there, "plain values, NumPy's too"
    assert there["classes"] == [0, 1]
    assert there["candidates"]["weight"] == [0.7, None, 0.9]
    assert there["columns"]["column"] == ["age", "town"]
    assert there["baseline"] is None
    frame = summary().to_frame()
    assert frame.columns.tolist() == ["candidate", "setting", "log loss", "weight", "chosen"]
    assert frame["chosen"].tolist() == [True, False, True]


def test_its_picture_marks_what_was_chosen():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    tried = [*CANDIDATES, ("trees", "deep", math.inf, None, False), ("trees", "broken", math.nan, None, False)]
    axes = summary([*tried, ("trees", "never tried", None, None, False)], baseline=0.69).plot()
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["columns gaussian", "columns bins", "pairs", "trees deep"], "in order, and only what was judged"
    assert [bar.get_width() for bar in axes.patches] == [0.5, 0.6, 0.4, pytest.approx(0.72)]
    assert axes.texts[0].get_text() == "∞"
    colours = [bar.get_facecolor() for bar in axes.patches]
    assert colours[0] == colours[2] != colours[1] == colours[3]
    lines = {line.get_label(): line.get_xdata()[0] for line in axes.lines}
    assert lines == {"the model": 0.35, "class frequencies alone": 0.69}
    assert len(summary().plot().lines) == 1
    assert summary(loss=math.nan).plot().get_legend() is None
    best = summary([("c", str(i), float(i), None, False) for i in range(100, 0, -1)]).plot()
    assert [bar.get_width() for bar in best.patches] == list(range(30, 0, -1)), "the best of many"
    matplotlib.pyplot.close("all")


def test_a_table_without_what_is_needed_is_refused():
    with pytest.raises(SchemaError, match="'chosen': candidates_table makes one"):
        Summary("t", 1, (), COLUMNS, Table("", ("candidate", "log loss"), []), 0.0, 1.0)


def test_nothing_tried_is_not_shown():
    assert len(repr(summary([], columns=Table("", ("column",), []))).splitlines()) == 2


def test_judged_is_the_old_name_of_evaluated():
    with pytest.warns(DeprecationWarning, match="Summary.judged is now called evaluated"):
        assert summary().judged is True
