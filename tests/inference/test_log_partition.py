"""The gradient of log Z against finite differences of log Z, for every engine and every kind of parameter."""

import jax
import jax.numpy as jnp
import pytest
from numpy.testing import assert_allclose

from tests.cases import few
from tests.inference.references import assert_gradient
from tggm.gaussian import TruncatedGaussian
from tggm.inference import log_partition, mean_field
from tggm.precision import Dense, Diagonal, Layered, LowRank


def make(kind, rng):
    """Return parameters of a precision, and a function that builds it."""
    d, U = jnp.asarray(rng.uniform(0.5, 2, 6)), jnp.asarray(rng.normal(size=(2, 6)))
    blocks = [2 * jnp.eye(2), 1.5 * jnp.eye(3), jnp.asarray(rng.normal(size=(3, 2)))]
    return {
        "diagonal": ([d[:3]], Diagonal),
        "low rank": ([d, U], LowRank),
        "rank one": ([d, U[:1]], LowRank),
        "layered": (blocks, lambda a, b, c: Layered((a + a.T, b + b.T), (c,))),
        "dense": ([U[:, :2]], lambda a: Dense(a @ a.T + jnp.eye(2))),
    }[kind]


KINDS = ("diagonal", "low rank", "rank one", "layered", "dense")
CASES = [(engine, kind) for engine in ("mean_field", "ep") for kind in KINDS]
CASES += [("exact", kind) for kind in ("diagonal", "rank one", "dense")]
SLOW = (("mean_field", "rank one"), ("mean_field", "dense"), ("ep", "rank one"))
QUICK = [" ".join(case) for case in CASES if case not in SLOW]


@pytest.mark.parametrize("case", few(CASES, *QUICK, name=" ".join), ids="-".join)
def test_gradient_is_that_of_the_value(case, rng):
    engine, kind = case
    parameters, build = make(kind, rng)
    shift = jnp.asarray(rng.normal(size=(2, build(*parameters).size)))

    def value(leaves):
        *parameters, shift = leaves
        return log_partition(TruncatedGaussian(build(*parameters), shift), engine=engine).sum()

    assert_gradient(value, [*parameters, shift], rng)
    if case == ("mean_field", "low rank"):  # by shift and base it is the moments
        moments = mean_field(TruncatedGaussian(LowRank(*parameters), shift))
        gradient = jax.jit(jax.grad(value))([*parameters, shift])
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
