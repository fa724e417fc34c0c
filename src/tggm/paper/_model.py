r"""The paper's models: hidden units, training objectives, and the random weights that training starts from.

    p(y | x) = ∫ p(y | h) p(h | x) dh,  h ≥ 0

A model is a `tggm.models.Model` without features and linear part. Its likelihood is `Gaussian`, p(y | h) =
N(y | W1 h + b1, diag(s1)), §2, or `Probit`: z = W1 h + b1 + ε, ε ~ N(0, I), class = argmax z, §4.1.

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

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm import inference
from tggm.gaussian import TruncatedGaussian
from tggm.models import Directed, Gaussian, Identity, Latent, Model, Network, Output, Probit, Shallow, part
from tggm.models.layers import LOG_2PI, propagate, stack_parts, training_nodes
from tggm.precision import Diagonal, Layered, LowRank
from tggm.runtime import compute_after, full_precision
from tggm.special.probit import Expansion, expand_factorised, expand_probit, log_probit
from tggm.training import Rows

START_NODES = 7  # quadrature nodes of the means from which mean field of undirected layers starts
MAX_ITER = 30  # Newton steps or EP sweeps of a training step


@part
class OneLayer(Shallow):
    """One hidden layer of independent units, which has an exact prior."""

    @full_precision
    def gaussian(self, X: Any, U: Array | None = None, pull: Array | None = None) -> TruncatedGaussian:
        """Return the units given x, with UᵀU added to the precision and `pull` to the shift.

        P = I/s0 + UᵀU, γ = (W0 x + b0)/s0 + pull. The paper prints P0 = σ0² I; a precision is 1/σ0².
        """
        shift = (X @ self.W0.T + self.b0[None, :]) / self.gauge
        base = jnp.full_like(self.b0, 1.0) / self.gauge
        P = Diagonal(base) if U is None else LowRank(base, U)
        return TruncatedGaussian(P, shift if pull is None else shift + pull)

    def start(self, X: Any) -> None:
        """Return no starting point: the prior of one layer needs no inference."""


@dataclass(frozen=True)
class Inferred(Latent):
    """Moments of the last units of a truncated Gaussian, by inference."""

    gaussian: TruncatedGaussian
    engine: str
    start: Array

    def covariance(self, W: Array) -> tuple[Array, Array]:
        return inference.linear_moments(self.gaussian, W, engine=self.engine, start=self.start)


@part
class UndirectedLayers(Directed):
    """Several hidden layers as one joint truncated Gaussian; outputs depend on the last."""

    @full_precision
    def gaussian(self, X: Any, U: Array | None = None, pull: Array | None = None) -> TruncatedGaussian:
        """Return all layers given x, with UᵀU and `pull` added to precision and shift of the last layer.

        The supplement divides the output's blocks by σ0² too; the output's own variance is correct.
        """
        s0, dtype = self.gauge, self.W0.dtype
        blocks = [(jnp.eye(W.shape[1], dtype=dtype) + W.T @ W) / s0 for W in self.W]
        blocks.append(jnp.eye(len(self.b[-1]), dtype=dtype) / s0)
        if U is not None:
            blocks[-1] = blocks[-1] + U.T @ U
        own = (X @ self.W0.T + self.b0[None, :], *(b[None, :] for b in self.b))
        back = (*(b @ W for W, b in zip(self.W, self.b, strict=True)), jnp.zeros_like(self.b[-1]))
        parts = [(u - v[None, :]) / s0 for u, v in zip(own, back, strict=True)]
        if pull is not None:
            parts[-1] = parts[-1] + pull
        shift = jnp.concatenate([jnp.broadcast_to(p, (len(own[0]), p.shape[1])) for p in parts], axis=1)
        return TruncatedGaussian(Layered(tuple(blocks), tuple(-W / s0 for W in self.W)), shift)

    def start(self, X: Any) -> Array:
        """Return the means of the directed model with these weights, as a starting point for mean field."""
        layers = propagate(lax.stop_gradient(self), X, START_NODES)
        return jnp.concatenate([layer.mean for layer in layers], axis=1)

    def moments(self, psi: Any, engine: str = "mean_field") -> Inferred:  # type: ignore[override]  # joint
        """Return moments of the last layer by inference."""
        return Inferred(self.gaussian(psi), engine, self.start(psi))


DEEP: dict[str, type[Directed]] = {"undirected": UndirectedLayers, "directed": Directed}
ENGINES = {"meanfield": "mean_field", "ep": "ep"}  # by method


def latent(model: Model, X: Any, engine: str = "mean_field") -> Latent:
    """Return moments of the last hidden units given x; `engine` matters for undirected layers only."""
    hidden = model.hidden
    return hidden.moments(X, engine) if isinstance(hidden, UndirectedLayers) else hidden.moments(X)


def mean(model: Model, X: Any) -> Array:
    """Return E[W1 h + b1 | x], (rows, n), differentiable; for undirected layers by mean field."""
    hidden, output = model.hidden, model.likelihood.output
    if isinstance(hidden, UndirectedLayers):
        return inference.linear_mean(hidden.gaussian(X), output.W1, hidden.start(X)) + output.b1[None, :]
    return output.of(hidden.moments(X).variances(output.W1)[0])


@dataclass(frozen=True)
class Objective:
    """The objective of `tggm.training.train`, one number per row; equal objects share a compiled program.

    - "bp": the log-density for squared error, or cross-entropy, of E[y | x]: the paper's TGGM-BP;
    - "moments": that of the Gaussian with mean and covariance of y given x; for classes, of their scores;
    - "meanfield", and "ep" of a regression: log p(y | x) as a difference of log Z, TGGM-ML. The gradient of
      log Z is the engine's moments: gradient ascent is the paper's EM with a gradient M-step;
    - "exact": log p(y | x) of one output of one layer by Fourier inversion.

    Mean field bounds the posterior's log Z from below. In an undirected deep model log Z of the prior is
    approximated, too, and their difference is not a bound. `prior` sets where mean field of the prior starts:
    from the start of the posterior ("same"), or from the posterior's means, as the paper advises
    ("posterior"). It matters only for few cycles.
    """

    method: str
    solver: str = "newton"  # of mean field; "cyclic" is the paper's Algorithm 1
    cycles: tuple[int, int] = (10, 10)  # of the cyclic solver, at the first and at the last step
    prior: str = "same"
    factorised: bool = False  # whether q(z) of a class is a product over classes, as in the supplement

    def __call__(self, model: Model, rows: Rows, progress: Array) -> Array:
        """Return the objective of each row; `progress` is the completed part of training, 0 to 1."""
        if self.method == "bp":
            return by_mean(model, rows)
        if self.method == "moments":
            return model.likelihood.log_density(rows.y, latent(model, rows.X))
        if self.method == "exact":
            return by_density(model, rows)
        first, last = self.cycles
        cycles = jnp.round(first + progress * (last - first)).astype(jnp.int32)
        number = isinstance(model.likelihood, Gaussian)
        return self._regression(model, rows, cycles) if number else self._classification(model, rows, cycles)

    def score(self, model: Model, rows: Rows) -> Array:
        """Return the objective of held-out rows; after EM of classes and several layers, that by moments."""
        shallow = isinstance(model.hidden, OneLayer) and isinstance(model.likelihood, Gaussian)
        if self.method not in ENGINES or shallow:
            return self(model, rows, jnp.zeros(()))
        with jax.default_matmul_precision("highest"):
            return model.likelihood.log_density(rows.y, latent(model, rows.X, ENGINES[self.method]))

    def penalty(self, model: Model) -> Array:
        """Return ½‖W‖², which weight decay multiplies."""
        return model.weight_norm()

    @full_precision
    def _regression(self, model: Any, rows: Rows, cycles: Array) -> Array:
        r"""Return the log-likelihood as a difference of log-partition functions (§3.1).

        .. math::
            \log p(y|x) = \log Z(P, \gamma) - \log Z(P_0, \gamma_0)
                - \tfrac12 \sum_j \log 2\pi s_{1j} - \tfrac12 \sum_j (y_j - b_{1j})^2 / s_{1j}

        with (P, γ) the posterior, whose P has UᵀU and whose γ has Uᵀ(y − b1)/σ1 added, U = W1/σ1.
        """
        hidden, output, log_noise = model.hidden, model.likelihood.output, model.likelihood.log_noise
        root = jnp.exp(-0.5 * log_noise)
        U, residual = output.W1 * root[:, None], rows.y - output.b1[None, :]
        prior, start = hidden.gaussian(rows.X), hidden.start(rows.X)
        posterior = hidden.gaussian(rows.X, U, (residual * root[None, :]) @ U)
        squares = residual**2 * jnp.exp(-log_noise)[None, :]
        constant = 0.5 * (squares + log_noise[None, :] + LOG_2PI).sum(-1)
        value, means = self._log_z(posterior, start, cycles), None
        if start is not None and self.solver == "cyclic" and self.prior == "posterior":
            means = inference.cyclic_moments(lax.stop_gradient(posterior), start, cycles).mean
        return value - self._prior_log_z(prior, value, start, means, cycles) - constant

    @full_precision
    def _classification(self, model: Model, rows: Rows, cycles: Array) -> Array:
        """Return the log-likelihood of each row's class from log Z of units and scores together.

        Off the diagonal the precision of units and scores has −W1ᵀT⁻¹; the paper prints −W1ᵀ.
        """
        hidden: Any = model.hidden
        W1, b1, label = model.likelihood.output.W1, model.likelihood.output.b1, rows.y
        prior, start = hidden.gaussian(rows.X), hidden.start(rows.X)
        begin = lax.stop_gradient(hidden.moments(rows.X).covariance(W1)[0]) if start is None else start

        def expansion(eta: Array) -> Expansion:
            """Expand the log-probability S_c(η) of the class, or its bound."""
            if self.factorised:
                return expand_factorised(eta, label, n_steps=6)
            return expand_probit(eta, label, n_nodes=training_nodes(eta.shape[1]), n_steps=3)

        value, means = inference.class_mean_field(
            hidden.gaussian(rows.X, W1), W1, b1, expansion, start=begin, solver=self.solver,
            steps=jnp.int32(MAX_ITER) if self.solver == "newton" else cycles,
        )  # fmt: skip
        # Newton's solution does not depend on the start
        near = self.solver == "newton" or self.prior == "posterior"
        return value - self._prior_log_z(prior, value, start, means if near else None, cycles)

    def _log_z(self, tg: TruncatedGaussian, start: Array | None, cycles: Array) -> Array:
        return inference.log_partition(
            tg, engine=ENGINES[self.method], solver=self.solver, n_cycles=cycles, max_iter=MAX_ITER,
            start=start,
        )  # fmt: skip

    def _prior_log_z(
        self, prior: TruncatedGaussian, after: Array, start: Array | None, means: Array | None, cycles: Array
    ) -> Array:
        """Return log Z of the prior, computed after `after`, from `means` where they are given."""
        if start is None:  # one layer: independent units, in closed form
            return self._log_z(prior, None, cycles)
        start = start if means is None else lax.stop_gradient(means)
        return self._log_z(compute_after(prior, after), start, cycles)


def by_mean(model: Model, rows: Rows) -> Array:
    """Return log N(y | E[y | x], diag(s1)), or the class's log-probability under unit noise: TGGM-BP."""
    found, likelihood = mean(model, rows.X), model.likelihood
    if not isinstance(likelihood, Gaussian):
        nodes = training_nodes(found.shape[1])
        return log_probit(found, jnp.ones_like(found), rows.y, n_nodes=nodes, n_steps=3)
    log_v = likelihood.log_noise[None, :]
    return -0.5 * ((rows.y - found) ** 2 * jnp.exp(-log_v) + log_v + LOG_2PI).sum(-1)


@full_precision
def by_density(model: Any, rows: Rows) -> Array:
    """Return the exact log-density of one output of one layer, y = b1 + Σ w h + ε, by Fourier inversion."""
    hidden, likelihood = model.hidden, model.likelihood
    alpha = (rows.X @ hidden.W0.T + hidden.b0[None, :]) / jnp.sqrt(hidden.gauge)
    coef = jnp.broadcast_to(jnp.sqrt(hidden.gauge) * likelihood.output.W1, alpha.shape)
    noise = jnp.broadcast_to(jnp.exp(likelihood.log_noise), alpha.shape[:1])
    return inference.log_density(inference.Sum(alpha, coef, noise), rows.y[:, 0] - likelihood.output.b1[0])


@jax.jit
@full_precision
def subtract_unit_variance(members: Model, X: Any) -> Model:
    """Subtract the units' mean variance from a noise that was learned by back-propagation.

    Back-propagation treats exp(log_noise) as the whole variance v of y given x. At least v / 100 remains.
    """

    def one(model: Any) -> Model:
        likelihood = model.likelihood
        _, share = latent(model, X).variances(likelihood.output.W1)
        v = jnp.exp(likelihood.log_noise)
        log_noise = jnp.log(jnp.maximum(v - share.mean(0), 0.01 * v))
        return replace(model, likelihood=replace(likelihood, log_noise=log_noise))

    return jax.vmap(one)(members)


def draw_members(
    rng: np.random.Generator, count: int, n_inputs: int, layers: tuple[int, ...], n_outputs: int, deep: str,
    *, s0: float, noise: Any, init: str, dtype: Any,
) -> Model:  # fmt: skip
    """Draw `count` models as one with a leading axis, NumPy arrays; `noise` is None for classes."""
    likelihood = Probit if noise is None else Gaussian
    if init == "paper":
        drawn = [_draw_paper(rng, n_inputs, layers, n_outputs, s0, likelihood) for _ in range(count)]
        model = stack_parts(drawn, dtype)
    else:
        network = Network(layers, Identity, Directed, likelihood, linear=False)
        model = network.draw(rng, n_inputs, n_outputs, members=count, dtype=dtype, s0=s0, init=init)
    kind = OneLayer if len(layers) == 1 else DEEP[deep]
    likelihood = model.likelihood
    if noise is not None:
        log_noise = np.log(np.broadcast_to(np.asarray(noise, np.float64), (count, n_outputs)))
        likelihood = replace(likelihood, log_noise=log_noise.astype(dtype))
    return Model(model.features, kind(**vars(model.hidden)), likelihood)


def _draw_paper(
    rng: np.random.Generator, d: int, layers: tuple[int, ...], n: int, s0: float, likelihood: Any
) -> Model:
    """Draw every weight and bias from N(0, 0.01), as the paper does."""

    def draw(*shape: int) -> Any:
        return 0.1 * rng.standard_normal(shape)

    sizes = layers if len(layers) == 1 else (layers[0], layers[-1])
    ends = [(draw(m, d), draw(m), draw(n, m), draw(n)) for m in sizes]
    (W0, b0, _, _), (_, _, W1, b1) = ends[0], ends[-1]
    W, b = [], []
    for below, above in pairwise(layers):
        W.append(draw(above, below))
        b.append(draw(above))
    gauge: Any = np.asarray(s0)
    hidden = Directed(W0, b0, tuple(W), tuple(b), gauge) if W else Shallow(W0, b0, gauge)
    return Model(Identity(), hidden, likelihood.draw(Output(W1, b1)))
