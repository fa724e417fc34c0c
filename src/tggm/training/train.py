"""Train the members of an ensemble: chunks of epochs, progress, early stopping, interruption, checkpoints.

A compiled training loop uses little more than one core, because its arrays are too small to be split. So the
members are split into groups, and each group runs the same program in its own thread. Accelerators take all
members at once. So does a CPU if the program factorises matrices: two of JAX's batched factorisations that
run at the same time may deadlock (jaxlib 0.10, see `tggm.runtime`).

With `n_jobs` pairs of members are trained in workers of joblib. Each pair stops by its own held-out rows, so
that workers exchange nothing but the result. Rows are sent once: they are pickled with their arrays apart,
which joblib maps into the memory of local workers, and sends once to each worker of a cluster. A worker that
has not imported JAX yet gets one thread for it.
"""

import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from typing import Any, TextIO

import jax
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.cloudpickle_wrapper import dumps  # cloudpickle, in every version of joblib
from numpy.typing import NDArray

from tggm.arrays import Tree
from tggm.models.network import LogDensity
from tggm.runtime import blas_lock, factorises, precision, return_memory
from tggm.training import loop
from tggm.training.checkpoint import Checkpoint, CheckpointFile, identity
from tggm.training.loop import FAILURES, Hyper, Layout, Objective, Plan, State, Trace, start
from tggm.training.rows import Blocks, RowBlock, read_ahead

_CHUNK_SECONDS = 0.1  # a chunk longer than this is not doubled: it delays progress and interruption
HELD_OUT = "held-out rows are no longer predicted better"
FAILED = "the steps of all members failed"
PAIR = 2  # members of a group: the number that must hold out a row to show how much members differ
EARLY = 0.6  # fraction of the first cycle; a best epoch before it is early


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; training continues."""


class Observer:
    """Receive reports about the progress of a fit; this base class only issues warnings."""

    def planned(self, epochs: int, milestones: Sequence[int] = ()) -> None:
        """Handle the start of training: at most this many epochs; it may also end after a milestone."""

    def resumed(self, epochs: int) -> None:
        """Handle the resumption from a checkpoint after this many epochs."""

    def progressed(self, epochs: int, trace: Trace) -> None:
        """Handle progress to this many epochs; `trace` has the last chunk, (members, epochs) each."""

    def room(self, epochs: int) -> int:
        """Return, after this many epochs, the number of epochs until the next call of `examined`."""
        return sys.maxsize

    def examined(self, epochs: int, best: Any) -> bool:
        """Handle the best parameters so far, a matrix, after this many epochs; return whether to stop."""
        return False

    def ended(self, reason: str) -> None:
        """Handle the end of training without an error."""

    def chosen(self, trained: "Trained") -> "Trained":
        """Return the result of training, with other parameters if this observer prefers some."""
        return trained

    def noted(self, text: str) -> None:
        """Report a problem with a checkpoint; training continues."""
        warnings.warn(text, CheckpointWarning, stacklevel=2)


def duration(seconds: float) -> str:
    """Format a duration: 4.2 s, 52 s or 3 min 05 s."""
    whole = round(seconds)
    if whole < 90:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{whole} s"
    return f"{whole // 60} min {whole % 60:02d} s"


class Printer(Observer):
    """Print progress, the time to the next possible end, and finally why training ended.

    On a terminal one line is updated; elsewhere there is a line whenever the epochs double. `held` states
    whether rows are held out; `offset` is added to the objective `name`.
    """

    def __init__(
        self, held: bool, name: str = "objective", offset: float = 0.0, stream: TextIO | None = None
    ) -> None:
        self._held, self._name, self._offset, self._stream = held, name, offset, stream or sys.stdout
        self._live, self._begin = self._stream.isatty(), time.monotonic()
        self._ends: tuple[int, ...] = ()  # epochs after which training may end
        self._first: tuple[int, float] | None = None  # epochs and time of the first report
        self._next, self._line = 1, ""

    def say(self, text: str) -> None:
        """Print a line; on a terminal it replaces the line of progress."""
        self._stream.write(f"\r\x1b[K{text}\n" if self._live else f"{text}\n")
        self._stream.flush()

    def planned(self, epochs: int, milestones: Sequence[int] = ()) -> None:
        """Store the epochs after which training may end."""
        self._ends = (*milestones, epochs)

    def resumed(self, epochs: int) -> None:
        """Print the epoch."""
        self.say(f"continuing after epoch {epochs}")

    def progressed(self, epochs: int, trace: Any) -> None:
        """Print the mean objective, the mean held-out score if rows are held out, and the time left."""
        now = time.monotonic()
        if self._first is None:  # the time before this is compilation, or an earlier run
            self._first = epochs, now
        line = f"epoch {epochs}  {self._name} {trace.train[:, -1].mean() + self._offset:.4f}"
        line += f"  held out {trace.held[:, -1].mean() + self._offset:.4f}" if self._held else ""
        end = next((end for end in self._ends if end > epochs), epochs)
        if end > epochs > self._first[0]:
            left = duration((now - self._first[1]) / (epochs - self._first[0]) * (end - epochs))
            last = end == self._ends[-1]
            line += f"  at most {left} left" if last else f"  about {left} to epoch {end}, a possible end"
        if self._live:
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()
        elif epochs >= self._next or epochs == self._ends[-1]:
            self._next, self._line = 2 * epochs, ""
            self.say(line)
        else:
            self._line = line  # not printed yet

    def ended(self, reason: str) -> None:
        """Print the last line, and why training ended."""
        if self._line:
            self.say(self._line)
        seconds = duration(time.monotonic() - self._begin)
        self.say(f"training ended after {seconds}: {reason}")


@dataclass(frozen=True)
class Milestones:
    """Epochs after which training continues only if the held-out score has risen enough.

    After the first cycle training also ends if the best epoch came early: more training would overfit. It
    ends between milestones if the held-out scores have fallen far below their best. That is checked at fixed
    epochs, so that the result does not depend on the clock.
    """

    epochs: tuple[int, ...]
    gain: float  # of the mean score, required for the next cycle
    share: float | None = None  # of the log-loss: required gain if it is smaller than `gain`
    fall: float = np.inf  # of the mean score below its best, which ends training
    last: float = 0.0  # gain required for the last cycle, which takes two thirds of the time
    least: float = 0.0  # smallest required gain of a log-probability, whatever `share` of the log-loss is

    @property
    def every(self) -> int:
        """Return the epochs between checks for a fallen score: a tenth of the first cycle."""
        return self.epochs[0] // 10 or self.epochs[0]

    def reached(self, held: NDArray[np.floating], done: int) -> bool:
        """Return whether training ends here; `held` are the scores of the members after each epoch."""
        best = np.fmax.reduce(held, axis=1)
        if done % self.every == 0:
            if -self.least < best.mean() <= 0:
                return True
            # epochs before the best are not below it: a fast rise must not end training
            after = np.arange(held.shape[1])[None] > np.nan_to_num(held, nan=-np.inf).argmax(1)[:, None]
            below = np.where(after, best[:, None] - held, 0.0)[:, -self.every :]
            if np.nan_to_num(below, nan=0.0).mean() > self.fall:
                return True
        if done not in self.epochs:
            return False
        place = self.epochs.index(done)
        if place == 0:
            early = 1 + np.nan_to_num(held, nan=-np.inf).argmax(1) <= EARLY * done
            return bool(early.mean() > 0.5)
        before = np.fmax.reduce(held[:, : self.epochs[place - 1]], axis=1).mean()
        gain = self.gain
        if self.share is not None:
            gain = max(self.least, min(gain, -self.share * best.mean()))
        if place == len(self.epochs) - 1:
            gain = max(gain, self.last)
        return bool(best.mean() - before < gain)

    def room(self, done: int) -> int:
        """Return the number of epochs to the next milestone or check."""
        ahead = next((epoch - done for epoch in self.epochs if epoch > done), self.every)
        return min(ahead, self.every - done % self.every)


@dataclass(frozen=True)
class Program:
    """The plan to compile, its numbers, and the rules that end training."""

    plan: Plan
    hyper: Hyper  # its patience is counted in blocks
    max_epochs: int
    seed: int = 0
    objective: Objective = LogDensity()  # noqa: RUF009  # immutable
    milestones: Milestones | None = None
    deadline: float | None = None  # time, by `time.perf_counter`, at which pooling should have ended
    checkpoint: Any = None  # file in which the state is stored
    settings: Mapping[str, Any] | None = None  # identify the fit in a checkpoint
    n_jobs: int | None = None  # workers for pairs of members, see `train_groups`; None: all members here
    threads: int | None = None  # None: one for each core


@dataclass(frozen=True)
class Trained:
    """The best parameters, the state to continue from, and the history in passes over the rows."""

    state: State
    params: Tree  # best parameters, with a leading axis of members
    train: NDArray[np.floating]  # (members, passes) mean objective in each pass
    held: NDArray[np.floating]  # (members, passes) mean score of held-out rows after it
    best_epoch: NDArray[np.int32]  # (members,)
    undone: NDArray[np.int32]  # (members,) undone steps
    failed: NDArray[np.bool_]  # (members,) whether too many steps in a row failed
    interrupted: bool
    reason: str  # why training ended


def train(
    params: Tree, blocks: Blocks, program: Program, observer: Observer | None = None,
    state: State | None = None,
) -> Trained:  # fmt: skip
    """Train until the planned end, the patience of all members, or a milestone that ends training.

    KeyboardInterrupt ends training with the best parameters so far. Pass the `state` of an earlier result to
    continue from it: the result does not depend on where training was divided. With `program.checkpoint` the
    state is stored every few seconds, and an unfinished fit with the same settings and rows is resumed.
    """
    if program.n_jobs is not None:
        return train_groups(params, blocks, program, observer or Observer())
    with precision(str(np.asarray(program.hyper.clip).dtype)):
        if state is None:
            seeds = np.random.default_rng(program.seed).integers(0, 2**32, len(program.hyper.clip), np.uint32)
            state = start(program.plan, params, seeds)
        return _train(params, state, blocks, program, observer or Observer())


def _train(params: Tree, state: State, blocks: Blocks, program: Program, observer: Observer) -> Trained:
    plan, hyper, milestones, per_pass = program.plan, program.hyper, program.milestones, blocks.per_pass
    observer.planned(program.max_epochs, () if milestones is None else milestones.epochs)
    file, resume = None, None
    if program.checkpoint is not None:
        fit = identity(program.settings or {}, (params, blocks.identity))
        file = CheckpointFile(program.checkpoint, fit, state, observer.noted)
        resume = file.read()
    empty: Any = np.zeros((len(state.seed), 0))
    trace = Trace(empty, empty)
    if resume is not None:
        state, trace = resume.state, Trace(resume.train, resume.held)  # type: ignore[arg-type]  # NumPy
        observer.resumed(trace.train.shape[1] // per_pass)
    done, n, last = trace.train.shape[1], 1, program.max_epochs * per_pass
    batch, interrupted, first = min(plan.batch_size, blocks.batch_limit), False, 0.0

    def reached() -> str:
        """Return the reason if a milestone ends training."""
        if milestones is None or not done or done % per_pass:
            return ""
        held = np.asarray(trace.held)[:, per_pass - 1 :: per_pass]
        return HELD_OUT if milestones.reached(held, done // per_pass) else ""

    def prepare(block: RowBlock) -> Any:
        decay = hyper.weight_decay * np.asarray(block.share, np.asarray(hyper.clip).dtype)
        each = (block.members, hyper._replace(weight_decay=decay))
        steps = -(-int(np.max(block.members.n_train)) // batch)
        return *jax.device_put((each, (block.data, block.weight))), np.int32(steps)

    ended = reached()
    members = _Members(plan, program.objective, len(state.seed), program.threads)
    with closing(members), closing(_prepare(blocks, done, program.max_epochs, prepare)) as ready:
        while not (done >= last or interrupted or ended or _stalled(state, hyper) or _failed(state).all()):
            clock = time.perf_counter()
            room = observer.room(done // per_pass)
            if milestones is not None:
                room = min(room, milestones.room(done // per_pass))
            n = min(n, last - done, room * per_pass)
            try:
                each, shared, steps = next(ready)
                later, found = members.run(state, each, shared, np.int32(n), steps)
                found = Trace(*(np.asarray(a)[:, :n] for a in found))  # type: ignore[arg-type]  # NumPy
                parts: Any = [np.concatenate(pair, axis=1) for pair in zip(trace, found, strict=True)]
                state, trace, done = later, Trace(*parts), done + n
                if done % per_pass == 0:
                    observer.progressed(done // per_pass, found)
                if file is not None:
                    file.keep(Checkpoint(jax.tree.map(np.asarray, state), *trace))  # type: ignore[arg-type]  # NumPy
                ended = reached()
                if done % per_pass == 0 and observer.examined(done // per_pass, np.asarray(state.best)):
                    ended = "the evaluation set is no longer predicted better"
                if program.deadline is not None:
                    # pooling compiles, too, and takes about as long as the first chunk
                    now = time.perf_counter()
                    needed = now - clock + first  # for another chunk and pooling
                    first = first or needed
                    ended = "the time budget is used up" if now + needed > program.deadline else ended
            except KeyboardInterrupt:
                interrupted = True
            if time.perf_counter() - clock < _CHUNK_SECONDS:
                n = min(2 * n, plan.capacity)
    if not ended:
        ended = "all epochs are done" if done >= last else HELD_OUT if _stalled(state, hyper) else FAILED
    reason = "it was interrupted" if interrupted else ended
    observer.ended(reason)
    if file is not None:
        file.write(finished=not interrupted)
    return observer.chosen(_result(plan, state, hyper, trace, per_pass, interrupted, reason))


def _prepare(blocks: Blocks, done: int, passes: int, prepare: Callable[[RowBlock], Any]) -> Generator[Any]:
    """Yield `prepare(block)` for the blocks after the first `done`; a single block is prepared once."""
    if blocks.only is not None:
        yield from repeat(prepare(blocks.only))
    assert blocks.each is not None
    each = chain.from_iterable(map(blocks.each, range(done // blocks.per_pass, passes)))
    for block in read_ahead(islice(each, done % blocks.per_pass, None)):
        yield prepare(block)


def _failed(state: State) -> NDArray[np.bool_]:
    return np.asarray(state.failures) >= FAILURES


def _stalled(state: State, hyper: Hyper) -> bool:
    """Return whether every member's patience is used up."""
    return bool(np.all(np.asarray(state.epoch) - np.asarray(state.best_epoch) > np.asarray(hyper.patience)))


def _result(
    plan: Plan, state: State, hyper: Hyper, trace: Trace, per_pass: int, interrupted: bool, reason: str
) -> Trained:
    """Return the result, with one entry of the history per pass: mean objective of its blocks, last score."""
    best, stalled = np.asarray(state.best_epoch), _stalled(state, hyper)
    # epochs after the one in which the last patience ended depend on the size of chunks: leave them out
    end = int(np.max(best + np.asarray(hyper.patience))) + 1 if stalled else None
    train, held = (np.asarray(a)[:, :end] for a in trace)
    starts = np.arange(0, train.shape[1], per_pass)
    if per_pass > 1 and len(starts):
        train = np.stack([train[:, k : k + per_pass].mean(1) for k in starts], axis=1)
        held = held[:, np.minimum(starts + per_pass, held.shape[1]) - 1]
    return Trained(
        state=state, params=plan.layout.split(np.asarray(state.best)), train=train, held=held,
        best_epoch=best // per_pass, undone=np.asarray(state.undone), failed=_failed(state),
        interrupted=interrupted, reason=reason,
    )  # fmt: skip


def n_cores() -> int:
    """Return the number of CPU cores that this process may use; 1 if an accelerator is used."""
    return cpu_cores() if jax.default_backend() == "cpu" else 1


def cpu_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Members:
    """Run chunks of epochs, with groups of members in parallel threads."""

    def __init__(self, plan: Plan, objective: Objective, n_members: int, threads: int | None) -> None:
        self._static, self._factorises, self._ready = (plan, objective), False, False
        self._chunk = loop.run_chunk if threads is None else loop.run_chunk_in_one_thread
        threads = threads or n_cores()
        self._size = -(-n_members // max(1, min(n_members, threads)))  # the last group is padded
        self._groups = -(-n_members // self._size)
        self._double = bool(jax.config.read("jax_enable_x64"))  # a setting of the calling thread
        self._pool = ThreadPoolExecutor(self._groups, "tggm-train") if self._groups > 1 else None

    def close(self) -> None:
        """End the threads; a chunk that still runs is not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self, state: State, each: Any, shared: Any, *counts: Any) -> tuple[State, Trace]:
        """Call the chunk: `each` is (members, hyper), `shared` (data, weight), `counts` the rest."""
        groups = [np.arange(k * self._size, (k + 1) * self._size) for k in range(self._groups)]
        K = len(state.seed)

        def part(group: Any) -> Any:
            return jax.tree.map(lambda a: np.asarray(a)[group % K], (state, *each))

        if not self._ready:
            self._ready, first = True, part(groups[0])
            self._factorises = factorises(self._call(self._chunk.trace, first, shared, counts).jaxpr.jaxpr)
            if not self._factorises:  # compile before the threads start
                self._call(self._chunk, first, shared, (np.int32(0), counts[1]))
                return_memory()  # of the compiler, as much as that of a fit
        if self._pool is None or self._factorises:
            with blas_lock(self._factorises):
                whole: tuple[State, Trace] = self._call(self._chunk, (state, *each), shared, counts)
            return whole
        found = [*self._pool.map(lambda group: self._call(self._chunk, part(group), shared, counts), groups)]
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:K], *found)

    def _call(self, function: Any, part: Any, shared: Any, counts: Any) -> Any:
        # accelerators would round the factors of a product to 10 bits
        with jax.debug_nans(False), jax.enable_x64(self._double), jax.default_matmul_precision("highest"):
            return jax.block_until_ready(function(*self._static, *part, *shared, *counts))


# ---- pairs of members in parallel workers ----


def train_groups(params: Tree, blocks: Blocks, program: Program, observer: Observer) -> Trained:
    """Train pairs of members in `program.n_jobs` workers, and join the results."""
    if blocks.only is None:
        raise ValueError("`n_jobs` needs rows in memory; a stream is trained with n_jobs=None.")
    if observer.room(0) <= program.max_epochs:
        raise ValueError("`n_jobs` must be None with an `eval_set`, which all members predict during a fit.")
    block, K = blocks.only, len(program.hyper.clip)
    groups = np.array_split(np.arange(K), max(1, K // PAIR))
    seconds = program.deadline
    if seconds is not None:  # workers have other clocks
        share = min(1.0, effective_n_jobs(program.n_jobs) / len(groups))
        seconds = share * (seconds - time.perf_counter())
    state = start(program.plan, params, np.random.default_rng(program.seed).integers(0, 2**32, K, np.uint32))
    buffers: list[pickle.PickleBuffer] = []
    rows = dumps((block.data, block.weight), protocol=5, buffer_callback=buffers.append)
    arrays = [np.frombuffer(each.raw(), np.uint8) for each in buffers]

    def task(k: int, group: Any) -> Any:
        file = None if program.checkpoint is None else f"{program.checkpoint}.{k}"
        plan: Any = program.plan
        plan = plan._replace(layout=None)  # cannot be pickled; made again
        mine = replace(program, plan=plan, n_jobs=None, threads=1, deadline=seconds, checkpoint=file)
        own = jax.tree.map(lambda a: np.asarray(a)[group], (params, state, block.members, program.hyper))
        return delayed(_worker())(dumps((_train_group, (own, mine, blocks.identity))), rows, arrays)

    observer.planned(program.max_epochs, () if program.milestones is None else program.milestones.epochs)
    found: list[Trained] = []
    try:
        work = Parallel(program.n_jobs, return_as="generator")
        for one in work(task(k, group) for k, group in enumerate(groups)):
            if one.interrupted:  # fewer members would be another model
                raise KeyboardInterrupt
            found.append(one)
            observer.progressed(one.train.shape[1], Trace(one.train, one.held))
    except BrokenExecutor as error:
        raise RuntimeError("a worker ended, often for lack of memory; use a smaller `n_jobs`.") from error
    result = _joined(found)
    observer.ended(result.reason)
    return result


def _worker() -> Callable[[bytes, bytes, list[np.ndarray]], Trained]:
    """Return a function without references to this package, whose import would start JAX."""

    def work(task: bytes, rows: bytes, arrays: Any) -> Any:
        import os
        import pickle
        import sys

        if "jax" not in sys.modules:
            os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
        function, given = pickle.loads(task)
        return function(*given, *pickle.loads(rows, buffers=arrays))

    return work


def _train_group(own: Any, program: Program, identity: Any, data: Any, weight: Any) -> Trained:
    params, state, members, hyper = own
    plan = program.plan._replace(layout=Layout.of(params, axes=1))
    blocks = replace(Blocks.of(RowBlock(members, data, weight)), identity=identity)
    deadline = None if program.deadline is None else time.perf_counter() + program.deadline
    return train(params, blocks, replace(program, plan=plan, hyper=hyper, deadline=deadline), state=state)


def _joined(found: list[Trained]) -> Trained:
    """Join members; histories end with NaN where others are longer."""
    passes = max(one.train.shape[1] for one in found)

    def padded(history: Any) -> Any:
        return np.pad(history, [(0, 0), (0, passes - history.shape[1])], constant_values=np.nan)

    def joined(*parts: Any) -> Any:
        return np.concatenate(parts)

    arrays = [(one.state, one.params, one.best_epoch, one.undone, one.failed) for one in found]
    state, params, best, undone, failed = jax.tree.map(joined, *arrays)
    return Trained(
        state=state, params=params, best_epoch=best, undone=undone, failed=failed,
        train=joined(*(padded(one.train) for one in found)),
        held=joined(*(padded(one.held) for one in found)),
        interrupted=any(one.interrupted for one in found),
        reason="; ".join(sorted({one.reason for one in found})),
    )  # fmt: skip
