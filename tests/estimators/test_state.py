"""States of estimators: round trips, rejection of every damaged entry, learning curves, undone steps."""

from copy import copy
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from tests.cases import few
from tests.estimators.small import SMALL, small_classifier, small_regressor, three_classes, untrained
from tggm import TGGMClassifier, TGGMRegressor, load, save
from tggm.deployment import NumPyClassifier, NumPyRegressor
from tggm.deployment.predictors import shapes_of
from tggm.estimators import from_state, numeric_model, to_state
from tggm.models import Identity, Network
from tggm.predictive.calibration import Calibration

X = np.random.default_rng(0).standard_normal((60, 3))
y = (X[:, 0] > 0).astype(int)
ESTIMATORS = [TGGMRegressor, TGGMClassifier]
ERRORS = (ValueError, KeyError, TypeError)
STUDENT = Calibration("student", (1.2, 0.5, 0.1))


@pytest.fixture(scope="module", params=ESTIMATORS)
def model(request):
    return request.param(**SMALL, max_epochs=4).fit(X, y)


def test_a_restored_estimator_predicts_bit_identically(model, tmp_path):
    save(model, tmp_path / "model.tggm")
    again = load(tmp_path / "model.tggm")
    predict = "predict" if model.task == "regression" else "predict_proba"
    assert_array_equal(getattr(again, predict)(X), getattr(model, predict)(X))
    assert again.get_params() == model.get_params()
    for name in ("best_epoch_", "undone_", "W0_", "b1_"):
        assert_array_equal(getattr(again, name), getattr(model, name))
    for name in ("train", "held_out", "epoch"):
        assert_array_equal(again.history_[name], model.history_[name])


@pytest.mark.parametrize("labels", ["names", "numbers", "flags", "big-endian"])
def test_labels_and_class_weights_are_stored(labels):
    X, y = three_classes()
    number = np.where(y == "low", 3, 1)
    y = {"names": y, "numbers": number, "flags": y == "low", "big-endian": number.astype(">i4")}[labels]
    weight = {label: 1.0 + k for k, label in enumerate(np.unique(y).tolist())}
    model = small_classifier(max_epochs=3, class_weight=weight).fit(X, y)
    again = from_state(TGGMClassifier, *to_state(model))
    assert_array_equal(again.classes_, model.classes_)
    assert again.classes_.dtype == model.classes_.dtype
    assert again.get_params() == model.get_params()


def test_a_network_of_the_user_is_stored():
    network = Network((6, 5), Identity, linear=False)
    model = small_regressor(hidden="auto", features="auto", linear="auto", network=network, max_epochs=5)
    model.fit(X, X[:, 0])
    for given in (network, None):  # a setting changed after the fit
        arrays, meta = to_state(model.set_params(network=given))
        again = from_state(TGGMRegressor, arrays, meta)
        assert_array_equal(again.predict(X), model.predict(X))
        assert again.fitted_.network == model.fitted_.network


def test_settings_changed_after_a_fit_do_not_change_the_stored_model():
    model = small_regressor(max_epochs=3).fit(X, X[:, 0])
    expected = model.predict(X)
    model.set_params(hidden=9, n_members=7, dtype="float64")
    again = from_state(TGGMRegressor, *to_state(model))
    assert_array_equal(again.predict(X), expected)
    assert (again.hidden, again.n_members, again.dtype) == ((6,), 2, "float32")


def test_the_numeric_model_takes_encoded_inputs():
    frame = np.column_stack([X, np.where(X[:, 0] > 0, np.nan, X[:, 1])])
    model = small_regressor(max_epochs=3).fit(frame, X[:, 0])
    inner = numeric_model(model)
    assert (inner.table_, inner.n_features_in_, model.n_features_in_) == (None, 5, 4)
    assert_array_equal(inner.predict(model.table_.transform(frame)), model.predict(frame))


STATES = {
    kind.task: to_state(untrained(kind(hidden=(3, 2), n_members=2), 2, 2, **more))
    for kind, more in (
        (TGGMRegressor, {"calibration": (STUDENT, STUDENT), "guarantee": np.ones((2, 9))}),
        (TGGMClassifier, {"guarantee": np.full((1, 9), 0.5)}),
    )
}
KINDS = {kind.task: kind for kind in ESTIMATORS}
BACKENDS = {
    "jax": {task: partial(from_state, kind) for task, kind in KINDS.items()},
    "numpy": {kind.task: kind.from_state for kind in (NumPyRegressor, NumPyClassifier)},
}
both_backends = pytest.mark.parametrize("backend", BACKENDS)


@both_backends
@pytest.mark.parametrize("task", STATES)
def test_every_damaged_array_is_rejected(task, backend):
    arrays, meta = STATES[task]
    restore = BACKENDS[backend][task]
    restore(arrays, meta)
    for name, array in arrays.items():
        other = "f" if array.dtype.kind == "i" else "i"
        damaged = {
            "missing": {k: a for k, a in arrays.items() if k != name},
            "shape": arrays | {name: np.zeros((*array.shape[:-1], array.shape[-1] + 1), array.dtype)},
            "kind": arrays | {name: array.astype(f"{other}4")},
        }
        if array.dtype.kind == "f" and not name.startswith("history"):
            damaged["NaN"] = arrays | {name: np.full_like(array, np.nan)}
        if name.startswith("model."):
            damaged["precision"] = arrays | {name: array.astype(np.float64)}
            damaged["size"] = arrays | {name: np.full_like(array, 1e30)}
        for how, changed in damaged.items():
            if name == "guarantee.scores" and how != "kind":
                continue  # optional, and any number of scores
            with pytest.raises(ERRORS):
                restore(changed, meta)
    with pytest.raises(ValueError, match=r"arrays are missing or unknown: \['more'\]"):
        restore(arrays | {"more": np.zeros(1)}, meta)


WRONG = {
    "settings": [{}, 3, {"checkpoint": "c"}],
    "network": [None, {}, "deep"],
    "features": ["x0", ["x0"], [1, 2]],
    "vector_target": [1, None],
    "calibration": [3, [["student", 1.0]], [["linear"]], [["magic"], ["magic"]]],
    "transform": ["sqrt", [0.0], float("inf")],
    "supports": [
        *("auto", 3, None, [None], ["auto", None]),
        *([s, None] for s in ([], [1, 0], [0, 1, -1], [0, 1, 0.3], [0, "1"], [float("nan"), None])),
    ],
    "converged": ["yes"],
}


@both_backends
@pytest.mark.parametrize("task", STATES)
def test_every_damaged_description_is_rejected(task, backend):
    arrays, meta = STATES[task]
    restore = BACKENDS[backend][task]
    for name, values in WRONG.items():
        with pytest.raises(ERRORS):
            restore(arrays, {k: v for k, v in meta.items() if k != name})
        for value in values:
            with pytest.raises(ERRORS):
                restore(arrays, meta | {name: value})
    changes = {"settings": {"n_members": 3, "hidden": [3], "dtype": "float64", "linear": False}}
    changes["settings"] |= {"other": 1} if backend == "jax" else {"n_members": 0}
    changes["network"] = {"units": [3, 0], "features": "Waves", "linear": 1, "layers": "Gaussian"}
    for part, values in changes.items():
        for name, value in values.items():
            with pytest.raises(ERRORS):
                restore(arrays, meta | {part: meta[part] | {name: value}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "a"]}, "at least two labels, all different"),
        ({"classes": ["a"]}, "at least two labels, all different"),
        ({"classes": ["a", "b", "c"]}, "3 labels for 2 classes"),
        ({"class_dtype": "V8"}, "labels of dtype 'V8' are not supported"),
    ],
)
def test_damaged_labels_are_rejected(change, message):
    arrays, meta = STATES["classification"]
    with pytest.raises(ValueError, match=message):
        from_state(TGGMClassifier, arrays, meta | change)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y.scale": 1e-200}, r"standard deviation of 1e-200, whose square vanishes"),
        ({"y.scale": 1e-140, "model.likelihood.log_noise": -600}, "the noise vanishes or overflows in the"),
        ({"model.likelihood.log_noise": 600.0}, r"log-noise must be between -600 and 80"),
        ({"model.hidden.W0": 1e30}, r"parameters reach 1e\+30; at most 1e\+15 is possible in float32"),
        ({"x.shift": np.nan}, "shifts and scales must be finite"),
        ({"y.shift": -np.inf}, "shifts and scales must be finite"),
        ({"y.shift": 1e300}, r"`y` has a mean of 1e\+300, whose square overflows; divide it"),
        ({"model.hidden.s0": 1.0}, "its gauge σ0² is not that of the task"),
        ({"history.epoch": 1}, "epochs of the learning curve must be positive and increasing"),
        ({"best_epoch": -1}, "must not be negative"),
        ({"guarantee.scores": -1.0}, "ascending, not negative"),
        ({"x.scale": 0.0}, "scales positive"),
    ],
)
@both_backends
def test_impossible_values_are_rejected(changes, message, backend):
    arrays, meta = STATES["regression"]
    changed = {name: np.full_like(arrays[name], value) for name, value in changes.items()}
    with pytest.raises(ValueError, match=message):
        BACKENDS[backend]["regression"](arrays | changed, meta)


@both_backends
def test_a_model_without_members_is_rejected(backend):
    arrays, meta = STATES["regression"]
    model = ("model.", "history.t", "history.h", "best_epoch", "undone")
    none = {name: a[:0] if name.startswith(model) else a for name, a in arrays.items()}
    settings = {"settings": meta["settings"] | {"n_members": 0}}
    with pytest.raises(ValueError, match="`n_members` must be an integer of at least 1; got 0"):
        BACKENDS[backend]["regression"](none, meta | settings)


@pytest.mark.parametrize("features", [None, "bounded", "periodic"])
@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("hidden", [(3,), (4, 3, 2)])
def test_both_backends_expect_the_same_arrays(kind, features, hidden):
    model = untrained(kind(hidden=hidden, n_members=2, features=features, linear=features is None), 3, 2)
    _, meta = to_state(model)
    drawn = model.fitted_.network.draw(np.random.default_rng(0), 3, 2).arrays()
    shapes = shapes_of(meta["network"], kind.task)(3, 2)
    assert shapes == {name: a.shape[1:] for name, a in drawn.items()}


def test_a_long_learning_curve_is_stored_at_even_distances(model):
    long, n = copy(model), 60_000
    curve = np.tile(np.arange(n, dtype=np.float32), (2, 1))
    long.history_ = {"train": curve, "held_out": -curve, "epoch": np.arange(1, n + 1)}
    again = from_state(type(model), *to_state(long))
    epoch = again.history_["epoch"]
    assert (len(epoch), epoch[0], epoch[-1], again.n_iter_) == (1000, 1, n, n)
    assert set(np.diff(epoch)) <= {60, 61}
    assert_array_equal(again.history_["train"], np.tile(epoch - 1.0, (2, 1)))
    assert_array_equal(to_state(again)[0]["history.epoch"], epoch)


def test_a_random_state_that_a_file_cannot_hold_is_named(model):
    with pytest.raises(TypeError, match=r"`random_state` is a RandomState, .*set_params"):
        to_state(copy(model).set_params(random_state=np.random.RandomState(0)))


def unstable(kind, rate):
    """Train two members for 10 epochs of full batches, 10 steps each."""
    model = kind((4,), n_members=2, batch_size=60, max_epochs=10, learning_rate=rate, random_state=0)
    return model.set_params(optimizer="sgd").fit(X, y)


@pytest.mark.parametrize("kind", few(ESTIMATORS, "TGGMRegressor", name=lambda kind: kind.__name__))
def test_steps_that_overflow_are_undone_and_counted(kind):
    """Gradients are clipped, so that only an enormous rate overflows."""
    with pytest.warns(ConvergenceWarning, match="(?i)lower `learning_rate`") as warned:
        model = unstable(kind, 1e30)
    assert warned[0].filename == __file__
    assert np.isfinite(model.predict(X) if kind is TGGMRegressor else model.predict_proba(X)).all()
    assert model.undone_.shape == (2,)
    assert np.all((model.undone_ >= 9) & (model.undone_ <= 11))  # 10 steps, and a collapsed epoch
    assert_allclose(from_state(kind, *to_state(model)).undone_, model.undone_)
