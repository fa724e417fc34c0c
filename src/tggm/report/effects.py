"""How the prediction moves with one feature: partial dependence, with intervals.

A feature is set to one value in each of some rows and everything else left as it is; what is shown is the
average over those rows. For a regression the band is the average central interval of y; for two classes it
spans the middle half of the rows; with more, bands would hide each other and are left out.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tggm.plotting.canvas import DATA, MODEL, axes_or_new, shade
from tggm.plotting.classification import CLASS_COLOURS
from tggm.report.case import Case, dense
from tggm.report.features import Feature, Floats, Settings, coarse, column, copies, features_of, fine

BACKGROUND = 30  # rows averaged over
SCOUTS = 15  # of them when features are only ranked
CANDIDATES = 200
CLASSES_DRAWN = 4


class Effect(NamedTuple):
    """The effect of one feature; `mean`, `lower` and `upper` have a column for each output or class."""

    feature: Feature
    at: Settings
    mean: Floats  # (g, k)
    lower: Floats
    upper: Floats


def ranked(case: Case) -> list[tuple[Feature, float]]:
    """Features and the range of their effect, largest first: at few values, with few rows."""
    rows = case.X[case.some_rows(SCOUTS)]
    found = [(feature, coarse(case, feature)) for feature in _candidates(case)]
    found = [(feature, at) for feature, at in found if len(at.place) > 1]
    if not found:
        return []
    response = _response(case)(np.concatenate([copies(rows, *pair) for pair in found]))
    sizes = [float(np.ptp(part.mean(1), axis=0).max()) for part in _parts(response, [at for _, at in found])]
    order = np.argsort([-size for size in sizes], kind="stable")
    return [(found[k][0], sizes[k]) for k in order]


def effects(case: Case, features: list[Feature], level: float) -> list[Effect]:
    """Partial dependence on each of these features; all rows are predicted at once."""
    if not features:
        return []
    rows = case.X[case.some_rows(BACKGROUND)]
    at = [fine(case, feature) for feature in features]
    X = np.concatenate([copies(rows, *pair) for pair in zip(features, at, strict=True)])
    if case.classifies:
        parts = _parts(_response(case)(X), at)
        bands = [(p.mean(1), *np.quantile(p, (0.25, 0.75), axis=1)) for p in parts]
    else:
        dist = case.dist(X)
        three = [t.mean(1) for t in _parts(np.stack([dist.mean(), *dist.interval(level)], axis=1), at)]
        bands = [(t[:, [0]], t[:, [1]], t[:, [2]]) for t in three]
    return [
        Effect(f, s, mean, low, high) for f, s, (mean, low, high) in zip(features, at, bands, strict=True)
    ]


def plot_effect(case: Case, effect: Effect, ax: Any) -> Any:
    """Draw one effect: a line with a band, or points with bars where the feature has few values."""
    ax = axes_or_new(ax)
    columns = _drawn(effect) if case.classifies else [0]
    bands, place = len(columns) == 1, effect.at.place
    for c in columns:
        colour = MODEL if bands else CLASS_COLOURS[c % len(CLASS_COLOURS)]
        label = str(case.model.classes_[c]) if case.classifies else None
        mean, lower, upper = effect.mean[:, c], effect.lower[:, c], effect.upper[:, c]
        if bands and effect.at.discrete:
            ax.vlines(place, lower, upper, color=colour, linewidth=5, alpha=0.25)
        elif bands:
            ax.fill_between(place, lower, upper, linewidth=0, color=shade(0.25))
        ax.plot(place, mean, "o" if effect.at.discrete else "-", color=colour, linewidth=1.8, label=label)
    _mark_values(case, effect, ax)
    ax.set(xlabel=effect.feature.name, ylabel="probability" if case.classifies else case.target)
    if case.classifies:
        ax.legend(frameon=False)
    return ax


def _mark_values(case: Case, effect: Effect, ax: Any) -> None:
    """Name the levels, or show by ticks where the rows are."""
    place, labels = effect.at.place, effect.at.labels
    if effect.at.discrete:
        ax.set_xticks(place)
        if labels:
            wide = sum(map(len, labels)) > 40
            ax.set_xticklabels(labels, rotation=45 if wide else 0, ha="right" if wide else "center")
        ax.margins(x=0.15)
        return
    low, high = place[[0, -1]]
    seen = np.quantile(column(case, effect.feature.columns[0]), np.linspace(0, 1, 31))
    seen = seen[(seen >= low) & (seen <= high)]
    ax.plot(seen, np.zeros(len(seen)), "|", color=DATA, transform=ax.get_xaxis_transform(), markersize=8)
    ax.set_xlim(low, high)


def _drawn(effect: Effect) -> list[int]:
    """The classes whose probability moves most, in their order; of two, the second says it all."""
    k = effect.mean.shape[1]
    if k == 2:
        return [1]
    most = np.argsort(-np.ptp(effect.mean, axis=0), kind="stable")[:CLASSES_DRAWN]
    return sorted(most.tolist())


def _parts(rows: Floats, settings: list[Settings]) -> list[Floats]:
    """Answers for copies of rows, by feature: (values, rows, columns) each."""
    each = len(rows) // sum(len(at.place) for at in settings)
    cuts = np.cumsum([each * len(at.place) for at in settings])[:-1]
    return [part.reshape(-1, each, rows.shape[1]) for part in np.split(rows, cuts)]


def _response(case: Case) -> Callable[[Floats], Floats]:
    """Probabilities of the classes or means of the output, (rows, k)."""
    if case.classifies:
        return lambda X: np.asarray(case.model.predict_proba(case.ask(X)))

    def means(X: Floats) -> Floats:
        mean = np.asarray(case.model.predict(case.ask(X)))
        return mean[:, None] if mean.ndim == 1 else mean[:, [case.output]]

    return means


def _candidates(case: Case) -> list[Feature]:
    """All features or, of very many, those that go along most with the prediction."""
    found = features_of(case)
    if len(found) <= CANDIDATES:
        return found
    X = dense(case.X[case.some_rows(500)])
    response = _response(case)(X)
    Z, R = (a - a.mean(0, keepdims=True) for a in (X, response))
    along = np.abs(Z.T @ R).max(1) / np.maximum(np.sqrt((Z**2).sum(0)), 1e-300)
    strength = [-max(along[j] for j in feature.columns) for feature in found]
    return [found[k] for k in sorted(np.argsort(strength, kind="stable")[:CANDIDATES].tolist())]
