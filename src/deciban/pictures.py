"""Pictures of models of two columns, and of a decision (S22). They need matplotlib, an optional dependency."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.results.evidence import Evidence
from deciban.show import AGAINST, FOR, NEITHER, axes, colour, label, optional, plain, visible
from deciban.text.evidence import STRONG, WEAK, TextEvidence

SHARES = (0.5, 0.9, 0.99)  # of a Gaussian's mass inside its ellipses
FINENESS = 201  # points a side of a grid: odd, so that one lies in the middle
TEN_TO_ONE = float(np.log(10.0))  # nats: 10 dB
FAR = 1e4  # nats: log-odds beyond are drawn as these, for no line can be drawn between infinities
MARKS = "os^Dv*"  # of the classes' points, told apart without colour too
SUM = "#333333"  # the colour of what evidence comes to
LINES = 3  # of a text
STEPS = 10  # of a waterfall, besides the prior odds and the rest


def contours(
    model: Any,
    covariance: Any = None,
    ax: Any = None,
    *,
    shares: Sequence[float] = SHARES,
    shade: bool | float = False,
    names: Sequence[Any] | None = None,
) -> Any:
    """Ellipses that hold given shares of two-dimensional Gaussians, in the colours of their classes.

    The ellipse (x − μ)ᵀ Σ⁻¹ (x − μ) = −2 log(1 − s) holds the share s of N(μ, Σ) inside, and the density is the same
    all along it.

    Parameters
    ----------
    model : estimator, or array-like of shape (2,) or (k, 2)
        A fitted model of two columns whose classes or components are Gaussian: `GaussianNB`, the discriminants, a
        mixture. Or means, with `covariance` besides.
    covariance : array-like of shape (2, 2) or (k, 2, 2), optional
        The covariances, where means are given. One is shared by all.
    ax : matplotlib axes, optional
    shares : sequence of float, default=(0.5, 0.9, 0.99)
    shade : bool or float, default=False
        Whether to shade the densities too, as dark as they are dense; a number is the density that is darkest, so that
        several pictures can share a scale. Densities of a mixture's components are weighted.
    names : sequence, optional
        What to call the Gaussians in a legend, one each; by default a model's classes or components.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from deciban import pictures
    >>> ax = pictures.contours([0, 0], [[1, 0.8], [0.8, 1]], shares=[0.5])
    >>> ellipse = ax.patches[0].get_path().vertices  # which lie as far from the mean as half of all draws do
    >>> [float(round(value, 3)) for value in ellipse.max(axis=0)]
    [1.177, 1.177]

    >>> from sklearn.datasets import load_iris
    >>> from deciban import GaussianDiscriminant
    >>> flowers = load_iris()
    >>> model = GaussianDiscriminant().fit(flowers.data[:, 2:], flowers.target_names[flowers.target])
    >>> [text.get_text() for text in pictures.contours(model).get_legend().get_texts()]
    ['setosa', 'versicolor', 'virginica']
    """
    means, covariances, owners, weights, classes = gaussians(model, covariance)
    names = classes if names is None else names
    patch = optional("matplotlib.patches", "a picture").Polygon
    ax = axes(ax)
    if shade:
        shade_densities(ax, means, covariances, owners, weights, None if shade is True else float(shade))
    for mean, spread, owner in zip(means, covariances, owners, strict=True):
        for share in shares:
            ring = ellipse(mean, spread, share)
            ax.add_patch(patch(ring, closed=True, fill=False, edgecolor=colour(owner), linewidth=1.2))
        ax.plot(*mean, marker="+", markersize=7, color=colour(owner), linestyle="")
    if names is not None:
        legend(ax, names)
    ax.autoscale_view()
    ax.set_aspect("equal")
    name_axes(ax, getattr(model, "feature_names_in_", None))
    return ax


def ellipse(mean: Floats, covariance: Floats, share: float, points: int = 180) -> Floats:
    """The points of the ellipse that holds this share of a Gaussian, (points, 2)."""
    if not 0.0 < share < 1.0:
        raise DecibanError(f"a share of {share:g} has no ellipse: it must lie between 0 and 1")
    # Squared distances of two-dimensional Gaussians are exponential with mean 2.
    radius = np.sqrt(-2.0 * np.log1p(-share))
    variances, directions = np.linalg.eigh(covariance)
    turn = np.linspace(0.0, 2.0 * np.pi, points, endpoint=False)
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    return np.asarray(mean + radius * (circle * np.sqrt(variances)) @ directions.T)


def density(mean: Floats, covariance: Floats, at: Floats) -> Floats:
    """N(x; μ, Σ) of the rows of `at`, (n,)."""
    off = at - mean
    squares = np.einsum("ni,ni->n", off @ np.linalg.inv(covariance), off)
    return np.asarray(np.exp(-0.5 * squares) / (2.0 * np.pi * np.sqrt(np.linalg.det(covariance))))


def shade_densities(
    ax: Any, means: Floats, covariances: Floats, owners: Array, weights: Floats, darkest: float | None
) -> None:
    """Every owner's density as an image that lets others through, on one scale."""
    reach = 4.0 * np.sqrt(covariances[:, [0, 1], [0, 1]])
    x, y, grid = mesh(np.min(means - reach, axis=0), np.max(means + reach, axis=0))
    each = [w * density(mean, spread, grid) for w, mean, spread in zip(weights, means, covariances, strict=True)]
    whose = dict.fromkeys(owners.tolist())
    sums = {owner: np.sum([part for part, own in zip(each, owners, strict=True) if own == owner], 0) for owner in whose}
    darkest = max(float(own.max()) for own in sums.values()) if darkest is None else darkest
    for owner, own in sums.items():
        image = np.empty((len(y), len(x), 4))
        image[..., :3], image[..., 3] = rgb(owner), np.minimum(0.8 * own / darkest, 1.0).reshape(len(y), len(x))
        picture(ax, image, x, y)


def gaussians(model: Any, covariance: Any = None) -> tuple[Floats, Floats, Array, Floats, Any]:
    """Means (m, 2), covariances (m, 2, 2), whose they are as codes (m,), weights (m,) and classes (None if there are
    none)."""
    shared, classes = True, getattr(model, "classes_", None)
    if covariance is not None:
        means = np.atleast_2d(np.asarray(model, dtype=np.float64))
    elif hasattr(model, "theta_"):
        means, covariance, shared = model.theta_, model.var_, False
    elif hasattr(model, "means_") and hasattr(model, "covariances_"):
        means, covariance = model.means_, model.covariances_
        shared = getattr(model, "covariance_type", "tied") == "tied"
    else:
        raise DecibanError(
            f"{type(model).__name__} has no Gaussians to draw: give a fitted GaussianNB, discriminant or mixture, or "
            "means and covariances"
        )
    means = np.asarray(means, dtype=np.float64)
    if means.ndim != 2 or means.shape[1] != 2:
        raise DecibanError(f"contours are drawn of two columns, and here are {means.shape[-1]}: fit a model on two")
    covariances = as_matrices(np.asarray(covariance, dtype=np.float64), len(means), shared)
    if not (np.linalg.eigvalsh(covariances) > 0.0).all():
        raise DecibanError("a covariance is singular or not positive: its Gaussian has no ellipses")
    owners, weights = np.arange(len(means)), np.asarray(getattr(model, "weights_", np.ones(len(means))))
    if hasattr(model, "component_classes_"):
        owners = np.searchsorted(model.classes_, model.component_classes_)
    return means, covariances, owners, weights, classes


def as_matrices(covariance: Floats, k: int, shared: bool) -> Floats:
    """Covariances as (k, 2, 2): from these, or one `shared` by all, or variances (k, 2) or (k,)."""
    if covariance.shape == (k,):
        covariance = covariance[:, None] * np.ones(2)
    if covariance.shape == (k, 2) and not shared:
        covariance = covariance[:, :, None] * np.eye(2)
    if covariance.shape not in ((2, 2), (1, 2, 2), (k, 2, 2)):
        raise DecibanError(f"covariances have shape {covariance.shape}: (2, 2) or ({k}, 2, 2) is needed")
    return np.broadcast_to(covariance, (k, 2, 2))


def boundary(model: Any, X: Any, y: Any = None, ax: Any = None, *, fineness: int = FINENESS) -> Any:
    """Where a model of two columns draws the line: P(y | x) in the classes' colours, with the rows on it.

    The solid line is where the two likeliest classes are equally likely: between two classes, P = ½. Between two
    classes, dashed lines are where the odds are ten to one, 10 dB, on either side.

    Parameters
    ----------
    model : classifier with `classes_` and `predict_proba` (or `predict_log_proba`, which is sharper)
        Fitted on two columns of numbers; any library's will do.
    X : array-like of shape (n, 2), data frame or dict of two columns
        Rows, which say what region is drawn and, in a frame, what the columns are called.
    y : array-like of shape (n,), optional
        Their labels. Rows without a label, or with one that the model does not know, are grey crosses.
    ax : matplotlib axes, optional
    fineness : int, default=201
        Points a side of the grid on which the model is asked.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> from deciban import GaussianDiscriminant, pictures
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b"], 50)
    >>> X = rng.normal(size=(100, 2)) + np.where(y == "a", 0, 2)[:, None]
    >>> model = GaussianDiscriminant(covariance="tied", predictive=False).fit(X, y)
    >>> ax = pictures.boundary(model, X, y)
    >>> line = ax.collections[0].get_paths()[0].vertices
    >>> bool(np.allclose(model.predict_proba(line), 0.5))
    True
    """
    values, names = two_columns(X)
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    margin = np.where(high > low, 0.06 * (high - low), 0.5)
    across, up, grid = mesh(low - margin, high + margin, fineness)
    classes = np.asarray(model.classes_)
    log_proba = log_posterior(model, in_form_of(X, names, grid))
    ax = axes(ax)
    tint = np.exp(log_proba) @ np.array([rgb(c) for c in range(len(classes))])
    picture(ax, 1.0 - 0.38 * (1.0 - np.clip(tint, 0.0, 1.0)).reshape(len(up), len(across), 3), across, up)
    for c in range(len(classes)):
        lead = ahead(log_proba, c).reshape(len(up), len(across))
        ax.contour(across, up, lead, levels=[0.0], colors="black", linewidths=1.4)
        if len(classes) == 2:  # one line is enough for two
            ax.contour(
                across, up, lead, levels=[-TEN_TO_ONE, TEN_TO_ONE], colors="black", linewidths=0.8, linestyles="--"
            )
            break
    scatter(ax, values, y, classes)
    name_axes(ax, names)
    return ax


def scatter(ax: Any, values: Floats, y: Any, classes: Array) -> None:
    """Rows as points, a colour and a mark for each class, grey for those of none, and a legend."""
    labels = [None] * len(values) if y is None else list(map(plain, np.asarray(y, dtype=object)))
    if len(labels) != len(values):
        raise DecibanError(f"X has {len(values)} rows, but y has {len(labels)} labels")
    codes = {plain(name): c for c, name in enumerate(classes)}
    owners = np.array([codes.get(one, -1) for one in labels])
    for c in range(-1, len(classes)):
        own = values[owners == c]
        ax.plot(
            own[:, 0],
            own[:, 1],
            linestyle="",
            marker=MARKS[c % len(MARKS)] if c >= 0 else "x",
            markersize=4.5,
            markeredgewidth=0.5 if c >= 0 else 1.0,
            markeredgecolor="white" if c >= 0 else "dimgrey",
            color=colour(c) if c >= 0 else "dimgrey",
        )
    if y is not None:
        legend(ax, classes.tolist())


def log_posterior(model: Any, X: Any) -> Floats:
    """log P(y | x), (n, k)."""
    if hasattr(model, "predict_log_proba"):
        with np.errstate(divide="ignore"):  # log 0 is meant
            return np.asarray(model.predict_log_proba(X), dtype=np.float64)
    if not hasattr(model, "predict_proba"):
        raise DecibanError(f"{type(model).__name__} has no predict_proba: it has no P(y | x) to draw")
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(model.predict_proba(X), dtype=np.float64))


def ahead(log_proba: Floats, c: int) -> Floats:
    """By how many nats a class is likelier than the likeliest other, (n,).

    Of log-odds rather than probabilities: those of linear models are planes, so that lines found between the points of
    a grid are exact.
    """
    others = np.delete(log_proba, c, axis=1)
    best = others.max(axis=1) if others.shape[1] else np.full(len(others), -np.inf)
    return np.asarray(np.maximum(log_proba[:, c], -FAR) - np.maximum(best, -FAR))


def two_columns(X: Any) -> tuple[Floats, list[Any] | None]:
    """Rows of two numbers, NaN where there is none, and what the columns are called, if anything."""
    names = list(X) if isinstance(X, dict) else getattr(X, "column_names", getattr(X, "columns", None))
    names = None if names is None else list(names)
    table = X if names is None else np.column_stack([np.asarray(X[name]) for name in names])
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != 2:
        raise DecibanError(f"boundaries are drawn of two columns, and X has shape {values.shape}: fit a model on two")
    if not np.isfinite(values).all(axis=1).any():
        raise DecibanError("X has no row of two finite numbers, so there is nothing to draw")
    return np.where(np.isfinite(values), values, np.nan), names


def in_form_of(X: Any, names: list[Any] | None, grid: Floats) -> Any:
    """Rows as X has them: a model may ask for its columns by name."""
    if names is None:
        return grid
    make = getattr(type(X), "from_pydict", type(X))  # Arrow's tables; pandas, Polars and dict take columns by name
    return make({name: grid[:, j] for j, name in enumerate(names)})


def waterfall(evidence: Evidence, ax: Any = None, most: int = STEPS) -> Any:
    """From prior odds to posterior odds, one piece of evidence after the other, in decibans.

    Every bar begins where the one above ended: to the right for the class, to the left against it. The last is the
    sum.

    Parameters
    ----------
    evidence : Evidence
        As `explain` gives it.
    ax : matplotlib axes, optional
    most : int, default=10
        The strongest pieces, so many of them, have bars of their own; the others share one, or one for each kind.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> from deciban import MultinomialNB, pictures
    >>> model = MultinomialNB().fit([[3, 0, 1], [2, 1, 0], [0, 2, 0], [0, 1, 2]], ["spam", "spam", "ham", "ham"])
    >>> why = model.explain([[1, 0, 1]], names=["free", "lunch", "now"])
    >>> ax = pictures.waterfall(why)
    >>> ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    >>> bool(np.isclose(ends[-1], why.total) and np.isclose(ends[-2], why.total))
    True
    """
    steps = evidence.steps(most)
    values = [*(db for _, db in steps), evidence.total]
    longest = 1.2 * max((abs(db) for db in values if np.isfinite(db)), default=0.0) or 1.0  # as infinity is drawn
    lengths = np.clip(values, -longest, longest)
    ends = np.cumsum(lengths[:-1])
    lengths[-1] = ends[-1] if np.isinf(evidence.total) else evidence.total
    starts = np.append(ends - lengths[:-1], 0.0)
    ax = axes(ax, len(values))
    colours = [FOR if db >= 0 else AGAINST for _, db in steps]
    ax.barh(range(len(values)), lengths, left=starts, color=[*colours, SUM], height=0.7, zorder=2)
    for i, end in enumerate(ends):
        ax.plot([end, end], [i, i + 1], color=NEITHER, linewidth=0.8, zorder=1)
    for i, (value, start, length) in enumerate(zip(values, starts, lengths, strict=True)):
        side = 1 if length >= 0 else -1
        last = f", P = {evidence.probability:.4f}" if i == len(ends) else ""
        ax.annotate(
            in_words(value) + last,
            (start + length, i),
            (4 * side, 0),
            textcoords="offset points",
            va="center",
            ha="left" if side > 0 else "right",
            fontsize="small",
        )
    low, high = min(0.0, *ends, lengths[-1]), max(0.0, *ends, lengths[-1])
    wide = (high - low) or 1.0
    low, high = low - 0.12 * wide, high + 0.12 * wide  # room for the numbers beside the bars, and for a longer last one
    low, high = (low, high + 0.12 * wide) if lengths[-1] >= 0 else (low - 0.12 * wide, high)
    ax.set_xlim(low, high)
    ax.axvline(0.0, color="black", linewidth=0.8, zorder=1)
    ax.set_yticks(range(len(values)), labels=[*(label(name) for name, _ in steps), "posterior odds"])
    for i in (0, -1):
        ax.get_yticklabels()[i].set_fontweight("bold")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)  # the line to look at is that of even odds
    ax.invert_yaxis()
    ax.set_xlabel(label(f"← {plain(evidence.against)}     evidence (dB)     {plain(evidence.target)} →"))
    above = ax.secondary_xaxis("top")
    every = 10.0 * np.ceil((high - low) / 80.0)
    tens = np.arange(np.ceil(low / every), np.floor(high / every) + 1.0) * every
    above.set_xticks(tens, labels=[odds(db) for db in tens], fontsize="small", color=NEITHER)
    above.tick_params(color=NEITHER)
    above.spines["top"].set_visible(False)
    return ax


def marked_text(evidence: TextEvidence, ax: Any, width: int = 72) -> Any:
    """A text above a picture of its evidence: words that speak for the class blue, against it orange, others grey.

    Parameters
    ----------
    evidence : TextEvidence
        As `explain` of a model of texts gives it.
    ax : matplotlib axes
    width : int, default=72
        Characters of a line; three lines are shown.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from deciban import TextClassifier, pictures
    >>> model = TextClassifier().fit(["win cash now", "lunch at noon?"] * 3, ["spam", "ham"] * 3)
    >>> why = model.explain("Win lunch now!")
    >>> ax = pictures.marked_text(why, pictures.waterfall(why))
    """
    boxes = optional("matplotlib.offsetbox", "a picture")
    lines: list[list[Any]] = [[]]
    room, text = width, visible(evidence.text)
    for word in re.finditer(r"\S+", text):
        if len(word.group()) > room and lines[-1]:
            if len(lines) == LINES:
                lines[-1].append(boxes.TextArea("…"))
                break
            lines.append([])
            room = width
        room -= len(word.group()) + 1
        db = sum(said for start, end, said in evidence.spans if start < word.end() and end > word.start())
        hue = "dimgrey" if abs(db) < WEAK else FOR if db > 0 else AGAINST
        style = {"color": hue, "fontsize": "large", "fontweight": "normal" if abs(db) < STRONG else "bold"}
        lines[-1].append(boxes.TextArea(label(word.group()[:width]), textprops=style))
    rows = [boxes.HPacker(children=line, pad=0, sep=5) for line in lines if line]
    box = boxes.VPacker(children=rows, pad=0, sep=4)
    place = boxes.AnnotationBbox(
        box, (0, 1), (0, 28), "axes fraction", "offset points", box_alignment=(0, 0), frameon=False, pad=0
    )  # clear of the odds above a waterfall
    ax.add_artist(place)
    return ax


def in_words(decibans: float) -> str:
    """A number of decibans with its sign."""
    if np.isinf(decibans):
        return "∞" if decibans > 0 else "−∞"
    return f"{decibans:+.1f}".replace("-", "−")


def odds(decibans: float) -> str:
    """Odds as people say them: 10 dB are 10 : 1, −20 dB are 1 : 100.

    >>> odds(10), odds(-20), odds(0), odds(90)
    ('10 : 1', '1 : 100', '1 : 1', '$10^{9}$ : 1')
    """
    power = abs(decibans) / 10.0
    many = f"{10.0**power:,.0f}" if power < 5 else f"$10^{{{power:.0f}}}$"
    return f"{many} : 1" if decibans >= 0 else f"1 : {many}"


# ------------------------------------------------------------------ what they share


def mesh(low: Floats, high: Floats, fineness: int = FINENESS) -> tuple[Floats, Floats, Floats]:
    """A grid's coordinates across and up, and its points, (fineness², 2), the lowest row first."""
    across, up = (np.linspace(low[j], high[j], fineness) for j in (0, 1))
    return across, up, np.column_stack([np.tile(across, fineness), np.repeat(up, fineness)])


def picture(ax: Any, image: Floats, across: Floats, up: Floats) -> None:
    """An image whose pixels' middles are the points of a grid."""
    half = 0.5 * (across[1] - across[0]), 0.5 * (up[1] - up[0])
    extent = (across[0] - half[0], across[-1] + half[0], up[0] - half[1], up[-1] + half[1])
    ax.imshow(image, origin="lower", extent=extent, interpolation="bilinear", aspect="auto", zorder=0)
    ax.set_xlim(across[0], across[-1])
    ax.set_ylim(up[0], up[-1])


def name_axes(ax: Any, names: Sequence[Any] | None) -> None:
    """The columns' names, or what columns without a name are called elsewhere."""
    across, up = ("x0", "x1") if names is None else names
    ax.set_xlabel(label(across))
    ax.set_ylabel(label(up))


def rgb(i: int) -> tuple[float, float, float]:
    """The i-th class's colour as numbers from 0 to 1."""
    code = colour(i).lstrip("#")
    red, green, blue = (int(code[j : j + 2], 16) / 255.0 for j in (0, 2, 4))
    return red, green, blue


def legend(ax: Any, names: Sequence[Any]) -> None:
    """What each class's colour and mark are."""
    line = optional("matplotlib.lines", "a picture").Line2D
    key = [
        line([], [], linestyle="", marker=MARKS[c % len(MARKS)], color=colour(c), label=label(plain(name)))
        for c, name in enumerate(names)
    ]
    ax.legend(handles=key, fontsize="small", frameon=True, framealpha=0.8, edgecolor="none")
