"""Table 1 of the paper: nine UCI sets, the paper's models and ours, and the columns that it lacks.

    tggm reproduce table1                                # everything; what is stored already is skipped
    tggm reproduce table1 --datasets yacht --splits 5    # one set in minutes
    tggm reproduce table1 --datasets year                # Year Prediction MSD, generated where it is absent

Rows: `relu`, a ReLU network trained by the same loop (TGGM-BP with σ0 = 1e-4, whose activation is within
0.8 σ0 of max(μ, 0)); `paper-bp` and `paper-ml`, the paper's TGGM-BP and TGGM-ML; `single` and `default`, one
network and the ensemble of TGGMRegressor.one_layer(). 50 hidden units, 100 for protein and year. The paper
gives no number of epochs; the first three take 1,000 where there are fewer than 20,000 training rows and 200
elsewhere, and keep the best on held-out rows of the training part (which were still getting better at 100).

The first three are small programs in sequence and run in worker processes, one core each. The other two train
all splits at once on a GPU meanwhile, or one after the other on a CPU afterwards. Results of each split go to
experiments/results/table1/ROW.json as they come; a run that was cut goes on there. Seconds of fits are
without compilation.
"""

import argparse
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
from classify import some
from datasets import load_uci
from ledger import Ledger, Result, origin
from pool import Pool
from sklearn.base import clone
from uci import judge, summary
from year import load_year

from tggm import TGGMRegressor, fit_together

DATASETS = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht")
PAPER, OURS = ("relu", "paper-bp", "paper-ml"), ("single", "default")
ROWS = PAPER + OURS
RELU_SIGMA0 = 1e-4
LARGE = ("protein", "year")  # the paper's two largest: 100 units, batches of 100
FOLDER = Path(__file__).parent / "results" / "table1"


def model_of(row: str, dataset: str, n_train: int, seed: int) -> TGGMRegressor:
    """The model of a row, with the settings of a data set."""
    own: dict[str, Any] = {"hidden": (100,) if dataset in LARGE else (50,), "random_state": seed}
    if row == "default":
        return TGGMRegressor.one_layer(**own)
    if row == "single":
        return TGGMRegressor.one_layer(n_members=1, **own)
    own |= {"max_epochs": 1000 if n_train < 20_000 else 200, "batch_size": 100 if dataset in LARGE else 50}
    own["deep"] = "directed"  # the same for one layer, and what stored results say
    if row == "paper-ml":
        return TGGMRegressor.paper_ml(**own)
    return TGGMRegressor.paper_bp(**own, **({"sigma0": RELU_SIGMA0} if row == "relu" else {}))


class Job(NamedTuple):
    """Splits of one data set to be made for one row, with what their record says of them."""

    row: str
    dataset: str
    splits: tuple[int, ...]
    seed: int
    limit: int | None
    made_with: dict[str, Any]


def data_of(dataset: str, limit: int | None) -> Any:
    return load_year(limit) if dataset == "year" else load_uci(dataset)


def plan(args: argparse.Namespace, books: dict[str, Ledger]) -> list[Job]:
    """What was asked for and is not stored yet."""
    jobs = []
    for dataset in args.datasets:
        data = data_of(dataset, args.rows_limit)
        n_train = len(data.splits[0][0])
        splits = range(min(args.splits, len(data.splits)))
        for row in args.rows:
            if dataset == "year" and row not in OURS:
                continue
            settings = model_of(row, dataset, n_train, args.seed).get_params()
            del settings["random_state"]
            made_with = {"settings": settings, "seed": args.seed, "train_rows": n_train}
            made_with |= {"generated": True} if getattr(data, "generated", False) else {}
            todo = list(splits) if args.force else books[row].missing(dataset, made_with, splits)
            if todo and not args.force and books[row].others(dataset, made_with):
                sys.exit(
                    f"{row} on {dataset} is stored with other settings, another seed or number of rows, and "
                    "would be lost: --out FOLDER puts a trial elsewhere, --force replaces what is stored."
                )
            if todo:
                limit = args.rows_limit if dataset == "year" else None
                jobs.append(Job(row, dataset, tuple(todo), args.seed, limit, made_with))
    return jobs


def make(job: Job, at_once: bool = False) -> tuple[list[Result], float]:
    """Fit and judge the splits of a job; the results, and the seconds that all of it took."""
    begin = time.perf_counter()
    X, y, splits = data_of(job.dataset, job.limit)[:3]
    chosen = [splits[i] for i in job.splits]
    n_train = job.made_with["train_rows"]
    models = [model_of(job.row, job.dataset, n_train, job.seed + i) for i in job.splits]
    fit = _at_once if at_once and len(models) > 1 else _in_turn
    if job.dataset != "year":
        warm_up(job, fit, models, X, y, chosen)
    seconds = fit(models, X, y, [train for train, _ in chosen])
    results = []
    for i, model, (_, test), fit_s in zip(job.splits, models, chosen, seconds, strict=True):
        found = judge(model, X, y, test, fit_s)
        if job.made_with.get("generated"):
            found = {name: found[name] for name in ("fit_s", "predict_s")}
        results.append({"split": i, **found, **origin()})
    return results, time.perf_counter() - begin


_warm: set[tuple[str, str]] = set()


def warm_up(job: Job, fit: Any, models: list[TGGMRegressor], X: Any, y: Any, splits: Any) -> None:
    """Compile what the first job of a row and data set needs in this process, by one epoch of it."""
    if (job.row, job.dataset) not in _warm:
        _warm.add((job.row, job.dataset))
        short = [clone(model).set_params(max_epochs=1) for model in models]
        fit(short, X, y, [train for train, _ in splits])
        judge(short[0], X, y, splits[0][1], 0.0)


def _at_once(models: list[TGGMRegressor], X: Any, y: Any, parts: list[Any]) -> list[float]:
    clock = time.perf_counter()
    fit_together(models, X, y, parts)
    return [(time.perf_counter() - clock) / len(models)] * len(models)


def _in_turn(models: list[TGGMRegressor], X: Any, y: Any, parts: list[Any]) -> list[float]:
    seconds = []
    for model, part in zip(models, parts, strict=True):
        clock = time.perf_counter()
        model.fit(X[part], y[part])
        seconds.append(time.perf_counter() - clock)
    return seconds


def store(books: dict[str, Ledger], job: Job, made: tuple[list[Result], float]) -> None:
    """Write down what a job made, and say so."""
    results, seconds = made
    books[job.row].add(job.dataset, job.made_with, results, seconds)
    for r in results:
        figures = "  ".join(f"{k} {r[k]:9.4f}" for k in ("rmse", "ll", "crps") if k in r)
        print(
            f"{job.row:9s} {job.dataset:9s} split {r['split']:2d}  {figures}  fit {r['fit_s']:.2f} s",
            flush=True,
        )


def by_split(jobs: list[Job]) -> list[Job]:
    """Jobs of one split each, the first splits of all sets first: so workers compile different programs."""
    single = [job._replace(splits=(i,)) for job in jobs for i in job.splits]
    return sorted(single, key=lambda job: (job.splits, -job.made_with["train_rows"]))


def run(jobs: list[Job], books: dict[str, Ledger], workers: int) -> None:
    """Make all jobs; what workers can do, they do while the accelerator does the rest."""
    accelerated = jax.default_backend() != "cpu"
    with Pool(workers) as pool:
        for job in by_split([job for job in jobs if job.row in PAPER]):
            pool.submit(make, job, then=partial(store, books, job))
        if not accelerated:
            pool.wait()
        for job in [job for job in jobs if job.row in OURS]:
            for part in [job] if accelerated else by_split([job]):
                store(books, part, make(part, at_once=accelerated))
        pool.wait()


def show(args: argparse.Namespace, books: dict[str, Ledger]) -> None:
    """Means over splits and their standard errors."""
    print(f"\n{'dataset':10s}{'row':10s}{'n':>3s}" + "".join(f"{m:>19s}" for m in ("rmse", "ll", "crps")))
    for dataset in args.datasets:
        for row in args.rows:
            results = [r for r in books[row].results(dataset) if "rmse" in r]
            if results:
                figures = summary(results)
                cells = "".join(
                    f"{figures[m][0]:11.4f} ± {figures[m][1]:.3f}" for m in ("rmse", "ll", "crps")
                )
                print(f"{dataset:10s}{row:10s}{len(results):3d}{cells}")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="tggm reproduce table1",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--datasets", type=some((*DATASETS, "year")), default=list(DATASETS), metavar="NAME,...")
    p.add_argument("--rows", type=some(ROWS), default=list(ROWS), metavar="NAME,...")
    p.add_argument("--splits", type=int, default=20, help="the first so many of each set")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="worker processes")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--force", action="store_true", help="make again what is stored")
    p.add_argument("--rows-limit", type=int, help="training rows of year, to try it out")
    p.add_argument("--out", type=Path, default=FOLDER, help="folder of the stored results")
    return p.parse_args(words)


def stop(*_: Any) -> None:
    """End at once; what was finished is stored."""
    print("interrupted; what was finished is stored", file=sys.stderr)
    sys.exit(130)


def main() -> None:
    args = arguments()
    for number in (signal.SIGINT, signal.SIGTERM):  # not KeyboardInterrupt: a fit would end early and be kept
        signal.signal(number, stop)
    books = {row: Ledger(args.out / f"{row}.json") for row in args.rows}
    jobs = plan(args, books)
    total = sum(len(job.splits) for job in jobs)
    print(f"{total} fits to make on {origin()['device']}; the rest is stored in {args.out}", flush=True)
    clock = time.perf_counter()
    run(jobs, books, args.jobs)
    show(args, books)
    print(f"{time.perf_counter() - clock:.0f} s")


if __name__ == "__main__":
    main()
