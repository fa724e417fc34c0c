"""`TGGMClassifier`: nonlinear classification whose probabilities mean something."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from tggm import settings
from tggm.blas_lock import blas_lock
from tggm.data import Stream
from tggm.data.standardise import Columns, Scales
from tggm.estimators.class_prediction import ClassPrediction
from tggm.estimators.ensemble import engine_of, intact
from tggm.estimators.fitted import Fitted, Start
from tggm.estimators.inputs import counted
from tggm.estimators.labels import (
    Labels,
    encoded,
    known_classes,
    require_all,
    require_two,
    weighted_rows,
)
from tggm.estimators.presets import CLASSIFICATION, ONE_LAYER_CLASSES
from tggm.estimators.recipe import CLASS_RULES, Recipe
from tggm.estimators.sources import MemorySource, Source, StreamSource, as_stream, prepared
from tggm.estimators.stored_labels import restored_classes, stored_classes
from tggm.training import Rows
from tggm.training.observer import Observer
from tggm.training.rows import RowBlock


class TGGMClassifier(ClassifierMixin, ClassPrediction):  # type: ignore[misc]  # scikit-learn ships no types
    r"""Classification by a truncated Gaussian graphical model with multinomial probit outputs.

    .. math::
        p(h|x) = N_T(h | W_0 \psi(x) + b_0, \sigma_0^2 I), \quad h \ge 0, \qquad
        z = W_1 h + A x + b_1 + \varepsilon, \quad \varepsilon \sim N(0, I), \qquad
        \text{class} = \arg\max_j z_j

    Probabilities integrate over the latent variables h and the noise. Dense and sparse inputs are welcome.

    Parameters
    ----------
    hidden : tuple of int, int or "auto", default "auto"
        Number of hidden units in each layer, from the input to the output. "auto" is (100, 100), or 100 for
        sparse tables, more than 100 classes, and methods that train one layer only.
    features : {"auto", "periodic"} or None, default "auto"
        As in `TGGMRegressor`; "auto" is None for sparse tables.
    linear : bool or "auto", default "auto"
        Whether scores have a linear part, and fall back to logistic regression as far as held-out rows
        advise (up to 20,000 rows); "auto" for the methods "moments" and "bp" and dense tables of up
        to 200 columns.
    method : {"moments", "bp", "meanfield", "ep"}, default "moments"
        What training maximises: the log-probability of the class with h integrated out through the exact
        mean and variance of z given x; the same with h replaced by its mean (back-propagation of the
        cross-entropy); the mean-field bound or EP's estimate of the log-probability, by EM.
    deep : {"directed", "undirected"}, default "directed"
        Form of a model with several hidden layers, see docs/deep.md. Directed: each layer normalised given
        the one below; methods "moments" and "bp". Undirected, the paper's: one joint truncated
        Gaussian; methods "meanfield", "ep", "bp".
    units : {"relu", "tanh", "sigmoid", "learned"}, default "relu"
        As in `TGGMRegressor`; not for ``method="ep"``.
    n_members : int, default 5
        Networks trained at once from different starts and held-out rows; the prediction is their mixture.
    sigma0 : float, default 1.0
        Standard deviation σ0 of the hidden units before truncation. A gauge: the same probabilities can be
        had with any value, it only sets the scale on which weights start, decay and move.
    optimizer : {"auto", "muon", "adam", "rmsprop", "sgd"} or optax.GradientTransformation, default "auto"
        "muon" gives steps of the hidden units' weights equal singular values, and is "adam" for all else.
        "auto" is "muon" for 512 rows to train on or more, and "adam" for fewer and in `partial_fit`.
        A complete optax optimiser brings its own rate and schedule.
    learning_rate : float, default 0.006
    schedule : {"restarts", "cosine", "linear", "constant"}, default "restarts"
        As in `TGGMRegressor`.
    batch_size : int or "auto", default "auto"
        Rows in a mini-batch; more than there are means all of them. "auto" is as in `TGGMRegressor`, but 512
        for sparse tables and for more than 16,384 rows.
    max_epochs : int or "auto", default "auto"
        Passes over the data. "auto" plans cycles of 300, 900, 2,700 and 8,100 gradient steps. It ends after
        the first that does not gain 0.01 nats a held-out row, or a twentieth of their log-loss if that is
        less. With other schedules than "restarts", 5,000 steps.
    time_budget : float, optional
        Seconds after which training ends, with the best parameters so far; compiling does not count.
    weight_decay : float or "auto", default "auto"
        Multiplies ½‖W‖²; the likelihood counts every row, so it is the precision of a Gaussian prior. "auto"
        is n_features / 40, a prior under which the locations W0 x of standardised inputs have one scale, and
        a fifth of it for sparse tables.
    clip : float, default 10.0
        Largest norm of a gradient.
    average : float, default 0.999
        Decay of a running average of the parameters that is judged and kept instead of them; 0 for none.
    dropout : float, default 0.0
        Part of the inputs that every step of training does without, others at random each time: they are 0
        after standardisation, and what is left is divided by 1 − dropout. On images 0.1 to 0.3 is worth
        trying.
    validation_fraction : float, default 0.1
        Part of the rows that each member holds out; from four members on several hold out the same.
    early_stopping : bool, default True
        Keep the parameters of the epoch that is best on the held-out rows, instead of the last.
    patience : int, "auto" or None, default "auto"
        As in `TGGMRegressor`.
    init : {"auto", "scaled", "small", "sharp", "paper"}, default "auto"
        Distribution of the initial weights; "small" begins almost linear and suits text and mean field,
        "paper" is N(0, 0.01) for all. "auto" is "small" for sparse tables, else "scaled".
    solver : {"newton", "cyclic"}, default "newton"
        How ``method="meanfield"`` finds the posterior; "cyclic" is the paper's coordinate update.
    n_cycles : int or tuple of two, default (30, 5)
        Cycles of the cyclic solver, at the beginning and at the end of training.
    factorised : bool, default False
        Whether ``method="meanfield"`` splits q(z) into independent factors, as the paper does; looser.
    prior : {"auto", "guarded", "same", "posterior"}, default "auto"
        How log Z of the prior of an undirected deep model is computed; as in `TGGMRegressor`.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weights of the rows of each class; "balanced" makes all classes count alike.
    standardize : {"robust", True, "whole", False}, default "robust"
        Bring inputs to mean 0 and variance 1 inside: each column, without or with its outliers, or the table
        as a whole (pixels). A sparse table is divided by one number in either case.
    calibrate : bool, default True
        Make the probabilities of the mixture sharper or softer as held-out rows advise (a temperature, and a
        bias for each class where it pays); False leaves them.
    dtype : {"float32", "float64"}, default "float32"
        What is computed in.
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
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    W0_, b0_, W1_, b1_ : ndarray
        Parameters in the units of the data, with a leading axis of members: shapes (n_members, m, d),
        (n_members, m), (n_members, n, m) and (n_members, n).
    between_ : list of (W, b)
        Weights and biases from each hidden layer to the next, with a leading axis of members.
    n_iter_, best_epoch_, history_, undone_, converged_
        As in `TGGMRegressor`.
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
        n_members: int = 5,
        sigma0: float = 1.0,
        optimizer: Any = "auto",
        learning_rate: float = 0.006,
        schedule: str = "restarts",
        batch_size: int | str = "auto",
        max_epochs: int | str = "auto",
        time_budget: float | None = None,
        weight_decay: float | str = "auto",
        clip: float = 10.0,
        average: float = 0.999,
        dropout: float = 0.0,
        validation_fraction: float = 0.1,
        early_stopping: bool = True,
        patience: int | str | None = "auto",
        init: str = "auto",
        solver: str = "newton",
        n_cycles: int | Sequence[int] = (30, 5),
        factorised: bool = False,
        prior: str = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        standardize: bool | str = "robust",
        calibrate: bool = True,
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
        self.n_members = n_members
        self.sigma0 = sigma0
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.time_budget = time_budget
        self.weight_decay = weight_decay
        self.clip = clip
        self.average = average
        self.dropout = dropout
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.patience = patience
        self.init = init
        self.solver = solver
        self.n_cycles = n_cycles
        self.factorised = factorised
        self.prior = prior
        self.class_weight = class_weight
        self.standardize = standardize
        self.calibrate = calibrate
        self.dtype = dtype
        self.warm_start = warm_start
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    task: ClassVar = "classification"
    rules: ClassVar = CLASS_RULES
    likelihood: ClassVar = "probit"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @classmethod
    def paper_bp(cls, **settings: Any) -> Self:
        """The paper's TGGM-BP: cross-entropy of E[z | x], σ0² = 0.01."""
        return cls(**{**CLASSIFICATION, "method": "bp", "sigma0": 0.1, **settings})

    @classmethod
    def paper_ml(cls, **settings: Any) -> Self:
        """The paper's TGGM-ML: factorised mean-field EM, 30 cycles falling to 5, σ0² = 0.5."""
        ml = {"method": "meanfield", "solver": "cyclic", "factorised": True, "sigma0": 0.5**0.5}
        return cls(**{**CLASSIFICATION, **ml, **settings})

    @classmethod
    def one_layer(cls, **settings: Any) -> Self:
        """One network with one hidden layer over the inputs as they are."""
        return cls(**{**ONE_LAYER_CLASSES, **settings})

    @intact
    def fit(
        self,
        X: ArrayLike | Stream,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: tuple[Any, ArrayLike] | None = None,
        eval_patience: int | None = None,
        observer: Observer | None = None,
    ) -> Self:
        """Learn to tell classes apart.

        Parameters
        ----------
        X : array_like, data frame or sparse matrix, shape (n_rows, n_features), or Stream
            As in `TGGMRegressor.fit`. A sparse matrix is never made dense, nor a stream read, as a whole.
        y : array_like, shape (n_rows,)
            Labels: numbers, strings or booleans, of at least two classes.
        sample_weight, observer
            As in `TGGMRegressor.fit`.
        eval_set, eval_patience
            As there; `evals_result_` has "log_loss", which patience is about, and "accuracy", both before
            probabilities are calibrated.
        """
        recipe = self.recipe()
        before: Any = getattr(self, "classes_", None)
        if (stream := as_stream(X, y, sample_weight)) is not None:
            source, rng = self._of_stream(recipe, stream)
        else:
            X_, y_ = self._labelled(X, y, reset=True)
            X_ = self._learned(X_, y_, counted(sample_weight, len(y_)))
            self._name_target(y)
            self.classes_ = known_classes(y_)
            source = self._weighted(X_, y_, sample_weight)
            require_two(source.y, self.classes_)
            rng = recipe.generator()
        same = self.warm_start and np.array_equal(before, self.classes_)
        earlier = getattr(self, "fitted_", None) if same else None
        begun = self._begin(recipe, source, len(self.classes_), rng, earlier)
        self.__dict__.pop("evals_result_", None)
        if eval_set is not None:
            from tggm.estimators.evaluation import watched

            observer = watched(self, begun, eval_set, eval_patience, observer)
        return self._fit(begun, observer)

    @intact
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """One pass over these rows at a constant learning rate.

        The first call needs `classes`, all labels that will ever come, unless `y` has them all; it also
        settles the standardisation. Of tables, see `TGGMRegressor.partial_fit`.
        """
        recipe = self.recipe()
        first = not hasattr(self, "fitted_")
        X_, y_ = self._labelled(X, y, reset=first)
        self._name_target(y)
        if first:
            X_ = self._learned(X_, None, counted(sample_weight, len(y_)))
            self.classes_ = known_classes(y_ if classes is None else classes)
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ValueError(
                f"`classes` must be those of the first call, {self.classes_.tolist()}; "
                f"got {np.unique(np.asarray(classes)).tolist()}."
            )
        source = self._weighted(X_, y_, sample_weight)
        return self._pass(recipe, source, len(self.classes_))

    def _of_stream(self, recipe: Recipe, stream: Stream) -> tuple[Source, np.random.Generator]:
        if self.class_weight is not None:
            raise ValueError(f"`class_weight` must be None for a stream; got {self.class_weight!r}.")
        rng = recipe.generator()
        source = StreamSource(stream, recipe, rng, self._encoded, labels=True)
        self.classes_ = known_classes(source.survey.classes)
        self._name_stream(stream, len(source.inputs(False).scale))
        return source, rng

    def _labelled(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, NDArray[Any]]:
        require_all(y)
        accepted = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        X_, y_ = self._validated(X, y, reset=reset, **accepted)
        check_classification_targets(y_)
        return X_, y_

    def _encoded(self, y: Any) -> Labels:
        return encoded(y, self.classes_)

    def _weighted(self, X: Any, y: NDArray[Any], sample_weight: ArrayLike | None) -> MemorySource:
        label = self._encoded(y)
        return MemorySource(*weighted_rows(X, label, sample_weight, self.class_weight, self.classes_))

    def _scales(self, source: Source) -> Scales:
        return Scales(source.inputs(self.standardize), Columns.unchanged(len(self.classes_)))

    def _rows(self, scales: Scales, most: float, X: Any, y: Any, *, quick: bool = False) -> Rows:
        return Rows(prepared(X, scales.x, np.dtype(self.dtype), most=most), y)

    def refined(self, fitted: Fitted, begun: Start, block: RowBlock) -> Fitted:
        """Blended with a logistic regression, and made as sharp, as held-out rows advise."""
        from tggm.estimators.class_calibration import HeldClasses
        from tggm.estimators.logistic import fallen_back

        model = fitted.model
        with blas_lock(not model.knows_moments):
            held = HeldClasses(block, engine_of(fitted.method, model))
            if begun.recipe.linear and begun.source.whole and not begun.source.sparse:
                model = fallen_back(model, block, held)
            calibration = held.temperature(model) if self.calibrate else ()
        return fitted._replace(model=model, calibration=calibration)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything a model file holds: arrays, and values that JSON can hold."""
        arrays, meta = super().to_state()
        if isinstance(self.class_weight, Mapping):  # JSON's keys are strings; ours may be numbers
            pairs = [[settings.plain(k), settings.plain(v)] for k, v in self.class_weight.items()]
            meta["settings"]["class_weight"] = pairs
        temperature = [x for each in self.fitted_.calibration for x in each.numbers]
        return arrays, meta | stored_classes(self.classes_) | {"temperature": temperature}

    def _restored_pool(self, fitted: Fitted, meta: Mapping[str, Any]) -> Fitted:
        from tggm.predictive.calibration import Calibration
        from tggm.predictive.temperature import KIND, checked_temperature

        numbers = checked_temperature(meta["temperature"], len(self.classes_))
        return fitted._replace(calibration=(Calibration(KIND, numbers),) if numbers else ())

    @classmethod
    def _restored_settings(cls, meta: Mapping[str, Any]) -> dict[str, Any]:
        found = super()._restored_settings(meta)
        if isinstance(found["class_weight"], list):
            found["class_weight"] = {key: float(value) for key, value in found["class_weight"]}
        return found

    def _restored_outputs(self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> int:
        self.classes_ = restored_classes(meta)
        return len(self.classes_)
