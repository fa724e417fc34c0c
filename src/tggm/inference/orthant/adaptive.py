"""As many weighted points of a box as a tolerance asks for; they are kept, and used again."""

import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tggm.arrays import Floats
from tggm.gaussian import Limits
from tggm.inference.orthant.points import Points, weighted_points
from tggm.inference.orthant.weights import probability, relative_error

SHIFTS = 8
_FIRST = 1000  # points for each shift
_MOST_POINTS = 2**17
_MOST_NUMBERS = 2**28  # in the points of all shifts
_SHORT = 1e-4  # errors that are larger than this are reached in float32 as well,
_SHORT_DIM = 10  # which is worth it from so many dimensions on


class AdaptivePoints:
    """Points of N(mean, cov) in a box, doubled until their spread over random shifts is small enough.

    Parameters
    ----------
    cov : ndarray, shape (d, d)
    mean, lower, upper : ndarray, shape (d,)
    seed : int
        Of the random shifts.
    """

    def __init__(self, cov: Floats, mean: Floats, lower: Floats, upper: Floats, seed: int) -> None:
        self._box, self._seed = (cov, mean, lower, upper), seed
        self._n, self._short = _FIRST, True
        self._points: Points | None = None

    def log_weights(self, tol: float) -> Floats:
        """Logarithms of weights, shape (shifts, n); `tol` is the relative error of the probability."""
        return self._grown(tol, lambda points: probability(points.log_w).error, places=False).log_w

    def points(self, tol: float) -> tuple[Floats, Floats]:
        """They and the points, (shifts, n, d); `tol` is the largest error of a mean over its deviation."""
        return self._grown(tol, lambda points: relative_error(*points), places=True)

    def _grown(self, tol: float, error_of: Callable[[Points], float], *, places: bool) -> Points:
        dim = len(self._box[1])
        short = dim >= _SHORT_DIM and tol >= _SHORT
        most = min(_MOST_POINTS, _MOST_NUMBERS // (SHIFTS * dim))
        points = self._known(short, places)
        while True:
            if points is None:
                points = self._points = self._made(short, places)
            error = error_of(points)
            if error <= tol:
                return points
            if 2 * self._n > most:
                self._warn(error, tol)
                return points
            # errors fall about as 1/n
            self._n = min(most, self._n * 2 ** int(np.ceil(np.log2(np.clip(error / tol, 1.5, 16)))))
            points = None

    def _known(self, short: bool, places: bool) -> Points | None:
        """Those of an earlier question, if they have the digits and the places that this one needs."""
        missing = self._points is None or (places and not self._points.h.size)
        return None if missing or self._short > short else self._points

    def _made(self, short: bool, places: bool) -> Points:
        self._short = short
        with jax.enable_x64(True):
            cov, mean, lower, upper = map(jnp.asarray, self._box)
            return weighted_points(
                cov, mean, Limits(lower, upper), n_points=self._n, n_shifts=SHIFTS, seed=self._seed,
                short=short, places=places,
            )  # fmt: skip

    def _warn(self, error: float, tol: float) -> None:
        warnings.warn(
            f"the standard error is {error:.2g}, above `tol` = {tol:g}, with the most points that "
            f"are used ({self._n} for each of {SHIFTS} shifts); a larger `tol` is quicker.",
            RuntimeWarning,
            stacklevel=5,
        )
