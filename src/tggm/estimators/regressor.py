"""`TGGMRegressor`: nonlinear regression whose predictions are distributions."""

from __future__ import annotations  # `help` shows names such as ArrayLike, not what they stand for

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tggm import settings as check
from tggm.arrays import Floats
from tggm.data import Stream
from tggm.estimators import _fitted as compute
from tggm.estimators._base import TableEstimator
from tggm.estimators._data import numbers_of, read_numbers, row_weights
from tggm.estimators._settings import REGRESSION, Settings
from tggm.estimators._support import require_positive
from tggm.models import Network
from tggm.predictive.base import require_level
from tggm.predictive.member_moments import measured_targets, member_means
from tggm.predictive.support import plan_supports
from tggm.tables.inputs import new_rows
from tggm.training import Observer

if TYPE_CHECKING:
    from tggm.paper import PaperRegressor
    from tggm.predictive import JointPredictive, ScalarPredictive


class TGGMRegressor(MultiOutputMixin, RegressorMixin, TableEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    r"""Regression by a truncated Gaussian graphical model.

    .. math::
        p(h^1|x) = N_T(h^1 | W_0 \psi(x) + b_0, \sigma_0^2 I), \quad
        p(h^2|h^1) = N_T(h^2 | W h^1 + b, \sigma_0^2 I), \quad h \ge 0,

    .. math::
        p(y|h, x) = N(y | W_1 h^2 + A x + b_1, \mathrm{diag}(\sigma_1^2))

    with features ψ and a linear part A x. Several networks (members) are trained; their predictions are
    pooled and calibrated on rows that they held out. `predict_dist` gives the predictive distribution in the
    target's units. The paper's models are `tggm.paper.PaperRegressor`; `paper_ml` and `paper_bp` return them.

    Parameters
    ----------
    hidden : tuple of int, int or "auto", default "auto"
        Number of hidden units in each layer, from the input to the output. "auto" is (50, 50), or 50 for
        more than 100 outputs.
    features : {"auto", "periodic", "bounded"} or None, default "auto"
        Inputs of the first layer: "bounded" columns grow logarithmically beyond four deviations; "periodic"
        adds learned cosines; None uses columns unchanged. "auto" is "periodic" up to 200 columns.
    linear : bool or "auto", default "auto"
        Whether the output has a linear part, initialised by ridge regression. "auto" is True.
    network : tggm.models.Network or None, default None
        Parts of the network; replaces `hidden`, `features` and `linear`.
    n_members : int, default 10
        Number of networks, with different initial weights and held-out rows; their predictions are pooled.
    optimizer : {"auto", "muon", "adam", "rmsprop", "sgd"}, default "auto"
        "muon" orthogonalises the steps of the hidden units' weights and uses Adam for all other parameters.
        "auto" is "muon" from 512 training rows on, and "adam" for fewer.
    learning_rate : float, default 0.01
        Learning rate at the start of each cycle. If ``max_epochs="auto"`` it is multiplied by
        √(4096 / rows), but at least by ½ and at most by 1.
    batch_size : int or "auto", default "auto"
        Rows in a mini-batch. "auto" is 128, and 256 for more than 16,384 rows.
    max_epochs : int or "auto", default "auto"
        Passes over the data. "auto" plans cycles of 300, 900, 2,700 and 8,100 gradient steps. It ends after
        the first cycle that does not gain 0.02 nats per held-out row; the third must gain 1 nat.
    time_budget : float, optional
        Seconds for a fit, with compilation and pooling: training ends with the best parameters so far when
        only the time for pooling is left. At least one epoch is trained. If no time is left after training,
        neither neighbours nor a Gaussian process are used.
    weight_decay : float or "auto", default "auto"
        Multiplies ½‖W‖². The likelihood is a sum over rows, so this is the precision of a Gaussian prior.
        "auto" is 0.3 (n_features − 16) min(1, 200 / rows), at least 0.1.
    cv : float, int or splitter, default 0.1
        Which rows members hold out for early stopping, pooling and calibration. A float is the fraction that
        each member holds out at random; at least two members share these. An integer is a number
        of folds. A splitter of scikit-learn, such as GroupKFold() or TimeSeriesSplit(), splits the rows of
        `fit`. At least two members hold out each fold; with too few members only the last folds are used. If
        a splitter leaves rows out of a training part, its members only determine the number of steps and the
        calibration, and other members, trained on all rows, predict.
    standardize : {"robust", True, False}, default "robust"
        Whether inputs and targets are standardised. "robust" ignores values more than ten robust
        deviations from the median.
    target_transform : {"auto", "log"} or None, default "auto"
        Model the logarithm of the target. "auto" does so if the target has a long tail and a linear model
        then predicts left-out rows better. Predictions are in the target's units.
    calibrate : bool, default True
        Fit the pooling rule on held-out rows; False gives the plain mixture of members.
    neighbors : "auto", False or int, default "auto"
        Whether the nearest training rows are mixed into the predictions, and how many. "auto" uses them if
        this predicts held-out rows better. A model with neighbours contains targets of training rows. Needs
        ``calibrate=True``.
    gaussian_process : bool, default True
        Average the members' means with a Gaussian process if this predicts held-out rows better; for one
        output without censoring, 20 to 2,000 rows and at most 200 columns. The model then contains all
        training rows. Needs ``calibrate=True``, and no `groups` or splitter.
    guarantee : float or None, default None
        Highest level of intervals with guaranteed coverage, see `predict_interval`. A tenth of the rows (with
        `groups`: of the groups), at least level / (1 − level) and at most 10,000, is set aside for this.
    support : {"auto"}, (lower, upper), (lower, upper, step), list of these or None, default "auto"
        Possible values of the targets: limits, None without one, and the step of a lattice, such as 1 for
        counts. Rows at a limit are censored observations, and predictions have a probability there. "auto"
        finds limits and steps in the targets, and uses them where held-out rows are not predicted worse, see
        docs/targets.md. None is a smooth distribution. A list has one entry for each output.
    ignore, categorical, dates : sequence of str or int, default ()
        Names or positions of columns to leave out, and of those that are categories or dates, see
        `TableTransformer`.
    dtype : {"float32", "float64"}, default "float32"
        Type of the numbers in training and in means. Densities are always computed in double precision.
    random_state : int, RandomState or None, default None
        The same seed on the same machine gives the same model.
    checkpoint : path or None, default None
        File in which `fit` stores its state, and from which it resumes after a crash, see docs/scaling.md.
        Needs a fixed `random_state`.
    n_jobs : int or None, default None
        Number of joblib workers that train pairs of members; -1 is one for each core. The result is the same
        for every number. None trains all members together in this process, see docs/scaling.md.
    verbose : bool, default False
        Print progress, the time to the next possible end, and why training ended.

    Attributes
    ----------
    W0_, b0_, W1_, b1_, noise_ : ndarray
        Parameters in the units of the data, with a leading axis of members: shapes (n_members, m, d),
        (n_members, m), (n_members, n, m), (n_members, n) and (n_members, n); `noise_` is σ1². For a
        transformed target they are in its transformed units; W0_ and b0_ act on the features.
    A_ : ndarray, shape (n_members, n, d), or None
        The linear part; it is linear in x within four deviations of the mean.
    between_ : list of (W, b)
        Weights and biases from each hidden layer to the next, with a leading axis of members.
    layers_ : tuple of int
        Number of hidden units in each layer.
    support_ : (lower, upper, step) or None, or a list with one of these for each of several outputs
        Limits and step of the predictions; None for a smooth distribution on all numbers.
    n_iter_ : int
        Epochs run.
    best_epoch_ : ndarray of shape (n_members,)
        Epoch, counted from 1, whose parameters each member kept.
    history_ : dict
        "train" and "held_out": mean objective and mean held-out score, shape (n_members, n_iter_); "epoch":
        their epochs, from 1; at most a thousand in a model file.
    undone_ : ndarray of shape (n_members,)
        Number of steps and epochs of each member that were undone because training diverged.
    evals_result_ : dict
        For each set of `eval_set`, "validation_0" and so on: lists of "epoch" (from 0) and of "rmse",
        "log_likelihood" and "crps" of the mixture of the members before calibration.
    converged_ : bool
        Whether training ended neither by an interruption nor by the failure of a member.
    table_ : TableTransformer or None
        The encoder of a table; None if `fit` was given complete numbers.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    """

    def __init__(
        self, hidden: Sequence[int] | int | str = "auto", *, features: str | None = "auto",
        linear: bool | str = "auto", network: Network | None = None, n_members: int = 10,
        optimizer: str = "auto", learning_rate: float = 0.01, batch_size: int | str = "auto",
        max_epochs: int | str = "auto", time_budget: float | None = None, weight_decay: float | str = "auto",
        cv: Any = 0.1, standardize: bool | str = "robust", target_transform: str | None = "auto",
        calibrate: bool = True, neighbors: bool | int | str = "auto", gaussian_process: bool = True,
        guarantee: float | None = None, support: str | Sequence[Any] | None = "auto",
        ignore: Sequence[str | int] = (), categorical: Sequence[str | int] = (),
        dates: Sequence[str | int] = (), dtype: str = "float32", random_state: Any = None,
        checkpoint: str | os.PathLike[str] | None = None, n_jobs: int | None = None, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    task: ClassVar = "regression"
    _explainable: ClassVar = ("mean", "std")

    @property
    def support_(self) -> tuple[float | None, ...] | list[tuple[float | None, ...] | None] | None:
        """Return lower limit, upper limit and step of the predictions; None for a smooth distribution."""
        check_is_fitted(self, "fitted_")
        found = [None if each is None else tuple(each) for each in self.fitted_.supports]
        return found[0] if len(found) == 1 else found or None

    @classmethod
    def paper_bp(cls, **settings: Any) -> PaperRegressor:
        """Return the paper's TGGM-BP: squared error, σ0² = σ1² = 0.01."""
        from tggm.paper import PaperRegressor

        return PaperRegressor.bp(**settings)

    @classmethod
    def paper_ml(cls, **settings: Any) -> PaperRegressor:
        """Return the paper's TGGM-ML: mean-field EM with 10 cycles, σ0² = σ1² = 0.5."""
        from tggm.paper import PaperRegressor

        return PaperRegressor(**settings)

    def fit(
        self, X: ArrayLike | Stream, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, *,
        groups: ArrayLike | None = None, censored: ArrayLike | str | None = None,
        eval_set: Sequence[tuple[Any, ArrayLike]] | tuple[Any, ArrayLike] | None = None,
        early_stopping_rounds: int | None = None, observer: Observer | None = None,
    ) -> Self:  # fmt: skip
        """Train the ensemble.

        Parameters
        ----------
        X : array_like or data frame, shape (n_rows, n_features), or Stream
            Numbers, with NaN if missing, or a table with words, categories and dates (pandas, Polars, an
            array of objects), which is encoded by a `TableTransformer`, stored as `table_`. A
            `tggm.data.Stream`, or a memory map above 256 MiB, is never loaded as a whole.
        y : array_like, shape (n_rows,) or (n_rows, n_outputs)
            Targets. With several outputs NaN is a missing target. A structured array of scikit-survival has
            an event indicator and a time; times without an event are limits.
        sample_weight : array_like, shape (n_rows,), optional
            Nonnegative; a row of weight 0 is left out, one of weight 2 counts twice.
        groups : array_like, shape (n_rows,), optional
            Group of each row, such as its patient or store. Whole groups are held out, so that widths are
            those for rows of new groups. A splitter in `cv` gets them, too.
        censored : array_like, shape (n_rows,), or "interval", optional
            1 or "right" if the true value is at least `y`, −1 or "left" if it is at most `y`, 0 or "none" if
            `y` was measured; for one output. Predictions are for the true value. With "interval" the columns
            of `y` are the ends of intervals that contain the values; ends may be equal or infinite.
        eval_set : list of (X, y), or (X, y), optional
            Rows to evaluate during training, about 100 times; the scores are in `evals_result_`.
        early_stopping_rounds : int, optional
            End training when the log-likelihood of the last evaluation set has not risen for so many epochs,
            and keep the parameters with its highest value. By default only the rows that members hold out
            are used for this. Scores on the evaluation set are then too good: compute scores on other rows.
        observer : Observer, optional
            Receives reports of progress; by default they are printed if `verbose`.
        """
        settings = Settings.checked(self.get_params(deep=False), REGRESSION)
        rng = check.generator(settings.random_state)
        data = read_numbers(self, X, y, sample_weight, censored, groups, settings, rng)
        self._fit(data, settings, rng, compute.pool_regression, observer, eval_set, early_stopping_rounds)
        return self

    def recalibrate(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Calibrate on rows that no member was trained on; the members do not change.

        Use it when the data have drifted: widths adapt to the new rows, and the weights of neighbours are
        chosen again; the means of the members do not change. At least 20 rows are needed; a few dozen are
        enough for the width, a few hundred for the tails. Guaranteed intervals then use these rows, see
        `predict_interval` and docs/uncertainty.md.

        If the rows to predict have another density, pass the ratio of their density to that of these rows as
        `sample_weight`. The effective number of rows, (Σw)² / Σw², must be at least 20; unequal weights
        remove the guarantee.
        """
        Z = np.nan_to_num(self._inputs(X))
        Y = self._targets(y, len(Z))
        if not np.isfinite(Y).all():
            raise ValueError(f"`y` must be finite; got {Y[~np.isfinite(Y)][0]}. Leave such rows out.")
        require_positive(self.fitted_.transform, Y)
        if self.fitted_.supports:  # raise for targets outside
            plan_supports(list(self.fitted_.supports), Y)
        weight = row_weights(sample_weight, Z)
        kept = weight > 0
        count = check.neighbors(self.neighbors)
        self.fitted_ = compute.recalibrate_model(self.fitted_, Z[kept], Y[kept], weight[kept], count)
        return self

    def predict(self, X: ArrayLike, return_std: bool | str = False) -> Floats | tuple[Floats, ...]:
        """Return the mean of y given x, shaped like `y` in `fit`, and its standard deviation if asked for.

        With ``return_std="parts"`` two parts replace the standard deviation: the noise of y, and the
        disagreement of members, which decreases with more rows. Their squares add up to the variance.
        """
        check_is_fitted(self, "fitted_")
        if isinstance(return_std, str):
            check.one_of("return_std", return_std, ("parts",))
            return tuple(map(self._shaped, compute.mean_noise_disagreement(self.fitted_, self._inputs(X))))
        if return_std:
            return tuple(map(self._shaped, compute.mean_and_std(self.fitted_, self._inputs(X))))
        return self._shaped(compute.mean(self.fitted_, self._inputs(X)))

    def predict_dist(self, X: ArrayLike) -> ScalarPredictive | JointPredictive[Any]:
        """Return the predictive distribution of each row, pooled from the members.

        With ``calibrate=False`` it is the mixture of the members' Gaussians. Calibrated marginals of several
        outputs are joined by a Gaussian copula. See docs/predictive-distributions.md.

        One output has a `ScalarPredictive`: mean, var, std, pdf, logpdf, cdf, ppf, interval, rvs and crps.
        Several have a `JointPredictive`: mean, cov, rvs, and the marginal of each output; without supports
        also the joint logpdf.
        """
        return compute.distribution(self.fitted_, self._inputs(X))

    def predict_interval(
        self, X: ArrayLike, level: float = 0.9, *, guarantee: bool = False
    ) -> tuple[Floats, Floats]:
        """Return the ends of the central interval that contains y with probability `level`.

        Both are shaped like `predict`; several outputs have one interval each.

        With ``guarantee=True`` it is the mean ± q deviations, where q is the smallest number for which
        enough of M calibration rows are inside: rows set aside by the constructor's `guarantee`, or given to
        `recalibrate`. If rows are exchangeable, y is inside with a probability of at least `level`, and of at
        most `level` + 1/(M + 1) if no two scores are equal, on average over sets of M rows and new rows, see
        docs/uncertainty.md. After a fit with `groups`, M is the number of groups set aside, and groups must
        be exchangeable. Rows with limits (`censored`) are left out. ValueError if M is too small.
        """
        if guarantee:
            require_level(level)
            lower, upper = compute.guaranteed_interval(self.fitted_, self._inputs(X), level)
        else:
            ends = [dist.interval(level) for dist in compute.marginals(self.fitted_, self._inputs(X))]
            lower, upper = (np.stack(end, axis=1) for end in zip(*ends, strict=True))
        return self._shaped(lower), self._shaped(upper)

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Floats:
        """Return quantiles of y given x, (n_rows, n_quantiles) or (n_rows, n_outputs, n_quantiles)."""
        q = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        if q.ndim != 1:
            raise ValueError(f"`quantiles` must be a list of probabilities; got shape {q.shape}.")
        Z = self._inputs(X)
        return self._shaped(np.stack([d.ppf(q[None, :]) for d in compute.marginals(self.fitted_, Z)], axis=1))

    def predict_survival(self, X: ArrayLike, times: ArrayLike) -> Floats:
        """Return P(y > t given x) for each of `times`, (n_rows, n_times) or (n_rows, n_outputs, n_times)."""
        t = np.atleast_1d(np.asarray(times, dtype=np.float64))
        if t.ndim != 1 or not np.isfinite(t).all():
            raise ValueError(f"`times` must be a list of finite numbers; got {times!r}.")
        laws = compute.marginals(self.fitted_, self._inputs(X))
        return self._shaped(np.stack([np.exp(law.logsf(t[None])) for law in laws], axis=1))

    def sample(self, X: ArrayLike, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draw y given x, shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)."""
        size = check.count("n_samples", n_samples)
        draws: Floats = np.moveaxis(self.predict_dist(X).rvs(size, random_state=random_state), 0, -1)
        return draws if self.fitted_.flat or draws.ndim == 3 else draws[:, None]

    def _inputs(self, X: ArrayLike) -> Floats:
        """Encode and standardise new rows."""
        Z = compute.standardise(self.fitted_, new_rows(self, X, unknown=True, dtype=np.float64))
        self._warn_beyond(Z)
        return Z

    def _targets(self, y: ArrayLike, rows: int) -> Floats:
        """Return targets of new rows, (rows, n); raise if their number is wrong."""
        Y, n = numbers_of(y), self.b1_.shape[1]
        if len(Y) != rows or Y.size != rows * n:
            raise ValueError(f"`y` must have {rows} rows with {n} targets per row; got shape {Y.shape}.")
        if np.isinf(Y).any():
            raise ValueError("`y` must be finite; got inf. Leave such rows out: keep = np.isfinite(y).")
        return Y.reshape(rows, n)

    def _shaped(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one column as a vector if the target was a vector."""
        return values[:, 0] if self.fitted_.flat else values

    def _answers(self, X: Floats, of: str | float) -> Floats:
        Z = compute.standardise(self.fitted_, X)
        if isinstance(of, float):
            return np.stack([law.ppf(of) for law in compute.marginals(self.fitted_, Z)], axis=1)
        return compute.mean_and_std(self.fitted_, Z)[1] if of == "std" else compute.mean(self.fitted_, Z)

    def _losses(self, X: Floats, y: Any) -> Floats:
        return compute.relative_squares(self._answers(X, "mean"), self._targets(y, len(X)))

    def _held_losses(self, Z: Floats, y: Any, members: list[int]) -> Floats:
        mean = member_means(self.fitted_.model, Z, self.fitted_.dtype)
        return compute.relative_squares(mean[members].mean(0), measured_targets(y))

    def _scores(self, X: Any, y: ArrayLike) -> dict[str, float]:
        Z = self._inputs(X)
        Y = self._targets(y, len(Z))
        known, laws = np.isfinite(Y), compute.marginals(self.fitted_, Z)
        error = compute.mean(self.fitted_, Z) - Y
        crps = [law[np.flatnonzero(k)].crps(t[k]) for law, t, k in zip(laws, Y.T, known.T, strict=True)]
        rows = np.flatnonzero(known.all(1))
        if len(laws) == 1 or self.fitted_.supports:  # without a joint density
            log_density: Any = sum(law[rows].logpdf(t[rows]) for law, t in zip(laws, Y.T, strict=True))
        else:
            log_density = compute.distribution(self.fitted_, Z[rows]).logpdf(Y[rows])
        return {
            "rmse": float(np.sqrt(np.nanmean(error**2))), "log_likelihood": float(log_density.mean()),
            "crps": float(np.concatenate(crps).mean()),
        }  # fmt: skip
