r"""From a graph, its numbers and what is known of one row to a truncated Gaussian.

With F the variables that stay unknown, and every residual written as r = A_F v_F − β (inputs, biases and
known values are in β),

.. math::
    E = \tfrac12 r^T K r \quad\Rightarrow\quad P = A_F^T K A_F, \qquad \gamma = A_F^T K \beta,
    \qquad \int e^{-E} dv_F = Z(P, \gamma)\, e^{-\beta^T K \beta / 2}.

A variable with a limit o is v = o ± t with t ≥ 0: an inequality is a truncated variable like any other.
One row at a time: `jax.vmap` makes batches, in which rows may differ in what is known of them.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tggm.gaussian import TruncatedGaussian
from tggm.models.graph.assembly import Terms, matrix, structured, without
from tggm.models.graph.evidence import Evidence, Pattern
from tggm.models.graph.parameters import Parameters, ResidualPrecision, residual_precision
from tggm.models.graph.structure import Structure
from tggm.models.likelihoods.gaussian import LOG_2PI
from tggm.precision import Dense, Layered, Precision
from tggm.products import full_precision

Keep = Literal["all", "tied", "truncated"]
LogPartition = Callable[[TruncatedGaussian], Array]


class Conditional(NamedTuple):
    """p(unknown variables | what is known) of one row: v = offset + sign · t, t the truncated Gaussian."""

    gaussian: TruncatedGaussian | None  # of one row; None if nothing is unknown
    log_constant: Array  # () log ∫ e^{−E} − log Z
    offset: Array  # (m,)
    sign: Array  # (m,) ±1, and 0 where the variable is known after all


def blocks(
    structure: Structure, pattern: Pattern, keep: Keep = "all"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Blocks whose terms stay, and those of them that are unknown, in part at least.

    If all are kept, missing leaves are among the unknown.
    """
    kinds = dict(pattern)
    unobserved = tuple(name for name in structure.variables if name not in kinds)
    kept = structure.variables if keep == "all" else structure.without_leaves(unobserved)

    def unknown(name: str) -> bool:
        kind = kinds.get(name)
        return kind in (None, "sided") or (
            kind == "missing" and (keep == "all" or not structure.is_leaf(name))
        )

    return kept, tuple(filter(unknown, kept))


@full_precision
def conditional(
    structure: Structure, pattern: Pattern, params: Parameters, row: Evidence, *, keep: Keep = "tied"
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
    kept, free = blocks(structure, pattern, keep)
    known = _known(structure, dict(pattern), params, row, kept)
    # a missing value on which nothing hangs: its term is left out, by `where`, which keeps derivatives finite
    gone = {name: known.missing[name] & (name not in free) for name in kept}
    own, coupled = residual_precision(structure, params, kept)
    K = ResidualPrecision({name: jnp.where(gone[name], 0.0, own[name]) for name in kept}, coupled)
    weighted = _times(K, known.beta)
    # −½ βᵀKβ − ½ Σ log 2πs: each residual's Gaussian is normalised, so that leaves integrate to one
    constant = jnp.zeros((), next(iter(params["log_noise"].values())).dtype)
    for name in kept:
        normaliser = jnp.where(gone[name], 0.0, params["log_noise"][name] + LOG_2PI)
        constant = constant - 0.5 * (known.beta[name] * weighted[name] + normaliser).sum()
    if not free:
        return Conditional(None, constant, jnp.zeros(0, constant.dtype), jnp.zeros(0, constant.dtype))
    offset, side, missing = (
        jnp.concatenate([part[name] for name in free]) for part in (known.given, known.side, known.missing)
    )
    sizes, latent = (
        [structure.size(name) for name in free],
        [name in structure.named("latent") for name in free],
    )
    sign, truncated = jnp.where(missing, 1.0, side), ((side != 0) & ~missing) | np.repeat(latent, sizes)
    gamma = jnp.concatenate([_pull_back(structure, params, weighted, name) for name in free])
    terms = Terms(structure, params, K, kept, free)
    observed = [name in dict(pattern) for name in free]
    if any(observed):
        # rows differ: variables known after all become standard normals apart from the rest
        alone = jnp.where(sign == 0, 1.0, 0.0).astype(sign.dtype)
        constant, gamma = constant - 0.5 * LOG_2PI * alone.sum(), sign * gamma
        P: Precision = Dense(sign[:, None] * matrix(terms) * sign[None, :] + jnp.diag(alone))
    else:
        P = structured(terms)
    tg = TruncatedGaussian(P, gamma[None, :], truncated)
    walls = np.repeat(np.logical_or(observed, latent), sizes)
    if keep == "truncated" and not walls.all() and isinstance(P, Dense | Layered):
        smaller, log_z = _reduced(tg, walls)
        return Conditional(smaller, constant + log_z, offset[walls], sign[walls])
    return Conditional(tg, constant, offset, sign)


@full_precision
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


class _Known(NamedTuple):
    """What is known of a row, block by block; 0 in `given` and `side` where nothing is."""

    given: dict[str, Array]
    missing: dict[str, Array]
    side: dict[str, Array]
    beta: dict[str, Array]


def _known(
    structure: Structure, kinds: dict[str, str], params: Parameters, row: Evidence, kept: tuple[str, ...]
) -> _Known:
    out = _Known({}, {}, {}, {})
    for name in kept:
        zero = jnp.zeros_like(params["bias"][name])
        value = row.value[name] if name in kinds else jnp.full_like(zero, jnp.nan)
        out.missing[name] = jnp.isnan(value)
        out.given[name] = jnp.where(out.missing[name], 0.0, value)
        out.side[name] = row.side[name] if kinds.get(name) == "sided" else zero
    given = {**row.inputs, **out.given}
    for name in kept:
        out.beta[name] = params["bias"][name] - given[name]
        for edge in structure.edges:
            if edge.child == name and edge.parent in given:
                out.beta[name] += params["weights"][edge.name] @ given[edge.parent]
    return out


def _reduced(tg: TruncatedGaussian, stays: NDArray[np.bool_]) -> tuple[TruncatedGaussian | None, Array]:
    """What remains when the others, not truncated, are integrated out; the logarithm of that integral."""
    P, gamma, log_z = without(tg.precision.dense(), tg.shift[0], stays)
    smaller = None if P is None else TruncatedGaussian(Dense(P), gamma[None, :], tg.truncated[stays])
    return smaller, log_z


def _times(K: ResidualPrecision, r: dict[str, Array]) -> dict[str, Array]:
    """K r, block by block."""
    out = {name: diagonal * r[name] for name, diagonal in K.own.items()}
    for (a, b), block in K.coupled.items():
        out[a] = out[a] + block @ r[b]
    return out


def _pull_back(structure: Structure, params: Parameters, r: dict[str, Array], name: str) -> Array:
    """The block of Aᵀ r that belongs to a variable."""
    out = r[name]
    for edge in structure.edges:
        if edge.parent == name and edge.child in r:
            out = out - r[edge.child] @ params["weights"][edge.name]
    return out
