"""Fitted models that predict by NumPy and SciPy alone, made by ``tggm.load(path, backend="numpy")``.

They predict in double precision and cannot be trained.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tggm import formulas
from tggm.arrays import Bools, Floats, Ints
from tggm.data.standardise import require_moderate
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.calibration import Calibration
from tggm.predictive.conformal import class_set
from tggm.predictive.gaussian_mixture import mixtures
from tggm.predictive.gaussian_process import shifted
from tggm.predictive.marginal import Marginal, averages, fill_unknown
from tggm.predictive.neighbors import target_laws
from tggm.predictive.novelty import Neighbourhood, added_variance, moved_inside
from tggm.predictive.numpy_network import BOUNDED, Network, class_log_probabilities
from tggm.settings import flag
from tggm.state import Arrays, Meta, Shapes, State, checked_state
from tggm.tables import Preparation
from tggm.tables.encoder import Encoder
from tggm.tables.inputs import new_rows

BLOCK = 2**13  # numbers of one layer that are computed at once: they fit in a processor's cache
MIN_ROWS = 32  # rows that are computed at once
LIKELIHOOD = {"regression": "Gaussian", "classification": "Probit"}
_JAX = "only JAX computes it: load the model without backend='numpy'"
LACKING = {  # methods of the estimators, and what to do without them
    **dict.fromkeys(("explain", "permutation_importances", "feature_importances_"), _JAX),
    **dict.fromkeys(("recalibrate", "label_log_proba"), _JAX),
    **dict.fromkeys(("get_params", "set_params", "get_metadata_routing"), "use tggm.load(path)"),
    "predict_survival": "use 1 - predict_dist(X).cdf(times[None])",
    "sample": "use predict_dist(X).rvs(size)",
    "decision_function": "use predict_log_proba(X)",
    "score": "use sklearn.metrics with predict(X)",
}


def shapes_of(network: Mapping[str, Any], task: str) -> Callable[[int, int], Shapes]:
    """Return the function that gives the shapes of the parameters of one member, as in a model file."""
    known = {"features": [*BOUNDED], "layers": ["Directed"], "likelihood": [LIKELIHOOD[task]]}
    for part, kinds in known.items():
        if network[part] not in kinds:
            wrong = f"{part} {network[part]!r}"
            raise ValueError(f"only JAX can compute its {wrong}: load it without backend='numpy'")

    def shapes(d: int, n: int) -> Shapes:
        units, width = network["units"], d
        found: dict[str, tuple[int, ...]] = {}
        if network["features"] == "Periodic":
            width, count = d * (1 + formulas.N_SUMS), formulas.N_WAVES
            found |= {"features.c": (d, count), "features.phi": (d, count)}
            found |= {"features.E": (d, formulas.N_SUMS, count)}
        found |= {"hidden.W0": (units[0], width), "hidden.b0": (units[0],), "hidden.s0": ()}
        for k, (below, above) in enumerate(pairwise(units)):
            found |= {f"hidden.W.{k}": (above, below), f"hidden.b.{k}": (above,)}
        found |= {"likelihood.output.W1": (n, units[-1]), "likelihood.output.b1": (n,)}
        found |= {"likelihood.output.A": (n, d)} if network["linear"] else {}
        return found | ({"likelihood.log_noise": (n,)} if task == "regression" else {})

    return shapes


class PortablePredictor:
    """Prepare inputs, some rows at a time."""

    task: ClassVar[str]
    network_: Network
    fitted_: State
    classes_: Any
    table_: Encoder | None
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Raise TypeError: only models with JAX can be trained."""
        raise TypeError(f"a {type(self).__name__} predicts only; load the model without backend='numpy'.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator  # importing it takes longer than a prediction of one row

        return BaseEstimator().__sklearn_tags__()

    @classmethod
    def from_state(cls, arrays: Arrays, meta: Meta, table: Preparation | None = None) -> Self:
        """Return the predictor of a stored estimator; raise like `checked_state`."""
        made, network = cls(), meta["network"]
        made.fitted_ = state = checked_state(arrays, meta, cls.task, shapes_of(network, cls.task))
        parameters = {name: np.asarray(a, np.float64) for name, a in state.parameters.items()}
        made.network_ = Network.of(parameters, network["features"])
        if state.classes is not None:
            made.classes_ = state.classes
        made.table_ = None if table is None else Encoder.of(table)
        count = len(state.scales.x.shift)
        made.n_features_in_ = count if table is None else len(table.names)
        names = (table.names if table.named else None) if table is not None else state.names
        if names is not None:
            made.feature_names_in_ = np.asarray(names, dtype=object)
        return made

    def __getattr__(self, name: str) -> Any:
        """Name the alternative to a public method of the estimators that only JAX computes."""
        if name in LACKING:
            raise AttributeError(f"a {type(self).__name__} has no {name}; {LACKING[name]}.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def standardised(self, xp: Any, X: Any) -> Any:
        """Return standardised inputs, cut off where the features are bounded."""
        (shift, scale), most = self.fitted_.scales.x, formulas.MOST_INPUT
        Z = (X - shift) / scale
        return xp.minimum(xp.maximum(Z, -most), most) if self.network_.bounded else Z

    def _blocks(self, rows: Any) -> Iterator[Any]:
        """Yield rows in blocks that keep intermediate arrays small."""
        size = max(MIN_ROWS, BLOCK // max(b.size for b in (*self.network_.b, self.network_.b1)))
        for begin in range(0, rows.shape[0], size):
            yield rows[begin : begin + size]

    def _inputs(self, X: ArrayLike, **options: Any) -> tuple[Any, Ints | None]:
        """Return standardised inputs, with draws for unknown values (see `predictive.marginal`)."""
        rows = new_rows(self, X, unknown=True, **{"dtype": np.float64, **options})
        if sparse.issparse(rows):
            return rows, None
        full, starts = fill_unknown(self._standardise(rows), self._around)
        return moved_inside(self._around, full, self.fitted_.calibration), starts

    def novelty(self, X: Any) -> Floats:
        """Return how unlike the training rows each row is, shape (n_rows,); see `TGGMRegressor.novelty`."""
        if self._around is None:
            raise ValueError("`novelty` needs a model that was fitted to dense inputs by this version.")
        Z, starts = self._inputs(X)
        return averages(self._around.novelty(Z), starts)

    def _means_and_layer(self, Z: Floats) -> tuple[Floats, Floats]:
        found = [self.network_.outputs(np, some, variances=False) for some in self._blocks(Z)]
        mean, layer = (np.concatenate(a, axis=1) for a in zip(*map(self.network_.layer, found), strict=True))
        return shifted(self.fitted_.process, Z, mean), layer

    @cached_property
    def _around(self) -> Neighbourhood | None:
        train = self.fitted_.train
        return None if train is None else Neighbourhood(train, self._means_and_layer)

    def _standardise(self, rows: Any) -> Floats:
        with np.errstate(over="ignore"):  # `require_moderate` reports values that are too large
            Z: Floats = self.standardised(np, rows)
        require_moderate(Z, "`X`", "leave out rows so far from the training rows")
        return Z


class NumPyRegressor(PortablePredictor):
    """Predict like a fitted `TGGMRegressor`, without JAX."""

    task = "regression"

    @property
    def pools(self) -> tuple[Calibration, ...]:
        """Return the calibration of each output."""
        return self.fitted_.calibration or (Calibration(),) * len(self.fitted_.scales.y.shift)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Return the mean of y given x, and its standard deviation if asked for."""
        flag("return_std", return_std)
        dists = self._distributions(X)
        mean = self._reshape(np.stack([dist.mean() for dist in dists], axis=1))
        return (mean, self._reshape(np.stack([dist.std() for dist in dists], axis=1))) if return_std else mean

    def predict_dist(self, X: ArrayLike) -> ScalarPredictive:
        """Return the predictive distribution of each row, for one output."""
        if len(self.pools) > 1:
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
        (Z, starts), state = self._inputs(X), self.fitted_
        found = [self.network_.outputs(np, some) for some in self._blocks(Z)]
        parts = zip(*map(self.network_.variances, found), strict=True)
        mean, var = (np.concatenate(each, axis=1) for each in parts)  # (members, rows, n)
        mean = shifted(state.process, Z, mean)
        var += added_variance(self._around, Z, var.shape[2], state.calibration)
        near, members = None, mixtures(mean, var, *state.scales.y)
        if state.neighbors is not None:
            places = np.concatenate([each.places(state.neighbors.projection) for each in found])
            near = state.neighbors.near(places)
        dists = target_laws(state.calibration, members, near, state.transform, state.supports)
        return dists if starts is None else [Marginal(dist, starts) for dist in dists]

    def _reshape(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one column as a vector if the target was a vector."""
        return values[:, 0] if self.fitted_.flat else values


class NumPyClassifier(PortablePredictor):
    """Predict like a fitted `TGGMClassifier`, without JAX."""

    task = "classification"

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row."""
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probability of each class, (n_rows, n_classes), in the order of `classes_`."""
        limits = np.finfo(np.float64)
        return np.clip(np.exp(self.predict_log_proba(X)), limits.tiny, 1 - limits.epsneg)

    def predict_set(self, X: ArrayLike, level: float = 0.9) -> Bools:
        """Return which classes are in the prediction set of each row, (n_rows, n_classes)."""
        if self.fitted_.guarantee is None:
            raise ValueError(f"no rows were set aside for sets; fit with guarantee={level:g}.")
        return class_set(self.predict_proba(X), self.fitted_.guarantee[0], level)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithms of the probabilities, with an absolute error of 1e-6 above −1000."""
        parts = []
        rows, starts = self._inputs(X, accept_sparse="csr")
        for some in self._blocks(rows):
            Z = self._standardise(some.toarray()) if sparse.issparse(some) else some
            outputs = self.network_.outputs(np, Z)
            log_p = class_log_probabilities(*outputs.scores())
            if (neighbors := self.fitted_.neighbors) is not None:
                near = neighbors.near(outputs.places(neighbors.projection))
                log_p = near.mix_classes(log_p)
            parts.append(log_p)
        averaged = averages(np.concatenate(parts), starts, log=True)
        return np.minimum(averaged, -np.finfo(np.float64).epsneg)
