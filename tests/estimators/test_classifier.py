import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

from tests.estimators.small import NAMES, quick, three_classes
from tggm import TGGMClassifier, load, save


@pytest.fixture(scope="module")
def table():
    return three_classes()


@pytest.fixture(scope="module")
def fitted(table):
    return quick().fit(*table)


def test_it_learns(table, fitted):
    X, y = table
    assert fitted.score(X, y) > 0.7
    assert_array_equal(fitted.classes_, ["high", "low", "middle"])
    assert fitted.history_["train"].shape == fitted.history_["held_out"].shape == (2, 200)
    assert fitted.converged_


# by the default, above; gradients of all methods: tests/training/test_class_methods.py; bp is the least
@pytest.mark.parametrize(
    "settings",
    [
        {"method": "bp"},
        pytest.param({"method": "meanfield", "factorised": True}, marks=pytest.mark.slow),
        pytest.param({"method": "meanfield", "solver": "cyclic", "n_cycles": (4, 2)}, marks=pytest.mark.slow),
        pytest.param({"method": "ep"}, marks=pytest.mark.slow),
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
@pytest.mark.usefixtures("usual_shapes")  # some take their time for each row
def test_every_method_learns(table, settings):
    assert quick(**settings).fit(*table).score(*table) > 0.6


def test_sparse_rows_are_the_same_rows(table):
    X, y = table
    settings = {
        "standardize": False,
        "init": "scaled",
        "weight_decay": 0.1,
        "max_epochs": 40,
    }  # "auto" depends on the kind
    dense = quick(**settings).fit(X, y)
    for kind in (sparse.csr_matrix, sparse.csc_array):
        model = quick(**settings).fit(kind(X), y)
        assert_allclose(model.predict_proba(kind(X)), dense.predict_proba(X), atol=1e-4)


@pytest.mark.slow  # fewer of them, above
def test_hundred_thousand_sparse_columns():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 40)
    column = np.where(rng.random((40, 5)) < 0.9, y[:, None] * 50_000, 1) + rng.integers(0, 20, (40, 5))
    X = sparse.csr_matrix((np.ones(200), (np.repeat(np.arange(40), 5), column.ravel())), shape=(40, 100_000))
    model = quick(max_epochs=15, early_stopping=False, n_members=1, weight_decay=1.0).fit(X, y)
    assert model.W0_.shape == (1, 6, 100_000)
    assert model.score(X, y) > 0.9


def test_standardising_the_whole_keeps_columns_alike(table):
    X, y = table
    model = quick(standardize="whole", max_epochs=2).fit(5 * X + 3, y)
    assert_allclose(model.fitted_.scales.x.shift, (5 * X + 3).mean(), rtol=1e-12)
    assert_allclose(model.fitted_.scales.x.scale, (5 * X + 3).std(), rtol=1e-12)
    scale = quick(max_epochs=2).fit(sparse.csr_matrix(X), y).fitted_.scales.x.scale
    assert_allclose(scale, np.sqrt((X**2).mean()), rtol=1e-12)


def test_same_seed_same_model(table, fitted):
    assert_array_equal(quick().fit(*table).predict_proba(table[0]), fitted.predict_proba(table[0]))
    assert not np.array_equal(quick(random_state=1).fit(*table).W0_, fitted.W0_)


@pytest.mark.slow  # the same code as of the regressor, test_regressor.py
def test_global_configuration_is_left_alone(table):
    before = jax.config.jax_enable_x64
    with jax.enable_x64(False):
        model = quick(dtype="float64", max_epochs=3).fit(*table)
        assert model.fitted_.model.hidden.W0.dtype == np.float64
        model.predict(table[0])
        assert not jax.config.jax_enable_x64
    assert jax.config.jax_enable_x64 == before


def test_feature_names(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = quick(max_epochs=3).fit(frame, pd.Series(y))
    assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    assert_array_equal(model.predict_proba(frame[["b", "a", "c"]]), model.predict_proba(frame))
    with pytest.raises(ValueError, match="'b'"):
        model.predict(frame[["a", "c"]])


def test_zero_weights_leave_rows_out(table):
    X, y = table
    weight = np.r_[np.zeros(6), np.ones(54)]
    spoiled = np.r_[np.full(6, "low"), y[6:]]
    got = quick(max_epochs=5).fit(X, spoiled, sample_weight=weight).predict_proba(X)
    assert_array_equal(got, quick(max_epochs=5).fit(X[6:], y[6:]).predict_proba(X))


def test_warm_start_goes_on(table):
    X, y = table
    model = quick(warm_start=True, max_epochs=20, early_stopping=False).fit(X, y)
    first = model.history_["train"][:, 0].mean()
    model.fit(X, y)
    assert model.history_["train"][:, 0].mean() > first + 0.2
    model.fit(X, np.where(y == "low", "few", y))  # other classes start afresh
    assert_array_equal(model.classes_, ["few", "high", "middle"])


def test_partial_fit_learns_in_pieces(table):
    X, y = table
    model = quick(learning_rate=0.02)
    order = np.argsort(y)  # the first part has one class only
    parts = [np.resize(part, 60) for part in (order[:20], order[20:40], order[40:])]
    for _ in range(20):
        for part in parts:
            model.partial_fit(X[part], y[part], classes=NAMES)
    assert model.score(X, y) > 0.7
    with pytest.raises(ValueError, match=r"classes that are not in `classes_`: \['huge'\]"):
        model.partial_fit(X[:1], ["huge"])
    with pytest.raises(ValueError, match=r"`classes` must be those of the first call"):
        model.partial_fit(X, y, classes=["a", "b"])
    with pytest.raises(ValueError, match="class_weight='balanced' needs rows of every class"):
        model.set_params(class_weight="balanced").partial_fit(X[parts[0]], y[parts[0]])


def test_progress_is_printed(table, capsys):
    quick(verbose=True, max_epochs=5).fit(*table)
    assert "epoch 5/5" in capsys.readouterr().out


@pytest.mark.parametrize("labels", ["names", "numbers", "flags"])
def test_saved_model_predicts_bit_identically(table, labels, tmp_path):
    X, y = table
    y = {"names": y, "numbers": np.where(y == "low", 3, 1), "flags": y == "low"}[labels]
    weight = {label: 1.0 + k for k, label in enumerate(np.unique(y).tolist())}
    model = quick(max_epochs=3, class_weight=weight).fit(X, y)
    save(model, tmp_path / "model.tggm")
    again = load(tmp_path / "model.tggm")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.classes_, model.classes_)
    assert again.classes_.dtype == model.classes_.dtype
    assert again.get_params() == model.get_params()
    again.partial_fit(X, y)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (sparse.csr_array([[np.nan], [1.0]]), [0, 1], "Input X contains NaN"),
        (sparse.csr_matrix([[np.inf], [1.0]]), [0, 1], "Input X contains infinity"),
        ([[0.0], [1.0]], [0.0, np.nan], "Input y contains NaN"),
        ([[0.0], [1.0]], [5, 5], r"`y` has one class only, \[5\]; a classifier needs at least two classes"),
        ([[0.0], [1.0]], [0.5, 1.25], "Unknown label type"),
        (np.zeros((0, 2)), [], r"Found array with 0 sample\(s\)"),
        ([[0.0], [1.0]], [1], "inconsistent numbers of samples"),
    ],
)
def test_bad_data(X, y, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y)


def test_bad_weights(table):
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        quick().fit(*table, sample_weight=np.full(60, -1.0))
    with pytest.raises(ValueError, match="at least one non-zero"):
        quick().fit(*table, sample_weight=np.zeros(60))


def test_not_fitted():
    with pytest.raises(NotFittedError):
        TGGMClassifier().predict_proba([[1.0]])
