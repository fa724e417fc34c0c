"""The paper's own settings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from tggm import TGGMClassifier, TGGMRegressor


def test_a_regressor_as_in_the_paper():
    bp, ml = TGGMRegressor.paper_bp(random_state=3), TGGMRegressor.paper_ml(hidden=(100,), batch_size=100)
    assert (bp.method, bp.noise, bp.init, bp.batch_size, bp.optimizer) == ("bp", 0.01, "paper", 50, "rmsprop")
    assert_allclose([bp.sigma0**2, ml.sigma0**2], [0.01, 0.5])
    assert (ml.method, ml.solver, ml.n_cycles, ml.noise, ml.n_members) == ("meanfield", "cyclic", 10, 0.5, 1)
    assert (ml.hidden, ml.batch_size, bp.random_state) == ((100,), 100, 3)
    assert clone(ml).get_params() == ml.get_params()


def test_a_classifier_as_in_the_paper():
    bp, ml = TGGMClassifier.paper_bp(), TGGMClassifier.paper_ml(hidden=(200,), batch_size=200)
    assert (bp.method, bp.init, bp.batch_size, bp.optimizer) == ("bp", "paper", 500, "rmsprop")
    assert_allclose([bp.sigma0**2, ml.sigma0**2], [0.01, 0.5])
    assert (ml.method, ml.solver, ml.n_cycles, ml.factorised) == ("meanfield", "cyclic", (30, 5), True)
    assert (ml.hidden, ml.batch_size) == ((200,), 200)
    assert clone(ml).get_params() == ml.get_params()


def test_the_papers_models_of_several_layers_are_undirected():
    for make in (TGGMClassifier.paper_ml, TGGMClassifier.paper_bp, TGGMRegressor.paper_ml):
        assert make(hidden=(4, 4)).deep == "undirected"


@pytest.mark.slow  # two solvers in layers of classes; their gradients: tests/training/test_deep_methods.py
def test_the_papers_classifier_of_several_layers_is_fitted():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    model = TGGMClassifier.paper_ml(hidden=(4, 4), n_cycles=3, max_epochs=1, random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
