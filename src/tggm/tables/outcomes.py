"""What columns may learn of the target: numbers, or which class each row has."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats

MOST_OUTPUTS = 20  # of which columns learn; of more each would tell too little


class Outcomes(NamedTuple):
    """Targets of the rows that are learned from; if there are too many outputs, none of them."""

    values: Floats  # (rows, outputs), NaN where missing; of classes zeros and ones
    names: tuple[str, ...]  # of the outputs
    is_class: bool

    @classmethod
    def of(cls, y: NDArray[Any], is_class: bool) -> "Outcomes":
        """Targets as `fit` takes them; of two classes the second tells all."""
        if not is_class:
            values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
            count = values.shape[1]
            if count > MOST_OUTPUTS:
                return cls(values[:, :0], (), False)
            return cls(
                values, tuple(f"target {k}" for k in range(count)) if count > 1 else ("target",), False
            )
        labels, label = np.unique(y, return_inverse=True)
        first = 1 if len(labels) == 2 else 0
        if len(labels) - first > MOST_OUTPUTS:
            return cls(np.empty((len(y), 0)), (), True)
        values = (label.reshape(-1)[:, None] == np.arange(first, len(labels))[None, :]).astype(np.float64)
        return cls(values, tuple(str(label) for label in labels[first:].tolist()), True)

    def take(self, rows: Any) -> "Outcomes":
        """Some of the rows."""
        return self._replace(values=self.values[rows])
