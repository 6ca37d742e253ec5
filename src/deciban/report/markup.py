"""Elements of a page. Whatever is not `Markup` is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from deciban.show import one_line, plain, signed, visible

VOID_TAGS = {"meta", "link", "br"}  # elements without an end tag
MAX_CHARACTERS_SHOWN = 100  # of a word or a value
PERCENT = "\N{NO-BREAK SPACE}%"


class Markup(str):
    """Text that already is markup."""

    __slots__ = ()


class NoSection(Markup):
    """In place of a section: why there is none."""

    __slots__ = ()


def text(value: Any) -> Markup:
    """Anything as escaped text: control characters and markup are shown, never interpreted."""
    return value if isinstance(value, Markup) else escaped(value)


def escaped(value: Any) -> Markup:
    return Markup(html.escape(one_line(str(plain(value)))))


def prose(value: str) -> Markup:
    """A text with its own lines."""
    return Markup(html.escape(visible(value)))


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element. `class_` is its class; an underscore within a name is a hyphen; None is left out.

    >>> tag("p", "1 < 2 ", tag("b", "so"), class_="note")
    '<p class="note">1 &lt; 2 <b>so</b></p>'
    """
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = "".join(text(child) for child in children if child is not None)
    return Markup(f"<{name}{attribute_text}>" if name in VOID_TAGS else f"<{name}{attribute_text}>{content}</{name}>")


def joined(parts: Iterable[Any]) -> Markup:
    """Parts one after another."""
    return Markup("".join(text(part) for part in parts if part is not None))


def cut(value: Any, max_characters: int = MAX_CHARACTERS_SHOWN) -> str:
    """A text, with the middle left out if it is long.

    >>> cut("a-very-long-name = 12", 12)
    'a-very-…= 12'
    """
    shown, end = str(plain(value)), max_characters // 3
    return shown if len(shown) <= max_characters else f"{shown[: max_characters - 1 - end]}…{shown[len(shown) - end :]}"


def data(value: Any, max_characters: int = MAX_CHARACTERS_SHOWN) -> Markup:
    """A value from the data: a label, a name, a word. Its writing direction is isolated from the page's."""
    shown = str(plain(value))
    title = f"{len(shown):,} characters" if len(shown) > max_characters else None
    return tag("bdi", cut(shown, max_characters), title=title) if shown.strip() else tag("i", "(empty)")


def paragraph(*children: Any, class_: str | None = None) -> Markup:
    return tag("p", *children, class_=class_)


def heading(*children: Any) -> Markup:
    return tag("h3", *children)


def columns(*blocks: Markup | None, class_: str = "columns") -> Markup:
    """Blocks side by side, if there is room; a "pair" of them shares the full width."""
    return tag("div", *blocks, class_=class_)


def figure(drawing: Markup, *caption: Any) -> Markup:
    """A drawing with a caption."""
    return tag("figure", drawing, tag("figcaption", *caption) if caption else None)


def table(
    head: Sequence[Any], rows: Iterable[Sequence[Any]], about: str, class_: str | None = None, tall: bool = False
) -> Markup:
    """A table that scrolls horizontally if the page is too narrow, and vertically if it is `tall`; the first cell of
    a row is its header.

    Numbers are right-aligned.
    """
    rows, about = list(rows), cut(about)
    right = [j > 0 and any(is_number(row[j]) for row in rows) for j in range(len(head))]
    body = []
    for row in rows:
        first = tag("th", row[0], scope="row")
        body.append(tag("tr", first, *(tag("td", cell, class_="n" if is_number(cell) else None) for cell in row[1:])))
    names = [tag("th", cell, scope="col", class_="n" if side else None) for cell, side in zip(head, right, strict=True)]
    top = tag("thead", tag("tr", *names)) if any(head) else None
    inside = tag("table", tag("caption", about), top, tag("tbody", *body), class_=class_)
    return tag("div", inside, class_="scroll tall" if tall else "scroll", tabindex="0", role="region", aria_label=about)


def is_number(cell: Any) -> bool:
    """Whether a cell is a number, however it is written."""
    return isinstance(cell, int | float | Number) and not isinstance(cell, bool)


class Number(str):
    """A number as it is written."""

    __slots__ = ()


# ------------------------------------------------------------------ formatting numbers


def count(n: float) -> Number:
    """A number of rows."""
    return Number(f"{n:,.0f}" if float(n).is_integer() else f"{n:,.1f}")


def pluralize(n: float, noun: str, plural: str | None = None) -> str:
    """A count with its noun.

    >>> pluralize(1, "row"), pluralize(1200, "row"), pluralize(2, "class", "classes")
    ('1 row', '1,200 rows', '2 classes')
    """
    return f"{count(n)} {noun if n == 1 else plural or noun + 's'}"


def number(value: float | None, digits: int = 4) -> Number:
    """A number to `digits` digits; infinity as ∞, a missing value as a dash.

    >>> number(0.123456), number(float("inf")), number(None)
    ('0.1235', '∞', '–')
    """
    if value is None or math.isnan(value):
        return Number("–")
    return Number(("∞" if value > 0 else "−∞") if math.isinf(value) else f"{value + 0.0:.{digits}g}".replace("-", "−"))


def percent(share: float | None, digits: int = 1) -> Number:
    """A share in per cent, with a space that does not break. Nearly all or nearly none is not rounded to 100 % or 0 %.

    >>> percent(0.1234), percent(0.99999), percent(1.0), percent(0.0004)
    ('12.3\\xa0%', 'over 99.9\\xa0%', '100\\xa0%', 'under 0.1\\xa0%')
    """
    if share is None or math.isnan(share):
        return Number("–")
    if share in (0.0, 1.0):
        return Number(f"{100.0 * share:.0f}{PERCENT}")
    smallest = 10.0 ** -(digits + 2)
    if share < smallest:
        return Number(f"under {100.0 * smallest:.{digits}f}{PERCENT}")
    if share > 1.0 - smallest:
        return Number(f"over {100.0 * (1.0 - smallest):.{digits}f}{PERCENT}")
    return Number(f"{100.0 * share:.{digits}f}{PERCENT}")


def decibans(db: float) -> Number:
    """Evidence, with its sign.

    >>> decibans(3.04), decibans(-12.0), decibans(float("-inf"))
    ('+3.0', '−12.0', '−∞')
    """
    return Number(signed(db).replace("-", "−"))


def listed(names: Sequence[Any], max_names: int = 4) -> Markup:
    """A few names in a line."""
    shown: list[Any] = []
    for i, name in enumerate(names[:max_names]):
        last = i == len(names) - 1
        shown += [" and " if last and i else ", " if i else "", data(name, 40)]
    return joined([*shown, f" and {count(len(names) - max_names)} more" if len(names) > max_names else ""])
