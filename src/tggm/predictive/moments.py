"""Means and variances of the outputs under each member, in blocks of rows; of held-out rows, too.

A block's arrays stay in a core's cache, and in memory that the process keeps: larger ones are mapped anew for
every block, which takes as long as the arithmetic. One core works on a block; several blocks share the cores.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tggm.arrays import Bools, Floats
from tggm.blas_lock import blas_lock
from tggm.models import Model
from tggm.models.hidden.base import LinearEngine
from tggm.models.likelihoods import measured
from tggm.predictive.held_out import HeldOut
from tggm.products import QUICKLY, full_precision
from tggm.training.compilation_cache import FOLDERS
from tggm.training.parallel.crew import n_cores
from tggm.training.rows import RowBlock, bucket
from tggm.training.state import Membership

NUMBERS = 2**18  # of the widest array of all members in a block of rows
LEAST, MOST = 64, 2048  # rows of a block
MOST_HELD = 20_000  # held-out rows that are asked about: more would tell no more
ON_DEVICE = 16  # times as many of both where an accelerator computes: it has no cache to fit, but calls cost

T = TypeVar("T")
Program = Callable[[LinearEngine, Model, Array], tuple[Array, ...]]


def member_moments(members: Model, X: Floats, engine: LinearEngine, dtype: Any) -> tuple[Floats, Floats]:
    """Mean and variance of each output under each member, (members, rows, n), on the scale of the model."""
    size = block_size(members, len(X))
    mean, var = _by_blocks(_variances, members, X.astype(dtype, copy=False), engine, size)
    return mean, np.maximum(var, np.finfo(dtype).tiny)  # noise may vanish in single precision


def member_means(members: Model, X: Floats, engine: LinearEngine, dtype: Any) -> Floats:
    """The means alone, for little more than half the work.

    Few rows take the program that gives both, which has been compiled for the variances that others ask for.
    """
    size = block_size(members, len(X))
    function = _means if len(X) > size else _variances
    return _by_blocks(function, members, X.astype(dtype, copy=False), engine, size)[0]


def some_rows(count: int) -> Any:
    """Numbers of so many rows, or of as many as matter, at random."""
    if count <= MOST_HELD:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, MOST_HELD, replace=False))


def held_out(model: Model, block: RowBlock, rows: Any, count: int, engine: Any, dtype: Any) -> list[HeldOut]:
    """Moments of each output at these rows under every member, and who held them out."""
    X, Y = np.asarray(block.data.X)[rows], measured(block.data.y)[rows]
    mean, var = member_moments(model, X, engine, dtype)
    there, weight = _which(block.members, count)[:, rows], np.asarray(block.weight, np.float64)[rows]
    known = np.isfinite(Y)
    # each member's epoch was chosen by the rows that it held out
    optimism = 1 + 2 / max(float(np.mean(block.members.n_held)), 1.0)
    y = np.where(known, Y, 0.0)
    return [
        HeldOut(mean[:, :, j], var[:, :, j], there, y[:, j], weight * known[:, j], optimism)
        for j in range(Y.shape[1])
    ]


def unseen(model: Model, X: Floats, Y: Floats, engine: Any, dtype: Any) -> list[HeldOut]:
    """The same of new rows, which no member has seen; inputs and targets in units of the model."""
    mean, var = member_moments(model, X, engine, dtype)
    there = np.ones(mean.shape[:2], np.bool_)
    each = zip(np.moveaxis(mean, 2, 0), np.moveaxis(var, 2, 0), Y.T, strict=True)
    return [HeldOut(m, v, there, y, np.ones(len(y))) for m, v, y in each]


def _which(members: Membership, count: int) -> Bools:
    """Whether each member held each of the rows out, (members, rows)."""
    there = np.zeros((len(members.n_held), count), np.bool_)
    for row, held, n in zip(there, members.held, members.n_held, strict=True):
        row[np.asarray(held)[: int(n)]] = True
    return there


def block_size(members: Model, rows: int) -> int:
    """Rows that are predicted at once, if there are so many."""
    if rows <= LEAST:
        return LEAST
    shapes = {name: np.shape(a) for name, a in members.arrays().items()}
    K, n, m = shapes["likelihood.output.W1"]
    units = [shape[1] for name, shape in shapes.items() if name.startswith("hidden.W")]
    psi = shapes["hidden.W0"][2] if jax.tree.leaves(members.features) else 1  # inputs are shared by members
    widest = max(psi, n * m // 4, *units)  # of n × m a few, of the others a dozen are needed at a time
    times = 1 if jax.default_backend() == "cpu" else ON_DEVICE
    fitting = max(1, times * NUMBERS // (K * widest))
    return int(np.clip(2 ** int(np.log2(fitting)), LEAST, times * MOST))


def padded_to(count: int, size: int) -> int:
    """Rows of each block of `count` rows; small tables have one size, so that no digit depends on theirs."""
    return size if count > size else max(LEAST, bucket(count))


def over_blocks(function: Callable[[slice], T], rows: int, size: int, *, alone: bool) -> list[T]:
    """What a function gives for each block of rows, in order; in the thread that asks if `alone`.

    Threads have the precision of the caller.
    """
    places = [slice(begin, begin + size) for begin in range(0, max(rows, 1), size)]
    threads = 1 if alone else min(n_cores(), len(places))
    if threads == 1:
        return [function(at) for at in places]
    double = bool(jax.config.read("jax_enable_x64"))

    def one(at: slice) -> T:
        with jax.enable_x64(double):
            return function(at)

    first = function(places[0])  # compiles, once for all
    with ThreadPoolExecutor(threads, thread_name_prefix="tggm-predict") as pool:
        return [first, *pool.map(one, places[1:])]


def _by_blocks(
    function: Program, members: Model, X: NDArray[Any], engine: LinearEngine, size: int
) -> list[Floats]:
    """What a program gives for rows, (members, rows, n) each; engines that factorise run one at a time."""
    rows = padded_to(len(X), size)
    placed = jax.device_put(members) if len(X) > size else members  # once, if it is asked often
    program = _program(function, engine, placed, jax.ShapeDtypeStruct((rows, *X.shape[1:]), X.dtype))

    def one(at: slice) -> list[NDArray[Any]]:
        return [np.asarray(a) for a in program(padded(X[at], rows))]

    alone = not members.knows_moments
    with blas_lock(alone):
        blocks = over_blocks(one, len(X), size, alone=alone)
    joined = [np.concatenate(parts, axis=1)[:, : len(X)] for parts in zip(*blocks, strict=True)]
    return [a.astype(np.float64) for a in joined]


def _program(function: Program, engine: LinearEngine, members: Model, X: jax.ShapeDtypeStruct) -> Any:
    """A compiled function of such rows, read from a file where it was traced before."""
    if members.knows_moments and FOLDERS:
        from tggm.training.traced_programs import kept

        if (found := kept(function, (engine,), _LIKE[function], (members, X))) is not None:
            return partial(found.call, members)
    return partial(_COMPILED[function], engine, members)


def member_covariances(members: Model, X: Floats, engine: LinearEngine) -> tuple[Floats, Floats]:
    """Mean (members, rows, n) and covariance (members, rows, n, n), in double precision."""
    with jax.enable_x64(True), blas_lock():
        mean, cov = _covariances(doubled(members), padded(X), engine)
        return np.asarray(mean)[:, : len(X)], np.asarray(cov)[:, : len(X)]


def padded(a: NDArray[Any], rows: int | None = None) -> NDArray[Any]:
    """Rows of zeros added, up to `rows` or so that few shapes are compiled."""
    missing = (bucket(len(a)) if rows is None else rows) - len(a)
    return np.pad(a, [(0, missing), *[(0, 0)] * (a.ndim - 1)])


def doubled(members: Model) -> Model:
    """The same in double precision."""
    double: Model = jax.tree.map(lambda a: np.asarray(a, np.float64), members)
    return double


@full_precision
def _variances(engine: LinearEngine, members: Model, X: Array) -> tuple[Array, ...]:
    found: tuple[Array, Array] = jax.vmap(lambda m: m.outputs(X).variances(m.latent(X, engine)))(members)
    return found


@full_precision
def _means(engine: LinearEngine, members: Model, X: Array) -> tuple[Array, ...]:
    """The compiler leaves out what only the variances need."""
    return _variances(engine, members, X)[:1]


_LIKE: dict[Program, Any] = {_variances: (0, 0), _means: (0,)}
_COMPILED = {each: jax.jit(each, static_argnums=0, compiler_options=QUICKLY) for each in _LIKE}


@partial(jax.jit, static_argnames="engine")
@full_precision
def _covariances(members: Model, X: Array, engine: LinearEngine) -> tuple[Array, Array]:
    found: tuple[Array, Array] = jax.vmap(lambda m: m.outputs(X).moments(m.latent(X, engine)))(members)
    return found
