"""`Graph`: design a model by naming blocks of variables and tying them together.

    graph = Graph().input("x", 3).latent("h", 20).observed("y").connect("x", "h").connect("h", "y")

is the shallow regression of the paper. A graph is a value: every method returns a new one. Once its numbers
are there (given, drawn by `initial`, or learned by `tggm.fit_graph`) it answers questions about data.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from tggm.arrays import Floats
from tggm.gaussian import TruncatedGaussian
from tggm.graph.groups import Group, groups
from tggm.graph.summary import describe
from tggm.inference import Estimate, estimate_log_z, estimate_moments, hmc
from tggm.models.graph.conditional import Keep, blocks
from tggm.models.graph.evidence import Evidence, Pattern, read
from tggm.models.graph.parameters import Parameters, coupling_weights, draw, tie_weights
from tggm.models.graph.structure import Block, Coupling, Edge, Structure

KINDS = ("weights", "bias", "log_noise", "coupling")


def _nothing() -> Parameters:
    return {kind: {} for kind in KINDS}


@dataclass(frozen=True, eq=False)
class Graph:
    """A model made of named blocks; begin with ``Graph()`` and add to it."""

    structure: Structure = field(default_factory=Structure)
    given: Parameters = field(default_factory=_nothing)
    couplings: Mapping[str, Floats] = field(default_factory=dict)  # as given, not as parameters
    fixed: frozenset[tuple[str, str]] = frozenset()  # (kind, name) of what training leaves alone
    history: Mapping[str, Any] = field(default_factory=dict)  # of training

    def input(self, name: str, size: int = 1) -> "Graph":
        """Variables that are always given and have no distribution."""
        return replace(self, structure=self.structure.with_block(Block(name, size, "input")))

    def latent(
        self, name: str, size: int = 1, *, noise: ArrayLike = 1.0, bias: ArrayLike | None = None
    ) -> "Graph":
        """Latent variables kept nonnegative: what makes a graph nonlinear.

        Their noise is fixed: scaling a latent variable and its weights leaves the model as it is.
        """
        return self._block(Block(name, size, "latent"), noise, bias)

    def free(
        self, name: str, size: int = 1, *, noise: ArrayLike = 1.0, bias: ArrayLike | None = None
    ) -> "Graph":
        """Latent variables without truncation."""
        return self._block(Block(name, size, "free"), noise, bias)

    def observed(
        self, name: str, size: int = 1, *, noise: ArrayLike | None = None, bias: ArrayLike | None = None
    ) -> "Graph":
        """Variables that data give: exactly, as limits (`Censored`), or not at all (NaN).

        The noise variance is learned unless given.
        """
        return self._block(Block(name, size, "observed"), noise, bias)

    def inequality(
        self, name: str, size: int = 1, *, noise: ArrayLike = 1.0, bias: ArrayLike | None = None
    ) -> "Graph":
        """Variables of which data give the sign only: 1, −1, or 0 and NaN where it is unknown."""
        return self._block(Block(name, size, "inequality"), noise, bias)

    def connect(
        self, parent: str, child: str, weights: ArrayLike | None = None, *, fixed: bool = False
    ) -> "Graph":
        """Let the location of `child` depend on `parent`: E gains W in ½‖child − W parent − …‖²/s.

        Parameters
        ----------
        parent, child : str
            Names of blocks.
        weights : array_like, shape (child size, parent size), optional
            Drawn at random and learned if not given.
        fixed : bool
            Whether training leaves the weights as they are given.
        """
        edge = Edge(parent, child)
        structure = self.structure.with_edge(edge)
        if weights is None and fixed:
            raise ValueError(f"{edge.title}: fixed weights must be given.")
        given = {} if weights is None else {edge.name: tie_weights(structure, edge, weights)}
        known = {**self.given, "weights": {**self.given["weights"], **given}}
        held = {("weights", edge.name)} if fixed else set()
        return replace(self, structure=structure, given=known, fixed=self.fixed | held)

    def couple(
        self, first: str, second: str | None = None, weights: ArrayLike | None = None, *, rank: int = 1
    ) -> "Graph":
        """Tie residuals without a direction: of two blocks, or within one (lateral connections).

        Parameters
        ----------
        first, second : str
            Names of blocks; one name alone couples the block's own variables.
        weights : array_like, optional
            J, of shape (first size, second size), with E = … − r_firstᵀ J r_second: positive attracts. For a
            lateral coupling U of shape (rank, size), with E = … + ½‖U r‖². Learned if not given.
        rank : int
            Of a lateral coupling.
        """
        lateral = second is None or second == first
        if lateral and weights is not None:
            rank = len(np.atleast_2d(np.asarray(weights)))
        coupling = Coupling(first, first if second is None else second, rank if lateral else None)
        if lateral and rank < 1:
            raise ValueError(f"{coupling.title}: `rank` must be at least 1; got {rank}.")
        structure = self.structure.with_coupling(coupling)
        raw = dict(self.couplings)
        if weights is not None:
            raw[coupling.name] = np.asarray(weights, np.float64)
        # another coupling at a block leaves less of its precision to those that were there before
        found = {
            c.name: coupling_weights(structure, c, raw[c.name], self.given)
            for c in structure.couplings
            if c.name in raw
        }
        return replace(self, structure=structure, given={**self.given, "coupling": found}, couplings=raw)

    def hold(self, name: str) -> "Graph":
        """Let training leave bias and noise of a block as they are given; a bias that is not is 0."""
        if name not in self.structure.variables:
            raise ValueError(f"`name` must be a block that is no input; got {name!r}.")
        bias = {name: np.zeros(self.structure.size(name)), **self.given["bias"]}
        held = {("bias", name), ("log_noise", name)}
        return replace(self, given={**self.given, "bias": bias}, fixed=self.fixed | held)

    def initial(self, seed: int = 0) -> "Graph":
        """The same graph with numbers drawn for everything that has none."""
        return self.with_parameters(draw(self.structure, self.given, np.random.default_rng(seed)))

    def with_parameters(self, params: Parameters, history: Mapping[str, Any] | None = None) -> "Graph":
        """The same graph with other numbers."""
        same = {kind: {k: np.asarray(v, np.float64) for k, v in params[kind].items()} for kind in KINDS}
        return replace(self, given=same, history=self.history if history is None else history)

    @cached_property
    def parameters(self) -> Parameters:
        """All numbers; an error names the first that is missing."""
        for tie in self.structure.ties:
            if tie.name not in self.given[tie.kind]:
                raise ValueError(f"{tie.title} has no weights: give them, or use initial() or fit_graph().")
        bias = {name: np.zeros(self.structure.size(name)) for name in self.structure.variables}
        return {**self.given, "bias": {**bias, **self.given["bias"]}}

    def prior(self, data: Mapping[str, Any]) -> TruncatedGaussian:
        """The unobserved and observed variables given the inputs alone, leaves integrated out."""
        evidence, _, n = read(self.structure, data)
        return self._common((), evidence, n)

    def posterior(self, data: Mapping[str, Any]) -> TruncatedGaussian:
        """The unknown variables given all that is known; every row must know the same variables."""
        evidence, pattern, n = read(self.structure, data)
        return self._common(pattern, evidence, n)

    def log_likelihood(self, data: Mapping[str, Any], *, engine: str = "auto", **options: Any) -> Estimate:
        """Log-density (of signs and limits: log-probability) of what is observed in each row; its error.

        A difference of two log Z, and what both may err by.
        """
        evidence, pattern, n = read(self.structure, data)
        some = n if self.structure.named("input") else 1  # without inputs the prior is the same for all rows
        with jax.enable_x64(True):
            above = self._log_mass(pattern, evidence, n, engine, **options)
            below = self._log_mass((), evidence, some, engine, **options)
        return Estimate(above[0] - below[0], np.hypot(above[1], below[1]))  # type: ignore[arg-type]  # NumPy

    def moments(
        self, data: Mapping[str, Any], *, engine: str = "auto", **options: Any
    ) -> dict[str, tuple[Floats, Floats]]:
        """Mean and variance of every variable given what is known, by block, shape (rows, size) each.

        Known values have variance 0.
        """

        def moments(tg: TruncatedGaussian, sign: Array) -> Floats:
            found = estimate_moments(tg, engine, **options)
            return np.stack([sign * found.mean, found.var])

        each = self._answers(data, np.array([1.0, 0.0]), moments)
        return {name: (mean, var) for name, (mean, var) in each.items()}

    def sample(
        self, data: Mapping[str, Any] | None = None, n: int = 1, *, key: Array | int = 0, **options: Any
    ) -> dict[str, Floats]:
        """Draws of every variable given what is known, by block, shape (n, rows, size) each.

        From the chains of `tggm.inference.hmc`, whose options may follow; known values are repeated.
        """
        with jax.enable_x64(True):
            random = jax.random.key(key) if isinstance(key, int) else key

        def draws(tg: TruncatedGaussian, sign: Array) -> Floats:
            nonlocal random
            random, now = jax.random.split(random)
            t: Floats = np.asarray(hmc(tg, now, n, **options).draws)
            return np.asarray(sign)[None] * t

        return self._answers(data or {}, np.ones(n), draws)

    def __str__(self) -> str:
        return describe(self.structure, self.given, self.fixed)

    def _groups(self, pattern: Pattern, evidence: Evidence, n: int, keep: Keep) -> Iterator[Group]:
        return groups(self.structure, pattern, self.parameters, evidence, n, keep)

    def _common(self, pattern: Pattern, evidence: Evidence, n: int) -> TruncatedGaussian:
        """The distribution of all rows at once; an error if they have none in common."""
        with jax.enable_x64(True):
            found = list(self._groups(pattern, evidence, n, "tied"))
        if len(found) > 1:
            raise ValueError(
                f"`data`: rows know different variables ({len(found)} patterns), so that they have no common "
                "precision matrix; select rows with one pattern, or use moments() and log_likelihood()."
            )
        if found[0].gaussian is None:
            raise ValueError("The graph has no unknown variables here, so they have no distribution.")
        return found[0].gaussian

    def _log_mass(
        self, pattern: Pattern, evidence: Evidence, n: int, engine: str, **options: Any
    ) -> tuple[Floats, Floats]:
        value, error = np.zeros(n), np.zeros(n)
        for group in self._groups(pattern, evidence, n, "truncated"):
            value[group.rows] = group.log_constant
            if group.gaussian is not None:
                found = estimate_log_z(group.gaussian, engine, **options)
                value[group.rows] += np.asarray(found.value)
                error[group.rows] = found.error
        return value, error

    def _answers(
        self, data: Mapping[str, Any], known: Floats, ask: Callable[[TruncatedGaussian, Array], Floats]
    ) -> dict[str, Floats]:
        """Arrays (k, rows, size) by block: k `known` multiples of what is known, plus what `ask` finds."""
        evidence, pattern, n = read(self.structure, data)
        _, free = blocks(self.structure, pattern)
        ends = np.cumsum([self.structure.size(name) for name in free])
        out = np.zeros((len(known), n, ends[-1] if free else 0))
        with jax.enable_x64(True):
            for group in self._groups(pattern, evidence, n, "all"):
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
