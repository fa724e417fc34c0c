"""Table 2 of the paper: digits, newsgroups and blogs, one and two hidden layers, four ways to train.

    TGGM_DATA=... python experiments/table2.py --validate --models relu,tggm-bp,tggm-ml
    TGGM_DATA=... python experiments/table2.py --models linear,relu,tggm-bp,tggm-ml,default --again
    TGGM_DATA=... python experiments/table2.py --force --jobs 8
    TGGM_DATA=... python experiments/table2.py --data blogs --models tggm-bp --limit 500 --epochs 2

The paper's models choose their step size, and text the scale of its rows, on training rows that they do not
see: `--validate` tries `--learning-rates` at the smaller size of each kind, 10,000 images or a sixth of the
documents held out, and notes the most accurate choice in rates.json (two layers keep the scale of one layer).
Without it test rows are judged, with what is noted. Every figure is stored as soon as it is known, in
DATA_MODEL.json under experiments/results/table2; what is there already, with the same settings, is not
computed again. With `--limit` or `--epochs` nothing is stored unless `--out` says where. Several processes
may run at once; `--jobs` starts so many, one for each cell of the table, which share the device: runs say so,
since their seconds are not those of a device of their own.
"""

import argparse
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from classify import many, merits, some
from deep import SETTINGS, Problem, digits, documents, layers
from ledger import origin
from sklearn.linear_model import LogisticRegression
from text import STRENGTHS as TEXT_STRENGTHS

from tggm import TGGMClassifier
from tggm.paper import PaperClassifier

RESULTS = Path(__file__).parent / "results" / "table2"
DATA = ("mnist", "news", "blogs")
MODELS = ("linear", "relu", "tggm-bp", "tggm-ml", "default")
HIDDEN = ("100", "200", "100-100", "200-200")
CHOICES = ("learning_rate", "standardize")  # what is chosen on training rows, and
SMALLER = {"shallow": "100", "deep": "100-100"}  # at which size

# What the estimator's defaults do not say, chosen on training rows: see experiments/deep.py, and text.py for
# the ensemble.
OURS: dict[str, dict[str, Any]] = {
    "mnist": {**SETTINGS["mnist"], "dropout": 0.2},
    "news": {**SETTINGS["news"], "n_members": 10},
    "blogs": {**SETTINGS["blogs"], "n_members": 10},
}
# The paper gives batches, variances, cycles and initial weights. Epochs are ours: enough for most to have
# their best one, which is kept, before the end.
PAPER: dict[str, dict[str, Any]] = {
    "mnist": {"batch_size": 500, "max_epochs": 60},
    "news": {"batch_size": 200, "max_epochs": 60},
    "blogs": {"batch_size": 200, "max_epochs": 150},
}
UNDIRECTED = {"mnist": 20, "news": 20, "blogs": 40}  # epochs where even E[z | x] needs inference: slow
LONGER = {("mnist", "tggm-bp", "200-200"): 60}
# Mean field is solved to its optimum, which the paper's cycles approach: see experiments/estep.py.
NEWTON = {"solver": "newton", "prior": "same"}
# Pixels as one column were the better choice on training rows; unit rows of text are taken as they are, or
# multiplied so that a word's mean square is 1.
SCALES: dict[str, list[Any]] = {"mnist": ["whole"], "news": [True, False], "blogs": [True, False]}
RELU = {"sigma0": 1e-4, "batch_size": 100, "deep": "directed"}  # the paper's batches for its ReLU networks
STRENGTHS = {"mnist": (0.01, 0.03, 0.1, 0.3), "news": TEXT_STRENGTHS, "blogs": TEXT_STRENGTHS}


def kind_of(hidden: str) -> str:
    """One hidden layer or several."""
    return "deep" if "-" in hidden else "shallow"


def settings_of(data: str, model: str, hidden: str) -> dict[str, Any]:
    """Return the settings that differ from the estimator's defaults, without size and seed."""
    if model == "default":
        return dict(OURS[data])
    epochs = LONGER.get((data, model, hidden), UNDIRECTED[data])
    deep = {"max_epochs": epochs} if kind_of(hidden) == "deep" else {"deep": "directed"}
    if model == "tggm-ml":
        estimator = TGGMClassifier.paper_ml(**{**PAPER[data], **deep, **NEWTON})
    else:
        estimator = TGGMClassifier.paper_bp(**{**PAPER[data], **(RELU if model == "relu" else deep)})
    usual = PaperClassifier().get_params()
    changed = {name: value for name, value in estimator.get_params().items() if value != usual[name]}
    return {"method": estimator.method, **changed}


@cache
def problem(data: str, validate: bool) -> Problem:
    """Rows to learn from and rows to judge by, the same in every experiment."""
    args = Namespace(validate=validate)
    return digits(args) if data == "mnist" else documents(data, args)


def fitted(estimator: Any, part: Problem, args: Namespace, *, again: bool) -> dict[str, Any]:
    """Figures of one fit; `again` fits once more, to time it without compilation."""
    X, y = part.X[: args.limit], part.y[: args.limit]
    seconds = []
    for _ in range(2 if again else 1):
        clock = time.perf_counter()
        estimator.fit(X, y)
        seconds.append(time.perf_counter() - clock)
    row = {"fit_s": seconds[0], "again_s": seconds[1] if again else None}
    clock = time.perf_counter()
    probability = estimator.predict_proba(part.X_test)
    return row | {"predict_s": time.perf_counter() - clock} | merits(probability, part.y_test)


def network(hidden: str, seed: int, settings: dict[str, Any], args: Namespace) -> Any:
    """Return the estimator of one cell; settings of the paper's models name a method."""
    quick = {"max_epochs": args.epochs} if args.epochs else {}
    make = PaperClassifier if "method" in settings else TGGMClassifier.one_layer
    return make(hidden=layers(hidden), random_state=seed, **{**settings, **quick})


def told(estimator: Any) -> dict[str, Any]:
    """What training says about itself."""
    return {
        "best_epoch": float(np.mean(estimator.best_epoch_)),
        "epochs": estimator.n_iter_,
        "undone": int(estimator.undone_.sum()),
        "converged": bool(estimator.converged_),
    }


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else changes the files of this folder meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read(path: Path) -> dict[str, Any]:
    """Entries of a file, none where there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def keep(path: Path | None, key: str, same: dict[str, Any], run: dict[str, Any], by: Sequence[str]) -> None:
    """Add a run to the entry of that key, in the place of one with the same values of `by`.

    The entry starts anew where it was made with other settings. Other processes may have added runs
    meanwhile; and whenever this one may end, the file is whole.
    """
    if path is None:
        return
    with locked(path.parent):
        record = read(path)
        there = known(path, key, same).get("runs", [])
        others = [old for old in there if any(old[name] != run[name] for name in by)]
        record[key] = {**same, "runs": [*others, run]}
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(record, indent=1) + "\n")
        temporary.replace(path)


def known(path: Path | None, key: str, same: dict[str, Any]) -> dict[str, Any]:
    """The entry of that key if it was made with these settings, else nothing."""
    entry = read(path).get(key, {}) if path else {}
    same = json.loads(json.dumps(same))  # tuples are lists in a file
    return entry if all(entry.get(name) == value for name, value in same.items()) else {}


def show(data: str, model: str, hidden: str, row: dict[str, Any], note: str = "") -> None:
    """A line for one fit."""
    again = f"{row['again_s']:8.1f}" if row["again_s"] else 8 * " "
    print(
        f"{data:6s} {model:8s} {hidden:>8s}  acc {row['accuracy']:6.2f}  bal {row['balanced']:6.2f}"
        f"  NLL {row['nll']:.4f}  ECE {row['ece']:.4f}  fit {row['fit_s']:8.1f} s{again}  {note}",
        flush=True,
    )


def chosen(data: str, model: str, kind: str, out: Path | None) -> dict[str, Any]:
    """The most accurate of the step sizes and scales that `choose` tried."""
    key = f"{data} {model} {kind}"
    noted = (read(folder / "rates.json").get(key, {}).get("runs") for folder in (out, RESULTS) if folder)
    tried = next((runs for runs in noted if runs), [])
    best: dict[str, Any] = max(tried, key=lambda run: run["accuracy"], default={})
    return {name: best[name] for name in CHOICES if best}


def test(data: str, model: str, hidden: str, args: Namespace, out: Path | None) -> None:
    """Figures on the test rows for each seed."""
    path = out and out / f"{data}_{model}.json"
    settings = settings_of(data, model, hidden)
    if model != "default":
        noted = chosen(data, model, kind_of(hidden), out)
        if not noted:
            print(f"no step size was chosen for {model} on {data}, so 0.001: see --validate", flush=True)
        settings |= noted or {"learning_rate": 1e-3, "standardize": SCALES[data][0]}
    same = {"settings": settings, "limit": args.limit, "epochs": args.epochs}
    there = [] if args.force else [run["seed"] for run in known(path, hidden, same).get("runs", [])]
    for seed in [seed for seed in range(args.seeds) if seed not in there]:
        estimator = network(hidden, seed, settings, args)
        row = fitted(estimator, problem(data, False), args, again=args.again and seed == 0)
        shared = {"jobs": args.sharing} if args.sharing > 1 else {}
        run = {"seed": seed, **row, **told(estimator), **shared, **origin()}
        show(data, model, hidden, run, f"best epoch {run['best_epoch']:.0f}")
        keep(path, hidden, same, run, ["seed"])


def choose(data: str, model: str, kind: str, args: Namespace, out: Path | None) -> None:
    """Try step sizes and scales on rows held out of training, at the smaller size of the kind."""
    path, key, hidden = out and out / "rates.json", f"{data} {model} {kind}", SMALLER[kind]
    settings = settings_of(data, model, hidden)
    settings.pop("learning_rate", None)
    same = {"settings": settings, "hidden": hidden, "limit": args.limit, "epochs": args.epochs}
    runs = [] if args.force else known(path, key, same).get("runs", [])
    there = [{name: run[name] for name in CHOICES} for run in runs]
    shallow = chosen(data, model, "shallow", out) if kind == "deep" else {}
    scales = [shallow["standardize"]] if shallow else SCALES[data]
    for rate, scale in itertools.product(args.learning_rates, scales):
        trial = dict(zip(CHOICES, (rate, scale), strict=True))
        if trial in there:
            continue
        estimator = network(hidden, 0, {**settings, **trial}, args)
        row = fitted(estimator, problem(data, True), args, again=False)
        run = {**trial, **row, **told(estimator), **origin()}
        words = f"{rate:g} {scale}, best epoch {run['best_epoch']:.0f}, held-out rows"
        show(data, model, hidden, run, words)
        keep(path, key, same, run, CHOICES)


def linear(data: str, args: Namespace, out: Path | None) -> None:
    """Logistic regression, its strength chosen on rows held out of training by their log-probability."""
    path = out and out / f"{data}_linear.json"
    same = {"settings": {"strengths": STRENGTHS[data]}, "limit": args.limit, "epochs": 0}
    if known(path, "none", same) and not args.force:
        return
    tried = {
        C: fitted(LogisticRegression(C=C, max_iter=1000), problem(data, True), args, again=False)["nll"]
        for C in STRENGTHS[data]
    }
    best = min(tried, key=lambda C: tried[C])
    row = fitted(LogisticRegression(C=best, max_iter=1000), problem(data, False), args, again=False)
    show(data, "linear", "none", row, f"strength {best:g}")
    keep(path, "none", same, {"seed": 0, **row, "strength": best, **origin(), "device": "cpu"}, ["seed"])


def sizes(text: str) -> list[str]:
    """A command-line type: numbers of units as 100,200-200."""
    for part in text.split(","):
        if not all(number.isdigit() and int(number) for number in part.split("-")):
            raise argparse.ArgumentTypeError(f"{part!r} is no size like 100 or 100-100")
    return text.split(",")


def at_once(args: Namespace) -> int:
    """Run each cell in a process of its own, `--jobs` at a time, two layers and many units first."""
    cells = list(itertools.product(args.hidden[::-1], [m for m in args.models if m != "linear"], args.data))
    cells += [
        (args.hidden[0], model, data) for model in args.models if model == "linear" for data in args.data
    ]
    given = [word for word in ("--validate", "--again", "--force") if getattr(args, word[2:])]
    given += ["--seeds", str(args.seeds), "--epochs", str(args.epochs), "--sharing", str(args.jobs)]
    given += ["--learning-rates", ",".join(map(str, args.learning_rates))]
    given += [f"--limit={args.limit}"] if args.limit else []
    given += [f"--out={args.out}"] if args.out else []
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

    def one(cell: tuple[str, str, str]) -> int:
        hidden, model, data = cell
        what = ["--data", data, "--models", model, "--hidden", hidden]
        return subprocess.run([sys.executable, __file__, *what, *given], env=environment).returncode

    with ThreadPoolExecutor(args.jobs) as pool:
        return max(map(abs, pool.map(one, cells)))


def stop(*_: Any) -> None:
    """End at once, even amid a computation; what was finished is stored."""
    print("interrupted; what was finished is stored", file=sys.stderr, flush=True)
    os._exit(130)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=some(DATA), default=list(DATA))
    p.add_argument("--models", type=some(MODELS), default=list(MODELS))
    p.add_argument("--hidden", type=sizes, default=list(HIDDEN))
    p.add_argument("--seeds", type=int, default=1, help="repetitions with other seeds")
    p.add_argument(
        "--validate", action="store_true", help="choose steps and scales; no test row is looked at"
    )
    p.add_argument("--learning-rates", type=many(float), default=[3e-4, 1e-3, 3e-3])
    p.add_argument("--again", action="store_true", help="fit twice, to time it without compilation")
    p.add_argument("--force", action="store_true", help="compute what is stored already once more")
    p.add_argument("--limit", type=int, default=None, help="use only the first so many training rows")
    p.add_argument("--epochs", type=int, default=0, help="0 for the setting of the data set")
    p.add_argument("--out", type=Path, default=None, help="folder of the figures")
    p.add_argument("--jobs", type=int, default=1, help="so many cells at once, each in its own process")
    p.add_argument("--sharing", type=int, default=1, help=argparse.SUPPRESS)  # processes on the device
    args = p.parse_args()
    if args.jobs > 1:
        sys.exit(at_once(args))
    for number in (signal.SIGINT, signal.SIGTERM):  # not KeyboardInterrupt: a fit would end early and be kept
        signal.signal(number, stop)
    out = args.out or (None if args.limit or args.epochs else RESULTS)
    for data in args.data:
        for model in args.models:
            if model == "linear":
                _ = args.validate or linear(data, args, out)
            elif not args.validate:
                for hidden in args.hidden:
                    test(data, model, hidden, args, out)
            elif model != "default":
                for kind in sorted({kind_of(hidden) for hidden in args.hidden}, reverse=True):
                    choose(data, model, kind, args, out)


if __name__ == "__main__":
    main()
