import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.special import quantile

mp.mp.dps = 40
survival_quantile = jax.jit(quantile.survival_quantile)
truncated_excess = jax.jit(lambda alpha, u: quantile.truncated_excess(alpha, jnp.log(u)))


def log_survival(x):
    return mp.log(mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2)


# the reference is the equation that x solves, evaluated with 40 digits
@pytest.mark.parametrize("s", [1e-9, 1e-3, 0.3, 0.69, 0.7, 1.0, 5.0, 80.0, 649.0, 651.0, 900.0, 1e5, 1e9])
def test_survival_quantile_solves_its_equation(s):
    x = float(survival_quantile(jnp.float64(s)))
    slope = mp.npdf(x) / mp.exp(log_survival(x)) if s < 1e4 else abs(x)  # hazard
    error = (log_survival(x) + mp.mpf(s)) / slope
    assert abs(error) <= 2e-14 * max(1.0, abs(x)) + 1e-16 * s / float(slope)


def test_survival_quantile_increases_where_its_formula_changes():
    s = jnp.concatenate([jnp.linspace(a - 1e-6, a + 1e-6, 201) for a in (np.log(2), 650.0)])
    x = survival_quantile(s)
    assert bool((jnp.diff(x) > 0).all())


@pytest.mark.parametrize("alpha", [-1e6, -300.0, -38.0, -5.0, -2.0001, -1.9999, 0.0, 3.0, 40.0])
@pytest.mark.parametrize("u", [1e-12, 0.01, 0.5, 0.99])
def test_truncated_excess_solves_its_equation(alpha, u, dtype):
    a, v = dtype.type(alpha), dtype.type(u)
    h = float(truncated_excess(jnp.asarray(a), jnp.asarray(v)))
    target = log_survival(-mp.mpf(float(a))) + mp.log(mp.mpf(float(v)))
    solution = mp.findroot(lambda x: log_survival(x - mp.mpf(float(a))) - target, mp.mpf(h))
    # relative to the standard deviation, which is near 1 / |alpha| behind the wall
    scale = max(float(solution), 1 / max(1.0, -alpha))
    assert abs(h - float(solution)) <= 30 * np.finfo(dtype).eps * scale


def test_truncated_excess_far_out_is_exponential():
    u = jnp.linspace(0.01, 0.99, 99)
    t = 1e12
    assert_allclose(truncated_excess(jnp.full_like(u, -t), u) * t, -jnp.log(u), rtol=1e-12)
