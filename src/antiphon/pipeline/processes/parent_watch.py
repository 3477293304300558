"""A worker dies with its supervisor, however that ended."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent's thread ends; end at once if that has happened already.

    The signal follows the *thread* that started this process: the supervisor starts workers on the thread that lives
    as long as they do. Elsewhere than on Linux `is_orphan` is the only guard.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if is_orphan(parent_pid):
        sys.exit(1)


def is_orphan(parent_pid: int) -> bool:
    return os.getppid() != parent_pid
