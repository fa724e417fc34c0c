"""Temperatures that are known are found again, and what few rows say is not believed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.predictive.temperature import checked_temperature, fitted_temperature, tempered


def drawn(N, T=1.0, bias=(0.0, 0.0, 0.0), seed=0):
    """Log-probabilities that are off by a temperature and biases, and labels by the true ones."""
    rng = np.random.default_rng(seed)
    log_p = 2 * rng.standard_normal((N, 3))
    log_p -= np.logaddexp.reduce(log_p, axis=1)[:, None]
    true = np.exp(tempered(log_p, (T, *bias)))
    return log_p, (rng.uniform(size=(N, 1)) > np.cumsum(true, axis=1)).sum(1)


@pytest.mark.parametrize("T", [0.5, 1.6, 3.0])
def test_a_temperature_is_found(T):
    N = 4000
    found = fitted_temperature(*drawn(N, T), np.ones(N))
    assert len(found) == 1
    assert_allclose(np.log(found[0]), np.log(T), atol=5 / np.sqrt(N))  # a row tells log T to about 1


def test_biases_are_found_where_they_are():
    N, bias = 4000, np.array([1.0, 0.0, -1.0])
    found = fitted_temperature(*drawn(N, 1.5, bias), np.ones(N))
    assert len(found) == 4
    assert_allclose(np.array(found[1:]) - np.mean(found[1:]), bias, atol=0.25)


def test_what_is_right_stays():
    assert sum(fitted_temperature(*drawn(300, seed=s), np.ones(300)) != () for s in range(20)) <= 6
    assert fitted_temperature(*drawn(10, 3.0), np.ones(10)) == ()
    assert fitted_temperature(*drawn(300, 3.0), np.zeros(300)) == ()


def test_weights_count_rows():
    log_p, label = drawn(400, 2.0)
    double = fitted_temperature(np.tile(log_p, (2, 1)), np.tile(label, 2), np.repeat([1.0, 0.0], 400))
    assert_allclose(double, fitted_temperature(log_p, label, np.ones(400)), rtol=1e-4)


def test_no_temperature_is_too_sure_of_impossible_labels():
    log_p = np.log(np.tile([1.0 - 1e-12, 1e-12], (200, 1)))
    label = np.zeros(200, int)
    label[:20] = 1
    T = fitted_temperature(log_p, label, np.ones(200))
    assert np.isfinite(tempered(log_p, T)).all()
    assert T[0] > 2


def test_tempered_rows_sum_to_one_and_keep_their_order():
    log_p = drawn(50)[0]
    for numbers in [(), (0.3,), (4.0,)]:
        soft = tempered(log_p, numbers)
        assert_allclose(np.exp(soft).sum(1), 1)
        assert (soft.argmax(1) == log_p.argmax(1)).all()
    assert_allclose(np.exp(tempered(log_p, (2.0,)))[:, 0], np.exp(log_p[:, 0] / 2) / np.exp(log_p / 2).sum(1))


def test_what_a_file_says_is_checked():
    assert checked_temperature([], 3) == ()
    assert checked_temperature([2, 0.1, 0.2, 0.3], 3) == (2.0, 0.1, 0.2, 0.3)
    for numbers in (3.0, [1.0, 2.0], [0.0], [np.nan], ["1"], [1.0, 0.0, 0.0, 99.0]):
        with pytest.raises(ValueError, match="temperature"):
            checked_temperature(numbers, 3)
