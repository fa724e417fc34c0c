"""Keep compiled programs between processes, so that a first fit takes little longer than a second one.

Estimators enable JAX's compilation cache before their first program, in a private folder for this processor
and compiler version, unless JAX already has a folder or the variable TGGM_COMPILATION_CACHE is ``off`` (or
names another folder). Its contents are executed, so the folder must be writable by its owner only.
"""

import hashlib
import os
import platform
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

SWITCH = "TGGM_COMPILATION_CACHE"
OFF = ("off", "0", "no", "false")
MOST_BYTES = 256 * 2**20  # of all stored programs; those of the default fit take 0.3 MB


@cache
def _forks() -> list[int]:
    """Return a list that is empty in this process and filled in processes forked from it."""
    found: list[int] = []
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: found.append(os.getppid()))
    return found


def require_unforked() -> None:
    """Raise in a process forked after JAX was used: JAX's threads are missing and it would hang."""
    if _forks():
        raise RuntimeError(
            f"this process was forked from one ({_forks()[-1]}) that had used tggm already, and JAX cannot "
            "continue in it. Spawn processes, by multiprocessing.get_context('spawn') or joblib, or fork "
            "before the first fit or prediction."
        )


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """Enable double precision inside the block if `dtype` is float64; the global setting stays."""
    require_unforked()
    keep_compiled()
    if dtype == "float64":
        with jax.enable_x64(True):
            yield
    else:
        yield


@cache
def keep_compiled() -> None:
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
    """Store compiled programs in a private folder, for this process and later ones.

    This changes JAX's configuration for the whole process.

    Parameters
    ----------
    folder : path, optional
        Created with permissions 0700 if missing; by default a folder under ``~/.cache/tggm`` (or
        XDG_CACHE_HOME).

    Returns
    -------
    pathlib.Path
        The folder in use.

    Raises
    ------
    PermissionError
        If others own the folder or may write to it: its contents are executed.
    """
    path = Path(folder) if folder is not None else _own_folder()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_private(path)
    update: Callable[[str, object], None] = jax.config.update
    update("jax_compilation_cache_dir", str(path))
    update("jax_persistent_cache_min_compile_time_secs", 0.1)
    compilation_cache.reset_cache()  # reopen it in the new folder
    return path


def prune(folder: Path, most: int) -> None:
    """Delete the least recently used programs until at most `most` bytes are left."""
    kept = sorted(folder.rglob("*-cache"), key=_used, reverse=True)
    total = 0
    for path in kept:
        total += path.stat().st_size
        if total > most:
            path.unlink(missing_ok=True)


def _used(program: Path) -> float:
    """Return when a program was last read or written; JAX records reads in a file beside it."""
    noted = program.with_name(program.name.removesuffix("-cache") + "-atime")
    return max(path.stat().st_mtime for path in (program, noted) if path.exists())


def _own_folder() -> Path:
    """Return a folder for this processor and compiler: machines may share a home folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kind = hashlib.sha256(_instructions().encode()).hexdigest()[:8]
    return Path(base) / "tggm" / f"{version('jaxlib')}-{kind}"


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
