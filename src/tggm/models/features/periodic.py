r"""Each column by itself and a few learned waves of it.

.. math:: \psi_j(x) = [\,\tilde x_j,\ \sum_k E_{jik} \cos 2\pi(c_{jk} \tilde x_j + \varphi_{jk})\,]_i

with x̃ as in `columns`. Only locations depend on ψ: all that is exact without features is exact with them.
"""

from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm import formulas
from tggm.models.features.base import Features
from tggm.models.features.columns import MOST, bounded
from tggm.models.part import Zeros, part

N_WAVES = 8  # of a column
N_SUMS = 3  # of its waves
FREQUENCY = 0.3  # deviation of the frequencies that training starts from
AMPLITUDE = 0.5  # of the weights of waves: their sums have unit variance

TERMS = {"float32": 6, "float64": 11}  # of the series of a sine, as good as rounding


@part
class Periodic(Features):
    """Columns and sums of waves of them."""

    c: Array  # (d, N_WAVES) frequencies
    phi: Array  # (d, N_WAVES) phases, in turns
    E: Array  # (d, N_SUMS, N_WAVES) weights of the waves in each sum

    linear: ClassVar = False
    most: ClassVar = MOST

    def __call__(self, X: Any) -> Any:
        """x̃, then the sums column by column, (rows, d + d N_SUMS)."""
        x = self.inputs(X)
        waves = cos_turns(x[:, :, None] * self.c[None] + self.phi[None])
        sums = jnp.einsum("bdk,dik->bdi", waves, self.E)
        return jnp.concatenate([x, sums.reshape(len(x), -1)], axis=1)

    def inputs(self, X: Any) -> Any:
        """x̃."""
        return bounded(X)

    @classmethod
    def width(cls, n_inputs: int) -> int:
        """A column and its sums."""
        return n_inputs * (1 + N_SUMS)

    @classmethod
    def draw(cls, rng: np.random.Generator, n_inputs: int) -> Self:
        """Frequencies N(0, 0.3²), phases uniform, sums of unit variance."""
        c = FREQUENCY * rng.standard_normal((n_inputs, N_WAVES))
        phi = rng.random((n_inputs, N_WAVES))
        E = AMPLITUDE * rng.standard_normal((n_inputs, N_SUMS, N_WAVES))
        return cls(c, phi, E)  # type: ignore[arg-type]  # NumPy until training

    @classmethod
    def template(cls, zeros: Zeros, n_inputs: int) -> Self:
        """c, φ and E."""
        waves = (n_inputs, N_WAVES)
        return cls(zeros(*waves), zeros(*waves), zeros(n_inputs, N_SUMS, N_WAVES))


def cos_turns(t: Array) -> Array:
    """Return cos 2πt, accurate to rounding."""
    return formulas.cos_turns(jnp, t, TERMS[str(t.dtype)])
