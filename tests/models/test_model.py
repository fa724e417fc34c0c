"""A model as one pytree: its arrays by name, its penalty, and which numbers it can be computed with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.models.small_models import EP, changed, drawn_model, random_model, with_members
from tggm.models import Architecture


def test_arrays_have_the_names_of_the_parts(rng):
    model = drawn_model(rng, (4, 3), form="directed")
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
    assert "hidden.V" in drawn_model(rng, (4,), form="lateral", lateral=1).arrays()
    assert "likelihood.log_noise" not in drawn_model(rng, (4,), likelihood="probit").arrays()


@pytest.mark.parametrize("form", ["directed", "undirected"])
def test_replacing_arrays_keeps_the_kind(rng, form):
    model = drawn_model(rng, (4, 3), form=form)
    doubled = model.replaced({name: 2 * a for name, a in reversed(model.arrays().items())})
    assert jax.tree.structure(doubled) == jax.tree.structure(model)
    for name, a in doubled.arrays().items():
        assert_array_equal(a, 2 * model.arrays()[name])
    with pytest.raises(KeyError, match=r"hidden\.s0"):
        model.replaced({k: a for k, a in model.arrays().items() if k != "hidden.s0"})


def test_the_penalty_is_that_of_all_weights_and_of_nothing_else(rng):
    for options in (
        {"form": "directed", "layers": (4, 3)},
        {"form": "lateral", "layers": (4,), "lateral": 2},
        {"layers": (4,)},
    ):
        model = drawn_model(rng, **options)
        free = {"b0", "b", "s0", "b1", "log_noise"}
        grad = jax.grad(lambda m: m.weight_norm())(model).arrays()
        for name, a in model.arrays().items():
            last = next(part for part in reversed(name.split(".")) if not part.isdigit())
            assert_allclose(grad[name], 0 * a if last in free else a)


def test_members_are_a_leading_axis(rng):
    one, two = random_model(rng), random_model(rng)
    X = jnp.asarray(rng.standard_normal((5, 3)))
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), one, two)
    got = jax.vmap(lambda m: m.mean(X, EP))(both)
    assert_allclose(got, jnp.stack([one.mean(X, EP), two.mean(X, EP)]), rtol=1e-13)


@pytest.mark.parametrize(
    ("arrays", "dtype", "message"),
    [
        ({"hidden.b0": np.array([0, np.nan, 0, 0])}, "float64", "parameters must be finite"),
        ({"likelihood.output.b1": np.full(2, 1e16)}, "float32", r"parameters reach 1e\+16, where 1e\+15 is"),
        ({"hidden.b0": np.full(4, 1e61)}, "float64", r"parameters reach 1e\+61, where 1e\+60 is the most"),
        ({"hidden.s0": 0.0}, "float64", "σ0² = 0 is beyond what can be computed with"),
        ({"likelihood.log_noise": np.full(2, 90.0)}, "float32", r"between exp\(-600\) and exp\(80\)"),
        ({"likelihood.log_noise": np.full(2, -700.0)}, "float64", r"between exp\(-600\) and exp\(600\)"),
    ],
)
def test_check_names_what_cannot_be_computed_with(rng, arrays, dtype, message):
    model = random_model(rng)
    with_members(model).check(dtype)
    with pytest.raises(ValueError, match=message):
        with_members(changed(model, arrays)).check(dtype)


def test_check_multiplies_the_weights_of_the_layers(rng):
    """Each is small enough, but not their product."""
    model = drawn_model(rng, (4, 3), form="directed")
    large = {"hidden.W0": np.full((4, 3), 1e10), "hidden.W.0": np.full((3, 4), 1e10)}
    with_members(changed(model, large)).check("float64")
    with pytest.raises(ValueError, match=r"parameters reach 1\.\d*e\+17"):
        with_members(changed(model, large)).check("float32")


def test_check_holds_a_model_to_the_narrower_of_both_precisions(rng):
    model = with_members(random_model(rng))
    model = changed(model, {"likelihood.output.b1": np.full((1, 2), 1e16)})
    model.check("float64")
    single = jax.tree.map(lambda a: np.asarray(a, np.float32), model)
    with pytest.raises(ValueError, match=r"where 1e\+15 is the most"):
        single.check("float64")


def test_who_is_judged_by_moments():
    def judged(layers, **options):
        return Architecture(3, layers, 2, **options).template(1).judged_by_moments

    assert not judged((4,))
    assert not judged((4,), likelihood="censored")
    assert not judged((4,), form="lateral", lateral=1)
    assert judged((4,), likelihood="probit")
    assert judged((4, 3), form="undirected")
