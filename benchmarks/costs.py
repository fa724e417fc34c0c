"""What a fit costs, from its shapes: operations, bytes and exchanges of a step, and the time of a pass.

    python benchmarks/costs.py

A model on paper, for data of 10⁹ rows; nothing is measured but the counts that XLA gives for one step, which
the formulas are held against. Shallow regression, method moments, float32, d columns, m units, n outputs, K
members, D devices, mini-batches of B rows. With p = m(d + 1) + n(m + 2) parameters,

    operations of a row     K (4 d m + 12 m n + 117 m): products forward and back; 117 for truncated moments
    bytes of a row          4 (2 (d + n) + 27 K m): gathered, read, and 27 passes over an array of m numbers
    bytes of a step         4 · 10 K p for gradient and optimiser, on every device
    exchanged in a step     4 K (p + 1) bytes, of which a ring sends and receives 2 (D − 1) / D on each device
    read in a pass          4 (d + n) bytes a row, by every process

A step takes its latency, the longer of computing and moving its share of rows, and the exchange. Reading goes
on meanwhile, so that a pass takes the longer of both.
"""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """Sizes of data, model and mini-batches."""

    rows: int = 10**9
    columns: int = 20
    units: int = 50
    outputs: int = 1
    members: int = 1
    batch: int = 65_536

    @property
    def parameters(self) -> int:
        """Numbers that a member learns."""
        return self.units * (self.columns + 1) + self.outputs * (self.units + 2)

    @property
    def row_operations(self) -> float:
        """Floating-point operations of a row in a step."""
        d, m, n = self.columns, self.units, self.outputs
        return float(self.members * (4 * d * m + 12 * m * n + 117 * m))

    @property
    def row_bytes(self) -> float:
        """Bytes moved between memory and processor for a row in a step."""
        return 4.0 * (2 * (self.columns + self.outputs) + 27 * self.members * self.units)

    @property
    def step_bytes(self) -> float:
        """Bytes moved for the parameters in a step."""
        return 4.0 * 10 * self.members * self.parameters

    @property
    def exchanged(self) -> float:
        """Bytes of the sums that devices exchange in a step."""
        return 4.0 * self.members * (self.parameters + 1)

    @property
    def read(self) -> float:
        """Bytes read in a pass."""
        return 4.0 * self.rows * (self.columns + self.outputs)


@dataclass(frozen=True)
class Machines:
    """Assumptions: what is achieved, not what is advertised."""

    name: str
    devices: int
    operations: float  # a second, of a device
    bandwidth: float  # bytes a second between a device and its memory
    latency: float  # seconds a step takes however small it is
    exchange_latency: float  # seconds of an exchange however small
    exchange: float  # bytes a second between devices
    reading: float  # bytes a second that a process reads


# Cores somewhat slower than in streaming.json; H200: a third of 67 TFLOP/s in float32 and 60 % of 4.8 TB/s;
# NVLink within a machine, InfiniBand between machines; files on local NVMe disks
EXAMPLES = [
    Machines("2 CPU cores", 1, 1.5e10, 1e10, 20e-6, 0, math.inf, 1e9),
    Machines("one H200", 1, 2.2e13, 2.9e12, 150e-6, 0, math.inf, 2e9),
    Machines("8 H200 in one machine", 8, 2.2e13, 2.9e12, 150e-6, 30e-6, 3e11, 2e9),
    Machines("4 machines of 8 H200", 32, 2.2e13, 2.9e12, 150e-6, 60e-6, 4e10, 2e9),
]


def costs(shape: Shape, machines: Machines) -> dict[str, Any]:
    """Seconds of a pass over the rows, and where they go."""
    steps, D = math.ceil(shape.rows / shape.batch), machines.devices
    share = math.ceil(shape.batch / D)
    computing = steps * share * shape.row_operations / machines.operations
    moving = steps * (share * shape.row_bytes + shape.step_bytes) / machines.bandwidth
    ring = 2 * (D - 1) / D * shape.exchanged / machines.exchange
    exchanging = steps * (machines.exchange_latency + ring) if D > 1 else 0.0
    waiting = steps * machines.latency
    training = waiting + max(computing, moving) + exchanging
    reading = shape.read / machines.reading
    return {
        "machines": machines.name,
        "computing": computing,
        "moving": moving,
        "waiting": waiting,
        "exchanging": exchanging,
        "reading": reading,
        "pass": max(training, reading),
    }


def counted_by_xla(shape: Shape) -> dict[str, float]:
    """Operations and bytes of the gradient of one mini-batch, a row, as XLA counts them."""
    import jax
    import jax.numpy as jnp

    from tggm.models import Architecture
    from tggm.training import METHODS, Options, Rows

    d, n, B = shape.columns, shape.outputs, 4096
    one = jax.tree.map(lambda a: a[0], Architecture(d, (shape.units,), n).template(1))
    model = jax.tree.map(lambda a: jnp.ones(a.shape, jnp.float32), one)
    batch = Rows(jnp.ones((B, d), jnp.float32), jnp.ones((B, n), jnp.float32))
    method = METHODS["moments"](Options())

    def loss(model: Any, batch: Any) -> Any:
        return method(model, batch, jnp.float32(0)).sum()

    found = jax.jit(jax.grad(loss)).lower(model, batch).compile().cost_analysis()
    return {"operations": found["flops"] / B, "bytes": found["bytes accessed"] / B}


def _seconds(t: float) -> str:
    return f"{t:,.0f}" if t >= 10 or t == 0 else f"{t:.1g}"


def table(shape: Shape) -> str:
    """Seconds of a pass on the examples, as a table of a page."""
    names = ("computing", "moving", "waiting", "exchanging", "reading", "pass")
    lines = [
        "| seconds of a pass | computing | moving | latency of steps | exchanging | reading | **a pass** |",
        "| --- " * 7 + "|",
    ]
    for machines in EXAMPLES:
        found = costs(shape, machines)
        lines.append(f"| {found['machines']} | " + " | ".join(_seconds(found[name]) for name in names) + " |")
    return "\n".join(lines)


def facts(shape: Shape) -> str:
    """The counts of a step in a sentence."""
    members = f"{shape.members} member{'s' * (shape.members > 1)}"
    return (
        f"{shape.rows:,} rows of {shape.columns} columns, {shape.units} units, {members}, mini-batches\n"
        f"of {shape.batch:,} rows: {shape.parameters:,} parameters each; {shape.row_operations / 1e3:,.1f} "
        f"thousand operations and {shape.row_bytes / 1e3:,.1f} kB moved a row;\n"
        f"{shape.exchanged / 1e3:,.1f} kB exchanged a step; {shape.read / 1e9:,.0f} GB read a pass."
    )


def main() -> None:
    shape = Shape()
    print(facts(shape), end="\n\n")
    print(table(shape), end="\n\n")
    found = counted_by_xla(shape)
    print(
        f"XLA counts {found['operations'] / 1e3:.1f} thousand operations and {found['bytes'] / 1e3:.1f} kB a "
        f"row in the gradient; the formulas say {shape.row_operations / 1e3:.1f} and "
        f"{shape.row_bytes / 1e3:.1f}, gathering included."
    )


if __name__ == "__main__":
    main()
