"""Train a graph: maximise its log-likelihood, a difference of two log Z, by `tggm.training`.

The gradient of log Z is given by an engine's moments, so this is EM with a gradient M-step. If the prior
needs an engine too (deep graphs, couplings) the objective is a difference of two estimates and not a bound;
EP has the smallest error.
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
from tggm.graph._conditional import Evidence, Pattern, log_likelihood, read
from tggm.graph._structure import Parameters, Structure
from tggm.graph.graph import Graph
from tggm.inference import log_partition
from tggm.training.loop import Layout, Plan, hyper_parameters
from tggm.training.rows import Blocks, RowBlock, bucket, hold_out, membership
from tggm.training.train import Program, train

MAX_ITER = 50  # sweeps of an engine in a training step


@dataclass(frozen=True)
class GraphLikelihood:
    """Log-likelihood of the data of each row; equal objects share one compiled program."""

    structure: Structure
    pattern: Pattern
    engine: str = "ep"
    scored: bool = True  # whether rows are held out; if not, the engine is not compiled for them

    def __call__(self, params: Parameters, batch: Evidence, progress: Array) -> Array:
        """Return the log-likelihood of each row."""

        def one(row: Evidence) -> Array:
            return log_likelihood(self.structure, self.pattern, params, row, self._log_z)

        return jax.vmap(one)(batch)

    def score(self, params: Parameters, batch: Evidence) -> Array:
        """Return the log-likelihood of held-out rows, or zeros if no rows are held out."""
        if self.scored:
            return self(params, batch, jnp.zeros(()))
        leaf = jax.tree.leaves(batch)[0]
        return jnp.zeros(leaf.shape[0], leaf.dtype)

    def penalty(self, params: Parameters) -> Array:
        """Return ½‖W‖² of all weights and couplings."""
        squares = [(w**2).sum() for kind in ("weights", "coupling") for w in params[kind].values()]
        return 0.5 * jnp.stack(squares).sum() if squares else jnp.zeros(())

    def _log_z(self, tg: TruncatedGaussian) -> Array:
        return log_partition(tg, engine=self.engine, max_iter=MAX_ITER)


def fit_graph(
    graph: Graph, data: Mapping[str, Any], *, engine: str = "ep", max_epochs: int = 200, batch_size: int = 64,
    learning_rate: float = 0.02, weight_decay: float = 0.1, validation_fraction: float = 0.0,
    dtype: str = "float32", random_state: int = 0,
) -> Graph:  # fmt: skip
    """Maximise the likelihood of a graph.

    Parameters
    ----------
    graph : Graph
        Given parameters are the start values; others are drawn. Observed blocks without a bias or a noise
        start from the mean and the variance of their data.
    data : mapping from block to array
        Inputs, and values of observed blocks: numbers, NaN, `Censored`, signs.
    engine : {"ep", "mean_field", "exact"}
        Engine that computes log Z.
    learning_rate, weight_decay : float
        First step size of Adam, which falls along a cosine, and penalty on weights and couplings.
    validation_fraction : float
        Fraction of rows held out; the parameters with the best held-out score are kept. With 0 the last
        parameters are kept.
    max_epochs, batch_size, dtype, random_state
        Number of epochs and of rows in a step, "float32" or "float64", and the seed.

    Returns
    -------
    Graph
        With learned parameters, and `history`: mean "train" and "held_out" log-likelihood per row and epoch.
    """
    settings.one_of("engine", engine, ("ep", "mean_field", "exact"))
    settings.precision(dtype)
    settings.count("max_epochs", max_epochs)
    settings.count("batch_size", batch_size)
    settings.number("learning_rate", learning_rate, above=0)
    settings.number("weight_decay", weight_decay, least=0)
    settings.number("validation_fraction", validation_fraction, least=0, below=1)
    evidence, pattern, n_rows = read(graph.structure, data)
    if not pattern:
        raise ValueError("`data` must have an observed block; a graph cannot be trained on inputs alone.")
    rng = np.random.default_rng(random_state)
    initial = _start(graph, evidence).initial(int(rng.integers(2**31)))
    params = jax.tree.map(lambda a: np.asarray(a)[None].astype(dtype), initial.parameters)
    members = membership([hold_out(rng, np.arange(n_rows), validation_fraction)])
    padding = bucket(n_rows) - n_rows
    table = jax.tree.map(lambda a: np.pad(a.astype(dtype), [(0, padding), (0, 0)], "edge"), evidence)
    blocks = Blocks.of(RowBlock(members, table, np.ones(n_rows + padding, dtype)))
    layout = Layout.of(params, axes=1)
    plan = Plan(layout, batch_size, 1024)
    rates, steps = layout.rates([f"{kind}.{name}" for kind, name in graph.fixed]), blocks.steps(batch_size)
    hyper = hyper_parameters(
        1, rates, dtype, learning_rate=learning_rate, weight_decay=weight_decay,
        total_steps=max_epochs * steps,
    )  # fmt: skip
    objective = GraphLikelihood(graph.structure, pattern, engine, validation_fraction > 0)
    program = Program(plan, hyper, max_epochs, int(rng.integers(2**31)), objective)
    result = train(params, blocks, program)
    held_out = result.held[0] if objective.scored else np.full_like(result.held[0], np.nan)
    history = {"train": result.train[0], "held_out": held_out}
    return initial.with_parameters(jax.tree.map(lambda a: a[0], result.params), history)


def _start(graph: Graph, evidence: Evidence) -> Graph:
    """Set biases and learned noise of observed blocks from their data."""
    given = {kind: dict(values) for kind, values in graph.given.items()}
    for name, value in evidence.value.items():
        if graph.structure.by_name[name].role != "observed":
            continue
        if name not in given["bias"]:
            given["bias"][name] = np.nanmean(value, 0)
        if ("log_noise", name) not in graph.fixed and not graph.history:
            least = 1e-6 * np.maximum(np.nanmax(np.abs(value), 0) ** 2, 1e-12)
            given["log_noise"][name] = np.log(0.5 * np.maximum(np.nanvar(value, 0), least))
    return graph.with_parameters(given)
