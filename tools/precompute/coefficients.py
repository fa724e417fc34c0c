"""Compute the coefficients of the fitted functions and write ``src/tggm/special/coefficients.json``.

tails: with t = -alpha, the first four cumulants of N(alpha, 1) given h >= 0, times the first four powers of
t + c, have finite nonzero limits at t = infinity. Each is fitted on [start, infinity) by a polynomial in

    u = 1 - 2 (c + start) / (t + c),    -1 <= u <= 1,

by Remez's exchange on the relative error, separately for float32 and float64. The fits start below t = 0,
because the textbook forms still cancel slightly above alpha = 0, more for higher cumulants.

narrow: of the density proportional to exp(-kappa u - eps u^2) on [-1, 1], 0 <= kappa <= 3/2, 0 <= eps <=
25/32, the mean is -kappa M and the variance M / (1 + kappa^2 G), where 1/M ("mean") and G ("spread") are
smooth functions of x = kappa^2 and eps. Each is interpolated at Chebyshev points in both, terms above a total
degree are dropped, and the rest is written in powers of x and eps, both mapped to [-1, 1].

erfcx: with u = 1 / (L + x) and Z = 2 L u - 1, the half-plane Re x >= 0 is the unit disc |Z| <= 1, and

    erfcx(x) = c u + c L u^2 + c (L^2 - 1/2) u^3 + c (L^3 - 3L/2) u^4 + u^5 W(Z),    c = 1 / sqrt(pi).

The first four terms are those of the asymptotic series at infinity, so that W is smooth on the closed disc
and the first two derivatives of erfcx have relative accuracy for all x. W is analytic inside, so its Taylor
coefficients are its Fourier coefficients on the circle (the imaginary axis of x).

survival_quantile: with w = sqrt(2s), w0 = sqrt(2 log 2) and v an affine function of (w - 4) / (w + 4) that
maps [w0, 36.2] to [-1, 1], x(s) / (w - w0) is a polynomial in v, where 1 - Phi(x) = exp(-s): Chebyshev
interpolation, with an absolute error below 1e-15.

    python tools/precompute/coefficients.py
"""

import json
from pathlib import Path

import mpmath as mp
import numpy as np
from cumulants import truncated

TARGET = Path(__file__).parents[2] / "src" / "tggm" / "special" / "coefficients.json"
mp.mp.dps = 160

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
    """Return nodes u in [-1, 1] and values of the scaled function there."""
    nodes = [-mp.cos(mp.pi * j / (count - 1)) for j in range(count)]
    values = []
    for u in nodes[:-1]:
        s = 2 * (mp.mpf(c) + start) / (1 - u)  # t + c
        values.append(cumulant(name, c - s) * s ** POWER[name])
    return nodes, [*values, mp.mpf(LIMIT[name])]


def cumulant(name: str, alpha: mp.mpf) -> mp.mpf:
    """Return a cumulant of N(alpha, 1) given h >= 0; "ratio" is the variance over the squared mean."""
    found = truncated(alpha)
    return found.var / found.mean**2 if name == "ratio" else getattr(found, name)


def remez(nodes: list[mp.mpf], values: list[mp.mpf], degree: int) -> tuple[list[mp.mpf], mp.mpf]:
    """Return the Chebyshev series of least relative error (absolute for small values), and that error."""
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
    """Return indices of the extrema of each sign run, reduced at the ends to `count`."""
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
    """Return coefficients of 1, u, u^2, ... of a Chebyshev series."""
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


NARROW_DEGREE = {"float32": (5, 5), "float64": (11, 12)}  # of each
NODES = 17
ENDS = (mp.mpf(9) / 4, mp.mpf(25) / 32)  # of x and eps
GRID = np.linspace(-1, 1, 9)  # where errors are measured
NAMES = ("mean", "spread")
LEAST = mp.mpf("1e-15")  # x in place of 0


def narrow_moments(x: mp.mpf, eps: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """Return 1/M and G, from integrals by power series."""
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
    """Return Chebyshev coefficients of each function, by degree in x and in eps."""
    angles = [mp.pi * (2 * j + 1) / (2 * NODES) for j in range(NODES)]
    places = [[end * (1 + mp.cos(a)) / 2 for a in angles] for end in ENDS]
    values = [[narrow_moments(x, e) for e in places[1]] for x in places[0]]
    weight = [[(2 if k else 1) * mp.cos(k * a) / NODES for a in angles] for k in range(NODES)]
    found = []
    for name in range(len(NAMES)):
        inner = [[sum(w[j] * row[j][name] for j in range(NODES)) for w in weight] for row in values]
        found.append([[sum(w[i] * inner[i][k] for i in range(NODES)) for k in range(NODES)] for w in weight])
    return found


def powers(series: list[list[mp.mpf]], degree: int) -> list[list[mp.mpf]]:
    """Return coefficients of x^i eps^j up to a total degree, a row for each j."""
    kept = [
        [series[i][k] if i + k <= degree else mp.mpf(0) for k in range(degree + 1)] for i in range(degree + 1)
    ]
    by_eps = [monomials(row) for row in kept]
    columns = [monomials([row[k] for row in by_eps]) for k in range(degree + 1)]
    return [column[: degree + 1 - k] for k, column in enumerate(columns)]


def worst(coefficients: list[list[mp.mpf]], true: list[list[mp.mpf]]) -> float:
    """Return the largest relative error of the rounded coefficients on a grid off the nodes."""
    found = mp.mpf(0)
    for a, line in zip(GRID, true, strict=True):
        rows = [mp.polyval([mp.mpf(float(c)) for c in reversed(row)], a) for row in coefficients]
        found = max(found, *(abs(mp.polyval(rows[::-1], b) / v - 1) for b, v in zip(GRID, line, strict=True)))
    return float(found)


L = mp.mpf(4)
TERMS = 40
POINTS = 512


def erfcx_imaginary(y: mp.mpf) -> mp.mpc:
    """Return erfcx(iy), by its asymptotic series where that is exact to 50 digits."""
    if y < 50:
        return mp.exp(-y * y) * mp.erfc(mp.mpc(0, y))
    x = mp.mpc(0, y)
    return sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(60)) / (x * mp.sqrt(mp.pi))


def remainder(Z: mp.mpc) -> mp.mpc:
    """Return W on the upper half of the unit circle."""
    c = 1 / mp.sqrt(mp.pi)
    u = (Z + 1) / (2 * L)
    w = mp.conj(erfcx_imaginary(-(1 / u - L).imag)) / u  # x = 1/u − L is on the negative imaginary axis
    for term in (c, c * L, c * (L**2 - mp.mpf(1) / 2), c * (L**3 - 3 * L / 2)):
        w = (w - term) / u
    return w


def erfcx_coefficients() -> list[mp.mpf]:
    """Return Fourier coefficients of W by the midpoint rule, which is exact to working precision."""
    angles = [(j + mp.mpf(1) / 2) * mp.pi / POINTS for j in range(POINTS)]
    values = [remainder(mp.expj(t)) for t in angles]
    pairs = list(zip(values, angles, strict=True))
    return [sum((w * mp.expj(-k * t)).real for w, t in pairs) / POINTS for k in range(TERMS)]


K, QUANTILE_DEGREE = mp.mpf(4), 27
W0, W1 = mp.sqrt(2 * mp.log(2)), mp.mpf("36.2")
LOW, HIGH = (W0 - K) / (W0 + K), (W1 - K) / (W1 + K)


def ratio(v: mp.mpf) -> mp.mpf:
    """Return x(s) / (w - w0) at v."""
    mobius = LOW + (HIGH - LOW) * (v + 1) / 2
    w = K * (1 + mobius) / (1 - mobius)
    s = w * w / 2
    start = mp.sqrt(2 * s - mp.log(4 * mp.pi * s)) if s > 3 else 1.4 * (w - W0)
    x = mp.findroot(lambda x: mp.log(mp.erfc(x / mp.sqrt(2)) / 2) + s, start)
    return x / (w - W0)


def chebyshev(n: int) -> list[mp.mpf]:
    """Return Chebyshev coefficients of `ratio` by interpolation."""
    nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    values = [ratio(v) for v in nodes]
    return [
        (1 if j == 0 else 2)
        / mp.mpf(n)
        * mp.fsum(values[i] * mp.cos(j * mp.acos(nodes[i])) for i in range(n))
        for j in range(n)
    ]


def floats(values: list[mp.mpf]) -> list[float]:
    """Round to float64."""
    return [float(x) for x in values]


def tail_fits() -> dict:
    """Return start, c and coefficients of each tail fit; print the errors."""
    found: dict = {}
    for dtype, functions in PLAN.items():
        for name, (start, c, degree) in functions.items():
            nodes, values = samples(name, start, c, 20 * degree + 1)
            with mp.workdps(60):
                series, error = remez(nodes, values, degree)
                coefficients = monomials(series) if name in MONOMIAL else series
            print(f"{dtype} {name:7s} degree {degree:2d}  error {mp.nstr(error, 3)}")
            found.setdefault(dtype, {})[name] = {"start": start, "c": c, "coefficients": floats(coefficients)}
    return found


def narrow_fits() -> dict:
    """Return the coefficients of narrow boxes; print the errors."""
    found: dict = {}
    with mp.workdps(50):
        series = interpolated()
        grid = [
            [
                narrow_moments(*(e * (1 + mp.mpf(t)) / 2 for e, t in zip(ENDS, (a, b), strict=True)))
                for b in GRID
            ]
            for a in GRID
        ]
        for dtype, degrees in NARROW_DEGREE.items():
            for k, (name, degree) in enumerate(zip(NAMES, degrees, strict=True)):
                rows = powers(series[k], degree)
                error = worst(rows, [[values[k] for values in line] for line in grid])
                print(f"{dtype} {name:8s} degree {degree:2d}  error {error:.1e}")
                found.setdefault(dtype, {})[name] = [floats(row) for row in rows]
    return found


def survival_quantile() -> dict:
    """Return v = scale - offset / (w + K), since (w - K) / (w + K) = 1 - 2K / (w + K), and the polynomial."""
    with mp.workdps(40):
        return {
            "scale": float(2 * (1 - LOW) / (HIGH - LOW) - 1),
            "offset": float(4 * K / (HIGH - LOW)),
            "coefficients": floats(monomials(chebyshev(QUANTILE_DEGREE + 1))[::-1]),
        }


def main() -> None:
    with mp.workdps(50):
        erfcx = floats(erfcx_coefficients())
    data = {
        "tails": tail_fits(),
        "narrow": narrow_fits(),
        "erfcx": erfcx,
        "survival_quantile": survival_quantile(),
    }
    TARGET.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
