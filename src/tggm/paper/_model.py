r"""The paper's models: hidden units, outputs, and the random weights that training starts from.

    p(y | x) = ∫ p(y | h) p(h | x) dh,  h ≥ 0

One layer (§2): p(h | x) = N_T(h | W0 x + b0, s0 I), independent units, so that all moments are exact.
Several layers (§4.2): u¹ = W0 x + b0, u^{l+1} = W^l h^l + b^l, and either

- undirected, the paper's model: p(h | x) ∝ exp(−Σ_l ‖h^l − u^l‖² / 2 s0), one joint truncated Gaussian whose
  precision matrix is block tridiagonal,

.. math::
    A_l = (I + W^{lT} W^l) / s_0 \;\; (A_L = I / s_0), \qquad B_l = -W^l / s_0, \qquad
    \gamma^l = (b^{l-1} - W^{lT} b^l) / s_0 \;\; (b^{0} = W_0 x + b_0,\; \gamma^L = b^{L-1} / s_0);

- directed: Π_l N_T(h^l | u^l, s0 I), which divides by the factors Φ(u^l / σ0), l > 1; its moments are
  propagated from layer to layer.

σ0² = s0 sets a scale and is not learned: scaling W0 and b0 by c, s0 by c² and W1 by 1/c does not change
p(y | x).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm import formulas
from tggm.arrays import Floats
from tggm.gaussian import TruncatedGaussian
from tggm.inference import Sum, linear_mean, linear_moments, log_density
from tggm.matmul_precision import full_precision
from tggm.models import part
from tggm.models.layers import (
    LOG_2PI,
    Independent,
    Latent,
    Propagated,
    gaussian_log_density,
    propagate,
    training_nodes,
    unit_moments,
)
from tggm.paper._inference import Inference
from tggm.precision import Diagonal, Layered, LowRank
from tggm.special.probit import log_probit

TRAINING_NODES = 3  # quadrature nodes of a directed model, in training and in predictions
START_NODES = 7  # quadrature nodes where means are computed once: starting points, shares of the variance


@part
class OneLayer:
    """One hidden layer of m independent units over d inputs."""

    W0: Array  # (m, d)
    b0: Array  # (m,)
    s0: Array  # ()

    independent: ClassVar = True  # given x, so that densities of outputs are exact
    between: ClassVar[list[tuple[Array, Array]]] = []  # weights and biases between layers

    @property
    def gauge(self) -> Array:
        """Return s0, not differentiated."""
        return lax.stop_gradient(self.s0)

    def locations(self, X: Any) -> Array:
        """Return W0 x + b0 for each row, (rows, m)."""
        located: Array = X @ self.W0.T + self.b0[None, :]
        return located

    def standard(self, X: Any) -> Array:
        """Return (W0 x + b0) / σ0, (rows, m)."""
        return self.locations(X) / jnp.sqrt(self.gauge)

    def moments(self, X: Any, inference: Inference, nodes: int = TRAINING_NODES) -> Independent:
        """Return E[h | x] = σ0 g(α) and Var[h | x] = s0 ω²(α), exact."""
        g, omega2 = unit_moments(self.standard(X))
        return Independent(jnp.sqrt(self.gauge) * g, self.gauge * omega2)

    def mean(self, X: Any, W: Array, inference: Inference) -> Array:
        """Return W E[h | x], (rows, n)."""
        return self.moments(X, inference).mean @ W.T

    @full_precision
    def gaussian(self, X: Any, U: Array | None = None, pull: Array | None = None) -> TruncatedGaussian:
        """Return the units given x, with UᵀU added to the precision and `pull` to the shift.

        P = I/s0 + UᵀU, γ = (W0 x + b0)/s0 + pull. The paper prints P0 = σ0² I; a precision is 1/σ0².
        """
        shift = self.locations(X) / self.gauge
        base = jnp.full_like(self.b0, 1.0) / self.gauge
        if pull is not None:
            shift = shift + pull
        return TruncatedGaussian(Diagonal(base) if U is None else LowRank(base, U), shift)

    def start(self, X: Any) -> None:
        """Return no starting point: the prior of one layer needs no inference."""


@dataclass(frozen=True, eq=False)
class _Layers:
    """Weights and biases of several hidden layers; abstract."""

    W0: Array  # (m_1, d)
    b0: Array  # (m_1,)
    W: tuple[Array, ...]  # W^l, (m_{l+1}, m_l)
    b: tuple[Array, ...]  # b^l, (m_{l+1},)
    s0: Array  # ()

    independent: ClassVar = False

    @property
    def between(self) -> list[tuple[Array, Array]]:
        """Return the weights and biases from each layer to the next."""
        return list(zip(self.W, self.b, strict=True))

    @property
    def gauge(self) -> Array:
        """Return s0, not differentiated."""
        return lax.stop_gradient(self.s0)


@part
class UndirectedLayers(_Layers):
    """Several hidden layers as one joint truncated Gaussian; outputs depend on the last."""

    @full_precision
    def gaussian(self, X: Any, U: Array | None = None, pull: Array | None = None) -> TruncatedGaussian:
        """Return all layers given x, with UᵀU and `pull` added to precision and shift of the last layer.

        The supplement divides the output's blocks by σ0² too; they belong to the output's own variance.
        """
        shift = self._shift(X)
        if pull is not None:
            shift = shift + jnp.pad(pull, [(0, 0), (shift.shape[1] - pull.shape[1], 0)])
        return TruncatedGaussian(self._precision(U), shift)

    def start(self, X: Any) -> Array:
        """Return the means of the directed model with these weights, as a starting point for mean field."""
        fixed: UndirectedLayers = lax.stop_gradient(self)
        layers = propagate(fixed, X, START_NODES)  # type: ignore[arg-type]  # has the same arrays
        return jnp.concatenate([layer.mean for layer in layers], axis=1)

    def moments(self, X: Any, inference: Inference, nodes: int = TRAINING_NODES) -> "Inferred":
        """Return moments of the last layer by inference."""
        return Inferred(self.gaussian(X), inference, self.start(X))

    def mean(self, X: Any, W: Array, inference: Inference) -> Array:
        """Return W E[h^L | x] by mean field, (rows, n), differentiable."""
        return linear_mean(self.gaussian(X), W, self.start(X))

    def _precision(self, U: Array | None) -> Layered:
        blocks = []
        for i, m in enumerate([len(self.b0), *map(len, self.b)]):
            A = jnp.eye(m, dtype=self.W0.dtype)
            if i < len(self.W):
                A = A + self.W[i].T @ self.W[i]
            blocks.append(A / self.gauge)
        if U is not None:
            blocks[-1] = blocks[-1] + U.T @ U
        return Layered(tuple(blocks), tuple(-W / self.gauge for W in self.W))

    def _shift(self, X: Any) -> Array:
        """Return γ of the prior, (rows, m_1 + … + m_L)."""
        biases = [X @ self.W0.T + self.b0[None, :], *(b[None, :] for b in self.b)]
        parts = []
        for i, bias in enumerate(biases):
            pull = self.b[i] @ self.W[i] if i < len(self.W) else jnp.zeros_like(bias[0])
            part = (bias - pull[None, :]) / self.gauge
            parts.append(jnp.broadcast_to(part, (biases[0].shape[0], bias.shape[1])))
        return jnp.concatenate(parts, axis=1)


class Inferred(Latent):
    """Moments of the last units of a truncated Gaussian, by inference."""

    def __init__(self, tg: TruncatedGaussian, inference: Inference, start: Array) -> None:
        self._tg, self._inference, self._start = tg, inference, start

    def covariance(self, W: Array) -> tuple[Array, Array]:
        """Return E[h], (rows, m), and Cov[W h], (rows, n, n)."""
        return linear_moments(self._tg, W, engine=self._inference.engine, start=self._start)


Inferable = OneLayer | UndirectedLayers  # one joint truncated Gaussian


@part
class DirectedLayers(_Layers):
    """Several hidden layers, each a truncated Gaussian given the one below."""

    def moments(self, X: Any, inference: Inference, nodes: int = TRAINING_NODES) -> Propagated:
        """Return moments of the last layer by propagation."""
        return Propagated(propagate(self, X, nodes), self.W)  # type: ignore[arg-type]  # has the same arrays

    def mean(self, X: Any, W: Array, inference: Inference) -> Array:
        """Return W E[h^L | x], (rows, n)."""
        layers = propagate(self, X, TRAINING_NODES)  # type: ignore[arg-type]  # has the same arrays
        return layers[-1].mean @ W.T


Hidden = OneLayer | UndirectedLayers | DirectedLayers
DEEP: dict[str, type[UndirectedLayers] | type[DirectedLayers]] = {
    "undirected": UndirectedLayers,
    "directed": DirectedLayers,
}


@part
class GaussianOutput:
    """p(y | h) = N(y | W1 h + b1, diag(s1)), §2."""

    W1: Array  # (n, m)
    b1: Array  # (n,)
    log_noise: Array  # (n,) log s1

    numeric: ClassVar = True

    def of(self, h: Array) -> Array:
        """Return W1 h + b1 for each row, (rows, n)."""
        return h @ self.W1.T + self.b1[None, :]

    def moments(self, latent: Latent) -> tuple[Array, Array]:
        """Return mean and covariance of y: W1 E[h] + b1, W1 Cov[h] W1ᵀ + diag(s1).

        The paper's Σ_{y|x} lacks the transpose.
        """
        h, cov = latent.covariance(self.W1)
        return self.of(h), cov + jnp.diag(jnp.exp(self.log_noise))[None]

    def variances(self, latent: Latent) -> tuple[Array, Array]:
        """Return mean and variance of each output, (rows, n) each."""
        h, var = latent.variances(self.W1)
        return self.of(h), var + jnp.exp(self.log_noise)[None, :]

    def by_moments(self, y: Array, latent: Latent) -> Array:
        """Return the log-density of the Gaussian with the first two moments of p(y | x)."""
        return gaussian_log_density(y, *self.moments(latent))

    def by_mean(self, y: Array, mean: Array) -> Array:
        """Return log N(y | mean, diag(v)), v = exp(log_noise) for all rows: squared errors, TGGM-BP."""
        log_v = self.log_noise[None, :]
        return -0.5 * ((y - mean) ** 2 * jnp.exp(-log_v) + log_v + LOG_2PI).sum(-1)

    def by_inference(self, y: Array, hidden: Inferable, X: Any, inference: Inference) -> Array:
        r"""Return the log-likelihood of each row as a difference of log-partition functions, TGGM-ML (§3.1).

        .. math::
            \log p(y|x) = \log Z(P, \gamma) - \log Z(P_0, \gamma_0)
                - \tfrac12 \sum_j \log 2\pi s_{1j} - \tfrac12 \sum_j (y_j - b_{1j})^2 / s_{1j}

        with (P, γ) the posterior, whose P has UᵀU and whose γ has Uᵀ(y − b1)/σ1 added, U = W1/σ1.
        """
        root = jnp.exp(-0.5 * self.log_noise)
        U = self.W1 * root[:, None]
        residual = y - self.b1[None, :]
        posterior = hidden.gaussian(X, U, (residual * root[None, :]) @ U)
        squares = residual**2 * jnp.exp(-self.log_noise)[None, :]
        constant = 0.5 * (squares + self.log_noise[None, :] + LOG_2PI).sum(-1)
        return inference.evidence(hidden.gaussian(X), posterior, hidden.start(X)) - constant

    def by_density(self, y: Array, hidden: OneLayer, X: Any) -> Array:
        """Return the exact log-density of one output, y = b1 + Σ w h + ε, by Fourier inversion."""
        alpha = hidden.standard(X)
        coef = jnp.broadcast_to(jnp.sqrt(hidden.gauge) * self.W1, alpha.shape)
        noise = jnp.broadcast_to(jnp.exp(self.log_noise), alpha.shape[:1])
        return log_density(Sum(alpha, coef, noise), y[:, 0] - self.b1[0])


@part
class ProbitOutput:
    """Classes, §4.1: z = W1 h + b1 + ε, ε ~ N(0, I), class = argmax z."""

    W1: Array  # (n, m)
    b1: Array  # (n,)

    numeric: ClassVar = False

    def of(self, h: Array) -> Array:
        """Return W1 h + b1 for each row, (rows, n)."""
        return h @ self.W1.T + self.b1[None, :]

    def by_moments(self, y: Array, latent: Latent) -> Array:
        r"""Return the log-probability of each row's class, from the moments of z given x.

        Only differences of z matter. With w̄ the mean of W1 over classes, scores are independent normals with
        variances :math:`D_j = 1 + \frac{n}{n-1} \mathrm{Var}[(w_{1,j} - \bar w)^T h \mid x]`.
        """
        n = len(self.W1)
        h, shared = latent.variances(self.W1 - self.W1.mean(0, keepdims=True))
        return self._log_probability(y, self.of(h), jnp.sqrt(1 + jnp.maximum(shared, 0.0) * (n / (n - 1))))

    def by_mean(self, y: Array, mean: Array) -> Array:
        """Return the log-probability of each row's class under unit noise around E[z | x], TGGM-BP."""
        return self._log_probability(y, mean, jnp.ones_like(mean))

    def by_inference(self, y: Array, hidden: Inferable, X: Any, inference: Inference) -> Array:
        """Return the log-likelihood of each row's class from log Z of units and scores together, TGGM-ML."""
        begin = start = hidden.start(X)
        if begin is None:
            begin = lax.stop_gradient(hidden.moments(X, inference).covariance(self.W1)[0])
        units = hidden.gaussian(X), hidden.gaussian(X, self.W1)
        return inference.class_evidence(*units, self.W1, self.b1, y, start, begin)

    def scores(self, latent: Latent) -> tuple[Array, Array]:
        """Return means and standard deviations of the scores z for predictions, (rows, n) each."""
        h, var = latent.variances(self.W1)
        mean = self.of(h)
        return mean, formulas.contended_std(jnp, lax.erfc, mean, var, lambda w: latent.products(self.W1, w))

    def _log_probability(self, label: Array, mean: Array, std: Array) -> Array:
        return log_probit(mean, std, label, n_nodes=training_nodes(mean.shape[1]), n_steps=3)


@part
class PaperModel:
    """Hidden units and outputs; members of an ensemble are one model with a leading axis on every array."""

    hidden: Hidden
    output: GaussianOutput | ProbitOutput

    @property
    def has_exact_density(self) -> bool:
        """Whether p(y | x) is a density of a sum of independent variables; else predictions use moments."""
        return self.hidden.independent and self.output.numeric

    def latent(self, X: Any, inference: Inference, nodes: int = TRAINING_NODES) -> Latent:
        """Return moments of the last hidden units given x."""
        return self.hidden.moments(X, inference, nodes)

    def mean(self, X: Any, inference: Inference) -> Array:
        """Return E[W1 h + b1 | x], (rows, n), differentiable."""
        return self.hidden.mean(X, self.output.W1, inference) + self.output.b1[None, :]

    def weight_norm(self) -> Array:
        """Return ½ Σ‖W‖² over all weight matrices."""
        squares = [(a**2).sum() for a in jax.tree.leaves(self) if a.ndim > 1]
        return 0.5 * jnp.stack(squares).sum()


def draw_members(
    rng: np.random.Generator, count: int, n_inputs: int, layers: tuple[int, ...], n_outputs: int, deep: str,
    *, s0: float, noise: Any, init: str, dtype: Any,
) -> PaperModel:  # fmt: skip
    """Draw `count` models as one with a leading axis, NumPy arrays; `noise` is None for classes."""
    drawn = []
    for _ in range(count):
        hidden, W1, b1 = _draw(rng, n_inputs, layers, n_outputs, deep, s0, init)
        if noise is None:
            drawn.append(PaperModel(hidden, ProbitOutput(W1, b1)))
        else:
            log_noise: Any = np.log(np.broadcast_to(np.asarray(noise, np.float64), b1.shape))
            drawn.append(PaperModel(hidden, GaussianOutput(W1, b1, log_noise)))
    members: PaperModel = jax.tree.map(lambda *leaves: np.stack(leaves).astype(dtype), *drawn)
    return members


def _draw(
    rng: np.random.Generator, d: int, layers: tuple[int, ...], n: int, deep: str, s0: float, init: str
) -> tuple[Hidden, Any, Any]:
    """Draw hidden units, W1 and b1; both ends of a deep model are drawn as one layer is."""
    ends = layers if len(layers) == 1 else (layers[0], layers[-1])
    parts: list[Any] = [INITIALISERS[init](rng, d, m, n, s0) for m in ends]
    (W0, b0, _, _), (_, _, W1, b1) = parts[0], parts[-1]
    gauge: Any = np.asarray(s0)
    if len(layers) == 1:
        return OneLayer(W0, b0, gauge), W1, b1
    W, b = [], []
    for below, above in pairwise(layers):
        scale = 0.1 if init == "paper" else 1 / np.sqrt(below)
        W.append(scale * rng.standard_normal((above, below)))
        b.append(scale * rng.standard_normal(above) if init == "paper" else np.zeros(above))
    between: Any = tuple(W), tuple(b)
    return DEEP[deep](W0, b0, between[0], between[1], gauge), W1, b1


Weights = tuple[Floats, ...]  # W0, b0, W1, b1


def _paper(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> Weights:
    """Draw every weight and bias from N(0, 0.01), as the paper does."""
    return tuple(0.1 * rng.standard_normal(shape) for shape in ((m, d), (m,), (n, m), (n,)))


def _scaled(rng: np.random.Generator, d: int, m: int, n: int, s0: float, factor: float = 1.0) -> Weights:
    """Draw locations of unit size in units of σ0 and outputs of unit size: the same model for every σ0.

    `factor` multiplies the weights: 3 gives units that bend within the data, 0.1 an almost linear model.
    """
    sigma0 = np.sqrt(s0)
    W0 = sigma0 * rng.standard_normal((m, d)) / np.sqrt(d)
    b0 = sigma0 * rng.standard_normal(m)
    W1 = rng.standard_normal((n, m)) / np.sqrt(m) / sigma0
    return factor * W0, b0, factor * W1, np.zeros(n)


def _sharp(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> Weights:
    """Draw weights three times as large as "scaled", fewer times for more than 16 inputs."""
    return _scaled(rng, d, m, n, s0, 3 * min(1.0, 16 / d))


INITIALISERS: dict[str, Callable[..., Weights]] = {
    "paper": _paper,
    "scaled": _scaled,
    "sharp": _sharp,
    "small": partial(_scaled, factor=0.1),
}
