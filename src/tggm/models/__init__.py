"""Models: features → hidden → likelihood."""

from tggm.models.layers import Bounded, Directed, Features, Hidden, Identity, Latent, Periodic, Shallow, part
from tggm.models.limited_units import LearnedLimits, SigmoidLayers, TanhLayers
from tggm.models.network import Gaussian, Incomplete, Likelihood, Model, Network, Output, Probit

__all__ = [
    "Bounded", "Directed", "Features", "Gaussian", "Hidden", "Identity", "Incomplete", "Latent",
    "LearnedLimits", "Likelihood", "Model", "Network", "Output", "Periodic", "Probit", "Shallow",
    "SigmoidLayers", "TanhLayers", "part",
]  # fmt: skip
