"""`Model` as one pytree, and `Network`, which describes and draws it."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.models.small_models import changed, drawn_model, random_model, with_members
from tggm.models import Bounded, Identity, Network, Periodic, Probit, Shallow
from tggm.models.network import NARROW
from tggm.state import require_parameters


def test_arrays_have_the_names_of_the_parts(rng):
    model = drawn_model(rng, (4, 3))
    assert {name: a.shape for name, a in model.arrays().items()} == {
        "hidden.W0": (4, 3),
        "hidden.b0": (4,),
        "hidden.W.0": (3, 4),
        "hidden.b.0": (3,),
        "hidden.s0": (),
        "likelihood.output.W1": (2, 3),
        "likelihood.output.b1": (2,),
        "likelihood.log_noise": (2,),
    }
    assert "likelihood.output.A" in drawn_model(rng, (4,), linear=True).arrays()


def test_the_class_of_a_part_belongs_to_the_tree_structure():
    """Otherwise a part would run the compiled program of another one with the same fields."""
    assert jax.tree.structure(Identity()) != jax.tree.structure(Bounded())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"units": (0,)}, "`units` must be a tuple of positive integers"),
        ({"units": 8}, "`units` must be a tuple"),
        ({"features": "periodic"}, "`features` must be a subclass of Features"),
        ({"layers": Identity}, "`layers` must be a subclass of Hidden"),
        ({"likelihood": Identity}, "`likelihood` must be a subclass of Likelihood"),
    ],
)
def test_wrong_parts_of_a_network_are_rejected(wrong, message):
    with pytest.raises(ValueError, match=message):
        Network(**wrong)


def test_replacing_arrays_keeps_the_structure(rng):
    model = drawn_model(rng, (4, 3))
    doubled = model.replaced({name: 2 * a for name, a in reversed(model.arrays().items())})
    assert jax.tree.structure(doubled) == jax.tree.structure(model)
    for name, a in doubled.arrays().items():
        assert_array_equal(a, 2 * model.arrays()[name])
    with pytest.raises(KeyError, match=r"hidden\.s0"):
        model.replaced({k: a for k, a in model.arrays().items() if k != "hidden.s0"})


def test_the_penalty_is_that_of_all_weights_and_nothing_else(rng):
    model = drawn_model(rng, (4, 3), features=Periodic, linear=True)
    weights = {"hidden.W0", "hidden.W.0", "likelihood.output.W1", "likelihood.output.A"}
    grad = jax.grad(lambda m: m.weight_norm())(model).arrays()
    for name, a in model.arrays().items():
        assert_allclose(grad[name], a if name in weights else 0 * a)


@pytest.mark.parametrize(
    ("arrays", "dtype", "message"),
    [
        ({"hidden.b0": np.array([0, np.nan, 0, 0])}, "float64", "parameters must be finite"),
        ({"hidden.b0": np.full(4, 1e21)}, "float64", r"reach 1e\+21; at most 1e\+20"),
        ({"likelihood.log_noise": np.full(2, -700.0)}, "float64", r"log-noise must be between -600 and 600"),
    ],
)
def test_check_rejects_numbers_that_overflow(rng, arrays, dtype, message):
    model = random_model(rng)
    require_parameters(with_members(model).arrays(), dtype)
    with pytest.raises(ValueError, match=message):
        require_parameters(with_members(changed(model, arrays)).arrays(), dtype)


def test_check_multiplies_the_weights_of_the_layers(rng):
    large = {"hidden.W0": np.full((4, 3), 1e10), "hidden.W.0": np.full((3, 4), 1e10)}
    model = with_members(changed(drawn_model(rng, (4, 3)), large))
    require_parameters(model.arrays(), "float64")
    single = jax.tree.map(lambda a: np.asarray(a, np.float32), model)
    for each, dtype in ((model, "float32"), (single, "float64")):  # the lower precision sets the limit
        with pytest.raises(ValueError, match=r"parameters reach 1\.?\d*e\+17"):
            require_parameters(each.arrays(), dtype)


def test_networks_draw_members_of_these_sizes(rng):
    network = Network((5, 4), features=Bounded)
    model = network.draw(rng, 3, 2, members=6, dtype="float32", s0=0.5)
    shapes = {name: np.shape(a) for name, a in model.arrays().items()}
    assert (shapes["hidden.W0"], shapes["hidden.W.0"]) == ((6, 5, 3), (6, 4, 5))
    assert {a.dtype.name for a in model.arrays().values()} == {"float32"}
    assert_allclose(model.hidden.s0, 0.5)
    assert not np.array_equal(model.hidden.W0[0], model.hidden.W0[1])
    again = network.draw(np.random.default_rng(20160619), 3, 2, members=6, dtype="float32", s0=0.5)
    assert_array_equal(again.hidden.W0, model.hidden.W0)
    assert isinstance(Network((5,)).draw(rng, 3, 1).hidden, Shallow)


@pytest.mark.parametrize("d", [4, 10 * NARROW])
def test_starting_points_have_documented_scales(d):
    """Deviations of 20,000 numbers, within five standard errors."""
    m, s0 = 20_000 // d, 0.25

    def deviations(init):
        model = Network((m,), Identity, linear=False).draw(np.random.default_rng(0), d, 40, s0=s0, init=init)
        return np.array([np.std(a) for a in (model.hidden.W0, model.hidden.b0, model.likelihood.output.W1)])

    scaled = deviations("scaled")
    assert_allclose(scaled, [np.sqrt(s0 / d), np.sqrt(s0), np.sqrt(1 / (m * s0))], rtol=5 / np.sqrt(2 * m))
    factor = 3 * min(1, NARROW / d)
    assert_allclose(deviations("sharp") / scaled, [factor, 1, factor], rtol=1e-12)
    assert_allclose(deviations("small") / scaled, [0.1, 1, 0.1], rtol=1e-12)


def test_a_description_gives_the_same_network():
    network = Network((5, 4), features=Bounded, likelihood=Probit, linear=False)
    stored = network.described()
    words = {"features": "Bounded", "layers": "Directed", "likelihood": "Probit"}
    assert stored == {"units": [5, 4], "linear": False, **words}
    assert Network.from_description(stored) == network
    assert Network.from_description(Network().described()) == Network()
