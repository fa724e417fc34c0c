"""Fitted models that predict by NumPy and SciPy alone, made by ``tggm.load(path, backend="numpy")``.

They predict in double precision and cannot be trained.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from tggm.arrays import Floats
from tggm.data.standardise import require_moderate
from tggm.deployment._network import Network, class_log_mixture, network_of, nodes_needed
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.calibration import Calibration, checked_calibration, pooled
from tggm.predictive.gaussian_mixture import GaussianMixture
from tggm.predictive.observed import Observed
from tggm.predictive.support import restored_support
from tggm.predictive.transforms import checked_transform
from tggm.settings import flag
from tggm.tables import Preparation, TableTransformer
from tggm.tables.inputs import new_rows
from tggm.tables.schema import restored_classes

BLOCK = 2**13  # numbers of one layer that are computed at once: they fit in a processor's cache
MIN_ROWS = 32  # rows that are computed at once


class PortablePredictor(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Prepare inputs, some rows at a time."""

    fitted_: Network

    def fit(self, X: Any, y: Any = None) -> Self:
        """Raise TypeError: only models with JAX can be trained."""
        raise TypeError(f"a {type(self).__name__} predicts only; load the model without backend='numpy'.")

    def _set_names(self, meta: Mapping[str, Any], table: Preparation | None) -> Self:
        names, count = meta["features"], len(self.fitted_.scales.x.shift)
        if names is not None and (len(names) != count or not all(isinstance(name, str) for name in names)):
            raise ValueError(f"the names of its {count} inputs must be {count} strings")
        self.table_ = None if table is None else TableTransformer.of(table)
        self.n_features_in_ = count if self.table_ is None else self.table_.n_features_in_
        names = names if self.table_ is None else getattr(self.table_, "feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return self

    def _blocks(self, X: ArrayLike, **options: Any) -> Iterator[Floats]:
        """Yield standardised inputs in blocks of rows that keep intermediate arrays small."""
        network = self.fitted_
        rows = new_rows(self, X, **{"dtype": np.float64, **options})
        size = max(MIN_ROWS, BLOCK // max(b.size for b in (*network.b, network.b1)))
        for begin in range(0, rows.shape[0], size):
            some = rows[begin : begin + size]
            with np.errstate(over="ignore"):  # `require_moderate` reports values that are too large
                Z = network.standardise(np, some.toarray() if sparse.issparse(some) else some)
            require_moderate(Z, "`X`", "leave out rows so far from the training rows")
            yield Z


class NumPyRegressor(PortablePredictor):
    """Predict like a fitted `TGGMRegressor`, without JAX."""

    task = "regression"

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any], table: Preparation | None = None
    ) -> Self:
        """Return the predictor of a stored regressor."""
        made = cls()
        made.fitted_ = network_of(arrays, meta)
        n = made.fitted_.b1.shape[1]
        pools = tuple(checked_calibration(kind, numbers) for kind, *numbers in meta["calibration"])
        if len(pools) not in (0, n):
            raise ValueError(f"{len(pools)} calibrations for {n} outputs")
        given = meta["transform"]
        made._transform = None if given is None else checked_transform(given)
        made._support = restored_support(meta["support"], n)
        made._pools = pools or (Calibration(),) * n
        made.flat_target_ = meta["vector_target"] is True
        if made.flat_target_ and n > 1:
            raise ValueError(f"a vector of {n} outputs")
        return made._set_names(meta, table)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Return the mean of y given x, and its standard deviation if asked for."""
        flag("return_std", return_std)
        dists = self._distributions(X)
        mean = self._reshape(np.stack([dist.mean() for dist in dists], axis=1))
        return (mean, self._reshape(np.stack([dist.std() for dist in dists], axis=1))) if return_std else mean

    def predict_dist(self, X: ArrayLike) -> ScalarPredictive:
        """Return the predictive distribution of each row, for one output."""
        if len(self._pools) > 1:
            raise ValueError("the joint distribution of several outputs needs JAX; use predict_quantiles.")
        return self._distributions(X)[0]

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Floats:
        """Return quantiles of y given x, (n_rows, n_quantiles) or (n_rows, n_outputs, n_quantiles)."""
        q = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        return self._reshape(np.stack([dist.ppf(q[None, :]) for dist in self._distributions(X)], axis=1))

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the ends of the central interval that holds y with probability `level`."""
        ends = [dist.interval(level) for dist in self._distributions(X)]
        lower, upper = (np.stack(end, axis=1) for end in zip(*ends, strict=True))
        return self._reshape(lower), self._reshape(upper)

    def _distributions(self, X: ArrayLike) -> list[ScalarPredictive]:
        """Return the calibrated distribution of each output, in the units of the target."""
        found, y = [self.fitted_.outputs(np, Z) for Z in self._blocks(X)], self.fitted_.scales.y
        mean = np.concatenate([each.mean for each in found], axis=1)  # (members, rows, n)
        var = np.concatenate([each.variances() for each in found], axis=1)
        var += np.asarray(self.fitted_.noise)[:, None, :]
        dists: list[ScalarPredictive] = []
        for j, pool in enumerate(self._pools):
            units = {"loc": float(y.shift[j]), "scale": float(y.scale[j])}
            dist = pooled(pool, GaussianMixture(mean[:, :, j], var[:, :, j], **units))
            dist = dist if self._transform is None else self._transform.distribution(dist)
            dists.append(dist if self._support is None else Observed(dist, *self._support))
        return dists

    def _reshape(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one column as a vector if the target was a vector."""
        return values[:, 0] if self.flat_target_ else values


class NumPyClassifier(PortablePredictor):
    """Predict like a fitted `TGGMClassifier`, without JAX."""

    task = "classification"

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any], table: Preparation | None = None
    ) -> Self:
        """Return the predictor of a stored classifier."""
        made = cls()
        made.classes_ = restored_classes(meta)
        made.fitted_ = network_of(arrays, meta, classes=len(made.classes_))
        return made._set_names(meta, table)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probability of each class, (n_rows, n_classes), in the order of `classes_`."""
        limits = np.finfo(np.float64)
        return np.clip(np.exp(self.predict_log_proba(X)), limits.tiny, 1 - limits.epsneg)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithms of the probabilities, with an absolute error of 1e-6 above −1000."""
        parts = []
        for Z in self._blocks(X, accept_sparse="csr"):
            mean, std = self.fitted_.outputs(np, Z).scores()
            parts.append(class_log_mixture(np, mean, std, nodes_needed(mean, std)))
        found: Floats = np.minimum(np.concatenate(parts), -np.finfo(np.float64).epsneg)
        return found
