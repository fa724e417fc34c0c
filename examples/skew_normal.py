"""The paper's worked example: one truncated latent variable makes a normal skewed.

w0 = b0 = b1 = 0,  p0 = 1,  p1 = 2,  w1 = 1/2:     y = |u|/2 + v/√2  with u, v standard normal
"""

import numpy as np
from scipy.stats import norm, skewnorm

from tggm import Graph


def main() -> float:
    graph = Graph().latent("h", noise=1.0).observed("y", noise=0.5).connect("h", "y", [[0.5]])
    y = np.linspace(-3, 4, 8)
    found = graph.log_likelihood({"y": y})
    want = skewnorm.logpdf(y, 0.5 * np.sqrt(2), 0, np.sqrt(0.75))
    # without truncation y is normal; truncation multiplies its density by Pr(h >= 0 | y) / Pr(h >= 0)
    posterior = graph.posterior({"y": y})
    normal = norm.logpdf(y, 0, np.sqrt(0.75))
    above = norm.logcdf(np.asarray(posterior.shift)[:, 0] / np.sqrt(posterior.precision.dense().item()))
    print("     y    log p(y)  = log N(y)  + log Pr(h>=0|y) - log Pr(h>=0)   scipy's skewnorm")
    for row in zip(y, found.value, normal, above, np.full(len(y), np.log(0.5)), want, strict=True):
        print("{:6.1f}{:12.6f}{:13.6f}{:18.6f}{:16.6f}{:19.6f}".format(*map(float, row)))
    return float(np.abs(found.value - want).max())


if __name__ == "__main__":
    print(f"largest difference {main():.1e}")
