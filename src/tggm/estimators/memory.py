"""Sizes that cannot fit: what training takes at least, and what the machine has."""

import contextlib
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tggm.estimators.recipe import Recipe
from tggm.models import Architecture
from tggm.models.features import FEATURES
from tggm.training import OPTIMISERS

SURELY_FITS = 10**6  # weights, about, that need not be counted exactly
KEPT = 4  # vectors of all parameters: they, their average, the best, and a gradient
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of containers


def memory_bytes() -> float:
    """Main memory of the machine, or what a container may use of it; infinite where it cannot be told."""
    found = [np.inf]
    with contextlib.suppress(AttributeError, OSError, ValueError):  # not everywhere
        found.append(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    for path in LIMITS:
        with contextlib.suppress(OSError, ValueError):  # the word "max" is no number
            found.append(float(Path(path).read_text()))
    return min(size for size in found if size > 0)


def n_weights(built: Architecture) -> int:
    """Entries of the weight matrices of a member, which are nearly all that it has."""
    sizes = (FEATURES[built.features].width(built.n_inputs), *built.layers, built.n_outputs)
    return sum(a * b for a, b in pairwise(sizes)) + built.lateral * built.layers[0]


def require_room(recipe: Recipe, built: Architecture, rows: int = 1) -> None:
    """Raise for a model that this machine cannot train, before it is tried.

    Counted is what is surely needed: vectors like the parameters, and the units of the rows of a mini-batch.
    """
    named = recipe.optimizer(rows)
    vectors = KEPT + (OPTIMISERS[named].n_vectors if isinstance(named, str) else 0)
    batch = min(recipe.timetable(rows)[0], rows)
    numbers = vectors * recipe.n_members * n_weights(built) + batch * sum(built.layers)
    taken, there = numbers * np.dtype(recipe.dtype).itemsize, memory_bytes()
    if taken > there:
        raise ValueError(
            f"`hidden` is {_sizes(built.layers)}, which with {_asked(recipe)} takes at least "
            f"{spelled(taken)} of memory to train; there are {spelled(there)}. Use smaller numbers."
        )


def spelled(size: float) -> str:
    """A number of bytes, of any magnitude, as a person reads it."""
    found = float(min(size, 10**300)) / 2**30
    if found < 1:
        return f"{1024 * found:.1f} MiB"
    return f"{found:,.1f} GiB" if found < 1e6 else f"{found:.3g} GiB"


def _sizes(layers: tuple[int, ...]) -> str:
    shown = str(list(layers) if len(layers) > 1 else layers[0])
    return shown if len(shown) < 50 else shown[:47] + "..."


def _asked(recipe: Recipe) -> str:
    found: dict[str, Any] = {"n_members": recipe.n_members}
    if recipe.lateral:
        found["lateral"] = recipe.lateral
    return " and ".join(f"`{name}` = {value}" for name, value in found.items())
