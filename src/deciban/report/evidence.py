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
MAX_ROWS_SHOWN = 5  # mistakes, and untypical rows
MAX_RARE_VALUES = 6  # of an untypical row
MAX_TEXT_CHARACTERS = 700  # of the example
MAX_VALUES_SHOWN, MAX_WORDS = 40, 8  # of a row or a text among several
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
    scores = judged.log_proba[i] if judged is not None else material.model.predict_log_proba(material.row(i))[0]
    prediction = plain((material.classes if judged is None else judged.classes)[int(np.argmax(scores))])
    why, without = material.explain(i, target=prediction)
    sentence: list[Any] = [
        f"Row {count(material.number(i))} (rows are counted from 1), a typical one. The model predicts "
    ]
    sentence.append(data(prediction, 40))
    if judged is not None:
        truth = plain(judged.classes[judged.truth[i]])
        sentence += [", which is correct"] if truth == prediction else ["; its true class is ", data(truth, 40)]
    sentence.append(". It was learned, and is explained by the model without it." if without else ".")
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
        *([paragraph(*marks_legend(data(why.target, 40)), class_="note")] if isinstance(why, TextEvidence) else []),
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
    lines: list[tuple[Any, Any, float]] = [("prior odds", "", why.prior), *why.items[:max_items]]
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
    # Sums, like the total: only items have bars.
    cells += [(name, "", decibans(db), "") for name, db in why.rest(why.items[max_items:])]
    cells.append(("total", "", decibans(why.total), ""))
    sides = joined([tag("span", "← ", data(why.against, 24)), tag("span", data(why.target, 24), " →")])
    head: tuple[Any, ...] = ("evidence", "value", "dB", sides)
    if not any(value for _, value, *_ in cells):  # words that occur once
        head, cells = (head[0], *head[2:]), [(cell[0], *cell[2:]) for cell in cells]
    return table(head, cells, f"Evidence for {why.target} over {why.against}", "bars evidence")


def value_markup(why: Evidence, value: Any) -> Any:
    shown = why.shown_value(plain(value))
    return data(shown, 40) if shown else ""


def marked_text(why: Evidence, max_characters: int = MAX_TEXT_CHARACTERS) -> list[Markup]:
    """A text with its evidence marked: underlined if for the target, dotted if against it. Of a long one, the part with
    the most evidence."""
    if not isinstance(why, TextEvidence) or not why.text:
        return []
    first = strongest_part(why, max_characters)
    last, at, parts = first + max_characters, first, list[Any](["… "] if first else [])
    for start, end, db in why.spans:
        if start >= last:
            break
        if start >= at and abs(db) >= why.weak:
            parts.append(prose(why.text[at:start]))
            side = "pro" if db > 0 else "con"
            strong = " strong" if abs(db) >= STRONG else ""
            parts.append(tag("mark", prose(why.text[start:end][:80]), class_=side + strong, title=f"{decibans(db)} dB"))
            at = end
    parts.append(prose(why.text[at : max(at, last)]))
    if len(why.text) > max_characters:
        parts.append(f"… ({count(len(why.text))} characters)")
    return [tag("blockquote", *parts)]


def strongest_part(why: TextEvidence, max_characters: int) -> int:
    """Where the part of a text begins that has the most evidence; from the beginning, where all of it can be shown."""
    if len(why.text) <= max_characters:
        return 0
    starts, ends = (np.array([span[i] for span in why.spans], dtype=np.int64) for i in (0, 1))
    so_far = np.append(0.0, np.cumsum([abs(db) for *_, db in why.spans]))
    if not len(starts):
        return 0
    last = np.searchsorted(ends, starts + max_characters, side="right")
    within = so_far[last] - so_far[:-1]
    best = int(np.argmax(within))
    if so_far[np.searchsorted(ends, max_characters, side="right")] >= within[best]:
        return 0
    room = max_characters - int(ends[last[best] - 1] - starts[best]) if last[best] > best else 0
    return max(0, int(starts[best]) - room // 2)  # in the middle


def marks_legend(target: Any) -> list[Any]:
    """What the marks in a text or a row mean."""
    pro, con = tag("mark", "evidence for", class_="pro"), tag("mark", "evidence against", class_="con")
    return [pro, " ", target, " · ", con, f" · fainter: less than {STRONG:g} dB"]


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
    cases, all_without = [], True
    for i in worst.tolist():
        truth, prediction = plain(judged.classes[judged.truth[i]]), plain(judged.predictions[i])
        true_p, predicted_p = float(judged.proba[i, judged.truth[i]]), float(judged.proba[i].max())
        block: list[Any] = [
            tag("h3", f"Row {count(material.number(i))}: ", data(truth, 40), ", predicted as ", data(prediction, 40)),
            paragraph(
                "P(",
                data(prediction, 40),
                f") = {predicted_p:.4f}, P(",
                data(truth, 40),
                f") = {true_p:.4f}" if true_p >= 5e-5 or true_p == 0.0 else f") = {true_p:.1e}",
                class_="note",
            ),
        ]
        if truth in known and truth != prediction:
            why, without = material.explain(i, target=prediction, against=truth)
            all_without &= without
            block += [*marked_text(why, 300), row_evidence(material, i, why)]
        else:
            block += [paragraph("The model does not know this class.", class_="note"), row_evidence(material, i)]
        cases.append(tag("div", *block, class_="case"))
    explained = "Explained by the model without the row: " if all_without else "The evidence: "
    if material.learned and not all_without:
        explained = "The evidence is that of the model, which has learned the rows and favours their classes: "
    return [
        paragraph(
            f"Of {pluralize(len(wrong), 'mistake')}, those with the lowest probability of the true class. Check them: "
            "some may be wrong labels, others may need columns that the model lacks."
        ),
        paragraph(explained, *marks_legend("the prediction"), class_="note"),
        *cases,
    ]


def row_evidence(material: Material, i: int, why: Evidence | None = None) -> Markup:
    """A row with the evidence of each value, the strongest first; of a text, its strongest words."""
    columns = material.read_columns[:MAX_VALUES_SHOWN]
    values: dict[str, Any] = {col.name: shown_value(col.column, i) for col in columns}
    terms: dict[str, float | None] = dict.fromkeys(values)  # a missing value may have no evidence
    for name, value, db in () if why is None else why.items:
        owner = next((own for own in values if name == own or name.startswith((f"{own}: ", f"{own} given "))), name)
        terms[owner] = (terms.get(owner) or 0.0) + db
        values.setdefault(owner, value)
    order = sorted(terms, key=lambda name: -abs(terms[name] or 0.0))
    if why is None:
        parts = [value_chip(data(name, 30), " = ", data(values[name], MAX_VALUE_CHARACTERS)) for name in order]
    else:
        most = MAX_VALUES_SHOWN if columns else MAX_WORDS
        parts = [value_chip("prior odds", db=why.prior)]
        parts += [
            value_chip(data(why.item_label(n, values[n]), MAX_VALUE_CHARACTERS), db=terms[n]) for n in order[:most]
        ]
        parts += [value_chip(n, db=db) for n, db in why.rest([(n, values[n], terms[n] or 0.0) for n in order[most:]])]
        parts.append(tag("li", tag("b", f"total {decibans(why.total)} dB")))
    more = len(material.read_columns) - len(columns)
    parts += [tag("li", f"and {pluralize(more, 'column')} more")] if more > 0 else []
    return tag("ul", *parts, class_="values row")


def value_chip(*shown: Any, db: float | None = None) -> Markup:
    """A value with its evidence, marked by its strength."""
    if db is None:
        return tag("li", *shown)
    side = "pro" if db > 0 else "con"
    kind = None if abs(db) < WEAK else f"{side} strong" if abs(db) >= STRONG else side
    return tag("li", tag("mark", *shown, " ", tag("span", decibans(db)), class_=kind))


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
