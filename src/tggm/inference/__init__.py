"""Engines compute the `Moments` of a `TruncatedGaussian`. See docs/choosing-an-engine.md.

Besides the engines: log Z as a differentiable function, moments of linear combinations, rows with a known
class, and the density of a sum of truncated normals.
"""

from tggm.inference._classes import class_mean_field as class_mean_field
from tggm.inference._common import full_limits as full_limits
from tggm.inference._common import rounding_error as rounding_error
from tggm.inference._common import student_bound as student_bound
from tggm.inference._common import weight_bound as weight_bound
from tggm.inference._ep import ep as ep
from tggm.inference._exact import exact as exact
from tggm.inference._exact import pair_covariance as pair_covariance
from tggm.inference._fourier import Sum as Sum
from tggm.inference._fourier import log_density as log_density
from tggm.inference._linear import linear_mean as linear_mean
from tggm.inference._linear import linear_moments as linear_moments
from tggm.inference._log_partition import Estimate as Estimate
from tggm.inference._log_partition import estimate_log_z as estimate_log_z
from tggm.inference._log_partition import estimate_moments as estimate_moments
from tggm.inference._log_partition import log_partition as log_partition
from tggm.inference._mean_field import cyclic_moments as cyclic_moments
from tggm.inference._mean_field import mean_field as mean_field
from tggm.inference._orthant import Points as Points
from tggm.inference._orthant import candidates as candidates
from tggm.inference._orthant import generator as generator
from tggm.inference._orthant import log_probabilities as log_probabilities
from tggm.inference._orthant import next_prime as next_prime
from tggm.inference._orthant import orthant as orthant
from tggm.inference._orthant import weighted_points as weighted_points
from tggm.inference._sampling import gibbs as gibbs
from tggm.inference._sampling import hmc as hmc

__all__ = ["ep", "exact", "gibbs", "hmc", "log_partition", "mean_field", "orthant"]
