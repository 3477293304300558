"""The entry of a worker process (`python -m antiphon.pipeline.worker`): how it builds its stages when told which."""

from time import monotonic

import torch

from antiphon.core.errors import ConfigError
from antiphon.engine.counters import Counters
from antiphon.layers.parallel import ALONE
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.device_loop import TALKER, THINKER
from antiphon.pipeline.engine_build import build_stages, memory_facts
from antiphon.pipeline.engine_settings import engine_settings
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.processes.control import SESSION, BuildStages
from antiphon.pipeline.processes.ranks import Ranks
from antiphon.pipeline.processes.worker_process import BuiltStages, run_worker
from antiphon.pipeline.stage import Report

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_REPORT_BYTES = 2**30  # one line for each so many bytes loaded


def load_model(order: BuildStages, report: Report) -> OmniModel:
    """The parts of the model that *order* needs, on its device. Raises AntiphonError: the checkpoint cannot be used."""
    spec = order.model
    if spec.load_format not in ("auto", "dummy"):
        raise ConfigError(f"load_format is {spec.load_format!r}; known: auto, dummy")
    return build_omni_model(
        spec.source,
        device=torch.device(order.device),
        dtype=None if spec.dtype is None else _DTYPES[spec.dtype],
        load_format="dummy" if spec.load_format == "dummy" else "auto",
        with_speech=spec.with_speech,
        only=order.stages,
        progress=_Loading(report),
    )


def build_worker_stages(order: BuildStages, report: Report) -> BuiltStages:
    """Raises AntiphonError: checkpoint or configuration cannot be used, or a further rank has failed."""
    spec = order.model
    ranks = Ranks(order) if order.peers else None
    model = load_model(order, report)
    facts = memory_facts(model, thinker_ranks=1 + len(order.peers))
    settings = engine_settings(spec.deploy, model.config, facts, names=order.stages)
    group = ALONE if ranks is None else ranks.join(settings.thinker.kv_cache_blocks)
    counters = Counters()
    stages = build_stages(
        order.stages,
        model,
        settings,
        counters=counters,
        clock=monotonic,
        default_voice=spec.default_voice,
        is_chunked=spec.deploy.stages[1].async_chunk,
        thinker_group=group,
    )
    positions = {THINKER: settings.thinker.max_model_len, TALKER: settings.talker.max_positions}
    bounded = {name: most for name, most in positions.items() if name in order.stages}
    if THINKER in order.stages:
        bounded[SESSION] = settings.thinker.session_positions
    return BuiltStages(stages, counters, bounded, ranks)


class _Loading:
    """Turns loaded bytes into a few lines."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._next = 0

    def __call__(self, done: int, total: int) -> None:
        if done >= self._next or done == total:
            self._next = done + _REPORT_BYTES
            self._report(f"loading {done / 2**30:.1f} of {total / 2**30:.1f} GiB")


if __name__ == "__main__":
    run_worker(build_worker_stages)
