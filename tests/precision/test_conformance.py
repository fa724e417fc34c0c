"""All structures satisfy the identities of `tggm.precision`, by dense algebra."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.precision import Dense, Diagonal, Layered, LowRank, Precision

from ..inference.references import assert_gradient
from ..tolerances import LINALG


def diagonal(rng):
    d = rng.uniform(0.5, 2, 6)
    return Diagonal(d), np.diag(d)


def low_rank(rank):
    def build(rng):
        d, U = rng.uniform(0.5, 2, 7), rng.normal(size=(rank, 7)) / max(1, rank / 3) ** 0.5
        return LowRank(d, U), np.diag(d) + U.T @ U

    return build


def blocks(A, B):
    edge = np.concatenate([[0], np.cumsum([len(a) for a in A])])
    P = np.zeros((edge[-1], edge[-1]))
    for i, a in enumerate(A):
        P[edge[i] : edge[i + 1], edge[i] : edge[i + 1]] = a
    for i, b in enumerate(B):
        P[edge[i + 1] : edge[i + 2], edge[i] : edge[i + 1]] = b
        P[edge[i] : edge[i + 1], edge[i + 1] : edge[i + 2]] = np.transpose(b)
    return P


def layered(*sizes):
    def build(rng):
        A = [np.eye(s) * 3 + 0.2 * np.ones((s, s)) for s in sizes]
        B = [rng.normal(size=(b, a)) * 0.3 for a, b in pairwise(sizes)]
        return Layered(A, B), blocks(A, B)

    return build


def dense(rng):
    A = rng.normal(size=(5, 5))
    P = A @ A.T / 5 + np.eye(5)
    return Dense(P), P


STRUCTURES = {
    "diagonal": diagonal,
    "rank one": low_rank(1),
    "rank three": low_rank(3),
    "rank thirty": low_rank(30),  # beyond elimination
    "two layers": layered(3, 4),
    "three layers": layered(2, 4, 3),
    "dense": dense,
}


@pytest.fixture(params=list(STRUCTURES))
def built(request, rng):
    return STRUCTURES[request.param](rng)


def cast(tree, dtype):
    return jax.tree.map(lambda a: jnp.asarray(np.asarray(a), dtype), tree)


def ask(P, extra, r):
    factor = P.factor(extra)
    return {
        "dense": P.dense(),
        "diagonal": P.diagonal(),
        "off_diagonal": P.off_diagonal(r),
        "solve": factor.solve(r),
        "cavity": factor.cavity(),
        "log_det": factor.log_det(),
    }


def test_identities(built, dtype, rng):
    P, D = built
    P = cast(P, dtype)
    m, tol = len(D), LINALG[dtype]
    extra, r = rng.uniform(0, 3, (4, m)), rng.normal(size=(4, m))
    got = jax.jit(ask)(P, jnp.asarray(extra, dtype), jnp.asarray(r, dtype))
    whole = D[None] + np.eye(m)[None] * extra[:, None, :]
    inverse = np.linalg.inv(whole)
    assert isinstance(P, Precision)
    assert P.size == m
    assert P.dtype == dtype
    assert {a.dtype for a in got.values()} == {dtype}
    assert_allclose(got["dense"], D, rtol=tol, atol=tol)
    assert_allclose(got["diagonal"], np.diag(D), rtol=tol)
    assert_allclose(got["off_diagonal"], r @ (D - np.diag(np.diag(D))), rtol=tol, atol=tol * 20)
    assert_allclose(got["solve"], np.einsum("bij,bj->bi", inverse, r), rtol=tol, atol=tol)
    assert_allclose(got["cavity"], 1 / np.diagonal(inverse, axis1=1, axis2=2) - extra, rtol=5 * tol)
    assert_allclose(got["log_det"], np.linalg.slogdet(whole)[1], rtol=tol, atol=tol * 10)


def test_gradients_are_finite_differences(built, rng):
    """The values themselves are compared with NumPy's above."""
    P, D = built
    extra, r, weight = (rng.uniform(0.2, 2, (2, len(D))) for _ in range(3))

    def value(leaves):
        """Return one number that depends on all methods; square blocks stay symmetric."""
        P, extra = leaves
        P = jax.tree.map(lambda a: (a + a.T) / 2 if a.ndim == 2 and len(set(a.shape)) == 1 else a, P)
        factor = P.factor(extra)
        numbers = factor.solve(r) * weight + factor.cavity() * jnp.cos(weight) + P.off_diagonal(r) * r
        return numbers.sum() + (factor.log_det() ** 2).sum()

    assert_gradient(value, (P, jnp.asarray(extra)), rng)


def test_travels_through_jit_and_vmap(built, rng):
    P, D = built
    r = jnp.asarray(rng.normal(size=(3, 2, len(D))))
    mapped = jax.jit(jax.vmap(lambda v: P.off_diagonal(v)))(r)
    assert_allclose(mapped, np.asarray(r) @ (D - np.diag(np.diag(D))), rtol=1e-12, atol=1e-12)
    same = jax.jit(lambda P: P)(P)
    assert type(same) is type(P)
    assert_allclose(same.dense(), D, rtol=1e-12, atol=1e-12)


def test_low_rank_keeps_tiny_variances_positive_in_single_precision():
    # q/E rounds to 1 when u² ≫ E; the true value is d + u² for one variable
    P = LowRank(np.float32([1.0]), np.float32([[3e3]]))
    cavity = P.factor(jnp.zeros((1, 1), np.float32)).cavity()
    assert 1 / 2e-7 <= float(cavity[0, 0]) < np.inf


def test_cavity_keeps_its_digits_beside_large_sites(built):
    # 1 / variance − extra would lose 16 digits; in exact arithmetic the variable with the site drops out
    P, D = built
    extra = np.zeros((1, len(D)))
    extra[0, 1] = 1e24
    rest = np.delete(np.arange(len(D)), 1)
    got = P.factor(jnp.asarray(extra)).cavity()[0]
    alone = D[1, 1] - D[1, rest] @ np.linalg.solve(D[np.ix_(rest, rest)], D[rest, 1])
    assert_allclose(got[1], alone, rtol=1e-12)
    assert_allclose(got[rest], 1 / np.diag(np.linalg.inv(D[np.ix_(rest, rest)])), rtol=1e-12)
