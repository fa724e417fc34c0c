r"""From a graph, its numbers and what is known of one row to a truncated Gaussian.

With F the variables that stay unknown, and every residual written as r = A_F v_F − β (inputs, biases and
known values are in β),

.. math::
    E = \tfrac12 r^T K r \quad\Rightarrow\quad P = A_F^T K A_F, \qquad \gamma = A_F^T K \beta,
    \qquad \int e^{-E} dv_F = Z(P, \gamma)\, e^{-\beta^T K \beta / 2}.

A variable with a limit o is v = o ± t with t ≥ 0: an inequality is a truncated variable like any other.
One row at a time: `jax.vmap` makes batches, in which rows may differ in what is known of them.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.gaussian import TruncatedGaussian
from tggm.models.graph.assembly import matrix, structured, without
from tggm.models.graph.evidence import Evidence, Pattern
from tggm.models.graph.parameters import Parameters, residual_precision
from tggm.models.graph.structure import Structure
from tggm.precision import Dense, Layered, Precision

LOG_2PI = math.log(2 * math.pi)
LogPartition = Callable[[TruncatedGaussian], Array]


class Conditional(NamedTuple):
    """p(unknown variables | what is known) of one row: v = offset + sign · t, t the truncated Gaussian."""

    gaussian: TruncatedGaussian | None  # of one row; None if nothing is unknown
    log_constant: Array  # () log ∫ e^{−E} − log Z
    offset: Array  # (m,)
    sign: Array  # (m,) ±1, and 0 where the variable is known after all


class _Row(NamedTuple):
    """A row's numbers, block by block."""

    beta: dict[str, Array]
    weight: dict[str, Array]  # 1, or 0 for terms of variables that are missing and hang on nothing
    offset: dict[str, Array]
    sign: dict[str, Array]
    truncated: dict[str, Array]


def variables(structure: Structure, pattern: Pattern, kept: tuple[str, ...], keep: str) -> tuple[str, ...]:
    """Blocks that stay unknown, in part at least; if all are kept, missing leaves are among them."""
    kinds = dict(pattern)

    def unknown(name: str) -> bool:
        kind = kinds.get(name)
        leaf = structure.is_leaf(name) and keep != "all"
        return kind in (None, "sided") or (kind == "missing" and not leaf)

    return tuple(name for name in kept if unknown(name))


def conditional(
    structure: Structure, pattern: Pattern, params: Parameters, row: Evidence, *, keep: str = "tied"
) -> Conditional:
    """The distribution of what is unknown in one row.

    Parameters
    ----------
    structure, pattern : Structure, Pattern
        Fixed when compiled.
    params : Parameters
        Numbers of the graph.
    row : Evidence
        Of one row: arrays of shape (size,).
    keep : {"all", "tied", "truncated"}
        Which unknown variables stay: all; all but unobserved leaves; or those that are truncated, and others
        only where their structure is cheaper than integrating them out.
    """
    observed = tuple(name for name, _ in pattern)
    row = Evidence(row.inputs, *({k: v for k, v in part.items() if k in observed} for part in row[1:]))
    unobserved = tuple(name for name in structure.variables if name not in observed)
    kept = structure.variables if keep == "all" else structure.without_leaves(unobserved)
    free = variables(structure, pattern, kept, keep)
    numbers = _numbers(structure, params, row, kept, free)
    K = residual_precision(structure, params, kept)
    K |= {(name,): K[name,] * w for name, w in numbers.weight.items()}
    weighted = _times(K, numbers.beta, kept)
    constant = _constant(params, numbers, weighted, kept)
    if not free:
        return Conditional(None, constant, jnp.zeros(0, constant.dtype), jnp.zeros(0, constant.dtype))
    offset, sign, truncated = (
        jnp.concatenate([part[name] for name in free])
        for part in (numbers.offset, numbers.sign, numbers.truncated)
    )
    gamma = jnp.concatenate([_pull_back(structure, params, weighted, name, kept) for name in free])
    if any(kind != "known" for name, kind in pattern if name in free):
        # rows differ: variables known after all become standard normals apart from the rest
        known = jnp.where(sign == 0, 1.0, 0.0).astype(sign.dtype)
        constant, gamma = constant - 0.5 * LOG_2PI * known.sum(), sign * gamma
        P: Precision = Dense(
            sign[:, None] * matrix(structure, params, K, kept, free) * sign[None, :] + jnp.diag(known)
        )
    else:
        P = structured(structure, params, K, kept, free)
    stays = np.concatenate(
        [np.full(structure.size(f), f in observed or structure.by_name[f].role == "latent") for f in free]
    )
    if keep == "truncated" and not stays.all() and isinstance(P, Dense | Layered):
        reduced, gamma, log_z = without(P.dense(), gamma, stays)
        constant, offset, sign, truncated = constant + log_z, offset[stays], sign[stays], truncated[stays]
        if reduced is None:
            return Conditional(None, constant, offset, sign)
        P = Dense(reduced)
    return Conditional(TruncatedGaussian(P, gamma[None, :], truncated), constant, offset, sign)


def log_likelihood(
    structure: Structure, pattern: Pattern, params: Parameters, row: Evidence, log_z: LogPartition
) -> Array:
    """Log-probability (density) of what is known of one row given its inputs: a difference of two log Z."""

    def log_mass(given: Pattern) -> Array:
        part = conditional(structure, given, params, row, keep="truncated")
        if part.gaussian is None:
            return part.log_constant
        return log_z(part.gaussian)[0] + part.log_constant

    return log_mass(pattern) - log_mass(())


def _constant(params: Parameters, numbers: _Row, weighted: dict[str, Array], kept: tuple[str, ...]) -> Array:
    """−½ βᵀKβ − ½ Σ log 2πs: each residual's Gaussian is normalised, so that leaves integrate to one."""
    total = jnp.zeros((), next(iter(params["log_noise"].values())).dtype)
    for name in kept:
        normaliser = numbers.weight.get(name, 1.0) * (params["log_noise"][name] + LOG_2PI)
        total = total - 0.5 * (numbers.beta[name] * weighted[name] + normaliser).sum()
    return total


def _numbers(
    structure: Structure, params: Parameters, row: Evidence, kept: tuple[str, ...], free: tuple[str, ...]
) -> _Row:
    out = _Row({}, {}, {}, {}, {})
    given: dict[str, Array] = dict(row.inputs)  # what is known of each block, 0 where nothing is
    for name in kept:
        size, dtype = structure.size(name), params["bias"][name].dtype
        zero, one = jnp.zeros(size, dtype), jnp.ones(size, dtype)
        value = row.value.get(name)
        missing = jnp.ones(size, bool) if value is None else jnp.isnan(value)
        given[name] = zero if value is None else jnp.where(missing, 0.0, value)
        if name in free:
            side = row.side.get(name, zero)
            out.offset[name] = given[name]
            out.sign[name] = jnp.where(missing, one, side)
            latent = structure.by_name[name].role == "latent"
            out.truncated[name] = jnp.full(size, latent) | ((side != 0) & ~missing)
        elif value is not None and structure.is_leaf(name):
            out.weight[name] = jnp.where(missing, 0.0, one)
    for name in kept:
        location = params["bias"][name] - given[name]
        for edge in structure.edges:
            if edge.child == name and edge.parent in given:
                location = location + params["weights"][edge.name] @ given[edge.parent]
        out.beta[name] = location
    return out


def _times(K: dict[Any, Array], r: dict[str, Array], kept: tuple[str, ...]) -> dict[str, Array]:
    """K r, block by block."""
    out = {name: K[name,] * r[name] for name in kept}
    for key, block in K.items():
        if len(key) == 2:
            out[key[0]] = out[key[0]] + block @ r[key[1]]
    return out


def _pull_back(
    structure: Structure, params: Parameters, r: dict[str, Array], name: str, kept: tuple[str, ...]
) -> Array:
    """The block of Aᵀ r that belongs to a variable."""
    out = r[name]
    for edge in structure.edges:
        if edge.parent == name and edge.child in kept:
            out = out - r[edge.child] @ params["weights"][edge.name]
    return out
