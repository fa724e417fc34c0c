"""Factorisations of many small matrices use one thread of BLAS, and leave its setting as it was."""

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from tggm.blas_lock import blas_lock, factorises, sequenced


def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_has_one_thread_inside_and_all_of_them_after():
    with threadpool_limits(2, user_api="blas"):
        assert set(threads()) == {2}
        with blas_lock():
            assert set(threads()) == {1}
        assert set(threads()) == {2}
        with blas_lock(False):
            assert set(threads()) == {2}


def test_factorisations_are_found_at_any_depth():
    def inside(x):
        return jax.lax.map(lambda a: jnp.linalg.cholesky(a), x)

    assert factorises(jax.jit(inside).trace(np.ones((2, 3, 3))).jaxpr.jaxpr)
    assert not factorises(jax.jit(jnp.sin).trace(1.0).jaxpr.jaxpr)


def test_sequenced_changes_neither_values_nor_gradients():
    tree = {"a": jnp.arange(3.0), "mask": jnp.ones(2, bool)}
    after = jnp.asarray([1.0, jnp.nan, jnp.inf])
    same = sequenced(tree, after)
    np.testing.assert_array_equal(same["a"], tree["a"])
    assert same["mask"].dtype == bool
    np.testing.assert_array_equal(jax.grad(lambda t: sequenced(tree, t)["a"].sum())(after), 0)
    # the dependence is there for the compiler to see
    text = jax.jit(lambda a, after: sequenced(a, after)).lower(tree["a"], after).compile().as_text()
    assert "parameter(1)" in text
