"""Labels of a classification: the known classes, positions among them, and weights of classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import column_or_1d

from tggm.arrays import Floats

Labels = NDArray[np.int32]


def known_classes(y: ArrayLike) -> NDArray[Any]:
    """Return the distinct labels, sorted; raise for fewer than two."""
    classes = np.unique(np.asarray(y))
    kind = classes.dtype.kind
    no_words = kind == "O" and not all(isinstance(label, str) for label in classes)
    fractions = kind == "f" and bool((classes != np.round(classes)).any())
    if fractions or no_words or kind in "cSV":
        unknown = classes[classes != np.round(classes)] if fractions else classes
        raise ValueError(
            "Unknown label type: `y` must be strings, whole numbers or booleans; got "
            f"{unknown[:3].tolist()} (dtype {classes.dtype})."
        )
    classes = classes.astype(classes.dtype.newbyteorder("="))
    if len(classes) < 2:
        raise ValueError(
            f"`y` has one class only, {classes.tolist()}; a classifier needs at least two classes."
        )
    return classes


def require_labels_in_all_rows(y: Any) -> None:
    """Raise if a label is missing (None, NaN, or NA of a data frame)."""
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
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"`y` contains classes that are not in `classes_`: {unknown[:5].tolist()}; "
            f"the model has {classes[:10].tolist()}."
        )
    return np.searchsorted(classes, y).astype(np.int32)


def class_weights(
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
        return sums.sum() / (len(classes) * sums)
    found: Floats = compute_class_weight(given, classes=classes, y=classes[label])
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        raise ValueError(
            f"`class_weight` must be finite and at least 0; got {found[wrong][0]} for {classes[wrong][0]!r}."
        )
    return found
