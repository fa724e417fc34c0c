"""What training starts from."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tggm.estimators.fitted import Scales
from tggm.estimators.recipe import Recipe
from tggm.estimators.sources import MemorySource, Source
from tggm.models import Model

if TYPE_CHECKING:
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
    aside: MemorySource | None = None  # rows that intervals are guaranteed by
