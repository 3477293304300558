"""Text drawn by the Thinker engine on fixed prompts: one sequence at a time with stop ids, then a full batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_engine import ThinkerEngine
from antiphon.engine.thinker_messages import ThinkerJob, ThinkerOutput, ThinkerSampling
from antiphon.offline.gate.subject import NUM_ROWS, run_dry, say_nothing, stopped_clock
from antiphon.pipeline.omni_model import OmniModel

MAX_TOKENS = 24
_SAMPLED = ThinkerSampling(max_tokens=MAX_TOKENS, temperature=0.8, top_p=0.9, top_k=50, repetition_penalty=1.05)
SAMPLINGS = (
    ThinkerSampling(max_tokens=MAX_TOKENS),
    ThinkerSampling(max_tokens=MAX_TOKENS, repetition_penalty=1.2),
    replace(_SAMPLED, seed=7),
    replace(_SAMPLED, seed=8, temperature=1.2, top_k=0, min_p=0.01),
    replace(_SAMPLED, seed=2**40 + 9, frequency_penalty=0.5, presence_penalty=0.2),
)


@dataclass
class Text:
    """What one sequence drew, and the rows it handed on."""

    ids: list[int] = field(default_factory=list)
    rows: list[Tensor] = field(default_factory=list)  # of ids[i], [hidden]
    reason: str = ""


def draw_texts(model: OmniModel, settings: ThinkerSettings, counters: Counters) -> dict[str, Text]:
    """Every case by name.

    A batch keeps its size to the end: products of other sizes add up in another order, which is no fault of a switch.
    """
    stream = DeviceStream(model.device)
    engine = ThinkerEngine(
        model.thinker,
        settings,
        device=model.device,
        dtype=model.thinker.llm.lm_head.weight.dtype,
        counters=counters,
        stream=stream,
        clock=stopped_clock,
    )
    engine.warm_up(say_nothing)
    found: dict[str, Text] = {}
    vocab_size = model.config.vocab_size
    every_16th = tuple(range(5, vocab_size, 16))
    for index, sampling in enumerate(SAMPLINGS):
        with_stops = replace(sampling, stop_token_ids=every_16th[: 2 + 140 * (index % 2)])
        _run(engine, model, {f"alone {index}": with_stops}, 9 + 30 * index, found)
    _run(engine, model, {f"batch {row}": SAMPLINGS[row] for row in range(NUM_ROWS)}, 21, found)
    return found


def greedy_texts(texts: dict[str, Text]) -> dict[str, Text]:
    """Those without chance, whose rows are compared where only rounding may differ."""
    return {name: text for name, text in texts.items() if SAMPLINGS[int(name.split()[1])].temperature == 0}


def _run(
    engine: ThinkerEngine, model: OmniModel, jobs: dict[str, ThinkerSampling], prompt_len: int, found: dict[str, Text]
) -> None:
    for name, sampling in jobs.items():
        found[name] = Text()
        generator = torch.Generator().manual_seed(prompt_len + len(found))
        ids = torch.randint(model.config.vocab_size, (prompt_len,), generator=generator)
        engine.admit(
            ThinkerJob(seq_id=name, ids=tuple(ids.tolist()), sampling=sampling, wants_hidden=True, deadline_s=0.0)
        )

    def collect() -> bool:
        _note(engine.collect(), found)
        return engine.has_work

    run_dry(model.device, engine.launch, collect)


def _note(outputs: Sequence[ThinkerOutput], found: dict[str, Text]) -> None:
    for output in outputs:
        text = found[output.seq_id]
        text.ids += output.new_ids
        if output.hidden is not None:
            text.rows += output.hidden.float().unbind(0)
        if output.finish_reason is not None:
            text.reason = f"{output.finish_reason.value} {output.stop_id}"
