"""What the regressor and the classifier share: training an ensemble, and telling how it went."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial, wraps
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tggm import settings
from tggm.arrays import Floats
from tggm.data.standardise import Scales
from tggm.estimators.explanation import Explained
from tggm.estimators.fitted import Fitted, Start
from tggm.estimators.memory import SURELY_FITS, require_room
from tggm.estimators.persistence import Persistent
from tggm.estimators.recipe import Recipe, Rules
from tggm.estimators.sources import MemorySource, Source
from tggm.models import Architecture, Model
from tggm.tables.errors import warn
from tggm.training import Rows, Training, train
from tggm.training.checkpoints import Checkpoints
from tggm.training.compilation_cache import keep_compiled
from tggm.training.engine import Inference
from tggm.training.fit_identity import identity, optimiser_identity
from tggm.training.layout import Layout
from tggm.training.methods import TRAINING_NODES
from tggm.training.observer import Observer, Printer
from tggm.training.parallel.processes import is_first, require_same, require_unforked, shared
from tggm.training.rows import Blocks, RowBlock
from tggm.training.state import Plan, start

MOST_KEPT = 1000  # held-out rows
P = ParamSpec("P")
R = TypeVar("R")


def intact(method: Callable[P, R]) -> Callable[P, R]:
    """Where this method fails, its estimator stays what it was: no old model with the names of a new one."""

    @wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        state = vars(args[0])
        before = dict(state)
        try:
            return method(*args, **kwargs)
        except Exception:
            state.clear()
            state.update(before)
            raise

    return guarded


class Ensemble(Explained, Persistent, ABC):
    """Settings and training common to all estimators."""

    rules: ClassVar[Rules]
    likelihood: ClassVar[str]

    @abstractmethod
    def _scales(self, source: Source) -> Scales:
        """Standardisations by the rows of a source."""

    @abstractmethod
    def _rows(self, scales: Scales, most: float, X: Any, y: Any, *, quick: bool = False) -> Rows:
        """Rows in the units of the model, as NumPy arrays; no input is larger than `most`."""

    def recipe(self) -> Recipe:
        """The settings, checked; ValueError for one that cannot work, whatever the data."""
        return Recipe(self.get_params(deep=False), self.rules, self.likelihood)

    def check_settings(self) -> None:
        """Raise a ValueError for a setting that cannot work, whatever the data."""
        recipe = self.recipe()
        require_room(recipe, recipe.architecture(1, 1))

    def engine(self) -> Inference:
        """Who infers what a model does not know of itself: EP, or what trained a model of several layers."""
        fitted: Fitted = self.fitted_
        return engine_of(fitted.method, fitted.model)

    def _precision(self) -> AbstractContextManager[Any]:
        """Double precision inside, where it was asked for; the global setting stays as it is."""
        require_unforked()
        keep_compiled()
        return jax.enable_x64(True) if np.dtype(self.dtype) == np.float64 else nullcontext()

    def _fit(self, begun: Start, observer: Observer | None) -> Self:
        """Train on all rows, each member without those that it holds out."""
        recipe, source, scales, rng = begun.recipe, begun.source, begun.scales, begun.rng
        blocks = source.blocks(recipe, scales, partial(self._rows, scales, recipe.most_input), rng)
        model = begun.model if blocks.only is None else self.started(begun, blocks.only)
        plan, hyper, epochs = recipe.program(
            model, blocks, n_features=source.X.shape[1], mean_weight=source.mean_weight,
            capacity=source.capacity,
        )  # fmt: skip
        if observer is None and self.verbose and is_first():
            observer = Printer(recipe.held_fraction > 0)
        if observer is not None:
            observer.planned(epochs)
        seed = int(rng.integers(2**31))
        with recipe.precision():
            keeps = self.checkpoint is not None or shared()
            kept = self._checkpoints(plan, model, blocks, observer) if keeps else None
            resume = None if kept is None else kept.read()
            if resume is not None and observer is not None:
                observer.resumed(resume.train.shape[1] // blocks.per_pass)
            result = train(
                plan, recipe.method, model, blocks, hyper, max_epochs=epochs, seed=seed, observer=observer,
                milestones=recipe.milestones(epochs), budget=self.time_budget, resume=resume,
                keep=None if kept is None else kept.keep,
            )  # fmt: skip
        if kept is not None:
            kept.write(finished=not result.interrupted)
        return self.finish(begun, result, blocks.kept)

    def started(self, begun: Start, block: RowBlock) -> Model:
        """What training of rows in memory starts from: where it was drawn, or better."""
        return begun.model

    def _begin(
        self, recipe: Recipe, source: Source, n_outputs: int, rng: np.random.Generator, before: Fitted | None
    ) -> Start:
        """Standardisation and model of an earlier fit, or new ones."""
        architecture = self._architecture(recipe, source, n_outputs, before)
        if before is not None and self._goes_on(recipe, before, architecture):
            model, pool = architecture.adapted(before.model), (before.transform, before.calibration)
            return Start(recipe, source, before.scales, model, rng, False, *pool)
        layers, d, n = architecture.layers, architecture.n_inputs, architecture.n_outputs
        if recipe.n_members * max(layers) * (d + n + max(layers) + recipe.lateral) > SURELY_FITS:
            require_room(recipe, architecture, source.count)
        return Start(recipe, source, self._scales(source), recipe.draw(architecture, rng), rng)

    def _architecture(
        self, recipe: Recipe, source: Source, n_outputs: int, before: Fitted | None
    ) -> Architecture:
        """The model for these rows; where settings leave its sizes open, those of an earlier fit."""
        recipe.size(source.X.shape[1], n_outputs, sparse=source.sparse)
        if before is not None and recipe.given_layers is None:
            recipe.layers = Architecture.of(before.model).layers
        return recipe.architecture(source.X.shape[1], n_outputs)

    def _checkpoints(
        self, plan: Plan, model: Model, blocks: Blocks, observer: Observer | None
    ) -> Checkpoints | None:
        """Where the state of this fit is kept, None if nowhere; processes must begin with the same."""
        # where a warm start begins is in the model
        ignored = ("checkpoint", "time_budget", "verbose", "warm_start")
        words = {k: settings.plain(v) for k, v in self.get_params(deep=False).items() if k not in ignored}
        required = self.checkpoint is not None
        words["optimizer"] = optimiser_identity(self.optimizer, model, required=required)
        fit = identity(words, (model, blocks.identity))
        require_same(f"{fit} {self.checkpoint is None}")
        if self.checkpoint is None:
            return None
        template = start(plan, model, np.zeros(self.n_members, np.uint32))
        return Checkpoints(self.checkpoint, fit, template, observer or Observer())

    def _pass(self, recipe: Recipe, source: MemorySource, n_outputs: int) -> Self:
        """One pass over the rows at a constant rate, all of them used, going on from where the last ended."""
        before: Fitted | None = getattr(self, "fitted_", None)
        architecture = self._architecture(recipe, source, n_outputs, before)
        if before is not None and not self._goes_on(recipe, before, architecture):
            raise ValueError(
                "`hidden`, `deep`, `n_members`, `sigma0` and `dtype` must stay what they were when the model "
                f"was first fitted ({before.described()}); use `fit`, or a clone."
            )
        begun = self._begin(recipe, source, n_outputs, recipe.generator(), before)
        rows = partial(self._rows, begun.scales, recipe.most_input)
        blocks = source.blocks(recipe, begun.scales, rows, begun.rng, fraction=0.0)
        plan = recipe.plan(Layout.of(begun.model, axes=1), recipe.timetable(len(source.weight))[0])
        endless = {"learning_rate": recipe.learning_rate, "total_steps": np.inf, "patience": np.inf}
        hyper = recipe.hyper(plan, source.X.shape[1], source.mean_weight, **endless)
        with recipe.precision():
            result = train(
                plan, recipe.method, begun.model, blocks, hyper, max_epochs=1,
                seed=int(begun.rng.integers(2**31)), state=getattr(self, "_state", None),
            )  # fmt: skip
        self.finish(begun, result)
        self._state = jax.tree.map(np.asarray, result.state)
        return self

    def _goes_on(self, recipe: Recipe, before: Fitted, architecture: Architecture) -> bool:
        """Whether training can go on with this model under these settings."""
        same = before.has_gauge(recipe.s0) and before.model.arrays()["hidden.W0"].dtype == recipe.dtype
        return bool(same) and architecture.describes(architecture.adapted(before.model), recipe.n_members)

    def refined(self, fitted: Fitted, begun: Start, block: RowBlock) -> Fitted:
        """What was trained, with what its held-out rows tell."""
        return fitted

    def finish(self, begun: Start, result: Training, block: RowBlock | None = None) -> Self:
        """Keep what was trained; `block` are its rows, or of a stream those that were held out."""
        recipe, model = begun.recipe, result.params
        if "noise" in recipe.given and recipe.given["noise"] is None:  # it was learned
            with recipe.precision():
                rows = partial(begun.source.sample, partial(self._rows, begun.scales, recipe.most_input))
                model = recipe.method.finish(model, rows)
        if recipe.likelihood != self.likelihood:
            model = replace(model, likelihood=model.likelihood.whole)
        fitted = Fitted(
            jax.tree.map(np.asarray, model), begun.scales, self.method, begun.calibration, begun.transform
        )
        if block is not None and recipe.held_fraction:
            with recipe.precision():
                fitted = self.refined(fitted, begun, block)
        self.adopt(fitted)
        self._keep_held(None if begun.source.sparse else block)
        self._record(result)
        self._state = None
        return self

    def _keep_held(self, block: RowBlock | None) -> None:
        """Keep some of the rows that members held out, to tell later what columns are worth."""
        self._held, self._importances = None, None
        if block is not None:
            each = [a[:n] for a, n in zip(block.members.held, block.members.n_held, strict=True)]
            rows = np.unique(np.concatenate(each))
            rows = rows[:: max(1, -(-len(rows) // MOST_KEPT))]
            some = jax.tree.map(lambda a: np.asarray(a)[rows], block.data)
            self._held = some, np.stack([np.isin(rows, a) for a in each])

    def adopt(self, fitted: Fitted) -> None:
        """Hold a model, and show its parameters in the units of the data."""
        self.fitted_ = fitted
        arrays = {name: np.asarray(a, np.float64) for name, a in fitted.model.arrays().items()}
        x, y = fitted.scales
        self.W0_, self.b0_ = arrays["hidden.W0"], arrays["hidden.b0"]
        self.W1_ = arrays["likelihood.output.W1"] * y.scale[None, :, None]
        self.b1_ = arrays["likelihood.output.b1"] * y.scale[None, :] + y.shift[None, :]
        self.A_: Floats | None = arrays.get("likelihood.output.A")
        if fitted.model.features.linear:
            self.W0_ = self.W0_ / x.scale[None, None, :]
            self.b0_ = self.b0_ - self.W0_ @ x.shift
        if self.A_ is not None:
            self.A_ = self.A_ * y.scale[None, :, None] / x.scale[None, None, :]
            self.b1_ = self.b1_ - self.A_ @ x.shift
        self.n_parameters_ = sum(a.size for name, a in arrays.items() if name != "hidden.s0")
        levels = range(sum(name.startswith("hidden.W.") for name in arrays))
        self.between_ = [(arrays[f"hidden.W.{i}"], arrays[f"hidden.b.{i}"]) for i in levels]
        self.layers_ = (self.W0_.shape[1], *(W.shape[1] for W, _ in self.between_))
        if "likelihood.log_noise" in arrays:
            self.noise_: Floats = np.exp(arrays["likelihood.log_noise"]) * y.scale[None, :] ** 2

    def _record(self, result: Training) -> None:
        """Store what training tells about itself."""
        self.n_iter_ = int(result.train.shape[1])
        epochs = np.arange(1, self.n_iter_ + 1)
        self.history_ = {"train": result.train, "held_out": result.held, "epoch": epochs}
        self.best_epoch_, self.undone_ = result.best_epoch + 1, result.undone
        self.converged_ = not (result.interrupted or result.failed.any())
        self.interrupted_ = result.interrupted
        report(result, self.n_members, self.learning_rate)


def engine_of(method: str, model: Model) -> Inference:
    """Who infers what a model that was trained by this method does not know of itself."""
    by_ep = method == "ep" or not model.hidden.by_moments
    return Inference("ep" if by_ep else "mean_field", nodes=TRAINING_NODES)


def report(result: Training, n_members: int, learning_rate: float) -> None:
    """Warn of members that failed or often went back, and say that training was interrupted."""
    steps = int(np.max(result.state.step))
    if result.failed.any():
        warn(
            f"training failed: the objective of {int(result.failed.sum())} of {n_members} members"
            " was not finite in many steps in a row; their best parameters before that were kept. Lower "
            f"`learning_rate` ({learning_rate:g}), raise `weight_decay`, or use dtype='float64'.",
            ConvergenceWarning,
        )
    elif result.undone.max(initial=0) > 0.01 * max(steps, 1):
        warn(
            f"{int(result.undone.max())} times in {steps} steps training led to numbers that are not "
            f"finite or to a collapse, and was taken back; lower `learning_rate` "
            f"({learning_rate:g}).",
            ConvergenceWarning,
        )
    if result.interrupted:
        sys.stderr.write(
            f"Interrupted after {result.train.shape[1]} epochs; the best parameters so far are kept.\n"
        )
