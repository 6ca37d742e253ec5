"""Attributes that have a new name: the old one still works, with a warning."""

from __future__ import annotations

import warnings
from typing import Any


def renamed(old: str, new: str) -> property:
    """An attribute under its old name.

    >>> class Result:
    ...     rows = 3
    ...     lines = renamed("lines", "rows")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Result().lines, str(caught[0].message)
    (3, 'Result.lines is now called rows')
    """

    def get(self: Any) -> Any:
        warnings.warn(f"{type(self).__name__}.{old} is now called {new}", DeprecationWarning, stacklevel=2)
        return getattr(self, new)

    return property(get, doc=f"The old name of `{new}`.")
