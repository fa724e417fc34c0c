"""scikit-learn's own checks of the regressor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    estimator_checks_generator,
)

from tggm import TGGMRegressor

# small and short: most checks are about conduct, those with "train" in their names about accuracy
QUICK = {"hidden": (8,), "n_members": 1, "max_epochs": 5, "batch_size": 32, "learning_rate": 0.03}
LONGER = {**QUICK, "max_epochs": 40}
NEEDS_Y = "score_samples of a regressor takes X and y"
ELSEWHERE = {
    "check_sample_weight_equivalence_on_dense_data": "held-out rows and batches depend on their number",
    "check_methods_sample_order_invariance": NEEDS_Y,
    "check_methods_subset_invariance": NEEDS_Y,
}
CHECKS = estimator_checks_generator(TGGMRegressor(**QUICK), expected_failed_checks=ELSEWHERE, mark="skip")


def name(check):
    return getattr(check, "func", check).__name__


def settings(check):
    return LONGER if "train" in name(check) else QUICK


# what every scikit-learn estimator is asked, on tables of shapes that no other check has
SHAPES = ("fit_score_takes_y", "overwrite_params", "n_features_in_after", "estimators_dtypes", "dtype_object")
SHAPES += ("estimators_pickle", "fit2d_1feature", "positive_only_tag", "multioutput")
SHAPES += ("dont_overwrite", "no_decision_function")  # test_regressor.py has these two for its own table


def marked(check):
    alone = any(word in name(check) for word in SHAPES)
    return pytest.param(check, id=name(check), marks=pytest.mark.slow if alone else ())


@pytest.mark.usefixtures("one_shape")
@pytest.mark.parametrize("check", [marked(check) for _, check in CHECKS])
def test_scikit_learn_contract(check):
    check(TGGMRegressor(**settings(check)))


@pytest.mark.slow  # the same of all kinds of models: test_laws.py
@pytest.mark.usefixtures("one_shape")
def test_invariance_of_rows_predicted_by_themselves():
    """What the two checks on order and subsets of rows ask, for every method that takes rows."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 10)), rng.standard_normal(30)
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


@pytest.mark.usefixtures("one_shape")
def test_weights_equal_repetitions_with_full_batches():
    full = {**QUICK, "batch_size": 1000, "max_epochs": 10}
    # leaving rows out one by one, the ridge regression of a linear part knows rows from weights
    model = TGGMRegressor.one_layer(**full, early_stopping=False, dtype="float64")
    check_sample_weight_equivalence_on_dense_data("TGGMRegressor", model)
