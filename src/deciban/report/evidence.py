"""Evidence: the strongest for each class, one row in full, the worst mistakes, and the least typical rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deciban.bayes import DECIBANS
from deciban.reading.columns import Levels
from deciban.report.markup import (
    Markup,
    NoSection,
    columns,
    count,
    data,
    decibans,
    heading,
    joined,
    number,
    paragraph,
    percent,
    pluralize,
    prose,
    table,
    tag,
)
from deciban.report.rows import Material, ReadColumn, shown_value
from deciban.report.svg import bar, signed_bar
from deciban.results.evidence import Evidence
from deciban.results.importance import Importance
from deciban.show import plain
from deciban.text.evidence import STRONG, WEAK, TextEvidence

MAX_CLASSES_SHOWN = 6  # the largest
MAX_CLASSES = 200  # for more, computing it takes longer than the rest of the page
MAX_ITEMS = 6  # per class
MAX_STEPS = 10  # of the example, besides the prior and the rest
MAX_STEPS_OF_SEVERAL = 4  # of each mistake
MAX_ROWS_SHOWN = 5  # mistakes, and untypical rows
MAX_RARE_VALUES = 6  # of an untypical row
MAX_TEXT_CHARACTERS = 700  # of the example
MAX_VALUES_SHOWN, MAX_VALUES_MARKED = 40, 3  # of a row
MAX_VALUE_CHARACTERS = 160  # of a value of a row


def strongest_section(material: Material, importance: Importance | str) -> list[Markup]:
    """The values or words with the strongest evidence for each class, on average over rows."""
    top_evidence = getattr(material.model, "top_evidence", None)
    k = len(material.classes)
    if top_evidence is None or k < 2:
        why = "there is only one class" if k < 2 else "this model has none to show"
        return [NoSection(why)]
    if k > MAX_CLASSES:
        return [NoSection(f"there are {count(k)} classes; top_evidence() lists it for each")]
    by_class: dict[Any, list[tuple[Any, float, int | None]]] = {}
    if isinstance(importance, Importance):
        for label in dict.fromkeys((*importance.classes, *importance.sides)):
            by_class[label] = list(importance.strongest(label, MAX_ITEMS))
    else:
        named = material.names is not None and not hasattr(material.model, "kinds_")
        strongest = top_evidence(MAX_ITEMS, names=list(material.names or ())) if named else top_evidence(MAX_ITEMS)
        for label, item, db in strongest.rows:
            by_class.setdefault(plain(label), []).append((item, float(db), None))
    by_class = {label: items for label, items in by_class.items() if items}
    class_counts = dict(
        zip(map(plain, material.classes), getattr(material.model, "class_count_", np.ones(k)), strict=True)
    )
    largest = sorted(by_class, key=lambda label: -float(class_counts.get(label, 0.0)))[:MAX_CLASSES_SHOWN]
    shown = [label for label in by_class if label in largest]
    longest = max((db for label in shown for _, db, _ in by_class[label] if math.isfinite(db)), default=1.0)
    blocks = [
        tag("div", heading("For ", data(label, 40)), evidence_bars(by_class[label], longest, label), class_="card")
        for label in shown
    ]
    which_classes = f" The {len(shown)} largest of {count(k)} classes." if k > len(shown) else ""
    how = "each on its own" if isinstance(importance, str) else "on average over the rows that have it"
    return [
        paragraph(f"The strongest evidence for a class against the others, {how}, in decibans.{which_classes}"),
        columns(*blocks),
    ]


def evidence_bars(items: Sequence[tuple[Any, float, int | None]], top: float, label: Any) -> Markup:
    counted = all(rows is not None for _, _, rows in items)
    lines = [
        (
            data(item, 60),
            decibans(db),
            bar(db / top if math.isfinite(db) else 1.0, "for"),
            *((count(rows or 0),) if counted else ()),
        )
        for item, db, rows in items
    ]
    head = ("", "dB", "", "rows") if counted else ("", "dB", "")
    return table(head, lines, f"Strongest evidence for {label}", "bars")


# ------------------------------------------------------------------ one row


def example_section(material: Material) -> list[Markup]:
    """One row in full: its probability and the evidence behind it."""
    if material.rows is None or material.size == 0:
        return [NoSection("no rows were given")]
    i, judged = typical_row(material), material.judged
    if len(material.classes) < 2:
        return [NoSection("there is only one class")]
    prediction = plain(material.classes[int(np.argmax(material.model.predict_log_proba(material.row(i))[0]))])
    why = material.explain(i, target=prediction)
    sentence: list[Any] = [
        f"Row {count(material.number(i))} (rows are counted from 1), a typical one. The model predicts "
    ]
    sentence.append(data(prediction, 40))
    if judged is not None:
        truth = plain(judged.classes[judged.truth[i]])
        sentence += [", which is correct"] if truth == prediction else ["; its true class is ", data(truth, 40)]
    sentence.append(".")
    return [
        paragraph(*sentence),
        probability_line(why),
        evidence_table(why, MAX_STEPS),
        paragraph(
            "The prior odds and the evidence of each part of the row add up to the total, which is the log-odds: 10 "
            "dB is ten to one. ",
            *(f"{meaning[:1].upper()}{meaning[1:]} " for meaning in why.meanings()),
            class_="note",
        ),
        *marked_text(why),
        *without_row_note(material, i, why),
    ]


def typical_row(material: Material) -> int:
    """A correctly predicted row of median confidence."""
    judged = material.judged
    if judged is None:
        return 0
    confidence = judged.log_proba.max(axis=1)
    right = np.flatnonzero(judged.right)
    rows = right if len(right) else np.arange(len(confidence))
    middle = np.median(confidence[rows])
    return int(rows[np.argmin(np.abs(confidence[rows] - middle))])


def probability_line(why: Evidence) -> Markup:
    """The probability and the odds, in one prominent line."""
    odds = 10.0 ** (min(abs(why.total), 90.0) / 10.0)
    odds_text = f"over {odds:,.0f}" if abs(why.total) > 90.0 else f"{odds:,.0f}" if odds >= 100 else number(odds, 3)
    favoured, other = (why.target, why.against) if why.total >= 0 else (why.against, why.target)
    return tag(
        "p",
        tag("b", "P(", data(why.target, 40), f") = {why.probability:.4f}"),
        tag(
            "span",
            f"{percent(why.probability)} probability; {decibans(why.total)} dB, odds of {odds_text} to 1 for ",
            data(favoured, 40),
            " over ",
            data(other, 40),
        ),
        class_="answer",
    )


def evidence_table(why: Evidence, max_items: int) -> Markup:
    """Bars of evidence: the prior, the strongest items, the rest, and their total."""
    shown = why.items[:max_items]
    rest = why.items[max_items:]
    lines: list[tuple[Any, Any, float]] = [("prior odds", "", why.prior)]
    lines += [(name, value, db) for name, value, db in shown]
    longest = max((abs(db) for *_, db in lines if math.isfinite(db)), default=0.0) or 1.0
    cells: list[tuple[Any, ...]] = [
        (
            data(name, 60),
            value_markup(why, value),
            decibans(db),
            signed_bar(db / longest if math.isfinite(db) else math.copysign(1.0, db)),
        )
        for name, value, db in lines
    ]
    if rest:  # a sum, like the total: only items have bars
        rest_total = float(sum(db for _, _, db in rest))
        cells.append((f"{count(len(rest))} more", "", decibans(0.0 if math.isnan(rest_total) else rest_total), ""))
    cells.append(("total", "", decibans(why.total), ""))
    head = (
        "evidence",
        "value",
        "dB",
        joined([tag("span", "← ", data(why.against, 24)), tag("span", data(why.target, 24), " →")]),
    )
    caption = f"Evidence for {why.target} over {why.against}"
    return table(head, cells, caption, "bars evidence")


def value_markup(why: Evidence, value: Any) -> Any:
    if isinstance(plain(value), float) and not isinstance(why, TextEvidence):
        return tag("span", number(value))
    shown = why.shown_value(value)
    return data(shown, 40) if shown else ""


def marked_text(why: Evidence, max_characters: int = MAX_TEXT_CHARACTERS) -> list[Markup]:
    """A text with its evidence marked: underlined if for the target, dotted if against it."""
    if not isinstance(why, TextEvidence) or not why.text:
        return []
    parts: list[Any] = []
    at = 0
    for start, end, db in why.spans:
        if start >= max_characters:
            break
        if abs(db) >= WEAK:
            parts.append(prose(why.text[at:start]))
            side = "pro" if db > 0 else "con"
            strong = " strong" if abs(db) >= STRONG else ""
            parts.append(tag("mark", prose(why.text[start:end][:80]), class_=side + strong, title=f"{decibans(db)} dB"))
            at = end
    parts.append(prose(why.text[at : max(at, max_characters)]))
    if len(why.text) > max_characters:
        parts.append(f"… ({count(len(why.text))} characters)")
    legend = paragraph(
        tag("mark", "evidence for", class_="pro"),
        " ",
        data(why.target, 40),
        " · ",
        tag("mark", "evidence against", class_="con"),
        " · fainter: less than 6 dB",
        class_="note",
    )
    return [tag("blockquote", *parts), legend]


def without_row_note(material: Material, i: int, why: Evidence) -> list[Markup]:
    """For a learned row: its leave-one-out probability."""
    if not material.learned or material.judged is None:
        return []
    code_of = {plain(label): c for c, label in enumerate(material.judged.classes)}
    p_without_row = float(material.judged.proba[i, code_of[plain(why.target)]])
    return [
        paragraph(
            "The row is one of those that were learned. Without it the model predicts P(",
            data(why.target, 40),
            f") = {p_without_row:.4f}.",
            class_="note",
        )
    ]


# ------------------------------------------------------------------ mistakes


def mistakes_section(material: Material) -> list[Markup]:
    """The mistakes with the highest log loss, each with its evidence."""
    judged = material.judged
    if judged is None or not len(judged.truth):
        return [NoSection("there are no rows with labels")]
    wrong = np.flatnonzero(~judged.right)
    if not len(wrong):
        return [paragraph("There are none: every row was predicted correctly.")]
    worst = wrong[np.argsort(-judged.log_losses[wrong], kind="stable")][:MAX_ROWS_SHOWN]
    known = set(map(plain, material.classes))
    out = [
        paragraph(
            f"Of {pluralize(len(wrong), 'mistake')}, those with the lowest probability of the true class. Check them: "
            "some may be wrong labels, others may need columns that the model lacks."
        )
    ]
    if material.learned:
        out.append(
            paragraph(
                "Probabilities are those without the row; the evidence is that of the whole model, which has learned "
                "it and so has more evidence for its class.",
                class_="note",
            )
        )
    for i in worst.tolist():
        truth, prediction = plain(judged.classes[judged.truth[i]]), plain(judged.predictions[i])
        true_p = float(judged.proba[i, judged.truth[i]])
        predicted_p = float(judged.proba[i].max())
        title = tag(
            "h3",
            f"Row {count(material.number(i))}: ",
            data(truth, 40),
            ", predicted as ",
            data(prediction, 40),
        )
        about = paragraph(
            "P(",
            data(prediction, 40),
            f") = {predicted_p:.4f}, P(",
            data(truth, 40),
            f") = {true_p:.4f}." if true_p >= 5e-5 or true_p == 0.0 else f") = {true_p:.1e}.",
        )
        block: list[Any] = [title, about]
        if truth in known and truth != prediction:
            why = material.explain(i, target=prediction, against=truth)
            block += [evidence_table(why, MAX_STEPS_OF_SEVERAL), *marked_text(why, 300), *row_values(material, i, why)]
        else:
            block += [paragraph("The model does not know this class.", class_="note"), *row_values(material, i)]
        out.append(tag("div", *block, class_="case"))
    return out


def row_values(material: Material, i: int, why: Evidence | None = None) -> list[Markup]:
    """A row's values, in the order of the columns; those with the strongest evidence are marked."""
    evidence: dict[str, float] = {}
    for name, _, db in () if why is None else why.items:
        for col in material.read_columns:
            if name == col.name or name.startswith((f"{col.name}: ", f"{col.name} given ")):
                evidence[col.name] = evidence.get(col.name, 0.0) + db
    strongest = sorted((name for name, db in evidence.items() if abs(db) >= WEAK), key=lambda n: -abs(evidence[n]))
    parts = []
    for col in material.read_columns[:MAX_VALUES_SHOWN]:
        shown = joined([data(col.name, 30), " = ", data(shown_value(col.column, i), MAX_VALUE_CHARACTERS)])
        if col.name in strongest[:MAX_VALUES_MARKED]:
            db = evidence[col.name]
            shown = tag("mark", shown, class_="pro" if db > 0 else "con", title=f"{decibans(db)} dB")
        parts.append(tag("li", shown))
    more = len(material.read_columns) - MAX_VALUES_SHOWN
    parts += [tag("li", f"and {count(more)} more")] if more > 0 else []
    return [tag("ul", *parts, class_="values row")] if parts else []


# ------------------------------------------------------------------ least typical rows


def untypical_section(material: Material) -> list[Markup]:
    """Rows with the lowest p(x)."""
    if material.rows is None or material.size == 0:
        return [NoSection("no rows were given")]
    score_samples = getattr(material.model, "score_samples", None)
    if score_samples is None:
        return [NoSection(f"{material.name} has probabilities of classes, but not of rows")]
    log_density = np.asarray(score_samples(material.rows.X), dtype=np.float64) * DECIBANS
    deficit = np.median(log_density) - log_density
    order = np.argsort(log_density, kind="stable")[:MAX_ROWS_SHOWN]
    read_columns = material.read_columns
    lines = []
    for i in order.tolist():
        details = rarest_values(read_columns, i) if read_columns else text_start(material, i)
        label = data(plain(material.labels[i]), 30) if material.labels is not None else ""
        lines.append((f"{count(material.number(i))}", label, decibans(-deficit[i]), details))
    head = ("row", "class", "dB", "its rarest values" if read_columns else "how it starts")
    return [
        paragraph(
            "Rows with the lowest density p(x) under the model. dB: p(x) relative to the median row; −30 dB is a "
            "thousand times less. Look here for errors in the data, and for new kinds of rows."
        ),
        table(head, lines, "Least typical rows", "wide"),
    ]


def rarest_values(read_columns: Sequence[ReadColumn], i: int) -> Markup:
    """A row's rarest values, each with its frequency."""
    rarities = []
    for col in read_columns:
        if col.used and col.kind != "text":
            share, description = value_rarity(col, i)
            rarities.append((share, col, description))
    rarities.sort(key=lambda one: one[0])
    parts = [
        tag("li", data(col.name, 40), " = ", data(shown_value(col.column, i), 30), tag("span", f" {description}"))
        for _, col, description in rarities[:MAX_RARE_VALUES]
    ]
    return tag("ul", *parts, class_="values")


def value_rarity(col: ReadColumn, i: int) -> tuple[float, str]:
    """The share of rows that have this value or one as extreme, and the share in words."""
    column, n = col.column, max(1, len(col.column))
    if bool(column.missing[i]):
        share = float(column.missing.mean())
        return share, f"in {percent(share)}"
    if isinstance(column, Levels):
        share = float(np.count_nonzero(column.codes == column.codes[i])) / n
        return share, f"in {percent(share)}"
    value = column.values[i]
    low, high = (float(np.count_nonzero(side)) / n for side in (column.values <= value, column.values >= value))
    side = "as low" if low < high else "as high"
    return min(low, high), f"{side}: {percent(min(low, high))}"


def text_start(material: Material, i: int) -> Markup:
    """The start of a text."""
    assert material.rows is not None
    if material.rows.make != "texts":
        return tag("span", "")
    text = material.rows.X[i]
    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return data(decoded, 160)
