"""The rules that keep the package in shape, read from its source; docs/architecture.md has the picture.

Every test collects offenders as "file:line what", so that its failure says what to change.
"""

import ast
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tggm"
FILES = sorted(SOURCE.rglob("*.py"))

LONG = {
    "estimators/regressor.py",
    "estimators/classifier.py",
}  # constructors with their documentation
MOST_LINES = 300

# nouns for what a module knows, not adjectives, gerunds or drawers
BANNED = {
    *("alone", "contents", "forked", "helpers", "intact", "joining", "judging", "misc", "passes", "pieces"),
    *("shares", "spread", "starting", "together", "utils"),
}

MODEL = {"model", "estimator", "params", "hidden", "likelihood", "features", "source"}
KINDS = {
    "predict_proba",
    "predict_dist",
    "predict_interval",
    "classes_",
    "noise_",
}  # what tells estimators apart
ANYBODY = {"feature_names_in_", "n_features_in_"}  # of every scikit-learn estimator: not a question of kind

NAMED_TUPLE = {
    "_replace",
    "_asdict",
    "_fields",
    "_make",
    "_field_defaults",
}  # public all the same
REACHES = {  # attributes of others that have no public name, and why they are needed
    ("data", "_mmap"): "NumPy tells only there whether an array lies in a file",
    ("os", "_exit"): "ends a forked process without its parent's clean-up",
}

DATA = {"Censored"}  # kinds of data, which arguments may be
# what models may use of tggm.special: moments of their units, and the probabilities of a limit and of a class
UNIT_MOMENTS = {
    "truncated_mean", "truncated_var", "truncated_third", "standard_moments", "moments", "edge_moments",
}  # fmt: skip
PROBABILITIES = {"log_ndtr", "log_probit"}


def place(path):
    return path.relative_to(SOURCE).as_posix()


@cache
def tree(path):
    return ast.parse(path.read_text())


def nodes(*kinds, outside=()):
    """Pairs (file, node) of these kinds in all files but those of some packages."""
    for path in FILES:
        if not place(path).startswith(tuple(f"{package}/" for package in outside)):
            for node in ast.walk(tree(path)):
                if isinstance(node, kinds):
                    yield place(path), node


def calls(name, outside=()):
    for file, node in nodes(ast.Call, outside=outside):
        if isinstance(node.func, ast.Name) and node.func.id == name:
            yield file, node


def names_in(node):
    """All names and attributes in an expression."""
    found = (getattr(part, "id", None) or getattr(part, "attr", None) for part in ast.walk(node))
    return {name for name in found if name}


def last_name(node):
    return getattr(node, "id", None) or getattr(node, "attr", None)


def classes_of(package):
    kinds = (path for path in FILES if place(path).startswith(f"{package}/"))
    return {node.name for path in kinds for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)}


def none_of(offenders, rule):
    listed = sorted(set(offenders))
    if listed:
        pytest.fail(f"{rule} ({len(listed)} offenders):\n  " + "\n  ".join(listed), pytrace=False)


def shown(file, node):
    return f"{file}:{node.lineno} {ast.unparse(node)[:90]}"


@pytest.mark.parametrize("package", ["models", "estimators"])
def test_nobody_asks_for_the_class_of_a_model_or_an_estimator(package):
    classes = {name for name in classes_of(package) if not name.endswith("Error")} - DATA
    found = (
        shown(file, call)
        for file, call in calls("isinstance", outside=["models", package])
        if names_in(call.args[1]) & classes
    )
    none_of(found, f"isinstance with a class of tggm.{package}: ask for a capability instead")


def test_nobody_asks_what_a_model_or_an_estimator_has():
    found = []
    for word in ("hasattr", "getattr"):
        for file, call in calls(word, outside=["models"]):
            if word == "getattr" and len(call.args) < 3:
                continue
            attribute = getattr(call.args[1], "value", None)
            asks_kind = attribute in KINDS and last_name(call.args[0]) != "self"
            of_model = last_name(call.args[0]) in MODEL and attribute not in ANYBODY
            if asks_kind or of_model:
                found.append(shown(file, call))
    none_of(found, "hasattr, or getattr with a default, on a model or an estimator: ask for a capability")


def alternatives(annotation):
    """Names in a union: of ``Any | None`` both, of ``dict[str, Any]`` none."""
    if isinstance(annotation, ast.BinOp):
        return alternatives(annotation.left) | alternatives(annotation.right)
    return {last_name(annotation)}


def test_no_model_is_typed_any():
    found = []
    for file, node in nodes(ast.FunctionDef, ast.Lambda):
        for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if arg.arg in MODEL and "Any" in alternatives(arg.annotation):
                found.append(f"{file}:{node.lineno} {node.name}({arg.arg}: {ast.unparse(arg.annotation)})")
    none_of(found, "a parameter for a model, an estimator or parameters typed Any: name the type")


def test_no_private_name_is_imported():
    found = (
        f"{file}:{node.lineno} from {node.module} import {alias.name}"
        for file, node in nodes(ast.ImportFrom)
        for alias in node.names
        if alias.name.startswith("_")
    )
    none_of(found, "a private name imported from another module, ours or not")


def own_names(path):
    """Private names that a module defines itself: functions, classes, fields, and what it assigns to self."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", None) in ("self", "cls"):
            found |= {node.attr} if isinstance(node.ctx, ast.Store) else set()
    return found


def test_nobody_reaches_into_another_module():
    found = []
    for path in FILES:
        own = own_names(path) | NAMED_TUPLE
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Attribute) or not re.match("_[^_]", node.attr) or node.attr in own:
                continue
            holder = last_name(node.value)
            of_super = isinstance(node.value, ast.Call) and last_name(node.value.func) == "super"
            excused = {(holder, node.attr), (path.stem, node.attr)} & set(REACHES)
            if holder not in ("self", "cls") and not of_super and not excused:
                found.append(shown(place(path), node))
    none_of(found, "a private attribute of another module's object")


def test_models_know_no_engine():
    found = []
    for path in FILES:
        for node in ast.walk(tree(path)) if place(path).startswith("models/") else ():
            if isinstance(node, ast.ImportFrom):
                module, names = node.module or "", {alias.name for alias in node.names}
            elif isinstance(node, ast.Import):
                module, names = " ".join(alias.name for alias in node.names), set()
            else:
                continue
            special = "tggm.special" in module and not (names and names <= UNIT_MOMENTS | PROBABILITIES)
            if (
                "tggm.inference" in module
                or special
                or (module == "tggm" and names & {"inference", "special"})
            ):
                found.append(f"{place(path)}:{node.lineno} {ast.unparse(node)}")
    none_of(found, "tggm.models imports an engine, or more of tggm.special than moments and probabilities")


def test_class_names_are_unique():
    places = defaultdict(list)
    for file, node in nodes(ast.ClassDef):
        places[node.name].append(file)
    found = (f"{name}: {', '.join(files)}" for name, files in places.items() if len(files) > 1)
    none_of(found, "a class name that exists more than once")


def test_type_names_are_defined_once():
    places = defaultdict(list)
    for path in FILES:
        for node in tree(path).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if re.fullmatch("_?[A-Z][a-z]+[A-Za-z]*", name) and isinstance(node.value, ast.Subscript):
                    places[name].append(place(path))
    found = (f"{name}: {', '.join(files)}" for name, files in places.items() if len(files) > 1)
    none_of(found, "the name of a type defined more than once")


def test_classes_are_abstract_or_final():
    """What another class of the package is derived from is an ABC, a Protocol, a tuple or an error."""
    bases = {
        node.name: {last_name(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases}
        for _, node in nodes(ast.ClassDef)
    }
    interfaces = {"ABC", "Protocol", "NamedTuple", "Exception", "ValueError", "RuntimeError", "TypeError"}

    def is_interface(name):
        return bool(bases[name] & interfaces) or any(is_interface(b) for b in bases[name] & set(bases))

    parents = set().union(*bases.values()) & set(bases)
    none_of((name for name in parents if not is_interface(name)), "a base class that is no ABC or Protocol")


def test_there_is_one_table_of_methods():
    tables = []
    for path in FILES:
        for node in tree(path).body:
            targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            tables += [
                f"{place(path)} {name}" for t in targets if (name := last_name(t) or "").endswith("METHODS")
            ]
    assert len(tables) <= 1, "more than one table of methods:\n  " + "\n  ".join(tables)


def test_files_are_short():
    lines = {place(path): path.read_text().count("\n") for path in FILES}
    found = (f"{file} has {n} lines" for file, n in lines.items() if n > MOST_LINES and file not in LONG)
    none_of(found, f"a file of more than {MOST_LINES} lines")


def test_modules_are_named_by_nouns():
    found = (place(path) for path in FILES if {path.stem, *path.relative_to(SOURCE).parts[:-1]} & BANNED)
    none_of(found, "a module whose name does not say what it knows")


def test_overrides_keep_their_signatures():
    lines = (
        f"{place(path)}:{number} {line.strip()[:80]}"
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"ignore\[[^]]*override", line)
    )
    none_of(lines, "an override with another signature")


def test_every_module_has_its_layer():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [contract for contract in config["contracts"] if contract["type"] == "layers"]
    assert layers["exhaustive"], "the contract of import-linter must be exhaustive"
    assert layers["containers"] == ["tggm"], "`exhaustive` acts on modules of a container only"
    named = set(re.findall(r"\w+", " ".join([*layers["layers"], *layers.get("exhaustive_ignores", [])])))
    modules = {
        path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    none_of(modules - named - {"__init__"}, "a module without a layer in pyproject.toml")
