"""Pages show the stored figures, and say what made them, at which commit and on which machine."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import origins
from kept import CHANGES, FILES
from page import ROOT, sources

from experiments import render  # benchmarks/ has another one

HISTORY = ["git", "-C", str(ROOT), "cat-file", "-e", CHANGES[0].commit]
without_history = subprocess.run(HISTORY, capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize("name", render.PAGES)
def test_a_page_shows_the_stored_figures(name, monkeypatch):
    page = (ROOT / "docs" / name).read_text()
    if without_history:  # a copy without it cannot tell which change came after which figure
        blocks = {k: make for k, make in render.PAGES[name].items() if k != "ages"}
        monkeypatch.setitem(render.PAGES, name, blocks)
    assert render.rendered(page, name) == page, f"run: python experiments/render.py ({name})"


def test_every_block_of_stored_figures_says_what_made_them():
    blocks = [make for page in render.PAGES.values() for make in page.values() if make is not origins.ages]
    for make in blocks:
        with sources() as files:
            make()
        text = render.with_origin(make)
        assert not files or re.search(r"Made by `[^`]+`.*[0-9a-f]{7}", text), text


def test_every_results_file_is_listed_and_every_entry_has_files():
    assert all(origins.listed().values())


def test_every_change_is_a_commit_that_figures_are_told_of():
    assert {change.of for change in CHANGES} == {kind for kept in FILES.values() for kind in kept.of}


def test_a_run_knows_its_commit_better_than_its_file(tmp_path):
    path = tmp_path / "results.json"
    runs = {"a": {"commit": "1234567890", "device": "cpu"}, "b": {"commit": "abcdefg-dirty"}}
    path.write_text(json.dumps({"commit": "fffffff", "device": "gpu", "runs": runs}))
    assert origins.facts([path]) == [("1234567", "cpu"), ("abcdefg+", "gpu")]
    path.write_text(json.dumps({"commit": ["1111111", "2222222"], "machine": "x", "runs": [1, 2]}))
    assert origins.facts([path]) == [("1111111", "x"), ("2222222", "x")]
    path.write_text(json.dumps([{"rmse": 1.0}]))
    assert origins.facts([path]) == []


@pytest.mark.skipif(without_history, reason="a copy without the history of the repository")
def test_later_changes_are_told_of_figures_made_before_them():
    first, later = CHANGES[0].commit, "28742a0"
    assert origins._is_before(f"{first}~1", first)
    assert not origins._is_before(first, first)
    assert not origins._is_before(later, first)
    old, new = origins.Fact(f"{first}~1", ""), origins.Fact(later, "")
    assert origins.changed("exceptions.json", [old]) == first
    assert origins.changed("exceptions.json", [old, new]) == f"{first} (some)"
    assert origins.changed("exceptions.json", [new]) == ""
