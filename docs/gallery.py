"""Make the gallery's pictures: `python docs/gallery.py`, or some of them: `python docs/gallery.py contours tree`.

The code is that of docs/gallery.md, whose sections have one block of code and one image each. What the code draws is
saved as the image. Nothing is downloaded and every seed is said, so that the same versions make the same pictures.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from PIL import Image

from deciban.show import PALETTE

PAGE = Path(__file__).with_name("gallery.md")
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\(images/([\w-]+)\.png\)")
STYLE = {
    "axes.prop_cycle": plt.cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.08,
    "font.size": 10.0,
    "legend.frameon": False,
    "legend.fontsize": "small",
}
COLOURS = 128  # of a picture: enough for shades without steps
DOTS = 144  # an inch: 8 inches are twice as many as a page is wide, for fine screens


class Section(NamedTuple):
    """A picture's name, and the code that draws it."""

    name: str
    code: str


def sections(page: str) -> tuple[str, list[Section]]:
    """The code that comes before all pictures, and the pictures' own."""
    opening, *rest = re.split(r"^## ", page, flags=re.MULTILINE)
    found = []
    for text in rest:
        names, blocks = IMAGE.findall(text), CODE.findall(text)
        if len(names) != 1 or len(blocks) != 1:
            raise ValueError(f"a section has one image and one block of code, but not {text.splitlines()[0]!r}")
        found.append(Section(names[0], blocks[0]))
    return "\n".join(CODE.findall(opening)), found


def draw(opening: str, section: Section) -> Any:
    """The figure that a section's code draws."""
    plt.close("all")
    with mpl.rc_context(STYLE):
        names: dict[str, Any] = {}
        exec(compile(opening, PAGE.name, "exec"), names)
        exec(compile(section.code, f"{PAGE.name}: {section.name}", "exec"), names)
        return plt.gcf()


def save(figure: Any, path: Path) -> int:
    """Write a picture with no more colours than it needs; its size in bytes."""
    whole = io.BytesIO()
    figure.savefig(whole, dpi=DOTS, facecolor="white")
    picture = Image.open(whole).convert("RGB").quantize(COLOURS, kmeans=2, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)
    return path.stat().st_size


def main(wanted: list[str]) -> None:
    opening, found = sections(PAGE.read_text(encoding="utf-8"))
    unknown = set(wanted) - {section.name for section in found}
    if unknown:
        raise SystemExit(f"no such picture: {', '.join(sorted(unknown))}")
    for section in found:
        if section.name in wanted or not wanted:
            path = PAGE.parent / "images" / f"{section.name}.png"
            size = save(draw(opening, section), path)
            print(f"{path.name}: {size / 1000:.0f} kB")  # noqa: T201 - who makes pictures wants to see which


if __name__ == "__main__":
    main(sys.argv[1:])
