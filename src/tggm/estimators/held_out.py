"""What the members of a fit say of the rows that they held out."""

from typing import Any

import numpy as np

from tggm.arrays import Bools, Floats
from tggm.estimators.fitted import Fitted
from tggm.models import Model
from tggm.models.likelihoods import measured
from tggm.predictive.calibration import Calibration
from tggm.predictive.calibration import fitted as calibrated
from tggm.predictive.held_out import HeldOut
from tggm.predictive.moments import member_moments
from tggm.training.rows import RowBlock
from tggm.training.state import Membership

MOST_ROWS = 20_000  # that are asked about: more would tell no more


def some_rows(count: int) -> Any:
    """Numbers of so many rows, or of as many as matter, at random."""
    if count <= MOST_ROWS:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, MOST_ROWS, replace=False))


def which(members: Membership, count: int) -> Bools:
    """Whether each member held each of the rows out, (members, rows)."""
    there = np.zeros((len(members.n_held), count), np.bool_)
    for row, held, n in zip(there, members.held, members.n_held, strict=True):
        row[np.asarray(held)[: int(n)]] = True
    return there


def calibrations(fitted: Fitted, held: list[HeldOut]) -> tuple[Calibration, ...]:
    """How the members of a model are pooled for each output; those with exact densities keep their shape.

    The exponential of a Student-t has no mean, and powers may have none: these have tails that end. Under a
    logarithm tails are a Gaussian's, or rare large errors would decide on the mean.
    """
    transform = fitted.transform
    light = transform is not None and transform.exponential
    kinds: tuple[str, ...] = ("student",) if transform is None or light else ("scales",)
    if "sum" in fitted.model.hidden.offers or not fitted.model.hidden.by_moments:
        kinds = ("linear", "beta")
    return tuple(calibrated(each, kinds=kinds, light_tails=light) for each in held)


def unseen(fitted: Fitted, X: Floats, Y: Floats, engine: Any, dtype: Any) -> list[HeldOut]:
    """The same of new rows, which no member has seen; inputs and targets in units of the model."""
    mean, var = member_moments(fitted.model, X, engine, dtype)
    there = np.ones(mean.shape[:2], np.bool_)
    each = zip(np.moveaxis(mean, 2, 0), np.moveaxis(var, 2, 0), Y.T, strict=True)
    return [HeldOut(m, v, there, y, np.ones(len(y))) for m, v, y in each]


def held_out(model: Model, block: RowBlock, rows: Any, count: int, engine: Any, dtype: Any) -> list[HeldOut]:
    """Moments of each output at these rows under every member, and who held them out."""
    X, Y = np.asarray(block.data.X)[rows], measured(block.data.y)[rows]
    mean, var = member_moments(model, X, engine, dtype)
    there, weight = which(block.members, count)[:, rows], np.asarray(block.weight, np.float64)[rows]
    known = np.isfinite(Y)
    # each member's epoch was chosen by the rows that it held out
    optimism = 1 + 2 / max(float(np.mean(block.members.n_held)), 1.0)
    y = np.where(known, Y, 0.0)
    return [
        HeldOut(mean[:, :, j], var[:, :, j], there, y[:, j], weight * known[:, j], optimism)
        for j in range(Y.shape[1])
    ]
