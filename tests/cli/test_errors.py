"""Errors of the command line: one sentence, exit code 2, no traceback."""

import os
import subprocess
import sys

import pytest

from tests.cli.commands import complaint, rows, write
from tggm.cli import main, message_for, run
from tggm.cli.files import CommandError, check_output
from tggm.cli.training import names_in
from tggm.files import ModelFileError
from tggm.tables import TableError


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nonsense"], "argument COMMAND: invalid choice: 'nonsense' (choose from "),
        (["info", "m", "--nonsense"], "unrecognized arguments: --nonsense. See: tggm info --help\n"),
        (
            ["fit", "a", "--targt", "y"],
            "unrecognized arguments: --targt (did you mean --target?). See: tggm fit",
        ),
        (["fit", "a.csv"], "the following arguments are required: --target/-t. See: tggm fit --help\n"),
    ],
)
def test_an_error_is_one_sentence_and_exit_code_2(words, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith(f"tggm: {sentence}")


def test_commands_that_are_similar_are_suggested(capsys):
    assert "(did you mean evaluate?). See: tggm --help" in complaint(capsys, "evalute", "m", "d")


def test_errors_of_users_have_messages_and_defects_do_not():
    large = ValueError("`X` has a value of size 5e10")
    for error in (CommandError("Do this."), ModelFileError("Broken."), TableError("t is empty."), large):
        assert message_for(error) == str(error)
    assert "pip install matplotlib" in message_for(ModuleNotFoundError("", name="matplotlib.figure"))
    assert "pip install pyarrow" in message_for(ModuleNotFoundError("", name="pyarrow"))
    assert message_for(ModuleNotFoundError("", name="tggm.nothing")) is None
    assert message_for(ValueError("a defect")) is None


def test_without_a_command_the_commands_are_listed(capsys):
    assert run([]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("fit", "predict", "evaluate", "info", "report", "compare", "serve"))


def test_help_imports_no_large_package():
    code = (
        "import sys; from tggm.cli import run; run(['--help']); run(['fit', '--help']);"
        "print(sorted({'jax', 'numpy', 'sklearn', 'scipy', 'matplotlib', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_input_files_are_not_overwritten(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,y\n1,2\n")
    with pytest.raises(CommandError, match="is read by this command"):
        check_output(str(path), True, str(path))
    check_output(str(tmp_path / "other.csv"), True, str(path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CommandError, match="pipe is a pipe or a device; name a file, or - for"):
        check_output(str(tmp_path / "pipe"), True)


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_a_broken_pipe_ends_without_a_message(words):
    """Check `tggm ... | head`: the exit code of a write to a closed pipe, and no message."""
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([sys.executable, "-m", "tggm", *words], stdout=theirs, stderr=-1, check=False)
    os.close(theirs)
    assert done.returncode in (0, 141)  # 0 if nothing is buffered: argparse ignores the error
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "one.csv", "-t", "y"], "one.csv has 1 row; a fit needs 10 or more: gather more rows."),
        (["fit", "gaps.csv", "-t", "y"], "gaps.csv has 2 rows with a target; a fit needs 10 or more"),
        (["info", "one.csv"], "one.csv is not a usable model file: it was not written by tggm.save or"),
    ],
)  # fmt: skip
def test_unsuitable_files_are_rejected(tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    tables = {"one": ["1,2"], "gaps": ["1,2", "2,3", *["3,"] * 10]}
    for name, lines in tables.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,y", *lines, ""]))
    assert sentence in complaint(capsys, *words)


def test_names_with_commas():
    known = ["id", "b, in m", "x"]
    assert names_in(["b, in m"], known) == ["b, in m"]
    assert names_in(["id,x", "b, in m"], known) == ["id", "x", "b, in m"]
    assert names_in(['id, "b, in m"'], known) == ["id", "b, in m"]
    assert names_in(["id,y"], known) == ["id", "y"]  # unknown names are reported by the caller


@pytest.mark.parametrize(("closed", "code"), [("2>&-", 0), ("<&-", 0), (">&-", 2)])
def test_closed_streams(tmp_path, closed, code):
    """Remarks are discarded; results cannot be written to a closed output."""
    file = write(tmp_path / "t.csv", rows(60, 0))
    command = f"'{sys.executable}' -m tggm fit '{file}' -t price --members 1 --epochs 1 --hidden 2"
    output = "-" if code else str(tmp_path / "m.tggm")
    done = subprocess.run([*["sh", "-c"], f"{command} -o {output} {closed}"], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    if code:
        assert "standard output is closed" in done.stderr
        return
    command = f"'{sys.executable}' -m tggm predict {output} '{file}' 2>&-"
    text = subprocess.run([*["sh", "-c"], command], capture_output=True, text=True, check=True).stdout
    assert text.startswith("price,price_std,")


def test_a_model_and_its_test_rows_need_two_files(tmp_path, capsys):
    file, out = write(tmp_path / "t.csv", rows(60, 0)), str(tmp_path / "out")
    words = ["fit", file, "-t", "price", "-o", out, "--test-output", out]
    assert f"are both {out}; name two files" in complaint(capsys, *words)
