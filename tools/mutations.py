"""Change one line of the package at a time, and check that a test fails.

    python tools/mutations.py [--only WORDS]

Each mutation is made in a temporary copy of `src`, and only its tests run. The tests must pass without it.
Results of all mutations go to benchmarks/results/mutations.json.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "experiments"))
from store import BENCHMARKS, keep  # noqa: E402

FILES, COLUMNS, HOLDOUT = "files/test_model_files.py", "tables/test_columns.py", "estimators/test_holdout.py"
MUTATIONS = (  # file of src/tggm, text, its replacement, file of tests, and words in the names of its tests
    ("storage.py", ".{secrets.token_hex(6)}.tmp", ".tmp", FILES, "two_writers"),
    ("tables/columns.py", "counts[-2] = 1.0", "pass", COLUMNS, "rare_word_has_one_row"),
    ("estimators/_holdout.py", "2 * fewest > count", "fewest > count", HOLDOUT, "half_of_the_rows"),
    ("storage.py", "_many_values(words[end:], MOST_MARKS)", "False", FILES, "before_the_arrays"),
    ("formulas.py", "xp.log1p(xp.maximum(far, 0.0))", "xp.maximum(far, 0.0)",
     "models/test_features.py", "bounded_inputs"),
    ("predictive/calibration.py", "effect * (self.optimism - 1)", "self.optimism - 1",
     "predictive/test_calibration.py", "repeated_rows"),
    ("predictive/conformal.py", "(count + 1) * level", "count * level",
     "predictive/test_conformal.py", "rank or fewest"),
    ("predictive/neighbors.py", "share * kappa / (1 +", "share * kappa / (0 +",
     "predictive/test_neighbors.py", "weights"),
    ("predictive/support.py", "values <= lower, -np.inf", "values < lower, -np.inf",
     "predictive/test_support.py", "cells"),
    ("predictive/gaussian_mixture.py", "+ 2 * np.exp(", "+ np.exp(",
     "predictive/test_gaussian_mixture.py", "one_member"),
    ("training/rows.py", "max(-(-ENOUGH_HELD // count), 2)", "max(-(-ENOUGH_HELD // count), 1)",
     "training/test_rows.py", "groups_of_members"),
    ("estimators/_holdout.py", "units = rows if groups is None else", "units = rows if True else",
     HOLDOUT, "sets_whole_groups"),
    ("tables/text.py", "int(found[1]) > 12", "int(found[1]) > 13", "tables/test_text.py", "which_number"),
    ("cli/files.py", 'f"{path} was written", before', 'f"{path} was written", True',
     "cli/test_interrupts.py", "whole"),
    ("cli/__init__.py", "CommandError() | ModelFileError() |", "CommandError() |",
     "cli/test_errors.py", "of_users"),
)  # fmt: skip


def fails(source: Path, tests: str, words: str) -> bool:
    """Return whether one of these tests fails with the package at `source`."""
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", f"tests/{tests}", "-k", words]
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # no such test, for example
        sys.exit(done.stdout + done.stderr)
    return done.returncode == 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="part of the name of a file")
    options, results = parser.parse_args(), []
    for file, old, new, tests, words in MUTATIONS:
        if options.only not in file:
            continue
        with tempfile.TemporaryDirectory() as name:
            source = Path(shutil.copytree(ROOT / "src", Path(name, "src")))
            text = (source / "tggm" / file).read_text()
            if text.count(old) != 1:
                sys.exit(f"{file} has {text.count(old)} times {old!r}")
            (source / "tggm" / file).write_text(text.replace(old, new))
            killed = fails(source, tests, words)
        results.append({"file": file, "text": old, "replaced": new, "tests": tests, "killed": killed})
        print("killed" if killed else "SURVIVED", file, repr(new), flush=True)
    if not options.only:
        keep(BENCHMARKS / "mutations.json", results)
    return 0 if all(result["killed"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
