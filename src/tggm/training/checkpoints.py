"""A fit that can go on after its process ended: its state in a file, replaced every few seconds.

The new file is complete on the disk before it takes the name; the one before stays beside it as
``<name>.previous`` and is gone back to if the new one turns out to be damaged. A checkpoint names the fit it
belongs to by a digest of settings, starting point and data, and is never mixed with another; where another
fit's has appeared since the start it stays there.

A disk that is full, or a folder that cannot be written to, is said once and does not end the fit.
"""

import contextlib
import os
import time
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Any

import jax
import numpy as np

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
from tggm.training.observer import CheckpointWarning as CheckpointWarning
from tggm.training.observer import Observer
from tggm.training.parallel.processes import from_first, is_first, shared
from tggm.training.state import State
from tggm.training.training import Checkpoint

SECONDS = 5.0  # between two writes at least
_KIND = "checkpoint"
_NOBODY = Observer()


class CheckpointError(ValueError):
    """There is a checkpoint that this fit can neither go on from nor replace."""


class Checkpoints:
    """Writes and reads the checkpoint of one fit.

    Parameters
    ----------
    path : str or path
        The file; ``<path>.previous`` is its predecessor. A link is followed once: both lie where it leads.
    fit : str
        Which fit it belongs to, see `identity`.
    template : State
        A state of the same structure, as the fit begins with.
    observer : Observer, optional
        Told what goes wrong; a `CheckpointWarning` by default.
    """

    def __init__(self, path: Any, fit: str, template: State, observer: Observer = _NOBODY) -> None:
        self._path, self._previous = _places(path)
        self._fit, self._template, self._note = fit, template, observer.noted
        self._written = time.monotonic()
        self._complained = False
        self._last: Checkpoint | None = None
        self._stored: tuple[int, bool] | None = None  # epochs in the file, and whether it says finished
        self._damaged = False  # whether what is there must not become the predecessor of the next

    def keep(self, checkpoint: Checkpoint) -> None:
        """Remember a checkpoint; write it unless one was written just now."""
        self._last = checkpoint
        if time.monotonic() - self._written >= SECONDS:
            self.write()

    def write(self, *, finished: bool = False) -> None:
        """Write the last checkpoint; that of a `finished` fit may be replaced by any other fit's."""
        if self._last is None or not is_first():
            return
        now = (self._last.train.shape[1], finished)
        if now == self._stored:
            return
        try:
            if self._is_of_another():
                self._complain(f"{self._path} is by now the file of another fit, and is left to it")
            else:
                content = self._encoded(self._last, finished)
                write_atomically(self._path, content, previous=None if self._damaged else self._previous)
                self._stored, self._damaged = now, False
        except (OSError, TypeError) as error:
            self._complain(f"no checkpoint could be written to {self._path} ({_reason(error)})")
        self._written = time.monotonic()

    def _is_of_another(self) -> bool:
        """Whether what is there now may be wanted by somebody else: another fit may have begun meanwhile."""
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

    def _complain(self, text: str) -> None:
        if not self._complained:
            self._note(f"{text}; the fit goes on without")
        self._complained = True

    def read(self) -> Checkpoint | None:
        """The newest checkpoint of this fit that is whole, or None if there is none.

        Raises
        ------
        CheckpointError
            If there is one of another fit that did not end, nothing there can be read, or it is no file.
        """
        self._last = self._read() if not shared() else self._from_first()
        return self._last

    def _from_first(self) -> Checkpoint | None:
        def read() -> bytes:
            found = self._read()
            return b"" if found is None else self._encoded(found, finished=False)

        content = from_first(read)
        return self._checkpoint(self._path, decode(content)[0]) if content else None

    def _read(self) -> Checkpoint | None:
        for path in (self._path, self._previous):
            _require_file(path)
        self._tidy()
        complaints, remedy = [], "delete it to begin anew"
        for path in (self._path, self._previous):
            try:
                arrays, header = self._decoded(path)
            except FileNotFoundError:
                continue
            except (OSError, ModelFileError) as error:
                complaints.append(f"{path} is no usable checkpoint ({_reason(error)})")
                if isinstance(error, OSError):
                    remedy = "make it readable, or name another file"
                continue
            if header.get("fit") != self._fit:
                _require_finished(path, header)
                return None
            if complaints:
                self._note(f"{complaints[0]}; going on from {path}, the one before")
                self._damaged = True
            found = self._checkpoint(path, arrays)
            if path == self._path:
                self._stored = (found.train.shape[1], bool(header.get("finished")))
            return found
        if complaints:
            raise CheckpointError(f"{'; '.join(complaints)}; {remedy}.")
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
        if [None if a is None else (a.shape, a.dtype) for a in new] != shapes or not {"train", "held"} <= set(
            arrays
        ):
            raise CheckpointError(f"{path} is of another version of tggm; delete it to begin anew.")
        return Checkpoint(jax.tree.unflatten(tree, new), arrays["train"], arrays["held"])

    def _tidy(self) -> None:
        """Remove what a process that was killed while writing left behind."""
        with contextlib.suppress(OSError):
            for left in self._path.parent.glob(f".{escape(self._path.name)}.*.tmp"):
                left.unlink(missing_ok=True)


def _places(path: Any) -> tuple[Path, Path]:
    """Where a checkpoint and its predecessor lie, in one folder: a link may lead to another disk."""
    target = os.path.realpath(path)
    return Path(target), Path(f"{target}.previous")


def remove_checkpoints(path: Any) -> None:
    """Delete a checkpoint and its predecessor; what is no regular file stays, and is an error."""
    for place in _places(path):
        require_replaceable(place)
        place.unlink(missing_ok=True)


def _require_file(path: Path) -> None:
    """Nobody is told to delete a folder or a device."""
    try:
        require_replaceable(path)
    except OSError as error:
        raise CheckpointError(f"`checkpoint` cannot be kept in {path} ({_reason(error)}).") from None


def _require_finished(path: Path, header: Mapping[str, Any]) -> None:
    if not header.get("finished"):
        raise CheckpointError(
            f"{path} is the checkpoint of an unfinished fit with other data or settings; repeat that fit as "
            "it was to go on with it, or delete the file to begin anew."
        )


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
