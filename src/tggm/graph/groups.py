"""Rows that know the same variables: they share a precision matrix and are treated together."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tggm.gaussian import TruncatedGaussian
from tggm.models.graph.conditional import Conditional, Keep, conditional
from tggm.models.graph.evidence import Evidence, Pattern
from tggm.models.graph.parameters import Parameters
from tggm.models.graph.structure import Structure
from tggm.models.likelihoods.gaussian import LOG_2PI


class Group(NamedTuple):
    """Rows with one precision matrix; of row i, v = offset + sign · t, t the truncated Gaussian."""

    rows: NDArray[np.intp]
    gaussian: TruncatedGaussian | None  # None if nothing is unknown
    log_constant: Array  # (rows,)
    offset: Array  # (rows, m)
    sign: Array  # (rows, m)
    which: NDArray[np.intp]  # variables of the conditional that are unknown in these rows


def groups(
    structure: Structure, pattern: Pattern, params: Parameters, evidence: Evidence, n: int, keep: Keep
) -> Iterator[Group]:
    """The first n rows by what they know, with what their precision matrix leaves of the variables."""
    names = [name for name, kind in pattern if kind != "known"]
    known = [np.isnan(evidence.value[name][:n]) for name in names]
    known += [evidence.side[name][:n] for name in names if name in evidence.side]
    marks = np.concatenate(known, axis=1) if known else np.zeros((n, 1))
    _, group = np.unique(marks, axis=0, return_inverse=True)
    for i in range(group.max() + 1):
        rows = np.flatnonzero(group.ravel() == i)
        part = jax.tree.map(lambda a, rows=rows: jnp.asarray(a[rows]), evidence)
        given = jax.tree.map(jnp.asarray, params)
        yield _group(rows, *_conditionals(structure, pattern, keep, len(rows), given, part))


def _group(rows: NDArray[np.intp], first: Conditional, each: Conditional, shift: Array) -> Group:
    """Leave out the variables that are known in these rows: standard normals, apart from the rest."""
    which = np.flatnonzero(np.asarray(first.sign))
    constant = each.log_constant + 0.5 * LOG_2PI * (first.sign.size - len(which))
    tg = first.gaussian
    if tg is not None and 0 < len(which) < tg.size:
        P = tg.precision.dense()[np.ix_(which, which)]
        tg = TruncatedGaussian(P, shift[:, which], tg.truncated[which])
    elif tg is not None:
        tg = tg.with_shift(shift) if len(which) else None
    return Group(rows, tg, constant, each.offset, each.sign, which)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _conditionals(
    structure: Structure, pattern: Pattern, keep: Keep, n: int, params: Parameters, part: Evidence
) -> tuple[Conditional, Conditional, Array]:
    """The first row's, with the precision of all; what differs between rows; and their shifts."""

    def one(row: Evidence) -> tuple[Conditional, Array]:
        found = conditional(structure, pattern, params, row, keep=keep)
        shift = found.offset if found.gaussian is None else found.gaussian.shift[0]
        return found._replace(gaussian=None), shift

    first = conditional(structure, pattern, params, jax.tree.map(lambda a: a[0], part), keep=keep)
    if jax.tree.leaves(part):
        return first, *jax.vmap(one)(part)
    alike = jax.tree.map(lambda a: jnp.broadcast_to(a[None], (n, *a.shape)), one(part))
    return first, *alike  # nothing is given
