"""Where the figures of a page come from: the sentence below a table, and the table of all results files."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kept import CHANGES, FILES
from page import ROOT, table

FOLDERS = {"": ROOT / "experiments" / "results", "benchmarks/": ROOT / "benchmarks" / "results"}


class Fact(NamedTuple):
    """What figures were made with."""

    commit: str  # seven digits; a plus says that files had been changed
    machine: str


def entry(path: Path) -> str:
    """The name in FILES under which a results file is listed; the longest that matches."""
    (name,) = [
        before + path.relative_to(folder).as_posix()
        for before, folder in FOLDERS.items()
        if path.is_relative_to(folder)
    ]
    found = [pattern for pattern in FILES if fnmatch(name, pattern)]
    assert found, f"{name} is not listed in experiments/kept.py"
    return max(found, key=len)


def listed() -> dict[str, list[Path]]:
    """All results files, by their names in FILES."""
    found: dict[str, list[Path]] = {name: [] for name in FILES}
    for folder in FOLDERS.values():
        for path in sorted(folder.rglob("*.json")):
            found[entry(path)].append(path)
    return found


def facts(paths: Iterable[Path]) -> list[Fact]:
    """What the files say of themselves."""
    return sorted({fact for path in paths for fact in _facts(json.loads(path.read_text()))})


def _facts(value: Any, machine: str = "") -> Iterator[Fact]:
    """Commit and machine of each run, or of the whole where runs do not say."""
    if not isinstance(value, dict):
        for part in value if isinstance(value, list) else []:
            yield from _facts(part, machine)
        return
    machine = value.get("device", value.get("machine", machine))
    if inner := [fact for part in value.values() for fact in _facts(part, machine)]:
        yield from inner
    elif {"commit", "device", "machine"} & value.keys():
        commit = value.get("commit", "")
        for one in commit if isinstance(commit, list) else commit.split(", "):
            yield Fact(one[:7] + "+" * one.endswith("-dirty"), machine)


def _told(found: list[Fact]) -> str:
    """Commits and machines in words."""
    commits, machines = (sorted({getattr(f, of) for f in found} - {""}) for of in Fact._fields)
    parts = [f"commit {', '.join(commits)}" if commits else "commit not kept"]
    return "; ".join([*parts, *(machines or ["machine not kept"])])


def command(name: str) -> str:
    """What makes the files of an entry."""
    folder, _, file = name.rpartition("/")
    script = re.sub(r"(\*|-gpu)?\.json|_\*\.json", ".py", file)
    return FILES[name].command or f"python {folder or 'experiments'}/{script}"


def line(paths: Iterable[Path]) -> str:
    """What made the files, in one sentence: each command with commits and machines."""
    by_command: dict[str, list[Path]] = {}
    for path in paths:
        by_command.setdefault(command(entry(path)), []).append(path)
    parts = [f"`{made_by}` ({_told(facts(of))})" for made_by, of in by_command.items()]
    return f"Made by {', and by '.join(parts)}."


@cache
def _is_before(commit: str, change: str) -> bool:
    """Whether the history of `change` has this commit; one that is not in the repository is taken for old."""
    git = ["git", "-C", str(ROOT), "merge-base", "--is-ancestor", commit.rstrip("+"), f"{change}~1"]
    return not commit or subprocess.run(git, capture_output=True, check=False).returncode != 1


def changed(name: str, found: list[Fact]) -> str:
    """Commits of CHANGES that came after figures, or after some of them."""
    later = []
    for change in (change for change in CHANGES if change.of in FILES[name].of):
        of = [fact for fact in found if change.machine in fact.machine]
        before = [fact for fact in of if _is_before(fact.commit, change.commit)]
        if before:
            later.append(change.commit + " (some)" * (len(before) < len(found)))
    return ", ".join(later)


def ages() -> str:
    """Every results file: what it shows, its commits, and what has changed since."""
    rows = []
    for name, paths in listed().items():
        found = facts(paths)
        commits = ", ".join(sorted({fact.commit for fact in found} - {""})) or "not kept"
        notes = filter(None, (changed(name, found), FILES[name].note))
        rows.append([f"`{name}`", FILES[name].shows, commits, "; ".join(notes)])
    words = "\n".join(f"- {change.commit}: {change.words}." for change in CHANGES)
    return f"{words}\n\n{table(['file', 'shows', 'commits', 'changed since'], rows)}"
