"""Charts as inline SVG, in the page's colours, each with a title and a description.

Charts are as wide as a phone, so that they are shown at their own size and their letters match the page's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.report.markup import PERCENT, Markup, cut, tag

N_COLOURS = 6  # classes with their own colour and mark
CHART_WIDTH, CHART_HEIGHT = 340, 280  # of a chart
LEFT_MARGIN, RIGHT_MARGIN, TOP_MARGIN, BOTTOM_MARGIN = 46, 20, 28, 40  # around it
MAX_LABEL_CHARACTERS = 24  # of a category next to its bars
MAX_POINTS_PER_SIDE = 400  # more points along a side cannot be distinguished


def svg(width: float, height: float, title: str, about: str, *children: Markup | None) -> Markup:
    """A drawing with a title and a description."""
    return tag(
        "svg",
        tag("title", cut(title)),
        tag("desc", cut(about, 600)),
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role="img",
    )


def text_element(x: float, y: float, content: Any, anchor: str = "start", class_: str | None = None) -> Markup:
    return tag("text", content, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=class_)


def path(d: str, class_: str, **more: Any) -> Markup:
    return tag("path", d=d, class_=class_, **more)


def path_through(x: Floats, y: Floats) -> str:
    """A line through points, broken where a coordinate is not finite."""
    out, draw = [], False
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        if not (math.isfinite(a) and math.isfinite(b)):
            draw = False
            continue
        out.append(f"{'L' if draw else 'M'}{a:.1f} {b:.1f}")
        draw = True
    return "".join(out)


def tick_values(low: float, high: float, max_ticks: int = 5) -> list[float]:
    """Round numbers between two others.

    >>> tick_values(0.0, 1.0), tick_values(3.0, 118.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [25.0, 50.0, 75.0, 100.0])
    """
    if not high > low:
        return [low]
    rough = (high - low) / max_ticks
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1.0, 2.0, 2.5, 5.0, 10.0) if s * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


@dataclass
class Plane:
    """Axes to draw on: the coordinate system, and the frame around it."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str
    y_label: str
    log_x: bool = False
    width: float = CHART_WIDTH
    height: float = CHART_HEIGHT
    drawn: list[Markup] = field(default_factory=list)

    def at(self, x: Any, y: Any) -> tuple[Floats, Floats]:
        """Where a point of the data is on the drawing."""
        low, high = self.x
        a = np.asarray(x, dtype=np.float64)
        a, low, high = (np.log(a), math.log(low), math.log(high)) if self.log_x else (a, low, high)
        b = (np.asarray(y, dtype=np.float64) - self.y[0]) / ((self.y[1] - self.y[0]) or 1.0)
        a = (a - low) / ((high - low) or 1.0)
        right, bottom = self.width - RIGHT_MARGIN, self.height - BOTTOM_MARGIN
        return LEFT_MARGIN + a * (right - LEFT_MARGIN), bottom - b * (bottom - TOP_MARGIN)

    def line(self, x: Floats, y: Floats, class_: str) -> None:
        self.drawn.append(path(path_through(*self.at(x, y)), f"line {class_}"))

    def band(self, x: Floats, low: Floats, high: Floats, class_: str) -> None:
        """The area between two lines."""
        if np.isfinite(low).all() and np.isfinite(high).all():
            a, b = self.at(np.append(x, x[::-1]), np.append(low, high[::-1]))
            self.drawn.append(path(path_through(a, b) + "Z", f"band {class_}"))

    def error_bars(self, x: Floats, low: Floats, high: Floats, class_: str) -> None:
        """A vertical line at every x, from low to high."""
        a, b = self.at(x, low)
        _, c = self.at(x, high)
        d = "".join(f"M{p:.1f} {q:.1f}V{r:.1f}" for p, q, r in zip(a, b, c, strict=True))
        self.drawn.append(path(d, class_))

    def dots(self, x: Floats, y: Floats, class_: str, mark: int = 0, size: float = 3.5) -> None:
        self.drawn.append(path(marks(*self.at(x, y), mark, size), class_))

    def label(self, x: float, y: float, text: str, class_: str, anchor: str = "start", up: float = -6.0) -> None:
        a, b = self.at(x, y)
        self.drawn.append(text_element(float(a), float(b) + up, text, anchor, class_))

    def to_svg(self, title: str, about: str, x_ticks: Sequence[float] | None = None, share: bool = False) -> Markup:
        """The drawing, with its frame behind it. With `share`, axes are labelled in per cent."""
        right, bottom = self.width - RIGHT_MARGIN, self.height - BOTTOM_MARGIN
        behind: list[Markup] = []
        for value in tick_values(*self.y):
            _, b = self.at(self.x[0], value)
            behind.append(path(f"M{LEFT_MARGIN} {float(b):.1f}H{right:.1f}", "rule"))
            behind.append(text_element(LEFT_MARGIN - 6, float(b) + 4, tick_label(value, share), "end"))
        for value in tick_values(*self.x) if x_ticks is None else x_ticks:
            a, _ = self.at(value, self.y[0])
            behind.append(path(f"M{float(a):.1f} {bottom:.1f}v4", "axis"))
            behind.append(text_element(float(a), bottom + 16, tick_label(value, share), "middle"))
        behind.append(path(f"M{LEFT_MARGIN} {bottom:.1f}H{right:.1f}", "axis"))
        behind.append(text_element(right, self.height - 6, f"{self.x_label} →", "end", "label"))
        behind.append(text_element(0, 10, f"↑ {self.y_label}", "start", "label"))
        return svg(self.width, self.height, title, about, *behind, *self.drawn)


def tick_label(value: float, share: bool) -> str:
    """A number next to an axis."""
    if share:
        return f"{100.0 * value:.0f}{PERCENT}"
    return f"{value:,.0f}" if abs(value) >= 1000 and float(value).is_integer() else f"{value:.4g}".replace("-", "−")


def marks(x: Floats, y: Floats, mark: int, size: float) -> str:
    """Points as marks that differ in shape as well as colour: circle, square, triangle, diamond, cross, bar."""
    s = size
    shape = (
        f"m-{s} 0a{s} {s} 0 1 0 {2 * s} 0a{s} {s} 0 1 0 -{2 * s} 0",
        f"m-{s} -{s}h{2 * s}v{2 * s}h-{2 * s}z",
        f"m0 -{1.2 * s}l{1.1 * s} {2 * s}h-{2.2 * s}z",
        f"m0 -{1.3 * s}l{1.3 * s} {1.3 * s}l-{1.3 * s} {1.3 * s}l-{1.3 * s} -{1.3 * s}z",
        f"m-{s} -{0.4 * s}h{0.6 * s}v-{0.6 * s}h{0.8 * s}v{0.6 * s}h{0.6 * s}v{0.8 * s}h-{0.6 * s}v{0.6 * s}"
        f"h-{0.8 * s}v-{0.6 * s}h-{0.6 * s}z",
        f"m-{1.2 * s} -{0.5 * s}h{2.4 * s}v{s}h-{2.4 * s}z",
    )[mark % N_COLOURS]
    return "".join(f"M{a:.1f} {b:.1f}{shape}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def legend_mark(mark: int) -> Markup:
    """A class's mark, to be shown in a line of text."""
    drawn = path(marks(np.array([6.0]), np.array([6.0]), mark, 4.0), f"c{mark % N_COLOURS}")
    return tag("svg", drawn, viewBox="0 0 12 12", width="12", height="12", aria_hidden="true", class_="sign")


def thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """A curve without points that fall into the same pixel as the one before; its ends stay."""
    cells = np.round(np.column_stack([x, y]) * MAX_POINTS_PER_SIDE)
    kept = np.append(True, (np.diff(cells, axis=0) != 0).any(axis=1)) if len(x) else np.zeros(0, dtype=bool)
    kept[-1:] = True
    return x[kept], y[kept]


# ------------------------------------------------------------------ bars


def bar(share: float, class_: str = "c0") -> Markup:
    """A bar in a table, as a share of the longest."""
    length = 100.0 * min(1.0, max(0.0, share))
    drawn = tag("rect", x="0", y="1", width=f"{length:.2f}", height="8", class_=class_)
    return cell_svg(drawn)


def signed_bar(value: float) -> Markup:
    """A bar from the middle: to the right for positive values, to the left for negative ones; from −1 to 1."""
    length = 50.0 * min(1.0, abs(value))
    start = 50.0 if value >= 0 else 50.0 - length
    drawn = tag(
        "rect", x=f"{start:.2f}", y="1", width=f"{length:.2f}", height="8", class_="for" if value >= 0 else "against"
    )
    return cell_svg(drawn, path("M50 0V10", "axis", vector_effect="non-scaling-stroke"))


def cell_svg(*children: Markup) -> Markup:
    """An SVG as wide as its cell. The next cell has the number."""
    return tag("svg", *children, viewBox="0 0 100 10", preserveAspectRatio="none", class_="bar", aria_hidden="true")


# ------------------------------------------------------------------ columns of a table, by class


def histograms(shares: Floats, names: Sequence[str], ends: tuple[str, str], title: str, about: str) -> Markup:
    """Histograms below each other, one per class, on one scale: `shares` is (classes, bins)."""
    left, high, gap = 92.0, 26.0, 6.0
    k, bins = shares.shape
    width, wide = CHART_WIDTH, (CHART_WIDTH - left) / bins
    top = float(shares.max(initial=0.0)) or 1.0
    drawn: list[Markup] = []
    for c in range(k):
        floor = 4 + (c + 1) * high + c * gap
        tall = high * shares[c] / top
        d = "".join(
            f"M{left + b * wide + 0.5:.1f} {floor:.1f}v-{up:.1f}h{wide - 1:.1f}v{up:.1f}z"
            for b, up in enumerate(tall.tolist())
            if up > 0
        )
        drawn.append(path(d, f"c{c % N_COLOURS}"))
        drawn.append(path(f"M{left} {floor:.1f}H{width}", "rule"))
        drawn.append(text_element(left - 8, floor - 5, cut(names[c], 13), "end"))
    height = 4 + k * high + (k - 1) * gap + (18 if any(ends) else 2)
    drawn.append(text_element(left, height - 4, ends[0], "start", "tick"))
    drawn.append(text_element(width, height - 4, ends[1], "end", "tick"))
    return svg(width, height, title, about, *drawn)


def category_bars(shares: Floats, categories: Sequence[str], title: str, about: str) -> Markup:
    """Bars to the right, labelled by category, for each class below each other; `shares` is (classes, categories)."""
    longest = max((min(len(name), MAX_LABEL_CHARACTERS) for name in categories), default=0)
    left, thick, gap = max(92.0, 6.3 * longest + 12.0), (12.0 if len(shares) == 1 else 7.0), 6.0
    k, width, room = len(shares), CHART_WIDTH, CHART_WIDTH - left - 34.0
    top = float(shares.max(initial=0.0)) or 1.0
    drawn: list[Markup] = []
    for b, name in enumerate(categories):
        start = 2 + b * (k * thick + gap)
        for c, share in enumerate(shares[:, b].tolist()):
            y = start + c * thick
            length = room * share / top
            drawn.append(path(f"M{left} {y:.1f}h{length:.1f}v{thick - 1:.1f}h-{length:.1f}z", f"c{c % N_COLOURS}"))
        drawn.append(text_element(left - 8, start + k * thick / 2 + 4, cut(name, MAX_LABEL_CHARACTERS), "end"))
        largest = float(shares[:, b].max())
        share = f"<1{PERCENT}" if 0 < largest < 0.005 else f"{100.0 * largest:.0f}{PERCENT}"
        drawn.append(text_element(left + room * largest / top + 5, start + k * thick / 2 + 4, share))
    drawn.append(path(f"M{left} 0V{len(categories) * (k * thick + gap) - gap + 4:.1f}", "axis"))
    return svg(width, len(categories) * (k * thick + gap) - gap + 4, title, about, *drawn)


# ------------------------------------------------------------------ decision regions


def regions(plane: Plane, classes: Array, confidence: Floats, k: int) -> list[Markup]:
    """The predicted class in each cell of a grid, (rows, columns) from the bottom left; more intense where more
    certain."""
    high, wide = classes.shape
    (left, right), (low, top) = plane.x, plane.y
    bands = np.digitize(confidence, (0.75, 0.95))
    drawn = []
    edges_x = np.linspace(left, right, wide + 1)
    edges_y = np.linspace(low, top, high + 1)
    for c in range(k):
        for band in range(3):
            d = []
            for row in range(high):
                here = np.flatnonzero((classes[row] == c) & (bands[row] == band))
                for run in np.split(here, np.flatnonzero(np.diff(here) > 1) + 1) if len(here) else ():
                    a, b = plane.at([edges_x[run[0]], edges_x[run[-1] + 1]], [edges_y[row], edges_y[row + 1]])
                    d.append(f"M{a[0]:.1f} {b[0]:.1f}H{a[1]:.1f}V{b[1]:.1f}H{a[0]:.1f}z")
            if d:
                drawn.append(path("".join(d), f"c{c % N_COLOURS} region", fill_opacity=("0.10", "0.20", "0.32")[band]))
    return drawn
