"""Every code block of the documentation runs, and prints what the page says it prints.

Pages fit models, so they run in `make test-all` only; `make test` reads their code and looks up names.
"""

import ast
import importlib
import warnings

import pytest

from tests.docs.blocks import ROOT, blocks, differences, run_page
from tggm import TGGMClassifier, TGGMRegressor

PAGES = sorted((ROOT / "docs").glob("*.md"))  # the README is run by tests/test_repository.py
WITH_CODE = [p for p in PAGES if any(b.kind in ("python", "sh") for b in blocks(p.read_text()))]


@pytest.mark.slow  # the README's code: tests/test_repository.py
@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: path.stem)
def test_the_code_of_a_page_runs_and_prints_what_it_says(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = run_page(path.name, path.read_text())
    wrong = {
        f"{path.name}:{block.line}": differences(printed, after.text)
        for block, printed, after in results
        if after is not None
    }
    assert not {place: lines for place, lines in wrong.items() if lines}


def parsed(path):
    return [ast.parse(block.text) for block in blocks(path.read_text()) if block.kind == "python"]


@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: path.stem)
def test_the_code_of_a_page_can_be_read(path):
    """What it takes from the package is there, and so are the settings that it gives to estimators."""
    nodes = [node for tree in parsed(path) for node in ast.walk(tree)]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("tggm"):
            module = importlib.import_module(node.module)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []
    for kind in (TGGMRegressor, TGGMClassifier):
        known = {*kind().get_params(), None}  # None: **settings
        calls = [n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") == kind.__name__]
        assert {word.arg for call in calls for word in call.keywords} <= known


def test_the_comparison_notices_words_and_numbers():
    assert differences("a 1.00\nb 2\n", "a 1.1\nb 2\n") == []
    assert differences("a 1.0\n", "a 2.0\n") == ["'a 1.0' instead of 'a 2.0'"]
    assert differences("a 1.0\n", "b 1.0\n")
    assert differences("[1.  2.5]", "[1.1 2.4]") == []
    assert differences("a\nb\nc\nd\n", "a\n…\nd\n") == []
    assert differences("a\nb\nc\nd\n", "a\n…\ne\n")


def test_a_failing_block_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "# Page\n\n```python\nx = 1\n```\n\n```python\nx / 0\n```\n"
    with pytest.raises(AssertionError, match=r"p\.md, line 7: ZeroDivisionError"):
        run_page("p.md", page)
    with pytest.raises(AssertionError, match="no test knows how to run: rm"):
        run_page("p.md", "```sh\nrm -r x\n```\n")
