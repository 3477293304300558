"""The error codes of the Realtime protocol (specification section 8) and the exception that carries one."""

from typing import Literal

from antiphon.core.errors import AntiphonError

ErrorType = Literal["invalid_request_error", "server_error", "rate_limit_error"]

SERVER_ERRORS = frozenset(
    {
        "internal_error",
        "runtime_append_failed",
        "runtime_append_task_failed",
        "runtime_signal_failed",
        "runtime_abort_failed",
        "runtime_data_plane_stream_failed",
        "runtime_data_plane_text_without_audio",
        "runtime_touch_failed",
        "engine_error",
        "engine_dead",
        "engine_backpressure",
        "commit_aborted",
        "server_vad_unavailable",
        "talker_context_exceeded",
        "timeout",
        "realtime_input_failed",
    }
)
RATE_LIMIT_ERRORS = frozenset({"resource_exhausted", "input_backpressure", "output_backpressure"})
RETRYABLE = RATE_LIMIT_ERRORS | {"timeout", "runtime_resume_failed"}


def error_type(code: str) -> ErrorType:
    """What dashboards group by. An unknown code is the client's fault, as in the reference."""
    if code in SERVER_ERRORS:
        return "server_error"
    return "rate_limit_error" if code in RATE_LIMIT_ERRORS else "invalid_request_error"


class RealtimeError(AntiphonError):
    """One refused event, or one failed response. The session goes on unless whoever raises it also ends it.

    Attributes:
        code: stable word of the protocol.
        param: path of the field that is wrong.
        event_id: the client's id of the event that is answered.
    """

    def __init__(self, code: str, message: str, *, param: str | None = None, event_id: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param
        self.event_id = event_id
