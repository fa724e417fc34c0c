"""Orthant probabilities against closed forms, which engine answers, and what it says of its error."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.gaussian import TruncatedGaussian
from tggm.inference.orthant.probability import chosen, log_orthant, log_z, moments
from tggm.precision import Dense, Diagonal, LowRank


def correlated(rho):
    cov = np.array([[1.0, rho], [rho, 1.0]])
    return TruncatedGaussian(Dense(jnp.asarray(np.linalg.inv(cov))), jnp.zeros((1, 2)))


@pytest.mark.parametrize(("engine", "tolerance"), [("auto", 1e-11), ("orthant", 1e-3), ("ep", 2e-2)])
@pytest.mark.parametrize("rho", [-0.7, 0.5])
def test_two_correlated_variables(engine, tolerance, rho):
    want = np.log(0.25 + np.arcsin(rho) / (2 * np.pi))
    found = log_orthant(correlated(rho), engine)
    assert_allclose(found.value, [want], atol=tolerance)
    assert np.abs(found.value[0] - want) < 8 * found.error[0]


def test_auto_is_exact_where_there_is_an_answer():
    many = LowRank(jnp.ones(8), jnp.ones((2, 8)))
    shift = jnp.zeros((1, 8))
    assert chosen(TruncatedGaussian(many, shift), "auto") == "ep"
    assert chosen(TruncatedGaussian(LowRank(jnp.ones(8), jnp.ones((1, 8))), shift), "auto") == "exact"
    assert chosen(TruncatedGaussian(many, shift), "orthant") == "orthant"
    # independent variables have a closed form, whoever is asked
    assert chosen(TruncatedGaussian(Diagonal(jnp.ones(8)), shift), "ep") == "exact"


def test_options_do_not_disturb_exact_answers():
    tg = correlated(0.5)
    assert_allclose(moments(tg, "auto", n_points=100).mean, moments(tg, "exact").mean)
    assert_allclose(log_z(tg, "auto", max_iter=3).value, log_z(tg, "exact").value)


def test_nothing_is_known_of_rows_that_did_not_converge():
    tg = TruncatedGaussian(correlated(0.9).precision, jnp.array([[-3.0, 1.0]]))
    assert np.isinf(log_z(tg, "ep", max_iter=1).error).all()
    assert np.isfinite(log_z(tg, "ep").error).all()


def test_an_unknown_engine_is_refused():
    with pytest.raises(
        ValueError, match=r"`engine` must be one of .*'auto', 'exact', 'ep', 'orthant'.*'guess'"
    ):
        log_z(correlated(0.1), "guess")
