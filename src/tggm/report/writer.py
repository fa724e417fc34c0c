"""From a model and labelled rows to a page, and to a file."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import tggm
from tggm.predictive.base import require_level
from tggm.report import classification, html, regression
from tggm.report.case import Case, examined
from tggm.report.comparison import compared, quality_section
from tggm.report.description import learning_section, model_section
from tggm.report.effects import Effect, effects, plot_effect, ranked
from tggm.report.features import Feature
from tggm.report.svg import picture
from tggm.storage.files import write_atomically
from tggm.tables.baselines import Baselines

EFFECTS = 6
WORST = 10
LISTED = 20


def render_report(
    model: Any, X: Any, y: ArrayLike, *, title: str | None = None, level: float = 0.9, **names: Any
) -> str:
    """The report as one HTML page; see `write_report`."""
    require_level(level)
    case = examined(model, X, y, **names)
    dist = None if case.classifies else case.dist(case.X)
    order = ranked(case)
    features = [feature for feature, _ in order]
    scores = compared(case, dist)
    parts = [quality_section(case, scores), model_section(case)]
    if case.classifies:
        parts += [
            classification.calibration_section(case),
            classification.confusion_section(case),
            classification.worst_section(case, features, WORST),
        ]
    else:
        parts += [
            regression.calibration_section(case, dist),
            regression.predicted_section(case, dist, level),
            regression.worst_section(case, dist, level, features, WORST),
        ]
    parts.append(effects_section(case, order, level))
    learned = learning_section(case)
    sections = parts if learned is None else [*parts, learned]
    counted = f"{len(case.y)} rows" if len(case.y) == case.given_rows else (
        f"{len(case.y)} rows drawn at random from {case.given_rows}"
    )  # fmt: skip
    footer = f"Made by tggm {tggm.__version__}. This page is complete in itself: it loads and sends nothing."
    subtitle = f"A {type(model).__name__} judged on {counted}."
    return html.document(title or f"Predicting {case.target}", subtitle, sections, footer)


def write_report(
    model: Any,
    X: Any,
    y: ArrayLike,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str] | None = None,
    target_name: str = "y",
    train: tuple[Any, ArrayLike] | None = None,
    baselines: Baselines | None = None,
    shown: Mapping[str, Sequence[Any]] | None = None,
    groups: Mapping[str, Mapping[str, int]] | None = None,
    row_numbers: Sequence[int] | None = None,
    title: str | None = None,
    level: float = 0.9,
    output: int = 0,
) -> None:
    """Write a page about a fitted model: what it is, how good it is, and how it comes to its predictions.

    Parameters
    ----------
    model : TGGMRegressor or TGGMClassifier
        Fitted.
    X : array_like or sparse matrix, shape (rows, features)
        Rows that the model has not been trained on.
    y : array_like, shape (rows,)
        What was observed: numbers, or labels that the model knows.
    path : path
        Usually ending in ``.html``; written at once or not at all, an existing file is replaced.
    feature_names : sequence of str, optional
        Names of the columns of `X`; by default its own, or those that the model was fitted with.
    target_name : str, optional
        What is predicted.
    train : (X, y), optional
        The rows that the model was trained on; a linear and a naive prediction fitted on them are compared
        with it. Without them the naive prediction is made from the rows it is judged on; the page says so.
    baselines : tggm.tables.baselines.Baselines, optional
        The same two, already fitted, as a model file of ``tggm fit`` keeps them.
    shown : mapping of str to sequence, optional
        Columns by which a person knows the rows, for the table of the worst ones: the eight that matter most.
    groups : mapping of str to mapping of str to int, optional
        Columns of zeros and ones that belong to one category: by its name, the column of each level.
    row_numbers : sequence of int, optional
        What the rows are called there; they count from 1 by default.
    title : str, optional
        Heading of the page.
    level : float, optional
        Probability of the intervals, 0.9 by default.
    output : int, optional
        Which output of a regression with several.
    """
    page = render_report(
        model, X, y,
        feature_names=feature_names, target_name=target_name, train=train, baselines=baselines, shown=shown,
        groups=groups, row_numbers=row_numbers, title=title, level=level, output=output,
    )  # fmt: skip
    write_atomically(Path(path), page.encode())


def effects_section(case: Case, order: list[tuple[Feature, float]], level: float) -> tuple[str, str, str]:
    """Partial dependence of the features that matter most, and a list of the others."""
    title = "What moves the prediction"
    drawn = effects(case, [feature for feature, _ in order[:EFFECTS]], level)
    if not drawn:
        return (
            "effects",
            title,
            html.section("effects", title, html.paragraph("No feature varies in these rows.")),
        )
    unit = "probability" if case.classifies else case.target
    band = f", the band the average {100 * level:.3g} % interval of {case.target}"
    if case.classifies:
        band = ", the band the middle half of them" if len(case.model.classes_) == 2 else ""
    text = (
        "One feature at a time is set to other values, in some of these rows, all else left as it is; the "
        f"line is the average prediction{band}. Ticks show where the rows are. What is shown is how the "
        "model answers, not what would happen if somebody changed the feature."
    )
    figures = [
        html.figure(_picture(case, k, effect), _caption(case, effect)) for k, effect in enumerate(drawn)
    ]
    rows = [[feature.name, html.number(size, 3)] for feature, size in order[:LISTED]]
    table = html.table(
        "Range of the average prediction along each feature", ["feature", f"range of {unit}"], rows
    )
    return "effects", title, html.section(
        "effects", title, html.paragraph(text), html.side_by_side(*figures), table
    )  # fmt: skip


def _picture(case: Case, k: int, effect: Effect) -> str:
    moved = np.ptp(effect.mean, axis=0).argmax()
    what = f"the probability of {case.model.classes_[moved]}" if case.classifies else case.target
    alt = f"Effect of {effect.feature.name} from {_ends(effect)}: {what} {_range(effect, moved)} on average."
    return picture(lambda ax: plot_effect(case, effect, ax), name=f"effect{k + 1}", alt=alt, size=(4.7, 3.2))


def _caption(case: Case, effect: Effect) -> str:
    name = effect.feature.name
    if not case.classifies:
        return f"{name}: {case.target} {_range(effect, 0)}"
    if len(case.model.classes_) == 2:
        return f"{name}: probability of {case.model.classes_[1]}"
    return f"{name}: probability of the classes"


def _range(effect: Effect, output: Any) -> str:
    """The lowest and the highest average prediction, and where along the feature they are."""
    mean = effect.mean[:, output]
    labels = effect.at.labels or tuple(_value(v) for v in effect.at.place)
    low, high = mean.argmin(), mean.argmax()
    ends = [f"{html.number(mean[k], 3).text} at {labels[k]}" for k in (low, high)]
    return f"between {ends[0]} and {ends[1]}"


def _ends(effect: Effect) -> str:
    """The first and the last value of a feature, in words."""
    labels = effect.at.labels or tuple(_value(v) for v in effect.at.place)
    return f"{labels[0]} to {labels[-1]}"


def _value(value: float) -> str:
    """A value of a feature; years are written without a comma."""
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e4 else html.number(value, 3).text
