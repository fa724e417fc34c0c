"""What is known of each row: values, limits, or nothing.

A value may be exact, an inequality (side +1: at least, −1: at most) or missing (NaN). Rows may differ in
which of these they have; which of them occur at all in a block is its `Pattern`, fixed when a program is
compiled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tggm.arrays import Floats
from tggm.models.graph.structure import Block, Structure

Pattern = tuple[
    tuple[str, str], ...
]  # (block, "known" | "missing" | "sided"); blocks left out are unobserved

SIDES = {"left": -1, "none": 0, "right": 1}


@dataclass(frozen=True, eq=False)
class Censored:
    """Values of which some are limits.

    Parameters
    ----------
    value : array_like
        Measurements, limits where `side` is not 0, NaN where nothing is known.
    side : array_like of the same shape
        0 or "none": measured; +1 or "right": the truth is at least the value (right-censored); −1 or "left":
        at most.
    """

    value: ArrayLike
    side: ArrayLike

    def __post_init__(self) -> None:
        sides("side", self.side, np.shape(self.value))


class Evidence(NamedTuple):
    """Arrays of the blocks that something is known of, rows first."""

    inputs: dict[str, Any]  # (rows, size)
    value: dict[str, Any]  # (rows, size), NaN where missing
    side: dict[str, Any]  # (rows, size) −1, 0 or 1; only for blocks of pattern "sided"


def read(structure: Structure, data: Mapping[str, Any]) -> tuple[Evidence, Pattern, int]:
    """Check the data of all blocks; evidence, its pattern and the number of rows."""
    unknown = sorted(set(data) - set(structure.by_name))
    if unknown:
        raise ValueError(f"`data`: there is no block {unknown[0]!r}; blocks are {sorted(structure.by_name)}.")
    missing = [name for name in structure.named("input") if name not in data]
    if missing:
        raise ValueError(f"`data` must hold every input; {missing[0]!r} is not there.")
    evidence, pattern, rows = Evidence({}, {}, {}), [], None
    for block in structure.blocks:
        if block.name not in data:
            continue
        value, side = _block(block, data[block.name])
        if rows is not None and len(value) != rows:
            raise ValueError(f"`data[{block.name!r}]` has {len(value)} rows; other blocks have {rows}.")
        rows = len(value)
        if block.role == "input":
            evidence.inputs[block.name] = value
            continue
        evidence.value[block.name] = value
        kind = "missing" if np.isnan(value).any() else "known"
        if side is not None and side.any():
            kind = "sided"
            evidence.side[block.name] = side
        pattern.append((block.name, kind))
    return evidence, tuple(pattern), 1 if rows is None else rows


def _block(block: Block, given: Any) -> tuple[Floats, Floats | None]:
    if block.role in ("latent", "free"):
        raise ValueError(
            f"`data[{block.name!r}]`: the block is latent; make it an observed block to give it data."
        )
    side = None
    if isinstance(given, Censored):
        given, side = given.value, given.side
        if block.role != "observed":
            raise ValueError(
                f"`data[{block.name!r}]`: only observed blocks can be censored, not {block.role} ones."
            )
    value = np.asarray(given, np.float64)
    value = value[:, None] if value.ndim == 1 and block.size == 1 else value
    if value.ndim != 2 or value.shape[1] != block.size:
        raise ValueError(
            f"`data[{block.name!r}]` must have shape (rows, {block.size}); got {np.shape(given)}."
        )
    bad = ~np.isfinite(value) if block.role == "input" else np.isinf(value)
    if bad.any():
        raise ValueError(
            f"`data[{block.name!r}]` must be finite; got {value[bad][0]}."
            + ("" if block.role == "input" else " Use NaN for what is missing.")
        )
    if block.role == "inequality":
        side = np.nan_to_num(value, nan=0.0)
        if not np.isin(side, (-1, 0, 1)).all():
            raise ValueError(
                f"`data[{block.name!r}]` must be signs: 1 (at least 0), -1 (at most 0), 0 or NaN (unknown)."
            )
        return np.where(side == 0, np.nan, 0.0), side
    return value, None if side is None else sides(f"data[{block.name!r}].side", side, value.shape)


def sides(name: str, side: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Which side of a limit the truth is on, as flags −1, 0, +1 from numbers or words."""
    array = np.asarray(side)
    if array.dtype.kind in "US":
        unknown = sorted(set(np.unique(array).tolist()) - SIDES.keys())
        if unknown:
            raise ValueError(f"`{name}`: sides are 'left', 'none' or 'right'; got {unknown[0]!r}.")
        array = np.vectorize(SIDES.__getitem__, otypes=[float])(array)
    array = np.asarray(array, np.float64)
    if array.size != np.prod(shape) or not np.isin(array, (-1, 0, 1)).all():
        raise ValueError(
            f"`{name}`: sides must be -1 (at most), 0 (measured) or 1 (at least), shape {shape}; "
            f"got shape {array.shape}."
        )
    return array.reshape(shape)
