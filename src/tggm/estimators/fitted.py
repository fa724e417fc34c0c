"""What a fit starts from, and what it leaves."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.data.standardise import Scales
from tggm.estimators.recipe import Recipe
from tggm.estimators.sources import Source
from tggm.models import Model

if TYPE_CHECKING:  # means need none of them
    from tggm.predictive.calibration import Calibration
    from tggm.predictive.transforms import Transform


class Start(NamedTuple):
    """Rows, how they are standardised, and the model of all members before the first step."""

    recipe: Recipe
    source: Source
    scales: Scales
    model: Model
    rng: np.random.Generator
    fresh: bool = True  # whether it was drawn, not fitted before
    transform: "Transform | None" = None  # of the targets of the source
    calibration: "tuple[Calibration, ...]" = ()  # of the model that training goes on with


class Fitted(NamedTuple):
    """A model with a leading axis of members, on the scale of the standardised data."""

    model: Model
    scales: Scales
    method: str  # that trained it
    calibration: "tuple[Calibration, ...]" = ()  # of each output; without, members are mixed as they are
    transform: "Transform | None" = None  # of the target, before it was standardised
    guarantee: Floats | None = None  # (n, M) sorted scores of rows set aside, see `predictive.conformal`

    def has_gauge(self, s0: float) -> bool:
        """Whether σ0² is this, up to the rounding of single precision; both may be tiny."""
        return np.allclose(self.model.arrays()["hidden.s0"], s0, rtol=1e-5, atol=0)

    def described(self) -> str:
        """What training that goes on must have, in words."""
        arrays = self.model.arrays()
        W0, sigma0 = arrays["hidden.W0"], float(np.sqrt(np.max(arrays["hidden.s0"])))
        return f"weights of shape {W0.shape}, {W0.dtype}, σ0 = {sigma0:g}"
