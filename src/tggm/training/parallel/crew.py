"""Who trains: members dealt to the cores of a CPU, or mini-batches cut over several devices.

A compiled training loop keeps little more than one core busy: its arrays are too small to be worth cutting.
Members of an ensemble need nothing from each other, so groups of them run the same program side by side, each
in a thread of its own. Accelerators take all members at once; so do several devices, which cut the
mini-batches instead: table, parameters and optimiser are on every device, and in every process of a fit
(`jax.distributed`); a device takes its share of the rows, and the sums of the gradient are added up over all
in one exchange a step, so that the parameters are those of one device, but for rounding.

So does a CPU where the program factorises matrices: two of JAX's batched factorisations that run at the same
time may each wait for the other's share of the thread pool for ever (jaxlib 0.10). For the same reason one
process then uses only one of several virtual devices of a CPU.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tggm.blas_lock import blas_lock, factorises
from tggm.products import QUICKLY
from tggm.training.compilation_cache import FOLDERS
from tggm.training.loop import AXIS, chunk, run_chunk
from tggm.training.parallel.processes import chosen, shared, together
from tggm.training.parallel.processes import use_devices as use_devices
from tggm.training.state import Objective, Plan, State, Trace

LEAST_ROWS = (
    2048  # of a mini-batch, counted over members, for each device: fewer are done before they are dealt
)

_TRACE: Any = Trace._make((0, 0))  # its structure
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


@partial(jax.jit, static_argnames=("mesh", "plan", "objective"), compiler_options=QUICKLY)
def run_shares(mesh: Mesh, plan: Plan, objective: Objective, *arguments: Any) -> tuple[State, Trace]:
    """As `run_chunk`, on all devices of a mesh."""
    none = PartitionSpec()
    whole = partial(chunk, plan._replace(shares=mesh.size), objective)
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


def group_size(n_members: int, cores: int) -> int:
    """Members in each of `cores` groups at most: equal, for one program to serve all; the last is padded."""
    return -(-n_members // max(1, min(n_members, cores)))


def n_cores() -> int:
    """Cores of a CPU that this process may use; 1 where an accelerator computes."""
    if jax.default_backend() != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew:
    """Runs chunks of epochs, the members in as many groups as there are workers, or on several devices."""

    def __init__(self, pool: ThreadPoolExecutor | None, size: int, mates: Mates | None = None) -> None:
        self._pool, self._size, self._mates = pool, size, mates
        self._ready = self._factorises = False
        self._program: Any = run_chunk
        self._double = bool(jax.config.read("jax_enable_x64"))  # a setting of the thread that asks

    def place(self, tree: Any) -> Any:
        """Arrays that several chunks need, where those run."""
        return jax.device_put(tree) if self._mates is None else self._mates.place(tree)

    def run(
        self, plan: Plan, objective: Objective, state: State, each: Any, shared: Any, *counts: Any
    ) -> tuple[State, Trace]:
        """As `run_chunk`: `each` is (members, view, hyper), `shared` (data, weight), `counts` the rest."""
        if not self._ready:
            self._prepare(plan, objective, self._part(0, state, each), shared, counts)
        if self._pool is None:
            whole: tuple[State, Trace]
            call = self._program if self._mates is None else self._mates.run
            with blas_lock(self._factorises):
                whole = self._run(call, plan, objective, (state, *each), shared, counts)
            return whole

        def one(k: int) -> Any:
            return self._run(self._program, plan, objective, self._part(k, state, each), shared, counts)

        n_members = len(state.seed)
        groups = list(self._pool.map(one, range(-(-n_members // self._size))))
        joined: tuple[State, Trace] = jax.tree.map(lambda *parts: np.concatenate(parts)[:n_members], *groups)
        return joined

    def _part(self, k: int, state: State, each: Any) -> Any:
        """What belongs to a group; the first members fill the last group, and nobody looks at them there."""
        share = np.arange(k * self._size, (k + 1) * self._size) % len(state.seed)
        return jax.tree.map(lambda a: np.asarray(a)[share], (state, *each))

    def _run(self, call: Any, plan: Plan, objective: Objective, part: Any, shared: Any, counts: Any) -> Any:
        # accelerators would round the factors of a product to 10 bits
        with jax.enable_x64(self._double), jax.default_matmul_precision("highest"):
            return jax.block_until_ready(call(plan, objective, *part, *shared, *counts))

    def _prepare(self, plan: Plan, objective: Objective, part: Any, shared: Any, counts: Any) -> None:
        """See whether threads may run the program; compile it before they do: each of them would."""
        self._ready = True
        if self._mates is not None and not self._mates.threads():
            return
        self._factorises = self._trace(plan, objective, part, shared, counts)
        if self._factorises and self._mates is not None:
            self._mates.use(one_each(self._mates.devices))
        elif self._factorises and self._pool is not None:
            self._pool, self._program = None, run_chunk  # of all members
        elif self._pool is not None:
            self._run(self._program, plan, objective, part, shared, (np.int32(0), counts[1]))

    def _trace(self, plan: Plan, objective: Objective, part: Any, shared: Any, counts: Any) -> bool:
        """Whether the program factorises matrices; it is read from a file if it was traced before."""
        if self._mates is None and FOLDERS:
            from tggm.training.traced_programs import kept

            def read(plan: Plan, objective: Objective, state: State, *rest: Any) -> Any:
                return kept(chunk, (plan, objective), (state, _TRACE), (state, *rest))

            if (found := self._run(read, plan, objective, part, shared, counts)) is not None:
                self._program = lambda plan, objective, *arguments: found.call(*arguments)
                return bool(found.factorises)
        traced = self._run(run_chunk.trace, plan, objective, part, shared, counts)
        return factorises(traced.jaxpr.jaxpr)


@contextmanager
def crew(n_members: int, batch_size: int) -> Iterator[Crew]:
    """The workers for so many members and rows in a mini-batch; their threads end with the block."""
    devices = devices_for(n_members * batch_size)
    size = n_members if devices else group_size(n_members, n_cores())
    if size == n_members:
        yield Crew(None, n_members, Mates(devices) if devices else None)
        return
    pool = ThreadPoolExecutor(-(-n_members // size), thread_name_prefix="tggm-train")
    try:
        yield Crew(pool, size)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupted chunk ends by itself
