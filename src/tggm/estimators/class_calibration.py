"""How sharp the probabilities of an ensemble should be, by the rows that its members held out.

Members that held out the same rows are mixed, and the mixture is judged on them. All members together are a
little softer than two or three are; that is left as it is.
"""

from typing import Any

import jax
import numpy as np

from tggm.arrays import Floats, Ints
from tggm.estimators.class_prediction import mixture_of
from tggm.estimators.fitted import Fitted
from tggm.predictive.calibration import Calibration
from tggm.predictive.temperature import KIND, fitted_temperature
from tggm.training.rows import RowBlock
from tggm.training.state import Membership

MOST_ROWS = 5_000  # temperatures are then good to a hundredth
_BLOCK = 1024  # rows at once


def temperature(log_p: Floats, label: Ints, weight: Floats) -> tuple[Calibration, ...]:
    """What a model keeps of rows that members have not seen; nothing if probabilities stay as they are."""
    numbers = fitted_temperature(log_p, label, weight)
    return (Calibration(KIND, numbers),) if numbers else ()


def held_out_temperature(fitted: Fitted, block: RowBlock, engine: Any) -> tuple[Calibration, ...]:
    """The same, of the rows that each group of members held out."""
    groups = _groups(block.members)
    most = -(-MOST_ROWS // len(groups))
    log_p, label, weight = [], [], []
    for members, held in groups:
        for rows in _parts(held[:most]):
            inputs = jax.tree.map(lambda a, rows=rows: np.asarray(a)[rows], block.data.X)
            log_p.append(mixture_of(fitted.model, inputs, members, engine))
            label.append(np.asarray(block.data.y)[rows])
            weight.append(np.asarray(block.weight, np.float64)[rows])
    if not log_p:
        return ()
    found = np.concatenate(log_p).astype(np.float64)
    found -= np.logaddexp.reduce(found, axis=1)[:, None]
    return temperature(found, np.concatenate(label), np.concatenate(weight))


def _groups(members: Membership) -> list[tuple[list[int], Ints]]:
    """Members that held out the same rows, and these rows."""
    found: dict[bytes, tuple[list[int], Ints]] = {}
    for k, (held, count) in enumerate(zip(members.held, members.n_held, strict=True)):
        rows = np.asarray(held)[: int(count)]
        found.setdefault(np.sort(rows).tobytes(), ([], rows))[0].append(k)
    return list(found.values())


def _parts(rows: Ints) -> list[Ints]:
    return [rows[at : at + _BLOCK] for at in range(0, len(rows), _BLOCK)]
