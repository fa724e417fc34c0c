"""How the prediction moves with one feature: partial dependence, with intervals.

A feature is set to one value in each of some rows and everything else left as it is; what is shown is the
average over those rows. For a regression the band is the average central interval of y; for two classes it
spans the middle half of the rows; with more, bands would hide each other and are left out.
"""

from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.plotting.canvas import DATA, MODEL, axes_or_new, shade
from tggm.plotting.classification import CLASS_COLOURS
from tggm.report import html
from tggm.report.case import Case, Feature, dense
from tggm.report.features import Settings, coarse, column, copies, features_of, fine
from tggm.report.svg import picture, shortened

BACKGROUND = 30  # rows averaged over
SCOUTS = 15  # of them when features are only ranked
CANDIDATES = 200
CLASSES_DRAWN = 4
EFFECTS = 6  # features drawn
LISTED = 20


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
    response = case.response(np.concatenate([copies(rows, *pair) for pair in found]))
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
    bands = case.bands(X, lambda answers: _parts(answers, at), level)
    return [Effect(f, s, *band) for f, s, band in zip(features, at, bands, strict=True)]


def plot_effect(case: Case, effect: Effect, ax: Any) -> Any:
    """Draw one effect: a line with a band, or points with bars where the feature has few values."""
    ax = axes_or_new(ax)
    columns, labels = _drawn(effect), [name and shortened(name) for name in case.wording.labels]
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
    ax.set(xlabel=effect.feature.name, ylabel=case.wording.unit)
    if any(labels):
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)  # above, it hides nothing
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
    """The columns that move most, in their order; of two probabilities the second says it all."""
    k = effect.mean.shape[1]
    if k <= 2:
        return [k - 1]
    most = np.argsort(-np.ptp(effect.mean, axis=0), kind="stable")[:CLASSES_DRAWN]
    return sorted(most.tolist())


def _parts(rows: Floats, settings: list[Settings]) -> list[Floats]:
    """Answers for copies of rows, by feature: (values, rows, columns) each."""
    each = len(rows) // sum(len(at.place) for at in settings)
    cuts = np.cumsum([each * len(at.place) for at in settings])[:-1]
    return [part.reshape(-1, each, rows.shape[1]) for part in np.split(rows, cuts)]


def _candidates(case: Case) -> list[Feature]:
    """All features or, of very many, those that go along most with the prediction."""
    found = features_of(case)
    if len(found) <= CANDIDATES:
        return found
    X = dense(case.X[case.some_rows(500)])
    response = case.response(X)
    Z, R = (a - a.mean(0, keepdims=True) for a in (X, response))
    along = np.abs(Z.T @ R).max(1) / np.maximum(np.sqrt((Z**2).sum(0)), 1e-300)
    strength = [-max(along[j] for j in feature.columns) for feature in found]
    return [found[k] for k in sorted(np.argsort(strength, kind="stable")[:CANDIDATES].tolist())]


def effects_section(case: Case, order: list[tuple[Feature, float]], level: float) -> html.Section:
    """Partial dependence of the features that matter most, and a list of the others."""
    title = "What moves the prediction"
    drawn = effects(case, [feature for feature, _ in order[:EFFECTS]], level)
    if not drawn:
        return html.section("effects", title, html.paragraph("No feature varies in these rows."))
    band = case.wording.band.format(level=100 * level)
    text = (
        "One feature at a time is set to other values, in some of these rows, all else left as it is; the "
        f"line is the average prediction{band}. Ticks show where the rows are. What is shown is how the "
        "model answers, not what would happen if somebody changed the feature."
    )
    figures = [
        html.figure(_picture(case, k, effect), _caption(case, effect)) for k, effect in enumerate(drawn)
    ]
    rows = [[feature.name, html.number(size, 3)] for feature, size in order[:LISTED]]
    head = ["feature", f"range of {case.wording.unit}"]
    table = html.table("Range of the average prediction along each feature", head, rows)
    return html.section("effects", title, html.paragraph(text), html.side_by_side(*figures), table)


def _picture(case: Case, k: int, effect: Effect) -> str:
    moved = np.ptp(effect.mean, axis=0).argmax()
    what = f"{case.wording.columns[moved]} {_range(effect, moved)}"
    alt = f"Effect of {effect.feature.name} from {_ends(effect)}: {what} on average."
    return picture(lambda ax: plot_effect(case, effect, ax), name=f"effect{k + 1}", alt=alt, size=(4.7, 3.2))


def _caption(case: Case, effect: Effect) -> str:
    text = f"{effect.feature.name}: {case.wording.effect}"
    return f"{text} {_range(effect, 0)}" if effect.mean.shape[1] == 1 else text


def _range(effect: Effect, output: Any) -> str:
    """The lowest and the highest average prediction, and where along the feature they are."""
    mean = effect.mean[:, output]
    ends = [f"{html.number(mean[k], 3).text} at {_values(effect)[k]}" for k in (mean.argmin(), mean.argmax())]
    return f"between {ends[0]} and {ends[1]}"


def _ends(effect: Effect) -> str:
    """The first and the last value of a feature, in words."""
    return f"{_values(effect)[0]} to {_values(effect)[-1]}"


def _values(effect: Effect) -> list[str]:
    """The values of a feature in words; years are written without a comma."""
    numbers = [
        f"{v:.4g}".replace("-", "−") if 1e-3 <= abs(v) < 1e4 else html.number(v, 3).text
        for v in effect.at.place
    ]
    return list(effect.at.labels) or numbers
