"""EP against exact results, mean field, other structures and float64."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, truncnorm

from tests.inference.references import shallow
from tggm.gaussian import TruncatedGaussian
from tggm.inference import ep, exact, mean_field


@pytest.mark.parametrize("scale", [0.3, 1.0])
@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_log_z_has_an_error_below_two_thousandths_of_a_nat(scale, noise, rng):
    tg = shallow(rng, m=50, scale=scale, noise=noise)
    got, want = ep(tg), exact(tg)
    assert got.converged.all()
    assert np.abs(got.log_z - want.log_z).max() <= 2e-3
    assert np.abs((got.mean - want.mean) / np.sqrt(want.var)).max() < 0.02
    gap = want.log_z - mean_field(tg).log_z
    assert gap.min() > 10 * np.abs(got.log_z - want.log_z).max()


def test_float32_keeps_its_digits(rng):
    seeds = (np.random.default_rng(5), np.random.default_rng(5))
    single = ep(shallow(seeds[0], m=50, noise=0.05, dtype=np.float32))
    double = ep(shallow(seeds[1], m=50, noise=0.05))
    assert single.converged.all()
    # log Z is in the thousands here; a rounding error of float32 is about 1e-4 nats
    assert np.abs(np.asarray(single.log_z) - np.asarray(double.log_z)).max() < 0.01


def test_bad_arguments_and_failed_convergence_are_reported(rng):
    tg = shallow(rng, m=50)
    with pytest.raises(ValueError, match="`max_iter` must be an integer of at least 1"):
        ep(tg, max_iter=0)
    with pytest.raises(ValueError, match="`tol` must be finite and greater than 0; got -1"):
        ep(tg, tol=-1)
    with pytest.warns(RuntimeWarning, match="ep did not converge on"):
        ep(tg, max_iter=1)


@pytest.mark.parametrize(("m", "scale", "seed"), [(6, 5, 4), (10, 3, 4)])
def test_strong_couplings_need_damping(m, scale, seed):
    """Use problems in which one or two rows do not converge without damping."""
    rng = np.random.default_rng(seed)
    W = scale * rng.normal(size=(m, m))
    P = np.block([[np.eye(m) + W.T @ W, -W.T], [-W, np.eye(m)]])
    found = ep(TruncatedGaussian(P, 30 * rng.normal(size=(60, 2 * m))))
    assert found.converged.all()
    assert np.isfinite(found.log_z).all()


@pytest.mark.parametrize("width", [1e-6, 1e-8, 1e-10, 1e-12])
def test_narrow_boxes_keep_their_digits(width):
    # sites are of size 1 / width²; the first variable is known in the limit, the second given it is N(ρx, s²)
    rho, s = 0.99, np.sqrt(1 - 0.99**2)
    P = np.array([[1, -rho], [-rho, 1]]) / s**2
    upper = np.array([1 + width, 2.0])
    found = ep(TruncatedGaussian(P, np.zeros((1, 2)), np.ones(2), upper))
    x = 1 + (upper[0] - 1) / 2
    inside = norm.cdf((2 - rho * x) / s) - norm.cdf((1 - rho * x) / s)
    log_z = np.log(upper[0] - 1) + norm.logpdf(x) + np.log(inside) + np.log(2 * np.pi * s)
    assert found.converged.all()
    assert_allclose(found.log_z, [log_z], atol=1e-11)
    law = truncnorm((1 - rho * x) / s, (2 - rho * x) / s, rho * x, s)
    assert_allclose(found.mean, [[x, law.mean()]], rtol=1e-12)
    assert_allclose(found.var, [[(upper[0] - 1) ** 2 / 12, law.var()]], rtol=1e-6)
