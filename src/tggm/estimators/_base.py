"""Base class of both estimators: store a fit, explain predictions, score an evaluation set."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tggm import settings as check
from tggm.arrays import Floats, Ints
from tggm.estimators._data import Data, StreamData
from tggm.estimators._fitted import Fitted, fitted_of, initialise, retrain
from tggm.estimators._settings import Settings
from tggm.predictive.marginal import averages
from tggm.tables import TableTransformer
from tggm.tables.inputs import new_rows
from tggm.tables.table import warn
from tggm.tables.transformer import Columns
from tggm.training import Observer, Trained, train
from tggm.training.loop import Layout
from tggm.training.rows import held_out_sample, take
from tggm.training.train import Printer

if TYPE_CHECKING:
    from tggm.explanation import ColumnMap, Explanation, Importances

LEAST_BACKGROUND = 20  # rows
MOST_KEPT = 1000  # held-out rows kept for importances
MOST_EVALUATIONS = 100  # of an evaluation set during a fit


class TableEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """An estimator for tables that stores its fit as a `Fitted`."""

    task: ClassVar[str]
    _explainable: ClassVar[tuple[str, ...]]  # what `explain` can explain; the first by default
    fitted_: Fitted
    table_: TableTransformer | None = None  # encoder of a table; None for complete arrays
    _held: list[tuple[list[int], Any]] | None = None  # groups of members and the rows that they held out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags

    @abstractmethod
    def _answers(self, X: Floats, of: str | float) -> Floats:
        """Return the predictions that are explained, (rows, k), for encoded inputs."""

    @abstractmethod
    def _losses(self, X: Floats, y: Any) -> Floats:
        """Return the loss of each row, (rows,), for encoded inputs."""

    @abstractmethod
    def _held_losses(self, Z: Floats, y: Any, members: list[int]) -> Floats:
        """Return the loss of some members at each row, on the scale of the model."""

    @abstractmethod
    def _scores(self, X: Any, y: ArrayLike) -> dict[str, float]:
        """Return the scores of an evaluation set."""

    def explain(
        self, X: Any, background: Any = None, *, of: str | float = "auto", n_walks: int | str = "auto",
        random_state: Any = 0,
    ) -> Explanation:  # fmt: skip
        """Return the part of each column in each row's prediction; the parts add up to the prediction.

        They are Shapley values: a column's part is the change of the prediction when the column is set from
        the value of a background row to the row's own, on average over background rows and over the orders
        in which columns are set. They describe the model, not causes.

        Parameters
        ----------
        X : array_like or data frame, shape (n_rows, n_columns)
            Rows to explain. A column of words or dates is one column.
        background : array_like or data frame, optional
            Rows that predictions are compared with, usually the training rows. By default the rows of `X` or,
            for fewer than 20 rows, one row with the mean of each input in training.
        of : {"auto", "mean", "std"} or float, or {"auto", "probability", "log-odds"}
            What to explain. Regression: the mean ("auto"), the standard deviation, or the quantile of this
            probability. Classification: probabilities ("auto"), that of the second of two classes, or
            log-odds as in `decision_function`.
        n_walks : int or "auto", default "auto"
            Number of random orders of the columns, each with its own background row, rounded up to an even
            number. "auto" makes about 512 predictions per row, and at least about two per column.
        random_state : int, RandomState or None, default 0
            Seed of the orders and the background rows.

        Returns
        -------
        Explanation
            `base`, `parts`, `names` of the columns, and the `prediction`, the sum of base and parts.
        """
        from tggm.explanation import shapley_values

        check_is_fitted(self, "fitted_")
        if not (isinstance(of, float) and 0 < of < 1 and "std" in self._explainable):
            of = self._explainable[0] if of == "auto" else check.one_of("of", of, self._explainable)
        walks = None if n_walks == "auto" else check.count("n_walks", n_walks)
        numbers = new_rows(self, X, unknown=True, dtype=np.float64)
        others, rng = numbers, check_random_state(random_state)
        if background is not None:
            try:
                others = new_rows(self, background, unknown=True, dtype=np.float64)
            except (TypeError, ValueError) as error:
                text = str(error).replace("`X`", "it")
                raise type(error)(f"`background` must have rows like those of `fit`: {text}") from None
        elif len(numbers) < LEAST_BACKGROUND:
            others = self.fitted_.scales.x.shift[None, :].astype(np.float64)
        return shapley_values(
            lambda rows: self._answers(rows, of), numbers, others, self._column_map(), walks, rng
        )

    def permutation_importances(
        self, X: Any, y: ArrayLike, *, n_repeats: int | str = "auto", random_state: Any = 0
    ) -> Importances:
        """Return the increase of the loss on these rows when a column is shuffled, for each column.

        Parameters
        ----------
        X, y
            Rows that the model was not fitted to, and their targets.
        n_repeats : int or "auto", default "auto"
            Shuffles of each column; "auto" is 5, fewer for large tables.
        random_state : int, RandomState or None, default 0
            Seed of the shuffles.

        Returns
        -------
        Importances
            `mean` and its standard `error`: for a regression the decrease of R², for a classification the
            increase of the negative log-likelihood in nats per row; and `names` of the columns.
        """
        from tggm.explanation import permutation_importances

        check_is_fitted(self, "fitted_")
        repeats = None if n_repeats == "auto" else check.count("n_repeats", n_repeats)
        numbers = new_rows(self, X, dtype=np.float64)
        target = np.asarray(y)
        if not target.ndim or len(target) != len(numbers):
            wrong = f"got {y!r}" if not target.ndim else f"got {len(target)}"
            raise ValueError(f"`y` must have {len(numbers)} targets, one for each row; {wrong}.")
        rng, columns = check_random_state(random_state), self._column_map()
        return permutation_importances(
            lambda rows, place: self._losses(rows, target[place]), numbers, columns, repeats, rng
        )

    def novelty(self, X: Any) -> Floats:
        """Return how unlike the training rows each row is, shape (n_rows,).

        It is 0 among the training rows, 1 at their edge, and grows with the distance beyond, as do the widths
        of a regression. Columns with little effect on the prediction have little effect on it. See
        docs/uncertainty.md.
        """
        check_is_fitted(self, "fitted_")
        if (around := self.fitted_.neighbourhood) is None:
            raise ValueError("`novelty` needs a model that was fitted to dense inputs by this version.")
        Z = self.fitted_.standardised(new_rows(self, X, unknown=True, dtype=np.float64))
        full, starts = self.fitted_.filled(Z)
        return averages(around.novelty(full), starts)

    def _warn_beyond(self, Z: Any) -> None:
        """Warn about rows that are more than a range of the training rows away from them."""
        around = self.fitted_.neighbourhood
        if around is None or not len((pairs := around.beyond(Z)).row) or pairs.distance.max() <= 1:
            return
        far = pairs.distance * around.relevance(pairs.column).max(1) > 1
        if far.any():
            columns = self._column_map()
            owners = np.unique(columns.used[columns.owner[pairs.column[far]]])
            names = ", ".join(columns.names[k] for k in owners[:5].tolist()) + ", ..." * (len(owners) > 5)
            share = len(np.unique(pairs.row[far])) / len(Z)
            warn(
                f"`X` has values more than one range of the training rows outside of it in {names} "
                f"({100 * share:.3g} % of the rows); predictions there are extrapolations, see `novelty`."
            )

    @property
    def feature_importances_(self) -> Floats:
        """Importance of each column on held-out rows, shape (n_features_in_,).

        Computed like `permutation_importances`, on at most 1,000 rows that members held out in `fit`; the
        members that held out a row predict it. The scale is that of the model, such as the logarithm of the
        target. Computed on each access; not available after `load`.
        """
        from tggm.explanation import permutation_importances

        check_is_fitted(self, "fitted_")
        if not self._held:
            raise AttributeError(
                "`feature_importances_` need held-out rows of a dense table in memory, which a model file "
                "lacks; call permutation_importances(X, y) with rows that were not used in `fit`."
            )
        total, count = np.zeros(self.n_features_in_), 0
        for members, (Z, y) in self._held:

            def loss(moved: Floats, place: Ints, y: Any = y, members: list[int] = members) -> Floats:
                return self._held_losses(moved, take(y, place), members)

            found = permutation_importances(loss, Z, self._column_map(), None, np.random.default_rng(0))
            total, count = total + len(Z) * found.mean, count + len(Z)
        return total / count

    def _column_map(self) -> ColumnMap:
        """Return which inputs of the model belong to which column."""
        from tggm.explanation import ColumnMap

        plain = [f"x{k}" for k in range(self.n_features_in_)]
        names = [str(name) for name in getattr(self, "feature_names_in_", plain)]
        if self.table_ is None:
            return ColumnMap.identity(names)
        widths = {column.name: len(column.features) for column in self.table_.columns_}
        return ColumnMap.from_widths(names, widths)

    def _fit(
        self, data: Data | StreamData, settings: Settings, rng: np.random.Generator,
        pool: Callable[..., Fitted], observer: Observer | None, eval_set: Any, rounds: int | None,
    ) -> None:  # fmt: skip
        """Train the members, pool them, and store the fit with some held-out rows for importances."""
        model, blocks = initialise(settings, data, rng)
        if observer is None and settings.verbose:
            observer = Printer(held=True)
        if eval_set is not None or rounds is not None:
            observer = EvaluationObserver(self, settings, data, model, eval_set, rounds, observer)
        program = settings.program(model, blocks, data, rng)
        held_out = train(model, blocks, program, observer)
        trained = retrain(held_out, program, blocks, data, settings, rng)
        self._set_fitted(pool(held_out, trained, blocks, data, settings))
        self.__dict__.pop("evals_result_", None)
        if isinstance(observer, EvaluationObserver):
            self.evals_result_ = observer.result
        self._held = None
        self.n_iter_ = int(trained.train.shape[1])
        epochs = np.arange(1, self.n_iter_ + 1)
        self.history_ = {"train": trained.train, "held_out": trained.held, "epoch": epochs}
        self.best_epoch_, self.undone_ = trained.best_epoch + 1, trained.undone
        self.converged_ = not (trained.interrupted or trained.failed.any())
        self.interrupted_ = trained.interrupted
        _warn_about(trained, self.n_members, self.learning_rate)
        if blocks.kept is not None and not blocks.partial and isinstance(blocks.kept.data.X, np.ndarray):
            self._held = held_out_sample(blocks.kept, MOST_KEPT)

    def _set_fitted(self, fitted: Fitted) -> None:
        """Store a model, and set attributes to its parameters in the units of the data."""
        self.fitted_ = fitted
        if fitted.classes is not None:
            self.classes_ = fitted.classes
        self._set_columns(fitted.columns)
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

    def _set_columns(self, columns: Columns) -> None:
        """Set the attributes that scikit-learn and users expect."""
        self.n_features_in_, self.table_ = columns.width, columns.encoder
        self.__dict__.pop("feature_names_in_", None)
        if columns.names is not None:
            self.feature_names_in_ = np.asarray(columns.names, dtype=object)


def _warn_about(trained: Trained, n_members: int, learning_rate: float) -> None:
    """Warn about members that failed or undid many steps, and report an interruption."""
    steps = int(np.asarray(trained.state.step).max())
    if trained.failed.any():
        warn(
            f"training failed: the objective of {int(trained.failed.sum())} of {n_members} members was not "
            "finite in many successive steps; the best parameters before them were kept. Lower "
            f"`learning_rate` ({learning_rate:g}), raise `weight_decay`, or use dtype='float64'.",
            ConvergenceWarning,
        )
    elif trained.undone.max(initial=0) > 0.01 * max(steps, 1):
        warn(
            f"{int(trained.undone.max())} of {steps} training steps were undone: they led to numbers "
            f"that are not finite or to a collapse; lower `learning_rate` ({learning_rate:g}).",
            ConvergenceWarning,
        )
    if trained.interrupted:
        epochs = trained.train.shape[1]
        sys.stderr.write(f"Interrupted after {epochs} epochs; the model has the best parameters so far.\n")


class EvaluationObserver(Observer):
    """Score evaluation sets with the best parameters so far, at regular intervals; stop early if asked for.

    With `rounds`, training ends when the log-likelihood of the last set has not risen for so many epochs, and
    the parameters with its highest value are kept.
    """

    def __init__(
        self, probe: TableEstimator, settings: Settings, data: Data | StreamData, model: Any, eval_set: Any,
        rounds: int | None, inner: Observer | None,
    ) -> None:  # fmt: skip
        if rounds is not None:
            rounds = check.count("early_stopping_rounds", rounds)
            if not eval_set:
                raise ValueError("`early_stopping_rounds` needs an `eval_set`; pass eval_set=[(X, y)].")
        self._probe, self._settings, self._data, self._model = copy(probe), settings, data, model
        self._sets = list(
            map(_checked_pair, eval_set if isinstance(eval_set, list) and eval_set else [eval_set])
        )
        self._inner, self._period, self._rounds = inner or Observer(), 1, rounds
        self._layout = Layout.of(model, axes=1)
        self._best = -np.inf, 0, self._layout.join_members(model)  # score, epoch and parameters
        for report in ("resumed", "progressed", "noted", "ended"):  # forwarded unchanged
            setattr(self, report, getattr(self._inner, report))
        self.result: dict[str, dict[str, list[float]]] = {}

    def planned(self, epochs: int, milestones: Sequence[int] = ()) -> None:
        """Score the rows before training, so that problems with them are reported at once."""
        self._period = max(1, min(epochs // MOST_EVALUATIONS, self._rounds or epochs))
        self._inner.planned(epochs, milestones)
        self._score(0, self._best[2])

    def room(self, epochs: int) -> int:
        """Return the number of epochs until the next evaluation."""
        return min(self._period - epochs % self._period, self._inner.room(epochs))

    def examined(self, epochs: int, best: Any) -> bool:
        """Score the rows if an evaluation is due; return whether to stop."""
        if epochs % self._period == 0:
            self._score(epochs, best)
        return self._rounds is not None and epochs - self._best[1] >= self._rounds

    def chosen(self, trained: Trained) -> Trained:
        """Return the parameters that predict the last evaluation set best, if it may stop training."""
        if self._rounds is None:
            return trained
        _, epoch, params = self._best
        early = np.minimum(trained.best_epoch, max(epoch - 1, 0))
        return replace(trained, params=self._layout.split(params), best_epoch=early)

    def _score(self, epochs: int, params: Any) -> None:
        self._probe._set_fitted(fitted_of(self._layout.split(params), self._data, self._settings))
        for k, rows in enumerate(self._sets):
            scores = {"epoch": epochs, **self._probe._scores(*rows)}
            for name, value in scores.items():
                self.result.setdefault(f"validation_{k}", {}).setdefault(name, []).append(value)
        if scores["log_likelihood"] > self._best[0]:
            self._best = scores["log_likelihood"], epochs, params


def _checked_pair(pair: Any) -> tuple[Any, Any]:
    try:
        X, y = pair
        rows = (X.shape[0] if hasattr(X, "shape") else len(X), len(y))
    except (TypeError, ValueError):
        raise ValueError(
            f"`eval_set` must be a list of pairs (X, y) of rows and targets; got a {type(pair).__name__}."
        ) from None
    if rows[0] != rows[1] or not rows[0]:
        raise ValueError(
            f"`eval_set` must have as many targets as rows, at least one; got {rows[1]} and {rows[0]}."
        )
    return X, y
