"""Labels of a classifier: which there are, where each stands among them, and what its rows weigh."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from tggm.estimators.columns import Floats

Labels = NDArray[np.int32]


def known_classes(y: ArrayLike) -> NDArray[Any]:
    """The different labels, sorted; there must be two at least."""
    classes = np.unique(np.asarray(y))
    if len(classes) < 2:
        raise ValueError(
            f"`y` has one class only, {classes.tolist()}; a classifier needs at least two classes."
        )
    return classes


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
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if class_weight is not None:
        missing = classes[np.setdiff1d(np.arange(len(classes)), label)]
        if class_weight == "balanced" and len(missing):
            raise ValueError(
                f"class_weight='balanced' needs rows of every class; {missing[:5].tolist()} have none. "
                "Pass a dict of weights."
            )
        weight = weight * compute_class_weight(class_weight, classes=classes, y=classes[label])[label]
    kept = weight > 0
    return (X, label, weight) if kept.all() else (X[kept], label[kept], weight[kept])
