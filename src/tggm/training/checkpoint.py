"""Checkpoints: the state of a fit in a file, replaced every few seconds, to resume after a crash.

Writes are atomic. A checkpoint is identified by a digest of settings, starting point and data, and is never
used for another fit. Write errors are reported once; training continues.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from glob import escape
from numbers import Real
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tggm.storage import ModelFileError, decode, encode, require_replaceable, write_atomically
from tggm.training.loop import State

SECONDS = 5.0  # least time between two writes
_KIND = "checkpoint"


class CheckpointError(ValueError):
    """There is a checkpoint that this fit can neither resume nor replace."""


@dataclass(frozen=True)
class Checkpoint:
    """All that `train` needs to resume, as NumPy arrays."""

    state: State
    train: NDArray[np.floating]  # (members, blocks so far)
    held: NDArray[np.floating]


def identity(settings: Mapping[str, Any], arrays: Any) -> str:
    """Return a digest of the settings of a fit and of a pytree of all arrays that it starts from."""

    def word(value: Any) -> Any:
        return float(value) if isinstance(value, Real) else type(value).__qualname__

    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=word).encode())
    for leaf in map(np.asarray, jax.tree.leaves(arrays)):
        digest.update(f"{leaf.dtype}{leaf.shape}".encode())
        digest.update(np.ascontiguousarray(leaf).data)
    return digest.hexdigest()


class CheckpointFile:
    """The checkpoint file of the fit with the identity `fit`.

    `template` is the state at the start of the fit; `note` is called with a message if the file cannot be
    written. A symbolic link is followed.
    """

    def __init__(self, path: Any, fit: str, template: State, note: Callable[[str], None]) -> None:
        self._path, self._fit, self._template, self._note = Path(os.path.realpath(path)), fit, template, note
        self._written, self._reported = time.monotonic(), False
        self._last: Checkpoint | None = None

    def keep(self, checkpoint: Checkpoint) -> None:
        """Remember a checkpoint; write it if the last write is `SECONDS` old."""
        self._last = checkpoint
        if time.monotonic() - self._written >= SECONDS:
            self.write()

    def write(self, *, finished: bool = False) -> None:
        """Write the last checkpoint; another fit may replace the file if `finished`."""
        if self._last is None:
            return
        leaves = jax.tree.leaves(self._last.state)
        arrays = {f"state.{k:03d}": np.asarray(leaf) for k, leaf in enumerate(leaves)}
        arrays |= {"train": self._last.train, "held": self._last.held}
        try:
            content = encode(arrays, {"class": _KIND, "fit": self._fit, "finished": finished})
            write_atomically(self._path, content)
        except (OSError, TypeError) as error:
            if not self._reported:
                reason = getattr(error, "strerror", None) or str(error)
                self._note(f"{self._path} could not be written ({reason}); training continues without it")
            self._reported = True
        self._written = time.monotonic()

    def read(self) -> Checkpoint | None:
        """Return the checkpoint of this fit, or None if there is none.

        Raises
        ------
        CheckpointError
            If the file belongs to another unfinished fit, is damaged, or is not a regular file.
        """
        with contextlib.suppress(OSError):  # left by a process that was killed while writing
            for temporary in self._path.parent.glob(f".{escape(self._path.name)}.*.tmp"):
                temporary.unlink(missing_ok=True)
        try:
            require_replaceable(self._path)
            arrays, header = decode(self._path.read_bytes())
            if header.get("class") != _KIND:
                raise ModelFileError("it is not a checkpoint")
        except FileNotFoundError:
            return None
        except (OSError, ModelFileError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CheckpointError(
                f"`checkpoint` {self._path}: {reason}; delete it, or name another."
            ) from None
        if header.get("fit") != self._fit:
            if header.get("finished"):
                return None
            raise CheckpointError(
                f"{self._path} is of an unfinished fit with other data or settings; delete it."
            )
        old, tree = jax.tree.flatten(self._template)
        new = [arrays.get(f"state.{k:03d}") for k in range(len(old))]
        wanted = [(np.shape(a), np.asarray(a).dtype) for a in old]
        if [None if a is None else (a.shape, a.dtype) for a in new] != wanted:
            raise CheckpointError(f"{self._path} is from another version of tggm; delete it to start again.")
        self._last = Checkpoint(jax.tree.unflatten(tree, new), arrays["train"], arrays["held"])
        return self._last
