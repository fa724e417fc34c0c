"""Measure the time of the default's training step and its parts, and compare it with the arithmetic limit.

    python benchmarks/training_step.py [--growth]

A gradient of ten members of the default (8 columns, periodic features, 50-50 units, a linear part, batches of
128 rows, float32) and of its parts alone, forward and backward: microseconds per row and member, best of
several rounds. As in training, each core has a group of members and a thread. The limit is the number of
floating-point operations that XLA counts for the whole step, at the speed of one product of 1,536 × 1,536
matrices. Parts that are fused in the whole step take longer alone. Exponents of growth are slopes of log CPU
seconds of the step by the logarithm of one size; --growth measures only these. Writes
benchmarks/results/growth.json and training_step.json.
"""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

from tggm.models import Network, Periodic
from tggm.models.layers import averages, unit_moments
from tggm.training.train import n_cores

MEMBERS = -(-10 // min(10, n_cores()))  # of a group
GROUPS = -(-10 // MEMBERS)
ROWS, COLUMNS, UNITS = 128, 8, 50
ROUNDS, CALLS = 8, 20
SIDE = 1536
GROWTH = {
    "rows": (256, 512, 1024, 2048), "columns": (8, 16, 32, 64), "units": (50, 100, 200, 400),
    "outputs": (1, 2, 4, 8), "members": (4, 8, 16, 32),
}  # fmt: skip


def measure(f: Callable[..., Any], *arguments: Any, groups: int = GROUPS) -> tuple[float, float, float]:
    """Return elapsed and CPU seconds of a call, and the operations that XLA counts.

    `groups` threads call at once; the time of one call is the total divided by the number of calls.
    """
    program = jax.jit(f).lower(*arguments).compile()

    def calls(_: int) -> None:
        for _ in range(CALLS):
            found = program(*arguments)
        jax.block_until_ready(found)

    elapsed, busy = [], []
    with ThreadPoolExecutor(groups) as pool:
        for _ in range(ROUNDS):
            clock, processor = time.perf_counter(), time.process_time()
            list(pool.map(calls, range(groups)))
            elapsed.append((time.perf_counter() - clock) / (CALLS * groups))
            busy.append((time.process_time() - processor) / (CALLS * groups))
    return min(elapsed), min(busy), float(program.cost_analysis()["flops"])


def normal(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(sum(shape)).standard_normal(shape), jnp.float32)


def with_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the values of `f` and the derivatives of their sum."""
    return jax.value_and_grad(lambda *a: sum(x.sum() for x in jax.tree.leaves(f(*a))), argnums=(0, 1))


def parts() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return functions and arguments by name."""
    rng = np.random.default_rng(0)
    drawn = [Periodic.draw(rng, COLUMNS) for _ in range(MEMBERS)]
    features = jax.tree.map(lambda *a: jnp.asarray(np.stack(a), jnp.float32), *drawn)
    X, psi = normal(MEMBERS, ROWS, COLUMNS), normal(MEMBERS, ROWS, Periodic.width(COLUMNS))
    h, W0 = normal(MEMBERS, ROWS, UNITS), normal(MEMBERS, UNITS, psi.shape[-1])
    W, spread = normal(MEMBERS, UNITS, UNITS), jnp.abs(h) + 0.1

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        return a @ b.mT

    return {
        "features": (with_gradient(lambda f, x: jax.vmap(lambda one, rows: one(rows))(f, x)), (features, X)),
        "product with W0": (with_gradient(product), (psi, W0)),
        "moments of the first layer": (with_gradient(lambda a, b: unit_moments(a + b)), (h, spread)),
        "three products with W": (
            with_gradient(lambda a, w: (product(a, w), product(a * a, w * w), a @ w)), (h, W),
        ),
        "averaged moments of the second": (with_gradient(lambda a, s: averages(3, a, s)), (h, spread)),
    }  # fmt: skip


def step(
    rows: int = ROWS, columns: int = COLUMNS, units: int = UNITS, outputs: int = 1, members: int = MEMBERS
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the whole gradient and its arguments."""
    rng = np.random.default_rng(0)
    drawn = Network((units, units)).draw(
        rng, columns, outputs, members=members, dtype=np.float32, s0=0.01, init="sharp"
    )
    model = jax.tree.map(jnp.asarray, drawn)

    def loss(member: Any, X: jax.Array, y: jax.Array) -> jax.Array:
        likelihood, latent = member.at(X)
        return likelihood.log_density(y, latent).mean()

    arguments = model, normal(members, rows, columns), normal(members, rows, outputs)
    return jax.vmap(jax.value_and_grad(loss)), arguments


def growth() -> list[dict[str, Any]]:
    """Return the exponent of the CPU seconds of the step in each size."""
    found = []
    for name, sizes in GROWTH.items():
        busy = [measure(f, *given, groups=1)[1] for f, given in (step(**{name: n}) for n in sizes)]
        exponent = float(np.polyfit(np.log(sizes), np.log(busy), 1)[0])
        found.append({"growth": name, "sizes": f"{sizes[0]} to {sizes[-1]}", "exponent": exponent})
        print(found[-1], [f"{1e3 * each:.3g} ms" for each in busy], flush=True)
    return found


def main() -> None:
    keep(BENCHMARKS / "growth.json", growth())
    if "--growth" in sys.argv:
        return
    side = normal(SIDE, SIDE)
    speed = 2 * SIDE**3 / measure(jnp.matmul, side, side, groups=1)[0]
    scale = 1e6 / (MEMBERS * ROWS)
    found = []
    whole, arguments = step()
    for name, (f, given) in {**parts(), "the whole step": (whole, arguments)}.items():
        elapsed, busy, operations = measure(f, *given)
        row = {"elapsed_us": scale * elapsed, "cpu_us": scale * busy, "operations": scale * operations / 1e6}
        found.append({"part": name, **row})
        text = "{elapsed_us:6.2f} us elapsed, {cpu_us:6.2f} CPU, {operations:7.0f} operations"
        print(f"{name:32s}", text.format(**row), flush=True)
    floor = 1e6 * found[-1]["operations"] / speed
    ratio = found[-1]["elapsed_us"] / floor
    print(f"floor {floor:.2f} us at {speed / 1e9:.0f} GFlop/s: the step takes {ratio:.1f} times as long")
    keep(BENCHMARKS / "training_step.json", found, flops_per_second=speed, floor_us=floor, ratio=ratio)


if __name__ == "__main__":
    main()
