"""What a fit tells whoever watches it."""

import sys
import warnings
from abc import ABC
from typing import Any


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or was damaged; the fit goes on."""


class Observer(ABC):  # noqa: B024  # every method may be left as it is
    """Is told how a fit gets on; says nothing itself but what must not be missed."""

    def planned(self, epochs: int) -> None:  # noqa: B027
        """Training begins; it takes so many epochs at most."""

    def resumed(self, epochs: int) -> None:  # noqa: B027
        """Training goes on from a checkpoint of so many epochs."""

    def progressed(self, epochs: int, trace: Any) -> None:  # noqa: B027
        """So many epochs are done; the `Trace` of the last ones, (members, epochs) each."""

    def noted(self, text: str) -> None:
        """Something went wrong with a checkpoint; the fit goes on."""
        warnings.warn(text, CheckpointWarning, stacklevel=2)


class Printer(Observer):
    """Prints a line whenever twice as many epochs are done, and at the end: what ``verbose=True`` shows.

    `held` says whether rows are held out.
    """

    def __init__(self, held: bool) -> None:
        self._epochs, self._held, self._next = 0, held, 1

    def planned(self, epochs: int) -> None:
        """Remember how many there are."""
        self._epochs = epochs

    def resumed(self, epochs: int) -> None:
        """Say so."""
        sys.stdout.write(f"going on after epoch {epochs}\n")

    def progressed(self, epochs: int, trace: Any) -> None:
        """Mean objective, and mean held-out score where rows are held out."""
        if epochs < self._next and epochs < self._epochs:
            return
        self._next = 2 * epochs
        line = f"epoch {epochs}/{self._epochs}  objective {trace.train[:, -1].mean():.4f}"
        sys.stdout.write(line + (f"  held out {trace.held[:, -1].mean():.4f}\n" if self._held else "\n"))
