r"""Feature maps, hidden layers and likelihoods: frozen dataclasses that are JAX pytrees.

**Features** ψ(x) are the inputs of the first hidden layer. Periodic features are each column and a few
sums of learned cosines of it,

.. math:: \psi_j(x) = [\,\tilde x_j,\ \sum_k E_{jik} \cos 2\pi(c_{jk} \tilde x_j + \varphi_{jk})\,]_i,

where x̃ is x within four deviations of the mean and grows logarithmically beyond. Only the locations of the
units depend on ψ: formulas that are exact without features are exact with them.

**Hidden layers** have independent units given the layer below:

    p(h | x) = Π_l N_T(h^l | u^l, s0 I),      u¹ = W0 ψ + b0,   u^{l+1} = W^l h^l + b^l

Given x the moments of the first layer are exact. Above it, the location u = W h + b of a unit is approximated
by a Gaussian with the mean and variance that follow from the layer below, so that

.. math::
    E[h] = E_u[\sigma_0\, g(u/\sigma_0)], \qquad
    \mathrm{Var}[h] = E_u[s_0\, \omega^2(u/\sigma_0)] + \mathrm{Var}_u[\sigma_0\, g(u/\sigma_0)],

by Gauss–Hermite quadrature. Units of a layer above the first share the noise of the layers below. To first
order h = E[h] + κ (u − E[u]) + own noise, with κ = E[ω²] the mean slope (for a Gaussian u, κ Var[u] is the
exact covariance of h and u), so that the variance of an output is a sum over the units of all layers of

.. math::
    J_k^2 \cdot \text{variance of the unit's own noise}, \qquad
    J^{L} = W_1, \quad J^{l} = J^{l+1} \mathrm{diag}(\kappa^{l+1})\, W^l,

which is back-propagation of the output's weights. docs/deep.md compares it with sampling.

σ0² = s0 is the same for every layer and a gauge: scaling the variables of a layer, with the weights into and
out of it and its own variance, leaves p(y | x) unchanged.

A unit of unit scale has the mean g(a) and the variance ω²(a), with g' = ω² and (ω²)' = κ3 = r (g² − ω²).
`averages` has custom derivatives, because automatic differentiation would compute the nodes twice.

**Likelihoods** p(y | h, x) give the log-density of y with the mean and covariance of the linear outputs
z = W1 h + A x + b1 given x; A is the optional linear part.

- `Gaussian`: p(y | h) = N(y | z, diag(s1)), §3 of Su et al. (2016). Targets may be missing or limits. A
  missing target leaves its variable out of the row's likelihood; a limit contributes the probability of its
  side.
- `Probit`: z + ε, ε ~ N(0, I), class = argmax, §4.1. The unit noise is a gauge: scaling z changes no class.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve

from tggm import formulas
from tggm.formulas import LayerMoments, Triple, gauss_hermite, unit_averages, unit_nodes, weighted_sum
from tggm.models._many_outputs import LOG_2PI as LOG_2PI
from tggm.models._many_outputs import many_outputs_log_density
from tggm.special import log_ndtr, log_ndtr_interval
from tggm.special.kernels import moments as standard_moments
from tggm.special.probit import log_probit

T = TypeVar("T")
PARTS: dict[str, type[Any]] = {}  # by class name: model files contain the names of parts
FREQUENCY = 0.3  # deviation of the frequencies at the start of training
AMPLITUDE = 0.5  # of the weights of waves: their sums have unit variance
DENSE_UP_TO = 8192  # columns up to which sparse batches are made dense: faster than gathering rows of W0ᵀ
MANY = 100  # classes above which `log_probit` adapts the length of its grid
NODES_OF_MANY = 20


@dataclass_transform(frozen_default=True, eq_default=False)
def part(cls: type[T]) -> type[T]:
    """Make a frozen dataclass whose fields are arrays or parts, in this order, and register its name.

    The class is part of the tree structure. Structures of `jax.tree_util.register_dataclass` are equal if the
    field names are, and one class would run the compiled program of another.
    """
    made = dataclass(frozen=True, eq=False)(cls)
    names = [field.name for field in fields(made)]  # type: ignore[arg-type]  # made a dataclass in the last line
    key = jax.tree_util.GetAttrKey

    def flatten(value: Any) -> tuple[list[Any], type[Any]]:
        return [(key(name), getattr(value, name)) for name in names], made

    jax.tree_util.register_pytree_with_keys(made, flatten, lambda _, leaves: made(*leaves))
    PARTS[cls.__name__] = made
    return made


def stack_parts(parts: list[Any], dtype: Any) -> Any:
    """Stack equal parts with NumPy arrays along a new first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves).astype(dtype), *parts)


# ---- inputs ----------------------------------------------------------------------------------------------


class SparseRows(NamedTuple):
    """Rows of a sparse table with the same number of places, so that all mini-batches have one shape.

    Place k of row i holds the value `values[i, k]` of column `indices[i, k]`; unused places hold 0.
    """

    indices: Array  # (rows, places) int32
    values: Array  # (rows, places)

    def __matmul__(self, matrix: Array) -> Array:
        """Return the product with a (columns, m) matrix, shape (rows, m)."""
        d = matrix.shape[0]
        if d <= DENSE_UP_TO:
            row = jnp.arange(self.values.shape[0], dtype=self.indices.dtype)[:, None]
            dense = jnp.zeros((self.values.shape[0], d), self.values.dtype)
            return dense.at[row, self.indices].add(self.values) @ matrix
        return jnp.einsum("bk,bkm->bm", self.values, matrix[self.indices])


class Product(NamedTuple):
    """The products of rows with W0ᵀ and, if there is a linear part, with Aᵀ."""

    value: Array  # (rows, m)
    linear: Array | None = None  # (rows, n)

    def __matmul__(self, matrix: Array) -> Array:
        """Return the precomputed `X @ W0.T`; `matrix` is ignored."""
        return self.value


class Features(ABC):
    """ψ(x), a map of the inputs."""

    linear: ClassVar[bool]  # whether standardisation may be folded into the weights of the first layer
    most: ClassVar[float] = np.inf  # larger inputs may be clipped to this size

    @abstractmethod
    def __call__(self, X: Any) -> Any:
        """Return ψ of each row, an object that supports ``@`` with matrices."""

    def inputs(self, X: Any) -> Any:
        """Return the inputs of the linear part of the outputs."""
        return X

    @classmethod
    def width(cls, n_inputs: int) -> int:
        """Return the number of columns of ψ(x)."""
        return n_inputs

    @classmethod
    def draw(cls, rng: np.random.Generator, n_inputs: int) -> Self:
        """Draw the initial parameters, as NumPy arrays."""
        return cls()


@part
class Identity(Features):
    """ψ(x) = x."""

    linear: ClassVar = True

    def __call__(self, X: Any) -> Any:
        return X


@part
class Bounded(Features):
    """ψ(x) = x̃."""

    linear: ClassVar = False
    most: ClassVar = formulas.MOST_INPUT

    def __call__(self, X: Any) -> Any:
        return self.inputs(X)

    def inputs(self, X: Any) -> Any:
        return formulas.bounded(np if isinstance(X, np.ndarray) else jnp, X)


@part
class Periodic(Bounded):
    """Columns, and sums of learned cosines of each."""

    c: Array  # (d, N_WAVES) frequencies
    phi: Array  # (d, N_WAVES) phases, in turns
    E: Array  # (d, N_SUMS, N_WAVES) weights of the waves in each sum

    def __call__(self, X: Any) -> Any:
        """Return x̃, then the sums column by column, (rows, d + d N_SUMS)."""
        x = self.inputs(X)
        turns = x[:, :, None] * self.c[None] + self.phi[None]
        waves = formulas.cos_turns(jnp, turns, formulas.COSINE_TERMS[str(turns.dtype)])
        sums = jnp.einsum("bdk,dik->bdi", waves, self.E)
        return jnp.concatenate([x, sums.reshape(len(x), -1)], axis=1)

    @classmethod
    def width(cls, n_inputs: int) -> int:
        return n_inputs * (1 + formulas.N_SUMS)

    @classmethod
    def draw(cls, rng: np.random.Generator, n_inputs: int) -> Self:
        """Draw frequencies N(0, 0.3²), uniform phases, and sums of unit variance."""
        c = FREQUENCY * rng.standard_normal((n_inputs, formulas.N_WAVES))
        phi = rng.random((n_inputs, formulas.N_WAVES))
        E = AMPLITUDE * rng.standard_normal((n_inputs, formulas.N_SUMS, formulas.N_WAVES))
        return cls(c, phi, E)  # type: ignore[arg-type]  # NumPy until training


FEATURES: dict[str | None, type[Features]] = {None: Identity, "bounded": Bounded, "periodic": Periodic}


# ---- hidden layers ---------------------------------------------------------------------------------------


class Latent(ABC):
    """Moments of the units of the last layer, for each row."""

    @abstractmethod
    def covariance(self, W: Array) -> tuple[Array, Array]:
        """Return E[h], (rows, m), and Cov[W h], (rows, n, n)."""

    def variances(self, W: Array) -> tuple[Array, Array]:
        """Return E[h] and the variances of W h, (rows, n)."""
        h, cov = self.covariance(W)
        return h, jnp.diagonal(cov, axis1=1, axis2=2)

    def products(self, W: Array, w: Array) -> Array:
        """Return Cov[W h] w for weights w of each row, (rows, n)."""
        return jnp.einsum("bij,bj->bi", self.covariance(W)[1], w)


@part
class Independent(Latent):
    """Means and variances of independent units, (rows, m) each."""

    mean: Array
    var: Array

    def covariance(self, W: Array) -> tuple[Array, Array]:
        if W.shape[0] == 1:
            return self.mean, (self.var @ (W**2).T)[:, :, None]
        return self.mean, jnp.einsum("ik,bk,jk->bij", W, self.var, W)

    def variances(self, W: Array) -> tuple[Array, Array]:
        return self.mean, self.var @ (W**2).T

    def products(self, W: Array, w: Array) -> Array:
        return (self.var * (w @ W)) @ W.T


class Propagated(Latent):
    """Moments of all layers, and the weights between them."""

    def __init__(self, layers: list[LayerMoments], W: tuple[Array, ...]) -> None:
        self._layers, self._W = layers, W

    def covariance(self, W: Array) -> tuple[Array, Array]:
        """Sum the own noise of all units, multiplied by their sensitivities."""
        if W.shape[0] == 1:  # one number per row: no batch of matrix products
            mean, var = self.variances(W)
            return mean, var[:, :, None]
        parts = [(J * layer.own[:, None, :]) @ J.mT for J, layer in self._sensitivities(W)]
        return self._layers[-1].mean, sum(parts[1:], parts[0])

    def variances(self, W: Array) -> tuple[Array, Array]:
        if W.shape[0] > 1:
            parts = [(J**2 * layer.own[:, None, :]).sum(-1) for J, layer in self._sensitivities(W)]
            return self._layers[-1].mean, sum(parts[1:], parts[0])
        # sensitivities of one output are matrices, whose products are faster
        total, J = self._layers[-1].own @ W[0] ** 2, W
        for level in reversed(range(len(self._W))):
            J = (J * self._layers[level + 1].slope) @ self._W[level]
            total = total + (J**2 * self._layers[level].own).sum(-1)
        return self._layers[-1].mean, total[:, None]

    def _sensitivities(self, W: Array) -> list[tuple[Array, LayerMoments]]:
        """Return J^l, (rows, n, m_l), of W h^L for every layer, from the last to the first."""
        J = jnp.broadcast_to(W[None], (self._layers[-1].own.shape[0], *W.shape))
        found = [(J, self._layers[-1])]
        for level in reversed(range(len(self._W))):
            J = jnp.einsum("bik,km->bim", J * self._layers[level + 1].slope[:, None, :], self._W[level])
            found.append((J, self._layers[level]))
        return found


class Hidden(ABC):
    """p(h | ψ), h ≥ 0. σ0² = s0 is a gauge: it sets a scale and is never learned."""

    W0: Array  # (m_1, d)
    b0: Array  # (m_1,)
    s0: Array  # ()

    @property
    def gauge(self) -> Array:
        """Return the variance s0 of a unit before truncation, not differentiated."""
        return lax.stop_gradient(self.s0)

    @abstractmethod
    def moments(self, psi: Any) -> Latent:
        """Return the moments of the units of the last layer."""

    @classmethod
    @abstractmethod
    def draw(cls, rng: np.random.Generator, W0: Any, b0: Any, s0: float, units: tuple[int, ...]) -> "Hidden":
        """Draw the initial parameters of layers with these numbers of units; W0 and b0 are given."""


@part
class Shallow(Hidden):
    """One hidden layer of m units."""

    W0: Array  # (m, d)
    b0: Array  # (m,)
    s0: Array  # ()

    def moments(self, psi: Any) -> Independent:
        """Return E[h | ψ] = σ0 g(α) and Var[h | ψ] = s0 ω²(α), exact."""
        located = psi @ self.W0.T + self.b0[None, :]
        g, omega2 = unit_moments(located / jnp.sqrt(self.gauge))
        return Independent(jnp.sqrt(self.gauge) * g, self.gauge * omega2)

    @classmethod
    def draw(cls, rng: np.random.Generator, W0: Any, b0: Any, s0: float, units: tuple[int, ...]) -> "Shallow":
        return cls(W0, b0, np.asarray(s0))  # type: ignore[arg-type]  # NumPy until training


@part
class Directed(Hidden):
    """Several hidden layers, each conditioned on the layer below."""

    W0: Array  # (m_1, d)
    b0: Array  # (m_1,)
    W: tuple[Array, ...]  # W^l, (m_{l+1}, m_l)
    b: tuple[Array, ...]  # b^l, (m_{l+1},)
    s0: Array  # ()

    def moments(self, psi: Any) -> Propagated:
        return Propagated(propagate(self, psi, formulas.N_NODES), self.W)

    @classmethod
    def draw(cls, rng: np.random.Generator, W0: Any, b0: Any, s0: float, units: tuple[int, ...]) -> Hidden:
        """Draw weights N(0, 1/m) from each layer to the next, which keeps the size of locations."""
        if cls is Directed and len(units) == 1:
            return Shallow.draw(rng, W0, b0, s0, units)
        W: Any = tuple(1 / np.sqrt(m) * rng.standard_normal((above, m)) for m, above in pairwise(units))
        b: Any = tuple(np.zeros(above) for above in units[1:])
        return cls(W0, b0, W, b, np.asarray(s0))  # type: ignore[arg-type]  # NumPy until training


def propagate(layers: Directed, psi: Any, n_nodes: int) -> list[LayerMoments]:
    """Return the moments of every hidden layer given x; the first are exact."""
    first = Shallow(layers.W0, layers.b0, layers.s0).moments(psi)
    found = [LayerMoments(first.mean, first.var, jnp.ones_like(first.var), first.var)]
    for W, b in zip(layers.W, layers.b, strict=True):
        found.append(formulas.layer_above(jnp, W, b, layers.gauge, found[-1], partial(averages, n_nodes)))
    return found


@jax.custom_jvp
def unit_moments(a: Array) -> tuple[Array, Array]:
    """Return g(a) and ω²(a), as accurate as `tggm.special.kernels.moments`; derivatives in closed form."""
    return standard_moments(a)


@unit_moments.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (a,), (da,) = primals, tangents
    g, omega2 = unit_moments(a)
    return (g, omega2), (omega2 * da, _third_cumulant(a, g, omega2) * da)


def _third_cumulant(a: Array, g: Array, omega2: Array) -> Array:
    """Return κ3, with r = g − a; it loses digits for very negative a, where κ3 is negligible."""
    return jnp.minimum(g - a, 1e8) * (g**2 - omega2)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def averages(n_nodes: int, alpha: Array, spread: Array) -> Triple:
    """Return c = E[g(u)], κ = E[ω²(u)] and v = Var[g(u)] for u ~ N(alpha, spread²), elementwise."""
    places, weights = gauss_hermite(n_nodes)
    return unit_averages(weights, unit_nodes(unit_moments, places, alpha, spread))


@averages.defjvp
def _(n_nodes: int, primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Triple, Triple]:
    (alpha, spread), (d_alpha, d_spread) = primals, tangents
    places, weights = gauss_hermite(n_nodes)
    nodes = unit_nodes(unit_moments, places, alpha, spread)
    centre, slope, var = unit_averages(weights, nodes)
    moved = [weight * place for weight, place in zip(weights, places, strict=True)]
    omega2s = [omega2 for _, _, omega2 in nodes]
    third = [_third_cumulant(*node) for node in nodes]
    products = [2 * (g - centre) * omega2 for _, g, omega2 in nodes]

    def change(of: list[Array]) -> Array:
        return weighted_sum(weights, of) * d_alpha + weighted_sum(moved, of) * d_spread

    return (centre, slope, var), (change(omega2s), change(third), change(products))


# ---- likelihoods -------------------------------------------------------------------------------------------


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
    """p(y | h); predictions also need the methods `variances` and `moments`, or `contended_scores`."""

    output: Output
    init: ClassVar[str]  # distribution of the initial weights, see `Network.draw`

    @abstractmethod
    def log_density(self, y: Any, latent: Latent) -> Array:
        """Return the log-density of each row."""

    @classmethod
    def draw(cls, output: Output) -> Self:
        """Return the likelihood at the start of training."""
        return cls(output)  # type: ignore[call-arg]  # parts are dataclasses


class Incomplete(NamedTuple):
    """Targets of which some are missing or limits."""

    value: Array  # (rows, n), NaN where missing
    side: Array  # (rows, n) 0 measured, 1 at least `value`, −1 at most `value`, 2 within `half` of it
    half: Array | None = None  # (rows, n); None without such intervals


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
        if outputs <= units:
            return gaussian_log_density(y, *self.moments(latent))
        W1, root = self.output.W1, jnp.exp(-0.5 * self.log_noise)
        h, cov = latent.covariance(jnp.eye(W1.shape[1], dtype=W1.dtype))
        error = (y - self.output.of(h)) * root[None, :]
        return many_outputs_log_density(error, W1 * root[:, None], cov) - 0.5 * self.log_noise.sum()

    def _incomplete(self, y: Incomplete, latent: Latent) -> Array:
        """Return log-densities of measured targets, log-probabilities of limits, mean ones of intervals."""
        known = ~jnp.isnan(y.value)
        Y, present, side = jnp.where(known, y.value, 0.0), known.astype(y.value.dtype), y.side
        mean, cov = self.moments(latent)
        if Y.shape[1] == 1:
            density = gaussian_log_density(Y, mean, cov)
            error, std = mean - Y, jnp.sqrt(cov[:, :, 0])
            limit = log_ndtr(side * error / std)[:, 0]
            if y.half is not None:
                half = jnp.where(side == 2, y.half, 1.0)
                mass = log_ndtr_interval((-half - error) / std, (half - error) / std)
                limit = jnp.where(side == 2, mass - jnp.log(2 * half), limit[:, None])[:, 0]
            return present[:, 0] * jnp.where(side[:, 0] == 0, density, limit)
        # targets that are missing or limits become standard normal and 0
        measured, limits = jnp.where(side == 0, present, 0.0), jnp.where(side == 0, 0.0, present)
        own = cov * (measured[:, :, None] * measured[:, None, :])
        own = own + jnp.eye(Y.shape[1], dtype=Y.dtype)[None] * (1 - measured)[:, :, None]
        # limits given the measured targets, as if they were independent of each other
        root, across = cholesky(own), cov * (measured[:, :, None] * limits[:, None, :])
        both = jnp.concatenate([((Y - mean) * measured)[:, :, None], across], axis=2)
        white = triangular_solve(root, both, left_side=True, lower=True)
        shift = jnp.einsum("ri,rij->rj", white[:, :, 0], white[:, :, 1:])
        var, scale = (jnp.diagonal(a, axis1=1, axis2=2) for a in (cov, root))
        std = jnp.sqrt(var - (white[:, :, 1:] ** 2).sum(1))
        value = -0.5 * (white[:, :, 0] ** 2 + LOG_2PI * measured) - jnp.log(scale)
        return (value + limits * log_ndtr(side * (mean + shift - Y) / std)).sum(1)

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


def training_nodes(n_classes: int) -> int:
    """Return the number of nodes of the probit integral in training; errors are about 1e-4 nats.

    The grids of many classes are adapted to the integrand and need fewer nodes.
    """
    return NODES_OF_MANY if n_classes > MANY else int(-(-(8 + 2.5 * n_classes**0.5) // 4)) * 4


@part
class Probit(Likelihood):
    """Classes, one linear output each."""

    output: Output

    init: ClassVar = "scaled"

    def scores(self, latent: Latent) -> tuple[Array, Array]:
        r"""Return means of z, and the standard deviations of approximating independent normals.

        Which z is largest depends only on differences, so noise that all classes share has no
        effect. With w̄ the mean of W1 over classes, the variances

        .. math:: D_j = 1 + \frac{n}{n-1} \mathrm{Var}[(w_{1,j} - \bar w)^T h \mid x]

        are those of n independent normals whose contrasts z_j − z̄ have the exact variances up to
        (D̄ − D_j) / n, D̄ the mean of D, and whose pairwise differences have the exact total variance; for
        two classes D_1 + D_2 is exactly Var[z_1 − z_2].
        """
        W1 = self.output.W1
        n = len(W1)
        h, shared = latent.variances(W1 - W1.mean(0, keepdims=True))
        return self.output.of(h), jnp.sqrt(1 + jnp.maximum(shared, 0.0) * (n / (n - 1)))

    def contended_scores(self, latent: Latent) -> tuple[Array, Array]:
        """Return means and the deviations of `formulas.contended_std`, for predictions."""
        W1 = self.output.W1
        h, var = latent.variances(W1)
        mean = self.output.of(h)
        return mean, formulas.contended_std(jnp, lax.erfc, mean, var, lambda w: latent.products(W1, w))

    def log_density(self, y: Array, latent: Latent) -> Array:
        """Return the log-probability of each row's class, by the moments of z given x."""
        mean, std = self.scores(latent)
        return log_probit(mean, std, y, n_nodes=training_nodes(mean.shape[1]), n_steps=3)
