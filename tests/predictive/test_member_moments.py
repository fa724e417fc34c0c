"""Moments of the members do not depend on blocks of rows or on threads."""

import threading

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from tggm.training.engine import Inference

from tggm.models import Architecture
from tggm.predictive import member_moments as module
from tggm.predictive.member_moments import (
    block_size,
    gaussian_mixtures,
    joint_gaussian_mixture,
    member_means,
    member_moments,
    over_blocks,
)

ENGINE = Inference("mean_field", nodes=3)
ROWS = 150  # two blocks of 64 rows and a part of one
RTOL = {"float32": 1e-5, "float64": 1e-12}


def drawn(dtype, **settings):
    rng = np.random.default_rng(0)
    return Architecture(2, (5, 4), 2, "gaussian", "directed", **settings).members(rng, 3, dtype)


@pytest.fixture
def X():
    return np.random.default_rng(1).standard_normal((ROWS, 2))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "MOST", 64)


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_equal_all_rows_at_once(X, dtype, cores, monkeypatch):
    model = drawn(dtype, linear=True)
    with jax.enable_x64(dtype == "float64"):
        whole = member_moments(model, X, ENGINE, dtype)
        monkeypatch.setattr(module, "MOST", 64)
        monkeypatch.setattr(module, "n_cores", lambda: cores)
        found = member_moments(model, X, ENGINE, dtype)
        means = member_means(model, X, ENGINE, dtype)
    for a, b in zip((*found, means), (*whole, whole[0]), strict=True):
        assert a.shape == (3, ROWS, 2)
        assert a.dtype == np.float64
        assert_allclose(a, b, rtol=RTOL[dtype], atol=RTOL[dtype])


def test_threads_use_the_precision_of_the_caller(X, small_blocks, monkeypatch):
    monkeypatch.setattr(module, "n_cores", lambda: 2)
    with jax.enable_x64(True):
        found = member_means(drawn("float64", linear=True), X, ENGINE, "float64")
    assert np.any(found != found.astype(np.float32))


def test_engines_that_factorise_run_in_one_thread(X, small_blocks, monkeypatch):
    monkeypatch.setattr(module, "ThreadPoolExecutor", None)  # not to be called
    monkeypatch.setattr(module, "n_cores", lambda: 2)
    rng = np.random.default_rng(0)
    model = Architecture(2, (3,), 1, lateral=1).members(rng, 2, np.float32)
    assert member_means(model, X[:70], Inference("ep"), "float32").shape == (2, 70, 1)


@pytest.mark.parametrize(
    ("sizes", "members", "rows"),
    [
        ((8, (50, 50), 1, "gaussian", "directed", 0, "periodic"), 10, 512),  # the default
        ((100, (50, 50), 1, "gaussian", "directed", 0, "periodic"), 10, 64),
        ((784, (100,), 10, "probit"), 1, 1024),
        ((2, (8,), 1), 1, 2048),
        ((2, (4000,), 1), 10, 64),
    ],
)
def test_wider_models_have_smaller_blocks(sizes, members, rows, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert block_size(Architecture(*sizes).template(members), 10**6) == rows


def test_accelerators_have_larger_blocks(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert block_size(Architecture(2, (50,), 1).template(10), 10**6) == 8192


@pytest.mark.parametrize(("cores", "alone", "threads"), [(1, False, 1), (3, True, 1), (3, False, 4)])
def test_blocks_are_returned_in_order(cores, alone, threads, monkeypatch):
    monkeypatch.setattr(module, "n_cores", lambda: cores)
    together = threading.Barrier(3 if threads > 1 else 1)  # the first block is computed by the caller
    seen = set()

    def block(at):
        seen.add(threading.current_thread().name)
        if at.start:
            together.wait(timeout=60)
        return at.start, at.stop, bool(jax.config.read("jax_enable_x64"))

    with jax.enable_x64(False):
        found = over_blocks(block, 14, 4, alone=alone)
    assert found == [(0, 4, False), (4, 8, False), (8, 12, False), (12, 16, False)]
    assert len(seen) == threads


def test_a_table_without_rows_is_one_block():
    assert over_blocks(lambda at: at.start, 0, 4, alone=True) == [0]


def test_variance_is_positive_where_noise_underflows(X):
    model = drawn("float32", linear=True)
    zero = {"likelihood.log_noise": -600.0, "likelihood.output.W1": 0.0}
    model = model.replaced({name: np.full_like(a, zero.get(name, a)) for name, a in model.arrays().items()})
    _, var = member_moments(model, X, ENGINE, "float32")
    assert 0 < var.max() < 1e-37
    assert var.min() == var.max()


@pytest.mark.parametrize("layers", [(3,), (3, 2)])
def test_marginal_and_joint_mixtures_have_the_same_moments(layers):
    model = Architecture(2, layers, 2).members(np.random.default_rng(4), 2, np.float64)
    X, shift, scale = np.array([[0.3, -1.0], [1.2, 0.4]]), np.array([1.0, -2.0]), np.array([2.0, 0.5])
    both = joint_gaussian_mixture(model, X, ENGINE, shift, scale)
    with jax.enable_x64(True):
        each = gaussian_mixtures(model, X, ENGINE, shift, scale)
    assert len(each) == 2
    for j, dist in enumerate(each):
        assert_allclose(dist.mean(), both.mean()[:, j], rtol=1e-9)
        assert_allclose(dist.std(), both.std()[:, j], rtol=1e-9)
    assert np.isfinite(both.logpdf(both.mean())).all()
