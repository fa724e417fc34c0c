"""Check the settings of an estimator, and derive its network and training program."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tggm import settings as check
from tggm.models import Model, Network
from tggm.models.layers import FEATURES, Gaussian, Likelihood, Probit
from tggm.models.network import NARROW
from tggm.predictive.support import Support, checked_support
from tggm.state import GAUGE
from tggm.training import OPTIMISERS, Milestones, Plan, Program, hyper_parameters
from tggm.training.loop import WHOLE, Layout, cycle_ends
from tggm.training.rows import Blocks, bucket

CYCLE_STEPS = 300  # gradient steps of the first cycle
LEAST_BATCH = 128
LEAST_MUON = 512  # training rows from which optimizer="auto" is Muon: with fewer it overfits
LARGE = 16_384  # rows from which mini-batches are larger
SLOW = 40_000  # rows from which the gain required for another cycle grows, in proportion to its seconds
MOST_PERIODIC = 200  # columns up to which features="auto" is "periodic"
MOST_DEEP = 100  # outputs or classes up to which hidden="auto" has two layers
WIDE_ROWS = 200  # training rows from which the weight decay of wide tables falls
SPARSE_DECAY = 0.2  # factor of the weight decay of sparse tables
CLIP = 10.0  # largest norm of a gradient
CAPACITY = 1024  # most epochs in a chunk
LEAST_PATIENCE = 25  # epochs


@dataclass(frozen=True)
class Task:
    """Constants that differ between regression and classification."""

    name: str
    likelihood: type[Likelihood]
    s0: float  # the gauge σ0²
    units: int  # in each hidden layer
    average: float  # decay of the running average of the parameters
    decay: Callable[[int, int], float]  # weight decay, by the numbers of inputs and rows
    cycle_rate: Callable[[int], float]  # factor of the learning rate, by the number of rows
    batch: int  # largest mini-batch of a large table
    gain: float  # nats per row that a cycle must gain to be followed by one three times as long
    fall: float  # stop when the held-out score is this far below its best (nats per row)
    share: float | None = None  # of the log-loss: sufficient gain if this is less than `gain`
    last: float = 0.0  # nats per row that the cycle before the last must gain; the last takes most time
    least: float = 0.0  # smallest sufficient gain of a log-probability, nats per row


REGRESSION = Task(
    "regression", Gaussian, s0=GAUGE["regression"], units=50, average=0.98,
    decay=lambda d, rows: max(0.1, 0.3 * (d - NARROW) * min(1.0, WIDE_ROWS / rows)),
    cycle_rate=lambda rows: float(np.clip(np.sqrt(4096 / rows), 0.5, 1.0)),
    batch=256, gain=0.02, fall=1.0, last=1.0,
)  # fmt: skip
CLASSIFICATION = Task(
    "classification", Probit, s0=GAUGE["classification"], units=100, average=0.999,
    decay=lambda d, rows: d / 40, cycle_rate=lambda rows: 1.0, batch=512,
    gain=0.01, fall=0.25, share=0.05, least=0.001,
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Constructor arguments of an estimator, checked."""

    task: Task
    hidden: tuple[int, ...] | None  # None for "auto"
    features: str | None
    linear: bool | None  # None for "auto"
    network: Network | None
    n_members: int
    optimizer: str
    learning_rate: float
    batch_size: int | None  # None for "auto"
    max_epochs: int | None  # None for "auto"
    time_budget: float | None
    weight_decay: float | None  # None for "auto"
    cv: Any  # fraction, number of folds, splitter; None after loading a model with a splitter
    standardize: bool | str
    dtype: str
    random_state: Any
    checkpoint: Any
    n_jobs: int | None
    verbose: bool
    given: Mapping[str, Any] = field(repr=False)
    class_weight: Any = None
    target_transform: str | None = None
    calibrate: bool = False
    guarantee: float | None = None
    neighbors: int | None = 0  # None for "auto"
    gaussian_process: bool = False
    support: Support | str | list[Support | None] | None = None
    started: float = field(default_factory=time.perf_counter)

    @classmethod
    def checked(cls, given: Mapping[str, Any], task: Task) -> "Settings":
        """Check constructor arguments; raise ValueError for invalid ones."""
        if given["network"] is not None:
            _require_network(given, task)
        support = checked_support(given.get("support"))
        check.standardize(given["standardize"], whole=task is CLASSIFICATION)
        check.checkpoint(given["checkpoint"], given["random_state"])
        budget, guarantee = given["time_budget"], given.get("guarantee")
        transform = given.get("target_transform")
        return cls(
            task=task, hidden=check.layers(given["hidden"]),
            features=check.word_or_none("features", given["features"], ["auto", *FEATURES]),
            linear=check.or_auto(check.flag, "linear", given["linear"]), network=given["network"],
            n_members=check.count("n_members", given["n_members"]),
            optimizer=check.one_of("optimizer", given["optimizer"], ["auto", *OPTIMISERS]),
            learning_rate=check.number("learning_rate", given["learning_rate"], above=0),
            batch_size=check.or_auto(check.count, "batch_size", given["batch_size"]),
            max_epochs=check.or_auto(check.count, "max_epochs", given["max_epochs"]),
            time_budget=None if budget is None else check.number("time_budget", budget, above=0),
            weight_decay=check.or_auto(check.number, "weight_decay", given["weight_decay"], least=0),
            cv=check.hold_out(given["cv"]), standardize=given["standardize"],
            dtype=check.precision(given["dtype"]), random_state=given["random_state"],
            checkpoint=given["checkpoint"], n_jobs=check.n_jobs(given["n_jobs"]),
            verbose=check.flag("verbose", given["verbose"]), given=given,
            class_weight=given.get("class_weight"),
            target_transform=check.word_or_none("target_transform", transform, ("auto", "log")),
            calibrate=check.flag("calibrate", given.get("calibrate", False)),
            neighbors=check.neighbors(given["neighbors"]),
            gaussian_process=check.flag("gaussian_process", given.get("gaussian_process", False)),
            guarantee=None if guarantee is None else check.number("guarantee", guarantee, above=0, below=1),
            support=support,
        )  # fmt: skip

    @property
    def late(self) -> bool:
        """Return whether the time budget is used up, so that optional parts of pooling are left out."""
        return self.time_budget is not None and time.perf_counter() > self.started + self.time_budget

    def network_for(self, n_inputs: int, n_outputs: int, sparse: bool) -> Network:
        """Return the network for data of these sizes.

        Classifiers with more than 200 columns, or a sparse table, have no linear part: it overfits.
        """
        if self.network is not None:
            return replace(self.network, likelihood=self.network.likelihood or self.task.likelihood)
        units = (self.task.units,) * (2 if n_outputs <= MOST_DEEP and not sparse else 1)
        features = self.features
        if features == "auto":
            features = None if sparse else "periodic" if n_inputs <= MOST_PERIODIC else "bounded"
        if sparse and features is not None:
            raise ValueError(f"`features` must be 'auto' or None for a sparse table; got {features!r}.")
        linear = self.task is REGRESSION or not (sparse or n_inputs > MOST_PERIODIC)
        return Network(
            self.hidden or units, features=FEATURES[features], likelihood=self.task.likelihood,
            linear=linear if self.linear is None else self.linear,
        )  # fmt: skip

    def program(self, model: Model, blocks: Blocks, data: Any, rng: np.random.Generator) -> Program:
        """Return the training program for the blocks of these data."""
        task, rows, batch = self.task, blocks.n_rows, self.batch_size
        if batch is None:
            most = LEAST_BATCH if rows <= LARGE and not data.sparse else task.batch
            batch = int(np.clip(bucket(max(rows // 8, 1)), LEAST_BATCH, most))
        cycle = max(2, round(CYCLE_STEPS * batch / max(rows, batch)))
        if self.max_epochs is None:
            epochs, patience = WHOLE * cycle, np.inf
            rate = self.learning_rate * task.cycle_rate(rows)
            ends = cycle_ends(cycle)[:-1]
            gain = task.gain * max(1.0, rows / SLOW)
            milestones = Milestones(ends, gain, task.share, task.fall, task.last, task.least)
        else:
            epochs, rate, milestones = self.max_epochs, self.learning_rate, None
            patience = float(max(LEAST_PATIENCE, epochs // 4))
        deadline = None  # members that are trained again take the second half of the time
        if self.time_budget is not None:
            deadline = self.started + self.time_budget / (2 if blocks.partial else 1)
        decay, optimizer = self.weight_decay, self.optimizer
        if decay is None:
            decay = task.decay(data.X.shape[1], rows) * (SPARSE_DECAY if data.sparse else 1.0)
        if optimizer == "auto":
            optimizer = "muon" if rows >= LEAST_MUON else "adam"
        layout, capacity = Layout.of(model, axes=1), CAPACITY if blocks.only is not None else 1
        hyper = hyper_parameters(
            self.n_members, layout.rates(["hidden.s0"]), self.dtype, learning_rate=rate,
            total_steps=epochs * blocks.steps(batch), clip=CLIP, average=task.average,
            weight_decay=decay / data.mean_weight,  # a row of weight 2 counts twice
            patience=patience * blocks.per_pass,
        )  # fmt: skip
        plan = Plan(layout, batch, capacity, optimizer, "restarts", averaged=True)
        return Program(
            plan, hyper, epochs, int(rng.integers(2**31)), milestones=milestones, deadline=deadline,
            checkpoint=self.checkpoint, settings=None if self.checkpoint is None else self._identity(),
            n_jobs=self.n_jobs,
        )  # fmt: skip

    def _identity(self) -> dict[str, Any]:
        """Return the settings that identify a fit in a checkpoint."""
        ignored = ("checkpoint", "time_budget", "verbose", "n_jobs")
        words = {name: check.plain(value) for name, value in self.given.items() if name not in ignored}
        return words | {"network": None if self.network is None else self.network.described()}


def _require_network(given: Mapping[str, Any], task: Task) -> None:
    if not isinstance(given["network"], Network):
        raise ValueError(f"`network` must be None or a tggm.models.Network; got {given['network']!r}.")
    other = Probit if task is REGRESSION else Gaussian
    if given["network"].likelihood is not None and issubclass(given["network"].likelihood, other):
        raise ValueError(f"`likelihood` of the network must not be {other.__name__} for a {task.name}.")
    for name in ("hidden", "features", "linear"):
        if not (isinstance(given[name], str) and given[name] == "auto"):
            raise ValueError(f"`{name}` must be 'auto' if `network` is given; got {given[name]!r}.")
