"""TruncatedGaussian and Moments: arguments, errors, rows and pytrees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.precision import Dense, Diagonal, LowRank


def test_an_array_is_a_dense_precision():
    tg = TruncatedGaussian(2 * np.eye(3), np.zeros(3))
    assert isinstance(tg.precision, Dense)
    assert tg.size == 3
    assert_array_equal(tg.truncated, True)


def test_from_mean_is_shift_of_precision_times_mean(rng):
    d, U, mean = rng.uniform(1, 2, 4), rng.normal(size=(2, 4)), rng.normal(size=(3, 2, 4))
    tg = TruncatedGaussian.from_mean(LowRank(d, U), mean)
    assert tg.shift.shape == (3, 2, 4)
    assert_allclose(tg.shift, mean @ (np.diag(d) + U.T @ U), rtol=1e-12)


def test_rows_and_indexing(rng):
    shift = rng.normal(size=(3, 2, 4))
    tg = TruncatedGaussian(Diagonal(np.ones(4)), shift)
    assert len(tg) == 3
    assert_array_equal(tg.rows().shift, shift.reshape(6, 4))
    assert_array_equal(tg[1].shift, shift[1])
    assert_array_equal(tg[::-1].shift, shift[::-1])


def test_takes_the_wider_dtype():
    single = Diagonal(np.ones(2, np.float32))
    assert TruncatedGaussian(single, np.zeros(2, np.float32)).shift.dtype == np.float32
    wide = TruncatedGaussian(single, np.zeros(2))
    assert wide.shift.dtype == wide.precision.dtype == np.float64
    assert TruncatedGaussian(single, [0, 1]).shift.dtype == np.float64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.eye(3), np.zeros((2, 4))), r"`shift` must have one column per variable: .* has 3, .*\(2, 4\)"),
        ((np.eye(2), [0.0, np.nan]), r"`shift` must be finite; got nan at index \[1\]"),
        ((np.eye(2), np.zeros(2), [True]), r"`lower` as a mask must have shape \(2,\); got \(1,\)"),
        (
            (np.eye(2), np.zeros(2), [0.0, 1.0], [2.0, 1.0]),
            r"`lower` must be below `upper`; variable 1 has lower 1 and upper 1",
        ),
        (
            (np.eye(2), np.zeros(2), np.zeros(3)),
            r"`lower` must have one number per variable \(2\), or the shape \(2,\).*got shape \(3,\)",
        ),
        ((np.eye(2), 0.0), r"`shift` must have 1 axes; got shape \(\)"),
    ],
)
def test_errors_name_argument_value_remedy(arguments, message):
    with pytest.raises(ValueError, match=message):
        TruncatedGaussian(*arguments)


def test_is_a_pytree_of_precision_shift_and_mask(rng):
    P = LowRank(np.ones(3), rng.normal(size=(1, 3)))
    tg = TruncatedGaussian(P, rng.normal(size=(2, 3)), [True, False, True])
    same = jax.jit(lambda tg: tg)(tg)
    for a, b in zip(jax.tree.leaves(tg), jax.tree.leaves(same), strict=True):
        assert_array_equal(a, b)
    names = {jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tg)}
    assert names == {".precision.base", ".precision.weights", ".shift", ".truncated"}


def test_moments_keep_their_kind_through_jit():
    moments = Moments(jnp.zeros(2), jnp.ones(2), None, jnp.array(True), jnp.int32(1), kind="sample")
    same = jax.jit(lambda m: m)(moments)
    assert same.kind == "sample"
    assert same.log_z is None


def test_limits_of_zero_and_infinity_are_the_mask():
    assert TruncatedGaussian(np.eye(2), np.zeros(2), 0.0, np.inf).limits is None
    free = TruncatedGaussian(np.eye(2), np.zeros((3, 2)), [0.0, -np.inf])
    assert free.limits is None
    assert_array_equal(free.truncated, [True, False])
    assert jax.jit(lambda g: TruncatedGaussian(jnp.eye(2), g, 0.0).limits is None)(np.zeros(2))


def test_limits_follow_rows(rng):
    lower = rng.normal(size=(3, 2, 4))
    tg = TruncatedGaussian(Diagonal(np.ones(4)), np.zeros((3, 2, 4)), lower, lower + 1)
    assert_array_equal(tg[1].limits.lower, lower[1])
    assert_array_equal(tg.rows().limits.upper, lower.reshape(6, 4) + 1)
    assert tg.rows().walls().lower.shape == (6, 4)
    with pytest.raises(ValueError, match=r"`shift` must keep its shape \(3, 2, 4\)"):
        tg.with_shift(jnp.zeros((5, 4)))
    shared = TruncatedGaussian(Diagonal(np.ones(4)), np.zeros((3, 4)), -1.0, [1.0, 2.0, np.inf, 1.0])
    assert shared[0].limits.lower.shape == (4,)
    assert shared.walls().upper.shape == (1, 4)
    assert_array_equal(shared.truncated, True)


def test_limits_can_be_traced():
    tg = jax.jit(lambda low: TruncatedGaussian(jnp.eye(2), jnp.zeros(2), low, low + 1))(np.zeros(2))
    assert_array_equal(tg.limits.upper, 1)
