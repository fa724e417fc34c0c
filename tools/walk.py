"""List the files of the package that a call passes through.

    python tools/walk.py                     both walks, each in a fresh process
    python tools/walk.py regressor --json    one walk as JSON: [[file, function], ...]

A walk is the list of functions of `src/tggm` in the order of their first calls. It counts distinct pairs
(file, qualified name) that the calling thread enters, with lambdas, generators and comprehensions, and with
functions that JAX calls while it traces a program. It does not count code that runs while a module is
imported, or bodies of classes. Every walk starts in a process that has compiled nothing, without a cache of
compiled programs. A change of file is a pair of neighbours in the list that are in different files.
"""

import argparse
import contextlib
import inspect
import json
import os
import subprocess
import sys
from itertools import pairwise
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

    model, (X, y) = TGGMRegressor(max_epochs=2), table()
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


def traced(call, folder=PACKAGE):
    """Return pairs (file, function) in the order of their first calls; files are relative to `folder`."""
    prefix, visits = f"{folder}/", {}

    def entered(frame, event, _):
        code = frame.f_code
        if code.co_filename.startswith(prefix) and code.co_flags & inspect.CO_OPTIMIZED:  # a function's code
            visit = (code.co_filename.removeprefix(prefix), code.co_qualname)
            if visit not in visits and not imported(frame, prefix):
                visits[visit] = None

    before = sys.gettrace()
    sys.settrace(entered)  # returns nothing: no lines are traced
    try:
        call()
    finally:
        sys.settrace(before)
    return list(visits)


def imported(frame, prefix):
    """Return whether this frame runs while a module of the package is imported."""
    while frame := frame.f_back:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(prefix):
            return True
    return False


def in_a_fresh_process(name):
    """Return a walk, traced in a process that has compiled nothing."""
    command = [sys.executable, __file__, name, "--json"]
    env = os.environ | {"TGGM_COMPILATION_CACHE": "off"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return [tuple(visit) for visit in json.loads(done.stdout)]


def files_of(visits):
    """Return files in the order of their first visits."""
    return list(dict.fromkeys(file for file, _ in visits))


def counts(visits):
    """Return the numbers of files, of functions and of changes of file."""
    changes = sum(one != other for (one, _), (other, _) in pairwise(visits))
    return {"files": len(files_of(visits)), "functions": len(visits), "changes": changes}


def page(name, visits):
    """Return the text about a walk: its files, with the number of functions entered in each."""
    files = [file for file, _ in visits]
    total = ", ".join(f"{number} {what}" for what, number in counts(visits).items())
    lines = [f"{k:4d}  {file}  ({files.count(file)})" for k, file in enumerate(files_of(visits), 1)]
    return "\n".join([f"{name}: {total}", *lines])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("walk", nargs="?", choices=WALKS)
    parser.add_argument("--json", action="store_true", help="print the functions of one walk, traced here")
    options = parser.parse_args()
    if options.json:
        if options.walk is None:
            parser.error("--json needs the name of a walk")
        print(json.dumps(traced(WALKS[options.walk]())))
        return
    for name in [options.walk] if options.walk else WALKS:
        print(page(name, in_a_fresh_process(name)))


if __name__ == "__main__":
    main()
