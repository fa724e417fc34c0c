"""`Model`: features → hidden → likelihood, one frozen pytree; `Network`: its parts and sizes.

Members of an ensemble are one model whose arrays have a leading axis.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tggm.models._part import PARTS, part
from tggm.models.features import Features, Periodic
from tggm.models.hidden import Directed, Hidden, Latent
from tggm.models.likelihoods import Gaussian, Likelihood, Output

NARROW = 16  # inputs up to which a model may start strongly nonlinear
MOST = {"float32": 1e15, "float64": 1e60}  # of arrays, so that squares stay finite
LARGEST = 1e20  # of arrays in units of σ0, in any precision: sums of fourth powers stay finite
MARGIN = 1e3  # by which the weights of all layers together may exceed `MOST`
MOST_LOG_NOISE = {"float32": 80.0, "float64": 600.0}
LEAST_LOG_NOISE = -600.0  # its exponential is a number in double precision, in which densities are computed


@part
class Model:
    """p(y | x) = ∫ p(y | h) p(h | ψ(x)) dh, h ≥ 0."""

    features: Features
    hidden: Hidden
    likelihood: Likelihood

    def log_density(self, X: Any, y: Any) -> Array:
        """Return the log-density of each row with the moments of the outputs given x."""
        density: Array = self.outputs(X).log_density(y, self.latent(X))
        return density

    def weight_norm(self) -> Array:
        """Return ½ Σ‖W‖² over all matrices; features, biases, noise and gauge are not penalised."""
        squares = [(a**2).sum() for a in jax.tree.leaves((self.hidden, self.likelihood)) if a.ndim > 1]
        return 0.5 * jnp.stack(squares).sum()

    def latent(self, X: Any) -> Latent:
        """Return the moments of the last hidden units given x."""
        return self.hidden.moments(self.features(X))

    def outputs(self, X: Any) -> Any:
        """Return the likelihood with the linear part of these rows in its intercepts."""
        return replace(self.likelihood, output=self.likelihood.output.at(self.features.inputs(X)))  # type: ignore[type-var]  # parts are dataclasses

    def arrays(self) -> dict[str, Any]:
        """Return all arrays by name."""
        leaves = jax.tree_util.tree_leaves_with_path(self)
        return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}

    def replaced(self, arrays: dict[str, Any]) -> "Model":
        """Return the same kind of model with other arrays, named as by `arrays`."""
        model: Model = jax.tree.unflatten(jax.tree.structure(self), [arrays[name] for name in self.arrays()])
        return model

    def check(self, dtype: Any) -> None:
        """Raise for NumPy arrays whose squares or products overflow in this precision or their own.

        The bounds are far beyond what training reaches; predictions of larger arrays would be NaN.
        """
        arrays = self.arrays()
        names = {np.dtype(dtype).name, *(np.asarray(a).dtype.name for a in arrays.values())}
        narrow = min(names, key=MOST.__getitem__)
        most = MOST[narrow]
        if not all(np.isfinite(a).all() for a in arrays.values()):
            raise ValueError("parameters must be finite")
        # inputs are multiplied by the weights of one layer after another
        together = prod(max(1.0, _size(W)) for W in arrays.values() if np.ndim(W) > 2) / MARGIN
        size = max(together, *(_size(a) for name, a in arrays.items() if name != "hidden.s0"))
        if size > most:
            raise ValueError(f"parameters reach {size:.3g}; at most {most:g} is possible in {narrow}")
        gauge = np.asarray(arrays["hidden.s0"], np.float64)
        if not ((gauge >= most**-2.0) & (gauge <= most**2.0)).all():
            raise ValueError(f"σ0² = {gauge.min():.3g} is out of range")
        sigma0 = np.sqrt(gauge)
        reach = max(_size(_in_units(name, a, sigma0)) for name, a in arrays.items())
        if reach > LARGEST:
            raise ValueError(f"parameters reach {reach:.3g} in units of σ0; at most {LARGEST:g} is possible")
        noise = np.asarray(arrays.get("likelihood.log_noise", 0.0))
        if noise.min() < LEAST_LOG_NOISE or noise.max() > MOST_LOG_NOISE[narrow]:
            raise ValueError(
                f"the noise must be between exp({LEAST_LOG_NOISE:g}) and exp({MOST_LOG_NOISE[narrow]:g})"
            )


def _in_units(name: str, a: Any, sigma0: Any) -> Any:
    """Return an array in the gauge σ0 = 1; the gauge itself is 1."""
    if name == "hidden.s0":
        return 1.0
    scale = sigma0.reshape(sigma0.shape + (1,) * (np.ndim(a) - np.ndim(sigma0)))
    if name == "likelihood.output.W1":
        return np.asarray(a, np.float64) * scale
    located = name in ("hidden.W0", "hidden.b0") or name.startswith("hidden.b.")
    return np.asarray(a, np.float64) / scale if located else a


def _size(a: Any) -> float:
    return float(np.abs(a).max())


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
        `Directed`, `TanhLayers`, `SigmoidLayers`, `LearnedLimits`, or a part of your own.
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
            raise ValueError(f"`units` must be a tuple of positive integers, as (50, 50); got {units!r}.")
        parts = (("features", Features), ("layers", Hidden), ("likelihood", Likelihood))
        for name, base in parts:
            kind = getattr(self, name)
            if not (isinstance(kind, type) and issubclass(kind, base)) and not (
                name == "likelihood" and kind is None
            ):
                raise ValueError(f"`{name}` must be a subclass of {base.__name__}; got {kind!r}.")

    def draw(
        self,
        rng: np.random.Generator,
        n_inputs: int,
        n_outputs: int,
        *,
        members: int = 1,
        dtype: Any = np.float64,
        s0: float = 1.0,
        init: str = "scaled",
    ) -> Model:
        """Draw models to start training from, as NumPy arrays with a leading axis of members."""
        drawn = [self._draw_one(rng, n_inputs, n_outputs, s0, init) for _ in range(members)]
        model: Model = jax.tree.map(lambda *leaves: np.stack(leaves).astype(dtype), *drawn)
        return model

    def _draw_one(self, rng: np.random.Generator, d: int, n: int, s0: float, init: str) -> Model:
        features = self.features.draw(rng, d)
        # the ends of a deep model are drawn as those of two shallow ones
        sizes = self.units[:1] if len(self.units) == 1 else (self.units[0], self.units[-1])
        ends = [INITIALISERS[init](rng, self.features.width(d), m, n, s0) for m in sizes]
        (W0, b0), (W1, b1) = ends[0][:2], ends[-1][2:]
        hidden = self.layers.draw(rng, W0, b0, s0, self.units)
        output: Any = Output(W1, b1, np.zeros((n, d)) if self.linear else None)  # type: ignore[arg-type]  # NumPy until training
        return Model(features, hidden, (self.likelihood or Gaussian).draw(output))

    def described(self) -> dict[str, Any]:
        """Return the network as JSON values, with parts by name."""
        parts = {"features": self.features, "layers": self.layers, "likelihood": self.likelihood}
        named = {name: None if kind is None else kind.__name__ for name, kind in parts.items()}
        return {"units": list(self.units), "linear": self.linear, **named}

    @classmethod
    def from_description(cls, stored: Any) -> "Network":
        """Return the network that `described` described; ValueError for unknown parts."""
        bases = {"features": Features, "layers": Hidden, "likelihood": Likelihood}
        parts: dict[str, Any] = {}
        for name, base in bases.items():
            if stored[name] is None and name == "likelihood":
                continue
            kind = PARTS.get(stored[name])
            if kind is None or not issubclass(kind, base):
                raise ValueError(f"{name} {stored[name]!r} are unknown; import the module that defines them")
            parts[name] = kind
        if not isinstance(stored["linear"], bool):
            raise ValueError("`linear` must be true or false")
        return cls(tuple(stored["units"]), linear=stored["linear"], **parts)


Draw = Callable[[np.random.Generator, int, int, int, float], tuple[NDArray[np.float64], ...]]


def _scaled(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """Draw locations of unit size in units of σ0, and outputs of unit size, for inputs of unit variance.

    W0 ~ N(0, s0 / d), b0 ~ N(0, s0), W1 ~ N(0, 1 / (m s0)), b1 = 0: the same model in every gauge.
    """
    sigma0 = np.sqrt(s0)
    W0 = sigma0 * rng.standard_normal((m, d)) / np.sqrt(d)
    b0 = sigma0 * rng.standard_normal(m)
    W1 = rng.standard_normal((n, m)) / np.sqrt(m) / sigma0
    return W0, b0, W1, np.zeros(n)


def _sharp(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """Draw weights three times those of "scaled", for targets with little noise; less beyond 16 inputs."""
    W0, b0, W1, b1 = _scaled(rng, d, m, n, s0)
    factor = 3 * min(1.0, NARROW / d)
    return factor * W0, b0, factor * W1, b1


def _small(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """Draw a tenth of the weights of "scaled": the model starts almost linear, which suits text."""
    W0, b0, W1, b1 = _scaled(rng, d, m, n, s0)
    return 0.1 * W0, b0, 0.1 * W1, b1


INITIALISERS: dict[str, Draw] = {"scaled": _scaled, "sharp": _sharp, "small": _small}
