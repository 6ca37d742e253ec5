"""How `train` reads columns: those that it left out, and those that are not obvious."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deciban.show import Table, one_line

if TYPE_CHECKING:
    from deciban.reading.kinds import ColumnKind

MAX_COLUMNS_LISTED = 12
LEFT_OUT = "left out"


def column_kinds(estimator: Any) -> Sequence[ColumnKind]:
    """The columns that a `Classifier` was given, and their kinds; none for other models."""
    reader = getattr(estimator.model_, "reader", None)
    kinds: Sequence[ColumnKind] = () if reader is None else reader.kinds
    return kinds


def as_facts(kinds: Sequence[ColumnKind]) -> list[dict[str, str]]:
    """Columns, how they are read, and why, for --json."""
    return [{"column": kind.name, "kind": kind.kind, "why": kind.why} for kind in kinds]


def to_check(kinds: Sequence[ColumnKind]) -> Table | None:
    """The columns worth checking; None if there are none."""
    from deciban.reading import kinds as reading

    rows = [
        (one_line(kind.name), LEFT_OUT if kind.kind in reading.LEFT_OUT else kind.kind, kind.why)
        for kind in kinds
        if not kind.is_obvious
    ]
    title = "columns to check; --schema COLUMN=KIND corrects a kind"
    return Table(title, ("column", "read as", "why"), rows, most=MAX_COLUMNS_LISTED) if rows else None
