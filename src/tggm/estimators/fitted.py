"""What a fit leaves."""

from typing import NamedTuple

from tggm.models import Model
from tggm.streams.columns import Columns


class Scales(NamedTuple):
    """How inputs and targets are standardised; labels are not."""

    x: Columns
    y: Columns


class Fitted(NamedTuple):
    """A model with a leading axis of members, on the scale of the standardised data."""

    model: Model
    scales: Scales
    method: str  # that trained it
