"""Targets, labels and weights of a fit: checks, limits, the transform, rows set aside for a guarantee."""

from collections.abc import Mapping
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import column_or_1d

from tggm.arrays import Bools, Floats
from tggm.censored import Censored, sides
from tggm.data.standardise import Columns as Standardisation
from tggm.models.layers import Incomplete
from tggm.predictive.conformal import MOST_ROWS, SHARE, fewest_rows
from tggm.predictive.transforms import LogTransform, choose_transform

FARTHEST = 1e4  # robust deviations of a target that training can reach
_SQUARED = 1e150  # largest deviation whose square is a number
UNNAMED = "y"  # name of a target without a name
Labels = NDArray[np.int32]


class Targets(NamedTuple):
    """Targets of a regression, some of which may be missing or limits."""

    Y: Floats  # (rows, n), NaN where missing
    side: Floats | None  # (rows, n) 1 at least Y, −1 at most Y, 0 measured; None if all are measured

    @property
    def complete(self) -> bool:
        """Return whether every target is measured."""
        return self.side is None and not np.isnan(self.Y).any()

    @property
    def measured_rows(self) -> Bools:
        """Return the rows in which all targets are measured."""
        known = np.isfinite(self.Y) if self.side is None else np.isfinite(self.Y) & (self.side == 0)
        return np.asarray(known.all(1), np.bool_)

    def of(self, rows: Any) -> "Targets":
        """Select rows."""
        return Targets(self.Y[rows], None if self.side is None else self.side[rows])

    def standardised(self, columns: Standardisation, dtype: Any) -> Any:
        """Return targets for training: numbers, or `Incomplete` if some are missing or limits."""
        Y = columns.apply(self.Y).astype(dtype)
        if self.complete:
            return Y
        side = np.zeros_like(self.Y) if self.side is None else self.side
        return Incomplete(Y, side.astype(dtype))  # type: ignore[arg-type]  # NumPy until training

    def scales(self, weight: Floats, how: bool | str) -> Standardisation:
        """Return mean and deviation of each column over its known targets."""
        one = partial(Standardisation.robust, farthest=FARTHEST) if how == "robust" else Standardisation.of
        known = enumerate(~np.isnan(self.Y).T)
        parts = [one(self.Y[there, j : j + 1], weight[there]) for j, there in known]
        shift, scale = np.concatenate(parts, axis=1)
        found = Standardisation(shift, require_squares(scale))
        return found if how else Standardisation.unchanged(len(shift))


def read_targets(y: Any, sample_weight: Any, censored: ArrayLike | None) -> tuple[Targets, Floats]:
    """Check targets, limits and weights."""
    Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    weight = row_weights(sample_weight, Y)
    side = _sides(censored, Y.shape)
    if np.isnan(Y).all(0).any():
        raise ValueError("`y` has a column without any target; leave it out.")
    with np.errstate(over="ignore"):
        span = np.nanmax(Y, axis=0) - np.nanmin(Y, axis=0)
    require_squares(span[(span > 0) & (span < 1)])
    return Targets(Y, side), weight


def _sides(censored: ArrayLike | None, shape: tuple[int, ...]) -> Floats | None:
    """Return the sides of limits as numbers; None if all targets are measured."""
    if censored is None:
        return None
    if shape[1] > 1:
        raise ValueError(
            f"`censored` is for one output; `y` has {shape[1]}. Use tggm.Graph for limits on several."
        )
    found: Floats = sides("censored", censored, shape).reshape(-1, 1)
    return found if found.any() else None


def without_gaps(y: Any) -> Any:
    """Set missing targets of several columns to 0, for checks that do not accept NaN."""
    if isinstance(y, Censored):
        raise ValueError(
            "`y` is a Censored, which is for tggm.Graph; pass its parts: fit(X, y.value, censored=y.side)."
        )
    array = np.asarray(y)
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind != "f":
        return y
    return np.nan_to_num(array, nan=0.0) if np.isnan(array).any() else y


def require_positive(transform: LogTransform | None, Y: Floats) -> None:
    """Raise if the model predicts the logarithm of the target, and a target has none."""
    if transform is not None and np.nanmin(Y, initial=np.inf) <= 0:
        raise ValueError(
            f"`y` must be positive, as this model predicts its logarithm; got {np.nanmin(Y):g}. Leave such "
            "rows out."
        )


def read_transform(how: str | None, X: Floats, targets: Targets, weight: Floats) -> LogTransform | None:
    """Return the transform of a single target: the given one, or the one that predicts best."""
    if how is None or targets.Y.shape[1] > 1:
        return None
    least = targets.Y.min()
    if how == "log":
        if least <= 0:
            raise ValueError(
                f"`target_transform` is 'log', which needs positive targets; the least is {least:g}. "
                "Pass 'auto' or None."
            )
        return LogTransform()
    measured = np.ones(len(X), np.bool_) if targets.side is None else targets.side[:, 0] == 0
    found = choose_transform(X[measured], targets.Y[measured, 0], weight[measured])
    return None if least <= 0 else found  # a limit may not be positive


def choose_calibration_rows(targets: Targets, kept: Bools, level: float, rng: np.random.Generator) -> Bools:
    """Draw rows to set aside for guaranteed intervals; only rows whose targets are all measured.

    They train no member and choose nothing, so given all other rows they are exchangeable with new ones.
    """
    complete = np.flatnonzero(kept & targets.measured_rows)
    count, fewest = len(complete), fewest_rows(level)
    if 2 * fewest > count:
        raise ValueError(
            f"`guarantee` is {level:g}, for which {fewest} rows are set aside; at least {2 * fewest} rows "
            f"with measured targets are needed, and there are {count}. Ask for a smaller level, or pass None."
        )
    aside = np.zeros(len(kept), np.bool_)
    size = min(max(fewest, round(SHARE * count)), MOST_ROWS)
    aside[complete[rng.permutation(count)[:size]]] = True
    return aside


def row_weights(sample_weight: Any, X: Any) -> Floats:
    """Return one nonnegative weight per row, 1 by default; not all of them 0."""
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


def require_squares(deviations: Floats) -> Floats:
    """Return the deviations; raise if the square of one overflows or vanishes."""
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


def target_name(y: Any) -> str:
    """Return the name of the target if it has one."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else UNNAMED


def known_classes(y: ArrayLike) -> NDArray[Any]:
    """Return the different labels, sorted; at least two."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"`classes` must be a list of labels; got an array of shape {labels.shape}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("`classes` must be finite; NaN is not a label.")
    classes = np.unique(labels)
    _require_label_type(classes)
    classes = classes.astype(classes.dtype.newbyteorder("="))
    if len(classes) < 2:
        raise ValueError(
            f"`y` has one class only, {classes.tolist()}; a classifier needs at least two classes."
        )
    return classes


def _require_label_type(classes: NDArray[Any]) -> None:
    kind = classes.dtype.kind
    no_words = kind == "O" and not all(isinstance(label, str) for label in classes)
    fractions = kind == "f" and bool((classes != np.round(classes)).any())
    if fractions or no_words or kind in "cSV":
        strange = classes[classes != np.round(classes)] if fractions else classes
        raise ValueError(
            "Unknown label type: `classes` must be words, whole numbers or truth values; got "
            f"{strange[:3].tolist()} (dtype {classes.dtype})."
        )


def require_labels_in_all_rows(y: Any) -> None:
    """Raise if a label is missing: None, NaN or a data frame's NA."""
    labels = np.asarray(y)
    if labels.dtype.kind != "O" or not labels.ndim:
        return
    for row, label in enumerate(labels.ravel()):
        missing = label is None or type(label).__name__ in ("NAType", "NaTType")
        if missing or (isinstance(label, float) and label != label):
            raise ValueError(
                f"`y` has no label in row {row + 1} ({label}); leave such rows out: keep = pd.notna(y), then "
                "fit(X[keep], y[keep])."
            )


def encoded_labels(y: ArrayLike, classes: NDArray[Any]) -> Labels:
    """Return the position of each label in `classes`; raise for unknown labels."""
    y = column_or_1d(y)
    strange = np.setdiff1d(y, classes)
    if len(strange):
        raise ValueError(
            f"`y` contains classes that are not in `classes_`: {strange[:5].tolist()}; "
            f"the model has {classes[:10].tolist()}."
        )
    return np.searchsorted(classes, y).astype(np.int32)


def weighted_rows(
    X: Any, y: Any, sample_weight: Any, class_weight: Mapping[Any, float] | str | None, classes: NDArray[Any]
) -> tuple[Any, Labels, Floats]:
    """Return the rows of positive weight, their labels, and weights times those of their classes."""
    label, weight = encoded_labels(y, classes), row_weights(sample_weight, X)
    if class_weight is not None:
        weight = weight * _class_weights(class_weight, classes, label, weight)[label]
    kept = weight > 0
    if not kept.any():
        raise ValueError("no row has a positive weight: see `sample_weight` and `class_weight`.")
    return (X, label, weight) if kept.all() else (X[kept], label[kept], weight[kept])


def _class_weights(
    given: Mapping[Any, float] | str, classes: NDArray[Any], label: Labels, weight: Floats
) -> Floats:
    if given == "balanced":
        sums = np.bincount(label, weight, len(classes))
        missing = classes[sums == 0]
        if len(missing):
            raise ValueError(
                f"class_weight='balanced' needs rows of every class; {missing[:5].tolist()} have none. "
                "Pass a dict of weights."
            )
        even: Floats = sums.sum() / (len(classes) * sums)
        return even
    found: Floats = compute_class_weight(given, classes=classes, y=classes[label])
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        raise ValueError(
            f"`class_weight` must be finite and at least 0; got {found[wrong][0]} for {classes[wrong][0]!r}."
        )
    return found
