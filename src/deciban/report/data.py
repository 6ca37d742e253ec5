"""The data: rows, classes, and columns as the model reads them, per class."""

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
    paragraph,
    percent,
    pluralize,
    table,
    tag,
)
from deciban.report.rows import Material, ReadColumn, known_kinds
from deciban.report.svg import bar, category_bars, histograms, legend_mark
from deciban.show import plain

MAX_CLASSES_LISTED = 12  # more are summed up in one line
MAX_CLASSES_DRAWN = 4  # in the picture of a column
MAX_PICTURES = 24  # one per column
MAX_COLUMNS_LISTED = 100  # without a picture
N_BINS = 18  # of a picture
MAX_CATEGORIES_DRAWN = 6  # the most frequent
TAIL_SHARE = 0.01  # of the values on either side go into the first and last bar


def data_section(material: Material) -> list[Markup]:
    """The data: the rows given, or what the model stores about its training rows."""
    read_columns = material.read_columns
    out = [paragraph(*overview(material, read_columns))]
    shares = class_share_table(material) if material.judged is None else None  # else they are listed above
    if shares is not None:
        out += [heading("Classes"), shares]
    if read_columns:
        out += column_sections(material, read_columns)
    elif material.rows is None:
        out += remembered_columns(material)
    elif material.rows.make == "texts":
        out += text_lengths(material)
    return out


def overview(material: Material, read_columns: Sequence[ReadColumn]) -> list[Any]:
    """Rows and columns in a sentence or two."""
    model = material.model
    learned = float(np.sum(getattr(model, "class_count_", 0.0)))
    sentences: list[Any] = []
    if learned:
        sentences.append(f"The model has learned {pluralize(learned, 'row')} of {classes_of(material)}. ")
    if material.rows is None:
        return [*sentences, "No rows were given with it, so this page shows only what the model stores."]
    noun = {"table": "row", "sparse": "row", "texts": "text"}[material.rows.make]
    which_rows = "the rows it has learned" if material.learned else "rows it has not learned"
    sentences.append(f"This page describes {pluralize(material.size, noun)}, {which_rows}")
    if material.given - material.unlabelled > material.size:
        sentences.append(f", a random sample of the {count(material.given)} that were given")
    sentences.append(". ")
    if material.unlabelled:
        sentences.append(f"{pluralize(material.unlabelled, noun)} without a label were left out. ")
    if read_columns:
        missing_cells = sum(col.missing for col in read_columns if col.used)
        cells = material.size * sum(col.used for col in read_columns)
        sentences.append(f"There are {pluralize(len(read_columns), 'column')}")
        unused = sum(not col.used for col in read_columns)
        sentences.append(f", {count(unused)} of them left out" if unused else "")
        share = percent(missing_cells / cells) if cells else ""
        sentences.append(f"; {share} of the entries are missing." if missing_cells else "; no entry is missing.")
    elif material.rows.make == "sparse":
        X = material.rows.X
        filled = percent(X.nnz / max(1, X.shape[0] * X.shape[1]))
        sentences.append(f"There are {pluralize(X.shape[1], 'column')}, and {filled} of the entries are not 0.")
    return sentences


def classes_of(material: Material) -> str:
    return pluralize(len(material.classes), "class", "classes")


def class_share_table(material: Material) -> Markup | None:
    """How many rows each class has."""
    classes, rows = material.classes, np.asarray(getattr(material.model, "class_count_", ()), dtype=float)
    if len(rows) != len(classes) or not rows.sum():
        return None
    order = np.argsort(-rows, kind="stable")
    largest = rows[order[0]]
    lines: list[tuple[Any, ...]] = [
        (data(plain(classes[c]), 60), count(rows[c]), percent(rows[c] / rows.sum()), bar(rows[c] / largest))
        for c in order[:MAX_CLASSES_LISTED].tolist()
    ]
    rest = rows[order[MAX_CLASSES_LISTED:]]
    if len(rest):
        share = percent(rest.sum() / rows.sum())
        lines.append((f"{count(len(rest))} more", count(rest.sum()), share, bar(0.0)))
    return table(("class", "rows", "share", ""), lines, "How many rows each class has", "bars")


# ------------------------------------------------------------------ columns


def column_sections(material: Material, read_columns: Sequence[ReadColumn]) -> list[Markup]:
    """A picture per column, and a list of columns without one."""
    groups, names, caption = classes_drawn(material)
    used = [col for col in read_columns if col.used]
    with_picture = used[:MAX_PICTURES]
    out = [heading("Columns"), paragraph(*caption, class_="note")]
    out.append(columns(*(column_card(col, groups, names) for col in with_picture)))
    rest = [col for col in read_columns if col not in with_picture]
    if rest:
        title = "Columns that are left out" if len(used) == len(with_picture) else "Other columns"
        lines = [
            (data(col.name, 60), col.kind, percent(col.missing / max(1, material.size)), col.why)
            for col in rest[:MAX_COLUMNS_LISTED]
        ]
        out += [heading(title), table(("column", "kind", "missing", "why"), lines, title)]
        if len(rest) > MAX_COLUMNS_LISTED:
            out.append(paragraph(f"… and {pluralize(len(rest) - MAX_COLUMNS_LISTED, 'column')} more.", class_="note"))
    return out


def classes_drawn(material: Material) -> tuple[list[Array], list[str], list[Any]]:
    """The rows and names of the largest classes, and a caption for the pictures."""
    all_rows = np.arange(material.size)
    if material.judged is None:
        return [all_rows], ["all rows"], ["Each picture shows how the values of a column are spread."]
    truth, classes = material.judged.truth, material.judged.classes
    class_counts = np.bincount(truth, minlength=len(classes))
    largest = [c for c in np.argsort(-class_counts, kind="stable")[:MAX_CLASSES_DRAWN].tolist() if class_counts[c]]
    groups = [np.flatnonzero(truth == c) for c in sorted(largest)]
    names = [str(plain(classes[c])) for c in sorted(largest)]
    grouping = "class" if len(largest) == np.count_nonzero(class_counts) else f"of the {len(largest)} largest classes"
    key: list[Any] = [tag("span", legend_mark(c), " ", data(name, 40), class_="key") for c, name in enumerate(names)]
    return groups, names, [f"How the values of each column are spread, by {grouping}. ", *key]


def column_card(col: ReadColumn, groups: Sequence[Array], names: Sequence[str]) -> Markup:
    """A column: its name, its kind and the reason for it, and a picture."""
    n = len(col.column)
    missing_note = f" {percent(col.missing / n)} missing." if col.missing and n else ""
    note = tag("p", tag("span", col.kind, class_="kind"), f" {col.why}.{missing_note}", class_="note")
    return tag("div", tag("h4", data(col.name, 60)), note, column_histograms(col, groups, names), class_="card")


def column_histograms(col: ReadColumn, groups: Sequence[Array], names: Sequence[str]) -> Markup | None:
    """Histograms of a column, one per class."""
    if isinstance(col.column, Levels) and col.kind != "text":
        return category_shares(col, col.column, groups, names)
    codes, bins, ends = bin_column(col)
    if not bins:
        return None
    shares = np.zeros((len(groups), bins))
    for c, rows in enumerate(groups):
        bars = codes[rows]
        bar_counts = np.bincount(bars[bars >= 0], minlength=bins)
        shares[c] = bar_counts / max(1, bar_counts.sum())
    description = f"Shares of the rows of {', '.join(cut(name, 40) for name in names)}" + (
        f" from {ends[0]} to {ends[1]}" if any(ends) else ""
    )
    return histograms(shares, names, ends, f"{cut(col.name, 60)} by class", description)


def category_shares(col: ReadColumn, column: Levels, groups: Sequence[Array], names: Sequence[str]) -> Markup | None:
    """The share of each category, by class: the most frequent ones, and the others summed up."""
    level_counts = np.bincount(column.codes[column.codes >= 0], minlength=len(column.levels))
    order = [c for c in np.argsort(-level_counts, kind="stable").tolist() if level_counts[c]]
    if not order:
        return None
    most = MAX_CATEGORIES_DRAWN if len(order) > MAX_CATEGORIES_DRAWN + 1 else len(order)
    place = np.full(len(column.levels) + 1, -1)
    place[order] = np.minimum(np.arange(len(order)), most)
    labels = [str(column.levels[c]) for c in order[:most]]
    labels += [f"{count(len(order) - most)} more"] if len(order) > most else []
    shares = np.zeros((len(groups), len(labels)))
    for c, rows in enumerate(groups):
        bars = place[column.codes[rows]]
        bar_counts = np.bincount(bars[bars >= 0], minlength=len(labels))
        shares[c] = bar_counts / max(1, bar_counts.sum())
    about = f"Shares of the rows of {', '.join(cut(name, 40) for name in names)} in each category"
    return category_bars(shares, labels, f"{cut(col.name, 60)} by class", about)


def bin_column(col: ReadColumn) -> tuple[Array, int, tuple[str, str]]:
    """The bar index of each value (−1 if missing), the number of bars, and the labels at both ends."""
    column = col.column
    if col.kind == "text" and isinstance(column, Levels):
        words = np.array([*(len(str(level).split()) for level in column.levels), 0], dtype=float)[column.codes]
        column = Numbers(np.where(column.missing, np.nan, words), whole=True)
        codes, bins, (low, high) = bin_column(ReadColumn(col.name, "count", col.why, column))
        return codes, bins, (f"{low} words", f"{high}")
    assert isinstance(column, Numbers)  # categories have bars of their own
    return bin_numbers(column)


def bin_numbers(column: Numbers) -> tuple[Array, int, tuple[str, str]]:
    """Numbers in bars of equal width, outliers in the first and last; a few whole numbers get a bar each."""
    present = ~column.missing
    values = column.values[present]
    if not len(values):
        return np.full(len(column), -1), 0, ("", "")
    low, high = np.quantile(values, [TAIL_SHARE, 1.0 - TAIL_SHARE])
    low, high = (low, high) if high > low else (values.min(), values.max())
    low, high = (np.floor(low), np.ceil(high)) if column.whole else (low, high)
    distinct = (
        np.unique(values) if np.array_equal(values, np.floor(values)) and values.max() - values.min() < N_BINS else None
    )
    edges: Floats = (
        np.arange(distinct[0], distinct[-1] + 2) - 0.5 if distinct is not None else np.linspace(low, high, N_BINS + 1)
    )
    bins = len(edges) - 1 if high > low or distinct is not None else 1
    codes = np.full(len(column), -1)
    codes[present] = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    ends = (values.min(), values.max()) if distinct is not None else (low, high)
    end_names = tuple(value_text(column, float(value)) for value in ends)
    end_signs = [
        "≤ " if distinct is None and values.min() < low else "",
        "≥ " if distinct is None and values.max() > high else "",
    ]
    return codes, bins, (f"{end_signs[0]}{end_names[0]}", f"{end_signs[1]}{end_names[1]}" if bins > 1 else "")


def value_text(column: Numbers, value: float) -> str:
    if column.dates is not None:
        return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(value)), "D"))
    return f"{value:,.0f}" if (value.is_integer() or abs(value) >= 1000) and abs(value) < 1e15 else f"{value:.4g}"


def remembered_columns(material: Material) -> list[Markup]:
    """What the model stores about its columns, if there are no rows."""
    known = known_kinds(material.model)
    if not known:
        return []
    lines = [
        (data(own.name, 60), own.kind + (" (left out)" if own.kind in LEFT_OUT else ""), count(own.missing), own.why)
        for own in [*known.values()][:MAX_COLUMNS_LISTED]
    ]
    out = [heading("Columns"), table(("column", "kind", "missing", "why"), lines, "Columns as the model reads them")]
    if len(known) > MAX_COLUMNS_LISTED:
        out.append(paragraph(f"… and {pluralize(len(known) - MAX_COLUMNS_LISTED, 'column')} more.", class_="note"))
    return out


# ------------------------------------------------------------------ texts


def text_lengths(material: Material) -> list[Markup]:
    """How long texts are, by class."""
    assert material.rows is not None
    texts = [
        len(str(text, "utf-8", "replace").split()) if isinstance(text, bytes) else len(str(text).split())
        for text in material.rows.X
    ]
    col = ReadColumn("length", "count", "", Numbers(np.array(texts, dtype=float), whole=True))
    groups, names, _ = classes_drawn(material)
    drawn = column_histograms(col, groups, names)
    middle = float(np.median(texts)) if texts else 0.0
    empty = sum(n == 0 for n in texts)
    half = f"Half of the texts have {pluralize(middle, 'word')} or more."
    return [
        heading("Length of the texts"),
        paragraph(half, f" {pluralize(empty, 'text')} {'is' if empty == 1 else 'are'} empty." if empty else ""),
        joined([drawn, tag("p", "Words of a text, by class.", class_="note")]),
    ]
