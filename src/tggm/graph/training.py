"""Training a graph: its log-likelihood, a difference of two log Z, through the loop that trains everything.

The gradient of log Z being an engine's moments, following it is EM with a gradient M-step: the posterior of a
row's unknown variables pulls, the prior pushes. Where the prior needs an engine too (deep graphs, couplings)
the objective is a difference of two estimates and no bound; EP errs least.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm import settings
from tggm.gaussian import TruncatedGaussian
from tggm.graph.graph import Graph
from tggm.inference import log_partition
from tggm.models.graph.conditional import log_likelihood
from tggm.models.graph.evidence import Evidence, Pattern, read
from tggm.models.graph.parameters import Parameters
from tggm.models.graph.structure import Structure
from tggm.training.layout import Layout
from tggm.training.optimisers import SCHEDULES
from tggm.training.rows import Blocks, RowBlock, bucket, hold_out, membership
from tggm.training.state import Plan, hyper_parameters
from tggm.training.training import train


@dataclass(frozen=True)
class GraphLikelihood:
    """Log-likelihood of what is known of each row; equal objects share one compiled program."""

    structure: Structure
    pattern: Pattern
    engine: str = "ep"
    max_iter: int = 50
    scored: bool = True  # whether rows are held out; if not, the engine need not be compiled for them

    def __call__(self, params: Parameters, batch: Evidence, progress: Array) -> Array:
        """Log-likelihood of each row."""

        def one(row: Evidence) -> Array:
            return log_likelihood(self.structure, self.pattern, params, row, self._log_z)

        out: Array = jax.vmap(one)(batch)
        return out

    def score(self, params: Parameters, batch: Evidence) -> Array:
        """The same, or zeros where nothing is held out."""
        if self.scored:
            return self(params, batch, jnp.zeros(()))
        leaf = jax.tree.leaves(batch)[0]
        return jnp.zeros(leaf.shape[0], leaf.dtype)

    def penalty(self, params: Parameters) -> Array:
        """½‖W‖² of all weights and couplings."""
        squares = [(w**2).sum() for kind in ("weights", "coupling") for w in params[kind].values()]
        return 0.5 * jnp.stack(squares).sum() if squares else jnp.zeros(())

    def _log_z(self, tg: TruncatedGaussian) -> Array:
        return log_partition(tg, engine=self.engine, max_iter=self.max_iter)


def fit_graph(
    graph: Graph,
    data: Mapping[str, Any],
    *,
    engine: str = "ep",
    max_epochs: int = 200,
    batch_size: int = 64,
    learning_rate: float = 0.02,
    schedule: str = "cosine",
    weight_decay: float = 0.1,
    clip: float = 10.0,
    average: float = 0.0,
    validation_fraction: float = 0.0,
    max_iter: int = 50,
    dtype: str = "float32",
    random_state: int = 0,
) -> Graph:
    """Maximise the likelihood of a graph.

    Parameters
    ----------
    graph : Graph
        What has numbers starts from them; the rest is drawn. Observed blocks without a bias or a noise start
        from the mean and the variance of their data.
    data : mapping from block to array
        Inputs, and what is observed: numbers, NaN, `Censored`, signs.
    engine : {"ep", "mean_field", "exact"}
        Who computes log Z.
    max_epochs, batch_size, learning_rate, schedule, weight_decay, clip, average
        As in `TGGMRegressor`.
    validation_fraction : float
        Part of the rows held out; the parameters best on them are kept. 0 keeps the last ones.
    max_iter : int
        Most sweeps of the engine on a batch.
    dtype : {"float32", "float64"}
        What training computes in.
    random_state : int
        Seed.

    Returns
    -------
    Graph
        With learned numbers, and `history`: "train" and "held_out" log-likelihood of a row by epoch.
    """
    settings.one_of("engine", engine, ("ep", "mean_field", "exact"))
    settings.one_of("schedule", schedule, SCHEDULES)
    settings.precision(dtype)
    for name, count in (("max_epochs", max_epochs), ("batch_size", batch_size), ("max_iter", max_iter)):
        settings.count(name, count)
    settings.number("learning_rate", learning_rate, above=0)
    settings.number("weight_decay", weight_decay, least=0)
    settings.number("clip", clip, above=0)
    settings.number("average", average, least=0, below=1)
    settings.number("validation_fraction", validation_fraction, least=0, below=1)
    evidence, pattern, n_rows = read(graph.structure, data)
    if not pattern:
        raise ValueError("`data` must hold an observed block; there is nothing to learn from inputs alone.")
    rng = np.random.default_rng(random_state)
    begun = _start(graph, evidence).initial(int(rng.integers(2**31)))
    params = jax.tree.map(lambda a: np.asarray(a)[None].astype(dtype), begun.parameters)
    members = membership([hold_out(rng, np.arange(n_rows), validation_fraction)])
    padding = bucket(n_rows) - n_rows
    table = jax.tree.map(lambda a: np.pad(a.astype(dtype), [(0, padding), (0, 0)], "edge"), evidence)
    blocks = Blocks.of(RowBlock(members, table, np.ones(n_rows + padding, dtype)))
    layout = Layout.of(params, axes=1)
    plan = Plan(layout, batch_size, 1024, "adam", schedule, average > 0)
    hyper = hyper_parameters(
        1,
        layout.rates([f"{kind}.{name}" for kind, name in graph.fixed]),
        dtype,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        clip=clip,
        average=average,
        total_steps=max_epochs * blocks.steps(batch_size),
    )
    objective = GraphLikelihood(graph.structure, pattern, engine, max_iter, validation_fraction > 0)
    with jax.enable_x64(np.dtype(dtype) == np.float64):
        seed = int(rng.integers(2**31))
        result = train(plan, objective, params, blocks, hyper, max_epochs=max_epochs, seed=seed)
    held = result.held[0] if objective.scored else np.full_like(result.held[0], np.nan)
    history = {"train": result.train[0], "held_out": held}
    return begun.with_parameters(jax.tree.map(lambda a: a[0], result.params), history)


def _start(graph: Graph, evidence: Evidence) -> Graph:
    """Biases and learned noise of observed blocks from their data."""
    given = {kind: dict(values) for kind, values in graph.given.items()}
    for name, value in evidence.value.items():
        if graph.structure.by_name[name].role != "observed":
            continue
        if name not in given["bias"]:
            given["bias"][name] = np.nanmean(value, 0)
        if ("log_noise", name) not in graph.fixed and not graph.history:
            spread = np.maximum(
                np.nanvar(value, 0), 1e-6 * np.maximum(np.nanmax(np.abs(value), 0) ** 2, 1e-12)
            )
            given["log_noise"][name] = np.log(0.5 * spread)
    return graph.with_parameters(given)
