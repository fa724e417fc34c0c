"""The columns that `tggm predict --explain` adds."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.cli.inputs import ModelInputs


def explained_columns(given: ModelInputs, threshold: float | None) -> dict[str, NDArray[Any]]:
    """A base, and a part for each column that the model uses; they add up to what is predicted.

    Of a classification that is the probability of the class that is predicted for the row.
    """
    model, preparation = copy(given.model), given.preparation
    model.adopt_table(preparation)
    found = model.explain(given.table)
    base, parts = np.broadcast_to(found.base, found.prediction.shape), found.parts
    if preparation.target.is_class:
        base, parts = _of_the_class(base, parts, threshold)
    used = {column.name for column in preparation.columns}
    places = [k for k, name in enumerate(found.names) if name in used]
    return {"base": base} | {f"part({found.names[k]})": parts[:, k] for k in places}


def _of_the_class(
    base: NDArray[Any], parts: NDArray[Any], threshold: float | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Those of the predicted class; parts of the first of two are those of the second, negated."""
    if base.ndim == 1:
        base, parts = np.stack([1 - base, base], axis=1), np.stack([-parts, parts], axis=2)
    rows = np.arange(len(base))
    p = base + parts.sum(1)
    best = p.argmax(1) if threshold is None else (p[:, 1] >= threshold).astype(int)
    return base[rows, best], parts[rows, :, best]
