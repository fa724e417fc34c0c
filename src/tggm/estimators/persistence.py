"""How an estimator becomes what a model file holds, and comes back from it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tggm.estimators import state
from tggm.estimators.fitted import Fitted
from tggm.estimators.inputs import TableInputs
from tggm.estimators.recipe import Recipe


class Persistent(TableInputs, ABC):
    """Estimators that files can hold."""

    @abstractmethod
    def recipe(self) -> Recipe:
        """The settings, checked; ValueError for one that cannot work, whatever the data."""

    @abstractmethod
    def adopt(self, fitted: Fitted) -> None:
        """Hold a model, and show its parameters in the units of the data."""

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything a model file holds: arrays, and values that JSON can hold."""
        check_is_fitted(self, "fitted_")
        record = state.Record(self.history_, self.best_epoch_, self.undone_)
        # the table of a file has the names of its columns
        names = getattr(self, "feature_names_in_", None) if self.table_ is None else None
        meta = {
            "settings": state.stored_settings(self.get_params(deep=False), self.fitted_),
            "features": None if names is None else [str(name) for name in names],
            "converged": bool(self.converged_),
            "sizes": state.stored_sizes(self.fitted_),
            "importances": None if self._importances is None else self._importances.tolist(),
        }
        return state.arrays_of(self.fitted_, record), meta

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Self:
        """The estimator that gave this state; ValueError, KeyError or TypeError if there is none."""
        return cls(**cls._restored_settings(meta))._restore(arrays, meta)

    def _restore(self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Self:
        recipe = self.recipe()
        n_inputs, n_outputs = state.n_inputs_of(arrays), self._restored_outputs(arrays, meta)
        state.restore_sizes(recipe, meta["sizes"])
        architecture = recipe.architecture(n_inputs, n_outputs)
        sigma0 = float(self.sigma0)
        fitted, record = state.restored(
            arrays, architecture, recipe.n_members, sigma0, recipe.dtype, self.method
        )
        fitted = self._restored_pool(fitted, meta)
        self.name_features(n_inputs, state.feature_names(meta["features"], n_inputs))
        self.history_, self.best_epoch_, self.undone_ = record
        self._importances = state.importances(meta)
        self.n_iter_ = int(record.history["epoch"][-1]) if len(record.history["epoch"]) else 0
        self.converged_, self.interrupted_ = state.yes_or_no(meta, "converged"), False
        self._state = None
        with np.errstate(all="ignore"):  # a file may hold any numbers
            self.adopt(fitted)
        shown = [a for name, a in vars(self).items() if name in ("W0_", "b0_", "W1_", "b1_", "noise_")]
        if not all(np.isfinite(a).all() for a in shown):
            raise ValueError("parameters and noise must be finite in the units of the data")
        if not all((a > 0).all() for name, a in vars(self).items() if name == "noise_"):
            raise ValueError("the noise vanishes in the units of the data")
        return self

    @classmethod
    def _restored_settings(cls, meta: Mapping[str, Any]) -> dict[str, Any]:
        return state.restored_settings(meta)

    def _restored_pool(self, fitted: Fitted, meta: Mapping[str, Any]) -> Fitted:
        """The model with what its file says of pooling."""
        return fitted

    @abstractmethod
    def _restored_outputs(self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> int:
        """Number of outputs; what belongs to the targets is restored."""
