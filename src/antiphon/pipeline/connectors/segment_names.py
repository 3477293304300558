"""Names of shared-memory segments: who owns one, and whether it was left behind by an owner that is gone.

A segment normally has a name only until its second user has opened it. One whose owner was killed in between stays; the
next start reaps it. Proof of life is a file lock, which the kernel drops with its holder: a process id alone may be
reused, or belong to another container that shares the folder. Process id and start time are in the name for people, and
save a lock attempt.
"""

import fcntl
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SEGMENT_FOLDER = Path("/dev/shm")
_PREFIX = "antiphon"


def process_start_ticks(pid: int) -> int | None:
    """When process *pid* started, in clock ticks since boot; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in parentheses and may hold anything, spaces and parentheses too.
    return int(text[text.rindex(")") + 2 :].split()[19])


def new_segment_name(edge: str) -> str:
    """A name no other process uses. *edge* is a word for people."""
    return f"{_PREFIX}-{os.getpid()}-{process_start_ticks(os.getpid())}-{edge}-{secrets.token_hex(8)}"


def create_segment(name: str, num_bytes: int, folder: Path = SEGMENT_FOLDER) -> int:
    """Create, reserve and lock a segment; returns its file descriptor. The lock lives as long as the descriptor.

    Raises:
        OSError: the folder has no room: its pages are taken now, so that no later write can fail on them.
    """
    path = folder / name
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.posix_fallocate(descriptor, 0, num_bytes)
        if os.fstat(descriptor).st_nlink == 0:  # a reaper came between creation and lock
            raise FileNotFoundError(f"{path} was removed while it was made")
    except OSError:
        os.close(descriptor)
        unlink_segment(name, folder)
        raise
    return descriptor


def open_segment(name: str, folder: Path = SEGMENT_FOLDER) -> int:
    """Open another process's segment and share its lock."""
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def unlink_segment(name: str, folder: Path = SEGMENT_FOLDER) -> None:
    with suppress(FileNotFoundError):
        (folder / name).unlink()


def reap_segments(
    folder: Path = SEGMENT_FOLDER, *, start_ticks: Callable[[int], int | None] = process_start_ticks
) -> list[str]:
    """Remove the segments of owners that are gone; returns their names. Those of other users are left to them."""
    reaped = []
    for path in sorted(folder.glob(f"{_PREFIX}-*")):
        parts = path.name.split("-")
        if len(parts) < 5 or not (parts[1].isdecimal() and parts[2].isdecimal()):
            continue
        if start_ticks(int(parts[1])) == int(parts[2]):
            continue
        if _remove_unlocked(path):
            reaped.append(path.name)
    return reaped


def _remove_unlocked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, PermissionError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except (BlockingIOError, FileNotFoundError):
        return False
    finally:
        os.close(descriptor)
    return True
