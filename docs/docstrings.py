"""Docstrings as the reference shows them, where numpydoc's sections and Markdown would take them for something else."""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTION = re.compile(r"([A-Z]\w*)\n-{3,}(\n|$)")
ITEM = re.compile(r"\s|[\w*.`]+(, [\w*.`]+)*\s*(:|$)")  # indented, "name", "name : type" or "one, two : type"
LISTS = ("Parameters", "Attributes", "Returns", "Raises")


class Docstrings(griffe.Extension):
    """Doctests become code wherever they stand, prose that follows a list of parameters goes before it, and brackets
    and braces are themselves: `a[i][j]` is no link, and `{column: kind}` no list of choices."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(described(prose_first(obj.docstring.value)))


def paragraphs(text: str) -> list[str]:
    return re.split(r"\n[ \t]*\n", text)


def fenced(text: str) -> str:
    """Paragraphs that are doctests, as blocks of code: in Markdown, `>>>` is a quotation."""
    return "\n\n".join(
        f"```pycon\n{paragraph}\n```" if paragraph.startswith(">>>") else literal(paragraph)
        for paragraph in paragraphs(text)
    )


def literal(paragraph: str) -> str:
    """A paragraph whose brackets, outside of code, are no links, and whose types in braces are mappings."""
    if paragraph.startswith("    "):
        return paragraph
    paragraph = re.sub(r"(`[^`]*`)|\]\[", lambda match: match[1] or r"]\[", paragraph)
    return re.sub(r"^(\w+ : )(?={[^}]*:)", r"\1mapping ", paragraph, flags=re.MULTILINE)


def described(text: str) -> str:
    """Attributes of one line, "name : what it is", which numpydoc would take for a type, with that as their text."""
    lines = [
        re.sub(r"^(\w[\w, ]*) : (.+)$(?!\n )", r"\1\n    \2", paragraph, flags=re.MULTILINE)
        if paragraph.startswith("Attributes\n")
        else paragraph
        for paragraph in paragraphs(text)
    ]
    return "\n\n".join(lines)


def prose_first(text: str) -> str:
    """Paragraphs behind a list of parameters or attributes that are none of its items, put before all lists."""
    before: list[str] = []
    rest: list[str] = []
    section = ""
    for paragraph in paragraphs(text):
        heading = SECTION.match(paragraph)
        section = heading[1] if heading else section
        stays = section and (heading or section not in LISTS or ITEM.match(paragraph))
        (rest if stays else before).append(paragraph)
    return "\n\n".join(before + rest)
