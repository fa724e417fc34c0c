"""One of two processes that share fits: ``python -m tests.cli.two_processes PROCESS PORT FOLDER [OPTION]``.

`tggm fit --distributed` and what else tests compare, and the same fit again, in which the second process is
killed; two small fits more with --all. With --resume, the fit that was cut goes on.
"""

import itertools
import os
import signal
import sys
from pathlib import Path

import jax
import numpy as np

from tests.training.small_fits import ALL, fitted
from tggm.cli.app import run
from tggm.distributed import use_devices
from tggm.training import checkpoints, training
from tggm.training.parallel.processes import ProcessError, from_first, require_same

FEW = ALL[:1]


def words(folder, output, *more):
    """A command line."""
    given = [str(folder / "data.csv"), "--target", "y", "-o", str(folder / output), "--force"]
    return ["fit", *given, "--hidden", "3", "--members", "1", "--epochs", "60", "--test-size", "0", *more]


def die_after(chunks):
    """Let this process be killed when so many chunks of epochs are done."""
    count, agreed = itertools.count(1), training.agreed

    def dying(decision):
        if next(count) == chunks:
            os.kill(os.getpid(), signal.SIGKILL)
        return agreed(decision)

    training.agreed = dying


def unreadable():
    """What only the first process does, and fails in."""
    raise ValueError("the disk is gone")


def disagreements(process):
    """What this process is told when both do not begin with the same, and when the first fails."""
    for attempt in (lambda: require_same(f"data of {process}"), lambda: from_first(unreadable)):
        try:
            attempt()
            yield "nothing"
        except (ValueError, ProcessError) as error:
            yield f"{type(error).__name__}: {error}"


def main(process, port, place, *more):
    checkpoints.SECONDS = 0.0  # a checkpoint after every chunk
    folder = Path(place)
    joined = ["--distributed", "--coordinator", f"127.0.0.1:{port}", "--processes", "2"]
    joined += ["--process-id", process]
    if "--resume" in more:
        return run(words(folder, "model.tggm", *joined, *more))
    code = run(words(folder, "whole.tggm", *joined))
    if code:
        return code
    np.savez(folder / f"small{process}.npz", **{name: fitted(name) for name in (ALL if more else FEW)})
    if process == "0" and more:  # a fit of its own, of which the other knows nothing
        with use_devices(jax.local_devices()):
            np.savez(folder / "own.npz", **{FEW[0]: fitted(FEW[0])})
    (folder / f"errors{process}").write_text("\n".join(disagreements(process)))
    if process == "1":
        die_after(5)
    return run(words(folder, "model.tggm", "--quiet"))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
