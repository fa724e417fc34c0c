"""A few kills of real processes, and proof that a careless writer is caught.

`python -m tools.kill_and_resume --kills 1000` is the full count.
"""

import errno
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tools.kills.chain import Chain
from tools.kills.disk import Full, Kill, PowerLoss

from tggm import storage

ROOT = Path(__file__).parents[2]
OLD, NEW = b"old" * 9, b"new" * 9


@pytest.mark.slow  # fits in several processes; below, the calls of a write are struck one by one
def test_killed_fits_end_as_if_nothing_had_happened(tmp_path):
    figures = tmp_path / "figures.json"
    words = ["--kills", "1", "--kinds", "memory", "--strikes", "8", "--seed", "7", "--output", figures]
    shorter = os.environ | {"EPOCHS": "300"}  # a few strikes come before the first checkpoint, not all eight
    command = [sys.executable, "-m", "tools.kill_and_resume", *words]
    done = subprocess.run(command, cwd=ROOT, env=shorter, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(figures.read_text())
    assert (found["fits"], found["losses"]) == (1, 0)
    assert found["kills"] > 0
    assert found["resumed"] > 0


class Struck(BaseException):
    """In place of the end of a process."""


@pytest.fixture
def after(monkeypatch):
    """What a write leaves of a file on a failing disk: its content, None if there is none, and the error."""
    monkeypatch.setattr(storage, "os", os)
    monkeypatch.setattr(storage, "open", open, raising=False)

    def struck():
        raise Struck

    def content(disk, write, path):
        disk.end, error = struck, None
        disk.install()
        try:
            write(path)
        except (Struck, OSError) as caught:
            error = caught
        return path.read_bytes() if path.exists() else None, error

    return content


def careful(path):
    storage.write_atomically(path, NEW, previous=path.with_name("m.previous"))


def careless(path):
    """Without synchronising: on such a disk the name may be there before the bytes."""
    handle = storage.os.open(path.with_name("t"), os.O_WRONLY | os.O_CREAT, 0o666)
    with storage.open(handle, "wb") as file:
        file.write(NEW)
    storage.os.replace(path.with_name("t"), path)
    storage.os.open(path.parent, os.O_RDONLY)


def outcomes(tmp_path, after, disk, write, calls):
    """Contents of a file after a fault at each of so many calls of a write, a few times each."""
    found = set()
    for number in range(8 * calls):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "m").write_bytes(OLD)
        content, _ = after(disk(1 + number % calls, random.Random(number), folder), write, folder / "m")
        found.add(content)
        assert content is not None or (folder / "m.previous").read_bytes() == OLD
    return found


def power(call, rng, folder):
    return PowerLoss(call, rng=rng, folder=folder)


def kill(call, rng, folder):
    return Kill(call, rng=rng)


@pytest.mark.parametrize("disk", [power, kill])
def test_a_file_is_old_or_new_whatever_call_is_struck(tmp_path, after, disk):
    assert outcomes(tmp_path, after, disk, careful, 8) == {OLD, NEW, None}


def test_a_careless_writer_is_caught(tmp_path, after):
    assert outcomes(tmp_path, after, power, careless, 4) - {OLD, NEW, None}


@pytest.mark.parametrize("call", range(1, 9))
def test_a_full_disk_leaves_the_old_file_or_its_predecessor(tmp_path, after, call):
    (tmp_path / "m").write_bytes(OLD)
    content, error = after(Full(call, rng=random.Random(call)), careful, tmp_path / "m")
    assert error is None or error.errno == errno.ENOSPC
    assert {path.name for path in tmp_path.iterdir()} <= {"m", "m.previous"}
    assert content in (OLD, NEW) or (tmp_path / "m.previous").read_bytes() == OLD


def test_a_start_from_an_earlier_epoch_is_a_loss(tmp_path):
    chain = Chain("memory", 0, 0, tmp_path, 0.0)
    (tmp_path / "log").write_text("resumed 0\nwrote 3\nstruck write\nresumed 2\n")
    chain.check_order(tmp_path)
    assert "went on from epoch 2 after 3" in chain.record.losses[0]
    chain.record.losses.clear()
    (tmp_path / "log").write_text("resumed 0\nwrote 3\nresumed 4\n")
    chain.check_order(tmp_path)
    assert not chain.record.losses
