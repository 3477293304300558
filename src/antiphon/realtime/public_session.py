"""The `session` object that clients are shown (specification section 5)."""

from dataclasses import dataclass

from antiphon.realtime.limits import UNIT_MS
from antiphon.realtime.playback import Playback
from antiphon.realtime.settings import SessionSettings
from antiphon.wire.realtime.formats import AudioFormat, Encoding
from antiphon.wire.realtime.json_frame import JsonObject

_TRUE = (
    "supports_session_adapter",
    "supports_model_native_turn_policy",
    "supports_external_turn_signal",
    "supports_client_commit",
    "supports_barge_in",
    "supports_playback_ack",
    "supports_input_append",
    "supports_model_internal_state",
    "supports_stage_resumption",
    "supports_core_resumable_request",
    "supports_stage_connector_handoff",
    "supports_independent_io_streams",
    "supports_realtime_endpoint",
    "supports_session_lease",
    "supports_audio_truncate",
    "requires_model_runner_kv",
    "requires_native_stage_role",
)
_FALSE = (
    "supports_replace_latest_chunk",
    "supports_reencode_context",
    "supports_rollback_to_checkpoint",
    "supports_turn_commit_only",
    "supports_kv_lease",
    "supports_core_kv_lease",
    "supports_scheduler_native_append",
    "supports_concurrent_turn_requests",
    "supports_image_input",
    "supports_text_only_turn",
)
_WIRE_TYPES = {
    Encoding.PCM16: "audio/pcm",
    Encoding.FLOAT32: "audio/pcm_f32le",
    Encoding.ULAW: "audio/pcmu",
    Encoding.ALAW: "audio/pcma",
    Encoding.WAV: "audio/wav",
}


@dataclass(frozen=True, kw_only=True)
class SessionFacts:
    """What of a session's state is shown beside its settings."""

    id: str
    state: str
    turn_state: str
    epoch: int
    turn_id: int
    active_response_id: str | None
    playback: Playback | None
    can_resume: bool
    max_sessions: int
    expires_at: int | None = None  # wall clock, seconds


def public_session(settings: SessionSettings, facts: SessionFacts) -> JsonObject:
    """Everything but secrets: a reference voice is shown by its digest, `extra_body` not at all."""
    echo = dict(settings.echo)
    audio = _audio(settings)
    asked = echo.pop("audio", None)
    if isinstance(asked, dict):
        for direction in ("input", "output"):
            part = asked.get(direction)
            if isinstance(part, dict):
                audio[direction] = {**_inner(audio, direction), **part}
    zero: JsonObject = dict.fromkeys(("generated_ms", "sent_ms", "played_ms", "committed_ms"), 0.0)
    vad = settings.turn_detection
    computed: JsonObject = {
        "object": "realtime.session",
        "type": "realtime",
        "id": facts.id,
        "state": facts.state,
        "turn_state": facts.turn_state,
        "epoch": facts.epoch,
        "turn_id": facts.turn_id,
        "active_request_id": None if facts.active_response_id is None else f"{facts.id}-{facts.epoch}",
        "active_response_id": facts.active_response_id,
        "active_response_turn_id": None if facts.active_response_id is None else facts.turn_id,
        "model": settings.model,
        "modalities": list(settings.modalities),
        "output_modalities": list(settings.modalities),
        "instructions": settings.instructions,
        "voice": settings.voice,
        "ref_audio": None if settings.reference is None else f"sha256:{settings.reference.digest}",
        "response_format": settings.output_format.encoding.value,
        "temperature": settings.temperature,
        "max_tokens": settings.max_unit_tokens,
        "speed": settings.speed,
        "idle_timeout_s": settings.idle_timeout_s,
        "overlap_policy": settings.overlap_policy.value,
        "overlap_short_ack_ms": settings.overlap_short_ack_ms,
        "overlap_barge_in_ms": settings.overlap_barge_in_ms,
        "overlap_silence_rms": settings.overlap_silence_rms,
        "playback_commit_policy": settings.playback_commit_policy,
        "playback": zero if facts.playback is None else facts.playback.cursors(),
        "capabilities": _capabilities(facts),
        "input_audio_format": settings.input_format.encoding.value,
        "sample_rate_hz": settings.input_format.input_rate_hz,
        "output_audio_format": settings.output_format.encoding.value,
        "audio": audio,
        "turn_detection": None if vad is None else _detection(settings),
        "input_audio_transcription": None,
        "tracing": None,
    }
    if facts.expires_at is not None:
        computed["expires_at"] = facts.expires_at
    return {**computed, **{key: value for key, value in echo.items() if computed.get(key) is None}}


def _inner(audio: JsonObject, direction: str) -> JsonObject:
    value = audio[direction]
    assert isinstance(value, dict)
    return value


def _audio(settings: SessionSettings) -> JsonObject:
    into, out = settings.input_format, settings.output_format
    return {
        "input": {"format": _format(into, into.input_rate_hz), "sample_rate_hz": into.input_rate_hz},
        "output": {"format": _format(out, out.output_rate_hz)},
    }


def _format(form: AudioFormat, rate_hz: int) -> JsonObject:
    return {"type": _WIRE_TYPES[form.encoding], "rate": rate_hz}


def _detection(settings: SessionSettings) -> JsonObject:
    vad = settings.turn_detection
    assert vad is not None
    return {
        "type": "server_vad",
        "threshold": vad.threshold,
        "prefix_padding_ms": vad.prefix_padding_ms,
        "silence_duration_ms": vad.silence_duration_ms,
        "min_speech_duration_ms": vad.min_speech_duration_ms,
        "create_response": vad.create_response,
        "interrupt_response": vad.interrupt_response,
    }


def _capabilities(facts: SessionFacts) -> JsonObject:
    several = facts.max_sessions > 1
    return {
        **dict.fromkeys(_TRUE, True),
        **dict.fromkeys(_FALSE, False),
        "supports_session_resume": facts.can_resume,
        "supports_multi_session": several,
        "supports_multi_session_same_replica": several,
        "required_input_modalities": ["audio"],
        "optional_input_modalities": ["video"],
        "session_admission_mode": "engine_managed",
        "implementation_level": "model_native_duplex",
        "adapter_patterns": ["scheduler_data_plane"],
        "input_modes": ["append_audio_chunk"],
        "signal_sources": ["model_native", "client_event", "server_policy"],
        "stage_handoff_transport": "scheduler_data_plane",
        "chunk_period_ms": UNIT_MS,
        "target_barge_in_latency_ms": None,
    }
