"""What the model is compared with, against definitions written out."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import ClassifierMixin

from tests.report.test_effects import Known
from tggm.report._case import baselines_of, examine, score_all


class KnownClasses(ClassifierMixin, Known):
    classes_ = np.array(["a", "b", "c"])


def test_without_training_rows_the_naive_prediction_is_of_the_rows_judged_on():
    case = examine(Known(), np.zeros((3, 4)), [1.0, 2.0, 6.0])
    baselines = baselines_of(case)
    assert baselines.naive == pytest.approx([3.0, 7.0])
    assert baselines.coef is None
    assert list(score_all(case)) == ["this model", "naive"]


def test_the_variance_of_the_linear_model_is_its_leave_one_out_error(rng):
    X = rng.normal(size=(25, 4)) * np.array([1.0, 10.0, 0.1, 1.0])
    y = X @ np.array([1.0, -0.2, 3.0, 0.0]) + rng.normal(size=25)
    case = examine(Known(), X[:4], y[:4], train=(sparse.csr_matrix(X), y))
    Z = (X - X.mean(0)) / X.std(0)
    errors = []
    for penalty in np.logspace(-3, 3, 13):
        loo = []
        for i in range(25):
            kept = np.arange(25) != i
            A, b = Z[kept] - Z[kept].mean(0), y[kept] - y[kept].mean()
            w = np.linalg.solve(A.T @ A + penalty * np.eye(4), A.T @ b)
            loo.append(y[i] - y[kept].mean() - (Z[i] - Z[kept].mean(0)) @ w)
        errors.append(np.mean(np.square(loo)))
    assert baselines_of(case).variance == pytest.approx(min(errors), rel=1e-6)


def test_classes_are_counted_once_more_than_they_occur():
    case = examine(KnownClasses(), np.zeros((3, 4)), np.array(["a", "a", "c"]))
    assert np.exp(baselines_of(case).naive) == pytest.approx([3 / 6, 1 / 6, 2 / 6])
