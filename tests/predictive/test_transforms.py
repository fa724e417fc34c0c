"""Targets modelled by their logarithm."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.predictive import GaussianMixture, LognormalMixture, StudentPredictive
from tggm.predictive.transforms import LogTransform, checked_transform


def test_log_and_exponential_are_inverse_and_finite():
    transform, y = LogTransform(), np.geomspace(1e-300, 1e300, 50)
    assert_allclose(transform.inverse(transform.forward(y)), y, rtol=1e-12)
    assert transform.forward(np.array([-1.0, 0.0])).tolist() == [-np.inf, -np.inf]
    assert np.isfinite(transform.inverse(np.array([-1e300, 800.0, 1e300]))).all()
    assert transform.inverse(np.array(np.inf)) == np.inf


def test_only_gaussians_have_a_mean_under_the_logarithm():
    assert isinstance(LogTransform().distribution(GaussianMixture([[0.0]], [[1.0]])), LognormalMixture)
    with pytest.raises(ValueError, match="no mean"):
        LogTransform().distribution(StudentPredictive(np.zeros(1), np.ones(1), 0.1))


def test_transforms_from_files_are_checked():
    assert checked_transform(0.5) == LogTransform(0.5)
    assert_allclose(LogTransform(0.5).inverse(LogTransform(0.5).forward(np.array([0.0, 7.0]))), [0.0, 7.0])
    with pytest.raises(ValueError, match="`shift of the transform` must be a number; got 'sqrt'"):
        checked_transform("sqrt")
