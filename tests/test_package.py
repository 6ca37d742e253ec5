"""The package itself: quick to import, lazy, layered, typed."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import deciban


def test_import_is_lazy():
    code = (
        "import sys, deciban\n"
        "heavy = [m for m in ('sklearn', 'pandas', 'scipy', 'numpy', 'rich', 'safetensors') if m in sys.modules]\n"
        "print(heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_core_learns_and_predicts_without_scikit_learn(tmp_path):
    """A saved model is read and scored by the core alone."""
    path = tmp_path / "words.deciban"
    deciban.MultinomialNB().fit([[3, 0], [0, 2]], ["a", "b"]).save(path)
    code = (
        "import sys, numpy as np\n"
        "from deciban.storage import files\n"
        "from deciban import score\n"
        f"model, _ = files.read({str(path)!r})\n"
        "print(score.apply([np.array([[2.0, 0.0]])], model, 'posterior').round(6).tolist())\n"
        "print('sklearn' in sys.modules, 'pandas' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = deciban.MultinomialNB().fit([[3, 0], [0, 2]], ["a", "b"]).predict_proba([[2.0, 0.0]]).round(6)
    assert done.stdout.split("\n")[:2] == [str(expected.tolist()), "False False"]


def test_every_public_name_is_there_and_documented():
    for name in deciban.__all__:
        public = getattr(deciban, name)
        assert public.__doc__, name
        assert name in dir(deciban)
    assert deciban.__version__ == version("deciban")
    with pytest.raises(AttributeError, match="no attribute 'NoSuchModel'"):
        _ = deciban.NoSuchModel


def test_the_package_carries_its_types():
    folder = Path(deciban.__file__).parent
    assert (folder / "py.typed").exists()
    stubs = {stub.stem for stub in (folder / "_kernel").glob("*.pyi")}
    assert stubs == {
        "moments",
        "counts",
        "scores",
        "gaussian",
        "posterior",
        "pool",
        "scatter",
        "evidence",
        "forest",
        "contexts",
        "marginals",
        "text",
        "conformal",
        "common",
        "json",
        "filter_index",
        "boosting",
        "versions",
        "mail",
        "csv",
    }
