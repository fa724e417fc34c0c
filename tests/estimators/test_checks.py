"""scikit-learn's checks of both estimators."""

from functools import partial

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.estimators.small import PLAIN
from tggm import TGGMClassifier, TGGMRegressor

# small and short; checks with "train" in their names require accuracy
QUICK = {"hidden": (8,), "n_members": 1, "max_epochs": 5, "batch_size": 32, "learning_rate": 0.03}
LONGER = {**QUICK, "max_epochs": 40}
WEIGHTS = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
OWN_TESTS = dict.fromkeys(WEIGHTS, "held-out rows and mini-batches depend on the number of rows")
# tables of a shape that no other check has; the behaviour is tested elsewhere for other tables
SLOW = ("fit_score_takes_y", "overwrite_params", "n_features_in_after", "estimators_dtypes", "dtype_object")
SLOW += ("estimators_pickle", "fit2d_1feature", "positive_only_tag", "multioutput", "no_decision_function")
# of the classifier; it shares the rest with the regressor
QUICK_CLASSIFIER = ("classifiers_train", "one_label", "regression_target", "proba", "constructible")


def name(check):
    return getattr(check, "func", check).__name__


def slow(kind, check):
    if kind is TGGMRegressor:
        return any(word in name(check) for word in SLOW)
    quick = any(word in name(check) for word in QUICK_CLASSIFIER)
    return not quick or getattr(check, "keywords", {}).get("readonly_memmap", False)


def cases():
    for kind in (TGGMRegressor, TGGMClassifier):
        checks = estimator_checks_generator(kind(**QUICK), expected_failed_checks=OWN_TESTS, mark="skip")
        for _, check in checks:
            marks = pytest.mark.slow if slow(kind, check) else ()
            yield pytest.param(kind, check, id=f"{kind.task}-{name(check)}", marks=marks)


@pytest.mark.usefixtures("one_shape")
@pytest.mark.parametrize(("kind", "check"), list(cases()))
def test_scikit_learn_check(kind, check):
    # the order of rows changes the last digit of single precision, and the check allows a difference of 1e-7
    precision = {"dtype": "float64"} if "order_invariance" in name(check) else {}
    check(kind(**(LONGER if "train" in name(check) else QUICK), **precision))


@pytest.mark.filterwarnings("ignore:`cv` has 3 folds")  # of the check, for one member
@pytest.mark.usefixtures("one_shape")
@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (TGGMRegressor, WEIGHTS[0]),
        pytest.param(TGGMClassifier, WEIGHTS[0], marks=pytest.mark.slow),
        pytest.param(TGGMClassifier, WEIGHTS[1], marks=pytest.mark.slow),
    ],
)
def test_weights_equal_repeated_rows_with_full_batches(kind, check, monkeypatch):
    """The check sets `cv`. Weights have the mean 1 over all rows, and ε of Adam is relative to that scale."""
    compared = partial(estimator_checks.assert_allclose_dense_sparse, rtol=1e-5)
    monkeypatch.setattr(estimator_checks, "assert_allclose_dense_sparse", compared)
    full = {**QUICK, **PLAIN, "batch_size": 1000, "max_epochs": 10, "dtype": "float64"}
    full |= {"support": None} if kind is TGGMRegressor else {}  # a support is found in the number of rows
    getattr(estimator_checks, check)(kind.__name__, kind(**full))
