"""From a model and labelled rows to a page, and to a file."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

import tggm
from tggm.predictive.base import require_level
from tggm.report import html
from tggm.report.comparison import compared, quality_section
from tggm.report.description import learning_sections, model_section
from tggm.report.effects import effects_section, ranked
from tggm.report.examination import examined
from tggm.report.importance import importance_sections
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
    told: Callable[[str], None] | None = None,
    **names: Any,
) -> str:
    """The report as one HTML page; see `write_report`. `told` is told what is being done."""
    require_level(level)
    tell = told or (lambda _: None)
    case = examined(model, X, y, **names)
    tell("judging the rows")
    quality = quality_section(case, compared(case))
    tell("looking for what matters")
    order = ranked(case)
    important = importance_sections(case, order)
    tell("drawing")
    sections = [
        quality,
        *important,
        model_section(case),
        *case.sections([feature for feature, _ in order], level),
        effects_section(case, order, level),
        *learning_sections(case),
        *([html.section("provenance", "Where it comes from", html.facts(provenance))] if provenance else ()),
    ]
    counted = f"{len(case.y)} rows" if len(case.y) == case.given_rows else (
        f"{len(case.y)} rows drawn at random from {case.given_rows}"
    )  # fmt: skip
    footer = f"Made by tggm {tggm.__version__}. This page is complete in itself: it loads and sends nothing."
    subtitle = f"A {type(model).__name__} judged on {counted}."
    return html.document(title or f"Predicting {case.target}", subtitle, sections, footer)


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
    parts : mapping of str to sequence of int, optional
        Other columns that belong together, as a number and where it is missing: by name, the first one drawn.
    row_numbers : sequence of int, optional
        What the rows are called there; they count from 1 by default.
    title : str, optional
        Heading of the page.
    level : float, optional
        Probability of the intervals, 0.9 by default.
    provenance : sequence of (str, str), optional
        What a reader should know of where model and rows come from: names and values, for a last section.
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
