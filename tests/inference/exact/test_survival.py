"""Tail probabilities against sums over a grid of latent variables, derivatives against differences."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from scipy.special import log_ndtr
from scipy.stats import norm

from tggm.inference.exact.saddle import Sum
from tggm.inference.exact.survival import log_tail

ALPHA = np.array([[0.5, -1.0], [2.0, 0.3], [0.5, -1.0], [0.1, -3.0]])
COEF = np.array([[1.0, -0.7], [0.4, 0.8], [1.0, -0.7], [-0.5, 2.0]])
NOISE = np.array([0.3, 0.5, 0.3, 0.2])
Y = np.array([0.2, 4.0, -2.5, -6.0])
SIDE = np.array([1.0, 1.0, -1.0, 1.0])


NORMAL = np.array([-3.0, 0.5, 30.0])  # three rows without latent variables


@jax.jit
def tails(sums, y, side):
    """The tail of each row, and the gradient of their sum: one program for all tests."""

    def total(sums, y):
        values = log_tail(sums, y, side)
        return values.sum(), values

    (_, values), gradient = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(sums, y)
    return values, gradient


def rows():
    none = np.zeros((3, 2))
    sums = Sum(*map(jnp.asarray, (np.r_[ALPHA, none], np.r_[COEF, none], np.r_[NOISE, np.ones(3)])))
    return sums, jnp.asarray(np.r_[Y, NORMAL]), jnp.asarray(np.r_[SIDE, np.ones(3)])


def by_grid(i):
    line = np.arange(0.005, 9, 0.01)
    h = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    w = np.exp(-0.5 * ((h - ALPHA[i]) ** 2).sum(1))
    z = SIDE[i] * (h @ COEF[i] - Y[i]) / np.sqrt(NOISE[i])
    return np.log((w / w.sum()) @ norm.cdf(z))


def test_values():
    found = tails(*rows())[0][:4]
    assert_allclose(found, [by_grid(i) for i in range(4)], rtol=2e-5, atol=1e-10)  # the midpoint rule's error


def test_gradient():
    sums, y, side = rows()
    grad = tails(sums, y, side)[1]
    rng = np.random.default_rng(0)
    for _ in range(3):
        d = jax.tree.map(lambda a: jnp.asarray(rng.standard_normal(a.shape)), (sums, y))
        moved = [jax.tree.map(lambda a, b, t=t: a + t * b, (sums, y), d) for t in (1e-5, -1e-5)]
        up, down = (tails(*there, side)[0].sum() for there in moved)
        dot = sum(float((g * b).sum()) for g, b in zip(*map(jax.tree.leaves, (grad, d)), strict=True))
        assert_allclose(dot, (up - down) / 2e-5, rtol=1e-7, atol=1e-7)


def test_without_latents_it_is_the_normal_tail():
    assert_allclose(tails(*rows())[0][4:], log_ndtr(-NORMAL), rtol=1e-9)
