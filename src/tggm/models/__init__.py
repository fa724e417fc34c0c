"""Models: features → hidden → likelihood."""

from tggm.models.layers import (
    Bounded,
    Directed,
    Features,
    Gaussian,
    Hidden,
    Identity,
    Incomplete,
    Latent,
    Likelihood,
    Output,
    Periodic,
    Probit,
    Shallow,
    part,
)
from tggm.models.network import Model, Network

__all__ = [
    "Bounded", "Directed", "Features", "Gaussian", "Hidden", "Identity", "Incomplete", "Latent",
    "Likelihood", "Model", "Network", "Output", "Periodic", "Probit", "Shallow", "part",
]  # fmt: skip
