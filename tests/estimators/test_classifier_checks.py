"""scikit-learn's own checks of the classifier."""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from tggm import TGGMClassifier

# small and short: the checks are about conduct, not about accuracy
QUICK = {"hidden": (8,), "n_members": 1, "max_epochs": 40, "batch_size": 32, "learning_rate": 0.03}


def expected_failures(estimator):
    if estimator.early_stopping:
        # MLPClassifier is checked here with full batches; so is the second estimator below
        reason = "which rows are held out and which form a mini-batch depends on their number"
        return dict.fromkeys(
            [
                "check_sample_weight_equivalence_on_dense_data",
                "check_sample_weight_equivalence_on_sparse_data",
            ],
            reason,
        )
    return {}


@parametrize_with_checks([TGGMClassifier(**QUICK)], expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


FULL_BATCH = TGGMClassifier(
    **{**QUICK, "batch_size": 1000, "max_epochs": 10}, early_stopping=False, dtype="float64"
)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_weights_equal_repetitions_with_full_batches(kind):
    check = getattr(estimator_checks, f"check_sample_weight_equivalence_on_{kind}_data")
    check("TGGMClassifier", FULL_BATCH)
