"""In a notebook: progress while a cell runs, and evidence that unfolds; in a kernel of Jupyter, and quiet elsewhere."""

from __future__ import annotations

import sys

import pytest

from deciban import GaussianNB, notebook
from deciban.show import bar, progress

CELLS = {
    "shown": """
from deciban import Classifier, notebook
from deciban.show import bar, progress
notebook.FIRST_AFTER = notebook.EVERY = 0.0
with bar("reading <b>", 4_000_000) as watch:
    watch(2_000_000)
    watch(3_000_000)
with progress("EM") as watch:
    watch(7, -12.5)
""",
    "quick": """
notebook.FIRST_AFTER = 1000.0
with bar("fitting", 2, "fits") as watch:
    watch(1)
""",
    "evidence": """
table = {"size": [1.0, 2.0, 7.0, 8.0] * 5, "colour": ["red", "<i>", "red", "red"] * 5}
Classifier().fit(table, list("aabb") * 5).explain({"size": [1.5], "colour": ["<i>"]})
""",
}


@pytest.fixture(scope="module")
def ran():
    """What the cells of a notebook showed: all messages of each that have contents."""
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: make ecosystem")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: make ecosystem")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: make ecosystem")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS.values()])
    messages = {name: [] for name in CELLS}

    class Recorder(nbclient.NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] in ("display_data", "update_display_data", "execute_result", "stream", "error"):
                messages[list(CELLS)[cell_index]].append((msg["msg_type"], msg["content"]))
            return super().process_message(msg, cell, cell_index)

    Recorder(book, timeout=120, kernel_name="python3").execute()
    return book, messages


@pytest.mark.slow
class TestInAKernel:
    def test_a_bar_is_updated_in_place_and_disappears(self, ran):
        book, messages = ran
        kinds = [kind for kind, _ in messages["shown"]]
        new, again = "display_data", "update_display_data"
        assert kinds == [new, again, again, new, again]
        pages = [content["data"]["text/html"] for _, content in messages["shown"]]
        assert "<progress value='0.500'" in pages[0]
        assert "reading &lt;b&gt;: 2 of 4 MB" in pages[0]
        assert "<progress value='0.750'" in pages[1]
        assert pages[2] == ""
        assert "<progress style" in pages[3], "no share is known"
        assert "EM: step 7, -12.5 nats" in pages[3]
        assert all(output["data"]["text/plain"] == "" for output in book.cells[0].outputs), "nothing is left"

    def test_what_is_quick_shows_nothing(self, ran):
        assert ran[1]["quick"] == []

    def test_evidence_unfolds_without_scripts(self, ran):
        (page,) = [content["data"]["text/html"] for kind, content in ran[1]["evidence"] if kind == "execute_result"]
        assert "<details><summary>Step by step</summary><table>" in page
        assert "&lt;i&gt;" in page
        assert "<i>" not in page
        assert "<script" not in page


def test_elsewhere_nothing_is_shown(monkeypatch, capsys):
    monkeypatch.setattr(notebook, "FIRST_AFTER", 0.0)
    assert not notebook.in_notebook()
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with bar("rows", 2) as watch, progress("EM") as step:
        watch(1)
        step(1, 2.0)
    assert capsys.readouterr() == ("", "")
    assert "IPython" not in sys.modules, "it is not imported for the question"


def test_steps_go_from_the_prior_odds_to_the_total():
    model = GaussianNB().fit([[1.0, 5.0], [2.0, 4.0], [8.0, 5.5], [9.0, 4.5], [8.5, 5.0]], list("aabbb"))
    why = model.explain([[2.0, 5.0]])
    rows = why.step_table().rows
    assert [row[0] for row in rows] == ["prior odds", *(name for name, _, _ in why.items)]
    assert rows[0][3:] == ("× 0.6667", "1 : 1.5"), "two rows to three"
    assert float(rows[-1][4].removesuffix(" : 1")) == pytest.approx(10 ** (why.total / 10), rel=1e-3)
