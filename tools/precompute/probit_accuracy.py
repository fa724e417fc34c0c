"""Print errors of the multinomial probit against 30-digit integration.

    python tools/precompute/probit_accuracy.py

One line for each number of classes and each margin of the class over its rivals: the true log-probability,
and the errors of `log_probit` in double and single precision and of `log_probit_all` (64 nodes). Rivals are
equal, spread over two standard deviations, or of unequal variances.
"""

from collections import Counter

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np

from tggm.special.probit import log_probit, log_probit_all

CLASSES = (2, 3, 10, 100, 1000)
MARGINS = (-30, -10, -3, 0, 3, 10, 30)


def true_log_probit(mean: np.ndarray, std: np.ndarray, c: int) -> float:
    """Compute log P_c by Gauss–Legendre quadrature of the integrand around its mode, 30 digits."""
    with mp.workdps(30):
        mu, sigma = mp.mpf(float(mean[c])), mp.mpf(float(std[c]))
        rivals = Counter(
            (float(m), float(s)) for j, (m, s) in enumerate(zip(mean, std, strict=True)) if j != c
        )

        def log_term(t: mp.mpf) -> mp.mpf:
            value = -(((t - mu) / sigma) ** 2) / 2 - mp.log(sigma * mp.sqrt(2 * mp.pi))
            return value + sum(k * mp.log(mp.ncdf((t - m) / s)) for (m, s), k in rivals.items())

        low, high = mu - 10 * sigma, mp.mpf(float((mean + 10 * std).max()))
        for _ in range(60):  # ternary search: the logarithm is concave
            a, b = (2 * low + high) / 3, (low + 2 * high) / 3
            low, high = (low, b) if log_term(a) > log_term(b) else (a, high)
        top = log_term(low)
        ends = [low + k * sigma for k in (-10, -6, -3, -1.5, -0.75, -0.3, 0, 0.3, 0.75, 1.5, 3, 6, 10)]
        return float(mp.log(mp.quad(lambda t: mp.exp(log_term(t) - top), ends)) + top)


def cases() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return means and deviations; the class in question is the first."""
    found = []
    for n in CLASSES:
        for margin in MARGINS:
            spread = np.linspace(-2, 0, n).round(1)
            unequal = np.where(np.arange(n) % 2, 3.0, 1.0)
            unequal[0] = 2.0
            for kind, mean, std in (
                ("equal", np.zeros(n), np.ones(n)),
                ("spread", spread, np.ones(n)),
                ("unequal", spread, unequal),
            ):
                found.append((f"{n:4d} {margin:4d} {kind:8s}", np.r_[margin, mean[1:]], std))
    return found


def main() -> None:
    print("   n  margin rivals          log P   float64   float32     table")
    worst = [0.0, 0.0]
    for name, mean, std in cases():
        want = true_log_probit(mean, std, 0)
        with jax.enable_x64(True):
            m, s = jnp.asarray(mean)[None], jnp.asarray(std)[None]
            double = float(log_probit(m, s, jnp.zeros(1, jnp.int32))[0]) - want
            single = (
                float(log_probit(*(a.astype(jnp.float32) for a in (m, s)), jnp.zeros(1, jnp.int32))[0]) - want
            )
            table = float(log_probit_all(m, s)[0, 0]) - want
        worst = [max(worst[0], abs(double)), max(worst[1], abs(single))]
        print(f"{name} {want:14.6f} {double:9.1e} {single:9.1e} {table:9.1e}")
    print(f"largest error: {worst[0]:.1e} in double, {worst[1]:.1e} in single precision")


if __name__ == "__main__":
    main()
