"""Fitted models that predict by NumPy and SciPy alone, for places where JAX cannot be installed.

They are made by ``tggm.load(path, backend="numpy")``. They predict in double precision whatever the model was
trained in, and cannot be trained.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tggm.arrays import Floats
from tggm.data.standardise import Columns, require_moderate
from tggm.deployment.arithmetic import NumPyArithmetic
from tggm.deployment.classes import log_probabilities, mixed, nodes_needed, scores
from tggm.deployment.network import outputs, variances
from tggm.deployment.weights import Weights, weights_of
from tggm.estimators.inputs import TableInputs
from tggm.estimators.stored_labels import restored_classes
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.calibration import Calibration, checked, pooled
from tggm.predictive.moment import MomentPredictive
from tggm.predictive.temperature import checked_temperature
from tggm.predictive.transformed import Transformed
from tggm.predictive.transforms import Transform, checked_transform
from tggm.settings import flag

BLOCK = 2**13  # numbers of one layer that are computed at once: what a processor's cache holds
SHAPED = ("linear", "beta")  # pools of which more than the members' moments matters
FEWEST_ROWS = 32  # at once
NUMPY = NumPyArithmetic()


class InputScales(NamedTuple):
    """How inputs are standardised."""

    x: Columns


class PortableFit(NamedTuple):
    """What a file says of a fit, as far as predictions need it."""

    weights: Weights
    scales: InputScales
    calibration: tuple[Calibration, ...] = ()
    transform: Transform | None = None
    temperature: tuple[float, ...] = ()


class PortablePredictor(TableInputs, ABC):
    """What both predictors share: inputs in units of the model, some rows at a time."""

    fitted_: PortableFit

    @classmethod
    @abstractmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Self:
        """The predictor of a stored model; ValueError, KeyError or TypeError if there is none."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Raise: it predicts only."""
        raise TypeError(f"a {type(self).__name__} predicts only; load the model without backend='numpy'.")

    def _named(self, meta: Mapping[str, Any]) -> Self:
        names, count = meta["features"], len(self.fitted_.scales.x.shift)
        if names is not None and (len(names) != count or not all(isinstance(name, str) for name in names)):
            raise ValueError(f"the names of its {count} inputs must be as many words")
        self.name_features(count, names)
        return self

    def _blocks(self, X: ArrayLike) -> Iterator[Floats]:
        """Standardised inputs, so many rows that intermediate arrays stay small."""
        w = self.fitted_.weights
        Z: Floats = w.x.apply(self._new_rows(X, {"dtype": np.float64}), most=w.most)
        require_moderate(Z, "`X`", "leave out rows so far from what the model has seen")
        size = max(FEWEST_ROWS, BLOCK // max(layer.b.size for layer in (*w.layers, w.output)))
        for begin in range(0, len(Z), size):
            yield Z[begin : begin + size]


class NumPyRegressor(PortablePredictor):
    """What a fitted `TGGMRegressor` predicts, without JAX."""

    task = "regression"

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Self:
        """The predictor of a stored regressor."""
        w = weights_of(arrays, meta)
        pools = tuple(checked(kind, numbers) for kind, *numbers in meta["calibration"])
        if len(pools) not in (0, w.n_outputs):
            raise ValueError(f"{len(pools)} calibrations for {w.n_outputs} outputs")
        given = meta["transform"]
        transform = None if given is None else checked_transform(given[0], given[1:])
        made = cls()
        made.fitted_ = PortableFit(w, InputScales(w.x), pools, transform)
        made.flat_target_ = meta["vector_target"] is True
        if made.flat_target_ and w.n_outputs > 1:
            raise ValueError(f"a vector of {w.n_outputs} outputs")
        return made._named(meta)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Mean of y given x, and its standard deviation if asked for; shaped as the target was."""
        flag("return_std", return_std)
        mean, var = self._moments(X)
        if not self._reshaped(return_std):
            y = self.fitted_.weights.y
            centre = self._shaped(mean.mean(0) * y.scale + y.shift)
            spread = np.sqrt(var.mean(0) + mean.var(0)) * y.scale
            return (centre, self._shaped(spread)) if return_std else centre
        laws = self._laws(mean, var)
        centre = self._shaped(np.stack([law.mean() for law in laws], axis=1))
        if not return_std:
            return centre
        return centre, self._shaped(np.stack([law.std() for law in laws], axis=1))

    def predict_dist(self, X: ArrayLike) -> ScalarPredictive:
        """The predictive distribution of each row, for one output."""
        if self.fitted_.weights.n_outputs > 1:
            raise ValueError("the joint distribution of several outputs needs JAX; ask for quantiles.")
        return self._laws(*self._moments(X))[0]

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Floats:
        """Quantiles of y given x, shape (n_rows, n_quantiles) or (n_rows, n_outputs, n_quantiles)."""
        q = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        laws = self._laws(*self._moments(X))
        return self._shaped(np.stack([law.ppf(q[None, :]) for law in laws], axis=1))

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> tuple[Floats, Floats]:
        """Lower and upper end of the central interval that holds y with probability `level`."""
        ends = [law.interval(level) for law in self._laws(*self._moments(X))]
        lower, upper = (np.stack(end, axis=1) for end in zip(*ends, strict=True))
        return self._shaped(lower), self._shaped(upper)

    def score_samples(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Log-density of each row's target, in the target's units, shape (n_rows,)."""
        Y = np.asarray(y, dtype=np.float64)
        return self.predict_dist(X).logpdf(Y.reshape(len(Y)))

    def _moments(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Mean and variance of every member, (members, rows, n) each, on the scale of the model."""
        w = self.fitted_.weights
        means, spreads = [], []
        for Z in self._blocks(X):
            found = outputs(NUMPY, w, Z)
            means.append(found.mean)
            spreads.append(variances(NUMPY, found) + np.asarray(w.noise)[:, None, :])
        return np.concatenate(means, axis=1), np.concatenate(spreads, axis=1)

    def _reshaped(self, spread: bool) -> bool:
        """Whether means (and deviations) are others than those of the mixture of members."""
        kinds = {pool.kind for pool in self.fitted_.calibration}
        return self.fitted_.transform is not None or "beta" in kinds or (spread and not kinds <= {"linear"})

    def _laws(self, mean: Floats, var: Floats) -> list[ScalarPredictive]:
        """The calibrated distribution of each output, in the units of the target."""
        fit, y = self.fitted_, self.fitted_.weights.y
        made: list[ScalarPredictive] = []
        for j in range(mean.shape[2]):
            units = {"loc": float(y.shift[j]), "scale": float(y.scale[j])}
            law: ScalarPredictive = MomentPredictive(mean[:, :, j], var[:, :, j], **units)
            law = pooled(self.pool(j, shape=True), law)
            made.append(law if fit.transform is None else Transformed(law, fit.transform))
        return made

    def pool(self, j: int, *, shape: bool) -> Calibration:
        """How members are pooled; ValueError where more than their moments matters and they are no Gaussians.

        `shape` says that quantiles or densities are asked for.
        """
        fit = self.fitted_
        found = fit.calibration[j] if fit.calibration else Calibration()
        if len(fit.weights.layers) == 1 and found.kind in SHAPED and (shape or self._reshaped(True)):
            raise ValueError(
                "one hidden layer has an exact density, which needs JAX; without it there are means and "
                "deviations only, and these of the plain mixture. Fit two layers, or load it with JAX."
            )
        return found

    def _shaped(self, values: NDArray[Any]) -> NDArray[Any]:
        """One column as a vector, if the target was one."""
        return values[:, 0] if self.flat_target_ else values


class NumPyClassifier(PortablePredictor):
    """What a fitted `TGGMClassifier` predicts, without JAX."""

    task = "classification"

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Self:
        """The predictor of a stored classifier."""
        made = cls()
        made.classes_ = restored_classes(meta)
        w = weights_of(arrays, meta, classes=len(made.classes_))
        numbers = checked_temperature(meta["temperature"], len(made.classes_))
        made.fitted_ = PortableFit(w, InputScales(w.x), temperature=numbers)
        return made._named(meta)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probability of each class, shape (n_rows, n_classes), in the order of `classes_`."""
        limits = np.finfo(np.float64)
        found: Floats = np.clip(np.exp(self.predict_log_proba(X)), limits.tiny, 1 - limits.epsneg)
        return found

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithms of the probabilities, finite, with an absolute error of 1e-6 above −1000."""
        log_p = np.concatenate([self._mixture(Z) for Z in self._blocks(X)])
        found: Floats = np.minimum(log_p, -np.finfo(np.float64).epsneg)
        return found

    def _mixture(self, Z: Floats) -> Floats:
        """Log-probabilities of all members together."""
        mean, std = scores(NUMPY, outputs(NUMPY, self.fitted_.weights, Z))
        sizes = {"members": len(mean), "n": mean.shape[2], "n_nodes": nodes_needed(mean, std)}
        log_p = log_probabilities(NUMPY, mean, std, **sizes)
        found: Floats = mixed(NUMPY, log_p, len(mean), self.fitted_.temperature)
        return found
