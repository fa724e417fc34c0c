"""Read and check the network of a model file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tggm import formulas
from tggm.arrays import Floats
from tggm.data.standardise import Columns, Scales
from tggm.predictive.numpy_network import BOUNDED, Network

LAYERS = ("Directed",)


@dataclass(frozen=True)
class StoredNetwork(Network):
    """A network with the scales of its inputs and targets, in double precision."""

    scales: Scales

    def standardise(self, xp: Any, X: Any) -> Any:
        """Return standardised inputs, cut off where the features are bounded."""
        Z, most = (X - self.scales.x.shift) / self.scales.x.scale, formulas.MOST_INPUT
        return xp.minimum(xp.maximum(Z, -most), most) if self.bounded else Z


def network_of(
    arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any], *, classes: int = 0
) -> StoredNetwork:
    """Return the network in the state of an estimator; raise ValueError or KeyError if it is not valid.

    `classes` is the number of classes of a classifier, 0 for a regressor.
    """
    features = meta["network"]["features"]
    for part, kind, known in (("features", features, BOUNDED), ("layers", meta["network"]["layers"], LAYERS)):
        if kind not in known:
            raise ValueError(f"only JAX can compute its {part} {kind!r}: load it without backend='numpy'")
    found = {name.removeprefix("model."): np.asarray(a, np.float64) for name, a in arrays.items()}
    scales = Scales(*(Columns(found[f"{name}.shift"], found[f"{name}.scale"]) for name in "xy"))
    network = StoredNetwork(**Network.parts(found, features), scales=scales)
    if (network.noise is None) is not bool(classes):
        raise ValueError("a classifier has no noise, and a regressor needs it")
    _check(network, classes or len(network.scales.y.shift))
    return network


def _check(net: StoredNetwork, n: int) -> None:
    """Raise unless all shapes fit together and all numbers are finite."""
    (x, y), K, d = net.scales, len(net.s0), len(net.scales.x.shift)
    shapes: list[tuple[str, Floats, tuple[int, ...]]] = [("x.scale", x.scale, (d,)), ("s0", net.s0, (K,))]
    shapes += [("y.shift", y.shift, (n,)), ("y.scale", y.scale, (n,))]
    width = d
    if net.waves is not None:
        c, phi, E = net.waves
        sums, waves = E.shape[2:] if E.ndim == 4 else (0, 0)
        shapes += [("c", c, (K, d, waves)), ("phi", phi, (K, d, waves)), ("E", E, (K, d, sums, waves))]
        width += d * sums
    for k, (W, b) in enumerate(zip((*net.W, net.W1), (*net.b, net.b1), strict=True)):
        units = n if W is net.W1 else b.shape[-1]
        shapes += [(f"W {k}", W, (K, units, width)), (f"b {k}", b, (K, units))]
        width = units
    shapes += [] if net.A is None else [("A", net.A, (K, n, d))]
    shapes += [] if net.noise is None else [("noise", net.noise, (K, n))]
    for name, array, shape in shapes:
        if array.shape != shape:
            raise ValueError(f"array {name!r} has shape {array.shape}, not {shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"array {name!r} must be finite")
    positive = [x.scale, y.scale, net.s0, *([] if net.noise is None else [net.noise])]
    if not all((a > 0).all() for a in positive):
        raise ValueError("scales and variances must be positive")
