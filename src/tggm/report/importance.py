"""What the model relies on: how much worse it predicts these rows where a feature is shuffled among them."""

import numpy as np
from scipy import sparse

from tggm.explanation import Importances, permuted
from tggm.explanation.columns import ColumnMap
from tggm.plotting.explanation import plot_importances
from tggm.report import html
from tggm.report.case import Case, Feature, dense
from tggm.report.svg import picture

ROWS = 300
FEATURES = 30  # that are looked at, those with the largest effects
REPEATS = 3
LEAST_ROWS = 10
TITLE = "What it relies on"


def importances(case: Case, features: list[Feature]) -> Importances:
    """Rise of the loss by shuffling each of these features, all its columns together."""
    rows = case.some_rows(ROWS)
    X = dense(case.X[rows])
    used = sorted({j for feature in features for j in feature.columns})
    owner = {j: k for k, feature in enumerate(features) for j in feature.columns}
    names = tuple(feature.owner or feature.name for feature in features)
    columns = ColumnMap(names, np.arange(len(features)), np.array([owner[j] for j in used]))

    def loss(part: np.ndarray, place: np.ndarray) -> np.ndarray:
        whole = X[place]
        whole[:, used] = part
        return case.losses(whole, rows[place])

    return permuted(loss, X[:, used], columns, REPEATS, np.random.default_rng(0))


def importance_sections(case: Case, order: list[tuple[Feature, float]]) -> list[html.Section]:
    """A picture of the features that matter most; nothing for a few rows, or for sparse ones."""
    if len(case.y) < LEAST_ROWS or not order or sparse.issparse(case.X):
        return []
    found = importances(case, [feature for feature, _ in order[:FEATURES]])
    first = np.argsort(-found.mean, kind="stable")[:3]
    named = [found.names[k] for k in first if found.mean[k] > 2 * np.nan_to_num(found.error[k])]
    text = (
        f"Most of all on {', '.join(named)}."
        if named
        else "No feature by itself matters clearly on these rows."
    )
    size = (4.7, 0.9 + 0.28 * min(len(found.names), 12))
    drawing = picture(
        # aligned to the right, a long label goes on below the names
        lambda ax: plot_importances(found, ax=ax).set_xlabel(case.wording.loss, loc="right"),
        name="importance",
        alt=f"{case.wording.loss.capitalize()} when a feature is shuffled: "
        + ", ".join(f"{found.names[k]} {html.number(found.mean[k], 3).text}" for k in first)
        + ".",
        size=size,
    )
    caption = (
        "How much worse predictions of these rows become when the values of one feature are shuffled among "
        "them, with two standard errors. Features that say the same stand in for each other and look less "
        "important than they are together."
    )
    return [html.section("importance", TITLE, html.paragraph(text), html.figure(drawing, caption))]
