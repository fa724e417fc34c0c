"""Estimators whose settings or labels are wrong: what was fitted stays, and the message names the cause."""

import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tggm
from tggm import TGGMClassifier, TGGMRegressor
from tggm.streams import from_arrays

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
NAMES = np.array(["a", "bb", "ccc"])


def classifier(**settings):
    return TGGMClassifier(**{"hidden": 4, "max_epochs": 2, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X, NAMES[y])


def test_a_refit_that_fails_leaves_the_model(fitted):
    before = fitted.predict_proba(X)
    with pytest.raises(ValueError, match="sample_weight"):
        fitted.fit(X[:, :2], np.array(["cat", "dog", "eel"])[y], sample_weight=np.ones(3))
    assert_array_equal(fitted.classes_, NAMES)
    assert_array_equal(fitted.predict_proba(X), before)


def test_a_regressor_too():
    model = TGGMRegressor(4, n_members=1, max_epochs=2, random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X[:, :2], y, sample_weight=np.ones(3))
    assert_array_equal(model.predict(X), before)


def test_settings_changed_after_fitting_do_not_change_predictions(fitted, tmp_path):
    before = fitted.predict_proba(X)
    fitted.set_params(sigma0=0.3)
    assert_array_equal(fitted.predict_proba(X), before)
    tggm.save(fitted, tmp_path / "m.tggm")
    assert_array_equal(tggm.load(tmp_path / "m.tggm").predict_proba(X), before)
    with pytest.raises(ValueError, match="sigma0"):
        fitted.partial_fit(X, NAMES[y])
    fitted.set_params(sigma0=1.0)


@pytest.mark.parametrize("change", [{"hidden": 5}, {"n_members": 3}, {"dtype": "float64"}])
def test_partial_fit_refuses_another_model(change, fitted):
    usual = fitted.get_params()
    with pytest.raises(ValueError, match="must stay what they were"):
        fitted.set_params(**change).partial_fit(X, NAMES[y])
    fitted.set_params(**usual)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("kind", [np.bool_, int])
def test_other_booleans_standardise_alike(same, kind):
    scaled = X * [1, 10, 100]
    expected = classifier(standardize=same).fit(scaled, y).predict_proba(scaled)
    found = classifier(standardize=kind(same)).fit(scaled, y).predict_proba(scaled)
    assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="standardize"):
        classifier(standardize=2).fit(X, y)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({0: -1.0}, "at least 0"),
        ({0: np.nan}, "finite"),
        ({0: np.inf}, "finite"),
        ({0: 0.0, 1: 0.0, 2: 0.0}, "no row has a positive weight"),
        ({0: 0.0, 1: 0.0}, "at least two classes"),
    ],
)
def test_class_weights_are_checked(weights, words):
    with pytest.raises(ValueError, match=words):
        classifier(class_weight=weights).fit(X, y)


def test_balanced_counts_what_rows_weigh():
    weight = np.r_[np.zeros(20), np.ones(40)]
    settings = {"class_weight": "balanced", "early_stopping": False}
    weighted = classifier(**settings).fit(X, y, sample_weight=weight).predict_proba(X)
    assert_allclose(weighted, classifier(**settings).fit(X[20:], y[20:]).predict_proba(X), rtol=1e-6)
    with pytest.raises(ValueError, match="needs rows of every class"):
        classifier(**settings).fit(X, y, sample_weight=(y > 0) * 1.0)


def test_labels_of_another_byte_order_can_be_stored(tmp_path):
    model = classifier().fit(X, y.astype(">i4"))
    tggm.save(model, tmp_path / "m.tggm")
    assert_array_equal(tggm.load(tmp_path / "m.tggm").predict(X), model.predict(X))


@pytest.mark.parametrize("classes", [[0, 1, 2, np.nan], [[0, 1, 2]], [0.5, 1, 2]])
def test_classes_must_be_labels(classes):
    with pytest.raises(ValueError):  # noqa: PT011  # scikit-learn words two of them
        classifier().partial_fit(X, y, classes=classes)


def test_a_stream_of_numbers_has_no_classes():
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(from_arrays(X, X[:, 0]))


def test_label_log_proba_wants_a_label_for_each_row(fitted):
    with pytest.raises(ValueError, match="1 labels, but `X` has 60 rows"):
        fitted.label_log_proba(X, NAMES[y][:1])


@pytest.mark.parametrize(
    ("name", "value"), [("random_state", np.random.RandomState(0)), ("optimizer", optax.adam(1e-3))]
)
def test_what_a_file_cannot_hold_is_named(name, value, tmp_path):
    model = classifier(**{name: value}).fit(X, y)
    with pytest.raises(TypeError, match=f"`{name}`.*set_params"):
        tggm.save(model, tmp_path / "m.tggm")


@pytest.mark.parametrize(("name", "value"), [("n_cycles", None), ("optimizer", 5), ("n_cycles", "ab")])
def test_settings_of_the_wrong_kind_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        classifier(**{name: value}).fit(X, y)


def test_the_papers_models_of_several_layers_are_undirected():
    for make in (TGGMClassifier.paper_ml, TGGMClassifier.paper_bp, TGGMRegressor.paper_ml):
        assert make(hidden=(4, 4)).deep == "undirected"
    model = TGGMClassifier.paper_ml(hidden=(4, 4), n_cycles=3, max_epochs=1, random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
