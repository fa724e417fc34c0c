"""Effects of features on the prediction: partial dependence with intervals, and permutation importances.

A feature is one column of numbers, or all columns that encode one column of a table. For partial dependence
it is set to one value in a sample of rows, other features unchanged, and predictions are averaged over the
rows. The band of a regression is the average central interval; for two classes it contains the middle half of
the rows. `sklearn.inspection.partial_dependence` has neither intervals nor features of several columns.
"""

from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.explanation import ColumnMap, Importances, permutation_importances
from tggm.plotting.canvas import CLASS_COLOURS, DATA, MODEL, axes_or_new, shade
from tggm.report._case import Case, RegressionCase, dense
from tggm.report._page import shortened

GRID = 13  # values of a feature
FEW = 8  # a feature with at most this many values is drawn at each of them
LEVELS = 12  # of a category that are drawn, the most frequent ones
BACKGROUND = 30  # rows to average over
RANKING_ROWS = 15  # rows to average over when features are ranked
CANDIDATES = 200  # features that are ranked
CLASSES_DRAWN = 4
IMPORTANCE_ROWS = 300
REPEATS = 3


class Feature(NamedTuple):
    """A name, its columns of X, the names of a category's levels, and its name in the user's table.

    If a column of a table is encoded in several columns, the first is drawn.
    """

    name: str
    columns: tuple[int, ...]
    levels: tuple[str, ...] = ()
    owner: str = ""


class Grid(NamedTuple):
    """Values that a feature is set to: positions in the plot, names, and entries of the columns."""

    place: Floats  # (g,)
    labels: tuple[str, ...]  # empty for numbers
    entries: Floats  # (g, columns)
    discrete: bool


class Effect(NamedTuple):
    """The effect of one feature; `mean`, `lower` and `upper` have a column for each output or class."""

    feature: Feature
    at: Grid
    mean: Floats  # (g, k)
    lower: Floats
    upper: Floats


def rank_features(case: Case) -> list[tuple[Feature, float]]:
    """Return features and the range of their effect, largest first, from a coarse grid and few rows."""
    rows = case.X[case.sample(RANKING_ROWS)]
    found = [(feature, _grid(case, feature, fine=False)) for feature in _candidates(case)]
    found = [(feature, at) for feature, at in found if len(at.place) > 1]
    if not found:
        return []
    response = case.response(np.concatenate([_copies(rows, *pair) for pair in found]))
    sizes = [float(np.ptp(part.mean(1), axis=0).max()) for part in _parts(response, [at for _, at in found])]
    order = np.argsort([-size for size in sizes], kind="stable")
    return [(found[k][0], sizes[k]) for k in order]


def effects(case: Case, features: list[Feature], level: float) -> list[Effect]:
    """Compute partial dependence on each of these features, with one call of the model."""
    if not features:
        return []
    rows = case.X[case.sample(BACKGROUND)]
    at = [_grid(case, feature, fine=True) for feature in features]
    X = np.concatenate([_copies(rows, *pair) for pair in zip(features, at, strict=True)])
    bands: list[tuple[Floats, ...]]
    if isinstance(case, RegressionCase):
        dist = case.dist(X)
        parts = _parts(np.stack([dist.mean(), *dist.interval(level)], axis=1), at)
        bands = [tuple(part.mean(1)[:, [k]] for k in range(3)) for part in parts]
    else:
        bands = [(p.mean(1), *np.quantile(p, (0.25, 0.75), axis=1)) for p in _parts(case.response(X), at)]
    return [Effect(f, s, *band) for f, s, band in zip(features, at, bands, strict=True)]


def importances(case: Case, features: list[Feature]) -> Importances:
    """Return the increase of the loss when each of these features is shuffled."""
    rows = case.sample(IMPORTANCE_ROWS)
    X = dense(case.X[rows])
    used = sorted({j for feature in features for j in feature.columns})
    owner = {j: k for k, feature in enumerate(features) for j in feature.columns}
    names = tuple(feature.owner or feature.name for feature in features)
    columns = ColumnMap(names, np.arange(len(features)), np.array([owner[j] for j in used]))

    def loss(part: np.ndarray, place: np.ndarray) -> np.ndarray:
        whole = X[place]
        whole[:, used] = part
        return case.losses(whole, rows[place])

    return permutation_importances(loss, X[:, used], columns, REPEATS, np.random.default_rng(0))


def plot_effect(case: Case, effect: Effect, ax: Any) -> Any:
    """Draw one effect: a line with a band, or points with bars if the feature is discrete."""
    ax = axes_or_new(ax)
    columns, labels = _drawn_columns(effect), [name and shortened(name) for name in case.labels]
    bands, place = len(columns) == 1, effect.at.place
    for c in columns:
        colour = MODEL if bands else CLASS_COLOURS[c % len(CLASS_COLOURS)]
        mean, lower, upper = effect.mean[:, c], effect.lower[:, c], effect.upper[:, c]
        if bands and effect.at.discrete:
            ax.vlines(place, lower, upper, color=colour, linewidth=5, alpha=0.25)
        elif bands:
            ax.fill_between(place, lower, upper, linewidth=0, color=shade(0.25))
        ax.plot(place, mean, "o" if effect.at.discrete else "-", color=colour, linewidth=1.8, label=labels[c])
    _mark_values(case, effect, ax)
    ax.set(xlabel=effect.feature.name, ylabel=case.unit)
    if any(labels):
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)  # above the plot
    return ax


def _mark_values(case: Case, effect: Effect, ax: Any) -> None:
    """Label the levels, or mark quantiles of the rows by ticks."""
    place, labels = effect.at.place, effect.at.labels
    if effect.at.discrete:
        ax.set_xticks(place)
        if labels:
            wide = sum(map(len, labels)) > 40
            ax.set_xticklabels(labels, rotation=45 if wide else 0, ha="right" if wide else "center")
        ax.margins(x=0.15)
        return
    low, high = place[[0, -1]]
    seen = np.quantile(_values(case, effect.feature.columns[0]), np.linspace(0, 1, 31))
    seen = seen[(seen >= low) & (seen <= high)]
    ax.plot(seen, np.zeros(len(seen)), "|", color=DATA, transform=ax.get_xaxis_transform(), markersize=8)
    ax.set_xlim(low, high)


def _drawn_columns(effect: Effect) -> list[int]:
    """Return the columns with the largest range; of two probabilities the second."""
    k = effect.mean.shape[1]
    if k <= 2:
        return [k - 1]
    most = np.argsort(-np.ptp(effect.mean, axis=0), kind="stable")[:CLASSES_DRAWN]
    return sorted(most.tolist())


def _parts(rows: Floats, grids: list[Grid]) -> list[Floats]:
    """Split answers for copies of rows by feature: (values, rows, columns) each."""
    each = len(rows) // sum(len(at.place) for at in grids)
    cuts = np.cumsum([each * len(at.place) for at in grids])[:-1]
    return [part.reshape(-1, each, rows.shape[1]) for part in np.split(rows, cuts)]


def _features(case: Case) -> list[Feature]:
    """Return categories, then columns encoded in several columns, then all others."""
    grouped = [Feature(name, tuple(by.values()), tuple(by)) for name, by in case.groups.items()]
    grouped += [Feature(case.names[js[0]], tuple(js), (), name) for name, js in case.parts.items()]
    taken = {column for feature in grouped for column in feature.columns}
    return grouped + [Feature(name, (j,)) for j, name in enumerate(case.names) if j not in taken]


def _candidates(case: Case) -> list[Feature]:
    """Return all features or, of very many, those most correlated with the prediction."""
    found = _features(case)
    if len(found) <= CANDIDATES:
        return found
    X = dense(case.X[case.sample(500)])
    response = case.response(X)
    Z, R = (a - a.mean(0, keepdims=True) for a in (X, response))
    along = np.abs(Z.T @ R).max(1) / np.maximum(np.sqrt((Z**2).sum(0)), 1e-300)
    strength = [-max(along[j] for j in feature.columns) for feature in found]
    return [found[k] for k in sorted(np.argsort(strength, kind="stable")[:CANDIDATES].tolist())]


def _values(case: Case, j: int) -> Floats:
    return dense(case.X[:, [j]])[:, 0]


def _grid(case: Case, feature: Feature, *, fine: bool) -> Grid:
    """Choose values of a feature: those that are drawn, or fewer for ranking."""
    if feature.levels:
        return _level_grid(case, feature)
    values = _values(case, feature.columns[0])
    distinct = np.unique(values)
    discrete = fine and len(distinct) <= FEW
    if discrete:
        place = distinct
    elif fine:
        low, high = np.quantile(values, (0.02, 0.98))
        low, high = (low, high) if low < high else distinct[[0, -1]]
        place = np.linspace(low, high, GRID)
    else:
        place = np.unique(np.quantile(values, np.linspace(0.05, 0.95, 5)))
        place = place if len(place) > 1 else np.unique(distinct[[0, -1]])  # possibly a rare indicator
    return Grid(place, (), _entries(case, feature, place), discrete)


def _entries(case: Case, feature: Feature, place: Floats) -> Floats:
    """Return the numbers, and the feature's other columns from the nearest row that is not missing."""
    if len(feature.columns) == 1:
        return place[:, None]
    X = dense(case.X[:, list(feature.columns)])
    missing = [k for k, j in enumerate(feature.columns) if case.names[j] == f"{feature.owner} is missing"]
    known = X[(X[:, missing] == 0).all(1)]
    X = known if len(known) else X
    near = np.abs(X[None, :, 0] - place[:, None]).argmin(1)
    return np.column_stack([place, X[near, 1:]])


def _copies(rows: Any, feature: Feature, at: Grid) -> Floats:
    """Return the rows once for each value, with the feature's columns set to it."""
    X = np.tile(dense(rows), (len(at.place), 1))
    X[:, feature.columns] = np.repeat(at.entries, rows.shape[0], axis=0)
    return X


def _level_grid(case: Case, feature: Feature) -> Grid:
    """Use each level that occurs in these rows, as one column of ones among zeros."""
    count = np.array([_values(case, j).sum() for j in feature.columns])
    most = np.argsort(-count, kind="stable")[:LEVELS]
    shown = [k for k in range(len(count)) if k in most and count[k] > 0]
    place, labels = np.arange(len(shown), dtype=float), tuple(feature.levels[k] for k in shown)
    return Grid(place, labels, np.eye(len(count))[shown], True)
