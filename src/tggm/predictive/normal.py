"""Normal distributions of several outputs, whose covariances rounding may have made singular."""

import numpy as np
from scipy.linalg import solve_triangular

from tggm.arrays import Floats

_LOG_2PI = float(np.log(2 * np.pi))
_SHRINKAGE = (1e-12, 1e-9, 1e-6, 1e-3, 1.0)  # of correlations, the last to none
_FARTHEST = 1e120  # errors whose squares are numbers
_LEAST = 1e-150  # deviation whose square is a number


def factors(covariance: Floats) -> Floats:
    """Lower Cholesky factors, (..., n, n); where there are none, correlations are shrunk a little."""
    try:
        found: Floats = np.linalg.cholesky(covariance).astype(np.float64, copy=False)
        if np.isfinite(found).all():
            return found
    except np.linalg.LinAlgError:
        pass
    deviation = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1)).clip(_LEAST)
    correlation = covariance / deviation[..., None, :] / deviation[..., :, None]
    unit = np.eye(covariance.shape[-1])
    for part in _SHRINKAGE:
        try:
            return deviation[..., :, None] * np.linalg.cholesky((1 - part) * correlation + part * unit)
        except np.linalg.LinAlgError:
            continue
    raise ValueError("the covariance of the outputs is not finite")


def log_densities(errors: Floats, roots: Floats) -> Floats:
    """Log N(error | 0, root rootᵀ), finite; errors (..., n) and roots (..., n, n)."""
    white = solve_triangular(roots, np.clip(errors, -_FARTHEST, _FARTHEST)[..., None], lower=True)[..., 0]
    log_det = np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(-1)
    found: Floats = -0.5 * ((white**2).sum(-1) + errors.shape[-1] * _LOG_2PI) - log_det
    return found
