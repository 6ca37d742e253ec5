"""Results render themselves: text, terminal, notebook, frame, picture."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from rich.console import Console

from deciban import GaussianMixture, GaussianNB, MultinomialNB
from deciban.show import Table

X = np.array([[3, 0, 1], [2, 1, 0], [0, 4, 1], [1, 3, 3]])
y = ["spam", "spam", "<ham>", "<ham>"]


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
    lines = repr(wide).splitlines()
    assert any(line.startswith("18 more") for line in lines)
    table = Table("t", ("n",), [(i,) for i in range(100)], most=10)
    assert "… and 90 more rows" in repr(table)
    assert len(table.to_dict()["n"]) == 100


def test_leave_one_out_is_a_frame_of_rows(model):
    frame = model.leave_one_out(X, y).to_frame()
    assert frame.columns.tolist() == ["truth", "prediction", "log_loss", "P(<ham>)", "P(spam)"]
    assert frame["truth"].tolist() == y
    np.testing.assert_allclose(frame["P(<ham>)"] + frame["P(spam)"], 1.0)


def test_what_em_found_is_said_in_a_line():
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
