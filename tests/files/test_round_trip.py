"""Model files come back bit for bit, and another reader (the safetensors package) sees the same."""

import json

import numpy as np
import safetensors.numpy

from tests.files.toy import ARRAYS, META, Toy
from tggm import load, save


def same(model):
    return (
        model.meta == META
        and set(model.arrays) == set(ARRAYS)
        and all(
            model.arrays[k].dtype == v.dtype
            and model.arrays[k].shape == v.shape
            and model.arrays[k].tobytes() == v.tobytes()
            for k, v in ARRAYS.items()
        )
    )


def test_a_model_comes_back_bit_for_bit(path):
    model = load(path)
    assert same(model)
    assert all(array.flags.writeable for array in model.arrays.values())


def test_another_safetensors_reader_sees_the_same_arrays(path):
    read = safetensors.numpy.load_file(path)
    assert same(Toy(read, META))
    with safetensors.safe_open(path, "numpy") as file:
        assert json.loads(file.metadata()["model"])["state"] == META


def test_arrays_in_any_layout_are_stored_in_order(tmp_path):
    strange = {
        "f": np.asfortranarray(ARRAYS["W0"]),
        "s": np.arange(10.0)[::3],
        "big": np.array([1.0], dtype=">f8"),
    }
    save(Toy(strange, META), tmp_path / "m")
    read = load(tmp_path / "m").arrays
    assert all(np.array_equal(read[name], array) for name, array in strange.items())


def test_saving_twice_gives_the_same_bytes(path, tmp_path):
    save(Toy(dict(reversed(ARRAYS.items())), META), tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()
