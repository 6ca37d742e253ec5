"""What the site makes of pages that are read on a code host too.

Links to files outside docs/ work there as they stand; here they lead to a page that shows the file. And code with
prompts is coloured as that.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]*)(?:#[^)\s]*)?(?=\))")  # a heading has no place in a file as it is shown
LANGUAGES = {".py": "python", ".pyx": "cython", ".h": "c", ".toml": "toml", ".md": "markdown"}


def on_files(files: Files, config: Any) -> Files:
    """A page for every file outside that a page links to."""
    root = Path(config.docs_dir).parent
    wanted = {path for file in files.documentation_pages() for path in outside(file.content_string, file.src_uri)}
    for path in sorted(wanted):
        if (root / path).exists():
            page = File.generated(
                config, shown_at(path), content=shown(root, path), inclusion=InclusionLevel.NOT_IN_NAV
            )
            files.append(page)
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Links lead to those pages, and `>>>` is a prompt. A link to a file that is not there stays, to be seen."""

    def led(match: re.Match[str]) -> str:
        path = target(match[1], page.file.src_uri)
        there = path is not None and files.get_file_from_path(shown_at(path)) is not None
        return relpath(shown_at(path), dirname(page.file.src_uri) or ".") if there and path else match[0]

    return LINK.sub(led, markdown).replace("```python\n>>> ", "```pycon\n>>> ")


def outside(markdown: str, page: str) -> set[str]:
    """The files outside docs/ that a page links to, as paths from the root of the project."""
    return {path for path in (target(link, page) for link in LINK.findall(markdown)) if path is not None}


def target(link: str, page: str) -> str | None:
    """Where a link leads, from the root of the project; None inside docs/, or outside of the project."""
    path = normpath(join("docs", dirname(page), link))
    return None if path.startswith(("docs/", "..")) else path


def shown_at(path: str) -> str:
    return f"source/{path}.md"


def shown(root: Path, path: str) -> str:
    """The page that shows a file, or what is in a folder; searching passes it over."""
    place = root / path
    head = f"---\nsearch:\n  exclude: true\n---\n\n# `{path}`\n\n"
    if place.is_dir():
        inside = sorted(os.path.relpath(file, place) for file in place.rglob("*.py"))
        return head + "\n".join(f"- `{name}`" for name in inside) + "\n"
    fence = "`" * 6  # longer than any fence inside
    return f"{head}{fence}{LANGUAGES.get(place.suffix, 'text')}\n{place.read_text(encoding='utf-8')}\n{fence}\n"
