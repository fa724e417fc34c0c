"""Compare training settings on inner hold-outs of the training parts of the UCI splits, never on test rows.

Every split, ensemble member and setting of the grid is trained at once by vmap:

    python experiments/tune.py --datasets boston,yacht --splits 20 --members 10 --epochs 1000 \
        --batch 100 --learning-rate 3e-3,1e-2,3e-2 --weight-decay 1e-3,1e-2

A comma gives alternatives; their product is the grid. For each setting it prints the mean over splits of the
log-likelihood and RMSE of the ensemble (mixture of Gaussians with each member's exact moments) on the inner
hold-out, in the target's units, and writes everything to experiments/results/tune.json.
"""

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from datasets import load_uci
from networks import drawn
from scipy.special import logsumexp

from tggm.models import Architecture, Model
from tggm.products import full_precision
from tggm.training import METHODS, Options, Rows, train
from tggm.training.engine import Inference
from tggm.training.layout import Layout
from tggm.training.rows import Blocks, RowBlock, Scaling, hold_out, membership
from tggm.training.state import Plan, hyper_parameters

HEADER = (
    "dataset   batch epochs     lr      wd sigma0  init   avg  val |"
    "       LL     ±   (member)     RMSE     ±   best      s"
)
LINE = (
    "{dataset:9s} {batch:5d} {epochs:6d} {learning_rate:6.0e} {weight_decay:7.0e} {sigma0:6.2g}"
    " {init_scale:5.2g} {average:5.3g} {validation:4.2g} |"
    " {ll:8.4f} {ll_se:6.4f} ({ll_member:8.4f}) {rmse:8.4f} {rmse_se:6.4f}"
    " {best_epoch:5.2f} {seconds:6.1f}"
)


class Setting(NamedTuple):
    """One point of the grid; all of these may differ between members of one compiled program."""

    learning_rate: float
    weight_decay: float
    sigma0: float
    init_scale: float
    average: float
    validation: float


def scaling_of(X: np.ndarray, y: np.ndarray, dtype: Any) -> Scaling:
    """Standardise by these rows; constant columns are only centred."""
    scale = np.where(np.ptp(X, axis=0) > 0, X.std(0), 1.0)
    scale = np.where(np.ptp(X, axis=0) > 1e-10 * np.abs(X).max(0), scale, 1.0)
    return Scaling(*(np.asarray(v, dtype) for v in (X.mean(0), scale, [y.mean()], [y.std()])))


def run(name: str, batch: int, grid: list[Setting], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Train the whole grid on one data set and report each setting."""
    X, y, benchmark = load_uci(name)
    splits = [train_rows for train_rows, _ in benchmark[: args.splits]]  # test rows are not looked at
    d, m, K, dtype = X.shape[1], args.hidden, args.members, np.float32
    rng = np.random.default_rng(args.seed)
    picks = [hold_out(rng, rows, args.inner) for rows in splits]  # (rows to fit on, rows to judge by)
    # shift the whole table first, so that float32 keeps the digits that vary
    X, y = (X - X.mean(0)) / np.maximum(np.abs(X - X.mean(0)).max(0), 1e-300), y
    centre, spread = y.mean(), y.std()
    y = (y - centre) / spread
    parts, scalings, params, member = [], [], [], []
    for setting in grid:
        for rows, _ in picks:
            scaling = scaling_of(X[rows], y[rows], dtype)
            for _ in range(K):
                parts.append(hold_out(rng, rows, setting.validation))
                scalings.append(scaling)
                start = {"s0": setting.sigma0**2, "noise": args.noise or 0.5, "init": args.init}
                params.append(drawn(rng, Architecture(d, (m,), 1), setting.init_scale, **start))
                member.append(setting)

    def stack(items: list[Any]) -> Any:
        return jax.tree.map(lambda *leaves: np.stack(leaves).astype(dtype), *items)

    columns = {f: np.array([getattr(s, f) for s in member]) for f in Setting._fields}
    members = membership(parts)
    steps_per_epoch = -(-int(members.n_train.max()) // batch)
    epochs = -(-args.steps // steps_per_epoch) if args.steps else args.epochs
    fixed = () if args.noise is None else ("likelihood.log_noise",)
    hyper = hyper_parameters(
        len(member),
        Layout.of(params[0]).rates(["hidden.s0", *fixed]),
        dtype,
        learning_rate=columns["learning_rate"],
        weight_decay=columns["weight_decay"],
        average=columns["average"],
        clip=args.clip,
        total_steps=epochs * steps_per_epoch,
    )
    data, view = Rows(X.astype(dtype), y[:, None].astype(dtype)), stack(scalings)
    plan = Plan(Layout.of(params[0]), batch, args.chunk, args.optimizer, args.schedule, max(args.average) > 0)
    clock = time.perf_counter()
    fit = train(
        plan, METHODS[args.method](Options()), stack(params),
        Blocks.of(RowBlock(members, jax.device_put(data), np.ones(len(y), dtype))), hyper,
        max_epochs=epochs, seed=args.seed, view=view,
    )  # fmt: skip
    seconds = time.perf_counter() - clock

    judge = np.stack([np.resize(held, max(len(h) for _, h in picks)) for _, held in picks])
    index = np.tile(np.repeat(judge, K, axis=0), (len(grid), 1))
    with jax.default_matmul_precision("highest"):
        mean, var = _moments(fit.params, data, index, view)
    shape = (len(grid), len(picks), K, judge.shape[1])
    mean, var = np.asarray(mean, np.float64).reshape(shape), np.asarray(var, np.float64).reshape(shape)
    target = y[judge][None, :, None, :]
    density = -0.5 * ((target - mean) ** 2 / var + np.log(2 * np.pi * var)) - np.log(spread)
    mixed = (logsumexp(density, axis=2) - np.log(K)).mean(-1)  # (grid, splits)
    single = density.mean((2, 3))
    rmse = spread * np.sqrt(((target[:, :, 0] - mean.mean(2)) ** 2).mean(-1))
    best = fit.best_epoch.reshape(shape[:3]) / epochs
    rows = []
    for i, setting in enumerate(grid):
        rows.append(
            {
                "dataset": name, "method": args.method, "batch": batch, "epochs": epochs, "hidden": m,
                "members": K, "splits": len(picks), **setting._asdict(),
                "ll": mixed[i].mean(), "ll_se": mixed[i].std() / np.sqrt(len(picks)),
                "ll_member": single[i].mean(),
                "rmse": rmse[i].mean(), "rmse_se": rmse[i].std() / np.sqrt(len(picks)),
                "best_epoch": best[i].mean(), "undone": int(fit.undone.sum()), "seconds": seconds,
            }
        )  # fmt: skip
    return rows


@jax.jit
@full_precision
def _moments(members: Model, data: Rows, index: np.ndarray, view: Scaling) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of y for each member on its rows, on the scale of the table."""

    def one(model: Model, i: jax.Array, scaling: Scaling) -> tuple[jax.Array, jax.Array]:
        rows = scaling(Rows(data.X[i], data.y[i]))
        mean, var = model.likelihood.variances(model.latent(rows.X, Inference("ep")))
        return mean[:, 0] * scaling.y_scale + scaling.y_shift, var[:, 0] * scaling.y_scale**2

    return jax.vmap(one)(members, index, view)


def main() -> None:
    def many(convert: type) -> Any:
        return lambda text: [convert(part) for part in text.split(",")]

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--datasets", type=many(str), default=["boston", "concrete", "energy", "yacht"])
    p.add_argument("--splits", type=int, default=20)
    p.add_argument("--members", type=int, default=10)
    p.add_argument("--hidden", type=int, default=50)
    p.add_argument("--method", default="moments", choices=sorted(METHODS))
    p.add_argument("--optimizer", default="adam")
    p.add_argument("--schedule", default="cosine")
    p.add_argument("--init", default="scaled")
    p.add_argument("--epochs", type=int, default=1000)
    p.add_argument("--steps", type=int, default=0, help="number of gradient steps, instead of --epochs")
    p.add_argument("--batch", type=many(int), default=[100])
    p.add_argument("--learning-rate", type=many(float), default=[1e-2])
    p.add_argument("--weight-decay", type=many(float), default=[1e-2])
    p.add_argument("--sigma0", type=many(float), default=[1.0])
    p.add_argument("--init-scale", type=many(float), default=[1.0])
    p.add_argument("--average", type=many(float), default=[0.0])
    p.add_argument("--validation", type=many(float), default=[0.1])
    p.add_argument(
        "--noise", type=float, help="hold the output noise at this variance instead of learning it"
    )
    p.add_argument("--clip", type=float, default=10.0)
    p.add_argument("--inner", type=float, default=0.1, help="part of the training rows that judges a setting")
    p.add_argument("--chunk", type=int, default=500)
    p.add_argument("--grid", type=int, default=0, help="settings trained at once; 0 for all")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", type=Path, default=Path("experiments/results/tune.json"))
    args = p.parse_args()
    axes = [
        args.learning_rate,
        args.weight_decay,
        args.sigma0,
        args.init_scale,
        args.average,
        args.validation,
    ]
    grid = [Setting(*point) for point in itertools.product(*axes)]
    at_once = args.grid or len(grid)
    everything: list[dict[str, Any]] = []
    print(HEADER)
    for name, batch in itertools.product(args.datasets, args.batch):
        for i in range(0, len(grid), at_once):
            for r in run(name, batch, grid[i : i + at_once], args):
                everything.append(r)
                print(LINE.format(**r), flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
