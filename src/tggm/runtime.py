"""How the package runs JAX: double precision, precision of products, factorisations, stored programs.

**Precision.** `precision` enables double precision in a block. Accelerators multiply float32 matrices with
fewer digits by default: NVIDIA GPUs round the factors to 10 bits (TensorFloat-32). Engines subtract such
products: without `full_precision`, on an H200, EP converges on four rows in ten of a posterior with 100 units
and 5 outputs, and its log Z has an error of 1.5 nats.

**Factorisations.** Two batched factorisations of JAX that run at the same time on a CPU may deadlock on the
thread pool (jaxlib 0.10): in two threads, or in one program with independent factorisations. The workaround:

- `blas_lock`: code that may run in several threads runs such a program, and waits for its result, inside it;
- `factorises`: detects such programs;
- `compute_after`: makes one part of a program wait for another.

Inside the lock LAPACK uses one thread: a batch has many small matrices, and starting the threads of OpenBLAS
for each of them costs several times what they save (from 32 rows on).

**Stored programs.** Estimators enable JAX's compilation cache before their first program, so that a first fit
takes little longer than a second one. Programs are in a private folder for this processor and compiler
version, unless JAX already has a folder or the variable TGGM_COMPILATION_CACHE is ``off`` (or names another
folder). They are executed, so the folder must be writable by its owner only.
"""

import ctypes
import hashlib
import os
import platform
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental.compilation_cache import compilation_cache

P = ParamSpec("P")
T = TypeVar("T")

# By default the GPU compiler generates and times dozens of kernels for each product. Library products and
# plain fusion are as fast here, and compile faster: on an H200 the training program of 100 units and ten
# classes in 3 s instead of 24, its scores in 0.5 s instead of 10.
GPU_COMPILER_OPTIONS = {
    "xla_gpu_enable_triton_gemm": False,
    "xla_disable_hlo_passes": "triton-softmax-rewriter",
}
SWITCH = "TGGM_COMPILATION_CACHE"
OFF = ("off", "0", "no", "false")
MOST_BYTES = 256 * 2**20  # of all stored programs; those of the default fit take 0.3 MB


@cache
def _first_process() -> int:
    """Return the process that used JAX first; processes forked from it keep the number."""
    return os.getpid()


def require_unforked() -> None:
    """Raise in a process forked after JAX was used: JAX's threads are missing and it would hang."""
    if os.getpid() != _first_process():
        raise RuntimeError(
            f"JAX does not work in a process forked from one ({_first_process()}) that used it; spawn "
            "processes by joblib or multiprocessing.get_context('spawn'), or fork before the first fit."
        )


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """Enable double precision inside the block if `dtype` is float64; the global setting does not change."""
    require_unforked()
    _enable_cache()
    # NaN marks missing values and steps to undo: it is no error with JAX_DEBUG_NANS=1
    with jax.debug_nans(False), jax.enable_x64(True) if dtype == "float64" else nullcontext():
        yield


def full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Compute all matrix products of a function in full precision.

    Derivatives of a product keep its precision. Rules of `jax.custom_jvp` and `custom_vjp` are traced
    separately: a rule that multiplies matrices needs this decorator, too.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return call


_LOCK = threading.RLock()
# primitives that call LAPACK
_FACTORISATIONS = {"cholesky", "triangular_solve", "lu", "geqrf", "householder_product", "eigh", "eig", "svd"}


@cache
def _libraries() -> Any:
    """Return the BLAS libraries of this process."""
    from threadpoolctl import ThreadpoolController  # a dependency of scikit-learn

    return ThreadpoolController()


@contextmanager
def blas_lock(needed: bool = True) -> Iterator[None]:
    """Hold the lock, with one BLAS thread, if `needed` and on a CPU."""
    if not needed or jax.default_backend() != "cpu":
        yield
        return
    with _LOCK, _libraries().limit(limits=1, user_api="blas"):
        yield


def factorises(jaxpr: Any) -> bool:
    """Return whether a traced program contains a factorisation or a triangular solve, at any depth."""
    todo, seen = [jaxpr], set()
    while todo:
        eqns = getattr(todo.pop(), "eqns", ())
        for eqn in eqns:
            if eqn.primitive.name in _FACTORISATIONS:
                return True
            for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda p: hasattr(p, "eqns")):
                if hasattr(inner, "eqns") and id(inner) not in seen:
                    seen.add(id(inner))
                    todo.append(inner)
    return False


def compute_after(tree: T, after: Array) -> T:
    """Make the floating arrays of a tree depend on `after`; gradients do not pass to `after`.

    Adds zero times the sum of `after`, which the compiler keeps because the sum might be infinite.
    """
    zero = 0.0 * jnp.nan_to_num(lax.stop_gradient(after)).sum()

    def wait(a: Array) -> Array:
        return a + zero.astype(a.dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a

    return jax.tree.map(wait, tree)


def return_memory() -> None:
    """Return unused memory to the system; glibc would keep it until the process ends."""
    if sys.platform == "linux":
        with suppress(AttributeError):  # other C libraries
            ctypes.CDLL(None).malloc_trim(0)


@cache
def _enable_cache() -> None:
    """Enable the cache, once in a process, unless the user configured it otherwise.

    Without a home folder, or if others can write to the folder, programs are compiled each time.
    """
    choice = os.environ.get(SWITCH, "")
    if choice.lower() in OFF or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    with suppress(OSError, RuntimeError):  # RuntimeError: no home directory can be found
        folder = use_compilation_cache(choice or None)
        prune(folder if choice else folder.parent, MOST_BYTES)


def use_compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path:
    """Store compiled programs of this process in a private folder, and return it.

    By default it is a folder under ``~/.cache/tggm`` (or XDG_CACHE_HOME). PermissionError if others own the
    folder or may write to it: its contents are executed.
    """
    if folder is None:  # one for this processor and compiler: machines may share a home folder
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        kind = hashlib.sha256(_instructions().encode()).hexdigest()[:8]
        folder = Path(base) / "tggm" / f"{version('jaxlib')}-{kind}"
    path = Path(folder)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_private(path)
    update: Callable[[str, object], None] = jax.config.update
    update("jax_compilation_cache_dir", str(path))
    update("jax_persistent_cache_min_compile_time_secs", 0.1)
    compilation_cache.reset_cache()  # reopen it in the new folder
    return path


def prune(folder: Path, most: int) -> None:
    """Delete the least recently used programs until at most `most` bytes are left."""

    def last_use(program: Path) -> float:  # JAX records reads in a file beside it
        noted = program.with_name(program.name.removesuffix("-cache") + "-atime")
        return max(path.stat().st_mtime for path in (program, noted) if path.exists())

    kept = sorted(folder.rglob("*-cache"), key=last_use, reverse=True)
    total = 0
    for path in kept:
        total += path.stat().st_size
        if total > most:
            path.unlink(missing_ok=True)


def _instructions() -> str:
    """Return the instruction sets of the processor."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
    return f"{platform.machine()} {platform.processor()}"


def _require_private(path: Path) -> None:
    status = path.stat()
    if not hasattr(os, "getuid"):  # Windows: the profile folder is private by its access list
        return
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(
            f"`folder` {path} must belong to you and be writable by you alone, as its contents are executed; "
            f"its mode is {stat.S_IMODE(status.st_mode):04o}. Choose another, or: chmod 700 {path}"
        )
