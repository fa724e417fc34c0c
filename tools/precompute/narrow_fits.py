"""Fit mean and variance in a narrow box and write ``src/tggm/special/narrow_fits.py``.

Of the density proportional to exp(-kappa u - eps u^2) on [-1, 1], 0 <= kappa <= 3/2 and 0 <= eps <= 25/32,
the mean is -kappa M and the variance M / (1 + kappa^2 G), where 1/M ("mean") and G ("spread") are smooth
functions of x = kappa^2 and eps. Each is interpolated at Chebyshev points in both, terms of a total degree
above the stated one are dropped, and what is left is written in powers of x and eps, both mapped to [-1, 1].

    python tools/precompute/narrow_fits.py
"""

from pathlib import Path

import mpmath as mp
import numpy as np
from fits import monomials

TARGET = Path(__file__).parents[2] / "src" / "tggm" / "special" / "narrow_fits.py"
DEGREE = {"float32": (5, 5), "float64": (11, 12)}  # of each
NODES = 17
ENDS = (mp.mpf(9) / 4, mp.mpf(25) / 32)  # of x and eps
GRID = np.linspace(-1, 1, 9)  # where errors are looked at
NAMES = ("mean", "spread")
LEAST = mp.mpf("1e-15")  # x in place of 0


def moments(x: mp.mpf, eps: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """1/M and G, from integrals by power series."""
    x = max(x, LEAST)
    even = [
        sum((-eps) ** j / mp.factorial(j) * mp.mpf(2) / (k + 2 * j + 1) for j in range(30))
        for k in range(0, 60, 2)
    ]  # integrals of u^k exp(-eps u^2)
    terms = [x**k / mp.factorial(2 * k) for k in range(25)]
    zeroth = mp.fsum(t * even[k] for k, t in enumerate(terms))
    M = mp.fsum(t / (2 * k + 1) * even[k + 1] for k, t in enumerate(terms)) / zeroth
    V = mp.fsum(t * even[k + 1] for k, t in enumerate(terms)) / zeroth - x * M * M
    return 1 / M, (M / V - 1) / x


def interpolated() -> list[list[list[mp.mpf]]]:
    """Chebyshev coefficients of each function, by degree in x and in eps."""
    angles = [mp.pi * (2 * j + 1) / (2 * NODES) for j in range(NODES)]
    places = [[end * (1 + mp.cos(a)) / 2 for a in angles] for end in ENDS]
    values = [[moments(x, e) for e in places[1]] for x in places[0]]
    weight = [[(2 if k else 1) * mp.cos(k * a) / NODES for a in angles] for k in range(NODES)]
    found = []
    for name in range(len(NAMES)):
        inner = [[sum(w[j] * row[j][name] for j in range(NODES)) for w in weight] for row in values]
        found.append([[sum(w[i] * inner[i][k] for i in range(NODES)) for k in range(NODES)] for w in weight])
    return found


def powers(series: list[list[mp.mpf]], degree: int) -> list[list[mp.mpf]]:
    """Coefficients of x^i eps^j, a row for each j, of the terms up to a total degree."""
    kept = [
        [series[i][k] if i + k <= degree else mp.mpf(0) for k in range(degree + 1)] for i in range(degree + 1)
    ]
    by_eps = [monomials(row) for row in kept]
    columns = [monomials([row[k] for row in by_eps]) for k in range(degree + 1)]
    return [column[: degree + 1 - k] for k, column in enumerate(columns)]


def worst(coefficients: list[list[mp.mpf]], true: list[list[mp.mpf]]) -> float:
    """Largest relative error on a grid off the nodes, of the rounded coefficients evaluated exactly."""
    found = mp.mpf(0)
    for a, line in zip(GRID, true, strict=True):
        rows = [mp.polyval([mp.mpf(float(c)) for c in reversed(row)], a) for row in coefficients]
        found = max(found, *(abs(mp.polyval(rows[::-1], b) / v - 1) for b, v in zip(GRID, line, strict=True)))
    return float(found)


def main() -> None:
    mp.mp.dps = 50
    series = interpolated()
    grid = [
        [moments(*(e * (1 + mp.mpf(t)) / 2 for e, t in zip(ENDS, (a, b), strict=True))) for b in GRID]
        for a in GRID
    ]
    lines = [
        '"""Written by tools/precompute/narrow_fits.py: coefficients of x^i, a row for each power of eps."""',
        "",
    ]
    lines += ["# fmt: off", "NARROW: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = {"]
    for dtype, degrees in DEGREE.items():
        lines += [f'    "{dtype}": {{']
        for k, (name, degree) in enumerate(zip(NAMES, degrees, strict=True)):
            rows = powers(series[k], degree)
            error = worst(rows, [[values[k] for values in line] for line in grid])
            print(f"{dtype} {name:8s} degree {degree:2d}  error {error:.1e}")
            lines += [f'        "{name}": (  # largest relative error {error:.1e}']
            for row in rows:
                numbers = [repr(float(c)) for c in row]
                parts = [", ".join(numbers[i : i + 3]) for i in range(0, len(numbers), 3)]
                lines += ["            (", *(f"                {part}," for part in parts), "            ),"]
            lines += ["        ),"]
        lines += ["    },"]
    TARGET.write_text("\n".join([*lines, "}", ""]))


if __name__ == "__main__":
    main()
