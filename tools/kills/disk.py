"""A disk that fails: between `tggm.storage` and the operating system, at a chosen call.

The calls of a write are counted: opening, writing, synchronising, renaming, and synchronising the folder.
At the chosen one the process is killed (`Kill`), the power fails (`PowerLoss`), or the disk is full from
then on for a while (`Full`). A write that is struck has written half of its bytes.
"""

import errno
import io
import os
import random
import signal
import stat
import sys
from pathlib import Path

from tggm import storage


class Disk:
    """Passes on what is asked for, until the chosen call; tells `said` at which step it struck."""

    def __init__(self, call, said=lambda step: None, rng=None):
        self.left, self.said = call, said
        self.rng = random.Random(0) if rng is None else rng

    def install(self):
        """Stand between the module that writes files and the system."""
        storage.os = type(sys)("os")
        storage.os.__dict__.update(os.__dict__, open=self.open, fsync=self.fsync, replace=self.replace)
        storage.open = lambda handle, mode: Written(handle, self)

    def open(self, path, flags, mode=0o777):
        """Open, or create."""
        self.step("open")
        return os.open(path, flags, mode)

    def fsync(self, handle):
        """Synchronise a file or a folder."""
        self.step("sync folder" if is_folder(handle) else "sync")
        os.fsync(handle)

    def replace(self, source, target):
        """Rename."""
        self.step("rename to previous" if str(target).endswith(".previous") else "rename")
        os.replace(source, target)

    def step(self, name, half=lambda: None):
        """Count a call; strike if it is the one, after doing half of it."""
        self.left -= 1
        if self.left == 0:
            half()
            self.said(name)
            self.strike()

    def strike(self):
        """What goes wrong."""
        self.end()

    @staticmethod
    def end():
        """Without a word."""
        os.kill(os.getpid(), signal.SIGKILL)


class Written(io.BufferedWriter):
    """A file on such a disk."""

    def __init__(self, handle, disk):
        super().__init__(io.FileIO(handle, "wb"))
        self.disk = disk

    def write(self, content):
        """Write all, or half if the disk strikes."""
        self.disk.step("write", lambda: self._half(content))
        return super().write(content)

    def _half(self, content):
        super().write(content[: len(content) // 2])
        self.flush()


class Kill(Disk):
    """The process ends at once."""


class Full(Disk):
    """No space for some calls, or for ever."""

    SPELLS = (1, 2, 5, 20, 10**9)

    def strike(self):
        """Begin to refuse."""
        self.spell = self.rng.choice(self.SPELLS)
        self._refuse()

    def step(self, name, half=lambda: None):
        """Refuse while the disk is full."""
        if self.left <= 0 and self.left > -self.spell:
            self.left -= 1
            self._refuse()
        super().step(name, half)

    def _refuse(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class PowerLoss(Disk):
    """The machine stops, and its file system forgets what was not synchronised.

    The bytes of a file are kept if it was synchronised after they were written; else some of them, or zeros.
    New names and renames are kept if the folder was synchronised afterwards; of later ones none, the first
    few, any, or all. What lay in the folder at the start is kept.
    """

    def __init__(self, call, said=lambda step: None, rng=None, folder=None):
        super().__init__(call, said, rng)
        self.folder = Path(folder)
        self.names = {path.name: path.name for path in self.folder.iterdir()}  # synchronised: name to file
        self.bytes = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        self.later = []  # (name that ends, name that begins, file): not synchronised
        self.opened = {}  # descriptors of new files
        self.now = dict(self.names)

    def open(self, path, flags, mode=0o777):
        """Note new names."""
        handle = super().open(path, flags, mode)
        if flags & os.O_CREAT:
            name = Path(path).name
            self.opened[handle] = self.now[name] = f"{name} {len(self.later)} {self.left}"
            self.later.append((None, name, self.now[name]))
        return handle

    def fsync(self, handle):
        """Note what is safe now."""
        super().fsync(handle)
        if is_folder(handle):
            self.names, self.later = dict(self.now), []
        else:
            size = os.fstat(handle).st_size
            with open(f"/proc/self/fd/{handle}", "rb") as file:
                self.bytes[self.opened[handle]] = file.read(size)

    def replace(self, source, target):
        """Note a rename, once it has happened."""
        super().replace(source, target)
        before, after = Path(source).name, Path(target).name
        self.now[after] = self.now.pop(before)
        self.later.append((before, after, self.now[after]))

    def strike(self):
        """Leave the folder as the next start may find it."""
        torn = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        names = self.remembered()
        for path in self.folder.iterdir():
            path.unlink()
        for name, file in names.items():
            found = self.bytes.get(file)
            (self.folder / name).write_bytes(self.piece(torn.get(name, b"")) if found is None else found)
        self.end()

    def remembered(self):
        """Names and their files after the power loss."""
        count = len(self.later)
        first = range(self.rng.randrange(count + 1))
        some = [k for k in range(count) if self.rng.random() < 0.5]
        names = dict(self.names)
        for k in self.rng.choice([(), first, some, range(count)]):
            before, after, file = self.later[k]
            names.pop(before, None)
            names[after] = file
        return names

    def piece(self, content):
        """What is left of bytes that were not synchronised."""
        half = content[: self.rng.randrange(len(content) + 1)]
        return self.rng.choice([b"", half, bytes(len(content)), half + bytes(len(content) - len(half))])


def is_folder(handle):
    """Whether a descriptor is a folder's."""
    return stat.S_ISDIR(os.fstat(handle).st_mode)
