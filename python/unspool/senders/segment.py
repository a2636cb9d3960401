"""A segment of POSIX shared memory that an engine on this host maps (docs/adr/0006-weights-through-shared-memory.md)."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import secrets
import weakref
from pathlib import Path

import numpy as np

from ..errors import TransferError

# Where Linux keeps what shm_open() makes.
DIRECTORY = Path("/dev/shm")
NAME = re.compile(r"unspool-[0-9a-f]{32}")

_segments: weakref.WeakSet[Segment] = weakref.WeakSet()


def _let_go_in_child() -> None:
    # A lock belongs to the open file, which a fork shares: a data loader that outlives the trainer would hold it.
    for segment in _segments:
        segment.close_file()


os.register_at_fork(after_in_child=_let_go_in_child)


class Segment:
    """New shared memory, zeroed, under a name that cannot be guessed and for this user alone. Its lock is held until
    close() or the end of this process: then an engine that has it mapped lets go."""

    def __init__(self, size_bytes: int):
        self.name, self._fd = _create()
        self.is_named = True
        try:
            # All pages now, or an error: a page that is missing later would be a SIGBUS in the middle of a copy.
            os.posix_fallocate(self._fd, 0, size_bytes)
            memory = self._map(size_bytes)
        except OSError as error:
            self.unlink()
            os.close(self._fd)
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                raise TransferError(f"{DIRECTORY} has no room for {size_bytes:,} bytes of shared memory") from None
            raise
        self.bytes = np.frombuffer(memory, np.uint8)  # [size_bytes], writable
        self.address = self.bytes.ctypes.data
        _segments.add(self)

    def _map(self, size_bytes: int) -> mmap.mmap:
        # By a descriptor opened anew: the mapping keeps a duplicate as long as an array looks at it, which must not keep
        # the lock as well.
        fd = os.open(DIRECTORY / self.name[1:], os.O_RDWR | os.O_CLOEXEC)
        try:
            return mmap.mmap(fd, size_bytes)
        finally:
            os.close(fd)

    def __len__(self) -> int:
        return len(self.bytes)

    def offset_of(self, address: int, nbytes: int) -> int | None:
        """Where in it these bytes lie, if they do."""
        offset = address - self.address
        return offset if offset >= 0 and offset + nbytes <= len(self) else None

    def unlink(self) -> None:
        """Takes the name away, where the engine has not done so: it has the segment mapped."""
        if self.is_named:
            (DIRECTORY / self.name[1:]).unlink(missing_ok=True)
            self.is_named = False

    def close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        """Name and lock go. The memory goes with the last array that looks at it."""
        self.unlink()
        self.close_file()


def _create() -> tuple[str, int]:
    while True:
        name = f"unspool-{secrets.token_hex(16)}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(DIRECTORY / name, flags, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return "/" + name, fd
        os.close(fd)  # between the two calls somebody swept: it was not locked yet


def sweep() -> None:
    """Removes segments of this user's that a crash left behind: their lock is free."""
    for path in DIRECTORY.glob("unspool-*"):
        if not NAME.fullmatch(path.name):
            continue
        try:
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # another user's, or gone by now
            continue
        try:
            if os.fstat(fd).st_uid == os.geteuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
        except OSError:  # in use
            pass
        finally:
            os.close(fd)
