"""Newton's method where its safeguards are needed, and its linear systems."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.gaussian import TruncatedGaussian
from tggm.inference import mean_field
from tggm.inference.mean_field.newton import solve
from tggm.precision import Dense, Diagonal, Layered, LowRank


@pytest.mark.parametrize("times", [10, 100])
def test_strong_layers_converge_in_few_steps(times):
    """Weights of scale 3, shifts of scale 10 and 100: 34 and 43 steps.

    Steps judged by the derivative along them take 55 and 61. Accepting every step takes 31 in the first case
    and never ends on a third of the rows in the second.
    """
    rng = np.random.default_rng(2)
    W = 3 * rng.normal(size=(50, 50))
    P = Layered([np.eye(50) + W.T @ W, np.eye(50)], [-W])
    assert mean_field(TruncatedGaussian(P, times * rng.normal(size=(16, 100))), max_iter=50).converged.all()


def precisions(rng):
    U, W = rng.normal(size=(2, 6)), rng.normal(size=(3, 3))
    yield Diagonal(rng.uniform(0.5, 2, 6))
    yield LowRank(rng.uniform(0.5, 2, 6), U)
    yield Layered([np.eye(3) + W.T @ W, np.eye(3)], [-W])
    yield Dense(np.eye(6) + U.T @ U)


def test_systems_are_solved(rng):
    """By whichever method, with the curvature of a term and without."""
    extra, r, A = rng.uniform(0, 2, (4, 6)), rng.normal(size=(4, 6)), rng.normal(size=(2, 6))
    for P in precisions(rng):
        tg = TruncatedGaussian(P, r)
        for bend, less in ((None, 0), (lambda x: -(x @ A.T) @ A, -A.T @ A)):
            H = np.asarray(P.dense()) + np.stack([np.diag(e) for e in extra]) - less
            got = jax.jit(solve, static_argnums=3)(tg, extra, r, bend)
            assert_allclose(got, np.linalg.solve(H, r[:, :, None])[:, :, 0], rtol=1e-6, atol=1e-6)
