"""A saved model is loaded and predicts in a fresh process without slow imports."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import deciban
from deciban._kernel.text import Documents
from deciban.text.graded import Graded, numbered
from deciban.text.sums import narrowed

SLOW_IMPORTS = (
    "sklearn",
    "scipy",
    "pandas",
    "pyarrow",
    "polars",
    "narwhals",
    "threadpoolctl",
    "matplotlib",
    "rich",
    "typer",
)

# These are not imported, except SciPy for sparse matrices: many texts for a plain model.
ASK_SCRIPT = """
import json, sys
from deciban.scorer import read
scorer, rows, plain = read(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3] == "plain"
why = scorer.explain(rows)
answer = {"why": why.to_dict(), "shown": repr(why), "strongest": repr(scorer.top_evidence(3))}
if not plain:
    answer["proba"] = scorer.predict_proba(rows).tolist()
answer["heavy"] = [name for name in SLOW_IMPORTS if name in sys.modules]
print(json.dumps(answer))
"""

# Each module below these, imported alone, does not import the slow ones.
IMPORT_SCRIPT = """
import importlib, sys
from pathlib import Path
import deciban
above, folder = sys.argv[1].split(), Path(deciban.__file__).parent
for path in sorted(folder.rglob("*.py")):
    names = path.relative_to(folder).with_suffix("").parts
    if names == ("server", "file_examples"):  # reads files, and is imported when the first one comes
        continue
    if names[0] not in above or ".".join(names) == "engines.dispatch":
        importlib.import_module(".".join(("deciban", *names)).removesuffix(".__init__"))
        imported = [name for name in SLOW_IMPORTS if name in sys.modules]
        assert not imported, f"{names} imports {imported}"
print(len(sys.modules))
"""
UPPER_LAYERS = (
    "__main__",
    "cli",
    "demo",
    "engines",
    "estimators",
    "export",
    "pictures",
    "report",
    "sources",
    "river",
    "explanations",
)

SPAM = [f"win cash prize number {i}, claim it now" for i in range(30)]
HAM = [f"lunch at noon in room {i}, see you there" for i in range(30)]
LABELS = ["spam"] * 30 + ["ham"] * 30
SIZES = np.random.default_rng(0).normal(size=60) + np.repeat([0.0, 2.0], 30)


def in_a_fresh_process(code: str, *arguments: str) -> str:
    code = f"SLOW_IMPORTS = {SLOW_IMPORTS!r}\n{code}"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def table(texts: bool) -> dict:
    columns = {
        "size": SIZES.tolist(),
        "colour": ["red", "green", None] * 20,
        "when": ["2024-05-06"] * 30 + ["2025-01-02"] * 30,
    }
    return columns | ({"note": SPAM + HAM} if texts else {})


CASES = {
    "table": (
        lambda: deciban.Classifier(n_jobs=1).fit(table(False), LABELS),
        {"size": [0.5], "colour": ["red"], "when": ["2024-05-06"]},
    ),
    "table with texts": (
        lambda: deciban.Classifier(n_jobs=1).fit(table(True), LABELS),
        {"size": [0.5], "colour": [None], "when": ["2024-05-06"], "note": ["claim your lunch"]},
    ),
    "text": (lambda: deciban.TextClassifier().fit(SPAM + HAM, LABELS), ["claim your lunch now"]),
    "text with a prior": (
        lambda: deciban.TextClassifier(prior={"free": {"spam": 3}}).fit(SPAM + HAM, LABELS),
        ["claim your free lunch now"],
    ),
    "mail": (
        lambda: deciban.SpamFilter().train(SPAM, "spam").train(HAM, "ham"),
        ["Subject: you win\n\nClaim your lunch now"],
    ),
    **{
        f"plain, {family}": (
            lambda family=family: deciban.TextClassifier(reliability=None, family=family).fit(SPAM + HAM, LABELS),
            ["claim your lunch now"],
        )
        for family in ("multinomial", "bernoulli", "complement")
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_saved_model_answers_without_what_is_slow_to_import(case, tmp_path):
    make, rows = CASES[case]
    model = make()
    model.save(path := tmp_path / "model.deciban")
    answer = json.loads(in_a_fresh_process(ASK_SCRIPT, str(path), json.dumps(rows), case.partition(",")[0]))
    assert answer["heavy"] == []
    expected = model.explain(rows)
    assert answer["why"] == json.loads(json.dumps(expected.to_dict())), "the same numbers, bit for bit"
    assert answer["shown"] == repr(expected)
    assert "spam" in answer["strongest"]
    if "proba" in answer:
        assert answer["proba"] == model.predict_proba(rows).tolist()


def test_nothing_below_the_models_imports_scipy_or_a_data_frame_library():
    pytest.importorskip("starlette", reason="the server is not installed: pip install 'deciban[server]'")
    assert int(in_a_fresh_process(IMPORT_SCRIPT, " ".join(UPPER_LAYERS))) > 0


# ------------------------------------------------------------------ a single text


def graded(prior: dict | None = None) -> Graded:
    model = deciban.TextClassifier(prior=prior).fit(SPAM + HAM, LABELS)
    return replace(model.model_)  # as if just loaded: nothing is derived yet


@pytest.mark.parametrize("prior", [None, {"free": {"spam": 3}, "lunch": 1}])
def test_tables_of_a_few_items_agree_with_full_tables(prior, monkeypatch):
    monkeypatch.setattr("deciban.text.graded.ITEMS_PER_CALL", 0)  # of so small a model tables are made at once
    few, all_ = graded(prior), graded(prior)
    all_.tables()
    texts = Documents(["claim your free lunch", "", "never seen words", SPAM[3]])
    ((_, rows),) = numbered(texts, few.sums.lexicon, few.sums.blocks, 1)
    assert np.array_equal(few.evidence(rows), all_.evidence(rows))
    assert few.evidence(rows).any()
    assert "tables" not in few._cache


def test_all_tables_are_made_once_as_many_items_were_asked_for(monkeypatch):
    monkeypatch.setattr("deciban.text.graded.ITEMS_PER_CALL", 0)
    model = graded()
    ((_, rows),) = numbered(Documents(SPAM + HAM), model.sums.lexicon, model.sums.blocks, 1)
    asked, items = sum(len(indices) for _, indices in rows.values()), sum(c.size for c in model.sums.cells.values())
    assert items < asked < 10 * items  # so that deriving them for all words pays off at once
    model.evidence(rows)
    assert "tables" in model._cache
    one, other = ({block: (indptr[:2], indices[: indptr[1]]) for block, (indptr, indices) in rows.items()}, graded())
    for _ in range(1 + items // sum(len(indices) for _, indices in one.values())):
        assert "tables" not in other._cache
        other.evidence(one)
    assert "tables" in other._cache


def test_rows_are_renumbered_by_the_items_they_have():
    rows = np.array([0, 3, 3, 6], dtype=np.int64), np.array([7, -1, 2, 2, 99, 7], dtype=np.int32)
    which, (indptr, numbers) = narrowed(rows, 50)
    assert which.tolist() == [2, 7]
    assert indptr is rows[0]
    assert numbers.tolist() == [1, -1, 0, 0, -1, 1]
    assert numbers.dtype == np.int32
    which, (_, numbers) = narrowed((np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32)), 50)
    assert len(which) == len(numbers) == 0


def test_families_are_known_by_name_before_they_are_imported():
    from deciban import families

    assert "tree" in families.FAMILIES
    assert "weibull" not in families.FAMILIES
    assert families.FAMILIES["multivariate_gaussian"] is families.MultivariateGaussian
    assert all(family.name == name for name, family in families.FAMILIES.items())
    with pytest.raises(AttributeError, match="no attribute 'Weibull'"):
        _ = families.Weibull
