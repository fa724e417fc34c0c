"""The smallest model that can be stored."""

import numpy as np

ARRAYS = {
    "W0": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1.5, -0.0, 1e-300]),
    "scale": np.array(3.0),
    "steps": np.array([], dtype=np.int64),
    "key": np.array([1, 2**32 - 1], dtype=np.uint32),
    "mask": np.array([True, False, True]),
}
META = {"hidden": [3], "rate": 0.1, "names": ["größe", "x1"], "method": None}


class Toy:
    """The smallest estimator: it is its state."""

    def __init__(self, arrays, meta):
        self.arrays, self.meta = arrays, meta

    def to_state(self):
        return self.arrays, self.meta

    @classmethod
    def from_state(cls, arrays, meta):
        if "hidden" not in meta:
            raise KeyError("hidden")
        return cls(arrays, meta)

    def table_preparation(self):
        return None
