"""Engines that turn a `TruncatedGaussian` into `Moments`. Which one when: docs/choosing-an-engine.md."""

from tggm.inference.ep.engine import ep as ep
from tggm.inference.exact.engine import exact as exact
from tggm.inference.log_partition import log_partition as log_partition
from tggm.inference.mean_field.engine import mean_field as mean_field
from tggm.inference.orthant.engine import orthant as orthant
from tggm.inference.sampling.gibbs import gibbs as gibbs
from tggm.inference.sampling.hmc import hmc as hmc

__all__ = ["ep", "exact", "gibbs", "hmc", "log_partition", "mean_field", "orthant"]
