"""`Model`: features → hidden → likelihood, one frozen pytree; `Network`: its parts and sizes.

Members of an ensemble are one model whose arrays have a leading axis.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.models.layers import (
    PARTS,
    Directed,
    Features,
    Gaussian,
    Hidden,
    Latent,
    Likelihood,
    Output,
    Periodic,
    part,
    stack_parts,
)

NARROW = 16  # inputs up to which a model may start strongly nonlinear


@part
class Model:
    """p(y | x) = ∫ p(y | h) p(h | ψ(x)) dh, h ≥ 0."""

    features: Features
    hidden: Hidden
    likelihood: Likelihood

    def at(self, X: Any) -> tuple[Any, Latent]:
        """Return the likelihood, with the linear part of these rows in its intercepts, and moments of h."""
        output = self.likelihood.output.at(self.features.inputs(X))
        return replace(self.likelihood, output=output), self.hidden.moments(self.features(X))  # type: ignore[type-var]  # parts are dataclasses

    def weight_norm(self) -> Array:
        """Return ½ Σ‖W‖² over all matrices; features, biases, noise and gauge are not penalised."""
        squares = [(a**2).sum() for a in jax.tree.leaves((self.hidden, self.likelihood)) if a.ndim > 1]
        return 0.5 * jnp.stack(squares).sum()

    def arrays(self) -> dict[str, Any]:
        """Return all arrays by name."""
        leaves = jax.tree_util.tree_leaves_with_path(self)
        return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}

    def replaced(self, arrays: dict[str, Any]) -> "Model":
        """Return a model with the same structure and these arrays, named as in `arrays`."""
        return jax.tree.unflatten(jax.tree.structure(self), [arrays[name] for name in self.arrays()])

    def with_arrays(self, arrays: dict[str, Any]) -> "Model":
        """Return the model with some arrays replaced, converted to the types of the old ones."""
        own = self.arrays()
        return self.replaced(own | {name: np.asarray(a, own[name].dtype) for name, a in arrays.items()})


BASES = {"features": Features, "layers": Hidden, "likelihood": Likelihood}  # parts of a network


@dataclass(frozen=True)
class Network:
    """Parts of a model and the numbers of its units, for the argument `network` of the estimators.

    Parameters
    ----------
    units : tuple of int
        Hidden units in each layer, from the input to the output.
    features : subclass of Features
        `Periodic`, `Bounded`, `Identity`, or a part of your own.
    layers : subclass of Hidden
        `Directed`, or a part of your own.
    likelihood : subclass of Likelihood, optional
        By default that of the estimator, `Gaussian` or `Probit`.
    linear : bool
        Whether the outputs have a linear part.
    """

    units: tuple[int, ...] = (50, 50)
    features: type[Features] = Periodic
    layers: type[Hidden] = Directed
    likelihood: type[Likelihood] | None = None
    linear: bool = True

    def __post_init__(self) -> None:
        units: Any = self.units
        if not isinstance(units, tuple) or not units or not all(type(m) is int and m > 0 for m in units):
            raise ValueError(f"`units` must be a tuple of positive integers such as (50, 50); got {units!r}.")
        for name, base in BASES.items():
            kind = getattr(self, name)
            missing = name == "likelihood" and kind is None
            if not missing and not (isinstance(kind, type) and issubclass(kind, base)):
                raise ValueError(f"`{name}` must be a subclass of {base.__name__}; got {kind!r}.")

    def draw(
        self, rng: np.random.Generator, n_inputs: int, n_outputs: int, *, members: int = 1,
        dtype: Any = np.float64, s0: float = 1.0, init: str = "scaled",
    ) -> Model:  # fmt: skip
        """Draw models to start training from, as NumPy arrays with a leading axis of members.

        For inputs of unit variance, init="scaled" draws locations of unit size in units of σ0 and outputs of
        unit size: W0 ~ N(0, s0 / d), b0 ~ N(0, s0), W1 ~ N(0, 1 / (m s0)), b1 = 0, the same model in every
        gauge. "sharp" multiplies W0 and W1 by 3, for targets with little noise, and by less beyond 16 inputs;
        "small" by 0.1: the model starts almost linear, which suits text.
        """
        width, drawn = self.features.width(n_inputs), []
        factor = {"scaled": 1.0, "sharp": 3 * min(1.0, NARROW / width), "small": 0.1}[init]
        sizes = self.units[:1] if len(self.units) == 1 else (self.units[0], self.units[-1])
        for _ in range(members):
            features = self.features.draw(rng, n_inputs)
            ends: list[Any] = []
            for m in sizes:  # the first and last layer of a deep model are drawn like two shallow models
                W0 = factor * (np.sqrt(s0) * rng.standard_normal((m, width)) / np.sqrt(width))
                b0 = np.sqrt(s0) * rng.standard_normal(m)
                W1 = factor * (rng.standard_normal((n_outputs, m)) / np.sqrt(m) / np.sqrt(s0))
                ends.append((W0, b0))
            hidden = self.layers.draw(rng, ends[0][0], ends[0][1], s0, self.units)
            A = np.zeros((n_outputs, n_inputs)) if self.linear else None
            output: Any = Output(W1, np.zeros(n_outputs), A)  # type: ignore[arg-type]  # NumPy until training
            drawn.append(Model(features, hidden, (self.likelihood or Gaussian).draw(output)))
        return stack_parts(drawn, dtype)

    def described(self) -> dict[str, Any]:
        """Return the network as JSON values, with parts by name."""
        parts = {name: getattr(self, name) for name in BASES}
        named = {name: None if kind is None else kind.__name__ for name, kind in parts.items()}
        return {"units": list(self.units), "linear": self.linear, **named}

    @classmethod
    def from_description(cls, stored: Any) -> "Network":
        """Restore a network from the result of `described`; raise ValueError for unknown parts."""
        parts = {name: PARTS.get(stored[name]) for name in BASES}
        for name, kind in parts.items():
            if kind is None and stored[name] is not None:
                raise ValueError(f"{name} {stored[name]!r} is an unknown part; import its module")
        if not isinstance(stored["linear"], bool):
            raise ValueError("`linear` must be true or false")
        return cls(tuple(stored["units"]), linear=stored["linear"], **parts)  # type: ignore[arg-type]  # checked


@dataclass(frozen=True)
class LogDensity:
    """The objective of the default models: the log-density with the mean and covariance of y given x."""

    def penalty(self, model: Model) -> Array:
        """Return ½ Σ‖W‖²."""
        return model.weight_norm()

    def __call__(self, model: Model, rows: Any, progress: Array | None = None) -> Array:
        """Return the log-density of each row."""
        likelihood, latent = model.at(rows.X)
        return likelihood.log_density(rows.y, latent)

    score = __call__
