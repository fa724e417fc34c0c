"""scikit-learn's own checks of an estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from tggm import TGGMRegressor

# small and short: the checks are about conduct, not about accuracy
QUICK = {"hidden": (8,), "n_members": 1, "max_epochs": 40, "batch_size": 32, "learning_rate": 0.03}


def expected_failures(estimator):
    if estimator.early_stopping:
        # MLPRegressor is checked here with full batches; so is the second estimator below
        reason = "which rows are held out and which form a mini-batch depends on their number"
        return {"check_sample_weight_equivalence_on_dense_data": reason}
    return {}


@parametrize_with_checks([TGGMRegressor(**QUICK)], expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


FULL_BATCH = TGGMRegressor(
    **{**QUICK, "batch_size": 1000, "max_epochs": 10}, early_stopping=False, dtype="float64"
)


def test_weights_equal_repetitions_with_full_batches():
    from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data as check

    check("TGGMRegressor", FULL_BATCH)
