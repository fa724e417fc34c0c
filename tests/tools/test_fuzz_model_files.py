"""A few thousand malformed model files; `make fuzz` is the full count."""

import importlib.util
from pathlib import Path

import pytest

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
