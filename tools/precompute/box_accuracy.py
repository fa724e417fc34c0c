"""Print the accuracy of the functions of boxes: function, region, worst error and its place, against mpmath.

    python tools/precompute/box_accuracy.py [--points 1600] [--seed 1] [--write]

Errors are relative. Some functions have zeros; near them an error is relative to a scale instead: 1 for log
Z, and for a derivative that of the function over the standard deviation (of h, for `mu` and the limits; one,
for `sigma`, in units of itself). A quantile's error is relative to the larger of itself and the standard
deviation. With --write the table goes to docs/truncated-normal.md. Exits with status 1 if a bound is broken.
"""

import argparse
import sys
from pathlib import Path

import jax
import mpmath as mp
import numpy as np
from box_reference import ARGUMENTS, DIGITS, REGIONS, at_precision, at_theta, exact, points, table, values

import tggm.special

PAGE = Path(__file__).parents[2] / "docs" / "truncated-normal.md"
NAMES = {
    "mass": "log_ndtr_interval", "mean": "truncated_mean", "var": "truncated_var", "log_z": "truncated_log_z",
}  # fmt: skip
BOUND = {"float32": 3e-6, "float64": 5e-15}
# derivatives contain the density at the farther limit, whose logarithm has this relative error
BOUND_SLOPE = {"float32": 2e-5, "float64": 5e-14}


def arguments(name: str, at: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the arguments of the function."""
    row = tuple(at[x] for x in ARGUMENTS)
    if name == "mass":  # points with mu = 0; scales are powers of two
        return [at["lower"] / at["sigma"], at["upper"] / at["sigma"]]
    if name == "log_z":
        return [at_theta(row), at_precision(row), at["lower"], at["upper"]]
    return list(row)


def ours(name: str, at: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the function and its derivatives with respect to each argument."""
    function = getattr(tggm.special, NAMES[name])
    given = arguments(name, at)

    @jax.jit
    def everything(*given):
        value, back = jax.vjp(function, *given)
        return value, *back(jax.numpy.ones_like(value))

    return [np.asarray(y, float) for y in everything(*given)]


def scale_of(name: str, k: int, true: dict[str, np.ndarray], at: dict[str, np.ndarray]) -> np.ndarray:
    """Return the least scale of an error."""
    std, sigma = np.sqrt(true["var"]), at["sigma"].astype(float)
    if name == "log_z":
        return np.where(k == 0, 1.0, 0 * std)
    if name == "mass" or (name == "mean" and k != 2):
        return 0 * std
    power = {"mean": std, "var": std**2}[name]
    return power / (sigma if k == 2 else std) if k else power


def errors(
    name: str, k: int, got: np.ndarray, true: dict[str, np.ndarray], at: dict[str, np.ndarray]
) -> np.ndarray:
    """Return the error at each point, zero for values below the smallest normal number."""
    k = k + 2 if name == "mass" and k else k
    key = name + (f"_{k}" if k else "")
    tiny = float(np.finfo(at["mu"].dtype).tiny) / np.finfo(at["mu"].dtype).eps
    want = true[key] * (at["sigma"].astype(float) if name == "mass" and k else 1)
    scale = np.maximum(np.abs(want), scale_of(name, k, true, at))
    counts = (np.abs(want) >= tiny) & (scale > 0)
    error = np.abs(got - want) / np.where(counts, scale, 1)
    if name == "mass":
        counts &= at["mu"] == 0
    return np.where(counts, np.where(np.isfinite(error), error, np.inf), 0)


def quantile_errors(at: dict[str, np.ndarray], true: dict[str, np.ndarray], seed: int) -> np.ndarray:
    """Return the distance of the quantile from the point where mpmath's distribution function is q."""
    rng = np.random.default_rng(seed)
    dtype = at["mu"].dtype
    q = np.where(
        rng.random(len(at["mu"])) < 0.5, rng.random(len(at["mu"])), 10 ** rng.uniform(-9, -1, len(at["mu"]))
    )
    q = q.astype(dtype)
    h = np.asarray(tggm.special.truncated_quantile(q, *(at[x] for x in ARGUMENTS)))
    out = []
    with mp.workdps(DIGITS):
        for i, value in enumerate(h):
            mu, sigma, lower, upper = (exact(at[x][i]) for x in ARGUMENTS)
            if not lower < exact(value) < upper:
                out.append(0.0 if np.isfinite(value) else np.inf)
                continue
            log_q = values(mu, sigma, lower, exact(value))[0] - values(mu, sigma, lower, upper)[0]
            z = (exact(value) - mu) / sigma
            density = mp.npdf(z) / sigma / mp.exp(values(mu, sigma, lower, upper)[0])
            out.append(abs(float((mp.exp(log_q) - exact(q[i])) / density)))
    return np.array(out) / np.maximum(np.abs(h.astype(float)), np.sqrt(true["var"]))


def report(dtype: str, count: int, seed: int) -> tuple[bool, list[str]]:
    at = points(count, dtype, seed)
    true = table(at)
    good, lines = True, []

    def line(label: str, error: np.ndarray, bound: float) -> bool:
        worst = int(error.argmax())
        cells = " | ".join(f"{error[at['region'] == r].max():.0e}" for r in range(len(REGIONS)))
        where = ", ".join(f"{at[x][worst]:.5g}" for x in ARGUMENTS)
        lines.append(f"| {label} | {dtype} | {cells} | ({where}) |")
        print(f"{label:34s} {dtype} {cells.replace(' |', '')}  worst at {where}")
        return bool(error[worst] <= bound)

    for name, label in NAMES.items():
        for k, got in enumerate(ours(name, at)):
            names = {"mass": ("a", "b"), "log_z": ("theta", "precision", "lower", "upper")}.get(
                name, ARGUMENTS
            )
            title = f"∂ {label} / ∂ {names[k - 1]}" if k else label
            bound = (BOUND_SLOPE if k else BOUND)[dtype]
            good &= line(title, errors(name, k, got, true, at), bound)
    good &= line("truncated_quantile", quantile_errors(at, true, seed), BOUND[dtype])
    return good, lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=1600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines, good = [], True
    with jax.enable_x64(True):
        for dtype in ("float64", "float32"):
            fine, rows = report(dtype, options.points, options.seed)
            good, lines = good and fine, lines + rows
    if options.write:
        head = ["| function | dtype | " + " | ".join(REGIONS) + " | worst at (mu, sigma, lower, upper) |"]
        head += ["|" + " --- |" * (len(REGIONS) + 3)]
        page = PAGE.read_text()
        before, rest = page.split("<!-- accuracy -->\n", 1)
        after = rest.split("<!-- /accuracy -->", 1)[1]
        body = "\n".join(head + lines)
        PAGE.write_text(f"{before}<!-- accuracy -->\n\n{body}\n\n<!-- /accuracy -->{after}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
