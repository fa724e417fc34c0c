"""Directions of the named optimisers; Muon's are compared with a singular value decomposition."""

import jax.numpy as jnp
import numpy as np
import pytest

from tggm.training.loop import OPTIMISERS, ORTHOGONAL, Layout, orthogonalise


def spectrum(matrix):
    return np.linalg.svd(np.asarray(matrix, np.float64), compute_uv=False)


@pytest.mark.parametrize("shape", [(8, 5), (5, 8)])
@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e15])
def test_singular_values_become_similar_and_singular_vectors_stay(rng, shape, scale):
    U, _, Vt = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
    G = U * np.array([1.0, 0.5, 0.2, 0.1, 0.05]) @ Vt * scale
    got = np.asarray(orthogonalise(jnp.asarray(G, jnp.float32)), np.float64) / np.sqrt(8)
    aligned = U.T @ got @ Vt.T
    assert np.all((np.diag(aligned) > 0.65) & (np.diag(aligned) < 1.25))
    np.testing.assert_allclose(aligned, np.diag(np.diag(aligned)), atol=1e-4)
    assert not np.asarray(orthogonalise(jnp.zeros(shape))).any()


def test_muon_orthogonalises_hidden_weights_and_is_adam_for_the_rest(rng):
    shapes = {"hidden": {"W0": (6, 4), "b0": (6,)}, "likelihood": {"W1": (2, 6)}}
    tree = {part: {k: rng.normal(size=(1, *s)) for k, s in of.items()} for part, of in shapes.items()}
    layout = Layout.of(tree, axes=1)
    vector = jnp.asarray(layout.join_members(tree)[0], jnp.float32)
    kept = (jnp.zeros_like(vector),) * 2
    steps = (OPTIMISERS[name][1](vector, kept, jnp.float32(1), layout)[0] for name in ("muon", "adam"))
    got, usual = map(layout.split, steps)
    np.testing.assert_array_equal(got["hidden"]["b0"], usual["hidden"]["b0"])
    np.testing.assert_array_equal(got["likelihood"]["W1"], usual["likelihood"]["W1"])
    step = got["hidden"]["W0"]
    assert spectrum(step).max() < 2 * spectrum(step).min()
    assert np.sqrt(np.mean(np.square(step))) == pytest.approx(ORTHOGONAL, rel=0.3)
    assert np.sum(np.asarray(step) * tree["hidden"]["W0"][0]) > 0  # along the gradient
