"""Which rows each member trains on and which it holds out, padded to a few sizes.

Index lists are padded so that tables and folds of nearly equal size run the same compiled program.
"""

import numpy as np
from numpy.typing import NDArray

from tggm.training.state import Membership

Index = NDArray[np.int32]


def bucket(size: int) -> int:
    """Smallest of 16, 24, 32, 48, 64, 96, … that is not below `size`; at most a third is padding."""
    power = 16
    while True:
        if size <= power:
            return power
        if size <= power + power // 2:
            return power + power // 2
        power *= 2


def hold_out(rng: np.random.Generator, rows: NDArray[np.integer], fraction: float) -> tuple[Index, Index]:
    """Split row numbers at random into a part to train on and a part of the given fraction, rounded."""
    shuffled = rng.permutation(rows).astype(np.int32)
    n_held = round(fraction * len(rows))
    return shuffled[n_held:], shuffled[:n_held]


def _padded(lists: list[Index]) -> tuple[Index, Index]:
    size = bucket(max(len(a) for a in lists))
    # padding repeats the list, so that padded rows are as good as any for a batch statistic
    out = np.stack([np.resize(a, size) if len(a) else np.zeros(size, np.int32) for a in lists])
    return out.astype(np.int32), np.array([len(a) for a in lists], np.int32)


def membership(parts: list[tuple[Index, Index]]) -> Membership:
    """Stack the (train, held) row numbers of several members."""
    train, n_train = _padded([train for train, _ in parts])
    held, n_held = _padded([held for _, held in parts])
    return Membership(train, n_train, held, n_held)  # type: ignore[arg-type]  # NumPy until training
