"""Attack the stated errors of all engines with random and adversarial boxes.

    python benchmarks/stated_errors.py [--cases 40]

x has one common factor: x_k = λ_k f + sqrt(1 − λ_k²) ε_k, so log-probability and means of a box are integrals
over f, computed here by composite Gauss-Legendre rules in NumPy. Correlations are up to 1 − 1e-9, of either
sign, widths from 1e-12, limits as far as 40 standard deviations out, some of them infinite. A violation is an
error of more than three times the stated one (a 99.9 % bound for random engines) of a result that has
converged. Also Gibbs sampling at strong correlations. Adds missing runs to stated_errors.json and
gibbs_mixing.json in benchmarks/results.
"""

import argparse
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, complete

from tggm import MultivariateTruncatedNormal, TruncatedGaussian, box_log_prob
from tggm.inference import exact, gibbs, hmc, mean_field, orthant
from tggm.special import truncated_mean
from tggm.special.truncated import log_mass

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
jax.config.update("jax_enable_x64", True)
FACTOR = 3.0  # an error may exceed the stated one by this factor
SIZES = (1, 2, 3, 10, 30)
Problem = tuple[np.ndarray, np.ndarray, np.ndarray]  # loadings, lower, upper


def problem(rng: np.random.Generator, d: int) -> Problem:
    """Draw loadings and limits; each case has its own strength, distance and width."""
    rest = 10 ** -rng.uniform(0, rng.choice([1, 4, 9]), 1 if rng.random() < 0.5 else d)
    loading = np.broadcast_to(np.sqrt(1 - rest), d) * rng.choice([-1, 1], d) ** rng.integers(0, 2)
    lower = rng.normal(size=d) + rng.choice([0, 0, -3, 10, 40]) * rng.choice([-1, 1])
    upper = lower + 10 ** -rng.uniform(-1, rng.choice([0, 3, 12]), d)
    wide = rng.random(d) < 0.3
    return loading, np.where(wide & (rng.random(d) < 0.5), -np.inf, lower), np.where(wide, np.inf, upper)


@jax.jit
def _inside(f: jax.Array, loading: jax.Array, scale: jax.Array, *limits: jax.Array) -> tuple[jax.Array, ...]:
    """Return the log-probability of the box given f, and means in it, relative to the first of the limits."""
    loading, scale, anchor, *box = (a[None, :] for a in (loading, scale, *limits))
    centre = f[:, None] * loading - anchor
    sd, lower, upper = (jnp.broadcast_to(a, centre.shape) for a in (scale, *box))
    mass = log_mass(centre / sd, lower / sd, upper / sd).sum(1)
    return mass - 0.5 * f * f - 0.5 * np.log(2 * np.pi), truncated_mean(centre, sd, lower, upper)


def covariance(loading: np.ndarray) -> np.ndarray:
    cov = np.outer(loading, loading)
    cov[np.diag_indices(len(cov))] = 1.0
    return cov


def reference(case: Problem, panels: int = 12) -> tuple[float, np.ndarray, float]:
    """Return log-probability and means by integration over the common factor, and their rounding."""
    loading, lower, upper = case
    rest = (1 - loading) * (1 + loading)

    anchor = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0))
    scale = np.sqrt(rest) * np.ones(len(loading))

    def both(f: np.ndarray) -> list[np.ndarray]:
        padded = np.pad(f, (0, (1 << (len(f) - 1).bit_length()) - len(f)), "edge")  # few programs
        found = _inside(padded, loading, scale, anchor, lower - anchor, upper - anchor)
        return [np.asarray(a)[: len(f)] for a in found]

    def log_f(f: np.ndarray) -> np.ndarray:
        return both(f)[0]

    # where the integrand can be of size: zoom into the maximum of a log-concave function, then out
    a, b = -60.0 / np.abs(loading).min() ** 2, 60.0 / np.abs(loading).min() ** 2
    for _ in range(40):
        x = np.linspace(a, b, 17)
        best = int(log_f(x).argmax())
        a, b = x[max(best - 1, 0)], x[min(best + 1, 16)]
    mode, floor = (a + b) / 2, log_f(np.array([(a + b) / 2]))[0] - 50
    ends = []
    for sign in (-1, 1):
        reach = 10.0 ** np.linspace(-16, 3, 2000)
        below = log_f(mode + sign * reach) < floor
        ends.append(mode + sign * reach[int(below.argmax())])
    near = 10 * np.sqrt(rest) / np.abs(loading)
    cuts = [c + s * near for limit in (lower, upper) for c in [limit / loading] for s in (-1, 0, 1)]
    finite = np.concatenate([*cuts, ends])
    edges = np.unique(np.clip(finite[np.isfinite(finite)], *ends))
    edges = np.unique(np.concatenate([np.linspace(p, q, panels + 1) for p, q in itertools.pairwise(edges)]))
    half = 0.5 * np.diff(edges)[:, None]
    f = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * NODES).ravel()
    at, inner = both(f)
    log_w = at + np.log(half * WEIGHTS).ravel()
    total = logsumexp(log_w)
    # rounding of the arguments of the normal distribution function, whose slope is their size
    outside = np.maximum(np.maximum(lower - mode * loading, mode * loading - upper), scale) / scale
    doubt = 1e-15 * ((np.abs(anchor) + np.abs(mode * loading) + scale) / scale * outside).sum()
    w = np.exp(log_w - log_w.max())
    return float(total), anchor + (w / w.sum()) @ inner, float(doubt)


def laws(case: Problem, engine: str) -> Iterator[tuple[str, Any, Any]]:
    """Return names of quantities, values and stated errors of the class."""
    law = MultivariateTruncatedNormal(np.zeros(len(case[0])), covariance(case[0]), *case[1:], engine=engine)
    found = law.log_prob_box(tol=0.5)
    yield "log_prob", found.value, found.error
    moments = law.moments(tol=0.5)
    yield "mean", moments.mean, moments.mean_error


def engines(case: Problem, engine: Callable[[TruncatedGaussian], Any]) -> Iterator[tuple[str, Any, Any]]:
    cov = covariance(case[0])
    P = np.linalg.inv(cov)
    P = (P + P.T) / 2
    found = engine(TruncatedGaussian(P, np.zeros(len(P)), *case[1:]))
    # the precision was rounded: errors of its inverse are the user's
    if not bool(found.converged):
        return
    inherited = 1e-15 * np.linalg.cond(cov) * (1 + float(found.mean @ jnp.abs(P) @ jnp.abs(found.mean)))
    if found.log_z is not None and found.log_z_error is not None:
        log_p = float(found.log_z) + 0.5 * (np.linalg.slogdet(P)[1] - len(P) * np.log(2 * np.pi))
        yield "log_prob", log_p, float(found.log_z_error) + inherited
    if found.log_z is not None and found.kind == "bound":
        log_p = float(found.log_z) + 0.5 * (np.linalg.slogdet(P)[1] - len(P) * np.log(2 * np.pi))
        yield "bound", log_p, inherited
    if found.mean_error is not None:
        yield "mean", found.mean, found.mean_error + inherited * jnp.sqrt(found.var)


def differentiable(case: Problem) -> Iterator[tuple[str, Any, Any]]:
    cov = covariance(case[0])
    yield "log_prob", *box_log_prob(*case[1:], np.zeros(len(cov)), cov, with_error=True)


ENGINES: dict[str, tuple[int, Callable[[Problem], Iterator[tuple[str, Any, Any]]]]] = {
    "MultivariateTruncatedNormal, auto": (30, lambda case: laws(case, "auto")),
    "MultivariateTruncatedNormal, separation": (30, lambda case: laws(case, "separation")),
    "MultivariateTruncatedNormal, ep": (30, lambda case: laws(case, "ep")),
    "box_log_prob": (30, differentiable),
    "exact": (3, lambda case: engines(case, exact)),
    "orthant": (30, lambda case: engines(case, orthant)),
    "mean_field": (30, lambda case: engines(case, mean_field)),
    "gibbs": (10, lambda case: engines(case, lambda tg: gibbs(tg, jax.random.key(0), 4000))),
    "hmc": (10, lambda case: engines(case, lambda tg: hmc(tg, jax.random.key(0), 2000))),
}


def attack(name: str, d: int, cases: int, seed: int = 0) -> dict[str, Any]:
    """Return numbers of cases, of stated errors and of violations, and the largest ratio of an error."""
    rng = np.random.default_rng([seed, d])
    stated, violations, unknown, worst = 0, 0, 0, 0.0
    for number in range(cases):
        case = problem(rng, d)
        log_p, mean, rounded = reference(case)
        checked = reference(case, 17)
        doubts = (
            abs(checked[0] - log_p) + rounded + 1e-14 * abs(log_p),
            np.abs(checked[1] - mean) + 2e-15 * np.abs(mean),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # unreached tolerances, unconverged rows
            for what, value, error in ENGINES[name][1](case):
                truth, slack = (mean, doubts[1]) if what == "mean" else (log_p, doubts[0])
                off = np.asarray(value, float) - truth
                off = np.abs(off) if what != "bound" else np.maximum(off, 0)
                error = np.asarray(error, float)
                known = np.isfinite(error) & np.isfinite(slack)
                ratio = float(
                    np.max(
                        np.where(known, np.maximum(off - slack, 0) / np.where(known, error, 1), 0), initial=0
                    )
                )
                stated, unknown = stated + 1, unknown + int(not known.all())
                worst = max(worst, ratio)
                if ratio > FACTOR or not np.isfinite(off[known] if off.ndim else off * known).all():
                    violations += 1
                    print("violation", name, what, d, number, ratio, off, error, flush=True)
    counts = {"cases": cases, "stated": stated, "unknown": unknown, "violations": violations}
    return {"engine": name, "d": d, **counts, "worst": worst}


def mixing(correlation: float, burn_in: int, repeats: int = 20) -> dict[str, Any]:
    """Return errors of Gibbs sampling, h >= 0 with two variables of mean zero, in standard deviations."""
    truth = np.sqrt(2 / np.pi) * (1 + correlation) / 2 / (0.5 + np.arcsin(correlation) / np.pi)
    P = np.linalg.inv([[1, correlation], [correlation, 1]])
    found = [
        gibbs(TruncatedGaussian(P, np.zeros(2)), jax.random.key(seed), 10_000, burn_in=burn_in)
        for seed in range(repeats)
    ]
    sd = np.sqrt([each.var for each in found])
    off = (np.array([each.mean for each in found]) - truth) / sd
    ess = np.array([each.ess for each in found])
    within = np.abs(off) <= [np.asarray(each.mean_error) for each in found] / sd
    return {
        "correlation": correlation,
        "burn_in": burn_in,
        "bias": float(off.mean()),
        "of_bias": float(off.mean(1).std(ddof=1) / np.sqrt(repeats)),
        "rms": float(np.sqrt((off**2).mean())),
        "expected": float(np.sqrt((1 / ess).mean())),
        "ess": float(np.median(ess)),
        "within": float(within.mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=40)
    cases = parser.parse_args().cases
    mixings = list(itertools.product((0.5, 0.99), (0, 100)))
    complete(BENCHMARKS / "gibbs_mixing.json", ["correlation", "burn_in"], mixing, mixings)
    tasks = [(name, d) for d, name in itertools.product(SIZES, ENGINES) if d <= ENGINES[name][0]]
    complete(BENCHMARKS / "stated_errors.json", ["engine", "d"], partial(attack, cases=cases), tasks)


if __name__ == "__main__":
    main()
