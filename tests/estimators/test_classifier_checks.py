"""scikit-learn's own checks of the classifier.

Those of what it shares with the regressor are slow here: each brings a table of its own shape, and the
regressor takes most of them in `make test`.
"""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.estimators.test_regressor_checks import QUICK, name, settings
from tggm import TGGMClassifier

WEIGHTS = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
ELSEWHERE = dict.fromkeys(WEIGHTS, "held-out rows and batches depend on their number")
CHECKS = estimator_checks_generator(TGGMClassifier(**QUICK), expected_failed_checks=ELSEWHERE, mark="skip")
# learning, and what is no label; kinds of labels: test_labels.py; order and subsets of rows: test_laws.py
OWN = ("classifiers_train", "one_label", "regression_target", "proba", "constructible")


def marked(check):
    # the regressor learns from read-only tables
    own = any(word in name(check) for word in OWN) and not getattr(check, "keywords", {}).get(
        "readonly_memmap"
    )
    return pytest.param(check, id=name(check), marks=() if own else pytest.mark.slow)


@pytest.mark.usefixtures("one_shape")
@pytest.mark.parametrize("check", [marked(check) for _, check in CHECKS])
def test_scikit_learn_contract(check):
    check(TGGMClassifier(**settings(check)))


@pytest.mark.usefixtures("one_shape")
@pytest.mark.slow  # the regressor takes it, and test_classifier.py leaves out rows of weight 0
@pytest.mark.parametrize("check", WEIGHTS)
def test_weights_equal_repetitions_with_full_batches(check):
    full = {**QUICK, "batch_size": 1000, "max_epochs": 10}
    model = TGGMClassifier(**full, early_stopping=False, dtype="float64")
    getattr(estimator_checks, check)("TGGMClassifier", model)
