"""Checkpoints: whole or the one before, never of another fit, and never the end of a fit."""

import errno
import os
from pathlib import Path

import numpy as np
import optax
import pytest
from tggm.training.checkpoints import CheckpointError, Checkpoints, CheckpointWarning, remove_checkpoints
from tggm.training.observer import Observer
from tggm.training.state import State
from tggm.training.training import Checkpoint

import tggm
from tggm import storage
from tggm.training import checkpoints


def state(number):
    vector, count = np.full((2, 3), number, np.float32), np.full(2, number, np.int32)
    scalar = np.full(2, number, np.float32)
    return State(
        vector, vector, (vector,), count.astype(np.uint32), count, count, vector, scalar, count, count,
        scalar, count, scalar,
    )  # fmt: skip


def checkpoint(epochs):
    return Checkpoint(state(epochs), np.zeros((2, epochs)), np.full((2, epochs), np.nan))


class Notes(Observer):
    """Keeps what it is told."""

    def __init__(self):
        self.notes, self.resumes = [], []

    def noted(self, text):
        self.notes.append(text)

    def resumed(self, epochs):
        self.resumes.append(epochs)


@pytest.fixture
def path(tmp_path):
    """A checkpoint after 2 epochs, its predecessor after 1."""
    kept = Checkpoints(tmp_path / "c", "a fit", state(0))
    for epochs in (1, 2):
        kept._last = checkpoint(epochs)
        kept.write()
    return tmp_path / "c"


def epochs_at(path, fit="a fit", template=None):
    found = Checkpoints(path, fit, state(0) if template is None else template).read()
    assert found is None or found.state.params[0, 0] == found.train.shape[1] == found.state.step[0]
    return None if found is None else found.train.shape[1]


def test_the_newest_whole_checkpoint_is_read(path):
    assert epochs_at(path.with_name("other")) is None
    assert epochs_at(path) == 2
    os.unlink(path)  # as between the two renames
    assert epochs_at(path) == 1


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b[:-9] + b"\1" + b[-8:], lambda b: b""]
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(path, damage):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(CheckpointWarning, match=r"c is no usable checkpoint .*; going on from .*c.previous"):
        assert epochs_at(path) == 1
    kept = Checkpoints(path, "a fit", state(0))
    with pytest.warns(CheckpointWarning, match="the one before"):
        kept.read()
    kept._last = checkpoint(3)
    kept.write()
    assert (epochs_at(path), epochs_at(path.with_name("c.previous"))) == (3, 1)


def test_nothing_is_lost_that_somebody_may_want(path):
    with pytest.raises(CheckpointError, match="unfinished fit with other data or settings; repeat"):
        epochs_at(path, "another")
    with pytest.raises(CheckpointError, match="another version"):
        epochs_at(path, template=state(0)._replace(params=np.zeros((2, 4), np.float32)))
    for name in (path, path.with_name("c.previous")):
        name.write_bytes(b"my only photograph")
    with pytest.raises(CheckpointError, match=r"no usable checkpoint .* delete it to begin anew"):
        epochs_at(path)


def test_a_finished_one_makes_room(path):
    kept = Checkpoints(path, "a fit", state(0))
    kept._last = checkpoint(4)
    kept.write(finished=True)
    assert epochs_at(path) == 4
    assert epochs_at(path, "another") is None


def test_fits_that_begin_together_leave_each_other_their_files(tmp_path):
    path, told = tmp_path / "c", Notes()
    first = Checkpoints(path, "a fit", state(0))
    second = Checkpoints(path, "another", state(0), told)
    for kept in (first, second):
        assert kept.read() is None
    for epochs in (1, 2):
        for kept in (first, second):
            kept._last = checkpoint(epochs)
            kept.write()
    assert epochs_at(path) == 2
    assert told.notes == [
        f"{path} is by now the file of another fit, and is left to it; the fit goes on without"
    ]
    first.write(finished=True)
    second.write()
    assert epochs_at(path, "another") == 2
    path.write_bytes(b"my only photograph")
    second._last = checkpoint(3)
    second.write()
    assert path.read_bytes() == b"my only photograph"


def test_all_is_kept_where_a_link_leads(path):
    folder = path.with_name("another disk")
    folder.mkdir()
    path.with_name("link").symlink_to(folder / "d")
    kept = Checkpoints(path.with_name("link"), "a fit", state(0))
    for epochs in (1, 2):
        kept._last = checkpoint(epochs)
        kept.write()
    assert sorted(file.name for file in folder.iterdir()) == ["d", "d.previous"]
    assert epochs_at(path.with_name("link")) == 2
    remove_checkpoints(path.with_name("link"))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("place", ["c", "c.previous"])
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_neither_waited_for_nor_replaced(tmp_path, place, kind):
    make, reason = {"folder": (os.mkdir, "This is a folder"), "pipe": (os.mkfifo, "not a regular file")}[kind]
    make(tmp_path / place)
    with pytest.raises(
        CheckpointError, match=f"`checkpoint` cannot be kept in .*{place} .*{reason}"
    ) as caught:
        epochs_at(tmp_path / "c")
    assert "delete" not in str(caught.value)
    with pytest.raises(OSError, match=reason):
        remove_checkpoints(tmp_path / "c")
    kept = Checkpoints(tmp_path / "c", "a fit", state(0))
    kept._last = checkpoint(1)
    with pytest.warns(CheckpointWarning, match="regular file|folder"):
        kept.write()
    assert [file.name for file in tmp_path.iterdir()] == [place]
    assert not (tmp_path / place).is_file()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("file/c", "Not a directory"), ("n" * 250, "File name too long"), ("loop", "Too many levels")],
)
def test_what_is_wrong_with_a_name_is_said(tmp_path, name, reason):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(CheckpointError, match=f"`checkpoint` cannot be kept in .*{reason}"):
        epochs_at(tmp_path / name)


def test_what_a_killed_write_left_is_removed(path):
    left = path.with_name(".c.0123.tmp")
    left.write_bytes(b"half")
    path.with_name(".cc.0123.tmp").write_bytes(b"of another file")
    assert epochs_at(path) == 2
    assert sorted(file.name for file in path.parent.iterdir()) == [".cc.0123.tmp", "c", "c.previous"]


def test_writes_are_seconds_apart(path, monkeypatch):
    kept = Checkpoints(path, "a fit", state(0))
    kept.keep(checkpoint(5))
    assert epochs_at(path) == 2
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    kept.keep(checkpoint(6))
    assert epochs_at(path) == 6


def test_fits_with_other_optimisers_are_not_mixed(tmp_path):
    X = np.arange(8.0)[:, None]
    settings = {"hidden": 1, "n_members": 1, "max_epochs": 2, "random_state": 0}
    fast, slow = (
        tggm.TGGMRegressor(**settings, optimizer=optax.sgd(rate), checkpoint=tmp_path / "c").fit(X, X[:, 0])
        for rate in (0.3, 0.001)
    )
    assert not np.array_equal(fast.W0_, slow.W0_)


def full(handle):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    settings = {"hidden": 3, "n_members": 2, "max_epochs": 40, "patience": None, "random_state": 3}
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    return settings, X, y, tggm.TGGMRegressor(**settings).fit(X, y)


def test_a_fit_goes_on_exactly(problem, tmp_path, monkeypatch):
    settings, X, y, witness = problem
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    path = tmp_path / "fit"
    model = tggm.TGGMRegressor(**settings, checkpoint=path)
    with monkeypatch.context() as patch:
        write, calls = Checkpoints.write, []

        def interrupted(self, **options):
            write(self, **options)
            calls.append(self._last.train.shape[1])
            if calls[-1] >= 7:
                raise RuntimeError("power failure")

        patch.setattr(Checkpoints, "write", interrupted)
        with pytest.raises(RuntimeError, match="power"):
            model.fit(X, y)
    assert calls[-1] < 40
    with pytest.raises(CheckpointError, match="other data or settings"):
        model.fit(X, y[::-1])
    told = Notes()
    for _ in range(2):  # the second time there is nothing left to do
        model.fit(X, y, observer=told)
        assert all(
            np.array_equal(getattr(model, a), getattr(witness, a)) for a in ("W0_", "W1_", "b1_", "noise_")
        )
        assert np.array_equal(model.history_["held_out"], witness.history_["held_out"])
    assert told.resumes == [calls[-1], 40]
    tggm.save(model, tmp_path / "m")
    assert tggm.load(tmp_path / "m").checkpoint is None  # a file does not choose where a later fit writes


def test_a_fit_with_nothing_left_to_do_is_marked_finished(problem, tmp_path, monkeypatch):
    settings, X, y, witness = problem
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    path = tmp_path / "fit"
    model = tggm.TGGMRegressor(**settings, checkpoint=path).fit(X, y)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with monkeypatch.context() as patch:  # a folder that can only be read
        patch.setattr(storage.os, "open", denied)
        patch.setattr(Path, "unlink", denied)
        with pytest.warns(CheckpointWarning, match=r"going on from|could be written .*Permission") as caught:
            model.fit(X, y)
    assert len(caught) == 2
    with pytest.warns(CheckpointWarning, match="going on from"):
        model.fit(X, y)
    assert np.array_equal(model.W0_, witness.W0_)
    before = path.stat().st_mtime_ns
    model.fit(X, y)
    assert path.stat().st_mtime_ns == before  # it says so already
    assert epochs_at(path, "another") is None


def denied(*_, **__):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@pytest.mark.parametrize("trouble", ["full", "no folder"])
def test_a_fit_goes_on_without_checkpoints(problem, tmp_path, monkeypatch, trouble):
    settings, X, y, witness = problem
    path = tmp_path / "fit" if trouble == "full" else tmp_path / "nowhere" / "fit"
    if trouble == "full":
        monkeypatch.setattr(storage.os, "fsync", full)
    match = "No space left on device" if trouble == "full" else "There is no such folder; make it first"
    with pytest.warns(
        CheckpointWarning, match=rf"no checkpoint could be .* \({match}\); the fit goes on"
    ) as caught:
        model = tggm.TGGMRegressor(**settings, checkpoint=str(path)).fit(X, y)
    assert len(caught) == 1
    assert np.array_equal(model.W0_, witness.W0_)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"checkpoint": "c"}, "`checkpoint` needs a fixed `random_state`, as 0, .*; got None"),
        ({"checkpoint": 3, "random_state": 0}, "`checkpoint` must be None or the name of a file; got 3"),
        ({"checkpoint": "", "random_state": 0}, "`checkpoint` must be None or the name of a file; got ''"),
        ({"checkpoint": "a\0b", "random_state": 0}, "`checkpoint` must be .* name of a file; got 'a.x00b'"),
    ],
)
def test_settings_that_cannot_work(settings, message):
    with pytest.raises(ValueError, match=message):
        tggm.TGGMClassifier(**settings).fit([[0.0], [1.0]], [0, 1])
