"""Programs that are read from a file compute what they would compute when traced."""

from dataclasses import dataclass

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from tggm.predictive.moments import member_moments
from tggm.training.engine import Inference
from tggm.training.parallel import crew

from tggm import TGGMRegressor
from tggm.models import Architecture
from tggm.predictive import moments
from tggm.training import traced_programs

ENGINE = Inference("mean_field", nodes=3)
X = np.random.default_rng(0).standard_normal((30, 2))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for module in (moments, crew):
        monkeypatch.setattr(module, "FOLDERS", [tmp_path])
    monkeypatch.setattr(traced_programs, "folder_in_use", lambda: tmp_path)
    forget()
    yield tmp_path
    forget()


def forget():
    """As in a new process."""
    traced_programs._found.cache_clear()


def not_asked(*_):
    raise AssertionError


@pytest.fixture(scope="module")
def model():
    return Architecture(2, (3,), 1).members(np.random.default_rng(0), 2, np.float32)


def found(model):
    return member_moments(model, X, ENGINE, np.float32)


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_a_program_is_traced_once_for_all_processes(model, folder, monkeypatch):
    monkeypatch.setattr(moments, "FOLDERS", [])
    traced = found(model)
    assert not names(folder)
    monkeypatch.setattr(moments, "FOLDERS", [folder])
    kept = found(model)
    assert len(names(folder)) == 1
    forget()
    monkeypatch.setattr(traced_programs, "_written", not_asked)
    read = found(model)
    for a, b, c in zip(traced, kept, read, strict=True):
        assert_allclose(b, a, rtol=1e-6)
        assert_allclose(c, b, rtol=1e-6)


def test_a_fit_reads_its_program(folder, monkeypatch):
    def fitted():
        model = TGGMRegressor.one_layer(hidden=(2,), n_members=2, max_epochs=2, random_state=0)
        return model.fit(X, X[:, 0]).W0_

    first = fitted()
    assert any(name.startswith("chunk-") for name in names(folder))
    forget()
    monkeypatch.setattr(traced_programs, "_written", not_asked)
    assert_allclose(fitted(), first, rtol=1e-6)
    monkeypatch.setattr(crew, "FOLDERS", [])
    assert_allclose(fitted(), first, rtol=1e-4)


@pytest.mark.parametrize("content", [b"", b"no program", bytes(100)])
def test_a_damaged_file_is_made_anew(model, folder, content):
    expected = found(model)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(content)
    forget()
    assert_allclose(found(model), expected, rtol=1e-6)
    assert not path.exists()
    forget()
    found(model)
    assert path.read_bytes()[32:] == whole[32:]


@dataclass(frozen=True)
class Foreign:
    """Not of the package, so that its code may change while sources of the package do not."""

    nodes: int = 3


def test_what_other_packages_define_is_not_kept(model, folder):
    member_moments(model, X, Foreign(), np.float32)
    assert not names(folder)


def described(model):
    leaves, tree = jax.tree.flatten((model, X.astype(np.float32)))
    shapes = tuple((a.shape, a.dtype) for a in leaves)
    return traced_programs._described(
        traced_programs.Traced(moments._variances, (ENGINE,), tree, shapes, (False,))
    )


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("tggm.models.hidden.unit.FEW", 2),
        ("tggm.models.hidden.unit.gauss_hermite", lambda n_nodes: ([0.0], [1.0])),
        ("tggm.models.hidden.shallow.Shallow.moments", lambda self, psi, engine=None: None),
    ],
)
def test_what_was_replaced_is_traced_anew(model, monkeypatch, place, value):
    before = described(model)
    assert before == described(model)
    monkeypatch.setattr(place, value)
    assert described(model) != before


def test_a_changed_source_is_traced_anew(model, monkeypatch, tmp_path):
    (tmp_path / "part.py").write_text("a = 1")
    monkeypatch.setattr(traced_programs, "PACKAGE", tmp_path)
    before = described(model)
    (tmp_path / "part.py").write_text("a = 10")
    assert described(model) != before


def test_nothing_is_kept_without_a_folder(model):
    assert traced_programs.kept(moments._variances, (ENGINE,), (0, 0), (model, X)) is None
