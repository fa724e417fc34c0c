"""What a report calls a feature: a column of numbers, or all columns that one of a table became."""

from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.report.case import Case, Feature, dense

GRID = 13
FEW = 8  # a number that takes at most so many values is shown at each of them
LEVELS = 12  # of a category that are shown, the most frequent ones


class Settings(NamedTuple):
    """Values that a feature is set to: where they are drawn, their names, and the columns' entries."""

    place: Floats  # (g,)
    labels: tuple[str, ...]  # empty for numbers
    entries: Floats  # (g, columns)
    discrete: bool


def features_of(case: Case) -> list[Feature]:
    """Categories first, then columns with several parts, then those that belong to none."""
    grouped = [Feature(name, tuple(by.values()), tuple(by)) for name, by in case.groups.items()]
    grouped += [Feature(case.names[js[0]], tuple(js), (), name) for name, js in case.joined.items()]
    taken = {column for feature in grouped for column in feature.columns}
    return grouped + [Feature(name, (j,)) for j, name in enumerate(case.names) if j not in taken]


def column(case: Case, j: int) -> Floats:
    """The values of one column."""
    return dense(case.X[:, [j]])[:, 0]


def coarse(case: Case, feature: Feature) -> Settings:
    """A few values, for ranking; none if the feature does not vary."""
    if feature.levels:
        return _levels(case, feature)
    values = column(case, feature.columns[0])
    grid = np.unique(np.quantile(values, np.linspace(0.05, 0.95, 5)))
    if len(grid) < 2:  # a rare indicator, perhaps
        grid = np.unique(values)[[0, -1]]
    return _numbers(case, feature, np.unique(grid), discrete=False)


def fine(case: Case, feature: Feature) -> Settings:
    """The values that are drawn."""
    if feature.levels:
        return _levels(case, feature)
    values = column(case, feature.columns[0])
    distinct = np.unique(values)
    if len(distinct) <= FEW:
        return _numbers(case, feature, distinct, discrete=True)
    low, high = np.quantile(values, (0.02, 0.98))
    if low == high:
        low, high = distinct[[0, -1]]
    return _numbers(case, feature, np.linspace(low, high, GRID), discrete=False)


def copies(rows: Any, feature: Feature, settings: Settings) -> Floats:
    """The rows once for each setting, the feature's columns set to it."""
    X = np.tile(dense(rows), (len(settings.place), 1))
    X[:, feature.columns] = np.repeat(settings.entries, rows.shape[0], axis=0)
    return X


def _numbers(case: Case, feature: Feature, grid: Floats, discrete: bool) -> Settings:
    """Each number, and the other parts as they are in the row next to it that has no gap there."""
    if len(feature.columns) == 1:
        return Settings(grid, (), grid[:, None], discrete)
    X = dense(case.X[:, list(feature.columns)])
    gaps = [k for k, j in enumerate(feature.columns) if case.names[j] == f"{feature.owner} is missing"]
    known = X[(X[:, gaps] == 0).all(1)]
    X = known if len(known) else X
    near = np.abs(X[None, :, 0] - grid[:, None]).argmin(1)
    return Settings(grid, (), np.column_stack([grid, X[near, 1:]]), discrete)


def _levels(case: Case, feature: Feature) -> Settings:
    """Each level that occurs in these rows, as one column of ones among zeros."""
    count = np.array([column(case, j).sum() for j in feature.columns])
    most = np.argsort(-count, kind="stable")[:LEVELS]
    shown = [k for k in range(len(count)) if k in most and count[k] > 0]
    entries = np.eye(len(count))[shown]
    return Settings(
        np.arange(len(shown), dtype=float), tuple(feature.levels[k] for k in shown), entries, True
    )
