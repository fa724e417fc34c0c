"""The rows that surprised the model most, with what helps a person to recognise them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tggm.arrays import Floats
from tggm.report import html
from tggm.report.case import Case, Feature, dense

WORST = 10
MOST_SHOWN = 8  # columns of the user's table


def worst_section(
    case: Case,
    log_score: Floats,
    features: list[Feature],
    head: list[str],
    cells: Callable[[int], list[Any]],
    *,
    text: str,
    caption: str,
) -> html.Section:
    """A table of the rows of lowest score; `cells` gives those of a row under `head`."""
    worst = np.argsort(log_score, kind="stable")[:WORST]
    extra_head, extra = _shown_columns(case, worst, features)
    rows = [
        [html.Cell(str(case.number[i]), float(case.number[i])), *cells(i), *extra[k]]
        for k, i in enumerate(worst)
    ]
    table = html.table(f"The {len(worst)} rows of {caption}", ["row", *head, *extra_head], rows)
    return html.section("worst", "The worst rows", html.paragraph(text), table)


def _shown_columns(case: Case, rows: Any, features: list[Feature]) -> tuple[list[str], list[list[Any]]]:
    """Columns that help to recognise a row: of the user's table, or the features that matter most."""
    if case.shown:
        names = _most_telling(case, features)
        return names, [[case.shown[name][int(case.row[i])] for name in names] for i in rows]
    picked = [feature.columns[0] for feature in features if not feature.levels][:5]
    table = dense(case.X[rows])
    return [case.names[j] for j in picked], [[html.number(line[j]) for j in picked] for line in table]


def _most_telling(case: Case, features: list[Feature]) -> list[str]:
    """Columns of the user's table whose features matter most; a feature's name begins with its column's."""
    ordered = [feature.name for feature in features]
    rank = {
        name: min((k for k, feature in enumerate(ordered) if feature.startswith(name)), default=len(ordered))
        for name in case.shown
    }
    return sorted(case.shown, key=lambda name: rank[name])[:MOST_SHOWN]
