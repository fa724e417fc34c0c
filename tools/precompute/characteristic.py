"""Coefficients of `tggm.special.characteristic`: a rational form of erfcx on the closed right half-plane.

With u = 1 / (L + x) and Z = 2 L u − 1, the half-plane Re x ≥ 0 is the unit disc |Z| ≤ 1, and

    erfcx(x) = c u + c L u² + c (L² − ½) u³ + c (L³ − 3L/2) u⁴ + u⁵ W(Z),    c = 1 / √π.

The first four terms are those of the asymptotic series at infinity, so that W is smooth on the whole closed
disc and the first two derivatives of erfcx keep their relative accuracy however large x is. W is analytic
inside, so its Taylor coefficients are its Fourier coefficients on the circle (the imaginary axis of x).

    python tools/precompute/characteristic.py        prints the tuple to paste
"""

import mpmath as mp

L = mp.mpf(4)
TERMS = 40
POINTS = 512


def erfcx_imaginary(y: mp.mpf) -> mp.mpc:
    """Evaluate erfcx(iy); by its asymptotic series where that is exact to 50 digits."""
    if y < 50:
        return mp.exp(-y * y) * mp.erfc(mp.mpc(0, y))
    x = mp.mpc(0, y)
    return sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(60)) / (x * mp.sqrt(mp.pi))


def remainder(Z: mp.mpc) -> mp.mpc:
    """Evaluate W on the upper half of the unit circle."""
    c = 1 / mp.sqrt(mp.pi)
    u = (Z + 1) / (2 * L)
    w = mp.conj(erfcx_imaginary(-(1 / u - L).imag)) / u  # x = 1/u − L is on the negative imaginary axis
    for term in (c, c * L, c * (L**2 - mp.mpf(1) / 2), c * (L**3 - 3 * L / 2)):
        w = (w - term) / u
    return w


def coefficients() -> list[mp.mpf]:
    """Fourier coefficients of W by the midpoint rule, which is exact here to working precision."""
    angles = [(j + mp.mpf(1) / 2) * mp.pi / POINTS for j in range(POINTS)]
    values = [remainder(mp.expj(t)) for t in angles]
    pairs = list(zip(values, angles, strict=True))
    return [sum((w * mp.expj(-k * t)).real for w, t in pairs) / POINTS for k in range(TERMS)]


if __name__ == "__main__":
    mp.mp.dps = 50
    for a in coefficients():
        print(f"    {mp.nstr(a, 19)},")
