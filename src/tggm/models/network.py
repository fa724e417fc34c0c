"""`Model`: features → hidden → likelihood, one frozen pytree; `Network`: its parts and sizes.

Members of an ensemble are one model whose arrays have a leading axis.

Likelihoods p(y | h, x) say how outputs follow from the last hidden units:

    z = W1 h + A x + b1    the linear outputs, from which y follows; A is the optional linear part

Each gives the log-density of y with the mean and covariance of z given x.

- `Gaussian`: p(y | h) = N(y | z, diag(s1)), §3 of Su et al. (2016). Targets may be missing or limits. A
  missing target leaves its variable out of the row's likelihood; a limit contributes the probability of its
  side.
- `Probit`: z + ε, ε ~ N(0, I), class = argmax, §4.1. The unit noise is a gauge: scaling z changes no class.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve
from numpy.typing import NDArray

from tggm import formulas
from tggm.matmul_precision import full_precision
from tggm.models.layers import (
    INITIALISERS,
    PARTS,
    Directed,
    Features,
    Hidden,
    Latent,
    Periodic,
    Product,
    part,
)
from tggm.special import log_ndtr
from tggm.special.probit import log_probit

LOG_2PI = 1.8378770664093453
MANY = 100  # classes beyond which `log_probit` measures its grid
NODES_OF_MANY = 20
MOST = {"float32": 1e15, "float64": 1e20}  # of arrays, so that sums of their powers stay finite
MARGIN = 1e3  # by which the weights of all layers together may exceed `MOST`
MOST_LOG_NOISE = {"float32": 80.0, "float64": 600.0}
LEAST_LOG_NOISE = -600.0  # its exponential is a number in double precision, in which densities are computed


@part
class Output:
    """The linear outputs of the last hidden units."""

    W1: Array  # (n, m)
    b1: Array  # (n,), or (rows, n) with the linear part of these rows
    A: Array | None = None  # (n, d)

    def at(self, X: Any) -> "Output":
        """Return the outputs with the linear part of these rows in the intercepts."""
        if self.A is None:
            return self
        linear: Any = X.linear if isinstance(X, Product) else X @ self.A.T
        return Output(self.W1, self.b1[None, :] + linear)

    def of(self, h: Array) -> Array:
        """Return W1 h + A x + b1 for each row, (rows, n)."""
        return h @ self.W1.T + (self.b1 if self.b1.ndim == 2 else self.b1[None, :])


class Likelihood(ABC):
    """p(y | h) of linear outputs.

    Predictions of regressors use the methods `variances` and `moments` of `Gaussian`, those of classifiers
    `contended_scores` of `Probit`.
    """

    output: Output
    init: ClassVar[str]  # distribution of the initial weights, a key of `INITIALISERS`

    @abstractmethod
    def log_density(self, y: Any, latent: Latent) -> Array:
        """Return the log-density of each row."""

    @classmethod
    @abstractmethod
    def draw(cls, output: Output) -> Self:
        """Return the likelihood at the start of training."""


class Incomplete(NamedTuple):
    """Targets of which some are missing or limits."""

    value: Array  # (rows, n), NaN where missing
    side: Array  # (rows, n) 0 measured, 1 at least `value`, −1 at most `value`


def measured(y: Any) -> NDArray[np.float64]:
    """Return targets as NumPy numbers, NaN where one is missing or a limit."""
    if not isinstance(y, Incomplete):
        return np.asarray(y, np.float64)
    return np.where(np.asarray(y.side) == 0, np.asarray(y.value, np.float64), np.nan)


@part
class Gaussian(Likelihood):
    """Numbers, with one noise variance for each output."""

    output: Output
    log_noise: Array  # (n,) log s1

    init: ClassVar = "sharp"
    FIRST_NOISE: ClassVar = 0.5  # variance at the start of training

    def moments(self, latent: Latent) -> tuple[Array, Array]:
        """Return mean (rows, n) and covariance (rows, n, n): W1 E[h] + b1, W1 Cov[h] W1ᵀ + diag(s1).

        (Paper: Σ_{y|x} lacks the transpose.)
        """
        h, cov = latent.covariance(self.output.W1)
        return self.output.of(h), cov + jnp.diag(jnp.exp(self.log_noise))[None]

    def variances(self, latent: Latent) -> tuple[Array, Array]:
        """Return mean and variance of each output, (rows, n) each."""
        h, var = latent.variances(self.output.W1)
        return self.output.of(h), var + jnp.exp(self.log_noise)[None, :]

    def log_density(self, y: Any, latent: Latent) -> Array:
        """Return the log-density of the Gaussian with the first two moments of p(y | x)."""
        if isinstance(y, Incomplete):
            return self._incomplete(y, latent)
        outputs, units = self.output.W1.shape
        if outputs > units:
            return self._many_outputs(y, latent)
        return gaussian_log_density(y, *self.moments(latent))

    def _many_outputs(self, y: Array, latent: Latent) -> Array:
        """Compute the same from the covariance of the units, which are fewer."""
        W1, root = self.output.W1, jnp.exp(-0.5 * self.log_noise)
        h, cov = latent.covariance(jnp.eye(W1.shape[1], dtype=W1.dtype))
        error = (y - self.output.of(h)) * root[None, :]
        return many_outputs_log_density(error, W1 * root[:, None], cov) - 0.5 * self.log_noise.sum()

    def _incomplete(self, y: Incomplete, latent: Latent) -> Array:
        """Return the log-density of the measured targets, or the log-probability of a limit."""
        known = ~jnp.isnan(y.value)
        Y, there, side = jnp.where(known, y.value, 0.0), known.astype(y.value.dtype), y.side
        mean, cov = self.moments(latent)
        if Y.shape[1] == 1:
            density = gaussian_log_density(Y, mean, cov)
            limit = log_ndtr(side * (mean - Y) / jnp.sqrt(cov[:, :, 0]))[:, 0]
            return there[:, 0] * jnp.where(side[:, 0] == 0, density, limit)
        # a missing target becomes standard normal and is set to 0; the −½ log 2π that it adds is subtracted
        pairs = there[:, :, None] * there[:, None, :]
        cov = cov * pairs + jnp.eye(Y.shape[1], dtype=Y.dtype)[None] * (1 - there)[:, :, None]
        value = gaussian_log_density(Y * there, mean * there, cov)
        return value + 0.5 * LOG_2PI * (1 - there).sum(1)

    @classmethod
    def draw(cls, output: Output) -> Self:
        """Start from a noise variance of 0.5."""
        log_noise: Any = np.log(np.full(np.shape(output.b1), cls.FIRST_NOISE))
        return cls(output, log_noise)


def gaussian_log_density(Y: Array, mean: Array, cov: Array) -> Array:
    """Return log N(y | mean, cov) for each row; Y and mean (rows, n), cov (rows, n, n)."""
    error = Y - mean
    if Y.shape[-1] == 1:  # a scalar per row: no batched Cholesky of 1×1 matrices
        variance = cov[:, 0, 0]
        return -0.5 * (error[:, 0] ** 2 / variance + jnp.log(variance) + LOG_2PI)
    L = cholesky(cov)
    t = triangular_solve(L, error[:, :, None], left_side=True, lower=True)[:, :, 0]
    log_det = 2 * jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(-1)
    return -0.5 * ((t**2).sum(-1) + log_det + Y.shape[-1] * LOG_2PI)


class _Factors(NamedTuple):
    """Factors of the value and the derivatives of `many_outputs_log_density`."""

    Q: Array  # (n, m)
    R: Array  # (m, m)
    u: Array  # (rows, m)
    rest: Array  # (rows, n) e − Q u
    L: Array  # (rows, m, m) K = L Lᵀ
    V: Array  # (rows, m, m) L⁻¹ R
    t: Array  # (rows, m) L⁻¹ u

    def value(self) -> Array:
        """Return the log-density."""
        log_det = 2 * jnp.log(jnp.diagonal(self.L, axis1=1, axis2=2)).sum(-1)
        squares = (self.t**2).sum(-1) + (self.rest**2).sum(-1)
        return -0.5 * (squares + log_det + self.rest.shape[1] * LOG_2PI)


def _factors(e: Array, A: Array, C: Array) -> _Factors:
    """Factorise; V and t share one solve, since two independent ones may deadlock on a CPU."""
    Q, R = jnp.linalg.qr(A)
    u = e @ Q
    L = cholesky(jnp.eye(len(R), dtype=e.dtype)[None] + R @ C @ R.T)
    both = jnp.concatenate([jnp.broadcast_to(R, L.shape), u[:, :, None]], 2)
    solved = triangular_solve(L, both, left_side=True, lower=True)
    return _Factors(Q, R, u, e - u @ Q.T, L, solved[:, :, :-1], solved[:, :, -1])


@jax.custom_jvp
@full_precision
def many_outputs_log_density(e: Array, A: Array, C: Array) -> Array:
    """Return log N(e | 0, I + A C Aᵀ) of each row; e (rows, n), A (n, m) with n ≥ m, C (rows, m, m).

    A is W1 over the deviations of the noise and C the covariance of the units of a row. One factorisation
    A = Q R for all rows turns S = I + A C Aᵀ into m outputs with covariance K = I + R C Rᵀ, and n − m outputs
    that are independent of the units:

        log |S| = log |K|,      eᵀ S⁻¹ e = uᵀ K⁻¹ u + ‖e − Q u‖²,      u = Qᵀ e.

    Nothing cancels, and K ≥ I. A row costs O(m³ + n m) instead of O(n³).
    """
    return _factors(e, A, C).value()


@many_outputs_log_density.defjvp
@full_precision
def _many_outputs_jvp(
    primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    """Return ½ (αᵀ dS α − tr S⁻¹ dS) − αᵀ de with α = S⁻¹ e and β = Aᵀ α."""
    (e, A, C), (d_e, d_A, d_C) = primals, tangents
    f = _factors(e, A, C)
    both = jnp.concatenate([f.V @ C, f.t[:, :, None]], 2)
    solved = triangular_solve(f.L, both, left_side=True, lower=True, transpose_a=True)
    H, x = solved[:, :, :-1], solved[:, :, -1]  # K⁻¹ R C and K⁻¹ u
    alpha, beta = x @ f.Q.T + f.rest, x @ f.R
    trace = jnp.einsum("bij,ij->b", H, f.Q.T @ d_A) + 0.5 * ((f.V.mT @ f.V) * d_C).sum((1, 2))
    squares = ((alpha @ d_A) * (C @ beta[:, :, None])[:, :, 0]).sum(-1)
    squares = squares + 0.5 * jnp.einsum("bi,bij,bj->b", beta, d_C, beta)
    return f.value(), squares - trace - (alpha * d_e).sum(-1)


def training_nodes(n_classes: int) -> int:
    """Return the nodes of the probit integral in training; errors are about 1e-4 nats.

    Grids of many classes are measured and cover little more than the bulk of the integrand.
    """
    return NODES_OF_MANY if n_classes > MANY else int(-(-(8 + 2.5 * n_classes**0.5) // 4)) * 4


@part
class Probit(Likelihood):
    """Classes, one linear output each."""

    output: Output

    init: ClassVar = "scaled"

    def scores(self, latent: Latent) -> tuple[Array, Array]:
        r"""Return means of z, and the standard deviations of approximating independent normals.

        Which z is largest depends on differences only, so noise that all classes share does not
        count. With w̄ the mean of W1 over classes, the variances

        .. math:: D_j = 1 + \frac{n}{n-1} \mathrm{Var}[(w_{1,j} - \bar w)^T h \mid x]

        are those of n independent normals whose contrasts z_j − z̄ have the exact variances up to the rest of
        their sum, and whose pairwise differences have the exact total variance; for two classes D_1 + D_2 is
        exactly Var[z_1 − z_2].
        """
        W1 = self.output.W1
        n = len(W1)
        h, shared = latent.variances(W1 - W1.mean(0, keepdims=True))
        return self.output.of(h), jnp.sqrt(1 + jnp.maximum(shared, 0.0) * (n / (n - 1)))

    def contended_scores(self, latent: Latent) -> tuple[Array, Array]:
        """Return means and the deviations of `formulas.contended_std`, which are used in predictions."""
        W1 = self.output.W1
        h, var = latent.variances(W1)
        mean = self.output.of(h)
        return mean, formulas.contended_std(jnp, lax.erfc, mean, var, lambda w: latent.products(W1, w))

    def log_density(self, y: Array, latent: Latent) -> Array:
        """Return the log-probability of each row's class, by the moments of z given x."""
        mean, std = self.scores(latent)
        return log_probit(mean, std, y, n_nodes=training_nodes(mean.shape[1]), n_steps=3)

    @classmethod
    def draw(cls, output: Output) -> Self:
        """Return the likelihood; its noise is a gauge."""
        return cls(output)


@part
class Model:
    """p(y | x) = ∫ p(y | h) p(h | ψ(x)) dh, h ≥ 0."""

    features: Features
    hidden: Hidden
    likelihood: Likelihood

    def log_density(self, X: Any, y: Any) -> Array:
        """Return the log-density of each row with the moments of the outputs given x."""
        density: Array = self.outputs(X).log_density(y, self.latent(X))
        return density

    def weight_norm(self) -> Array:
        """Return ½ Σ‖W‖² over all matrices; features, biases, noise and gauge are not penalised."""
        squares = [(a**2).sum() for a in jax.tree.leaves((self.hidden, self.likelihood)) if a.ndim > 1]
        return 0.5 * jnp.stack(squares).sum()

    def latent(self, X: Any) -> Latent:
        """Return the moments of the last hidden units given x."""
        return self.hidden.moments(self.features(X))

    def outputs(self, X: Any) -> Any:
        """Return the likelihood with the linear part of these rows in its intercepts."""
        return replace(self.likelihood, output=self.likelihood.output.at(self.features.inputs(X)))  # type: ignore[type-var]  # parts are dataclasses

    def arrays(self) -> dict[str, Any]:
        """Return all arrays by name."""
        leaves = jax.tree_util.tree_leaves_with_path(self)
        return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}

    def replaced(self, arrays: dict[str, Any]) -> "Model":
        """Return the same kind of model with other arrays, named as by `arrays`."""
        model: Model = jax.tree.unflatten(jax.tree.structure(self), [arrays[name] for name in self.arrays()])
        return model

    def check(self, dtype: Any) -> None:
        """Raise for NumPy arrays whose squares or products overflow in this precision or their own.

        The bounds are far beyond what training reaches; predictions of larger arrays would be NaN.
        """
        arrays = self.arrays()
        names = {np.dtype(dtype).name, *(np.asarray(a).dtype.name for a in arrays.values())}
        narrow = min(names, key=MOST.__getitem__)
        sizes = {name: float(np.abs(a).max()) for name, a in arrays.items()}
        if not all(map(np.isfinite, sizes.values())):
            raise ValueError("parameters must be finite")
        # inputs are multiplied by the weights of one layer after another
        together = prod(max(1.0, sizes[name]) for name, W in arrays.items() if np.ndim(W) > 2) / MARGIN
        size = max(together, *sizes.values())
        if size > MOST[narrow]:
            raise ValueError(f"parameters reach {size:.3g}; at most {MOST[narrow]:g} is possible in {narrow}")
        noise = np.asarray(arrays.get("likelihood.log_noise", 0.0))
        if noise.min() < LEAST_LOG_NOISE or noise.max() > MOST_LOG_NOISE[narrow]:
            raise ValueError(
                f"the noise must be between exp({LEAST_LOG_NOISE:g}) and exp({MOST_LOG_NOISE[narrow]:g})"
            )


BASES = {"features": Features, "layers": Hidden, "likelihood": Likelihood}  # parts of a network


@dataclass(frozen=True)
class Network:
    """Parts of a model and the numbers of its units, for the argument `network` of the estimators.

    Parameters
    ----------
    units : tuple of int
        Hidden units in each layer, from the input to the output.
    features : subclass of Features
        `Periodic`, `Bounded`, `Identity`, or a part of your own.
    layers : subclass of Hidden
        `Directed`, `TanhLayers`, `SigmoidLayers`, `LearnedLimits`, or a part of your own.
    likelihood : subclass of Likelihood, optional
        By default that of the estimator, `Gaussian` or `Probit`.
    linear : bool
        Whether the outputs have a linear part.
    """

    units: tuple[int, ...] = (50, 50)
    features: type[Features] = Periodic
    layers: type[Hidden] = Directed
    likelihood: type[Likelihood] | None = None
    linear: bool = True

    def __post_init__(self) -> None:
        units: Any = self.units
        if not isinstance(units, tuple) or not units or not all(type(m) is int and m > 0 for m in units):
            raise ValueError(f"`units` must be a tuple of positive integers, as (50, 50); got {units!r}.")
        for name, base in BASES.items():
            kind = getattr(self, name)
            missing = name == "likelihood" and kind is None
            if not missing and not (isinstance(kind, type) and issubclass(kind, base)):
                raise ValueError(f"`{name}` must be a subclass of {base.__name__}; got {kind!r}.")

    def draw(
        self, rng: np.random.Generator, n_inputs: int, n_outputs: int, *, members: int = 1,
        dtype: Any = np.float64, s0: float = 1.0, init: str = "scaled",
    ) -> Model:  # fmt: skip
        """Draw models to start training from, as NumPy arrays with a leading axis of members."""
        drawn = [self._draw_one(rng, n_inputs, n_outputs, s0, init) for _ in range(members)]
        model: Model = jax.tree.map(lambda *leaves: np.stack(leaves).astype(dtype), *drawn)
        return model

    def _draw_one(self, rng: np.random.Generator, d: int, n: int, s0: float, init: str) -> Model:
        features = self.features.draw(rng, d)
        # the ends of a deep model are drawn as those of two shallow ones
        sizes = self.units[:1] if len(self.units) == 1 else (self.units[0], self.units[-1])
        ends = [INITIALISERS[init](rng, self.features.width(d), m, n, s0) for m in sizes]
        (W0, b0), (W1, b1) = ends[0][:2], ends[-1][2:]
        hidden = self.layers.draw(rng, W0, b0, s0, self.units)
        output: Any = Output(W1, b1, np.zeros((n, d)) if self.linear else None)  # type: ignore[arg-type]  # NumPy until training
        return Model(features, hidden, (self.likelihood or Gaussian).draw(output))

    def described(self) -> dict[str, Any]:
        """Return the network as JSON values, with parts by name."""
        parts = {name: getattr(self, name) for name in BASES}
        named = {name: None if kind is None else kind.__name__ for name, kind in parts.items()}
        return {"units": list(self.units), "linear": self.linear, **named}

    @classmethod
    def from_description(cls, stored: Any) -> "Network":
        """Return the network that `described` described; ValueError for unknown parts."""
        parts = {name: PARTS.get(stored[name]) for name in BASES}
        for name, kind in parts.items():
            if kind is None and stored[name] is not None:
                raise ValueError(f"{name} {stored[name]!r} are unknown; import the module that defines them")
        if not isinstance(stored["linear"], bool):
            raise ValueError("`linear` must be true or false")
        return cls(tuple(stored["units"]), linear=stored["linear"], **parts)  # type: ignore[arg-type]  # checked
