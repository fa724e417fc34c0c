"""The paper's Figure 1: the mean g(μ, σ) of a normal variable truncated to h ≥ 0, beside max(0, μ).

    python experiments/figure1.py

Also measures how far g is from max(0, μ) at most, in units of σ: on a fine grid of μ/σ for every σ down to
1e-6. Writes experiments/results/figure1.json and docs/images/figure1.png.
"""

import argparse
import time
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure
from runs import IMAGES, RESULTS, begin, origin, read, write

from tggm.plotting import plot_activation
from tggm.special import truncated_mean

SIGMAS = (0.2, 0.5, 1.0, 2.0)
SMALL = (1e-6, 1e-4, 1e-2, 1.0, 10.0)
RESULT, IMAGE = RESULTS / "figure1.json", IMAGES / "figure1.png"


def largest_gap(sigma: float) -> dict[str, float]:
    """The largest g(μ, σ) − max(0, μ) over 20,001 values of μ/σ in [−50, 50], and where it is."""
    with jax.enable_x64(True):
        mu = sigma * np.linspace(-50, 50, 20_001)
        gap = np.asarray(truncated_mean(mu, sigma)) - np.maximum(mu, 0)
    at = int(np.argmax(gap))
    return {"sigma": sigma, "gap": float(gap[at]), "at_mu": float(mu[at])}


def picture(record: dict[str, Any]) -> None:
    figure = Figure(figsize=(6.0, 4.2), layout="constrained")
    plot_activation(record["settings"]["sigmas"], limits=(-4.0, 4.0), ax=figure.subplots())
    figure.savefig(IMAGE, dpi=100)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--render", action="store_true", help="only draw what is stored")
    args = p.parse_args()
    begin()
    if not args.render:
        clock = time.perf_counter()
        gaps = [largest_gap(sigma) for sigma in SMALL]
        settings = {"sigmas": SIGMAS, "seed": 0}
        record = origin(settings=settings, gaps=gaps, seconds=round(time.perf_counter() - clock, 1))
        write(RESULT, record)
        for found in gaps:
            print("sigma {sigma:g}: at most {gap:.6g} above max(0, mu), where mu = {at_mu:g}".format(**found))
    picture(read(RESULT))


if __name__ == "__main__":
    main()
