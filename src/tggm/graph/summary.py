"""A graph in words: one line for each block, one for each tie."""

from collections.abc import Sequence

import numpy as np

from tggm.models.graph.parameters import Parameters
from tggm.models.graph.structure import ROLES, Block, Coupling, Edge, Structure

Fixed = frozenset[tuple[str, str]]


def describe(structure: Structure, given: Parameters, fixed: Fixed) -> str:
    """A table of blocks and a table of ties."""
    unknown = sum(structure.size(name) for name in structure.named("latent", "free"))
    kind = "nonlinear" if structure.named("latent") else "linear: no block is truncated"
    lines = [f"Graph of {len(structure.blocks)} blocks, {unknown} latent variables; {kind}"]
    rows = [
        (b.name, ROLES[b.role], str(b.size), _location(structure, b), _noise(given, fixed, b))
        for b in structure.blocks
    ]
    lines += _table(("block", "role", "size", "location", "noise"), rows)
    ties = [(t.name, _shape(structure, t), _strength(given, fixed, t)) for t in structure.ties]
    return "\n".join(lines + (_table(("tie", "shape", "weights"), ties) if ties else []))


def _location(structure: Structure, block: Block) -> str:
    if block.role == "input":
        return "given"
    return " + ".join([f"W {parent}" for parent in structure.parents(block.name)] + ["b"])


def _noise(given: Parameters, fixed: Fixed, block: Block) -> str:
    if block.role == "input":
        return ""
    values = np.exp(given["log_noise"][block.name])
    low, high = f"{values.min():.3g}", f"{values.max():.3g}"
    held = "fixed" if ("log_noise", block.name) in fixed else "learned"
    return f"{low if low == high else f'{low} to {high}'}, {held}"


def _shape(structure: Structure, tie: Edge | Coupling) -> str:
    rows, columns = structure.shape(tie)
    return f"rank {rows}" if len(set(tie.ends)) == 1 else f"{rows}×{columns}"


def _strength(given: Parameters, fixed: Fixed, tie: Edge | Coupling) -> str:
    if tie.name not in given[tie.kind]:
        return "to be learned"
    size = np.sqrt(np.mean(np.asarray(given[tie.kind][tie.name]) ** 2))
    return f"root mean square {size:.3g}" + (", fixed" if (tie.kind, tie.name) in fixed else "")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    width = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, width, strict=True)).rstrip()
        for row in [head, *rows]
    ]
