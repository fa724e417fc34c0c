"""Whole files: written so that a reader sees the old one or the new one, read without surprises."""

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, content: bytes, *, previous: Path | None = None) -> None:
    """Replace the file at `path` by `content`, entirely or not at all.

    The bytes go to a new file in the same folder, reach the disk, and take the name in one step. An
    existing file keeps its permissions, a symbolic link its target's place; a new file gets the usual ones.
    With `previous`, what was at `path` is there afterwards; at every moment one of the two is whole.
    """
    target = Path(os.path.realpath(path))
    for name in filter(None, (target, previous)):
        require_replaceable(name)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder; make it first", str(target.parent))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(handle, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if previous is not None:
            with contextlib.suppress(FileNotFoundError):
                os.replace(target, previous)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def require_replaceable(path: Path) -> None:
    """Raise unless there is a regular file or nothing: a rename would put an end to a pipe or a device."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "This is a folder; name a file in it", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "This is a pipe or a device, not a regular file; name another", str(path))


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power failure, where the system lets a folder be synchronised."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def open_regular(path: Path) -> BinaryIO:
    """A regular file, to be read; a folder, pipe or device is refused instead of waited for."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return path.open("rb")


def read_regular(path: Path) -> bytes:
    """Content of a regular file."""
    with open_regular(path) as file:
        return file.read()
