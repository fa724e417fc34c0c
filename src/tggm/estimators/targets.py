"""Targets as `fit` takes them: complete, with missing values, or with limits."""

from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from tggm.arrays import Bools, Floats
from tggm.censored import Censored, sides
from tggm.data.standardise import Columns
from tggm.estimators.recipe import Recipe
from tggm.models.likelihoods import Incomplete

if TYPE_CHECKING:
    from tggm.predictive.transforms import Transform

_SQUARED = 1e150  # deviations whose squares are numbers
FARTHEST = 1e4  # robust deviations of a target that training can reach


class Targets(NamedTuple):
    """A table of targets, and which of them are limits."""

    Y: Floats  # (rows, n), NaN where missing
    side: Floats | None  # (rows, n), or None if all are measured

    @classmethod
    def measured(cls, y: Any) -> "Targets":
        """Numbers, all of which are there."""
        return cls(np.asarray(y, np.float64).reshape(len(y), -1), None)

    @property
    def complete(self) -> bool:
        """Whether every target is measured."""
        return self.side is None and not np.isnan(self.Y).any()

    @property
    def measured_rows(self) -> Bools:
        """Rows whose targets are all there, and none a limit."""
        known = np.isfinite(self.Y) if self.side is None else np.isfinite(self.Y) & (self.side == 0)
        return np.asarray(known.all(1), np.bool_)

    def of(self, rows: Any) -> "Targets":
        """Some of the rows."""
        return Targets(self.Y[rows], None if self.side is None else self.side[rows])

    def standardised(self, columns: Columns, dtype: Any) -> Any:
        """What training takes: numbers, or `Incomplete` ones if something is missing or a limit."""
        Y = columns.apply(self.Y).astype(dtype)
        if self.complete:
            return Y
        side = np.zeros_like(self.Y) if self.side is None else self.side
        return Incomplete(Y, side.astype(dtype))  # type: ignore[arg-type]  # NumPy until training

    def scales(self, weight: Floats, how: bool | str) -> Columns:
        """Mean and deviation of each column over the rows where it is known, or none."""
        one = partial(Columns.robust, farthest=FARTHEST) if how == "robust" else Columns.of
        known = enumerate(~np.isnan(self.Y).T)
        parts = [one(self.Y[there, j : j + 1], weight[there]) for j, there in known]
        shift, scale = np.concatenate(parts, axis=1)
        found = Columns(shift, require_squares(scale))
        return found if how else Columns.unchanged(len(shift))


def checked(y: Any, sample_weight: Any, censored: ArrayLike | None, recipe: Recipe) -> tuple[Targets, Floats]:
    """Targets, limits and weights that go together with method and model; errors say what does not."""
    Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    weight = row_weights(sample_weight, Y)
    n = Y.shape[1]
    require_outputs(n, recipe)
    side = limits(censored, Y.shape, n)
    if side is not None and recipe.lateral:
        raise ValueError("`censored` needs lateral=0; use tggm.Graph for both at once.")
    if side is not None and recipe.units != "relu" and recipe.method.needs == "gaussian":
        raise ValueError(
            f"`censored` with units={recipe.units!r} needs method='moments' or 'bp'; "
            f"got {recipe.given['method']!r}."
        )
    if np.isnan(Y).all(0).any():
        raise ValueError("`y` has a column without any target; leave it out.")
    with np.errstate(over="ignore"):
        span = np.nanmax(Y, axis=0) - np.nanmin(Y, axis=0)
    require_squares(span[(span > 0) & (span < 1)])  # not told from a constant by their squares
    targets = Targets(Y, side)
    if (
        not targets.complete
        and "moments" not in recipe.architecture(1, 1).hidden.offers
        and not recipe.lateral
    ):
        raise ValueError(
            "limits (`censored`) and missing targets in `y` need deep='directed', one hidden layer, or "
            f"tggm.Graph; got hidden={recipe.given['hidden']!r} and deep={recipe.given['deep']!r}."
        )
    return targets, weight


def target_transform(how: str, X: Floats, targets: Targets, weight: Floats) -> "Transform | None":
    """The transform that was asked for, or that measured targets speak for; None for none."""
    from tggm.predictive.transform_choice import chosen_transform
    from tggm.predictive.transforms import LogTransform

    measured = np.ones(len(X), np.bool_) if targets.side is None else targets.side[:, 0] == 0
    y = targets.Y[measured, 0]
    if how == "log":
        if (least := targets.Y.min()) <= 0:
            raise ValueError(
                f"`target_transform` is 'log', which needs positive targets; the least is {least:g}. "
                "Pass 'auto' or None."
            )
        return LogTransform()
    found = chosen_transform(X[measured], y, weight[measured])
    if found.kind == "log" and targets.Y.min() <= 0:  # a limit that is not positive
        return None
    return None if found.kind == "identity" else found


def row_weights(sample_weight: Any, X: Any) -> Floats:
    """One nonnegative number a row, 1 by default; not all of them 0."""
    rows = X.shape[0]
    if sample_weight is None or isinstance(sample_weight, Real):
        given = np.full(rows, 1.0 if sample_weight is None else sample_weight)
    else:
        given = sample_weight
    options = {"ensure_2d": False, "dtype": np.float64, "input_name": "sample_weight", "allow_nd": True}
    weight: Floats = check_array(given, **options)
    if weight.shape != (rows,):
        raise ValueError(
            f"`sample_weight` must be a number for each of the {rows} rows; got shape {weight.shape}."
        )
    if weight.min() < 0:
        raise ValueError(f"Negative values in data passed to `sample_weight`: {weight.min():g} is one.")
    if not weight.any():
        raise ValueError("Sample weights must contain at least one non-zero number (`sample_weight`).")
    return weight


def require_outputs(n: int, recipe: Recipe) -> None:
    """Raise where a method or model for one output is given several."""
    if n > 1 and (recipe.given["method"] == "exact" or recipe.lateral):
        what = "method='exact' is" if recipe.given["method"] == "exact" else "`lateral` connections are"
        raise ValueError(f"{what} for one output; `y` has {n}. Use 'ep', or a model for each.")


def require_squares(deviations: Floats) -> Floats:
    """The same, unless one is so large that its square overflows, or so small that it vanishes."""
    for wrong, what, remedy in (
        (deviations > _SQUARED, "overflows", "divide"),
        (deviations < 1 / _SQUARED, "vanishes", "multiply"),
    ):
        if wrong.any():
            raise ValueError(
                f"`y` has a standard deviation of {deviations[wrong][0]:.3g}, whose square {what}; "
                f"{remedy} it."
            )
    return deviations


def filled(y: Any) -> Any:
    """Targets with the missing ones of a table of several columns set to 0, for checks that know no NaN.

    A vector, or a table of one column, is left as it is: a row without its only target says nothing.
    """
    if isinstance(y, Censored):
        raise ValueError(
            "`y` is a Censored, which is for tggm.Graph; pass its parts: fit(X, y.value, censored=y.side)."
        )
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
