"""Keeping compiled programs between processes, on request.

JAX can store what it compiled in a folder and load it again; a first fit then costs what a second one does.
What lies in that folder is executed, so it must be writable by its owner only. Nothing is stored unless this
is called, or JAX's own variable JAX_COMPILATION_CACHE_DIR is set.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache


def use_compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path:
    """Store compiled programs in a private folder, for this process and later ones.

    This changes JAX's configuration for the whole process, as asked.

    Parameters
    ----------
    folder : path, optional
        Made with permissions 0700 if missing; ``~/.cache/tggm`` (or under XDG_CACHE_HOME) by default.

    Returns
    -------
    pathlib.Path
        The folder in use.

    Raises
    ------
    PermissionError
        If others own the folder or may write to it: they could make this process run their code.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(folder) if folder is not None else Path(base) / "tggm"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_private(path)
    update: Callable[[str, object], None] = jax.config.update
    update("jax_compilation_cache_dir", str(path))
    update("jax_persistent_cache_min_compile_time_secs", 0.1)
    compilation_cache.reset_cache()  # a cache opened before, or found missing, would stay
    return path


def _require_private(path: Path) -> None:
    status = path.stat()
    if not hasattr(os, "getuid"):  # Windows: the profile folder is private by its access list
        return
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(
            f"`folder` {path} must belong to you and be writable by you alone, as its contents are executed; "
            f"its mode is {stat.S_IMODE(status.st_mode):04o}. Choose another, or: chmod 700 {path}"
        )
