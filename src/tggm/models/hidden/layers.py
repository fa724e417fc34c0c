"""Weights and biases of several hidden layers, §4.2 of Su et al. (2016), and where they start.

σ0² = s0 is the same for every layer and a gauge, as in one layer: scaling the variables of a layer, with the
weights into and out of it and its own variance, changes nothing. The noise of the output is kept apart. (The
paper's supplement gives hidden layers and output one variance.)
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from jax import Array, lax

from tggm.models.hidden.base import Hidden
from tggm.models.template import Zeros


@dataclass(frozen=True, eq=False)
class Layers(Hidden):
    """What directed and undirected models consist of; abstract."""

    W0: Array  # (m_1, d)
    b0: Array  # (m_1,)
    W: tuple[Array, ...]  # W^l, (m_{l+1}, m_l)
    b: tuple[Array, ...]  # b^l, (m_{l+1},)
    s0: Array  # ()

    by_moments: ClassVar = True

    @property
    def gauge(self) -> Array:
        """s0."""
        return lax.stop_gradient(self.s0)

    @classmethod
    def draw(
        cls, rng: np.random.Generator, ends: Any, s0: float, layers: tuple[int, ...], **own: Any
    ) -> Self:
        """Weights between layers are N(0, 1/m): locations keep their size. "paper": all N(0, 0.01)."""
        W, b = [], []
        for below, above in pairwise(layers):
            paper = own["init"] == "paper"
            scale = 0.1 if paper else 1 / np.sqrt(below)
            W.append(scale * rng.standard_normal((above, below)))
            b.append(scale * rng.standard_normal(above) if paper else np.zeros(above))
        return cls(ends[0], ends[1], tuple(W), tuple(b), np.asarray(s0))  # type: ignore[arg-type]  # NumPy until training

    @classmethod
    def template(cls, zeros: Zeros, width: int, layers: tuple[int, ...], lateral: int) -> Self:
        """All layers."""
        between = [(zeros(above, below), zeros(above)) for below, above in pairwise(layers)]
        W, b = zip(*between, strict=True)
        return cls(zeros(layers[0], width), zeros(layers[0]), W, b, zeros())
