"""`tggm reproduce` finds a script, hands it its options, and answers with its exit code."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.commands import answer, complaint
from tggm.cli import reproduce
from tggm.cli.app import run

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """A tree with one experiment, which is also the current folder."""
    folder = tmp_path / "experiments"
    folder.mkdir()
    for name in ("reproduce.py", "datasets.py"):
        shutil.copy(EXPERIMENTS / name, folder)
    monkeypatch.chdir(tmp_path)

    def write(text):
        (folder / "table2.py").write_text(text)

    (folder / "beside.py").write_text("word = 'beside'\n")
    yield write
    for name in ("beside", "datasets"):
        sys.modules.pop(name, None)


def test_without_a_name_it_lists_what_there_is(capsys):
    shown = answer(capsys, "reproduce").splitlines()
    names = [line.split()[2] for line in shown]
    assert names[:2] == ["table1", "table2"]
    assert all((EXPERIMENTS / f"{name}.py").is_file() for name in names)


def test_options_go_to_the_script_which_may_import_its_neighbours(experiment, capsys):
    experiment("import sys, beside; print(__name__, beside.word, sys.argv[1:])\n")
    before = sys.argv, list(sys.path)
    shown = answer(capsys, "reproduce", "table2", "--splits", "5", "--help", "-x")
    assert shown == "__main__ beside ['--splits', '5', '--help', '-x']\n"
    assert (sys.argv, sys.path) == before


@pytest.mark.parametrize(
    ("last", "code"),
    [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('why')", 1), ("raise KeyboardInterrupt", 130)],
)
def test_the_exit_code_is_the_scripts(experiment, capsys, last, code):
    experiment(f"import sys\n{last}\n")
    assert run(["reproduce", "table2"]) == code
    assert ("why" in capsys.readouterr().err) == (code == 1)


def test_functions_of_a_script_can_be_sent_to_worker_processes(experiment, capsys):
    experiment(
        "import multiprocessing\n"
        "def double(x): return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(double, [1, 2]))\n"
    )
    assert answer(capsys, "reproduce", "table2") == "[2, 4]\n"


def test_missing_data_is_one_sentence(experiment, capsys, monkeypatch):
    monkeypatch.delenv("TGGM_DATA", raising=False)
    experiment("from datasets import load_uci\nload_uci('yacht')\n")
    assert "TGGM_DATA is not set" in complaint(capsys, "reproduce", "table2")


def test_an_unknown_name_is_refused(capsys):
    assert "there is no experiment 'table3'; known are table1" in complaint(capsys, "reproduce", "table3")


def test_outside_the_source_tree_it_says_where_to_run_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "__file__", str(tmp_path / "site-packages" / "tggm" / "cli" / "x.py"))
    assert "the experiments are part of the source tree" in complaint(capsys, "reproduce", "table1")


def test_the_experiments_of_this_tree_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert reproduce.script() == EXPERIMENTS / "reproduce.py"
