"""List the files of the package that a call passes through.

    python tools/walk.py [regressor] [command_line]

A walk is the list of functions of `src/tggm` in the order of their first calls. It counts distinct pairs
(file, qualified name) that the calling thread enters, including lambdas, generators and comprehensions, and
functions that JAX calls while it traces a program. It does not count code that runs while a module is
imported, or bodies of classes. Every walk starts in a new process, without a cache of compiled
programs. A change of file is a pair of neighbours in the list that are in different files.
"""

import contextlib
import inspect
import os
import sys
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import tggm

PACKAGE = Path(tggm.__file__).parent


def table():
    """Return inputs and a noisy linear target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=60)


def regressor():
    from tggm import TGGMRegressor

    model, (X, y) = TGGMRegressor(max_epochs=2, random_state=0), table()
    return lambda: model.fit(X, y)


def command_line():
    """Run `tggm fit --quick` on a small CSV file, in this process."""
    import tempfile

    from tggm.cli import main

    folder = tempfile.mkdtemp()
    X, y = table()
    np.savetxt(f"{folder}/t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
    options = ["--quick", "--epochs", "2", "--quiet", "-o", f"{folder}/m.tggm"]

    def call():
        with contextlib.suppress(SystemExit):
            main(["fit", f"{folder}/t.csv", "--target", "y", *options])

    return call


WALKS = {"regressor": regressor, "command_line": command_line}


def walk(name):
    """Return pairs (file, function) in the order of their first calls; files are relative to the package."""
    call, prefix, visits = WALKS[name](), f"{PACKAGE}/", {}

    def record_call(frame, event, _):
        code = frame.f_code
        if code.co_filename.startswith(prefix) and code.co_flags & inspect.CO_OPTIMIZED:  # a function's code
            visit = (code.co_filename.removeprefix(prefix), code.co_qualname)
            if visit not in visits and not is_import(frame, prefix):
                visits[visit] = None

    sys.settrace(record_call)  # returns nothing: no lines are traced
    try:
        call()
    finally:
        sys.settrace(None)
    return list(visits)


def is_import(frame, prefix):
    """Return whether this frame runs while a module of the package is imported."""
    while frame := frame.f_back:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(prefix):
            return True
    return False


def page(name, visits):
    """Return the text about a walk: its files, with the number of functions entered in each."""
    files = [file for file, _ in visits]
    changes = sum(one != other for one, other in pairwise(files))
    each = list(dict.fromkeys(files))
    lines = [f"{k:4d}  {file}  ({files.count(file)})" for k, file in enumerate(each, 1)]
    head = f"{name}: {len(each)} files, {len(visits)} functions, {changes} changes"
    return "\n".join([head, *lines])


if __name__ == "__main__":
    os.environ["TGGM_COMPILATION_CACHE"] = "off"
    for name in sys.argv[1:] or WALKS:
        with get_context("spawn").Pool(1) as pool:
            print(page(name, pool.apply(walk, (name,))))
