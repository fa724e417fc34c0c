"""What training is made of: the plan of a program, its numbers, and the state that it carries along.

Inside the program all parameters of a member are one vector, so that clipping, moments, averages, tests for
finiteness and copies are one operation each instead of one per array: fewer kernels to compile and to launch.
"""

from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jax import Array

from tggm.arrays import Tree
from tggm.training.layout import Layout
from tggm.training.optimisers import OPTIMISERS


class Objective(Protocol):
    """What the loop maximises; hashable, so that it can be a static argument. `Method` is one."""

    def __call__(self, params: Tree, rows: Any, progress: Array, /) -> Array:
        """Objective of each row when a part `progress` of training, 0 to 1, is done."""

    def score(self, params: Tree, rows: Any, /) -> Array:
        """Figure of merit of each held-out row; larger is better."""

    def penalty(self, params: Tree, /) -> Array:
        """What weight decay multiplies."""


class Plan(NamedTuple):
    """What is fixed when a training program is compiled."""

    layout: Layout
    batch_size: int
    capacity: int  # most epochs in one chunk
    optimizer: Any = (
        "adam"  # a name, or a complete optax.GradientTransformation with its own rate and schedule
    )
    schedule: str = "cosine"
    averaged: bool = False  # whether a running average of the parameters is scored and kept
    thinned: bool = False  # whether inputs are left out at random
    shares: int = 1  # devices that a mini-batch is cut over


class Hyper(NamedTuple):
    """Numbers of one member (a leading axis of members when they differ), free to change between runs."""

    learning_rate: Array
    weight_decay: Array  # multiplies penalty / number of rows
    clip: Array  # largest norm of a gradient
    average: Array  # decay of the running average
    total_steps: Array  # length of the schedule
    patience: Array  # epochs without a better score after which none is accepted any more
    dropout: Array  # part of the inputs that a step leaves out
    rates: Array  # (parameters,) multiplies the step of each parameter: 0 holds it fixed


class Membership(NamedTuple):
    """Rows a member trains on and rows it holds out: indices into the table, the padding last."""

    train: Array  # (n_train,) int32
    n_train: Array  # () how many of them count
    held: Array  # (n_held,) int32
    n_held: Array  # () how many of them count; 0 keeps the last parameters instead of the best


class State(NamedTuple):
    """All that the next epoch needs; saving it and going on gives the same result as never stopping."""

    params: Array  # (parameters,) all parameters of a member as one vector, see `Layout`
    average: Array  # (parameters,) their running average
    optimiser: Any
    seed: Array  # () uint32, of the member's mini-batches
    step: Array  # () int32
    epoch: Array  # () int32
    best: Array  # (parameters,) those with the best score
    best_score: Array  # ()
    best_epoch: Array  # () int32
    undone: Array  # () int32, steps not taken because they were not finite, and epochs that collapsed
    rate: Array  # () multiplies the learning rate, 1 as long as nothing fails
    failures: Array  # () int32, steps in a row that were undone
    peak: Array  # () best mean objective of an epoch


class Trace(NamedTuple):
    """What happened in each epoch of a chunk, shape (capacity,)."""

    train: Array  # mean objective over the epoch's sound steps, NaN if there was none
    held: Array  # mean score of the held-out rows after it


def start(plan: Plan, params: Tree, seeds: Any) -> State:
    """State before the first step; every leaf of `params` and `seeds` has a leading axis of members.

    Made of NumPy arrays: a named optimiser starts from zeros, so nothing has to be compiled.
    """
    vectors: Any = plan.layout.join_members(params)
    if isinstance(plan.optimizer, str):
        optimiser = tuple(np.zeros_like(vectors) for _ in range(OPTIMISERS[plan.optimizer].n_vectors))
    else:  # optax may treat arrays differently, so it sees them
        optimiser = jax.vmap(plan.optimizer.init)(params)
    count: Any = np.zeros(len(seeds), np.int32)
    worst: Any = np.full(len(seeds), -np.inf, vectors.dtype)
    seed: Any = np.asarray(seeds, np.uint32)
    one: Any = np.ones(len(seeds), vectors.dtype)
    return State(
        vectors, vectors, optimiser, seed, count, count, vectors, worst, count, count, one, count, worst
    )


def hyper_parameters(
    n_members: int,
    rates: Any,
    dtype: Any,
    *,
    learning_rate: Any = 1e-2,
    weight_decay: Any = 0.0,
    clip: Any = 10.0,
    average: Any = 0.0,
    total_steps: Any = 1,
    patience: Any = np.inf,
    dropout: Any = 0.0,
) -> Hyper:
    """Stack hyper-parameters over members; a scalar serves all. `rates` is a vector, see `Layout.rates`."""

    def stacked(value: Any, shape: tuple[int, ...] = ()) -> Any:
        return np.broadcast_to(np.asarray(value, dtype), (n_members, *shape))

    values = (learning_rate, weight_decay, clip, average, total_steps, patience, dropout)
    return Hyper._make([*map(stacked, values), stacked(rates, np.shape(rates))])
