"""What a fitted regressor says about new rows."""

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from tggm.estimators import settings
from tggm.estimators.base import BaseTGGM
from tggm.estimators.columns import Floats, require_moderate
from tggm.inference.blas_lock import blas_lock
from tggm.models import Shallow, output_moments
from tggm.models.lateral import Lateral
from tggm.training import METHODS, Context, Rows
from tggm.training.rows import bucket

if TYPE_CHECKING:  # a fit and a mean do not need them: they are imported when asked for
    from tggm.predictive import MultivariatePredictive, Predictive

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

    def predict_dist(self, X: ArrayLike) -> "Predictive | MultivariatePredictive":
        """The predictive distribution of each row: exact, the mixture of the members' densities.

        Returns
        -------
        Predictive
            For one output: mean, var, std, pdf, logpdf, cdf, ppf, interval, rvs and crps.
        MultivariatePredictive
            For several: mean, cov, rvs, joint logpdf, and the marginal of each output.
        """
        from tggm.predictive import MultivariatePredictive

        Z = self._features(X)
        if self.b1_.shape[1] == 1:
            return self._marginal(Z, 0)
        if self.between_:
            return self._deep(Z, None)
        W1, b1, s1 = self._outputs()
        s0 = self._s0
        joint = partial(self._joint_log_density, Z)
        y = self._y
        return MultivariatePredictive(
            self._locations(Z), W1, b1, s0, s1, log_density=joint, loc=y.shift, scale=y.scale
        )

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> tuple[Floats, Floats]:
        """Lower and upper end of the central interval that holds y with probability `level`.

        Shaped like `predict`; for several outputs, the interval of each by itself.
        """
        ends = [dist.interval(level) for dist in self._marginals(X)]
        lower, upper = (np.stack(end, axis=1) for end in zip(*ends, strict=True))
        return self._shaped(lower), self._shaped(upper)

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Floats:
        """Quantiles of y given x, shape (n_rows, n_quantiles) or (n_rows, n_outputs, n_quantiles)."""
        q = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        if q.ndim != 1:
            raise ValueError(f"`quantiles` must be a list of probabilities; got shape {q.shape}.")
        return self._shaped(np.stack([dist.ppf(q[None, :]) for dist in self._marginals(X)], axis=1))

    def score_samples(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Log-density of each row's target, in the target's units, shape (n_rows,)."""
        dist = self.predict_dist(X)
        Y = np.asarray(y, dtype=np.float64)
        log_density: Floats = dist.logpdf(Y.reshape(len(Y)) if self.b1_.shape[1] == 1 else Y)
        return log_density

    def sample(self, X: ArrayLike, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draws of y given x, shape (n_samples, n_rows) or (n_samples, n_rows, n_outputs)."""
        size = settings.count("n_samples", n_samples)
        draws: Floats = self.predict_dist(X).rvs(size, random_state=random_state)
        return draws if self._flat or draws.ndim == 3 else draws[:, :, None]

    def _outputs(self) -> tuple[Floats, Floats, Floats]:
        """W1, b1 and s1 of each member, on the scale of the model."""
        _, _, W1, b1, log_noise = (np.asarray(a, np.float64) for a in self._params[:5])
        return W1, b1, np.exp(log_noise)

    def _locations(self, Z: Floats) -> Floats:
        """W0 x + b0 for each member and row, (n_members, rows, m), in double precision."""
        W0, b0 = (np.asarray(a, np.float64) for a in self._params[:2])
        located: Floats = Z[None] @ W0.transpose(0, 2, 1) + b0[:, None, :]
        return located

    def _joint_log_density(self, Z: Floats, Y: Floats) -> Floats:
        """Joint log-density of the outputs under each member, (n_members, rows), by EP; standard units."""
        extra = bucket(len(Z)) - len(Z)
        with jax.enable_x64(True), blas_lock():
            params = jax.tree.map(lambda a: np.asarray(a, np.float64), self._params)
            X, T = (np.pad(a, [(0, extra), (0, 0)]) for a in (Z, Y))
            return np.asarray(_member_log_density(params, X, T, self._s0))[:, : len(Z)]

    def _marginal(self, Z: Floats, j: int) -> "Predictive":
        """Exact distribution of output j."""
        if isinstance(self._params, Lateral):
            return self._lateral(Z)
        if self.between_:
            return self._deep(Z, j)
        from tggm.predictive import Predictive

        W1, b1, s1 = self._outputs()
        loc, scale = float(self._y.shift[j]), float(self._y.scale[j])
        s0 = self._s0
        return Predictive(self._locations(Z), W1[:, j], b1[:, j], s0, s1[:, j], loc=loc, scale=scale)

    def _marginals(self, X: ArrayLike) -> "list[Predictive]":
        Z = self._features(X)
        return [self._marginal(Z, j) for j in range(self.b1_.shape[1])]

    def _lateral(self, Z: Floats) -> "Predictive":
        """Distribution of the output of a model with lateral connections."""
        from tggm.estimators.lateral import lateral_predictive

        found: Predictive = lateral_predictive(self._params, Z, self._s0, self._y)
        return found

    def _deep(self, Z: Floats, j: int | None) -> "Predictive":
        """Distribution of output j, or of all outputs, of a model with several hidden layers."""
        from tggm.estimators.deep import deep_predictive

        found: Any = deep_predictive(self._params, Z, self._s0, self._y, j, self._engine())
        return found  # type: ignore[no-any-return]  # another class with the same face

    def _engine(self) -> str:
        """Who infers the moments of y where the model needs inference for them."""
        return "ep" if self._trained_by == "ep" else "mean_field"

    def _member_moments(self, X: Floats, s0: Any) -> tuple[Array, Array]:
        of_members: Any = _member_moments
        if isinstance(self._params, Lateral):
            from tggm.estimators.lateral import lateral_moments as of_members
        elif self.between_:
            from tggm.estimators.deep import deep_moments

            of_members = partial(deep_moments, engine=self._engine())
        moments: tuple[Array, Array] = of_members(self._params, X, s0)
        return moments

    def _features(self, X: ArrayLike) -> Floats:
        """Standardised inputs of new rows."""
        check_is_fitted(self, "W0_")
        features: Floats = self._x.apply(validate_data(self, X, reset=False, dtype=np.float64))
        require_moderate(features, "`X`", "leave out rows so far from what the model has seen")
        return features

    def _moments(self, X: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each output under each member, (n_members, rows, n), in the target's units."""
        s0 = np.asarray(self._s0, self.dtype)
        means, variances = [], []
        infers = bool(self.between_) or isinstance(self._params, Lateral)
        with self._precision(), jax.default_matmul_precision("highest"), blas_lock(infers):
            for begin in range(0, len(X), BLOCK):
                block = X[begin : begin + BLOCK].astype(self.dtype)
                padded = np.pad(block, [(0, bucket(len(block)) - len(block)), (0, 0)])
                mean, var = self._member_moments(padded, s0)
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


@jax.jit
def _member_log_density(params: Shallow, X: Array, Y: Array, s0: Array) -> Array:
    """EP's log p(y | x) for each member, shape (members, rows)."""
    objective = METHODS["ep"]()
    density: Array = jax.vmap(lambda p: objective(p, Rows(X, Y), Context(s0)))(params)
    return density
