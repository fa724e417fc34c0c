"""`PaperRegressor` and `PaperClassifier`: the paper's models as scikit-learn estimators."""

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from tggm import settings
from tggm.arrays import Floats
from tggm.data.standardise import Columns, require_moderate, standardisation
from tggm.models import Model
from tggm.paper._model import DEEP, ENGINES, Objective, draw_members, latent, subtract_unit_variance
from tggm.predictive import GaussianMixture, JointPredictive, MultivariateGaussianMixture, ScalarPredictive
from tggm.predictive.member_moments import class_mixture, pad_rows
from tggm.runtime import blas_lock, full_precision, precision
from tggm.training import OPTIMISERS, SCHEDULES, Plan, Program, Rows, Trained, hyper_parameters, train
from tggm.training.loop import Layout
from tggm.training.rows import Blocks, RowBlock, assign_folds, bucket, membership, model_inputs
from tggm.training.train import Printer

CAPACITY = 1024  # epochs of one compiled call at most; the length of a buffer
MOST_SIGMA0 = {"float32": 1e15, "float64": 1e60}  # for which the squares of σ0 and 1/σ0 are finite
INIT = ("paper", "scaled", "sharp", "small")
FLOATS = (np.float64, np.float32)
BLOCK = 512  # rows predicted at once
FAR = 1e7  # standard deviations; single precision cannot square larger differences


def prepare(X: Any, columns: Columns, dtype: Any) -> Any:
    """Standardise a dense table, or make `SparseRows` that have room for the fullest row."""
    found = model_inputs(X, columns, dtype)
    require_moderate(getattr(found, "values", found), "`X`", "use standardize=True, or remove such rows")
    return found


def predictions(what: str, model: Model, X: Any, engine: str, dtype: Any) -> list[Floats]:
    """Predict new rows in blocks by each member with a method of its likelihood.

    Each result has shape (members, rows, …).
    """
    count = len(jax.tree.leaves(X)[0])
    size = min(BLOCK, bucket(count))
    with precision(str(np.dtype(dtype))), blas_lock():  # inference factorises matrices
        parts = [
            _predict(what, engine, model, jax.tree.map(lambda a, at=at: pad_rows(a[at : at + size], size), X))
            for at in range(0, count, size)
        ]
    joined = [np.concatenate(each, axis=1)[:, :count] for each in zip(*parts, strict=True)]
    return [a.astype(np.float64) for a in joined]


@partial(jax.jit, static_argnums=(0, 1))
@full_precision
def _predict(what: str, engine: str, model: Model, X: Any) -> tuple[Array, ...]:
    def one(member: Model) -> tuple[Array, ...]:
        return getattr(member.likelihood, what)(latent(member, X, engine))

    return jax.vmap(one)(model)


class _PaperEstimator(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
    """Settings, training and fitted attributes of both estimators."""

    methods: ClassVar[tuple[str, ...]]

    def _objective(self, layers: tuple[int, ...], n_outputs: int) -> Objective:
        """Return the objective of `method`; ValueError where the model does not support it."""
        method = settings.one_of("method", self.method, self.methods)
        found = Objective(
            method, settings.one_of("solver", self.solver, ("newton", "cyclic")),
            settings.cycles(self.n_cycles), settings.one_of("prior", self.prior, ("same", "posterior")),
            settings.flag("factorised", getattr(self, "factorised", False)),
        )  # fmt: skip
        several, deep = len(layers) > 1, settings.one_of("deep", self.deep, DEEP)
        wrong = {"undirected": ("moments",), "directed": tuple(ENGINES)}[deep]
        if several and method in wrong:
            other = "directed" if deep == "undirected" else "undirected"
            raise ValueError(
                f"method={method!r} needs one hidden layer or deep={other!r}; got {self.hidden!r}."
            )
        if method == "exact" and (several or n_outputs > 1):
            raise ValueError(
                "method='exact' needs one hidden layer and one output; "
                f"got hidden={self.hidden!r} and {n_outputs} outputs. Use 'ep'."
            )
        return found

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on rows X, (n_rows, n_features), with targets or labels y, one per row.

        Targets of several outputs have shape (n_rows, n_outputs). A classifier also takes sparse rows. A fit
        that fails leaves the estimator unchanged.
        """
        new = copy(self)
        new._fit_rows(X, y)
        self.__dict__.update(vars(new))
        return self

    @abstractmethod
    def _fit_rows(self, X: ArrayLike, y: ArrayLike) -> None:
        """Check the rows, train, and set all attributes."""

    def _fit(self, X: Any, y: NDArray[Any], n_outputs: int, noise: Floats | None) -> None:
        """Draw and train all members; `noise` is a fixed or initial noise variance, None for classes."""
        dtype, layers = settings.precision(self.dtype), settings.layers(self.hidden)
        if layers is None:
            raise ValueError(
                f"`hidden` must be a number of units, or one for each layer; got {self.hidden!r}."
            )
        objective = self._objective(layers, n_outputs)
        names = ("n_members", "max_epochs", "batch_size")
        members, epochs, batch = (settings.count(name, getattr(self, name)) for name in names)
        average = settings.number("average", self.average, least=0, below=1)
        patience = np.inf if self.patience is None else settings.count("patience", self.patience)
        fraction = settings.number("validation_fraction", self.validation_fraction, above=0, below=1)
        fraction = fraction if settings.flag("early_stopping", self.early_stopping) else 0.0
        rate = settings.number("learning_rate", self.learning_rate, above=0)
        decay = settings.number("weight_decay", self.weight_decay, least=0)
        rng = settings.generator(self.random_state)
        model = draw_members(
            rng, members, X.shape[1], layers, n_outputs, self.deep,
            s0=settings.gauge(self.sigma0, MOST_SIGMA0[dtype]), noise=noise,
            init=settings.one_of("init", self.init, INIT), dtype=dtype,
        )  # fmt: skip
        rows = Rows(prepare(X, self._x, dtype), y)
        folds = membership(assign_folds(rng, np.arange(len(y)), fraction, members))
        blocks = Blocks.of(RowBlock(folds, *jax.tree.map(pad_rows, (rows, np.ones(len(y), dtype)))))
        layout = Layout.of(model, axes=1)
        plan = Plan(
            layout, batch, CAPACITY, settings.one_of("optimizer", self.optimizer, OPTIMISERS),
            settings.one_of("schedule", self.schedule, SCHEDULES), average > 0,
        )  # fmt: skip
        learned = getattr(self, "noise", None) is None
        fixed = ["hidden.s0"] if learned else ["hidden.s0", "likelihood.log_noise"]
        hyper = hyper_parameters(
            members, layout.rates(fixed), dtype, learning_rate=rate, weight_decay=decay, average=average,
            patience=patience, total_steps=epochs * blocks.steps(batch),
        )  # fmt: skip
        printer = Printer(fraction > 0) if settings.flag("verbose", self.verbose) else None
        program = Program(plan, hyper, epochs, int(rng.integers(2**31)), objective)
        result = train(model, blocks, program, printer)
        model = result.params
        if noise is not None and learned and self.method == "bp":
            with precision(dtype):
                model = subtract_unit_variance(model, rows.X)
        self._store(jax.tree.map(np.asarray, model), result)

    def _store(self, model: Model, result: Trained) -> None:
        """Store the fitted model, its parameters in the units of the data, and the training history."""
        self.model_ = model
        double: Any = jax.tree.map(lambda a: np.asarray(a, np.float64), model)
        hidden, output = double.hidden, double.likelihood.output
        self.W0_ = hidden.W0 / self._x.scale[None, None, :]
        self.b0_ = hidden.b0 - self.W0_ @ self._x.shift
        self.between_ = list(zip(getattr(hidden, "W", ()), getattr(hidden, "b", ()), strict=True))
        self.W1_ = output.W1 * self._y.scale[None, :, None]
        self.b1_ = output.b1 * self._y.scale + self._y.shift
        self.n_iter_ = int(result.train.shape[1])
        self.history_ = {"train": result.train, "held_out": result.held}
        self.best_epoch_, self.undone_ = result.best_epoch + 1, result.undone
        self.converged_ = not (result.interrupted or bool(result.failed.any()))
        if result.failed.any():
            warnings.warn(
                f"training failed: the objective of {int(result.failed.sum())} of {len(result.failed)} "
                "members was not finite in many successive steps; their best parameters were kept. Lower "
                f"`learning_rate` ({self.learning_rate:g}) or use dtype='float64'.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if result.interrupted:
            sys.stderr.write(f"Interrupted after {self.n_iter_} epochs; the best parameters are kept.\n")

    @property
    def _engine(self) -> str:
        """Return the engine of predictions of undirected layers."""
        return "ep" if self.method == "ep" else "mean_field"

    def _new_rows(self, X: ArrayLike, **options: Any) -> Any:
        check_is_fitted(self, "model_")
        return validate_data(self, X, reset=False, **options)


class PaperRegressor(RegressorMixin, _PaperEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Regression with the paper's models; the defaults are its TGGM-ML.

    Parameters
    ----------
    hidden : int or tuple of int, default (50,)
        Units of each hidden layer.
    method : {"meanfield", "ep", "bp", "moments", "exact"}, default "meanfield"
        "meanfield" and "ep" maximise log p(y | x) approximated by mean field (TGGM-ML) or expectation
        propagation; "bp" minimises the squared error of E[y | x] (TGGM-BP); "moments" maximises the Gaussian
        with the moments of y given x; "exact" maximises the exact density of one output of one layer.
    deep : {"undirected", "directed"}, default "undirected"
        Several layers as one joint truncated Gaussian, as in the paper, or each given the one below.
        "undirected" supports "meanfield", "ep" and "bp"; "directed" supports "moments" and "bp".
    n_members : int, default 1
        Networks whose predictive distributions are mixed.
    sigma0 : float, default √0.5
        Standard deviation σ0 of the hidden units before truncation.
    noise : float, array or None, default 0.5
        Variance σ1² of the output noise in standardised units, one or one per output; None learns it.
    init : {"paper", "scaled", "sharp", "small"}, default "paper"
        Initial weights and biases: N(0, 0.01); scaled by σ0 and the numbers of units; three times as large; a
        tenth as large.
    solver : {"cyclic", "newton"}, default "cyclic"
        E-step of "meanfield": the paper's Algorithm 1, or Newton's method to convergence.
    n_cycles : int or (int, int), default 10
        Cycles of the cyclic solver, or their numbers at the first and at the last step.
    prior : {"same", "posterior"}, default "same"
        Start of mean field for the prior of undirected layers: that of the posterior, or the posterior means.
    optimizer : {"rmsprop", "adam", "muon", "sgd"}, default "rmsprop"
        Optimiser.
    learning_rate : float, default 0.01
        Step size.
    schedule : str, default "constant"
        Schedule of the step size.
    batch_size, max_epochs : int, default 50 and 1000
        Rows of a mini-batch, and passes over the rows at most.
    weight_decay : float, default 0.0
        Multiplies ½‖W‖².
    average : float, default 0.0
        Decay of a running average of the parameters; 0 for none.
    validation_fraction : float, default 0.1
        Part of the rows that each member holds out if `early_stopping`.
    early_stopping : bool, default True
        Keep the parameters of the epoch with the best held-out score, instead of the last.
    patience : int or None, default 250
        Epochs without a better score after which training ends; None for no limit.
    standardize : {True, False, "whole"}, default True
        Bring each column of X and y to mean 0 and variance 1; "whole" treats the columns of X as one.
    dtype : {"float32", "float64"}, default "float32"
        Precision of training.
    random_state : int, RandomState or None, default None
        Seed.
    verbose : bool, default False
        Print progress.

    Attributes
    ----------
    W0_, b0_, W1_, b1_, noise_ : ndarray
        Parameters in the units of the data, with a leading axis of members.
    between_ : list of (W, b)
        Weights and biases from each hidden layer to the next.
    n_iter_, best_epoch_, history_, undone_, converged_
        Number of epochs, best epoch of each member, objective and held-out score of each epoch, steps that
        were undone, and whether training ended without interruption or failures.
    """

    methods: ClassVar = ("meanfield", "ep", "bp", "moments", "exact")

    def __init__(
        self, hidden: int | Sequence[int] = (50,), *, method: str = "meanfield", deep: str = "undirected",
        n_members: int = 1, sigma0: float = 0.5**0.5, noise: ArrayLike | None = 0.5, init: str = "paper",
        solver: str = "cyclic", n_cycles: int | Sequence[int] = 10, prior: str = "same",
        optimizer: str = "rmsprop", learning_rate: float = 1e-2, schedule: str = "constant",
        batch_size: int = 50, max_epochs: int = 1000, weight_decay: float = 0.0, average: float = 0.0,
        validation_fraction: float = 0.1, early_stopping: bool = True, patience: int | None = 250,
        standardize: bool | str = True, dtype: str = "float32", random_state: Any = None,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @classmethod
    def bp(cls, **given: Any) -> Self:
        """Return the paper's TGGM-BP: squared error, σ0² = σ1² = 0.01."""
        return cls(**{"method": "bp", "sigma0": 0.1, "noise": 0.01, "learning_rate": 1e-3, **given})

    def _fit_rows(self, X: ArrayLike, y: ArrayLike) -> None:
        X_, y_ = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        settings.standardize(self.standardize, whole=True)
        Y = np.asarray(y_, np.float64).reshape(len(y_), -1)
        n = Y.shape[1]
        self.vector_target_ = y_.ndim == 1
        self._x = standardisation(X_, np.ones(len(X_)), self.standardize)
        self._y = Columns.of(Y, np.ones(len(Y))) if self.standardize else Columns.unchanged(n)
        Z = self._y.apply(Y).astype(settings.precision(self.dtype))
        require_moderate(Z, "`y`", "use standardize=True, or divide it")
        given = settings.noise_variance(self.noise, n)
        self._fit(X_, Z, n, np.full(n, 0.5) if given is None else given)
        likelihood: Any = self.model_.likelihood
        self.noise_ = np.exp(np.asarray(likelihood.log_noise, np.float64)) * self._y.scale**2

    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Return the mean of y given x, shaped like `y` in `fit`, and its standard deviation if asked for."""
        dist, shape = self.predict_dist(X), (-1,) if self.vector_target_ else (-1, len(self._y.shift))
        return (
            (dist.mean().reshape(shape), dist.std().reshape(shape))
            if return_std
            else dist.mean().reshape(shape)
        )

    def predict_dist(self, X: ArrayLike) -> ScalarPredictive | JointPredictive[Any]:
        """Return the predictive distribution of each row: Gaussians with the moments of y, one per member."""
        rows, y = prepare(self._new_rows(X, dtype=np.float64), self._x, np.dtype(np.float64)), self._y
        model: Any = jax.tree.map(lambda a: np.asarray(a, np.float64), self.model_)
        mean, cov = predictions("moments", model, rows, self._engine, np.float64)
        if len(y.shift) > 1:
            return MultivariateGaussianMixture(mean, cov, loc=y.shift, scale=y.scale)
        return GaussianMixture(mean[:, :, 0], cov[:, :, 0, 0], loc=y.shift[0], scale=y.scale[0])


class PaperClassifier(ClassifierMixin, _PaperEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Classification with the paper's models; the defaults are its TGGM-ML.

    Parameters
    ----------
    hidden : int or tuple of int, default (100,)
        Units of each hidden layer.
    method : {"meanfield", "bp", "moments"}, default "meanfield"
        As in `PaperRegressor`; "bp" minimises the cross-entropy of E[z | x].
    factorised : bool, default True
        Whether "meanfield" factorises q(z) over classes, as the supplement does; False gives a tighter bound.
    n_cycles : int or (int, int), default (30, 5)
        Cycles of the cyclic solver at the first and at the last step.
    standardize : {True, False, "whole"}, default True
        As in `PaperRegressor`. A sparse table is divided by one number, so that it stays sparse.
    deep, n_members, sigma0, init, solver, prior, optimizer, learning_rate, schedule, batch_size, max_epochs
        As in `PaperRegressor`, with other defaults.
    weight_decay, average, validation_fraction, early_stopping, patience, dtype, random_state, verbose
        As in `PaperRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    W0_, b0_, W1_, b1_, between_, n_iter_, best_epoch_, history_, undone_, converged_
        As in `PaperRegressor`.
    """

    methods: ClassVar = ("meanfield", "bp", "moments")

    def __init__(
        self, hidden: int | Sequence[int] = (100,), *, method: str = "meanfield", deep: str = "undirected",
        n_members: int = 1, sigma0: float = 0.5**0.5, init: str = "paper", solver: str = "cyclic",
        n_cycles: int | Sequence[int] = (30, 5), prior: str = "same", factorised: bool = True,
        optimizer: str = "rmsprop", learning_rate: float = 1e-3, schedule: str = "cosine",
        batch_size: int = 500, max_epochs: int = 60, weight_decay: float = 0.0, average: float = 0.0,
        validation_fraction: float = 0.1, early_stopping: bool = True, patience: int | None = None,
        standardize: bool | str = True, dtype: str = "float32", random_state: Any = None,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @classmethod
    def bp(cls, **given: Any) -> Self:
        """Return the paper's TGGM-BP: cross-entropy of E[z | x], σ0² = 0.01."""
        return cls(**{"method": "bp", "sigma0": 0.1, **given})

    def _fit_rows(self, X: ArrayLike, y: ArrayLike) -> None:
        X_, y_ = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS)
        check_classification_targets(y_)
        settings.standardize(self.standardize, whole=True)
        self.classes_, labels = np.unique(y_, return_inverse=True)
        n = len(self.classes_)
        if n < 2:
            raise ValueError(f"`y` has one class only, {self.classes_.tolist()}; at least two are needed.")
        self._x = standardisation(X_, np.ones(X_.shape[0]), self.standardize)
        self._y = Columns.unchanged(n)
        self._fit(X_, labels.astype(np.int32), n, None)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = self.predict_log_proba(X).argmax(1)  # raises if not fitted
        return self.classes_[best]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probability of each class, (n_rows, n_classes), in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return logarithms of the probabilities, accurate also where a probability underflows."""
        rows = self._new_rows(X, accept_sparse="csr", dtype=FLOATS)
        dtype = np.dtype(self.dtype)
        Z = prepare(rows, self._x, dtype)
        mean, std = predictions("contended_scores", self.model_, Z, self._engine, dtype)
        # only differences matter
        mean = np.maximum(mean - mean.max(-1, keepdims=True), -FAR * std.max(-1, keepdims=True))
        with precision(str(dtype)):
            log_p = class_mixture(mean.astype(dtype), std.astype(dtype)).astype(np.float64)
        log_p = log_p - np.logaddexp.reduce(log_p, axis=1)[:, None]
        limits = np.finfo(np.float64)
        return np.clip(log_p, limits.min, -limits.epsneg)
