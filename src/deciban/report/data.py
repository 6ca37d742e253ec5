"""What the data is: rows, classes, columns as the model reads them, each by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.reading.columns import Levels, Numbers
from deciban.reading.kinds import LEFT_OUT
from deciban.report.markup import (
    Markup,
    columns,
    count,
    cut,
    data,
    heading,
    joined,
    listed,
    paragraph,
    percent,
    several,
    table,
    tag,
)
from deciban.report.rows import Material, Seen, known_kinds
from deciban.report.svg import bar, strips
from deciban.show import plain

MAX_CLASSES_LISTED = 12  # that are listed
MAX_CLASSES_DRAWN = 4  # classes of a picture of a column
MAX_PICTURES = 24  # columns that have a picture
MAX_COLUMNS_LISTED = 100  # columns that are listed
N_BINS = 18  # of a picture
MAX_BARS_NAMED = 6  # of its bars
TAIL_SHARE = 0.01  # of the values may lie beyond a picture's ends: they are in its first and last bar


def data_section(material: Material) -> list[Markup]:
    """What is known of the data: of the rows at hand, or what the model remembers."""
    seen = material.seen
    out = [paragraph(*overview(material, seen))]
    shares = class_shares(material)
    if shares is not None:
        out += [heading("Classes"), shares]
    if seen:
        out += columns_of_table(material, seen)
    elif material.rows is None:
        out += kinds_alone(material)
    elif material.rows.make == "texts":
        out += lengths(material)
    return out


def overview(material: Material, seen: Sequence[Seen]) -> list[Any]:
    """Rows and columns in a sentence or two."""
    model = material.model
    learned = float(np.sum(getattr(model, "class_count_", 0.0)))
    sentences: list[Any] = []
    if learned:
        sentences.append(f"The model has learned {several(learned, 'row')} of {classes_of(material)}. ")
    if material.rows is None:
        return [*sentences, "No rows were given with it, so this page shows what it knows by itself."]
    what = {"table": "row", "sparse": "row", "texts": "text"}[material.rows.make]
    these = "the rows it has learned" if material.learned else "rows it has not learned"
    sentences.append(f"This page looks at {several(material.size, what)}, {these}")
    if material.given - material.unlabelled > material.size:
        sentences.append(f", drawn from all over the {count(material.given)} that were given")
    sentences.append(". ")
    if material.unlabelled:
        sentences.append(f"{several(material.unlabelled, what)} without a label were left out. ")
    if seen:
        gaps = sum(own.missing for own in seen if own.used)
        cells = material.size * sum(own.used for own in seen)
        sentences.append(f"There are {several(len(seen), 'column')}")
        left = sum(not own.used for own in seen)
        sentences.append(f", {count(left)} of them left out" if left else "")
        share = percent(gaps / cells) if cells else ""
        sentences.append(f"; {share} of the entries are missing." if gaps else "; no entry is missing.")
    elif material.rows.make == "sparse":
        X = material.rows.X
        filled = percent(X.nnz / max(1, X.shape[0] * X.shape[1]))
        sentences.append(f"There are {several(X.shape[1], 'column')}, and {filled} of the entries are not 0.")
    return sentences


def classes_of(material: Material) -> str:
    return several(len(material.classes), "class", "classes")


def class_shares(material: Material) -> Markup | None:
    """How many rows each class has."""
    if material.judged is not None:
        classes = material.judged.classes
        rows = np.bincount(material.judged.truth, minlength=len(classes)).astype(float)
    else:
        classes, rows = material.classes, np.asarray(getattr(material.model, "class_count_", ()), dtype=float)
    if len(rows) != len(classes) or not rows.sum():
        return None
    order = np.argsort(-rows, kind="stable")
    top = rows[order[0]]
    lines: list[tuple[Any, ...]] = [
        (data(plain(classes[c]), 60), count(rows[c]), percent(rows[c] / rows.sum()), bar(rows[c] / top))
        for c in order[:MAX_CLASSES_LISTED].tolist()
    ]
    rest = rows[order[MAX_CLASSES_LISTED:]]
    if len(rest):
        share = percent(rest.sum() / rows.sum())
        lines.append((f"{count(len(rest))} more", count(rest.sum()), share, bar(0.0)))
    return table(("class", "rows", "share", ""), lines, "How many rows each class has", "bars")


# ------------------------------------------------------------------ columns


def columns_of_table(material: Material, seen: Sequence[Seen]) -> list[Markup]:
    """A picture for each column, and a list of those that have none."""
    groups, names, note = shown_classes(material)
    used = [own for own in seen if own.used]
    pictured = used[:MAX_PICTURES]
    out = [heading("Columns"), paragraph(*note, class_="note")]
    out.append(columns(*(card(own, groups, names) for own in pictured)))
    others = [own for own in seen if own not in pictured]
    if others:
        what = "Columns that are left out" if len(used) == len(pictured) else "Other columns"
        lines = [
            (data(own.name, 60), own.kind, percent(own.missing / max(1, material.size)), own.why)
            for own in others[:MAX_COLUMNS_LISTED]
        ]
        out += [heading(what), table(("column", "kind", "missing", "why"), lines, what)]
        if len(others) > MAX_COLUMNS_LISTED:
            out.append(paragraph(f"… and {several(len(others) - MAX_COLUMNS_LISTED, 'column')} more.", class_="note"))
    return out


def shown_classes(material: Material) -> tuple[list[Array], list[str], list[Any]]:
    """The largest classes' rows and names, and what the pictures are of."""
    every = np.arange(material.size)
    if material.judged is None:
        return [every], ["all rows"], ["Each picture shows how the values of a column are spread."]
    truth, classes = material.judged.truth, material.judged.classes
    counted = np.bincount(truth, minlength=len(classes))
    there = [c for c in np.argsort(-counted, kind="stable")[:MAX_CLASSES_DRAWN].tolist() if counted[c]]
    groups = [np.flatnonzero(truth == c) for c in sorted(there)]
    names = [str(plain(classes[c])) for c in sorted(there)]
    which = "class" if len(there) == np.count_nonzero(counted) else f"of the {len(there)} largest classes"
    return groups, names, [f"How the values of each column are spread, by {which}: the taller a bar, the more rows."]


def card(own: Seen, groups: Sequence[Array], names: Sequence[str]) -> Markup:
    """A column: its name, what it is and why, and a picture."""
    n = len(own.column)
    gaps = f" {percent(own.missing / n)} missing." if own.missing and n else ""
    about = tag("p", tag("span", own.kind, class_="kind"), f" {own.why}.{gaps}", class_="note")
    return tag("div", tag("h4", data(own.name, 60)), about, picture(own, groups, names), in_order(own), class_="card")


def in_order(own: Seen) -> Markup | None:
    """The names of the bars, where they have names: the most frequent first."""
    column = own.column
    if not isinstance(column, Levels) or own.kind == "text":
        return None
    counted = np.bincount(column.codes[column.codes >= 0], minlength=len(column.levels))
    order = [c for c in np.argsort(-counted, kind="stable").tolist() if counted[c]]
    named = listed([column.levels[c] for c in order], MAX_BARS_NAMED)
    return tag("p", "From left to right: ", named, class_="note") if order else None


def picture(own: Seen, groups: Sequence[Array], names: Sequence[str]) -> Markup | None:
    """Histograms of a column, a class each."""
    codes, bins, ends = binned(own)
    if not bins:
        return None
    shares = np.zeros((len(groups), bins))
    for c, rows in enumerate(groups):
        here = codes[rows]
        counted = np.bincount(here[here >= 0], minlength=bins)
        shares[c] = counted / max(1, counted.sum())
    about = f"Shares of the rows of {', '.join(cut(name, 40) for name in names)}" + (
        f" from {ends[0]} to {ends[1]}" if any(ends) else ""
    )
    return strips(shares, names, ends, f"{cut(own.name, 60)} by class", about)


def binned(own: Seen) -> tuple[Array, int, tuple[str, str]]:
    """A column's values as places of bars (−1 where missing), how many bars, and what stands at their ends."""
    column = own.column
    if own.kind == "text" and isinstance(column, Levels):
        words = np.array([*(len(str(level).split()) for level in column.levels), 0], dtype=float)[column.codes]
        column = Numbers(np.where(column.missing, np.nan, words), whole=True)
        codes, bins, (low, high) = binned(Seen(own.name, "count", own.why, column))
        return codes, bins, (f"{low} words", f"{high}")
    if isinstance(column, Levels):
        counted = np.bincount(column.codes[column.codes >= 0], minlength=len(column.levels))
        order = [c for c in np.argsort(-counted, kind="stable").tolist() if counted[c]]
        place = np.full(len(column.levels) + 1, -1)
        place[order] = np.minimum(np.arange(len(order)), N_BINS - 1)
        return place[column.codes], min(len(order), N_BINS), ("", "")
    return binned_numbers(column)


def binned_numbers(column: Numbers) -> tuple[Array, int, tuple[str, str]]:
    """Numbers in bars of one width, those far out in the first and the last; a few whole numbers have a bar each."""
    there = ~column.missing
    values = column.values[there]
    if not len(values):
        return np.full(len(column), -1), 0, ("", "")
    low, high = np.quantile(values, [TAIL_SHARE, 1.0 - TAIL_SHARE])
    low, high = (low, high) if high > low else (values.min(), values.max())
    low, high = (np.floor(low), np.ceil(high)) if column.whole else (low, high)
    few = (
        np.unique(values) if np.array_equal(values, np.floor(values)) and values.max() - values.min() < N_BINS else None
    )
    edges: Floats = np.arange(few[0], few[-1] + 2) - 0.5 if few is not None else np.linspace(low, high, N_BINS + 1)
    bins = len(edges) - 1 if high > low or few is not None else 1
    codes = np.full(len(column), -1)
    codes[there] = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    ends = (values.min(), values.max()) if few is not None else (low, high)
    end_names = tuple(written(column, float(value)) for value in ends)
    more = ["≤ " if few is None and values.min() < low else "", "≥ " if few is None and values.max() > high else ""]
    return codes, bins, (f"{more[0]}{end_names[0]}", f"{more[1]}{end_names[1]}" if bins > 1 else "")


def written(column: Numbers, value: float) -> str:
    if column.dates is not None:
        return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(value)), "D"))
    return f"{value:,.0f}" if (value.is_integer() or abs(value) >= 1000) and abs(value) < 1e15 else f"{value:.4g}"


def kinds_alone(material: Material) -> list[Markup]:
    """What the model remembers of its columns, where there are no rows to look at."""
    known = known_kinds(material.model)
    if not known:
        return []
    kinds = material.model.kinds_.to_dict()
    gaps = dict(zip(kinds["column"], kinds["missing"], strict=True))
    lines = [
        (data(name, 60), kind + (" (left out)" if kind in LEFT_OUT else ""), count(gaps[name]), why)
        for name, (kind, why) in [*known.items()][:MAX_COLUMNS_LISTED]
    ]
    out = [heading("Columns"), table(("column", "kind", "missing", "why"), lines, "Columns as the model reads them")]
    if len(known) > MAX_COLUMNS_LISTED:
        out.append(paragraph(f"… and {several(len(known) - MAX_COLUMNS_LISTED, 'column')} more.", class_="note"))
    return out


# ------------------------------------------------------------------ texts


def lengths(material: Material) -> list[Markup]:
    """How long texts are, by class."""
    assert material.rows is not None
    texts = [
        len(str(text, "utf-8", "replace").split()) if isinstance(text, bytes) else len(str(text).split())
        for text in material.rows.X
    ]
    own = Seen("length", "count", "", Numbers(np.array(texts, dtype=float), whole=True))
    groups, names, _ = shown_classes(material)
    drawn = picture(own, groups, names)
    middle = float(np.median(texts)) if texts else 0.0
    empty = sum(n == 0 for n in texts)
    half = f"Half of the texts have {several(middle, 'word')} or more."
    return [
        heading("Length of the texts"),
        paragraph(half, f" {several(empty, 'text')} {'is' if empty == 1 else 'are'} empty." if empty else ""),
        joined([drawn, tag("p", "Words of a text, by class.", class_="note")]),
    ]
