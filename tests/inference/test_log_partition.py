"""The gradient of log Z against finite differences of log Z, for every engine and every kind of parameter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cases import few
from tggm.gaussian import TruncatedGaussian
from tggm.inference import log_partition, mean_field
from tggm.precision import Dense, Diagonal, Layered, LowRank

RNG = np.random.default_rng(7)


def make(kind):
    if kind == "diagonal":
        return (jnp.asarray(RNG.uniform(0.5, 2, 3)),), lambda d: Diagonal(d), 3
    if kind == "low rank":
        return (jnp.asarray(RNG.uniform(0.5, 2, 6)), jnp.asarray(RNG.normal(size=(2, 6)))), LowRank, 6
    if kind == "rank one":
        return (jnp.asarray(RNG.uniform(0.5, 2, 6)), jnp.asarray(RNG.normal(size=(1, 6)))), LowRank, 6
    if kind == "layered":
        blocks = (4 * jnp.eye(2), 3 * jnp.eye(3), jnp.asarray(RNG.normal(size=(3, 2))))
        return blocks, lambda a, b, c: Layered((a, b), (c,)), 5
    A = jnp.asarray(RNG.normal(size=(3, 3)))
    return (A,), lambda a: Dense(a @ a.T + jnp.eye(3)), 3


# every engine with what models have, low rank and layers; gradients of quadrature: exact/test_engine.py
QUICK = ("mean_field diagonal", "mean_field low rank", "mean_field layered", "exact diagonal")
QUICK += ("ep diagonal", "ep low rank", "ep layered", "ep dense")
CASES = [
    ("mean_field", "diagonal"),
    ("mean_field", "low rank"),
    ("mean_field", "rank one"),
    ("mean_field", "layered"),
    ("mean_field", "dense"),
    ("ep", "diagonal"),
    ("ep", "low rank"),
    ("ep", "rank one"),
    ("ep", "layered"),
    ("ep", "dense"),
    ("exact", "diagonal"),
    ("exact", "rank one"),
    ("exact", "dense"),
]


@pytest.mark.parametrize("case", few(CASES, *QUICK, name=" ".join), ids="-".join)
def test_gradient_is_that_of_the_value(case):
    engine, kind = case
    parameters, build, m = make(kind)
    shift = jnp.asarray(RNG.normal(size=(2, m)))

    leaves, tree = jax.tree.flatten((parameters, shift))

    @jax.jit
    @jax.value_and_grad
    def both(leaves):
        parameters, shift = jax.tree.unflatten(tree, leaves)
        return log_partition(TruncatedGaussian(build(*parameters), shift), engine=engine).sum()

    gradient = both(leaves)[1]
    step = 1e-5
    for i in range(len(leaves)):
        # a symmetric direction where the parameter is a square block
        direction = jnp.asarray(RNG.normal(size=leaves[i].shape))
        if kind == "layered" and direction.shape[0] == direction.shape[1]:
            direction = direction + direction.T
        moved = [both([*leaves[:i], leaves[i] + s * direction, *leaves[i + 1 :]])[0] for s in (step, -step)]
        assert_allclose(
            (gradient[i] * direction).sum(), (moved[0] - moved[1]) / (2 * step), rtol=1e-6, atol=1e-6
        )
    if case == ("mean_field", "low rank"):  # by shift and base it is the moments
        moments = mean_field(TruncatedGaussian(LowRank(*parameters), shift))
        assert_allclose(gradient[2], moments.mean, rtol=1e-9)
        assert_allclose(gradient[0], -0.5 * (moments.mean**2 + moments.var).sum(0), rtol=1e-9)


def test_leading_axes_and_bad_engines(rng):
    tg = TruncatedGaussian(Diagonal([1.0, 2.0]), rng.normal(size=(3, 4, 2)))
    assert log_partition(tg, engine="exact").shape == (3, 4)
    assert_allclose(log_partition(tg, engine="ep"), log_partition(tg, engine="exact"), rtol=1e-9)
    with pytest.raises(ValueError, match="`engine` must be one of"):
        log_partition(tg, engine="laplace")
    with pytest.raises(ValueError, match="`solver` must be one of"):
        log_partition(tg, engine="mean_field", solver="gauss")
