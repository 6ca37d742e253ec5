"""Fixtures for all tests: real data where it is there, and the fixtures scikit-learn's own tests ask for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "deciban", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("deciban")

DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@pytest.fixture(params=[0, 7, 42])
def global_random_seed(request):
    return request.param


@pytest.fixture(params=["float32", "float64"])
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
