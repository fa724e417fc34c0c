"""One conformance test that every structure takes: the identities of `tggm.precision.protocol`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.tolerances import LINALG
from tggm.precision import Dense, Diagonal, Layered, LowRank

M = 7


def diagonal(rng):
    return Diagonal(rng.uniform(0.5, 2, M))


def low_rank(rng, n=3):
    return LowRank(rng.uniform(0.5, 2, M), rng.normal(size=(n, M)))


def rank_one(rng):
    return low_rank(rng, 1)


def dense(rng):
    A = rng.normal(size=(M, M))
    return Dense(A @ A.T + np.eye(M))


def layered(rng):
    return Layered(
        [4 * np.eye(3), 5 * np.eye(2), 3 * np.eye(2)], [rng.normal(size=(2, 3)), rng.normal(size=(2, 2))]
    )


STRUCTURES = [diagonal, low_rank, rank_one, dense, layered]


def cast(structure, dtype):
    return jax.tree.map(lambda a: a.astype(dtype), structure)


@pytest.fixture(params=STRUCTURES, ids=lambda make: make.__name__)
def structure(request, rng, dtype):
    return cast(request.param(rng), dtype)


def test_answers_are_those_of_the_dense_matrix(structure, rng, dtype):
    D = np.asarray(structure.dense(), np.float64)
    extra = rng.uniform(0, 3, (4, M)).astype(dtype)
    r = rng.normal(size=(4, M)).astype(dtype)
    factor = structure.factor(jnp.asarray(extra))
    full = D[None] + np.stack([np.diag(e) for e in extra.astype(np.float64)])
    inverse = np.linalg.inv(full)
    tol = {"rtol": 20 * LINALG[dtype], "atol": 20 * LINALG[dtype]}
    assert structure.size == M
    assert structure.dtype == dtype
    assert_allclose(structure.diagonal(), np.diag(D), **tol)
    assert_allclose(structure.off_diagonal(jnp.asarray(r)), r @ (D - np.diag(np.diag(D))), **tol)
    assert_allclose(factor.solve(jnp.asarray(r)), np.einsum("bij,bj->bi", inverse, r), **tol)
    assert_allclose(factor.variances(), np.diagonal(inverse, axis1=1, axis2=2), **tol)
    assert_allclose(factor.log_det(), np.linalg.slogdet(full)[1], **tol)


@pytest.mark.parametrize("make", STRUCTURES, ids=lambda make: make.__name__)
def test_answers_are_differentiable_in_every_parameter(make, rng):
    structure = make(rng)
    extra, r = jnp.asarray(rng.uniform(0, 3, (2, M))), jnp.asarray(rng.normal(size=(2, M)))

    def value(s):
        f = s.factor(extra)
        return (f.solve(r) ** 2).sum() + f.log_det().sum() + (f.variances() * r).sum()

    def by_dense(s):
        full = s.dense()[None] + extra[:, :, None] * jnp.eye(M)[None]
        inverse = jnp.linalg.inv(full)
        x = jnp.einsum("bij,bj->bi", inverse, r)
        variances = jnp.diagonal(inverse, axis1=1, axis2=2)
        return (x**2).sum() + jnp.linalg.slogdet(full)[1].sum() + (variances * r).sum()

    def symmetric(g):  # only the symmetric part of a block's gradient means anything
        return g + g.T if g.ndim == 2 and g.shape[0] == g.shape[1] else g

    got, want = jax.grad(value)(structure), jax.grad(by_dense)(structure)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert_allclose(symmetric(a), symmetric(b), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Diagonal([1.0, -2.0]), r"`values` must be positive; got -2 at index 1.*1 / variance"),
        (lambda: Diagonal([[1.0]]), r"`values` must have 1 axes; got shape \(1, 1\)"),
        (lambda: Diagonal([1.0, np.nan]), r"`values` must be finite; got nan at index \[1\]"),
        (lambda: LowRank([1.0, 1.0], [[1.0, 2.0, 3.0]]), r"one column per variable: base has 2 entries"),
        (lambda: LowRank([0.0, 1.0], [[1.0, 2.0]]), r"`base` must be positive; got 0 at index 0"),
        (lambda: Dense([[1.0, 2.0], [2.0, 1.0]]), r"smallest eigenvalue is -1 \(m = 2\).*add a ridge"),
        (lambda: Dense([[1.0, 0.5], [0.0, 1.0]]), r"must be symmetric; largest difference .* is 0.5"),
        (lambda: Dense([[1.0, 0.5]]), r"`matrix` must be square; got shape \(1, 2\)"),
        (lambda: Layered([], []), r"at least one block"),
        (lambda: Layered([np.eye(2)], [np.eye(2)]), r"one block fewer than `diagonal_blocks` \(1\); got 1"),
        (
            lambda: Layered([np.eye(2), np.eye(3)], [np.ones((2, 3))]),
            r"must have shape \(3, 2\).*got \(2, 3\)",
        ),
        (lambda: Layered([np.eye(1), np.eye(1)], [[[2.0]]]), r"positive definite; smallest eigenvalue is -1"),
    ],
)
def test_bad_parameters_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_integers_become_floats():
    assert Diagonal([1, 2]).dtype == np.float64
    with pytest.raises(TypeError, match="`values` must be real numbers"):
        Diagonal(np.array([1j]))
