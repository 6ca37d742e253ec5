"""A realistic table: columns of several kinds, with missing values."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def people(rows: int, seed: int = 0) -> dict[str, list[Any]]:
    """Customers, some of whom leave: numbers, a category, a boolean and a date, with values missing."""
    rng = np.random.default_rng(seed)
    leaves = rng.random(rows) < 0.4
    plan = np.where(leaves, rng.choice(["basic", "basic", "plus"], rows), rng.choice(["basic", "plus", "gold"], rows))
    columns = {
        "age": np.round(rng.normal(np.where(leaves, 48, 36), 9)),
        "spent": np.round(rng.gamma(3, np.where(leaves, 900, 9000)), 2),
        "plan": plan,
        "active": np.where(rng.random(rows) < np.where(leaves, 0.3, 0.8), "true", "false"),
        "joined": (np.datetime64("2019-01-01") + rng.integers(0, 1500, rows)).astype(str),
        "leaves": np.where(leaves, "yes", "no"),
    }
    out = {name: column.tolist() for name, column in columns.items()}
    for name, share in (("age", 0.1), ("spent", 0.05), ("plan", 0.08)):
        out[name] = [None if gone else v for v, gone in zip(out[name], rng.random(rows) < share, strict=True)]
    return out


def people_frame(rows: int, seed: int = 0) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(people(rows, seed))


def write_people(table: Mapping[str, Any] | pd.DataFrame, path: Path) -> Path:
    """As CSV, with whole numbers as such."""
    columns = [["?" if v is None or v != v else int(v) if name == "age" else v for v in table[name]] for name in table]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*columns, strict=True))
    return path


def read_people(path: Path) -> pd.DataFrame:
    """The same file, read by pandas."""
    import pandas as pd

    return pd.read_csv(path, na_values=["?"], keep_default_na=False, parse_dates=["joined"])
