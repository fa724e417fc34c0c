"""Moments of the members do not depend on blocks of rows or on threads."""

import threading

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.models import Bounded, Directed, Identity, Network, Probit, part
from tggm.predictive import GaussianMixture
from tggm.predictive import member_moments as module

ROWS = 150  # two blocks of 64 rows and a part of one
RTOL = {"float32": 1e-5, "float64": 1e-12}


@part
class OtherLayers(Directed):
    """Layers for which there are no formulas in NumPy."""


def drawn(dtype):
    network = Network((5, 4), features=Identity)
    return network.draw(np.random.default_rng(0), 2, 2, members=3, dtype=dtype)


@pytest.fixture
def X():
    return np.random.default_rng(1).standard_normal((ROWS, 2))


@pytest.fixture
def compiled(monkeypatch):
    """Let JAX compute few rows, too."""
    monkeypatch.setattr(module, "MOST_NUMPY", -1)


@pytest.fixture
def small_blocks(monkeypatch, compiled):
    monkeypatch.setattr(module, "MOST", 64)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("network", [Network((5, 4)), Network((5,), Bounded, linear=False)], ids=str)
def test_numpy_and_compiled_programs_agree_to_1e_5_of_the_width(network, dtype, X, monkeypatch):
    model = network.draw(np.random.default_rng(0), 2, 2, members=3, dtype=dtype, s0=0.01, init="sharp")
    model = model.with_arrays({"likelihood.log_noise": np.full((3, 2), np.log(0.1))})
    rows = (3 * X).astype(dtype)
    projection = np.random.default_rng(2).normal(size=(3, network.units[-1], 2)).astype(dtype)

    def computed():
        moments = *module.member_moments(model, rows, dtype), module.member_means(model, rows, dtype)
        return [*moments, *module.means_and_layer(model, dtype, rows), module.last_layers(model, rows),
                module.places(model, rows, projection)]  # fmt: skip

    found = computed()
    assert module.numpy_network(model, rows) is not None
    monkeypatch.setattr(module, "MOST_NUMPY", len(X) - 1)
    assert module.numpy_network(model, rows) is None
    width = np.sqrt(found[1].min())
    for a, b in zip(found, computed(), strict=True):
        assert_allclose(a, b, rtol=1e-5, atol=1e-5 * width)


def test_numpy_computes_no_other_parts_and_no_wide_outputs(X):
    rng = np.random.default_rng(0)
    assert module.numpy_network(Network((5, 4), layers=OtherLayers).draw(rng, 2, 1), X) is None
    wide = Network((100,), likelihood=Probit).draw(rng, 2, 30, members=10)
    assert module.numpy_network(wide, X) is None
    assert module.numpy_network(wide, X[:30]) is not None


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_equal_all_rows_at_once(X, dtype, cores, monkeypatch, compiled):
    model = drawn(dtype)
    with jax.enable_x64(dtype == "float64"):
        whole = module.member_moments(model, X, dtype)
        monkeypatch.setattr(module, "MOST", 64)
        monkeypatch.setattr(module, "n_cores", lambda: cores)
        found = module.member_moments(model, X, dtype)
        means = module.member_means(model, X, dtype)
    for a, b in zip((*found, means), (*whole, whole[0]), strict=True):
        assert a.shape == (3, ROWS, 2)
        assert a.dtype == np.float64
        assert_allclose(a, b, rtol=RTOL[dtype], atol=RTOL[dtype])


def test_threads_use_the_precision_of_the_caller(X, small_blocks, monkeypatch):
    monkeypatch.setattr(module, "n_cores", lambda: 2)
    with jax.enable_x64(True):
        found = module.member_means(drawn("float64"), X, "float64")
    assert np.any(found != found.astype(np.float32))


@pytest.mark.parametrize(
    ("network", "inputs", "outputs", "members", "rows"),
    [
        (Network(), 8, 1, 10, 512),  # the default
        (Network(), 100, 1, 10, 64),
        (Network((100,), Identity, likelihood=Probit), 784, 10, 1, 1024),
        (Network((8,), Identity), 2, 1, 1, 2048),
        (Network((4000,), Identity), 2, 1, 10, 64),
        (Network((50,), Identity), 2, 1, 10, 8192),  # of an accelerator
    ],
)
def test_wider_models_have_smaller_blocks(network, inputs, outputs, members, rows, monkeypatch):
    backend = "gpu" if rows > module.MOST else "cpu"
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    model = network.draw(np.random.default_rng(0), inputs, outputs, members=members)
    assert module.block_size(model, 10**6) == rows


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (3, 4)])
def test_blocks_are_returned_in_order(cores, threads, monkeypatch):
    monkeypatch.setattr(module, "n_cores", lambda: cores)
    together = threading.Barrier(3 if threads > 1 else 1)  # the first block is computed by the caller
    seen = set()

    def block(at):
        seen.add(threading.current_thread().name)
        if at.start:
            together.wait(timeout=60)
        return at.start, at.stop, bool(jax.config.read("jax_enable_x64"))

    with jax.enable_x64(False):
        found = module.over_blocks(block, 14, 4)
    assert found == [(0, 4, False), (4, 8, False), (8, 12, False), (12, 16, False)]
    assert len(seen) == threads


def test_a_table_without_rows_is_one_block():
    assert module.over_blocks(lambda at: at.start, 0, 4) == [0]


def test_variance_is_positive_where_noise_underflows(X):
    model = drawn("float32")
    zero = {"likelihood.log_noise": -600.0, "likelihood.output.W1": 0.0}
    model = model.replaced({name: np.full_like(a, zero.get(name, a)) for name, a in model.arrays().items()})
    _, var = module.member_moments(model, X, "float32")
    assert 0 < var.max() < 1e-37
    assert var.min() == var.max()


@pytest.mark.parametrize("layers", [(3,), (3, 2)])
def test_marginal_and_joint_mixtures_have_the_same_moments(layers):
    model = Network(layers).draw(np.random.default_rng(4), 2, 2, members=2)
    X, shift, scale = np.array([[0.3, -1.0], [1.2, 0.4]]), np.array([1.0, -2.0]), np.array([2.0, 0.5])
    both = module.joint_gaussian_mixture(model, X, shift, scale, np.zeros((2, 2)))
    with jax.enable_x64(True):
        mean, var = module.member_moments(model, X, "float64")
    units = zip(shift, scale, strict=True)
    each = [GaussianMixture(mean[..., j], var[..., j], loc=a, scale=b) for j, (a, b) in enumerate(units)]
    for j, dist in enumerate(each):
        assert_allclose(dist.mean(), both.mean()[:, j], rtol=1e-9)
        assert_allclose(dist.std(), both.std()[:, j], rtol=1e-9)
    assert np.isfinite(both.logpdf(both.mean())).all()
