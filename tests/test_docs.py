"""The documentation: links are valid, every public name is in the reference, and commands shown exist."""

from __future__ import annotations

import importlib
import inspect
import os
import pydoc
import re
import runpy
import shlex
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from every import ESTIMATORS
from typer.main import get_command

import deciban
from deciban.cli.app import COMMANDS, app
from deciban.estimators.base import Estimator

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
OTHER_PUBLIC_NAMES = ("text.Lines", "text.corpus.background", "text.mail")  # public, though not in deciban.__all__

FENCE = re.compile(r"^( *)(`{3,})(\w*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """A page without its code blocks, which contain no links."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchor of a heading: lower-case letters, digits and hyphens, as code hosts and the site make it."""
    titles = [re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(prose(page))]
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def navigation() -> set[str]:
    """The pages in the site's menu."""
    yaml = pytest.importorskip("yaml", reason="comes with mkdocs")

    def leaves(node: object) -> list[str]:
        if isinstance(node, str):
            return [node]
        return [leaf for inner in (node.values() if isinstance(node, dict) else node) for leaf in leaves(inner)]

    return set(leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))


def console_lines(page: Path) -> list[str]:
    """What a reader types: the lines of console blocks, without their prompts, from the top of the page."""
    blocks = [
        block for _, _, language, block in FENCE.findall(page.read_text(encoding="utf-8")) if language == "console"
    ]
    return [line.strip()[2:] for block in blocks for line in block.splitlines() if line.strip().startswith("$ ")]


def shown_commands() -> list[tuple[str, str]]:
    """(page, command) for every call of deciban in a console block, pipes split."""
    parts = [
        (page, part.strip()) for page in PAGES for line in console_lines(page) for part in re.split(r"\||&&", line)
    ]
    return [(page_name(page), part) for page, part in parts if part.startswith("deciban")]


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_are_valid(page):
    assert broken_links(page) == []


def test_a_broken_link_is_noticed(tmp_path):
    (tmp_path / "there.md").write_text("# A title, *with* `code`\n```\n[in](code)\n```\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[good](there.md) [good](there.md#a-title-with-code) [out](https://example.org/x) [bad](gone.md)"
        "[bad](there.md#elsewhere) [`bad`](#nowhere) [two\nlines](gone/too.md)",
        encoding="utf-8",
    )
    assert broken_links(page) == ["gone.md", "there.md#elsewhere", "#nowhere", "gone/too.md"]


def test_every_public_name_is_in_the_reference():
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md")]
    documented = [name for page in pages for name in re.findall(r"^::: deciban\.(\S+)", page, re.MULTILINE)]
    assert len(documented) == len(set(documented))
    assert {*deciban.__all__, *OTHER_PUBLIC_NAMES} <= set(documented)


def documented_names() -> list[str]:
    """What the reference documents, and the methods that all estimators share."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
    shared = [name for name in vars(Estimator) if re.match(r"[a-z].*(?<!_request)(?<!_)$", name)]
    return [
        *re.findall(r"^::: deciban\.(\S+)", pages, re.MULTILINE),
        *(f"estimators.base.Estimator.{name}" for name in shared),
    ]


def located(name: str) -> object:
    """What a name of the reference stands for. A function may have the name of its module."""
    parent, _, last = f"deciban.{name}".rpartition(".")
    try:
        return getattr(importlib.import_module(parent), last)
    except ModuleNotFoundError:  # a method: its parent is a class
        return pydoc.locate(f"deciban.{name}")


def test_every_public_name_has_an_example():
    """In its docstring, where tests/checks/test_doctests.py runs it. Attributes and modules need none."""
    without = []
    for name in documented_names():
        thing = located(name)
        assert thing is not None, name
        if callable(thing) and ">>>" not in (inspect.getdoc(thing) or ""):
            without.append(name)
    assert without == []


def test_every_page_is_in_the_menu():
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"README.md"}
    assert navigation() == pages


def test_which_model_is_drawn_and_every_model_exists():
    picture = runpy.run_path(str(DOCS / "which_model.py"))
    models = [model for cases in picture["GROUPS"].values() for _, model in cases]
    assert picture["PICTURE"].read_text(encoding="utf-8") == picture["drawn"]()
    assert set(models) <= set(deciban.__all__)
    table = (DOCS / "how-to" / "choosing-a-model.md").read_text(encoding="utf-8")
    assert [model for model in models if f"`{model}`" not in table] == []


def test_every_guide_shows_both_ways():
    for page in sorted((DOCS / "how-to").glob("*.md")):
        languages = {language for _, _, language, _ in FENCE.findall(page.read_text(encoding="utf-8"))}
        assert "console" in languages, page_name(page)
        assert languages & {"pycon", "python"}, page_name(page)


def test_every_command_is_described():
    assert set(COMMANDS) <= anchors(DOCS / "command-line.md")


@pytest.fixture(scope="module")
def every_command():
    return get_command(app([]))


@pytest.mark.parametrize(("page", "command"), shown_commands())
def test_a_command_that_is_shown_exists(page, command, every_command):
    """Its name and its options; what it prints is tested where commands are."""
    group = every_command
    words = shlex.split(command)[1:]
    if words and not words[0].startswith("-"):
        assert words[0] in group.commands, page
        group, words = group.commands[words[0]], words[1:]
    known = {name for parameter in group.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
    assert [option for option in options if option not in {*known, "--help"}] == [], page


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if console_lines(page)], ids=page_name)
def test_the_console_blocks_of_a_page_run(page, tmp_path):
    """In an empty folder, from the top: a file that a command reads ships with the package or was made above."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = "set -eo pipefail\n" + "\n".join(console_lines(page))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def dead_links(site: Path) -> list[str]:
    """Links, pictures and scripts of a site's pages whose file or anchor does not exist."""
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html") if page.name != "404.html"}
    ids = {page: set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", text)) for page, text in pages.items()}
    dead = []
    for page, text in pages.items():
        for link in re.findall(r"<(?:a|img|script|link)\b[^>]*?\b(?:href|src)=\"([^\"]*)\"", text):
            path, _, anchor = unquote(unescape(link)).partition("#")
            if re.match(r"[a-z]+:", link) or link == "":
                continue
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (anchor and target in ids and anchor not in ids[target]):
                dead.append(f"{page.relative_to(site)}: {link}")
    return dead


def test_a_dead_link_is_noticed(tmp_path):
    (tmp_path / "there.html").write_text('<h1 id="top">', encoding="utf-8")
    page = '<a href="there.html#top"><a class="x" href="there.html#gone"><img src="gone.png"><a href="https://x.org">'
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    assert dead_links(tmp_path) == ["index.html: there.html#gone", "index.html: gone.png"]


def test_every_figure_is_made_by_a_script():
    """By docs/gallery.py from the code on its page, or by docs/which_model.py; lectures draw theirs as they run."""
    gallery = set(re.findall(r"images/([\w-]+\.png)", (DOCS / "gallery.md").read_text(encoding="utf-8")))
    assert {path.name for path in (DOCS / "images").iterdir()} == {*gallery, "which-model.svg"}
    pictures = {path for path in DOCS.rglob("*") if path.suffix in {".png", ".svg", ".jpg", ".gif"}}
    assert {path.parent.name for path in pictures} == {"images"}


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_without_the_network(tmp_path):
    pytest.importorskip("mkdocs")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    # Not --quiet: suppressed warnings are not counted, and --strict would let them pass.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {page: page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    fetched = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
    assert [tag for text in pages.values() for tag in fetched.findall(text) if 'rel="canonical"' not in tag] == []
    styles = [style.read_text(encoding="utf-8") for style in tmp_path.rglob("*.css")]
    assert [style for style in styles if re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style)] == []
    assert dead_links(tmp_path) == []
    reference = "".join(text for page, text in pages.items() if page.parent.name == "reference")
    for name in ESTIMATORS:
        for method in ("fit", "predict_proba", "explain", "forget", "save"):
            if name != "CountVectorizer" or method == "fit":
                assert f'id="deciban.{name}.{method}"' in reference, f"{name}.{method}"
