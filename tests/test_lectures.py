"""The lectures: every chapter runs, every system is worked in one of them, every exercise has a solution that runs."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib").use("Agg")

DOCS = Path(__file__).parents[1] / "docs"
spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
notebooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebooks)
TEXTS = {page.stem: page.read_text(encoding="utf-8") for page in notebooks.PAGES}
QUICK = ("2-documents-and-smoothing", "3-bernoulli-and-categorical")  # less than a second each


def run(text: str, name: str = "page") -> None:
    """All blocks of a page, those of solutions too, one after another; what is asserted there holds, or this fails."""
    import matplotlib.pyplot as plt

    names = {}
    for block in notebooks.BLOCK.finditer(text):
        above = "\n" * text.count("\n", 0, block.start(1))  # so that an error has the line of the page
        exec(compile(above + block[1], f"{name}.md", "exec"), names)
    plt.close("all")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TEXTS]
)
def test_a_chapter_runs(name):
    run(TEXTS[name], name)


def test_a_wrong_number_is_noticed():
    text = TEXTS["1-bayes-rule"]
    assert text.count("10 / 14") == 1
    with pytest.raises(AssertionError):
        run(text.replace("10 / 14", "10 / 15"))


def test_every_system_is_worked():
    headings = re.findall(r"^## (S\d.*)$", "\n".join(TEXTS.values()), re.MULTILINE)
    worked = {int(number) for heading in headings for number in re.findall(r"\bS(\d+)", heading)}
    assert worked == set(range(1, 24))


@pytest.mark.parametrize("name", TEXTS)
def test_every_exercise_has_a_solution_that_runs(name):
    exercises = re.split(r"^### Exercise ", TEXTS[name], flags=re.MULTILINE)[1:]
    assert len(exercises) >= 3
    for number, exercise in enumerate(exercises, start=1):
        assert exercise.startswith(f"{name[0]}.{number}: ")
        question, solution = exercise.split("<details")
        assert "```python" not in question
        assert "assert " in "".join(notebooks.BLOCK.findall(solution))


@pytest.mark.parametrize("name", TEXTS)
def test_a_chapter_is_a_notebook(name):
    made = json.loads(json.dumps(notebooks.notebook(TEXTS[name])))
    code = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]
    prose = "\n".join(cell["source"] for cell in made["cells"] if cell["cell_type"] == "markdown")
    solutions = notebooks.BLOCK.findall(prose)
    shown = [block.rstrip("\n") for block in notebooks.BLOCK.findall(TEXTS[name])]
    assert sorted(
        [*(cell for cell in code if cell != notebooks.ANSWER), *(block.rstrip("\n") for block in solutions)]
    ) == sorted(shown)
    assert code.count(notebooks.ANSWER) == prose.count("<details") == prose.count("</details>") == len(solutions)
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])


def test_notebooks_are_valid():
    nbformat = pytest.importorskip("nbformat", reason="comes with Jupyter, which only the site needs")
    for text in TEXTS.values():
        nbformat.validate(notebooks.notebook(text))
