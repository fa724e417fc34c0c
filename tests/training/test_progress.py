"""Reports of the progress of a fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.training.straight_line import fit
from tggm.training import Observer
from tggm.training.loop import Trace
from tggm.training.progress import Printer


def report(printer, epochs):
    printer.progressed(epochs, Trace(np.zeros((1, 1)), np.zeros((1, 1))))


def test_observers_get_every_epoch(data):
    reports, examined = [], []

    class Listener(Observer):
        def progressed(self, epochs, trace):
            reports.append((epochs, trace))

        def room(self, epochs):
            return 3 - epochs % 3

        def examined(self, epochs, best):
            examined.append((epochs, len(best)))

    got = fit(data, 2, epochs=7, observer=Listener())
    assert reports[-1][0] == 7
    assert_allclose(np.concatenate([trace.train for _, trace in reports], axis=1), got.train)
    assert {(3, 2), (6, 2), (7, 2)} <= set(examined)


@pytest.mark.parametrize("held", [True, False])
def test_the_printer_writes_means_over_members(capsys, held):
    printer = Printer(held)
    printer.planned(10)
    printer.resumed(2)
    printer.progressed(4, Trace(np.array([[0.0, -1.0], [0.0, -2.0]]), np.array([[0.0, 3.0], [0.0, 4.0]])))
    first, second = capsys.readouterr().out.splitlines()
    assert first == "resuming after epoch 2"
    assert second == "epoch 4/10  objective -1.5000" + ("  held out 3.5000" if held else "")


def test_a_line_is_printed_when_epochs_double(capsys):
    printer = Printer(False)
    printer.planned(500)
    for epochs in range(1, 301):
        report(printer, epochs)
    printer.ended()  # earlier than planned: the last epoch is printed
    done = [int(line.split()[1].split("/")[0]) for line in capsys.readouterr().out.splitlines()]
    assert done == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]


def test_a_terminal_shows_one_line_that_is_updated(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    printer = Printer(False)
    printer.planned(500)
    for epochs in range(1, 101):
        report(printer, epochs)
    printer.ended()
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.endswith("epoch 100/500  objective 0.0000\n")
