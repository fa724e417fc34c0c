"""Engines that turn a `TruncatedGaussian` into `Moments`. Which one when: docs/choosing-an-engine.md."""

from tggm.inference.ep import ep as ep
from tggm.inference.exact import exact as exact
from tggm.inference.gibbs import gibbs as gibbs
from tggm.inference.hmc import hmc as hmc
from tggm.inference.log_partition import log_partition as log_partition
from tggm.inference.mean_field import mean_field as mean_field
from tggm.inference.orthant import orthant as orthant

__all__ = ["ep", "exact", "gibbs", "hmc", "log_partition", "mean_field", "orthant"]
