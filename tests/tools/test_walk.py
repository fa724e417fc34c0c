"""Walks through the package: what is counted; tests/test_architecture.py limits the counts."""

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


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
    named = [visit for visit in visits if "<" not in visit[1]]  # Python 3.12 inlines comprehensions
    assert named == [("one.py", "f"), ("two.py", "g"), ("one.py", "h")]
    assert walk.counts(named) == {"files": 2, "functions": 3, "changes": 2}
    assert walk.page("w", named).splitlines()[1:] == ["   1  one.py  (2)", "   2  two.py  (1)"]


def test_calls_during_an_import_do_not_count(walk, tmp_path, monkeypatch):
    (tmp_path / "late_walked.py").write_text(
        "def made(cls):\n    return cls\n@made\nclass A:\n    x = made(0)\ndef f():\n    return made(A)\n"
    )
    (tmp_path / "walked.py").write_text(
        "def start():\n    class B:\n        y = 0\n    from late_walked import f\n    return f()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    start = __import__("walked").start
    try:
        visits = walk.traced(start, tmp_path)
    finally:
        for name in ("walked", "late_walked"):
            sys.modules.pop(name, None)
    assert visits == [("walked.py", "start"), ("late_walked.py", "f"), ("late_walked.py", "made")]


def test_a_failing_call_leaves_no_trace_function(walk, tmp_path):
    before = sys.gettrace()
    with pytest.raises(ZeroDivisionError):
        walk.traced(lambda: 1 / 0, tmp_path)
    assert sys.gettrace() is before
