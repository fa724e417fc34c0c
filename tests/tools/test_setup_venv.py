"""The set-up script detects a missing, moved or damaged .venv; building one is left to `make`."""

import json
import sys

import pytest

from tools import setup_venv


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """The script in a checkout with a good environment; building is replaced by a list of steps."""
    venv, site = tmp_path / ".venv", tmp_path / ".venv/lib/python3.11/site-packages"
    (site / "a.dist-info").mkdir(parents=True)
    (site / "a.py").write_text("12345")
    (site / "a.dist-info" / "RECORD").write_text("a.py,sha256=x,5\na.dist-info/RECORD,,\n")
    (tmp_path / "pyproject.toml").write_text("one")
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(sys.executable)
    places = {"ROOT": tmp_path, "VENV": venv, "PYTHON": venv / "bin/python", "STAMP": venv / "stamp.json"}
    steps = []
    build = {"create": lambda: steps.append("create"), "install": lambda extra: steps.append(extra)}
    for name, value in {**places, **build}.items():
        monkeypatch.setattr(setup_venv, name, value)
    stamp = {"folder": str(tmp_path), "pyproject": setup_venv.digest(), "extra": "demo"}
    setup_venv.STAMP.write_text(json.dumps(stamp))
    return steps, site


def test_only_what_is_missing_is_installed(setup):
    steps, _ = setup
    setup_venv.main("demo")
    assert steps == []
    setup_venv.main("dev")
    setup_venv.main("demo")
    assert steps == ["dev"]


@pytest.mark.parametrize("damage", ["no stamp", "file lost", "file cut"])
def test_a_damaged_environment_is_built_again(setup, damage):
    steps, site = setup
    if damage == "no stamp":
        setup_venv.STAMP.unlink()
    elif damage == "file lost":
        (site / "a.py").unlink()
    else:
        (site / "a.py").write_text("1234")
    setup_venv.main("demo")
    assert steps == ["create", "demo"]
