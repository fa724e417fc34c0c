"""Fit the tail functions of the truncated normal and write ``src/tggm/special/fits.py``.

With t = -alpha, the first four cumulants of N(alpha, 1) given h >= 0, times the first four powers of t + c,
have finite nonzero limits at t = infinity. Each is fitted on [start, infinity) by a polynomial in

    u = 1 - 2 (c + start) / (t + c),    -1 <= u <= 1,

by Remez's exchange on the relative error, separately for float32 and float64. The fits start left of t = 0,
because just right of alpha = 0 the textbook forms still cancel; the more so the higher the cumulant.

    python tools/precompute/fits.py
"""

from pathlib import Path

import mpmath as mp
from cumulants import truncated

TARGET = Path(__file__).parents[2] / "src" / "tggm" / "special" / "fits.py"

POWER = {"mean": 1, "var": 2, "third": 3, "fourth": 4, "ratio": 0}
# functions for inner loops are evaluated by Horner's rule; the others, whose monomials cancel, by Clenshaw's
MONOMIAL = ("mean", "var", "ratio")
LIMIT = {"mean": 1, "var": 1, "third": 2, "fourth": 6, "ratio": 1}
# dtype: name: (start, c, degree)
PLAN = {
    "float32": {
        "mean": (-0.5, 3.0, 12),
        "var": (-0.5, 3.25, 14),
        "third": (-1.0, 3.5, 18),
        "fourth": (-1.0, 3.5, 15),
    },
    "float64": {
        "mean": (-0.25, 3.5, 27),
        "var": (-0.25, 3.75, 29),
        "third": (-0.5, 3.0, 33),
        "fourth": (-0.5, 3.0, 29),
    },
    # for kernels on GPUs: a common c, fewer terms; the variance as a multiple of the squared mean
    "kernel": {"mean": (0.0, 3.0, 11), "ratio": (0.0, 3.0, 11)},
}


def samples(name: str, start: float, c: float, count: int) -> tuple[list[mp.mpf], list[mp.mpf]]:
    """Nodes u in [-1, 1] and values of the scaled function there."""
    nodes = [-mp.cos(mp.pi * j / (count - 1)) for j in range(count)]
    values = []
    for u in nodes[:-1]:
        s = 2 * (mp.mpf(c) + start) / (1 - u)  # t + c
        values.append(cumulant(name, c - s) * s ** POWER[name])
    return nodes, [*values, mp.mpf(LIMIT[name])]


def cumulant(name: str, alpha: mp.mpf) -> mp.mpf:
    """A cumulant of N(alpha, 1) given h >= 0; "ratio" is the variance over the squared mean."""
    found = truncated(alpha)
    return found.var / found.mean**2 if name == "ratio" else getattr(found, name)


def remez(nodes: list[mp.mpf], values: list[mp.mpf], degree: int) -> tuple[list[mp.mpf], mp.mpf]:
    """Chebyshev series of least relative error (absolute where the value is small), and that error."""
    floor = max(abs(v) for v in values) / 10
    weights = [1 / max(abs(v), floor) for v in values]
    last = len(nodes) - 1
    chosen = [round(last * j / (degree + 1)) for j in range(degree + 2)]
    for _ in range(30):
        A, b = mp.matrix(degree + 2, degree + 2), mp.matrix(degree + 2, 1)
        for row, j in enumerate(chosen):
            for col in range(degree + 1):
                A[row, col] = mp.cos(col * mp.acos(nodes[j]))
            A[row, degree + 1] = (-1) ** row / weights[j]
            b[row] = values[j]
        x = mp.lu_solve(A, b)
        level, series = abs(x[degree + 1]), [x[i] for i in range(degree + 1)]
        errors = [(clenshaw(series, u) - v) * w for u, v, w in zip(nodes, values, weights, strict=True)]
        chosen = alternation(errors, degree + 2)
        worst = max(abs(e) for e in errors)
        if worst <= level * 1.001:
            break
    return series, worst


def clenshaw(series: list[mp.mpf], u: mp.mpf) -> mp.mpf:
    b1 = b2 = mp.mpf(0)
    for a in reversed(series[1:]):
        b1, b2 = 2 * u * b1 - b2 + a, b1
    return u * b1 - b2 + series[0]


def alternation(errors: list[mp.mpf], count: int) -> list[int]:
    """Indices of the extrema of each sign run, thinned at the ends to `count`."""
    peaks: list[int] = []
    for j, e in enumerate(errors):
        if peaks and (e > 0) == (errors[peaks[-1]] > 0):
            if abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = j
        else:
            peaks.append(j)
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


def monomials(series: list[mp.mpf]) -> list[mp.mpf]:
    """Coefficients of 1, u, u^2, ... of a Chebyshev series."""
    previous, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    total = [mp.mpf(0)] * len(series)
    for a in series:
        for i, coefficient in enumerate(previous):
            total[i] += a * coefficient
        following = [mp.mpf(0), *(2 * x for x in current)]
        for i, coefficient in enumerate(previous):
            following[i] -= coefficient
        previous, current = current, following
    return total


def main() -> None:
    lines = [
        '"""Written by tools/precompute/fits.py: (start, c, coefficients) of each tail fit."""',
        "",
    ]
    lines += ["FITS: dict[str, dict[str, tuple[float, float, tuple[float, ...]]]] = {"]
    for dtype, functions in PLAN.items():
        lines += [f'    "{dtype}": {{']
        for name, (start, c, degree) in functions.items():
            nodes, values = samples(name, start, c, 20 * degree + 1)
            with mp.workdps(60):
                series, error = remez(nodes, values, degree)
                coefficients = monomials(series) if name in MONOMIAL else series
            print(f"{dtype} {name:7s} degree {degree:2d}  error {mp.nstr(error, 3)}")
            lines += [f'        "{name}": (  # largest relative error {mp.nstr(error, 2)}']
            lines += [f"            {start},", f"            {c},", "            ("]
            lines += [f"                {float(x)!r}," for x in coefficients] + [
                "            ),",
                "        ),",
            ]
        lines += ["    },"]
    TARGET.write_text("\n".join([*lines, "}", ""]))


if __name__ == "__main__":
    main()
