r"""Condition a graph on data: read the data, and build the truncated Gaussian of the unknown variables.

A value may be exact, an inequality (side +1: at least, −1: at most) or missing (NaN), and rows may differ in
this. Which of these kinds occur in a block is its entry in the `Pattern`, which is static when a program is
compiled. With F the unknown variables, and every residual written as r = A_F v_F − β (β holds inputs, biases
and known values),

.. math::
    E = \tfrac12 r^T K r \quad\Rightarrow\quad P = A_F^T K A_F, \qquad \gamma = A_F^T K \beta,
    \qquad \int e^{-E} dv_F = Z(P, \gamma)\, e^{-\beta^T K \beta / 2}.

A variable with a limit o is v = o ± t with t ≥ 0, so an inequality adds a truncated variable. `conditional`
treats one row; `jax.vmap` makes batches, in which rows may differ in their known variables. `groups` collects
rows with the same known variables, which share a precision matrix.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.censored import Censored, sides
from tggm.gaussian import TruncatedGaussian
from tggm.graph._structure import Block, Parameters, ResidualPrecision, Structure, residual_precision
from tggm.models.layers import LOG_2PI
from tggm.precision import Dense, Diagonal, Layered, LowRank, Precision
from tggm.runtime import full_precision

# (block, "known" | "missing" | "sided"); blocks that are not listed are unobserved
Pattern = tuple[tuple[str, str], ...]
Keep = Literal["all", "tied", "truncated"]
LogPartition = Callable[[TruncatedGaussian], Array]


class Evidence(NamedTuple):
    """Data by block, rows first."""

    inputs: dict[str, Any]  # (rows, size)
    value: dict[str, Any]  # (rows, size), NaN where missing
    side: dict[str, Any]  # (rows, size) −1, 0 or 1; only for blocks of kind "sided"


def read(structure: Structure, data: Mapping[str, Any]) -> tuple[Evidence, Pattern, int]:
    """Check the data of all blocks; return evidence, pattern and the number of rows."""
    unknown = sorted(set(data) - set(structure.by_name))
    if unknown:
        raise ValueError(f"`data`: there is no block {unknown[0]!r}; blocks are {sorted(structure.by_name)}.")
    missing = [name for name in structure.with_role("input") if name not in data]
    if missing:
        raise ValueError(f"`data` must have every input; {missing[0]!r} is missing.")
    evidence, pattern, rows = Evidence({}, {}, {}), [], None
    for block in structure.blocks:
        if block.name not in data:
            continue
        value, side = _read_block(block, data[block.name])
        if rows is not None and len(value) != rows:
            raise ValueError(f"`data[{block.name!r}]` has {len(value)} rows; other blocks have {rows}.")
        rows = len(value)
        if block.role == "input":
            evidence.inputs[block.name] = value
            continue
        evidence.value[block.name] = value
        kind = "missing" if np.isnan(value).any() else "known"
        if side is not None and side.any():
            kind = "sided"
            evidence.side[block.name] = side
        pattern.append((block.name, kind))
    return evidence, tuple(pattern), 1 if rows is None else rows


def _read_block(block: Block, given: Any) -> tuple[Floats, Floats | None]:
    name = f"data[{block.name!r}]"
    if block.role in ("latent", "free"):
        raise ValueError(f"`{name}`: the block is latent; make it an observed block to give it data.")
    side = None
    if isinstance(given, Censored):
        given, side = given.value, given.side
        if block.role != "observed":
            raise ValueError(f"`{name}`: only observed blocks can be censored, not {block.role} ones.")
    value = np.asarray(given, np.float64)
    value = value[:, None] if value.ndim == 1 and block.size == 1 else value
    if value.ndim != 2 or value.shape[1] != block.size:
        raise ValueError(f"`{name}` must have shape (rows, {block.size}); got {np.shape(given)}.")
    bad = ~np.isfinite(value) if block.role == "input" else np.isinf(value)
    if bad.any():
        remedy = "" if block.role == "input" else " Use NaN for missing values."
        raise ValueError(f"`{name}` must be finite; got {value[bad][0]}.{remedy}")
    if block.role == "inequality":
        side = np.nan_to_num(value, nan=0.0)
        if not np.isin(side, (-1, 0, 1)).all():
            raise ValueError(f"`{name}` must be signs: 1 (at least 0), -1 (at most 0), 0 or NaN (unknown).")
        return np.where(side == 0, np.nan, 0.0), side
    return value, None if side is None else sides(f"{name}.side", side, value.shape)


class Terms(NamedTuple):
    """The quadratic terms of an energy, and which of its variables are unknown."""

    structure: Structure
    params: Parameters
    K: ResidualPrecision
    kept: tuple[str, ...]  # blocks whose residuals are included
    free: tuple[str, ...]  # those of them that are unknown, at least in part


def matrix(t: Terms) -> Array:
    """Return A_Fᵀ K A_F."""
    A = {name: _rows_of_A(t, name) for name in t.kept}
    parts = [A[name].T @ (K[:, None] * A[name]) for name, K in t.K.own.items()]
    parts += [A[a].T @ K @ A[b] for (a, b), K in t.K.coupled.items()]
    P = sum(parts[1:], parts[0])
    return 0.5 * (P + P.T)


def structured_precision(t: Terms) -> Precision:
    """Return A_Fᵀ K A_F in the structure with the lowest cost that is possible for the graph.

    Variables that are tied only through known ones give `Diagonal` or `LowRank`; a chain of blocks gives
    `Layered`; everything else is `Dense`.
    """
    sizes = [t.structure.size(name) for name in t.free]
    if _is_independent(t):
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


def integrate_out(P: Array, gamma: Array, kept: NDArray[np.bool_]) -> tuple[Array | None, Array, Array]:
    """Integrate out the variables that are not kept and not truncated.

    Returns P_ss − P_sg P_gg⁻¹ P_gs, γ_s − P_sg P_gg⁻¹ γ_g and the logarithm of the integral.
    """
    s, g = np.flatnonzero(kept), np.flatnonzero(~kept)
    L = cholesky(P[np.ix_(g, g)])
    t = triangular_solve(L, gamma[g][:, None], left_side=True, lower=True)[:, 0]
    log_z = 0.5 * (t**2).sum() - jnp.log(jnp.diagonal(L)).sum() + 0.5 * LOG_2PI * len(g)
    if not len(s):
        return None, gamma[s], log_z
    C = triangular_solve(L, P[np.ix_(g, s)], left_side=True, lower=True)
    return P[np.ix_(s, s)] - C.T @ C, gamma[s] - t @ C, log_z


def _rows_of_A(t: Terms, name: str) -> Array:
    """Return the rows of A_F that belong to the residual of a block."""
    parts = {e.parent: -t.params["weights"][e.name] for e in t.structure.edges if e.child == name}
    own = parts[name] = jnp.eye(t.structure.size(name), dtype=t.params["bias"][name].dtype)
    zero = {f: jnp.zeros((len(own), t.structure.size(f)), own.dtype) for f in t.free}
    return jnp.concatenate([parts.get(f, zero[f]) for f in t.free], axis=1)


def _is_independent(t: Terms) -> bool:
    """Return whether unknown variables are tied only through known ones."""
    if any(set(e.ends) <= set(t.free) for e in t.structure.edges):
        return False
    for c in t.structure.couplings:
        known = set(c.ends) - set(t.free)
        explained = any(set(t.structure.parents(name)) & set(t.free) for name in known)
        if set(c.ends) <= set(t.kept) and (explained or not known):
            return False
    return True


def _factors(t: Terms) -> list[Array]:
    """Return rows U with P = base + UᵀU, for the known children of unknown variables."""
    return [
        jnp.sqrt(t.K.own[name])[:, None] * _rows_of_A(t, name)
        for name in t.kept
        if name not in t.free and set(t.structure.parents(name)) & set(t.free)
    ]


def _is_chain(t: Terms) -> bool:
    """Return whether each unknown block is tied only to its neighbours in the list."""
    own = [{name, *t.structure.children(name)} & set(t.kept) for name in t.free]
    ties = [ends for c in t.structure.couplings for ends in (c.ends, c.ends[::-1]) if ends[1] in t.kept]
    reach = [terms | {b for a, b in ties if a in terms} for terms in own]
    return not any(reach[i] & own[j] for i in range(len(own)) for j in range(i + 2, len(own)))


class Conditional(NamedTuple):
    """p(unknown variables | known ones) of one row: v = offset + sign · t, t the truncated Gaussian."""

    gaussian: TruncatedGaussian | None  # of one row; None if nothing is unknown
    log_constant: Array  # () log ∫ e^{−E} − log Z
    offset: Array  # (m,)
    sign: Array  # (m,) ±1, and 0 where the variable is known in this row


def kept_blocks(
    structure: Structure, pattern: Pattern, keep: Keep = "all"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the blocks whose terms are kept, and those of them that are unknown, at least in part.

    With `keep="all"` missing leaves are among the unknown ones.
    """
    kinds = dict(pattern)
    unobserved = tuple(name for name in structure.variables if name not in kinds)
    kept = structure.variables if keep == "all" else structure.without_leaves(unobserved)

    def unknown(name: str) -> bool:
        partly = kinds.get(name) == "missing" and (keep == "all" or not structure.is_leaf(name))
        return partly or kinds.get(name) in (None, "sided")

    return kept, tuple(filter(unknown, kept))


@full_precision
def conditional(
    structure: Structure, pattern: Pattern, params: Parameters, row: Evidence, *, keep: Keep = "tied"
) -> Conditional:
    """Return the distribution of the unknown variables of one row, whose arrays have shape (size,).

    `keep` selects the unknown variables to keep: "all"; "tied", all except unobserved leaves; or "truncated",
    with others only where keeping their structure is cheaper than integrating them out.
    """
    (kept, free), kinds, bias = kept_blocks(structure, pattern, keep), dict(pattern), params["bias"]
    nothing = {name: jnp.full_like(bias[name], jnp.nan) for name in kept}
    missing = {name: jnp.isnan(row.value[name] if name in kinds else nothing[name]) for name in kept}
    given = {name: jnp.where(missing[name], 0.0, {**nothing, **row.value}[name]) for name in kept}
    side = {
        name: row.side[name] if kinds.get(name) == "sided" else jnp.zeros_like(bias[name]) for name in kept
    }
    beta = {name: bias[name] - given[name] for name in kept}
    for edge in structure.edges:
        if edge.child in kept and edge.parent in given | row.inputs:
            beta[edge.child] += params["weights"][edge.name] @ (given | row.inputs)[edge.parent]
    # drop the term of a missing leaf by `where`, which keeps derivatives finite
    dropped = {name: missing[name] & (name not in free) for name in kept}
    own, coupled = residual_precision(structure, params, kept)
    K = ResidualPrecision({name: jnp.where(dropped[name], 0.0, own[name]) for name in kept}, coupled)
    weighted = {name: K.own[name] * beta[name] for name in kept}
    for (a, b), block in coupled.items():
        weighted[a] += block @ beta[b]
    # −½ βᵀKβ − ½ Σ log 2πs: each residual's Gaussian is normalised, so that leaves integrate to one
    constant = jnp.zeros((), next(iter(params["log_noise"].values())).dtype)
    for name in kept:
        normaliser = jnp.where(dropped[name], 0.0, params["log_noise"][name] + LOG_2PI)
        constant = constant - 0.5 * (beta[name] * weighted[name] + normaliser).sum()
    if not free:
        return Conditional(None, constant, jnp.zeros(0, constant.dtype), jnp.zeros(0, constant.dtype))
    offset, limit, unknown = (jnp.concatenate([v[name] for name in free]) for v in (given, side, missing))
    sizes = [structure.size(name) for name in free]
    latent = [name in structure.with_role("latent") for name in free]
    sign, truncated = jnp.where(unknown, 1.0, limit), ((limit != 0) & ~unknown) | np.repeat(latent, sizes)
    terms = Terms(structure, params, K, kept, free)
    pulls = [weighted[name] @ _rows_of_A(terms, name) for name in kept]
    gamma = sum(pulls[1:], pulls[0])
    observed = [name in kinds for name in free]
    if any(observed):
        # rows differ: variables that are known in this row become standard normals, independent of the rest
        alone = jnp.where(sign == 0, 1.0, 0.0).astype(sign.dtype)
        constant, gamma = constant - 0.5 * LOG_2PI * alone.sum(), sign * gamma
        P: Precision = Dense(sign[:, None] * matrix(terms) * sign[None, :] + jnp.diag(alone))
    else:
        P = structured_precision(terms)
    tg = TruncatedGaussian(P, gamma[None, :], truncated)
    limited = np.repeat(np.logical_or(observed, latent), sizes)
    if keep == "truncated" and not limited.all() and isinstance(P, Dense | Layered):
        P_kept, gamma, log_z = integrate_out(P.dense(), gamma, limited)
        smaller = None
        if P_kept is not None:
            smaller = TruncatedGaussian(Dense(P_kept), gamma[None, :], truncated[limited])
        return Conditional(smaller, constant + log_z, offset[limited], sign[limited])
    return Conditional(tg, constant, offset, sign)


@full_precision
def log_likelihood(
    structure: Structure, pattern: Pattern, params: Parameters, row: Evidence, log_z: LogPartition
) -> Array:
    """Return the log-density of the data of one row given its inputs: a difference of two log Z."""

    def log_mass(given: Pattern) -> Array:
        part = conditional(structure, given, params, row, keep="truncated")
        if part.gaussian is None:
            return part.log_constant
        return log_z(part.gaussian)[0] + part.log_constant

    return log_mass(pattern) - log_mass(())


class Group(NamedTuple):
    """Rows with one precision matrix; in row i, v = offset + sign · t, t the truncated Gaussian."""

    rows: NDArray[np.intp]
    gaussian: TruncatedGaussian | None  # None if nothing is unknown
    log_constant: Array  # (rows,)
    offset: Array  # (rows, m)
    sign: Array  # (rows, m)
    which: NDArray[np.intp]  # variables of the conditional that are unknown in these rows


def groups(
    structure: Structure, pattern: Pattern, params: Parameters, evidence: Evidence, n: int, keep: Keep
) -> Iterator[Group]:
    """Group the first n rows by their known variables, and condition each group."""
    names = [name for name, kind in pattern if kind != "known"]
    known = [np.isnan(evidence.value[name][:n]) for name in names]
    known += [evidence.side[name][:n] for name in names if name in evidence.side]
    marks = np.concatenate(known, axis=1) if known else np.zeros((n, 1))
    _, group = np.unique(marks, axis=0, return_inverse=True)
    given = jax.tree.map(jnp.asarray, params)
    for i in range(group.max() + 1):
        rows = np.flatnonzero(group.ravel() == i)
        part = jax.tree.map(lambda a, rows=rows: jnp.asarray(a[rows]), evidence)
        first, each, shift = _conditionals(structure, pattern, keep, given, np.arange(len(rows)), part)
        # remove the variables that are known in these rows: independent standard normals
        which = np.flatnonzero(np.asarray(first.sign))
        constant = each.log_constant + 0.5 * LOG_2PI * (first.sign.size - len(which))
        tg = first.gaussian
        if tg is not None and 0 < len(which) < tg.size:
            P = tg.precision.dense()[np.ix_(which, which)]
            tg = TruncatedGaussian(P, shift[:, which], tg.truncated[which])
        elif tg is not None:
            tg = tg.with_shift(shift) if len(which) else None
        yield Group(rows, tg, constant, each.offset, each.sign, which)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _conditionals(
    structure: Structure, pattern: Pattern, keep: Keep, params: Parameters, numbers: Any, part: Evidence
) -> tuple[Conditional, Conditional, Array]:
    """Return the first row's conditional with the common precision, all rows' without it, and all shifts."""

    def one(_: Array, row: Evidence) -> tuple[Conditional, Array]:  # there may be no evidence
        found = conditional(structure, pattern, params, row, keep=keep)
        shift = found.offset if found.gaussian is None else found.gaussian.shift[0]
        return found._replace(gaussian=None), shift

    first = conditional(structure, pattern, params, jax.tree.map(lambda a: a[0], part), keep=keep)
    return first, *jax.vmap(one)(numbers, part)
