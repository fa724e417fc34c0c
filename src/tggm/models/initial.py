"""Starting points for training, drawn with NumPy so that nothing is compiled for them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

NARROW = 16  # inputs up to which a model may start far from a linear one
Draw = Callable[[np.random.Generator, int, int, int, float], tuple[NDArray[np.float64], ...]]


def _paper(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """Every weight and bias N(0, 0.01), as the paper draws them."""
    return tuple(0.1 * rng.standard_normal(shape) for shape in ((m, d), (m,), (n, m), (n,)))


def _scaled(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """Locations of unit size in units of σ0, outputs of unit size, for inputs of unit variance.

    W0 ~ N(0, s0 / d), b0 ~ N(0, s0), W1 ~ N(0, 1 / (m s0)), b1 = 0: the same model in every gauge.
    """
    sigma0 = np.sqrt(s0)
    W0 = sigma0 * rng.standard_normal((m, d)) / np.sqrt(d)
    b0 = sigma0 * rng.standard_normal(m)
    W1 = rng.standard_normal((n, m)) / np.sqrt(m) / sigma0
    return W0, b0, W1, np.zeros(n)


def _sharp(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """Weights three times those of "scaled": units that bend within the data, for targets with little noise.

    The held-out likelihood was better on four of five UCI sets (experiments/tune.py, --init-scale). In many
    dimensions rows are far apart and nothing tells such a start what lies between them: beyond `NARROW`
    inputs it falls as 1/d (experiments/wide.py).
    """
    W0, b0, W1, b1 = _scaled(rng, d, m, n, s0)
    factor = 3 * min(1.0, NARROW / d)
    return factor * W0, b0, factor * W1, b1


def _small(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """A tenth of the weights of "scaled": the model starts almost linear and bends where the data ask for it.

    The validation likelihood of text was better (experiments/text.py, --init-scale).
    """
    W0, b0, W1, b1 = _scaled(rng, d, m, n, s0)
    return 0.1 * W0, b0, 0.1 * W1, b1


INITIALISERS: dict[str, Draw] = {"scaled": _scaled, "sharp": _sharp, "small": _small, "paper": _paper}
