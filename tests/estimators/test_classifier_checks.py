"""scikit-learn's own checks of the classifier."""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.estimators.test_regressor_checks import QUICK, name
from tggm import TGGMClassifier

WEIGHTS = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
ELSEWHERE = dict.fromkeys(WEIGHTS, "held-out rows and batches depend on their number")
CHECKS = estimator_checks_generator(TGGMClassifier(**QUICK), expected_failed_checks=ELSEWHERE, mark="skip")


@pytest.mark.usefixtures("few_shapes")
@pytest.mark.parametrize("check", [pytest.param(check, id=name(check)) for _, check in CHECKS])
def test_scikit_learn_contract(check):
    check(TGGMClassifier(**QUICK))


@pytest.mark.usefixtures("few_shapes")
@pytest.mark.parametrize("check", WEIGHTS)
def test_weights_equal_repetitions_with_full_batches(check):
    full = {**QUICK, "batch_size": 1000, "max_epochs": 10}
    model = TGGMClassifier(**full, early_stopping=False, dtype="float64")
    getattr(estimator_checks, check)("TGGMClassifier", model)
