"""Walks through the package: what is counted, and that the walk of `fit` stays short."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
MOST = {"files": 50, "changes": 154}  # of the default regressor's `fit`, as it is today


@pytest.fixture
def walk(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    yield __import__("walk")
    sys.modules.pop("walk", None)


def test_first_visits_are_counted(walk, tmp_path):
    (tmp_path / "one.py").write_text("def f(g):\n    g()\n    g()\n    return h()\ndef h():\n    return 0\n")
    (tmp_path / "two.py").write_text("def g():\n    return [k for k in ()]\n")
    one, two = {}, {}
    for names in (one, two):
        path = tmp_path / ("one.py" if names is one else "two.py")
        exec(compile(path.read_text(), str(path), "exec"), names)
    visits = walk.traced(lambda: one["f"](two["g"]), tmp_path)
    named = [visit for visit in visits if "<" not in visit[1]]  # comprehensions are inlined since Python 3.12
    assert named == [("one.py", "f"), ("two.py", "g"), ("one.py", "h")]
    assert walk.counts(named) == {"files": 2, "functions": 3, "changes": 2}
    assert walk.page("w", named).splitlines()[1:] == ["   1  one.py  (2)", "   2  two.py  (1)"]


def test_a_failing_call_leaves_no_trace_function(walk, tmp_path):
    before = sys.gettrace()
    with pytest.raises(ZeroDivisionError):
        walk.traced(lambda: 1 / 0, tmp_path)
    assert sys.gettrace() is before


def test_fit_is_a_short_walk():
    command = [sys.executable, TOOLS / "walk.py", "regressor"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    words = done.stdout.splitlines()[0].replace(",", "").split()
    found = dict(zip(words[2::2], map(int, words[1::2]), strict=True))
    assert all(found[what] <= most for what, most in MOST.items()), done.stdout
