"""What a person asks of a graph with numbers: in double precision, with any engine, outside of training.

Rows that know the same variables share a precision matrix and are treated together.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tggm.gaussian import TruncatedGaussian
from tggm.inference import hmc
from tggm.inference.orthant import probability
from tggm.inference.orthant.probability import Estimate
from tggm.models.graph.conditional import LOG_2PI, Conditional, conditional, variables
from tggm.models.graph.evidence import Evidence, Pattern, read
from tggm.models.graph.parameters import Parameters
from tggm.models.graph.structure import Structure

Floats = NDArray[np.float64]


class _Group(NamedTuple):
    """Rows with one precision matrix."""

    rows: NDArray[np.intp]
    gaussian: TruncatedGaussian | None
    log_constant: Array  # (rows,)
    offset: Array  # (rows, m)
    sign: Array  # (rows, m)
    which: NDArray[np.intp]  # variables of the conditional that are unknown in these rows


def prior(structure: Structure, params: Parameters, data: Mapping[str, Any]) -> TruncatedGaussian:
    """Of what remains when observed leaves are integrated out, given the inputs."""
    evidence, _, n = read(structure, data)
    with jax.enable_x64(True):
        (group,) = _groups(structure, (), params, evidence, n, keep="tied")
    return _required(group)


def posterior(structure: Structure, params: Parameters, data: Mapping[str, Any]) -> TruncatedGaussian:
    """Of the unknown variables given the data."""
    evidence, pattern, n = read(structure, data)
    with jax.enable_x64(True):
        groups = list(_groups(structure, pattern, params, evidence, n, keep="tied"))
    if len(groups) > 1:
        raise ValueError(
            f"`data`: rows know different variables ({len(groups)} patterns), so that they have no common "
            "precision matrix; select rows with one pattern, or use moments() and log_likelihood()."
        )
    return _required(groups[0])


def log_likelihood(
    structure: Structure, params: Parameters, data: Mapping[str, Any], engine: str, **options: Any
) -> Estimate:
    """A difference of two log Z, and what both may err by."""
    evidence, pattern, n = read(structure, data)
    with jax.enable_x64(True):
        above = _log_mass(structure, pattern, params, evidence, n, engine, **options)
        # without inputs the prior is the same for all rows
        rows = n if structure.named("input") else 1
        below = _log_mass(structure, (), params, evidence, rows, engine, **options)
    return Estimate(above[0] - below[0], np.hypot(above[1], below[1]))  # type: ignore[arg-type]  # NumPy


def moments(
    structure: Structure, params: Parameters, data: Mapping[str, Any], engine: str, **options: Any
) -> dict[str, tuple[Floats, Floats]]:
    """Means and variances of all blocks but the inputs; known values have variance 0."""
    evidence, pattern, n = read(structure, data)
    free = variables(structure, pattern, structure.variables, "all")
    size = sum(structure.size(name) for name in free)
    mean, var = np.zeros((n, size)), np.zeros((n, size))
    with jax.enable_x64(True):
        for group in _groups(structure, pattern, params, evidence, n, keep="all"):
            offset, sign = np.asarray(group.offset), np.asarray(group.sign)
            mean[group.rows] = offset
            if group.gaussian is not None:
                found = probability.moments(group.gaussian, engine, **options)
                at = np.ix_(group.rows, group.which)
                mean[at] += sign[:, group.which] * np.asarray(found.mean)
                var[at] = np.asarray(found.var)
    out = {name: (value, np.zeros_like(value)) for name, value in evidence.value.items()}
    pairs = zip(_split(structure, free, mean), _split(structure, free, var), strict=True)
    return out | dict(zip(free, pairs, strict=True))


def sample(
    structure: Structure,
    params: Parameters,
    data: Mapping[str, Any],
    n: int,
    key: Array | int,
    **options: Any,
) -> dict[str, Floats]:
    """Draws from the chains of `tggm.inference.sampling.hmc`; known values are repeated."""
    evidence, pattern, rows = read(structure, data)
    free = variables(structure, pattern, structure.variables, "all")
    draws = np.zeros((n, rows, sum(structure.size(name) for name in free)))
    with jax.enable_x64(True):
        random = jax.random.key(key) if isinstance(key, int) else key
        for group in _groups(structure, pattern, params, evidence, rows, keep="all"):
            draws[:, group.rows] = np.asarray(group.offset)[None]
            if group.gaussian is not None:
                random, now = jax.random.split(random)
                t = np.asarray(hmc(group.gaussian, now, n, **options).draws)
                sign = np.asarray(group.sign)[:, group.which]
                draws[:, group.rows[:, None], group.which[None, :]] += sign[None] * t
    out = {name: np.repeat(value[None], n, 0) for name, value in evidence.value.items()}
    return out | dict(zip(free, _split(structure, free, draws), strict=True))


def _log_mass(
    structure: Structure,
    pattern: Pattern,
    params: Parameters,
    evidence: Evidence,
    n: int,
    engine: str,
    **options: Any,
) -> tuple[Floats, Floats]:
    value, error = np.zeros(n), np.zeros(n)
    for group in _groups(structure, pattern, params, evidence, n, keep="truncated"):
        value[group.rows] = np.asarray(group.log_constant)
        if group.gaussian is not None:
            found = probability.log_z(group.gaussian, engine, **options)
            value[group.rows] += np.asarray(found.value)
            error[group.rows] = np.asarray(found.error)
    return value, error


def _groups(
    structure: Structure, pattern: Pattern, params: Parameters, evidence: Evidence, n: int, *, keep: str
) -> Iterator[_Group]:
    """Rows by what they know, with what their precision matrix leaves of the variables."""
    names = [name for name, kind in pattern if kind != "known"]
    known = [np.isnan(evidence.value[name][:n]) for name in names]
    known += [evidence.side[name][:n] for name in names if name in evidence.side]
    marks = np.concatenate(known, axis=1) if known else np.zeros((n, 1))
    _, group = np.unique(marks, axis=0, return_inverse=True)
    for i in range(group.max() + 1):
        rows = np.flatnonzero(group.ravel() == i)
        part = jax.tree.map(lambda a, rows=rows: jnp.asarray(a[rows]), evidence)
        yield _group(structure, pattern, params, part, rows, keep)


def _group(
    structure: Structure,
    pattern: Pattern,
    params: Parameters,
    part: Evidence,
    rows: NDArray[np.intp],
    keep: str,
) -> _Group:
    given = jax.tree.map(jnp.asarray, params)
    one = _first(structure, pattern, keep, given, jax.tree.map(lambda a: a[0], part))
    constant, offset, sign, shift = _every(structure, pattern, keep, given, part, len(rows))
    which = np.flatnonzero(np.asarray(one.sign))
    if one.gaussian is None or not len(which):
        lost = 0.0 if one.gaussian is None else 0.5 * LOG_2PI * one.sign.size
        return _Group(rows, None, constant + lost, offset, sign, which)
    tg = one.gaussian
    if len(which) == tg.size:
        return _Group(rows, tg.with_shift(shift), constant, offset, sign, which)
    P = tg.precision.dense()[np.ix_(which, which)]
    smaller = TruncatedGaussian(P, shift[:, which], tg.truncated[which])
    return _Group(rows, smaller, constant + 0.5 * LOG_2PI * (tg.size - len(which)), offset, sign, which)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _first(
    structure: Structure, pattern: Pattern, keep: str, params: Parameters, row: Evidence
) -> Conditional:
    return conditional(structure, pattern, params, row, keep=keep)


@partial(jax.jit, static_argnums=(0, 1, 2, 5))
def _every(
    structure: Structure, pattern: Pattern, keep: str, params: Parameters, part: Evidence, n: int
) -> tuple[Array, ...]:
    """What differs between rows of one pattern: constants, offsets, signs and shifts."""

    def one(row: Evidence) -> tuple[Array, ...]:
        found = conditional(structure, pattern, params, row, keep=keep)
        shift = found.offset if found.gaussian is None else found.gaussian.shift[0]
        return found.log_constant, found.offset, found.sign, shift

    if not jax.tree.leaves(part):  # nothing is given: all rows are alike
        return tuple(jnp.broadcast_to(a[None], (n, *a.shape)) for a in one(part))
    out: tuple[Array, ...] = jax.vmap(one)(part)
    return out


def _required(group: _Group) -> TruncatedGaussian:
    if group.gaussian is None:
        raise ValueError("The graph has no unknown variables here, hence no distribution of them.")
    return group.gaussian


def _split(structure: Structure, free: tuple[str, ...], values: Floats) -> list[Floats]:
    return np.split(values, np.cumsum([structure.size(name) for name in free])[:-1], axis=-1)
