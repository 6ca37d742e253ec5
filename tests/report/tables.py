"""A small table with columns of every kind, and hostile strings."""

from __future__ import annotations

import numpy as np

HOSTILE = "<script>alert(1)</script>\"'&amp;\u202eevil\x1b[31m\x00\n\ud800"
CLOSING = "</title></style><img src=x onerror=alert(1)>"
LONG = "w" * 3000


def mixed_table(n: int = 240, seed: int = 0):
    """A table with numbers, categories, texts, gaps, a constant and a name of rows; and two classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    table = {
        "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n) + 1.5 * y),
        "colour": np.where(rng.random(n) < 0.25 + 0.5 * y, "red", "blue").tolist(),
        "note": [" ".join(rng.choice(["cash", "lunch", "noon", "prize"], 6)) for _ in range(n)],
        "id": [f"row-{i:04d}" for i in range(n)],
        "same": ["x"] * n,
    }
    return table, np.array(["no", "yes"])[y]
