"""What a fitted regressor says about new rows."""

from abc import ABC
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from tggm import settings
from tggm.arrays import Floats
from tggm.data.standardise import require_moderate
from tggm.estimators.ensemble import Ensemble
from tggm.estimators.fitted import Fitted
from tggm.models.likelihoods import measured
from tggm.predictive.base import require_level
from tggm.predictive.moments import member_means, member_moments

if TYPE_CHECKING:  # a fit and a mean do not need them: they are imported when asked for
    from tggm.predictive import JointPredictive, ScalarPredictive


class Prediction(Ensemble, ABC):
    """Means, deviations, intervals and whole distributions of y given x."""

    explainable = ("mean", "std")

    def predict(self, X: ArrayLike, return_std: bool | str = False) -> Floats | tuple[Floats, ...]:
        """Mean of y given x, and its standard deviation if asked for.

        Returns
        -------
        mean : ndarray, shape (n_rows,) or (n_rows, n_outputs)
            As `y` was given to `fit`.
        std : ndarray of the same shape
            Only with ``return_std=True``.
        noise, disagreement : ndarray of the same shape
            Instead of it with ``return_std="parts"``: what members say of the scatter of y, and what they do
            not agree on; more rows shrink the second only. Their squares add up to that of the deviation.
        """
        check_is_fitted(self, "fitted_")
        if isinstance(return_std, str):
            settings.one_of("return_std", return_std, ("parts",))
            return self._parts(X)
        if self._reshaped(return_std):
            marginals = self._marginals(X)
            centre = self._shaped(np.stack([each.mean() for each in marginals], axis=1))
            if not return_std:
                return centre
            return centre, self._shaped(np.stack([each.std() for each in marginals], axis=1))
        given = self.fitted_.model, self._standardised(X), self.engine(), self.dtype
        y = self.fitted_.scales.y
        with self._precision():
            if not return_std:
                return self._shaped(member_means(*given).mean(0) * y.scale + y.shift)
            mean, var = member_moments(*given)
        spread = np.sqrt(var.mean(0) + mean.var(0)) * y.scale
        return self._shaped(mean.mean(0) * y.scale + y.shift), self._shaped(spread)

    def predict_dist(self, X: ArrayLike) -> "ScalarPredictive | JointPredictive[Any]":
        """The predictive distribution of each row, pooled from the members.

        With ``calibrate=False`` it is the mixture of their densities: exact for one hidden layer; EP's with
        lateral connections; Gaussians with the moments of y for several layers. Calibrated marginals of
        several outputs are joined by a Gaussian copula. See docs/predictive-distributions.md.

        Returns
        -------
        ScalarPredictive
            For one output: mean, var, std, pdf, logpdf, cdf, ppf, interval, rvs and crps.
        JointPredictive
            For several: mean, cov, rvs, joint logpdf, and the marginal of each output.
        """
        from tggm.predictive.choice import joint
        from tggm.predictive.copula import joined

        if self.b1_.shape[1] == 1:
            return self._marginals(X)[0]
        Z, fitted = self._standardised(X), self.fitted_
        members = joint(fitted.model, Z, self.engine(), *fitted.scales.y)
        return joined(fitted.calibration, members)

    def predict_interval(
        self, X: ArrayLike, level: float = 0.9, *, guarantee: bool = False
    ) -> tuple[Floats, Floats]:
        """Lower and upper end of the central interval that holds y with probability `level`.

        Shaped like `predict`; for several outputs, the interval of each by itself.

        With ``guarantee=True`` it is the mean ± q deviations, where q is the least that held enough of M rows
        set aside by the constructor's `guarantee`, or given to `recalibrate`. Then y is inside with a
        probability of at least `level`, and of at most `level` + 1/(M + 1) if no two scores are equal. It is
        an average over sets of M rows and new rows. It holds for every distribution and every model, if the
        rows are exchangeable (for example drawn independently from one distribution). For one fit the
        probability scatters around it by √(level (1 − level) / (M + 2)). It is no promise for a single x or a
        group of rows, nor after a drift. Rows with limits (`censored`) do not count, and weights are ignored.
        ValueError if M is too small for `level`.
        """
        if guarantee:
            from tggm.estimators.guarantee import guaranteed

            require_level(level)
            Z = self._standardised(X)
            with self._precision():
                lower, upper = guaranteed(self.fitted_, Z, level, self.engine(), self.dtype)
            return self._shaped(lower), self._shaped(upper)
        ends = [dist.interval(level) for dist in self._marginals(X)]
        lower, upper = (np.stack(end, axis=1) for end in zip(*ends, strict=True))
        return self._shaped(lower), self._shaped(upper)

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Floats:
        """Quantiles of y given x, shape (n_rows, n_quantiles) or (n_rows, n_outputs, n_quantiles)."""
        q = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        if q.ndim != 1:
            raise ValueError(f"`quantiles` must be a list of probabilities; got shape {q.shape}.")
        return self._shaped(np.stack([dist.ppf(q[None, :]) for dist in self._marginals(X)], axis=1))

    def score_samples(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Log-density of each row's target, in the target's units, shape (n_rows,)."""
        dist = self.predict_dist(X)
        Y = np.asarray(y, dtype=np.float64)
        log_density: Floats = dist.logpdf(Y.reshape(len(Y)) if self.b1_.shape[1] == 1 else Y)
        return log_density

    def sample(self, X: ArrayLike, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draws of y given x, shape (n_samples, n_rows) or (n_samples, n_rows, n_outputs)."""
        size = settings.count("n_samples", n_samples)
        draws: Floats = self.predict_dist(X).rvs(size, random_state=random_state)
        return draws if self.flat_target_ or draws.ndim == 3 else draws[:, :, None]

    def eval_figures(self, X: Any, y: ArrayLike) -> dict[str, float]:
        """What `fit` watches of an `eval_set`; training may end when the first no longer falls."""
        mean = np.asarray(self.predict(X))
        error = mean - np.asarray(y, np.float64).reshape(mean.shape)
        return {"rmse": float(np.sqrt(np.nanmean(error**2)))}

    def _answers(self, X: Floats, what: str) -> Floats:
        if what == "std":
            return np.asarray(self.predict(X, return_std=True)[1]).reshape(len(X), -1)
        return np.asarray(self.predict(X)).reshape(len(X), -1)

    def _losses(self, X: Floats, y: Any) -> Floats:
        return _relative_squares(self._answers(X, "mean"), np.asarray(y, np.float64).reshape(len(X), -1))

    def _held_losses(self, Z: Floats, y: Any, members: list[int]) -> Floats:
        with self._precision():
            mean = member_means(self.fitted_.model, Z, self.engine(), self.dtype)
        return _relative_squares(mean[members].mean(0), measured(y))

    def _reshaped(self, spread: bool) -> bool:
        """Whether means (and deviations) are others than those of the mixture of members."""
        fitted: Fitted = self.fitted_
        kinds = {each.kind for each in fitted.calibration}
        return fitted.transform is not None or "beta" in kinds or (spread and not kinds <= {"linear"})

    def _parts(self, X: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Mean, noise and disagreement."""
        from tggm.predictive.calibration import Calibration, factors_of
        from tggm.predictive.pools import disagreement

        members = self._mixtures(X)
        found = []
        pools = self.fitted_.calibration or (Calibration(),) * len(members)
        for mixture, pool, law in zip(members, pools, self._pooled(members), strict=True):
            _, noise, between = disagreement(mixture)
            f, g = factors_of(pool)
            share = f**2 * noise / (f**2 * noise + g**2 * between)
            found.append((law.mean(), law.std() * np.sqrt(share), law.std() * np.sqrt(1 - share)))
        mean, noise, apart = (self._shaped(np.stack(part, axis=1)) for part in zip(*found, strict=True))
        return mean, noise, apart

    def recalibrate(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn again how members are pooled, from rows that none of them was trained on; members stay.

        Use it when the data have drifted: widths follow the fresh rows, means do not. A few dozen rows are
        enough for the width, a few hundred for the tails. Guaranteed intervals then use these rows, see
        `predict_interval` and docs/uncertainty.md.
        """
        from tggm.estimators.guarantee import in_units_of_the_model, scores_of_rows
        from tggm.predictive.calibration import calibrations
        from tggm.predictive.moments import unseen

        Z, fitted = self._standardised(X), self.fitted_
        Y = np.asarray(y, dtype=np.float64).reshape(len(Z), -1)
        if Y.shape[1] != self.b1_.shape[1]:
            raise ValueError(f"`y` must have {self.b1_.shape[1]} targets a row; got shape {np.shape(y)}.")
        if not np.isfinite(Y).all():
            raise ValueError(f"`y` must be finite; got {Y[~np.isfinite(Y)][0]}. Leave such rows out.")
        Y = in_units_of_the_model(fitted, Y)
        with self._precision():
            rows = unseen(fitted.model, Z, Y, self.engine(), self.dtype)
            scores = scores_of_rows(fitted, Z, Y, self.engine(), self.dtype)
        pools = calibrations(fitted.model, fitted.transform, rows)
        self.fitted_ = fitted._replace(calibration=pools, guarantee=scores)
        return self

    def _marginals(self, X: ArrayLike) -> "list[ScalarPredictive]":
        """The calibrated distribution of each output, in the units of the target."""
        return self._pooled(self._mixtures(X))

    def _mixtures(self, X: ArrayLike) -> "list[ScalarPredictive]":
        """The mixture of members, output by output."""
        from tggm.predictive.choice import marginal

        Z, fitted, engine = self._standardised(X), self.fitted_, self.engine()
        with self._precision():
            return [marginal(fitted.model, Z, j, engine, *fitted.scales.y) for j in range(self.b1_.shape[1])]

    def _pooled(self, found: "list[ScalarPredictive]") -> "list[ScalarPredictive]":
        from tggm.predictive.calibration import pooled
        from tggm.predictive.transformed import Transformed

        fitted: Fitted = self.fitted_
        if fitted.calibration:
            found = [pooled(*pair) for pair in zip(fitted.calibration, found, strict=True)]
        if fitted.transform is not None:
            found = [Transformed(each, fitted.transform) for each in found]
        return found

    def _standardised(self, X: ArrayLike) -> Floats:
        """Inputs of new rows on the scale of the model."""
        table, fitted = self._new_rows(X, {"dtype": np.float64}), self.fitted_
        Z: Floats = fitted.scales.x.apply(table, most=fitted.model.features.most)
        require_moderate(Z, "`X`", "leave out rows so far from what the model has seen")
        return Z

    def _shaped(self, values: NDArray[Any]) -> NDArray[Any]:
        """One column as a vector, if the target was one."""
        return values[:, 0] if self.flat_target_ else values


def _relative_squares(mean: Floats, Y: Floats) -> Floats:
    """Squared errors as parts of the variance of each output, averaged over outputs; unknown ones are 0."""
    known = np.where(np.isnan(Y).all(0), 0.0, Y)  # nothing is known of an output without targets
    variance = np.nanvar(known, axis=0, keepdims=True)
    parts = (Y - mean) ** 2 / np.where(variance > 0, variance, 1.0)
    found: Floats = np.where(np.isnan(parts), 0.0, parts).mean(1)
    return found
