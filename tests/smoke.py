"""What must work right after installation, with the package alone: run by `make wheel` and by every build of a wheel.

It needs no test runner, no data and no optional package: python tests/smoke.py
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path

import numpy as np

import deciban

WORDS = ["dog", "cat", "tulip", "rose"]


def evidence_adds_up() -> None:
    """The lectures' example: six words are worth 23.01 decibans."""
    counts = np.array([[50, 40, 5, 5], [10, 10, 50, 30]])
    model = deciban.MultinomialNB(alpha=0, fit_prior=False).fit(counts, ["+", "-"])
    document = [[3, 2, 1, 0]]
    odds = np.subtract(*model.predict_joint_log_proba(document)[0])
    assert abs(10 * np.log10(np.exp(odds)) - 23.0103) < 1e-4, odds
    assert abs(np.divide(*model.predict_proba(document)[0]) - 200) < 1e-9


def sums_add_and_subtract() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.arange(200) % 2
    X[y == 1] += 1.5
    whole = deciban.GaussianNB().fit(X, y)
    merged = deciban.GaussianNB().fit(X[:90], y[:90]) + deciban.GaussianNB().fit(X[90:], y[90:])
    np.testing.assert_allclose(merged.predict_proba(X), whole.predict_proba(X), rtol=1e-9)
    forgotten = deciban.GaussianNB().fit(X, y).forget(X[90:], y[90:])
    np.testing.assert_allclose(
        forgotten.predict_proba(X), deciban.GaussianNB().fit(X[:90], y[:90]).predict_proba(X), rtol=1e-9
    )


def tables_and_files() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 300)
    table = {
        "size": (rng.normal(size=300) + y).tolist(),
        "colour": [["red", "blue"][c] for c in (y ^ (rng.random(300) < 0.2))],
    }
    model = deciban.Classifier(n_jobs=1).fit(table, np.array(["no", "yes"])[y])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.deciban")
        model.save(path)
        np.testing.assert_array_equal(deciban.load(path).predict_proba(table), model.predict_proba(table))
        np.testing.assert_allclose(deciban.read(path).predict_proba(table), model.predict_proba(table), rtol=1e-9)
    assert model.score(table, np.array(["no", "yes"])[y]) > 0.75


def threads_share_a_model() -> None:
    """One thread learns documents while others ask: each answer is of one state, and the sums are right in the end."""
    texts, labels = (
        ["win money now", "free money now", "lunch at noon", "meeting at noon"] * 5,
        ["spam", "spam", "ham", "ham"] * 5,
    )
    model, errors = deciban.TextClassifier(n_jobs=1).fit(texts, labels), []
    more = [f"word{i % 40} money meeting{i % 7}" for i in range(120)]

    def learn() -> None:
        try:
            for text in more:
                model.partial_fit([text], ["spam"])
            for text in more:
                model.forget([text], ["spam"])
        except Exception as error:
            errors.append(error)

    def ask() -> None:
        try:
            for i in range(150):
                answer = model.predict_proba([f"word{i % 40} at noon"])
                assert abs(answer.sum() - 1) < 1e-9, answer
        except Exception as error:
            errors.append(error)

    before = model.predict_proba(more)
    threads = [threading.Thread(target=one) for one in (learn, ask, ask, ask)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    np.testing.assert_allclose(model.predict_proba(more), before, rtol=1e-9)


def programs_start() -> None:
    shown = subprocess.run([sys.executable, "-m", "deciban", "--version"], capture_output=True, text=True, check=True)
    assert deciban.__version__ in shown.stdout, shown
    if sys.platform != "win32":
        scripts = Path(sysconfig.get_path("scripts"))
        done = subprocess.run([scripts / "deciban-filter", "--version"], capture_output=True, text=True, check=True)
        assert deciban.__version__ in done.stdout, done


def no_lock_is_needed() -> None:
    """An interpreter without a lock still has none after all kernels are imported."""
    for kernel in Path(deciban.__file__).parent.joinpath("_kernel").glob("*.pyi"):
        __import__(f"deciban._kernel.{kernel.stem}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled(), "a kernel has switched the interpreter's lock on"


if __name__ == "__main__":
    for check in (
        no_lock_is_needed,
        evidence_adds_up,
        sums_add_and_subtract,
        tables_and_files,
        threads_share_a_model,
        programs_start,
    ):
        check()
        print(f"ok  {check.__name__.replace('_', ' ')}")
