"""Code blocks of the documentation run and print the outputs shown on the page.

Pages fit models and run in `make test-all`; `make test` checks arguments, and test_api.py imports.
"""

import ast
import warnings

import pytest

from tests.docs.blocks import ROOT, blocks, differences, run_page
from tggm import TGGMClassifier, TGGMRegressor
from tggm.paper import PaperClassifier, PaperRegressor

PAGES = sorted((ROOT / "docs").glob("*.md"))  # tests/test_repository.py runs the README
WITH_CODE = [p for p in PAGES if any(b.kind in ("python", "sh") for b in blocks(p.read_text()))]


@pytest.mark.slow  # the README's code: tests/test_repository.py
@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: path.stem)
def test_the_code_of_a_page_runs_and_prints_its_outputs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = run_page(path.name, path.read_text())
    pairs = [(b.line, differences(printed, after.text)) for b, printed, after in results if after is not None]
    assert not [(line, lines) for line, lines in pairs if lines]


@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: path.stem)
def test_the_code_of_a_page_uses_arguments_that_exist(path):
    trees = [ast.parse(block.text) for block in blocks(path.read_text()) if block.kind == "python"]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    for kind in (TGGMRegressor, TGGMClassifier, PaperRegressor, PaperClassifier):
        calls = [n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") == kind.__name__]
        assert {word.arg for call in calls for word in call.keywords} <= {*kind().get_params()}


def test_outputs_are_compared_by_words_and_numbers():
    assert differences("a 1.00\nb 2\n", "a 1.1\nb 2\n") == []
    assert differences("a 1.0\n", "a 2.0\n") == ["'a 1.0' instead of 'a 2.0'"]
    assert differences("a 1.0\n", "b 1.0\n")
    assert differences("a\nb\nc\nd\n", "a\n…\nd\n") == []
    assert differences("a\nb\nc\nd\n", "a\n…\ne\n")


def test_the_error_of_a_block_names_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "# Page\n\n```python\nx = 1\n```\n\n```python\nx / 0\n```\n"
    with pytest.raises(AssertionError, match=r"p\.md, line 7: ZeroDivisionError"):
        run_page("p.md", page)
    with pytest.raises(AssertionError, match="unknown command: rm"):
        run_page("p.md", "```sh\nrm -r x\n```\n")
