"""Compare libraries on data frames with words, dates and gaps, which they get without preprocessing.

    TGGM_DATA=... python experiments/raw_tables.py [--tables titanic,towns] [--models tggm,catboost]

The tables are `RAW_TABLES` of experiments/tables.py: six CSV files as pandas reads them (without titanic's
column `alive`, which repeats the target), and four generated ones: `towns` has a column of 2,000 words,
`sales` has codes of products and a later test part, `medical` has "<LOD" and informative gaps, `rare` has a
rare class. Every library has its defaults; "catboost-early" holds out a fifth of the rows to stop, and has
its own variance for each row. Results go to experiments/results/raw_tables.json.
"""

from typing import Any

from defaults import fit_and_score
from opponents import FRAMES, OPPONENTS, installed
from opponents import fit_and_score as fit_opponent
from store import RESULTS, complete, options, some

from tables import RAW_TABLES, SPLITS

MODELS = ("tggm", *(model for model in FRAMES if model not in ("catboost-ll", "hgb")))


def work(table: str, model: str, split: int) -> dict[str, Any]:
    """Fit and score one model on one split, whose number is also the seed."""
    known = RAW_TABLES[table]
    if model == "tggm":
        return fit_and_score(known.raw(split), known.task, random_state=split)
    return fit_opponent(model, known.raw(split), known.task, split)


def main() -> None:
    p = options(__doc__)
    p.add_argument("--tables", type=some(tuple(RAW_TABLES)), default=list(RAW_TABLES), metavar="NAME,...")
    p.add_argument("--models", type=some(MODELS), default=list(MODELS), metavar="NAME,...")
    p.add_argument("--splits", type=int, default=SPLITS, choices=range(1, SPLITS + 1))
    args = p.parse_args()
    models = [m for m in args.models if m == "tggm"] + installed([m for m in args.models if m != "tggm"])
    tasks = [
        (table, model, k)
        for k in range(args.splits)
        for table in args.tables
        for model in models
        if model == "tggm" or getattr(OPPONENTS[model], RAW_TABLES[table].task) is not None
    ]
    out = args.out or RESULTS / "raw_tables.json"
    complete(out, ("table", "model", "split"), work, tasks, jobs=args.jobs, force=args.force)


if __name__ == "__main__":
    main()
