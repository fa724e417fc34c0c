"""Compute reference values of the real functions of `tggm.special` and first derivatives, by mpmath only.

Writes ``tests/special/data/reference.npz``: per dtype, the arguments of the functions, rounded
to that dtype, and the true values at these arguments, rounded once to float64.

    python tools/precompute/reference.py
"""

from pathlib import Path

import mpmath as mp
import numpy as np
from cumulants import truncated

TARGET = Path(__file__).parents[2] / "tests" / "special" / "data" / "reference.npz"
SEED = 20160619
# where the package changes its form: the sign of alpha, the start of each fit, a rescaling
CHANGES = (0.0, 0.25, 0.5, 1.0, 8.0)
EDGE = {"float32": 14.0, "float64": 39.0}  # right of it the Gaussian underflows


def alphas(count: int, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Return arguments from -1e8 to 1e8: all magnitudes, an even middle, and clusters at changes of form."""
    share, edge = count // 4, EDGE[dtype]
    signs = rng.choice([-1.0, 1.0], share)
    parts = [
        signs * 10.0 ** rng.uniform(-6, 8, share),
        rng.uniform(-edge, edge, share),
        rng.uniform(-3, 3, share),
        np.concatenate(
            [
                c
                + rng.choice([-1, 1], share // len(CHANGES))
                * 10.0 ** rng.uniform(-8, -1, share // len(CHANGES))
                for c in CHANGES
            ]
        ),
        np.array([-1e8, 1e8, *CHANGES]),
    ]
    return np.sort(np.concatenate(parts)).astype(dtype)


def scales(count: int, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Return scales sigma from 1e-3 to 1e3, one third of them 1."""
    return np.where(rng.random(count) < 1 / 3, 1.0, 10.0 ** rng.uniform(-3, 3, count)).astype(dtype)


def points(count: int, dtype: str, seed: int = SEED) -> dict[str, np.ndarray]:
    """Return arguments of all functions, rounded to the dtype."""
    rng = np.random.default_rng(seed)
    a = alphas(count, dtype, rng)
    sigma = scales(a.size, dtype, rng)
    precision = scales(a.size, dtype, rng)
    wide = a.astype(np.float64)
    theta = (wide * np.sqrt(precision.astype(np.float64))).astype(dtype)
    return {
        "a": a,
        "mu": (wide * sigma).astype(dtype),
        "sigma": sigma,
        "theta": theta,
        "precision": precision,
    }


def normal_row(a: float) -> dict[str, mp.mpf]:
    """Return functions of one argument and their derivatives."""
    f = truncated(mp.mpf(a))
    return {
        "log_ndtr": f.log_ndtr,
        "log_ndtr_1": f.hazard,
        "hazard": f.hazard,
        "hazard_1": -f.hazard * f.mean,
    }


def moment_row(mu: float, sigma: float) -> dict[str, mp.mpf]:
    """Return functions of (mu, sigma) and their derivatives with respect to mu (_1) and sigma (_2)."""
    mu, s = mp.mpf(mu), mp.mpf(sigma)
    alpha = mu / s
    f = truncated(alpha)
    spread = f.hazard * (f.var + f.mean**2)  # = mean - alpha var, which cancels on the right
    return {
        "truncated_mean": s * f.mean,
        "truncated_mean_1": f.var,
        "truncated_mean_2": spread,
        "truncated_var": s**2 * f.var,
        "truncated_var_1": s * f.third,
        "truncated_var_2": s * (2 * f.var - alpha * f.third),
        "truncated_entropy": mp.log(s * mp.sqrt(2 * mp.pi * mp.e)) + f.log_ndtr - alpha * f.hazard / 2,
        "truncated_entropy_1": spread / (2 * s),
        "truncated_entropy_2": (1 - alpha * spread / 2) / s,
    }


def partition_row(theta: float, precision: float) -> dict[str, mp.mpf]:
    """Return log Z and its derivatives with respect to theta (_1) and the precision (_2)."""
    theta, p = mp.mpf(theta), mp.mpf(precision)
    f = truncated(theta / mp.sqrt(p))
    return {
        "truncated_log_z": theta**2 / (2 * p) + mp.log(2 * mp.pi / p) / 2 + f.log_ndtr,
        "truncated_log_z_1": f.mean / mp.sqrt(p),
        "truncated_log_z_2": -(f.var + f.mean**2) / (2 * p),
    }


def table(at: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the true values at the points."""
    rows = [
        normal_row(float(a)) | moment_row(float(m), float(s)) | partition_row(float(t), float(p))
        for a, m, s, t, p in zip(at["a"], at["mu"], at["sigma"], at["theta"], at["precision"], strict=True)
    ]
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def main() -> None:
    arrays = {}
    for dtype in ("float32", "float64"):
        at = points(800, dtype)
        for name, values in (at | table(at)).items():
            arrays[f"{dtype}/{name}"] = values
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(TARGET, **arrays)
    print(f"{TARGET}: {TARGET.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
