"""One worker process: started, watched through a descriptor, ended and waited for, so that it leaves no zombie."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

WORKER_COMMAND = (sys.executable, "-m", "antiphon.pipeline.worker")


class Child:
    """A process that runs *command* and is told on its standard input where the front is.

    Start it on the thread that outlives it: Linux ends it with that thread.

    Attributes:
        identity: the name of its ZeroMQ socket. A secret, for it is all that tells it from a stranger.
    """

    def __init__(self, command: Sequence[str], endpoint: str, name: str, env: Mapping[str, str]) -> None:
        self.identity = f"{name}-{secrets.token_hex(16)}".encode()
        self._process = subprocess.Popen([*command], stdin=subprocess.PIPE, env={**os.environ, **env})
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has died already; its descriptor tells
            self._process.stdin.write(f"{endpoint}\n{self.identity.decode()}\n{os.getpid()}\n".encode())
            self._process.stdin.close()
        self._descriptor = os.pidfd_open(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """Becomes readable when the process ends."""
        return self._descriptor

    def is_alive(self) -> bool:
        """Asks the kernel, from any thread."""
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def reap(self) -> str:
        """Wait for the end of a process that has ended or was killed; returns how it ended, in words."""
        code = self._process.wait()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exited with status {code}"
