"""A graph in words: one line for each block, one for each tie."""

from collections.abc import Sequence

import numpy as np

from tggm.models.graph.parameters import Parameters
from tggm.models.graph.structure import ROLES, Structure


def describe(structure: Structure, given: Parameters, fixed: frozenset[tuple[str, str]]) -> str:
    """A table of blocks and a table of ties."""
    count = {role: len(structure.named(role)) for role in ROLES}
    unknown = sum(structure.size(name) for name in structure.named("latent", "free"))
    lines = [
        f"Graph of {len(structure.blocks)} blocks, {unknown} latent variables; "
        + ("nonlinear" if count["latent"] else "linear: no block is truncated")
    ]
    lines += _table(
        ("block", "role", "size", "location", "noise"),
        [
            (
                b.name,
                ROLES[b.role],
                str(b.size),
                _location(structure, b.name),
                _noise(structure, given, fixed, b.name),
            )
            for b in structure.blocks
        ],
    )
    ties = [
        (
            edge.name,
            f"{structure.size(edge.child)}×{structure.size(edge.parent)}",
            _strength(given, fixed, "weights", edge.name),
        )
        for edge in structure.edges
    ] + [
        (
            c.name,
            f"rank {c.rank}" if c.lateral else f"{structure.size(c.first)}×{structure.size(c.second)}",
            _strength(given, fixed, "coupling", c.name),
        )
        for c in structure.couplings
    ]
    return "\n".join(lines + (_table(("tie", "shape", "weights"), ties) if ties else []))


def _location(structure: Structure, name: str) -> str:
    if structure.by_name[name].role == "input":
        return "given"
    return " + ".join([f"W {parent}" for parent in structure.parents(name)] + ["b"])


def _noise(structure: Structure, given: Parameters, fixed: frozenset[tuple[str, str]], name: str) -> str:
    if structure.by_name[name].role == "input":
        return ""
    values = np.exp(given["log_noise"][name])
    text = f"{values.min():.3g}" + ("" if np.ptp(values) == 0 else f" to {values.max():.3g}")
    return text + (", fixed" if ("log_noise", name) in fixed else ", learned")


def _strength(given: Parameters, fixed: frozenset[tuple[str, str]], kind: str, name: str) -> str:
    if name not in given[kind]:
        return "to be learned"
    values = np.asarray(given[kind][name])
    return f"root mean square {np.sqrt(np.mean(values**2)):.3g}" + (
        ", fixed" if (kind, name) in fixed else ""
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    width = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, width, strict=True)).rstrip()
        for row in [head, *rows]
    ]
