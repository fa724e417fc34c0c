"""The columns that `tggm predict --explain` adds."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.cli.inputs import ModelInputs


def explained_columns(given: ModelInputs) -> dict[str, NDArray[Any]]:
    """A base, and a part for each column that the model uses; they add up to what is predicted.

    Of a classification that is the probability of each row's most probable class.
    """
    model, preparation = copy(given.model), given.preparation
    model.adopt_table(preparation)
    found = model.explain(given.table)
    base, parts = np.broadcast_to(found.base, found.prediction.shape), found.parts
    if preparation.target.is_class:
        base, parts = _of_the_first(base, parts)
    used = {column.name for column in preparation.columns}
    places = [k for k, name in enumerate(found.names) if name in used]
    return {"base": base} | {f"part({found.names[k]})": parts[:, k] for k in places}


def _of_the_first(base: NDArray[Any], parts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Those of the most probable class; parts of the first of two are those of the second, negated."""
    if base.ndim == 1:
        base, parts = np.stack([1 - base, base], axis=1), np.stack([-parts, parts], axis=2)
    rows = np.arange(len(base))
    best = (base + parts.sum(1)).argmax(1)
    return base[rows, best], parts[rows, :, best]
