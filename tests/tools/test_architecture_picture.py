"""The picture of the architecture can be drawn from the present tree, and is the same each time."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VISITS = [("estimators/regressor.py", "fit"), ("training/loop.py", "start"), ("models/shallow.py", "f"),
          ("models/other.py", "g"), ("estimators/base.py", "h")]  # fmt: skip


@pytest.fixture
def architecture(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield __import__("architecture")
    for name in ("architecture", "walk"):
        sys.modules.pop(name, None)


def test_the_picture_is_drawn_from_the_tree(architecture, tmp_path):
    one, two = tmp_path / "one.png", tmp_path / "two.png"
    architecture.draw(VISITS, one)
    architecture.draw(VISITS, two)
    content = one.read_bytes()
    assert content == two.read_bytes()
    assert int.from_bytes(content[16:20], "big") == 900  # its width, from the header of the file


def test_what_it_shows(architecture):
    packages = [package for layer in architecture.layers() for package in layer]
    assert architecture.way(VISITS, packages) == ["estimators", "training", "models", "estimators"]
    assert "special" in architecture.imported("inference")
    assert architecture.imported("special") == set()
    assert architecture.line_count("special") > 1000
    assert all(architecture.purpose(package) for package in packages)


def test_imports_go_downwards(architecture):
    """As import-linter says, from the same layers."""
    packages = [package for layer in architecture.layers() for package in layer]
    for number, package in enumerate(packages):
        assert not architecture.imported(package) & set(packages[:number])
