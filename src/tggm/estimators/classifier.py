"""`TGGMClassifier`: nonlinear classification with calibrated probabilities."""

from __future__ import annotations  # `help` shows names such as ArrayLike, not what they stand for

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from tggm import settings as check
from tggm.arrays import Bools, Floats
from tggm.data import Stream
from tggm.estimators import _class_predictions as compute
from tggm.estimators._base import TableEstimator
from tggm.estimators._data import encoded_labels, read_labels
from tggm.estimators._settings import CLASSIFICATION, Settings
from tggm.models import Network
from tggm.predictive.base import require_level
from tggm.predictive.conformal import class_set
from tggm.runtime import precision
from tggm.tables.inputs import new_rows
from tggm.training import Observer

if TYPE_CHECKING:
    from tggm.paper import PaperClassifier


class TGGMClassifier(ClassifierMixin, TableEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    r"""Classification by a truncated Gaussian graphical model with multinomial probit outputs.

    .. math::
        p(h|x) = N_T(h | W_0 \psi(x) + b_0, \sigma_0^2 I), \quad h \ge 0, \qquad
        z = W_1 h + A x + b_1 + \varepsilon, \quad \varepsilon \sim N(0, I), \qquad
        \text{class} = \mathrm{argmax}_j\, z_j

    Probabilities integrate over the latent variables h and the noise. Inputs may be dense or sparse.

    Parameters
    ----------
    hidden : tuple of int, int or "auto", default "auto"
        Number of hidden units in each layer, from the input to the output. "auto" is (100, 100), or 100 for
        sparse tables and for more than 100 classes.
    features : {"auto", "periodic", "bounded"} or None, default "auto"
        As in `TGGMRegressor`; "auto" is None for sparse tables.
    linear : bool or "auto", default "auto"
        Whether scores have a linear part, and are blended with logistic regression (up to 20,000 rows; the
        weight is fitted on held-out rows). "auto" is True for dense tables of up to 200 columns.
    n_members : int, default 5
        Number of networks, with different initial weights and held-out rows; probabilities are averaged.
    learning_rate : float, default 0.006
        Learning rate at the start of each cycle.
    batch_size : int or "auto", default "auto"
        Rows in a mini-batch. "auto" is 128, and 512 for sparse tables and for more than 16,384 rows.
    max_epochs : int or "auto", default "auto"
        Passes over the data. "auto" plans cycles of 300, 900, 2,700 and 8,100 gradient steps. It ends after
        the first cycle that does not gain 0.01 nats per held-out row, or a twentieth of their log-loss if
        that is less.
    weight_decay : float or "auto", default "auto"
        Multiplies ½‖W‖². The likelihood is a sum over rows, so this is the precision of a Gaussian prior.
        "auto" is n_features / 40, and a fifth of it for sparse tables.
    cv : float, int or splitter, default 0.1
        Which rows members hold out, as in `TGGMRegressor`.
    neighbors : "auto", False or int, default "auto"
        Whether the classes of the nearest training rows are mixed into the probabilities, and how many rows.
        "auto" uses them if this predicts held-out rows better. The model then contains labels of training
        rows.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weights of the rows of each class; "balanced" gives all classes the same total weight.
    standardize : {"robust", True, "whole", False}, default "robust"
        How inputs are standardised: each column without its outliers ("robust"), each column (True), the
        table as one column ("whole", for pixels), or not at all. A sparse table is divided by one number.
    guarantee : float or None, default None
        Highest level of sets of classes with guaranteed coverage, see `predict_set`. Rows are set aside as in
        `TGGMRegressor`.
    network, optimizer, time_budget, ignore, categorical, dates, dtype
        As in `TGGMRegressor`.
    random_state, checkpoint, n_jobs, verbose
        As in `TGGMRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    W0_, b0_, W1_, b1_ : ndarray
        Parameters in the units of the data, with a leading axis of members: shapes (n_members, m, d),
        (n_members, m), (n_members, n, m) and (n_members, n).
    between_, layers_, n_iter_, best_epoch_, history_, undone_, evals_result_, converged_
        As in `TGGMRegressor`.
    table_, n_features_in_, feature_names_in_
        As in `TGGMRegressor`.
    """

    def __init__(
        self, hidden: Sequence[int] | int | str = "auto", *, features: str | None = "auto",
        linear: bool | str = "auto", network: Network | None = None, n_members: int = 5,
        optimizer: str = "auto", learning_rate: float = 0.006, batch_size: int | str = "auto",
        max_epochs: int | str = "auto", time_budget: float | None = None, weight_decay: float | str = "auto",
        cv: Any = 0.1, neighbors: bool | int | str = "auto",
        class_weight: Mapping[Any, float] | str | None = None, standardize: bool | str = "robust",
        guarantee: float | None = None, ignore: Sequence[str | int] = (),
        categorical: Sequence[str | int] = (), dates: Sequence[str | int] = (), dtype: str = "float32",
        random_state: Any = None, checkpoint: str | os.PathLike[str] | None = None, n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    task: ClassVar = "classification"
    _explainable: ClassVar = ("probability", "log-odds")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @classmethod
    def paper_bp(cls, **settings: Any) -> PaperClassifier:
        """Return the paper's TGGM-BP: cross-entropy of E[z | x], σ0² = 0.01."""
        from tggm.paper import PaperClassifier

        return PaperClassifier.bp(**settings)

    @classmethod
    def paper_ml(cls, **settings: Any) -> PaperClassifier:
        """Return the paper's TGGM-ML: factorised mean-field EM, 30 cycles falling to 5, σ0² = 0.5."""
        from tggm.paper import PaperClassifier

        return PaperClassifier(**settings)

    def fit(
        self, X: ArrayLike | Stream, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, *,
        groups: ArrayLike | None = None,
        eval_set: Sequence[tuple[Any, ArrayLike]] | tuple[Any, ArrayLike] | None = None,
        early_stopping_rounds: int | None = None, observer: Observer | None = None,
    ) -> Self:  # fmt: skip
        """Train the ensemble.

        Parameters
        ----------
        X : array_like, data frame or sparse matrix, shape (n_rows, n_features), or Stream
            As in `TGGMRegressor.fit`. A sparse matrix is never made dense as a whole.
        y : array_like, shape (n_rows,)
            Labels: numbers, strings or booleans, of at least two classes.
        sample_weight, groups, early_stopping_rounds, observer
            As in `TGGMRegressor.fit`.
        eval_set
            As in `TGGMRegressor.fit`; `evals_result_` has "log_likelihood", "log_loss" and "accuracy", before
            the blend with logistic regression.
        """
        settings = Settings.checked(self.get_params(deep=False), CLASSIFICATION)
        rng = check.generator(settings.random_state)
        data = read_labels(self, X, y, sample_weight, groups, settings, rng)
        self._fit(data, settings, rng, compute.pool_classes, observer, eval_set, early_stopping_rounds)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = compute.log_probabilities(self.fitted_, self._inputs(X)).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probability of each class, shape (n_rows, n_classes).

        Columns are in the order of `classes_`. Rows sum to 1, and no entry is 0 or 1. The members'
        probabilities are averaged. Scores are approximated by independent normals with variances that match
        those of the differences between likely classes; the error is larger with fewer hidden units.
        """
        limits, inputs = np.finfo(np.float64), self._inputs(X)
        return np.clip(
            np.exp(compute.log_probabilities(self.fitted_, inputs)), limits.tiny, 1 - limits.epsneg
        )

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return log-probabilities, accurate even where a probability underflows."""
        inputs = self._inputs(X)
        return np.minimum(compute.log_probabilities(self.fitted_, inputs), -np.finfo(np.float64).epsneg)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the log-odds of the second class, (n_rows,), or the log-probabilities of several classes."""
        log_p = self.predict_log_proba(X)
        return log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p

    def predict_set(self, X: ArrayLike, level: float = 0.9) -> Bools:
        """Return which classes are in the prediction set of each row, shape (n_rows, n_classes).

        The set contains the most probable classes. The M calibration rows that the constructor's `guarantee`
        set aside determine how many. The class of a new row is in its set with a probability of at least
        `level`, if these rows and the new one are exchangeable; see `predict_interval` of `TGGMRegressor`,
        also for `groups`. The set always contains the most probable class, so the probability is about the
        accuracy if that is higher than `level`. Raises ValueError if M is too small for `level`.
        """
        require_level(level)
        if self.fitted_.guarantee is None:
            raise ValueError(
                f"no rows were set aside for sets of classes: fit with TGGMClassifier(guarantee={level:g})."
            )
        probability = np.exp(compute.log_probabilities(self.fitted_, self._inputs(X)))
        return class_set(probability, self.fitted_.guarantee[0], level)

    def label_log_proba(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Return the log-probability of each row's label, shape (n_rows,)."""
        return _pick_labels(self.predict_log_proba(X), y, self.classes_)

    def _inputs(self, X: ArrayLike) -> Any:
        """Encode new rows; the model standardises them."""
        inputs = new_rows(self, X, unknown=True, accept_sparse="csr", dtype=[np.float64, np.float32])
        if isinstance(inputs, np.ndarray) and self.fitted_.train is not None:
            self._warn_beyond(self.fitted_.standardised(inputs))
        return inputs

    def _answers(self, X: Floats, of: str | float) -> Floats:
        log_p = compute.log_probabilities(self.fitted_, X)
        if of == "log-odds":
            return log_p[:, 1:] - log_p[:, :1] if log_p.shape[1] == 2 else log_p
        p = np.exp(log_p)
        return p[:, 1:] if p.shape[1] == 2 else p

    def _losses(self, X: Floats, y: Any) -> Floats:
        return -_pick_labels(compute.log_probabilities(self.fitted_, X), y, self.classes_)

    def _held_losses(self, Z: Floats, y: Any, members: list[int]) -> Floats:
        with precision(self.fitted_.dtype):
            log_p = compute.mixture_of(self.fitted_.model, Z, members).astype(np.float64)
        return compute.losses(log_p, y)

    def _scores(self, X: Any, y: ArrayLike) -> dict[str, float]:
        log_p = self.predict_log_proba(X)
        right = self.classes_[log_p.argmax(1)] == np.asarray(y)
        score = float(_pick_labels(log_p, y, self.classes_).mean())
        return {"log_likelihood": score, "log_loss": -score, "accuracy": float(right.mean())}


def _pick_labels(log_p: Floats, y: ArrayLike, classes: NDArray[Any]) -> Floats:
    """Return the log-probability of each row's label."""
    label = encoded_labels(y, classes)
    if len(label) != len(log_p):
        raise ValueError(f"`y` has {len(label)} labels, but `X` has {len(log_p)} rows.")
    return log_p[np.arange(len(log_p)), label]
