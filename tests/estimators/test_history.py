"""Learning curves in model files: all of a short one, a thousand points of a long one."""

import numpy as np
import pytest

from tggm import TGGMClassifier, TGGMRegressor, load, save
from tggm.files.models import model_file, parse_model
from tggm.storage.container import decode, encode


@pytest.fixture(scope="module", params=[TGGMRegressor, TGGMClassifier])
def model(request, table):
    X, y = table
    fit = request.param(hidden=3, n_members=2, max_epochs=4, random_state=0)
    return fit.fit(X, y > 0 if request.param is TGGMClassifier else y)


@pytest.fixture(scope="module")
def table():
    X = np.linspace(-1, 1, 30)[:, None]
    return X, X[:, 0] ** 2 - 0.3


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


def test_files_without_epochs_are_read(model):
    arrays, description = decode(model_file(model))
    del arrays["history.epoch"]
    again = parse_model(encode(arrays, description), "it").model
    assert again.n_iter_ == 4
    assert again.history_["epoch"].tolist() == [1, 2, 3, 4]


def test_epochs_that_do_not_rise_are_refused(model):
    arrays, description = decode(model_file(model))
    arrays["history.epoch"][2] = 1
    with pytest.raises(ValueError, match="epochs of the learning curve must be 4 rising numbers"):
        parse_model(encode(arrays, description), "it")
