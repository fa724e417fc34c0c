"""Two real processes share a fit: they end with what one ends with, and one notices that the other died."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.cli.commands import complaint
from tests.cli.two_processes import FEW
from tests.training.small_fits import ALL, fitted
from tggm import load

ROOT = Path(__file__).parents[2]
KEPT = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # programs of the first pair serve the second
CLOSE = {"float64": 1e-9, "float32": 1e-4}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def both(folder, *more):
    """The two processes, what they say going to files; they end with the block."""
    port, found = free_port(), []
    try:
        for process in "01":
            words = [sys.executable, "-m", "tests.cli.two_processes", process, str(port), str(folder), *more]
            env = KEPT | {"JAX_COMPILATION_CACHE_DIR": str(folder / "cache")} | os.environ
            env |= {"JAX_PLATFORMS": "cpu"}
            with (folder / f"said{process}").open("w") as said:
                found.append(
                    subprocess.Popen(words, cwd=ROOT, env=env, stdout=said, stderr=subprocess.STDOUT)
                )
        yield found
    finally:
        for process in found:
            process.kill()
            process.wait()


def parameters(path):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(load(path).fitted_.model)])


def shared(place, *more):
    """Let two processes share fits there, the last of which is cut by the death of the second."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    table = np.c_[X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)]
    np.savetxt(place / "data.csv", table, delimiter=",", header="a,b,y", comments="")
    checkpoint = place / "model.tggm.checkpoint"
    with both(place, *more) as (survivor, victim):
        assert victim.wait(240) == -signal.SIGKILL, (place / "said1").read_text()
        died = time.monotonic()
        code = survivor.wait(60)
        (place / "survived").write_text(f"{code} {time.monotonic() - died} {checkpoint.exists()}")
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return shared(tmp_path_factory.mktemp("two"))


@pytest.fixture
def resumed(folder):
    """The same place, after the fit went on."""
    for process in "01":
        (folder / f"said{process}").rename(folder / f"before{process}")
    with both(folder, "--resume") as again:
        assert [process.wait(120) for process in again] == [0, 0], (folder / "said0").read_text()
    yield folder
    for process in "01":
        (folder / f"before{process}").rename(folder / f"said{process}")


def test_a_process_that_dies_ends_the_others_with_a_sentence(folder):
    code, seconds, left = (folder / "survived").read_text().split()
    assert code != "0"
    assert left == "True"
    assert float(seconds) < 60
    said = (folder / "said0").read_text()
    assert "--resume" in said
    assert "another process" in said


@pytest.mark.slow  # two more processes; tests/cli/test_table_commands.py resumes a fit of one
def test_resumed_they_end_with_the_parameters_of_a_fit_that_was_never_cut(resumed):
    assert "going on after epoch" in (resumed / "said0").read_text()
    assert_array_equal(parameters(resumed / "model.tggm"), parameters(resumed / "whole.tggm"))
    assert not (resumed / "model.tggm.checkpoint").exists()


def test_only_the_first_process_speaks(folder):
    assert "written" in (folder / "said0").read_text()
    # the other one, that it was killed
    ends = "tggm: this process ended before its fit was done"
    assert all(line.startswith(ends) for line in (folder / "said1").read_text().splitlines())


def assert_as_one(folder, name):
    close = CLOSE[name.split()[1]]
    first, second = (np.load(folder / f"small{process}.npz")[name] for process in (0, 1))
    assert_array_equal(first, second)
    assert_allclose(first, fitted(name), rtol=close, atol=close)


@pytest.mark.parametrize("name", FEW)
def test_two_processes_give_what_one_gives(folder, name):
    assert_as_one(folder, name)


@pytest.mark.slow  # two more processes; eight devices fit classes in tests/training/parallel/test_devices.py
def test_two_processes_fit_classes_as_one_does_and_one_of_them_by_itself(tmp_path):
    assert_as_one(shared(tmp_path, "--all"), ALL[1])
    own, alone = np.load(tmp_path / "own.npz")[FEW[0]], fitted(FEW[0])
    assert_allclose(own, alone, rtol=1e-9, atol=1e-9)


def test_processes_are_told_when_they_disagree_and_when_the_first_fails(folder):
    assert (folder / "errors0").read_text().splitlines() == ["nothing", "ValueError: the disk is gone"]
    different, failed = (folder / "errors1").read_text().splitlines()
    assert different.startswith("ProcessError: process 1 begins with other data")
    assert failed == "ProcessError: the first process of this fit says: the disk is gone"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--processes", "2"], "belong to --distributed"),
        *(
            (["--distributed", "--coordinator", word], f"--coordinator must be HOST:PORT .*; got {word!r}")
            for word in ("here", "127.0.0.1:abc", "127.0.0.1:0", "127.0.0.1:99999", ":12345", "::1:12345")
        ),
        (["--distributed", "-o", "-"], "names of files"),
    ],
)
def test_what_cannot_be_shared_is_said_before_anything_starts(capsys, words, sentence):
    assert re.search(sentence, complaint(capsys, "fit", "data.csv", "--target", "y", *words))


def lonely(port, process, processes, seconds):
    """A process that waits for others; what it says goes to a pipe."""
    words = f"initialize('127.0.0.1:{port}', {processes}, {process}, wait_seconds={seconds})"
    code = f"from tggm.distributed import initialize; {words}"
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env, stderr=-1, text=True)


def test_a_process_whose_others_do_not_come_says_one_sentence():
    _, said = lonely(free_port(), 0, 2, 2).communicate(timeout=60)
    assert said.startswith("tggm: the processes of this fit did not find each other within 2 s; start all")
    assert said.count("\n") == 1


def test_two_processes_of_one_id_are_told_so():
    """The one that came first ends at once; the others would wait for a third."""
    port = free_port()
    waiting = [lonely(port, process, 3, 60) for process in (0, 1, 1)]
    try:
        until = time.monotonic() + 60
        while not (ended := [p for p in waiting if p.poll() is not None]) and time.monotonic() < until:
            time.sleep(0.1)
        (said,) = [process.communicate(timeout=60)[1] for process in ended]
    finally:
        for process in waiting:
            process.kill()
            process.communicate()
    assert said.startswith("tggm: another process has come with the id of this one; give each a `process_id`")
    assert said.count("\n") == 1
