"""`TGGMRegressor`: nonlinear regression whose predictions are distributions."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin

from tggm.data import Stream
from tggm.data.standardise import Scales
from tggm.estimators import linear_part
from tggm.estimators.ensemble import engine_of, intact
from tggm.estimators.fitted import Fitted, Start
from tggm.estimators.linear_part import ridge
from tggm.estimators.prediction import Prediction
from tggm.estimators.presets import ONE_LAYER, REGRESSION_BP, REGRESSION_ML
from tggm.estimators.recipe import REGRESSION_RULES, Recipe
from tggm.estimators.sources import MemorySource, Source, StreamSource, as_stream, prepared
from tggm.estimators.state import yes_or_no
from tggm.estimators.targets import (
    Targets,
    checked,
    filled,
    require_outputs,
    require_squares,
    target_transform,
)
from tggm.models import Model
from tggm.training import Rows
from tggm.training.observer import Observer
from tggm.training.rows import RowBlock, parts

if TYPE_CHECKING:
    from tggm.predictive.transforms import Transform


class TGGMRegressor(MultiOutputMixin, RegressorMixin, Prediction):  # type: ignore[misc]  # scikit-learn ships no types
    r"""Regression by a truncated Gaussian graphical model.

    .. math::
        p(h^1|x) = N_T(h^1 | W_0 \psi(x) + b_0, \sigma_0^2 I), \quad
        p(h^2|h^1) = N_T(h^2 | W h^1 + b, \sigma_0^2 I), \quad h \ge 0, \qquad
        p(y|h, x) = N(y | W_1 h^2 + A x + b_1, \mathrm{diag}(\sigma_1^2))

    with features ψ and a linear part A x, as many members as asked for, pooled and calibrated by rows that
    they held out. `predict_dist` gives the predictive distribution in the target's units. The paper's models
    are `paper_ml` and `paper_bp`; `one_layer` has one layer over the inputs as they are, and exact densities.

    Parameters
    ----------
    hidden : tuple of int, int or "auto", default "auto"
        Number of hidden units in each layer, from the input to the output. "auto" is (50, 50), or 50 for
        more than 100 outputs and for methods that train one layer only.
    features : {"auto", "periodic"} or None, default "auto"
        What the first layer sees of each column: itself and learned waves of it, or itself alone. "auto" is
        "periodic" up to 200 columns.
    linear : bool or "auto", default "auto"
        Whether the output has a linear part, which starts at ridge regression. Predictions fall back to ridge
        regression if that predicts held-out rows better.
    method : {"moments", "bp", "meanfield", "ep", "exact"}, default "moments"
        What training maximises: the Gaussian density with the exact mean and variance of y given x; the
        squared error (back-propagation); the mean-field bound, EP's estimate or the exact value of the
        likelihood.
    deep : {"directed", "undirected"}, default "directed"
        Form of a model with several hidden layers, see docs/deep.md. Directed: each layer normalised given
        the one below; methods "moments" and "bp". Undirected, the paper's: one joint truncated
        Gaussian; methods "meanfield", "ep", "bp". Predictive densities are Gaussians with the moments then.
    units : {"relu", "tanh", "sigmoid", "learned"}, default "relu"
        Between which limits a hidden unit lies: (0, ∞), ±4σ0, ±2σ0, or two that each layer learns,
        see docs/units.md. All but "relu" need ``deep="directed"`` and ``lateral=0``, and their predictive
        densities are Gaussians with the moments.
    lateral : int, default 0
        Rank of lateral connections between the hidden units, learned; for one output and method "ep" or
        "meanfield". Predictive densities are EP's then, intervals those of Gaussians with the moments.
    n_members : int, default 10
        Networks trained at once from different starts and held-out rows; the prediction is pooled from all.
    sigma0 : float, default 0.1
        Standard deviation σ0 of the hidden units before truncation. A gauge: all values give the same family
        of densities; it only sets the scale on which weights start, decay and move.
    noise : float, array of shape (n_outputs,) or None, default None
        Variance σ1² of the output noise on the scale the model sees (of the standardised target, unless
        ``standardize=False``). None learns it.
    optimizer : {"auto", "muon", "adam", "rmsprop", "sgd"} or optax.GradientTransformation, default "auto"
        "muon" gives steps of the hidden units' weights equal singular values, and is "adam" for all else.
        "auto" is "muon" for 512 rows to train on or more, and "adam" for fewer and in `partial_fit`.
        A complete optax optimiser brings its own rate and schedule.
    learning_rate : float, default 0.01
        If ``max_epochs="auto"``: divided by √k for k times 4,096 rows, 1 < k ≤ 4, with "restarts", and by √k
        for k times 5,000 planned steps, k > 1, with another schedule.
    schedule : {"restarts", "cosine", "linear", "constant"}, default "restarts"
        How the learning rate falls over the planned number of steps; "restarts" is four cosines, each over
        three times as many steps as the one before.
    batch_size : int or "auto", default "auto"
        Rows in a mini-batch; more than there are means all of them. "auto" is 128, and 256 for more than
        16,384 rows; with another schedule than "restarts" an eighth of the rows, 128 to 512.
    max_epochs : int or "auto", default "auto"
        Passes over the data. "auto" plans cycles of 300, 900, 2,700 and 8,100 gradient steps. It ends after
        the first that does not gain 0.02 nats a held-out row; the last is begun if the third gains 1 nat.
        With other schedules than "restarts", five steps for each row, but 5,000 to 60,000.
    time_budget : float, optional
        Seconds after which training ends, with the best parameters so far; compiling does not count.
    weight_decay : float or "auto", default "auto"
        Multiplies ½‖W‖²; the likelihood counts every row, so it is the precision of a Gaussian prior. "auto"
        is 0.1, or 0.3 for every feature beyond 16 where that is more.
    clip : float, default 10.0
        Largest norm of a gradient.
    average : float, default 0.98
        Decay of a running average of the parameters that is judged and kept instead of them; 0 for none.
    validation_fraction : float, default 0.1
        Part of the rows that each member holds out; from four members on several hold out the same.
    early_stopping : bool, default True
        Keep the parameters of the epoch that is best on the held-out rows, instead of the last.
    patience : int, "auto" or None, default "auto"
        End training if no member has found better parameters for this many epochs. "auto" follows the rule
        under `max_epochs` for "restarts", and is a quarter of the planned epochs otherwise. None: never.
    init : {"sharp", "scaled", "small", "paper"}, default "sharp"
        Distribution of the initial weights: "scaled" to the data, "small" a tenth of that, "sharp" three
        times that and less beyond 16 features; "paper" is N(0, 0.01) for all.
    solver : {"newton", "cyclic"}, default "newton"
        How ``method="meanfield"`` finds the posterior; "cyclic" is the paper's coordinate update.
    n_cycles : int, default 10
        Cycles of the cyclic solver.
    prior : {"auto", "guarded", "same", "posterior"}, default "auto"
        How log Z of an undirected deep model's prior is computed: mean field with a guard against priors that
        are hard to approximate, the method's own engine, cycles from the posterior's means.
    standardize : {"robust", True, False}, default "robust"
        Bring inputs and targets to mean 0 and variance 1 inside. "robust" ignores values more than ten
        deviations, as estimated from the quartiles, away from the median.
    target_transform : {"auto", "log"} or None, default "auto"
        What is modelled instead of the target: its logarithm or a Yeo–Johnson power. "auto" does so if the
        target has a very long tail and a linear model then predicts new rows better. Predictions are of the
        target itself.
    calibrate : bool, default True
        Let held-out rows decide how members are pooled; False gives their plain mixture.
    guarantee : float or None, default None
        Highest level of intervals that must hold whatever the data, see `predict_interval`. A tenth of the
        rows, at least level / (1 − level), are set aside for it; they do not train or choose anything.
    dtype : {"float32", "float64"}, default "float32"
        Type of the numbers in training and in means. Densities are always computed in double precision.
    warm_start : bool, default False
        Start `fit` from the parameters of the last one.
    random_state : int, RandomState or None, default None
        The same seed on the same machine gives the same model.
    checkpoint : path or None, default None
        File in which `fit` keeps its state every few seconds. After its process was killed, the same fit
        continues from it, see docs/scaling.md. Needs a fixed `random_state`.
    verbose : bool, default False
        Print progress.

    Attributes
    ----------
    W0_, b0_, W1_, b1_, noise_ : ndarray
        Parameters in the units of the data, with a leading axis of members: shapes (n_members, m, d),
        (n_members, m), (n_members, n, m), (n_members, n) and (n_members, n); `noise_` is σ1². Those of a
        transformed target are in its units; W0_ and b0_ act on features where there are such.
    A_ : ndarray, shape (n_members, n, d), or None
        The linear part; it is linear in x within four deviations of the mean where there are features.
    between_ : list of (W, b)
        Weights and biases from each hidden layer to the next, with a leading axis of members.
    layers_ : tuple of int
        Number of hidden units in each layer.
    n_iter_ : int
        Epochs run.
    best_epoch_ : ndarray of shape (n_members,)
        Epoch, counted from 1, whose parameters each member kept.
    history_ : dict
        "train" and "held_out": mean objective and mean held-out score, shape (n_members, n_iter_); "epoch":
        their epochs, from 1. A model file keeps a thousand of them at most.
    undone_ : ndarray of shape (n_members,)
        Number of steps and of collapsed epochs that each member undid.
    evals_result_ : dict
        After `fit` with an `eval_set`: "epoch", from 0, and "rmse" of the mean of all members.
    converged_ : bool
        Whether training ran to its planned end (it was not interrupted).
    table_ : TableTransformer or None
        How a table becomes inputs; None if `fit` was given numbers without gaps.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    """

    def __init__(
        self,
        hidden: Sequence[int] | int | str = "auto",
        *,
        features: str | None = "auto",
        linear: bool | str = "auto",
        method: str = "moments",
        deep: str = "directed",
        units: str = "relu",
        lateral: int = 0,
        n_members: int = 10,
        sigma0: float = 0.1,
        noise: ArrayLike | None = None,
        optimizer: Any = "auto",
        learning_rate: float = 0.01,
        schedule: str = "restarts",
        batch_size: int | str = "auto",
        max_epochs: int | str = "auto",
        time_budget: float | None = None,
        weight_decay: float | str = "auto",
        clip: float = 10.0,
        average: float = 0.98,
        validation_fraction: float = 0.1,
        early_stopping: bool = True,
        patience: int | str | None = "auto",
        init: str = "sharp",
        solver: str = "newton",
        n_cycles: int = 10,
        prior: str = "auto",
        standardize: bool | str = "robust",
        target_transform: str | None = "auto",
        calibrate: bool = True,
        guarantee: float | None = None,
        dtype: str = "float32",
        warm_start: bool = False,
        random_state: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.hidden = hidden
        self.features = features
        self.linear = linear
        self.method = method
        self.deep = deep
        self.units = units
        self.lateral = lateral
        self.n_members = n_members
        self.sigma0 = sigma0
        self.noise = noise
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.time_budget = time_budget
        self.weight_decay = weight_decay
        self.clip = clip
        self.average = average
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.patience = patience
        self.init = init
        self.solver = solver
        self.n_cycles = n_cycles
        self.prior = prior
        self.standardize = standardize
        self.target_transform = target_transform
        self.calibrate = calibrate
        self.guarantee = guarantee
        self.dtype = dtype
        self.warm_start = warm_start
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    task: ClassVar = "regression"
    rules: ClassVar = REGRESSION_RULES
    likelihood: ClassVar = "gaussian"

    @classmethod
    def paper_bp(cls, **settings: Any) -> Self:
        """The paper's TGGM-BP: squared error, σ0² = σ1² = 0.01."""
        return cls(**{**REGRESSION_BP, **settings})

    @classmethod
    def paper_ml(cls, **settings: Any) -> Self:
        """The paper's TGGM-ML: mean-field EM with 10 cycles, σ0² = σ1² = 0.5."""
        return cls(**{**REGRESSION_ML, **settings})

    @classmethod
    def one_layer(cls, **settings: Any) -> Self:
        """One hidden layer over the inputs as they are, whose densities are exact and not calibrated."""
        return cls(**{**ONE_LAYER, **settings})

    @intact
    def fit(
        self,
        X: ArrayLike | Stream,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        censored: ArrayLike | None = None,
        eval_set: tuple[Any, ArrayLike] | None = None,
        eval_patience: int | None = None,
        observer: Observer | None = None,
    ) -> Self:
        """Train the ensemble.

        Parameters
        ----------
        X : array_like or data frame, shape (n_rows, n_features), or Stream
            Numbers, with NaN for gaps, or a table with words, categories, dates and gaps (pandas, Polars, an
            array of objects), which becomes numbers by a `TableTransformer`, kept as `table_`. A
            `tggm.data.Stream`, or a memory map above 256 MiB, is never in memory whole.
        y : array_like, shape (n_rows,) or (n_rows, n_outputs)
            Targets. With several outputs NaN is a target that is missing.
        sample_weight : array_like, shape (n_rows,), optional
            Nonnegative; a row of weight 0 is left out, one of weight 2 counts twice.
        censored : array_like, shape (n_rows,), optional
            1 or "right" where the truth is at least `y`, −1 or "left" where it is at most `y`, 0 or "none"
            where `y` was measured; for one output. Predictions are of the truth.
        eval_set : (X, y), optional
            Rows to watch: `evals_result_` has the RMSE of the model that would be kept, at most a hundred
            times. They do not train or choose anything.
        eval_patience : int, optional
            End training if that has not fallen for this many epochs.
        observer : Observer, optional
            Told of progress; by default it is printed if `verbose`.
        """
        recipe = self.recipe()
        if (stream := as_stream(X, y, sample_weight, censored)) is not None:
            rng = recipe.generator()
            streamed = StreamSource(stream, recipe, rng, Targets.measured, labels=False)
            source: Source = streamed
            self._name_stream(stream, len(source.inputs(False).scale))
            spread = streamed.outputs(True).scale
            self.flat_target_, n_outputs = streamed.survey.flat, len(spread)
            require_outputs(n_outputs, recipe)
            require_squares(spread)
            aside = None
        else:
            rng = recipe.generator()
            source, aside = self._checked(recipe, X, y, sample_weight, censored=censored, aside_by=rng)
            n_outputs = source.y.Y.shape[1]
        before = getattr(self, "fitted_", None) if self.warm_start else None
        self._require_fresh(stream, before)
        transform = self._transformed(source, before)
        begun = self._begin(recipe, source, n_outputs, rng, before)
        begun = begun._replace(transform=transform)
        self.__dict__.pop("evals_result_", None)
        if eval_set is not None:
            from tggm.estimators.evaluation import watched

            observer = watched(self, begun, eval_set, eval_patience, observer)
        self._fit(begun, observer)
        if aside is not None:
            from tggm.estimators.guarantee import scores_aside

            with recipe.precision():
                scores = scores_aside(self.fitted_, aside, self.engine(), self.dtype)
            self.fitted_ = self.fitted_._replace(guarantee=scores)
        return self

    def _require_fresh(self, stream: Stream | None, before: Fitted | None) -> None:
        """Raise where rows that are to guarantee intervals cannot be set aside, or were trained on before."""
        if self.guarantee is not None and (stream is not None or before is not None):
            what = "a stream, of which no rows are set aside" if stream is not None else "a warm start"
            raise ValueError(
                f"`guarantee` must be None for {what}; call `recalibrate` afterwards, with rows that the "
                "model was not trained on."
            )

    def _transformed(self, source: Source, before: Fitted | None) -> "Transform | None":
        """The transform of the targets, by which those of the source are replaced; None for none.

        Only of one target that is in memory; going on with an earlier model keeps its own.
        """
        if before is not None:
            chosen = before.transform
        elif self.target_transform is None or isinstance(source, StreamSource) or source.y.Y.shape[1] > 1:
            return None
        else:
            chosen = target_transform(self.target_transform, source.X, source.y, source.weight)
        if chosen is not None and isinstance(source, MemorySource):
            source.y = source.y._replace(Y=chosen.forward(source.y.Y))
        return chosen

    def begin(self, X: ArrayLike, y: ArrayLike) -> Start:
        """What training on these rows starts from; see `fit_together`."""
        recipe = self.recipe()
        source, _ = self._checked(recipe, X, y, None)
        return self._begin(recipe, source, source.y.Y.shape[1], recipe.generator(), None)

    @intact
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """One pass over these rows at a constant learning rate; the first call also standardises by them.

        Rows may come again, so columns of a table learn no usual targets: such rows would see their own. A
        model that `fit` has trained on a table has learned them, and should be given new rows.
        """
        recipe = self.recipe()
        first = not hasattr(self, "fitted_")
        source, _ = self._checked(recipe, X, y, sample_weight, reset=first, told=False)
        n = source.y.Y.shape[1]
        before: Fitted | None = getattr(self, "fitted_", None)
        if before is not None and n != self.b1_.shape[1]:
            raise ValueError(f"`y` has {n} outputs, but this model was fitted to {self.b1_.shape[1]}.")
        if before is not None:
            self._transformed(source, before)
        return self._pass(recipe, source, n)

    def _checked(
        self, recipe: Recipe, X: Any, y: Any, sample_weight: Any, *, reset: bool = True, censored: Any = None,
        told: bool = True, aside_by: np.random.Generator | None = None,
    ) -> tuple[MemorySource, MemorySource | None]:  # fmt: skip
        """Data as float64 matrices, without rows of weight 0 or without any target; and rows set aside.

        If `told`, columns of a table learn of the targets; `aside_by` draws the rows of a guarantee, if any.
        """
        options = {"dtype": np.float64, "multi_output": True, "y_numeric": True}
        X_, y_ = self._validated(X, filled(y), reset=reset, **options)
        self._name_target(y)
        if reset:
            self.flat_target_ = y_.ndim == 1
        targets, weight = checked(y_ if y_.ndim == 1 else y, sample_weight, censored, recipe)
        if not targets.complete:
            recipe.likelihood = "censored"  # in training; predictions are of complete targets
        kept = (weight > 0) & ~np.isnan(targets.Y).all(1)
        aside = None
        if self.guarantee is not None and aside_by is not None:
            from tggm.estimators.guarantee import rows_aside

            aside = rows_aside(targets, kept, self.guarantee, aside_by)
            kept &= ~aside
        if reset:
            known = y_ if y_.ndim == 1 else targets.Y
            X_ = self._learned(X_, known if told else None, kept, aside)
        source = MemorySource(X_[kept], targets.of(kept), weight[kept])
        if aside is None:
            return source, None
        return source, MemorySource(X_[aside], targets.of(aside), weight[aside])

    def started(self, begun: Start, block: RowBlock) -> Model:
        """A linear part starts at the ridge regression of each member's rows, where no target is missing."""
        recipe, rows = begun.recipe, block.data
        if not (recipe.linear and begun.fresh) or recipe.likelihood != self.likelihood:
            return begun.model
        # where rates or steps are the user's, little noise may make the first of them too large
        learned = self.noise is None and recipe.in_cycles and isinstance(self.optimizer, str)
        Y, weight = np.asarray(rows.y, np.float64), np.asarray(block.weight, np.float64)
        X = np.asarray(begun.model.features.inputs(rows.X), np.float64)
        return linear_part.started(begun.model, parts(block.members), X, Y, weight, learned)

    def refined(self, fitted: Fitted, begun: Start, block: RowBlock) -> Fitted:
        """Blended with a linear model, and calibrated, as held-out rows advise."""
        from tggm.predictive.calibration import calibrations
        from tggm.predictive.moments import held_out, some_rows

        recipe, count = begun.recipe, begun.source.n_kept
        # a linear model is compared on all rows
        blends = recipe.linear and begun.source.whole
        blends = blends and self.noise is None and recipe.likelihood == self.likelihood
        if not (blends or self.calibrate):
            return fitted
        engine, rows = engine_of(fitted.method, fitted.model), some_rows(count)
        held = held_out(fitted.model, block, rows, count, engine, self.dtype)
        if blends:
            X = np.asarray(fitted.model.features.inputs(block.data.X), np.float64)[rows]
            Y, weight = (np.asarray(a, np.float64)[rows] for a in (block.data.y, block.weight))
            model, held = linear_part.blended(fitted.model, held, ridge(X, Y, weight))
            fitted = fitted._replace(model=model)
        if not self.calibrate:
            return fitted
        return fitted._replace(calibration=calibrations(fitted.model, fitted.transform, held))

    def _scales(self, source: Source) -> Scales:
        return Scales(source.inputs(self.standardize), source.outputs(self.standardize))

    def _rows(self, scales: Scales, most: float, X: Any, y: Any, *, quick: bool = False) -> Rows:
        dtype = np.dtype(self.dtype)
        if quick:
            return Rows(prepared(X, scales.x, dtype, most=most), prepared(y.Y, scales.y, dtype))
        with np.errstate(over="ignore"):  # values that overflow are seen to before training
            return Rows(scales.x.apply(X, most=most).astype(dtype), y.standardised(scales.y, dtype))

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything a model file holds: arrays, and values that JSON can hold."""
        arrays, meta = super().to_state()
        fitted = self.fitted_
        pool = [[each.kind, *each.numbers] for each in fitted.calibration]
        transform = None if fitted.transform is None else [fitted.transform.kind, *fitted.transform.numbers]
        return arrays, meta | {
            "vector_target": bool(self.flat_target_),
            "calibration": pool,
            "transform": transform,
        }

    def _restored_pool(self, fitted: Fitted, meta: Mapping[str, Any]) -> Fitted:
        from tggm.predictive.calibration import checked as checked_pool
        from tggm.predictive.calibration import has_tails
        from tggm.predictive.transforms import checked_transform

        n = self._n_outputs(fitted)
        pool = tuple(checked_pool(kind, numbers) for kind, *numbers in meta["calibration"])
        if len(pool) not in (0, n):
            raise ValueError(f"{len(pool)} calibrations for {n} outputs")
        transform = meta["transform"]
        if transform is not None:
            transform = checked_transform(transform[0], transform[1:])
            if transform.exponential and any(has_tails(each) for each in pool):
                raise ValueError("with tails heavier than a Gaussian's this transform leaves no mean")
        return fitted._replace(calibration=pool, transform=transform)

    @staticmethod
    def _n_outputs(fitted: Fitted) -> int:
        return len(fitted.scales.y.shift)

    def _restored_outputs(self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> int:
        n = len(arrays["y.shift"])
        self.flat_target_ = yes_or_no(meta, "vector_target")
        if self.flat_target_ and n != 1:
            raise ValueError(f"a vector as target, but {n} outputs")
        return n
