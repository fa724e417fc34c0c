"""Progress of a fit on standard error: a live line on a terminal, now and then a plain one elsewhere."""

import sys
import time
from types import TracebackType
from typing import Any, Self

import numpy as np

from tggm.cli.files import say
from tggm.training.observer import Observer

_PLAIN_SECONDS = 10.0  # between lines when nobody watches them change
_LONG_SECONDS = 30.0  # after which a person would like to know what can be done


class Progress(Observer):
    """Shows epoch, score a row on what is trained on and what is not, and the time that is left at most.

    Parameters
    ----------
    quiet : bool
        Show nothing but what goes wrong.
    measure : str
        What the score is.
    offset : float
        Added to both scores.
    """

    def __init__(self, quiet: bool, measure: str, offset: float = 0.0) -> None:
        self._quiet, self._measure, self._offset = quiet, measure, offset
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def planned(self, epochs: int) -> None:
        """Remember how many there are."""
        self._epochs = epochs

    def resumed(self, epochs: int) -> None:
        """Say so."""
        if not self._quiet:
            say(f"  going on after epoch {epochs}")

    def noted(self, text: str) -> None:
        """Say it, even if nothing else is."""
        say(f"  note: {text}")

    def progressed(self, epochs: int, trace: Any) -> None:
        """Show the line, or one now and then; once, what would make the fit shorter."""
        if self._first is None:  # what came before is compilation, or an earlier run
            self._first, self._begin = epochs, time.monotonic()
        left = self._left(epochs)
        if not self._quiet and not self._advised and left is not None:
            self._advise(left)
        if self._live is not None:
            self._live.update(self._line(epochs, trace, left))
        elif not self._quiet and time.monotonic() - self._said > _PLAIN_SECONDS:
            self._said = time.monotonic()
            say(self._line(epochs, trace, left))

    def _left(self, done: int) -> float | None:
        """Seconds to the planned end, None as long as only one report has come."""
        if self._first is None or done <= self._first:
            return None
        return (time.monotonic() - self._begin) / (done - self._first) * (self._epochs - done)

    def _advise(self, left: float) -> None:
        self._advised = True
        if left <= _LONG_SECONDS:
            return
        text = f"  {_duration(left)} at most; shorter with --quick or --epochs; Ctrl-C keeps the best so far"
        if self._live is not None:
            self._live.console.print(text, highlight=False)  # above the live line
        else:
            say(text)

    def _line(self, done: int, trace: Any, left: float | None) -> str:
        train, held = np.asarray(trace.train)[:, -1], np.asarray(trace.held)[:, -1]
        text = f"epoch {done}/{self._epochs}  {self._measure} {train.mean() + self._offset:.3f}"
        if np.isfinite(held).all():
            text += f", {held.mean() + self._offset:.3f} in validation"
        return text if left is None else f"{text}  at most {_duration(left)} left"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
