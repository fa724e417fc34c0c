"""The contract of all engines, against independent references.

Each engine has bounds for the errors of its means and its log Z; samplers by the number of draws.
Every engine runs a box and a coupled pair in `make test`; special cases of them are slow for some.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm, truncnorm

from tests.cases import few
from tests.inference.references import equicorrelated, grid_box, log_volume
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


# Monte Carlo: five standard errors of 4000 draws, three times as many where draws are correlated
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


@pytest.mark.parametrize("engine", engines("newton", "cyclic", "ep", "exact"), ids=ids)
def test_independent_variables(engine):
    p, gamma = np.array([0.5, 1.0, 4.0]), np.array([[1.0, -2.0, 0.3], [-1.0, 0.5, -6.0]])
    mu, sigma = gamma / p, 1 / np.sqrt(p)
    law = truncnorm(-mu / sigma, np.inf, loc=mu, scale=sigma)
    log_z = (gamma**2 / (2 * p) + 0.5 * np.log(2 * np.pi / p) + norm.logcdf(mu / sigma)).sum(-1)
    got = engine(TruncatedGaussian(Diagonal(p), gamma))
    check(got, law.mean(), law.var(), log_z, engine)
    if engine.name not in ("gibbs", "hmc", "orthant"):  # everything else is exact here
        assert_allclose(got.mean, law.mean(), rtol=1e-8)
        assert_allclose(got.var, law.var(), rtol=1e-7)
        assert_allclose(got.log_z, log_z, rtol=1e-10, atol=1e-10)


KNOWN = [e for e in ENGINES if e.log_z is not None]


# the law for quadrature: exact/test_engine.py
@pytest.mark.parametrize("engine", few(KNOWN, "newton", "cyclic", "ep", "orthant", name=ids), ids=ids)
@pytest.mark.parametrize("rho", [-0.3, 0.3])
def test_arcsine_law(engine, rho):
    # P(both >= 0) of two standard normals with correlation rho is 1/4 + asin(rho) / 2 pi
    S = np.array([[1.0, rho], [rho, 1.0]])
    log_z = np.log(0.25 + np.arcsin(rho) / (2 * np.pi)) + np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(S)[1]
    got = engine(TruncatedGaussian(np.linalg.inv(S), np.zeros(2)))
    assert got.log_z.shape == ()
    assert_allclose(got.log_z, log_z, atol=engine.log_z)


P2, GAMMA2 = np.array([[1.5, 0.4], [0.4, 1.0]]), np.array([0.7, -0.5])


@cache
def two_variables():
    """Return normaliser and means of two truncated variables: one by quadrature, the other in closed form."""
    P, gamma = P2, GAMMA2

    def slice_(x):  # integral over h2, and of h2, at h1 = x
        a, s = gamma[1] - P[0, 1] * x, P[1, 1] ** -0.5
        bell = s * np.sqrt(2 * np.pi) * np.exp(0.5 * (a * s) ** 2 - 0.5 * P[0, 0] * x**2 + gamma[0] * x)
        mass, density = bell * ndtr(a * s), bell * np.exp(-0.5 * (a * s) ** 2) / np.sqrt(2 * np.pi)
        return mass, a * s * s * mass + s * density

    z = quad(lambda x: slice_(x)[0], 0, 40, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
    m1 = quad(lambda x: x * slice_(x)[0], 0, 40, epsabs=1e-13, epsrel=1e-12, limit=200)[0] / z
    m2 = quad(lambda x: slice_(x)[1], 0, 40, epsabs=1e-13, epsrel=1e-12, limit=200)[0] / z
    v1 = quad(lambda x: (x - m1) ** 2 * slice_(x)[0], 0, 40, epsabs=1e-13, epsrel=1e-12, limit=200)[0] / z
    return np.log(z), np.array([m1, m2]), v1


# a pair by quadrature: exact/test_engine.py; draws of coupled variables: sampling/
@pytest.mark.parametrize("engine", engines("newton", "cyclic", "ep", "orthant"), ids=ids)
def test_two_coupled_variables(engine):
    log_z, mean, v1 = two_variables()
    got = engine(TruncatedGaussian(P2, GAMMA2))
    check(got, mean, np.array([v1, np.asarray(got.var)[1]]), log_z, engine)
    if engine.name == "exact":
        assert_allclose(got.var[0], v1, rtol=1e-8)


# that of lattice points: orthant/test_engine.py; three variables are those of the boxes below
@pytest.mark.parametrize("engine", few(ENGINES[2:5:2], "ep", name=ids), ids=ids)
@pytest.mark.parametrize("d", few([3, 6], "3"))
def test_equicorrelated_orthant(engine, d):
    # with correlation 1/2 the orthant probability of d normals is 1 / (d + 1)
    S = 0.5 * np.eye(d) + 0.5
    log_z = -np.log(d + 1) + 0.5 * d * np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(S)[1]
    tol = 0.01 if engine.name == "orthant" else 0.05
    assert_allclose(engine(TruncatedGaussian(np.linalg.inv(S), np.zeros((2, d)))).log_z, log_z, atol=tol)


FREE = [e for e in ENGINES if e.name != "exact"]


# draws of free variables: sampling/
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


# leading axes of quadrature: exact/test_engine.py
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


# Newton ends at the one stationary point, quadrature within 1e-9 of the truth: in any order and unit
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


@pytest.mark.slow  # mean_field/test_engine.py, ep/test_engine.py and exact/test_engine.py have it
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


# quadrature over three variables is a large program: two of them in `make test`; cycles end where Newton does
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


@pytest.mark.parametrize("engine", engines("exact"), ids=ids)
def test_independent_box(engine):
    p, gamma = np.array([0.5, 1.0, 4.0]), SHIFTS
    mu, sigma = gamma / p, 1 / np.sqrt(p)
    law = truncnorm((LOWER - mu) / sigma, (UPPER - mu) / sigma, loc=mu, scale=sigma)
    mass = norm.cdf((UPPER - mu) / sigma) - norm.cdf((LOWER - mu) / sigma)
    log_z = (gamma**2 / (2 * p) + 0.5 * np.log(2 * np.pi / p) + np.log(mass)).sum(-1)
    got = engine(TruncatedGaussian(Diagonal(p), gamma, LOWER, UPPER))
    check(got, law.mean(), law.var(), log_z, engine)
    if engine.name in ("exact", "ep", "newton"):
        assert_allclose(got.mean, law.mean(), rtol=1e-7)
        assert_allclose(got.log_z, log_z, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("engine", [e for e in ENGINES if e.name in ("orthant", "ep")], ids=ids)
@pytest.mark.parametrize("d", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_equicorrelated_box(d, engine):
    rho = 0.5
    S = (1 - rho) * np.eye(d) + rho
    lower, upper = np.linspace(-1.5, 0.3, d), np.linspace(0.1, 2.0, d)
    log_z = np.log(equicorrelated(rho, lower, upper)) + log_volume(S, np.zeros(d))
    tol = 0.01 if engine.name == "orthant" else 0.02
    shifts, limits = np.zeros((2, d)), (np.tile(limit, (2, 1)) for limit in (lower, upper))  # as in test_box
    got = engine(TruncatedGaussian(np.linalg.inv(S), shifts, *limits))
    assert_allclose(got.log_z, [log_z, log_z], atol=tol)


@pytest.mark.parametrize("engine", [e for e in DETERMINISTIC if e.name == "ep"], ids=ids)
def test_zero_and_infinity_are_a_box(engine):
    # the code of boxes, given the limits of the default: 1e30 is as good as none
    box = engine(TruncatedGaussian(COUPLED, SHIFTS, np.zeros((2, 3)), np.full((2, 3), 1e30)))
    want = engine(TruncatedGaussian(COUPLED, SHIFTS))
    assert_allclose(box.mean, want.mean, rtol=1e-7)
    assert_allclose(box.log_z, want.log_z, rtol=1e-7, atol=1e-7)
