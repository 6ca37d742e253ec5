"""Pictures of models of two columns, and of a decision (S22). They need matplotlib, an optional dependency."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.results.evidence import Evidence
from deciban.show import AGAINST, FOR, NEITHER, axes, colour, label, optional, plain, signed, visible
from deciban.text.evidence import STRONG, WEAK, TextEvidence

SHARES = (0.5, 0.9, 0.99)  # of a Gaussian's mass, inside each ellipse
MAX_SIDES_RATIO = 4.0  # of a picture with one scale for both axes: columns of units that differ more have their own
MAX_WIDTH_RATIO = 10.0  # of a Gaussian whose ellipses are drawn whole, to that in the middle
GRID_POINTS = 201  # per side of a grid: odd, so that one lies in the middle
TEN_TO_ONE = float(np.log(10.0))  # nats: 10 dB
MAX_LOG_ODDS = 1e4  # nats: larger log-odds are clipped, since no contour runs between infinities
MARKERS = "os^Dv*"  # of classes, distinguishable without colour
TOTAL_COLOUR = "#333333"  # of the bar of total evidence
MAX_TEXT_LINES = 3  # above a waterfall
MAX_STEPS = 10  # of a waterfall, besides prior odds and the rest


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
        mixture. Or means, together with `covariance`.
    covariance : array-like of shape (2, 2) or (k, 2, 2), optional
        The covariances, if means are given. One is shared by all.
    ax : matplotlib axes, optional
    shares : sequence of float, default=(0.5, 0.9, 0.99)
    shade : bool or float, default=False
        Whether to shade the densities too, darker where they are denser; a number is the density that is darkest, so
        that several pictures can share a scale. Densities of a mixture's components are weighted.
    names : sequence, optional
        Names of the Gaussians in a legend, one each; by default a model's classes or components.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from deciban import pictures
    >>> ax = pictures.contours([0, 0], [[1, 0.8], [0.8, 1]], shares=[0.5])
    >>> ellipse = ax.patches[0].get_path().vertices  # half of all draws are closer to the mean
    >>> [float(round(value, 3)) for value in ellipse.max(axis=0)]
    [1.177, 1.177]

    >>> from sklearn.datasets import load_iris
    >>> from deciban import GaussianDiscriminant
    >>> flowers = load_iris()
    >>> model = GaussianDiscriminant().fit(flowers.data[:, 2:], flowers.target_names[flowers.target])
    >>> [text.get_text() for text in pictures.contours(model).get_legend().get_texts()]
    ['setosa', 'versicolor', 'virginica']
    """
    means, covariances, owners, weights, classes = gaussian_parameters(model, covariance)
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
    if not shade:  # which has set the limits
        limits = usual_range(means, covariances, max(shares, default=0.5))
        ax.set_xlim(*limits[:, 0])
        ax.set_ylim(*limits[:, 1])
    wide, high = abs(np.diff(ax.get_xlim())[0]), abs(np.diff(ax.get_ylim())[0])
    ax.set_aspect("equal" if max(wide, high) <= MAX_SIDES_RATIO * min(wide, high) else "auto")
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


def usual_range(means: Floats, covariances: Floats, share: float) -> Floats:
    """The lowest and highest values to draw, (2, 2): all ellipses of this share, but of a Gaussian that is far wider
    than the others only its mean, so that the others can be seen."""
    rings = np.array([ellipse(mean, spread, share) for mean, spread in zip(means, covariances, strict=True)])
    low, high = rings.min(axis=1), rings.max(axis=1)
    wide = high - low > MAX_WIDTH_RATIO * np.median(high - low, axis=0)
    low, high = (np.where(wide, means, side) for side in (low, high))
    bounds = np.array([low.min(axis=0), high.max(axis=0)])
    return np.asarray(bounds + 0.05 * np.array([[-1.0], [1.0]]) * (bounds[1] - bounds[0]))


def density(mean: Floats, covariance: Floats, at: Floats) -> Floats:
    """N(x; μ, Σ) of the rows of `at`, (n,)."""
    deviations = at - mean
    squared_distances = np.einsum("ni,ni->n", deviations @ np.linalg.inv(covariance), deviations)
    return np.asarray(np.exp(-0.5 * squared_distances) / (2.0 * np.pi * np.sqrt(np.linalg.det(covariance))))


def shade_densities(
    ax: Any, means: Floats, covariances: Floats, owners: Array, weights: Floats, darkest: float | None
) -> None:
    """The density of each class as a transparent image, on one scale."""
    reach = 4.0 * np.sqrt(covariances[:, [0, 1], [0, 1]])
    x, y, grid = grid_points(np.min(means - reach, axis=0), np.max(means + reach, axis=0))
    component_densities = [
        w * density(mean, spread, grid) for w, mean, spread in zip(weights, means, covariances, strict=True)
    ]
    distinct_owners = dict.fromkeys(owners.tolist())
    density_by_owner = {
        owner: np.sum([values for values, code in zip(component_densities, owners, strict=True) if code == owner], 0)
        for owner in distinct_owners
    }
    darkest = max(float(density_sum.max()) for density_sum in density_by_owner.values()) if darkest is None else darkest
    for owner, density_sum in density_by_owner.items():
        image = np.empty((len(y), len(x), 4))
        image[..., :3], image[..., 3] = rgb(owner), np.minimum(0.8 * density_sum / darkest, 1.0).reshape(len(y), len(x))
        draw_image(ax, image, x, y)


def gaussian_parameters(model: Any, covariance: Any = None) -> tuple[Floats, Floats, Array, Floats, Any]:
    """Means (m, 2), covariances (m, 2, 2), class codes (m,), weights (m,) and class names (None if there are none)."""
    shared, classes = True, getattr(model, "classes_", None)
    if covariance is not None and classes is not None:
        raise DecibanError(
            "contours of a model need no rows and no covariance: they are drawn from what it has learned"
        )
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
        raise DecibanError(f"contours need two columns, but there are {means.shape[-1]}: fit a model on two")
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


def boundary(model: Any, X: Any, y: Any = None, ax: Any = None, *, fineness: int = GRID_POINTS) -> Any:
    """The decision boundary of a model of two columns: P(y | x) in the classes' colours, with the rows on it.

    On the solid line the two most probable classes have equal probability: with two classes, P = ½. With two classes,
    the odds on the dashed lines are ten to one, 10 dB, on either side.

    Parameters
    ----------
    model : classifier with `classes_` and `predict_proba` (or `predict_log_proba`, which is sharper)
        Fitted on two columns of numbers, with any library.
    X : array-like of shape (n, 2), data frame or dict of two columns
        Rows, which set the region that is drawn and, in a frame, the names of the axes.
    y : array-like of shape (n,), optional
        Their labels. Rows without a label, or with one that the model does not know, are grey crosses.
    ax : matplotlib axes, optional
    fineness : int, default=201
        Points per side of the grid on which the model predicts.

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
    across, up, grid = grid_points(low - margin, high + margin, fineness)
    classes = np.asarray(model.classes_)
    log_proba = log_posterior(model, grid_like(X, names, grid))
    ax = axes(ax)
    tint = np.exp(log_proba) @ np.array([rgb(c) for c in range(len(classes))])
    draw_image(ax, 1.0 - 0.38 * (1.0 - np.clip(tint, 0.0, 1.0)).reshape(len(up), len(across), 3), across, up)
    for c in range(len(classes)):
        lead = lead_over_others(log_proba, c).reshape(len(up), len(across))
        ax.contour(across, up, lead, levels=[0.0], colors="black", linewidths=1.4)
        if len(classes) == 2:  # two classes have one boundary
            ax.contour(
                across, up, lead, levels=[-TEN_TO_ONE, TEN_TO_ONE], colors="black", linewidths=0.8, linestyles="--"
            )
            break
    draw_rows(ax, values, y, classes)
    name_axes(ax, names)
    return ax


def draw_rows(ax: Any, values: Floats, y: Any, classes: Array) -> None:
    """Rows as points with a colour and a marker per class, grey if unlabelled, and a legend."""
    labels = [None] * len(values) if y is None else list(map(plain, np.asarray(y, dtype=object)))
    if len(labels) != len(values):
        raise DecibanError(f"X has {len(values)} rows, but y has {len(labels)} labels")
    codes = {plain(name): c for c, name in enumerate(classes)}
    owners = np.array([codes.get(name, -1) for name in labels])
    for c in range(-1, len(classes)):
        points = values[owners == c]
        ax.plot(
            points[:, 0],
            points[:, 1],
            linestyle="",
            marker=MARKERS[c % len(MARKERS)] if c >= 0 else "x",
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
        raise DecibanError(f"{type(model).__name__} has no predict_proba, which is needed to draw a boundary")
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(model.predict_proba(X), dtype=np.float64))


def lead_over_others(log_proba: Floats, c: int) -> Floats:
    """The log-odds of a class over the most probable other class, (n,).

    Log-odds rather than probabilities: those of linear models are planes, so that contours interpolated on a grid are
    exact.
    """
    others = np.delete(log_proba, c, axis=1)
    best = others.max(axis=1) if others.shape[1] else np.full(len(others), -np.inf)
    return np.asarray(np.maximum(log_proba[:, c], -MAX_LOG_ODDS) - np.maximum(best, -MAX_LOG_ODDS))


def two_columns(X: Any) -> tuple[Floats, list[Any] | None]:
    """Rows of two numbers, NaN if not finite, and the column names, if there are any."""
    names = list(X) if isinstance(X, dict) else getattr(X, "column_names", getattr(X, "columns", None))
    names = None if names is None else list(names)
    table = X if names is None else np.column_stack([np.asarray(X[name]) for name in names])
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != 2:
        raise DecibanError(f"boundaries need two columns, but X has shape {values.shape}: fit a model on two")
    if not np.isfinite(values).all(axis=1).any():
        raise DecibanError("X has no row of two finite numbers, so there is nothing to draw")
    return np.where(np.isfinite(values), values, np.nan), names


def grid_like(X: Any, names: list[Any] | None, grid: Floats) -> Any:
    """Grid points in the container type of X: a model may select columns by name."""
    if names is None:
        return grid
    # An Arrow table has from_pydict; pandas, Polars and dict are called with columns by name.
    make = getattr(type(X), "from_pydict", type(X))
    return make({name: grid[:, j] for j, name in enumerate(names)})


def waterfall(evidence: Evidence, ax: Any = None, most: int = MAX_STEPS) -> Any:
    """From prior odds to posterior odds, one piece of evidence after another, in decibans.

    Every bar starts where the one above ended: to the right for the class, to the left against it. The last is the
    sum.

    Parameters
    ----------
    evidence : Evidence
        A result of `explain`.
    ax : matplotlib axes, optional
    most : int, default=10
        How many of the strongest pieces have their own bar; the others share one, or one per kind.

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
    longest = 1.2 * max((abs(db) for db in values if np.isfinite(db)), default=0.0) or 1.0  # length of infinite bars
    lengths = np.clip(values, -longest, longest)
    ends = np.cumsum(lengths[:-1])
    lengths[-1] = ends[-1] if np.isinf(evidence.total) else evidence.total
    starts = np.append(ends - lengths[:-1], 0.0)
    ax = axes(ax, len(values))
    colours = [FOR if db >= 0 else AGAINST for _, db in steps]
    ax.barh(range(len(values)), lengths, left=starts, color=[*colours, TOTAL_COLOUR], height=0.7, zorder=2)
    for i, end in enumerate(ends):
        ax.plot([end, end], [i, i + 1], color=NEITHER, linewidth=0.8, zorder=1)
    for i, (value, start, length) in enumerate(zip(values, starts, lengths, strict=True)):
        side = 1 if length >= 0 else -1
        suffix = f", P = {evidence.probability:.4f}" if i == len(ends) else ""
        ax.annotate(
            signed_decibans(value) + suffix,
            (start + length, i),
            (4 * side, 0),
            textcoords="offset points",
            va="center",
            ha="left" if side > 0 else "right",
            fontsize="small",
        )
    low, high = min(0.0, *ends, lengths[-1]), max(0.0, *ends, lengths[-1])
    width = (high - low) or 1.0
    low, high = low - 0.12 * width, high + 0.12 * width  # room for the numbers next to the bars
    low, high = (low, high + 0.12 * width) if lengths[-1] >= 0 else (low - 0.12 * width, high)
    ax.set_xlim(low, high)
    ax.axvline(0.0, color="black", linewidth=0.8, zorder=1)
    ax.set_yticks(range(len(values)), labels=[*(label(name) for name, _ in steps), "posterior odds"])
    for i in (0, -1):
        ax.get_yticklabels()[i].set_fontweight("bold")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)  # the reference line is even odds
    ax.invert_yaxis()
    ax.set_xlabel(label(f"← {plain(evidence.against)}     evidence (dB)     {plain(evidence.target)} →"))
    above = ax.secondary_xaxis("top")
    spacing = 10.0 * np.ceil((high - low) / 80.0)
    tick_values = np.arange(np.ceil(low / spacing), np.floor(high / spacing) + 1.0) * spacing
    above.set_xticks(tick_values, labels=[odds_text(db) for db in tick_values], fontsize="small", color=NEITHER)
    above.tick_params(color=NEITHER)
    above.spines["top"].set_visible(False)
    return ax


def marked_text(evidence: TextEvidence, ax: Any, width: int = 72) -> Any:
    """A text above a picture of its evidence: words for the class in blue, against it in orange, others in grey.

    Parameters
    ----------
    evidence : TextEvidence
        A result of `explain` of a model of texts.
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
            if len(lines) == MAX_TEXT_LINES:
                lines[-1].append(boxes.TextArea("…"))
                break
            lines.append([])
            room = width
        room -= len(word.group()) + 1
        db = sum(weight for start, end, weight in evidence.spans if start < word.end() and end > word.start())
        hue = "dimgrey" if abs(db) < WEAK else FOR if db > 0 else AGAINST
        style = {"color": hue, "fontsize": "large", "fontweight": "normal" if abs(db) < STRONG else "bold"}
        lines[-1].append(boxes.TextArea(label(word.group()[:width]), textprops=style))
    rows = [boxes.HPacker(children=line, pad=0, sep=5) for line in lines if line]
    box = boxes.VPacker(children=rows, pad=0, sep=4)
    place = boxes.AnnotationBbox(
        box, (0, 1), (0, 28), "axes fraction", "offset points", box_alignment=(0, 0), frameon=False, pad=0
    )  # above the odds axis of a waterfall
    ax.add_artist(place)
    return ax


def signed_decibans(decibans: float) -> str:
    """A number of decibans with its sign."""
    return signed(decibans).replace("-", "−")


def odds_text(decibans: float) -> str:
    """Decibans as odds: 10 dB are 10 : 1, −20 dB are 1 : 100.

    >>> odds_text(10), odds_text(-20), odds_text(0), odds_text(90)
    ('10 : 1', '1 : 100', '1 : 1', '$10^{9}$ : 1')
    """
    power = abs(decibans) / 10.0
    ratio = f"{10.0**power:,.0f}" if power < 5 else f"$10^{{{power:.0f}}}$"
    return f"{ratio} : 1" if decibans >= 0 else f"1 : {ratio}"


# ------------------------------------------------------------------ shared helpers


def grid_points(low: Floats, high: Floats, fineness: int = GRID_POINTS) -> tuple[Floats, Floats, Floats]:
    """A grid's coordinates across and up, and its points, (fineness², 2), the lowest row first."""
    across, up = (np.linspace(low[j], high[j], fineness) for j in (0, 1))
    return across, up, np.column_stack([np.tile(across, fineness), np.repeat(up, fineness)])


def draw_image(ax: Any, image: Floats, across: Floats, up: Floats) -> None:
    """Draw an image whose pixel centres are the points of a grid."""
    half = 0.5 * (across[1] - across[0]), 0.5 * (up[1] - up[0])
    extent = (across[0] - half[0], across[-1] + half[0], up[0] - half[1], up[-1] + half[1])
    ax.imshow(image, origin="lower", extent=extent, interpolation="bilinear", aspect="auto", zorder=0)
    ax.set_xlim(across[0], across[-1])
    ax.set_ylim(up[0], up[-1])


def name_axes(ax: Any, names: Sequence[Any] | None) -> None:
    """Label the axes with the column names, or x0 and x1."""
    across, up = ("x0", "x1") if names is None else names
    ax.set_xlabel(label(across))
    ax.set_ylabel(label(up))


def rgb(i: int) -> tuple[float, float, float]:
    """The i-th class's colour as RGB from 0 to 1."""
    code = colour(i).lstrip("#")
    red, green, blue = (int(code[j : j + 2], 16) / 255.0 for j in (0, 2, 4))
    return red, green, blue


def legend(ax: Any, names: Sequence[Any]) -> None:
    """A legend of the classes' colours and markers."""
    line = optional("matplotlib.lines", "a picture").Line2D
    key = [
        line([], [], linestyle="", marker=MARKERS[c % len(MARKERS)], color=colour(c), label=label(plain(name)))
        for c, name in enumerate(names)
    ]
    ax.legend(handles=key, fontsize="small", frameon=True, framealpha=0.8, edgecolor="none")
