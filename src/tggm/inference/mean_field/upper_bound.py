r"""An upper bound on log Z of layered truncated Gaussians, by tangents to log Φ.

For layers h¹ … h^L with energy Σ_l ‖h^l − u^l‖²/2s, u^{l+1} linear in h^l, integrate the last layer first:

.. math::
    \int_{h \ge 0} e^{-\|h - u\|^2 / 2s + c^T h}\,dh = \prod_k \sqrt{2\pi s}\,
        e^{c_k u_k + s c_k^2/2}\, \Phi\big((u_k + s c_k)/\sqrt s\big),

whose logarithm is concave in u. Its tangent at any point is above it, linear in the layer below, and adds to
that layer's c. So every choice of tangents bounds log Z from above, and the best choice is a convex problem.
Where it is stationary, the means m of the tilted layers satisfy

.. math:: \theta = \gamma - (P - I/s)\, m, \qquad m_k = E[N_T(s\,\theta_k, s)],

which is mean field's equation with I/s in the place of diag P: the same Newton method finds it (its Hessian
diag(1/v) + P − I/s is at least P), and log Z ≤ Σ A_k(θ_k) + ½ mᵀ(P − I/s) m there.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference.factors import require_half_line
from tggm.inference.log_partition import log_partition
from tggm.inference.mean_field.engine import expected_energy, factor_moments
from tggm.inference.mean_field.newton import newton
from tggm.precision import Layered
from tggm.precision.protocol import Factor, pytree
from tggm.products import full_precision

GUARD = 0.1  # nats a variable


@pytree("inner", "base")
@dataclass(frozen=True, eq=False)
class Split:
    """The matrix `inner`, whose "diagonal" is the smaller one `base`; what is left is off-diagonal."""

    inner: Layered
    base: Array  # (m,)

    @property
    def size(self) -> int:
        """Number of variables."""
        return self.inner.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating dtype."""
        return self.inner.dtype

    def diagonal(self) -> Array:
        """The base."""
        return self.base

    def off_diagonal(self, v: Array) -> Array:
        """P v less base times v."""
        return self.inner.off_diagonal(v) + v * (self.inner.diagonal() - self.base)[None, :]

    def factor(self, extra: Array) -> Factor:
        """P + diag(extra)."""
        return self.inner.factor(extra)

    def dense(self) -> Array:
        """P."""
        return self.inner.dense()


@full_precision
def upper_bound(tg: TruncatedGaussian, s: Array, *, start: Array, max_iter: Array) -> Array:
    """The bound for each row, differentiable in shift and precision.

    Parameters
    ----------
    tg : TruncatedGaussian
        Rows with a `Layered` precision that comes from an energy Σ_l ‖h^l − u^l‖²/2s, all truncated.
    s : Array
        The variance s of that energy.
    start : Array, shape (rows, m)
        Means to start from.
    max_iter : Array
        Most Newton steps.
    """
    fixed = jax.tree.map(lax.stop_gradient, tg)
    found = lax.stop_gradient(upper_moments(fixed, s, start, max_iter))
    energy = expected_energy(tg, found.mean, jnp.zeros_like(found.mean))
    assert found.log_z is not None
    value: Array = found.log_z + energy - lax.stop_gradient(energy)
    return value


def upper_moments(tg: TruncatedGaussian, s: Array, start: Array, max_iter: Array) -> Moments:
    """Tilted means and the bound itself."""
    if not isinstance(tg.precision, Layered):
        raise TypeError(f"`tg` must have a Layered precision; got {type(tg.precision).__name__}.")
    require_half_line(tg, "upper_moments", "There is no upper bound for boxes; use `orthant`.")
    split = Split(tg.precision, jnp.ones(tg.size, tg.shift.dtype) / s)
    joined: Any = TruncatedGaussian(split, tg.shift, tg.truncated)
    state = newton(joined, tg.shift - split.off_diagonal(start), max_iter)
    return factor_moments(joined, state.point.theta, state.done, state.n_iter)


def guarded_log_z(tg: TruncatedGaussian, s: Array, *, start: Array, max_iter: Array) -> Array:
    """Mean field's lower bound, but at most `GUARD` nats a variable below the upper bound; differentiable.

    A model whose likelihood subtracts mean field's log Z of its prior can increase it without limit by making
    that prior hard to approximate. Guarded, the likelihood is exceeded by a stated number of nats at most.
    """
    lower = log_partition(tg, engine="mean_field", start=start, max_iter=max_iter)
    upper = upper_bound(tg, s, start=start, max_iter=max_iter)
    return jnp.maximum(lower, upper - GUARD * tg.size)
