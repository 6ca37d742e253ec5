"""Linters, types and layers: each is a test, so that one pool of work keeps all cores busy to the end."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKS = [  # the longest first
    "mypy src/deciban",
    "lint-imports --no-logo",
    "cython-lint src",
    "ruff check .",
    "ruff format --check .",
]


@pytest.mark.parametrize("check", CHECKS)
def test_check(check):
    program, *arguments = check.split()
    beside = Path(sys.executable).parent
    executable = shutil.which(program, path=str(beside)) or shutil.which(program)
    assert executable, f"{program} is not installed: pip install '.[dev]'"
    done = subprocess.run([executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{check}\n{done.stdout}{done.stderr}"


def test_no_class_has_the_name_of_another():
    """One word, one thing: whoever searches for a class finds it."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.pyx")]
    names = [name for file in files for name in re.findall(r"^(?:cdef )?class (\w+)", file.read_text(), re.MULTILINE)]
    assert [name for name, times in Counter(names).items() if times > 1] == []
