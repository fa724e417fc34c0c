"""A fit that can go on after its process ended: its state beside the model, replaced every few seconds."""

import hashlib
import time
from pathlib import Path
from typing import Any

import numpy as np

from tggm.cli.errors import CommandError
from tggm.cli.files import say
from tggm.storage.container import ModelFileError, decode, encode
from tggm.storage.files import read_regular, write_atomically

_SECONDS = 5.0  # between two writes at least
_KIND = "checkpoint"


class Checkpoints:
    """Writes and reads the checkpoint of one fit.

    Parameters
    ----------
    path : str
        The file.
    settings : dict
        Settings of the estimator, as JSON holds them.
    X, y : array
        What it is fitted to; a checkpoint of other data or settings is refused.
    """

    def __init__(self, path: str, settings: dict[str, Any], X: np.ndarray, y: np.ndarray) -> None:
        digest = hashlib.sha256(np.ascontiguousarray(X).tobytes() + "\n".join(map(str, y)).encode())
        self._path = Path(path)
        self._identity = {"settings": settings, "data": digest.hexdigest()}
        self._written = time.monotonic()
        self._works = True
        self._last: Any = None

    def keep(self, checkpoint: Any) -> None:
        """Write a checkpoint, unless one was written just now; a full disk does not end the fit."""
        self._last = checkpoint
        if time.monotonic() - self._written >= _SECONDS:
            self.write()

    def write(self) -> None:
        """Write the last checkpoint."""
        if self._last is None or not self._works:
            return
        checkpoint, self._last = self._last, None
        state = checkpoint.state._asdict()
        optimiser = state.pop("optimiser")
        arrays = {f"state.{name}": np.asarray(value) for name, value in state.items()}
        arrays |= {f"optimiser.{k}": np.asarray(value) for k, value in enumerate(optimiser)}
        arrays |= {"train": checkpoint.train, "held": checkpoint.held}
        try:
            write_atomically(self._path, encode(arrays, {"class": _KIND, **self._identity}))
        except OSError as error:
            say(f"note: no checkpoint could be written ({error.strerror}); the fit goes on without")
            self._works = False
        self._written = time.monotonic()

    def read(self) -> Any:
        """The stored checkpoint, or None if there is none."""
        from tggm.learning.loop import State
        from tggm.learning.training import Checkpoint

        if not self._path.exists():
            return None
        try:
            arrays, description = decode(read_regular(self._path))
            if description.get("class") != _KIND:
                raise ModelFileError("it is no checkpoint")
            if {key: description.get(key) for key in self._identity} != self._identity:
                raise CommandError(
                    f"{self._path} is of a fit with other data or settings; repeat the command as it was "
                    "given first, or leave --resume out to begin anew."
                )
            optimiser = tuple(arrays[key] for key in sorted(a for a in arrays if a.startswith("optimiser.")))
            rest = {name: arrays[f"state.{name}"] for name in State._fields if name != "optimiser"}
            return Checkpoint(State(optimiser=optimiser, **rest), arrays["train"], arrays["held"])  # type: ignore[arg-type]  # NumPy
        except (ModelFileError, KeyError) as error:
            raise CommandError(
                f"{self._path} is not a usable checkpoint ({error}); delete it to begin anew."
            ) from None

    def remove(self) -> None:
        """Delete the checkpoint of a fit that came to its end."""
        self._path.unlink(missing_ok=True)
