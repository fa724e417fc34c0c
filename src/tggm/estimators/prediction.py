"""What a fitted regressor says about new rows."""

from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from tggm.estimators.base import BaseTGGM
from tggm.estimators.columns import Floats
from tggm.learning.rows import bucket
from tggm.models import Shallow, output_moments

BLOCK = 8192  # rows predicted at once


class Prediction(BaseTGGM):
    """Means, deviations, intervals and whole distributions of y given x."""

    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Mean of y given x, and its standard deviation if asked for.

        Returns
        -------
        mean : ndarray, shape (n_rows,) or (n_rows, n_outputs)
            As `y` was given to `fit`.
        std : ndarray of the same shape
            Only with ``return_std=True``.
        """
        mean, var = self._moments(self._features(X))
        centre = self._shaped(mean.mean(0))
        if not return_std:
            return centre
        return centre, self._shaped(np.sqrt(var.mean(0) + mean.var(0)))

    def _features(self, X: ArrayLike) -> Floats:
        """Standardised inputs of new rows."""
        check_is_fitted(self, "W0_")
        features: Floats = self._x.apply(validate_data(self, X, reset=False, dtype=np.float64))
        return features

    def _moments(self, X: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each output under each member, (n_members, rows, n), in the target's units."""
        s0 = np.asarray(float(self.sigma0) ** 2, self.dtype)
        means, variances = [], []
        with self._precision(), jax.default_matmul_precision("highest"):
            for begin in range(0, len(X), BLOCK):
                block = X[begin : begin + BLOCK].astype(self.dtype)
                padded = np.pad(block, [(0, bucket(len(block)) - len(block)), (0, 0)])
                mean, var = _member_moments(self._params, padded, s0)
                means.append(np.asarray(mean)[:, : len(block)])
                variances.append(np.asarray(var)[:, : len(block)])
        scale = self._y.scale[None, None, :]
        mean64, var64 = (np.concatenate(a, axis=1).astype(np.float64) for a in (means, variances))
        return mean64 * scale + self._y.shift[None, None, :], var64 * scale**2

    def _shaped(self, values: NDArray[Any]) -> NDArray[Any]:
        """One column as a vector, if the target was one."""
        return values[:, 0] if self._flat else values


@jax.jit
def _member_moments(params: Shallow, X: Array, s0: Array) -> tuple[Array, Array]:
    """Mean and variance of each output for each member, shape (members, rows, n)."""

    def one(p: Shallow) -> tuple[Array, Array]:
        mean, cov = output_moments(p, X, s0)
        return mean, jax.numpy.diagonal(cov, axis1=1, axis2=2)

    moments: tuple[Array, Array] = jax.vmap(one)(params)
    return moments
