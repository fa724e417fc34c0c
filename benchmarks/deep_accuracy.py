"""How well moments of deep models are known, by depth and width: the picture and table of docs/deep.md.

    python benchmarks/deep_accuracy.py [--draws 1000000] [--widths 5,10,50] [--depth 4]

Random models, weights between layers N(0, 1/m), eight random outputs W h of the last layer. Directed models
against ancestral sampling: forward propagation with the units' common noise, and as if units were
independent. Undirected models against the same draws weighted by Π Φ(u/σ0), where that leaves at least 10,000
effective draws: mean field with linear response, and EP. Errors of means are in standard deviations, of
standard deviations relative; each is a root mean square over outputs and inputs. Writes
``benchmarks/results/deep_accuracy.json`` and ``docs/images/deep_accuracy.png``; `python benchmarks/render.py`
fills the table of the page.
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from record import keep
from scipy.special import ndtr, ndtri

from tggm.models import Architecture
from tggm.models.hidden import Directed, Hidden, Undirected
from tggm.models.hidden.directed import propagated
from tggm.training.engine import Inference

ROOT = Path(__file__).parents[1]
OUTPUTS, INPUTS, CHUNK = 8, 2, 20_000
ENOUGH = 10_000  # effective draws; fewer tell nothing
WAYS = ("directed: propagation", "directed: independent units", "undirected: mean field", "undirected: EP")


class Tally:
    """Weighted moments, added up over chunks of draws."""

    def __init__(self) -> None:
        self.weight, self.squares, self.first, self.second = 0.0, 0.0, 0.0, 0.0

    def add(self, y: np.ndarray, w: np.ndarray) -> None:
        """Take in draws y, (draws, outputs), of weights w."""
        self.weight, self.squares = self.weight + w.sum(), self.squares + (w**2).sum()
        self.first, self.second = self.first + w @ y, self.second + w @ y**2

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation."""
        mean = self.first / self.weight
        return mean, np.sqrt(self.second / self.weight - mean**2)

    def effective(self) -> float:
        """As many equally weighted draws would be as good."""
        return float(self.weight**2 / self.squares)


def sample(rng: np.random.Generator, params: Any, heads: list[np.ndarray], x: np.ndarray, draws: int) -> Any:
    """Moments of every depth's outputs, directed and undirected, from one set of draws; σ0 = 1."""
    tallies = [(Tally(), Tally()) for _ in heads]
    for _ in range(draws // CHUNK):
        u = np.broadcast_to(params.W0 @ x + params.b0, (CHUNK, len(params.b0)))
        log_weight = np.zeros(CHUNK)
        for level, head in enumerate(heads):
            below = ndtr(u)
            log_weight = log_weight + (np.log(below).sum(1) if level else 0.0)
            h = u - ndtri((1 - rng.random(u.shape)) * below)
            y = h @ head.T
            tallies[level][0].add(y, np.ones(CHUNK))
            tallies[level][1].add(y, np.exp(log_weight))
            if level < len(params.W):
                u = h @ params.W[level].T + params.b[level]
    return tallies


def computed(params: Any, head: np.ndarray, level: int, X: np.ndarray) -> dict[str, Any]:
    """Means and deviations of the outputs of a model cut after a layer, (INPUTS, OUTPUTS), in every way."""
    cut = params.W0, params.b0, params.W[:level], params.b[:level], np.ones(())
    directed, undirected = (jax.tree.map(jnp.asarray, form(*cut)) for form in (Directed, Undirected))
    W, x = jnp.asarray(head), jnp.asarray(X)
    mean, std = _outputs(directed, x, W, "ep")
    alone = propagated(directed, x)[-1].var @ (W**2).T
    found = {WAYS[0]: (mean, std), WAYS[1]: (mean, jnp.sqrt(alone))}
    for name, engine in ((WAYS[2], "mean_field"), (WAYS[3], "ep")):
        found[name] = _outputs(undirected, x, W, engine)
    return {name: tuple(np.asarray(a) for a in pair) for name, pair in found.items()}


def _outputs(hidden: Hidden, x: jax.Array, W: jax.Array, engine: str) -> tuple[jax.Array, jax.Array]:
    """Means and deviations of W h."""
    h, var = hidden.moments(x, Inference(engine)).variances(W)
    return h @ W.T, jnp.sqrt(var)


def measure(width: int, depth: int, draws: int, seed: int) -> list[dict[str, Any]]:
    """Errors of every way at depths 1 to `depth`."""
    rng = np.random.default_rng(seed)
    params = Architecture(4, (width,) * depth, 1).draw(rng).hidden
    heads = [rng.standard_normal((OUTPUTS, width)) / np.sqrt(width) for _ in range(depth)]
    X = rng.standard_normal((INPUTS, 4))
    sampled = [sample(rng, params, heads, x, draws) for x in X]
    rows = []
    for level in range(1, depth):
        ways = computed(params, heads[level], level, X)
        for name, (mean, std) in ways.items():
            side = int(name.startswith("undirected"))
            truth = [found[level][side].moments() for found in sampled]
            m, s = (np.stack(a) for a in zip(*truth, strict=True))
            effective = min(found[level][side].effective() for found in sampled)
            rows.append(
                {"way": name, "width": width, "depth": level + 1, "effective": effective,
                 "mean": float(np.sqrt(np.mean(((mean - m) / s) ** 2))),
                 "deviation": float(np.sqrt(np.mean((std / s - 1) ** 2)))}
            )  # fmt: skip
    return rows


def picture(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    widths = sorted({row["width"] for row in rows})
    for axis, key in zip(axes, ("mean", "deviation"), strict=True):
        for colour, way in enumerate(WAYS):
            if key == "mean" and way == WAYS[1]:
                continue  # the same means as with common noise
            for style, width in zip((":", "--", "-"), widths, strict=False):
                chosen = [row for row in rows if row["way"] == way and row["width"] == width]
                chosen = [row for row in chosen if row["effective"] >= ENOUGH]
                axis.plot(
                    [row["depth"] for row in chosen], [row[key] for row in chosen], style, marker="o", ms=3,
                    color=f"C{colour}", label=way if width == widths[-1] else None,
                )  # fmt: skip
        axis.set(xlabel="hidden layers", yscale="log", xticks=sorted({row["depth"] for row in rows}))
        axis.set_title(
            {"mean": "error of E[y], in deviations", "deviation": "relative error of the deviation"}[key]
        )
    title = f"width {', '.join(map(str, widths))}: dotted to solid"
    lines, names = axes[1].get_legend_handles_labels()
    figure.legend(
        lines, names, loc="outside lower center", ncols=4, fontsize=8, title=title, title_fontsize=8
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def table(rows: list[dict[str, Any]]) -> str:
    depths = sorted({row["depth"] for row in rows})
    lines = [
        "| | width | " + " | ".join(f"{d} layers" for d in depths) + " |",
        "| --- " * (len(depths) + 2) + "|",
    ]
    for way in WAYS:
        for width in sorted({row["width"] for row in rows}):
            chosen = [row for row in rows if row["way"] == way and row["width"] == width]
            cells = [
                f"{row['mean']:.3f} / {100 * row['deviation']:.1f} %" if row["effective"] >= ENOUGH else "—"
                for row in chosen
            ]
            if set(cells) == {"—"}:
                continue
            lines.append(f"| {way} | {width} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--draws", type=int, default=1_000_000)
    p.add_argument("--widths", default="5,10,50")
    p.add_argument("--depth", type=int, default=4)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    rows: list[dict[str, Any]] = []
    with jax.enable_x64(True):
        for width in map(int, args.widths.split(",")):
            rows += measure(width, args.depth, args.draws, args.seed)
    keep("deep_accuracy", {"draws": args.draws, "seed": args.seed, "rows": rows})
    picture(rows, ROOT / "docs" / "images" / "deep_accuracy.png")
    print(table(rows))


if __name__ == "__main__":
    main()
