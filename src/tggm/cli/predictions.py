"""The columns that `tggm predict` writes, and those that --explain adds."""

from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.cli.errors import CommandError
from tggm.cli.inputs import ModelInputs
from tggm.tables import Preparation

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


BLOCK = 20_000  # rows predicted at once


class Asked(NamedTuple):
    """What the columns are to say."""

    interval: float
    levels: list[float]
    parts: bool = False
    guarantee: bool = False
    threshold: float | None = None  # of the second of two classes


def predicted(
    model: "BaseEstimator",
    preparation: Preparation,
    X: NDArray[np.float64],
    asked: Asked,
) -> dict[str, NDArray[Any]]:
    """Columns of predictions, named after the target."""
    of_block = _classes if preparation.target.is_class else _numbers
    blocks = [
        of_block(model, preparation.target.name, X[begin : begin + BLOCK], asked)
        for begin in range(0, len(X), BLOCK)
    ]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _numbers(
    model: "BaseEstimator", name: str, X: NDArray[np.float64], asked: Asked
) -> dict[str, NDArray[Any]]:
    mean, std = model.predict(X, return_std=True)
    tail = (1 - asked.interval) / 2
    ends = model.predict_quantiles(X, [tail, 1 - tail, *asked.levels])
    low, high = _guaranteed(model, X, asked.interval) if asked.guarantee else (ends[:, 0], ends[:, 1])
    columns = {f"{name}": mean, f"{name}_std": std, f"{name}_low": low, f"{name}_high": high}
    if asked.parts:
        _, noise, disagreement = model.predict(X, return_std="parts")
        columns |= {f"{name}_noise": noise, f"{name}_disagreement": disagreement}
    return columns | {f"{name}_q{level:g}": ends[:, 2 + k] for k, level in enumerate(asked.levels)}


def _guaranteed(model: "BaseEstimator", X: NDArray[np.float64], level: float) -> tuple[Any, Any]:
    try:
        low, high = model.predict_interval(X, level, guarantee=True)
    except ValueError as error:
        raise CommandError(f"{error} With the command line: tggm fit --guarantee {level:g}.") from None
    return low, high


def _classes(
    model: "BaseEstimator", name: str, X: NDArray[np.float64], asked: Asked
) -> dict[str, NDArray[Any]]:
    p = model.predict_proba(X)
    best = p.argmax(1) if asked.threshold is None else (p[:, 1] >= asked.threshold).astype(int)
    columns = {name: model.classes_[best], f"{name}_probability": p[np.arange(len(p)), best]}
    return columns | {f"p({label})": p[:, k] for k, label in enumerate(model.classes_.tolist())}


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
