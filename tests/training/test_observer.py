"""What a fit tells, and what is printed of it."""

import numpy as np
import pytest

from tggm.training.observer import CheckpointWarning, Observer, Printer
from tggm.training.state import Trace

TRACE = Trace(np.array([[9.0, -1.0], [9.0, -2.0]]), np.array([[9.0, -3.0], [9.0, -3.5]]))


def test_an_observer_says_only_what_must_not_be_missed(capsys):
    observer = Observer()
    observer.planned(10)
    observer.resumed(3)
    observer.progressed(5, TRACE)
    assert capsys.readouterr() == ("", "")
    with pytest.warns(CheckpointWarning, match="the disk is full"):
        observer.noted("the disk is full")


@pytest.mark.parametrize(
    ("held", "line"),
    [
        (True, "epoch 5/10  objective -1.5000  held out -3.2500\n"),
        (False, "epoch 5/10  objective -1.5000\n"),
    ],
)
def test_a_printer_shows_means_over_members_after_the_last_epoch(capsys, held, line):
    printer = Printer(held)
    printer.planned(10)
    printer.resumed(3)
    printer.progressed(5, TRACE)
    assert capsys.readouterr().out == "going on after epoch 3\n" + line
