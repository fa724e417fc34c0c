"""Changed model files by the hundred thousand: each is refused at once, or predicts numbers quickly.

    python -m tools.fuzz_model_files --files 100000 --output benchmarks/results/fuzz.json
    python -m tools.fuzz_model_files --files 2000000 --kinds structure --jobs 15 --seconds 500

Files of every kind of model (`tools/fuzz/originals.py`) are changed in two ways (`tools/fuzz/mutations.py`).
*Bytes*: no such file may load. *Structure*, with a right checksum, as somebody who means harm would make it:
values, shapes, swaps, splices, descriptions of arrays, settings. Such a file is refused within 0.05 seconds
of the processor, or it loads, and then each prediction is finite and takes less than a second, compilation
apart. Anything else is a violation; so is an allocation beyond a small multiple of the file's size (traced in
one file of twenty). A thousand files that take more than an hour end the run.
"""

import argparse
import faulthandler
import json
import multiprocessing
import os
import random
import sys
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

from tools.fuzz.mutations import changed_contents, damaged_bytes
from tools.fuzz.originals import originals
from tools.fuzz.verdict import verdict

MAKE = (("bytes", damaged_bytes), ("structure", changed_contents))
KINDS = tuple(kind for kind, _ in MAKE)
PATIENCE = 3600  # seconds


def changed(number, seed, files):
    """A file by its number: which way it was changed, and its content."""
    kind, make = MAKE[number % 2]
    return kind, make(random.Random(f"{seed} {number}"), files)


def run(
    files, seed=0, show=lambda text: None, share=(1, 1), predicts=True, seconds=float("inf"), kinds=KINDS
):
    """Figures of a run over files 0, 1, … or every so many pairs of them, as far as time allows."""
    end = time.monotonic() + seconds
    sound = list(originals().values())
    turn = share[0] % len(sound)  # each process compiles other programs first, and finds the rest compiled
    assert all(verdict(content, True, predicts) == "loaded" for content in sound[turn:] + sound[:turn])
    counts, violations = Counter(), []
    ours = range(share[0] - 1, files // 2, share[1])
    for done, k in enumerate(2 * pair + KINDS.index(kind) for pair in ours for kind in kinds):
        if time.monotonic() > end:
            break
        kind, content = changed(k, seed, sound)
        if content in sound:
            continue
        found = verdict(content, traced=k % 20 < 2, predicts=predicts)
        counts[f"{kind} {found}" if found in ("refused", "loaded") else f"{kind} violations"] += 1
        if found not in ("refused", "loaded") or (kind, found) == ("bytes", "loaded"):
            violations.append(f"file {k} of seed {seed}, {kind}: {found}")
            show(violations[-1])
        if done % 1000 == 0:
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            show(f"{done} files, {len(violations)} violations")
    faulthandler.cancel_dump_traceback_later()
    return figures(seed, counts, violations)


def figures(seed, counts, violations):
    """What became of so many files."""
    return {
        "seed": seed,
        "files": sum(counts.values()),
        **dict(sorted(counts.items())),
        "violations": len(violations),
        "found": violations,
    }


def one_of(jobs, options, number):
    """The share of one process, on one processor of its own."""
    warnings.simplefilter("ignore")  # a model that was not fitted may say that it did not converge
    cores = sorted(os.sched_getaffinity(0))
    if jobs > 1:
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    first, of = map(int, options.share.split("/"))
    share = (first + of * number, of * jobs)
    show = partial(print, f"{number}:", flush=True)
    return run(options.files, options.seed, show, share, True, options.seconds, options.kinds)


def together(parts):
    """Figures of several runs as of one."""
    counts = Counter()
    for part in parts:
        counts.update({name: n for name, n in part.items() if name.startswith(KINDS)})
    return figures(parts[0]["seed"], counts, [text for part in parts for text in part["found"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=100_000, help="half of them by bytes, half by structure")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", default="1/1", help="which part of the files: 3/8 is the third of eight")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each on one processor")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    begin = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        parts = pool.map(partial(one_of, options.jobs, options), range(options.jobs), chunksize=1)
    found = together(parts) | {"jobs": options.jobs, "seconds": round(time.monotonic() - begin)}
    text = json.dumps({"model_files": found}, indent=1) + "\n"
    print(text, end="")
    if options.output is not None:
        options.output.write_text(text)
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
