"""The page: valid, self-contained, escaped, and explicit about what is left out."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from effort import growth
from report.tables import CLOSING, HOSTILE, LONG, mixed_table

from deciban import (
    BernoulliNB,
    CategoricalNB,
    Classifier,
    ComplementNB,
    DecibanError,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminant,
    MultinomialNB,
    NaiveBayes,
    NearestCentroid,
    PoissonNB,
    QuadraticDiscriminantAnalysis,
    SpamFilter,
    TextClassifier,
    TreeAugmentedNB,
    read,
)
from deciban.report import N_STEPS, page
from deciban.report.markup import decibans, percent

VOID = {"meta", "link", "br"}
SECTIONS = [
    *("goodness", "importance", "confusions", "calibration", "thresholds", "data", "structure", "evidence", "example"),
    *("mistakes", "untypical", "curve", "boundary", "decibans", "origin"),
]
ELEMENTS = {
    *("html", "head", "meta", "link", "title", "style", "body", "header", "main", "section", "nav", "div", "p", "span"),
    *("b", "i", "a", "bdi", "br", "mark", "blockquote", "h1", "h2", "h3", "h4", "dl", "dt", "dd", "ul", "li"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary"),
    *("svg", "desc", "text", "path", "rect", "g"),
}


class Reader(HTMLParser):
    """The elements, their texts, and whether every opened one is closed."""

    def __init__(self, written: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text_by_section: dict[str, list[str]] = {}
        self.section = ""
        self.feed(written)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]
        if tag == "section":
            self.section = dict(attributes)["id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"{tag} was never opened"
        assert self.open[-1] == tag, f"{tag} closes {self.open[-1]}"
        self.open.pop()

    def handle_data(self, data):
        self.text_by_section.setdefault(self.section, []).append(data)

    def text(self, section: str) -> str:
        return " ".join("".join(self.text_by_section[section]).split())


def test_every_section_is_there_in_order(table_page):
    parsed = Reader(table_page)
    there = [key for key in SECTIONS if key != "boundary"]
    assert [value for tag, name, value in parsed.attributes if (tag, name) == ("section", "id")] == there
    links = [value for tag, name, value in parsed.attributes if (tag, name) == ("a", "href")]
    assert links == [f"#{key}" for key in there]
    assert "Not on this page: Decision boundary (" in parsed.text("origin")


PAGES = ["table_page", "plane_page", "hostile_page", "text_page"]


@pytest.fixture(params=PAGES)
def some_page(request):
    return request.getfixturevalue(request.param)


def test_a_page_is_sound(some_page):
    parsed = Reader(some_page)
    ids = [value for _, name, value in parsed.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert set(parsed.tags) <= ELEMENTS, "nothing else can come in, whatever the data says"


def test_a_page_makes_no_requests(some_page):
    parsed = Reader(some_page)
    metadata = [value for tag, name, value in parsed.attributes if (tag, name) == ("meta", "content")]
    assert any(value.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;") for value in metadata)
    assert not re.search(r"https?://|url\(|@import|//[a-z]", some_page)
    for tag, name, value in parsed.attributes:
        assert not name.startswith("on"), f"{tag} {name}={value}"
        assert name not in ("src", "srcset", "data", "action", "formaction", "background", "xlink:href")
        if name == "href":
            assert value.startswith("#") or value == "data:,"
        if name == "style":
            assert re.fullmatch(r"--shade:\d+%", value)


def test_every_picture_has_a_title_and_a_description(table_page, plane_page):
    for written in (table_page, plane_page):
        for drawing in re.findall(r"<svg[^>]*>.*?</svg>", written, re.DOTALL):
            start = drawing[: drawing.index(">")]
            if "aria-hidden" in start:
                continue
            assert 'role="img"' in start
            assert re.search(r"<title>[^<]+</title><desc>[^<]+</desc>", drawing)
        assert "NaN" not in written
        assert not re.search(r"[ \"(]nan[ \")]", written)


def test_data_are_escaped(hostile_page):
    assert not set(hostile_page) & {"\x1b", "\x00", "\u202e", "\ud800"}
    hostile_page.encode("utf-8")
    parsed = Reader(hostile_page)
    assert "script" not in parsed.tags
    assert "img" not in parsed.tags
    everything = "".join(text for section in parsed.text_by_section.values() for text in section)
    assert "<script>alert(1)</script>\"'&amp;�evil␛[31m␀␊" in everything, "as it is, and visible"
    assert CLOSING in parsed.text(""), "the heading"
    assert "w" * 200 not in hostile_page, "nobody reads a word of 3,000 letters"
    assert f"{len(LONG):,} characters" in hostile_page


def test_a_text_is_shown_with_its_evidence(text_page):
    parsed = Reader(text_page)
    assert "b" in parsed.tags
    example = parsed.text("example")
    assert "evidence for" in example
    assert "first line" in example
    assert "<mark" in text_page
    assert "<i>win</i>" not in text_page
    assert "\u202e" not in text_page


# ------------------------------ contents


def test_the_numbers_are_those_of_the_model():
    table, y = mixed_table()
    model = Classifier(n_jobs=1).fit(table, y)
    parsed = Reader(page(model, table, y, learned=True, curve=False))
    judged = model.leave_one_out(table, y)
    assert f"Accuracy {100 * judged.accuracy:.1f} % on 240 rows" in parsed.text("")
    for value in (judged.log_loss, judged.brier, judged.auc, judged.baseline):
        assert f"{value:.4g}" in parsed.text("goodness")
    for n in judged.confusion.ravel():
        assert f"{n:.0f}" in parsed.text("confusions")
    worst = np.flatnonzero(~judged.right)
    worst = worst[np.argmax(judged.log_losses[worst])]
    assert f"Row {worst + 1}:" in parsed.text("mistakes")
    row = int(re.search(r"Row (\d+)", parsed.text("example"))[1]) - 1
    one = {name: values[row : row + 1] for name, values in table.items()}
    why = model.empty().partial_fit(table, y).forget(one, y[row : row + 1]).explain(one)
    assert f"P({why.target}) = {why.probability:.4f}" in parsed.text("example"), "by the model without the row"
    least = int(np.argmin(model.score_samples(table)))
    assert parsed.text("untypical").split("its rarest values")[1].startswith(f"{least + 1}{y[least]}")
    assert "Learning curve: would more rows help? (" in parsed.text("origin")
    assert "curve" not in parsed.text_by_section


def test_new_rows_are_judged_as_new(plane_page):
    parsed = Reader(plane_page)
    assert "assumed to be new to it" in parsed.text("")
    assert "width" in parsed.text("data")
    assert "ROC" not in parsed.text("calibration")
    assert plane_page.count(" region") >= 3, "each class has a region"


def test_columns_are_shown_with_their_kind(table_page):
    text = Reader(table_page).text("data")
    assert "count" not in text.split("size")[1][:20]
    for word in ("number", "category", "text", "identifier", "constant", "every value is the same"):
        assert word in text
    assert "Columns that are left out" in text
    assert re.search(r"red.*\d %", text), "bars have the names of their categories"


def test_the_learning_curve_beats_the_class_shares(table_page):
    text = Reader(table_page).text("curve")
    assert "class shares alone" in text
    assert "held out" in text
    sizes = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) rows", text)]
    assert max(sizes) == 160, "two thirds of 240 rows"


def test_the_same_input_makes_the_same_page(flat):
    X, y = flat
    model = GaussianNB().fit(X, y)
    assert page(model, X, y, learned=True) == page(model, X, y, learned=True)


# ------------------------------ missing parts


def test_without_rows_the_stored_figures_are_shown():
    table, y = mixed_table()
    model = Classifier(n_jobs=1).fit(table, y)
    parsed = Reader(page(model))
    summary = model.summary()
    assert f"{100 * summary.accuracy:.1f} %" in parsed.text("goodness")
    assert f"{summary.loss:.4g}" in parsed.text("goodness")
    for section in ("confusions", "calibration", "example", "mistakes", "untypical", "curve", "boundary"):
        assert section not in parsed.text_by_section
    assert "Left out: " not in parsed.text("origin")
    assert parsed.text("origin").count("(no rows were given)") == 3
    assert "size" in parsed.text("data")


def test_without_labels_nothing_is_judged():
    table, y = mixed_table()
    parsed = Reader(page(Classifier(n_jobs=1).fit(table, y), table))
    assert "The rows have no labels" in parsed.text("goodness")
    assert "Worst mistakes (" in parsed.text("origin")
    assert "P(" in parsed.text("example")
    assert "its rarest values" in parsed.text("untypical")


def test_rows_without_a_label_are_counted_and_left_out(flat):
    X, y = flat
    some = y.astype(object)
    some[::10] = None
    parsed = Reader(page(GaussianNB().fit(X, y), X, some, curve=False))
    assert "15 rows without a label were left out" in parsed.text("data")
    assert "on 135 rows" in parsed.text("")


def test_labels_that_the_model_does_not_know(flat):
    X, y = flat
    two = y != "c"
    parsed = Reader(page(GaussianNB().fit(X[two], y[two]), X, y, curve=False))
    assert "50 rows of classes that the model does not know (c)" in parsed.text("goodness")
    assert "The model does not know this class" in parsed.text("mistakes")
    assert "ROC, area" in parsed.text("calibration"), "of the two that it knows"


def test_a_mixture_explains_why_no_row_can_be_left_out(flat):
    X, y = flat
    parsed = Reader(page(MixtureDiscriminant(components=2).fit(X, y), X, y, learned=True, curve=False))
    assert "left out one by one" in parsed.text("goodness")


def test_what_cannot_be_reported(flat):
    X, y = flat
    with pytest.raises(DecibanError, match="fitted classifier"):
        page(GaussianNB(), X, y)
    with pytest.raises(DecibanError, match="X has 150 rows, but y has 3 labels"):
        page(GaussianNB().fit(X, y), X, y[:3])
    with pytest.raises(DecibanError, match="string"):
        page(GaussianNB().fit(X, y), "text", y)


# ------------------------------ every model, every type of table

COUNTS = np.random.default_rng(0).poisson(2.0, (90, 4)) + np.arange(90)[:, None] % 3
LABELS = np.array(["a", "b", "c"])[np.arange(90) % 3]


@pytest.mark.parametrize(
    "model",
    [
        *(BernoulliNB(), CategoricalNB(), ComplementNB(), GaussianNB(), MultinomialNB(), PoissonNB(), NaiveBayes()),
        *(LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis(), NearestCentroid(), TreeAugmentedNB()),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("learned", [True, False])
def test_every_model_has_a_page(model, learned):
    parsed = Reader(page(model.fit(COUNTS, LABELS), COUNTS, LABELS, learned=learned, curve=False))
    assert f"{type(model).__name__} of 3 classes" in parsed.text("")
    assert "Accuracy" in parsed.text("")
    assert "dB" in parsed.text("evidence")
    Reader(page(model))


def test_a_filter_of_mail_has_a_page():
    spam = [f"Subject: win\n\nClaim cash prize {i} now" for i in range(30)]
    ham = [f"Subject: lunch\n\nSee you at noon {i}" for i in range(30)]
    model = SpamFilter().train(spam, "spam").train(ham, "ham")
    parsed = Reader(page(model, spam + ham, ["spam"] * 30 + ["ham"] * 30, learned=True, curve=False))
    assert "P(" in parsed.text("example")
    assert "Least typical rows (SpamFilter " in parsed.text("origin")


def test_a_saved_model_that_only_answers_has_a_page(tmp_path):
    table, y = mixed_table()
    Classifier(n_jobs=1).fit(table, y).save(tmp_path / "small.deciban")
    parsed = Reader(page(read(tmp_path / "small.deciban"), table, y))
    assert "Classifier of 2 classes" in parsed.text("")
    assert "does not learn" in parsed.text("origin")


@pytest.mark.slow_where(r"target|dict")
@pytest.mark.parametrize(
    "make",
    ["pandas", "dict", "target", *(pytest.param(m, marks=pytest.mark.slow) for m in ("polars", "pyarrow", "rows"))],
)
def test_tables_of_any_make(make):
    table, y = mixed_table(60)
    table = {"size": table["size"].tolist(), "colour": table["colour"]}
    library = pytest.importorskip(make) if make in ("pandas", "polars", "pyarrow") else None
    X = {
        "pandas": lambda: library.DataFrame(table),
        "polars": lambda: library.DataFrame(table, nan_to_null=True),
        "pyarrow": lambda: library.table(table),
        "dict": lambda: table,
        "rows": lambda: [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)],
        "target": lambda: {**table, "label": y.tolist()},
    }[make]()
    model = Classifier(n_jobs=1).fit(X, "label" if make == "target" else y)
    parsed = Reader(page(model, X, "label" if make == "target" else y.tolist(), learned=True))
    assert "There are 2 columns" in parsed.text("data")
    assert "rows learned" in parsed.text("curve"), "rows can be taken from it"


def test_a_sparse_matrix_is_described():
    X = sp.random(120, 3000, 0.01, format="csr", random_state=0)
    X.data = np.ceil(5 * X.data)
    y = np.arange(120) % 2
    parsed = Reader(
        page(MultinomialNB().fit(X, y), X, y, learned=True, curve=False, names=[f"w{j}" for j in range(3000)])
    )
    assert "1.0 % of the entries" in parsed.text("data")
    assert re.search(r"w\d+", parsed.text("evidence"))


# ------------------------------ large inputs


def test_a_thousand_classes_fit_on_a_page():
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 1000
    X = np.column_stack([y + 0.3 * rng.normal(size=2000), rng.normal(size=2000)])
    written = page(GaussianNB().fit(X, y), X, y)
    parsed = Reader(written)
    assert len(written) < 500_000
    listed = re.findall(r'<th scope="row"><bdi>(\d+)</bdi>', written.split('id="confusions"')[0])
    assert sorted(map(int, listed)) == list(range(1000)), "every class is in the table"
    assert "there are too few rows of each class" in parsed.text("origin")
    assert "there are 1,000 classes" in parsed.text("origin")


def test_five_hundred_columns_fit_on_a_page():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 500))
    y = (X[:, 7] > 0).astype(int)
    written = page(GaussianNB().fit(X, y), X, y, learned=True, curve=False)
    assert len(written) < 400_000
    assert "and 376 columns more" in Reader(written).text("data")


def test_of_very_many_rows_some_are_looked_at():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 50_000)
    X = rng.normal(size=(50_000, 3)) + y[:, None]
    parsed = Reader(page(GaussianNB().fit(X, y), X, y, learned=True, curve=False))
    assert "a random sample of the 50,000" in parsed.text("data")
    assert "20,000 of 50,000 given" in parsed.text("origin")


@pytest.mark.slow
def test_time_grows_with_the_rows():
    rng = np.random.default_rng(0)
    n = 10_000
    y = rng.integers(0, 3, n)
    table = {f"x{j}": rng.normal(size=n) + (y == j % 3) for j in range(12)}
    table |= {f"c{j}": rng.choice(list("abcdef"), n).tolist() for j in range(8)}
    model = Classifier().fit(table, y)
    few = {name: column[: n // 4] for name, column in table.items()}
    of_few = Classifier().fit(few, y[: n // 4])
    grown = growth(
        lambda: page(of_few, few, y[: n // 4], learned=True), lambda: page(model, table, y, learned=True), 8, tries=2
    )
    assert grown <= 8, "4, were it linear"


def test_scikit_learn_is_the_models_business():
    """The modules of the page import neither; the model may."""
    code = "import sys, deciban.report; sys.exit('sklearn' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_hostile_texts_have_a_page_too():
    texts = [HOSTILE, CLOSING, LONG, "plain words", HOSTILE + " words", "more words"] * 3
    y = [HOSTILE, CLOSING] * 9
    parsed = Reader(page(TextClassifier(n_jobs=1).fit(texts, y), texts, y, learned=True, curve=False))
    assert not {"script", "img"} & set(parsed.tags)


def test_every_part_is_counted():
    done = []
    X, y = [[1.0], [2.0], [6.0], [7.0]], ["small", "small", "large", "large"]
    page(GaussianNB().fit(X, y), X, y, learned=True, watch=done.append)
    assert done == list(range(1, N_STEPS + 1))


def test_the_curve_has_fewer_draws_of_many_rows():
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 2
    X = rng.normal(size=(2000, 2)) + y[:, None]
    text = Reader(page(GaussianNB().fit(X, y), X, y)).text("curve")
    assert "2 to 3 draws" in text


# ------------------------------ thresholds, mistakes, large matrices


def noisy(n=400, k=2):
    rng = np.random.default_rng(3)
    y = rng.integers(0, k, n)
    return rng.normal(size=(n, 2)) + 0.8 * y[:, None], np.array(["no", "yes", "perhaps"])[y]


def counted(proba, is_positive, threshold):
    """False positives and false negatives, counted one by one."""
    predicted = proba >= threshold
    return int((predicted & ~is_positive).sum()), int((~predicted & is_positive).sum())


@pytest.mark.parametrize(("positive", "costs"), [(None, None), ("no", (1, 4)), ("yes", (3, 1))])
def test_what_each_threshold_costs(positive, costs):
    X, y = noisy()
    model = GaussianNB().fit(X, y)
    text = Reader(page(model, X, y, curve=False, positive=positive, costs=costs)).text("thresholds")
    own = positive or "yes"
    proba, is_positive = model.predict_proba(X)[:, model.classes_.tolist().index(own)], y == own
    a, b = costs or (1, 1)
    assert f"A row counts as {own}" in text
    for threshold in (0.1, 0.25, 0.5, 0.75, 0.9, a / (a + b)):
        false, missed = counted(proba, is_positive, threshold)
        called = int((proba >= threshold).sum())
        precision, recall = (called - false) / called, 1 - missed / is_positive.sum()
        line = rf"{threshold:.2g}(?: ✓)?{called}{false}{missed}{percent(precision)}{percent(recall)}"
        line += f"{a * false + b * missed:g}" if costs else ""
        assert re.search(line.replace("\N{NO-BREAK SPACE}", " "), text.replace(",", "")), line
    every = [counted(proba, is_positive, t) for t in np.linspace(0, 1, 201)]
    lowest = min(a * false + b * missed for false, missed in every)
    assert re.search(rf"costs least, {lowest:g}\.|costs {lowest:g}, and no other costs less", text)


def test_thresholds_of_one_class_against_all_others():
    X, y = noisy(k=3)
    model = GaussianNB().fit(X, y)
    assert "thresholds" not in Reader(page(model, X, y, curve=False)).text_by_section
    assert "A row counts as perhaps" in Reader(page(model, X, y, curve=False, positive="perhaps")).text("thresholds")
    with pytest.raises(DecibanError, match=r"'perhapps'.*did you mean 'perhaps'"):
        page(model, X, y, positive="perhapps")
    for wrong in ((1,), (1, -1), (0, 0), (1, float("inf"))):
        with pytest.raises(DecibanError, match="false positive"):
            page(model, X, y, costs=wrong)


def test_the_row_is_beside_its_mistake():
    table, y = mixed_table()
    model = Classifier(n_jobs=1).fit(table, y)
    written = page(model, table, y, learned=True, curve=False)
    judged = model.leave_one_out(table, y)
    wrong = np.flatnonzero(~judged.right)
    worst = int(wrong[np.argmax(judged.log_losses[wrong])])
    first = Reader(written).text("mistakes").split("Row ")[1]
    one = {name: values[worst : worst + 1] for name, values in table.items()}
    whole = model.explain(one, target=judged.predictions[worst], against=y[worst])
    why = model.forget(one, y[worst : worst + 1]).explain(one, target=judged.predictions[worst], against=y[worst])
    evidence = {name: db for name, _, db in why.items}
    assert f"colour = {table['colour'][worst]} {decibans(evidence['colour'])}" in first
    assert f"prior odds {decibans(why.prior)}" in first
    assert f"total {decibans(why.total)} dB" in first, "of the model without the row"
    assert why.total > whole.total, "which has learned it, and hides the mistake"
    assert f"id = {table['id'][worst]}" in first, "the whole row, used or not"
    cases = written.split('id="mistakes"')[1].split('class="case"')[1]
    assert "<mark" in cases.split("colour")[0] + cases.split("colour")[1][:20]


def test_a_mistake_in_a_text_is_explained_without_it():
    """Words that only this text has are no evidence for its class where it is left out."""
    texts = ["lunch at noon", "see you at lunch", "noon then"] * 20 + ["win cash now", "cash prize now"] * 20
    texts.append("see you at lunch maniac")
    y = np.array(["ham"] * 60 + ["spam"] * 41)
    model = TextClassifier(n_jobs=1).fit(texts, y)
    first = Reader(page(model, texts, y, learned=True, curve=False)).text("mistakes").split("Row ")[1]
    assert first.startswith("101: spam, predicted as ham")
    assert "maniac −" not in first
    assert float(re.search(r"total ([+−][\d.]+) dB", first)[1].replace("−", "-")) > 0, "evidence for the prediction"
    assert "Explained by the model without the row" in Reader(page(model, texts, y, learned=True, curve=False)).text(
        "mistakes"
    )


def test_of_a_long_text_the_part_with_the_most_evidence_is_shown():
    filler = "the of and to in " * 60
    texts = [filler + word + " " + filler for word in ("lunch at noon", "win cash prize")] * 20
    y = np.array(["ham", "spam"] * 20)
    written = page(TextClassifier(blocks=["words"], n_jobs=1).fit(texts, y), texts, y, curve=False)
    (shown,) = re.findall(r"<blockquote>(.*?)</blockquote>", written, flags=re.DOTALL)
    assert shown.startswith("… ")
    assert re.search(r"<mark[^>]*>(lunch|noon|win|cash|prize)</mark>", shown)
    assert len(re.sub(r"<[^>]*>", "", shown)) < 800


def test_a_large_confusion_matrix_has_counts():
    rng = np.random.default_rng(0)
    y = np.arange(900) % 30
    X = np.column_stack([y + 0.6 * rng.normal(size=900), rng.normal(size=900)])
    model = GaussianNB().fit(X, y)
    written = page(model, X, y, curve=False)
    cells = re.findall(r'<td class="(?:right|wrong)"[^>]*><b>([\d,]*)</b>', written)
    confusion = np.array([int(cell or 0) for cell in cells]).reshape(30, 30)
    expected = np.zeros((30, 30), dtype=int)
    np.add.at(expected, (y, model.predict(X)), 1)
    np.testing.assert_array_equal(confusion, expected)


# ------------------------------------------------------------------ what decides


def test_what_decides_is_ranked_drawn_and_listed_by_value():
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"])[rng.integers(0, 2, 200)]
    table = {
        "height": (rng.normal(size=200) + 0.8 * (y == "yes")).tolist(),
        "boat": np.where((y == "yes") & (rng.random(200) < 0.98), "A4", None).tolist(),
    }
    parsed = Reader(page(Classifier().fit(table, y), table, y, learned=True, curve=False))
    decides = parsed.text("importance")
    assert decides.index("boat") < decides.index("height")
    assert "200 rows left out of the sums" in decides
    assert "missing" in decides
    assert "Column 'boat' almost decides alone: it takes away" in decides
    assert "boat = A4" in parsed.text("evidence")
    assert "boat = missing" in parsed.text("evidence")


def test_importance_is_computed_on_the_rows_of_the_page_where_none_is_stored():
    X = [[1.0, 5.0], [2.0, 4.0], [1.5, 6.0], [6.0, 5.0], [7.0, 4.5], [6.5, 5.5]]
    y = ["a", "a", "a", "b", "b", "b"]
    model = GaussianNB().fit(X, y)
    assert "6 rows left out of the sums" in Reader(page(model, X, y, learned=True, curve=False)).text("importance")
    assert "5 rows that were not learned" in Reader(page(model, X, [*y[:5], "c"], curve=False)).text("importance")
    assert "importance" not in Reader(page(model)).text_by_section


def test_a_caution_stands_at_the_top():
    X, y = [[1.0], [2.0], [6.0], [7.0]], ["small", "small", "large", "large"]
    written = page(GaussianNB().fit(X, y), X, y, caution="the model has learned <b>some</b> of these rows")
    assert "Caution: </b><bdi>the model has learned &lt;b&gt;some" in written
    assert written.index("Caution") < written.index("Accuracy")
    assert "Caution" not in page(GaussianNB().fit(X, y), X, y)
