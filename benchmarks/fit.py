"""Measure first and second fits on six tables, beside other libraries with their default settings.

    TGGM_DATA=... python benchmarks/fit.py [--tables concrete,ames] [--learners tggm,catboost]

Each case runs in its own process on one core: two fits to the first split of the arena and predictions of its
test rows. The first fit also compiles, without stored programs. Memory is the largest resident memory of the
process. Results go to benchmarks/results/fit.json.
"""

import os
import sys
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from learners import LEARNERS, installed
from store import BENCHMARKS, ONE_CORE, Run, complete, options, some

TABLES = ("concrete", "power", "protein", "kin40k", "ames", "adult")
OPPONENTS = ("tggm", "catboost", "catboost-early", "lightgbm", "ngboost", "hgb")
TOO_SLOW = [("ngboost", table) for table in ("protein", "kin40k", "adult")]


def fits(learner: str, table: str) -> Run:
    """Fit twice in this process; return the figures of the second fit, and the CPU seconds of the first."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from arena import resident, work

    first, second = (work(learner, table, 0) for _ in range(2))
    if "failed" in second:
        return second
    return {**second, "first_cpu_s": first["cpu_s"], "memory_MiB": resident("VmHWM")}


def fresh(learner: str, table: str) -> Run:
    """Run one case in a new process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(fits, (learner, table))


def main() -> None:
    p = options(__doc__)
    p.add_argument("--tables", type=some(TABLES), default=TABLES, metavar="NAME,...")
    p.add_argument("--learners", type=some(tuple(LEARNERS)), default=OPPONENTS, metavar="NAME,...")
    args = p.parse_args()
    os.environ |= {**ONE_CORE, "TGGM_COMPILATION_CACHE": "off"}
    names = installed(list(args.learners))
    tasks = [(name, table) for table in args.tables for name in names if (name, table) not in TOO_SLOW]
    sys.argv[1:] = []  # the record names the command that makes all of its runs
    complete(BENCHMARKS / "fit.json", ("learner", "table"), fresh, tasks, force=args.force)


if __name__ == "__main__":
    main()
