"""Draw a picture for each example of docs/examples.md, from the final variables of its notebook.

    python tools/example_pictures.py [NAME ...]

Writes docs/images/example_NAME.png, and docs/images/targets.png for docs/targets.md.
"""

import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from notebooks import ROOT, from_script
from scipy.stats import skewnorm

from tggm import TGGMRegressor

IMAGES = ROOT / "docs" / "images"
BLUE, ORANGE, GREY = "#1f4e9e", "#d9721a", "#8a8a8a"


def variables(name: str) -> SimpleNamespace:
    """Return the variables after the code of a notebook."""
    found: dict[str, Any] = {}
    for cell in from_script((ROOT / "examples" / f"{name}.py").read_text()):
        if cell.kind == "code":
            exec(cell.text, found)
    return SimpleNamespace(**{key: value for key, value in found.items() if not key.startswith("__")})


def skew_normal(ax: Any, v: SimpleNamespace) -> None:
    y = np.linspace(-3, 4, 141)
    found = v.graph.log_likelihood({"y": y})
    ax.plot(y, np.exp(found.value), color=BLUE, label="the model")
    ax.plot(
        y[::7], skewnorm.pdf(y[::7], 0.5 * np.sqrt(2), 0, np.sqrt(0.75)), "o", color=ORANGE, label="SciPy"
    )
    ax.set(xlabel="y", ylabel="density")


def shallow_regression(ax: Any, v: SimpleNamespace) -> None:
    grid = np.linspace(-3, 3, 61)
    mean, var = (m[:, 0] for m in v.graph.moments({"x": grid[:, None]}, engine="ep")["y"])
    ax.plot(v.x[:, 0], v.y, ".", color=GREY, markersize=3, label="rows")
    _band(ax, grid, mean, var, BLUE, "predicted, ± 2 deviations")
    ax.set(xlabel="x", ylabel="y")


def deep_undirected(ax: Any, v: SimpleNamespace) -> None:
    ends = [v.truth.min(), v.truth.max()]
    ax.plot(ends, ends, color=GREY, label="exact")
    ax.plot(v.truth, v.mean, ".", color=BLUE, markersize=4, label="rows")
    ax.set(xlabel="truth", ylabel="predicted mean")


def censored_regression(ax: Any, v: SimpleNamespace) -> None:
    seen = v.side == 0
    ax.plot(v.x[seen, 0], v.y[seen], ".", color=GREY, markersize=3, label="measured")
    ax.plot(v.x[~seen, 0], v.y[~seen], "^", color=GREY, markersize=3, label="at least this")
    for label, model, colour in (("used", v.censored, BLUE), ("dropped", v.dropped, ORANGE)):
        mean = model.moments({"x": v.grid}, engine="ep")["y"][0]
        ax.plot(v.grid[:, 0], mean[:, 0], color=colour, label=f"mean, limits {label}")
    ax.set(xlabel="x", ylabel="y")


def ordinal_regression(ax: Any, v: SimpleNamespace) -> None:
    order = np.argsort(v.x[:, 0])
    shares = (v.p / v.p.sum(1, keepdims=True))[order].T
    ax.stackplot(v.x[order, 0], shares, labels=[f"grade {k}" for k in range(4)], alpha=0.8)
    ax.set(xlabel="x", ylabel="probability", ylim=(0, 1))


def rounded_targets(ax: Any, v: SimpleNamespace) -> None:
    ends, bias = np.array([-2.0, 2.0]), v.graph.parameters["bias"]["y"].item()
    _, cut, _ = v.interval_regression(v.x[:, 0], v.ends)
    ax.plot(v.x[:, 0], v.y, ".", color=GREY, markersize=3, label="rounded rows")
    ax.plot(ends, v.slope * ends + bias, color=BLUE, label="graph")
    ax.plot(ends, v.best * ends + cut, "--", color=ORANGE, label="SciPy")
    ax.set(xlabel="x", ylabel="y")


def missing_targets(ax: Any, v: SimpleNamespace) -> None:
    y = np.linspace(-0.5, 2.5, 200)
    for label, mean, var, colour in (
        ("y2 unknown", v.before, v.v0, GREY),
        ("y2 = 0.8, which is high", v.after, v.v1, BLUE),
    ):
        height = np.exp(-0.5 * (y - mean[0, 0]) ** 2 / var[0, 0]) / np.sqrt(2 * np.pi * var[0, 0])
        ax.plot(y, height, color=colour, label=label)
    ax.set(xlabel="y1 at x = 1", ylabel="density with these moments")


def unsupervised(ax: Any, v: SimpleNamespace) -> None:
    draws = np.asarray(v.graph.sample(n=600, key=2)["v"])[:, 0]
    ax.plot(*v.test.T, ".", color=GREY, markersize=4, label="held-out rows")
    ax.plot(*draws.T, ".", color=BLUE, markersize=2, label="draws of the model")
    ax.set(xlabel="v1", ylabel="v2")


def digits(ax: Any, v: SimpleNamespace) -> None:
    """Show halves of images, their completions by three models, the truth, and draws."""
    some = np.arange(0, 120, 10)
    halves = (np.full_like(v.lower, v.test.min()), v.lower, v.by_fa, v.by_mix, v.test[:, 32:])
    rows = [np.hstack([v.test[:, :32], half])[some] for half in halves]
    rows.append(np.asarray(v.graph.sample(n=12, n_chains=12, burn_in=500, key=1)["v"])[:, 0])
    tiles = np.clip(np.stack(rows) * v.scale + v.center, 0, 1).reshape(len(rows), 12, 8, 8)
    sheet = np.pad(tiles, [(0, 0), (0, 0), (0, 2), (0, 2)]).transpose(0, 2, 1, 3).reshape(10 * len(rows), 120)
    ax.imshow(sheet, cmap="gray_r", vmin=0, vmax=1)
    ax.set_yticks(np.arange(len(rows)) * 10 + 3.5, ["given", "graph", "factors", "mixture", "truth", "draws"])
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.figure.set_size_inches(5.6, 2.6)
    ax.spines[:].set_visible(False)


def claims(ax: Any, v: SimpleNamespace) -> None:
    for name, third, colour in zip(("low", "middle", "high"), v.thirds, (GREY, BLUE, ORANGE), strict=True):
        seen = (v.paid[third, None] > v.amounts).mean(0)
        ax.plot(v.amounts, v.above[third].mean(0), color=colour, label=f"{name} risk, predicted")
        ax.plot(v.amounts, seen, "o", color=colour, markersize=3)
    ax.plot([], [], "o", color="black", markersize=3, label="observed")
    ax.set_xscale("symlog", linthresh=20)
    ax.set(xlabel="amount", ylabel="P(claims > amount)", ylim=(0, None))


def survival(ax: Any, v: SimpleNamespace) -> None:
    for name, third, colour in zip(("high", "middle", "low"), v.thirds, (ORANGE, BLUE, GREY), strict=True):
        ax.plot(v.times, v.survival[third].mean(0), color=colour, label=f"{name} risk, predicted")
        ax.step(v.times, v.kaplan_meier(v.truth[third], v.times), ":", where="post", color=colour)
    ax.plot([], [], ":", color="black", label="Kaplan-Meier")
    ax.set(xlabel="time", ylabel="S(t)", ylim=(0, 1))


def _band(ax: Any, x: Any, mean: Any, var: Any, colour: str, label: str) -> None:
    width = 2 * np.sqrt(var)
    ax.fill_between(x, mean - width, mean + width, color=colour, alpha=0.25, linewidth=0)
    ax.plot(x, mean, color=colour, label=label)


DRAWN = (
    shallow_regression, deep_undirected, censored_regression, ordinal_regression, rounded_targets,
    missing_targets, unsupervised, digits, skew_normal, claims, survival,
)  # fmt: skip
PICTURES: dict[str, Callable[[Any, SimpleNamespace], None]] = {draw.__name__: draw for draw in DRAWN}


def classification() -> bytes:
    """Return the picture that the example draws itself."""
    main = runpy.run_path(str(ROOT / "examples" / "classification.py"))["main"]
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
        return (Path(folder) / "classification.png").read_bytes()


def targets() -> Figure:
    """Draw intervals, an atom, a lattice and the PIT of targets with limits and steps."""
    rng, grid = np.random.default_rng(0), np.linspace(-3, 3, 121)[:, None]
    x = rng.uniform(-3, 3, (3000, 1))
    latent = np.sin(1.5 * x[:, 0]) + 0.6 * x[:, 0] + 0.7 * rng.standard_normal(len(x))
    rain, grade = np.maximum(latent, 0), np.clip(np.round(3 + latent), 1, 5)
    fit = [TGGMRegressor((20, 20), n_members=4, random_state=0, support=s) for s in ("auto", None, (1, 5, 1))]
    model, smooth, graded = (m.fit(x[:1000], y[:1000]) for m, y in zip(fit, (rain, rain, grade), strict=True))
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    left, right, below, last = figure.subplots(2, 2).flat
    left.plot(x[:1000, 0], rain[:1000], ".", color=GREY, markersize=2, label="rows")
    left.fill_between(grid[:, 0], *model.predict_interval(grid, 0.9), color=BLUE, alpha=0.25, label="limit")
    ends = np.stack(smooth.predict_interval(grid, 0.9), axis=1)
    left.plot(grid[:, 0], ends, "--", color=ORANGE, label=["smooth", None])
    left.set(title="90 % intervals", xlabel="x", ylabel="rain")
    y, grades = np.linspace(0.005, 4, 200), np.arange(1.0, 6.0)
    for k, (at, colour) in enumerate(((-1.5, ORANGE), (0.0, BLUE), (1.0, GREY))):
        law, label = model.predict_dist([[at]]), f"x = {at:g}"
        right.plot(y, np.exp(law.logpdf(y[None])[0]), color=colour)
        right.plot([0, 0], [0, np.exp(law.logpmf(0.0)[0])], "o-", color=colour, linewidth=3, label=label)
        p = np.exp(graded.predict_dist([[at]]).logpmf(grades[None])[0])
        below.bar(grades + 0.16 * (k - 1), p, 0.15, color=colour, label=label)
    right.set(title="probability of 0 (dot) and density", xlabel="rain", xlim=(-0.15, 4))
    below.set(title="probabilities of grades", xlabel="grade")
    pits = [m.predict_dist(x[1000:]).pit(rain[1000:]) for m in (model, smooth)]
    last.hist(pits, 20, density=True, histtype="step", color=[BLUE, ORANGE], label=["limit", "smooth"])
    last.set(title="randomised PIT of 2,000 new rows", xlabel="P(Y ≤ y)", ylabel="density")
    for ax in (left, right, below, last):
        ax.legend(frameon=False, fontsize=8)
    return figure


def main(names: list[str]) -> None:
    for name in names or [*PICTURES, "classification", "targets"]:
        if name == "targets":
            targets().savefig(IMAGES / "targets.png", dpi=100)
            continue
        target = IMAGES / f"example_{name}.png"
        if name == "classification":
            target.write_bytes(classification())
            continue
        figure = Figure(figsize=(5.6, 3.4), layout="constrained")
        ax = figure.add_subplot()
        PICTURES[name](ax, variables(name))
        if ax.get_legend_handles_labels()[0]:
            ax.legend(frameon=False, fontsize=8)
        figure.savefig(target, dpi=120)
        print(target.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
