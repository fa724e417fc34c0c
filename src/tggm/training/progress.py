"""Progress of a fit, reported to an observer."""

import sys
import warnings
from abc import ABC
from threading import Timer
from typing import Any
from weakref import ref

SILENCE = 10.0  # seconds without an epoch after which a message explains why


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or was damaged; training continues."""


class Observer(ABC):  # noqa: B024  # every method may be left as it is
    """Gets reports about the progress of a fit. By default it only issues warnings."""

    def planned(self, epochs: int) -> None:  # noqa: B027
        """Training begins; it takes at most so many epochs."""

    def resumed(self, epochs: int) -> None:  # noqa: B027
        """Training resumes from a checkpoint after so many epochs."""

    def progressed(self, epochs: int, trace: Any) -> None:  # noqa: B027
        """So many epochs are done; `trace` has those of the last chunk, (members, epochs) each."""

    def room(self, epochs: int) -> int:
        """Return the number of epochs until `examined` should be called, after so many epochs."""
        return sys.maxsize

    def examined(self, epochs: int, best: Any) -> None:  # noqa: B027
        """So many epochs are done; `best` are the best parameters so far, as a matrix."""

    def ended(self) -> None:  # noqa: B027
        """Training has ended without an error."""

    def noted(self, text: str) -> None:
        """Report a problem with a checkpoint; training continues."""
        warnings.warn(text, CheckpointWarning, stacklevel=2)


class Printer(Observer):
    """Prints progress: one line that is updated on a terminal; elsewhere a line whenever epochs double.

    `held` is whether rows are held out.
    """

    def __init__(self, held: bool) -> None:
        self._epochs, self._held, self._next, self._line = 0, held, 1, ""
        self._live = sys.stdout.isatty()
        self._timer: Timer | None = None

    def planned(self, epochs: int) -> None:
        """Remember the number of epochs, and start the timer of the first."""
        self._epochs = epochs
        self._stop_timer()
        self._timer = Timer(SILENCE, _announce, (ref(self),))
        self._timer.daemon = True
        self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def resumed(self, epochs: int) -> None:
        """Print the epoch."""
        sys.stdout.write(f"resuming after epoch {epochs}\n")

    def progressed(self, epochs: int, trace: Any) -> None:
        """Print the mean objective, and the mean held-out score if rows are held out."""
        self._stop_timer()
        line = f"epoch {epochs}/{self._epochs}  objective {trace.train[:, -1].mean():.4f}"
        line += f"  held out {trace.held[:, -1].mean():.4f}" if self._held else ""
        if self._live:
            sys.stdout.write("\r" + line.ljust(len(self._line)))
            sys.stdout.flush()
            self._line = line
        elif epochs >= self._next or epochs == self._epochs:
            self._next, self._line = 2 * epochs, ""
            sys.stdout.write(line + "\n")
        else:
            self._line = line  # not printed yet

    def ended(self) -> None:
        """End the line, or print the last."""
        self._stop_timer()
        if self._line:
            sys.stdout.write("\n" if self._live else self._line + "\n")


def _announce(printer: "ref[Printer]") -> None:
    """Explain a long first epoch, unless the fit has ended by an error."""
    if printer() is not None:
        sys.stdout.write("first epoch not done yet: many outputs, classes or columns take long to compile\n")
        sys.stdout.flush()
