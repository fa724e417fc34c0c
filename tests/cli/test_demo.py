"""The demo: the main job end to end, with its steps made short."""

import csv

import pytest

from tggm.cli import demo as module
from tggm.cli.app import run


@pytest.fixture
def short(monkeypatch):
    """Every fit of the demo with one small network and a few epochs."""
    real = module.command

    def command(*words):
        real(*words, *(("--epochs", "2", "--members", "1", "--hidden", "8") if words[0] == "fit" else ()))

    monkeypatch.setattr(module, "command", command)


@pytest.mark.slow  # the same commands on one table: test_table_commands.py; figures: tests/test_plotting.py
def test_the_demo_leaves_what_it_says(tmp_path, short, capsys):
    folder = tmp_path / "deep" / "demo"
    assert run(["demo", "--output", str(folder)]) == 0
    out = capsys.readouterr().out
    last = out.splitlines()[-3:]
    assert [line.split()[0] for line in last] == ["reports", "figures", "predictions"]
    named = [word.strip(",") for line in last for word in line.split() if word.startswith(str(folder))]
    assert len(named) == 8
    for name in named:
        content = (folder / name).read_bytes()
        start = {"png": b"\x89PNG", "html": b"<!doctype html>", "csv": b""}[name.rpartition(".")[2]]
        assert content[: len(start)].lower() == start.lower()
    rows = list(csv.DictReader((folder / "circuits_predictions.csv").read_text().splitlines()))
    assert len(rows) == 150  # a quarter of 600 circuits
    assert all(float(r["impedance_low"]) < float(r["impedance"]) < float(r["impedance_high"]) for r in rows)
    assert "linear model" in out


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert run(["demo", "--output", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err == f"tggm: {tmp_path / 'file'} is a file; name a folder with --output.\n"
