"""The columns that `tggm predict` writes."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tggm.tables import Preparation

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

BLOCK = 20_000  # rows predicted at once


def predicted(
    model: "BaseEstimator",
    preparation: Preparation,
    X: NDArray[np.float64],
    interval: float,
    levels: list[float],
) -> dict[str, NDArray[Any]]:
    """Columns of predictions, named after the target."""
    of_block = _classes if preparation.target.is_class else _numbers
    blocks = [
        of_block(model, preparation.target.name, X[begin : begin + BLOCK], interval, levels)
        for begin in range(0, len(X), BLOCK)
    ]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _numbers(
    model: "BaseEstimator", name: str, X: NDArray[np.float64], interval: float, levels: list[float]
) -> dict[str, NDArray[Any]]:
    mean, std = model.predict(X, return_std=True)
    tail = (1 - interval) / 2
    ends = model.predict_quantiles(X, [tail, 1 - tail, *levels])
    columns = {f"{name}": mean, f"{name}_std": std, f"{name}_low": ends[:, 0], f"{name}_high": ends[:, 1]}
    return columns | {f"{name}_q{level:g}": ends[:, 2 + k] for k, level in enumerate(levels)}


def _classes(
    model: "BaseEstimator", name: str, X: NDArray[np.float64], interval: float, levels: list[float]
) -> dict[str, NDArray[Any]]:
    p = model.predict_proba(X)
    columns = {name: model.classes_[p.argmax(1)], f"{name}_probability": p.max(1)}
    return columns | {f"p({label})": p[:, k] for k, label in enumerate(model.classes_.tolist())}
