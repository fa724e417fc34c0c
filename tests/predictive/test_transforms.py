"""Transforms against scipy, finite differences and extreme values."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import yeojohnson

from tggm.predictive.transforms import (
    IdentityTransform,
    LogTransform,
    YeoJohnsonTransform,
    checked_transform,
)

ALL = [
    IdentityTransform(),
    LogTransform(),
    *(YeoJohnsonTransform(p) for p in (0.0, 1e-9, 0.5, 1.0, 1.7, 2.0)),
    YeoJohnsonTransform(0.3, 5.0, 20.0),
]


def domain(transform, y):
    return y[y > 0] if transform.kind == "log" else y


@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_there_and_back(transform):
    y = domain(transform, np.concatenate([-np.geomspace(1e9, 1e-9, 50), [0.0], np.geomspace(1e-9, 1e9, 50)]))
    z = transform.forward(y)
    assert np.all(np.diff(z) > 0)
    # T⁻¹ multiplies relative errors of z by |z| T⁻¹'(z) / |y|
    grow = np.abs(z) * np.exp(transform.log_slope(z))
    assert np.all(np.abs(transform.inverse(z) - y) < 1e-14 * (np.abs(y) + grow + 1))


@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_derivative(transform):
    y = domain(transform, np.linspace(-30, 30, 42))
    h = 1e-5
    slope = (transform.forward(y + h) - transform.forward(y - h)) / (2 * h)
    assert_allclose(np.exp(transform.log_derivative(y)), slope, rtol=1e-7)
    assert_allclose(transform.log_slope(transform.forward(y)), -transform.log_derivative(y), atol=1e-12)


@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_extreme_values_are_finite(transform):
    huge = domain(transform, np.array([-1e300, -1e-300, 1e-300, 1e300]))
    assert np.all(np.isfinite(transform.forward(huge)))
    assert np.all(np.isfinite(transform.log_derivative(huge)))
    assert np.all(np.isfinite(transform.inverse(np.array([-1e300, -800.0, 800.0, 1e300]))))
    assert transform.inverse(np.array(np.inf)) == np.inf


@pytest.mark.parametrize("power", [0.0, 0.4, 1.0, 1.5, 2.0])
def test_yeo_johnson_against_scipy(power):
    y = np.linspace(-5, 9, 29)
    assert_allclose(YeoJohnsonTransform(power).forward(y), yeojohnson(y, power), rtol=1e-13, atol=1e-15)


def test_no_target_below_zero_has_a_logarithm():
    assert LogTransform().forward(np.array([-1.0, 0.0])).tolist() == [-np.inf, -np.inf]
    assert LogTransform().log_derivative(np.array([-1.0, 0.0])).tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_what_a_file_keeps_makes_it_again(transform):
    assert checked_transform(transform.kind, list(transform.numbers)) == transform


def test_what_a_file_says_is_checked():
    for kind, numbers, message in [
        ("sqrt", [], "`transform` must be one of 'identity', 'log', 'yeo-johnson'; got 'sqrt'"),
        ("log", [1.0], r"`numbers` of the transform 'log' must be 0; got \[1.0\]"),
        ("yeo-johnson", [2.5, 0.0, 1.0], "`power` must be from 0 to 2, or T is not onto; got 2.5"),
        ("yeo-johnson", [1.0, 0.0, 0.0], "`loc` must be finite and `scale` positive; got 0.0 and 0.0"),
        ("yeo-johnson", [np.nan, 0.0, 0.0], "must be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            checked_transform(kind, numbers)


def test_which_inverses_grow_like_an_exponential():
    assert LogTransform().exponential
    assert [YeoJohnsonTransform(p).exponential for p in (0.0, 0.1, 0.3, 1.7, 1.9)] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert not IdentityTransform().exponential
