"""One fit in several processes, on one machine or many, by JAX's own runtime.

    import tggm.distributed

    tggm.distributed.initialize()  # on a cluster that JAX knows; else with coordinator, processes, process_id
    TGGMRegressor(..., random_state=0, checkpoint="fit.checkpoint").fit(X, y)

Every process runs the same program on the same rows; every mini-batch is cut over the devices of all. Each
ends with the same model. The first one alone writes checkpoints and reports progress. When a process dies the
others end within a minute and say so.
"""

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

import jax

from tggm.training.parallel.crew import use_devices as use_devices
from tggm.training.parallel.processes import Losses, agreed
from tggm.training.parallel.processes import ProcessError as ProcessError
from tggm.training.parallel.processes import is_first as is_first

HEARTBEAT_SECONDS = 30  # without a sign of life, after which a process counts as dead

# Stands by in a process of its own: JAX aborts a process whose mates are lost, before Python could say why.
# What JAX said until then is in the file that is its standard output.
_WITNESS = """
import os, sys
told = sys.stdin.buffer.read()
if not told.endswith(b"done"):
    before, twice, after = sys.argv[1:]
    replaced = b"newer incarnation" in os.pread(1, 10**6, 0)
    sentence = after if told.startswith(b"joined") else twice if replaced else before
    sys.stderr.write("tggm: " + sentence + chr(10))
"""


def initialize(
    coordinator: str | None = None,
    processes: int | None = None,
    process_id: int | None = None,
    *,
    wait_seconds: int = 120,
) -> None:
    """Join the processes of a fit; call it before anything else that uses JAX.

    Parameters
    ----------
    coordinator : str, optional
        ``HOST:PORT`` of the first process, as the others reach it; any free port. Anyone who reaches it could
        join: use it inside a network that you trust.
    processes, process_id : int, optional
        How many processes there are, and which of them this is, from 0.
    wait_seconds : int
        How long to wait for the others to come.

    Raises
    ------
    ValueError
        If `coordinator` is no address with a port, or something is neither given nor detected; JAX detects
        SLURM, Open MPI, Kubernetes jobs and TPUs.
    """
    if coordinator is not None:
        _require_address(coordinator)
    with tempfile.TemporaryFile() as said:
        witness = _witness(coordinator, wait_seconds, said)
        atexit.register(_leave, witness)
        try:
            with _diverted(2, said.fileno()):
                _join(coordinator, processes, process_id, wait_seconds)
        finally:  # not reached where JAX aborts: the witness then has a sentence instead of its trace
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
    _tell(witness, b"joined")
    with _quiet_output():
        agreed(True)  # the first exchange, which connects all


def _join(coordinator: str | None, processes: int | None, process_id: int | None, wait_seconds: int) -> None:
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process_id,
            initialization_timeout=wait_seconds,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=3600,  # the others wait while the first judges and writes
        )
    except ValueError as error:
        raise ValueError(
            f"no processes to join were detected ({error}) Give `coordinator` as HOST:PORT, the number of "
            "`processes`, and the `process_id` of this one, from 0."
        ) from None


def _require_address(coordinator: str) -> None:
    """Raise unless this is HOST:PORT: JAX ends the process for some that are not, and takes others."""
    host, _, port = str(coordinator).rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host.replace(":", " ")
    known = port.isascii() and port.isdigit() and len(port) < 6 and 1 <= int(port) <= 65535
    if not known or not bare or any(sign.isspace() for sign in bare):
        raise ValueError(
            "`coordinator` must be HOST:PORT with a port of 1 to 65535, as 10.0.0.1:12345 or "
            f"[fd00::1]:12345; got {coordinator!r}."
        )


def fail() -> None:
    """Note that this process ends by an error: it then does not wait for the others to end."""
    Losses.any = True


def _witness(coordinator: str | None, wait_seconds: int, said: IO[bytes]) -> "subprocess.Popen[bytes]":
    """A child that prints what went wrong if this process ends without telling it."""
    before = (
        f"the processes of this fit did not find each other within {wait_seconds} s; start all of them, and "
        f"let the coordinator ({coordinator or 'detected'}) be an address and a free port of process 0 that "
        "the others reach."
    )
    twice = (
        "another process has come with the id of this one; give each a `process_id` (--process-id) of its "
        "own, from 0, and start all of them again."
    )
    after = (
        "this process ended before its fit was done: it was killed, or another process died or could not be "
        "reached. Start all of them again; tggm fit --resume, or the same `checkpoint`, goes on from the "
        "last checkpoint."
    )
    words = [sys.executable, "-I", "-S", "-c", _WITNESS, before, twice, after]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=said, start_new_session=True)


def _tell(witness: "subprocess.Popen[bytes]", word: bytes) -> None:
    assert witness.stdin is not None
    with contextlib.suppress(OSError):
        witness.stdin.write(word)
        witness.stdin.flush()


def _leave(witness: "subprocess.Popen[bytes]") -> None:
    """End: with the others, or, after an error, without them, who would be waited for in vain."""
    _tell(witness, b"done")
    with contextlib.suppress(OSError):
        witness.communicate()
    if Losses.any or hasattr(sys, "last_value"):  # an exception that nobody caught
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # closed ones are None
                stream.flush()
        os._exit(2)


@contextlib.contextmanager
def _quiet_output() -> Iterator[None]:
    """Nothing that C++ prints reaches standard output, where results may be read from."""
    if sys.stdout is not None:
        sys.stdout.flush()
    with open(os.devnull, "wb") as nowhere, _diverted(1, nowhere.fileno()):
        yield


@contextlib.contextmanager
def _diverted(stream: int, into: int) -> Iterator[None]:
    """What is written to one file descriptor goes into another."""
    kept = os.dup(stream)
    os.dup2(into, stream)
    try:
        yield
    finally:
        os.dup2(kept, stream)
        os.close(kept)
