"""Codec ids drawn by the Talker engine on fixed conditions: every mode alone, then a full batch, over many seeds."""

from dataclasses import dataclass

import torch

from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import TalkerSettings
from antiphon.engine.talker_engine import TalkerEngine
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.offline.gate.subject import NUM_ROWS, run_dry, say_nothing, stopped_clock, talker_of
from antiphon.pipeline.omni_model import OmniModel

NUM_CODES = 70  # more than two windows of the longest kind
SEEDS = (1, 2, 2**40 + 3)


@dataclass(frozen=True)
class Speech:
    """One job and its conditions, each so many tokens long."""

    name: str
    mode: TalkerMode
    seed: int
    condition_lens: tuple[int, ...]
    has_fixed_length: bool = False
    is_greedy: bool = False


ALONE = (
    *(Speech(f"span {seed}", TalkerMode.SPAN, seed, (17,)) for seed in SEEDS),
    *(Speech(f"stream {seed}", TalkerMode.STREAM, seed, (10, 10, 4)) for seed in SEEDS[:2]),
    *(Speech(f"unit {seed}", TalkerMode.UNIT, seed, (6, 3)) for seed in SEEDS[:2]),
    Speech("greedy", TalkerMode.SPAN, 0, (12,), is_greedy=True),
)
BATCH = tuple(Speech(f"batch {row}", TalkerMode.SPAN, row, (12,), has_fixed_length=True) for row in range(NUM_ROWS))
GREEDY = tuple(
    Speech(f"greedy {length}", TalkerMode.SPAN, 0, (length,), has_fixed_length=True, is_greedy=True)
    for length in (3, 8, 13, 21, 34, 55)
)


EVERY = (*((speech,) for speech in ALONE), BATCH)


@dataclass
class Codes:
    """What one job drew."""

    ids: list[int]
    reason: str = ""


def draw_codes(
    model: OmniModel,
    settings: TalkerSettings,
    counters: Counters,
    groups: tuple[tuple[Speech, ...], ...] = EVERY,
) -> dict[str, Codes]:
    """Every speech by name; those of a group run together."""
    talker = talker_of(model)
    engine = TalkerEngine(
        talker,
        settings,
        device=model.device,
        dtype=talker.emb_text.weight.dtype,
        counters=counters,
        stream=DeviceStream(model.device),
        clock=stopped_clock,
    )
    engine.warm_up(say_nothing)
    found: dict[str, Codes] = {}

    def collect() -> bool:
        for output in engine.collect():
            codes = found[output.seq_id]
            codes.ids += output.codes
            codes.reason = output.finish_reason or codes.reason
        return not engine.is_idle

    for group in groups:
        for speech in group:
            found[speech.name] = Codes([])
            _start(engine, model, speech)
        run_dry(model.device, engine.launch, collect)
    return found


def _start(engine: TalkerEngine, model: OmniModel, speech: Speech) -> None:
    config = talker_of(model).config
    engine.admit(
        TalkerJob(
            seq_id=speech.name,
            epoch=0,
            sampling=TalkerSampling(),
            seed=speech.seed,
            mode=speech.mode,
            min_codes=NUM_CODES if speech.has_fixed_length else 0,
            max_codes=NUM_CODES,
            is_greedy=speech.is_greedy,
        )
    )
    for index, length in enumerate(speech.condition_lens):
        is_last = index == len(speech.condition_lens) - 1
        generator = torch.Generator().manual_seed(1000 * length + index)
        dtype = talker_of(model).emb_text.weight.dtype
        hidden = torch.randn(length, config.llm_hidden_size, generator=generator)
        engine.extend(
            speech.name,
            TalkerCondition(
                ids=tuple(torch.randint(config.num_text_ids - 400, (length,), generator=generator).tolist()),
                hidden=hidden.to(model.device, dtype),
                has_text_eos=is_last and speech.mode is not TalkerMode.UNIT,
                is_last=is_last,
            ),
        )
