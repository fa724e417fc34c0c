"""`PaperRegressor` and `PaperClassifier`: the scikit-learn contract, presets, predictions and errors."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import truncnorm
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from tggm import TGGMClassifier, TGGMRegressor
from tggm.paper import PaperClassifier, PaperRegressor
from tggm.predictive import GaussianMixture, MultivariateGaussianMixture

QUICK = {"hidden": (8,), "max_epochs": 40, "batch_size": 32, "n_cycles": 3, "random_state": 0}
DOUBLE = {**QUICK, "dtype": "float64", "n_members": 2, "max_epochs": 10}
CHECKED = {**QUICK, "learning_rate": 0.01}


@parametrize_with_checks([PaperRegressor.bp(**CHECKED), PaperClassifier.bp(**CHECKED)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(150, 3))
    y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=150)
    return X, y


def test_settings_of_the_paper():
    bp, ml = TGGMRegressor.paper_bp(random_state=3), TGGMRegressor.paper_ml(hidden=(100,), batch_size=100)
    assert isinstance(bp, PaperRegressor)
    assert (bp.method, bp.noise, bp.init, bp.batch_size, bp.optimizer) == ("bp", 0.01, "paper", 50, "rmsprop")
    assert (ml.method, ml.solver, ml.n_cycles, ml.noise, ml.n_members) == ("meanfield", "cyclic", 10, 0.5, 1)
    assert (ml.hidden, ml.batch_size, ml.deep, bp.random_state) == ((100,), 100, "undirected", 3)
    classes_bp, classes = TGGMClassifier.paper_bp(), TGGMClassifier.paper_ml(batch_size=200)
    assert isinstance(classes, PaperClassifier)
    assert (classes_bp.method, classes_bp.batch_size, classes.batch_size) == ("bp", 500, 200)
    assert (classes.method, classes.n_cycles, classes.factorised) == ("meanfield", (30, 5), True)
    assert_allclose([each.sigma0**2 for each in (bp, classes_bp, ml, classes)], [0.01, 0.01, 0.5, 0.5])


@pytest.mark.parametrize("method", PaperRegressor.methods)
def test_every_method_learns_an_absolute_value(rows, method):
    X, y = rows
    settings = {"noise": None, "init": "scaled", "max_epochs": 60, "solver": "newton", "learning_rate": 0.02}
    model = PaperRegressor(**{**QUICK, **settings, "hidden": 10}, method=method).fit(X[:100], y[:100])
    error = model.predict(X[100:]) - y[100:]
    assert np.mean(error**2) < 0.4 * np.var(y[100:])
    assert model.n_iter_ <= 60
    assert model.history_["held_out"].shape == (1, model.n_iter_)


@pytest.mark.parametrize("outputs", [1, 2])
def test_one_layer_predicts_gaussians_with_the_exact_moments(rows, outputs):
    """Compare with the moments of units (SciPy) combined by the fitted parameters, mixed over members."""
    X, y = rows
    Y = y if outputs == 1 else np.column_stack([y, X[:, 1] - y])
    model = PaperRegressor(**DOUBLE, noise=None).fit(X[:100], Y[:100])
    dist = model.predict_dist(X[100:])
    assert isinstance(dist, GaussianMixture if outputs == 1 else MultivariateGaussianMixture)
    located = np.einsum("nd,kmd->knm", X[100:], model.W0_) + model.b0_[:, None, :]
    h, v = truncnorm.stats(-located / model.sigma0, np.inf, located, model.sigma0, moments="mv")
    mean = np.einsum("knm,kjm->knj", h, model.W1_) + model.b1_[:, None]
    var = np.einsum("knm,kjm->knj", v, model.W1_**2) + model.noise_[:, None]
    std = np.sqrt(var.mean(0) + mean.var(0))
    assert_allclose(dist.mean().reshape(50, -1), mean.mean(0), rtol=1e-8)
    assert_allclose(dist.std().reshape(50, -1), std, rtol=1e-8)
    for found, want in zip(model.predict(X[100:], return_std=True), (mean.mean(0), std), strict=True):
        assert_allclose(found.reshape(50, -1), want, rtol=1e-8)


@pytest.mark.parametrize(("deep", "method"), [("undirected", "meanfield"), ("directed", "moments")])
def test_several_layers_predict_gaussians(rows, deep, method):
    X, y = rows
    settings = {**DOUBLE, "hidden": (6, 4), "max_epochs": 3}
    model = PaperRegressor(**settings, deep=deep, method=method).fit(X[:100], y[:100])
    dist = model.predict_dist(X[100:])
    assert isinstance(dist, GaussianMixture)
    mean, std = model.predict(X[100:], return_std=True)
    assert_allclose(dist.mean(), mean, rtol=1e-8)
    assert_allclose(dist.std(), std, rtol=1e-8)
    assert [W.shape for W, _ in model.between_] == [(2, 4, 6)]


@pytest.mark.parametrize("outputs", [1, 2])
def test_distributions_are_computed_in_double_precision(rows, outputs):
    """Compute them while JAX uses single precision: one output, and several."""
    X, y = rows
    Y = y if outputs == 1 else np.column_stack([y, -y])
    hidden = (4, 4) if outputs == 1 else (4,)
    model = PaperRegressor(**{**QUICK, "max_epochs": 2, "hidden": hidden}).fit(X, Y)
    want = model.predict_dist(X).logpdf(Y)
    with jax.enable_x64(False):
        assert_allclose(model.predict_dist(X).logpdf(Y), want, rtol=1e-10)


def test_predictions_do_not_depend_on_the_size_of_a_table(rows):
    """Predict a table of more than 512 rows, which is divided into blocks."""
    X, y = rows
    model = PaperRegressor(**DOUBLE).fit(X, y)
    many = np.tile(X, (5, 1))
    assert_allclose(model.predict(many)[:150], model.predict(X), rtol=1e-10)
    assert_allclose(model.predict(many)[-3:], model.predict(X[-3:]), rtol=1e-10)


@pytest.mark.parametrize("method", PaperClassifier.methods)
def test_every_method_learns_classes(rows, method):
    X, y = rows
    label = np.array(["low", "mid", "top"])[np.digitize(y, [0.4, 1.0])]
    settings = {**QUICK, "init": "scaled", "max_epochs": 60, "solver": "newton", "learning_rate": 0.02}
    model = PaperClassifier(**settings, method=method).fit(X[:100], label[:100])
    assert model.score(X[100:], label[100:]) > 0.6
    probability = model.predict_proba(X[100:])
    assert_allclose(probability.sum(1), 1, rtol=1e-12)
    assert_allclose(np.log(probability), model.predict_log_proba(X[100:]), rtol=1e-12)


def test_sparse_rows_give_the_probabilities_of_dense_ones():
    X = np.random.default_rng(5).poisson(0.3, size=(120, 30)).astype(np.float64)
    y = (X[:, 0] + X[:, 1] > X[:, 2]).astype(int)
    model = PaperClassifier(**DOUBLE).fit(sparse.csr_array(X), y)
    size = np.sqrt((X**2).mean())
    dense = PaperClassifier(**DOUBLE, standardize=False).fit(X / size, y)
    found = model.predict_log_proba(sparse.csr_array(X))
    assert_allclose(found, dense.predict_log_proba(X / size), rtol=1e-8)
    assert_allclose(model.predict_log_proba(X), found, rtol=1e-8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "mcmc"}, "`method` must be one of"),
        ({"hidden": (4, 4), "method": "moments"}, "needs one hidden layer or deep='directed'"),
        ({"hidden": (4, 4), "deep": "directed"}, "needs one hidden layer or deep='undirected'"),
        ({"hidden": (4, 4), "method": "exact"}, "needs one hidden layer and one output"),
        ({"prior": "guarded"}, "`prior` must be one of 'posterior', 'same'"),
        ({"noise": -1.0}, "`noise` is the variance"),
        ({"hidden": "auto"}, "`hidden` must be a number of units"),
        ({"init": "zero"}, "`init` must be one of 'paper', 'scaled'"),
    ],
)
def test_errors_name_the_argument_and_the_remedy(rows, settings, message):
    with pytest.raises(ValueError, match=message):
        PaperRegressor(**settings).fit(*rows)


def test_a_failing_fit_leaves_the_estimator_unchanged(rows):
    X, y = rows
    model = PaperRegressor(**QUICK).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="`learning_rate`"):
        model.set_params(learning_rate=-1).fit(X[:, :1], y)
    assert_array_equal(model.predict(X), before)


def test_failed_training_is_a_warning(rows):
    with pytest.warns(ConvergenceWarning, match="Lower `learning_rate`"):
        model = PaperRegressor(**{**QUICK, "learning_rate": 1e30}, weight_decay=1e30).fit(*rows)
    assert not model.converged_
