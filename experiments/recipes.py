"""Generated tables: what depends on what is known, so a model can be right or wrong about it.

A recipe makes inputs and targets from a number of rows and a generator of random numbers.
"""

from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3

Generator = np.random.Generator
Columns = tuple[np.ndarray, np.ndarray]


def _seed(rng: Generator) -> int:
    """For functions that know no generator."""
    return int(rng.integers(2**31))


def friedman1(n: int, rng: Generator) -> Columns:
    return make_friedman1(n, noise=1.0, random_state=_seed(rng))


def friedman2(n: int, rng: Generator) -> Columns:
    return make_friedman2(n, noise=125.0, random_state=_seed(rng))  # Friedman (1991): signal to noise 3 : 1


def friedman3(n: int, rng: Generator) -> Columns:
    return make_friedman3(n, noise=0.1, random_state=_seed(rng))


def linear(n: int, rng: Generator) -> Columns:
    """All of 100 columns, as in wide.py, with a target of unit size: ridge regression errs by 0.06."""
    X = rng.standard_normal((n, 100))
    return X, X @ rng.standard_normal(100) / 10 + 0.05 * rng.standard_normal(n)


def wide(n: int, rng: Generator) -> Columns:
    """Two of 200 columns, as in wide.py."""
    X = rng.standard_normal((n, 200))
    return X, X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.standard_normal(n)


def noise(n: int, rng: Generator) -> Columns:
    return rng.standard_normal((n, 10)), rng.standard_normal(n)


def heavy(n: int, rng: Generator) -> Columns:
    """Friedman's first function with errors whose variance is infinite."""
    X, y = make_friedman1(n, noise=0.0, random_state=_seed(rng))
    return X, y + rng.standard_t(2, n)


def prices(n: int, rng: Generator) -> Columns:
    """Positive targets over five orders of magnitude: log-normal given the inputs."""
    X = rng.standard_normal((n, 6))
    location = 5 + 1.8 * X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3]
    return X, np.exp(location + 0.5 * rng.standard_normal(n))


RECIPES: dict[str, tuple[Callable[[int, Generator], Columns], int]] = {  # name -> recipe, training rows
    "wide": (wide, 20),
    "linear": (linear, 300),
    "friedman1": (friedman1, 500),
    "friedman2": (friedman2, 500),
    "friedman3": (friedman3, 500),
    "noise": (noise, 500),
    "heavy": (heavy, 500),
    "prices": (prices, 500),
}
