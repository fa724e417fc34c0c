"""Which files of the package a call passes through.

    python tools/walk.py                     both walks, each in a fresh process
    python tools/walk.py regressor --json    one walk as JSON: [[file, function], ...]

A walk is the list of functions of `src/tggm` in the order of their first calls. Counted are distinct pairs
(file, qualified name) that the calling thread enters; lambdas, generators and comprehensions count, the code
of modules that are imported on the way does not, nor what it calls, nor bodies of classes. What JAX calls
while it traces a program counts, so every walk begins in a process that has compiled nothing yet and reads
no programs that others kept. A change of file is a pair of neighbours in the list that lie in different
files.

By this definition commit 9eaf392, before the package was built around one type of model, has walks of
30 files, 174 functions and 92 changes (`regressor`), and 53 files and 156 changes (`undirected`).
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


def one_layer():
    from tggm import TGGMRegressor

    model, (X, y) = TGGMRegressor.one_layer(max_epochs=2), table()
    return lambda: model.fit(X, y)


def undirected():
    from tggm import TGGMClassifier

    model = TGGMClassifier.one_layer(hidden=(5, 5), deep="undirected", method="meanfield", max_epochs=2)
    X, y = table()
    return lambda: model.fit(X, y > 0)


def command_line():
    """`tggm fit --quick` on a small CSV file, in this process."""
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


WALKS = {
    "regressor": regressor,
    "one_layer": one_layer,
    "undirected": undirected,
    "command_line": command_line,
}


def traced(call, folder=PACKAGE):
    """Pairs (file, function) in the order of their first calls; files relative to `folder`."""
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
    """Whether a module of the package is being imported, and this frame is part of that."""
    while frame := frame.f_back:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(prefix):
            return True
    return False


def in_a_fresh_process(name):
    """Trace a walk where nothing was compiled before."""
    command = [sys.executable, __file__, name, "--json"]
    env = os.environ | {"TGGM_COMPILATION_CACHE": "off"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return [tuple(visit) for visit in json.loads(done.stdout)]


def files_of(visits):
    """Files in the order of their first visits."""
    return list(dict.fromkeys(file for file, _ in visits))


def counts(visits):
    """Numbers of files, of functions, and of changes of file."""
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
