"""Settings of an estimator, checked, and what follows from them for training."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.utils import check_random_state

from tggm import settings
from tggm.estimators.mismatch import require_boxes
from tggm.models import INITIALISERS, Architecture, Model
from tggm.models.architecture import NARROW
from tggm.models.features import FEATURES
from tggm.models.hidden import BOXED, DEEP, HIDDEN, UNITS
from tggm.models.likelihoods import LIKELIHOODS
from tggm.models.model import MOST
from tggm.training import METHODS, OPTIMISERS, SCHEDULES, Milestones, Options
from tggm.training.compilation_cache import keep_compiled
from tggm.training.engine import PRIORS
from tggm.training.layout import Layout
from tggm.training.methods import Method
from tggm.training.optimisers import WHOLE, cycle_ends
from tggm.training.parallel.processes import require_unforked
from tggm.training.rows import Blocks, bucket
from tggm.training.state import Hyper, Plan, hyper_parameters

LEAST_STEPS, MOST_STEPS = 5000.0, 60_000.0
CYCLE_STEPS = 300  # of the first cycle
LEAST_BATCH, MOST_BATCH = 128, 512
LEAST_MUON = 512  # rows to train on from which optimizer="auto" is Muon: of fewer it learns the noise, too
LARGE = 16_384  # rows from which mini-batches are larger: below, small ones learn as much in half of the time
MOST_PERIODIC = 200  # columns up to which features="auto" means periodic ones
MOST_DEEP = 100  # outputs or classes up to which hidden="auto" means two layers: a row costs outputs × units²
SPARSE_DECAY = 0.2  # times the weight decay of a dense table


def default_layers(likelihood: str, deep: bool) -> tuple[int, ...]:
    """Units of each layer when `hidden="auto"`; `deep` if there may be several."""
    units = 100 if likelihood == "probit" else 50
    return (units, units) if deep else (units,)


class Rules(NamedTuple):
    """What a task does where it may choose."""

    decay: Callable[[int], float]  # weight decay, by the number of features
    steps: Callable[[int], float]  # gradient steps, by the number of rows
    rate: Callable[[float, float], float]  # the learning rate, by itself and the planned steps
    cycle_rate: Callable[[int], float]  # its factor in training by cycles, by the rows
    cycle_batch: int  # rows in a mini-batch of such training at most, if the table is large
    gain: float  # nats a row that a cycle must gain for another, three times as long
    fall: float  # nats a row below their best scores from which members never came back on development tables
    share: float | None = None  # of the log-probability, which is gain enough where it is less
    last: float = 0.0  # nats that the last cycle but one must gain: the last takes two thirds of all the time


def default_batch_size(n_rows: int, most: int = MOST_BATCH) -> int:
    """Rows in a mini-batch when `batch_size="auto"`."""
    return int(np.clip(bucket(max(n_rows // 8, 1)), LEAST_BATCH, most))


def default_epochs(n_rows: int, batch_size: int, steps: float) -> int:
    """Epochs when `max_epochs="auto"`: those that so many gradient steps take, and never fewer than 60."""
    return max(60, round(steps * batch_size / max(n_rows, batch_size)))


def default_cycle(n_rows: int, batch_size: int) -> int:
    """Epochs of the first cycle: those that `CYCLE_STEPS` gradient steps take."""
    return max(2, round(CYCLE_STEPS * batch_size / max(n_rows, batch_size)))


def growing_steps(n_rows: int) -> float:
    """Five gradient steps a row: on inner hold-outs of the larger UCI tables more of them went on paying.

    ``experiments/tune.py --steps`` compares numbers of steps and rates; experiments/results/tune_steps.json.
    """
    return float(np.clip(5 * n_rows, LEAST_STEPS, MOST_STEPS))


def growing_decay(n_features: int) -> float:
    """Weight decay of a regression: 0.1, chosen on tables of up to 16 columns, and more for wider ones.

    ``experiments/wide.py`` compares rules; with 0.1 predictions for wide tables may be worse than the mean.
    """
    return max(0.1, 0.3 * (n_features - NARROW))


def falling_rate(rate: float, steps: float) -> float:
    """The rate for a longer plan: divided by √k for k times as many steps as the shortest has."""
    return float(rate * np.sqrt(LEAST_STEPS / max(steps, LEAST_STEPS)))


def calmer(n_rows: int) -> float:
    """1 up to 4,096 rows, ½ from 16,384 on: large tables gain from small steps, small ones take longer."""
    return float(np.clip(np.sqrt(4096 / n_rows), 0.5, 1.0))


REGRESSION_RULES = Rules(growing_decay, growing_steps, falling_rate, calmer, 256, 0.02, 1.0, last=1.0)
CLASS_RULES = Rules(
    lambda d: d / 40, lambda _: LEAST_STEPS, lambda rate, _: rate, lambda _: 1.0, MOST_BATCH, 0.01, 0.25, 0.05
)


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
        self.given_layers = settings.layers(given["hidden"])
        self.given_linear = settings.flag_or_auto("linear", given["linear"])
        settings.word_or_none("features", given["features"], ["auto", *FEATURES])
        self.form = settings.one_of("deep", given["deep"], DEEP)
        self.units = settings.one_of("units", given["units"], ["relu", *UNITS])
        self.lateral = settings.count("lateral", given.get("lateral", 0), least=0)
        self.n_members = settings.count("n_members", given["n_members"])
        self.learning_rate = settings.number("learning_rate", given["learning_rate"], above=0)
        self.clip = settings.number("clip", given["clip"], above=0)
        self.average = settings.number("average", given["average"], least=0, below=1)
        self.dropout = settings.number("dropout", given.get("dropout", 0.0), least=0, below=0.999)
        settings.one_of("init", given["init"], ["auto", *INITIALISERS])
        self.schedule = settings.one_of("schedule", given["schedule"], SCHEDULES)
        self.dtype = settings.precision(given["dtype"])
        self.s0 = settings.gauge(given["sigma0"], MOST[self.dtype])
        fraction = settings.number("validation_fraction", given["validation_fraction"], above=0, below=1)
        self.held_fraction = fraction if settings.flag("early_stopping", given["early_stopping"]) else 0.0
        self.given_optimizer = settings.optimizer(given["optimizer"], ["auto", *OPTIMISERS])
        if given["weight_decay"] != "auto":
            settings.number("weight_decay", given["weight_decay"], least=0)
        settings.counts_or_auto(given, "batch_size", "max_epochs", "patience")
        if given.get("time_budget") is not None:
            settings.number("time_budget", given["time_budget"], above=0)
        for name in ("warm_start", "verbose"):
            settings.flag(name, given[name])
        settings.standardize(given["standardize"], whole=likelihood == "probit")
        settings.checkpoint(given["checkpoint"], given["random_state"])
        settings.noise_variance(given.get("noise"))
        settings.word_or_none("target_transform", given.get("target_transform"), ("auto", "log"))
        settings.flag("calibrate", given.get("calibrate", True))
        if given.get("guarantee") is not None:
            settings.number("guarantee", given["guarantee"], above=0, below=1)
        options = Options(
            settings.one_of("solver", given["solver"], ("newton", "cyclic")),
            settings.cycles(given["n_cycles"]),
            settings.one_of("prior", given["prior"], PRIORS),
            settings.flag("factorised", given.get("factorised", False)),
        )
        if self.lateral and len(self.given_layers or ()) > 1:
            raise ValueError(f"`lateral` connections need one hidden layer; got hidden={given['hidden']!r}.")
        self.known_methods = [n for n in METHODS if METHODS[n].needs in LIKELIHOODS[likelihood].offers]
        kind = METHODS[settings.one_of("method", given["method"], self.known_methods)]
        self.method: Method = kind(options)
        if self.units != "relu":
            require_boxes(self.units, given, likelihood)
        self.size(1)
        if kind.needs not in self.architecture(1, 1).offers:
            from tggm.estimators.mismatch import mismatch

            raise mismatch(self)

    def size(self, n_inputs: int, n_outputs: int = 1, *, sparse: bool = False) -> None:
        """Settle what the settings leave to the data: layers, features, a linear part, where training starts.

        Several layers, and a linear part, only where the method can train them. Words of a text and pixels of
        an image are many: classes get no linear part for them, which would learn the training rows by heart.
        """
        need, self.sparse = self.method.needs, sparse
        kind = HIDDEN[self.form] if self.units == "relu" else BOXED.get(self.form)
        deep = kind is not None and need in kind.offers and not self.lateral
        deep &= n_outputs <= MOST_DEEP and not sparse
        self.layers = self.given_layers or default_layers(self.likelihood, deep)
        features = self.given["features"]
        if features == "auto":
            features = None if sparse else "periodic" if n_inputs <= MOST_PERIODIC else "bounded"
        self.features: str | None = features
        self.most_input = FEATURES[features].most
        able = need in LIKELIHOODS[self.likelihood].linear_offers
        able &= self.likelihood != "probit" or not (sparse or n_inputs > MOST_PERIODIC)
        self.linear = able if self.given_linear is None else self.given_linear
        usual = "sharp" if self.likelihood == "gaussian" else "small" if sparse else "scaled"
        self.init = usual if self.given["init"] == "auto" else self.given["init"]

    def architecture(self, n_inputs: int, n_outputs: int) -> Architecture:
        """The model for so many inputs and outputs."""
        form = self.form if len(self.layers) > 1 else None
        return Architecture(
            n_inputs, self.layers, n_outputs, self.likelihood, form, self.lateral, self.features, self.linear,
            self.units,
        )  # fmt: skip

    def draw(self, architecture: Architecture, rng: np.random.Generator) -> Model:
        """Models of all members to start from: arrays with a leading axis, in the dtype of training."""
        noise = settings.noise_variance(self.given.get("noise"), architecture.n_outputs)
        first = 0.5 if noise is None else noise
        return architecture.members(rng, self.n_members, self.dtype, s0=self.s0, noise=first, init=self.init)

    def generator(self) -> np.random.Generator:
        """Randomness from `random_state`."""
        state = check_random_state(self.given["random_state"])
        return np.random.default_rng(state.randint(np.iinfo(np.int32).max, size=4))

    def precision(self) -> AbstractContextManager[Any]:
        """Double precision inside, where it was asked for; the global setting stays as it is."""
        require_unforked()
        keep_compiled()
        return jax.enable_x64(True) if self.dtype == "float64" else nullcontext()

    def timetable(self, n_rows: int) -> tuple[int, int]:
        """Batch size and number of epochs for this many rows to train on."""
        given = self.given["batch_size"], self.given["max_epochs"]
        most = MOST_BATCH
        if self.schedule == "restarts":
            most = LEAST_BATCH if n_rows <= LARGE and not self.sparse else self.rules.cycle_batch
        batch = default_batch_size(n_rows, most) if given[0] == "auto" else int(given[0])
        if given[1] != "auto":
            return batch, int(given[1])
        if self.schedule == "restarts":
            return batch, WHOLE * default_cycle(n_rows, batch)
        return batch, default_epochs(n_rows, batch, self.rules.steps(n_rows))

    @property
    def in_cycles(self) -> bool:
        """Whether training goes by cycles, and ends after one of them as held-out rows advise."""
        free = self.given["max_epochs"] == "auto" and self.given["patience"] == "auto"
        return free and self.schedule == "restarts" and self.held_fraction > 0

    def milestones(self, epochs: int) -> Milestones | None:
        """Where training of so many planned epochs may end: after each cycle, if all is left to be chosen."""
        if not self.in_cycles:
            return None
        ends = cycle_ends(epochs // WHOLE)[:-1]
        return Milestones(ends, self.rules.gain, self.rules.share, self.rules.fall, self.rules.last)

    def program(
        self,
        model: Model,
        blocks: Blocks,
        *,
        n_features: int,
        mean_weight: float = 1.0,
        capacity: int = CAPACITY,
    ) -> tuple[Plan, Hyper, int]:
        """What is compiled, its numbers, and the planned epochs, for training on these rows."""
        batch, epochs = self.timetable(blocks.n_rows)
        steps, layout = epochs * blocks.steps(batch), Layout.of(model, axes=1)
        patience = self.given["patience"]
        waits = np.inf if self.milestones(epochs) else max(25, epochs // 4)
        patience = {"auto": waits, None: np.inf}.get(patience, patience)
        rate = self.learning_rate
        if self.given["max_epochs"] == "auto":
            in_cycles = self.schedule == "restarts"
            rate = rate * self.rules.cycle_rate(blocks.n_rows) if in_cycles else self.rules.rate(rate, steps)
        plan = self.plan(layout, batch, capacity, rows=blocks.n_rows)
        hyper = self.hyper(
            plan, n_features, mean_weight,
            learning_rate=rate, total_steps=steps, patience=patience * blocks.per_pass,
        )  # fmt: skip
        return plan, hyper, epochs

    def optimizer(self, rows: int) -> Any:
        """The optimiser for so many rows to train on, a name or an object; "adam" if they are not known."""
        automatic = isinstance(self.given_optimizer, str) and self.given_optimizer == "auto"
        return ("muon" if rows >= LEAST_MUON else "adam") if automatic else self.given_optimizer

    def plan(self, layout: Layout, batch: int, capacity: int = CAPACITY, *, rows: int = 0) -> Plan:
        """What the training program is compiled for."""
        averaged, thinned = self.average > 0, self.dropout > 0
        return Plan(layout, batch, capacity, self.optimizer(rows), self.schedule, averaged, thinned)

    def hyper(self, plan: Plan, n_features: int, mean_weight: float, **numbers: float) -> Hyper:
        """Numbers of training for all members; gauge and given noise are held fixed."""
        decay = self.given["weight_decay"]
        usual = self.rules.decay(n_features) * (SPARSE_DECAY if self.sparse else 1.0)
        decay = usual if decay == "auto" else float(decay)
        fixed = ["hidden.s0"] if self.given.get("noise") is None else ["hidden.s0", "likelihood.log_noise"]
        return hyper_parameters(
            self.n_members, plan.layout.rates(fixed), self.dtype,
            weight_decay=decay / mean_weight,  # shared by the sum of the weights: a row of 2 counts twice
            clip=self.clip, average=self.average, dropout=self.dropout, **numbers,
        )  # fmt: skip
