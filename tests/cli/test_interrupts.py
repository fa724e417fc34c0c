"""Ctrl-C: the process ends with a true sentence, or the command ends itself."""

import os
import signal
from pathlib import Path

import pytest
from tools.interrupts import run, verdict

from tggm import cli, storage
from tggm.cli import files


class Ended(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def interruption(monkeypatch):
    def ended(code):
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", ended)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores it
    cli.interruption.reset()
    cli.interruption.handle_signals()
    yield cli.interruption
    signal.signal(signal.SIGINT, before)
    cli.interruption.reset()


def test_ctrl_c_ends_the_process_with_a_sentence(interruption, capfd):
    with pytest.raises(Ended, match="130"):
        signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == "tggm: interrupted; nothing was written\n"


def test_a_deferred_interrupt_is_stored_and_the_second_has_the_default_action(interruption, capfd):
    interruption.deferred = True
    signal.raise_signal(signal.SIGINT)
    assert interruption.asked
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert capfd.readouterr().err == "tggm: interrupted; ending this step (Ctrl-C again ends at once)\n"


def test_a_process_that_ignores_ctrl_c_still_does(interruption):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interruption.handle_signals()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_file_is_written_whole(interruption, tmp_path, monkeypatch):
    write, path = storage.write_atomically, tmp_path / "m"

    def interrupted(*given):
        signal.raise_signal(signal.SIGINT)
        write(*given)

    monkeypatch.setattr(storage, "write_atomically", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_result(str(path), "text")
    assert interruption.sentence == f"tggm: interrupted; {path} was written"
    assert path.read_text() == "text"
    assert not interruption.deferred  # the next Ctrl-C ends the process


def test_the_output_is_called_incomplete_while_it_is_written(interruption, monkeypatch, capfd):
    class Pipe:
        buffer = None

        def flush(self):
            """Do nothing."""

        def write(self, data):
            signal.raise_signal(signal.SIGINT)

    pipe = Pipe()
    pipe.buffer = pipe
    monkeypatch.setattr("sys.stdout", pipe)
    with pytest.raises(Ended):
        files.write_result("-", "text")
    assert capfd.readouterr().err == "tggm: interrupted; the output is incomplete\n"


def test_untrue_sentences_and_crashes_are_violations(tmp_path):
    path, nothing = tmp_path / "m.tggm", "tggm: interrupted; nothing was written"
    assert verdict(130, nothing, path) == nothing
    assert verdict(-signal.SIGINT, "", path) == "ended by the signal"
    for code, said in (
        (-11, ""),
        (130, "Traceback"),
        (130, ""),
        (130, f"tggm: interrupted; {path} was written"),
    ):
        assert verdict(code, said, path).startswith("violation")
    Path(tmp_path, ".m.tggm.1.tmp").touch()
    assert verdict(130, nothing, path).startswith("violation")


@pytest.mark.slow  # fits in other processes; `python -m tools.interrupts` makes 200
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processor times in /proc")
def test_interrupted_fits_end_with_true_sentences():
    counts = run(4)
    assert sum(counts.values()) == 4
    assert not [name for name in counts if name.startswith("violation")]
