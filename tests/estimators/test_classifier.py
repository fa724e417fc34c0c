"""The classifier: fits, probabilities, labels, class weights, sparse tables, and further training."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from tests.estimators.small import ALL_ROWS, small_classifier, three_classes
from tests.models.sampling import truncated_draws
from tggm import TGGMClassifier
from tggm.data import from_arrays
from tggm.data.standardise import standardisation
from tggm.estimators._data import known_classes
from tggm.models import Identity


@pytest.fixture(scope="module")
def table():
    return three_classes()


@pytest.fixture(scope="module")
def fitted(table):
    return small_classifier().fit(*table)


def short(**settings):
    return small_classifier(**{"max_epochs": 3, **settings})


def test_a_fit_learns_and_stores_its_history(table, fitted):
    assert fitted.score(*table) > 0.7
    assert_array_equal(fitted.classes_, ["high", "low", "middle"])
    assert fitted.history_["train"].shape == fitted.history_["held_out"].shape == (2, fitted.n_iter_)
    assert_array_equal(small_classifier().fit(*table).predict_proba(table[0]), fitted.predict_proba(table[0]))
    assert not np.array_equal(small_classifier(random_state=1).fit(*table).W0_, fitted.W0_)


@pytest.mark.filterwarnings("ignore:`X` has values more than one range")
def test_probabilities_labels_and_scores_agree(table, fitted):
    X, y = table
    far = np.r_[X, 1e3 * X, 1e8 * X]
    p, log_p = fitted.predict_proba(far), fitted.predict_log_proba(far)
    assert p.shape == (180, 3)
    assert np.all((p > 0) & (p < 1))
    assert_allclose(p.sum(1), 1, rtol=1e-12)
    assert np.isfinite(log_p).all()
    assert_allclose(log_p[:60], np.log(p[:60]), rtol=1e-5)
    assert_array_equal(fitted.predict(far), fitted.classes_[p.argmax(1)])
    assert_array_equal(fitted.decision_function(far).argmax(1), p.argmax(1))
    picked = log_p[np.arange(60), np.searchsorted(fitted.classes_, y)]
    assert_allclose(fitted.label_log_proba(X, y), picked, rtol=1e-5)
    two = short().fit(X, y == "low")
    p, score = two.predict_proba(X), two.decision_function(X)
    assert_allclose(score, np.log(p[:, 1] / p[:, 0]), rtol=1e-6, atol=1e-6)


def test_probabilities_are_those_of_the_model_by_simulation(table, fitted):
    """The approximation by moments has an error of a few thousandths here."""
    X, _ = table
    rng, s0 = np.random.default_rng(1), fitted.fitted_.model.hidden.s0[0]
    p = np.zeros((10, 3))
    for W0, b0, W1, b1 in zip(fitted.W0_, fitted.b0_, fitted.W1_, fitted.b1_, strict=True):
        a = (X[:10] @ W0.T + b0[None, :])[None]
        h = truncated_draws(rng, np.broadcast_to(a, (20_000, 10, 6)), s0)
        z = h @ W1.T + b1 + rng.standard_normal((20_000, 10, 3))
        p += np.eye(3)[z.argmax(-1)].mean(0) / 2
    assert_allclose(fitted.predict_proba(X[:10]), p, atol=0.025)


def test_a_large_shift_of_inputs_loses_no_digits(fitted, table):
    """The standardisation is folded into the weights only if single precision suffices."""
    moved, x = copy.copy(fitted), fitted.fitted_.scales.x
    scales = fitted.fitted_.scales._replace(x=x._replace(shift=x.shift + 1e7))
    moved.fitted_ = replace(fitted.fitted_, scales=scales)
    assert_allclose(moved.predict_proba(table[0] + 1e7), fitted.predict_proba(table[0]), atol=1e-5)


@pytest.mark.filterwarnings("ignore:`X` has values more than one range")
@pytest.mark.parametrize("exponent", [3, 12, 37])
def test_rows_far_away_have_probabilities(fitted, exponent):
    for sign in (-1, 1):
        far = sign * 10.0**exponent * np.eye(3)[:1]
        p = fitted.predict_proba(far)
        assert_allclose(p.sum(), 1, rtol=1e-6)
        assert_array_equal(fitted.predict(far), fitted.classes_[p.argmax(1)])
        with pytest.raises(ValueError, match="`X` has values that are too large"):
            fitted.predict_proba(sign * 1e60 * np.eye(3)[:1])


def test_a_sparse_table_is_predicted_and_standardised_like_the_dense_one(table, fitted):
    X, _ = table
    dense, scaled = short().fit(*table), copy.copy(fitted)
    for model in (dense, scaled):
        for kind in (sparse.csr_matrix, sparse.csc_array):
            assert_allclose(model.predict_proba(kind(X)), model.predict_proba(X), atol=1e-6)
    scale = standardisation(sparse.csr_matrix(X), np.ones(60), "robust").scale
    assert_allclose(scale, np.sqrt((X**2).mean()), rtol=1e-12)


def test_a_fit_to_a_sparse_table(table):
    X, y = table
    model = small_classifier(max_epochs=100, weight_decay=0.1).fit(sparse.csr_matrix(X), y)
    assert model.score(sparse.csr_array(X), y) > 0.7
    assert not hasattr(model, "feature_importances_")
    automatic = short(features="auto", linear="auto").fit(sparse.csr_matrix(X), y)
    assert (automatic.fitted_.network.features, automatic.A_) == (Identity, None)


def test_columns_of_one_kind_are_standardised_as_one(rng):
    """A pixel that is rarely set is not amplified; columns of different units are separate."""
    X = 5 * rng.standard_normal((50, 3)) + 3
    for found, expected in zip(standardisation(X, np.ones(50), "whole"), (X.mean(), X.std()), strict=True):
        assert_allclose(found, expected, rtol=1e-12)
    pixels = rng.integers(0, 17, (50, 300)).astype(float)
    pixels[:, :100] *= rng.random((50, 100)) < 0.02
    pixels[:, 0] = 0.0
    tables = (pixels, pixels * np.geomspace(1, 1e3, 300), pixels[:, :200])
    same, units, few = (standardisation(X, np.ones(50), "robust").scale for X in tables)
    assert len(set(same)) == 1
    assert len(set(units)) > 200
    assert len(set(few)) > 100


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (sparse.csr_array([[np.nan], [1.0]]), [0, 1], "Input X contains NaN"),
        (sparse.csr_matrix([[np.inf], [1.0]]), [0, 1], "Input X contains infinity"),
        ([[0.0], [1.0]], [5, 5], r"`y` has one class only, \[5\]; a classifier needs at least two classes"),
        (from_arrays(np.zeros((9, 2)), np.linspace(0, 1, 9)), None, "Unknown label type"),
    ],
)
def test_bad_data(X, y, message):
    with pytest.raises(ValueError, match=message):
        small_classifier().fit(X, y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"low": -1.0}, "at least 0"),
        ({"low": np.nan}, "finite"),
        ({"low": 0.0, "middle": 0.0, "high": 0.0}, "no row has a positive weight"),
        ({"low": 0.0, "middle": 0.0}, "at least two classes"),
        ("fair", "class_weight"),
    ],
)
def test_class_weights_are_checked(table, weights, message):
    with pytest.raises(ValueError, match=message):
        small_classifier(class_weight=weights).fit(*table)


def test_balanced_class_weights_count_the_weights_of_rows(table):
    X, y = table
    weight, settings = np.r_[np.zeros(8), np.ones(52)], {"class_weight": "balanced", **ALL_ROWS}
    weighted = short(**settings).fit(X, y, sample_weight=weight).predict_proba(X)
    assert_allclose(weighted, short(**settings).fit(X[8:], y[8:]).predict_proba(X), rtol=1e-6)
    with pytest.raises(ValueError, match="needs rows of every class"):
        short(**settings).fit(X, y, sample_weight=(y != "low") * 1.0)


def test_probabilities_follow_class_weights(table):
    """Equal rows have different labels."""
    X = table[0]
    even, uneven = np.tile([0, 1], 30), np.tile([0, 1, 0, 0], 15)
    pairs, fours = np.repeat(X[:30], 2, 0), np.repeat(X[:15], 4, 0)
    heavy = small_classifier(**ALL_ROWS, class_weight={0: 9.0, 1: 1.0}).fit(pairs, even)
    assert_allclose(heavy.predict_proba(X[:30])[:, 0].mean(), 0.9, atol=0.06)
    plain = small_classifier(**ALL_ROWS).fit(fours, uneven)
    assert_allclose(plain.predict_proba(X[:15])[:, 0].mean(), 0.75, atol=0.08)
    balanced = small_classifier(**ALL_ROWS, class_weight="balanced").fit(fours, uneven)
    assert_allclose(balanced.predict_proba(X[:15])[:, 0].mean(), 0.5, atol=0.08)


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA])
def test_a_row_without_a_label_is_named(gap):
    with pytest.raises(ValueError, match=r"`y` has no label in row 4 \(.*\); leave such rows out"):
        TGGMClassifier().fit(np.zeros((6, 2)), np.array(["a", "b", "a", gap, "b", "a"], object))


def test_labels_of_label_log_proba_are_checked(table, fitted):
    X, y = table
    with pytest.raises(ValueError, match="1 labels, but `X` has 60 rows"):
        fitted.label_log_proba(X, y[:1])
    message = r"not in `classes_`: \['huge'\]; the model has \['high', 'low', 'middle'\]"
    with pytest.raises(ValueError, match=message):
        fitted.label_log_proba(X, np.full(60, "huge"))
    assert fitted.score(X, np.full(60, "huge")) == 0


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([0.5, 1, 2], "`y` must be strings, whole numbers or booleans; got"),
        ([b"a", b"b"], "`y` must be strings"),
        ([1j, 2], "`y` must be strings"),
        (np.array([(1,), (2,)], object)[:, 0], "`y` must be strings"),
    ],
)
def test_classes_that_are_not_labels_are_rejected(classes, message):
    with pytest.raises(ValueError, match=message):
        known_classes(classes)
