"""A few damaged model files; `make fuzz` tries many."""

import random

from tools.fuzz_model_files import changed_contents, originals, run, verdict


def test_damaged_files_are_rejected_or_predict_finite_numbers():
    counts, violations = run(40)
    assert violations == []
    assert counts["bytes refused"] > 10
    assert counts["contents refused"] > 5


def test_undamaged_files_load_and_changes_keep_the_checksum_correct():
    files = originals()
    content, rows = files["regressor"]
    assert verdict(content, rows) == "loaded"
    changed = [changed_contents(random.Random(k), content, content) for k in range(20)]
    assert any(verdict(found, rows) == "loaded" for found in changed if found != content)
