"""`Fitted`: all that predictions need, and the first step of a fit, `initialise`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.data.standardise import Scales
from tggm.estimators._data import Data, StreamData
from tggm.estimators._ridge import start_at_ridge
from tggm.estimators._settings import Settings
from tggm.estimators._targets import UNNAMED
from tggm.models import Gaussian, Model, Network
from tggm.predictive.calibration import Calibration
from tggm.predictive.transforms import LogTransform
from tggm.tables.transformer import Columns
from tggm.training.rows import Blocks, training_rows


@dataclass(frozen=True)
class Fitted:
    """A trained ensemble with its encoder, standardisation and pooling rule."""

    model: Model  # a leading axis of members, on the scale of the standardised data
    network: Network
    columns: Columns
    scales: Scales
    target: str = UNNAMED
    flat: bool = True  # whether the target is a vector
    classes: NDArray[Any] | None = None
    calibration: tuple[Calibration, ...] = ()  # of each output; empty: the plain mixture of members
    transform: LogTransform | None = None  # of the target, before it is standardised
    guarantee: Floats | None = None  # (n, M) sorted scores of calibration rows, see `predictive.conformal`

    @property
    def dtype(self) -> str:
        """Return the dtype of the parameters."""
        return str(self.model.arrays()["hidden.W0"].dtype)


def initialise(settings: Settings, data: Data | StreamData, rng: np.random.Generator) -> tuple[Model, Blocks]:
    """Draw the members and assign rows to them; linear parts start at ridge regression."""
    n_inputs = data.X.shape[1]
    network = settings.network_for(n_inputs, data.n_outputs, data.sparse)
    model = draw(settings, network, n_inputs, data, rng)
    blocks = data.blocks(settings, network.features.most, rng, settings.held_fraction)
    block = blocks.only
    numeric = isinstance(data, Data) and data.classes is None and data.y.complete
    if block is None or not (network.linear and numeric and isinstance(model.likelihood, Gaussian)):
        return model, blocks
    Y, weight = np.asarray(block.data.y, np.float64), np.asarray(block.weight, np.float64)
    X = np.asarray(model.features.inputs(block.data.X), np.float64)
    # a low noise could make the first steps too large if the user chose their size
    noise = settings.automatic and isinstance(settings.optimizer, str)
    return start_at_ridge(model, training_rows(block.members), X, Y, weight, noise), blocks


def draw(
    settings: Settings, network: Network, n_inputs: int, data: Data | StreamData, rng: np.random.Generator
) -> Model:
    """Draw the members of an ensemble."""
    init = "small" if data.sparse else (network.likelihood or settings.task.likelihood).init
    return network.draw(
        rng, n_inputs, data.n_outputs,
        members=settings.n_members, dtype=settings.dtype, s0=settings.task.s0, init=init,
    )  # fmt: skip
