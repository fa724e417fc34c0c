"""What a model file says of training: learning curves, all of a short one, and the steps that were undone."""

import warnings

import numpy as np
import optax
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from tests.cases import few
from tests.estimators.small import SMALL
from tggm import TGGMClassifier, TGGMRegressor, load, save
from tggm.estimators import state
from tggm.files import model_file, parse_model
from tggm.storage import decode, encode

X = np.random.default_rng(0).standard_normal((60, 3))
y = (X[:, 0] > 0).astype(int)


ESTIMATORS = [TGGMRegressor, TGGMClassifier]
ONE = few(ESTIMATORS, "TGGMRegressor", name=lambda kind: kind.__name__)  # they share the loop that counts


@pytest.fixture(scope="module", params=ESTIMATORS)
def model(request):
    return request.param(**SMALL, max_epochs=4).fit(X, y)


def test_a_short_curve_is_kept_whole(model, tmp_path):
    save(model, tmp_path / "model.tggm")
    again = load(tmp_path / "model.tggm")
    assert again.history_["epoch"].tolist() == [1, 2, 3, 4]
    assert np.array_equal(again.history_["held_out"], model.history_["held_out"])


def test_a_long_curve_is_thinned_evenly(model, tmp_path):
    n, short = 60_000, len(model_file(model))
    curve = np.tile(np.arange(n, dtype=np.float32), (2, 1))
    before = model.history_
    model.history_ = {"train": curve, "held_out": -curve, "epoch": np.arange(1, n + 1)}
    content = model_file(model)
    model.history_ = before
    again = parse_model(content, "it").model
    epoch = again.history_["epoch"]
    assert len(epoch) == 1000
    assert (epoch[0], epoch[-1], again.n_iter_) == (1, n, n)
    assert set(np.diff(epoch)) <= {60, 61}
    assert np.array_equal(again.history_["train"], np.tile(epoch - 1.0, (2, 1)))
    assert np.array_equal(again.history_["held_out"], -again.history_["train"])
    assert model_file(again) == content  # thinned once, not again and again
    assert len(content) < short + 25_000


def test_epochs_that_do_not_rise_are_refused(model):
    arrays, description = decode(model_file(model))
    arrays["history.epoch"][2] = 1
    with pytest.raises(ValueError, match="epochs of the learning curve must be 4 rising numbers"):
        parse_model(encode(arrays, description), "it")


@pytest.mark.parametrize(
    ("name", "value"), [("random_state", np.random.RandomState(0)), ("optimizer", optax.adam(1e-3))]
)
def test_what_a_file_cannot_hold_is_named(model, name, value):
    usual = model.get_params()
    model.set_params(**{name: value})
    with pytest.raises(TypeError, match=f"`{name}`.*set_params"):
        model_file(model)
    model.set_params(**usual)


def fitted(kind, rate):
    """Two members, 10 epochs of full batches: 10 steps each."""
    model = kind((4,), n_members=2, batch_size=60, max_epochs=10, learning_rate=rate, random_state=0)
    return model.set_params(optimizer="sgd", clip=1e30).fit(X, y)


@pytest.mark.parametrize("kind", ONE)
def test_steps_into_overflow_are_counted_and_stored(kind, tmp_path):
    """Of steps so long that the next objective overflows, at most the first is taken."""
    with pytest.warns(ConvergenceWarning, match="(?i)lower `learning_rate`") as told:
        model = fitted(kind, 1e30)
    assert told[0].filename == __file__  # of who called `fit`
    assert np.isfinite(model.predict(X)).all()
    assert model.undone_.shape == (2,)
    assert np.all((model.undone_ >= 9) & (model.undone_ <= 11))  # 10 steps, and an epoch that collapsed
    save(model, tmp_path / "model.tggm")
    assert_array_equal(load(tmp_path / "model.tggm").undone_, model.undone_)


@pytest.mark.parametrize("kind", ONE)
def test_a_sound_run_takes_nothing_back(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted(kind, 1e-3)
    assert_array_equal(model.undone_, [0, 0])
    arrays, meta = model.to_state()
    with pytest.raises(ValueError, match="'undone' has shape"):
        kind.from_state({**arrays, "undone": np.zeros(3, np.int32)}, meta)
    del arrays["undone"]
    with pytest.raises(ValueError, match=r"missing or do not belong to it: \['undone'\]"):
        kind.from_state(arrays, meta)


def test_a_gauge_that_is_not_that_of_the_settings_is_refused(model):
    """However small both are."""
    arrays, meta = model.to_state()
    for sigma0 in (1e-5, 1.0):
        gauge = np.full_like(arrays["model.hidden.s0"], sigma0**2)
        state = {**arrays, "model.hidden.s0": gauge}
        described = {**meta, "settings": {**meta["settings"], "sigma0": sigma0}}
        assert type(model).from_state(state, described).sigma0 == sigma0
        described["settings"]["sigma0"] = 3 * sigma0
        with pytest.raises(ValueError, match="gauge of its arrays is not that of its settings"):
            type(model).from_state(state, described)


@pytest.mark.parametrize("value", ["many", [1.0, "x"], [float("nan")], [True]])
def test_importances_of_a_file_are_numbers(value):
    with pytest.raises(ValueError, match="importances must be"):
        state.importances({"importances": value})
