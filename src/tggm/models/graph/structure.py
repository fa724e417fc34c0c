"""Which variables there are and which of them are tied to which: a graph without its numbers.

A graph is made of blocks. Every block that is not an input has one quadratic term in the energy,

    E = ½ rᵀ K r,      r_c = c − Σ_{parents p of c} W_pc p − b_c,

a residual for each block, and K their precision: diag(1/s) unless residuals are coupled. So P = Aᵀ K A with
A = I − W. Without directed cycles A is triangular with ones on its diagonal, whatever the weights, and P is
positive definite because K is: this is why a cycle is refused.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

ROLES = {
    "input": "input",
    "latent": "latent ≥ 0",
    "free": "latent, free",
    "observed": "observed",
    "inequality": "observed sign",
}


@dataclass(frozen=True)
class Block:
    """A named vector of variables that play one role."""

    name: str
    size: int
    role: str  # a key of ROLES


class Tie(ABC):
    """What connects two blocks, or one with itself."""

    kind: ClassVar[str]  # where parameters hold its numbers
    layout: ClassVar[str]  # of its weights, as messages say
    sign: ClassVar[str]

    @property
    @abstractmethod
    def ends(self) -> tuple[str, str]:
        """The two blocks it ties."""

    @property
    def name(self) -> str:
        """How parameters call it."""
        return f" {self.sign} ".join(self.ends)

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"{type(self).__name__} {self.name!r}"


@dataclass(frozen=True)
class Edge(Tie):
    """A directed tie: the child's location depends on the parent."""

    parent: str
    child: str

    kind, layout, sign = "weights", " (child by parent)", "->"

    @property
    def ends(self) -> tuple[str, str]:
        """Parent and child."""
        return self.parent, self.child


@dataclass(frozen=True)
class Coupling(Tie):
    """An undirected tie between residuals: of two blocks, or within one (lateral, of some rank)."""

    first: str
    second: str
    rank: int | None = None  # of a lateral coupling

    kind, layout, sign = "coupling", "", "--"

    @property
    def ends(self) -> tuple[str, str]:
        """Both blocks."""
        return self.first, self.second

    @property
    def lateral(self) -> bool:
        """Whether both ends are one block."""
        return self.first == self.second


@dataclass(frozen=True)
class Structure:
    """Blocks, edges and couplings; hashable, so that programs can be compiled for it."""

    blocks: tuple[Block, ...] = ()
    edges: tuple[Edge, ...] = ()
    couplings: tuple[Coupling, ...] = ()

    @property
    def ties(self) -> tuple[Edge | Coupling, ...]:
        """Edges, then couplings."""
        return (*self.edges, *self.couplings)

    @cached_property
    def by_name(self) -> dict[str, Block]:
        """Look a block up."""
        return {block.name: block for block in self.blocks}

    def size(self, name: str) -> int:
        """Number of variables in a block."""
        return self.by_name[name].size

    def shape(self, tie: Edge | Coupling) -> tuple[int, int]:
        """Of the tie's weights: child by parent, first by second, rank by size."""
        a, b = map(self.size, tie.ends)
        return (b, a) if isinstance(tie, Edge) else (tie.rank or a, b)

    def named(self, *roles: str) -> tuple[str, ...]:
        """Names of the blocks that play one of these roles, in the order they were added."""
        return tuple(block.name for block in self.blocks if block.role in roles)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all blocks but the inputs: those that have a distribution."""
        return self.named("latent", "free", "observed", "inequality")

    def parents(self, name: str) -> tuple[str, ...]:
        """Blocks that an edge leads from."""
        return tuple(edge.parent for edge in self.edges if edge.child == name)

    def children(self, name: str) -> tuple[str, ...]:
        """Blocks that an edge leads to."""
        return tuple(edge.child for edge in self.edges if edge.parent == name)

    def is_leaf(self, name: str) -> bool:
        """Whether nothing hangs on the block, so that leaving it unobserved is the same as leaving it out."""
        return not self.children(name) and not any(name in c.ends for c in self.couplings)

    def without_leaves(self, unobserved: tuple[str, ...]) -> tuple[str, ...]:
        """Variables that remain when unobserved, untruncated leaves are integrated out, again and again."""
        kept = self.variables
        coupled = {name for c in self.couplings for name in c.ends}
        while True:
            needed = coupled | {e.parent for e in self.edges if e.child in kept} | set(self.named("latent"))
            stay = tuple(name for name in kept if name not in unobserved or name in needed)
            if stay == kept:
                return kept
            kept = stay

    def with_block(self, block: Block) -> "Structure":
        """One more block; errors name it."""
        name: Any = block.name
        if not isinstance(name, str) or not name:
            raise ValueError(f"The name of a block must be a word, as 'h'; got {name!r}.")
        if block.name in self.by_name:
            raise ValueError(f"Block {block.name!r} is already there; give the new one another name.")
        if block.size < 1:
            raise ValueError(f"Block {block.name!r} must have at least one variable; got {block.size}.")
        return replace(self, blocks=(*self.blocks, block))

    def with_edge(self, edge: Edge) -> "Structure":
        """One more edge; errors name it."""
        self._require_blocks(edge)
        if self.by_name[edge.child].role == "input":
            raise ValueError(
                f"{edge.title}: {edge.child!r} is an input, given and never explained; "
                "let the edge lead from it, or make it an observed block."
            )
        if edge in self.edges:
            raise ValueError(f"{edge.title} is already there; a second one would only add to it.")
        if edge.parent == edge.child or edge.parent in self._descendants(edge.child):
            raise ValueError(
                f"{edge.title} closes a directed cycle, and the precision matrix could become "
                f"indefinite; turn it round, or use couple({edge.parent!r}, {edge.child!r})."
            )
        return replace(self, edges=(*self.edges, edge))

    def with_coupling(self, coupling: Coupling) -> "Structure":
        """One more coupling; errors name it."""
        self._require_blocks(coupling)
        for name in coupling.ends:
            if self.by_name[name].role == "input":
                raise ValueError(
                    f"{coupling.title}: {name!r} is an input and has no residual; connect it instead."
                )
        if any(set(c.ends) == set(coupling.ends) for c in self.couplings):
            raise ValueError(f"{coupling.title} is already there.")
        return replace(self, couplings=(*self.couplings, coupling))

    def _require_blocks(self, tie: Edge | Coupling) -> None:
        for name in tie.ends:
            if name not in self.by_name:
                known = ", ".join(map(repr, self.by_name)) or "none yet"
                raise ValueError(f"{tie.title}: there is no block {name!r}; blocks are {known}.")

    def _descendants(self, name: str) -> set[str]:
        children = self.children(name)
        return set(children).union(*(self._descendants(child) for child in children))
