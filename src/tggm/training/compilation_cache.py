"""Compiled programs kept between processes, so that a first fit costs what a second one does.

JAX can store what it compiled in a folder and load it again. Estimators switch this on before their first
program, in a folder of the user's own for this processor and this version of the compiler, unless JAX has
been given a folder already or the variable TGGM_COMPILATION_CACHE says ``off`` (or names another folder).
What lies there is executed, so it must be writable by its owner only. A program that was half written when
another process reads it is compiled again.
"""

import hashlib
import os
import platform
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

SWITCH = "TGGM_COMPILATION_CACHE"
OFF = ("off", "0", "no", "false")
TRACED = "-traced"  # how names of `traced_programs` end
MOST_BYTES = 256 * 2**20  # of all programs kept; the default fit's are 0.3 MB


FOLDERS: list[Path] = []  # private ones that this process was told to use, the last one last


@cache
def keep_compiled() -> None:
    """Switch the cache on where nobody decided otherwise; once in a process.

    Without a home, or with a folder that others can write to, programs are compiled each time.
    """
    choice = os.environ.get(SWITCH, "")
    if choice.lower() in OFF or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    with suppress(OSError, RuntimeError):  # RuntimeError: no home directory can be found
        folder = use_compilation_cache(choice or None)
        prune(folder if choice else folder.parent, MOST_BYTES)


def use_compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path:
    """Store compiled programs in a private folder, for this process and later ones.

    This changes JAX's configuration for the whole process, as asked.

    Parameters
    ----------
    folder : path, optional
        Made with permissions 0700 if missing; one of this machine's kind under ``~/.cache/tggm`` (or under
        XDG_CACHE_HOME) by default.

    Returns
    -------
    pathlib.Path
        The folder in use.

    Raises
    ------
    PermissionError
        If others own the folder or may write to it: they could make this process run their code.
    """
    path = Path(folder) if folder is not None else _own_folder()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_private(path)
    update: Callable[[str, object], None] = jax.config.update
    update("jax_compilation_cache_dir", str(path))
    update("jax_persistent_cache_min_compile_time_secs", 0.1)
    compilation_cache.reset_cache()  # a cache opened before, or found missing, would stay
    FOLDERS.append(path)
    return path


def folder_in_use() -> Path | None:
    """The private folder with programs; None if there is none, or if JAX was given another."""
    folder = FOLDERS[-1] if FOLDERS else None
    return folder if str(folder) == getattr(jax.config, "jax_compilation_cache_dir", None) else None


def prune(folder: Path, most: int) -> None:
    """Delete the programs that were not used for longest until at most so many bytes are left."""
    programs = (path for kind in ("-cache", TRACED) for path in folder.rglob("*" + kind))
    kept = sorted(programs, key=_used, reverse=True)
    total = 0
    for path in kept:
        total += path.stat().st_size
        if total > most:
            path.unlink(missing_ok=True)


def _used(program: Path) -> float:
    """When it was read or written: JAX notes reading in a file beside it."""
    noted = program.with_name(program.name.removesuffix("-cache") + "-atime")
    return max(path.stat().st_mtime for path in (program, noted) if path.exists())


def _own_folder() -> Path:
    """For this processor's instructions and this compiler: a home may be shared by several machines."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kind = hashlib.sha256(_instructions().encode()).hexdigest()[:8]
    return Path(base) / "tggm" / f"{version('jaxlib')}-{kind}"


def _instructions() -> str:
    """What the processor can do, as far as the system says."""
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
