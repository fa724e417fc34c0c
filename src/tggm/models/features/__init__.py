"""ψ(x): what the first layer sees of the inputs."""

from tggm.models.features.base import Features as Features
from tggm.models.features.columns import Bounded as Bounded
from tggm.models.features.columns import Identity as Identity
from tggm.models.features.periodic import Periodic as Periodic

FEATURES: dict[str | None, type[Features]] = {None: Identity, "bounded": Bounded, "periodic": Periodic}
