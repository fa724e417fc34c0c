"""Kill fits with SIGKILL at random moments, and see that they end as if nothing had happened.

    python tools/kill_and_resume.py --kills 60 --output benchmarks/results/kill_and_resume.json

Each fit runs in a process of its own and writes a checkpoint after every chunk of epochs. Half of the kills
come from outside at a random time; the others strike inside the write, at one of its steps: half of the
bytes written, before the file is synchronised, between the two renames, after the last. A fit is killed a few
times, always started again, and then let through.

A loss is a fit whose parameters differ in any bit from those of a fit that was never killed, a start that
goes on from an earlier epoch than the last checkpoint that was written in full, or a process that ends
otherwise.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from tggm import TGGMClassifier, TGGMRegressor
from tggm.storage import files
from tggm.training import checkpoints
from tggm.training.compilation_cache import use_compilation_cache
from tggm.training.observer import Observer

STEPS = ("half", "sync", "between", "after")
KILLS_A_FIT = 6
EPOCHS = int(os.environ.get("EPOCHS", 2500))  # fewer in the tests


def model_of(number, path):
    """One of a few kinds of estimators, and its data."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(1500, 6))
    y = np.sin(X[:, 0]) + 0.3 * np.abs(X[:, 1]) * rng.normal(size=len(X))
    common = {"random_state": number, "max_epochs": EPOCHS, "checkpoint": path}
    kinds = [
        lambda: TGGMRegressor(hidden=12, n_members=2, patience=None, **common),
        lambda: TGGMClassifier(hidden=12, **common),
        lambda: TGGMRegressor(hidden=12, n_members=1, early_stopping=False, optimizer="rmsprop", **common),
    ]
    kind = number % len(kinds)
    return kinds[kind](), X, (y > 0) if kind == 1 else y


def parameters(model):
    return model.fitted_.model.arrays() | model.history_


class Log(Observer):
    """Writes down from which epoch a fit goes on."""

    def __init__(self, log):
        self.log = log

    def resumed(self, epochs):
        """Add a line."""
        os.write(self.log, f"resumed {epochs}\n".encode())


def fit(number, folder, strike):
    """What a child does: go on with the fit, log what was written and from where it went on, and save."""
    checkpoints.SECONDS = 0.0
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write = checkpoints.Checkpoints.write

    def logged(self, *, finished=False):
        epochs = self._last.train.shape[1] if self._last is not None else 0
        write(self, finished=finished)
        os.write(log, f"wrote {epochs}\n".encode())

    checkpoints.Checkpoints.write = logged
    if strike is not None:
        strike_at(*strike)
    model, X, y = model_of(number, folder / "fit.checkpoint")
    model.fit(X, y, observer=Log(log))
    np.savez(folder / "result.npz", **parameters(model))


def strike_at(step, count):
    """Make the process kill itself at a step of its `count`-th write of a file."""
    sync, replace, left = os.fsync, os.replace, [count]

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def fsync(handle):
        regular = os.path.isfile(f"/proc/self/fd/{handle}")
        left[0] -= regular
        if regular and left[0] == 0 and step in ("half", "sync"):
            if step == "half":
                os.ftruncate(handle, os.fstat(handle).st_size // 2)
            die()
        sync(handle)

    def rename(source, target):
        replace(source, target)
        last = not str(target).endswith(".previous")
        if left[0] <= 0 and step == ("after" if last else "between"):
            die()

    files.os = type(sys)("os")
    files.os.__dict__.update(os.__dict__, fsync=fsync, replace=rename)


def start(number, folder, strike=None):
    """Fork: what takes long, the imports, is done already, and JAX's threads do not run yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        code = 1
        try:
            use_compilation_cache(folder.parent / "programs")
            fit(number, folder, strike)
            code = 0
        finally:
            os._exit(code)
    return child


def killed(number, folder, seconds, rng):
    """One attempt that is meant to be killed: how it ended and at which step."""
    if rng.random() < 0.5:
        step = rng.choice(STEPS)
        child = start(number, folder, (step, rng.randint(1, 4)))
    else:
        step = "any"
        child = start(number, folder)
        time.sleep(rng.uniform(0.0, seconds / 2))
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), step


def told(folder):
    """Written and resumed epochs in the order in which they happened."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(word, int(epochs)) for word, epochs in map(str.split, lines)]


def goes_on(events):
    """Whether every start went on from the last checkpoint that was written in full, or a later one."""
    written = 0
    for _, epochs in events:
        if epochs < written:  # also of a start that found nothing to go on from
            return False
        written = epochs
    return True


def run(kills, seed):
    rng, counts = random.Random(seed), dict.fromkeys(("any", *STEPS), 0)
    fits = losses = resumed = 0
    with tempfile.TemporaryDirectory() as place:
        while sum(counts.values()) < kills:
            folder, witness = (Path(place, f"{fits}-{name}") for name in ("killed", "whole"))
            folder.mkdir()
            witness.mkdir()
            begin = time.monotonic()
            fine = os.waitpid(start(fits, witness), 0)[1] == 0
            seconds = time.monotonic() - begin
            for _ in range(min(KILLS_A_FIT, kills - sum(counts.values()))):
                code, step = killed(fits, folder, seconds, rng)
                counts[step] += code == -signal.SIGKILL
                fine &= code in (-signal.SIGKILL, 0)
                if code != -signal.SIGKILL:
                    break
            fine &= os.waitpid(start(fits, folder), 0)[1] == 0 and goes_on(told(folder))
            resumed += sum(word == "resumed" for word, _ in told(folder))
            fine = fine and same(folder / "result.npz", witness / "result.npz")
            losses += not fine
            fits += 1
            print(f"{fits} fits, {sum(counts.values())} kills, {losses} losses", flush=True)
    return {
        "kills": sum(counts.values()),
        "by_step": counts,
        "fits": fits,
        "resumed": resumed,
        "losses": losses,
    }


def same(one, other):
    a, b = np.load(one), np.load(other)
    return set(a) == set(b) and all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    figures = run(options.kills, options.seed)
    text = json.dumps(figures, indent=1) + "\n"
    print(text, end="")
    if options.output is not None:
        options.output.write_text(text)
    return 1 if figures["losses"] else 0


if __name__ == "__main__":
    sys.exit(main())
