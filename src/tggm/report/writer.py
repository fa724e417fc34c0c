"""Write a report about a model and labelled rows."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

import tggm
from tggm.predictive.base import require_level
from tggm.report import _sections as sections
from tggm.report._case import RegressionCase, examine
from tggm.report._effects import rank_features
from tggm.report._page import render
from tggm.storage import write_atomically
from tggm.tables.baselines import Baselines

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def render_report(
    model: "BaseEstimator",
    X: Any,
    y: ArrayLike,
    *,
    title: str | None = None,
    level: float = 0.9,
    provenance: Sequence[tuple[str, str]] = (),
    progress: Callable[[str], None] | None = None,
    **names: Any,
) -> str:
    """Return the report as one HTML page; arguments as in `write_report`; `progress` gets messages."""
    require_level(level)
    report = progress or (lambda _: None)
    case = examine(model, X, y, **names)
    context: dict[str, Any] = {"kind": case.kind, "target": case.target, "unit": case.unit}
    report("scoring rows")
    context["quality"] = sections.quality(case)
    report("computing effects and importances")
    order = rank_features(case)
    features = [feature for feature, _ in order]
    context["importance"] = sections.importance(case, order)
    report("drawing")
    if isinstance(case, RegressionCase):
        context |= {
            "calibration": sections.interval_calibration(case),
            "predicted": sections.predicted(case, level),
            "width": sections.width(case),
        }
    else:
        context |= {
            "calibration": sections.class_calibration(case),
            "confusion": sections.confusion(case),
            "classes": len(case.labels),
        }
    return render(
        **context,
        title=title or f"Predicting {case.target}",
        model_class=type(model).__name__,
        rows=len(case.y),
        given_rows=case.given_rows,
        features=len(case.names),
        level=f"{100 * level:.3g}",
        model=sections.model(case),
        worst=sections.worst_rows(case, features, level),
        effects=sections.effect_plots(case, order, level),
        learning=sections.learning(case),
        provenance=list(provenance),
        version=tggm.__version__,
    )


def write_report(
    model: "BaseEstimator",
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
    parts: Mapping[str, Sequence[int]] | None = None,
    row_numbers: Sequence[int] | None = None,
    title: str | None = None,
    level: float = 0.9,
    provenance: Sequence[tuple[str, str]] = (),
    output: int = 0,
) -> None:
    """Write a page about a fitted model: its quality, its calibration and the effects of its features.

    Parameters
    ----------
    model : TGGMRegressor or TGGMClassifier
        Fitted.
    X : array_like, data frame or sparse matrix, shape (rows, features)
        Rows that the model was not trained on.
    y : array_like, shape (rows,)
        Their targets: numbers, or labels among `model.classes_`.
    path : path
        Usually ending in ``.html``. An existing file is replaced, atomically.
    feature_names : sequence of str, optional
        Names of the columns of `X`; by default its own, or those that the model was fitted with.
    target_name : str, optional
        Name of the target.
    train : (X, y), optional
        Rows that the model was trained on, to fit a linear and a naive prediction for comparison. Without
        them the naive prediction is fitted to the evaluated rows.
    baselines : tggm.tables.baselines.Baselines, optional
        The two predictions, already fitted, as in a model file of ``tggm fit``.
    shown : mapping of str to sequence, optional
        Columns that identify rows in the table of the worst ones; at most eight are used. An entry may be a
        tuple of its text and the number it is sorted by.
    groups : mapping of str to mapping of str to int, optional
        Columns of zeros and ones that encode one category: by its name, the column of each level.
    parts : mapping of str to sequence of int, optional
        Other columns that encode one column of a table, by its name; the first one is drawn.
    row_numbers : sequence of int, optional
        Names of the rows; by default they count from 1.
    title : str, optional
        Heading of the page.
    level : float, optional
        Probability of the intervals.
    provenance : sequence of (str, str), optional
        Names and values for a last section about the origin of model and rows.
    output : int, optional
        Which output of a regression with several.
    """
    page = render_report(
        model, X, y,
        feature_names=feature_names, target_name=target_name, train=train, baselines=baselines, shown=shown,
        groups=groups, parts=parts, row_numbers=row_numbers, title=title, level=level,
        provenance=provenance, output=output,
    )  # fmt: skip
    write_atomically(Path(path), page.encode())
