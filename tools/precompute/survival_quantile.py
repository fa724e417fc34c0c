"""Constants of `tggm.special.quantile`: run it and paste what it prints.

With w = √(2s), w₀ = √(2 log 2) and v an affine function of (w − 4) / (w + 4) that maps [w₀, 36.2] to [−1, 1],
fits x(s) / (w − w₀) by a polynomial in v, where 1 − Φ(x) = e⁻ˢ: Chebyshev interpolation in 40 digits. The
absolute error of the interpolant, printed last, is below 1e-15.
"""

import mpmath as mp

mp.mp.dps = 40
K, DEGREE = mp.mpf(4), 27
W0, W1 = mp.sqrt(2 * mp.log(2)), mp.mpf("36.2")
LOW, HIGH = (W0 - K) / (W0 + K), (W1 - K) / (W1 + K)


def ratio(v):
    mobius = LOW + (HIGH - LOW) * (v + 1) / 2
    w = K * (1 + mobius) / (1 - mobius)
    s = w * w / 2
    start = mp.sqrt(2 * s - mp.log(4 * mp.pi * s)) if s > 3 else 1.4 * (w - W0)
    x = mp.findroot(lambda x: mp.log(mp.erfc(x / mp.sqrt(2)) / 2) + s, start)
    return x / (w - W0)


def chebyshev(n):
    nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    values = [ratio(v) for v in nodes]
    return [
        (1 if j == 0 else 2)
        / mp.mpf(n)
        * mp.fsum(values[i] * mp.cos(j * mp.acos(nodes[i])) for i in range(n))
        for j in range(n)
    ]


def monomials(c):
    """Coefficients of 1, v, v², … of the sum of c_j T_j(v)."""
    n = len(c)
    previous, current = [mp.mpf(1)] + [mp.mpf(0)] * (n - 1), [mp.mpf(0), mp.mpf(1)] + [mp.mpf(0)] * (n - 2)
    total = [c[0] * p + c[1] * q for p, q in zip(previous, current, strict=True)]
    for j in range(2, n):
        following = [2 * a - b for a, b in zip([mp.mpf(0), *current[:-1]], previous, strict=True)]
        total = [t + c[j] * f for t, f in zip(total, following, strict=True)]
        previous, current = current, following
    return total


if __name__ == "__main__":
    coefficients = monomials(chebyshev(DEGREE + 1))
    # v = scale − offset / (w + K), since (w − K) / (w + K) = 1 − 2K / (w + K)
    print("_SCALE =", mp.nstr(2 * (1 - LOW) / (HIGH - LOW) - 1, 20))
    print("_OFFSET =", mp.nstr(4 * K / (HIGH - LOW), 20))
    print("_COEFFICIENTS = (")
    for a in reversed(coefficients):
        print(f"    {mp.nstr(a, 18)},")
    print(")")
    checks = [-mp.mpf("0.9999") + mp.mpf("1.9998") * i / 50 for i in range(51)]
    error = max(abs(mp.polyval(coefficients[::-1], v) - ratio(v)) for v in checks)
    print("# largest error", mp.nstr(error, 3))
