"""For all tests: how thorough they are, real data if available, and fixtures for scikit-learn's own tests."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # cores are in use by processes already: threads of BLAS would only compete
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # read when NumPy is first imported

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

for _name, _examples in (("quick", 6), ("thorough", 60)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=True,
    )

CROSSED = 6  # of all combinations of a test's parameters, one in this many runs in `make test`
DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def version_of(package: str) -> tuple[int, ...]:
    """The version that is installed, as (1, 9)."""
    return tuple(int(part) for part in version(package).split(".")[:2])


BEFORE_SKLEARN_1_9 = version_of("scikit-learn") < (1, 9)
DIVISOR = "before version 1.9 the svd solver of scikit-learn divides by n − k or n − 1, and deciban by n"


def pytest_addoption(parser):
    parser.addoption("--engines", default="all", help="which engines to test, as in stream,duckdb: %(default)s")
    parser.addoption("--bare", action="store_true", help="skip tests of optional packages that are not installed")


def pytest_configure(config):
    config.addinivalue_line("markers", "engine(name): needs this engine, which `--engines` may leave out")
    config.addinivalue_line("markers", "crossed(n): of combinations of its parameters, one in n is not slow")
    config.addinivalue_line("markers", "slow_where(pattern): of its cases, those whose name has this pattern are slow")
    quick = "not slow" in config.getoption("markexpr")
    settings.load_profile("quick" if quick else "thorough")


OPTIONAL = {"axe_playwright_python", "calamine", "catboost", "cloudpickle", "cryptography", "dask", "distributed"}
OPTIONAL |= {"duckdb", "httptools", "interpret", "IPython", "lightgbm", "matplotlib", "mkdocs", "mlflow", "onnx"}
OPTIONAL |= {"onnxruntime", "opendp", "pandas", "playwright", "polars", "psycopg", "pyspark", "python_calamine"}
OPTIONAL |= {"river", "safetensors", "shap", "skops", "sqlalchemy", "sqlglot", "starlette", "uvicorn", "uvloop"}
OPTIONAL |= {"xarray", "xlsxwriter"}


def missing_package(error: BaseException | None) -> str | None:
    """The optional package whose absence caused an error."""
    while error is not None:
        name = (getattr(error, "name", None) or "").split(".")[0] if isinstance(error, ImportError) else ""
        if name in OPTIONAL and find_spec(name) is None:
            return name
        error = error.__cause__ or error.__context__
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    name = missing_package(call.excinfo and call.excinfo.value) if item.config.getoption("bare") else None
    if name is not None:
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"needs {name}, which is not installed")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """The same for files that import a package at the top."""
    report = yield
    error = report.call.excinfo if report.failed and collector.config.getoption("bare") else None
    name = missing_package(error.value) if error else None
    if name is not None:
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"needs {name}, which is not installed")
    return report


@pytest.hookimpl(tryfirst=True)  # before slow tests are deselected
def pytest_collection_modifyitems(items):
    """Mark slow tests by `slow_where`; thin out combinations of parameters, to one in n by `crossed(n)`.

    Combinations are taken along diagonals, so that every value is used, each time with another partner.

    `make test-all` runs all combinations, for errors that show only in some of them.
    """
    for item in items:
        mark = item.get_closest_marker("slow_where")
        if mark is not None and re.search(mark.args[0], item.callspec.id):
            item.add_marker(pytest.mark.slow)
    seen, late, met = {}, [], set()
    for item in items:
        if not hasattr(item, "callspec") or item.get_closest_marker("slow") is not None:
            continue
        mark = item.get_closest_marker("crossed")
        values = values_of(item)
        places = [seen.setdefault(key, {}).setdefault(value, len(seen[key])) for key, value in values]
        if sum(places) % (mark.args[0] if mark is not None else CROSSED) == 0:
            met.update(values)
        else:
            late.append((item, values))
    for item, values in late:
        if met.issuperset(values):
            item.add_marker(pytest.mark.slow)
        met.update(values)


def values_of(item):
    """A case's values, as (parameter, object); parameters that are given together are one."""
    given = dict(item.callspec.params)
    where, out = (item.parent.nodeid, item.originalname), []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if isinstance(mark.args[0], tuple | list) else mark.args[0].replace(" ", "").split(",")
        out.append(((*where, *names), tuple(id(given.pop(name)) for name in names)))
    return out + [((*where, name), id(value)) for name, value in given.items()]  # of fixtures


def pytest_terminal_summary(terminalreporter):
    """How long each folder took, of all processes together."""
    parts = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                parts[re.match(r"(?:tests/)?([^/:]+)", report.nodeid)[1]] += report.duration
    if len(parts) > 1:
        terminalreporter.section("seconds by part")
        for part, seconds in [*parts.most_common(), ("together", parts.total())]:
            terminalreporter.write_line(f"{seconds:7.1f} {part}")


@pytest.fixture(scope="session")
def thorough(request) -> bool:
    """Whether slow tests run too; randomised tests then try many more cases."""
    return "not slow" not in request.config.getoption("markexpr")


@pytest.fixture(params=[42, pytest.param(0, marks=pytest.mark.slow), pytest.param(7, marks=pytest.mark.slow)])
def global_random_seed(request):
    return request.param


@pytest.fixture(params=[pytest.param("float32", marks=pytest.mark.slow), "float64"])
def global_dtype(request):
    return np.dtype(request.param)


class Table:
    """A real table: `X` (an object array, None where missing), `y`, and which columns are numbers."""

    def __init__(self, name: str) -> None:
        import pandas as pd

        schema = json.loads((DATA / name / "schema.json").read_text())
        files = sorted((DATA / name).glob("*.csv"))
        frame = pd.concat([pd.read_csv(f, na_values=["?"], keep_default_na=False, dtype=str) for f in files])
        frame = frame[frame[schema["target"]].notna()]
        self.name = name
        self.y = frame[schema["target"]].to_numpy(dtype=str)
        columns = [c for c in schema["columns"] if c["name"] != schema["target"]]
        self.numeric = [c["name"] for c in columns if c["type"] == "numeric"]
        self.nominal = [c["name"] for c in columns if c["type"] != "numeric"]
        self.numbers = frame[self.numeric].apply(pd.to_numeric).to_numpy(dtype=float) if self.numeric else None
        self.categories = frame[self.nominal].astype(object).where(frame[self.nominal].notna(), None).to_numpy()

    def codes(self) -> np.ndarray:
        """Nominal columns as float codes in sorted order, NaN where missing."""
        out = np.full(self.categories.shape, np.nan)
        for j in range(out.shape[1]):
            values = sorted({v for v in self.categories[:, j] if v is not None})
            place = {v: i for i, v in enumerate(values)}
            out[:, j] = [np.nan if v is None else place[v] for v in self.categories[:, j]]
        return out


@pytest.fixture(scope="session")
def table():
    """table("mushroom") loads a set, or skips the test with the reason."""
    loaded: dict[str, Table] = {}

    def get(name: str) -> Table:
        if not (DATA / name / "schema.json").exists():
            pytest.skip(f"there is no data set {name!r}: DECIBAN_DATA says where the sets are")
        if name not in loaded:
            loaded[name] = Table(name)
        return loaded[name]

    return get
