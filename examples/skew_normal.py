"""The paper's worked example: one truncated latent variable makes a normal skewed.

w0 = b0 = b1 = 0,  p0 = 1,  p1 = 2,  w1 = 1/2:     y = |u|/2 + v/√2  with u, v standard normal
"""

import numpy as np
from scipy.stats import skewnorm

from tggm import TGGM


def main() -> float:
    model = TGGM(W0=[[0.0]], b0=[0.0], W1=[[0.5]], b1=[0.0], P0=1.0, P1=2.0)
    y = np.linspace(-3, 4, 8)
    X = np.zeros((len(y), 1))  # the input plays no part
    found = model.log_density(X, y[:, None])
    normal, above, below = model.modulation(X, y[:, None])
    want = skewnorm.logpdf(y, 0.5 * np.sqrt(2), 0, np.sqrt(0.75))
    print("     y    log p(y)  = log N(y)  + log Pr(h>=0|y) - log Pr(h>=0)   scipy's skewnorm")
    for row in zip(y, found.value, normal, above.value, below.value, want, strict=True):
        print("{:6.1f}{:12.6f}{:13.6f}{:18.6f}{:16.6f}{:19.6f}".format(*map(float, row)))
    return float(np.abs(found.value - want).max())


if __name__ == "__main__":
    print(f"largest difference {main():.1e}")
