"""The contract of all engines, against independent references.

Each engine has bounds for the errors of its means and its log Z; samplers have bounds by the number of draws.
Every engine computes a box and a coupled pair in `make test`; some of their special cases are marked slow.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, truncnorm

from tests.cases import few
from tests.inference.references import grid_box, grid_moments
from tggm.gaussian import TruncatedGaussian
from tggm.inference import ep, exact, gibbs, hmc, mean_field, orthant
from tggm.precision import Diagonal, LowRank

N_DRAWS = 4000


@dataclass(frozen=True)
class Engine:
    name: str
    mean: float  # largest error of a mean, in its standard deviations, on weakly coupled problems
    log_z: float | None  # largest error of log Z in nats there; None for samplers

    def __str__(self) -> str:
        return self.name

    def __call__(self, tg: TruncatedGaussian) -> Any:
        if self.name == "gibbs":
            return gibbs(tg, jax.random.key(1), N_DRAWS)
        if self.name == "hmc":
            return hmc(tg, jax.random.key(2), N_DRAWS)
        if self.name == "cyclic":
            return mean_field(tg, solver="cyclic", n_cycles=200)
        return {"newton": mean_field, "ep": ep, "exact": exact, "orthant": orthant}[self.name](tg)


# Monte Carlo: five standard errors of 4000 draws, times three because draws are correlated
ENGINES = [
    Engine("newton", 0.1, 0.1),
    Engine("cyclic", 0.1, 0.1),
    Engine("ep", 5e-3, 2e-3),
    Engine("exact", 1e-9, 1e-9),
    Engine("orthant", 0.02, 0.01),
    Engine("gibbs", 3 * 5 / N_DRAWS**0.5, None),
    Engine("hmc", 3 * 5 / N_DRAWS**0.5, None),
]
DETERMINISTIC = [e for e in ENGINES if e.log_z is not None and e.name != "orthant"]


def ids(engine):
    return engine.name


def engines(*quick):
    return few(ENGINES, *quick, name=ids)


def check(got, mean, var, log_z, engine, slack=1.0):
    assert np.all(np.asarray(got.var) > 0)
    assert_allclose((np.asarray(got.mean) - mean) / np.sqrt(var), 0, atol=slack * engine.mean)
    if engine.log_z is None:
        assert got.log_z is None
    else:
        assert_allclose(got.log_z, log_z, atol=slack * engine.log_z)


P2, GAMMA2 = np.array([[1.5, 0.4], [0.4, 1.0]]), np.array([0.7, -0.5])


# a pair by quadrature: test_exact.py; draws of coupled variables: test_sampling.py
@pytest.mark.parametrize("engine", engines("newton", "cyclic", "ep", "orthant"), ids=ids)
def test_two_coupled_variables(engine):
    log_z, mean, var = grid_moments(P2, GAMMA2)
    got = engine(TruncatedGaussian(P2, GAMMA2))
    check(got, mean, var, log_z, engine)
    if engine.name == "exact":
        assert_allclose(got.var, var, rtol=1e-8)


FREE = [e for e in ENGINES if e.name != "exact"]


# draws of free variables: test_sampling.py
@pytest.mark.parametrize("engine", few(FREE, "newton", "ep", "orthant", name=ids), ids=ids)
def test_free_variables_are_gaussian(engine, rng):
    A = rng.normal(size=(2, 2))
    P, gamma = A @ A.T + 2 * np.eye(2), rng.normal(size=2)  # of the pair's shape: the same programs
    cov = np.linalg.inv(P)
    mean = cov @ gamma
    log_z = np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(cov)[1] + 0.5 * gamma @ mean
    got = engine(TruncatedGaussian(P, gamma, np.zeros(2, bool)))
    assert_allclose((np.asarray(got.mean) - mean) / np.sqrt(np.diag(cov)), 0, atol=max(engine.mean, 1e-8))
    if engine.name in ("ep", "orthant"):
        assert_allclose(got.log_z, log_z, atol=1e-8)


def problem(rng, rows=4, m=5, dtype=np.float64):
    U, gamma = rng.normal(size=(1, m)), rng.normal(size=(rows, m))
    return TruncatedGaussian(LowRank(np.ones(m, dtype), U.astype(dtype)), gamma.astype(dtype))


# leading axes of `exact`: test_log_partition.py
@pytest.mark.parametrize("engine", few(DETERMINISTIC, "ep", name=ids), ids=ids)
def test_rows_are_independent_and_keep_their_axes(engine, rng):
    tg = problem(rng)
    got = engine(tg)
    assert_allclose(engine(tg[::-1]).mean, got.mean[::-1], atol=1e-7)
    folded = engine(tg.with_shift(tg.shift.reshape(2, 2, 5)))
    assert folded.mean.shape == (2, 2, 5)
    assert folded.log_z.shape == folded.converged.shape == folded.n_iter.shape == (2, 2)
    assert_allclose(folded.log_z.reshape(4), got.log_z, atol=1e-7)


NO_CYCLES = [e for e in DETERMINISTIC if e.name != "cyclic"]


# Newton's method finds the only stationary point, quadrature is within 1e-9: in any order and unit
@pytest.mark.parametrize("engine", few(NO_CYCLES, "ep", name=ids), ids=ids)
def test_permutation_and_scale(engine, rng):
    tg, order, c = problem(rng), np.array([3, 0, 4, 1, 2]), 2.5
    got = engine(tg)
    U = tg.precision.weights
    turned = engine(TruncatedGaussian(LowRank(np.ones(5), U[:, order]), tg.shift[:, order]))
    assert_allclose(turned.mean, got.mean[:, order], atol=1e-7)
    # h = c h' turns (P, gamma) into (c^2 P, c gamma), and log Z loses m log c
    scaled = engine(TruncatedGaussian(LowRank(np.full(5, c**2), c * U), c * tg.shift))
    assert_allclose(c * scaled.mean, got.mean, atol=1e-7)
    assert_allclose(scaled.log_z + 5 * np.log(c), got.log_z, atol=1e-7)


@pytest.mark.slow  # test_ep.py compares single with double precision
@pytest.mark.parametrize("engine", NO_CYCLES, ids=ids)
def test_single_precision_agrees_with_double(engine, rng):
    got, want = (
        engine(problem(np.random.default_rng(3), dtype=np.float32)),
        engine(problem(np.random.default_rng(3))),
    )
    assert got.mean.dtype == np.float32
    assert_allclose(got.mean, want.mean, atol=2e-4)
    assert_allclose(got.log_z, want.log_z, atol=2e-4)


# boxes: two limits, one, and none; shared, and a row's own
LOWER, UPPER = np.array([-1.0, -np.inf, 0.2]), np.array([0.5, 1.0, np.inf])
COUPLED = np.array([[1.5, 0.4, -0.3], [0.4, 1.2, 0.2], [-0.3, 0.2, 1.0]])
SHIFTS = np.array([[0.7, -0.5, 0.3], [-3.0, 2.0, -4.0]])


@cache
def box(m):
    """Return the first m variables of two boxes, and their log Z, means and variances by a grid."""
    lower = np.array([LOWER, [2.0, 0.0, -np.inf]])[:, :m]
    upper = np.array([UPPER, [2.5, np.inf, np.inf]])[:, :m]
    P, shifts = COUPLED[:m, :m], SHIFTS[:, :m]
    witness = [grid_box(P, *row) for row in zip(shifts, lower, upper, strict=True)]
    return (P, shifts, lower, upper), [np.array(x) for x in zip(*witness, strict=True)]


# quadrature over three variables is a large program: two of them in `make test`; cycles have Newton's limit
BOXED = [(2 if engine.name == "exact" else 3, engine) for engine in ENGINES if engine.name != "cyclic"]
LARGE = [
    pytest.param(3, engine, marks=pytest.mark.slow)
    for engine in ENGINES
    if engine.name in ("exact", "cyclic")
]


@pytest.mark.parametrize(("m", "engine"), [*BOXED, *LARGE], ids=str)
def test_box(m, engine):
    (P, shifts, lower, upper), (log_z, mean, var) = box(m)
    got = engine(TruncatedGaussian(P, shifts, lower, upper))
    check(got, mean, var, log_z, engine)
    assert np.all((got.mean > lower) & (got.mean < upper))


@pytest.mark.parametrize("engine", engines("newton", "cyclic", "ep", "exact"), ids=ids)
@pytest.mark.parametrize("limits", [(0.0, np.inf), (LOWER, UPPER)], ids=["half-lines", "box"])
def test_independent_variables(engine, limits):
    p, gamma = np.array([0.5, 1.0, 4.0]), SHIFTS
    mu, sigma = gamma / p, 1 / np.sqrt(p)
    a, b = ((limit - mu) / sigma for limit in limits)
    law = truncnorm(a, b, loc=mu, scale=sigma)
    log_z = (gamma**2 / (2 * p) + 0.5 * np.log(2 * np.pi / p) + np.log(norm.cdf(b) - norm.cdf(a))).sum(-1)
    got = engine(TruncatedGaussian(Diagonal(p), gamma, *limits))
    check(got, law.mean(), law.var(), log_z, engine)
    if engine.name not in ("gibbs", "hmc", "orthant"):  # everything else is exact here
        assert_allclose(got.mean, law.mean(), rtol=1e-7)
        assert_allclose(got.var, law.var(), rtol=1e-7)
        assert_allclose(got.log_z, log_z, rtol=1e-8, atol=1e-8)


def test_zero_and_infinity_are_a_box():
    # the code of boxes, given the default limits: 1e30 acts as infinity
    box = ep(TruncatedGaussian(COUPLED, SHIFTS, np.zeros((2, 3)), np.full((2, 3), 1e30)))
    want = ep(TruncatedGaussian(COUPLED, SHIFTS))
    assert_allclose(box.mean, want.mean, rtol=1e-7)
    assert_allclose(box.log_z, want.log_z, rtol=1e-7, atol=1e-7)
