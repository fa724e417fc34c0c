"""The sections about a regression: calibration, predicted against observed, the worst rows."""

from typing import Any

import numpy as np

from tggm.plotting import plot_calibration, plot_pit, plot_predicted
from tggm.report import html
from tggm.report.case import Case, dense
from tggm.report.features import Feature
from tggm.report.scores import coverage
from tggm.report.svg import picture

DRAWN = 400  # rows in a scatter plot


def calibration_section(case: Case, dist: Any) -> tuple[str, str, str]:
    """Coverage of intervals and the histogram of F(y)."""
    found = coverage(dist, case.y)
    spoken = ", ".join(f"{100 * p:.3g} % intervals hold {100 * inside:.0f} %" for p, inside, _ in found)
    curve = picture(
        lambda ax: plot_calibration(dist, case.y, ax=ax),
        name="calibration",
        alt=f"Observed against nominal coverage of central intervals: {spoken} of the observations.",
        size=(4.7, 4.2),
    )
    pit = np.asarray(dist.cdf(case.y))
    bars = picture(
        lambda ax: plot_pit(dist, case.y, ax=ax),
        name="pit",
        alt=f"Histogram of the predicted probability of a smaller {case.target}: mean {pit.mean():.2f} "
        f"(0.50 if calibrated), standard deviation {pit.std():.2f} (0.29 if calibrated).",
        size=(4.7, 4.2),
    )
    rows = [(html.percent(p), html.percent(inside, 1), html.number(width)) for p, inside, width in found]
    element = html.section(
        "calibration",
        "Can its probabilities be trusted?",
        html.side_by_side(
            html.figure(
                curve,
                "How many observations fell into intervals of each probability. Below the diagonal the model "
                "is too sure, above it too modest; in the grey band the difference can be chance.",
            ),
            html.figure(
                bars,
                "Where observations fell within their predicted distributions. Flat is right; a hill says "
                "that intervals are too wide, a valley too narrow, a slope that predictions are biased.",
            ),
        ),
        html.table(
            "Central intervals",
            ["probability", "observations inside", f"mean width, units of {case.target}"],
            rows,
        ),
    )
    return "calibration", "Calibration", element


def predicted_section(case: Case, dist: Any, level: float) -> tuple[str, str, str]:
    """Predicted against observed with intervals."""
    rows = case.some_rows(DRAWN)
    part = dist[rows] if len(rows) < len(case.y) else dist
    mean = np.asarray(dist.mean())
    relation = np.corrcoef(mean, case.y)[0, 1] if np.ptp(mean) > 0 and np.ptp(case.y) > 0 else float("nan")

    def draw(ax: Any) -> None:
        plot_predicted(part, case.y[rows].astype(float), level=level, ax=ax)
        ax.set(xlabel=f"observed {case.target}", ylabel=f"predicted {case.target}, mean and interval")

    drawing = picture(
        draw,
        name="predicted",
        alt=f"Predicted mean and {100 * level:.3g} % interval against observed {case.target} for {len(rows)} "
        f"rows; correlation {relation:.2f}.",
        size=(4.7, 4.2),
    )
    some = "" if len(rows) == len(case.y) else f" {len(rows)} of {len(case.y)} rows, drawn at random."
    caption = f"On the grey line the prediction is what was observed; vertical lines are intervals.{some}"
    head = "Predicted against observed"
    return "predicted", head, html.section("predicted", head, html.figure(drawing, caption))


def worst_section(
    case: Case, dist: Any, level: float, features: list[Feature], count: int
) -> tuple[str, str, str]:
    """The rows that surprised the model most."""
    surprise = np.asarray(dist.logpdf(case.y))
    mean, (lower, upper) = np.asarray(dist.mean()), dist.interval(level)
    worst = np.argsort(surprise, kind="stable")[:count]
    extra_head, extra = shown_columns(case, worst, features)
    head = ["row", "observed", "predicted", f"{100 * level:.3g} % from", "to", "log-density", *extra_head]
    rows = [
        [
            html.Cell(str(case.number[i]), float(case.number[i])),
            *(html.number(v) for v in (case.y[i], mean[i], lower[i], upper[i], surprise[i])),
            *extra[k],
        ]
        for k, i in enumerate(worst)
    ]
    text = (
        "The rows whose observation the model held least likely. Look here for typing errors, for cases that "
        "the features do not tell apart, and for kinds of rows that training has not seen."
    )
    title = "The worst rows"
    table = html.table(f"The {len(worst)} rows of lowest log-density", head, rows)
    return "worst", title, html.section("worst", title, html.paragraph(text), table)


def shown_columns(case: Case, rows: Any, features: list[Feature]) -> tuple[list[str], list[list[Any]]]:
    """Columns that help to recognise a row: of the user's table, or the features that matter most."""
    if case.shown:
        names = _most_telling(case, features)
        return names, [[case.shown[name][int(case.row[i])] for name in names] for i in rows]
    picked = [feature.columns[0] for feature in features if not feature.levels][:5]
    table = dense(case.X[rows])
    return [case.names[j] for j in picked], [[html.number(line[j]) for j in picked] for line in table]


def _most_telling(case: Case, features: list[Feature], most: int = 8) -> list[str]:
    """Columns of the user's table whose features matter most; a feature's name begins with its column's."""
    ordered = [feature.name for feature in features]
    rank = {
        name: min((k for k, feature in enumerate(ordered) if feature.startswith(name)), default=len(ordered))
        for name in case.shown
    }
    return sorted(case.shown, key=lambda name: rank[name])[:most]
