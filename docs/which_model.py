"""Draw "Which model?": `python docs/which_model.py` writes docs/images/which-model.svg."""

from __future__ import annotations

from html import escape
from pathlib import Path

PICTURE = Path(__file__).with_name("images") / "which-model.svg"
QUESTION = "What is a row?"
GROUPS = {
    "a text": [
        ("a message, a review, a ticket", "TextClassifier"),
        ("a mail, with its headers", "SpamFilter"),
    ],
    "a mix of columns": [
        ("any columns, values missing", "Classifier"),
        ("you choose the distributions", "NaiveBayes"),
        ("categories, not independent", "TreeAugmentedNB"),
    ],
    "numbers": [
        ("correlated with each other", "GaussianDiscriminant"),
        ("several clusters in a class", "MixtureDiscriminant"),
        ("no labels at all", "GaussianMixture"),
        ("a very fast baseline", "GaussianNB"),
    ],
    "counts or yes/no": [
        ("how often words occur", "MultinomialNB"),
        ("the same, classes of unequal size", "ComplementNB"),
        ("present or absent", "BernoulliNB"),
        ("events per row", "PoissonNB"),
        ("one category per column", "CategoricalNB"),
    ],
}
FIRST = {"TextClassifier", "SpamFilter", "Classifier", "GaussianDiscriminant"}  # where to start in each group
COLOURS = ("#00796b", "#3949ab", "#b35900", "#6a1b9a")
WIDTH, LINE, GAP, TOP = 860, 34, 16, 20
GROUP_AT, CASE_AT, MODEL_AT = 190, 372, 640


def drawn() -> str:
    """The picture: the question, four kinds of rows, what else is known of them, and the model to use."""
    shapes: list[str] = []
    y = TOP
    middle = (TOP + sum(len(cases) * LINE + GAP for cases in GROUPS.values())) / 2
    for (group, cases), colour in zip(GROUPS.items(), COLOURS, strict=True):
        centre = y + len(cases) * LINE / 2
        shapes += [
            curve(142, middle, GROUP_AT, centre, colour),
            box(GROUP_AT, centre, 150, group, fill=colour, text="#ffffff"),
        ]
        for case, model in cases:
            line = y + LINE / 2
            shapes += [
                curve(GROUP_AT + 150, centre, CASE_AT, line, colour),
                f'<text x="{CASE_AT + 6}" y="{line + 5:g}" fill="#333333">{escape(case)}</text>',
                box(MODEL_AT, line, 200, model, fill="#ffffff", text=colour, bold=model in FIRST),
            ]
            y += LINE
        y += GAP
    shapes.append(box(10, middle, 132, QUESTION, fill="#333333", text="#ffffff"))
    names = ", ".join(f"{case}: {model}" for cases in GROUPS.values() for case, model in cases)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 4}" font-family="sans-serif" font-size="15"'
        f' role="img"><title>Which model?</title><desc>{escape(names)}</desc>\n'
        f'<rect width="{WIDTH}" height="{y + 4}" fill="#ffffff"/>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def box(x: float, y: float, width: float, label: str, *, fill: str, text: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    edge = text if fill == "#ffffff" else fill
    return (
        f'<rect x="{x:g}" y="{y - 13:g}" width="{width:g}" height="26" rx="6" fill="{fill}" stroke="{edge}"'
        f' stroke-width="{2.5 if bold else 1}"/>'
        f'<text x="{x + width / 2:g}" y="{y + 5:g}" fill="{text}" text-anchor="middle"{weight}>{escape(label)}</text>'
    )


def curve(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    half = (x + to_x) / 2
    path = f"M{x:g} {y:g}C{half:g} {y:g} {half:g} {to_y:g} {to_x:g} {to_y:g}"
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
