"""The further ranks of a tensor-parallel Thinker: processes that a worker starts beside itself and lives and dies with.

To the supervisor the ranks of one Thinker are one worker. Rank 0 is the worker's own process; it alone decides. When a
further rank ends, rank 0 can compute nothing any more and ends too; when rank 0 ends, the kernel ends the others.
"""

import base64
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from antiphon.core.errors import EngineError
from antiphon.layers.parallel import ParallelGroup, join_group
from antiphon.pipeline.processes.control import BuildStages, front_encoding

RANK_COMMAND = (sys.executable, "-m", "antiphon.pipeline.rank")
KV_BLOCKS = "kv_cache_blocks"  # rank 0's number, which all take
_HOST = "127.0.0.1"
_LOOK_AROUND_MS = 50


def ready_key(rank: int) -> str:
    """Set when the rank has loaded its model."""
    return f"ready/{rank}"


def failed_key(rank: int) -> str:
    """Set, to the reason, when it could not."""
    return f"failed/{rank}"


class Ranks:
    """Starts the further ranks of *order* at once; they load while this process does. Start it on the thread that
    outlives them, as `Child`.
    """

    def __init__(self, order: BuildStages, *, command: Sequence[str] = RANK_COMMAND) -> None:
        self.size = 1 + len(order.peers)
        self.store = TCPStore(_HOST, 0, self.size, is_master=True, wait_for_workers=False)
        self._device = torch.device(order.device)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._descriptors: dict[int, int] = {}  # pidfd → rank
        self._is_closing = threading.Event()
        for rank, device in enumerate(order.peers, 1):
            # Voices are rank 0's business.
            own = replace(order, device=device, peers=(), model=replace(order.model, default_voice=None))
            self._start(rank, command, own)

    def join(self, kv_cache_blocks: int) -> ParallelGroup:
        """Wait until all have loaded, and form the group.

        Raises:
            EngineError: a rank has failed or ended.
        """
        self.store.set(KV_BLOCKS, str(kv_cache_blocks))
        waiting = set(range(1, self.size))
        while waiting:
            for rank in list(waiting):
                if self.store.check([failed_key(rank)]):
                    raise EngineError(f"tensor parallel rank {rank}: {self.store.get(failed_key(rank)).decode()}")
                if self.store.check([ready_key(rank)]):
                    waiting.discard(rank)
            ended = self._wait_for_end(_LOOK_AROUND_MS) if waiting else None
            if ended is not None and not self.store.check([failed_key(ended)]):
                raise EngineError(self._obituary(ended))
        return join_group(self.store, rank=0, size=self.size, device=self._device)

    def watch(self, on_death: Callable[[str], None]) -> None:
        """From now on call *on_death*, on a thread, with a sentence when the first of them ends before `close`."""

        def wait() -> None:
            while not self._is_closing.is_set():
                ended = self._wait_for_end(_LOOK_AROUND_MS)
                if ended is not None and not self._is_closing.is_set():
                    on_death(self._obituary(ended))
                    return

        threading.Thread(target=wait, name="antiphon-ranks", daemon=True).start()

    def lost(self) -> str | None:
        """A sentence about one that has ended; None while all live."""
        ended = self._wait_for_end(0)
        return None if ended is None else self._obituary(ended)

    def close(self) -> None:
        """End them and wait for it."""
        self._is_closing.set()
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, rank: int, command: Sequence[str], order: BuildStages) -> None:
        process = subprocess.Popen([*command], stdin=subprocess.PIPE)
        assert process.stdin is not None
        text = base64.b64encode(front_encoding().encode(order).control).decode()
        with suppress(BrokenPipeError):  # it has died already; its descriptor tells
            process.stdin.write(f"{os.getpid()}\n{_HOST}\n{self.store.port}\n{rank}\n{self.size}\n{text}\n".encode())
            process.stdin.close()
        self._processes.append(process)
        self._descriptors[os.pidfd_open(process.pid)] = rank

    def _wait_for_end(self, timeout_ms: int) -> int | None:
        """The first rank that has ended, or None after the time."""
        poller = select.poll()
        for descriptor in self._descriptors:
            poller.register(descriptor, select.POLLIN)
        ended = poller.poll(timeout_ms)
        return self._descriptors[ended[0][0]] if ended else None

    def _obituary(self, rank: int) -> str:
        code = self._processes[rank - 1].wait()
        return f"tensor parallel rank {rank} " + (f"was killed by signal {-code}" if code < 0 else f"exited ({code})")
