"""Kill fits, cut their power, fill their disks, and see that they end as if nothing had happened.

    python -m tools.kill_and_resume --kills 60 --output benchmarks/results/kill_and_resume.json
    python -m tools.kill_and_resume --kills 1000 --jobs 15 --seconds 500

Fits in memory, of classes, of a table, from a stream and of two processes (`tools/kills/fits.py`) write a
checkpoint after every chunk of epochs. A third of the SIGKILLs comes from outside at a random moment. The
others strike at one of the calls that write a file: opening, half of the bytes written, synchronising, the
two renames, synchronising the folder; half of these are power losses, after which the file system has
forgotten what was not synchronised (`tools/kills/disk.py`). Other fits find the disk full at one of these
calls, for a while or for ever. What counts as a loss is in `tools/kills/chain.py`.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tools.kills.chain import STRIKES, Chain
from tools.kills.fits import KINDS


def chain(task):
    """One fit, struck many times; in a process of the pool, on one processor."""
    return Chain(*task).run()


def pin(turns):
    """Give a process of the pool one processor: its children then start no more threads than that."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[turns.get() % len(cores)]})


@contextlib.contextmanager
def new_folder():
    """A folder that ends with the block; `TemporaryDirectory` would end it with any child, too."""
    place = Path(tempfile.mkdtemp())
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run(kills, seed=0, jobs=1, seconds=float("inf"), kinds=KINDS, strikes=STRIKES, show=lambda text: None):
    """Figures of so many kills, or as many as time allows."""
    end = time.monotonic() + seconds
    fork = multiprocessing.get_context("fork")
    turns = fork.SimpleQueue()
    for k in range(jobs):
        turns.put(k)
    found, total = [], 0
    with new_folder() as place, fork.Pool(jobs, pin, (turns,)) as pool:
        (place / "programs").mkdir(mode=0o700)
        tasks = ((kinds[k % len(kinds)], k, seed, place, end, strikes) for k in range(10**6))
        running = []
        while running or (total < kills and time.monotonic() < end):
            while len(running) < jobs and total < kills and time.monotonic() < end:
                running.append(pool.apply_async(chain, (next(tasks),)))
            ready = [one for one in running if one.ready()]
            running = [one for one in running if not one.ready()]
            for one in ready:
                found.append(one.get())
                total += found[-1].kills
                for loss in found[-1].losses:
                    show(loss)
                show(f"{len(found)} fits, {total} kills, {sum(len(r.losses) for r in found)} losses")
            time.sleep(0.02)
    return figures(found)


def figures(found):
    """Sums over all fits, by kind and by step."""
    kinds, steps = Counter(), Counter()
    for record in found:
        kinds[record.kind] += record.kills
        steps.update(record.steps)
    return {
        "kills": sum(record.kills for record in found),
        "of_them_power_losses": sum(record.power_losses for record in found),
        "full_disks": sum(record.full_disks for record in found),
        "kills_by_kind": dict(sorted(kinds.items())),
        "strikes_by_step": dict(sorted(steps.items())),
        "fits": len(found),
        "resumed": sum(record.resumed for record in found),
        "losses": sum(len(record.losses) for record in found),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="fits at the same time, each on one processor")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no more after so many")
    parser.add_argument("--strikes", type=int, default=STRIKES, help="of one fit at most")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    begin = time.monotonic()
    found = run(
        options.kills, options.seed, options.jobs, options.seconds, options.kinds,
        options.strikes, lambda text: print(text, flush=True),
    )  # fmt: skip
    found |= {"jobs": options.jobs, "seconds": round(time.monotonic() - begin)}
    text = json.dumps(found, indent=1) + "\n"
    print(text, end="")
    if options.output is not None:
        options.output.write_text(text)
    return 1 if found["losses"] else 0


if __name__ == "__main__":
    sys.exit(main())
