"""Workflows: valid by actionlint where it is installed, actions pinned, and no more rights than needed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_rights_are_few(workflow):
    text = workflow.read_text()
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used), used
    assert re.search(r"^permissions:(?: \{\}|\n  contents: read)$", text, re.MULTILINE)
    assert "secrets." not in text  # what is published is trusted by its workflow, without a password
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def test_every_push_runs_make_test_and_nothing_else():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert re.findall(r"run: (.+)", text) == ["make test"]


def test_every_target_that_workflows_make_exists():
    makefile = (ROOT / "Makefile").read_text()
    for workflow in WORKFLOWS:
        text = workflow.read_text()
        named = {
            *re.findall(r"run: make ([\w-]+)", text),
            *re.findall(r"[\w-]+", " ".join(re.findall(r"target: \[(.+)\]", text))),
        }
        assert [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_actionlint_finds_nothing():
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip("actionlint is not installed")
    done = subprocess.run([program, *WORKFLOWS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_recipe_and_the_citation_agree_with_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]
    recipe = (ROOT / "conda" / "recipe" / "recipe.yaml").read_text()
    run = re.search(r"\n  run:\n(.+?)\n\n", recipe, re.DOTALL)[1]
    wanted = {re.sub(r"^([\w-]+)", r"\1 ", requirement) for requirement in project["dependencies"]}
    assert {line.strip().removeprefix("- ") for line in run.splitlines()} == {"python", *wanted}
    assert f'version: "{version}"' in recipe
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()
