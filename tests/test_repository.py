"""README, links of the documentation, the version, and side effects of imports."""

import re
import subprocess
import sys
import tomllib
from functools import partial
from importlib import metadata
from pathlib import Path

import pytest

import tggm
from tests.docs.blocks import differences

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SHORT = {"hidden": (16, 16), "n_members": 2, "max_epochs": 60}


def in_a_fresh_process(code):
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


WHOLE = pytest.param({}, marks=pytest.mark.slow, id="whole")


@pytest.mark.parametrize("settings", [pytest.param(SHORT, id="short"), WHOLE])
def test_the_readme_code_runs(settings, monkeypatch, capsys):
    """Use a smaller model; the default takes a minute and runs in `make test-all`."""
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.setattr(tggm, "TGGMRegressor", partial(tggm.TGGMRegressor, **settings), raising=False)
    monkeypatch.chdir(ROOT)
    with pytest.warns(match="house"):  # the column of row numbers is left out
        exec(block, {"__name__": "__main__"})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(re.fullmatch(r"90 % between -?\d+ and \d+; sold for \d+", line) for line in lines[:3])
    # a Gaussian with the mean and deviation of all prices has a mean log-density of -6.2
    assert -5.9 < float(lines[3].removeprefix("mean log-likelihood ")) < -5.0
    if not settings:
        (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
        assert differences("\n".join(lines), shown) == []


def test_the_readme_commands_exist():
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    targets = re.findall(r"^make ([\w-]+)", blocks[0], re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def anchors(page):
    """Return anchors of the headings of a page, as GitHub generates them, or as given in braces."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE):
        given = re.search(r"\{ *#([\w-]+) *\}", heading)
        plain = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
        found.add(given[1] if given else re.sub(r"\s+", "-", plain))
    return found


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / ".github").rglob("*.md")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_existing_files_and_headings(path):
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in link:
            file, _, anchor = link.partition("#")
            target = (path.parent / file) if file else path
            assert target.exists(), link
            assert not anchor or anchor in anchors(target.read_text()), link


def test_files_named_in_pages_exist():
    """Look for paths in backticks from the root of the repository or of the package."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    named = {
        (page.name, path) for page in pages for path in re.findall(r"`(\w[\w/]*/\w+\.py)`", page.read_text())
    }
    assert named
    roots = (ROOT, ROOT / "src" / "tggm")
    assert not [pair for pair in sorted(named) if not any((root / pair[1]).exists() for root in roots)]


def test_all_versions_are_equal():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert tggm.__version__ == declared == metadata.version("tggm")
    assert f"\nversion: {declared}\n" in (ROOT / "CITATION.cff").read_text()


def test_public_names_can_be_imported():
    some = {"TGGMRegressor", "TruncatedGaussian", "save", "load", "ModelFileError"}
    assert some <= set(tggm.__all__) <= set(dir(tggm))
    assert all(getattr(tggm, name) is not None for name in tggm.__all__)
    with pytest.raises(AttributeError, match="module 'tggm' has no attribute 'TruncatedGausian'"):
        _ = tggm.TruncatedGausian


def test_importing_tggm_imports_no_large_package():
    heavy = ("jax", "numpy", "scipy", "sklearn", "matplotlib", "pandas")
    loaded = in_a_fresh_process("import sys, tggm; print(*sys.modules)").split()
    assert not set(heavy) & set(loaded)


def test_importing_changes_no_global_setting():
    code = """
import jax, logging, os, sys, warnings
import numpy as np
def settings():
    python = list(warnings.filters), dict(os.environ), list(logging.root.handlers)
    return dict(jax.config.values), np.geterr(), *python
import optax, sklearn.base, scipy.stats  # they may change settings on import
before = settings()
import tggm, tggm.special, tggm.inference, tggm.plotting
[getattr(tggm, name) for name in tggm.__all__]
loaded = {"matplotlib"} & set(sys.modules)
assert not loaded, f"importing the library loads {loaded}"
import tggm.cli
assert settings() == before, "importing tggm changed a global setting"
"""
    assert in_a_fresh_process(code) == ""
