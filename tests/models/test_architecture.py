"""Models drawn, empty ones, and what a model tells of its own architecture."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tggm.models.architecture import NARROW

from tests.models.small_models import EP
from tggm.models import INITIALISERS, Architecture
from tggm.models.hidden import BoxLayer, BoxLayers, Directed, Lateral, Shallow, Undirected
from tggm.models.likelihoods import CensoredGaussian, Gaussian, Probit

ALL = {
    (Shallow, Gaussian): Architecture(3, (5,), 2, form="shallow"),
    (Shallow, CensoredGaussian): Architecture(3, (5,), 1, "censored", "shallow"),
    (Lateral, Gaussian): Architecture(3, (5,), 1, form="lateral", lateral=2),
    (Directed, Probit): Architecture(3, (5, 4), 3, "probit", "directed"),
    (Undirected, Gaussian): Architecture(3, (5, 4, 6), 2, form="undirected"),
    (BoxLayer, Gaussian): Architecture(3, (5,), 2, form="shallow", units="learned"),
    (BoxLayers, Probit): Architecture(3, (5, 4), 3, "probit", "directed", units="tanh"),
}


def stacked(architecture, members=2):
    return architecture.members(np.random.default_rng(0), members, "float64")


@pytest.mark.parametrize(("parts", "architecture"), ALL.items())
def test_a_model_tells_its_architecture(parts, architecture):
    model = stacked(architecture)
    assert (type(model.hidden), type(model.likelihood)) == parts
    assert Architecture.of(model) == architecture
    assert architecture.offers == parts[0].offers & parts[1].offers
    for other in ALL.values():
        assert other.describes(model, 2) == (other == architecture)
    assert not architecture.describes(model, 3)


@pytest.mark.parametrize("architecture", ALL.values())
def test_a_template_has_the_shapes_and_no_memory(architecture):
    empty, model = architecture.template(2), stacked(architecture)
    assert {k: a.shape for k, a in empty.arrays().items()} == {k: a.shape for k, a in model.arrays().items()}
    huge = Architecture(10**6, (10**6,), 1).template(1000)  # 4e18 bytes, were they there
    assert huge.arrays()["hidden.W0"].shape == (1000, 10**6, 10**6)


@pytest.mark.parametrize(
    "change",
    [
        {"n_inputs": 4},
        {"layers": (6,)},
        {"layers": (5, 5), "form": "directed"},
        {"n_outputs": 3},
        {"likelihood": "probit"},
        {"form": "lateral", "lateral": 1},
        {"units": "tanh"},
    ],
)
def test_another_size_or_kind_is_another_architecture(change):
    fields = {"n_inputs": 3, "layers": (5,), "n_outputs": 2}
    assert not Architecture(**fields | change).describes(stacked(Architecture(**fields)), 2)


def test_draws_have_the_stated_variances():
    rng = np.random.default_rng(0)
    paper = Architecture(200, (100,), 50).draw(rng, init="paper").arrays()
    for name in ("hidden.W0", "hidden.b0", "likelihood.output.W1", "likelihood.output.b1"):
        assert abs(paper[name].std() - 0.1) < 0.02
    scaled = Architecture(200, (400,), 5).draw(rng, s0=4.0, noise=0.25)
    assert_allclose(scaled.hidden.W0.std(), 2 / np.sqrt(200), rtol=0.05)
    assert_allclose(scaled.likelihood.output.W1.std(), 1 / np.sqrt(400 * 4), rtol=0.05)
    assert_allclose(np.exp(scaled.likelihood.log_noise), 0.25)
    deep = Architecture(200, (400, 300), 5, form="directed").draw(rng)
    assert_allclose(deep.hidden.W[0].std(), 1 / np.sqrt(400), rtol=0.05)
    assert_array_equal(deep.hidden.b[0], 0.0)
    of_paper = Architecture(2, (400, 300), 5, form="directed").draw(rng, init="paper").hidden
    assert_allclose([of_paper.W[0].std(), of_paper.b[0].std()], 0.1, rtol=0.2)
    lateral = Architecture(200, (400,), 1, form="lateral", lateral=3).draw(rng)
    assert_allclose(lateral.hidden.V.std(), 0.1, rtol=0.1)


def test_each_output_may_have_its_noise():
    model = Architecture(2, (3,), 2).draw(np.random.default_rng(0), noise=[0.1, 0.4])
    assert_allclose(np.exp(model.likelihood.log_noise), [0.1, 0.4])


@pytest.mark.parametrize(("init", "d", "factor"), [("sharp", 3, 3.0), ("sharp", 64, 0.75), ("small", 3, 0.1)])
def test_other_starts_are_multiples_of_the_scaled_one(init, d, factor):
    """Sharp is three times as large up to `NARROW` inputs, and falls as 1/d beyond."""
    assert set(INITIALISERS) == {"scaled", "sharp", "small", "paper"}
    assert NARROW == 16
    one, other = (
        Architecture(d, (8,), 2).draw(np.random.default_rng(1), init=name).arrays()
        for name in ("scaled", init)
    )
    for name in ("hidden.W0", "likelihood.output.W1"):
        assert_allclose(other[name], factor * one[name], rtol=1e-12)
    assert_array_equal(other["hidden.b0"], one["hidden.b0"])


@pytest.mark.parametrize(
    ("layers", "form", "units"),
    [((8,), "shallow", "relu"), ((8, 6), "directed", "relu"), ((8, 6), "directed", "sigmoid")],
)
def test_scaled_start_is_the_same_model_in_every_gauge(rng, layers, form, units):
    X = jnp.asarray(rng.standard_normal((5, 3)))
    moments = []
    by_ep = jax.jit(lambda model: model.likelihood.moments(model.latent(X, EP)))
    for s0 in (0.01, 1.0):
        drawn = Architecture(3, layers, 2, form=form, units=units).draw(np.random.default_rng(1), s0=s0)
        moments.append(by_ep(jax.tree.map(jnp.asarray, drawn)))
    for a, b in zip(*moments, strict=True):
        assert_allclose(a, b, rtol=1e-10)
