"""Progress of a fit on standard error: a live line on a terminal, a line every ten seconds elsewhere."""

import sys
import time
from typing import Any, Self

import numpy as np

from tggm.cli.files import say
from tggm.training.progress import Observer

_PLAIN_SECONDS = 10.0  # between lines that are not on a terminal
_LONG_SECONDS = 30.0  # a fit that takes longer shows how to shorten it


class Progress(Observer):
    """Show the epoch, the log-likelihood per row in training and validation, and the time left at most.

    Parameters
    ----------
    quiet : bool
        Show only errors of checkpoints.
    offset : float
        Added to both scores.
    """

    def __init__(self, quiet: bool, offset: float = 0.0) -> None:
        self._quiet, self._offset = quiet, offset
        self._live: Any = None
        self._begin = self._said = time.monotonic()
        self._epochs = 0
        self._first: int | None = None
        self._advised = False

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.status import Status

            self._live = Status("compiling, a few seconds", console=Console(stderr=True))
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a line, above the live one if there is one."""
        if self._quiet:
            return
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False)
        else:
            say(text)

    def planned(self, epochs: int) -> None:
        """Store the largest number of epochs."""
        self._epochs = epochs

    def resumed(self, epochs: int) -> None:
        """Report that a checkpoint is continued."""
        self.say(f"  continuing after epoch {epochs}")

    def noted(self, text: str) -> None:
        """Report an error of a checkpoint, also if quiet."""
        say(f"  note: {text}")

    def progressed(self, epochs: int, trace: Any) -> None:
        """Update the line and, once, show what would make a long fit shorter."""
        if self._first is None:  # the time before this is compilation, or an earlier run
            self._first, self._begin = epochs, time.monotonic()
        left = self._left(epochs)
        if left is not None and not self._advised:
            self._advised = True
            if left > _LONG_SECONDS:
                how = "shorter with --quick or --epochs; Ctrl-C keeps the best model so far"
                self.say(f"  {_duration(left)} at most; {how}")
        if self._live is not None:
            self._live.update(self._line(epochs, trace, left))
        elif time.monotonic() - self._said > _PLAIN_SECONDS:
            self._said = time.monotonic()
            self.say(self._line(epochs, trace, left))

    def _left(self, done: int) -> float | None:
        """Return the seconds to the planned end, None after the first report."""
        if self._first is None or done <= self._first:
            return None
        return (time.monotonic() - self._begin) / (done - self._first) * (self._epochs - done)

    def _line(self, done: int, trace: Any, left: float | None) -> str:
        train, held = np.asarray(trace.train)[:, -1], np.asarray(trace.held)[:, -1]
        text = f"epoch {done}/{self._epochs}  log-likelihood {train.mean() + self._offset:.3f}"
        if np.isfinite(held).all():
            text += f", {held.mean() + self._offset:.3f} in validation"
        return text if left is None else f"{text}  at most {_duration(left)} left"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
