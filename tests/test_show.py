"""Results render themselves: text, terminal, notebook, frame, picture."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from deciban import (
    Comparison,
    Evidence,
    GaussianMixture,
    GaussianNB,
    LeaveOneOut,
    MultinomialNB,
    Summary,
    TextClassifier,
    TextEvidence,
)
from deciban.results.summary import candidates_table
from deciban.show import Result, Table, label, one_line, signed, signed_bars, value_text, visible

X = np.array([[3, 0, 1], [2, 1, 0], [0, 4, 1], [1, 3, 3]])
y = ["spam", "spam", "<ham>", "<ham>"]
HOSTILE = (
    "a\x1b[31m\x07\n[red]<b>$x$\u202e\ud800"  # steers a terminal, rich, a page and matplotlib, and cannot be encoded
)


@pytest.fixture
def model():
    return MultinomialNB().fit(X, y)


def results(model):
    return {
        "explain": model.explain(X[:1]),
        "leave_one_out": model.leave_one_out(X, y),
        "params": model.params,
        "linear_form": model.linear_form(),
        "top_evidence": model.top_evidence(2),
    }


@pytest.mark.parametrize("what", ["explain", "leave_one_out", "params", "linear_form", "top_evidence"])
def test_every_result_renders_everywhere(model, what):
    result = results(model)[what]
    assert isinstance(result.to_dict(), dict)
    assert len(repr(result).splitlines()) > 1
    screen = io.StringIO()
    Console(file=screen, width=100, color_system=None).print(result)
    assert "\x1b" not in screen.getvalue()
    page = result._repr_html_()
    assert page.startswith("<table>")
    assert "<ham>" not in page, "labels are escaped: a class name is not markup"


def test_an_explanation_adds_up_on_paper(model):
    why = model.explain(X[:1], target="spam", against="<ham>")
    shown = why.to_dict()
    assert shown["total"] == pytest.approx(shown["prior"] + sum(e["decibans"] for e in shown["evidence"]))
    odds = np.divide(*model.predict_proba(X[:1])[0][[1, 0]])
    assert why.total == pytest.approx(10 * np.log10(odds))
    assert repr(why).splitlines()[0].startswith("spam rather than <ham>")
    assert why.to_frame()["decibans"].sum() == pytest.approx(why.total - why.prior)


def test_columns_can_be_called_by_name(model):
    words = ["buy", "meet", "now"]
    why = model.explain(X[:1], names=words)
    assert {name for name, _, _ in why.items} == {"buy", "now"}
    assert why.total == pytest.approx(model.explain(X[:1]).total)
    assert model.top_evidence(1, names=words).rows[1][1] == "buy"
    with pytest.raises(ValueError, match="names has 2 entries, but there are 3 features"):
        model.explain(X[:1], names=words[:2])


def test_what_does_not_fit_is_counted_not_dropped():
    rng = np.random.default_rng(0)
    wide = GaussianNB().fit(rng.normal(size=(40, 30)), np.arange(40) % 2).explain(rng.normal(size=(1, 30)))
    sides = [re.match(r"(\d+) more for ([01]) +([+-][\d.]+)", line) for line in repr(wide).splitlines()]
    sums = {side[2]: (int(side[1]), float(side[3])) for side in sides if side}
    listed = 30 - sum(n for n, _ in sums.values())
    sizes = np.abs([db for _, _, db in wide.items])
    assert sizes[:listed].sum() >= 0.75 * sizes.sum() > sizes[: listed - 1].sum()
    for side, sign in ((wide.target, 1), (wide.against, -1)):  # evidence against is as visible as evidence for
        hidden = [db for _, _, db in wide.items[listed:] if db * sign > 0]
        assert sums[str(side)] == (len(hidden), pytest.approx(sum(hidden), abs=0.005))
    few = Evidence("b", "a", 0.0, (("x", 1.0, 3.0), ("y", 1.0, 0.2), ("z", 1.0, -0.1)), 0.6)
    assert few.rest(few.items[1:]) == [("2 more", pytest.approx(0.1))], "too little to be listed apart"
    ruled_out = Evidence("b", "a", 0.0, (("x", 1.0, np.inf), ("y", 1.0, -np.inf)), 0.5)
    assert ruled_out.rest(ruled_out.items) == [("2 more", 0.0)]
    table = Table("t", ("n",), [(i,) for i in range(100)], most=10)
    assert "… and 90 more rows" in repr(table)
    assert "… and 1 more row\n" in repr(replace(table, most=99)) + "\n"
    assert len(table.to_dict()["n"]) == 100


def test_leave_one_out_is_a_frame_of_rows(model):
    frame = model.leave_one_out(X, y).to_frame()
    assert frame.columns.tolist() == ["truth", "prediction", "log_loss", "proba_<ham>", "proba_spam"]
    assert frame["truth"].tolist() == y
    np.testing.assert_allclose(frame["proba_<ham>"] + frame["proba_spam"], 1.0)


def test_em_prints_one_line():
    model = GaussianNB().fit([[0.0], [0.2], [5.0], [5.1], [0.1]], [0.0, 0.0, 1.0, 1.0, np.nan])
    assert repr(model.em_).startswith("EM over 5 rows: converged after")


def test_evidence_can_be_plotted(model):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = model.explain(X[:1]).plot()
    assert len(axes.patches) == 1 + len(model.explain(X[:1]).items)
    assert "dB" in axes.get_xlabel()


def test_parameters_read_as_a_table():
    params = GaussianNB().fit([[1.0], [3.0], [10.0], [10.0]], ["a", "a", "b", "b"]).params
    assert params.columns == ("item", "mean[a]", "mean[b]", "variance[a]", "variance[b]")
    assert params.rows[0][:4] == ("x0", 2.0, 10.0, pytest.approx(1.0))


@pytest.mark.parametrize("terminal", [True, False])
def test_em_shows_its_steps_on_a_terminal_and_is_quiet_in_a_pipe(monkeypatch, terminal):
    class Screen(io.StringIO):
        def isatty(self):
            return terminal

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    X = np.random.default_rng(0).normal(size=(60, 2))
    GaussianMixture(2, random_state=0, max_iter=5, tol=0.5).fit(X)
    assert ("mixture" in screen.getvalue()) == terminal


# ------------------------------ every result, with any names


def all_results(name: str) -> list[Result]:
    """One of each result, with `name` for every label, column and title."""
    classes, losses = np.array([name, "b"], dtype=object), np.array([[[0.5, 0.7]], [[0.9, 0.9]]])
    columns = Table(name, ("column", name), [(name, name)])
    tried = candidates_table([(name, name, 0.4, 1.0, True), (name, name, 0.6, None, False)], name)
    log_proba = np.log([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
    items = ((name, name, 3.0), (name, 2.0, -1.0))
    return [
        Evidence(name, "b", 1.0, items, 0.7),
        TextEvidence(name, "b", 1.0, items, 0.7, name, ((0, 1, 7.0),)),
        LeaveOneOut(classes, log_proba, np.array([0, 1, 1])),
        Comparison((name, "b"), (10,), np.exp(-losses), losses, 5),
        Summary(name, 3, (name, "b"), columns, tried, 0.4, 0.9, (name,), 0.7),
    ]


RESULT_NAMES = [type(result).__name__ for result in all_results("a")]


@pytest.fixture(params=range(len(RESULT_NAMES)), ids=RESULT_NAMES)
def hostile_result(request):
    return all_results(HOSTILE)[request.param]


@pytest.mark.parametrize("which", range(len(RESULT_NAMES)), ids=RESULT_NAMES)
def test_every_result_has_every_form(which):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    result = all_results("a")[which]
    assert isinstance(result.to_dict(), dict)
    assert len(result.to_frame()) >= 2
    axes = result.plot()
    assert result.plot(axes) is axes, "it draws where it is told to"
    matplotlib.pyplot.close("all")


def test_names_are_never_interpreted(hostile_result):
    if not isinstance(hostile_result, TextEvidence | LeaveOneOut):  # its text has lines; its table has no names
        assert "a␛[31m␇␊[red]<b>$x$��" in repr(hostile_result)
    assert not set(repr(hostile_result)) & {"\x1b", "\x07", "\u202e", "\ud800"}
    screen = io.StringIO()
    Console(file=screen, width=200, color_system=None).print(hostile_result)
    assert not set(screen.getvalue()) & {"\x1b", "\x07", "\u202e", "\ud800"}
    assert ("[red]" in screen.getvalue()) == (not isinstance(hostile_result, LeaveOneOut)), "no markup"
    page = hostile_result._repr_html_()
    assert "<b>" not in page
    page.encode()


@pytest.mark.filterwarnings("error::UserWarning")  # of characters that the font does not have
def test_a_picture_writes_names_as_they_are(hostile_result):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = hostile_result.plot()
    texts = [*axes.get_yticklabels(), axes.xaxis.label, axes.yaxis.label]
    texts += axes.get_legend().get_texts() if axes.get_legend() else []
    about = [text.get_text() for text in texts if "[red]" in text.get_text()]
    assert bool(about) == (not isinstance(hostile_result, LeaveOneOut))
    assert all(matplotlib.cbook.is_math_text(text) is False for text in about)
    axes.figure.canvas.draw()
    matplotlib.pyplot.close("all")


def test_without_the_library_an_error_names_the_extra(hostile_result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"plot needs matplotlib, .*pip install 'deciban\[all\]'"):
        hostile_result.plot()
    with pytest.raises(ImportError, match=r"to_frame needs pandas, .*pip install 'deciban\[all\]'"):
        hostile_result.to_frame()
    assert repr(hostile_result), "what needs neither works"


def test_what_is_visible_keeps_its_length():
    """Spans of a text point at characters: each stands for itself."""
    assert all(len(visible(chr(code))) == len(one_line(chr(code))) == 1 for code in range(0x11000))
    assert visible("a\tb\nc") == "a\tb\nc"
    assert one_line("a\tb\nc") == "a␉b␊c"
    assert label("$a$ \\$") == r"\$a\$ \\$"


def test_evidence_that_rules_out_is_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    why = Evidence("a", "b", 1.0, (("x", 1.0, np.inf), ("x", 1.0, -np.inf), ("y", 2.0, 4.0)), 0.5)
    assert why.total == 1.0, "0/0 is answered by the prior"
    axes = why.plot()
    lengths = [bar.get_width() for bar in axes.patches]
    assert lengths[0] == 1.0
    assert lengths[1] == -lengths[2] > 4.0, "two items of one name are two bars, longer than what is finite"
    assert [text.get_text() for text in axes.texts] == ["∞", "−∞"]
    matplotlib.pyplot.close("all")


def test_many_items_are_summed_up_in_the_picture():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    items = tuple((f"x{i}", 1.0, float(50 - i)) for i in range(50))
    axes = Evidence("a", "b", 0.0, items, 0.9).plot()
    assert axes.get_yticklabels()[-1].get_text() == "30 more"
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(sum(range(51)))
    model = TextClassifier().fit(["win cash now", "lunch at noon"] * 3, ["spam", "ham"] * 3)
    names = [text.get_text() for text in model.explain("cash now", by="item").plot().get_yticklabels()]
    assert "cash (word)" in names
    names = [text.get_text() for text in model.explain("cash now cash").plot().get_yticklabels()]
    assert {"cash (2 times)", "now"} <= set(names)
    assert "prior odds" in names
    matplotlib.pyplot.close("all")


def test_a_picture_of_leave_one_out_is_what_was_right_by_how_sure():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    sure = np.repeat([0.6, 0.7, 0.8, 0.9], 25)
    truth = np.concatenate([np.arange(25) >= right for right in (10, 20, 15, 25)]).astype(int)
    log_proba = np.log(np.column_stack([sure, 1 - sure]))
    curve = LeaveOneOut(np.array([0, 1]), log_proba, truth).plot().lines[1].get_xydata()
    assert len(curve) == 10
    assert curve[:, 0].tolist() == sorted(curve[:, 0])
    np.testing.assert_allclose(curve.mean(axis=0), [sure.mean(), 0.7])
    doubled = LeaveOneOut(np.array([0, 1]), log_proba[::25], truth[::25], np.array([1.0, 0.0, 2.0, 3.0]))
    np.testing.assert_allclose(doubled.plot().lines[1].get_xydata(), [[0.6, 1.0], [0.8, 1.0], [0.9, 1.0]])
    nothing = LeaveOneOut(np.array([0, 1]), np.empty((0, 2)), np.empty(0, dtype=int))
    assert len(nothing.plot().lines) == 2, "no rows, and still no error"
    matplotlib.pyplot.close("all")


def test_a_table_folds_its_texts_where_it_is_narrow():
    words = "as long as a sentence that explains why something is what it is " * 2
    table = Table("t", ("name", "n", "why", "share"), [("x", 12, words, 0.5), ("y", None, "short", None)], width=40)
    lines = repr(table).splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(line[10:33].strip() for line in lines[2:-1]).split() == words.split()
    assert lines[1] == "name   n  why" + " " * 22 + "share"
    wide = Table("t", ("a", "b"), [("x" * 30, 1)], width=10)
    assert "x" * 8 in repr(wide), "there is a least width"
    assert max(map(len, repr(Table("t", ("a",), [(words,)])).splitlines())) == len(words.rstrip())


def test_bars_are_to_one_scale_and_grow_to_both_sides():
    why = Evidence("a", "b", -40.0, (("x", "", 60.0), ("y", "", 30.0), ("z", "", 0.4)), 0.9)
    rows = {row[0]: str(row[3]) for row in why.to_table().rows}
    assert rows["x"] == " " * 8 + "|" + "+" * 12
    assert rows["y"] == " " * 8 + "|" + "+" * 6, "half as long"
    assert rows["prior odds"] == "-" * 8 + "|"
    assert rows["z"].strip() == "|"
    assert rows["total"] == "", "a sum is no item"
    many = Evidence("a", "b", 1.0, tuple((f"x{i}", "", 2.0) for i in range(30)), 0.9).to_table().rows
    assert [str(row[3]) for row in many if row[0] in ("x0", "7 more")] == ["|" + "+" * 20, ""]
    assert signed_bars([3.0, 1.0])[1] == "|" + "+" * 7, "no room for a side that no bar is on"
    assert signed_bars([np.inf, 5.0, -5.0]) == [" " * 10 + "|" + "+" * 10, " " * 10 + "|" + "+" * 10, "-" * 10 + "|"]
    assert signed_bars([0.0, 0.0]) == ["|", "|"]
    assert signed_bars([]) == []
    lengths = {len(bar.blocks()) for bar in signed_bars([1e-9, -1e6, 1e6])}
    assert max(lengths) == 21


@pytest.mark.parametrize(("encoding", "sign"), [("utf-8", "██"), ("ascii", "++")])
def test_bars_are_blocks_on_a_terminal_that_has_them(encoding, sign):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    Console(file=file, width=80, force_terminal=True).print(Evidence("a", "b", 1.0, (("x", "", 9.0),), 0.9))
    file.flush()
    page = file.buffer.getvalue().decode(encoding)
    assert sign in page
    assert ("++" in page) == (encoding == "ascii")


def test_bars_in_a_notebook_are_drawn():
    page = Evidence("a", "b", -5.0, (("x", "", 15.0),), 0.9)._repr_html_()
    assert page.count("linear-gradient(to right,transparent 25.0%,currentColor 25.0% 100.0%") == 1
    assert page.count("linear-gradient(to right,transparent 0.0%,currentColor 0.0% 25.0%") == 1


def test_nothing_is_minus_zero():
    assert [signed(value) for value in (-0.0, -0.04, 0.04, 0.0)] == ["0.0"] * 4
    assert signed(-0.05, 2) == "-0.05"
    tiny = Evidence("b", "a", -0.0, (("x", -0.0, -0.001),), 0.5)
    assert re.findall(r"(?<!\d)[-−]0(?:\.0+)?(?!\.?\d)", repr(tiny) + repr(Table("t", ("n",), [(-0.0,)]))) == []


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (123456.78, "123456.78"),
        (1234567.891, "1234567.891"),
        (896052.78, "896052.78"),
        (35.0, "35"),
        (0.1 + 0.2, "0.3"),
        (float(np.float32(0.1)), "0.1"),
        (1 / 3, "0.33333333"),
        (1e20, "1e+20"),
        (-7.5e-9, "-7.5e-09"),
        (float("nan"), "–"),
    ],
)
def test_a_value_of_the_data_keeps_its_digits(value, written):
    assert value_text(value) == written
    assert Evidence("b", "a", 0.0, (("x", value, 1.0),), 0.5).shown_value(value) == written


@pytest.mark.parametrize(("items", "listed"), [(5, 5), (14, 12), (16, 12), (18, 14), (28, 21), (100, 24)])
def test_more_is_listed_where_much_would_be_hidden(items, listed):
    """All items alike: three quarters of them are three quarters of the evidence; 12 at least, 24 at most."""
    why = Evidence("b", "a", 0.0, tuple((f"x{i}", 1.0, 1.0) for i in range(items)), 0.5)
    assert len(re.findall(r"^x\d+ ", repr(why), flags=re.MULTILINE)) == listed
