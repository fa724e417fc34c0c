"""The fits that are killed: in memory, of classes, of a table, from a stream, and of two processes.

A child process makes one and writes a checkpoint after every chunk of epochs, then the model's file. It logs
what it wrote in full and from where it went on.
"""

import atexit
import errno
import os
import sys
import warnings

import numpy as np

import tggm
from tggm import TGGMClassifier, TGGMRegressor
from tggm.data import from_arrays
from tggm.training import checkpoints, training
from tggm.training.compilation_cache import use_compilation_cache
from tggm.training.parallel.processes import is_first

ROWS, CHUNK_SECONDS = 400, 0.02
EPOCHS = int(os.environ.get("EPOCHS", 600))  # fewer in the tests
KINDS = ("memory", "classification", "table", "stream", "rmsprop", "two processes")
NO_SPACE = 28  # how a child ends that could not write its model


def problem(kind, number, path):
    """An estimator and what it is fitted to."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(ROWS, 4))
    y = np.sin(X[:, 0]) + 0.3 * np.abs(X[:, 1]) * rng.normal(size=len(X))
    common = {"random_state": number, "max_epochs": EPOCHS, "checkpoint": path, "hidden": 6}
    if kind == "classification":
        return TGGMClassifier(n_members=2, **common), (X, y > 0)
    if kind == "table":
        return TGGMRegressor(n_members=2, **common), (words_and_gaps(X, rng), y)
    if kind == "stream":
        rows = from_arrays(X, y, block_rows=128)
        return TGGMRegressor(n_members=1, **common | {"max_epochs": max(EPOCHS // 8, 4)}), (rows,)
    if kind == "rmsprop":
        return TGGMRegressor(n_members=1, early_stopping=False, optimizer="rmsprop", **common), (X, y)
    return TGGMRegressor(n_members=2, patience=None, **common), (X, y)


def words_and_gaps(X, rng):
    """The same rows as a table: one column of words, some cells empty."""
    table = X.astype(object)
    table[:, 3] = np.array(["low", "middle", "high"], dtype=object)[np.digitize(X[:, 3], [-0.5, 0.5])]
    table[rng.random(X.shape) < 0.05] = None
    return table


def fit(kind, number, folder, disk=None, joined=None):
    """What a child does: join the other process, if any; go on with the fit; save. Its exit status."""
    os.dup2(os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    warnings.simplefilter("ignore")
    use_compilation_cache(folder.parent / "programs")
    watch(folder)
    if disk is not None:
        disk.install()
    model, rows = problem(kind, number, folder / "disk" / "fit.checkpoint")
    model.fit(*rows)
    status = save(model, folder) if is_first() else 0
    if joined is not None:
        atexit._run_exitfuncs()  # the two leave together
    return status


def save(model, folder):
    """Write the model; a full disk is no error of ours."""
    model.checkpoint = None
    try:
        tggm.save(model, folder / "disk" / "model.tggm")
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return NO_SPACE
    return 0


def watch(folder):
    """Log every checkpoint that was written in full, and every one that was gone on from."""
    checkpoints.SECONDS, training._CHUNK_SECONDS = 0.0, CHUNK_SECONDS
    write, read = checkpoints.Checkpoints.write, checkpoints.Checkpoints.read

    def logged_write(self, *, finished=False):
        before = self._stored
        write(self, finished=finished)
        if self._stored != before:
            log(folder, "wrote", self._stored[0])

    def logged_read(self):
        found = read(self)
        if is_first():
            log(folder, "resumed", 0 if found is None else found.train.shape[1])
        return found

    checkpoints.Checkpoints.write, checkpoints.Checkpoints.read = logged_write, logged_read


def log(folder, *words):
    """Add a line in one write, which a kill cannot cut."""
    handle = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, (" ".join(map(str, words)) + "\n").encode())
    os.close(handle)


def started(kind, number, folder, disk=None, joined=None):
    """Fork: what takes long, the imports, is done already, and JAX's threads do not run yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = fit(kind, number, folder, disk, joined)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    return child
