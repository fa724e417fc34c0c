"""Make the sections of a report, and write the page."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

import tggm
from tggm.predictive.base import require_level
from tggm.report import _sections as sections
from tggm.report._case import examine
from tggm.report._page import render
from tggm.storage import write_atomically
from tggm.tables import TableWarning
from tggm.tables.baselines import Baselines


def render_report(
    model: BaseEstimator, X: Any, y: ArrayLike, *, target_name: str = "y",
    train: tuple[Any, ArrayLike] | None = None, baselines: Baselines | None = None,
    positive_class: Any = None, groups: ArrayLike | None = None, group_name: str = "group",
    title: str | None = None, level: float = 0.9, provenance: Sequence[tuple[str, str]] = (),
) -> str:  # fmt: skip
    """Return a page about a fitted model: its quality, its calibration and the effects of its columns.

    Parameters
    ----------
    model : TGGMRegressor or TGGMClassifier
        Fitted, with one output.
    X : array_like or data frame, shape (rows, columns)
        Rows that the model was not trained on. A frame may have other columns; they identify the worst rows.
    y : array_like, shape (rows,)
        Their targets: numbers, or labels among `model.classes_`.
    target_name : str, default "y"
        Name of the target.
    train : (X, y), optional
        Rows that the model was trained on, to fit a linear and a naive prediction for comparison.
    baselines : tggm.tables.baselines.Baselines, optional
        The two predictions, already fitted, as in a model file of ``tggm fit``.
    positive_class : label, optional
        The one of two classes whose average precision and effects are shown; by default the rarer one.
    groups : array_like, shape (rows,), optional
        A group for each row, such as its store, for a table of coverage by group.
    group_name : str, default "group"
        What the groups are.
    title : str, optional
        Heading of the page.
    level : float, default 0.9
        Probability of the intervals.
    provenance : sequence of (str, str), optional
        Names and values for a last section about the origin of model and rows.
    """
    require_level(level)
    case = examine(model, X, y, target_name, train, baselines, positive_class, groups)
    with warnings.catch_warnings(action="ignore", category=TableWarning):  # the page has its own warnings
        features, importance = sections.importance(case)
        if case.is_class:
            context = {
                "calibration": sections.class_calibration(case), "confusion": sections.confusion(case),
                "classes": len(case.labels),
            }  # fmt: skip
        else:
            context = {"calibration": sections.interval_calibration(case)}
            context |= {"predicted": sections.predicted(case, level)}
        return render(
            **context, regression=not case.is_class, target=case.target, quality=sections.quality(case),
            importance=importance, title=title or f"Predicting {case.target}", rows=len(case.y),
            model_class=type(model).__name__, given_rows=case.given_rows, features=len(case.features),
            level=f"{100 * level:.3g}", support=next(iter(getattr(case.model.fitted_, "supports", ())), None),
            groups=sections.group_tables(case, group_name), positive=case.positive_name,
            worst=sections.worst_rows(case, features, level), provenance=list(provenance),
            effects=sections.effect_plots(case, features, level), version=tggm.__version__,
        )  # fmt: skip


def write_report(
    model: BaseEstimator, X: Any, y: ArrayLike, path: str | os.PathLike[str], **options: Any
) -> None:
    """Write the page that `render_report` returns; an existing file is replaced, atomically."""
    write_atomically(Path(path), render_report(model, X, y, **options).encode())
