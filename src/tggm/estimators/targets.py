"""Targets as `fit` takes them: complete, with missing values, or with limits."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tggm.estimators.columns import Columns, Floats
from tggm.estimators.settings import layers
from tggm.models.graph.evidence import Censored
from tggm.models.sides import sides
from tggm.training import METHODS, Objective, Rows
from tggm.training.deep import DEEP_METHODS
from tggm.training.incomplete import INCOMPLETE, IncompleteRows
from tggm.training.lateral import LATERAL


class Targets(NamedTuple):
    """A table of targets, and which of them are limits."""

    Y: Floats  # (rows, n), NaN where missing
    side: Floats | None  # (rows, n), or None if all are measured

    @property
    def complete(self) -> bool:
        """Whether every target is measured."""
        return self.side is None and not np.isnan(self.Y).any()

    def of(self, rows: Any) -> "Targets":
        """Some of the rows."""
        return Targets(self.Y[rows], None if self.side is None else self.side[rows])

    def table(self, X: Floats, dtype: Any) -> Any:
        """What training takes: `Rows`, or `IncompleteRows` if something is missing or a limit."""
        with np.errstate(over="ignore"):  # values that overflow are seen to before training
            X, Y = X.astype(dtype), self.Y.astype(dtype)
        if self.complete:
            return Rows(X, Y)  # type: ignore[arg-type]  # NumPy until training
        side = np.zeros_like(self.Y) if self.side is None else self.side
        return IncompleteRows(X, Y, side.astype(dtype))  # type: ignore[arg-type]  # NumPy until training


def methods(targets: Targets, model: Any) -> Mapping[str, Callable[..., Objective]]:
    """The objectives that these targets can be trained by, in a model with these settings."""
    if model.lateral:
        return LATERAL
    if len(layers(model.hidden)) > 1:
        if not targets.complete:
            raise ValueError(
                "limits (`censored`) and missing targets in `y` need one hidden layer, or tggm.Graph; "
                f"got hidden={model.hidden!r}."
            )
        return DEEP_METHODS[model.deep]
    return METHODS if targets.complete else INCOMPLETE


def checked(Y: Floats, censored: ArrayLike | None, method: str, lateral: int) -> Targets:
    """Targets and limits that go together with method and model; errors say what does not."""
    n = Y.shape[1]
    if n > 1 and (method == "exact" or lateral):
        what = "method='exact' is" if method == "exact" else "`lateral` connections are"
        raise ValueError(f"{what} for one output; `y` has {n}. Use 'ep', or a model for each.")
    side = limits(censored, Y.shape, n)
    if side is not None and lateral:
        raise ValueError("`censored` needs lateral=0; use tggm.Graph for both at once.")
    if np.isnan(Y).all(0).any():
        raise ValueError("`y` has a column without any target; leave it out.")
    return Targets(Y, side)


def refuse_censored(y: Any) -> None:
    """Raise for the way that graphs are told of limits."""
    if isinstance(y, Censored):
        raise ValueError(
            "`y` is a Censored, which is for tggm.Graph; pass its parts: fit(X, y.value, censored=y.side)."
        )


def filled(y: Any) -> Any:
    """Targets with the missing ones of a table of several columns set to 0, for checks that know no NaN.

    A vector, or a table of one column, is left as it is: a row without its only target says nothing.
    """
    array = np.asarray(y)
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind != "f":
        return y
    return np.nan_to_num(array, nan=0.0) if np.isnan(array).any() else y


def limits(censored: ArrayLike | None, shape: tuple[int, ...], n_outputs: int) -> Floats | None:
    """Sides of the targets as numbers, or None if all are measured."""
    if censored is None:
        return None
    if n_outputs > 1:
        raise ValueError(
            f"`censored` is for one output; `y` has {n_outputs}. Use tggm.Graph for limits on several."
        )
    found = sides("censored", censored, shape).reshape(-1, 1)
    return found if found.any() else None


def standardisation(Y: Floats, weight: Floats) -> Columns:
    """Mean and deviation of each column over the rows where it is known."""
    parts = [Columns.of(Y[there, j : j + 1], weight[there]) for j, there in enumerate(~np.isnan(Y).T)]
    found = Columns(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    if (found.scale > 1e150).any():
        raise ValueError(
            f"`y` has a standard deviation of {found.scale.max():.3g}, whose square overflows; divide it."
        )
    return found
