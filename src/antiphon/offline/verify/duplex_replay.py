"""Runs one recorded duplex session through our own and notes everything the recording noted."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from torch import Tensor

from antiphon.engine.context_window import Unit, WindowConfig, WindowMode
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.engine.noise import Argmax, InverseCdf, NoiseSource
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.models.thinker.thinker import Thinker
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import audio_signal, image_pattern
from antiphon.offline.verify.recorded_voice import recorded_vocoder
from antiphon.pipeline.eager.duplex import DuplexSession
from antiphon.pipeline.eager.duplex_input import UnitInput
from antiphon.pipeline.eager.duplex_options import BASE_RULES, UNIFIED_RULES, DuplexOptions
from antiphon.pipeline.eager.duplex_results import PrefillResult, UnitResult
from antiphon.pipeline.eager.thinker import ThinkerSequence

STATIC_BIAS = ("08_duplex/static_bias.safetensors", "static_bias")
_RULES = {"08_duplex": BASE_RULES, "08_duplex_unified": UNIFIED_RULES}

# The recording's argument names → ours, by the part of the options they belong to.
_OPTION_NAMES = {
    "force_listen_count": "force_listen_count",
    "max_new_speak_tokens_per_chunk": "max_tokens",
    "context_previous_marker": "previous_marker",
}
_WINDOW_NAMES = {
    "sliding_window_mode": "mode",
    "basic_window_high_tokens": "high_tokens",
    "basic_window_low_tokens": "low_tokens",
    "context_max_units": "max_units",
    "context_previous_max_tokens": "max_previous_ids",
}
_SAMPLING_NAMES = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "listen_prob_scale": "listen_prob_scale",
    "listen_top_k": "listen_top_k",
    "text_repetition_penalty": "repetition_penalty",
    "text_repetition_window_size": "penalty_window",
    "length_penalty": "length_penalty",
}
_SESSION_KEYS = (
    *("max_slice_nums", "batch_vision_feed", "generate_audio", "decode_mode", "prepare_kwargs"),
    *("generate_kwargs_by_unit", "typed_text_by_unit", "uniforms"),
)


class RecordingSequence(ThinkerSequence):
    """A Thinker sequence that remembers what each forward was fed and gave: hidden rows [n, hidden] per forward."""

    def __init__(self, thinker: Thinker) -> None:
        super().__init__(thinker)
        self.fed: list[Tensor] = []

    def feed(self, embeds: Tensor) -> Tensor:
        hidden = super().feed(embeds)
        self.fed.append(hidden)
        return hidden


@dataclass(frozen=True)
class ScheduledBias:
    """The recorded steering of random weights: a constant bias, and amounts for single ids at (unit, step)."""

    static: Tensor  # [vocab]
    schedule: Mapping[tuple[int, int], Mapping[int, float]]

    def __call__(self, logits: Tensor, *, unit: int, step: int) -> Tensor:
        logits = logits + self.static.to(logits)
        for token_id, amount in self.schedule.get((unit, step), {}).items():
            logits[token_id] += amount
        return logits


@dataclass(frozen=True, kw_only=True)
class UnitTrace:
    """One unit: what was fed (hidden rows by forward), what came out, and the session's state after it."""

    prefill: PrefillResult
    result: UnitResult
    is_forced: bool
    prefill_fed: list[Tensor]
    generate_fed: list[Tensor]  # up to `</unit>`, without what a window computed anew
    num_fed_before_end: int
    len_after_prefill: int
    len_before_end: int
    cache_len: int
    pending_logits: Tensor | None
    pending_hidden: Tensor | None
    keys: Tensor  # of layer 0, [H_kv, T, D], after the window
    units: tuple[Unit, ...]
    content_ids: tuple[int, ...]
    previous_ids: tuple[int, ...]
    num_preserved: int
    num_cuts: int
    num_dropped_tokens: int
    num_media_units: int
    num_waiting_samples: int
    talker_position: int
    is_turn_open: bool
    waiting_codes: list[int] = field(default_factory=list)
    num_draws: int | None = None  # counted only by the session that draws


@dataclass
class SessionTrace:
    """One session. `unknown` lists recorded arguments this version cannot honour."""

    options: DuplexOptions
    instructions: str
    has_reference: bool
    talker_sampling: TalkerSampling = field(default_factory=TalkerSampling)
    prepare_fed: list[Tensor] = field(default_factory=list)
    prepare_keys: Tensor | None = None
    num_preserved: int = 0
    units: list[UnitTrace] = field(default_factory=list)
    probe_hidden: Tensor | None = None
    probe_logits: Tensor | None = None
    unknown: list[str] = field(default_factory=list)


def replay_session(context: VerifyContext, file: str) -> SessionTrace:
    """The session of *file* (`FOLDER/NAME.json` or `.safetensors`), run once however many files ask for it."""
    path = PurePosixPath(file)
    return context.once(str(path.with_suffix("")), lambda: _run(context, path.parent.name, path.stem))


def uniforms_file(folder: str, arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """File and tensor of a session's uniform numbers; None for a session that draws nothing."""
    if "uniforms" not in arguments:
        return None
    name, _, tensor = arguments["uniforms"].partition(":")
    return f"{folder}/{name}", tensor


def _run(context: VerifyContext, folder: str, name: str) -> SessionTrace:
    golden, model = context.golden, context.model
    recorded = golden.json(f"{folder}/{name}.json")
    arguments = golden.inputs[folder][name]
    trace = _plan(recorded, arguments, folder)
    noise: NoiseSource = Argmax()
    source = uniforms_file(folder, arguments)
    if source is not None:
        noise = InverseCdf(golden.tensor(*source).tolist())
    sequence = RecordingSequence(model.thinker)
    voice = recorded_vocoder(context).stream() if trace.options.generate_audio else None
    session = DuplexSession(
        model,
        trace.options,
        noise=noise,
        voice=voice,
        talker_sampling=trace.talker_sampling,
        sequence=sequence,
        logits_bias=ScheduledBias(golden.tensor(*STATIC_BIAS), _schedule(recorded["schedule"])),
    )
    reference = recorded["ref_audio"]
    session.prepare(
        trace.instructions,
        audio_signal(reference["samples"], reference["seed"]) if trace.has_reference else None,
    )
    trace.prepare_fed, sequence.fed = sequence.fed, []
    trace.prepare_keys, trace.num_preserved = sequence.cache.layer(0)[0], session.window.num_preserved
    seed = golden.inputs["audio"][f"{folder}.user"]["seed"]
    num_samples = max(unit["audio"][1] for unit in recorded["units"])
    signal = audio_signal(num_samples, seed) if num_samples else None
    for index, unit in enumerate(recorded["units"]):
        start, end = unit["audio"]
        unit_input = UnitInput(
            audio=None if signal is None or start == end else signal[start:end],
            frames=tuple(image_pattern(*frame) for frame in unit["frames"] or ()),
            max_slices=arguments["max_slice_nums"],
            text="".join(arguments.get("typed_text_by_unit", {}).get(str(index), ())),
        )
        force_listen = _force_listen(arguments, index, trace)
        unit_trace = _step(session, sequence, unit_input, force_listen)
        trace.units.append(
            replace(
                unit_trace,
                waiting_codes=[] if voice is None else list(voice.buffer.waiting),
                num_draws=noise.num_draws if isinstance(noise, InverseCdf) else None,
            )
        )
    hidden = sequence.feed_ids(recorded["probe_ids"])
    trace.probe_hidden, trace.probe_logits = hidden, model.thinker.logits(hidden[-1])
    return trace


def _step(session: DuplexSession, sequence: RecordingSequence, unit: UnitInput, force_listen: bool) -> UnitTrace:
    sequence.fed = []
    prefill = session.prefill(unit)
    prefill_fed, sequence.fed = sequence.fed, []
    len_after_prefill = len(sequence)
    logits, hidden = session.pending_logits, session.pending_hidden
    result = session.generate(force_listen=force_listen)
    num_fed_before_end, len_before_end = len(sequence.fed), len(sequence)
    if result.end is None:
        result = replace(result, end=session.finish_unit())
    generate_fed, sequence.fed = sequence.fed, []
    if result.end is not None and result.end.cut is not None and result.end.cut.refeed_ids:
        generate_fed = generate_fed[:-1]
    speaker, window = session.speaker, session.window
    return UnitTrace(
        prefill=prefill,
        result=result,
        is_forced=force_listen,
        prefill_fed=prefill_fed,
        generate_fed=generate_fed,
        num_fed_before_end=num_fed_before_end,
        len_after_prefill=len_after_prefill,
        len_before_end=len_before_end,
        cache_len=len(sequence),
        pending_logits=logits,
        pending_hidden=hidden,
        keys=sequence.cache.layer(0)[0],
        units=tuple(window.units),
        content_ids=window.content_ids,
        previous_ids=window.previous_ids,
        num_preserved=window.num_preserved,
        num_cuts=window.num_cuts,
        num_dropped_tokens=window.num_dropped_tokens,
        num_media_units=session.num_media_units,
        num_waiting_samples=session.encoder.num_waiting_samples,
        talker_position=0 if speaker is None else speaker.position,
        is_turn_open=session.is_turn_open,
    )


def _plan(recorded: Mapping[str, Any], arguments: Mapping[str, Any], folder: str) -> SessionTrace:
    """The session's options from what was recorded of its arguments."""
    unknown = [f"argument {key}" for key in arguments if key not in _SESSION_KEYS]
    options: dict[str, Any] = {}
    window: dict[str, Any] = {}
    sampling: dict[str, Any] = {"is_greedy": arguments["decode_mode"] == "greedy"}
    if arguments["decode_mode"] not in ("greedy", "sampling"):
        unknown.append(f"decode_mode {arguments['decode_mode']}")
    for key, value in {
        **recorded["init_kwargs"],
        **arguments["prepare_kwargs"],
        **recorded["generate_kwargs"],
    }.items():
        if key in _OPTION_NAMES:
            options[_OPTION_NAMES[key]] = value
        elif key in _WINDOW_NAMES:
            window[_WINDOW_NAMES[key]] = WindowMode(value) if key == "sliding_window_mode" else value
        elif key in _SAMPLING_NAMES:
            sampling[_SAMPLING_NAMES[key]] = value
        else:
            unknown.append(f"argument {key}")
    # The system text is recorded inside its markup only.
    head, tail = "<|im_start|>system\n", "\n<|audio_start|>"
    has_reference = recorded["prefix"].endswith(tail)
    return SessionTrace(
        options=DuplexOptions(
            rules=_RULES[folder],
            window=WindowConfig(**window),
            sampling=DecisionSampling(**sampling),
            generate_audio=arguments["generate_audio"],
            batches_vision=arguments["batch_vision_feed"],
            **options,
        ),
        instructions=recorded["prefix"].removeprefix(head).removesuffix(tail if has_reference else ""),
        has_reference=has_reference,
        unknown=unknown,
    )


def _schedule(recorded: list[Mapping[str, Any]]) -> dict[tuple[int, int], dict[int, float]]:
    return {
        (entry["unit"], entry["step"]): {int(token_id): amount for token_id, amount in entry["add"].items()}
        for entry in recorded
    }


def _force_listen(arguments: Mapping[str, Any], unit: int, trace: SessionTrace) -> bool:
    by_unit = dict(arguments["generate_kwargs_by_unit"].get(str(unit), {}))
    forced = bool(by_unit.pop("force_listen_override", False))
    trace.unknown += [f"argument {key} of unit {unit}" for key in by_unit]
    return forced
