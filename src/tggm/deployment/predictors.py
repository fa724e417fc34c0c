"""Fitted models that predict by NumPy and SciPy alone, made by ``tggm.load(path, backend="numpy")``.

They predict in double precision and cannot be trained.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from tggm.arrays import Bools, Floats, Ints
from tggm.data.standardise import require_moderate
from tggm.deployment._network import StoredNetwork, network_of
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.calibration import Calibration, checked_calibration, pooled
from tggm.predictive.conformal import STORED, checked_scores, class_set
from tggm.predictive.gaussian_mixture import GaussianMixture
from tggm.predictive.gaussian_process import checked_process, shifted
from tggm.predictive.marginal import Marginal, fill_unknown, log_averages
from tggm.predictive.neighbors import Neighbors, checked_neighbors, mix_neighbors
from tggm.predictive.novelty import MOST_LOG_VARIANCE, Neighbourhood, added_variance, checked_rows
from tggm.predictive.numpy_network import class_log_mixture, nodes_needed
from tggm.predictive.observed import Observed
from tggm.predictive.support import restored_support
from tggm.predictive.transforms import checked_transform
from tggm.settings import flag
from tggm.tables import Preparation, TableTransformer
from tggm.tables.inputs import new_rows
from tggm.tables.schema import restored_classes

BLOCK = 2**13  # numbers of one layer that are computed at once: they fit in a processor's cache
TRAIN = ("train.low", "train.high", "train.rows")
MIN_ROWS = 32  # rows that are computed at once


class PortablePredictor(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Prepare inputs, some rows at a time."""

    fitted_: StoredNetwork
    neighbors_: Neighbors | None

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

    def _set_rows(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the training rows of a model file."""
        self._train = checked_rows(*(arrays[name] for name in TRAIN)) if TRAIN[0] in arrays else None
        if self._train is not None and self._train.rows.shape[1:] != self._train.low.shape:
            raise ValueError("the stored training rows have another number of inputs than their ranges")

    def _blocks(self, rows: Any) -> Iterator[Any]:
        """Yield rows in blocks that keep intermediate arrays small."""
        size = max(MIN_ROWS, BLOCK // max(b.size for b in (*self.fitted_.b, self.fitted_.b1)))
        for begin in range(0, rows.shape[0], size):
            yield rows[begin : begin + size]

    def _inputs(self, X: ArrayLike, **options: Any) -> tuple[Any, Ints | None]:
        """Return standardised inputs, with draws for unknown values (see `predictive.marginal`)."""
        rows = new_rows(self, X, unknown=True, **{"dtype": np.float64, **options})
        if sparse.issparse(rows):
            return rows, None
        return fill_unknown(self._standardise(rows), None if self._train is None else self._train.rows)

    def _standardise(self, rows: Any) -> Floats:
        with np.errstate(over="ignore"):  # `require_moderate` reports values that are too large
            Z: Floats = self.fitted_.standardise(np, rows)
        require_moderate(Z, "`X`", "leave out rows so far from the training rows")
        return Z


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
        made._calibration, made._pools = pools, pools or (Calibration(),) * n
        layer = made.fitted_.W1.shape[0], made.fitted_.W1.shape[2]
        made.neighbors_ = checked_neighbors(arrays, meta["neighbors"], layer, n, n)
        made._process = checked_process(arrays, meta["process"], len(made.fitted_.scales.x.shift))
        made._set_rows(arrays)
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
        (Z, starts), y = self._inputs(X), self.fitted_.scales.y
        found = [self.fitted_.outputs(np, some) for some in self._blocks(Z)]
        mean = np.concatenate([each.mean for each in found], axis=1)  # (members, rows, n)
        mean = shifted(self._process, Z, mean)
        var = np.concatenate([each.variances() for each in found], axis=1)
        var += np.asarray(self.fitted_.noise)[:, None, :]
        most = np.inf if self._transform is None else MOST_LOG_VARIANCE
        var += added_variance(self._around, Z, mean, var, self._calibration, most)
        members = [
            GaussianMixture(mean[:, :, j], var[:, :, j], loc=float(y.shift[j]), scale=float(y.scale[j]))
            for j in range(len(self._pools))
        ]
        dists = [pooled(*pair) for pair in zip(self._pools, members, strict=True)]
        if self.neighbors_ is not None:
            places = np.concatenate([each.places(self.neighbors_.projection) for each in found])
            dists = mix_neighbors(self.neighbors_.near(places), dists, members)
        if self._transform is not None:
            dists = [self._transform.distribution(dist) for dist in dists]
        if self._support is not None:
            dists = [Observed(dist, *self._support) for dist in dists]
        return dists if starts is None else [Marginal(dist, starts) for dist in dists]

    def _means_and_layer(self, Z: Floats) -> tuple[Floats, Floats]:
        found = [self.fitted_.outputs(np, some, variances=False) for some in self._blocks(Z)]
        mean, layer = (np.concatenate(a, axis=1) for a in zip(*map(self.fitted_.layer, found), strict=True))
        return shifted(self._process, Z, mean), layer

    @cached_property
    def _around(self) -> Neighbourhood | None:
        return None if self._train is None else Neighbourhood(self._train, self._means_and_layer)

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
        layer = made.fitted_.W1.shape[0], made.fitted_.W1.shape[2]
        made.neighbors_ = checked_neighbors(arrays, meta["neighbors"], layer, 0, len(made.classes_))
        given = arrays.get(STORED)
        made._scores = None if given is None else checked_scores(given, classes=True)
        made._set_rows(arrays)
        return made._set_names(meta, table)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probability of each class, (n_rows, n_classes), in the order of `classes_`."""
        limits = np.finfo(np.float64)
        return np.clip(np.exp(self.predict_log_proba(X)), limits.tiny, 1 - limits.epsneg)

    def predict_set(self, X: ArrayLike, level: float = 0.9) -> Bools:
        """Return which classes are in the prediction set of each row, (n_rows, n_classes)."""
        if self._scores is None:
            raise ValueError(
                f"no rows were set aside for sets: fit with TGGMClassifier(guarantee={level:g})."
            )
        return class_set(self.predict_proba(X), self._scores[0], level)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithms of the probabilities, with an absolute error of 1e-6 above −1000."""
        parts = []
        rows, starts = self._inputs(X, accept_sparse="csr")
        for some in self._blocks(rows):
            Z = self._standardise(some.toarray()) if sparse.issparse(some) else some
            outputs = self.fitted_.outputs(np, Z)
            mean, std = outputs.scores()
            log_p = class_log_mixture(np, mean, std, nodes_needed(mean, std))
            if self.neighbors_ is not None:
                near = self.neighbors_.near(outputs.places(self.neighbors_.projection))
                log_p = near.mix_classes(log_p, log=True)
            parts.append(log_p)
        averaged = log_averages(np.concatenate(parts), starts)
        found: Floats = np.minimum(averaged, -np.finfo(np.float64).epsneg)
        return found
