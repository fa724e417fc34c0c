"""The compiled training loop, one for every objective and model.

Members of an ensemble are trained at once by `vmap`. A chunk of epochs is one compiled program: mini-batches
from a new permutation each epoch, clipped gradients, a score on the member's held-out rows after each epoch,
and the best parameters kept. Python runs only between chunks.

A step that leads to non-finite numbers is undone and the next steps are halved; the rate grows again with
every finite step. An epoch whose objective falls far below the best is undone too: training continues from
the best parameters with smaller steps. After `FAILURES` failures in a row a member keeps its best parameters
and stops.

The numbers of epochs and steps, all rates and penalties are arguments of the program: changing them does not
compile it again. All parameters of a member are one vector, so that clipping, averaging and tests for finite
values are one operation each.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.arrays import Tree
from tggm.runtime import GPU_COMPILER_OPTIONS
from tggm.training.rows import Membership

FAILURES = 25  # non-finite steps in a row after which a member stops
DROP = 10.0  # an epoch has collapsed if its objective is this many times 1 + |best| below the best
SCORED = 1024  # held-out rows that are scored at once: all would need 300 MiB for 50 columns
WORST = 20.0  # nats below the mean training objective, the least score of a held-out row


class Objective(Protocol):
    """What the loop maximises; hashable, so that it can be a static argument."""

    def __call__(self, params: Tree, rows: Any, progress: Array, /) -> Array:
        """Return the objective of each row at a `progress` of training between 0 and 1."""

    def score(self, params: Tree, rows: Any, /) -> Array:
        """Return the score of each held-out row; larger is better."""

    def penalty(self, params: Tree, /) -> Array:
        """Return the penalty, which weight decay multiplies."""


@dataclass(frozen=True)
class Layout:
    """Positions of the arrays of a pytree in a vector; hashable, so that it can be a static argument."""

    tree: Any  # jax.tree_util.PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, params: Tree, *, axes: int = 0) -> "Layout":
        """Return the layout of `params` without its first `axes` axes."""
        pairs, tree = jax.tree_util.tree_flatten_with_path(params)
        names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in pairs]
        return cls(tree, tuple([tuple(leaf.shape[axes:]) for _, leaf in pairs]), tuple(names))

    @property
    def sizes(self) -> list[int]:
        """Return the number of entries of each array."""
        return [int(np.prod(shape)) for shape in self.shapes]

    def join(self, params: Tree) -> Array:
        """Return the vector of a traced pytree."""
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(params)])

    def join_members(self, params: Tree) -> np.ndarray:
        """Return the matrix (members, parameters) of a pytree of NumPy arrays stacked over members."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
        return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)

    def split(self, vector: Any) -> Any:
        """Return the pytree of a traced vector, or of a NumPy matrix (members, parameters)."""
        xp: Any = np if isinstance(vector, np.ndarray) else jnp
        parts = zip(xp.split(vector, np.cumsum(self.sizes)[:-1].tolist(), axis=-1), self.shapes, strict=True)
        return jax.tree.unflatten(self.tree, [p.reshape((*p.shape[:-1], *s)) for p, s in parts])

    def rates(self, fixed: Collection[str]) -> np.ndarray:
        """Return a vector that multiplies steps: zero for the arrays with these names, else one."""
        return np.repeat([float(name not in fixed) for name in self.names], self.sizes)

    def with_hidden_weights(self, vector: Array, change: Callable[[Array], Array], source: Array) -> Array:
        """Replace the weights of hidden units in `vector` by `change` of those in `source`."""
        parts, sources = (jax.tree.leaves(self.split(each)) for each in (vector, source))
        for k, (name, shape) in enumerate(zip(self.names, self.shapes, strict=True)):
            if name.startswith("hidden.") and len(shape) == 2:
                parts[k] = change(sources[k])
        return self.join(parts)


Vectors = tuple[Array, ...]
_LOG_BETA = (math.log(0.9), math.log(0.999))


# (gradient, state vectors, step number from 1, layout) -> (direction, state vectors)
Rule = Callable[[Array, Vectors, Array, Layout], tuple[Array, Vectors]]


def _adam(grad: Array, kept: Vectors, step: Array, layout: Layout) -> tuple[Array, Vectors]:
    """Apply Adam (Kingma and Ba, 2015, Algorithm 1) with β = 0.9, 0.999 and ε = 1e-8."""
    first = 0.9 * kept[0] + 0.1 * grad
    second = 0.999 * kept[1] + 0.001 * grad**2
    # 1 − βᵗ without cancellation
    unbiased_first = first / -jnp.expm1(step * _LOG_BETA[0])
    unbiased_second = second / -jnp.expm1(step * _LOG_BETA[1])
    return unbiased_first / (jnp.sqrt(unbiased_second) + 1e-8), (first, second)


ORTHOGONAL = 0.25  # root mean square of the entries of Muon's steps; Adam's first steps have 1
ROUNDS = 4
QUINTIC = (3.4445, -4.775, 2.0315)


def orthogonalise(matrix: Array) -> Array:
    """Return approximately the nearest matrix with equal singular values and a mean square entry of 1.

    Newton–Schulz iterations X ← aX + b(XXᵀ)X + c(XXᵀ)²X with the coefficients of Jordan et al. (2024) bring
    singular values between about 0.02 and 1 of the largest to 0.7–1.2. They need matrix products only.
    """
    X = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    X = X / jnp.maximum(jnp.sqrt((X**2).sum()), 1e-30)
    a, b, c = QUINTIC
    for k in range(ROUNDS):
        A = X @ X.T
        if k == 0:  # no singular value is above the root of this norm
            norm = jnp.maximum(jnp.sqrt((A**2).sum()), 1e-30)
            X, A = X / jnp.sqrt(norm), A / norm
        X = a * X + (b * A + c * (A @ A)) @ X
    X = X * math.sqrt(X.shape[1])
    return X if matrix.shape[0] <= matrix.shape[1] else X.T


def _muon(grad: Array, kept: Vectors, step: Array, layout: Layout) -> tuple[Array, Vectors]:
    """Apply Muon (Jordan et al., 2024) to the weights of hidden units, Adam to everything else."""
    direction, kept = _adam(grad, kept, step, layout)
    momentum = 0.9 * kept[0] + 0.1 * grad
    return layout.with_hidden_weights(direction, lambda W: ORTHOGONAL * orthogonalise(W), momentum), kept


def _rmsprop(grad: Array, kept: Vectors, step: Array, layout: Layout) -> tuple[Array, Vectors]:
    """Divide the gradient by the root of its running mean square with decay 0.95, as the paper does."""
    second = 0.95 * kept[0] + 0.05 * grad**2
    return grad / jnp.sqrt(second + 1e-8), (second,)


OPTIMISERS: dict[str, tuple[int, Rule]] = {  # number of state vectors, and rule
    "muon": (2, _muon),
    "adam": (2, _adam),
    "rmsprop": (1, _rmsprop),
    "sgd": (0, lambda grad, kept, step, layout: (grad, kept)),
}


def _cosine(progress: Array) -> Array:
    """Return ½(1 + cos π p)."""
    return 0.5 * (1 + jnp.cos(jnp.pi * progress))


CYCLES = 4
CYCLE_RATIO = 3  # ratio of the lengths of successive cycles
WHOLE = (CYCLE_RATIO**CYCLES - 1) // (CYCLE_RATIO - 1)  # length of all cycles in units of the first


def cycle_ends(first: int) -> tuple[int, ...]:
    """Return the ends of the cycles if the first has this length."""
    return tuple(first * (CYCLE_RATIO**k - 1) // (CYCLE_RATIO - 1) for k in range(1, CYCLES + 1))


def _restarts(progress: Array) -> Array:
    """Return one cosine per cycle; training may end after each cycle, see `Milestones`."""
    place = WHOLE * jnp.minimum(progress, 1 - 1e-6)
    start, length = jnp.zeros_like(place), jnp.ones_like(place)
    for k, end in enumerate(cycle_ends(1)[:-1]):
        over = place >= end
        start, length = jnp.where(over, end, start), jnp.where(over, CYCLE_RATIO ** (k + 1), length)
    return _cosine((place - start) / length)


Schedule = Callable[[Array], Array]
SCHEDULES: dict[str, Schedule] = {"cosine": _cosine, "constant": jnp.ones_like, "restarts": _restarts}


class Plan(NamedTuple):
    """What is fixed when a training program is compiled."""

    layout: Layout
    batch_size: int
    capacity: int  # most epochs in one chunk
    optimizer: str = "adam"
    schedule: str = "cosine"
    averaged: bool = False  # whether a running average of the parameters is scored and kept


class Hyper(NamedTuple):
    """Numbers of one member, which may change without recompiling; stacked over members."""

    learning_rate: Array
    weight_decay: Array  # multiplies penalty / number of rows
    clip: Array  # largest norm of a gradient
    average: Array  # decay of the running average
    total_steps: Array  # length of the schedule
    patience: Array  # epochs without a better score after which no better one is accepted
    rates: Array  # (parameters,) multiplies the step of each parameter: 0 holds it fixed


class State(NamedTuple):
    """All that the next epoch needs; training resumed from it gives the same result."""

    params: Array  # (parameters,) all parameters of a member as one vector, see `Layout`
    average: Array  # (parameters,) their running average
    optimiser: Vectors
    seed: Array  # () uint32, of the member's mini-batches
    step: Array  # () int32
    epoch: Array  # () int32
    best: Array  # (parameters,) those with the best score
    best_score: Array  # ()
    best_epoch: Array  # () int32
    undone: Array  # () int32, number of undone steps and collapsed epochs
    rate: Array  # () multiplies the learning rate; 1 unless steps failed
    failures: Array  # () int32, undone steps in a row
    peak: Array  # () best mean objective of an epoch


class Trace(NamedTuple):
    """Objective and score of each epoch of a chunk, shape (capacity,)."""

    train: Array  # mean objective over the epoch's finite steps, NaN if there was none
    held: Array  # mean score of the held-out rows after it


def start(plan: Plan, params: Tree, seeds: Any) -> State:
    """Return the state before the first step; `params` and `seeds` have a leading axis of members."""
    flat: Any = plan.layout.join_members(params)
    optimiser = tuple(np.zeros_like(flat) for _ in range(OPTIMISERS[plan.optimizer][0]))
    count: Any = np.zeros(len(seeds), np.int32)
    worst: Any = np.full(len(seeds), -np.inf, flat.dtype)
    seed: Any = np.asarray(seeds, np.uint32)
    one: Any = np.ones(len(seeds), flat.dtype)
    return State(flat, flat, optimiser, seed, count, count, flat, worst, count, count, one, count, worst)


DEFAULTS: dict[str, Any] = {
    "learning_rate": 1e-2, "weight_decay": 0.0, "clip": 10.0, "average": 0.0, "total_steps": 1,
    "patience": np.inf,
}  # fmt: skip


def hyper_parameters(n_members: int, rates: Any, dtype: Any, **numbers: Any) -> Hyper:
    """Stack `numbers`, or their defaults, over members. `rates` is a vector, see `Layout.rates`."""
    values: Any = DEFAULTS | numbers
    values = {name: np.broadcast_to(np.asarray(x, dtype), n_members) for name, x in values.items()}
    values["rates"] = np.broadcast_to(np.asarray(rates, dtype), (n_members, *np.shape(rates)))
    return Hyper(**values)


PACKED = 2**16  # largest number of positions that leaves 15 bits for the hash
GOLDEN = np.uint32(0x9E3779B9)  # odd; its multiples are evenly spread


def hash32(h: Array) -> Array:
    """Hash 32-bit integers bijectively (the finaliser of MurmurHash3)."""
    h = (h ^ (h >> 16)) * jnp.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * jnp.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


def shuffle(rows: Array, count: Array, seed: Array, epoch: Array) -> Array:
    """Shuffle the first `count` rows by seed and epoch; padding stays last.

    Sorting hashes of positions compiles much faster than a general random generator. Up to `PACKED` positions
    are packed into the last bits of the sort keys: sorting one array takes a sixth of the time of two.
    """
    position = jnp.arange(rows.shape[0], dtype=jnp.uint32)
    start = hash32(seed ^ hash32(epoch.astype(jnp.uint32) + GOLDEN))
    noise = hash32(start + position * GOLDEN) >> 1
    noise = jnp.where(position < count.astype(jnp.uint32), noise, jnp.uint32(2**31))
    if rows.shape[0] > PACKED:
        return rows[jnp.argsort(noise)]
    bits = jnp.uint32((1 << (rows.shape[0] - 1).bit_length()) - 1)
    return rows[jnp.sort((noise & ~bits) | position) & bits]


def _choose(condition: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def _step(
    plan: Plan, objective: Objective, state: State, batch: Any, weight: Array, size: int, rows: Array,
    progress: Array, hyper: Hyper,
) -> tuple[State, Array]:  # fmt: skip
    """Take one clipped gradient step.

    A step whose objective, gradient or result is not finite leaves the parameters unchanged; the optimiser
    gets a gradient of zero. `weight` is zero on padding; `rows` is the number of rows that share the penalty.
    """
    count = jnp.minimum(rows, float(size))

    def loss(params: Tree) -> tuple[Array, Array]:
        penalty = objective.penalty(params)
        value = (weight * objective(params, batch, progress)).sum() / count
        return hyper.weight_decay / rows * penalty - value, value

    (_, value), slopes = jax.value_and_grad(loss, has_aux=True)(plan.layout.split(state.params))
    grad = plan.layout.join(slopes)
    norm = jnp.sqrt((grad**2).sum())  # finite only if every entry is
    finite = jnp.isfinite(norm + value)
    grad = jnp.where(finite, grad * jnp.minimum(1.0, hyper.clip / jnp.maximum(norm, 1e-30)), 0.0)
    number = state.step.astype(norm.dtype)
    direction, optimiser = OPTIMISERS[plan.optimizer][1](grad, state.optimiser, number + 1, plan.layout)
    place = jnp.clip(number / hyper.total_steps, 0.0, 1.0)
    rate = -hyper.learning_rate * SCHEDULES[plan.schedule](place) * state.rate
    params = state.params + jnp.where(finite, rate, 0.0) * hyper.rates * direction
    finite = finite & jnp.isfinite(jnp.abs(params).max())
    params = average = jnp.where(finite, params, state.params)
    if plan.averaged:  # the average covers more steps as their number grows
        decay = jnp.minimum(hyper.average, (1 + number) / (10 + number))
        average = decay * state.average + (1 - decay) * params
    undone = state.undone + (~finite).astype(jnp.int32)
    state = state._replace(
        params=params, average=average, optimiser=optimiser, step=state.step + 1, undone=undone,
        rate=jnp.where(finite, jnp.minimum(1.25 * state.rate, 1.0), jnp.maximum(state.rate / 2, 1e-6)),
        failures=jnp.where(finite, 0, jnp.minimum(state.failures + 1, FAILURES)),
    )  # fmt: skip
    return state, jnp.where(finite, value, 0.0)


def _undo_collapse(plan: Plan, state: State, train: Array) -> tuple[State, Array]:
    """Return the state after an epoch with this mean objective, and whether the epoch is valid.

    After a collapse training continues from the best parameters with a reset optimiser and an eighth of the
    rate. The reference score is lowered, since the best parameters may be no better.
    """
    least = state.peak - DROP * (1 + jnp.abs(state.peak))
    collapsed = train < least
    failed = state.failures >= FAILURES
    restored = state._replace(
        params=state.best, average=state.best, rate=jnp.maximum(state.rate / 8, 1e-6),
        undone=state.undone + 1, optimiser=jax.tree.map(jnp.zeros_like, state.optimiser),
    )  # fmt: skip
    reached = jnp.where(collapsed, least, jnp.fmax(state.peak, train))
    peak = jnp.where(failed, state.peak, reached)
    return _choose(collapsed, restored, state)._replace(peak=peak), ~(collapsed | failed)


def _run_epoch(
    plan: Plan, objective: Objective, state: State, members: Membership, hyper: Hyper, data: Any,
    weight: Array, steps: Array,
) -> tuple[State, Array, Array]:  # fmt: skip
    """Return the state of all members after an epoch, its mean objective and the held-out score.

    `vmap` is applied inside the loop's body: `vmap` of the loop would trace its body repeatedly.
    """
    B = min(plan.batch_size, members.train.shape[1])

    def begin(state: State, member: Membership, hyper: Hyper) -> tuple[Array, Array]:
        order = shuffle(member.train, member.n_train, state.seed, state.epoch)
        return order, jnp.clip(state.step.astype(weight.dtype) / hyper.total_steps, 0.0, 1.0)

    def step_member(
        j: Array, state: State, total: Array, order: Array, progress: Array, member: Membership, hyper: Hyper
    ) -> tuple[State, Array]:
        # the last batch is full too: it overlaps the one before
        first = jnp.clip(j * B, 0, jnp.maximum(member.n_train - B, 0))
        index = lax.dynamic_slice(order, (first,), (B,))
        counts = first + jnp.arange(B, dtype=jnp.int32) < member.n_train
        w = jnp.where(counts, weight[index], 0.0)
        batch = jax.tree.map(lambda a: a[index], data)
        rows = member.n_train.astype(weight.dtype)
        state, value = _step(plan, objective, state, batch, w, B, rows, progress, hyper)
        return state, total + value

    def end(
        state: State, total: Array, undone: Array, member: Membership, hyper: Hyper
    ) -> tuple[State, Array, Array]:
        train = total / (steps - (state.undone - undone)).astype(weight.dtype)
        state, valid = _undo_collapse(plan, state, train)
        params, held = plan.layout.split(state.average), member.held

        def scored(held: Array) -> Array:
            return objective.score(params, jax.tree.map(lambda a: a[held], data))

        inside = len(held) > SCORED and len(held) % SCORED == 0
        each = lax.map(scored, held.reshape(-1, SCORED)).reshape(-1) if inside else scored(held)
        each = jnp.maximum(each, train - WORST)
        w = jnp.where(jnp.arange(held.shape[0], dtype=jnp.int32) < member.n_held, weight[held], 0.0)
        score = (w * each).sum() / jnp.maximum(w.sum(), 1e-30)
        stalled = (state.epoch - state.best_epoch).astype(score.dtype) > hyper.patience
        better = (((score > state.best_score) & ~stalled) | (member.n_held == 0)) & valid
        best, best_score, best_epoch = _choose(
            better, (state.average, score, state.epoch), (state.best, state.best_score, state.best_epoch)
        )
        state = state._replace(epoch=state.epoch + 1, best=best, best_score=best_score, best_epoch=best_epoch)
        return state, train, score

    order, progress = jax.vmap(begin)(state, members, hyper)

    def step(j: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        step_all = jax.vmap(partial(step_member, j))
        return step_all(*carry, order, progress, members, hyper)

    none = jnp.zeros(len(progress), weight.dtype)
    after, total = lax.fori_loop(jnp.int32(0), steps, step, (state, none))
    return jax.vmap(end)(after, total, state.undone, members, hyper)


def chunk(
    plan: Plan, objective: Objective, state: State, members: Membership, hyper: Hyper, data: Any,
    weight: Array, n_epochs: Array, steps_per_epoch: Array,
) -> tuple[State, Trace]:  # fmt: skip
    """Train every member for `n_epochs` ≤ plan.capacity epochs.

    `state`, `members` and `hyper` have a leading axis of members on every leaf. `data` is the table, rows
    first, and `weight` the sample weights, 1 on average. The trace, (members, capacity), is NaN beyond
    `n_epochs`.
    """

    def epoch(i: Array, carry: tuple[State, Trace]) -> tuple[State, Trace]:
        state, trace = carry
        state, train, held = _run_epoch(plan, objective, state, members, hyper, data, weight, steps_per_epoch)
        return state, Trace(trace.train.at[:, i].set(train), trace.held.at[:, i].set(held))

    empty = jnp.full((len(state.seed), plan.capacity), jnp.nan, weight.dtype)
    return lax.fori_loop(jnp.int32(0), n_epochs, epoch, (state, Trace(empty, empty)))


_OPTIONS: Any = {"static_argnames": ("plan", "objective"), "compiler_options": GPU_COMPILER_OPTIONS}
run_chunk = jax.jit(chunk, **_OPTIONS)
# products by one thread: those of several differ in the last digits, and with their number
_OPTIONS["compiler_options"] = GPU_COMPILER_OPTIONS | {"xla_cpu_multi_thread_eigen": False}
run_chunk_in_one_thread = jax.jit(chunk, **_OPTIONS)
