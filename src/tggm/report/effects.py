"""How the prediction moves with one feature: partial dependence, with intervals.

For a value v of feature j, x_j is set to v in each of some rows and everything else left as it is; what is
shown is the average over those rows. For a regression the band is the average central interval of y; for two
classes it spans the middle half of the rows; with more, bands would hide each other and are left out.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.plotting.canvas import DATA, MODEL, axes_or_new, shade
from tggm.plotting.classification import CLASS_COLOURS
from tggm.report.case import Case, dense

Floats = NDArray[np.float64]
BACKGROUND = 30  # rows averaged over
SCOUTS = 15  # of them when features are only ranked
GRID = 13
FEW = 8  # a feature with at most so many values is drawn as points
CANDIDATES = 200
CLASSES_DRAWN = 4


class Effect(NamedTuple):
    """The effect of one feature; `mean`, `lower` and `upper` have a column for each output or class."""

    feature: int
    grid: Floats  # (g,)
    mean: Floats  # (g, k)
    lower: Floats
    upper: Floats
    discrete: bool
    data: Floats  # the feature's values, for a rug


def ranked(case: Case) -> list[tuple[int, float]]:
    """Features and the range of their effect, largest first: on a coarse grid with few rows."""
    rows = case.X[case.some_rows(SCOUTS)]
    found = []
    for j in _candidates(case):
        grid = np.unique(np.quantile(_values(case.X, j), np.linspace(0.05, 0.95, 5)))
        if len(grid) < 2:  # a rare indicator, perhaps
            grid = np.unique(_values(case.X, j))[[0, -1]]
        if grid[0] < grid[-1]:
            found.append((j, grid))
    if not found:
        return []
    response = _response(case)(np.concatenate([_set(rows, j, grid) for j, grid in found]))
    sizes, begin = [], 0
    for _, grid in found:
        part = response[begin : begin + len(grid) * rows.shape[0]].reshape(len(grid), rows.shape[0], -1)
        begin += len(grid) * rows.shape[0]
        sizes.append(float(np.ptp(part.mean(1), axis=0).max()))
    order = np.argsort([-size for size in sizes], kind="stable")
    return [(found[k][0], sizes[k]) for k in order]


def effects(case: Case, features: list[int], level: float) -> list[Effect]:
    """Partial dependence on each of these features; all rows are predicted at once."""
    rows = case.X[case.some_rows(BACKGROUND)]
    values = [_values(case.X, j) for j in features]
    grids = [_grid(v) for v in values]
    if not grids:
        return []
    X = np.concatenate([_set(rows, j, grid) for j, grid in zip(features, grids, strict=True)])
    cuts = np.cumsum([len(grid) * rows.shape[0] for grid in grids])[:-1]
    if case.classifies:
        blocks = np.split(_response(case)(X), cuts)
        parts = [_by_value(p, grid) for p, grid in zip(blocks, grids, strict=True)]
        bands = [(p.mean(1), *np.quantile(p, (0.25, 0.75), axis=1)) for p in parts]
    else:
        dist = case.dist(X)
        three = np.stack([dist.mean(), *dist.interval(level)], axis=1)
        parts = [_by_value(t, grid).mean(1) for t, grid in zip(np.split(three, cuts), grids, strict=True)]
        bands = [(t[:, [0]], t[:, [1]], t[:, [2]]) for t in parts]
    return [
        Effect(j, grid, mean, lower, upper, len(np.unique(v)) <= FEW, v)
        for j, grid, (mean, lower, upper), v in zip(features, grids, bands, values, strict=True)
    ]


def _by_value(rows: Floats, grid: Floats) -> Floats:
    """Rows of copies as (values of the grid, rows, columns)."""
    return rows.reshape(len(grid), -1, rows.shape[1])


def plot_effect(case: Case, effect: Effect, ax: Any) -> Any:
    """Draw one effect: a line with a band, or points with bars where the feature has few values."""
    ax = axes_or_new(ax)
    columns = _drawn(effect) if case.classifies else [0]
    bands = len(columns) == 1
    for c in columns:
        colour = MODEL if bands else CLASS_COLOURS[c % len(CLASS_COLOURS)]
        label = str(case.model.classes_[c]) if case.classifies else None
        mean, lower, upper = effect.mean[:, c], effect.lower[:, c], effect.upper[:, c]
        if effect.discrete:
            if bands:
                ax.vlines(effect.grid, lower, upper, color=colour, linewidth=5, alpha=0.25)
            ax.plot(effect.grid, mean, "o", color=colour, label=label)
            ax.set_xticks(effect.grid)
        else:
            if bands:
                ax.fill_between(effect.grid, lower, upper, linewidth=0, color=shade(0.25))
            ax.plot(effect.grid, mean, color=colour, linewidth=1.8, label=label)
    if not effect.discrete:
        low, high = effect.grid[[0, -1]]
        seen = np.quantile(effect.data, np.linspace(0, 1, 31))
        seen = seen[(seen >= low) & (seen <= high)]
        ax.plot(seen, np.zeros(len(seen)), "|", color=DATA, transform=ax.get_xaxis_transform(), markersize=8)
        ax.set_xlim(low, high)
    ax.set(xlabel=case.names[effect.feature], ylabel="probability" if case.classifies else case.target)
    if case.classifies:
        ax.legend(frameon=False, title=None)
    return ax


def _drawn(effect: Effect) -> list[int]:
    """The classes whose probability moves most, in their order; of two, the second says it all."""
    k = effect.mean.shape[1]
    if k == 2:
        return [1]
    most = np.argsort(-np.ptp(effect.mean, axis=0), kind="stable")[:CLASSES_DRAWN]
    return sorted(most.tolist())


def _response(case: Case) -> Callable[[Floats], Floats]:
    """Probabilities of the classes or means of the output, (rows, k)."""
    if case.classifies:
        return lambda X: np.asarray(case.model.predict_proba(case.ask(X)))

    def means(X: Floats) -> Floats:
        mean = np.asarray(case.model.predict(case.ask(X)))
        return mean[:, None] if mean.ndim == 1 else mean[:, [case.output]]

    return means


def _candidates(case: Case) -> list[int]:
    """All features or, of very many, those that go along most with the prediction."""
    d = case.X.shape[1]
    if d <= CANDIDATES:
        return list(range(d))
    rows = case.some_rows(500)
    X = dense(case.X[rows])
    response = _response(case)(X)
    Z, R = (a - a.mean(0, keepdims=True) for a in (X, response))
    spread = np.maximum(np.sqrt((Z**2).sum(0)), 1e-300)
    along = np.abs(Z.T @ R).max(1) / spread
    return sorted(np.argsort(-along, kind="stable")[:CANDIDATES].tolist())


def _grid(values: Floats) -> Floats:
    distinct = np.unique(values)
    if len(distinct) <= FEW:
        return distinct
    low, high = np.quantile(values, (0.02, 0.98))
    if low == high:
        low, high = distinct[[0, -1]]
    return np.linspace(low, high, GRID)


def _set(rows: Any, feature: int, grid: Floats) -> Floats:
    """Copies of the rows for each value of the grid, the feature set to it."""
    X = np.tile(dense(rows), (len(grid), 1))
    X[:, feature] = np.repeat(grid, rows.shape[0])
    return X


def _values(X: Any, feature: int) -> Floats:
    return dense(X[:, [feature]])[:, 0]
