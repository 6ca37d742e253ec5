"""What the site makes of pages that are read on a code host too.

Links to files outside docs/ work there as they stand; here they lead to a page that shows the file. Code with prompts
is coloured as that. Chapters of the lectures are run as notebooks: here they show what comes out, with formulas as
MathML, and a link to the notebook itself.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

import nbformat
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files, InclusionLevel
from nbclient import NotebookClient
from traitlets.config import Config

sys.path.insert(0, str(Path(__file__).parent))
from notebooks import ANSWER, notebook

CHAPTER = re.compile(r"lectures/\d[\w-]*\.md")
FORMULA = re.compile(
    r"(?P<code>^```.*?^```$|`[^`\n]+`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+(?:\n[^$\n]+)?)\$",
    re.DOTALL | re.MULTILINE,
)
LOCAL = Config({"KernelManager": {"transport": "ipc"}})  # no port that others on this machine could connect to
SHARP = "%config InlineBackend.figure_formats = ['svg']"
LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]*)(#[^)\s]*)?(?=\))")
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
    for file in [file for file in files.documentation_pages() if CHAPTER.fullmatch(file.src_uri)]:
        ran = run(file.content_string)
        CHAPTERS[file.src_uri], pictures = chapter(ran, Path(file.src_uri).stem)
        pictures[f"{Path(file.src_uri).stem}.ipynb"] = nbformat.writes(ran)
        for name, content in pictures.items():
            uri = f"{dirname(file.src_uri)}/{name}"
            files.append(File.generated(config, uri, content=content, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Links lead to those pages, and `>>>` is a prompt. A link to a file that is not there stays, to be seen."""

    def led(match: re.Match[str]) -> str:
        path = target(match[1], page.file.src_uri)
        there = path is not None and files.get_file_from_path(shown_at(path)) is not None
        if not there or path is None:
            return match[0]
        return relpath(shown_at(path), dirname(page.file.src_uri) or ".")  # a file that is shown has no anchors

    markdown = CHAPTERS.get(page.file.src_uri, markdown)
    return LINK.sub(led, markdown).replace("```python\n>>> ", "```pycon\n>>> ")


def on_page_content(html: str, **_: Any) -> str:
    """Formulas, which Markdown must not touch, put where they belong."""
    return re.sub(r"formula(\d+)end", lambda match: FORMULAS[int(match[1])], html)


FORMULAS: list[str] = []
CHAPTERS: dict[str, str] = {}


def run(page: str) -> Any:
    """A chapter as a notebook that has run in Jupyter; an assertion that does not hold stops the build."""
    made = nbformat.from_dict(notebook(page))
    made.cells.insert(0, nbformat.v4.new_code_cell(SHARP))
    NotebookClient(made, timeout=600, kernel_name="python3", config=LOCAL).execute()
    del made.cells[0]
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # when it ran: different each time
    return made


def chapter(ran: Any, name: str) -> tuple[str, dict[str, str | bytes]]:
    """The page of a notebook that has run, and its pictures by the names of their files."""
    parts: list[str] = []
    pictures: dict[str, str | bytes] = {}
    section = ""
    for cell in ran.cells:
        if cell.cell_type == "markdown":
            parts.append(FORMULA.sub(formula, cell.source.replace(".ipynb", ".md")))
            section = (re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE) or [section])[-1]
        elif cell.source != ANSWER:
            parts.append(f"```python\n{cell.source}\n```")
            for output in cell.outputs:
                drawn = picture(output)
                if drawn is None:
                    text = output.text if output.output_type == "stream" else output.data["text/plain"]
                    parts.append(f"```{{ .text .output }}\n{text.rstrip()}\n```")
                else:
                    file = f"{name}-{len(pictures) + 1}.{drawn[0]}"
                    pictures[file] = drawn[1]
                    parts.append(f"![Figure: {section}]({file}){{ .figure loading=lazy }}")
    title, rest = parts[0].split("\n", 1)
    link = f"[Download this chapter as a Jupyter notebook]({name}.ipynb){{ .md-button download }}"
    return "\n\n".join([title, link, rest, *parts[1:]]), pictures


def picture(output: Any) -> tuple[str, str | bytes] | None:
    """The picture that a cell drew: how its file's name ends, and what is in it."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return "svg", data["image/svg+xml"]
    return ("png", base64.b64decode(data["image/png"])) if "image/png" in data else None


def formula(match: re.Match[str]) -> str:
    """A mark in the place of a formula; code stays."""
    if match["code"]:
        return match["code"]
    display = "block" if match["block"] else "inline"
    drawn = convert((match["block"] or match["inline"]).replace("\n", " "), display=display)
    FORMULAS.append(f'<span class="formula">{drawn}</span>' if match["block"] else drawn)
    return f"formula{len(FORMULAS) - 1}end"


def outside(markdown: str, page: str) -> set[str]:
    """The files outside docs/ that a page links to, as paths from the root of the project."""
    return {path for path in (target(link[1], page) for link in LINK.finditer(markdown)) if path is not None}


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
