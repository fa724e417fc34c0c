"""What the processes of one fit agree on (`jax.distributed`); one process by itself has nothing to agree on.

Every process reads the same rows and computes the same steps on its share of them. What depends on a clock or
on a disk is decided by the first process, which alone writes. A process forked from one that has used JAX has
none of its threads, and nothing it computes would ever end: it is refused.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import jax
import numpy as np

_TROUBLE = re.compile(r"gloo|nccl|heartbeat|coordination|peer|unavailable|deadline", re.IGNORECASE)
_ERROR, _RESULT = b"!", b" "
_CHOSEN: ContextVar[tuple[jax.Device, ...] | None] = ContextVar("tggm_devices", default=None)


class ProcessError(RuntimeError):
    """Another process of the fit ended, cannot be reached, or does something else."""


class Losses:
    """Whether a process was lost, or this one failed; then there is nobody to wait for at the end."""

    any = False


@contextmanager
def use_devices(devices: Sequence[jax.Device]) -> Iterator[None]:
    """Fits inside the block train on these devices, even if mini-batches are small.

    Without it one process uses all devices that JAX finds if a mini-batch has 2048 rows for each of them,
    counted over the members, and the first device otherwise. Several processes share a fit on the devices of
    all processes; with ``jax.local_devices()`` each process makes a fit of its own.

    Parameters
    ----------
    devices : sequence of jax.Device
        As ``jax.devices()`` lists them; the same list in every process that shares a fit.
    """
    if not devices or not all(isinstance(device, jax.Device) for device in devices):
        raise ValueError(f"`devices` must be a list of JAX devices, as jax.devices(); got {devices!r}.")
    token = _CHOSEN.set(tuple(devices))
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def chosen() -> tuple[jax.Device, ...] | None:
    """The devices that `use_devices` names, if it does."""
    return _CHOSEN.get()


def shared() -> bool:
    """Whether fits are shared by several processes."""
    devices = chosen()
    own = devices is not None and {device.process_index for device in devices} == {jax.process_index()}
    return jax.process_count() > 1 and not own


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return jax.process_index() == 0 or not shared()


@contextmanager
def together() -> Iterator[None]:
    """Computation that all processes take part in: what goes wrong with another is said in a sentence."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # XLA raises both
        if not shared() or not _TROUBLE.search(str(error)):
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
    return decision if not shared() else bool(_broadcast(np.asarray([decision], np.int32))[0])


def from_first(call: Callable[[], bytes]) -> bytes:
    """What a call gives in the first process, which alone makes it; an error there is one everywhere."""
    if not shared():
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
    if shared() and from_first(digest.encode) != digest.encode():
        raise ProcessError(
            f"process {jax.process_index()} begins with other data, settings or random numbers than process "
            "0; give all of them the same, and a number for `random_state`."
        )


@cache
def _forks() -> list[int]:
    """Empty in this process, and not in those forked from it from now on."""
    found: list[int] = []
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: found.append(os.getppid()))
    return found


def require_unforked() -> None:
    """Raise where a fit or prediction would wait for ever; called before every one."""
    if _forks():
        raise RuntimeError(
            f"this process was forked from one ({_forks()[-1]}) that had used tggm already, and JAX cannot "
            "go on in it. Spawn processes, by multiprocessing.get_context('spawn') or joblib, or fork "
            "before the first fit or prediction."
        )
