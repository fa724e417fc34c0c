"""The general truncated Gaussian graphical model: any precision among latent variables, any among outputs.

    p(y, h | x) = N(y | W1 h + b1, P1⁻¹) N_T(h | W0 x + b0, P0⁻¹),   h ≥ 0          (§2 of Su et al., 2016)

Integrating h out leaves a Gaussian, what the model would be without truncation, times a ratio of two orthant
probabilities that modulates it:

    p(y | x) = N(y | W1 a + b1, W1 P0⁻¹ W1ᵀ + P1⁻¹) · Pr(h ≥ 0 | x, y) / Pr(h ≥ 0 | x),      a = W0 x + b0,

Pr being of the Gaussian before truncation. (Paper: Σ_{y|x} lacks the transpose.) Everything here is computed
in double precision and in logarithms, for a person who looks at a model; training does not come this way.
"""

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from tggm.arrays import Floats
from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference import hmc
from tggm.inference.covariance import covariance
from tggm.inference.orthant.probability import Estimate, chosen, log_orthant, log_z, moments
from tggm.models.likelihoods.gaussian import gaussian_log_density
from tggm.precision import Dense, Diagonal, LowRank, Precision
from tggm.special.quantile import truncated_excess

T = TypeVar("T")


class Modulation(NamedTuple):
    """The three factors of p(y | x), as logarithms, one number a row each."""

    gaussian: Array  # log N(y | μ_{y|x}, Σ_{y|x})
    posterior: Estimate  # log Pr(h ≥ 0 | x, y)
    prior: Estimate  # log Pr(h ≥ 0 | x)


class TGGM:
    r"""A model given by its weights and two precision matrices.

    Parameters
    ----------
    W0, b0 : array_like, shapes (m, d) and (m,)
        From the inputs to the locations of the latent variables.
    W1, b1 : array_like, shapes (n, m) and (n,)
        From the latent variables to the outputs.
    P0, P1 : Precision or array_like
        Precisions of latent variables and of outputs: a structure of `tggm.precision`, a matrix, a vector
        (the diagonal of one) or a number.

    Notes
    -----
    Methods take `engine`: "exact" (independent latents; one output and independent latents; up to three
    latents), "ep", "orthant", or "auto", the first of them that applies. Options of the engine may follow.
    """

    def __init__(
        self,
        W0: ArrayLike,
        b0: ArrayLike,
        W1: ArrayLike,
        b1: ArrayLike,
        P0: Precision | ArrayLike = 1.0,
        P1: Precision | ArrayLike = 1.0,
    ) -> None:
        with jax.enable_x64(True):
            self.W0, self.W1 = _matrix("W0", W0), _matrix("W1", W1)
            m, n = self.W0.shape[0], self.W1.shape[0]
            self.b0, self.b1 = _vector("b0", b0, m), _vector("b1", b1, n)
            if self.W1.shape[1] != m:
                raise ValueError(
                    f"`W1` must have one column per latent variable: W0 has {m} rows, W1 has shape "
                    f"{self.W1.shape}."
                )
            self.P0, self.P1 = _precision("P0", P0, m), _precision("P1", P1, n)
            # P1 = L Lᵀ, so that W1ᵀ P1 W1 = UᵀU with U = Lᵀ W1
            self._L, self._noise = jnp.linalg.cholesky(self.P1.dense()), jnp.linalg.inv(self.P1.dense())

    def __repr__(self) -> str:
        sizes = f"d={self.W0.shape[1]}, m={self.W0.shape[0]}, n={self.W1.shape[0]}"
        return f"TGGM({sizes}, P0={type(self.P0).__name__}, P1={type(self.P1).__name__})"

    def prior(self, X: ArrayLike) -> TruncatedGaussian:
        """p(h | x): precision P0, shift P0 (W0 x + b0), one row for each row of X."""
        with jax.enable_x64(True):
            return TruncatedGaussian.from_mean(self.P0, self._locations(X))

    def posterior(self, X: ArrayLike, Y: ArrayLike) -> TruncatedGaussian:
        """p(h | x, y): precision P0 + W1ᵀP1W1, shift P0 (W0 x + b0) + W1ᵀP1(y − b1)."""
        with jax.enable_x64(True):
            prior = self.prior(X)
            U = self._L.T @ self.W1
            shift = prior.shift + (self._outputs(X, Y) - self.b1[None, :]) @ self._L @ U
            return TruncatedGaussian(with_factor(self.P0, U), shift)

    def modulation(self, X: ArrayLike, Y: ArrayLike, *, engine: str = "auto", **options: Any) -> Modulation:
        """The Gaussian and the two orthant probabilities whose ratio modulates it."""
        with jax.enable_x64(True):
            a, Y_ = self._locations(X), self._outputs(X, Y)
            cov = self.W1 @ jnp.linalg.inv(self.P0.dense()) @ self.W1.T + self._noise  # without truncation
            return Modulation(
                self._log_normal(Y_, a, cov),
                log_orthant(self.posterior(X, Y), engine, **options),
                log_orthant(self.prior(X), engine, **options),
            )

    def log_density(self, X: ArrayLike, Y: ArrayLike, *, engine: str = "auto", **options: Any) -> Estimate:
        """Log p(y | x) of each row with an estimate of its error.

        The error is rounding for "exact", one standard error for "orthant", and the size of the leading terms
        that EP neglects for "ep".
        """
        with jax.enable_x64(True):
            log_n, above, below = self.modulation(X, Y, engine=engine, **options)
            error = jnp.hypot(above.error, below.error) + 1e-15 * jnp.abs(log_n)
            return _numpy(Estimate(log_n + above.value - below.value, error))

    def log_joint(
        self, X: ArrayLike, H: ArrayLike, Y: ArrayLike, *, engine: str = "auto", **options: Any
    ) -> Estimate:
        """Log p(y, h | x) of each row; −inf where a latent variable is negative."""
        with jax.enable_x64(True):
            tg, h = self.prior(X), jnp.asarray(H, dtype=float)
            if h.shape != tg.shift.shape:
                raise ValueError(f"`H` must have shape {tg.shift.shape}; got {h.shape}.")
            normaliser = log_z(tg, engine, **options)
            quadratic = self.P0.off_diagonal(h) + self.P0.diagonal()[None, :] * h
            latent = (h * (tg.shift - 0.5 * quadratic)).sum(1) - normaliser.value
            output = self._log_normal(self._outputs(X, Y), h, self._noise)
            value = jnp.where((h >= 0).all(1), latent + output, -jnp.inf)
            return _numpy(Estimate(value, normaliser.error))

    def latent_moments(
        self, X: ArrayLike, Y: ArrayLike | None = None, *, engine: str = "auto", **options: Any
    ) -> Moments:
        """Means and variances of h given x, or given x and y: of the prior or the posterior."""
        with jax.enable_x64(True):
            return _numpy(moments(self._latents(X, Y), engine, **options))

    def activation(self, X: ArrayLike, *, engine: str = "auto", **options: Any) -> Floats:
        """E[h | x], shape (rows, m): what takes the place of an activation function.

        With independent latents it acts on each location by itself; with any other P0 a unit's activation
        depends on the locations of its neighbours too.
        """
        return np.asarray(self.latent_moments(X, engine=engine, **options).mean)

    def mean(self, X: ArrayLike, *, engine: str = "auto", **options: Any) -> Floats:
        """E[y | x] = W1 E[h | x] + b1, shape (rows, n)."""
        h = self.activation(X, engine=engine, **options)
        mean: Floats = h @ np.asarray(self.W1).T + np.asarray(self.b1)[None, :]
        return mean

    def cov(self, X: ArrayLike, *, engine: str = "auto", **options: Any) -> Floats:
        """Cov[y | x] = W1 Cov[h | x] W1ᵀ + P1⁻¹, shape (rows, n, n)."""
        with jax.enable_x64(True):
            tg = self.prior(X)
            latent = covariance(tg, self.W1, engine=chosen(tg, engine), **options)
            return np.asarray(latent + self._noise[None])

    def sample_latent(
        self, X: ArrayLike, n: int, *, Y: ArrayLike | None = None, key: Array | int = 0, **options: Any
    ) -> Floats:
        """Draws of h given x, or given x and y, shape (n, rows, m).

        Independent where the variables are; otherwise from the chains of `hmc`, whose options may follow.
        """
        with jax.enable_x64(True):
            random = jax.random.key(key) if isinstance(key, int) else key
            tg = self._latents(X, Y)
            if isinstance(tg.precision, Diagonal):
                return np.asarray(_independent_draws(tg, random, n))
            return np.asarray(hmc(tg, random, n, **options).draws)

    def sample(self, X: ArrayLike, n: int, *, key: Array | int = 0, **options: Any) -> Floats:
        """Draws of y given x, shape (n, rows, n_outputs): h as in `sample_latent`, then y given h."""
        with jax.enable_x64(True):
            random = jax.random.key(key) if isinstance(key, int) else key
            first, second = jax.random.split(random)
            h = jnp.asarray(self.sample_latent(X, n, key=first, **options))
            noise = jax.random.normal(second, (*h.shape[:2], len(self.b1)))
            spread = jax.scipy.linalg.solve_triangular(self._L, jnp.eye(len(self.b1)), lower=True)
            return np.asarray(h @ self.W1.T + self.b1[None, None, :] + noise @ spread)

    def _locations(self, X: ArrayLike) -> Array:
        X_ = _matrix("X", X)
        if X_.shape[1] != self.W0.shape[1]:
            raise ValueError(f"`X` must have {self.W0.shape[1]} columns, as W0 has; got shape {X_.shape}.")
        return X_ @ self.W0.T + self.b0[None, :]

    def _outputs(self, X: ArrayLike, Y: ArrayLike) -> Array:
        Y_, wanted = _matrix("Y", Y), (np.shape(X)[0], self.W1.shape[0])
        if Y_.shape != wanted:
            raise ValueError(f"`Y` must have shape {wanted}, (rows of X, outputs); got {Y_.shape}.")
        return Y_

    def _latents(self, X: ArrayLike, Y: ArrayLike | None) -> TruncatedGaussian:
        return self.prior(X) if Y is None else self.posterior(X, Y)

    def _log_normal(self, Y: Array, h: Array, cov: Array) -> Array:
        """Log N(y | W1 h + b1, cov) of each row."""
        mean = h @ self.W1.T + self.b1[None, :]
        return gaussian_log_density(Y, mean, jnp.broadcast_to(cov[None], (len(Y), *cov.shape)))


def with_factor(P: Precision, U: Array) -> Precision:
    """P + UᵀU in the most structured form there is."""
    if isinstance(P, Diagonal):
        return LowRank(P.values, U)
    if isinstance(P, LowRank):
        return LowRank(P.base, jnp.concatenate([P.weights, U]))
    return Dense(P.dense() + U.T @ U)


@jax.jit
def _all_uniform(key: Array, like: Array) -> Array:
    return jax.random.uniform(key, like.shape, like.dtype, minval=2.0**-54)


def _independent_draws(tg: TruncatedGaussian, key: Array, n: int) -> Array:
    """Truncated normals by inverting their distribution functions, shape (n, rows, m)."""
    root = jnp.sqrt(tg.precision.diagonal())[None, None, :]
    alpha = jnp.broadcast_to(tg.shift[None] / root, (n, *tg.shift.shape))
    return truncated_excess(alpha, _all_uniform(key, alpha)) / root


def _numpy(tree: T) -> T:
    same: T = jax.tree.map(np.asarray, tree)
    return same


def _matrix(name: str, value: ArrayLike) -> Array:
    array = jnp.asarray(value, dtype=float)
    if array.ndim != 2 or not bool(jnp.isfinite(array).all()):
        raise ValueError(f"`{name}` must be a matrix of finite numbers; got shape {array.shape}.")
    return array


def _vector(name: str, value: ArrayLike, size: int) -> Array:
    array = jnp.asarray(value, dtype=float)
    if array.shape not in ((), (size,)) or not bool(jnp.isfinite(array).all()):
        raise ValueError(f"`{name}` must be {size} finite numbers; got shape {array.shape}.")
    return jnp.broadcast_to(array, (size,))


def _precision(name: str, value: Precision | ArrayLike, size: int) -> Precision:
    """A structure, from a structure, a matrix, a diagonal or a number; errors name the argument."""
    if isinstance(value, Precision):
        P: Precision = jax.tree.map(lambda a: jnp.asarray(a, dtype=float), value)
    else:
        array = jnp.asarray(value, dtype=float)
        try:
            P = Dense(array) if array.ndim == 2 else Diagonal(jnp.broadcast_to(array, (size,)))
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from None
    if P.size != size:
        raise ValueError(f"`{name}` must be the precision of {size} variables; it has {P.size}.")
    return P
