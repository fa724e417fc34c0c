"""Measure mean field and EP on posteriors of many rows, on an accelerator.

    python benchmarks/gpu_engines.py [--rows 1000000] [--units 100] [--outputs 1,2,5,10]

Posteriors of shallow models with weights of scale one. The best of several calls after a first one, once as
the engines choose (`auto`) and once without our kernel (`xla`). `converged` is the share of rows. Writes
benchmarks/results/gpu_engines.json.
"""

import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, complete, options

from tggm.gaussian import TruncatedGaussian
from tggm.inference import ep, mean_field
from tggm.precision import LowRank

ENGINES = {"mean_field": mean_field, "ep": ep}
REPEATS = 5


def posterior(rows: int, m: int, n: int) -> TruncatedGaussian:
    """Return the posterior of a shallow model with noise variance one half, in single precision."""
    keys = jax.random.split(jax.random.key(0), 4)
    W, a = jax.random.normal(keys[0], (n, m)) / m**0.5, jax.random.normal(keys[1], (rows, m))
    h = jnp.maximum(a + jax.random.normal(keys[2], a.shape), 0)
    y = h @ W.T + 0.5**0.5 * jax.random.normal(keys[3], (rows, n))
    return TruncatedGaussian(LowRank(jnp.ones(m), W * 2**0.5), a + 2 * y @ W)


def work(rows: int, units: int, outputs: int, engine: str, way: str) -> dict[str, Any]:
    """Measure one engine."""
    from tggm.inference import _gpu_kernel

    tg = jax.block_until_ready(posterior(rows, units, outputs))
    usual = _gpu_kernel.is_supported
    with mock.patch.object(_gpu_kernel, "is_supported", usual if way == "auto" else lambda _: False):
        kernel = bool(_gpu_kernel.is_supported(tg))
        found, times = jax.block_until_ready(ENGINES[engine](tg)), []
        for _ in range(REPEATS):
            clock = time.perf_counter()
            found = jax.block_until_ready(ENGINES[engine](tg))
            times.append(time.perf_counter() - clock)
    return {"kernel": kernel, "ms": 1e3 * min(times), "converged": float(found.converged.mean())}


def main() -> None:
    p = options(__doc__)
    p.add_argument("--rows", type=int, default=10**6)
    p.add_argument("--units", type=int, default=100)
    p.add_argument("--outputs", default="1,2,5,10", help="numbers of outputs, separated by commas")
    args = p.parse_args()
    numbers = map(int, args.outputs.split(","))
    each = [(n, engine, way) for n in numbers for engine in ENGINES for way in ("auto", "xla")]
    tasks = [(args.rows, args.units, *one) for one in each]
    fields = ("rows", "units", "outputs", "engine", "way")
    complete(args.out or BENCHMARKS / "gpu_engines.json", fields, work, tasks, force=args.force)


if __name__ == "__main__":
    main()
