"""ψ(x): what the first layer sees of the inputs."""

from tggm.models.features.base import Features as Features
from tggm.models.features.identity import Identity as Identity

FEATURES: dict[str | None, type[Features]] = {None: Identity}
