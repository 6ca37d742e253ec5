"""Pictures are correct: lines where P = ½, ellipses that hold their share, bars that add up."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, multivariate_normal
from sklearn.linear_model import LogisticRegression

from deciban import (
    Evidence,
    GaussianDiscriminant,
    GaussianMixture,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminant,
    MultinomialNB,
    QuadraticDiscriminantAnalysis,
    TextClassifier,
    TreeAugmentedNB,
    pictures,
)
from deciban.bayes import DECIBANS
from deciban.corollaries.linear_form import LinearForm
from deciban.corollaries.structure import Structure, places
from deciban.errors import DecibanError
from deciban.show import AGAINST, FOR, PALETTE, Table, colour

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import colors  # noqa: E402 - the backend is chosen first
from matplotlib import pyplot as plt  # noqa: E402

DOCS = Path(__file__).resolve().parents[1] / "docs"
HOSTILE = "a\x1b[31m\n[red]<b>$x$\u202e\ud800"
SHAPES = [np.eye(2), 0.6 * np.eye(2), 2 * np.eye(2), *(np.array([[1, r], [r, 1]]) for r in (0.5, 0.8, -0.5))]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def rows(seed=0, classes=("a", "b"), n=80):
    rng = np.random.default_rng(seed)
    y = np.repeat(classes, n)
    means = rng.normal(0, 2.5, (len(classes), 2))
    return rng.normal(size=(len(y), 2)) @ [[1, 0.4], [0, 0.8]] + np.repeat(means, n, axis=0), y


def rings(ax):
    """The ellipses' points without the last, which is the first again."""
    return [patch.get_path().vertices[:-1] for patch in ax.patches]


def lines(ax, style="solid"):
    """The points of contour lines of a style."""
    collections = [c for c in ax.collections if (c.get_linestyles()[0][1] is None) == (style == "solid")]
    return [path.vertices for c in collections for path in c.get_paths() if len(path.vertices)]


# ------------------------------------------------------------------ contours


@pytest.mark.parametrize("covariance", SHAPES, ids=["I", "0.6 I", "2 I", "0.5", "0.8", "-0.5"])
def test_an_ellipse_holds_its_share(covariance):
    mean = np.array([1.0, -2.0])
    shares = [0.1, 0.5, 0.95]
    ax = pictures.contours(mean, covariance, shares=shares)
    for ring, share in zip(rings(ax), shares, strict=True):
        off = ring - mean
        squares = np.einsum("ni,ij,nj->n", off, np.linalg.inv(covariance), off)
        np.testing.assert_allclose(chi2(2).cdf(squares), share, rtol=1e-9)
        heights = multivariate_normal(mean, covariance).pdf(ring)
        np.testing.assert_allclose(heights, heights[0], rtol=1e-9)  # one level, as a contour's is
    assert ax.get_xlabel() == "x0"
    assert ax.get_aspect() == 1.0, "a circle is a circle"


@pytest.mark.parametrize(
    "model",
    [GaussianNB(), GaussianDiscriminant(), LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis()],
    ids=lambda model: type(model).__name__,
)
def test_classes_have_ellipses_in_their_colours(model):
    X, y = rows()
    ax = pictures.contours(model.fit(X, y), shares=[0.5])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    for c, (ring, patch) in enumerate(zip(rings(ax), ax.patches, strict=True)):
        np.testing.assert_allclose(ring.mean(axis=0), X[y == "ab"[c]].mean(axis=0), atol=1e-6)
        assert patch.get_edgecolor() == colors.to_rgba(colour(c))


@pytest.mark.parametrize("form", ["full", "tied", "diag", "spherical"])
def test_mixtures_of_every_form(form):
    """Two components of two columns: (2, 2) may be one covariance, or two pairs of variances."""
    X, _ = rows(3)
    model = GaussianMixture(2, covariance_type=form, random_state=0).fit(X)
    spread = {
        "full": lambda c: c,
        "tied": lambda c: np.stack([c, c]),
        "diag": lambda c: np.stack([np.diag(row) for row in c]),
        "spherical": lambda c: np.stack([v * np.eye(2) for v in c]),
    }[form](model.covariances_)
    ax = pictures.contours(model, shares=[0.5])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1"], "as predict calls them"
    for ring, mean, covariance in zip(rings(ax), model.means_, spread, strict=True):
        squares = np.einsum("ni,ij,nj->n", ring - mean, np.linalg.inv(covariance), ring - mean)
        np.testing.assert_allclose(squares, -2 * np.log(0.5), rtol=1e-6)


def test_components_have_the_colour_of_their_class():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 0.5, (60, 2)) for m in (-3, 3, 0)])
    model = MixtureDiscriminant(components={"in": 1, "out": 2}).fit(X, np.repeat(["out", "out", "in"], 60))
    ax = pictures.contours(model, shares=[0.9])
    hues = [colors.to_hex(patch.get_edgecolor()) for patch in ax.patches]
    assert hues == [PALETTE[["in", "out"].index(c)] for c in model.component_classes_]


def test_shades_are_densities_on_one_scale():
    def darkest(covariance, shade):
        (image,) = pictures.contours([0, 0], covariance, shade=shade).images
        return image.get_array()[..., 3]

    tight, wide = darkest(SHAPES[1], 0.3), darkest(SHAPES[2], 0.3)
    assert np.unravel_index(np.argmax(tight), tight.shape) == (100, 100), "darkest at the mean, in the middle"
    assert tight.max() / wide.max() == pytest.approx(2 / 0.6)
    assert darkest(SHAPES[1], True).max() == pytest.approx(darkest(SHAPES[2], True).max()), "a scale of its own"
    at = np.random.default_rng(0).normal(size=(20, 2))
    densities = pictures.density(np.array([1.0, 2.0]), SHAPES[4], at)
    np.testing.assert_allclose(densities, multivariate_normal([1, 2], SHAPES[4]).pdf(at), rtol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda: pictures.contours([0, 0, 0], np.eye(3)), r"two columns.* 3"),
        (lambda: pictures.contours([0, 0], np.eye(3)), r"shape \(3, 3\)"),
        (lambda: pictures.contours([0, 0], [[1, 1], [1, 1]]), "singular"),
        (lambda: pictures.contours([0, 0], [[1, np.nan], [np.nan, 1]]), "singular or not positive"),
        (lambda: pictures.contours([0, 0], np.eye(2), shares=[1.0]), "between 0 and 1"),
        (lambda: pictures.contours(MultinomialNB()), "MultinomialNB has no Gaussians to draw"),
    ],
)
def test_models_without_ellipses_are_refused(wrong, what):
    with pytest.raises(DecibanError, match=what):
        wrong()


# ------------------------------------------------------------------ boundary


@pytest.mark.parametrize("model", [GaussianDiscriminant(covariance="tied", predictive=False), LogisticRegression()])
def test_a_line_is_where_classes_are_equally_likely(model):
    X, y = rows()
    model.fit(X, y)
    ax = pictures.boundary(model, X, y)
    (line,) = lines(ax)
    np.testing.assert_allclose(model.predict_proba(line)[:, 1], 0.5, atol=1e-9)  # log-odds are a plane: exactly there
    ten = np.concatenate(lines(ax, "dashed"))
    np.testing.assert_allclose(np.abs(np.diff(model.predict_log_proba(ten))) * DECIBANS, 10.0, atol=1e-6)
    corners = line[[0, -1]]
    low, high = np.array(ax.get_xlim()), np.array(ax.get_ylim())
    edges = np.abs(corners[:, :1] - low).min(axis=1), np.abs(corners[:, 1:] - high).min(axis=1)
    assert np.minimum(*edges).max() < 1e-9, "from edge to edge"


def test_a_curve_is_as_near_as_the_grid_is_fine():
    X, y = rows(1)
    X[y == "b"] = X[y == "b"] * 0.4
    model = GaussianDiscriminant(shrinkage=None, predictive=False).fit(X, y)

    def furthest(fineness):
        ax = pictures.boundary(model, X, y, fineness=fineness)
        return max(np.abs(model.predict_proba(line)[:, 0] - 0.5).max() for line in lines(ax))

    assert furthest(201) < 0.01
    assert furthest(201) < furthest(21)  # a quadratic between two points is off by the square of their distance


def test_three_classes_meet():
    X, y = rows(7, ("a", "b", "c"))
    model = GaussianDiscriminant(covariance="tied", predictive=False).fit(X, y)
    ax = pictures.boundary(model, X, y)
    best = np.sort(model.predict_log_proba(np.concatenate(lines(ax))))
    gaps = best[:, -1] - best[:, -2]
    assert np.median(gaps) < 1e-9
    assert np.quantile(gaps, 0.95) < 0.2, "but for the cells where three meet"
    assert not lines(ax, "dashed"), "ten to one against whom?"


def test_regions_have_the_colours_of_their_classes():
    X, y = rows()
    model = GaussianDiscriminant(covariance="tied").fit(X, y)
    (image,) = pictures.boundary(model, X, y).images
    x0, x1, y0, y1 = image.get_extent()
    picture = image.get_array()
    half = (x1 - x0) / picture.shape[1] / 2, (y1 - y0) / picture.shape[0] / 2
    p = model.predict_proba([[x0 + half[0], y0 + half[1]], [x1 - half[0], y1 - half[1]]])
    tint = p @ np.array([colors.to_rgb(colour(0)), colors.to_rgb(colour(1))])
    np.testing.assert_allclose([picture[0, 0], picture[-1, -1]], 1 - 0.38 * (1 - tint), atol=1e-9)


def test_points_are_the_rows():
    X, y = rows()
    model = GaussianDiscriminant().fit(X, y)
    labels = y.astype(object)
    labels[:3], labels[3] = None, "never seen"
    ax = pictures.boundary(model, X, labels)
    without, first, second = ax.lines
    np.testing.assert_array_equal(without.get_xydata(), X[:4])
    np.testing.assert_array_equal(first.get_xydata(), X[4:80])
    np.testing.assert_array_equal(second.get_xydata(), X[80:])
    assert len({line.get_marker() for line in ax.lines}) == 3, "told apart without colour too"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert pictures.boundary(model, X).get_legend() is None
    with pytest.raises(DecibanError, match="160 rows, but y has 2 labels"):
        pictures.boundary(model, X, ["a", "b"])


def test_any_frame_will_do():
    X, y = rows()
    columns = {"height": X[:, 0], "width": X[:, 1]}
    frames = {"dict": columns}
    for library, make in (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")):
        frames[library] = getattr(pytest.importorskip(library), make)(columns)
    (expected,) = lines(pictures.boundary(GaussianDiscriminant(covariance="tied").fit(X, y), X))
    from deciban import NaiveBayes

    law = {("height", "width"): "tied"}
    for name, frame in frames.items():
        model = NaiveBayes(law).fit(frame, y)
        ax = pictures.boundary(model, frame, y)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("height", "width"), name
        (line,) = lines(ax)
        assert np.abs(model.predict_proba(dict(zip(columns, line.T, strict=True)))[:, 0] - 0.5).max() < 1e-9
        assert len(line) == pytest.approx(len(expected), abs=40)


class CertainModel:
    """Probabilities of 0 and 1 only, and no predict_log_proba."""

    def __init__(self, *classes):
        self.classes_ = np.array(classes)

    def predict_proba(self, X):
        right = (np.asarray(X)[:, 0] > 0).astype(float)
        return np.column_stack([1 - right, right])[:, : len(self.classes_)]


def test_certainty_one_class_and_gaps_are_drawn():
    X = np.array([[-1.0, 5.0], [2.0, 5.0], [np.nan, 5.0], [np.inf, 5.0]])  # the second column is constant
    ax = pictures.boundary(CertainModel("a", "b"), X, ["a", "b", "a", "b"])
    (line,) = lines(ax)
    assert np.abs(line[:, 0]).max() < 0.02, "between two points of the grid"
    assert ax.get_ylim() == (4.5, 5.5)

    class Always(CertainModel):
        def predict_proba(self, X):
            return np.ones((len(X), 1))

    assert not lines(pictures.boundary(Always("a"), X))
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    ("X", "what"),
    [
        (np.ones((4, 3)), r"two columns.*\(4, 3\)"),
        ({"a": [1.0], "b": [2.0], "c": [3.0]}, r"two columns.*\(1, 3\)"),
        (np.full((4, 2), np.nan), "no row of two finite numbers"),
    ],
)
def test_rows_that_cannot_be_drawn_are_refused(X, what):
    with pytest.raises(DecibanError, match=what):
        pictures.boundary(CertainModel("a", "b"), X)
    with pytest.raises(DecibanError, match="Table has no predict_proba"):
        pictures.log_posterior(Table("", (), []), X)


# ------------------------------------------------------------------ evidence


def spread(ax):
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]


def test_a_waterfall_adds_up():
    items = (("x", 1.0, 8.0), ("y", 2.0, -11.0), ("z", 3.0, 4.5), ("w", 4.0, 0.25), ("v", 5.0, 0.5))
    why = Evidence("b", "a", -3.0, items, 0.4)
    ax = pictures.waterfall(why, most=3)
    walked = spread(ax)
    assert walked == [(0, -3), (-3, 5), (5, -6), (-6, -1.5), (-1.5, -0.75), (0, -0.75)]
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["prior odds", "x = 1", "y = 2", "z = 3", "2 more", "posterior odds"]
    hues = [colors.to_hex(bar.get_facecolor()) for bar in ax.patches]
    assert hues[:-1] == [AGAINST, FOR, AGAINST, FOR, FOR]
    assert [text.get_text() for text in ax.texts][-2:] == ["+0.8", "−0.8, P = 0.4000"]
    assert ax.get_xlabel() == "← a     evidence (dB)     b →"
    low, high = ax.get_xlim()
    assert low < -6
    assert high > 5
    (above,) = ax.child_axes
    assert [text.get_text() for text in above.get_xticklabels()] == ["1 : 1"]
    assert pictures.waterfall(why, ax) is ax


def test_a_waterfall_with_what_rules_out():
    why = Evidence("b", "a", 1.0, (("x", 1.0, np.inf), ("y", 2.0, 4.0)), 1.0)
    ax = pictures.waterfall(why)
    ends = [end for _, end in spread(ax)]
    assert ends == pytest.approx([1.0, 1.0 + 4.8, 5.8 + 4.0, 9.8]), "longer than what is finite, and so is the sum"
    assert [text.get_text() for text in ax.texts] == ["+1.0", "+∞", "+4.0", "+∞, P = 1.0000"]
    both = Evidence("b", "a", 1.0, (("x", 1.0, np.inf), ("y", 2.0, -np.inf)), 0.5)
    assert spread(pictures.waterfall(both))[-1] == (0.0, 1.0), "0/0 is answered by the prior"
    none = Evidence("b", "a", 0.0, (), 0.5)
    pictures.waterfall(none).figure.canvas.draw()


def test_a_text_is_marked():
    model = TextClassifier().fit(["win cash now", "lunch at noon?"] * 30, ["spam", "ham"] * 30)
    why = model.explain("Cash for lunch, $1 now " + "and so on " * 40, target="spam")
    ax = pictures.marked_text(why, pictures.waterfall(why))
    (box,) = (artist for artist in ax.artists if hasattr(artist, "offsetbox"))
    shown = [area for line in box.offsetbox.get_children() for area in line.get_children()]
    hues = {area.get_text(): area.get_children()[0].get_color() for area in shown}
    assert hues["Cash"] == FOR
    assert hues["lunch,"] == AGAINST
    assert hues["so"] == "dimgrey"
    assert r"\$1" in hues, "money, not mathematics"
    assert "…" in hues
    assert len(box.offsetbox.get_children()) == 3
    ax.figure.canvas.draw()


def test_odds_are_decibans():
    for db, expected in ((0, "1 : 1"), (30, "1,000 : 1"), (-10, "1 : 10"), (-60, "1 : $10^{6}$")):
        assert pictures.odds_text(db) == expected


# ------------------------------------------------------------------ results


def test_a_linear_form_is_drawn_in_decibans():
    X = np.array([[3, 0, 1], [2, 1, 0], [0, 4, 1], [1, 3, 3]])
    form = MultinomialNB().fit(X, ["spam", "spam", "ham", "ham"]).linear_form()
    theta, offset = form.pair("spam", "ham")
    ax = form.plot()
    order = np.argsort(-np.abs(theta))
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], DECIBANS * np.array([offset, *theta[order]]))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["(offset)", *(form.items[j] for j in order)]
    assert "for spam over ham" in ax.get_xlabel()
    assert form.plot(ax, positive="ham") is ax
    assert len(form.to_frame()) == 4
    many = LinearForm(np.array([0, 1, 2]), [f"w{i}" for i in range(50)], np.arange(150.0).reshape(3, 50), np.zeros(3))
    ax = many.plot()
    assert len(ax.patches) == 21, "the strongest of many"
    assert ax.patches[1].get_width() == pytest.approx(75 * DECIBANS), "100 over the mean of 0 and 50"
    assert many.plot(positive=0, negative=1).patches[1].get_width() == pytest.approx(-50 * DECIBANS)
    with pytest.raises(ValueError, match="only one class"):
        LinearForm(np.array([0]), ["w"], np.zeros((1, 1)), np.zeros(1)).plot()
    with pytest.raises(ValueError, match="5 is not one of the classes"):
        many.plot(positive=5)


def test_a_table_is_drawn_by_its_last_numbers():
    table = Table("t", ("class", "word", "n", "dB"), [("a", "x", 1, 2.0), ("a", "y", 2, None), ("b", "z", 3, -4.0)])
    ax = table.plot()
    assert [bar.get_width() for bar in ax.patches] == [2.0, -4.0], "a row without a number has no bar"
    assert [text.get_text() for text in ax.get_yticklabels()] == ["x", "z"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"], "what repeats is the colour"
    assert len({bar.get_facecolor() for bar in ax.patches}) == 2
    assert ax.get_xlabel() == "dB"
    assert ax.get_title(loc="left") == "2 of 3 rows"
    assert [bar.get_width() for bar in table.plot(column="n").patches] == [1, 2, 3]
    plain = Table("t", ("n",), [(i,) for i in range(100)]).plot()
    assert [text.get_text() for text in plain.get_yticklabels()] == list(map(str, range(30)))
    assert plain.get_title(loc="left") == "30 of 100 rows"
    named = Table("t", ("name", "kind", "n"), [("x", "k", 1), ("y", "k", 2)]).plot()
    assert [text.get_text() for text in named.get_yticklabels()] == ["x k", "y k"]
    with pytest.raises(DecibanError, match="'words' has no column of numbers"):
        Table("words", ("word",), [("a",)]).plot()
    with pytest.raises(DecibanError, match="no column of numbers 'word': there are n, dB"):
        table.plot(column="word")


def test_tables_of_models_are_drawn():
    X, y = rows()
    model = GaussianNB().fit(X, y)
    assert len(model.top_evidence().plot().patches) == 4
    assert len(model.params.plot().patches) == 2


def test_a_tree_has_a_line_a_column():
    """Names stand one below the other, so that none covers another."""
    parents = (-1, 0, 0, 1, -1)
    ax = Structure(tuple("abcde"), parents, np.array([0.0, 2.0, 1.0, 0.5, 0.0]), np.ones(5)).plot()
    place = {text.get_text(): text.xy for text in ax.texts}
    assert len({down for _, down in place.values()}) == 5
    assert {name: across for name, (across, _) in place.items()} == {"a": 0, "b": 1, "c": 1, "d": 2, "e": 0}
    assert place["d"][1] == place["b"][1] + 1, "below the one it hangs on"
    widths = [line.get_linewidth() for line in ax.lines]
    assert widths == pytest.approx([0.5 + 5.5 * share for share in (1.0, 0.5, 0.25)])
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = np.column_stack([y, y, rng.integers(3, size=200)]).astype(str)
    assert len(TreeAugmentedNB().fit(X, y).structure_.plot().texts) == 3
    chain = list(range(5000))
    assert places((-1, *chain[:-1])) == (chain, chain), "deeper than calls may be"


@pytest.mark.filterwarnings("error::UserWarning")  # of characters that the font does not have
@pytest.mark.parametrize(
    "draw",
    [
        lambda: LinearForm(np.array([HOSTILE, "b"], dtype=object), [HOSTILE], np.ones((2, 1)), np.zeros(2)).plot(
            positive=HOSTILE
        ),
        lambda: Table(HOSTILE, ("a", HOSTILE, "n"), [(HOSTILE, HOSTILE, 1), (HOSTILE, "b", 2)]).plot(),
        lambda: Structure((HOSTILE, "b"), (-1, 0), np.ones(2), np.ones(2)).plot(),
        lambda: pictures.contours([[0, 0], [1, 1]], np.eye(2), names=[HOSTILE, "b"]),
        lambda: pictures.boundary(CertainModel(HOSTILE, "b"), np.eye(2), [HOSTILE, "b"]),
        lambda: pictures.waterfall(Evidence(HOSTILE, "b", 1.0, ((HOSTILE, HOSTILE, 1.0),), 0.5)),
    ],
    ids=["linear form", "table", "structure", "contours", "boundary", "waterfall"],
)
def test_names_are_never_interpreted(draw):
    ax = draw()
    texts = [*ax.get_yticklabels(), *ax.texts, ax.xaxis.label, ax.yaxis.label]
    texts += ax.get_legend().get_texts() if ax.get_legend() else []
    about = [text.get_text() for text in texts if "[red]" in text.get_text()]
    assert about
    assert not any(matplotlib.cbook.is_math_text(text) for text in about)
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: pictures.contours([0, 0], np.eye(2)),
        lambda: pictures.boundary(CertainModel("a", "b"), np.eye(2)),
        lambda: pictures.waterfall(Evidence("a", "b", 1.0, (), 0.5)),
        lambda: Table("", ("n",), [(1,)]).plot(),
    ],
)
def test_without_the_library_an_error_names_the_extra(monkeypatch, draw):
    for module in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"needs matplotlib, .*pip install 'deciban\[all\]'"):
        draw()


# ------------------------------------------------------------------ the gallery


def load_gallery():
    spec = importlib.util.spec_from_file_location("gallery", DOCS / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gallery = load_gallery()
PAGE = (DOCS / "gallery.md").read_text(encoding="utf-8")
OPENING, SECTIONS = gallery.sections(PAGE)
SLOW_PICTURES = (
    "boundaries",
    "clusters",
    "contours",
    "curves",
    "forgetting",
    "reliability",
    "smoothing",
)  # seconds each


def test_the_page_shows_every_image_and_no_other():
    there = {path.name for path in (DOCS / "images").glob("*.png")}
    assert there == set(re.findall(r"\(images/([^)]+)\)", PAGE)) == {f"{section.name}.png" for section in SECTIONS}
    assert all((DOCS / "images" / name).stat().st_size < 80_000 for name in there), "a page loads at once"


def test_every_section_describes_its_picture():
    for text in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        prose = re.sub(r"```.*?```|!\[.*?\)", "", text, flags=re.DOTALL)
        assert re.search(r"\bS\d+\b", prose), text.splitlines()[0]
        assert prose.count(". ") + prose.count(".\n") >= 2, text.splitlines()[0]


@pytest.mark.parametrize(
    "section",
    [pytest.param(s, id=s.name, marks=[pytest.mark.slow] if s.name in SLOW_PICTURES else []) for s in SECTIONS],
)
def test_the_code_on_the_page_draws_its_picture(section, tmp_path):
    from PIL import Image

    figure = gallery.draw(OPENING, section)
    path = tmp_path / "picture.png"
    assert gallery.save(figure, path) < 80_000
    kept = DOCS / "images" / f"{section.name}.png"
    with Image.open(path) as drawn, Image.open(kept) as shown:
        assert drawn.size == shown.size, "run `python docs/gallery.py`"
    for ax in figure.axes:
        assert not ax.axison or ax.get_xlabel() or ax.get_subplotspec().rowspan.stop < ax.get_gridspec().nrows
        assert ax.has_data()


def test_some_pictures_can_be_asked_for():
    with pytest.raises(SystemExit, match="no such picture: pie"):
        gallery.main(["pie"])
    with pytest.raises(ValueError, match="one image and one block of code, but not 'Two'"):
        gallery.sections("# Gallery\n## Two\n![a](images/a.png)\n![b](images/b.png)\n```python\nx\n```\n")


def test_contours_of_columns_of_unequal_scale_are_readable():
    """Years and incomes: on one scale for both axes, ellipses would be lines."""
    income = pictures.contours([[40.0, 50_000.0], [50.0, 80_000.0]], np.diag([100.0, 1e8]))
    assert income.get_aspect() == "auto"
    low, high = income.get_ylim()
    assert low < 50_000 - 2.5e4
    assert high > 80_000 + 2.5e4
    assert pictures.contours([[0.0, 0.0], [1.0, 1.0]], np.eye(2)).get_aspect() == 1.0


def test_a_gaussian_far_wider_than_the_others_does_not_hide_them():
    covariances = [np.eye(2), np.eye(2), 1e6 * np.eye(2)]
    ax = pictures.contours([[0.0, 0.0], [3.0, 3.0], [1.0, 5.0]], covariances)
    assert np.diff(ax.get_xlim())[0] < 15
    assert ax.get_ylim()[1] > 5.0, "its mean is on the picture"
