"""The words of docs/style.md that have no other meaning stay out of pages, messages, docstrings and comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "deciban"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.joinpath("docs").rglob("*.md"))]
WORDS = (
    "told|tells?|said|spoken|speaks?|heard|judge[sd]?|judging|holes?|dear|anew|gone|alike|whoever|meanwhile|likeliest"
    "|commonest|by itself|comes? to rest|elsewhere|passed over|for granted|of old"
)
NOT_ON_PAGES = re.compile(rf"\b(?:{WORDS})\b", re.IGNORECASE)
NOT_IN_CODE = re.compile(
    rf"\b(?:{WORDS}|says?|laws?)\b", re.IGNORECASE
)  # pages have laws of algebra, and people who say

FENCE = re.compile(r"^( *)(`{3,})\w*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`\n]*`")  # a name, which may be part of an interface
EXAMPLE = re.compile(r"^ *(?:>>>|\.\.\.).*$", re.MULTILINE)
KERNEL_PROSE = re.compile(r'/\*.*?\*/|//[^\n]*|""".*?"""|(?<![\w"])f?"(?:[^"\\\n]|\\.)*"|#[^\n]*', re.DOTALL)


def prose_of_page(text: str) -> str:
    return SPAN.sub("", re.sub(r"\]\([^)]*\)", "]", FENCE.sub("", text)))


def prose_of_module(source: str) -> list[str]:
    """Every comment, docstring and message of a Python file, as it is parsed: names in backticks and code are left
    out."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = [token.string for token in tokens if token.type == tokenize.COMMENT]
    tree = ast.parse(source)
    replaced = {id(part) for node in ast.walk(tree) if isinstance(node, ast.FormattedValue) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            found += [] if id(node) in replaced else [EXAMPLE.sub("", node.value)]
    return [SPAN.sub("", text) for text in found]


def prose_of_kernel(source: str) -> list[str]:
    return [SPAN.sub("", re.sub(r"\{[^}]*\}", "", text)) for text in KERNEL_PROSE.findall(source)]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "style.md"], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_pages_are_in_plain_words(page):
    assert NOT_ON_PAGES.findall(prose_of_page(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "folder",
    sorted({file.parent for kind in ("*.py", "*.js") for file in SOURCE.rglob(kind)}),
    ids=lambda path: path.name,
)
def test_messages_docstrings_and_comments_are_in_plain_words(folder):
    wrong = []
    for file in sorted(folder.iterdir()):
        read = {".py": prose_of_module, ".pyx": prose_of_kernel, ".h": prose_of_kernel, ".js": prose_of_kernel}.get(
            file.suffix
        )
        source = file.read_text(encoding="utf-8") if read else ""
        suspicious = NOT_IN_CODE.search(re.sub(r"""["']\s*\n\s*f?["']""", "", source))  # most need not be parsed
        texts = read(source) if suspicious else []
        wrong += [(file.name, word, text[:200]) for text in texts for word in NOT_IN_CODE.findall(text)]
    assert wrong == []


def test_plain_words_are_looked_for_in_the_right_places():
    source = '''"""A law."""
law, told = 1, "said"  # as it is said
def heard(x, judged=2):
    """`judged` is a name, and so is this:

    >>> heard("a law")
    """
    raise ValueError("row {row} is gone", f"{x} has no {'law' if x else 'of old'}", f"{judged} "
                     f"was told")
'''
    words = [word for text in prose_of_module(source) for word in NOT_IN_CODE.findall(text)]
    assert sorted(words) == ["gone", "law", "said", "told"]
    kernel = '/* a law of it */\nint law = 1; // gone\ncdef law\n"""The {law}."""\nraise E("no {law.size} is dear")\n'
    assert [word for text in prose_of_kernel(kernel) for word in NOT_IN_CODE.findall(text)] == ["law", "gone", "dear"]
    assert NOT_ON_PAGES.findall(prose_of_page("It is told `said` [here](dear.md)\n```\ngone\n```\nand spoken.")) == [
        "told",
        "spoken",
    ]
