"""Compute values and first derivatives of the functions of boxes in high precision, over their whole range.

    python tools/precompute/box_reference.py        # writes tests/special/data/box_reference.npz

mpmath has 200 digits: textbook formulas lose up to 80 of them in the narrowest boxes farthest from the mean.
Derivatives are central differences of these values, with a step that leaves 40 correct digits.
"""

from pathlib import Path

import mpmath as mp
import numpy as np

OUT = Path(__file__).parents[2] / "tests" / "special" / "data" / "box_reference.npz"
SEED, COUNT = 0, 320
REGIONS = ("bulk", "tail", "narrow", "symmetric", "one-sided", "change of form", "far", "far and narrow")
FUNCTIONS = ("mass", "mean", "var", "log_z")
ARGUMENTS = ("mu", "sigma", "lower", "upper")
DIGITS = 200


def points(count: int, dtype: str, seed: int) -> dict[str, np.ndarray]:
    """Return locations, scales and limits; `region` is an index into REGIONS."""
    rng = np.random.default_rng(seed)
    rows = [_point(rng, i % len(REGIONS)) for i in range(count)]
    table = {name: np.array([row[k] for row in rows], dtype) for k, name in enumerate(ARGUMENTS)}
    good = (table["upper"] > table["lower"]) & (table["sigma"] > 0)
    table["region"] = np.array([i % len(REGIONS) for i in range(count)])
    return {name: values[good] for name, values in table.items()}


def _point(rng: np.random.Generator, region: int) -> tuple[float, float, float, float]:
    """Return limits a < b of a standard normal, mirrored half of the time, on some scale."""
    name = REGIONS[region]
    if name == "bulk":
        a, w = rng.uniform(-5, 5), 10 ** rng.uniform(-2, 1)
    elif name == "tail":
        a = rng.uniform(3, 40)
        w = 10 ** rng.uniform(-2, 1.5) / a
    elif name == "narrow":
        a, w = rng.uniform(-3, 3), 10 ** rng.uniform(-12, -2)
    elif name == "symmetric":
        a = -(10 ** rng.uniform(-2, 1))
        w = -2 * a * (1 + rng.choice([0, 1e-8, 1e-3]))
    elif name == "one-sided":
        a, w = rng.choice([-1, 1]) * 10 ** rng.uniform(-3, rng.choice([0.8, 6])), np.inf
        a = max(a, -15)  # the logarithm of a mass nearer to one would need more digits
    elif name == "change of form":
        a = rng.choice([rng.uniform(-2, 0.5), 10 ** rng.uniform(-1, 3)])
        w = (
            -a + np.sqrt(a * a + 6 * 10 ** rng.uniform(-0.1, 0.1))
            if a > 0
            else 2.5 * 10 ** rng.uniform(-0.1, 0.1)
        )
    elif name == "far":
        a = 10 ** rng.uniform(2, 6)
        w = 10 ** rng.uniform(-2, 2) / a
    else:
        a, w = 0.0, 10 ** rng.uniform(-12, -3)
    if name == "far and narrow":  # a limit at zero, so that the other can be close to it
        mu = 10 ** rng.uniform(1, 6) * rng.choice([-1, 1])
        return (mu, 1.0, 0.0, w) if rng.random() < 0.5 else (mu, 1.0, -w, 0.0)
    low, high = (a, a + w) if rng.random() < 0.5 else (-a - w, -a)
    if rng.random() < 0.5:
        return 0.0, 1.0, low, high
    # powers of two do not change the limits in units of the scale
    sigma = 2.0 ** rng.integers(-20, 20)
    return 0.0, sigma, low * sigma, high * sigma


def exact(x: float) -> mp.mpf:
    """Return a number of the dtype unchanged."""
    return mp.mpf(float(x)) if np.isfinite(x) else mp.sign(x) * mp.inf


def values(mu: mp.mpf, sigma: mp.mpf, lower: mp.mpf, upper: mp.mpf) -> list[mp.mpf]:
    """Return FUNCTIONS at one point; log_z in natural parameters of the same distribution."""
    a, b = ((x - mu) / sigma if abs(x) < mp.inf else x for x in (lower, upper))
    flip = abs(a) > abs(b)
    if flip:
        a, b = -b, -a

    def survival(x: mp.mpf) -> mp.mpf:
        if abs(x) == mp.inf:
            return mp.mpf(0 if x > 0 else 1)
        return mp.erfc(x / mp.sqrt(2)) / 2

    def edge(x: mp.mpf, k: int) -> mp.mpf:
        return x**k * mp.npdf(x) / Z if abs(x) < mp.inf else mp.mpf(0)

    Z = survival(a) - survival(b)
    m1 = edge(a, 0) - edge(b, 0)
    m2 = 1 + edge(a, 1) - edge(b, 1)
    sign = -1 if flip else 1
    half = mp.log(2 * mp.pi) / 2
    log_z = mu**2 / (2 * sigma**2) + half + mp.log(sigma) + mp.log(Z)
    return [mp.log(Z), mu + sign * sigma * m1, sigma**2 * (m2 - m1**2), log_z]


def natural(theta: mp.mpf, p: mp.mpf, lower: mp.mpf, upper: mp.mpf) -> list[mp.mpf]:
    """Return only log_z, from its own parameters."""
    return [values(theta / p, 1 / mp.sqrt(p), lower, upper)[-1]]


def with_derivatives(function, arguments: list[mp.mpf]) -> list[list[mp.mpf]]:
    """Return values, then their derivatives by each argument (zero for an infinite one)."""
    rows = [function(*arguments)]
    for k, x in enumerate(arguments):
        if abs(x) == mp.inf:
            rows.append([mp.mpf(0)] * len(rows[0]))
            continue
        step = mp.mpf(10) ** -50
        moved = [function(*(y + s * step * (i == k) for i, y in enumerate(arguments))) for s in (1, -1)]
        rows.append([(up - down) / (2 * step) for up, down in zip(*moved, strict=True)])
    return rows


def table(at: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return `name` and `name_k` (derivative by the k-th argument, from 1) for all FUNCTIONS."""
    columns: dict[str, list[float]] = {}
    with mp.workdps(DIGITS):
        for row in zip(*(at[name] for name in ARGUMENTS), strict=True):
            mu, sigma, lower, upper = (exact(x) for x in row)
            found = with_derivatives(values, [mu, sigma, lower, upper])
            by_theta = with_derivatives(
                natural, [exact(at_theta(row)), exact(at_precision(row)), lower, upper]
            )
            for k in range(5):
                for i, name in enumerate(FUNCTIONS):
                    value = by_theta[k][0] if name == "log_z" else found[k][i]
                    columns.setdefault(name + (f"_{k}" if k else ""), []).append(float(value))
    return {name: np.array(values) for name, values in columns.items()}


def at_theta(row: tuple[np.floating, ...]) -> np.floating:
    """Return the natural parameter of h, as a number of the dtype."""
    return row[0] / row[1] / row[1]


def at_precision(row: tuple[np.floating, ...]) -> np.floating:
    """Return the precision, as a number of the dtype."""
    return 1 / row[1] / row[1]


def main() -> None:
    arrays: dict[str, np.ndarray] = {}
    for dtype in ("float32", "float64"):
        at = points(COUNT, dtype, SEED)
        arrays |= {f"{dtype}/{name}": x for name, x in (at | table(at)).items()}
    np.savez_compressed(OUT, **arrays)
    print(f"{OUT.name}: {len(arrays)} arrays, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
