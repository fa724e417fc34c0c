"""Parameters of models with several hidden layers, §4.2 of Su et al. (2016), and where they start.

With layers h¹ … h^L, all nonnegative, and u¹ = W0 x + b0, u^{l+1} = W^l h^l + b^l,

    directed      p(h | x) = Π_l N_T(h^l | u^l, s0 I)             each layer normalised given the one below
    undirected    p(h | x) ∝ Π_l exp(−‖h^l − u^l‖² / 2 s0)         one joint truncated Gaussian, the paper's

and y = W1 h^L + b1 + ε. The two differ by the factors Φ(u^l / σ0), l > 1, that the directed model divides by.

σ0² = s0 is the same for every layer and a gauge, as in the shallow model: scaling the variables of a layer,
with the weights into and out of it and its own variance, changes nothing. The noise of the output is kept
apart. (The paper's supplement gives hidden layers and output one variance.)
"""

from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.models.initial import INITIALISERS
from tggm.models.shallow import Shallow


class Directed(NamedTuple):
    """Parameters of a directed deep model: those of a shallow one, then what is between hidden layers."""

    W0: Array  # (m_1, d)
    b0: Array  # (m_1,)
    W1: Array  # (n, m_L)
    b1: Array  # (n,)
    log_noise: Array  # (n,)
    W: tuple[Array, ...]  # W^l, (m_{l+1}, m_l)
    b: tuple[Array, ...]  # b^l, (m_{l+1},)

    def weight_norm(self) -> Array:
        """½ Σ‖W‖² over all weights."""
        return weight_norm(self)


class Undirected(NamedTuple):
    """Parameters of an undirected deep model, named as in `Directed`."""

    W0: Array
    b0: Array
    W1: Array
    b1: Array
    log_noise: Array
    W: tuple[Array, ...]
    b: tuple[Array, ...]

    def weight_norm(self) -> Array:
        """½ Σ‖W‖² over all weights."""
        return weight_norm(self)


Deep = Directed | Undirected
FORMS: dict[str, type[Directed] | type[Undirected]] = {"directed": Directed, "undirected": Undirected}


def weight_norm(params: Deep) -> Array:
    """½ Σ‖W‖², what weight decay penalises; biases and noise are free."""
    squares = [(w**2).sum() for w in (params.W0, params.W1, *params.W)]
    return 0.5 * jnp.stack(squares).sum()


def shallow(params: Deep) -> Shallow:
    """First layer and output as a shallow model; the whole model where there is one hidden layer."""
    return Shallow(*params[:5])


def initial_deep(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    *,
    form: str = "directed",
    s0: float = 1.0,
    noise: Any = 0.5,
    init: str = "scaled",
) -> Deep:
    """Draw the parameters of one model.

    First layer and output are drawn as those of a shallow model. Weights between hidden layers are N(0, 1/m),
    so that locations keep their size from layer to layer, in every gauge ("paper": N(0, 0.01), biases too).

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    sizes : tuple of int
        Numbers of inputs, of units in each hidden layer, and of outputs.
    form : {"directed", "undirected"}
        Which model.
    s0, noise, init
        As in `initial_parameters`.
    """
    d, *hidden, n = sizes
    W0, b0, _, _ = INITIALISERS[init](rng, d, hidden[0], n, s0)
    _, _, W1, b1 = INITIALISERS[init](rng, d, hidden[-1], n, s0)
    W, b = [], []
    for below, above in pairwise(hidden):
        scale = 0.1 if init == "paper" else 1 / np.sqrt(below)
        W.append(scale * rng.standard_normal((above, below)))
        b.append(scale * rng.standard_normal(above) if init == "paper" else np.zeros(above))
    log_noise = np.log(np.broadcast_to(np.asarray(noise, np.float64), (n,)))
    return FORMS[form](W0, b0, W1, b1, log_noise, tuple(W), tuple(b))  # type: ignore[arg-type]  # NumPy until training
