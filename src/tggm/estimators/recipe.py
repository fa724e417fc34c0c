"""Settings of an estimator, checked, and what follows from them for training."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from tggm.arrays import Floats
from tggm.estimators import settings
from tggm.estimators.fork import require_unforked
from tggm.estimators.schedule import Rules, default_batch_size, default_epochs
from tggm.models import INITIALISERS, Architecture, Model
from tggm.models.hidden import FORMS
from tggm.models.likelihoods import LIKELIHOODS
from tggm.models.model import MOST
from tggm.streams.columns import require_moderate
from tggm.training import METHODS, OPTIMISERS, SCHEDULES, Options
from tggm.training.engine import PRIORS
from tggm.training.membership import bucket
from tggm.training.methods import Method
from tggm.training.state import Hyper, Layout, Plan, hyper_parameters

CAPACITY = 1024  # epochs in a chunk at most; only the length of a buffer


class Recipe:
    """How an ensemble is trained.

    Parameters
    ----------
    given : mapping
        Constructor arguments of an estimator.
    rules : Rules
        What "auto" means.
    likelihood : str
        The outputs of its models, by name.

    Raises
    ------
    ValueError
        For any setting that cannot work, whatever the data.
    """

    def __init__(self, given: Mapping[str, Any], rules: Rules, likelihood: str) -> None:
        self.given, self.rules, self.likelihood = given, rules, likelihood
        self.layers = settings.layers(given["hidden"])
        self.form = settings.one_of("deep", given["deep"], FORMS)
        self.lateral = settings.count("lateral", given.get("lateral", 0), least=0)
        self.n_members = settings.count("n_members", given["n_members"])
        self.learning_rate = settings.number("learning_rate", given["learning_rate"], above=0)
        self.clip = settings.number("clip", given["clip"], above=0)
        self.average = settings.number("average", given["average"], least=0, below=1)
        self.dropout = settings.number("dropout", given.get("dropout", 0.0), least=0, below=0.999)
        self.init = settings.one_of("init", given["init"], INITIALISERS)
        self.schedule = settings.one_of("schedule", given["schedule"], SCHEDULES)
        self.dtype = settings.precision(given["dtype"])
        self.s0 = settings.gauge(given["sigma0"], MOST[self.dtype])
        fraction = settings.number("validation_fraction", given["validation_fraction"], above=0, below=1)
        self.held_fraction = fraction if settings.flag("early_stopping", given["early_stopping"]) else 0.0
        if given["weight_decay"] != "auto":
            settings.number("weight_decay", given["weight_decay"], least=0)
        self.optimizer = settings.optimizer(given["optimizer"], OPTIMISERS)
        for name in ("batch_size", "max_epochs"):
            settings.count_or_auto(name, given[name])
        if given["patience"] is not None:
            settings.count_or_auto("patience", given["patience"])
        for name in ("warm_start", "verbose"):
            settings.flag(name, given[name])
        settings.checkpoint(given["checkpoint"], given["random_state"])
        if self.lateral and len(self.layers) > 1:
            raise ValueError(f"`lateral` connections need one hidden layer; got hidden={given['hidden']!r}.")
        self.method = self._method()

    def _method(self) -> Method:
        """What training maximises; an error where the model lacks what the method needs."""
        options = Options(
            settings.one_of("solver", self.given["solver"], ("newton", "cyclic")),
            settings.cycles(self.given["n_cycles"]),
            settings.one_of("prior", self.given["prior"], PRIORS),
            settings.flag("factorised", self.given.get("factorised", False)),
        )
        needs = {name: make(options).needs for name, make in METHODS.items()}
        known = [name for name in needs if needs[name] in LIKELIHOODS[self.likelihood].offers]
        name = settings.one_of("method", self.given["method"], known)
        offers = self.architecture(1, 1).offers
        if needs[name] not in offers:
            allowed = [known_name for known_name in known if needs[known_name] in offers]
            remedy = self._remedy(needs[name], allowed)
            raise ValueError(f"{self._described()} cannot be trained with method={name!r}; {remedy}.")
        return METHODS[name](options)

    def _described(self) -> str:
        if self.lateral:
            return f"a model with lateral={self.given['lateral']!r}"
        return f"a model with hidden={self.given['hidden']!r} and deep={self.given['deep']!r}"

    def _remedy(self, need: str, allowed: list[str]) -> str:
        *most, last = [f"method={name!r}" for name in sorted(allowed)]
        other = next(
            (f"deep={form!r}" for form, kind in FORMS.items() if need in kind.offers), "one hidden layer"
        )
        return f"pass {', '.join(most)} or {last}, or {'lateral=0' if self.lateral else other}"

    def architecture(self, n_inputs: int, n_outputs: int) -> Architecture:
        """The model for so many inputs and outputs."""
        return Architecture(n_inputs, self.layers, n_outputs, self.likelihood, self.form, self.lateral)

    def draw(self, architecture: Architecture, noise: Any, rng: np.random.Generator) -> Model:
        """Models of all members to start from: arrays with a leading axis, in the dtype of training."""
        members = [
            architecture.draw(rng, s0=self.s0, noise=noise, init=self.init) for _ in range(self.n_members)
        ]
        drawn: Model = jax.tree.map(lambda *leaves: np.stack(leaves).astype(self.dtype), *members)
        return drawn

    def generator(self) -> np.random.Generator:
        """Randomness from `random_state`."""
        state = check_random_state(self.given["random_state"])
        return np.random.default_rng(state.randint(np.iinfo(np.int32).max, size=4))

    def precision(self) -> AbstractContextManager[Any]:
        """Double precision inside, where it was asked for; the global setting stays as it is."""
        require_unforked()
        return jax.enable_x64(True) if self.dtype == "float64" else nullcontext()

    def timetable(self, n_rows: int) -> tuple[int, int]:
        """Batch size and number of epochs for this many rows to train on."""
        given = self.given["batch_size"], self.given["max_epochs"]
        batch = default_batch_size(n_rows) if given[0] == "auto" else int(given[0])
        if given[1] != "auto":
            return batch, int(given[1])
        return batch, default_epochs(n_rows, batch, self.rules.steps(n_rows))

    def patience(self, epochs: int) -> float:
        """Epochs without a better score that end a member's training; "auto" is a quarter of the plan."""
        if self.given["patience"] == "auto":
            return max(25, epochs // 4)
        return np.inf if self.given["patience"] is None else int(self.given["patience"])

    def plan(self, model: Model, batch: int, capacity: int = CAPACITY) -> Plan:
        """What the training program is compiled for."""
        layout = Layout.of(model, axes=1)
        return Plan(
            layout, batch, capacity, self.optimizer, self.schedule, self.average > 0, self.dropout > 0
        )

    def hyper(
        self, model: Model, total_steps: float, patience: float, *, n_features: int, mean_weight: float = 1.0
    ) -> Hyper:
        """Numbers of training for all members; gauge and given noise are held fixed."""
        decay = self.given["weight_decay"]
        planned = self.given["max_epochs"] == "auto" and np.isfinite(total_steps)
        rate = self.rules.rate(self.learning_rate, total_steps) if planned else self.learning_rate
        fixed = {"hidden.s0"} | ({"likelihood.log_noise"} if self.given.get("noise") is not None else set())
        rates = model.replaced({name: float(name not in fixed) for name in model.arrays()})
        return hyper_parameters(
            self.n_members,
            Layout.of(model, axes=1).spread(rates),
            self.dtype,
            learning_rate=rate,
            # a row of weight 2 counts twice, so the penalty is shared by the sum of the weights
            weight_decay=(self.rules.decay(n_features) if decay == "auto" else float(decay)) / mean_weight,
            clip=self.clip,
            average=self.average,
            total_steps=total_steps,
            patience=patience,
            dropout=self.dropout,
        )

    def padded(self, data: Any, weight: Floats) -> tuple[Any, NDArray[np.floating]]:
        """Data and weights of mean 1, with rows added that no index list names, so that shapes repeat."""
        for leaf in jax.tree.leaves(data):
            if np.issubdtype(leaf.dtype, np.floating):
                require_moderate(leaf, "`X` or `y`", "use standardize=True, or divide them")
        extra = bucket(len(weight)) - len(weight)

        def pad(a: NDArray[Any]) -> NDArray[Any]:
            a = a.astype(self.dtype) if np.issubdtype(a.dtype, np.floating) else a  # labels stay integers
            return np.pad(a, [(0, extra), *[(0, 0)] * (a.ndim - 1)])

        return jax.tree.map(pad, data), pad(weight / weight.mean())
