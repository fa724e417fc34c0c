"""What the processes of one fit agree on (`jax.distributed`); with one process nothing here does anything.

Every process reads the same rows and computes the same steps on its share of them. What depends on a clock or
on a disk is decided by the first process, which alone writes.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

_TROUBLE = re.compile(r"gloo|nccl|heartbeat|coordination|peer|unavailable|deadline", re.IGNORECASE)
_ERROR, _RESULT = b"!", b" "


class ProcessError(RuntimeError):
    """Another process of the fit ended, cannot be reached, or does something else."""


class Losses:
    """Whether a process was lost, or this one failed; then there is nobody to wait for at the end."""

    any = False


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return jax.process_index() == 0


@contextmanager
def together() -> Iterator[None]:
    """Computation that all processes take part in: what goes wrong with another is said in a sentence."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # XLA raises both
        if jax.process_count() == 1 or not _TROUBLE.search(str(error)):
            raise
        Losses.any = True
        raise ProcessError(
            f"another process of this fit ended or cannot be reached ({_shortened(error)}). Start all of "
            "them again: with `checkpoint`, or tggm fit --resume, the fit goes on from the last checkpoint."
        ) from None


def _shortened(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:200] + "..."


def _broadcast(values: Any) -> Any:
    from jax.experimental import multihost_utils

    with together():
        return np.asarray(multihost_utils.broadcast_one_to_all(values))


def agreed(decision: bool) -> bool:
    """The first process's decision."""
    return decision if jax.process_count() == 1 else bool(_broadcast(np.asarray([decision], np.int32))[0])


def from_first(call: Callable[[], bytes]) -> bytes:
    """What a call gives in the first process, which alone makes it; an error there is one everywhere."""
    if jax.process_count() == 1:
        return call()
    content, error = b"", None
    if is_first():
        try:
            content = _RESULT + call()
        except Exception as caught:
            content, error = _ERROR + str(caught).encode(), caught
    size = int(_broadcast(np.asarray([len(content)], np.int32))[0])
    own = np.frombuffer(content or bytes(size), np.uint8)
    content = bytes(_broadcast(own).astype(np.uint8))
    if error is not None:
        raise error
    if content[:1] == _ERROR:
        raise ProcessError(f"the first process of this fit says: {content[1:].decode()}")
    return content[1:]


def require_same(digest: str) -> None:
    """Raise unless all processes have the digest of the first."""
    if jax.process_count() > 1 and from_first(digest.encode) != digest.encode():
        raise ProcessError(
            f"process {jax.process_index()} begins with other data, settings or random numbers than process "
            "0; give all of them the same, and a number for `random_state`."
        )
