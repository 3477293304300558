"""A spoken reply that ends at the speech boundary says what it would have said, and draws fewer tokens."""

from copy import copy
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from antiphon.core.handoff import Handoff
from antiphon.core.sampling import SamplingParams
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.thinker_engine import ThinkerEngine
from antiphon.offline.gate.subject import Subject, run_dry, settings_with, stopped_clock
from antiphon.offline.gate.text_checks import rows_apart
from antiphon.offline.gate.verdict import Check
from antiphon.pipeline.messages import SpokenPiece, StageOutput, TextTokens, ThinkerRequest
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.stages.media import MediaEncoder
from antiphon.pipeline.stages.thinker import ThinkerStage
from antiphon.prompt.tokenizer import Tokenizer

_MAX_TOKENS = 40
_PROMPT_LENS = (12, 33, 58)


@dataclass
class Reply:
    """What the Thinker stage said of one reply."""

    ids: list[int] = field(default_factory=list)
    spoken: list[int] = field(default_factory=list)
    rows: list[Tensor] = field(default_factory=list)


def check_early_stop(subject: Subject, counters: Counters) -> list[Check]:
    """Replies of both hand-offs, with a boundary that each model really draws: a random one never speaks its own."""
    num_other = num_saved = num_spoken = 0
    apart = 0.0
    for handoff in Handoff:
        for length in _PROMPT_LENS:
            whole = _reply(subject.model, subject.model.tokenizer, length, handoff, Counters(), early_stop=False)
            tokenizer = _with_boundary(subject.model.tokenizer, whole.ids)
            plain = _reply(subject.model, tokenizer, length, handoff, Counters(), early_stop=False)
            fast = _reply(subject.candidate, tokenizer, length, handoff, counters, early_stop=True)
            num_other += plain.spoken != fast.spoken or plain.ids[: len(fast.ids)] != fast.ids
            num_saved += len(plain.ids) - len(fast.ids)
            num_spoken += len(fast.spoken)
            apart = max(apart, rows_apart(plain.rows, fast.rows))
    return [
        Check(name="replies with other words", value=num_other, limit=0.0),
        Check(name="difference of a row", value=apart, limit=0.0),
        Check(name="tokens spoken", value=num_spoken, limit=6, is_at_least=True),
        Check(name="tokens saved", value=num_saved, limit=1, is_at_least=True),
    ]


def _with_boundary(tokenizer: Tokenizer, ids: list[int]) -> Tokenizer:
    """The tokenizer, but an id that is first drawn in the middle of *ids* ends the speech."""
    middle = len(ids) // 2
    boundary = next((token for index, token in enumerate(ids) if index >= middle and token not in ids[:index]), ids[0])
    changed = copy(tokenizer)
    changed.special = replace(tokenizer.special, tts_eos=boundary)
    return changed


def _reply(
    model: OmniModel, tokenizer: Tokenizer, prompt_len: int, handoff: Handoff, counters: Counters, *, early_stop: bool
) -> Reply:
    settings = settings_with(model, early_stop=early_stop).thinker
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
    stage = ThinkerStage(
        engine,
        MediaEncoder(model.thinker, stream),
        tokenizer,
        stream=stream,
        hidden_size=model.config.llm.hidden_size,
        early_stop=settings.early_stop,
        counters=counters,
    )
    # Chance keeps a random model from saying one word for ever; what is drawn follows from the seed alone.
    stage.admit(
        ThinkerRequest(
            request_id="gate",
            epoch=0,
            ids=tuple(torch.randint(200, (prompt_len,), generator=torch.Generator().manual_seed(prompt_len)).tolist()),
            images=(),
            audio=None,
            sampling=SamplingParams(temperature=1.0, max_tokens=_MAX_TOKENS),
            seed=prompt_len,
            handoff=handoff,
            deadline_s=0.0,
        )
    )
    reply = Reply()

    def collect() -> bool:
        for output in stage.collect():
            _note(reply, output)
        return stage.is_busy

    run_dry(model.device, stage.launch, collect)
    return reply


def _note(reply: Reply, output: StageOutput) -> None:
    if isinstance(output, TextTokens):
        reply.ids += output.ids
    elif isinstance(output, SpokenPiece):
        reply.spoken += output.ids
        reply.rows += output.rows.float().unbind(0)
