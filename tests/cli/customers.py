"""A realistic table: columns of several kinds, with missing values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def people(rows: int, seed: int = 0) -> pd.DataFrame:
    """Customers, some of whom leave: numbers, a category, a boolean and a date, with values missing."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    leaves = rng.random(rows) < 0.4
    plan = np.where(leaves, rng.choice(["basic", "basic", "plus"], rows), rng.choice(["basic", "plus", "gold"], rows))
    frame = pd.DataFrame(
        {
            "age": np.round(rng.normal(np.where(leaves, 48, 36), 9)),
            "spent": np.round(rng.gamma(3, np.where(leaves, 900, 9000)), 2),
            "plan": plan,
            "active": np.where(rng.random(rows) < np.where(leaves, 0.3, 0.8), "true", "false"),
            "joined": pd.to_datetime("2019-01-01") + pd.to_timedelta(rng.integers(0, 1500, rows), "D"),
            "leaves": np.where(leaves, "yes", "no"),
        }
    )
    frame["joined"] = frame["joined"].dt.strftime("%Y-%m-%d")
    for name, share in (("age", 0.1), ("spent", 0.05), ("plan", 0.08)):
        frame.loc[rng.random(rows) < share, name] = None
    return frame


def write_people(frame: pd.DataFrame, path: Path) -> Path:
    """As CSV, with whole numbers as such."""
    frame.astype({"age": "Int64"}).to_csv(path, index=False, na_rep="?")
    return path


def read_people(path: Path) -> pd.DataFrame:
    """The same file, read by pandas."""
    import pandas as pd

    return pd.read_csv(path, na_values=["?"], keep_default_na=False, parse_dates=["joined"])
