"""Python clients of a Realtime server; they know only the wire. Names are those of vLLM-Omni's client module."""

from antiphon.client.address import build_realtime_url
from antiphon.client.collector import EventCollector, acknowledge_collected_playback
from antiphon.client.config import AudioFormat, ReconnectPolicy, SessionConfig, create_duplex_session_config
from antiphon.client.duplex import DuplexClient
from antiphon.client.errors import (
    DuplexClientError,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionClosedError,
)
from antiphon.client.events import (
    AudioDelta,
    ConnectionResumed,
    DuplexEvent,
    ErrorEvent,
    ListenDecision,
    ResponseCreated,
    ResponseDone,
    SessionClosed,
    SessionCreated,
    SessionExpired,
    SessionResumed,
    SessionUpdated,
    SpeakDecision,
    TextDelta,
    TranscriptDelta,
)
from antiphon.client.inline import InlineDuplexClient
from antiphon.client.media import (
    audio_data_url,
    image_data_url,
    read_pcm16_wav,
    reference_audio_data_url,
    write_pcm16_wav,
)
from antiphon.client.pcm_stream import duplex_unit_boundary_ms, has_residual_model_unit
from antiphon.client.response import ResponseHandle
from antiphon.client.summaries import (
    chunk_period_ms,
    distribution_summary,
    metric_mean,
    summarize_session_request_metrics,
    summarize_stage_metrics,
    wait_for_condition,
)

__all__ = [
    "AudioDelta",
    "AudioFormat",
    "ConnectionResumed",
    "DuplexClient",
    "DuplexClientError",
    "DuplexConnectionError",
    "DuplexEvent",
    "DuplexProtocolError",
    "DuplexSessionClosedError",
    "ErrorEvent",
    "EventCollector",
    "InlineDuplexClient",
    "ListenDecision",
    "ReconnectPolicy",
    "ResponseCreated",
    "ResponseDone",
    "ResponseHandle",
    "SessionClosed",
    "SessionConfig",
    "SessionCreated",
    "SessionExpired",
    "SessionResumed",
    "SessionUpdated",
    "SpeakDecision",
    "TextDelta",
    "TranscriptDelta",
    "acknowledge_collected_playback",
    "audio_data_url",
    "build_realtime_url",
    "chunk_period_ms",
    "create_duplex_session_config",
    "distribution_summary",
    "duplex_unit_boundary_ms",
    "has_residual_model_unit",
    "image_data_url",
    "metric_mean",
    "read_pcm16_wav",
    "reference_audio_data_url",
    "summarize_session_request_metrics",
    "summarize_stage_metrics",
    "wait_for_condition",
    "write_pcm16_wav",
]
