"""Changed model files by the hundred thousand: each is refused at once, or predicts numbers quickly.

    python -m tools.fuzz_model_files --files 100000 --output benchmarks/results/fuzz.json
    python -m tools.fuzz_model_files --files 2000000 --share 1/8        # 10⁶ of structure, in eight runs

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
import random
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

from tools.fuzz.mutations import changed_contents, damaged_bytes
from tools.fuzz.originals import originals
from tools.fuzz.verdict import verdict

MAKE = (("bytes", damaged_bytes), ("structure", changed_contents))
PATIENCE = 3600  # seconds


def changed(number, seed, files):
    """A file by its number: which way it was changed, and its content."""
    kind, make = MAKE[number % 2]
    return kind, make(random.Random(f"{seed} {number}"), files)


def run(files, seed=0, show=lambda text: None, share=(1, 1), predicts=True, seconds=float("inf")):
    """Figures of a run over files 0, 1, … or every so many of them, as far as time allows."""
    end = time.monotonic() + seconds
    sound = list(originals().values())
    assert all(verdict(content, True, predicts) == "loaded" for content in sound)
    counts, violations = Counter(), []
    for k in range(share[0] - 1, files, share[1]):
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
        if k % 1000 < share[1]:
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            show(f"{k} files, {len(violations)} violations")
    faulthandler.cancel_dump_traceback_later()
    return {
        "seed": seed,
        "files": sum(counts.values()),
        **dict(sorted(counts.items())),
        "violations": len(violations),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", default="1/1", help="which part of the files: 3/8 is the third of eight")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a model that was not fitted may say that it did not converge
    begin = time.perf_counter()
    share = tuple(map(int, options.share.split("/")))
    figures = run(
        options.files, options.seed, lambda text: print(text, flush=True), share, True, 60 * options.minutes
    )
    figures["seconds"] = round(time.perf_counter() - begin, 1)
    text = json.dumps({"model_files": figures}, indent=1) + "\n"
    print(text, end="")
    if options.output is not None:
        options.output.write_text(text)
    return 1 if figures["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
