"""Checkpoints: the state of a fit in a file, replaced every few seconds, to resume after a crash.

Writes are atomic; the previous file stays as ``<name>.previous`` and is used if the new one is damaged. A
checkpoint is identified by a digest of settings, starting point and data, and is never used for another fit.
Write errors are reported once; training continues.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from glob import escape
from numbers import Real
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tggm.storage import (
    ModelFileError,
    decode,
    encode,
    open_regular,
    read_model,
    read_regular,
    require_replaceable,
    write_atomically,
)
from tggm.training.loop import State
from tggm.training.progress import Observer

SECONDS = 5.0  # between two writes at least
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
    words = json.dumps(settings, sort_keys=True, default=_word)
    digest = hashlib.sha256(words.encode())
    for leaf in map(np.asarray, jax.tree.leaves(arrays)):
        digest.update(f"{leaf.dtype}{leaf.shape}".encode())
        digest.update(np.ascontiguousarray(leaf).data)
    return digest.hexdigest()


def _word(value: Any) -> Any:
    return float(value) if isinstance(value, Real) else type(value).__qualname__


class CheckpointFile:
    """Writes and reads the checkpoint of one fit.

    Parameters
    ----------
    path : str or path
        The file; ``<path>.previous`` is its predecessor. A link is followed once.
    fit : str
        The fit it belongs to, see `identity`.
    template : State
        The state at the start of the fit.
    observer : Observer
        Gets messages about files that cannot be written or read.
    """

    def __init__(self, path: Any, fit: str, template: State, observer: Observer) -> None:
        self._path, self._previous = _paths(path)
        self._fit, self._template, self._note = fit, template, observer.noted
        self._written = time.monotonic()
        self._reported = False
        self._last: Checkpoint | None = None
        self._stored: tuple[int, bool] | None = None  # epochs in the file, and whether it is finished
        self._damaged = False  # whether the present file must not become the predecessor of the next

    def keep(self, checkpoint: Checkpoint) -> None:
        """Remember a checkpoint; write it if the last write is `SECONDS` old."""
        self._last = checkpoint
        if time.monotonic() - self._written >= SECONDS:
            self.write()

    def write(self, *, finished: bool = False) -> None:
        """Write the last checkpoint; any other fit may replace that of a `finished` fit."""
        if self._last is None:
            return
        now = (self._last.train.shape[1], finished)
        if now == self._stored:
            return
        try:
            if self._belongs_to_another_fit():
                self._report(f"{self._path} now belongs to another fit and is not changed")
            else:
                content = self._encoded(self._last, finished)
                write_atomically(self._path, content, previous=None if self._damaged else self._previous)
                self._stored, self._damaged = now, False
        except (OSError, TypeError) as error:
            self._report(f"no checkpoint could be written to {self._path} ({_reason(error)})")
        self._written = time.monotonic()

    def _belongs_to_another_fit(self) -> bool:
        try:
            with open_regular(self._path) as file:
                header = read_model(file)
        except FileNotFoundError:
            return False
        except ModelFileError:
            return not self._damaged
        ours = header.get("fit") == self._fit or bool(header.get("finished"))
        return header.get("class") != _KIND or not ours

    def _encoded(self, checkpoint: Checkpoint, finished: bool) -> bytes:
        leaves = jax.tree.leaves(checkpoint.state)
        arrays = {f"state.{k:03d}": np.asarray(leaf) for k, leaf in enumerate(leaves)}
        arrays |= {"train": checkpoint.train, "held": checkpoint.held}
        return encode(arrays, {"class": _KIND, "fit": self._fit, "finished": finished})

    def _report(self, text: str) -> None:
        if not self._reported:
            self._note(f"{text}; training continues without checkpoints")
        self._reported = True

    def read(self) -> Checkpoint | None:
        """Return the newest intact checkpoint of this fit, or None if there is none.

        Raises
        ------
        CheckpointError
            If the file belongs to another unfinished fit, cannot be read, or is not a regular file.
        """
        for path in (self._path, self._previous):
            _require_file(path)
        self._remove_temporary_files()
        problems, remedy = [], "delete it to start again"
        for path in (self._path, self._previous):
            try:
                arrays, header = self._decoded(path)
            except FileNotFoundError:
                continue
            except (OSError, ModelFileError) as error:
                problems.append(f"{path} is not a usable checkpoint ({_reason(error)})")
                if isinstance(error, OSError):
                    remedy = "make it readable, or name another file"
                continue
            if header.get("fit") != self._fit:
                _require_finished(path, header)
                return None
            if problems:
                self._note(f"{problems[0]}; resuming from its predecessor {path}")
                self._damaged = True
            self._last = self._checkpoint(path, arrays)
            if path == self._path:
                self._stored = (self._last.train.shape[1], bool(header.get("finished")))
            return self._last
        if problems:
            raise CheckpointError(f"{'; '.join(problems)}; {remedy}.")
        return None

    def _decoded(self, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, header = decode(read_regular(path))
        if header.get("class") != _KIND:
            raise ModelFileError("it is not a checkpoint")
        return arrays, header

    def _checkpoint(self, path: Path, arrays: Mapping[str, np.ndarray]) -> Checkpoint:
        old, tree = jax.tree.flatten(self._template)
        new = [arrays.get(f"state.{k:03d}") for k in range(len(old))]
        wanted = [(np.shape(a), np.asarray(a).dtype) for a in old]
        found = [None if a is None else (a.shape, a.dtype) for a in new]
        if found != wanted or not {"train", "held"} <= set(arrays):
            raise CheckpointError(f"{path} is from another version of tggm; delete it to start again.")
        return Checkpoint(jax.tree.unflatten(tree, new), arrays["train"], arrays["held"])

    def _remove_temporary_files(self) -> None:
        """Remove files that a process left when it was killed while writing."""
        with contextlib.suppress(OSError):
            for left in self._path.parent.glob(f".{escape(self._path.name)}.*.tmp"):
                left.unlink(missing_ok=True)


def _paths(path: Any) -> tuple[Path, Path]:
    """Return the paths of a checkpoint and its predecessor, in one folder."""
    target = os.path.realpath(path)
    return Path(target), Path(f"{target}.previous")


def remove_checkpoints(path: Any) -> None:
    """Delete a checkpoint and its predecessor; raise for anything but a regular file."""
    for place in _paths(path):
        require_replaceable(place)
        place.unlink(missing_ok=True)


def _require_file(path: Path) -> None:
    try:
        require_replaceable(path)
    except OSError as error:
        raise CheckpointError(f"`checkpoint` cannot be stored in {path} ({_reason(error)}).") from None


def _require_finished(path: Path, header: Mapping[str, Any]) -> None:
    if not header.get("finished"):
        raise CheckpointError(
            f"{path} is the checkpoint of an unfinished fit with other data or settings; repeat that fit to "
            "resume it, or delete the file to start again."
        )


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
