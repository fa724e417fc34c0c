"""The command line: what it prints, what it writes, and how it fails."""

import subprocess
import sys

import mpmath
import pytest

from tggm.cli import main
from tggm.cli.app import run
from tggm.cli.demo import LOCATIONS, SIGMAS, activation_table
from tggm.cli.errors import CommandError, sentence_for
from tggm.persistence import ModelFileError


def reference_mean(mu, sigma):
    """μ + σ φ(α) / Φ(α) at 40 digits."""
    with mpmath.workdps(40):
        alpha = mpmath.mpf(mu) / mpmath.mpf(sigma)
        return float(mu + sigma * mpmath.npdf(alpha) / (mpmath.erfc(-alpha / mpmath.sqrt(2)) / 2))


def test_the_table_agrees_with_the_definition():
    head, *rows = activation_table().splitlines()
    assert head.split()[:3] == ["mu", "max(0,", "mu)"]
    for mu, row in zip(LOCATIONS, rows, strict=True):
        expected = [mu, max(0, mu), *(reference_mean(mu, sigma) for sigma in SIGMAS)]
        # six decimals are printed, from single precision when double is off
        assert [float(word) for word in row.split()] == pytest.approx(expected, abs=2e-6)


def test_demo_writes_its_picture_and_prints_its_place(tmp_path, capsys):
    folder = tmp_path / "deep" / "demo"
    assert run(["demo", "--output", str(folder)]) == 0
    picture = folder / "activation.png"
    assert str(picture) in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nonsense"], "tggm: No such command 'nonsense'. See: tggm --help\n"),
        (["demo", "--nonsense"], "tggm: No such option: --nonsense. See: tggm --help\n"),
        (["demo", "--output", "{file}"], "tggm: File exists: {file}\n"),
    ],
)
def test_an_error_is_one_sentence_and_exit_code_2(words, sentence, tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SystemExit) as stop:
        main([word.format(file=file) for word in words])
    assert stop.value.code == 2
    assert capsys.readouterr().err == sentence.format(file=file)


def test_errors_that_users_can_mend_have_sentences_and_defects_do_not():
    assert sentence_for(CommandError("Do this.")) == "Do this."
    assert sentence_for(ModelFileError("m.tggm is broken.")) == "m.tggm is broken."
    assert "pip install 'tggm[plot]'" in sentence_for(ModuleNotFoundError("", name="matplotlib.figure"))
    assert sentence_for(ModuleNotFoundError("", name="tggm.nothing")) is None
    assert sentence_for(ValueError("a defect")) is None


def test_no_command_shows_what_there_is(capsys):
    assert run([]) == 0
    assert "demo" in capsys.readouterr().out


def test_the_command_line_without_typer_says_how_to_get_it():
    code = "import sys; sys.modules['typer'] = None; from tggm.cli import main; main(['demo'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "tggm: the command line needs typer; install it with: pip install 'tggm[cli]'\n",
    )
