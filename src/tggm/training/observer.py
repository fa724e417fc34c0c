"""What a fit tells whoever watches it."""

import sys
import warnings
from abc import ABC
from threading import Timer
from typing import Any
from weakref import ref

SILENCE = 10.0  # seconds without an epoch, after which a person is told why


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or was damaged; the fit goes on."""


class Observer(ABC):  # noqa: B024  # every method may be left as it is
    """Hears about the progress of a fit. By default it only passes on warnings."""

    def planned(self, epochs: int) -> None:  # noqa: B027
        """Training begins; it takes so many epochs at most."""

    def resumed(self, epochs: int) -> None:  # noqa: B027
        """Training goes on from a checkpoint of so many epochs."""

    def progressed(self, epochs: int, trace: Any) -> None:  # noqa: B027
        """So many epochs are done; the `Trace` of the last ones, (members, epochs) each."""

    def room(self, epochs: int) -> int:
        """After so many epochs: how many may pass before `ends` is asked."""
        return sys.maxsize

    def ends(self, epochs: int, best: Any) -> bool:
        """Whether training ends after so many epochs; `best` are the parameters to be kept, as a matrix."""
        return False

    def ended(self) -> None:  # noqa: B027
        """Training is over, for whatever reason."""

    def noted(self, text: str) -> None:
        """Something went wrong with a checkpoint; the fit goes on."""
        warnings.warn(text, CheckpointWarning, stacklevel=2)


class Printer(Observer):
    """What ``verbose=True`` shows: on a terminal one line that is written anew; elsewhere, a few lines.

    Those are printed whenever twice as many epochs are done, and at the end. A first epoch that is long in
    coming is announced. `held` says whether rows are held out.
    """

    def __init__(self, held: bool) -> None:
        self._epochs, self._held, self._next, self._line = 0, held, 1, ""
        self._live = sys.stdout.isatty()
        self._silence: Timer | None = None

    def planned(self, epochs: int) -> None:
        """Remember how many there are; the first may take long."""
        self._epochs = epochs
        self._heard()
        self._silence = Timer(SILENCE, _announce, (ref(self),))
        self._silence.daemon = True
        self._silence.start()

    def _heard(self) -> None:
        """There is no need to say that it takes long."""
        if self._silence is not None:
            self._silence.cancel()

    def resumed(self, epochs: int) -> None:
        """Say so."""
        sys.stdout.write(f"going on after epoch {epochs}\n")

    def progressed(self, epochs: int, trace: Any) -> None:
        """Mean objective, and mean held-out score where rows are held out."""
        self._heard()
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
        self._heard()
        if self._line:
            sys.stdout.write("\n" if self._live else self._line + "\n")


def _announce(printer: "ref[Printer]") -> None:
    """Unless the fit has ended by an error."""
    if printer() is not None:
        sys.stdout.write(
            "the first epoch is not done yet: compiling takes long with many outputs, classes or columns\n"
        )
        sys.stdout.flush()
