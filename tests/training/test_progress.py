"""Reports of the progress of a fit."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.training.straight_line import fit
from tggm.training import Observer
from tggm.training.loop import Trace
from tggm.training.train import Printer, duration


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
    assert first == "continuing after epoch 2"
    assert second == "epoch 4  objective -1.5000" + ("  held out 3.5000" if held else "")


def test_a_line_is_printed_when_epochs_double(capsys):
    printer = Printer(False)
    printer.planned(500)
    for epochs in range(1, 301):
        report(printer, epochs)
    printer.ended("no gain")  # earlier than planned: the last epoch is printed
    *lines, last = capsys.readouterr().out.splitlines()
    done = [int(line.split()[1]) for line in lines]
    assert done == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert re.fullmatch(r"training ended after \d+\.\d s: no gain", last)


def test_the_time_left_is_estimated_from_the_epochs_after_the_first(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    printer = Printer(False)
    printer.planned(601, (100, 400))
    for now[0], epochs in ((5.0, 1), (5.4, 3), (20.0, 76), (105.0, 401)):  # the first epoch compiles
        report(printer, epochs)
    left = [line.partition("0.0000")[2].strip() for line in capsys.readouterr().out.splitlines()]
    assert left[:2] == ["", "about 19 s to epoch 100, a possible end"]  # 97 epochs of 0.2 s
    assert left[2:] == ["about 4.8 s to epoch 100, a possible end", "at most 50 s left"]
    assert duration(185) == "3 min 05 s"


def test_a_terminal_shows_one_line_that_is_updated(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    printer = Printer(False)
    printer.planned(500)
    for epochs in range(1, 101):
        report(printer, epochs)
    assert "\n" not in capsys.readouterr().out
    printer.ended("no gain")
    assert capsys.readouterr().out.startswith("\r\x1b[Ktraining ended after ")
