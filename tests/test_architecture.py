"""Rules of the package's structure, checked on its source; docs/architecture.md explains them."""

import ast
import inspect
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tggm import TGGMClassifier, TGGMRegressor

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tggm"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 600  # of a file
# Lines of tracked files
BUDGET = {"src/*.py": 25_000, "tests/*.py": 17_000, "*.py": 50_000}
NO_ENGINE = ("models", "training", "predictive")  # `paper` gives `train` an objective instead
# `paper_ml` and `paper_bp` of the estimators
UPWARD = {f"tggm.estimators.{kind} -> tggm.paper" for kind in ("classifier", "regressor")}
# Reached, with room for programs that are compiled or stored; the goals are 24 files and 60 changes for the
# regressor, and 45 and 120 for the command line.
WALKS = {"regressor": {"files": 29, "changes": 107}, "command_line": {"files": 49, "changes": 180}}


def place(path):
    return path.relative_to(SOURCE).as_posix()


@cache
def imports():
    """Return (file, line number, module, name) of every import of the package from itself."""
    found = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tggm":
                found += [(path, node.lineno, node.module, alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names if alias.name.split(".")[0] == "tggm"]
                found += [(path, node.lineno, *module.rpartition(".")[::2]) for module in modules]
    return found


def none_of(offenders, rule):
    listed = sorted(set(offenders))
    if listed:
        pytest.fail(f"{rule} ({len(listed)}):\n  " + "\n  ".join(listed), pytrace=False)


def offending(condition):
    """Return the imports for which `condition(package of the file, imported package, rest)` holds."""
    for path, line, module, name in imports():
        _, package, *rest = *module.split("."), name
        if condition(place(path).split("/")[0].removesuffix(".py"), package, rest):
            yield f"{place(path)}:{line} from {module} import {name}"


def test_files_are_not_too_long():
    lines = {place(path): path.read_text().count("\n") for path in FILES}
    none_of((f"{file} has {n} lines" for file, n in lines.items() if n > MOST_LINES), "a file is too long")


def test_imports_go_downwards():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = config["contracts"]
    assert layers["type"] == "layers"
    assert layers["exhaustive"]
    assert layers["containers"] == ["tggm"]
    assert set(layers["ignore_imports"]) == UPWARD
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports; exit(lint_imports())"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_private_names_are_not_imported_by_other_packages():
    def private(here, package, rest):
        return here != package and any(name.startswith("_") for name in (package, *rest))

    none_of(offending(private), "a private name of another package")


def test_packages_above_the_estimators_use_their_public_names():
    public = {alias for path, _, _, alias in imports() if place(path) == "estimators/__init__.py"}

    def inner(here, package, rest):
        return here != package == "estimators" and bool(set(rest[:1]) - public or rest[1:])

    none_of(offending(inner), "a name that tggm.estimators does not export")


def test_models_training_and_predictive_import_no_inference():
    found = offending(lambda here, package, _: here in NO_ENGINE and package == "inference")
    none_of(found, "an import of tggm.inference")


@pytest.mark.parametrize("name", WALKS)
def test_a_call_passes_through_few_files(name):
    command = [sys.executable, ROOT / "tools" / "walk.py", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    words = done.stdout.splitlines()[0].replace(",", "").split()
    found = dict(zip(words[2::2], map(int, words[1::2]), strict=True))
    assert all(found[what] <= most for what, most in WALKS[name].items()), done.stdout


@pytest.mark.parametrize("estimator", [TGGMRegressor, TGGMClassifier])
def test_estimators_have_few_arguments_and_public_names(estimator):
    assert len(inspect.signature(estimator).parameters) <= 28
    assert len([name for name in dir(estimator) if not name.startswith("_")]) <= 30


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git repository")
@pytest.mark.parametrize("pattern", BUDGET)
def test_the_repository_keeps_its_line_budget(pattern):
    listed = subprocess.check_output(["git", "ls-files", "-z", pattern], cwd=ROOT, text=True)
    paths = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).exists()]
    assert sum(path.read_bytes().count(b"\n") for path in paths) <= BUDGET[pattern]
    assert pattern != "src/*.py" or len(paths) <= 150  # files
