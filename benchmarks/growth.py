"""How time and memory of training grow with rows, columns, units, outputs and members: exponents.

    python benchmarks/growth.py [--quick]

For each of the five, five sizes, the others fixed; the default `TGGMRegressor` with two layers of so many
units, and "units, one layer" with one. Each unit of the second layer sees each of the first, so that two
layers grow with the square of their units. The training program of each is compiled, and epochs of it are
timed (the best of several rounds, in which the sizes take turns); its memory is what XLA's own analysis says:
arguments, results and temporaries. Exponents are slopes of a least-squares line through the logarithms. Sizes
are large enough for the part that grows to show, so they are larger on a GPU. Writes
``benchmarks/results/growth.json`` (growth-gpu.json).
"""

import argparse
import json
import os
import time
from typing import Any

import jax
import numpy as np
from record import keep

from tggm import TGGMRegressor
from tggm.blas_lock import blas_lock
from tggm.training.parallel import crew

ONE_LAYER = "units, one layer"
os.environ["TGGM_COMPILATION_CACHE"] = "off"  # programs that were kept would not be caught
BASE = {"rows": 2**12, "columns": 8, "units": 50, "outputs": 1, "members": 2}
SIZES = {
    "rows": [2**k for k in range(12, 17)],
    "columns": [2**k for k in range(3, 8)],
    "units": [2**k for k in range(5, 10)],
    ONE_LAYER: [2**k for k in range(7, 12)],
    "outputs": [2**k for k in range(1, 6)],
    "members": [2**k for k in range(1, 6)],
}
GPU_BASE = BASE | {"rows": 2**14}
GPU_SIZES = SIZES | {"rows": [2**k for k in range(16, 21)], "units": [2**k for k in range(7, 12)]}
GPU_SIZES |= {ONE_LAYER: [2**k for k in range(10, 15)], "members": [2**k for k in range(3, 8)]}
SECONDS = 0.2  # that a round should take at least


class Captured(Exception):  # noqa: N818  # not an error
    """Carries the arguments of the training program out of a fit."""


class Capture:
    """Stands in for `run_chunk`: hands its arguments over instead of running."""

    def __init__(self, program: Any) -> None:
        self.trace = program.trace

    def __call__(self, *arguments: Any) -> Any:
        """Raise them."""
        raise Captured(*arguments)


def training_program(shape: dict[str, int], batch: int) -> tuple[Any, tuple[Any, ...]]:
    """The compiled training program of a fit to such a table, and its arguments."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape["rows"], shape["columns"]), dtype=np.float32)
    Y = rng.standard_normal((shape["rows"], shape["outputs"]), dtype=np.float32)
    layers = (shape["units"],) * 2 if ONE_LAYER not in shape else (shape[ONE_LAYER],)
    members = {"n_members": shape["members"], "random_state": 0}
    model = TGGMRegressor(hidden=layers, batch_size=batch, max_epochs=1, target_transform=None, **members)
    program, crew.run_chunk = crew.run_chunk, Capture(crew.run_chunk)
    try:
        model.fit(X, Y if shape["outputs"] > 1 else Y[:, 0])
    except Captured as caught:
        plan, objective, *rest = caught.args
    finally:
        crew.run_chunk = program
    with jax.default_matmul_precision("highest"):
        return program.lower(plan, objective, *rest).compile(), tuple(rest)


def memory(compiled: Any) -> int:
    """Bytes of arguments, results and temporaries."""
    found = compiled.memory_analysis()
    return found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes


def epochs_in(compiled: Any, arguments: tuple[Any, ...], epochs: int) -> float:
    *most, _, steps = arguments
    with blas_lock():  # as training runs programs that factorise matrices
        clock = time.perf_counter()
        jax.block_until_ready(compiled(*most, np.int32(epochs), steps))
        return time.perf_counter() - clock


def measure(shapes: list[dict[str, int]], batch: int, rounds: int) -> list[dict[str, float]]:
    """Seconds of an epoch and bytes of each."""
    programs = [training_program(shape, batch) for shape in shapes]
    epochs = []
    for compiled, arguments in programs:
        epochs_in(compiled, arguments, 1)
        epochs.append(int(np.ceil(SECONDS / epochs_in(compiled, arguments, 1))))
    best = [np.inf] * len(shapes)
    for _ in range(rounds):
        for k, (compiled, arguments) in enumerate(programs):
            best[k] = min(best[k], epochs_in(compiled, arguments, epochs[k]) / epochs[k])
    return [
        {"seconds": t, "bytes": memory(compiled)} for t, (compiled, _) in zip(best, programs, strict=True)
    ]


def exponent(sizes: list[int], values: list[float]) -> float:
    """Slope of the least-squares line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the three smallest sizes, two rounds")
    options = parser.parse_args()
    gpu = jax.default_backend() != "cpu"
    base, sizes = (GPU_BASE, GPU_SIZES) if gpu else (BASE, SIZES)
    batch, rounds = (4096 if gpu else 256), (2 if options.quick else 5)
    record: dict[str, Any] = {"batch": batch, "base": base, "growth": {}}
    for name, every in sizes.items():
        chosen = every[:3] if options.quick else every
        points = measure([base | {name: size} for size in chosen], batch, rounds)
        seconds, size_of = [p["seconds"] for p in points], [p["bytes"] for p in points]
        record["growth"][name] = {
            "sizes": chosen,
            "seconds": seconds,
            "bytes": size_of,
            "time_exponent": exponent(chosen, seconds),
            "memory_exponent": exponent(chosen, size_of),
        }
        for size, t, b in zip(chosen, seconds, size_of, strict=True):
            print(f"{name:16s} {size:8d}  {1e3 * t:10.2f} ms an epoch  {b / 2**20:9.1f} MiB")
        print(
            "{:16s} time ~ size^{time_exponent:.2f}, memory ~ size^{memory_exponent:.2f}\n".format(
                name, **record["growth"][name]
            )
        )
    print(json.dumps({k: round(v["time_exponent"], 2) for k, v in record["growth"].items()}))
    keep("growth-gpu" if gpu else "growth", record)


if __name__ == "__main__":
    main()
