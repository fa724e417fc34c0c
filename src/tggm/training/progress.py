"""Progress of a fit, reported to an observer."""

import sys
from threading import Timer
from typing import Any
from weakref import ref

from tggm.training.train import Observer

SILENCE = 10.0  # seconds without an epoch after which a message explains why


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
