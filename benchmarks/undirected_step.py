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

from tggm.models import Architecture
from tggm.training import METHODS, Options, Rows

ROWS, INPUTS, CLASSES = 500, 784, 10
NEWTON = Options(prior="same", factorised=True)


def milliseconds(method: Any, hidden: int, s0: float) -> tuple[float, float]:
    """Of the first call, compilation included, and of the quickest of five later ones."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, INPUTS)), rng.integers(0, CLASSES, ROWS)
    batch = Rows(jnp.asarray(rows[0], jnp.float32), jnp.asarray(rows[1], jnp.int32))
    sizes = Architecture(INPUTS, (hidden, hidden), CLASSES, "probit", "undirected")
    model = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), sizes.draw(rng, s0=s0, init="paper"))
    step = jax.jit(jax.value_and_grad(lambda model: method(model, batch, jnp.float32(0)).mean()))
    taken = []
    for _ in range(6):
        clock = time.perf_counter()
        jax.block_until_ready(step(model))
        taken.append(1e3 * (time.perf_counter() - clock))
    return taken[0], min(taken[1:])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hidden", default="100,200", help="units in each of the two layers")
    p.add_argument("--cycles", default="30,5")
    args = p.parse_args()
    for hidden in map(int, args.hidden.split(",")):
        cases: list[tuple[str, Any, float]] = [("bp", METHODS["bp"](Options()), 0.01)]
        for n in map(int, args.cycles.split(",")):
            options = Options("cyclic", (n, n), prior="posterior", factorised=True)
            cases.append((f"{n} cycles", METHODS["meanfield"](options), 0.5))
        cases.append(("newton", METHODS["meanfield"](NEWTON), 0.5))
        for name, method, s0 in cases:
            first, later = milliseconds(method, hidden, s0)
            print(f"{hidden}-{hidden}  {name:10s}  first {first:9.1f} ms   then {later:8.1f} ms", flush=True)


if __name__ == "__main__":
    main()
