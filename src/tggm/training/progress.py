"""Progress of a fit, reported to an observer."""

import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from tggm.training.train import Observer


def duration(seconds: float) -> str:
    """Format a duration: 4.2 s, 52 s or 3 min 05 s."""
    whole = round(seconds)
    if whole < 90:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{whole} s"
    return f"{whole // 60} min {whole % 60:02d} s"


class Printer(Observer):
    """Print progress, the time to the next possible end, and finally why training ended.

    On a terminal one line is updated; elsewhere there is a line whenever the epochs double. `held` states
    whether rows are held out; `offset` is added to the objective `name`.
    """

    def __init__(
        self, held: bool, name: str = "objective", offset: float = 0.0, stream: TextIO | None = None
    ) -> None:
        self._held, self._name, self._offset, self._stream = held, name, offset, stream or sys.stdout
        self._live, self._begin = self._stream.isatty(), time.monotonic()
        self._ends: tuple[int, ...] = ()  # epochs after which training may end
        self._first: tuple[int, float] | None = None  # epochs and time of the first report
        self._next, self._line = 1, ""

    def say(self, text: str) -> None:
        """Print a line; on a terminal it replaces the line of progress."""
        self._stream.write(f"\r\x1b[K{text}\n" if self._live else f"{text}\n")
        self._stream.flush()

    def planned(self, epochs: int, milestones: Sequence[int] = ()) -> None:
        """Store the epochs after which training may end."""
        self._ends = (*milestones, epochs)

    def resumed(self, epochs: int) -> None:
        """Print the epoch."""
        self.say(f"continuing after epoch {epochs}")

    def progressed(self, epochs: int, trace: Any) -> None:
        """Print the mean objective, the mean held-out score if rows are held out, and the time left."""
        now = time.monotonic()
        if self._first is None:  # the time before this is compilation, or an earlier run
            self._first = epochs, now
        line = f"epoch {epochs}  {self._name} {trace.train[:, -1].mean() + self._offset:.4f}"
        line += f"  held out {trace.held[:, -1].mean() + self._offset:.4f}" if self._held else ""
        end = next((end for end in self._ends if end > epochs), epochs)
        if end > epochs > self._first[0]:
            left = duration((now - self._first[1]) / (epochs - self._first[0]) * (end - epochs))
            last = end == self._ends[-1]
            line += f"  at most {left} left" if last else f"  about {left} to epoch {end}, a possible end"
        if self._live:
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()
        elif epochs >= self._next or epochs == self._ends[-1]:
            self._next, self._line = 2 * epochs, ""
            self.say(line)
        else:
            self._line = line  # not printed yet

    def ended(self, reason: str) -> None:
        """Print the last line, and why training ended."""
        if self._line:
            self.say(self._line)
        seconds = duration(time.monotonic() - self._begin)
        self.say(f"training ended after {seconds}: {reason}")
