"""Labels of every kind, what their classes weigh, and how they are stored."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tggm.estimators.labels import known_classes

import tggm
from tests.estimators.small import SMALL
from tggm import TGGMClassifier
from tggm.data import from_arrays

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
NAMES = np.array(["a", "bb", "ccc"])


def classifier(**settings):
    return TGGMClassifier(**{**SMALL, "max_epochs": 2, **settings})


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X, NAMES[y])


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
    weight = np.r_[np.zeros(8), np.ones(52)]
    settings = {"class_weight": "balanced", "early_stopping": False}
    weighted = classifier(**settings).fit(X, y, sample_weight=weight).predict_proba(X)
    assert_allclose(weighted, classifier(**settings).fit(X[8:], y[8:]).predict_proba(X), rtol=1e-6)
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


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA])
def test_rows_without_a_label_are_named(gap):
    with pytest.raises(ValueError, match=r"`y` has no label in row 4 \(.*\); leave such rows out"):
        TGGMClassifier().fit(np.zeros((6, 2)), np.array(["a", "b", "a", gap, "b", "a"], object))


def test_a_stream_of_numbers_has_no_classes():
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(from_arrays(X, X[:, 0]))


def test_label_log_proba_wants_a_label_for_each_row(fitted):
    with pytest.raises(ValueError, match="1 labels, but `X` has 60 rows"):
        fitted.label_log_proba(X, NAMES[y][:1])


@pytest.mark.parametrize("kind", ["int", "bool", "object"])
def test_kinds_of_labels(kind):
    label = {"int": np.where(y == 0, 7, -3), "bool": y == 0, "object": NAMES[y].astype(object)}[kind]
    model = classifier(max_epochs=3).fit(X, label)
    assert_array_equal(model.classes_, np.unique(label))
    assert set(model.predict(X)) <= set(label)
    if kind != "object":  # two classes
        score = model.decision_function(X)
        assert score.shape == (60,)
        assert_array_equal(score > 0, model.predict(X) == model.classes_[1])
        p = model.predict_proba(X)
        assert_allclose(score, np.log(p[:, 1] / p[:, 0]), rtol=1e-6, atol=1e-6)  # of single precision


def test_class_weights_pull():
    """Contradicting labels: the weighted class wins; "balanced" makes the shares equal."""
    settings = {"max_epochs": 200, "learning_rate": 0.03, "early_stopping": False}
    even, uneven = np.tile([0, 1], 30), np.tile([0, 1, 0, 0], 15)  # of the same rows
    pairs, fours = np.repeat(X[:30], 2, 0), np.repeat(X[:15], 4, 0)
    heavy = classifier(**settings, class_weight={0: 9.0, 1: 1.0}).fit(pairs, even)
    assert_allclose(heavy.predict_proba(X[:30])[:, 0].mean(), 0.9, atol=0.06)
    plain = classifier(**settings).fit(fours, uneven)
    assert_allclose(plain.predict_proba(X[:15])[:, 0].mean(), 0.75, atol=0.08)
    balanced = classifier(**settings, class_weight="balanced").fit(fours, uneven)
    assert_allclose(balanced.predict_proba(X[:15])[:, 0].mean(), 0.5, atol=0.08)


def test_unknown_labels_at_scoring(fitted):
    assert fitted.score(X, np.full(60, "huge")) == 0
    with pytest.raises(
        ValueError, match=r"not in `classes_`: \['huge'\]; the model knows \['a', 'bb', 'ccc'\]"
    ):
        fitted.label_log_proba(X, np.full(60, "huge"))


def test_many_classes_are_no_reason_to_warn():
    many = np.arange(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(known_classes(many[::-1]), many)


@pytest.mark.parametrize(
    "classes", [[0.5, 1, 2], [b"a", b"b"], [1j, 2], np.array([(1,), (2,)], object)[:, 0]]
)
def test_what_is_no_label(classes):
    with pytest.raises(ValueError, match="`classes` must be words, whole numbers or truth values; got"):
        known_classes(classes)


def test_labels_of_any_other_kind():
    for classes in (["a", "b"], np.array(["a", "b"], object), [True, False], [1.0, 2.0], [3, 1]):
        assert_array_equal(known_classes(classes), np.unique(classes))
