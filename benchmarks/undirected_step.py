"""Seconds of one gradient of the undirected objectives, 500 rows of 784 random inputs, 10 classes.

    python benchmarks/undirected_step.py --hidden 100,200 --cycles 30,5

Prints milliseconds of a compiled step for back-propagation through the prior's mean field, for the paper's
cycles (posterior, then prior from there) and for Newton's method, at the initial weights of the paper.
"""

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tggm.models.deep import initial_deep
from tggm.training.classification import ClassContext, Labelled
from tggm.training.deep_classification import UndirectedProbitBackPropagation, UndirectedProbitMeanField

ROWS, INPUTS, CLASSES = 500, 784, 10
CYCLIC = UndirectedProbitMeanField(solver="cyclic", factorised=True, prior="posterior")
NEWTON = UndirectedProbitMeanField(solver="newton", factorised=True, prior="same")


def milliseconds(objective: Any, hidden: int, s0: float, cycles: int) -> tuple[float, float]:
    """Of the first call, compilation included, and of the quickest of five later ones."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, INPUTS)), rng.integers(0, CLASSES, ROWS)
    batch = Labelled(jnp.asarray(rows[0], jnp.float32), jnp.asarray(rows[1], jnp.int32))
    drawn = initial_deep(
        rng, (INPUTS, hidden, hidden, CLASSES), form="undirected", s0=s0, noise=1.0, init="paper"
    )
    params = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), drawn)
    context = ClassContext(jnp.float32(s0), jnp.float32(cycles), jnp.float32(cycles))
    step = jax.jit(jax.value_and_grad(lambda params: objective(params, batch, context).mean()))
    taken = []
    for _ in range(6):
        clock = time.perf_counter()
        jax.block_until_ready(step(params))
        taken.append(1e3 * (time.perf_counter() - clock))
    return taken[0], min(taken[1:])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hidden", default="100,200", help="units in each of the two layers")
    p.add_argument("--cycles", default="30,5")
    args = p.parse_args()
    for hidden in map(int, args.hidden.split(",")):
        cases: list[tuple[str, Any, float, int]] = [("bp", UndirectedProbitBackPropagation(), 0.01, 0)]
        cases += [(f"{n} cycles", CYCLIC, 0.5, n) for n in map(int, args.cycles.split(","))]
        cases += [("newton", NEWTON, 0.5, 0)]
        for name, objective, s0, cycles in cases:
            first, later = milliseconds(objective, hidden, s0, cycles)
            print(f"{hidden}-{hidden}  {name:10s}  first {first:9.1f} ms   then {later:8.1f} ms", flush=True)


if __name__ == "__main__":
    main()
