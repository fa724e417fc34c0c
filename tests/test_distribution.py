"""Contents of the wheel and the source distribution; reproducible builds."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def build(folder):
    """Build both distributions with a fixed date."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    env = {"SOURCE_DATE_EPOCH": "1700000000", "PATH": "/usr/bin:/bin"}
    subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_contains_only_the_package(built):
    names = zipfile.ZipFile(built[0]).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"tggm", next(top for top in tops if top.endswith(".dist-info"))}
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src/tggm").rglob("*.*")}
    expected = {name for name in source if "__pycache__" not in name}
    assert {name for name in names if name.startswith("tggm/")} == expected
    assert {"tggm/py.typed", "tggm/report/report.html.j2"} <= set(names)


def test_the_source_distribution_contains_tests_and_documentation(built):
    with tarfile.open(built[1]) as archive:
        names = archive.getnames()
    inside = {name.split("/", 1)[1] for name in names if "/" in name}
    wanted = {"README.md", "LICENSE", "CHANGELOG.md", "tests/conftest.py", "docs/index.md", "Makefile"}
    assert wanted <= inside
    assert not any(name.startswith((".venv", "demo/")) for name in inside)


def test_builds_are_reproducible(built, tmp_path):
    for first, second in zip(built, build(tmp_path), strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name


def test_the_unpacked_wheel_can_be_imported(built, tmp_path):
    zipfile.ZipFile(built[0]).extractall(tmp_path)
    code = "import tggm; print(tggm.__file__); from tggm import load; from tggm.report import write_report"
    env = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))
