"""`Model`: features → hidden → likelihood, one frozen pytree for everything above the models.

A model has arrays and offers capabilities; nobody above asks what kind it is. Members of an ensemble are one
model whose arrays have a leading axis.
"""

from dataclasses import replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.models.features import Features
from tggm.models.hidden.base import Hidden, Latent, LinearEngine
from tggm.models.likelihoods.base import Likelihood
from tggm.models.part import part

MOST = {"float32": 1e15, "float64": 1e60}  # of arrays, and of σ0 and 1/σ0: squares stay finite
LARGEST = 1e20  # of arrays in units of σ0, in any precision: fourth powers and their sums stay finite
MARGIN = 1e3  # by which the weights of all layers together may exceed it


@part
class Model:
    """p(y | x) = ∫ p(y | h) p(h | ψ(x)) dh, h ≥ 0."""

    features: Features
    hidden: Hidden
    likelihood: Likelihood

    def weight_norm(self) -> Array:
        """½ Σ‖W‖² over all matrices, what weight decay penalises; features, biases, noise, gauge are free."""
        squares = [(a**2).sum() for a in jax.tree.leaves((self.hidden, self.likelihood)) if a.ndim > 1]
        return 0.5 * jnp.stack(squares).sum()

    def latent(self, X: Any, engine: LinearEngine) -> Latent:
        """Moments of the last hidden units given x."""
        return self.hidden.moments(self.features(X), engine)

    def outputs(self, X: Any) -> Likelihood:
        """p(y | h) of these rows, with the linear part in its intercepts."""
        return replace(self.likelihood, output=self.likelihood.output.at(self.features.inputs(X)))  # type: ignore[type-var]  # parts are dataclasses

    def mean(self, X: Any, engine: LinearEngine) -> Array:
        """W1 E[h | x] + A x + b1, (rows, n), differentiable."""
        output = self.outputs(X).output
        return self.hidden.mean(self.features(X), output.W1, engine) + output.intercept

    @property
    def knows_moments(self) -> bool:
        """Whether the moments of its units need no engine."""
        return "moments" in self.hidden.offers

    @property
    def judged_by_moments(self) -> bool:
        """Whether predictions are made from the moments of the linear outputs alone."""
        return self.hidden.by_moments or self.likelihood.judged_by_moments

    def arrays(self) -> dict[str, Any]:
        """All arrays by name, as files have them."""
        leaves = jax.tree_util.tree_leaves_with_path(self)
        return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}

    def replaced(self, arrays: dict[str, Any]) -> "Model":
        """The same kind of model with other arrays, named as by `arrays`."""
        model: Model = jax.tree.unflatten(jax.tree.structure(self), [arrays[name] for name in self.arrays()])
        return model

    def check(self, dtype: Any) -> None:
        """Raise for NumPy arrays whose squares and products are no numbers in this precision or their own.

        A weight of 1e300 is finite, its square is not, and predictions would be NaN without a word. The
        bounds are far beyond what training reaches.
        """
        arrays = self.arrays()
        names = {np.dtype(dtype).name, *(np.asarray(a).dtype.name for a in arrays.values())}
        narrow = min(names, key=MOST.__getitem__)
        most = MOST[narrow]
        if not all(np.isfinite(a).all() for a in arrays.values()):
            raise ValueError("parameters must be finite")
        # what goes in is multiplied by the weights of one layer after another
        together = prod(max(1.0, _size(W)) for W in arrays.values() if np.ndim(W) > 2) / MARGIN
        size = max(together, *(_size(a) for name, a in arrays.items() if name != "hidden.s0"))
        if size > most:
            raise ValueError(
                f"parameters reach {size:.3g}, where {most:g} is the most that can be computed with"
            )
        gauge = np.asarray(arrays["hidden.s0"], np.float64)
        if not ((gauge >= most**-2.0) & (gauge <= most**2.0)).all():
            raise ValueError(f"σ0² = {gauge.min():.3g} is beyond what can be computed with")
        sigma0 = np.sqrt(gauge)
        reach = max(_size(_in_units(name, a, sigma0)) for name, a in arrays.items())
        if reach > LARGEST:
            raise ValueError(f"parameters reach {reach:.3g} in units of σ0, where {LARGEST:g} is the most")
        waves = [_size(a) for name, a in arrays.items() if name == "features.E"]
        self.hidden.check(narrow, max(waves, default=1.0))
        self.likelihood.check(narrow)


def _in_units(name: str, a: Any, sigma0: Any) -> Any:
    """An array as it would be were σ0 = 1, a leading axis of members or none; the gauge itself is 1."""
    if name == "hidden.s0":
        return 1.0
    scale = sigma0.reshape(sigma0.shape + (1,) * (np.ndim(a) - np.ndim(sigma0)))
    if name == "likelihood.output.W1":
        return np.asarray(a, np.float64) * scale
    located = name in ("hidden.W0", "hidden.b0") or name.startswith("hidden.b.")
    return np.asarray(a, np.float64) / scale if located else a


def _size(a: Any) -> float:
    return float(np.abs(a).max())
