"""Compute the moments of the outputs of all members with NumPy or ndonnx arrays, without compiling.

`Network` holds the arrays of a model. The formulas are those of `tggm.formulas`. Arrays have the axes
(members, rows, units); `xp` is the namespace, numpy or ndonnx.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from tggm import formulas
from tggm.arrays import Floats
from tggm.special.coefficients import FITS

Array = Any  # of the namespace
SQRT_2PI = 2.5066282746310002
FAR = 1e8  # beyond it g and ω² equal their limits
# standard deviations at which a normal density is negligible, and the spacing of nodes in units of the
# smallest deviation of a row: class probabilities above e^-50 have a relative error below 1e-6
REACH, SPACING = {"float32": 5.0, "float64": 6.5}, {"float32": 0.6, "float64": 0.4}
MIN_NODES, MAX_NODES = 24, 2000
BOUNDED = {"Identity": False, "Bounded": True, "Periodic": True}  # by the class of a model file


def _dtype(array: Array) -> str:
    """Return the name of the precision: single of NumPy, else double."""
    return "float32" if array.dtype == np.float32 else "float64"


def _fit(name: str, t: Array) -> tuple[Array, Array]:
    """Return the polynomial of a fit, and 1 / (t + c), a power of which multiplies it."""
    start, c, coefficients = FITS[_dtype(t)][name]
    w = 1.0 / (t + c)
    u = 1.0 - 2 * (c + start) * w
    p = u * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        p *= u  # in place: a new array takes longer than the operation
        p += coefficient
    return p, w


def _fold(xp: Any, a: Array) -> tuple[Array, Array, Array]:
    """Return the mask where the fits hold, their argument t, and g where they hold and r elsewhere."""
    left = a < -FITS[_dtype(a)]["mean"][0]
    t = xp.where(left, -a, a)
    p, w = _fit("mean", t)
    R = xp.minimum(t + p * w, FAR)
    E = xp.exp(xp.minimum(t, FAR) ** 2 * -0.5)
    return left, t, xp.where(left, p * w, E * R / (R * SQRT_2PI - E))


def unit_moments(xp: Any, a: Array) -> tuple[Array, Array]:
    """Return g(a) and ω²(a), the mean and variance of N(a, 1) given h ≥ 0 (see `tggm.special.kernels`)."""
    left, t, q = _fold(xp, a)
    g = xp.where(left, q, a + q)
    p, w = _fit("var", t)
    return g, xp.where(left, p * w * w, 1.0 - q * xp.minimum(g, FAR))


def unit_mean(xp: Any, a: Array) -> Array:
    """Return g(a) alone, in half of the time."""
    left, _, q = _fold(xp, a)
    return xp.where(left, q, a + q)


def log_ndtr(xp: Any, a: Array) -> Array:
    """Return log Φ(a); 0 for a > 9."""
    near = xp.minimum(a, 9.0)
    left, _, q = _fold(xp, near)
    hazard = xp.where(left, q - near, q)
    return xp.where(a > 9.0, 0.0, near * near * -0.5 - xp.log(hazard * SQRT_2PI))


def erfc(xp: Any, x: Array) -> Array:
    """Return the complementary error function."""
    return 2 * xp.exp(log_ndtr(xp, x * -np.sqrt(2.0)))


@dataclass(frozen=True)
class Network:
    """Hold the arrays of all members, K on the leading axis."""

    bounded: bool
    waves: tuple[Floats, Floats, Floats] | None  # c, φ (K, d, waves) and E (K, d, sums, waves) if periodic
    W: tuple[Array, ...]  # (K, m', m) of each hidden layer, the first one over the features
    b: tuple[Array, ...]  # (K, m')
    s0: Floats  # (K,)
    W1: Floats  # (K, n, m)
    b1: Floats  # (K, n)
    A: Floats | None  # (K, n, d), the linear part
    noise: Floats | None  # (K, n), of a regressor

    @classmethod
    def of(cls, arrays: Mapping[str, Any], features: str) -> "Network":
        """Return the network with the arrays of a `Model`, by their names there."""
        depth = sum(name.startswith("hidden.W.") for name in arrays)
        noise = arrays.get("likelihood.log_noise")
        waves: Any = tuple(arrays[f"features.{x}"] for x in ("c", "phi", "E") if f"features.{x}" in arrays)
        return cls(
            BOUNDED[features], waves or None,
            (arrays["hidden.W0"], *(arrays[f"hidden.W.{i}"] for i in range(depth))),
            (arrays["hidden.b0"], *(arrays[f"hidden.b.{i}"] for i in range(depth))), arrays["hidden.s0"],
            arrays["likelihood.output.W1"], arrays["likelihood.output.b1"],
            arrays.get("likelihood.output.A"), None if noise is None else np.exp(noise),
        )  # fmt: skip

    def outputs(self, xp: Any, Z: Array, *, variances: bool = True) -> "Outputs":
        """Return the moments of the linear outputs for standardised inputs, (rows, d).

        Without `variances`, only those of the layers below the last are computed.
        """

        def averages(alpha: Array, spread: Array) -> formulas.Triple:
            if variances or len(layers) < len(self.W) - 1:
                return formulas.unit_averages(weights, formulas.unit_nodes(moments, places, alpha, spread))
            nodes: Any = [unit_mean(xp, alpha + spread * place) for place in places]
            zero: Any = 0.0
            return formulas.weighted_sum(weights, nodes), zero, zero

        x = formulas.bounded(xp, Z) if self.bounded else Z
        s0 = xp.asarray(self.s0[:, None, None])
        moments = partial(unit_moments, xp)
        places, weights = formulas.gauss_hermite(formulas.N_NODES)
        g, omega2 = moments(self._locations(xp, x) / xp.sqrt(s0))
        layers = [formulas.LayerMoments(g * xp.sqrt(s0), omega2 * s0, xp.ones_like(g), omega2 * s0)]
        for W, b in zip(self.W[1:], self.b[1:], strict=True):
            layers.append(formulas.layer_above(xp, W, b, s0, layers[-1], averages))
        h = layers[-1].mean
        mean = h @ self.W1.mT + self.b1[:, None, :]
        if self.A is not None:
            mean = mean + x @ self.A.mT
        if not variances:
            return Outputs(xp, mean, [], h)
        J: Array = self.W1[:, :, None, :]
        parts = [(J, layers[-1].own[:, None, ...])]
        for level in reversed(range(1, len(layers))):
            J = (layers[level].slope[:, None, ...] * J) @ self.W[level][:, None]
            parts.append((J, layers[level - 1].own[:, None, ...]))
        return Outputs(xp, mean, parts, h)

    def variances(self, outputs: "Outputs") -> tuple[Array, ...]:
        """Return means and variances of numeric outputs, with noise."""
        assert self.noise is not None
        return outputs.mean, outputs.variances() + self.noise[:, None, :]

    def layer(self, outputs: "Outputs") -> tuple[Array, ...]:
        """Return means of the outputs, and E[h] · |W1| of the last layer."""
        return outputs.mean, outputs.last * np.sqrt((self.W1**2).sum(1))[:, None, :]

    def _locations(self, xp: Any, x: Array) -> Array:
        """Return W0 ψ(x) + b0, (K, rows, m)."""
        W, d = self.W[0], x.shape[1]
        location = x @ W[:, :, :d].mT + self.b[0][:, None, :]
        if self.waves is None:
            return location
        c, phi, _ = self.waves
        turns = x[..., None] * c[:, None] + phi[:, None]
        waves = formulas.cos_turns(xp, turns, formulas.COSINE_TERMS[_dtype(turns)])
        return location + xp.reshape(waves, (len(W), -1, self._of_waves.shape[1])) @ self._of_waves

    @cached_property
    def _of_waves(self) -> Array:
        """Return the product of the first layer's weights and the sums of waves, (K, waves, m)."""
        assert self.waves is not None
        W, E = self.W[0], self.waves[2]
        d, sums = E.shape[1:3]
        joined = np.einsum("kmdi,kdiw->kdwm", W[:, :, d:].reshape(len(W), -1, d, sums), E, optimize=True)
        return joined.reshape(len(W), -1, W.shape[1])


class Outputs(NamedTuple):
    """Moments of the linear outputs given x, without noise."""

    xp: Any
    mean: Array  # (K, rows, n)
    parts: list[tuple[Array, Array]]  # by layer: sensitivities (K, n, rows, m), variances (K, 1, rows, m)
    last: Array  # means of the units of the last layer, (K, rows, m)

    def variances(self) -> Array:
        """Return the variance of each output, (K, rows, n)."""
        return sum(self.xp.sum(J**2 * own, axis=-1) for J, own in self.parts).mT

    def products(self, weight: Array) -> Array:
        """Return the covariance of the outputs times weights of each row, (K, rows, n)."""
        xp, by_output = self.xp, weight.mT[..., None]
        total = 0.0
        for J, own in self.parts:
            pulled = xp.sum(by_output * J, axis=1, keepdims=True) * own
            total = total + xp.sum(J * pulled, axis=-1)
        return total.mT  # type: ignore[attr-defined]  # an array: there is at least one part

    def places(self, projection: Floats) -> Array:
        """Return the places of the rows, see `tggm.predictive.neighbors`."""
        return self.xp.sum(self.last @ self.xp.asarray(np.asarray(projection, np.float64)), axis=0)

    def scores(self) -> tuple[Array, Array]:
        """Return means and deviations of the scores of classes as independent normals, (K, rows, n) each."""
        xp = self.xp
        return self.mean, formulas.contended_std(
            xp, partial(erfc, xp), self.mean, self.variances(), self.products
        )


def class_log_mixture(xp: Any, mean: Array, std: Array, n_nodes: int) -> Array:
    """Return log-probabilities of the mixture of members, (rows, n), from the moments of their scores.

    Two classes have a closed form. With more, a row whose scores are farther apart than the grid reaches has
    its least probable classes cut off.
    """
    if mean.shape[-1] == 2:
        margin = (mean[..., 0:1] - mean[..., 1:2]) / xp.sqrt(xp.sum(std**2, axis=-1, keepdims=True))
        log_p = log_ndtr(xp, xp.concat([margin, -margin], axis=-1))
    else:
        reach, spacing = REACH[_dtype(mean)], SPACING[_dtype(mean)]
        low, high = formulas.class_reach(xp, mean, std, reach)
        lead = xp.max(mean - reach * std, axis=-1)
        nearest = high - xp.min(std, axis=-1) * (n_nodes * spacing)
        low = xp.maximum(low, xp.minimum(lead, nearest))
        step = (high - low)[..., None] / (n_nodes - 1)
        t: Array = low[..., None] + step * xp.arange(n_nodes, dtype=mean.dtype)[None, None, :]
        x = (t[..., None, :] - mean[..., :, None]) / std[..., :, None]  # one grid for all classes of a row
        log_cdf = log_ndtr(xp, x)
        log_pdf = -0.5 * x * x - (xp.log(std) + formulas.LOG_ROOT_2PI)[..., :, None]
        others = xp.sum(log_cdf, axis=-2, keepdims=True) - log_cdf
        log_p = formulas.log_sum(xp, others + log_pdf)[..., 0]
        log_p = log_p - formulas.log_sum(xp, log_p)
    mixed = formulas.log_sum(xp, log_p, 0)[0, ...]
    return mixed - formulas.log_sum(xp, mixed)


def nodes_needed(mean: Array, std: Array) -> Array:
    """Return the number of nodes that is sufficient for each member and row, (K, rows); 1 for two classes."""
    if mean.shape[-1] == 2:
        return np.ones(mean.shape[:-1])
    with np.errstate(all="ignore"):  # scores that are not finite
        low, high = formulas.class_reach(np, mean, std, REACH[_dtype(mean)])
        return np.ceil((high - low) / std.min(-1) / SPACING[_dtype(mean)])


def class_log_probabilities(mean: Floats, std: Floats) -> Floats:
    """Return `class_log_mixture` of NumPy arrays, on one grid that is sufficient for these rows."""
    needed = nodes_needed(mean, std).max(initial=0.0)
    return class_log_mixture(np, mean, std, int(np.clip(needed, MIN_NODES, MAX_NODES)))
