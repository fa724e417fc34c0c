"""Which model settings ask for: its parts by name, its sizes, and a model of them, drawn or empty."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tggm.models.features import FEATURES, Features
from tggm.models.hidden import BOXED, HIDDEN, UNITS, BoxLayer, BoxLayers, Hidden
from tggm.models.likelihoods import LIKELIHOODS, Likelihood, Output
from tggm.models.model import Model
from tggm.models.part import shapes_only

NARROW = 16  # inputs up to which a model may start far from a linear one
Draw = Callable[[np.random.Generator, int, int, int, float], tuple[NDArray[np.float64], ...]]


def _paper(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """Every weight and bias N(0, 0.01), as the paper draws them."""
    return tuple(0.1 * rng.standard_normal(shape) for shape in ((m, d), (m,), (n, m), (n,)))


def _scaled(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """Locations of unit size in units of σ0, outputs of unit size, for inputs of unit variance.

    W0 ~ N(0, s0 / d), b0 ~ N(0, s0), W1 ~ N(0, 1 / (m s0)), b1 = 0: the same model in every gauge.
    """
    sigma0 = np.sqrt(s0)
    W0 = sigma0 * rng.standard_normal((m, d)) / np.sqrt(d)
    b0 = sigma0 * rng.standard_normal(m)
    W1 = rng.standard_normal((n, m)) / np.sqrt(m) / sigma0
    return W0, b0, W1, np.zeros(n)


def _sharp(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """Weights three times those of "scaled": units that bend within the data, for targets with little noise.

    The held-out likelihood was better on four of five UCI sets (experiments/tune.py, --init-scale). In many
    dimensions rows are far apart and nothing tells such a start what lies between them: beyond `NARROW`
    inputs it falls as 1/d (experiments/wide.py).
    """
    W0, b0, W1, b1 = _scaled(rng, d, m, n, s0)
    factor = 3 * min(1.0, NARROW / d)
    return factor * W0, b0, factor * W1, b1


def _small(rng: np.random.Generator, d: int, m: int, n: int, s0: float) -> tuple[NDArray[np.float64], ...]:
    """A tenth of the weights of "scaled": the model starts almost linear and bends where the data ask for it.

    The validation likelihood of text was better (experiments/text.py, --init-scale).
    """
    W0, b0, W1, b1 = _scaled(rng, d, m, n, s0)
    return 0.1 * W0, b0, 0.1 * W1, b1


INITIALISERS: dict[str, Draw] = {"scaled": _scaled, "sharp": _sharp, "small": _small, "paper": _paper}


@dataclass(frozen=True)
class Architecture:
    """Sizes and kinds of the parts of a model."""

    n_inputs: int
    layers: tuple[int, ...]  # units in each hidden layer
    n_outputs: int
    likelihood: str = "gaussian"
    form: str | None = None  # of the hidden units; None for what sizes and `lateral` suggest
    lateral: int = 0  # rank of the connections inside a layer
    features: str | None = None
    linear: bool = False  # whether the outputs have a linear part
    units: str = "relu"  # or a name of `UNITS`

    @classmethod
    def of(cls, model: Model) -> "Architecture":
        """That of a model with a leading axis of members."""
        sizes = {name: np.shape(a)[1:] for name, a in model.arrays().items()}
        between = [sizes[name][0] for name in sizes if name.startswith("hidden.W.")]
        n, _ = sizes["likelihood.output.W1"]
        form, units = _form_and_units(model.hidden)
        likelihood = next(name for name, kind in LIKELIHOODS.items() if isinstance(model.likelihood, kind))
        rank = sizes.get("hidden.V", (0,))[0]
        features = next(name for name, kind in FEATURES.items() if isinstance(model.features, kind))
        m, width = sizes["hidden.W0"]
        d = FEATURES[features].n_inputs(width)
        linear = "likelihood.output.A" in sizes
        return cls(d, (m, *between), n, likelihood, form, rank, features, linear, units)

    @property
    def hidden(self) -> type[Hidden]:
        """The type of the hidden units."""
        several = "directed" if len(self.layers) > 1 else None
        name = self.form or several or ("lateral" if self.lateral else "shallow")
        return HIDDEN[name] if self.units == "relu" else BOXED[name]

    @property
    def offers(self) -> frozenset[str]:
        """Capabilities of such a model: those that units and outputs have in common."""
        outputs = LIKELIHOODS[self.likelihood]
        return self.hidden.offers & (outputs.linear_offers if self.linear else outputs.offers)

    def draw(
        self, rng: np.random.Generator, *, s0: float = 1.0, noise: Any = 0.5, init: str = "scaled"
    ) -> Model:
        """One model to start training from, as NumPy arrays: nothing is compiled for it.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        s0 : float
            The gauge σ0².
        noise : float or array, shape (n_outputs,)
            Output noise variance s1 to start from, where there is one.
        init : {"scaled", "sharp", "small", "paper"}
            Which distribution the weights come from.
        """
        features = FEATURES[self.features].draw(rng, self.n_inputs)
        width, n = features.width(self.n_inputs), self.n_outputs
        # the ends of a deep model are those of two shallow ones
        sizes = self.layers[:1] if len(self.layers) == 1 else (self.layers[0], self.layers[-1])
        ends = [INITIALISERS[init](rng, width, m, n, s0) for m in sizes]
        own = {"init": init, "lateral": self.lateral, "units": self.units}
        hidden = self.hidden.draw(rng, ends[0][:2], s0, self.layers, **own)
        A = np.zeros((n, self.n_inputs)) if self.linear else None
        W1, b1 = ends[-1][2:]
        output: Any = Output(W1, b1, A)  # type: ignore[arg-type]  # NumPy until training
        return Model(features, hidden, LIKELIHOODS[self.likelihood].draw(output, noise))

    def members(self, rng: np.random.Generator, count: int, dtype: Any, **options: Any) -> Model:
        """So many models as one with a leading axis, in a dtype."""
        drawn = [self.draw(rng, **options) for _ in range(count)]
        model: Model = jax.tree.map(lambda *leaves: np.stack(leaves).astype(dtype), *drawn)
        return model

    def adapted(self, model: Model) -> Model:
        """A fitted model with the likelihood that training needs."""
        return replace(model, likelihood=LIKELIHOODS[self.likelihood].of(model.likelihood))

    def template(self, members: int) -> Model:
        """A model of these shapes with a leading axis of members, whose arrays take no memory."""
        zeros = shapes_only(members)
        kind: type[Features] = FEATURES[self.features]
        features = kind.template(zeros, self.n_inputs)
        hidden = self.hidden.template(zeros, kind.width(self.n_inputs), self.layers, self.lateral)
        if isinstance(hidden, BoxLayer | BoxLayers):
            hidden = replace(hidden, limits=UNITS[self.units].template(zeros, len(self.layers)))
        outputs: type[Likelihood] = LIKELIHOODS[self.likelihood]
        n = self.n_outputs
        output = Output(zeros(n, self.layers[-1]), zeros(n), zeros(n, self.n_inputs) if self.linear else None)
        return Model(features, hidden, outputs.template(zeros, output))

    def describes(self, model: Model, members: int) -> bool:
        """Whether a model is of these parts and sizes."""
        wanted = self.template(members)
        trees: list[Any] = [jax.tree.structure(each) for each in (wanted, model)]
        if trees[0] != trees[1]:
            return False
        pairs = zip(jax.tree.leaves(wanted), jax.tree.leaves(model), strict=True)
        return all(np.shape(a) == np.shape(b) for a, b in pairs)


def _form_and_units(hidden: Hidden) -> tuple[str, str]:
    """Names of the form and of the units."""
    if not isinstance(hidden, BoxLayer | BoxLayers):
        return next(name for name, kind in HIDDEN.items() if isinstance(hidden, kind)), "relu"
    form = next(name for name, kind in BOXED.items() if isinstance(hidden, kind))
    return form, next(name for name, kind in UNITS.items() if isinstance(hidden.limits, kind))
