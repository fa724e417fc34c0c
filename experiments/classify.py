"""What the classification experiments share: figures of merit, opponents, and a grid trained all at once."""

import argparse
import itertools
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from networks import drawn

from tggm.models import Architecture, Model
from tggm.models.likelihoods import LIKELIHOODS
from tggm.special.probit import log_probit_all
from tggm.training import METHODS, Options, Rows, train
from tggm.training.engine import Inference
from tggm.training.layout import Layout
from tggm.training.rows import Blocks, RowBlock, membership
from tggm.training.state import Plan, hyper_parameters

HEADER = (
    f"{'model':26s} {'hidden':>6s}   {'acc %':>6s} {'bal %':>6s} {'NLL':>7s} {'ECE':>7s}"
    f" {'fit s':>7s} {'again s':>7s}"
)
LINE = (
    "{model:26s} {hidden:6d}   {accuracy:6.2f} {balanced:6.2f} {nll:7.4f} {ece:7.4f}"
    " {fit_s:7.2f} {again_s:7.2f}"
)
GRID_HEADER = (
    "method    hidden batch epochs     lr      wd sigma0  init   avg |"
    "  acc %    NLL    ECE | train: obj     NLL | best-LL  best     s"
)
GRID_LINE = (
    "{method:9s} {hidden:6d} {batch:5d} {epochs:6d} {learning_rate:6.0e} {weight_decay:7.0e} {sigma0:6.2g}"
    " {init_scale:5.2g} {average:5.3g} |"
    " {accuracy:6.2f} {nll:6.4f} {ece:6.4f} | {train:10.4f} {train_nll:7.4f} |"
    " {held_best:7.4f} {best_epoch:5.0f} {seconds:5.1f}"
)


def merits(probability: np.ndarray, label: np.ndarray, bins: int = 15) -> dict[str, float]:
    """Accuracy and balanced accuracy (percent), mean negative log-probability, expected calibration error.

    The error is the mean over rows of |confidence − accuracy| of the row's bin of confidence, `bins` of equal
    width on [0, 1].
    """
    picked = probability[np.arange(len(label)), label]
    guess = probability.argmax(1)
    right = guess == label
    confidence = probability.max(1)
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    gap = [abs((confidence - right)[which == b].sum()) for b in range(bins)]
    recall = [right[label == c].mean() for c in np.unique(label)]
    return {
        "accuracy": 100 * float(right.mean()),
        "balanced": 100 * float(np.mean(recall)),
        "nll": float(-np.log(np.maximum(picked, 1e-300)).mean()),
        "ece": float(sum(gap) / len(label)),
    }


def judge(
    name: str, hidden: int, model: Any, train: Any, test: Any, *, again: bool = False
) -> dict[str, Any]:
    """Fit on one part and measure on the other; `again` fits once more, to time it without compilation."""
    clock = time.perf_counter()
    model.fit(*train)
    fit_s = time.perf_counter() - clock
    again_s = float("nan")
    if again:
        clock = time.perf_counter()
        model.fit(*train)
        again_s = time.perf_counter() - clock
    row = {"model": name, "hidden": hidden, "fit_s": fit_s, "again_s": again_s}
    return row | merits(model.predict_proba(test[0]), test[1])


class Setting(NamedTuple):
    """One point of a grid; all of these may differ between members of one compiled program."""

    learning_rate: float
    weight_decay: float
    sigma0: float
    init_scale: float
    average: float


def grid_of(args: Any) -> list[Setting]:
    """The product of the alternatives given on the command line."""
    return [Setting(*p) for p in itertools.product(*(getattr(args, name) for name in Setting._fields))]


def tune(
    X: Any, label: np.ndarray, n_validation: int, grid: list[Setting], args: Any
) -> list[dict[str, Any]]:
    """Train every setting at once on the first rows, judge it on the last `n_validation`.

    `X` is a float32 matrix or `SparseRows`, in random order. Members of a setting (`args.members`) are judged
    as a mixture.
    """
    rng = np.random.default_rng(args.seed)
    rows, K = len(label), args.members
    keep, held = np.arange(rows - n_validation), np.arange(rows - n_validation, rows)
    member = [setting for setting in grid for _ in range(K)]
    sizes = Architecture(args.columns, (args.hidden[0],), int(label.max()) + 1, "probit")
    draw = [drawn(rng, sizes, s.init_scale, s0=s.sigma0**2, init=args.init) for s in member]
    params = jax.tree.map(lambda *leaves: np.stack(leaves).astype(np.float32), *draw)
    part = (keep.astype(np.int32), held[: args.monitor].astype(np.int32))
    members = membership([part] * len(member))
    columns = {f: np.array([getattr(s, f) for s in member], np.float32) for f in Setting._fields}
    steps = -(-len(keep) // args.batch)
    layout = Layout.of(params, axes=1)
    hyper = hyper_parameters(
        len(member), layout.rates(["hidden.s0"]), np.float32,
        learning_rate=columns["learning_rate"], weight_decay=columns["weight_decay"],
        average=columns["average"], clip=args.clip, total_steps=args.epochs * steps,
    )  # fmt: skip
    plan = Plan(layout, args.batch, 64, args.optimizer, args.schedule, bool(columns["average"].max() > 0))
    data = jax.device_put(Rows(X, label.astype(np.int32)))
    blocks = Blocks.of(RowBlock(members, data, np.ones(rows, np.float32)))
    clock = time.perf_counter()
    fit = train(plan, _method(args), params, blocks, hyper, max_epochs=args.epochs, seed=args.seed)
    seconds = time.perf_counter() - clock
    last = plan.layout.split_members(np.asarray(fit.state.average))
    result = []
    judged, seen = (jax.tree.map(lambda a, rows=rows: a[rows], data.X) for rows in (held, keep[: len(held)]))
    for i, setting in enumerate(grid):
        chosen = slice(i * K, (i + 1) * K)
        probability = [
            np.asarray(_probabilities(jax.tree.map(lambda a, k=k: a[k], last), judged))
            for k in range(chosen.start, chosen.stop)
        ]
        first = jax.tree.map(lambda a, k=chosen.start: a[k], last)
        fitted = np.asarray(_probabilities(first, seen), np.float64)
        row = {"method": args.method, "hidden": args.hidden[0], "batch": args.batch, "epochs": args.epochs,
               "members": K, **setting._asdict(), "seconds": seconds,
               "best_epoch": float(fit.best_epoch[chosen].mean() + 1),
               "undone": int(fit.undone[chosen].sum()),
               "held_best": float(np.asarray(fit.state.best_score)[chosen].mean()),
               "train": float(fit.train[chosen, -1].mean()),  # how far the objective is from what it bounds:
               "train_nll": merits(fitted, label[keep[: len(held)]])["nll"]}  # fmt: skip
        result.append(row | merits(np.mean(probability, axis=0).astype(np.float64), label[held]))
    return result


def _method(args: Any) -> Any:
    cycles = int(args.cycles[0]), int(args.cycles[-1])
    return METHODS[args.method](Options(args.solver, cycles, factorised=args.factorised))


@jax.jit
def _probabilities(model: Model, X: Any) -> jax.Array:
    with jax.default_matmul_precision("highest"):
        mean, std = model.likelihood.scores(model.latent(X, Inference("ep")))
        return jax.numpy.exp(log_probit_all(mean, std))


def many(convert: type) -> Any:
    """A command-line type: alternatives separated by commas."""
    return lambda text: [convert(part) for part in text.split(",")]


def some(known: Sequence[str]) -> Any:
    """A command-line type: some of these names, separated by commas."""

    def names(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return text.split(",")

    return names


def add_grid_options(p: Any, **defaults: Any) -> None:
    """Options of `tune`, the same for every experiment."""
    known = [name for name, make in METHODS.items() if make(Options()).needs in LIKELIHOODS["probit"].offers]
    p.add_argument(
        "--grid", action="store_true", help="compare settings on a validation part of the training rows"
    )
    p.add_argument("--learning-rate", type=many(float), default=defaults.get("learning_rate", [3e-3]))
    p.add_argument("--weight-decay", type=many(float), default=defaults.get("weight_decay", [1.0]))
    p.add_argument("--sigma0", type=many(float), default=defaults.get("sigma0", [1.0]))
    p.add_argument("--init-scale", type=many(float), default=[1.0])
    p.add_argument("--average", type=many(float), default=[0.0])
    p.add_argument("--epochs", type=int, default=defaults.get("epochs", 60))
    p.add_argument("--batch", type=int, default=defaults.get("batch", 500))
    p.add_argument("--method", default="moments", choices=sorted(known))
    p.add_argument("--factorised", action="store_true", help="meanfield with the supplement's q(z)")
    p.add_argument("--solver", default="newton", choices=["newton", "cyclic"])
    p.add_argument("--cycles", type=many(float), default=[30.0, 5.0], help="of the cyclic solver: first,last")
    p.add_argument("--init", default="scaled")
    p.add_argument("--optimizer", default="adam")
    p.add_argument("--schedule", default="cosine")
    p.add_argument("--clip", type=float, default=10.0)
    p.add_argument("--at-once", type=int, default=0, help="settings trained at once; 0 for all")
    p.add_argument("--monitor", type=int, default=10_000, help="validation rows scored in each epoch")


def run_grid(X: Any, label: np.ndarray, n_validation: int, args: Any, out: Path) -> None:
    """Print one line for each setting and write them all."""
    grid = grid_of(args)
    at_once = args.at_once or len(grid)
    rows: list[dict[str, Any]] = []
    print(GRID_HEADER)
    for begin in range(0, len(grid), at_once):
        for row in tune(X, label, n_validation, grid[begin : begin + at_once], args):
            rows.append(row)
            print(GRID_LINE.format(**row), flush=True)
    write(out, {"settings": {k: str(v) for k, v in vars(args).items()}, "runs": rows})


def write(path: Path, record: dict[str, Any]) -> None:
    """Figures with the commit that made them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_made(record), indent=1))


def add(path: Path, record: dict[str, Any]) -> None:
    """Figures beside those that the file has of other settings, in the place of those of the same."""
    known = json.loads(path.read_text()) if path.exists() else []
    record = _made(record)
    others = [old for old in known if _key(old) != _key(record)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([*others, record], indent=1))


def _made(record: dict[str, Any]) -> dict[str, Any]:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    commit = os.environ.get("TGGM_COMMIT", found.stdout.strip())  # for a copy without its history
    return {"commit": commit, "device": str(jax.devices()[0].device_kind), **record}


def _key(record: dict[str, Any]) -> str:
    """Settings, seed and what was fitted."""
    fitted = [(run["model"], run["hidden"]) for run in record["runs"][:1]]
    return json.dumps([record["settings"], record["seed"], fitted], sort_keys=True)
