"""Checkpoints are atomic, and never used for another fit."""

import os
from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pytest

import tggm
from tggm import storage
from tggm.training import checkpoint as module
from tggm.training.checkpoint import Checkpoint, CheckpointError, CheckpointFile, identity
from tggm.training.loop import State
from tggm.training.train import CheckpointWarning, Observer


def state(number):
    vector, count = np.full((2, 3), number, np.float32), np.full(2, number, np.int32)
    scalar = np.full(2, number, np.float32)
    return State(
        vector, vector, (vector,), count.astype(np.uint32), count, count, vector, scalar, count, count,
        scalar, count, scalar,
    )  # fmt: skip


def file_of(path, fit="a fit", template=None):
    return CheckpointFile(path, fit, state(0) if template is None else template, Observer().noted)


def write(file, epochs, **options):
    file._last = Checkpoint(state(epochs), np.zeros((2, epochs)), np.full((2, epochs), np.nan))
    file.write(**options)


@pytest.fixture
def path(tmp_path):
    """Write a checkpoint after 2 epochs."""
    write(file_of(tmp_path / "c"), 2)
    return tmp_path / "c"


def epochs_at(path, fit="a fit", template=None):
    found = file_of(path, fit, template).read()
    assert found is None or found.state.params[0, 0] == found.train.shape[1] == found.state.step[0]
    return None if found is None else found.train.shape[1]


def test_the_identity_depends_on_settings_and_every_bit():
    X = np.arange(6.0).reshape(2, 3)
    same = identity({"a": 1, "b": [2]}, (X, None))
    assert same == identity({"b": [2], "a": 1}, (X.copy(order="F"), None))
    arrays = (np.nextafter(X, 9), X.reshape(3, 2), X.astype(np.float32))
    others = [identity({"a": 1, "b": [2]}, (other, None)) for other in arrays]
    others += [identity({"a": 1, "b": [3]}, (X, None)), identity({"a": Fraction(1, 4), "b": [2]}, (X, None))]
    assert len({same, *others}) == 6


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:-9] + b"\1" + b[-8:]])
def test_a_checkpoint_is_read_unless_it_is_damaged(path, damage):
    assert epochs_at(path.with_name("other")) is None
    assert epochs_at(path) == 2
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=r"`checkpoint` .*; delete it, or name"):
        epochs_at(path)


def test_files_of_others_are_never_replaced(path):
    with pytest.raises(CheckpointError, match="unfinished fit with other data or settings; delete"):
        epochs_at(path, "another")
    with pytest.raises(CheckpointError, match="another version"):
        epochs_at(path, template=state(0)._replace(params=np.zeros((2, 4), np.float32)))
    path.write_bytes(b"a photograph")
    with pytest.raises(CheckpointError, match=r"`checkpoint` .*; delete it"):
        epochs_at(path)


def test_a_finished_checkpoint_may_be_replaced(path):
    write(file_of(path), 2, finished=True)
    assert epochs_at(path, "another") is None
    write(file_of(path, "another"), 3)
    assert epochs_at(path, "another") == 3


def test_pipes_are_neither_read_nor_replaced(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(CheckpointError, match=r"`checkpoint` .*c: .*not a regular file"):
        epochs_at(path)
    with pytest.warns(CheckpointWarning, match="regular file"):
        write(file_of(path), 1)
    assert not path.is_file()


def test_temporary_files_of_a_killed_write_are_removed(path):
    path.with_name(".c.0123.tmp").write_bytes(b"half")
    path.with_name(".cc.0123.tmp").write_bytes(b"of another file")
    assert epochs_at(path) == 2
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".cc.0123.tmp", "c"]


@pytest.mark.parametrize(("seconds", "epochs"), [(5.0, 2), (0.0, 5)])
def test_writes_are_seconds_apart(path, monkeypatch, seconds, epochs):
    monkeypatch.setattr(module, "SECONDS", seconds)
    file_of(path).keep(Checkpoint(state(5), np.zeros((2, 5)), np.zeros((2, 5))))
    assert epochs_at(path) == epochs


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    settings = {"hidden": 3, "n_members": 2, "max_epochs": 40, "random_state": 3}
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    return settings, X, y, tggm.TGGMRegressor(**settings).fit(X, y)


def equal(one, other):
    arrays = (model.fitted_.model.arrays().values() for model in (one, other))
    return all(np.array_equal(*pair) for pair in zip(*arrays, strict=True))


def test_a_resumed_fit_gives_the_same_model(problem, tmp_path, monkeypatch, capsys):
    settings, X, y, witness = problem
    monkeypatch.setattr(module, "SECONDS", 0.0)
    path = tmp_path / "fit"
    model = tggm.TGGMRegressor(**settings, checkpoint=path)
    with monkeypatch.context() as patch:
        original, calls = CheckpointFile.write, []

        def failing(self, **options):
            original(self, **options)
            calls.append(self._last.train.shape[1])
            if calls[-1] >= 7:
                raise RuntimeError("power failure")

        patch.setattr(CheckpointFile, "write", failing)
        with pytest.raises(RuntimeError, match="power"):
            model.fit(X, y)
    assert calls[-1] < 40
    with pytest.raises(CheckpointError, match="other data or settings"):
        model.fit(X, y[::-1])
    for done in (calls[-1], witness.n_iter_):  # the second resumed fit has no step left
        model.set_params(verbose=True).fit(X, y)
        assert f"continuing after epoch {done}\n" in capsys.readouterr().out
        assert equal(model, witness)
        assert np.array_equal(model.history_["held_out"], witness.history_["held_out"])
    tggm.save(model, tmp_path / "m")
    assert tggm.load(tmp_path / "m").checkpoint is None


def test_a_fit_continues_if_checkpoints_cannot_be_written(problem, tmp_path, monkeypatch):
    settings, X, y, witness = problem
    monkeypatch.setattr(storage.os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    match = r"could not be written \(No space left on device\); training continues"
    with pytest.warns(CheckpointWarning, match=match) as caught:
        model = tggm.TGGMRegressor(**settings, checkpoint=str(tmp_path / "fit")).fit(X, y)
    assert len(caught) == 1
    assert equal(model, witness)
    assert list(tmp_path.iterdir()) == []
