"""The set-up notices every way in which .venv can be wrong; building one is left to `make`."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "setup_venv.py"


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """The script in a made-up checkout whose environment is in order, with building replaced by a list."""
    spec = importlib.util.spec_from_file_location("setup_venv", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    venv = tmp_path / ".venv"
    site = venv / "lib" / "python3.11" / "site-packages"
    (site / "a.dist-info").mkdir(parents=True)
    (site / "a.py").write_text("12345")
    (site / "a.dist-info" / "RECORD").write_text('a.py,sha256=x,5\n"a, b.py",,\na.dist-info/RECORD,,\n')
    (tmp_path / "pyproject.toml").write_text("one")
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(sys.executable)
    done = []
    for name, value in {
        "ROOT": tmp_path,
        "VENV": venv,
        "PYTHON": venv / "bin" / "python",
        "STAMP": venv / ".tggm-setup.json",
        "create": lambda: done.append("create"),
        "install": lambda extra: done.append(f"install {extra}"),
    }.items():
        monkeypatch.setattr(module, name, value)
    module.done, module.site = done, site
    module.STAMP.write_text(
        json.dumps({"folder": str(tmp_path), "pyproject": module.digest(), "extra": "demo"})
    )
    return module


def test_an_environment_in_order_is_left_alone(setup):
    setup.main("demo")
    (setup.ROOT / "pyproject.toml").touch()
    setup.main("demo")
    assert setup.done == []


def test_what_is_missing_for_development_is_added_and_serves_the_demo(setup):
    setup.main("dev")
    setup.main("demo")
    setup.main("dev")
    assert setup.done == ["install dev"]


def test_new_requirements_are_installed(setup):
    (setup.ROOT / "pyproject.toml").write_text("two")
    setup.main("demo")
    assert setup.done == ["install demo"]


@pytest.mark.parametrize(
    "harm",
    [
        lambda setup: setup.STAMP.unlink(),
        lambda setup: setup.STAMP.write_text("{"),
        lambda setup: setup.STAMP.write_text(setup.STAMP.read_text().replace(str(setup.ROOT), "/elsewhere")),
        lambda setup: (setup.site / "a.py").unlink(),
        lambda setup: (setup.site / "a.py").write_text("1234"),
        lambda setup: (setup.site / "a.dist-info" / "RECORD").unlink(),
        lambda setup: setup.PYTHON.unlink(),
    ],
    ids=["no stamp", "half a stamp", "moved", "file lost", "file cut", "package lost", "no interpreter"],
)
def test_a_damaged_environment_is_built_anew(setup, harm):
    harm(setup)
    setup.main("demo")
    assert setup.done == ["create", "install demo"]


def test_a_failed_installation_leaves_no_stamp(setup, monkeypatch):
    def fail(extra):
        raise SystemExit(1)

    monkeypatch.setattr(setup, "install", fail)
    with pytest.raises(SystemExit):
        setup.main("dev")
    assert setup.stamp()["folder"] == ""
