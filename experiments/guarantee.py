"""Do intervals with a guarantee hold? Many small exchangeable samples, light and heavy tails.

    python experiments/guarantee.py [--repetitions 1000] [--fits 100]

Each repetition draws a sample, sets rows aside, fits an ensemble to the others, and asks whether one new row
is inside its interval. The theorem is about the interval, whatever the ensemble: most repetitions use five
ridge regressions on bootstrap samples, which take no time; fewer use `TGGMRegressor` with few epochs. Writes
experiments/results/guarantee.json: how often new rows were inside, and how far that is from the least that is
promised, in standard errors.
"""

import time
from typing import Any

import numpy as np
from runs import RESULTS, begin, options, origin, write

from tggm import TGGMRegressor
from tggm.predictive.conformal import centre_and_width, fewest_rows, quantile, scores_of, sorted_scores

SIZES = (20, 50, 200)
LEVELS = (0.8, 0.9)
NOISES = ("normal", "cauchy", "skewed")
NEW = 20  # new rows of a fit of the estimator: they share the rows set aside, so they count as one
RESULT = RESULTS / "guarantee.json"


def sample(rng: np.random.Generator, n: int, noise: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three columns; the noise grows with the first."""
    X = rng.standard_normal((n, 3))
    draws = {"normal": rng.standard_normal, "cauchy": rng.standard_cauchy, "skewed": rng.standard_exponential}
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * (1 + np.abs(X[:, 0])) * draws[noise](n)


def surrogate(rng: np.random.Generator, X: np.ndarray, y: np.ndarray, at: np.ndarray) -> tuple[Any, Any]:
    """Means and variances of five ridge regressions at other rows; the variances are far from right."""
    mean, var = [], []
    for _ in range(5):
        rows = rng.integers(len(y), size=len(y))
        A = np.column_stack([np.ones(len(rows)), X[rows]])
        w = np.linalg.solve(A.T @ A + np.eye(4), A.T @ y[rows])
        mean.append(np.column_stack([np.ones(len(at)), at]) @ w)
        var.append(np.full(len(at), 0.01) + 0.1 * at[:, 0] ** 2)
    return np.stack(mean), np.stack(var)


def holds(rng: np.random.Generator, n: int, noise: str, level: float) -> bool:
    """Whether a new row is inside, the members being ridge regressions."""
    X, y = sample(rng, n + 1, noise)
    m = max(fewest_rows(level), n // 10)
    mean, var = surrogate(rng, X[m:n], y[m:n], X)
    scores = sorted_scores(scores_of(mean[:, :m], var[:, :m], y[:m])[None])[0]
    centre, width = centre_and_width(mean[:, n:], var[:, n:])
    return bool(abs(y[n] - centre[0]) <= quantile(scores, level) * width[0])


def estimated(rng: np.random.Generator, n: int, noise: str, level: float) -> float:
    """The share of new rows that are inside, the model being ours with few epochs."""
    X, y = sample(rng, n + NEW, noise)
    model = TGGMRegressor(
        (8, 8), n_members=3, max_epochs=20, guarantee=level, random_state=int(rng.integers(2**31))
    )
    low, high = model.fit(X[:n], y[:n]).predict_interval(X[n:], level, guarantee=True)
    return float(np.mean((low <= y[n:]) & (y[n:] <= high)))


def figures(inside: np.ndarray, level: float) -> dict[str, float]:
    """Mean, and its distance from the level in standard errors: of independent repetitions."""
    error = max(float(inside.std()), 1e-9) / np.sqrt(len(inside))
    mean = float(inside.mean())
    return {
        "level": level, "inside": mean, "errors_above": (mean - level) / error, "repetitions": len(inside),
    }  # fmt: skip


def run(repetitions: int, fits: int, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for n in SIZES:
        for noise in NOISES:
            for level in LEVELS:
                rng = np.random.default_rng([seed, n, NOISES.index(noise), round(100 * level)])
                inside = np.array([holds(rng, n, noise, level) for _ in range(repetitions)], float)
                found[f"{n} {noise} {level} ridge"] = figures(inside, level)
        clock = time.perf_counter()
        rng = np.random.default_rng([seed, n])
        inside = np.array([estimated(rng, n, "cauchy", 0.9) for _ in range(fits)])
        found[f"{n} cauchy 0.9 tggm"] = figures(inside, 0.9) | {"seconds": time.perf_counter() - clock}
        for name, each in found.items():
            if name.startswith(f"{n} "):
                print(
                    f"{name:<28} inside {each['inside']:.3f}  errors {each['errors_above']:+.1f}", flush=True
                )
    return found


if __name__ == "__main__":
    begin()
    parser = options(__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--fits", type=int, default=100)
    given = parser.parse_args()
    settings = {"repetitions": given.repetitions, "fits": given.fits}
    found = run(given.repetitions, given.fits, given.seed)
    write(RESULT, origin(seed=given.seed, settings=settings) | {"runs": found})
