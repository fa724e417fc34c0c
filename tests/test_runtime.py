"""Precision of products (read from traced programs), factorisations, stored programs, forked processes."""

import os
import platform
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from threadpoolctl import threadpool_info, threadpool_limits

from tggm import inference as engines
from tggm.gaussian import TruncatedGaussian
from tggm.precision import Dense, Layered, LowRank
from tggm.runtime import (
    blas_lock,
    compute_after,
    factorises,
    full_precision,
    prune,
    return_memory,
    use_compilation_cache,
)
from tggm.special.probit import expand_probit

M, N, ROWS = 6, 2, 5
FULL = (lax.Precision.HIGHEST, lax.Precision.HIGHEST)


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


W, B, LABEL = numbers(N, 3), np.zeros(N, np.float32), np.zeros(ROWS, np.int32)
BLOCK, EYE = numbers(3, 3), np.eye(3, dtype=np.float32)
LOW_RANK = LowRank(np.ones(M, np.float32), numbers(N, M))
STRUCTURES = [LOW_RANK, Layered([EYE + BLOCK.T @ BLOCK, EYE], [-BLOCK]), Dense(LOW_RANK.dense())]
VALUES = {
    "mean_field": lambda tg: engines.mean_field(tg).mean,
    "ep": lambda tg: engines.ep(tg).mean,
    "gibbs": lambda tg: engines.gibbs(tg, jax.random.key(0), 4, n_chains=2).mean,
    "linear_moments": lambda tg: engines.linear_moments(tg, W, engine="mean_field"),
}
GRADIENTS = {
    "ep": partial(engines.log_partition, engine="ep"),
    "mean_field": partial(engines.log_partition, engine="mean_field"),
    "linear_mean": lambda tg: engines.linear_mean(tg, W),
    "class_mean_field": lambda tg: engines.class_mean_field(
        tg, W, B, partial(expand_probit, label=LABEL, n_nodes=12, n_steps=3), start=None, steps=jnp.int32(9),
        solver="newton",
    )[0],
}  # fmt: skip


def precisions(function, *args):
    """Return the precision of each product of float32 matrices in a traced program, at any depth."""
    found, todo = [], [jax.make_jaxpr(function)(*args)]
    while todo:
        for eqn in todo.pop().eqns:
            kinds = {getattr(v.aval, "dtype", None) for v in eqn.invars}
            if eqn.primitive.name == "dot_general" and np.dtype(np.float32) in kinds:
                found.append(eqn.params["precision"])
            inner = jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda p: hasattr(p, "eqns"))
            todo += [jaxpr for jaxpr in inner if hasattr(jaxpr, "eqns")]
    return found


def test_decorator_changes_products_in_loops_and_gradients():
    def looped(a):
        return lax.fori_loop(0, 3, lambda _, b: jax.jit(jnp.matmul)(b, a), a).sum()

    assert set(precisions(looped, EYE)) == {None}
    assert set(precisions(jax.grad(full_precision(looped)), EYE)) == {FULL}


@pytest.mark.parametrize("name", VALUES)
def test_engines_have_full_precision(name):
    for P in STRUCTURES if name in ("ep", "mean_field") else STRUCTURES[:1]:
        tg = TruncatedGaussian(P, numbers(ROWS, M))
        assert set(precisions(VALUES[name], tg)) == {FULL}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_have_full_precision(name):
    def total(shift):
        return GRADIENTS[name](TruncatedGaussian(LOW_RANK, shift)).sum()

    assert set(precisions(jax.grad(total), numbers(ROWS, M))) == {FULL}


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


def resident_pages():
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has malloc_trim")
def test_unused_memory_is_returned():
    start = resident_pages()
    blocks = [bytearray(2000) for _ in range(50_000)]
    used = resident_pages() - start
    del blocks[:-1]  # the last one prevents that the heap shrinks
    return_memory()
    assert resident_pages() - start < 0.2 * used


def test_factorisations_are_found_at_any_depth():
    def inside(x):
        return jax.lax.map(lambda a: jnp.linalg.cholesky(a), x)

    assert factorises(jax.jit(inside).trace(np.ones((2, 3, 3))).jaxpr.jaxpr)
    assert not factorises(jax.jit(jnp.sin).trace(1.0).jaxpr.jaxpr)


def test_sequenced_changes_neither_values_nor_gradients():
    tree = {"a": jnp.arange(3.0), "mask": jnp.ones(2, bool)}
    after = jnp.asarray([1.0, jnp.nan, jnp.inf])
    same = compute_after(tree, after)
    np.testing.assert_array_equal(same["a"], tree["a"])
    assert same["mask"].dtype == bool
    np.testing.assert_array_equal(jax.grad(lambda t: compute_after(tree, t)["a"].sum())(after), 0)
    # the dependence is visible to the compiler
    text = jax.jit(lambda a, after: compute_after(a, after)).lower(tree["a"], after).compile().as_text()
    assert "parameter(1)" in text


def test_a_folder_that_others_can_write_to_is_rejected(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match=r"writable by you alone, .* its mode is 0777"):
        use_compilation_cache(tmp_path)


SCRIPT = """
import jax, numpy as np
jax.jit(lambda x: x + 1)(1.0)  # the cache can be enabled after a compilation
from tggm import TGGMRegressor
TGGMRegressor(2, features=None, n_members=1, max_epochs=1).fit(np.eye(8), np.arange(8.0))
print(jax.config.jax_compilation_cache_dir)
"""


@pytest.mark.parametrize("given", [None, "TGGM_COMPILATION_CACHE", "JAX_COMPILATION_CACHE_DIR"])
def test_a_fit_stores_its_programs_unless_configured_otherwise(tmp_path, given):
    clean = {k: v for k, v in os.environ.items() if "COMPILATION_CACHE" not in k}
    values = {"TGGM_COMPILATION_CACHE": "off", "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "other")}
    env = clean | {"XDG_CACHE_HOME": str(tmp_path)} | {k: v for k, v in values.items() if k == given}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, check=True, capture_output=True, text=True)
    programs = [*(tmp_path / "tggm").rglob("*-cache")]
    assert {path.parent.stat().st_mode & 0o777 for path in programs} == (set() if given else {0o700})
    assert done.stdout.startswith(str(tmp_path)) == (given != "TGGM_COMPILATION_CACHE")


def test_the_least_recently_used_programs_are_deleted(tmp_path):
    for age, name in enumerate("abc"):
        path = tmp_path / f"{name}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "c-atime").write_bytes(b"")  # read just now
    prune(tmp_path, 200)
    assert sorted(path.name for path in tmp_path.glob("*-cache")) == ["a-cache", "c-cache"]
