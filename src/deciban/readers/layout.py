"""Which columns go into which block: the parameters `columns` and `rest` as groups of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from numbers import Integral, Real
from typing import Any

import numpy as np

from deciban.errors import DecibanError
from deciban.families import FAMILIES, Family, Multinomial
from deciban.storage.files import rebuild_family

AUTO = ("gaussian", "categorical")  # the default distributions: of numbers, and of all other columns
FAMILY_NAMES = {word: named for family in FAMILIES.values() for word, named in family.by_name().items()}
NAMED_FAMILIES: dict[str, Family] = {word: FAMILY_NAMES[word] for word in AUTO} | FAMILY_NAMES
FAMILY_TYPES = tuple(dict.fromkeys(type(family) for family in NAMED_FAMILIES.values()))
MAX_ALPHA = 1e100  # more pseudo-counts than this would outweigh any data


@dataclass(frozen=True, slots=True)
class Group:
    """A future block: columns, their distribution, and the strength of its prior (a number, "empirical" or "loo")."""

    names: tuple[str, ...]
    family: Family
    alpha: float | str


def lay_out(
    columns: Mapping[Any, Any] | None, rest: Any, alpha: float | str, names: Sequence[str], kinds: Sequence[str]
) -> tuple[Group, ...]:
    """Groups of columns, the same in any order of the columns.

    `kinds` are the kinds of the columns, for columns that no key names. Columns given one by one that have the same
    distribution are one block, which is faster and gives the same model.
    """
    groups: list[Group] = []
    single: dict[tuple[Family, float | str], list[str]] = {}
    taken = named_columns(columns or {}, names)
    for key, matched in taken.items():
        distribution = read_distribution((columns or {})[key], alpha)
        if distribution is None:
            continue
        if is_group(key, names) or not distribution[0].by_column:
            groups.append(group(matched, *distribution))
        else:
            single.setdefault(distribution, []).extend(matched)
    unnamed = sorted(set(names).difference(*taken.values()))
    if unnamed and is_word(rest, "error"):
        raise DecibanError(
            f"columns= does not mention {listed(unnamed)}: give a distribution for it, or one for all others with rest="
        )
    if is_word(rest, "auto"):
        kind_of = dict(zip(names, kinds, strict=True))
        for name in unnamed:
            distribution = read_distribution(AUTO[kind_of[name] not in ("number", "date")], alpha)
            assert distribution is not None
            single.setdefault(distribution, []).append(name)
    elif unnamed and (distribution := read_distribution("drop" if is_word(rest, "error") else rest, alpha)) is not None:
        if distribution[0].by_column:
            single.setdefault(distribution, []).extend(unnamed)
        else:
            groups.append(group(tuple(unnamed), *distribution))
    groups += [group(tuple(sorted(matched)), *distribution) for distribution, matched in single.items()]
    if not groups:
        raise DecibanError("no column is left to learn from: columns= and rest= drop them all")
    return tuple(sorted(groups, key=lambda group: group.names))


def group(names: tuple[str, ...], family: Family, alpha: float | str) -> Group:
    if isinstance(family, Multinomial) and len(names) == 1:
        raise DecibanError(
            f"a bag of words with the single column {names[0]!r} carries no information: put all its columns into "
            f"one key, or use 'poisson' for a count"
        )
    return Group(names, family, alpha)


def read_distribution(value: Any, alpha: float | str) -> tuple[Family, float | str] | None:
    """A family and the strength of its prior, from a name, a family, or a pair of either and a strength; None: drop."""
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise DecibanError(f"{value!r} is not a distribution: give a family, or a pair (family, alpha)")
        value, alpha = value
    if is_word(value, "drop"):
        return None
    if isinstance(value, str):
        if value not in NAMED_FAMILIES:
            raise DecibanError(
                f"{value!r} is not a distribution: choose from {', '.join(map(repr, [*NAMED_FAMILIES, 'drop']))}"
            )
        return NAMED_FAMILIES[value], read_alpha(alpha)
    if type(value) not in FAMILY_TYPES:
        description = f"the family {value.name!r}" if isinstance(value, Family) else f"{value!r}"
        known = ", ".join(family.__name__ for family in FAMILY_TYPES)
        raise DecibanError(
            f"{description} is not a distribution for the columns of a mixed table: give a name, or one of {known}"
        )
    return value, read_alpha(alpha)


def read_alpha(alpha: Any) -> float | str:
    if isinstance(alpha, str) and alpha in ("empirical", "loo"):
        return alpha
    if isinstance(alpha, Real) and not isinstance(alpha, bool) and 0.0 <= float(alpha) <= MAX_ALPHA:
        return float(alpha)
    raise DecibanError(f"alpha is {alpha!r}: it must be a number from 0 to {MAX_ALPHA:g}, 'empirical' or 'loo'")


def named_columns(columns: Mapping[Any, Any], names: Sequence[str]) -> dict[Any, tuple[str, ...]]:
    """The columns that each key names. A pattern matches those that no key names directly."""
    known = set(names)
    owner: dict[str, Any] = {}
    by_key: dict[Any, dict[Any, list[str]]] = {key: {} for key in columns}

    def take(key: Any, part: Any, matched: Iterable[str]) -> None:
        for name in matched:
            if name in owner:
                raise DecibanError(f"columns= names {name!r} twice: by {owner[name]!r} and by {key!r}")
            owner[name] = key
            by_key[key].setdefault(part, []).append(name)

    for key in columns:
        for part in parts_of(key):
            if not is_pattern(part, known):
                take(key, part, [column_name(part, names)])
    exact = set(owner)
    for key in columns:
        for part in parts_of(key):
            if is_pattern(part, known):
                matched = [name for name in sorted(names) if fnmatchcase(name, part) and name not in exact]
                if not matched:
                    raise DecibanError(f"no remaining column matches {part!r}: the columns are {listed(names)}")
                take(key, part, matched)
    return {key: tuple(name for part in parts_of(key) for name in by_key[key][part]) for key in columns}


def parts_of(key: Any) -> tuple[Any, ...]:
    if isinstance(key, tuple):
        if not key:
            raise DecibanError("columns= has an empty key: a group needs at least one column")
        return key
    return (key,)


def is_group(key: Any, names: Sequence[str]) -> bool:
    return isinstance(key, tuple) or is_pattern(key, set(names))


def is_pattern(part: Any, names: set[str]) -> bool:
    """A string with *, ? or [ in it is a pattern, unless a column has this name."""
    return isinstance(part, str) and part not in names and any(mark in part for mark in "*?[")


def column_name(part: Any, names: Sequence[str]) -> str:
    """The column of a name or an index."""
    if isinstance(part, str):
        if part in names:
            return part
        raise DecibanError(f"columns= names {part!r}, which does not exist: the columns are {listed(names)}")
    if isinstance(part, Integral) and not isinstance(part, bool | np.bool_):
        if -len(names) <= int(part) < len(names):
            return names[int(part)]
        raise DecibanError(f"columns= names column {part}, but there are {len(names)} of them, 0 to {len(names) - 1}")
    raise DecibanError(
        f"columns= has the key {part!r}: a key must be a column's name or index, a pattern, or a tuple of these"
    )


def is_word(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


# ------------------------------------------------------------------ in files


def columns_out(columns: Mapping[Any, Any] | None) -> Any:
    """The parameter as it is stored in a file: JSON has neither tuples as keys nor families."""
    if columns is None:
        return None
    return [[list(key) if isinstance(key, tuple) else key, distribution_out(value)] for key, value in columns.items()]


def columns_in(stored: Any) -> dict[Any, Any] | None:
    if stored is None:
        return None
    return {tuple(key) if isinstance(key, list) else key: distribution_in(value) for key, value in stored}


def distribution_out(value: Any) -> Any:
    if isinstance(value, Family):
        return {"family": value.name, "settings": {f.name: getattr(value, f.name) for f in fields(value)}}
    if isinstance(value, tuple | list):
        return [distribution_out(part) for part in value]
    return value


def distribution_in(stored: Any) -> Any:
    if isinstance(stored, dict):
        return rebuild_family(stored["family"], stored["settings"])
    return tuple(distribution_in(part) for part in stored) if isinstance(stored, list) else stored
