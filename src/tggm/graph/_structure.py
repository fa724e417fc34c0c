r"""Blocks of variables, the ties between them, and their parameters.

Every block that is not an input has one quadratic term in the energy,

    E = ½ rᵀ K r,      r_c = c − Σ_{parents p of c} W_pc p − b_c,

with one residual r_c for each block and K the precision of the residuals: diag(1/s) unless residuals are
coupled. So P = Aᵀ K A with A = I − W. Without directed cycles A is triangular with ones on its diagonal for
any weights, and P is positive definite because K is. Cycles are therefore not allowed.

A coupling of two blocks enters K as −√(w_a w_b) D_a^½ V D_b^½, D = diag(1/s), where w_a is one over the
number of couplings at a, and V a contraction made of an unconstrained matrix U:

.. math::
    V = L^{-1} U, \quad L L^T = I + U U^T, \qquad\text{so}\qquad V V^T = I - L^{-1} L^{-T} \prec I.

Every matrix of norm below one is such a V, and K is positive definite for any U, so training cannot make it
indefinite.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve
from numpy.typing import ArrayLike

from tggm.arrays import Floats

ROLES = {
    "input": "input", "latent": "latent ≥ 0", "free": "latent, free", "observed": "observed",
    "inequality": "observed sign",
}  # fmt: skip
Parameters = dict[str, dict[str, Any]]  # "weights", "bias", "log_noise", "coupling": name -> array
START = 0.3  # norm of randomly drawn contractions


@dataclass(frozen=True)
class Block:
    """A named vector of variables that have one role."""

    name: str
    size: int
    role: str  # a key of ROLES


class Tie:
    """A connection of two blocks."""

    kind: ClassVar[str]  # key of its numbers in `Parameters`
    layout: ClassVar[str]  # of its weights, for messages
    sign: ClassVar[str]

    @property
    def ends(self) -> tuple[str, str]:
        """Return the names of the two blocks, in the order of the fields."""
        first, second = vars(self).values()
        return first, second

    @property
    def name(self) -> str:
        """Return the key in the parameters."""
        return f" {self.sign} ".join(self.ends)

    @property
    def title(self) -> str:
        """Return the name for messages."""
        return f"{type(self).__name__} {self.name!r}"


@dataclass(frozen=True)
class Edge(Tie):
    """A directed tie: the child's location depends on the parent."""

    parent: str
    child: str

    kind, layout, sign = "weights", " (child by parent)", "->"


@dataclass(frozen=True)
class Coupling(Tie):
    """An undirected tie between the residuals of two blocks."""

    first: str
    second: str

    kind, layout, sign = "coupling", "", "--"


@dataclass(frozen=True)
class Structure:
    """Blocks, edges and couplings; hashable, so that it can be a static argument of compiled programs."""

    blocks: tuple[Block, ...] = ()
    edges: tuple[Edge, ...] = ()
    couplings: tuple[Coupling, ...] = ()

    @property
    def ties(self) -> tuple[Edge | Coupling, ...]:
        """Return edges, then couplings."""
        return (*self.edges, *self.couplings)

    @cached_property
    def by_name(self) -> dict[str, Block]:
        """Return the blocks by name."""
        return {block.name: block for block in self.blocks}

    def size(self, name: str) -> int:
        """Return the number of variables in a block."""
        return self.by_name[name].size

    def shape(self, tie: Edge | Coupling) -> tuple[int, int]:
        """Return the shape of the tie's weights: child by parent, or first by second."""
        a, b = map(self.size, tie.ends)
        return (b, a) if isinstance(tie, Edge) else (a, b)

    def with_role(self, *roles: str) -> tuple[str, ...]:
        """Return the names of the blocks with one of these roles, in the order they were added."""
        return tuple(block.name for block in self.blocks if block.role in roles)

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of all blocks except inputs: those that have a distribution."""
        return self.with_role("latent", "free", "observed", "inequality")

    def parents(self, name: str) -> tuple[str, ...]:
        """Return the blocks with an edge to this one."""
        return tuple(edge.parent for edge in self.edges if edge.child == name)

    def children(self, name: str) -> tuple[str, ...]:
        """Return the blocks with an edge from this one."""
        return tuple(edge.child for edge in self.edges if edge.parent == name)

    def is_leaf(self, name: str) -> bool:
        """Return whether the block has no children or couplings; unobserved, it can then be left out."""
        return not self.children(name) and not any(name in c.ends for c in self.couplings)

    def without_leaves(self, unobserved: tuple[str, ...]) -> tuple[str, ...]:
        """Return the variables that remain after repeatedly removing unobserved, untruncated leaves."""
        kept = self.variables
        coupled = {name for c in self.couplings for name in c.ends}
        latent = set(self.with_role("latent"))
        while True:
            needed = coupled | {e.parent for e in self.edges if e.child in kept} | latent
            remaining = tuple(name for name in kept if name not in unobserved or name in needed)
            if remaining == kept:
                return kept
            kept = remaining

    def with_block(self, block: Block) -> "Structure":
        """Return the structure with one more block."""
        name: Any = block.name
        if not isinstance(name, str) or not name:
            raise ValueError(f"The name of a block must be a nonempty string such as 'h'; got {name!r}.")
        if block.name in self.by_name:
            raise ValueError(f"Block {block.name!r} already exists; give the new one another name.")
        if block.size < 1:
            raise ValueError(f"Block {block.name!r} must have at least one variable; got {block.size}.")
        return replace(self, blocks=(*self.blocks, block))

    def with_tie(self, tie: Edge | Coupling) -> "Structure":
        """Return the structure with one more edge or coupling."""
        for name in tie.ends:
            if name not in self.by_name:
                known = ", ".join(map(repr, self.by_name)) or "none yet"
                raise ValueError(f"{tie.title}: there is no block {name!r}; blocks are {known}.")
            if self.by_name[name].role == "input" and (isinstance(tie, Coupling) or name == tie.child):
                remedy = "has no residual; use connect() instead."
                if isinstance(tie, Edge):
                    remedy = "cannot have parents; reverse the edge, or make it an observed block."
                raise ValueError(f"{tie.title}: {name!r} is an input and {remedy}")
        if isinstance(tie, Coupling):
            if tie.first == tie.second:
                raise ValueError(f"{tie.title} ties a block to itself; couple two blocks.")
            if any(set(c.ends) == set(tie.ends) for c in self.couplings):
                raise ValueError(f"{tie.title} already exists.")
            return replace(self, couplings=(*self.couplings, tie))
        if tie in self.edges:
            raise ValueError(f"{tie.title} already exists.")
        if tie.parent == tie.child or tie.parent in self._descendants(tie.child):
            raise ValueError(
                f"{tie.title} closes a directed cycle, and the precision matrix could become "
                f"indefinite; reverse it, or use couple({tie.parent!r}, {tie.child!r})."
            )
        return replace(self, edges=(*self.edges, tie))

    def _descendants(self, name: str) -> set[str]:
        children = self.children(name)
        return set(children).union(*(self._descendants(child) for child in children))


def contraction(U: Array) -> Array:
    """Return V = L⁻¹U, of norm below one for any U."""
    L = cholesky(jnp.eye(U.shape[0], dtype=U.dtype) + U @ U.T)
    return triangular_solve(L, U, left_side=True, lower=True)


def share(structure: Structure, coupling: Coupling) -> float:
    """Return √(w_a w_b), the part of the two blocks' precisions that a coupling may use."""
    counts = [sum(name in c.ends for c in structure.couplings) for name in coupling.ends]
    return float(1 / np.sqrt(np.prod(counts)))


class ResidualPrecision(NamedTuple):
    """The precision K of the residuals, by block."""

    own: dict[str, Array]  # the diagonals 1/s
    coupled: dict[tuple[str, str], Array]  # blocks off the diagonal


def residual_precision(structure: Structure, params: Parameters, kept: tuple[str, ...]) -> ResidualPrecision:
    """Return K of the residuals of the blocks `kept`."""
    K = ResidualPrecision({name: jnp.exp(-params["log_noise"][name]) for name in kept}, {})
    for c in structure.couplings:
        if not set(c.ends) <= set(kept):
            continue
        a, b = (jnp.sqrt(K.own[name]) for name in c.ends)
        J = share(structure, c) * a[:, None] * contraction(params["coupling"][c.name]) * b[None, :]
        K.coupled[c.ends], K.coupled[c.ends[::-1]] = -J, -J.T
    return K


def tie_weights(structure: Structure, tie: Edge | Coupling, weights: ArrayLike) -> Floats:
    """Check weights given by the user."""
    array, wanted = np.asarray(weights, np.float64), structure.shape(tie)
    if array.shape != wanted or not np.isfinite(array).all():
        raise ValueError(
            f"{tie.title}: weights must be finite, of shape {wanted}{tie.layout}; got shape {array.shape}."
        )
    return array


def coupling_weights(
    structure: Structure, coupling: Coupling, weights: ArrayLike, params: Parameters
) -> Floats:
    """Return the U whose contraction makes K_ab = −J, J the weights."""
    J = tie_weights(structure, coupling, weights)
    a, b = (np.exp(0.5 * params["log_noise"][name]) for name in coupling.ends)
    V = a[:, None] * J * b[None, :] / share(structure, coupling)
    norm = float(np.linalg.norm(V, 2))
    if not norm < 1:
        raise ValueError(
            f"{coupling.title} makes the precision matrix indefinite: in units of its blocks' "
            f"noise its norm is {norm:.3g}, and it must be below 1. Multiply its weights by "
            f"{0.99 / norm:.2g} or less, or lower the noise of the blocks."
        )
    return np.linalg.solve(np.linalg.cholesky(np.eye(len(V)) - V @ V.T), V)


def draw(structure: Structure, given: Parameters, rng: np.random.Generator) -> Parameters:
    """Draw the missing parameters: locations have the scale of the noise, couplings are small."""
    out: Parameters = {kind: dict(values) for kind, values in given.items()}
    for block in structure.blocks:
        if block.role != "input" and block.name not in out["bias"]:
            spread = np.exp(0.5 * out["log_noise"][block.name]) if block.role == "latent" else 0.0
            out["bias"][block.name] = spread * rng.standard_normal(block.size)
    for edge in structure.edges:
        if edge.name not in out["weights"]:
            fan_in = sum(structure.size(p) for p in structure.parents(edge.child))
            scale = np.exp(0.5 * out["log_noise"][edge.child])[:, None] / np.sqrt(fan_in)
            out["weights"][edge.name] = scale * rng.standard_normal(structure.shape(edge))
    for c in structure.couplings:
        if c.name not in out["coupling"]:
            U = rng.standard_normal(structure.shape(c))
            out["coupling"][c.name] = START * U / np.linalg.norm(U, 2)
    return out
