"""A few thousand malformed model files; `make fuzz` is the full count."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tggm import ModelFileError, TGGMClassifier, TGGMRegressor
from tggm.files import model_file, parse_model
from tggm.storage.container import decode, encode

SCRIPT = Path(__file__).parents[2] / "tools" / "fuzz_model_files.py"


@pytest.fixture(scope="module")
def fuzz():
    spec = importlib.util.spec_from_file_location("fuzz_model_files", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_malformed_model_files_are_refused(fuzz):
    complaints = []
    found = fuzz.run(5000, seed=1, show=complaints.append)
    assert found["files"] > 4900
    assert complaints == []


@pytest.mark.parametrize(
    ("reader", "found"),
    [
        (lambda content, source: None, "loaded"),
        (lambda content, source: {}["x"], "KeyError: 'x'"),
        (lambda content, source: bytearray(2**26), "too large"),
    ],
)
def test_a_careless_reader_is_caught(fuzz, monkeypatch, reader, found):
    monkeypatch.setattr(fuzz, "parse_model", reader)
    assert fuzz.verdict(b"x", traced=True) == found


def test_a_reader_that_takes_anything_is_caught(fuzz, monkeypatch):
    monkeypatch.setattr(fuzz, "parse_model", lambda content, source: None)
    assert fuzz.run(40, seed=1)["violations"] == 20


def scaled(name, factor):
    return lambda arrays, state: arrays.update({name: arrays[name].astype(np.float64) * factor})


def filled(name, value):
    return lambda arrays, state: arrays.update({name: np.full_like(arrays[name], value)})


def typed(name, dtype):
    return lambda arrays, state: arrays.update({name: np.ones_like(arrays[name], dtype)})


def setting(name, value):
    return lambda arrays, state: state["settings"].update({name: value})


def without_members(arrays, state):
    shared = ("x_shift", "x_scale", "y_shift", "y_scale", "history.epoch")
    arrays.update({name: a if name in shared else a[:0] for name, a in arrays.items()})


WRONG = {
    "size of W0": (scaled("params.W0", 1e300), "can be computed with"),
    "size of W1": (scaled("params.W1", 1e100), "can be computed with"),
    "size of W": (scaled("params.W.0", 1e200), "can be computed with"),
    "size of V": (scaled("params.V", 1e12), "lateral connections must be"),
    "no noise": (filled("params.log_noise", -1000), "the noise must be"),
    "no variance": (setting("sigma0", 1e-300), "sigma0 = 1e-300 is beyond"),
    "variance": (setting("sigma0", 1e200), "sigma0 = 1e.200 is beyond"),
    "no members": (without_members, "has shape"),
    "whole numbers": (typed("params.W0", np.int32), "'params.W0' is of type int32"),
    "bytes": (typed("params.log_noise", np.uint8), "'params.log_noise' is of type uint8"),
    "truths": (typed("params.W1", bool), "'params.W1' is of type bool"),
    "fractions": (typed("best_epoch", np.float32), "'best_epoch' is of type float32"),
    "members": (setting("n_members", 10**9), "its settings ask for"),
    "units": (setting("hidden", 10**9), "its settings ask for|arrays are missing"),
    "other units": (setting("hidden", [7]), "its settings ask for|arrays are missing"),
    "lateral": (setting("lateral", 1), "TypeError|`lateral` connections|lateral=1|missing|its settings ask"),
    "letters": (lambda arrays, state: state.update(features="x" * len(arrays["x_shift"])), "list of words"),
    "numbers": (lambda arrays, state: state.update(features=[1] * len(arrays["x_shift"])), "list of words"),
    "epochs": (lambda arrays, state: arrays.update(best_epoch=np.ones((3, 3), np.int32)), "has shape"),
    "epoch": (filled("best_epoch", -1), "must not be negative"),
    "more": (lambda arrays, state: arrays.update(more=np.zeros(2)), "do not belong to it: .'more'"),
    "answer": (lambda arrays, state: state.update(converged="no"), "must be true or false"),
}


@pytest.fixture(scope="module")
def sound(fuzz):
    return fuzz.originals()


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_content_is_refused_whatever_its_checksum(sound, wrong):
    edit, reason = WRONG[wrong]
    for content in sound:
        arrays, description = decode(content)
        try:
            edit(arrays, description["state"])
        except KeyError:  # a model of another kind
            continue
        with pytest.raises(ModelFileError, match=reason):
            parse_model(encode(arrays, description), "it")


@pytest.mark.parametrize("kind", [TGGMRegressor, TGGMClassifier])
def test_a_file_describes_what_was_fitted(fuzz, kind):
    model = fuzz.filled(kind(hidden=(3, 2), n_members=2), 2, 2).set_params(
        hidden=7, n_members=9, deep="undirected"
    )
    again = parse_model(model_file(model), "it").model
    assert (again.hidden, again.n_members, again.deep) == ((3, 2), 2, "directed")
    model.W0_[:] = model._params.W0[:] = 1e20
    with pytest.raises(ValueError, match=r"parameters reach 1e\+20"):
        model_file(model)
