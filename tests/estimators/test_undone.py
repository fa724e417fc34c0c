"""`undone_` counts the steps that training took back, in files too."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from tggm import TGGMClassifier, TGGMRegressor, load, save

ESTIMATORS = [TGGMRegressor, TGGMClassifier]
X = np.random.default_rng(0).standard_normal((40, 3))
y = (X[:, 0] > 0).astype(int)


def fitted(kind, rate):
    """Two members, 10 epochs of full batches: 10 steps each."""
    model = kind((4,), n_members=2, batch_size=40, max_epochs=10, learning_rate=rate, random_state=0)
    return model.set_params(optimizer="sgd", clip=1e30).fit(X, y)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_steps_into_overflow_are_counted_and_stored(kind, tmp_path):
    """Of steps so long that the next objective overflows, at most the first is taken."""
    with pytest.warns(ConvergenceWarning):
        model = fitted(kind, 1e30)
    assert model.undone_.shape == (2,)
    assert np.all((model.undone_ >= 9) & (model.undone_ <= 11))  # 10 steps, and an epoch that collapsed
    save(model, tmp_path / "model.tggm")
    assert_array_equal(load(tmp_path / "model.tggm").undone_, model.undone_)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_sound_run_and_a_file_without_the_count_have_none(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted(kind, 1e-3)
    assert_array_equal(model.undone_, [0, 0])
    arrays, meta = model.to_state()
    del arrays["undone"]
    assert_array_equal(kind.from_state(arrays, meta).undone_, [0, 0])
    with pytest.raises(ValueError, match="'undone' has shape"):
        kind.from_state({**arrays, "undone": np.zeros(3, np.int32)}, meta)
