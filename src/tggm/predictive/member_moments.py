"""Compute means and variances of the outputs under each member, in blocks of rows, and mix classes.

A block is small enough for its arrays to stay in the cache of a core; larger arrays would be allocated for
every block, which takes as long as the arithmetic. Each block is computed by one core, several in parallel.

NumPy computes few rows (`numpy_network`): compiling a program takes about a second, and loading a stored one
0.1 s. JAX computes more rows, each in a fifth of the time.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.models import Bounded, Directed, Gaussian, Identity, Incomplete, Model, Periodic, Probit, Shallow
from tggm.predictive.calibration import HeldOut
from tggm.predictive.joint import MultivariateGaussianMixture
from tggm.predictive.numpy_network import Network, Outputs, class_log_mixture, nodes_needed
from tggm.runtime import GPU_COMPILER_OPTIONS, blas_lock, precision
from tggm.special.probit import log_probit
from tggm.training.rows import RowBlock, bucket
from tggm.training.train import cpu_cores, n_cores

NUMBERS = 2**18  # size of the widest array of all members in a block of rows
LEAST, MOST = 64, 2048  # rows of a block
MOST_HELD = 20_000  # held-out rows that are predicted
LEAST_TRAINED = 0.5  # share of the largest training part, below which a fold of a splitter does not calibrate
LAYER_ROWS = 128  # rows of a block of `means_and_layer`
ON_DEVICE = 16  # factor of both sizes on an accelerator, where each call is expensive
MOST_NUMPY, MOST_PRODUCTS = 1000, 2**20  # rows, and rows × members × weights of outputs, computed by NumPy
NUMPY_ROWS = 64  # of a block
NODES = (24, 64, 192)  # grid sizes; each row uses the smallest that suffices
CHUNKS = (64, 256, 1024)  # rows with longer grids computed at once: few sizes, because each is compiled
PARTS = (Identity, Bounded, Periodic), (Shallow, Directed), (Gaussian, Probit)  # that NumPy computes

T = TypeVar("T")
_NETWORKS: WeakKeyDictionary[Model, Network] = WeakKeyDictionary()
# the last rows whose variances NumPy computed: novelty and neighbours need their last layer, too
_recent: "tuple[ref[Network], NDArray[Any], Outputs] | None" = None


def numpy_network(members: Model, X: Any) -> Network | None:
    """Return the members for NumPy; None for more rows, for sparse rows, and for parts that it lacks."""
    parts = members.features, members.hidden, members.likelihood
    known = all(type(part) in kinds for part, kinds in zip(parts, PARTS, strict=True))
    if not (known and isinstance(X, np.ndarray) and len(X) <= MOST_NUMPY):
        return None
    if len(X) * members.likelihood.output.W1.size > MOST_PRODUCTS:
        return None
    if (found := _NETWORKS.get(members)) is None:
        arrays = {name: np.asarray(a) for name, a in members.arrays().items()}
        found = Network.of(arrays, type(members.features).__name__)
        _NETWORKS[members] = found
    return found


def outputs_by_blocks(
    network: Network, X: NDArray[Any], parts: Callable[[Outputs], tuple[NDArray[Any], ...]],
    *, variances: bool = False,
) -> list[Floats]:  # fmt: skip
    """Return parts of the outputs, rows on their last axis but one, computed by NumPy in blocks of rows."""

    def one(at: slice) -> tuple[NDArray[Any], ...]:
        return parts(network.outputs(np, X[at], variances=variances))

    blocks = over_blocks(one, len(X), NUMPY_ROWS, cpu_cores)
    joined = [np.concatenate(each, axis=-2) for each in zip(*blocks, strict=True)]
    return [a.astype(np.float64) for a in joined]


def member_moments(members: Model, X: Floats, dtype: Any) -> tuple[Floats, Floats]:
    """Compute mean and variance of each output under each member, (members, rows, n), standardised."""
    size = block_size(members, len(X))
    mean, var = _by_blocks("variances", members, X.astype(dtype, copy=False), size)
    return mean, np.maximum(var, np.finfo(dtype).tiny)  # noise may underflow in single precision


def member_means(members: Model, X: Floats, dtype: Any) -> Floats:
    """Compute the means alone, which takes about half the time.

    Few rows use the program that computes both, because it is already compiled.
    """
    size = block_size(members, len(X))
    method = "means" if len(X) > size else "variances"
    return _by_blocks(method, members, X.astype(dtype, copy=False), size)[0]


def means_and_layer(members: Model, dtype: Any, X: Floats) -> tuple[Floats, Floats]:
    """Compute the means, (members, rows, n), and E[h] · |W1| of the last layer, (members, rows, m).

    All compiled blocks have one size, so that one program is compiled.
    """
    padded = X.astype(dtype, copy=False)
    if numpy_network(members, X) is None:
        padded = pad_rows(padded, max(len(X), LAYER_ROWS))
    mean, layer = _by_blocks("layer", members, padded, LAYER_ROWS)
    return mean[:, : len(X)], layer[:, : len(X)]


def measured_targets(y: Any) -> NDArray[np.float64]:
    """Return targets as NumPy numbers, NaN where one is missing or a limit."""
    if not isinstance(y, Incomplete):
        return np.asarray(y, np.float64)
    return np.where(np.asarray(y.side) == 0, np.asarray(y.value, np.float64), np.nan)


def interval_targets(y: Any) -> tuple[Floats, tuple[Floats, Floats] | None]:
    """Return targets, NaN where one is missing, and the ends of the intervals that contain the values.

    The ends are equal for a measured target; None if all targets are measured or missing.
    """
    if not isinstance(y, Incomplete):
        return np.asarray(y, np.float64), None
    value, side = np.asarray(y.value, np.float64), np.asarray(y.side)
    half = np.where(side == 2, 0.0 if y.half is None else np.asarray(y.half, np.float64), 0.0)
    ends = np.where(side < 0, -np.inf, value - half), np.where(side == 1, np.inf, value + half)
    return value, ends if side.any() else None


def sample_rows(count: int) -> Any:
    """Return the indices of `count` rows, or a random subset of `MOST_HELD`."""
    if count <= MOST_HELD:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, MOST_HELD, replace=False))


def held_out_predictions(
    model: Model, block: RowBlock, rows: Any, count: int, dtype: Any, again: Model | None, groups: Any
) -> list[HeldOut]:
    """Predict training rows by every member; record which members held them out.

    `again` are the predicting members, if they were trained again on all rows; `groups` are the rows' groups.
    """
    X, (Y, ends) = np.asarray(block.data.X)[rows], interval_targets(block.data.y)
    Y = Y[rows]
    mean, var = member_moments(model, X, dtype)
    mask, weight = np.zeros((len(mean), count), np.bool_), np.asarray(block.weight, np.float64)[rows]
    n_train = np.asarray(block.members.n_train)
    for out, held, n in zip(mask, block.members.held, block.members.n_held, strict=True):
        out[np.asarray(held)[: int(n)]] = True
    if again is not None:  # the errors of members with few rows are larger than those of `again`
        mask[n_train < LEAST_TRAINED * n_train.max()] = False
    mask = mask[:, rows]
    known = np.isfinite(Y)
    # the epoch of each member was chosen on its held-out rows
    optimism = 1 + 2 / max(float(np.mean(block.members.n_held)), 1.0)
    y, group = np.where(known, Y, 0.0), None if groups is None else np.asarray(groups)[rows]
    more = None if again is None else member_moments(again, X, dtype)[0]
    return [
        HeldOut(
            mean[..., j], var[..., j], mask, y[:, j], weight * known[:, j], optimism,
            None if more is None else more[..., j], group,
            None if ends is None else (ends[0][rows, j], ends[1][rows, j]),
        )
        for j in range(Y.shape[1])
    ]  # fmt: skip


def new_row_predictions(model: Model, X: Floats, y: Any, weight: Floats, dtype: Any) -> list[HeldOut]:
    """Predict new rows by every member; inputs and targets, numbers or `Incomplete`, are standardised."""
    Y, ends = interval_targets(y)
    mean, var = member_moments(model, X, dtype)
    mask = np.ones(mean.shape[:2], np.bool_)
    both = [None] * Y.shape[1] if ends is None else [*zip(ends[0].T, ends[1].T, strict=True)]
    each = zip(np.moveaxis(mean, 2, 0), np.moveaxis(var, 2, 0), Y.T, both, strict=True)
    return [HeldOut(m, v, mask, y, weight, ends=ends) for m, v, y, ends in each]


def block_size(members: Model, rows: int) -> int:
    """Return the number of rows in a block."""
    if rows <= LEAST:
        return LEAST
    shapes = {name: np.shape(a) for name, a in members.arrays().items()}
    K, n, m = shapes["likelihood.output.W1"]
    units = [shape[1] for name, shape in shapes.items() if name.startswith("hidden.W")]
    psi = shapes["hidden.W0"][2] if jax.tree.leaves(members.features) else 1  # members share the inputs
    widest = max(psi, n * m // 4, *units)  # few arrays of n × m, a dozen of the others
    times = 1 if jax.default_backend() == "cpu" else ON_DEVICE
    fitting = max(1, times * NUMBERS // (K * widest))
    return int(np.clip(2 ** int(np.log2(fitting)), LEAST, times * MOST))


def padded_to(count: int, size: int) -> int:
    """Return the padded number of rows of a block; it is one size for small tables."""
    return size if count > size else max(LEAST, bucket(count))


def over_blocks(
    function: Callable[[slice], T], rows: int, size: int, cores: Callable[[], int] | None = None
) -> list[T]:
    """Apply a function to each block of rows, in parallel threads with the precision of the caller."""
    places = [slice(begin, begin + size) for begin in range(0, max(rows, 1), size)]
    if len(places) == 1 or (threads := min((cores or n_cores)(), len(places))) == 1:
        return [function(at) for at in places]
    double = bool(jax.config.read("jax_enable_x64"))

    def one(at: slice) -> T:
        with jax.enable_x64(double):
            return function(at)

    first = function(places[0])  # compiles
    with ThreadPoolExecutor(threads, thread_name_prefix="tggm-predict") as pool:
        return [first, *pool.map(one, places[1:])]


def _by_blocks(method: str, members: Model, X: NDArray[Any], size: int) -> list[Floats]:
    """Compute moments of rows, (members, rows, n) each."""
    if (network := numpy_network(members, X)) is not None:
        if method != "variances":
            return list(network.layer(_outputs(network, X)))
        mean, var, last = outputs_by_blocks(
            network, X, lambda outputs: (*network.variances(outputs), outputs.last), variances=True
        )
        global _recent
        _recent = ref(network), X.copy(), Outputs(np, mean, [], last)
        return [mean, var]
    rows = padded_to(len(X), size)
    placed = jax.device_put(members) if len(X) > size else members  # once for all blocks

    def one(at: slice) -> list[NDArray[Any]]:
        return [np.asarray(a) for a in _moments(method, placed, pad_rows(X[at], rows))]

    with precision(X.dtype.name):
        blocks = over_blocks(one, len(X), size)
    joined = [np.concatenate(parts, axis=1)[:, : len(X)] for parts in zip(*blocks, strict=True)]
    return [a.astype(np.float64) for a in joined]


def _outputs(network: Network, X: NDArray[Any]) -> Outputs:
    """Return means and last layers: those of `_recent` if it has these rows, as in a prediction."""
    if _recent is not None and _recent[0]() is network and np.array_equal(_recent[1], X):
        return _recent[2]
    mean, last = outputs_by_blocks(network, X, lambda outputs: (outputs.mean, outputs.last))
    return Outputs(np, mean, [], last)


def last_layers(members: Model, X: Any) -> NDArray[Any]:
    """Return E[h | x] of the units of the last layer, (members, rows, m)."""
    if (network := numpy_network(members, X)) is not None:
        return _outputs(network, X).last
    with precision(members.likelihood.output.W1.dtype.name):
        return np.asarray(jax.jit(_layers)(members, X))


def places(members: Model, X: Any, projection: Floats) -> Floats:
    """Return Σ_k (last layer of member k) · projection_k, (rows, ·); see `predictive.neighbors`."""
    if (network := numpy_network(members, X)) is not None:
        return _outputs(network, X).places(projection)
    count = jax.tree.leaves(X)[0].shape[-2]
    size = block_size(members, count)
    rows = padded_to(count, size)

    def one(at: slice) -> NDArray[Any]:
        some = jax.tree.map(lambda a: pad_rows(a[at], rows), X)
        return np.asarray(member_places(members, some, projection))

    with precision(members.likelihood.output.W1.dtype.name):
        return np.concatenate(over_blocks(one, count, size))[:count].astype(np.float64)


def joint_gaussian_mixture(
    members: Model, X: Floats, shift: Floats, scale: Floats, added: Floats
) -> MultivariateGaussianMixture:
    """Return the mixture of the members for all outputs together, in double precision.

    `added` is a variance to add, (N, n).
    """
    double = jax.tree.map(lambda a: np.asarray(a, np.float64), members)
    with jax.enable_x64(True), blas_lock():
        mean, cov = (np.asarray(a)[:, : len(X)] for a in _moments("moments", double, pad_rows(X)))
    cov = cov + added[None, :, :, None] * np.eye(len(scale))
    return MultivariateGaussianMixture(mean, cov, loc=shift, scale=scale)


def pad_rows(a: NDArray[Any], rows: int | None = None) -> NDArray[Any]:
    """Append rows of zeros, up to `rows` or to one of few compiled sizes."""
    missing = (bucket(len(a)) if rows is None else rows) - len(a)
    return np.pad(a, [(0, missing), *[(0, 0)] * (a.ndim - 1)])


@partial(jax.jit, static_argnames="method", compiler_options=GPU_COMPILER_OPTIONS)
def _moments(method: str, members: Model, X: Array) -> tuple[Array, ...]:
    """Call a method of the likelihood for each member; "means" are the first part of "variances".

    "layer" are the means and the last layer, see `means_and_layer`.
    """

    def moments(member: Model) -> tuple[Array, Array]:
        likelihood, latent = member.at(X)
        if method == "layer":
            W1 = likelihood.output.W1
            h, _ = latent.variances(W1)
            return likelihood.output.of(h), h * jnp.sqrt((W1**2).sum(0))[None, :]
        return getattr(likelihood, "variances" if method == "means" else method)(latent)

    with jax.default_matmul_precision("highest"):
        found: tuple[Array, ...] = jax.vmap(moments)(members)
    return found[:1] if method == "means" else found  # the compiler removes unused computations


def _layers(members: Model, X: Any, per_member: bool = False) -> Array:
    def one(member: Model, X: Any) -> Array:
        likelihood, latent = member.at(X)
        return latent.variances(likelihood.output.W1)[0]  # the compiler removes the variances

    with jax.default_matmul_precision("highest"):
        found: Array = jax.vmap(one, in_axes=(0, 0 if per_member else None))(members, X)
    return found


@partial(jax.jit, static_argnames="per_member", compiler_options=GPU_COMPILER_OPTIONS)
def member_places(members: Model, X: Any, projection: Any, per_member: bool = False) -> Array:
    """Compute `places` of one block of rows; `per_member`: each member has its own inputs."""
    last = _layers(members, X, per_member)
    with jax.default_matmul_precision("highest"):
        found: Array = jnp.einsum("knm,kmr->nr", last, projection.astype(last.dtype))
    return found


def class_mixture(mean: NDArray[Any], std: NDArray[Any]) -> NDArray[Any]:
    """Return log-probabilities of classes, (rows, n).

    `mean` and `std`, (members, rows, n), are moments of the scores; the class is that of the largest of
    independent normal scores.
    """
    result = np.asarray(_mixture(mean, std, NODES[0])).copy()
    kind = np.searchsorted(NODES, nodes_needed(mean, std).max(0))
    for k in range(1, kind.max(initial=0) + 1):
        (chosen,) = np.nonzero(kind == k)
        size = next((size for size in CHUNKS if size >= len(chosen)), CHUNKS[-1])
        for begin in range(0, len(chosen), size):
            part = np.resize(chosen[begin : begin + size], size)  # the last part repeats its rows
            result[part] = np.asarray(_mixture(mean[:, part], std[:, part], (*NODES, None)[k]))
    return result


@partial(jax.jit, static_argnames="n_nodes")
def _mixture(mean: Array, std: Array, n_nodes: int | None) -> Array:
    """Compute the mixture on one grid per row or, for scores far apart, on one grid for each class."""
    if n_nodes is not None:
        return class_log_mixture(jnp, mean, std, n_nodes)
    label = jnp.zeros(mean.shape[1], jnp.int32)
    one = jax.vmap(log_probit, (0, 0, None))
    log_p = lax.map(lambda c: one(mean, std, label + c), jnp.arange(mean.shape[2], dtype=jnp.int32))
    return jnp.moveaxis(logsumexp(log_p, axis=1), 0, 1) - math.log(len(mean))
