"""Engines on a GPU: how fast the fused kernels are, and how many digits engines have in float32.

    python benchmarks/inference_gpu.py                 # about three minutes
    python benchmarks/inference_gpu.py --only fused    # one section: fused, digits

Problems are those of benchmarks/inference.py, m = 100. Sections:

fused      a million rows with one output. Times are medians of 20 calls after warm-up, inputs on the
           device. The fused kernel is compared with XLA. Floors:
           the bytes that must move (read the shift; write means, variances and three numbers a row) over the
           memory's speed, and the arithmetic that the iterations need (one per elementwise operation, counted
           in the traced program, times the mean number of steps) over the processor's speed.
digits     more outputs than the kernels take, 300 rows: rows that converge, steps, and the largest error of
           log Z against the same engine in float64. Products in TensorFloat-32, what a GPU takes unless it is
           asked for more, show here at once.

Results go to benchmarks/results/fused-gpu.json and digits-gpu.json.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from record import keep

from tggm.gaussian import TruncatedGaussian
from tggm.inference import _gpu_kernel, ep, mean_field
from tggm.precision import LowRank

ROWS, M, CALLS = 1_000_000, 100, 20
BYTES_PER_SECOND, FLOPS_PER_SECOND = 4.3e12, 67e12  # H200: memory, float32
CASES = [(1.0, 0.5), (0.3, 0.5), (1.0, 0.05)]  # scale of the weights, noise variance
OUTPUTS, MANY_OUTPUTS, FEW_ROWS = (1,), (12,), 300


def problem(seed, scale, noise, rows, m, n=1):
    """A random shallow model's posterior, made on the device."""
    W = scale * jax.random.normal(jax.random.key(seed), (n, m), jnp.float32)

    @jax.jit
    def shift(key):
        k1, k2, k3 = jax.random.split(key, 3)
        a = scale * jax.random.normal(k1, (rows, m), jnp.float32)
        h = jnp.maximum(a + jax.random.normal(k2, (rows, m), jnp.float32), 0)
        y = h @ W.T + noise**0.5 * jax.random.normal(k3, (rows, n), jnp.float32)
        return a + y @ W / noise

    with jax.default_matmul_precision("highest"):
        gamma = jax.block_until_ready(shift(jax.random.key(seed + 1)))
    return TruncatedGaussian(LowRank(jnp.ones(m, jnp.float32), W / noise**0.5), gamma)


def median_ms(function, tg):
    result = jax.block_until_ready(function(tg))
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        jax.block_until_ready(function(tg))
        times.append(time.perf_counter() - begin)
    return result, 1e3 * float(np.median(times))


def operations(jaxpr, size):
    """Elementwise operations on whole blocks in a traced program: (outside of loops, inside of them)."""
    outside = inside = 0
    for equation in jaxpr.eqns:
        inner = [v for v in equation.params.values() if hasattr(v, "jaxpr") or hasattr(v, "eqns")]
        if inner:
            parts = [operations(getattr(v, "jaxpr", v), size) for v in inner]
            total = sum(a for a, _ in parts), sum(b for _, b in parts)
            if equation.primitive.name == "while":
                inside += sum(total)
            else:
                outside, inside = outside + total[0], inside + total[1]
        elif any(getattr(v.aval, "size", 0) >= size for v in (*equation.outvars, *equation.invars)):
            outside += 1
    return outside, inside


def floors(solve_row, numbers, steps, rows, m):
    """Milliseconds below which no implementation of these iterations can go."""
    wide, mask = jax.ShapeDtypeStruct((1, m), jnp.float32), jax.ShapeDtypeStruct((1, m), bool)
    row = _gpu_kernel.KernelRow(wide, wide, wide, mask, mask)
    traced = jax.make_jaxpr(lambda row: solve_row(row, *numbers))(row)
    outside, inside = operations(traced.jaxpr, m)
    moved = rows * (3 * m + 3) * 4
    return {
        "operations_outside": outside,
        "operations_per_step": inside,
        "memory_ms": 1e3 * moved / BYTES_PER_SECOND,
        "arithmetic_ms": 1e3 * rows * m * (outside + inside * steps) / FLOPS_PER_SECOND,
    }


def accuracy(engine, tg, got, some=2000):
    """Errors of some rows against double precision."""
    with jax.enable_x64(True):
        P = LowRank(tg.precision.base.astype(jnp.float64), tg.precision.weights.astype(jnp.float64))
        want = engine(TruncatedGaussian(P, tg.shift[:some].astype(jnp.float64)))
        mean, log_z = got.mean[:some].astype(jnp.float64), got.log_z[:some].astype(jnp.float64)
        return {
            "mean_error": float(jnp.abs((mean - want.mean) / jnp.sqrt(want.var)).max()),
            "log_z_error": float(jnp.abs(log_z - want.log_z).max()),
            "log_z_scale": float(jnp.abs(want.log_z).max()),
        }


def measure(engine, tg, name):
    """One variant; whatever goes wrong is told and does not stop the others."""
    try:
        jax.clear_caches()  # block shapes are constants of the compiled program
        begin = time.perf_counter()
        got, ms = median_ms(jax.jit(engine), tg)
        row = {
            "variant": name,
            "ms": ms,
            "steps_mean": float(got.n_iter.mean()),
            "steps_max": int(got.n_iter.max()),
            "converged": float(got.converged.mean()),
            "first_s": time.perf_counter() - begin - CALLS * ms / 1e3,
        }
        print(
            f"  {name:36s} {ms:9.3f} ms, steps {row['steps_mean']:.2f} (most {row['steps_max']}), "
            f"converged {row['converged']:.6f}",
            flush=True,
        )
        return row, got
    except Exception as error:  # a shape that does not fit the device must not end the benchmark
        text = f"{type(error).__name__}: {str(error)[:300]}"
        print(f"  {name:36s} failed: {text}", flush=True)
        return {"variant": name, "error": text}, None


def opponent(engine, tg):
    """Whole-batch operations compiled by XLA."""
    original = _gpu_kernel.suits
    try:
        _gpu_kernel.suits = lambda tg: False
        return measure(engine, tg, "XLA")
    finally:
        _gpu_kernel.suits = original
        jax.clear_caches()


def variants(engine, tg, case):
    """Measure the kernel, and XLA on the first problem."""
    return [measure(engine, tg, "kernel"), *([] if case else [opponent(engine, tg)])]


def digits_section(seed, _=None, rows=FEW_ROWS, m=M):
    print(f"\ndigits: {rows} rows, m = {m}, weights of scale 1, noise 1/2, float32")
    report = []
    for n in MANY_OUTPUTS:
        tg = problem(seed, 1.0, 0.5, rows, m, n)
        for engine in (mean_field, ep):
            got = jax.jit(engine)(tg)
            entry = {
                "engine": engine.__name__,
                "outputs": n,
                "converged": float(got.converged.mean()),
                "steps_mean": float(got.n_iter.mean()),
                "steps_max": int(got.n_iter.max()),
                **accuracy(engine, tg, got, rows),
            }
            report.append(entry)
            print(
                "  {engine:10s} n = {outputs:2d}: converged {converged:.2f}, steps {steps_mean:.1f} (most "
                "{steps_max}), log Z errs by {log_z_error:.1e} of {log_z_scale:.1e}".format(**entry),
                flush=True,
            )
    return report


ENGINES = {
    "mean_field": (mean_field, _gpu_kernel.mean_field_row, (jnp.int32(100),)),
    "ep": (ep, _gpu_kernel.ep_row, (jnp.int32(100), jnp.float32(1e-4))),
}


def fused_section(seed, outputs=OUTPUTS, rows=ROWS, m=M):
    report = []
    for n in outputs:
        for case, (scale, noise) in enumerate(CASES if n == 1 else CASES[:1]):
            tg = problem(seed, scale, noise, rows, m, n)
            for name, (engine, solve_row, numbers) in ENGINES.items():
                print(f"{name}, {n} outputs, {rows} rows, m = {m}, weights of scale {scale}, noise {noise}")
                found = variants(engine, tg, case)
                entry = {"engine": name, "outputs": n, "scale": scale, "noise": noise}
                shipped, got = found[0]
                if got is not None:
                    entry |= accuracy(engine, tg, got)
                    entry["floors"] = floors(solve_row, numbers, shipped["steps_mean"], rows, m)
                    floor = max(entry["floors"]["memory_ms"], entry["floors"]["arithmetic_ms"])
                    entry["ratio_to_floor"] = shipped["ms"] / floor
                    print(
                        "  floors: memory {memory_ms:.3f} ms, arithmetic {arithmetic_ms:.3f} ms "
                        "({operations_per_step} operations a step)".format(**entry["floors"]),
                        f"\n  shipped kernel / floor {entry['ratio_to_floor']:.2f}; against float64: mean "
                        f"{entry['mean_error']:.1e} standard deviations, log Z {entry['log_z_error']:.1e} of "
                        f"{entry['log_z_scale']:.1e}",
                        flush=True,
                    )
                report.append({**entry, "variants": [row for row, _ in found]})
    return report


SECTIONS = {"fused": fused_section, "digits": digits_section}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=SECTIONS)
    parser.add_argument("--outputs", default=OUTPUTS, type=lambda text: tuple(map(int, text.split(","))))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(jax.devices()[0].device_kind)
    for name in [options.only] if options.only else SECTIONS:
        results = SECTIONS[name](options.seed, options.outputs)
        keep(f"{name}-gpu", {"seed": options.seed, "results": results})


if __name__ == "__main__":
    main()
