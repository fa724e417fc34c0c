"""The paper's tables and figures, and ours beside them, made again: `tggm reproduce NAME` in a clone.

    python experiments/reproduce.py table1 --datasets yacht --splits 5

What follows the name goes to that experiment's script.
"""

import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
EXPERIMENTS = {
    "table1": "regression on nine UCI sets",
    "table2": "classification of digits, newsgroups and blogs",
    "figure1": "the activation g(μ, σ)",
    "figure2": "test error against σ0²",
    "gap": "bounds against the exact likelihood during training",
    "estep": "error of the E-step against its cycles",
    "calibration": "calibration curves",
    "claims": "what the paper's text claims, tested",
}


def main(words: list[str]) -> int:
    """Run the experiment that the first word names with the others, or list all; the exit code."""
    if not words:
        for known, what in EXPERIMENTS.items():
            print(f"tggm reproduce {known:12s} {what}")
        return 0
    name, *options = words
    if name not in EXPERIMENTS:
        sys.exit(f"there is no experiment {name!r}; known are {', '.join(EXPERIMENTS)}")
    code = run(FOLDER / f"{name}.py", options)
    if code == 0 and not {"-h", "--help"} & set(options):
        images = FOLDER.parent / "docs" / "images"
        print(f"what it found is in {FOLDER / 'results'}, its figures in {images}", file=sys.stderr)
    return code


def run(path: Path, options: list[str]) -> int:
    """Run a script as if Python had been called with it; its exit code."""
    before = sys.argv, list(sys.path)
    sys.argv, sys.path[0:0] = [str(path), *options], [str(path.parent)]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return exit_code(end.code)
    except KeyboardInterrupt:
        print("tggm: interrupted; what was finished is kept", file=sys.stderr)
        return 130
    finally:
        sys.argv, sys.path[:] = before
    return 0


def exit_code(code: object) -> int:
    """What the shell would make of the argument of `sys.exit`."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
