"""A fit that can go on after its process ended: its state in a file, replaced every few seconds.

The new file is complete on the disk before it takes the name; the one before stays beside it as
``<name>.previous`` and is gone back to if the new one turns out to be damaged. A checkpoint names the fit it
belongs to by a digest of settings, starting point and data, and is never mixed with another.

A disk that is full, or a folder that cannot be written to, is said once and does not end the fit.
"""

import contextlib
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping
from glob import escape
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tggm.learning.loop import State
from tggm.learning.processes import from_first, is_first, shared
from tggm.learning.training import Checkpoint
from tggm.storage.container import ModelFileError, decode, encode
from tggm.storage.files import read_regular, write_atomically

SECONDS = 5.0  # between two writes at least
_KIND = "checkpoint"


class CheckpointError(ValueError):
    """There is a checkpoint that this fit can neither go on from nor replace."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or was damaged; the fit goes on."""


def identity(settings: Mapping[str, Any], arrays: Any) -> str:
    """A digest of what a fit is: its settings and a pytree of all arrays it begins with."""
    words = json.dumps(settings, sort_keys=True, default=lambda value: type(value).__qualname__)
    digest = hashlib.sha256(words.encode())
    for leaf in map(np.asarray, jax.tree.leaves(arrays)):
        digest.update(f"{leaf.dtype}{leaf.shape}".encode())
        digest.update(np.ascontiguousarray(leaf).data)
    return digest.hexdigest()


def _warn(text: str) -> None:
    warnings.warn(text, CheckpointWarning, stacklevel=2)


class Checkpoints:
    """Writes and reads the checkpoint of one fit.

    Parameters
    ----------
    path : str or path
        The file; ``<path>.previous`` is its predecessor.
    fit : str
        Which fit it belongs to, see `identity`.
    template : State
        A state of the same structure, as the fit begins with.
    note : callable, optional
        Told what goes wrong; a `CheckpointWarning` by default.
    """

    def __init__(self, path: Any, fit: str, template: State, note: Callable[[str], None] = _warn) -> None:
        self._path, self._previous = Path(path), Path(f"{path}.previous")
        self._fit, self._template, self._note = fit, template, note
        self._written = time.monotonic()
        self._complained = False
        self._last: Checkpoint | None = None

    def keep(self, checkpoint: Checkpoint) -> None:
        """Remember a checkpoint; write it unless one was written just now."""
        self._last = checkpoint
        if time.monotonic() - self._written >= SECONDS:
            self.write()

    def write(self, *, finished: bool = False) -> None:
        """Write the last checkpoint; that of a `finished` fit may be replaced by any other fit's."""
        if self._last is None or not is_first():
            return
        try:
            content = self._encoded(self._last, finished)
            write_atomically(self._path, content, previous=self._previous)
        except (OSError, TypeError) as error:
            self._complain(f"no checkpoint could be written to {self._path} ({_reason(error)})")
        self._written = time.monotonic()

    def _encoded(self, checkpoint: Checkpoint, finished: bool) -> bytes:
        leaves = jax.tree.leaves(checkpoint.state)
        arrays = {f"state.{k:03d}": np.asarray(leaf) for k, leaf in enumerate(leaves)}
        arrays |= {"train": checkpoint.train, "held": checkpoint.held}
        return encode(arrays, {"class": _KIND, "fit": self._fit, "finished": finished})

    def _complain(self, text: str) -> None:
        if not self._complained:
            self._note(f"{text}; the fit goes on without")
        self._complained = True

    def read(self) -> Checkpoint | None:
        """The newest checkpoint of this fit that is whole, or None if there is none.

        Raises
        ------
        CheckpointError
            If there is one of another fit that did not end, or nothing there can be read.
        """
        if not shared():
            return self._read()

        def read() -> bytes:
            found = self._read()
            return b"" if found is None else self._encoded(found, finished=False)

        content = from_first(read)
        return self._checkpoint(self._path, decode(content)[0]) if content else None

    def _read(self) -> Checkpoint | None:
        self._tidy()
        complaints = []
        for path in (self._path, self._previous):
            try:
                arrays, header = self._decoded(path)
            except FileNotFoundError:
                continue
            except (OSError, ModelFileError) as error:
                complaints.append(f"{path} is no usable checkpoint ({_reason(error)})")
                continue
            if header.get("fit") != self._fit:
                _require_finished(path, header)
                return None
            if complaints:
                self._note(f"{complaints[0]}; going on from {path}, the one before")
                self._path.unlink(missing_ok=True)  # or it would become the predecessor of the next
            return self._checkpoint(path, arrays)
        if complaints:
            raise CheckpointError(f"{'; '.join(complaints)}; delete it to begin anew.")
        return None

    def _decoded(self, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, header = decode(read_regular(path))
        if header.get("class") != _KIND:
            raise ModelFileError("it is something else")
        return arrays, header

    def _checkpoint(self, path: Path, arrays: Mapping[str, np.ndarray]) -> Checkpoint:
        old, tree = jax.tree.flatten(self._template)
        new = [arrays.get(f"state.{k:03d}") for k in range(len(old))]
        shapes = [(np.shape(a), np.asarray(a).dtype) for a in old]
        if [None if a is None else (a.shape, a.dtype) for a in new] != shapes or "train" not in arrays:
            raise CheckpointError(f"{path} is of another version of tggm; delete it to begin anew.")
        return Checkpoint(jax.tree.unflatten(tree, new), arrays["train"], arrays["held"])

    def _tidy(self) -> None:
        """Remove what a process that was killed while writing left behind."""
        with contextlib.suppress(OSError):
            target = self._path.resolve()
            for left in target.parent.glob(f".{escape(target.name)}.*.tmp"):
                left.unlink(missing_ok=True)


def remove_checkpoints(path: Any) -> None:
    """Delete a checkpoint and its predecessor."""
    for name in (path, f"{path}.previous"):
        Path(name).unlink(missing_ok=True)


def _require_finished(path: Path, header: Mapping[str, Any]) -> None:
    if not header.get("finished"):
        raise CheckpointError(
            f"{path} is the checkpoint of an unfinished fit with other data or settings; repeat that fit as "
            "it was to go on with it, or delete the file to begin anew."
        )


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
