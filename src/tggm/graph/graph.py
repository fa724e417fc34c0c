"""`Graph`: build a model from named blocks of variables and ties between them.

    graph = Graph().input("x", 3).latent("h", 20).observed("y").connect("x", "h").connect("h", "y")

is the shallow regression of the paper. A graph is immutable: every method returns a new one. Once its
parameters are set (given, drawn by `initial`, or learned by `tggm.fit_graph`) it computes likelihoods,
moments and samples.

`fit_graph` maximises the log-likelihood, a difference of two log Z, by `tggm.training`. The gradient of log Z
is given by an engine's moments, so this is EM with a gradient M-step. If the prior needs an engine too (deep
graphs, couplings) the objective is a difference of two estimates and not a bound; EP has the smallest error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from tggm import settings
from tggm.arrays import Floats
from tggm.gaussian import TruncatedGaussian
from tggm.graph._conditional import Evidence, Pattern, groups, kept_blocks, log_likelihood, read
from tggm.graph._structure import (
    ROLES,
    Block,
    Coupling,
    Edge,
    Parameters,
    Structure,
    coupling_weights,
    draw,
    tie_weights,
)
from tggm.inference import Estimate, estimate_log_z, estimate_moments, hmc, log_partition
from tggm.training.loop import Layout, Plan, hyper_parameters
from tggm.training.rows import Blocks, RowBlock, bucket, hold_out, membership
from tggm.training.train import Program, train

KINDS = ("weights", "bias", "log_noise", "coupling")
MAX_ITER = 50  # sweeps of an engine in a training step


@dataclass(frozen=True, eq=False)
class Graph:
    """A model made of named blocks; start with ``Graph()`` and add to it."""

    structure: Structure = field(default_factory=Structure)
    given: Parameters = field(default_factory=lambda: {kind: {} for kind in KINDS})
    couplings: Mapping[str, Floats] = field(default_factory=dict)  # as given by the user
    fixed: frozenset[tuple[str, str]] = frozenset()  # (kind, name) of parameters that are not trained
    history: Mapping[str, Any] = field(default_factory=dict)  # of training

    def input(self, name: str, size: int = 1) -> "Graph":
        """Add variables that are always given and have no distribution."""
        return replace(self, structure=self.structure.with_block(Block(name, size, "input")))

    def latent(
        self, name: str, size: int = 1, *, noise: ArrayLike = 1.0, bias: ArrayLike | None = None
    ) -> "Graph":
        """Add latent variables truncated to nonnegative values, which make the graph nonlinear.

        Their noise is fixed, because scaling a latent variable and its weights does not change the model.
        """
        return self._block(Block(name, size, "latent"), noise, bias)

    def free(
        self, name: str, size: int = 1, *, noise: ArrayLike = 1.0, bias: ArrayLike | None = None
    ) -> "Graph":
        """Add latent variables without truncation."""
        return self._block(Block(name, size, "free"), noise, bias)

    def observed(
        self, name: str, size: int = 1, *, noise: ArrayLike | None = None, bias: ArrayLike | None = None
    ) -> "Graph":
        """Add variables whose values are data: exact, limits (`Censored`) or missing (NaN).

        The noise variance is learned unless it is given.
        """
        return self._block(Block(name, size, "observed"), noise, bias)

    def inequality(
        self, name: str, size: int = 1, *, noise: ArrayLike = 1.0, bias: ArrayLike | None = None
    ) -> "Graph":
        """Add variables of which only the sign is data: 1, −1, or 0 and NaN where it is unknown."""
        return self._block(Block(name, size, "inequality"), noise, bias)

    def connect(
        self, parent: str, child: str, weights: ArrayLike | None = None, *, fixed: bool = False
    ) -> "Graph":
        """Add an edge: E has the term ½‖child − W parent − …‖²/s.

        Weights have shape (child size, parent size). They are drawn at random if not given, and learned
        unless they are `fixed`.
        """
        edge = Edge(parent, child)
        structure = self.structure.with_tie(edge)
        if weights is None and fixed:
            raise ValueError(f"{edge.title}: `fixed=True` needs `weights`.")
        given = {} if weights is None else {edge.name: tie_weights(structure, edge, weights)}
        known = {**self.given, "weights": {**self.given["weights"], **given}}
        held = {("weights", edge.name)} if fixed else set()
        return replace(self, structure=structure, given=known, fixed=self.fixed | held)

    def couple(self, first: str, second: str, weights: ArrayLike | None = None) -> "Graph":
        """Add an undirected tie between the residuals of two blocks: E = … − r_firstᵀ J r_second.

        Weights are J, of shape (first size, second size). They are learned if not given.
        """
        coupling = Coupling(first, second)
        structure = self.structure.with_tie(coupling)
        raw = dict(self.couplings)
        if weights is not None:
            raw[coupling.name] = np.asarray(weights, np.float64)
        # an additional coupling at a block reduces the share of its other couplings
        known = [c for c in structure.couplings if c.name in raw]
        found = {c.name: coupling_weights(structure, c, raw[c.name], self.given) for c in known}
        return replace(self, structure=structure, given={**self.given, "coupling": found}, couplings=raw)

    def hold(self, name: str) -> "Graph":
        """Exclude bias and noise of a block from training; a bias that is not given is 0."""
        if name not in self.structure.variables:
            raise ValueError(f"`name` must be a block that is not an input; got {name!r}.")
        bias = {name: np.zeros(self.structure.size(name)), **self.given["bias"]}
        held = {("bias", name), ("log_noise", name)}
        return replace(self, given={**self.given, "bias": bias}, fixed=self.fixed | held)

    def initial(self, seed: int = 0) -> "Graph":
        """Return the graph with random values for all parameters that have none."""
        return self.with_parameters(draw(self.structure, self.given, np.random.default_rng(seed)))

    def with_parameters(self, params: Parameters, history: Mapping[str, Any] | None = None) -> "Graph":
        """Return the graph with other parameters."""
        same = {kind: {k: np.asarray(v, np.float64) for k, v in params[kind].items()} for kind in KINDS}
        return replace(self, given=same, history=self.history if history is None else history)

    @cached_property
    def parameters(self) -> Parameters:
        """Return all parameters; raise if one is missing."""
        for tie in self.structure.ties:
            if tie.name not in self.given[tie.kind]:
                raise ValueError(f"{tie.title} has no weights: pass them, or call initial() or fit_graph().")
        bias = {name: np.zeros(self.structure.size(name)) for name in self.structure.variables}
        return {**self.given, "bias": {**bias, **self.given["bias"]}}

    def prior(self, data: Mapping[str, Any]) -> TruncatedGaussian:
        """Return the distribution given the inputs alone; variables without children are integrated out."""
        evidence, _, n = read(self.structure, data)
        return self._common_gaussian((), evidence, n)

    def posterior(self, data: Mapping[str, Any]) -> TruncatedGaussian:
        """Return the distribution of unknown variables given the data; they must be the same in all rows."""
        evidence, pattern, n = read(self.structure, data)
        return self._common_gaussian(pattern, evidence, n)

    def log_likelihood(self, data: Mapping[str, Any], *, engine: str = "auto", **options: Any) -> Estimate:
        """Return the log-density of each row's data (log-probability of signs and limits) and its error.

        The value is a difference of two log Z; the error combines the engine's errors of both.
        """
        evidence, pattern, n = read(self.structure, data)
        rows = n if self.structure.with_role("input") else 1  # without inputs all rows have one prior
        with jax.enable_x64(True):
            above = self._log_mass(pattern, evidence, n, engine, **options)
            below = self._log_mass((), evidence, rows, engine, **options)
        return Estimate(above[0] - below[0], np.hypot(above[1], below[1]))  # type: ignore[arg-type]  # NumPy

    def moments(
        self, data: Mapping[str, Any], *, engine: str = "auto", **options: Any
    ) -> dict[str, tuple[Floats, Floats]]:
        """Return mean and variance of every variable given the data, by block, shape (rows, size) each.

        Known values have variance 0.
        """

        def moments(tg: TruncatedGaussian, sign: Array) -> Floats:
            found = estimate_moments(tg, engine, **options)
            return np.stack([sign * found.mean, found.var])

        each = self._collect(data, np.array([1.0, 0.0]), moments)
        return {name: (mean, var) for name, (mean, var) in each.items()}

    def sample(
        self, data: Mapping[str, Any] | None = None, n: int = 1, *, key: Array | int = 0, **options: Any
    ) -> dict[str, Floats]:
        """Draw every variable given the data, by block, shape (n, rows, size) each.

        Draws come from `tggm.inference.hmc`, which gets the options; known values are repeated.
        """
        with jax.enable_x64(True):
            random = jax.random.key(key) if isinstance(key, int) else key

        def draws(tg: TruncatedGaussian, sign: Array) -> Floats:
            nonlocal random
            random, now = jax.random.split(random)
            t: Floats = np.asarray(hmc(tg, now, n, **options).draws)
            return np.asarray(sign)[None] * t

        return self._collect(data or {}, np.ones(n), draws)

    def __str__(self) -> str:
        structure = self.structure
        unknown = sum(structure.size(name) for name in structure.with_role("latent", "free"))
        kind = "nonlinear" if structure.with_role("latent") else "linear: no block is truncated"
        head = f"Graph of {len(structure.blocks)} blocks, {unknown} latent variables; {kind}"
        blocks = [f"  {block.name}: {block.size}, {ROLES[block.role]}" for block in structure.blocks]
        return "\n".join([head, *blocks, *(f"  {tie.name}" for tie in structure.ties)])

    def _common_gaussian(self, pattern: Pattern, evidence: Evidence, n: int) -> TruncatedGaussian:
        """Return one distribution with all rows; raise if their precision matrices differ."""
        with jax.enable_x64(True):
            found = list(groups(self.structure, pattern, self.parameters, evidence, n, "tied"))
        if len(found) > 1:
            raise ValueError(
                f"`data`: rows have different known variables ({len(found)} patterns) and no common "
                "precision matrix; select rows with the same ones, or use moments() and log_likelihood()."
            )
        if found[0].gaussian is None:
            raise ValueError("The graph has no unknown variables given these data.")
        return found[0].gaussian

    def _log_mass(
        self, pattern: Pattern, evidence: Evidence, n: int, engine: str, **options: Any
    ) -> tuple[Floats, Floats]:
        value, error = np.zeros(n), np.zeros(n)
        for group in groups(self.structure, pattern, self.parameters, evidence, n, "truncated"):
            value[group.rows] = group.log_constant
            if group.gaussian is not None:
                found = estimate_log_z(group.gaussian, engine, **options)
                value[group.rows] += np.asarray(found.value)
                error[group.rows] = found.error
        return value, error

    def _collect(
        self, data: Mapping[str, Any], known: Floats, ask: Callable[[TruncatedGaussian, Array], Floats]
    ) -> dict[str, Floats]:
        """Return arrays (k, rows, size) by block: `known` times the known values, plus results of `ask`."""
        evidence, pattern, n = read(self.structure, data)
        _, free = kept_blocks(self.structure, pattern)
        ends = np.cumsum([self.structure.size(name) for name in free])
        out = np.zeros((len(known), n, ends[-1] if free else 0))
        with jax.enable_x64(True):
            for group in groups(self.structure, pattern, self.parameters, evidence, n, "all"):
                out[:, group.rows] = known[:, None, None] * np.asarray(group.offset)[None]
                if group.gaussian is not None:
                    found = ask(group.gaussian, group.sign[:, group.which])
                    out[:, group.rows[:, None], group.which[None, :]] += found
        given = {name: known[:, None, None] * value[None] for name, value in evidence.value.items()}
        return given | dict(zip(free, np.split(out, ends[:-1], axis=-1), strict=bool(free)))

    def _block(self, block: Block, noise: ArrayLike | None, bias: ArrayLike | None) -> "Graph":
        structure = self.structure.with_block(block)
        variance = np.broadcast_to(np.asarray(1.0 if noise is None else noise, np.float64), (block.size,))
        if not (np.isfinite(variance) & (variance > 0)).all():
            raise ValueError(
                f"Block {block.name!r}: `noise` is a variance and must be positive; "
                f"got {float(variance.min()):.3g}."
            )
        given = {**self.given, "log_noise": {**self.given["log_noise"], block.name: np.log(variance)}}
        if bias is not None:
            values = np.broadcast_to(np.asarray(bias, np.float64), (block.size,)).copy()
            given["bias"] = {**self.given["bias"], block.name: values}
        held = set() if noise is None else {("log_noise", block.name)}
        return replace(self, structure=structure, given=given, fixed=self.fixed | held)


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
