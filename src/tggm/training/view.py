"""How a member sees a table that others see otherwise."""

from typing import Any, NamedTuple

from jax import Array


class Scaling(NamedTuple):
    """An affine map of inputs and targets: (X − x_shift) / x_scale, (y − y_shift) / y_scale."""

    x_shift: Array  # (d,)
    x_scale: Array  # (d,)
    y_shift: Array  # (n,)
    y_scale: Array  # (n,)

    def __call__(self, rows: Any) -> Any:
        """Apply the map to `Rows`."""
        X = (rows.X - self.x_shift[None, :]) / self.x_scale[None, :]
        return rows._replace(X=X, y=(rows.y - self.y_shift[None, :]) / self.y_scale[None, :])
