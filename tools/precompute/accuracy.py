"""Print the accuracy of `tggm.special`: function, dtype, worst error and its place, against mpmath.

    python tools/precompute/accuracy.py [--points 8000] [--seed 1]

Errors are relative; absolute where a function has a zero (entropy, log Z: where they are below 1 in
magnitude). True values below the smallest normal number are left out, and so are those that would be below it
at sigma = 1. The exit status is 1 if an error exceeds its bound.
"""

import argparse
import sys

import jax
import numpy as np
from reference import SEED, points, table

import tggm.special

ARGUMENTS = {
    "log_ndtr": ("a",),
    "hazard": ("a",),
    "truncated_mean": ("mu", "sigma"),
    "truncated_var": ("mu", "sigma"),
    "truncated_entropy": ("mu", "sigma"),
    "truncated_log_z": ("theta", "precision"),
}
# power of sigma that a function grows with when mu grows in proportion (the entropy: by its logarithm)
HOMOGENEITY = {"truncated_mean": 1, "truncated_var": 2, "truncated_entropy": 0}
BOUND = {"float32": 1e-6, "float64": 5e-15}


def ours(name: str, arguments: list[np.ndarray]) -> list[np.ndarray]:
    """Return the function and its derivative with respect to each argument."""
    function = getattr(tggm.special, name)
    outputs = [function(*arguments)]
    for i in range(len(arguments)):
        outputs.append(jax.jit(jax.vmap(jax.grad(function, argnums=i)))(*arguments))
    return [np.asarray(y) for y in outputs]


def scale_of(name: str, true: np.ndarray) -> np.ndarray:
    """Return the scale of an error."""
    if name in ("truncated_entropy", "truncated_log_z"):
        return np.maximum(np.abs(true), 1)
    return np.abs(true)


def errors(name: str, got: np.ndarray, true: np.ndarray, at: dict[str, np.ndarray]) -> np.ndarray:
    """Return the error at each point, zero for points that are left out."""
    tiny = np.finfo(got.dtype).tiny
    counts = np.abs(true) >= tiny
    if "sigma" in ARGUMENTS[name.rstrip("_12")]:
        power = HOMOGENEITY[name.rstrip("_12")] - name.endswith(("_1", "_2"))
        counts &= np.abs(true) / at["sigma"].astype(float) ** power >= tiny
    error = np.abs(got.astype(float) - true) / np.where(counts, scale_of(name, true), 1)
    return np.where(counts, error, 0)


def report(dtype: str, count: int, seed: int) -> bool:
    at = points(count, dtype, seed)
    true = table(at)
    good = True
    for function, arguments in ARGUMENTS.items():
        for k, got in enumerate(ours(function, [at[x] for x in arguments])):
            name = function + (f"_{k}" if k else "")
            error = errors(name, got, true[name], at)
            worst = int(np.nanargmax(np.where(np.isnan(error), np.inf, error)))
            good &= bool(error[worst] <= BOUND[dtype])
            label = f"d {function} / d {arguments[k - 1]}" if k else function
            where = ", ".join(f"{x} = {at[x][worst]:.9g}" for x in arguments)
            verdict = "" if error[worst] <= BOUND[dtype] else "  EXCEEDED"
            print(f"{label:36s} {dtype}  {error[worst]:8.2e}  bound {BOUND[dtype]:.0e}  at {where}{verdict}")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=8000, help="points per dtype")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    with jax.enable_x64(True):
        good = [report(dtype, options.points, options.seed) for dtype in ("float32", "float64")]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
