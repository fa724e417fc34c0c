"""Rows set aside before a fit, which guarantee its intervals afterwards.

They train no member and choose neither scales nor the transform, neither the epoch nor the pool, and columns
of a table learn nothing from them: given all other rows they are as exchangeable with new ones as they were
before. Rows that members hold out would not do: each chooses the epoch of the member that predicts it, and
all choose the pool.
"""

from typing import Any

import numpy as np

from tggm.arrays import Bools, Floats
from tggm.data.standardise import require_moderate
from tggm.estimators.fitted import Fitted
from tggm.estimators.sources import MemorySource
from tggm.estimators.targets import Targets
from tggm.predictive.conformal import (
    MOST_ROWS,
    SHARE,
    centre_and_width,
    fewest_rows,
    quantile,
    scores_of,
    sorted_scores,
)
from tggm.predictive.moments import member_moments

_MOST = float(np.finfo(np.float64).max)  # instead of what is beyond all floats
_ROUNDING = 1e-6  # of single precision: a target that repeats should not fall out by it


def rows_aside(targets: Targets, kept: Bools, level: float, rng: np.random.Generator) -> Bools:
    """Some of the rows that are kept, drawn at random to be set aside.

    Limits and missing targets tell no error, so only rows whose targets were all measured are set aside.
    """
    whole = np.flatnonzero(kept & targets.measured_rows)
    count, fewest = len(whole), fewest_rows(level)
    if 2 * fewest > count:
        raise ValueError(
            f"`guarantee` is {level:g}, for which {fewest} rows are set aside; at least {2 * fewest} rows "
            f"with measured targets are needed, and there are {count}. Ask for a smaller level, or pass None."
        )
    aside = np.zeros(len(kept), np.bool_)
    size = min(max(fewest, round(SHARE * count)), MOST_ROWS)
    aside[whole[rng.permutation(count)[:size]]] = True
    return aside


def scores_aside(fitted: Fitted, aside: MemorySource, engine: Any, dtype: Any) -> Floats:
    """Sorted scores of rows that were set aside; limits are no targets."""
    Y = aside.y.Y if aside.y.side is None else np.where(aside.y.side == 0, aside.y.Y, np.nan)
    X = fitted.scales.x.apply(aside.X, most=fitted.model.features.most)
    require_moderate(X, "`X`", "leave out rows so far from the others")
    return scores_of_rows(fitted, X, in_units_of_the_model(fitted, Y), engine, dtype)


def in_units_of_the_model(fitted: Fitted, Y: Floats) -> Floats:
    """Targets transformed and standardised."""
    z = Y if fitted.transform is None else fitted.transform.forward(Y)
    return fitted.scales.y.apply(z)


def scores_of_rows(fitted: Fitted, X: Floats, Z: Floats, engine: Any, dtype: Any) -> Floats:
    """Sorted scores of rows that no member has seen, inputs and targets in units of the model."""
    mean, var = member_moments(fitted.model, X, engine, dtype)
    found = [scores_of(mean[:, :, j], var[:, :, j], Z[:, j]) for j in range(Z.shape[1])]
    return sorted_scores(np.stack(found))


def guaranteed(fitted: Fitted, X: Floats, level: float, engine: Any, dtype: Any) -> tuple[Floats, Floats]:
    """Ends of the intervals, (N, n) each, in units of the targets; inputs are in those of the model."""
    if fitted.guarantee is None:
        raise ValueError(
            "`guarantee` is True, but no rows were set aside for it: fit with "
            f"TGGMRegressor(guarantee={level:g}), or call `recalibrate` with rows that the model was not "
            "trained on."
        )
    mean, var = member_moments(fitted.model, X, engine, dtype)
    y, ends = fitted.scales.y, []
    for j, scores in enumerate(fitted.guarantee):
        q = quantile(scores, level) * (1 + _ROUNDING)
        centre, width = centre_and_width(mean[:, :, j], var[:, :, j])
        with np.errstate(over="ignore"):
            both = y.shift[j] + y.scale[j] * np.stack([centre - q * width, centre + q * width])
        both = np.clip(both, -_MOST, _MOST)
        ends.append(both if fitted.transform is None else fitted.transform.inverse(both))
    lower, upper = np.stack(ends, axis=2)
    return lower, upper
