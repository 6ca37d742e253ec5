"""The lectures as Jupyter notebooks: `python docs/notebooks.py build/notebooks` writes them.

The pages in docs/lectures are the source. Blocks of Python become cells of code, except those in a solution, which
stays folded up in a cell of text, after an empty cell for the reader's own answer. The site runs the notebooks and
shows what comes out (docs/hooks.py).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

PAGES = sorted(Path(__file__).with_name("lectures").glob("*.md"))
SPLIT = re.compile(r"^```python\n(?P<code>.*?)^```$|^(?P<solution><details.*?^</details>)$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(\d[\w-]*)\.md(?=[)#])")  # from one chapter to another
ANSWER = "# Your answer"


def cells(page: str) -> list[tuple[str, str]]:
    """A page as ("markdown" or "code", text)."""
    found, end = [], 0
    for match in SPLIT.finditer(page):
        found.append(("markdown", page[end : match.start()]))
        found += [("code", match["code"])] if match["code"] else [("code", ANSWER), ("markdown", match["solution"])]
        end = match.end()
    found.append(("markdown", page[end:]))
    return [(kind, text.strip("\n")) for kind, text in found if text.strip()]


def notebook(page: str) -> dict[str, Any]:
    """A page as a notebook that has not run yet."""
    made = []
    for i, (kind, text) in enumerate(cells(page)):
        source = text if kind == "code" else LINK.sub(r"\1.ipynb", text)
        extra = {"execution_count": None, "outputs": []} if kind == "code" else {}
        made.append({"cell_type": kind, "id": f"cell-{i}", "metadata": {}, "source": source, **extra})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        path = Path(folder) / f"{page.stem}.ipynb"
        made = notebook(page.read_text(encoding="utf-8"))
        path.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        print(path)  # noqa: T201 - the files to open


if __name__ == "__main__":
    main(sys.argv[1])
