"""scikit-learn's own checks of the classifier.

Some of what it shares with the regressor, with tables that need programs of their own, are slow here: the
regressor takes all of them in `make test`.
"""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.cases import few
from tests.estimators.test_regressor_checks import QUICK, name, settings
from tggm import TGGMClassifier

WEIGHTS = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
ELSEWHERE = dict.fromkeys(WEIGHTS, "held-out rows and batches depend on their number")
CHECKS = estimator_checks_generator(TGGMClassifier(**QUICK), expected_failed_checks=ELSEWHERE, mark="skip")
SHARED = {
    "check_fit_score_takes_y",
    "check_estimators_overwrite_params",
    "check_n_features_in_after_fitting",
    "check_estimators_dtypes",
    "check_dtype_object",
    "check_estimator_sparse_tag",
    "check_estimator_sparse_array",
    "check_fit2d_1feature",
    "check_pipeline_consistency",
}


def marked(check):
    return pytest.param(check, id=name(check), marks=pytest.mark.slow if name(check) in SHARED else ())


@pytest.mark.usefixtures("few_shapes")
@pytest.mark.parametrize("check", [marked(check) for _, check in CHECKS])
def test_scikit_learn_contract(check):
    check(TGGMClassifier(**settings(check)))


@pytest.mark.usefixtures("few_shapes")
@pytest.mark.parametrize("check", few(WEIGHTS, WEIGHTS[0]))
def test_weights_equal_repetitions_with_full_batches(check):
    full = {**QUICK, "batch_size": 1000, "max_epochs": 10}
    model = TGGMClassifier(**full, early_stopping=False, dtype="float64")
    getattr(estimator_checks, check)("TGGMClassifier", model)
