"""What the members of a fit say of the rows that they held out."""

from typing import Any

import numpy as np

from tggm.arrays import Bools
from tggm.models import Model
from tggm.models.likelihoods import measured
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


def held_out(model: Model, block: RowBlock, rows: Any, count: int, engine: Any, dtype: Any) -> list[HeldOut]:
    """Moments of each output at these rows under every member, and who held them out."""
    X, Y = np.asarray(block.data.X)[rows], measured(block.data.y)[rows]
    mean, var = member_moments(model, X, engine, dtype)
    there, weight = which(block.members, count)[:, rows], np.asarray(block.weight, np.float64)[rows]
    known = np.isfinite(Y)
    return [
        HeldOut(mean[:, :, j], var[:, :, j], there, np.where(known[:, j], Y[:, j], 0.0), weight * known[:, j])
        for j in range(Y.shape[1])
    ]
