"""What a model file must hold, whatever made its checksum right: these arrays, of these shapes and types.

Numbers must be such as can be computed with: a weight of 1e300 is finite, its square is not, and predictions
would be NaN without a word. The bounds are far beyond what training reaches; what exceeds them is refused
when a model is stored, too, so that a file that was written can be read.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tggm.estimators.settings import layers

FLOATS, COUNTS = "f", "i"  # kinds of NumPy's types
OPTIONAL = ("undone", "history.epoch")  # older files do without
MOST = {"float32": 1e15, "float64": 1e60}  # of parameters, and of σ0 and 1/σ0: squares stay finite
MARGIN = 1e3  # by which the weights of all layers together may exceed it
MOST_LOG_NOISE = {"float32": 80.0, "float64": 600.0}
LEAST_LOG_NOISE = -600.0  # exp of it is a number in double precision, which densities are computed in
MOST_LATERAL = 1e6  # I + V'V is no longer positive definite when 1 is lost beside V²


def require_arrays(
    model: Any, arrays: Mapping[str, np.ndarray], n_outputs: int, scales: Mapping[str, int]
) -> None:
    """Raise unless `arrays` are those of this model: no other names, shapes or types.

    Sizes come from the settings of `model`; `scales` says how long each array of a standardisation is.
    """
    wanted = _shapes(model, arrays["params.W0"].shape[-1], n_outputs, arrays["history.train"].shape[-1])
    wanted |= {name: (length,) for name, length in scales.items()}
    names = set(arrays) | set(OPTIONAL)
    if names != set(wanted):
        raise ValueError(f"arrays are missing or do not belong to it: {sorted(names ^ set(wanted))[:5]}")
    for name, array in arrays.items():
        if array.shape != wanted[name]:
            raise ValueError(f"array {name!r} has shape {array.shape}; its settings ask for {wanted[name]}")
        kind = COUNTS if name in ("best_epoch", *OPTIONAL) else FLOATS
        if array.dtype.kind != kind:
            raise ValueError(
                f"array {name!r} is of type {array.dtype}, which is not what it is computed with"
            )


def _shapes(model: Any, d: int, n: int, epochs: int) -> dict[str, tuple[int, ...]]:
    """Shapes by name, with a leading axis of members."""
    K, sizes, rank = model.n_members, layers(model.hidden), getattr(model, "lateral", 0)
    if not d or not n:
        raise ValueError(f"a model of {d} inputs and {n} outputs")
    found: dict[str, tuple[int, ...]] = {
        "params.W0": (K, sizes[0], d), "params.b0": (K, sizes[0]), "params.W1": (K, n, sizes[-1]),
        "params.b1": (K, n), "best_epoch": (K,), "undone": (K,), "history.train": (K, epochs),
        "history.held_out": (K, epochs), "history.epoch": (epochs,),
    }  # fmt: skip
    if not hasattr(model, "predict_proba"):  # whose noise is a gauge
        found["params.log_noise"] = (K, n)
    if rank:
        found["params.V"] = (K, rank, sizes[0])
    for i in range(len(sizes) - 1):
        found |= {f"params.W.{i}": (K, sizes[i + 1], sizes[i]), f"params.b.{i}": (K, sizes[i + 1])}
    return found


def require_computable(params: Any, sigma0: float, dtype: Any) -> None:
    """Raise for parameters whose squares and products are no numbers in the precision of the model."""
    narrow = min((np.dtype(dtype).name, params.W0.dtype.name), key=MOST.__getitem__)
    most = MOST[narrow]
    weights = [params.W0, params.W1, *getattr(params, "W", ())]
    biases = [params.b0, params.b1, *getattr(params, "b", ())]
    if not all(np.isfinite(a).all() for a in (*weights, *biases, params.log_noise)):
        raise ValueError("parameters must be finite")
    # what goes in is multiplied by the weights of one layer after another
    together = prod(max(1.0, _size(W)) for W in weights) / MARGIN
    if (size := max(together, *map(_size, (*weights, *biases)))) > most:
        raise ValueError(f"parameters reach {size:.3g}, where {most:g} is the most that can be computed with")
    if not 1 / most <= sigma0 <= most:
        raise ValueError(f"sigma0 = {sigma0:.3g} is beyond what can be computed with, 1/{most:g} to {most:g}")
    noise, ends = np.asarray(params.log_noise), (LEAST_LOG_NOISE, MOST_LOG_NOISE[narrow])
    if noise.min() < ends[0] or noise.max() > ends[1]:
        raise ValueError(f"the noise must be between exp({ends[0]:g}) and exp({ends[1]:g}), and is not")
    if hasattr(params, "V"):
        _require_lateral(params, sigma0, most)


def _require_lateral(params: Any, sigma0: float, most: float) -> None:
    """Lateral connections are computed with through γ = P (W0 x + b0), P = (I + V'V)/σ0²."""
    if not _size(params.V) <= MOST_LATERAL:
        raise ValueError(f"lateral connections must be finite and at most {MOST_LATERAL:g}")
    if (size := max(_size(params.W0), _size(params.b0)) / sigma0**2) > most:
        raise ValueError(f"W0 and b0 reach {size:.3g} σ0², where {most:g} is the most")


def _size(a: Any) -> float:
    return float(np.abs(a).max())


def feature_names(names: Any, n_features: int) -> np.ndarray | None:
    """Names of the inputs as scikit-learn keeps them, if there are any."""
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("feature names must be a list of words")
    if len(names) != n_features:
        raise ValueError(f"{len(names)} feature names for {n_features} features")
    return np.asarray(names, dtype=object)


def yes_or_no(meta: Mapping[str, Any], name: str) -> bool:
    """An entry of a description that is true or false, and nothing that reads as such."""
    if not isinstance(meta[name], bool):
        raise ValueError(f"{name} must be true or false")
    return bool(meta[name])
