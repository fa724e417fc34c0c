"""What writing a model file leaves behind, and what it refuses."""

import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from tests.files.toy import ARRAYS, META, Toy
from tggm import load, save


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="No space left"):
        save(Toy(ARRAYS, {**META, "rate": 0.2}), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_permissions_are_the_usual_ones_and_are_kept(tmp_path):
    file = tmp_path / "m"
    # in a process of its own: the umask belongs to the whole process
    code = (
        "import os, pathlib, sys; os.umask(0o027); from tggm.storage.files import write_atomically as w; "
        "w(pathlib.Path(sys.argv[1]), b'x')"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    file.chmod(0o600)
    save(Toy(ARRAYS, META), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_still_points_to_the_file_that_was_replaced(path, tmp_path):
    link = tmp_path / "latest.tggm"
    link.symlink_to(path)
    save(Toy(ARRAYS, {**META, "rate": 0.2}), link)
    assert link.is_symlink()
    assert load(path).meta["rate"] == 0.2


def test_what_cannot_be_stored_is_named(tmp_path):
    with pytest.raises(TypeError, match="`model` must be one of Toy; got dict"):
        save({}, tmp_path / "m")
    with pytest.raises(TypeError, match="array 'c' has dtype complex128"):
        save(Toy({"c": np.array([1j])}, META), tmp_path / "m")
    with pytest.raises(TypeError, match="cannot be stored: Object of type function"):
        save(Toy({}, {"hidden": lambda: 3}), tmp_path / "m")
    with pytest.raises(TypeError, match="cannot be stored: Out of range float"):
        save(Toy({}, {"hidden": float("nan")}), tmp_path / "m")
    with pytest.raises(TypeError, match="must not be called '__metadata__'"):
        save(Toy({"__metadata__": np.zeros(1)}, META), tmp_path / "m")
    with pytest.raises(FileNotFoundError, match=r"There is no such folder; make it first: '.*/none'"):
        save(Toy({}, META), tmp_path / "none" / "m")
    with pytest.raises(IsADirectoryError, match="This is a folder; name a file in it"):
        save(Toy({}, META), tmp_path)
    assert not os.listdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, reason in (("pipe", "not a regular file"), ("link", "not a regular"), ("loop", "Too many")):
        with pytest.raises(OSError, match=reason):
            save(Toy({}, META), tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "loop", "pipe"]


def test_a_missing_file_a_folder_and_a_pipe_are_errors_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(OSError, match="Not a regular file"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Not a regular file"):
        load(tmp_path / "pipe")
