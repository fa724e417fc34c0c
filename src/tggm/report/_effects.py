"""Effects of features on the prediction: partial dependence with intervals.

A feature is a column of the user's table, with all inputs that encode it. It is set to one value in a sample
of rows, other features unchanged, and predictions are averaged over the rows. The band of a regression is the
average central interval; for two classes it contains the middle half of the rows.
`sklearn.inspection.partial_dependence` has neither intervals nor features of several inputs.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.plotting import CLASS_COLOURS, DATA, MODEL, axes_or_new, shade
from tggm.report._case import Case, Feature, sample
from tggm.report._page import shorten

GRID = 13  # values of a feature
FEW = 8  # a feature with at most this many values is drawn at each of them
LEVELS = 12  # of a category that are drawn, the most frequent ones
BACKGROUND = 30  # rows to average over
CLASSES_DRAWN = 4


class Effect(NamedTuple):
    """The effect of one feature; `mean`, `lower` and `upper` have a column for each output or class."""

    feature: Feature
    label: str  # of the axis: the first input of the feature, such as "sold: years"
    place: Floats  # (g,) positions in the plot
    labels: tuple[str, ...]  # of the positions; empty for numbers
    discrete: bool
    mean: Floats  # (g, k)
    lower: Floats
    upper: Floats


def effect(case: Case, feature: Feature, level: float) -> Effect:
    """Compute the partial dependence on a feature."""
    names, values = [case.names[j] for j in feature.columns], case.X[:, list(feature.columns)]
    distinct = np.unique(values[:, 0])
    labels: tuple[str, ...] = ()
    discrete = len(distinct) <= FEW
    if feature.levels:  # each level that occurs in these rows, as one input of ones among zeros
        count = values.sum(0)
        most = np.argsort(-count, kind="stable")[:LEVELS]
        shown = [k for k in range(len(count)) if k in most and count[k] > 0]
        place, entries = np.arange(len(shown), dtype=float), np.eye(len(count))[shown]
        labels, discrete = tuple(feature.levels[k] for k in shown), True
    else:
        low, high = np.quantile(values[:, 0], (0.02, 0.98))
        low, high = (low, high) if low < high else distinct[[0, -1]]
        place = distinct if discrete else np.linspace(low, high, GRID)
        # other inputs of the feature are those of the row with the nearest value that is not missing
        missing = [k for k, name in enumerate(names) if name == f"{feature.name} is missing"]
        known = (values[:, missing] == 0).all(1)
        values = values[known] if known.any() else values
        near = np.abs(values[None, :, 0] - place[:, None]).argmin(1)
        entries = np.column_stack([place, values[near, 1:]])
    rows = case.X[sample(len(case.y), BACKGROUND)]
    X = np.tile(rows, (len(place), 1))
    X[:, feature.columns] = np.repeat(entries, len(rows), axis=0)
    found = partial(Effect, feature, feature.name if labels else names[0], place, labels, discrete)
    if case.is_class:
        p = case.model.predict_proba(X).reshape(len(place), len(rows), -1)
        return found(p.mean(1), *np.quantile(p, (0.25, 0.75), axis=1))
    law = case.model.predict_dist(X)
    return found(*(a.reshape(len(place), -1).mean(1)[:, None] for a in (law.mean(), *law.interval(level))))


def plot_effect(case: Case, found: Effect, ax: Any) -> Any:
    """Draw one effect: a line with a band, or points with bars if the feature is discrete."""
    ax, columns = axes_or_new(ax), [case.positive or 0]
    if found.mean.shape[1] > 2:  # those with the largest range
        columns = sorted(np.argsort(-np.ptp(found.mean, axis=0), kind="stable")[:CLASSES_DRAWN].tolist())
    for c in columns:
        colour = MODEL if len(columns) == 1 else CLASS_COLOURS[c % len(CLASS_COLOURS)]
        if len(columns) == 1 and found.discrete:
            ax.vlines(found.place, found.lower[:, c], found.upper[:, c], color=colour, lw=5, alpha=0.25)
        elif len(columns) == 1:
            ax.fill_between(found.place, found.lower[:, c], found.upper[:, c], linewidth=0, color=shade(0.25))
        label = shorten(case.labels[c]) if case.is_class else None
        style = "o" if found.discrete else "-"
        ax.plot(found.place, found.mean[:, c], style, color=colour, linewidth=1.8, label=label)
    if found.discrete:
        wide = sum(map(len, found.labels)) > 40
        turned = {"rotation": 45, "ha": "right"} if wide else {}
        ax.set_xticks(found.place, found.labels or None, **turned)
        ax.margins(x=0.15)
    else:  # ticks at quantiles of the rows
        low, high = found.place[[0, -1]]
        seen = np.quantile(case.X[:, found.feature.columns[0]], np.linspace(0, 1, 31))
        seen = seen[(seen >= low) & (seen <= high)]
        ax.plot(seen, np.zeros(len(seen)), "|", color=DATA, transform=ax.get_xaxis_transform(), markersize=8)
        ax.set_xlim(low, high)
    ax.set(xlabel=shorten(found.label), ylabel="probability" if case.is_class else case.target)
    if case.is_class:
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)  # above the plot
    return ax
