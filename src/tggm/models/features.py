r"""Feature maps ψ(x): what the first hidden layer sees of the inputs.

Periodic features are each column and a few learned waves of it,

.. math:: \psi_j(x) = [\,\tilde x_j,\ \sum_k E_{jik} \cos 2\pi(c_{jk} \tilde x_j + \varphi_{jk})\,]_i,

where x̃ is x within four deviations of the mean and grows logarithmically beyond. Only the locations of the
units depend on ψ: formulas that are exact without features are exact with them.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm import formulas
from tggm.models._part import part

N_WAVES = 8  # of a column
N_SUMS = 3  # of its waves
FREQUENCY = 0.3  # deviation of the frequencies at the start of training
AMPLITUDE = 0.5  # of the weights of waves: their sums have unit variance
TERMS = {"float32": 6, "float64": 11}  # of the series of a sine, accurate to rounding


class Features(ABC):
    """ψ(x), a map of the inputs."""

    linear: ClassVar[bool]  # whether standardisation may be folded into the weights of the first layer
    most: ClassVar[float] = np.inf  # inputs of larger size may be cut off here

    @abstractmethod
    def __call__(self, X: Any) -> Any:
        """Return ψ of each row: something with a product ``@`` with matrices."""

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
        """Return the inputs."""
        return X


@part
class Bounded(Features):
    """ψ(x) = x̃."""

    linear: ClassVar = False
    most: ClassVar = formulas.MOST_INPUT

    def __call__(self, X: Any) -> Any:
        """Return x̃."""
        return bounded(X)

    def inputs(self, X: Any) -> Any:
        """Return x̃."""
        return bounded(X)


@part
class Periodic(Features):
    """Columns and sums of waves of them."""

    c: Array  # (d, N_WAVES) frequencies
    phi: Array  # (d, N_WAVES) phases, in turns
    E: Array  # (d, N_SUMS, N_WAVES) weights of the waves in each sum

    linear: ClassVar = False
    most: ClassVar = formulas.MOST_INPUT

    def __call__(self, X: Any) -> Any:
        """Return x̃, then the sums column by column, (rows, d + d N_SUMS)."""
        x = self.inputs(X)
        turns = x[:, :, None] * self.c[None] + self.phi[None]
        waves = formulas.cos_turns(jnp, turns, TERMS[str(turns.dtype)])
        sums = jnp.einsum("bdk,dik->bdi", waves, self.E)
        return jnp.concatenate([x, sums.reshape(len(x), -1)], axis=1)

    def inputs(self, X: Any) -> Any:
        """Return x̃."""
        return bounded(X)

    @classmethod
    def width(cls, n_inputs: int) -> int:
        """Return the number of columns and sums."""
        return n_inputs * (1 + N_SUMS)

    @classmethod
    def draw(cls, rng: np.random.Generator, n_inputs: int) -> Self:
        """Draw frequencies N(0, 0.3²), uniform phases, and sums of unit variance."""
        c = FREQUENCY * rng.standard_normal((n_inputs, N_WAVES))
        phi = rng.random((n_inputs, N_WAVES))
        E = AMPLITUDE * rng.standard_normal((n_inputs, N_SUMS, N_WAVES))
        return cls(c, phi, E)  # type: ignore[arg-type]  # NumPy until training


FEATURES: dict[str | None, type[Features]] = {None: Identity, "bounded": Bounded, "periodic": Periodic}


def bounded(X: Any) -> Any:
    """Return `formulas.bounded` of NumPy or JAX arrays."""
    return formulas.bounded(np if isinstance(X, np.ndarray) else jnp, X)
