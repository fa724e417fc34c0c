"""The precision A_Fᵀ K A_F of the unknown variables, in the cheapest structure that the graph promises.

Variables tied through known ones only give `Diagonal` or `LowRank`; blocks in a row, each tied to the next,
give `Layered`; anything else is `Dense`.
"""

from itertools import pairwise
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve
from numpy.typing import NDArray

from tggm.models.graph.parameters import Parameters, ResidualPrecision
from tggm.models.graph.structure import Structure
from tggm.models.likelihoods.gaussian import LOG_2PI
from tggm.precision import Dense, Diagonal, Layered, LowRank, Precision


class Terms(NamedTuple):
    """The quadratic terms of an energy, and which of its variables are unknown."""

    structure: Structure
    params: Parameters
    K: ResidualPrecision
    kept: tuple[str, ...]  # blocks whose residuals are there
    free: tuple[str, ...]  # those of them that are unknown, in part at least


def matrix(t: Terms) -> Array:
    """A_Fᵀ K A_F."""
    A = {name: _rows_of_A(t, name) for name in t.kept}
    parts = [A[name].T @ (K[:, None] * A[name]) for name, K in t.K.own.items()]
    parts += [A[a].T @ K @ A[b] for (a, b), K in t.K.coupled.items()]
    P = sum(parts[1:], parts[0])
    return 0.5 * (P + P.T)


def structured(t: Terms) -> Precision:
    """A_Fᵀ K A_F in the cheapest structure that the graph promises."""
    sizes = [t.structure.size(name) for name in t.free]
    if _independent(t):
        base = jnp.concatenate([t.K.own[name] for name in t.free])
        U = _factors(t)
        if not U:
            return Diagonal(base)
        if 2 * sum(len(u) for u in U) <= sum(sizes):
            return LowRank(base, jnp.concatenate(U))
    P = matrix(t)
    if len(t.free) > 1 and _is_chain(t):
        at = [slice(a, b) for a, b in pairwise(np.cumsum([0, *sizes]))]
        return Layered(tuple(P[i, i] for i in at), tuple(P[j, i] for i, j in pairwise(at)))
    return Dense(P)


def without(P: Array, gamma: Array, stays: NDArray[np.bool_]) -> tuple[Array | None, Array, Array]:
    """Precision and shift of the variables that stay when the others, not truncated, are integrated out.

    P_ss − P_sg P_gg⁻¹ P_gs and γ_s − P_sg P_gg⁻¹ γ_g; the third number is the logarithm of that integral.
    """
    s, g = np.flatnonzero(stays), np.flatnonzero(~stays)
    L = cholesky(P[np.ix_(g, g)])
    t = triangular_solve(L, gamma[g][:, None], left_side=True, lower=True)[:, 0]
    log_z = 0.5 * (t**2).sum() - jnp.log(jnp.diagonal(L)).sum() + 0.5 * LOG_2PI * len(g)
    if not len(s):
        return None, gamma[s], log_z
    C = triangular_solve(L, P[np.ix_(g, s)], left_side=True, lower=True)
    return P[np.ix_(s, s)] - C.T @ C, gamma[s] - t @ C, log_z


def _rows_of_A(t: Terms, name: str) -> Array:
    """The rows of A_F that belong to the residual of a block."""
    blocks = {e.parent: -t.params["weights"][e.name] for e in t.structure.edges if e.child == name}
    blocks[name] = jnp.eye(t.structure.size(name), dtype=t.params["bias"][name].dtype)
    return _across(t, blocks, blocks[name])


def _across(t: Terms, blocks: dict[str, Array], like: Array) -> Array:
    """Blocks side by side, one for each unknown block: zeros where none is given."""
    zero = {f: jnp.zeros((len(like), t.structure.size(f)), like.dtype) for f in t.free}
    return jnp.concatenate([blocks.get(f, zero[f]) for f in t.free], axis=1)


def _independent(t: Terms) -> bool:
    """Whether the unknown variables are tied through known ones and lateral couplings only."""
    if any(set(e.ends) <= set(t.free) for e in t.structure.edges):
        return False
    for c in t.structure.couplings:
        known = set(c.ends) - set(t.free)
        explained = any(_has_free_parent(t, name) for name in known)
        if set(c.ends) <= set(t.kept) and (explained or not (known or c.lateral)):
            return False
    return True


def _has_free_parent(t: Terms, name: str) -> bool:
    return any(parent in t.free for parent in t.structure.parents(name))


def _factors(t: Terms) -> list[Array]:
    """Rows U with P = base + UᵀU: known children of unknown variables, and lateral couplings."""
    out = [
        jnp.sqrt(t.K.own[name])[:, None] * _rows_of_A(t, name)
        for name in t.kept
        if name not in t.free and _has_free_parent(t, name)
    ]
    lateral = [c for c in t.structure.couplings if c.lateral and c.first in t.free]
    factors = [(c.first, t.params["coupling"][c.name]) for c in lateral]
    return out + [_across(t, {name: U}, U) for name, U in factors]


def _is_chain(t: Terms) -> bool:
    """Whether each unknown block is tied to its neighbours in the list only."""
    own = [{name, *t.structure.children(name)} & set(t.kept) for name in t.free]
    ties = [ends for c in t.structure.couplings for ends in (c.ends, c.ends[::-1]) if ends[1] in t.kept]
    reach = [terms | {b for a, b in ties if a in terms} for terms in own]
    return not any(reach[i] & own[j] for i in range(len(own)) for j in range(i + 2, len(own)))
