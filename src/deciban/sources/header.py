"""Whether the first line of a table names its columns, and names for columns that have none."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence

from deciban.sources.column_types import MISSING, as_number

MAX_ROWS = 1000  # enough to decide
MAX_WORDS_OF_NAME = 3  # of a column among several
DELIMITERS = ",;\t|"
MIN_REPEATS, MIN_SHARE = 2, 0.01  # how often a cell of the first line is repeated below it, if that is a row too


def has_header(rows: Sequence[Sequence[str]]) -> bool | None:
    """Whether the first of these rows names the columns; None if that is unclear.

    If columns hold numbers, a first line without numbers names them. Otherwise names are cells that are not repeated
    below.

    >>> has_header([["age", "job"], ["39", "clerk"], ["50", "clerk"]])
    True
    >>> has_header([["39", "clerk"], ["50", "cook"], ["28", "clerk"], ["31", "clerk"]])
    False
    >>> has_header([["39", "a"], ["50", "b"], ["28", "a"]]), has_header([["2019", "town"], ["50", "b"], ["28", "a"]])
    (False, True)
    >>> has_header([["2019", "2020"], ["5", "7"]]) is None
    True
    """
    if not rows:
        return None
    first, rest = [cell.strip() for cell in rows[0]], rows[1 : MAX_ROWS + 1]
    below = [[row[j].strip() for row in rest if j < len(row)] for j in range(len(first))]
    numeric = {j for j, cells in enumerate(below) if all_numbers(cells)}
    if any(as_number(first[j]) is None for j in numeric):
        return True
    if any(as_number(cell) is not None and not is_whole(cell) for cell in first):
        return False  # 5.1 is not a column name
    few = 1 if any(as_number(cell) is not None for cell in first) else MIN_REPEATS  # names are rarely numbers
    enough = max(few, MIN_SHARE * len(rest))
    names = [j for j in range(len(first)) if j not in numeric and first[j] and first[j] not in MISSING]
    if any(Counter(below[j])[first[j]] >= enough for j in names):
        return False
    return None if all(as_number(cell) is not None for cell in first) else True


def names_columns(line: str, columns: Sequence[str]) -> bool:
    """Whether the first line of a table that should have one of these columns names columns, rather than being a text.

    >>> names_columns("id,text", ["text"]), names_columns("message", ["text"]), names_columns("id;message body", [])
    (True, True, True)
    >>> names_columns("See you at noon", ["text"]), names_columns("Ok, at noon then", ["text"])
    (False, False)
    """
    found = [next(csv.reader([line.rstrip("\r")], delimiter=delimiter), []) for delimiter in DELIMITERS]
    if any(column in cells for cells in found for column in columns):
        return True
    cells = max(found, key=len)
    words = MAX_WORDS_OF_NAME if len(cells) > 1 else 1
    return all(cell == cell.strip() and 1 <= len(cell.split()) <= words for cell in cells)


def all_numbers(cells: Sequence[str]) -> bool:
    """Whether cells are numbers or missing, and not all missing."""
    present = [cell for cell in cells if cell not in MISSING]
    return bool(present) and all(as_number(cell) is not None for cell in present)


def is_whole(cell: str) -> bool:
    return cell.lstrip("+-").isdigit()


def numbered_names(count: int) -> tuple[str, ...]:
    """Names for the columns of a table without a header."""
    return tuple(f"column{number}" for number in range(1, count + 1))


def unique_names(names: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Distinct names, none of them empty, and notes on what was changed.

    An unnamed first column is the index of a data frame, as pandas and R write it.

    >>> unique_names(["", "a", "b", "a", ""])
    (('index', 'a', 'b', 'a (2)', 'column5'), ["columns 2 and 4 are both called 'a': the second is renamed 'a (2)'"])
    """
    places: dict[str, int] = {}
    notes: list[str] = []
    taken, numbers = set(names), Counter[str]()  # the next number of each name
    for number, given in enumerate(names, 1):
        name = given if given.strip() else "index" if number == 1 else f"column{number}"
        if name in places:
            first, again = places[name], max(2, numbers[name])
            while f"{name} ({again})" in taken:
                again += 1
            numbers[name] = again + 1
            notes.append(
                f"columns {first} and {number} are both called {name!r}: the second is renamed '{name} ({again})'"
            )
            name = f"{name} ({again})"
        places[name] = number
        taken.add(name)
    return tuple(places), notes
