"""Which devices train, and the program that cuts every mini-batch over them.

Table, parameters and optimiser are on every device, and in every process of a fit (`jax.distributed`). A
device takes its share of the rows of a mini-batch; the sums of the gradient are added up over all in one
exchange a step. The rows, their order and so the parameters are those of one device, but for rounding.
"""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tggm.training.loop import run_chunk
from tggm.training.parallel.partition import AXIS
from tggm.training.parallel.processes import chosen, shared, together
from tggm.training.parallel.processes import use_devices as use_devices
from tggm.training.state import Objective, Plan, State, Trace

LEAST_ROWS = (
    2048  # of a mini-batch, counted over members, for each device: fewer are done before they are dealt
)

_ONE_AT_A_TIME = threading.Lock()  # two programs could wait for each other's devices


def devices_for(rows: int) -> list[jax.Device]:
    """The devices that train on mini-batches of so many rows, counted over members; [] for JAX's default."""
    if chosen() is not None:
        return list(chosen() or ())
    devices: list[jax.Device] = jax.devices()
    if shared():
        return devices
    asked = getattr(jax.config, "jax_default_device", None) is not None  # chosen otherwise
    return [] if asked or len(devices) == 1 or rows < LEAST_ROWS * len(devices) else devices


def one_each(devices: Sequence[jax.Device]) -> list[jax.Device]:
    """The first device of every process."""
    return list({device.process_index: device for device in reversed(devices)}.values())[::-1]


@partial(jax.jit, static_argnames=("mesh", "plan", "objective"))
def run_shares(mesh: Mesh, plan: Plan, objective: Objective, *arguments: Any) -> tuple[State, Trace]:
    """As `run_chunk`, on all devices of a mesh."""
    none = PartitionSpec()
    whole = partial(run_chunk, plan._replace(shares=mesh.size), objective)
    # all that comes in and goes out is the same on every device
    out: tuple[State, Trace] = jax.shard_map(
        whole, mesh=mesh, in_specs=none, out_specs=none, check_vma=False
    )(*arguments)
    return out


class Mates:
    """Runs chunks of epochs on several devices; they may belong to several processes."""

    def __init__(self, devices: Sequence[jax.Device]) -> None:
        self.use(devices)

    def use(self, devices: Sequence[jax.Device]) -> None:
        """Train on these devices."""
        self.devices = list(devices)
        self._mesh = Mesh(np.asarray(devices, dtype=object), (AXIS,))
        self._everywhere = NamedSharding(self._mesh, PartitionSpec())

    def threads(self) -> bool:
        """Whether devices are threads of this process."""
        own = [device for device in self.devices if device.process_index == jax.process_index()]
        return len(own) > 1 and bool(own[0].platform == "cpu")

    def place(self, tree: Any) -> Any:
        """The same arrays on every device; what is there already stays."""
        return jax.tree.map(self._copied, tree)

    def _copied(self, a: Any) -> jax.Array:
        if isinstance(a, jax.Array) and a.sharding == self._everywhere:
            return a
        host = np.asarray(a)
        host = host.astype(jax.dtypes.canonicalize_dtype(host.dtype))
        # not `device_put`, which would first send everything around to compare it between processes
        return jax.make_array_from_callback(host.shape, self._everywhere, lambda index: host[index])

    def run(self, plan: Plan, objective: Objective, *arguments: Any) -> tuple[State, Trace]:
        """As `run_chunk`; the result is on the host."""
        with _ONE_AT_A_TIME, together():
            out = run_shares(self._mesh, plan, objective, *self.place(arguments))
            result: tuple[State, Trace] = jax.tree.map(np.asarray, out)
        return result
