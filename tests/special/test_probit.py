import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from tggm.special.probit import (
    class_grid,
    default_nodes,
    grid_length,
    log_probit,
    log_probit_all,
    own_class,
    probit_all,
    table_sums,
)
from tggm.special.probit_sums import sums

FIRST = jnp.zeros(1, jnp.int32)


def rivals(n, margin, kind):
    """The cases of tools/precompute/probit_accuracy.py; the class in question is the first."""
    mean = np.zeros(n) if kind == "equal" else np.linspace(-2, 0, n).round(1)
    std = np.ones(n) if kind == "equal" else np.where(np.arange(n) % 2, 3.0, 1.0)
    std[0] = 1.0 if kind == "equal" else 2.0
    mean[0] = margin
    return jnp.asarray(mean)[None], jnp.asarray(std)[None]


# mpmath, 30 digits: tools/precompute/probit_accuracy.py
CASES = [
    (3, -30, "equal", -307.00220796112717),
    (3, -30, "unequal", -96.33210422086744),
    (3, 0, "equal", -1.0986122886681098),
    (3, 0, "unequal", -0.957575156799342),
    (10, -30, "equal", -424.73557855171975),
    (10, -30, "unequal", -112.82150214074102),
    (10, -3, "equal", -10.14172187543531),
    (10, -3, "unequal", -4.4663193171832525),
    (10, 3, "equal", -0.10259940021402919),
    (10, 3, "unequal", -0.6182249268154821),
    (100, -30, "equal", -499.3553229875246),
    (100, -30, "unequal", -138.127000059319),
    (100, 0, "equal", -4.605170185988092),
    (100, 0, "unequal", -5.039734565628164),
    (100, 10, "equal", -7.599025791217699e-11),
    (100, 10, "unequal", -0.050919071425783474),
    (1000, -30, "equal", -534.46876010488023),
    (1000, -3, "unequal", -15.782671202848789),
    (1000, 0, "equal", -6.9077552789821371),
    (1000, 10, "unequal", -0.25303723627384154),
]
# 10 and 1,000 classes lie on both sides of `MANY`, where code differs; others are further numbers
FURTHER = pytest.mark.slow
LITERALS = [case if case[0] in (10, 1000) else pytest.param(*case, marks=FURTHER) for case in CASES]


@pytest.mark.parametrize(("n", "margin", "kind", "expected"), LITERALS)
def test_log_probit_literals(n, margin, kind, expected):
    mean, std = rivals(n, margin, kind)
    assert_allclose(log_probit(mean, std, FIRST)[0], expected, rtol=0, atol=1e-8)
    single = log_probit(mean.astype(jnp.float32), std.astype(jnp.float32), FIRST)[0]
    assert single.dtype == jnp.float32
    assert_allclose(single, expected, rtol=2e-7, atol=2e-6)


def test_two_classes_are_the_binary_probit(rng):
    mean, std = 20 * rng.standard_normal((50, 2)), rng.uniform(0.5, 3, (50, 2))
    label = rng.integers(0, 2, 50)
    rows = np.arange(50)
    margin = (mean[rows, label] - mean[rows, 1 - label]) / np.sqrt((std**2).sum(1))
    expected = special.log_ndtr(margin)
    assert_allclose(log_probit(*map(jnp.asarray, (mean, std, label))), expected, rtol=1e-9, atol=1e-9)
    both = log_probit_all(jnp.asarray(mean), jnp.asarray(std), n_nodes=192)
    assert_allclose(np.asarray(both)[rows, label], expected, rtol=1e-7, atol=1e-9)


def test_equal_classes_share_alike():
    for n in (10, 1000):  # shapes of the literals
        mean, std = np.full((1, n), 3.7), np.full((1, n), 0.3)
        assert_allclose(log_probit(mean, std, FIRST), -np.log(n), rtol=1e-9)


both = jax.jit(jax.value_and_grad(lambda *given: log_probit(*given).sum(), argnums=(0, 1)))


def test_mean_of_the_winner_is_the_mean_plus_the_gradient(rng):
    """E[z | class c] = η + ∇ log P_c(η) for unit variances: simulation, five standard errors."""
    eta = np.array([[0.5, -0.3, 1.0, 0.0]])
    z = eta + rng.standard_normal((400_000, 4))
    winner = z.argmax(1)
    for c in range(4):
        log_p, (gradient, _) = both(eta, np.ones_like(eta), np.array([c], np.int32))
        drawn = z[winner == c]
        error = drawn.std(0) / np.sqrt(len(drawn))
        assert np.all(np.abs(drawn.mean(0) - (eta + np.asarray(gradient))[0]) < 5 * error)
        assert_allclose(np.log(len(drawn) / len(z)), log_p, atol=0.02)


def scores(rng, size, dtype=np.float64):
    """Means, deviations and labels of 40 rows and 6 classes: one shape for many tests."""
    mean = (size * rng.standard_normal((40, 6))).astype(dtype)
    return mean, rng.uniform(0.5, 2, (40, 6)).astype(dtype), rng.integers(0, 6, 40).astype(np.int32)


def test_gradients_are_those_of_the_values(rng):
    mean, std, label = scores(rng, 4)
    got = [np.asarray(g) for g in both(mean, std, label)[1]]
    ways = [rng.standard_normal(mean.shape) for _ in range(2)]
    ends = [both(mean + e * ways[0], std + e * ways[1], label)[0] for e in (1e-5, -1e-5)]
    slope = sum(np.vdot(g, w) for g, w in zip(got, ways, strict=True))
    assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-7)
    assert_allclose(got[0].sum(1), 0, atol=1e-9)  # only differences matter


@pytest.mark.parametrize("size", [1e2, 1e4, 1e6])
def test_finite_everywhere(rng, dtype, size):
    mean, _, label = scores(rng, size, dtype)
    std = rng.uniform(0.1, 10, (40, 6)).astype(dtype)
    value, gradient = both(mean, std, label)
    assert np.isfinite(value)
    assert np.isfinite(gradient[0]).all()
    assert np.isfinite(gradient[1]).all()
    assert np.isfinite(log_probit_all(mean, std)).all()
    if size == 1e2:
        p, log_p = probit_all(mean, std, n_nodes=512), log_probit_all(mean, std, n_nodes=512)
        assert_allclose(p, np.exp(log_p), rtol=2e-3, atol=1e-30)


def test_all_classes_agree_with_one_at_a_time(rng):
    mean, std, _ = scores(rng, 3)
    table = np.asarray(log_probit_all(mean, std, n_nodes=512))
    assert float(grid_length(mean, std).max()) / 512 < 0.4
    for c in range(6):
        label = np.full(40, c, np.int32)
        assert_allclose(table[:, c], log_probit(mean, std, label), rtol=1e-6, atol=1e-7)
    assert_allclose(np.exp(table).sum(1), 1, rtol=1e-12)
    assert_allclose(probit_all(mean, std, n_nodes=512), np.exp(table), rtol=1e-9)
    order = rng.permutation(6)
    assert_allclose(log_probit_all(mean[:, order], std[:, order], n_nodes=512), table[:, order], rtol=1e-9)


def test_probability_rises_with_its_own_mean():
    mean = jnp.asarray(np.linspace(-40, 40, 81)[:, None] * np.eye(4)[:1])
    value = np.asarray(log_probit(mean, jnp.ones_like(mean), jnp.zeros(81, jnp.int32)))
    assert np.all(np.diff(value) > -1e-10)
    assert np.all(value <= 0)


def test_nodes_grow_with_the_number_of_classes():
    assert default_nodes(2, "float32") < default_nodes(10, "float32") < default_nodes(10, "float64")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_node_by_node_is_the_table_of_nodes(rng, dtype):
    """Both ways to sum over nodes, for scores that are near each other and far apart; also derivatives."""
    mean = (rng.standard_normal((6, 30)) * np.array([[0.0, 1, 2, 3, 5, 10]]).T).astype(dtype)
    std = rng.uniform(0.5, 3, (6, 30)).astype(dtype)

    @jax.jit
    def both_ways(mean, std):
        own = own_class(mean, jnp.asarray([3, 0, 7, 29, 12, 5]))
        t, _ = class_grid(mean, std, own, 40, 6)
        return sums(mean, std, own, t), table_sums(mean, std, own, t)

    off = {"float32": 1e-3, "float64": 1e-11}[dtype]  # logarithms of size 1,000 are rounded
    for a, b in zip(*both_ways(mean, std), strict=True):
        assert a.dtype == dtype
        assert_allclose(a, b, rtol=off, atol=off)


def test_derivatives_among_many_classes(rng):
    """Central differences, and rows of probabilities that sum to one."""
    mean, std = 2 * rng.standard_normal((2, 120)), rng.uniform(1, 2, (2, 120))
    label = jnp.asarray([int(mean[0].argmax()), 5])

    @jax.jit
    def values_and_slopes(mean, std):
        value, back = jax.vjp(lambda m, s: log_probit(m, s, label), mean, std)
        return value, back(jnp.ones(2))

    def value(mean, std):
        return np.asarray(values_and_slopes(mean, std)[0])

    slopes = [np.asarray(slope) for slope in values_and_slopes(mean, std)[1]]
    assert_allclose(slopes[0].sum(1), 0, atol=1e-8)  # all may be moved alike
    for k in (0, 5):
        step = 1e-4 * (np.arange(120) == k)[None]
        by_mean = (value(mean + step, std) - value(mean - step, std)) / 2e-4
        by_std = (value(mean, std + step) - value(mean, std - step)) / 2e-4
        assert_allclose(slopes[0][:, k], by_mean, atol=1e-7)
        assert_allclose(slopes[1][:, k], by_std, atol=1e-7)
