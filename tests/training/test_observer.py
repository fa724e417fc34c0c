"""What a fit tells whoever watches it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tggm.training.observer import CheckpointWarning, Observer, Printer
from tggm.training.state import Trace

from tests.training.straight_line import fit
from tggm.training import observer


def test_progress_is_told_epoch_by_epoch(data):
    told = []

    class Listener(Observer):
        def progressed(self, epochs, trace):
            told.append((epochs, trace))

    got = fit(data, 2, epochs=5, observer=Listener())
    assert told[-1][0] == 5
    assert_allclose(np.concatenate([trace.train for _, trace in told], axis=1), got.train)


def test_what_must_not_be_missed_is_a_warning():
    with pytest.warns(CheckpointWarning, match="the disk is full"):
        Observer().noted("the disk is full")


@pytest.mark.parametrize("held", [True, False])
def test_printer_writes_a_line_for_a_report(capsys, held):
    printer = Printer(held)
    printer.planned(10)
    printer.resumed(2)
    printer.progressed(4, Trace(np.array([[0.0, -1.0], [0.0, -2.0]]), np.array([[0.0, 3.0], [0.0, 4.0]])))
    first, second = capsys.readouterr().out.splitlines()
    assert first == "going on after epoch 2"
    assert second == "epoch 4/10  objective -1.5000" + ("  held out 3.5000" if held else "")


def test_a_long_fit_prints_a_few_lines(capsys):
    printer = Printer(False)
    printer.planned(500)
    for epochs in range(1, 501):
        printer.progressed(epochs, Trace(np.zeros((1, 1)), np.zeros((1, 1))))
    done = [int(line.split()[1].split("/")[0]) for line in capsys.readouterr().out.splitlines()]
    assert done == [1, 2, 4, 8, 16, 32, 64, 128, 256, 500]


def test_a_terminal_has_one_line_that_changes(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    printer = Printer(False)
    printer.planned(500)
    for epochs in range(1, 101):
        printer.progressed(epochs, Trace(np.zeros((1, 1)), np.zeros((1, 1))))
    printer.ended()
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.endswith("epoch 100/500  objective 0.0000\n")


def test_the_last_epoch_is_printed_where_training_ends_early(capsys):
    printer = Printer(False)
    printer.planned(500)
    for epochs in (1, 2, 3):
        printer.progressed(epochs, Trace(np.zeros((1, 1)), np.zeros((1, 1))))
    printer.ended()
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["1/500", "2/500", "3/500"]
    printer.ended()


def test_an_observer_may_end_training(data):
    class Stopper(Observer):
        over = False

        def room(self, epochs):
            return 3 - epochs % 3

        def ends(self, epochs, best):
            assert len(best) == 2
            return epochs == 6

        def ended(self):
            self.over = True

    stopper = Stopper()
    assert fit(data, 2, epochs=20, observer=stopper).train.shape[1] == 6
    assert stopper.over


def test_a_first_epoch_that_takes_long_is_announced(monkeypatch, capsys):
    monkeypatch.setattr(observer, "SILENCE", 0.0)
    printer = Printer(False)
    printer.planned(3)
    printer._silence.join(10)
    assert "the first epoch is not done yet: compiling" in capsys.readouterr().out
    monkeypatch.setattr(observer, "SILENCE", 60.0)
    printer.planned(3)
    printer.ended()
    printer._silence.join(10)
    assert not printer._silence.is_alive()
    assert capsys.readouterr().out == ""
