"""Examples in docstrings, README and docs say what comes out."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import deciban

ROOT = Path(__file__).parents[2]
# A script that runs as soon as it is imported.
MODULES = sorted(m.name for m in pkgutil.walk_packages(deciban.__path__, "deciban.") if not m.name.endswith("__main__"))
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", *sorted(ROOT.joinpath("docs").rglob("*.md"))]
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", ["deciban", *MODULES])
def test_examples_of_a_module(name, capsys):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert not failed, capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_a_page(page, capsys):
    failed, tried = doctest.testfile(str(ROOT / page), module_relative=False, encoding="utf-8")
    assert tried
    assert not failed, capsys.readouterr().out


def test_there_are_examples():
    """Nobody has turned them off by moving the folders."""
    assert len(MODULES) > 100
    assert {"README.md", "docs/tutorial.md"} <= set(PAGES)
