"""Predict the classes of held-out rows by the members that held them out."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from tggm.arrays import Floats, Ints
from tggm.estimators.class_prediction import mixture_of
from tggm.models import Model
from tggm.training.rows import RowBlock
from tggm.training.state import Membership

MOST_ROWS = 5_000
_BLOCK = 1024  # rows at once


class HeldClasses:
    """Rows that groups of members held out, some thousand of them, and what the members say of them."""

    def __init__(self, block: RowBlock, engine: Any) -> None:
        self.groups = held_groups(block.members)
        most = -(-MOST_ROWS // max(len(self.groups), 1))
        self._rows = [held[:most] for _, held in self.groups]
        self._X, self._engine = block.data.X, engine
        rows = np.concatenate([np.zeros(0, np.int32), *self._rows])
        self.label = np.asarray(block.data.y)[rows]
        self.weight = np.asarray(block.weight, np.float64)[rows]

    def log_probabilities(self, models: Sequence[Model]) -> Floats:
        """Those of the mixture of each group's members, (rows, n), in a model of its own for each group."""
        found = []
        for model, (members, _), held in zip(models, self.groups, self._rows, strict=True):
            for rows in _parts(held):
                inputs = jax.tree.map(lambda a, rows=rows: np.asarray(a)[rows], self._X)
                found.append(mixture_of(model, inputs, members, self._engine).astype(np.float64))
        log_p = np.concatenate(found)
        log_p -= np.logaddexp.reduce(log_p, axis=1)[:, None]
        return log_p


def held_groups(members: Membership) -> list[tuple[list[int], Ints]]:
    """Members that held out the same rows, and these rows."""
    found: dict[bytes, tuple[list[int], Ints]] = {}
    for k, (held, count) in enumerate(zip(members.held, members.n_held, strict=True)):
        rows = np.asarray(held)[: int(count)]
        if len(rows):
            found.setdefault(np.sort(rows).tobytes(), ([], rows))[0].append(k)
    return list(found.values())


def _parts(rows: Ints) -> list[Ints]:
    return [rows[at : at + _BLOCK] for at in range(0, len(rows), _BLOCK)]
