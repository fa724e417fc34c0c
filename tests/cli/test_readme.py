"""The commands of the README run, with small and short fits."""

import re
import shlex
from pathlib import Path

import pytest

from tggm.cli import run

ROOT = Path(__file__).parents[2]
SMALL = ["--hidden", "4", "--members", "2", "--epochs", "3"]


@pytest.mark.slow  # the same commands: test_table_commands.py
def test_the_commands_of_the_readme_work(tmp_path, monkeypatch, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"^tggm .*$", "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)), re.MULTILINE)
    commands = [shlex.split(line, comments=True)[1:] for line in lines]
    assert [words[0] for words in commands] == ["fit", "predict"]
    for words in commands:
        assert run([*words, *(SMALL if words[0] == "fit" else [])]) == 0, words
    header = (tmp_path / "predictions.csv").read_text().splitlines()
    assert header[0] == re.search(r"# (price, .*)", lines[1])[1].replace(" ", "")
    assert len(header) == 101
    err = capsys.readouterr().err
    assert "columns are left out: house (it numbers the rows)" in err
    assert "hamlet" in err


def test_the_example_table_equals_the_output_of_its_script(tmp_path, monkeypatch):
    import importlib.util

    spec = importlib.util.spec_from_file_location("houses", ROOT / "examples" / "houses.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    module.main()
    for name in ("houses.csv", "new_houses.csv"):
        assert (tmp_path / name).read_bytes() == (ROOT / "examples" / name).read_bytes()
