"""Progress of a fit, reported to an observer."""

import sys
from typing import Any

from tggm.training.train import Observer


class Printer(Observer):
    """Print progress: one line that is updated on a terminal; elsewhere a line whenever the epochs double.

    `held` states whether rows are held out.
    """

    def __init__(self, held: bool) -> None:
        self._epochs, self._held, self._next, self._line = 0, held, 1, ""
        self._live = sys.stdout.isatty()

    def planned(self, epochs: int) -> None:
        """Remember the number of epochs."""
        self._epochs = epochs

    def resumed(self, epochs: int) -> None:
        """Print the epoch."""
        sys.stdout.write(f"resuming after epoch {epochs}\n")

    def progressed(self, epochs: int, trace: Any) -> None:
        """Print the mean objective, and the mean held-out score if rows are held out."""
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
        """End the line, or print the last line."""
        if self._line:
            sys.stdout.write("\n" if self._live else self._line + "\n")
