"""The entry of a further rank of a tensor-parallel Thinker (`python -m antiphon.pipeline.rank`), started by its worker.

Six lines of standard input say who started it and what it holds; then it carries out what rank 0 launches.
"""

import base64
import os
import signal
import sys
from dataclasses import replace

import torch
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

from antiphon.core.errors import AntiphonError
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.thinker_follower import ThinkerFollower
from antiphon.layers.parallel import join_group
from antiphon.pipeline.device_loop import THINKER
from antiphon.pipeline.engine_build import memory_facts
from antiphon.pipeline.engine_settings import engine_settings
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.processes.control import BuildStages, front_encoding
from antiphon.pipeline.processes.parent_watch import die_with_parent
from antiphon.pipeline.processes.ranks import KV_BLOCKS, failed_key, ready_key
from antiphon.pipeline.worker import load_model


def serve_rank(order: BuildStages, model: OmniModel, store: Store, *, rank: int, size: int) -> None:
    """Join the group with the loaded *model* and follow rank 0 until it closes."""
    device = torch.device(order.device)
    settings = engine_settings(
        order.model.deploy, model.config, memory_facts(model, thinker_ranks=size), names=order.stages
    ).thinker
    settings = replace(settings, kv_cache_blocks=int(store.get(KV_BLOCKS)))
    group = join_group(store, rank=rank, size=size, device=device)
    follower = ThinkerFollower(
        model.thinker,
        settings,
        device=device,
        dtype=model.thinker.llm.lm_head.weight.dtype,
        counters=Counters(),
        stream=DeviceStream(device),
        group=group,
    )
    follower.warm_up(lambda _: None)
    follower.serve()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # rank 0 decides
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent, host, port, rank, size, text = (sys.stdin.readline().strip() for _ in range(6))
    die_with_parent(int(parent))
    order = front_encoding().decode(base64.b64decode(text), ())
    assert isinstance(order, BuildStages)
    store = TCPStore(host, int(port), int(size), is_master=False)
    try:
        model = load_model(order, lambda _: None)
    except AntiphonError as error:
        store.set(failed_key(int(rank)), str(error))
        os._exit(1)
    store.set(ready_key(int(rank)), "")
    serve_rank(replace(order, stages=(THINKER,)), model, store, rank=int(rank), size=int(size))
    os._exit(0)  # as a worker: not beside threads of a process group


if __name__ == "__main__":
    main()
