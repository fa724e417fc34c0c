"""scikit-learn's own checks of an estimator."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn.utils.estimator_checks import parametrize_with_checks

from tggm import TGGMRegressor

# small and short: the checks are about conduct, not about accuracy
QUICK = {"hidden": (8,), "n_members": 1, "max_epochs": 40, "batch_size": 32, "learning_rate": 0.03}


def expected_failures(estimator):
    # the checks call score_samples(X); the density of a regression needs y as well. Tested below instead.
    needs_y = "score_samples of a regressor takes X and y"
    return {
        # MLPRegressor is checked here with full batches; so is the second estimator below
        "check_sample_weight_equivalence_on_dense_data": "held-out rows and batches depend on their number",
        "check_methods_sample_order_invariance": needs_y,
        "check_methods_subset_invariance": needs_y,
    }


@parametrize_with_checks([TGGMRegressor(**QUICK)], expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_rows_are_predicted_by_themselves():
    """What the two checks on order and subsets of rows ask, for every method that takes rows."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), rng.standard_normal(30)
    model = TGGMRegressor(**QUICK).fit(X, y)
    order = rng.permutation(30)
    for answer in (
        model.predict,
        lambda X: np.stack(model.predict_interval(X), axis=1),
        model.predict_quantiles,
        lambda X: model.score_samples(X, np.zeros(len(X))),
    ):
        whole = answer(X)
        assert_allclose(answer(X[order]), whole[order], atol=1e-9)
        assert_allclose(np.concatenate([answer(X[i : i + 1]) for i in range(30)]), whole, atol=1e-6)


FULL_BATCH = TGGMRegressor(
    **{**QUICK, "batch_size": 1000, "max_epochs": 10}, early_stopping=False, dtype="float64"
)


def test_weights_equal_repetitions_with_full_batches():
    from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data as check

    check("TGGMRegressor", FULL_BATCH)
