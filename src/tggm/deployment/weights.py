"""The arrays of a fitted model as a file holds them, checked, in double precision.

Known are the models that predict by moments in closed form: one hidden layer, or several directed ones, over
columns as they are, bounded ones, or periodic features, with or without a linear part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tggm.arrays import Floats
from tggm.data.standardise import Columns

BULK = 4.0  # deviations within which a bounded column is left as it is
MOST_INPUT = 1e6  # deviations beyond which such a column says nothing more
_BOUNDED = ("bounded", "periodic")


@dataclass(frozen=True)
class Layer:
    """Weights from one layer to the next, (K, m', m), and biases, (K, m')."""

    W: Floats
    b: Floats


@dataclass(frozen=True)
class Weights:
    """All members of a model, K on the leading axis, and the scales of inputs and targets."""

    x: Columns
    y: Columns
    features: str | None
    c: Floats | None  # (K, d, waves) frequencies of periodic features
    phi: Floats | None  # (K, d, waves) phases
    E: Floats | None  # (K, d, sums, waves) weights of the waves
    layers: tuple[Layer, ...]  # the first one over the features
    s0: Floats  # (K,)
    output: Layer
    A: Floats | None  # (K, n, d), the linear part
    noise: Floats | None  # (K, n), of numbers

    @property
    def bounded(self) -> bool:
        """Whether inputs are bounded far out."""
        return self.features in _BOUNDED

    @property
    def most(self) -> float:
        """Size of an input beyond which a larger one is taken for this one."""
        return MOST_INPUT if self.bounded else np.inf

    @property
    def n_outputs(self) -> int:
        """Outputs, or classes."""
        return int(self.output.b.shape[1])


def weights_of(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any], *, classes: int = 0) -> Weights:
    """What `arrays` of a model file hold; ValueError or KeyError if they make no model that is known.

    Parameters
    ----------
    arrays, meta : mapping
        As an estimator's `to_state` gives them.
    classes : int
        Classes of a classifier; 0 for numbers.
    """
    _require_known(arrays, meta)
    found = {name.removeprefix("model."): np.asarray(a, np.float64) for name, a in arrays.items()}
    names = [name for name in found if name.startswith("hidden.W.")]
    layers = [Layer(found["hidden.W0"], found["hidden.b0"])]
    layers += [Layer(found[f"hidden.W.{i}"], found[f"hidden.b.{i}"]) for i in range(len(names))]
    output = Layer(found["likelihood.output.W1"], found["likelihood.output.b1"])
    log_noise = None if classes else found["likelihood.log_noise"]
    made = Weights(
        Columns(found["x.shift"], found["x.scale"]),
        Columns(found["y.shift"], found["y.scale"]),
        meta["sizes"]["features"],
        found.get("features.c"),
        found.get("features.phi"),
        found.get("features.E"),
        tuple(layers),
        found["hidden.s0"],
        output,
        found.get("likelihood.output.A"),
        None if log_noise is None else np.exp(log_noise),
    )
    _require_sizes(made, classes)
    return made


def _require_known(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Raise for kinds of models whose moments need an engine."""
    remedy = "only JAX can compute it: load it without backend='numpy'"
    if "model.hidden.V" in arrays:
        raise ValueError(f"its model has lateral connections; {remedy}")
    if any(name.startswith("model.hidden.W.") for name in arrays) and meta["settings"]["deep"] != "directed":
        raise ValueError(f"its model is {meta['settings']['deep']}; {remedy}")
    if meta["settings"]["units"] != "relu":
        raise ValueError(f"its units are {meta['settings']['units']!r}; {remedy}")
    if meta["sizes"]["features"] not in (None, *_BOUNDED):
        raise ValueError(f"its features are {meta['sizes']['features']!r}; {remedy}")


def _require_sizes(w: Weights, classes: int) -> None:
    """Raise unless all shapes belong together and all numbers are finite."""
    K, d, n = len(w.s0), len(w.x.shift), classes or len(w.y.shift)
    wanted: list[tuple[str, Floats | None, tuple[int, ...]]] = [("x.scale", w.x.scale, (d,))]
    wanted += [("y.scale", w.y.scale, w.y.shift.shape)]
    width = d
    if w.features == "periodic":
        if w.E is None or w.E.ndim != 4:
            raise ValueError("its periodic features have no weights")
        sums, waves = w.E.shape[2:]
        wanted += [("c", w.c, (K, d, waves)), ("phi", w.phi, (K, d, waves)), ("E", w.E, (K, d, sums, waves))]
        width = d * (1 + sums)
    for k, layer in enumerate((*w.layers, w.output)):
        units = n if layer is w.output else layer.b.shape[-1]
        wanted += [(f"W {k}", layer.W, (K, units, width)), (f"b {k}", layer.b, (K, units))]
        width = units
    optional = [("A", w.A, (K, n, d)), ("noise", w.noise, (K, n))]
    for name, array, shape in wanted + [each for each in optional if each[1] is not None]:
        if array is None or array.shape != shape:
            given = None if array is None else array.shape
            raise ValueError(f"array {name!r} has shape {given}, not {shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"array {name!r} must be finite")
    positive = [w.x.scale, w.y.scale, w.s0, *([] if w.noise is None else [w.noise])]
    if not all((a > 0).all() and np.isfinite(a).all() for a in positive):
        raise ValueError("scales and variances must be positive")
