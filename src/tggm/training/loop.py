"""One training loop for every method and model.

Members of an ensemble (or of several: members may see different rows through different standardisations) are
trained at once by `vmap`. A chunk of epochs is one compiled program: mini-batches from a fresh permutation
each epoch, clipped gradients, a score on the member's held-out rows after each epoch, and the best parameters
kept. Python acts between chunks only.

A step that leads to numbers that are not finite is undone and the next ones are halved, to grow again with
every sound one. An epoch whose objective falls far below the best one's is undone too: training goes on from
the best parameters with smaller steps. After `FAILURES` failures in a row a member is given up; its best
parameters stay as they are.

The numbers of epochs and steps, all rates and penalties are arguments of the program, not constants: changing
them never compiles anything. Shapes are those of the index lists, which are padded to a few sizes.

Several devices take a share of every mini-batch each: the same program, with `plan.shares` of them.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.arrays import Tree
from tggm.products import QUICKLY
from tggm.training.dropout import thinned
from tggm.training.optimisers import OPTIMISERS, SCHEDULES
from tggm.training.rows import shuffled
from tggm.training.state import Hyper, Membership, Objective, Plan, State, Trace

AXIS = "rows"


def share(size: int, shares: int) -> Array:
    """Places of a device's own rows among `size`; from `size` on they are padding."""
    if shares == 1:
        return jnp.arange(size, dtype=jnp.int32)
    length = -(-size // shares)
    first: Array = lax.axis_index(AXIS) * length
    return first.astype(jnp.int32) + jnp.arange(length, dtype=jnp.int32)


def added_up(shares: int, *sums: Array) -> tuple[Array, ...]:
    """Scalars and vectors added up over all devices, in one exchange."""
    if shares == 1:
        return sums
    cuts = [0]
    for part in sums:
        cuts.append(cuts[-1] + part.size)
    whole = lax.psum(jnp.concatenate([part.reshape(-1) for part in sums]), AXIS)
    ends = zip(cuts, cuts[1:], sums, strict=False)
    return tuple(whole[start:stop].reshape(part.shape) for start, stop, part in ends)


FAILURES = 25  # steps in a row that are not finite, after which a member is given up
DROP = 10.0  # an epoch has collapsed when its objective is so many times 1 + |best| below the best


def _choose(condition: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def _update(plan: Plan, state: State, grad: Array, value: Array, hyper: Hyper) -> tuple[Array, Any, Array]:
    """New parameters and optimiser state after one clipped step, and whether the step was sound.

    A step whose objective, gradient or result is not finite leaves the parameters where they are; the
    optimiser sees a gradient of zero. Testing the norm tests every entry.
    """
    norm = jnp.sqrt((grad**2).sum())
    fine = jnp.isfinite(norm + value)
    grad = jnp.where(fine, grad * jnp.minimum(1.0, hyper.clip / jnp.maximum(norm, 1e-30)), 0.0)
    if isinstance(plan.optimizer, str):
        step = state.step.astype(norm.dtype)
        direction, optimiser = OPTIMISERS[plan.optimizer].rule(grad, state.optimiser, step + 1, plan.layout)
        progress = jnp.clip(step / hyper.total_steps, 0.0, 1.0)
        rate = -hyper.learning_rate * SCHEDULES[plan.schedule](progress)
    else:
        arrays = plan.layout.split(grad), state.optimiser, plan.layout.split(state.params)
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # optax relies on both
            update, optimiser = plan.optimizer.update(*arrays)
        direction, rate = plan.layout.join(update), jnp.ones_like(norm)
    params = state.params + jnp.where(fine, rate * state.rate, 0.0) * hyper.rates * direction
    fine = fine & jnp.isfinite(jnp.abs(params).max())
    return jnp.where(fine, params, state.params), optimiser, fine


def _averaged(state: State, params: Array, decay: Array) -> Array:
    """Running average whose memory grows with the steps taken, so that it soon forgets where it began."""
    step = state.step.astype(decay.dtype)
    decay = jnp.minimum(decay, (1 + step) / (10 + step))
    return decay * state.average + (1 - decay) * params


def _step(
    plan: Plan,
    objective: Objective,
    state: State,
    batch: Any,
    weight: Array,
    size: int,
    rows: Array,
    progress: Array,
    hyper: Hyper,
) -> tuple[State, Array]:
    """One gradient step on this device's share of `size` rows.

    `weight` is zero on padding, `rows` the number of rows the penalty is shared by.
    """
    count = jnp.minimum(rows, float(size))

    def loss(params: Tree) -> tuple[Array, Array]:
        value = (weight * objective(params, batch, progress)).sum() / count
        decay = hyper.weight_decay / rows
        decay = decay / plan.shares if plan.shares > 1 else decay  # every device adds its part
        return decay * objective.penalty(params) - value, value

    (_, value), grad = jax.value_and_grad(loss, has_aux=True)(plan.layout.split(state.params))
    value, gradient = added_up(plan.shares, value, plan.layout.join(grad))
    params, optimiser, fine = _update(plan, state, gradient, value, hyper)
    average = _averaged(state, params, hyper.average) if plan.averaged else params
    undone = state.undone + (~fine).astype(jnp.int32)
    state = state._replace(
        params=params,
        average=average,
        optimiser=optimiser,
        step=state.step + 1,
        undone=undone,
        rate=jnp.where(fine, jnp.minimum(1.25 * state.rate, 1.0), jnp.maximum(state.rate / 2, 1e-6)),
        failures=jnp.where(fine, 0, jnp.minimum(state.failures + 1, FAILURES)),
    )
    return state, jnp.where(fine, value, 0.0)


def _watched(plan: Plan, state: State, train: Array) -> tuple[State, Array]:
    """The state after an epoch with this mean objective, and whether the epoch was sound.

    From a collapse it goes back to the best parameters, forgets the optimiser's averages and goes on with an
    eighth of the rate, which grows again with sound steps. The best parameters may be no better: an epoch is
    judged by the steps to its end. So every collapse lowers what the next epochs are held against.
    """
    least = state.peak - DROP * (1 + jnp.abs(state.peak))
    collapsed = train < least
    failed = state.failures >= FAILURES
    rate = jnp.maximum(state.rate / 8, 1e-6)
    back = (state.best, state.best, rate, state.undone + 1)
    params, average, rate, undone = _choose(
        collapsed, back, (state.params, state.average, state.rate, state.undone)
    )
    optimiser = state.optimiser
    if isinstance(plan.optimizer, str):
        optimiser = _choose(collapsed, jax.tree.map(jnp.zeros_like, optimiser), optimiser)
    reached = jnp.where(collapsed, least, jnp.fmax(state.peak, train))
    peak = jnp.where(failed, state.peak, reached)
    state = state._replace(
        params=params, average=average, rate=rate, undone=undone, optimiser=optimiser, peak=peak
    )
    return state, ~(collapsed | failed)


def _take(data: Any, index: Array, view: Any) -> Any:
    """Some rows of the table, as the member sees them."""
    rows = jax.tree.map(lambda a: a[index], data)
    return rows if view is None else view(rows)


WORST = 20.0  # nats below the mean of training, an error of six deviations: no row chooses the epoch alone


def _mean_score(
    plan: Plan,
    objective: Objective,
    params: Array,
    data: Any,
    weight: Array,
    member: Membership,
    view: Any,
    usual: Array,
) -> Array:
    """Mean score of the held-out rows; no row counts for less than `WORST` below what is usual."""
    size, held = member.held.shape[0], member.held
    if plan.shares > 1:
        held = held[jnp.minimum(share(size, plan.shares), size - 1)]
    score = objective.score(plan.layout.split(params), _take(data, held, view))
    score = jnp.maximum(score, usual - WORST)
    w = jnp.where(share(size, plan.shares) < member.n_held, weight[held], 0.0)
    total, mass = added_up(plan.shares, (w * score).sum(), w.sum())
    return total / jnp.maximum(mass, 1e-30)


def _batch(plan: Plan, order: Array, first: Array, size: int, n_train: Array) -> tuple[Array, Array]:
    """Row numbers of a device's share of the `size` rows from place `first` on, and which of them count."""
    if plan.shares == 1:
        index = lax.dynamic_slice(order, (first,), (size,))
        return index, first + share(size, 1) < n_train
    place = share(size, plan.shares)
    index = order[jnp.minimum(first + place, order.shape[0] - 1)]
    return index, (place < size) & (first + place < n_train)


def _run_epoch(
    plan: Plan, objective: Objective, state: State, members: Membership, view: Any, hyper: Hyper,
    data: Any, weight: Array, steps: Array,
) -> tuple[State, Array, Array]:  # fmt: skip
    """All members after an epoch, its mean objective and the score on held-out rows.

    Members are an axis of what a loop's body does, not of the loop: `vmap` of a loop would trace its body
    again and again, to find out what differs between members.
    """
    B = min(plan.batch_size, members.train.shape[1])

    def begun(state: State, member: Membership, hyper: Hyper) -> tuple[Array, Array]:
        order = shuffled(member.train, member.n_train, state.seed, state.epoch)
        return order, jnp.clip(state.step.astype(weight.dtype) / hyper.total_steps, 0.0, 1.0)

    def stepped(
        j: Array, state: State, total: Array, order: Array, progress: Array, member: Membership, view: Any,
        hyper: Hyper,
    ) -> tuple[State, Array]:  # fmt: skip
        # the last batch is full too: it reaches back into the one before
        first = jnp.clip(j * B, 0, jnp.maximum(member.n_train - B, 0))
        index, counts = _batch(plan, order, first, B, member.n_train)
        w = jnp.where(counts, weight[index], 0.0)
        batch = _take(data, index, view)
        if plan.thinned:
            X = thinned(batch.X, index, state.seed, state.step, hyper.dropout)
            batch = batch._replace(X=X)
        rows = member.n_train.astype(weight.dtype)
        state, value = _step(plan, objective, state, batch, w, B, rows, progress, hyper)
        return state, total + value

    def ended(
        state: State, total: Array, undone: Array, member: Membership, view: Any, hyper: Hyper
    ) -> tuple[State, Array, Array]:
        train = total / (steps - (state.undone - undone)).astype(weight.dtype)
        state, sound = _watched(plan, state, train)
        score = _mean_score(plan, objective, state.average, data, weight, member, view, train)
        stalled = (state.epoch - state.best_epoch).astype(score.dtype) > hyper.patience
        better = (((score > state.best_score) & ~stalled) | (member.n_held == 0)) & sound
        best, best_score, best_epoch = _choose(
            better, (state.average, score, state.epoch), (state.best, state.best_score, state.best_epoch)
        )
        state = state._replace(epoch=state.epoch + 1, best=best, best_score=best_score, best_epoch=best_epoch)
        return state, train, score

    order, progress = jax.vmap(begun)(state, members, hyper)

    def step(j: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        stepped_all = jax.vmap(partial(stepped, j))
        after: tuple[State, Array] = stepped_all(*carry, order, progress, members, view, hyper)
        return after

    none = jnp.zeros(len(progress), weight.dtype)
    after, total = lax.fori_loop(jnp.int32(0), steps, step, (state, none))
    result: tuple[State, Array, Array] = jax.vmap(ended)(after, total, state.undone, members, view, hyper)
    return result


def chunk(
    plan: Plan, objective: Objective, state: State, members: Membership, view: Any, hyper: Hyper,
    data: Any, weight: Array, n_epochs: Array, steps_per_epoch: Array,
) -> tuple[State, Trace]:  # fmt: skip
    """Train every member for `n_epochs` ≤ plan.capacity epochs.

    Parameters
    ----------
    plan, objective
        Static: batch size, optimiser, schedule; what is maximised.
    state, members, view, hyper
        One leading axis of members on every leaf; `view` maps rows to what a member sees, None to the same.
    data, weight
        The table, rows first, shared by all members, and sample weights, (rows,), 1 on average.
    n_epochs, steps_per_epoch : Array
        int32 scalars.

    Returns
    -------
    state, trace
        To go on from; of shape (members, capacity), NaN beyond `n_epochs`.
    """

    def epoch(i: Array, carry: tuple[State, Trace]) -> tuple[State, Trace]:
        state, trace = carry
        each = (members, view, hyper)
        state, train, held = _run_epoch(plan, objective, state, *each, data, weight, steps_per_epoch)
        return state, Trace(trace.train.at[:, i].set(train), trace.held.at[:, i].set(held))

    empty = jnp.full((len(state.seed), plan.capacity), jnp.nan, weight.dtype)
    carry: tuple[State, Trace] = lax.fori_loop(jnp.int32(0), n_epochs, epoch, (state, Trace(empty, empty)))
    return carry


run_chunk = jax.jit(chunk, static_argnames=("plan", "objective"), compiler_options=QUICKLY)
