"""Progress of a fit on standard error: a live line on a terminal, now and then a plain one elsewhere."""

import sys
import time
from types import TracebackType
from typing import Any, Self

import numpy as np

_PLAIN_SECONDS = 10.0  # between lines when nobody watches them change
_LONG_SECONDS = 30.0  # after which a person would like to know what can be done


class Progress:
    """Shows epoch, score a row on what is trained on and what is not, and the time that is left at most.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    measure : str
        What the score is.
    offset : float
        Added to both scores: the model sees a standardised target, a person thinks in its units.
    """

    def __init__(self, quiet: bool, measure: str, offset: float = 0.0) -> None:
        self._quiet, self._measure, self._offset = quiet, measure, offset
        self._live: Any = None
        self._begin = self._said = time.monotonic()
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

    def watch(self, planned: int) -> Any:
        """What an estimator reports to: a function of the epochs done and the trace of the last ones."""

        def report(done: int, trace: Any) -> None:
            text = self._line(done, planned, np.asarray(trace.train), np.asarray(trace.held))
            self._advise(done, planned)
            if self._live is not None:
                self._live.update(text)
            elif not self._quiet and time.monotonic() - self._said > _PLAIN_SECONDS:
                self._said = time.monotonic()
                print(text, file=sys.stderr, flush=True)

        return report

    def _advise(self, done: int, planned: int) -> None:
        """Once, as soon as it is known how long it takes: what makes it shorter."""
        left = self._left(done, planned)
        if self._quiet or self._advised or left is None:
            return
        self._advised = True
        if left > _LONG_SECONDS:
            text = (
                f"  {_duration(left)} at most; shorter with --quick or --epochs; Ctrl-C keeps the best so far"
            )
            if self._live is not None:
                self._live.console.print(text, highlight=False)  # above the live line
            else:
                print(text, file=sys.stderr, flush=True)

    def _left(self, done: int, planned: int) -> float | None:
        """Seconds to the planned end, None as long as only one report has come."""
        if self._first is None or done <= self._first:
            return None
        return (time.monotonic() - self._begin) / (done - self._first) * (planned - done)

    def _line(self, done: int, planned: int, train: np.ndarray, held: np.ndarray) -> str:
        if self._first is None:  # what came before is compilation, or an earlier run
            self._first, self._begin = done, time.monotonic()
        text = f"epoch {done}/{planned}  {self._measure} {train[:, -1].mean() + self._offset:.3f}"
        if np.isfinite(held[:, -1]).all():
            text += f", {held[:, -1].mean() + self._offset:.3f} in validation"
        left = self._left(done, planned)
        if left is not None:
            text += f"  at most {_duration(left)} left"
        return text


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
