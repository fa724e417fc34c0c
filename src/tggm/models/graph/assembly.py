"""The precision A_Fᵀ K A_F of the unknown variables, in the cheapest structure that the graph promises.

Variables tied through known ones only give `Diagonal` or `LowRank`; blocks in a row, each tied to the next,
give `Layered`; anything else is `Dense`.
"""

import math
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve
from numpy.typing import NDArray

from tggm.models.graph.parameters import Parameters
from tggm.models.graph.structure import Structure
from tggm.precision import Dense, Diagonal, Layered, LowRank, Precision


def _rows_of_A(structure: Structure, params: Parameters, name: str, free: tuple[str, ...]) -> Array:
    """The rows of A_F that belong to the residual of a block."""
    dtype, size = params["bias"][name].dtype, structure.size(name)
    weights = {e.parent: -params["weights"][e.name] for e in structure.edges if e.child == name}
    zero = {f: jnp.zeros((size, structure.size(f)), dtype) for f in free}
    return jnp.concatenate(
        [jnp.eye(size, dtype=dtype) if f == name else weights.get(f, zero[f]) for f in free], axis=1
    )


def matrix(
    structure: Structure,
    params: Parameters,
    K: dict[Any, Array],
    kept: tuple[str, ...],
    free: tuple[str, ...],
) -> Array:
    """A_Fᵀ K A_F."""
    A = {name: _rows_of_A(structure, params, name, free) for name in kept}
    size = sum(structure.size(name) for name in free)
    P = jnp.zeros((size, size), params["bias"][free[0]].dtype)
    for key, block in K.items():
        if len(key) == 1:
            P = P + A[key[0]].T @ (block[:, None] * A[key[0]])
        else:
            P = P + A[key[0]].T @ block @ A[key[1]]
    return 0.5 * (P + P.T)


def without(P: Array, gamma: Array, stays: NDArray[np.bool_]) -> tuple[Array | None, Array, Array]:
    """Precision and shift of the variables that stay when the others, not truncated, are integrated out.

    P_ss − P_sg P_gg⁻¹ P_gs and γ_s − P_sg P_gg⁻¹ γ_g; the third number is the logarithm of that integral.
    """
    s, g = np.flatnonzero(stays), np.flatnonzero(~stays)
    L = cholesky(P[np.ix_(g, g)])
    t = triangular_solve(L, gamma[g][:, None], left_side=True, lower=True)[:, 0]
    log_z = 0.5 * (t**2).sum() - jnp.log(jnp.diagonal(L)).sum() + 0.5 * math.log(2 * math.pi) * len(g)
    if not len(s):
        return None, gamma[s], log_z
    C = triangular_solve(L, P[np.ix_(g, s)], left_side=True, lower=True)
    return P[np.ix_(s, s)] - C.T @ C, gamma[s] - t @ C, log_z


def structured(
    structure: Structure,
    params: Parameters,
    K: dict[Any, Array],
    kept: tuple[str, ...],
    free: tuple[str, ...],
) -> Precision:
    """A_Fᵀ K A_F in the cheapest structure that the graph promises."""
    sizes = [structure.size(name) for name in free]
    if _independent(structure, kept, free):
        base = jnp.concatenate([K[name,] for name in free])
        U = _factors(structure, params, K, kept, free)
        if not U:
            return Diagonal(base)
        if 2 * sum(len(u) for u in U) <= sum(sizes):
            return LowRank(base, jnp.concatenate(U))
    P = matrix(structure, params, K, kept, free)
    if len(free) > 1 and _is_chain(structure, kept, free):
        ends = np.concatenate([[0], np.cumsum(sizes)])
        at = [slice(a, b) for a, b in pairwise(ends)]
        return Layered(tuple(P[i, i] for i in at), tuple(P[j, i] for i, j in pairwise(at)))
    return Dense(P)


def _independent(structure: Structure, kept: tuple[str, ...], free: tuple[str, ...]) -> bool:
    """Whether the unknown variables are tied through known ones and lateral couplings only."""
    if any(e.parent in free and e.child in free for e in structure.edges):
        return False
    for c in structure.couplings:
        if c.lateral or c.first not in kept or c.second not in kept:
            continue
        ends = [c.first, c.second]
        explained = any(p in free for name in ends if name not in free for p in structure.parents(name))
        if all(name in free for name in ends) or explained:
            return False
    return not any(
        c.lateral and c.first in kept and c.first not in free and set(structure.parents(c.first)) & set(free)
        for c in structure.couplings
    )


def _factors(
    structure: Structure,
    params: Parameters,
    K: dict[Any, Array],
    kept: tuple[str, ...],
    free: tuple[str, ...],
) -> list[Array]:
    """Rows U with P = base + UᵀU: known children of unknown variables, and lateral couplings."""
    out = [
        _root(K[name,])[:, None] * _rows_of_A(structure, params, name, free)
        for name in kept
        if name not in free and set(structure.parents(name)) & set(free)
    ]
    for c in structure.couplings:
        if c.lateral and c.first in free:
            U = params["coupling"][c.name]
            zero = {f: jnp.zeros((len(U), structure.size(f)), U.dtype) for f in free}
            out.append(jnp.concatenate([U if f == c.first else zero[f] for f in free], axis=1))
    return out


def _root(values: Array) -> Array:
    """Square roots, with derivative zero at the zeros that stand for missing values."""
    there = values > 0
    return jnp.where(there, jnp.sqrt(jnp.where(there, values, 1.0)), 0.0)


def _is_chain(structure: Structure, kept: tuple[str, ...], free: tuple[str, ...]) -> bool:
    """Whether each unknown block is tied to its neighbours in the list only."""

    def terms(name: str) -> set[str]:
        own = {name, *(child for child in structure.children(name) if child in kept)}
        return own | {
            other
            for c in structure.couplings
            for one, other in ((c.first, c.second), (c.second, c.first))
            if one in own and other in kept
        }

    reach = [terms(name) for name in free]
    own = [{name, *(c for c in structure.children(name) if c in kept)} for name in free]
    return not any(reach[i] & own[j] for i in range(len(free)) for j in range(i + 2, len(free)))
