"""Every bound of a session, with its default (specification sections 6.2, 6.5 and 11). Times are seconds."""

from dataclasses import dataclass, fields

from antiphon.core.errors import ConfigError

UNIT_SAMPLES = 16_000
INPUT_RATE_HZ = 16_000
SPEECH_RATE_HZ = 24_000
UNIT_MS = 1000
MIN_COMMIT_MS = 100

FIRST_MESSAGE_S = 10.0
CONTROL_S = 10.0
PUMP_DRAIN_S = 5.0
WARMUP_HOLD_S = 180.0
REFUSAL_WAIT_S = 1.0
WRITE_TIMEOUT_S = 10.0
QUEUE_UPDATE_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """`duplex_session` of the deployment. Every value is positive; only two of them may be None."""

    max_sessions: int = 4
    idle_ttl_s: float | None = 300.0
    max_session_s: float | None = None
    end_warning_s: float = 30.0  # before the end of a session's time
    disconnect_grace_s: float = 30.0
    resume_replay_ttl_s: float = 60.0
    resume_replay_max_bytes_per_session: int = 8 * 2**20
    max_pending_input_bytes_per_session: int = 16 * 2**20
    max_pending_turns_per_session: int = 4
    max_pending_output_bytes: int = 2 * 2**20
    max_pending_output_events: int = 512
    reserved_output_bytes: int = 64 * 2**10  # for errors and terminal events when the rest is full
    reserved_output_events: int = 8
    max_items: int = 4096  # of one conversation
    max_updates_per_minute: int = 60
    playback_slack_s: float = 5.0  # after the audio's own length, unacknowledged playback counts as heard
    continuation_limit_auto: int = 64  # silence units that keep one response running
    continuation_limit_turn: int = 8  # of them without any output, in turn mode
    queue_wait_s: float = 25.0
    max_queue: int = 64

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in ("idle_ttl_s", "max_session_s"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"duplex_session.{field.name} must be greater than 0, not {value!r}")
