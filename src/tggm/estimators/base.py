"""What the regressor and the classifier share: checking settings, standardising, training an ensemble."""

import sys
import warnings
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from tggm.estimators import settings
from tggm.estimators.columns import Columns, Floats, require_moderate
from tggm.estimators.forked import require_unforked
from tggm.estimators.schedule import LEAST_STEPS, default_batch_size, default_epochs
from tggm.estimators.settings import plain
from tggm.models import INITIALISERS
from tggm.models.deep import FORMS
from tggm.training import (
    OPTIMISERS,
    SCHEDULES,
    Layout,
    Objective,
    Plan,
    State,
    Training,
    hold_out,
    hyper_parameters,
    membership,
    train,
)
from tggm.training.checkpoints import Checkpoints
from tggm.training.deep_prior import PRIORS
from tggm.training.identity import identity, optimiser_identity
from tggm.training.loop import start
from tggm.training.observer import Observer, Printer
from tggm.training.processes import is_first, require_same, shared
from tggm.training.rows import bucket
from tggm.training.training import steps_per_epoch

CAPACITY = 1024  # epochs in a chunk at most; only the length of a buffer


class Work(NamedTuple):
    """A training problem: what subclasses hand to `BaseTGGM._train`."""

    objective: Objective
    params: Any  # a leading axis of members
    rates: Any  # like one member's parameters: 0 holds a leaf fixed
    context: Any  # a leading axis of members
    data: Any  # rows first
    weight: Floats  # (rows,)


class BaseTGGM(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Settings and training common to all estimators."""

    dropout = 0.0  # of classifiers only: a regressor would take what was left out for noise of y

    def _check_settings(self) -> None:
        """Raise for any setting that cannot work, whatever the data."""
        settings.layers(self.hidden)
        settings.one_of("deep", self.deep, FORMS)
        settings.count("n_members", self.n_members)
        settings.number("sigma0", self.sigma0, above=0)
        settings.number("learning_rate", self.learning_rate, above=0)
        self._decay()
        settings.number("clip", self.clip, above=0)
        settings.number("average", self.average, least=0, below=1)
        settings.number("dropout", self.dropout, least=0, below=0.999)
        settings.number("validation_fraction", self.validation_fraction, above=0, below=1)
        settings.one_of("schedule", self.schedule, SCHEDULES)
        settings.one_of("init", self.init, INITIALISERS)
        settings.one_of("solver", self.solver, ("newton", "cyclic"))
        settings.one_of("prior", self.prior, PRIORS)
        settings.precision(self.dtype)
        if not (hasattr(self.optimizer, "init") and hasattr(self.optimizer, "update")):
            settings.one_of("optimizer", self.optimizer, OPTIMISERS)
        for name in ("batch_size", "max_epochs"):
            value = getattr(self, name)
            if value != "auto":
                settings.count(name, value)
        if self.patience not in (None, "auto"):
            settings.count("patience", self.patience)
        for name in ("early_stopping", "warm_start", "verbose"):
            settings.flag(name, getattr(self, name))
        settings.checkpoint(self.checkpoint, self.random_state)

    def _check_method(self, shallow: Iterable[str], deep: Mapping[str, Iterable[str]]) -> None:
        """Raise for a method that there is not, or not for this number of layers."""
        settings.one_of("method", self.method, shallow)
        if len(settings.layers(self.hidden)) > 1:
            other = next((f"deep={form!r}" for form in deep if self.method in deep[form]), "one hidden layer")
            cause = f"a model with hidden={self.hidden!r} and deep={self.deep!r}"
            settings.works_with(cause, self.method, deep[self.deep], other)

    def _decay(self) -> float:
        """What multiplies the penalty."""
        if self.weight_decay == "auto":
            return self._usual_decay(getattr(self, "n_features_in_", 0))
        return settings.number("weight_decay", self.weight_decay, least=0)

    def _usual_decay(self, n_features: int) -> float:
        """Weight decay where it is "auto"."""
        raise NotImplementedError

    def _data(self, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[Any]]:
        """Inputs and targets as scikit-learn checks them; what it says of missing targets gains a remedy."""
        try:
            X_, y_ = validate_data(self, X, y, ensure_min_samples=1, **options)
        except ValueError as error:
            if not str(error).startswith("Input y contains"):
                raise
            raise ValueError(
                f"{error} Leave such rows out: keep = np.isfinite(y), then fit(X[keep], y[keep])."
            ) from None
        return X_, y_

    @property
    def _s0(self) -> float:
        """σ0² of the fitted parameters, whatever `set_params` may have said since."""
        sigma0: Any = getattr(self, "_sigma0", self.sigma0)
        return float(sigma0) ** 2

    def _generator(self) -> np.random.Generator:
        state = check_random_state(self.random_state)
        return np.random.default_rng(state.randint(np.iinfo(np.int32).max, size=4))

    def _precision(self) -> AbstractContextManager[Any]:
        """Double precision inside, where it was asked for; the global setting stays as it is."""
        require_unforked()
        return jax.enable_x64(True) if np.dtype(self.dtype) == np.float64 else nullcontext()

    def _standardise(self, X: Floats, weight: Floats) -> Columns:
        return Columns.of(X, weight) if self.standardize else Columns.unchanged(X.shape[1])

    def _stack(self, members: list[Any]) -> Any:
        """One pytree with a leading axis of members, in the dtype of the model."""
        return jax.tree.map(lambda *leaves: np.stack(leaves).astype(self.dtype), *members)

    def _schedule(self, n_rows: int) -> tuple[int, int]:
        """Batch size and number of epochs for this many rows to train on."""
        batch = default_batch_size(n_rows) if self.batch_size == "auto" else int(self.batch_size)
        if self.max_epochs != "auto":
            return batch, int(self.max_epochs)
        return batch, default_epochs(n_rows, batch, self._planned_steps(n_rows))

    def _planned_steps(self, n_rows: int) -> float:
        """Gradient steps when `max_epochs="auto"`."""
        return LEAST_STEPS

    def _rate(self, total_steps: float) -> float:
        """Learning rate at the start of a plan of so many steps."""
        return float(self.learning_rate)

    def _patience(self, epochs: int) -> float:
        """Epochs without a better score that end a member's training; "auto" is a quarter of the plan."""
        if self.patience == "auto":
            return max(25, epochs // 4)
        return np.inf if self.patience is None else int(self.patience)

    def _train(self, work: Work, rng: np.random.Generator) -> Training:
        """Train all members from their initial parameters, each with its own held-out rows.

        With a checkpoint training goes on from it: everything random before is drawn again from the seed.
        """
        fraction = self.validation_fraction if self.early_stopping else 0.0
        rows = np.arange(len(work.weight))
        members = membership([hold_out(rng, rows, fraction) for _ in range(self.n_members)])
        layout = Layout.of(work.params, axes=1)
        batch, epochs = self._schedule(int(members.n_train.max()))
        plan = self._plan(layout, batch)
        hyper = self._hyper(work, epochs * steps_per_epoch(plan, members), self._patience(epochs))
        watcher = self._watched(epochs)
        seed = int(rng.integers(2**31))
        data, weight = self._padded(work)
        with self._precision():
            kept = self._checkpoints(plan, work)
            resume = None if kept is None else kept.read()
            if resume is not None:
                watcher.resumed(resume.train.shape[1])
            result = train(
                plan, work.objective, work.params, members, work.context, hyper, data, weight,
                max_epochs=epochs, seed=seed, report=watcher.progressed, resume=resume,
                keep=None if kept is None else kept.keep,
            )  # fmt: skip
        if kept is not None:
            kept.write(finished=not result.interrupted)
        return result

    def _checkpoints(self, plan: Plan, work: Work, more: Any = ()) -> Checkpoints | None:
        """Where the state of this fit is kept, None if nowhere; processes must begin with the same."""
        if self.checkpoint is None and not shared():
            return None
        ignored = ("checkpoint", "verbose", "warm_start")  # where a warm start begins is in the parameters
        words = {k: plain(v) for k, v in self.get_params(deep=False).items() if k not in ignored}
        required = self.checkpoint is not None
        words["optimizer"] = optimiser_identity(self.optimizer, work.params, required=required)
        fit = identity(words, (work.params, work.context, work.data, work.weight, more))
        require_same(f"{fit} {self.checkpoint is None}")
        if self.checkpoint is None:
            return None
        template = start(plan, work.params, np.zeros(self.n_members, np.uint32))
        return Checkpoints(self.checkpoint, fit, template, self._observer().noted)

    def _observer(self) -> Observer:
        """Who watches the fit."""
        watcher: Observer | None = getattr(self, "_watcher", None)
        if watcher is not None:
            return watcher
        return Printer(bool(self.early_stopping)) if self.verbose and is_first() else Observer()

    def _watched(self, epochs: int) -> Observer:
        watcher = self._observer()
        watcher.planned(epochs)
        return watcher

    def _train_on(self, work: Work, state: State | None, rng: np.random.Generator) -> Training:
        """One pass over the rows at a constant rate, all of them used, going on from `state`."""
        rows = np.arange(len(work.weight))
        members = membership([hold_out(rng, rows, 0.0) for _ in range(self.n_members)])
        layout = Layout.of(work.params, axes=1)
        plan = self._plan(layout, self._schedule(len(rows))[0])
        data, weight = self._padded(work)
        with self._precision():
            return train(
                plan, work.objective, work.params, members, work.context, self._hyper(work, np.inf, np.inf),
                data, weight, max_epochs=1, seed=int(rng.integers(2**31)), state=state,
            )  # fmt: skip

    def _plan(self, layout: Layout, batch: int, capacity: int = CAPACITY) -> Plan:
        """What the training program is compiled for."""
        return Plan(
            layout, batch, capacity, self.optimizer, self.schedule, self.average > 0, self.dropout > 0
        )

    def _hyper(self, work: Work, total_steps: float, patience: float) -> Any:
        return hyper_parameters(
            self.n_members,
            Layout.of(work.params, axes=1).spread(work.rates),
            self.dtype,
            learning_rate=self._rate(total_steps),
            # a row of weight 2 counts twice, so the penalty is shared by the sum of the weights
            weight_decay=self._decay() / work.weight.mean(),
            clip=self.clip,
            average=self.average,
            total_steps=total_steps,
            patience=patience,
            dropout=self.dropout,
        )

    def _padded(self, work: Work) -> tuple[Any, NDArray[np.floating]]:
        """Data and weights with rows added that no index list names, so that shapes repeat."""
        for leaf in jax.tree.leaves(work.data):
            if np.issubdtype(leaf.dtype, np.floating):
                require_moderate(leaf, "`X` or `y`", "use standardize=True, or divide them")
        extra = bucket(len(work.weight)) - len(work.weight)

        def pad(a: NDArray[Any]) -> NDArray[Any]:
            a = a.astype(self.dtype) if np.issubdtype(a.dtype, np.floating) else a  # labels stay integers
            return np.pad(a, [(0, extra), *[(0, 0)] * (a.ndim - 1)])

        return jax.tree.map(pad, work.data), pad(work.weight / work.weight.mean())

    def _record(self, result: Training) -> None:
        """Store what training tells about itself."""
        self.n_iter_ = int(result.train.shape[1])
        epochs = np.arange(1, self.n_iter_ + 1)
        self.history_ = {"train": result.train, "held_out": result.held, "epoch": epochs}
        self.best_epoch_ = result.best_epoch + 1
        self.undone_ = result.undone
        self.converged_ = not result.interrupted
        self._interrupted = result.interrupted
        steps = int(np.max(result.state.step))
        if result.failed.any():
            self.converged_ = False
            warnings.warn(
                f"training failed: the objective of {int(result.failed.sum())} of {self.n_members} members"
                " was not finite in many steps in a row; their best parameters before that were kept. Lower "
                f"`learning_rate` ({self.learning_rate:g}), raise `weight_decay`, or use dtype='float64'.",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif result.undone.max(initial=0) > 0.01 * max(steps, 1):
            warnings.warn(
                f"{int(result.undone.max())} times in {steps} steps training led to numbers that are not "
                f"finite or to a collapse, and was taken back; lower `learning_rate` "
                f"({self.learning_rate:g}).",
                ConvergenceWarning,
                stacklevel=3,
            )
        if result.interrupted:
            sys.stderr.write(
                f"Interrupted after {self.n_iter_} epochs; the best parameters so far are kept.\n"
            )
