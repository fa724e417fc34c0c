"""Labels of a classifier: which there are, where each stands among them, and what its rows weigh."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import column_or_1d

from tggm.arrays import Floats
from tggm.estimators.targets import row_weights
from tggm.settings import plain

Labels = NDArray[np.int32]


def known_classes(y: ArrayLike) -> NDArray[Any]:
    """The different labels, sorted; there must be two at least."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"`classes` must be a list of labels; got an array of shape {labels.shape}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("`classes` must be finite; NaN is no label.")
    classes = np.unique(labels)
    _require_labels(classes)
    classes = classes.astype(classes.dtype.newbyteorder("="))  # as files have them
    if len(classes) < 2:
        raise ValueError(
            f"`y` has one class only, {classes.tolist()}; a classifier needs at least two classes."
        )
    return classes


def require_all(y: Any) -> None:
    """Raise where a label is missing: None, NaN or a data frame's NA."""
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


def _require_labels(classes: NDArray[Any]) -> None:
    """Raise for values that are no labels.

    (What scikit-learn offers for this also warns where most values are different, as all classes are.)
    """
    kind = classes.dtype.kind
    no_words = kind == "O" and not all(isinstance(label, str) for label in classes)
    fractions = kind == "f" and bool((classes != np.round(classes)).any())
    if fractions or no_words or kind in "cSV":
        strange = classes[classes != np.round(classes)] if fractions else classes
        raise ValueError(
            "Unknown label type: `classes` must be words, whole numbers or truth values; got "
            f"{strange[:3].tolist()} (dtype {classes.dtype})."
        )


def encoded(y: ArrayLike, classes: NDArray[Any]) -> Labels:
    """Position of each label among `classes`; labels that are not there are an error."""
    y = column_or_1d(y)
    strange = np.setdiff1d(y, classes)
    if len(strange):
        raise ValueError(
            f"`y` contains classes that are not in `classes_`: {strange[:5].tolist()}; "
            f"the model knows {classes[:10].tolist()}."
        )
    return np.searchsorted(classes, y).astype(np.int32)


def weighted_rows(
    X: Any,
    label: Labels,
    sample_weight: ArrayLike | None,
    class_weight: Mapping[Any, float] | str | None,
    classes: NDArray[Any],
) -> tuple[Any, Labels, Floats]:
    """Rows of positive weight, their labels, and their weights times those of their classes."""
    weight = row_weights(sample_weight, X)
    if class_weight is not None:
        weight = weight * _of_classes(class_weight, classes, label, weight)[label]
    kept = weight > 0
    if not kept.any():
        raise ValueError("no row has a positive weight: see `sample_weight` and `class_weight`.")
    return (X, label, weight) if kept.all() else (X[kept], label[kept], weight[kept])


def require_two(label: Labels, classes: NDArray[Any]) -> None:
    """Raise where weights of 0 leave rows of one class only."""
    if label.min() == label.max():
        raise ValueError(
            f"only rows of class {plain(classes[label[0]])!r} have a positive weight; "
            "a classifier needs at least two classes."
        )


def _of_classes(
    given: Mapping[Any, float] | str, classes: NDArray[Any], label: Labels, weight: Floats
) -> Floats:
    """What multiplies the weights of the rows of each class."""
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
