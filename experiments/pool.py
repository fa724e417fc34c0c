"""Small programs in worker processes, one core each, while this process does something else."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from types import TracebackType
from typing import Any

# a worker computes on the CPU, in one thread
ALONE = {
    "JAX_PLATFORMS": "cpu",
    "NPROC": "1",
    "PJRT_NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class Pool:
    """Worker processes, started when first needed and ended with the block, whatever they do."""

    def __init__(self, workers: int) -> None:
        self._workers = max(workers, 1)
        self._pool: ProcessPoolExecutor | None = None
        self._futures: list[Future[Any]] = []

    def submit(self, function: Callable[..., Any], *args: Any, then: Callable[[Any], None]) -> None:
        """Call a function in a worker, and `then` with its result, in a thread of this process."""
        if self._pool is None:
            os.environ.update(ALONE)  # for the workers: this process has read its own long ago
            context = multiprocessing.get_context("spawn")
            cores = context.Queue()
            for k in range(self._workers):
                cores.put(k)
            self._pool = ProcessPoolExecutor(self._workers, context, _start, (cores,))
        future = self._pool.submit(function, *args)
        chained: Future[None] = Future()

        def done(made: Future[Any]) -> None:
            try:
                then(made.result())
                chained.set_result(None)
            except BaseException as error:
                chained.set_exception(error)

        future.add_done_callback(done)
        self._futures.append(chained)

    def wait(self) -> None:
        """Until everything is done; raises what the first job raised that failed."""
        for future in wait(self._futures, return_when="FIRST_EXCEPTION").done:
            future.result()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        if kind is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
        self._pool.shutdown()


def _start(cores: Any) -> None:
    """What a worker does first: take a core, leave Ctrl-C to its parent, end with it, keep programs."""
    import signal

    from tggm.training.compilation_cache import use_compilation_cache

    if hasattr(os, "sched_setaffinity"):
        every = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {every[cores.get() % len(every)]})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    use_compilation_cache()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
